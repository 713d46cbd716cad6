/* Shapes in attributes: block shapes, which are the same on every shard, since specs divide every dimension evenly. */
#include "kernels/given_shape.h"

enum { GIVEN_RANK = 6 };
_Static_assert((int)SPMD_MAX_RANK <= (int)GIVEN_RANK, "the sizes end before the rank");

spmd_status spmd__give_shape(const char *op, int rank, const int64_t *shape, spmd_attr *attr)
{
    SPMD_CHECK(rank >= 0 && rank <= SPMD_MAX_RANK, SPMD_ESHAPE, "%s: rank %d, expected 0..%d", op, rank, SPMD_MAX_RANK);
    attr->i[GIVEN_RANK] = rank;
    for (int d = 0; d < rank; d++) {
        SPMD_CHECK(shape[d] >= 0, SPMD_ESHAPE, "%s: size %lld of dimension %d is negative", op, (long long)shape[d], d);
        attr->i[d] = shape[d];
    }
    return SPMD_OK;
}

void spmd__given_shape(const spmd_attr *attr, spmd_tensor *out)
{
    out->rank = (int)attr->i[GIVEN_RANK];
    for (int d = 0; d < out->rank; d++)
        out->shape[d] = attr->i[d];
}
