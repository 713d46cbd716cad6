/* Private: where a mesh's device threads run. */
#ifndef SPMD_HOST_PIN_H
#define SPMD_HOST_PIN_H

#include "spmd/ctx.h"

int spmd__allowed_cores(void); /* cores in this process's affinity mask */
/* Prepares one set of cores a device. With more devices than cores, without hwloc or with SPMD_PIN=0 nothing is pinned;
 * that is no failure. */
void spmd__pinning_create(spmd_mesh *mesh);
void spmd__pinning_free(spmd_mesh *mesh);
/* Called by the device's own thread; writes device->place. */
void spmd__pin_thread(spmd_device *device);

#endif
