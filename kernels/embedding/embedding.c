/* embedding: rows of a table. The gradient adds rows in the order of the indices, so that its bits never change. */
#include "kernels/elements.h"
#include "kernels/kernels.h"
#include "kernels/workspace.h"
#include "spmd/rule.h"
#include <string.h>

spmd_status spmd__embedding_grad_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);
spmd_status spmd__embedding_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

static spmd_status embedding_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    const spmd_tensor *table = &call->in[0], *indices = &call->in[1];
    char tt[96], it[96];
    spmd__shape_text(table, tt);
    spmd__shape_text(indices, it);
    SPMD_TRY(spmd__check_float("embedding", "table", table));
    SPMD_CHECK(indices->dtype == SPMD_I32, SPMD_EDTYPE, "embedding: indices are %s: expected i32", it);
    SPMD_CHECK(table->rank == 2, SPMD_ESHAPE, "embedding: the table is %s: expected [v, n]", tt);
    SPMD_CHECK(indices->rank < SPMD_MAX_RANK, SPMD_ESHAPE,
               "embedding: indices are %s: expected a rank of at most %d, the result has one more", it,
               SPMD_MAX_RANK - 1);
    spmd__same_shape(&call->out[0], indices);
    call->out[0].dtype = table->dtype;
    call->out[0].shape[call->out[0].rank++] = table->shape[1];
    return SPMD_OK;
}

static spmd_status embedding_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    const spmd_view *table = &args->in[0];
    const int32_t *index = args->in[1].data;
    int64_t v = table->shape[0], count = spmd_view_count(&args->in[1]);
    size_t bytes = (size_t)table->shape[1] * spmd_dtype_size(table->dtype);
    for (int64_t i = 0; i < count; i++) {
        SPMD_CHECK(index[i] >= 0 && index[i] < v, SPMD_EINVAL,
                   "embedding: index %d at position %lld is outside 0..%lld (a table of %lld rows)", (int)index[i],
                   (long long)i, (long long)v - 1, (long long)v);
        memcpy((char *)args->out[0].data + (size_t)i * bytes, (const char *)table->data + (size_t)index[i] * bytes,
               bytes);
    }
    return SPMD_OK;
}

/* Inputs: ct [.., n], indices [..], and the table for its shape. */
static spmd_status embedding_grad_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    spmd__same_shape(&call->out[0], &call->in[2]);
    return SPMD_OK;
}

static spmd_status embedding_grad_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *ct = &args->in[0], *out = &args->out[0];
    const int32_t *index = args->in[1].data;
    int64_t n = out->shape[1], size = spmd_view_count(out), count = spmd_view_count(&args->in[1]);
    bool direct = out->dtype == SPMD_F32;
    float *space = spmd__workspace(ctx, SPMD__SPACE_KERNEL, (size_t)(n + (direct ? 0 : size)) * sizeof *space);
    SPMD_CHECK(space, SPMD_ENOMEM, "embedding_grad: no memory for %lld sums: %s", (long long)size, spmd_last_error());
    float *sums = direct ? out->data : space + n;
    for (int64_t i = 0; i < size; i++)
        sums[i] = 0.0f;
    for (int64_t i = 0; i < count; i++) {
        float *to = sums + index[i] * n;
        const float *from = direct ? (const float *)ct->data + i * n : space;
        if (!direct)
            spmd__widen(ct->dtype, spmd__element(ct->data, ct->dtype, i * n), n, space);
        for (int64_t j = 0; j < n; j++)
            to[j] += from[j];
    }
    if (!direct)
        spmd__narrow(out->dtype, sums, size, out->data);
    return SPMD_OK;
}

/* Indices that are cut make the table's gradient partial. */
static void embedding_grad_rule(const spmd_call *call, spmd_labels *labels)
{
    int8_t column = (int8_t)call->in[1].rank;
    for (int8_t d = 0; d < column; d++)
        labels->in[0][d] = labels->in[1][d] = d;
    labels->in[0][column] = labels->in[2][1] = labels->out[0][1] = column;
}

static const spmd_op embedding_grad_op = {
    .name = "embedding_grad",
    .shape = embedding_grad_shape,
    .host = embedding_grad_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__embedding_grad_cuda),
    .rule = embedding_grad_rule,
    .linear = 1,
    .like = 1 << 2,
};

static spmd_status embedding_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                                  spmd_tensor *gin)
{
    const spmd_tensor in[] = {ct[0], call->in[1], call->in[0]};
    return need[0] ? spmd__emit(ctx, &embedding_grad_op, NULL, in, 3, &gin[0], 1) : SPMD_OK;
}

static void embedding_cost(const spmd_call *call, spmd_cost *cost)
{
    const spmd_tensor *out = &call->out[0]; /* of the table only the rows that are taken */
    cost->flops = 0;
    cost->bytes = 2.0 * (double)spmd__tensor_bytes(out);
}

static void embedding_rule(const spmd_call *call, spmd_labels *labels)
{
    int8_t column = (int8_t)call->in[1].rank;
    for (int8_t d = 0; d < column; d++)
        labels->in[1][d] = labels->out[0][d] = d;
    labels->in[0][1] = labels->out[0][column] = column;
}

static const spmd_op embedding_op = {
    .name = "embedding",
    .shape = embedding_shape,
    .grad = embedding_grad,
    .host = embedding_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__embedding_cuda),
    .cost = embedding_cost,
    .rule = embedding_rule,
    .linear = 1,
};

spmd_status spmd_embedding(spmd_ctx *ctx, const spmd_tensor *table, const spmd_tensor *indices, spmd_tensor *out)
{
    const spmd_tensor in[] = {*table, *indices};
    return spmd__emit(ctx, &embedding_op, NULL, in, 2, out, 1);
}
