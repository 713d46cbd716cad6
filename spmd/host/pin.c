/* Pinning by hwloc: the allowed cores are distributed over the devices, close cores to one device. */
#include "spmd/host/pin.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

int spmd__allowed_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n > 0 ? n : 1;
}

#if SPMD_HAVE_HWLOC
#include <hwloc.h>

struct spmd_pinning {
    hwloc_topology_t topology;
    hwloc_cpuset_t sets[SPMD_MAX_DEVICES];
};

void spmd__pinning_create(spmd_mesh *mesh)
{
    if (!mesh->pin || mesh->ndevices > mesh->cores)
        return;
    struct spmd_pinning *p = calloc(1, sizeof *p);
    if (!p || hwloc_topology_init(&p->topology) != 0) {
        free(p);
        return;
    }
#if HWLOC_API_VERSION >= 0x00020500
    hwloc_topology_set_flags(p->topology, HWLOC_TOPOLOGY_FLAG_RESTRICT_TO_CPUBINDING); /* obey taskset and cgroups */
#endif
    if (hwloc_topology_load(p->topology) != 0) {
        hwloc_topology_destroy(p->topology);
        free(p);
        return;
    }
    hwloc_obj_t root = hwloc_get_root_obj(p->topology);
    if (hwloc_distrib(p->topology, &root, 1, p->sets, (unsigned)mesh->ndevices, INT_MAX, 0) != 0) {
        hwloc_topology_destroy(p->topology);
        free(p);
        return;
    }
    mesh->pinning = p;
}

void spmd__pinning_free(spmd_mesh *mesh)
{
    if (!mesh->pinning)
        return;
    for (int d = 0; d < mesh->ndevices; d++)
        hwloc_bitmap_free(mesh->pinning->sets[d]);
    hwloc_topology_destroy(mesh->pinning->topology);
    free(mesh->pinning);
    mesh->pinning = NULL;
}

void spmd__pin_thread(spmd_device *device)
{
    struct spmd_pinning *p = device->mesh->pinning;
    if (p && hwloc_set_cpubind(p->topology, p->sets[device->id], HWLOC_CPUBIND_THREAD) == 0) {
        char list[48];
        hwloc_bitmap_list_snprintf(list, sizeof list, p->sets[device->id]);
        snprintf(device->place, sizeof device->place, "cores %s", list);
    }
}

#else

void spmd__pinning_create(spmd_mesh *mesh)
{
    (void)mesh;
}

void spmd__pinning_free(spmd_mesh *mesh)
{
    (void)mesh;
}

void spmd__pin_thread(spmd_device *device)
{
    (void)device;
}

#endif
