/* cast: to another dtype, through the working forms of kernels/elements.h. Between floats it is linear, so a partial
 * sum may be widened before it is reduced; into or out of integers it is not. What is linear is said by an op, not by
 * its attributes: hence two of them. */
#include "kernels/elements.h"
#include "kernels/kernels.h"
#include "spmd/linear.h"
#include "spmd/rule.h"

spmd_status spmd__cast_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

static spmd_status cast_shape(spmd_ctx *ctx, spmd_call *call)
{
    const spmd_tensor *x = &call->in[0];
    spmd_tensor *out = &call->out[0];
    (void)ctx;
    int64_t dtype = call->attr.i[0];
    SPMD_CHECK(dtype >= 0 && dtype < SPMD_DTYPE_COUNT, SPMD_EDTYPE, "cast: dtype %lld, expected 0..%d of spmd_dtype",
               (long long)dtype, SPMD_DTYPE_COUNT - 1);
    spmd__same_shape(out, x);
    out->dtype = (spmd_dtype)dtype;
    return SPMD_OK;
}

/* n <= SPMD__TILE elements. */
static void cast_tile(spmd_dtype from_dtype, const void *from, spmd_dtype to_dtype, void *to, int64_t n)
{
    float floats[SPMD__TILE];
    int64_t ints[SPMD__TILE];
    bool to_float = spmd_dtype_is_float(to_dtype);
    if (spmd_dtype_is_float(from_dtype)) {
        spmd__widen(from_dtype, from, n, floats);
        for (int64_t i = 0; i < n && !to_float; i++)
            ints[i] = spmd__saturate(to_dtype, (double)floats[i]);
    } else {
        spmd__widen_int(from_dtype, from, n, ints);
        for (int64_t i = 0; i < n && to_float; i++)
            floats[i] = (float)ints[i];
    }
    if (to_float)
        spmd__narrow(to_dtype, floats, n, to);
    else
        spmd__narrow_int(to_dtype, ints, n, to);
}

static spmd_status cast_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *x = &args->in[0], *y = &args->out[0];
    int64_t count = spmd_view_count(x);
    (void)ctx;
    for (int64_t i = 0; i < count; i += SPMD__TILE)
        cast_tile(x->dtype, spmd__element(x->data, x->dtype, i), y->dtype, spmd__element(y->data, y->dtype, i),
                  count - i < SPMD__TILE ? count - i : SPMD__TILE);
    return SPMD_OK;
}

static spmd_status cast_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                             spmd_tensor *gin)
{
    if (!need[0])
        return SPMD_OK;
    gin[0] = *ct; /* a sum that was kept in f32 goes on unrounded */
    return ct->dtype == call->in[0].dtype ? SPMD_OK : spmd_cast(ctx, ct, call->in[0].dtype, &gin[0]);
}

static const spmd_op cast_op = {
    .name = "cast",
    .shape = cast_shape,
    .grad = cast_grad,
    .host = cast_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__cast_cuda),
    .rule = spmd__label_pointwise,
    .linear = 1,
    .wide_ct = true,
};

static const spmd_op cast_int_op = {
    .name = "cast",
    .shape = cast_shape,
    .host = cast_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__cast_cuda),
    .rule = spmd__label_pointwise,
    .stops_gradient = true,
};

spmd_status spmd_cast(spmd_ctx *ctx, const spmd_tensor *x, spmd_dtype dtype, spmd_tensor *out)
{
    spmd_attr attr = {0};
    attr.i[0] = dtype;
    bool floats = spmd_dtype_is_float(x->dtype) && spmd_dtype_is_float(dtype);
    return spmd__emit(ctx, floats ? &cast_op : &cast_int_op, &attr, x, 1, out, 1);
}

spmd_status spmd__linear_cast(spmd_ctx *ctx, const spmd_tensor *in, spmd_dtype dtype, spmd_tensor *out)
{
    return spmd_cast(ctx, in, dtype, out);
}
