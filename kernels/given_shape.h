/* Private. A shape that the caller of an op gave, kept in the call's attributes: sizes in i[0..5], rank in i[6]. i[7]
 * is left to the op. */
#ifndef KERNELS_GIVEN_SHAPE_H
#define KERNELS_GIVEN_SHAPE_H

#include "spmd/op.h"

spmd_status spmd__give_shape(const char *op, int rank, const int64_t *shape, spmd_attr *attr); /* checks; ESHAPE */
void spmd__given_shape(const spmd_attr *attr, spmd_tensor *out);                               /* rank and shape */

#endif
