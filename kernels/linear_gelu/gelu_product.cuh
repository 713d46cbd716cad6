/* Private. The product in f32 and then one pass of kernels/bias_gelu/gelu_rows.cuh over it: linear_gelu and
 * residual_gelu. */
#ifndef KERNELS_GELU_PRODUCT_CUH
#define KERNELS_GELU_PRODUCT_CUH

#include "kernels/bias_gelu/gelu_rows.cuh"
#include "kernels/linear/affine.h"

namespace spmd_kernel
{

/* f32: the product lies in y; 16-bit floats: in scratch memory, so that y is rounded once. x: as in gelu_rows. */
inline spmd_status gelu_product(spmd_ctx *ctx, const spmd_kernel_args *args, const void *x, float keep, float mix,
                                const char *name)
{
    const spmd_view *in = args->in, *y = &args->out[0];
    const spmd__gemm_case c = spmd__affine_case(args, SPMD_F32);
    void *z = y->data;
    if (y->dtype != SPMD_F32) {
        const size_t bytes = (size_t)spmd_view_count(y) * sizeof(float);
        z = spmd__scratch(ctx, bytes);
        SPMD_CHECK(z, SPMD_ENOMEM, "%s: no memory for %zu bytes of products: %s", name, bytes, spmd_last_error());
    }
    SPMD_TRY(spmd__gemm_cuda(ctx, &c, in[0].data, in[1].data, NULL, NULL, z));
    return for_float(y->dtype, [&](auto t) {
        typedef typename decltype(t)::type T;
        return make_gelu_rows<float, T>(ctx, z, in[2].data, x, args->out, keep, mix, name);
    });
}

} // namespace spmd_kernel

#endif
