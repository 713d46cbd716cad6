/* spmdkit: one C function for one shard, run on every device of a named mesh.
 * The includes stand in the order of the data's path, which is also the order to read them in. */
#ifndef SPMD_SPMDKIT_H
#define SPMD_SPMDKIT_H

#include "spmd/status.h"
#include "spmd/dtype.h"
#include "spmd/mesh.h"
#include "spmd/spec.h"
#include "spmd/tensor.h"
#include "spmd/array.h"
#include "spmd/shard_map.h"
#include "collectives/collectives.h"
#include "kernels/kernels.h"
#include "spmd/custom.h"
#include "spmd/grad.h"
#include "spmd/jit.h"
#include "spmd/auto_map.h"
#include "spmd/profile.h"

#endif
