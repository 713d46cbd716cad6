/* Which code multiplies: oneDNN, else the portable loop; 16-bit floats widened where there is no direct way. */
#include "kernels/elements.h"
#include "kernels/matmul/gemm.h"
#include "kernels/workspace.h"
#include <string.h>

/* A product over nothing: zeros, or the bias on every row. */
static void gemm_of_nothing(const spmd__gemm_case *c, const void *bias, void *out)
{
    for (int64_t r = 0; !c->accumulate && r < c->batch * c->m; r++) {
        for (int64_t j = 0; j < c->n; j++) {
            float x = 0.0f;
            if (bias)
                spmd__widen(c->dtype, (const char *)bias + (size_t)j * spmd_dtype_size(c->dtype), 1, &x);
            spmd__narrow(c->out_dtype, &x, 1, spmd__element(out, c->out_dtype, r * c->n + j));
        }
    }
}

static spmd_status gemm_f32(spmd_ctx *ctx, const spmd__gemm_case *c, const void *a, const float *b, const void *bias,
                            void *out)
{
    bool done = false;
    if (spmd__panels_pay(c))
        SPMD_TRY(spmd__gemm_panels(ctx, c, a, b, bias, out, &done));
    if (!done)
        SPMD_TRY(spmd__gemm_onednn(ctx, c, a, b, bias, out, &done));
    return done ? SPMD_OK : spmd__gemm_reference(ctx, c, a, b, bias, out);
}

/* The same product with everything in f32; `packed`: B so already, or NULL. */
static spmd_status gemm_wide(spmd_ctx *ctx, const spmd__gemm_case *c, const void *a, const void *b,
                             const spmd__gemm_case *wide, const float *packed, const void *bias, void *out)
{
    int64_t na = c->batch * c->m * c->k, nout = c->batch * c->m * c->n;
    int64_t nb = packed ? 0 : (c->share_b ? 1 : c->batch) * c->k * c->n;
    int64_t nbias = bias ? c->n : 0, nwide = c->out_dtype == SPMD_F32 ? 0 : nout;
    float *wa = spmd__workspace(ctx, SPMD__SPACE_WIDE, (size_t)(na + nb + nbias + nwide) * sizeof(float));
    SPMD_CHECK(wa, SPMD_ENOMEM, "matmul: no memory to widen %s operands to f32: %s", spmd_dtype_name(c->dtype),
               spmd_last_error());
    float *wb = wa + na, *wbias = wb + nb, *wout = nwide ? wbias + nbias : out;
    spmd__widen(c->dtype, a, na, wa);
    if (!packed)
        spmd__widen(c->dtype, b, nb, wb);
    if (c->accumulate && nwide)
        spmd__widen(c->out_dtype, out, nout, wout);
    if (bias)
        spmd__widen(c->dtype, bias, nbias, wbias);
    SPMD_TRY(gemm_f32(ctx, wide, wa, packed ? packed : wb, bias ? wbias : NULL, wout));
    if (nwide)
        spmd__narrow(c->out_dtype, wout, nout, out);
    return SPMD_OK;
}

spmd_status spmd__gemm(spmd_ctx *ctx, const spmd__gemm_case *c, const void *a, const void *b, const void *bias,
                       void *out)
{
    if (c->batch == 0 || c->m == 0 || c->n == 0)
        return SPMD_OK;
    if (c->k == 0) {
        gemm_of_nothing(c, bias, out);
        return SPMD_OK;
    }
    if (c->dtype != SPMD_F32) {
        bool done;
        SPMD_TRY(spmd__gemm_onednn(ctx, c, a, b, bias, out, &done));
        if (done)
            return SPMD_OK;
    }
    spmd__gemm_case wide;
    const float *packed;
    SPMD_TRY(spmd__pack_weight(ctx, c, b, bias, &wide, &packed));
    if (c->dtype != SPMD_F32)
        return gemm_wide(ctx, c, a, b, &wide, packed, bias, out);
    return gemm_f32(ctx, &wide, a, packed ? packed : b, bias, out);
}
