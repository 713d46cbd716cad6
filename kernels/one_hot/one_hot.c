/* one_hot: row i is 1 at indices[i], 0 elsewhere. */
#include "kernels/elements.h"
#include "kernels/kernels.h"
#include "spmd/rule.h"
#include <string.h>

spmd_status spmd__one_hot_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

static spmd_status one_hot_shape(spmd_ctx *ctx, spmd_call *call)
{
    const spmd_tensor *indices = &call->in[0];
    spmd_tensor *out = &call->out[0];
    int64_t classes = call->attr.i[0], dtype = call->attr.i[1];
    char text[96];
    (void)ctx;
    SPMD_CHECK(indices->dtype == SPMD_I32, SPMD_EDTYPE, "one_hot: indices are %s, i32 expected; use spmd_cast",
               spmd__shape_text(indices, text));
    SPMD_CHECK(dtype >= 0 && dtype < SPMD_DTYPE_COUNT, SPMD_EDTYPE, "one_hot: dtype %lld, expected 0..%d of spmd_dtype",
               (long long)dtype, SPMD_DTYPE_COUNT - 1);
    SPMD_CHECK(classes >= 0, SPMD_ESHAPE, "one_hot: classes is %lld, expected at least 0", (long long)classes);
    SPMD_CHECK(indices->rank < SPMD_MAX_RANK, SPMD_ESHAPE, "one_hot: indices are %s, rank at most %d expected",
               spmd__shape_text(indices, text), SPMD_MAX_RANK - 1);
    spmd__same_shape(out, indices);
    out->dtype = (spmd_dtype)dtype;
    out->shape[out->rank++] = classes;
    return SPMD_OK;
}

static spmd_status one_hot_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *out = &args->out[0];
    const int32_t *indices = args->in[0].data;
    int64_t rows = spmd_view_count(&args->in[0]), classes = out->shape[out->rank - 1], one, zero;
    size_t size = spmd_dtype_size(out->dtype);
    (void)ctx;
    spmd__encode(out->dtype, 0, &zero);
    spmd__encode(out->dtype, 1, &one);
    spmd__splat(&zero, size, rows * classes, out->data);
    for (int64_t i = 0; i < rows; i++)
        if (indices[i] >= 0 && indices[i] < classes)
            memcpy(spmd__element(out->data, out->dtype, i * classes + indices[i]), &one, size);
    return SPMD_OK;
}

static void one_hot_rule(const spmd_call *call, spmd_labels *labels)
{
    spmd__label_rows(call, labels, 0);
}

static const spmd_op one_hot_op = {
    .name = "one_hot",
    .shape = one_hot_shape,
    .host = one_hot_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__one_hot_cuda),
    .rule = one_hot_rule,
};

spmd_status spmd_one_hot(spmd_ctx *ctx, const spmd_tensor *indices, int64_t classes, spmd_dtype dtype, spmd_tensor *out)
{
    spmd_attr attr = {0};
    attr.i[0] = classes;
    attr.i[1] = dtype;
    return spmd__emit(ctx, &one_hot_op, &attr, indices, 1, out, 1);
}
