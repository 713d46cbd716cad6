/* Tensors: counting, printing, local views. */
#include "spmd/auto.h"
#include <stdio.h>
#include <string.h>

int64_t spmd_count(const spmd_tensor *tensor)
{
    return spmd__block_count(tensor->rank, tensor->shape);
}

int64_t spmd_view_count(const spmd_view *view)
{
    return spmd__block_count(view->rank, view->shape);
}

void spmd__view_of(const spmd_tensor *tensor, spmd_view *view)
{
    view->data = tensor->memory;
    view->dtype = tensor->dtype;
    view->rank = tensor->rank;
    view->value = tensor->id;
    int64_t stride = 1;
    for (int d = tensor->rank - 1; d >= 0; d--) {
        view->shape[d] = tensor->shape[d];
        view->strides[d] = stride;
        stride *= tensor->shape[d];
    }
}

spmd_status spmd_local(spmd_ctx *ctx, const spmd_tensor *tensor, spmd_view *out)
{
    SPMD_CHECK(tensor && out, SPMD_EINVAL, "spmd_local: tensor and out must not be NULL");
    SPMD_TRY(spmd__check_alive(ctx, "spmd_local", 0, tensor));
    SPMD_CHECK(!ctx->automatic, SPMD_EUNSUPPORTED,
               "spmd_local in automatic mode: how a value is cut is not the function's business; compute with ops, use "
               "a kernel (spmd_custom), or return the value as an output");
    SPMD_CHECK(
        !ctx->program, SPMD_ERECORDING,
        "spmd_local while recording: a program has no values yet, so C code cannot read or branch on them; compute "
        "with ops, use a kernel (spmd_custom), or run without jit");
    SPMD_TRY(spmd__sync(ctx));
    spmd__view_of(tensor, out);
    return SPMD_OK;
}

spmd_status spmd__stale(const spmd_ctx *ctx, const char *who, int k, const spmd_tensor *tensor)
{
    SPMD_CHECK(tensor->id && tensor->launch == ctx->launch, SPMD_ESTALE,
               "%s: tensor %d was not made in this launch; tensors die when the shard function returns", who, k);
    return SPMD_FAIL(SPMD_ESTALE,
                     "%s: the memory of tensor %d was given away by spmd_donate and holds a later value; use that one, "
                     "or do not donate it",
                     who, k);
}

uint32_t spmd__new_slot(spmd_ctx *ctx)
{
    if (ctx->nslots + 1 >= ctx->slot_capacity) {
        uint32_t capacity = ctx->slot_capacity ? 2 * ctx->slot_capacity : 1024;
        uint32_t *table = spmd__scratch(ctx, capacity * sizeof *table);
        if (!table)
            return 0;
        memset(table, 0, capacity * sizeof *table);
        if (ctx->nslots)
            memcpy(table, ctx->valid_from, (ctx->nslots + 1) * sizeof *table);
        ctx->valid_from = table;
        ctx->slot_capacity = capacity;
    }
    return ++ctx->nslots;
}

spmd_tensor *spmd_donate(spmd_tensor *tensor)
{
    tensor->donated = true;
    return tensor;
}

const char *spmd__sizes_text(int rank, const int64_t *shape, char text[128])
{
    size_t used = (size_t)snprintf(text, 128, "[");
    for (int d = 0; d < rank; d++) /* six sizes of 19 digits, and what stands between them */
        used += (size_t)snprintf(text + used, 128 - used, "%s%lld", d ? "," : "", (long long)shape[d]);
    snprintf(text + used, 128 - used, "]");
    return text;
}

const char *spmd__shape_text(const spmd_tensor *t, char text[96])
{
    int used = snprintf(text, 96, "%s[", spmd_dtype_name(t->dtype));
    for (int d = 0; d < t->rank && used < 74; d++) /* one size more fits: 21 letters, and the bracket */
        used += snprintf(text + used, 96 - (size_t)used, "%s%lld", d ? "," : "", (long long)t->shape[d]);
    snprintf(text + used, 96 - (size_t)used, "]");
    return text;
}

/* "f32[8@data,4]": the global shape, and the axes that cut it. */
static void write_global(const spmd_ctx *ctx, const spmd_tensor *tensor, const spmd_layout *cut, char text[256])
{
    int used = snprintf(text, 256, "%s[", spmd_dtype_name(tensor->dtype));
    for (int d = 0; d < tensor->rank && used < 200; d++) {
        used += snprintf(text + used, 256 - (size_t)used, "%s%lld", d ? "," : "", (long long)tensor->shape[d]);
        for (int k = 0; k < cut->n[d] && used < 200; k++)
            used += snprintf(text + used, 256 - (size_t)used, "@%s", ctx->mesh->name[cut->axis[d][k]]);
    }
    snprintf(text + used, 256 - (size_t)used, "]");
}

int spmd_tensor_format(spmd_ctx *ctx, const spmd_tensor *tensor, char *text, size_t size)
{
    char shape[256], axes[128];
    unsigned partial = tensor->partial, vary = tensor->vary & ~partial;
    if (ctx->automatic && tensor->id && tensor->launch == ctx->launch) {
        const spmd_placement *at = spmd__placement(ctx, tensor);
        write_global(ctx, tensor, &at->cut, shape);
        partial = at->partial;
    } else
        spmd__shape_text(tensor, shape);
    int n = snprintf(text, size, "%s", shape);
#define REST(n) ((size_t)(n) < size ? text + (n) : NULL), ((size_t)(n) < size ? size - (size_t)(n) : 0)
    if (vary)
        n += snprintf(REST(n), "{V:%s}", spmd__mask_text(ctx->mesh, vary, axes));
    if (partial)
        n += snprintf(REST(n), "{U:%s}", spmd__mask_text(ctx->mesh, partial, axes));
#undef REST
    return n;
}

void spmd__same_shape(spmd_tensor *out, const spmd_tensor *like)
{
    out->dtype = like->dtype;
    out->rank = like->rank;
    memcpy(out->shape, like->shape, sizeof out->shape);
}

bool spmd__countable(spmd_dtype dtype, int rank, const int64_t *shape)
{
    int64_t bytes = (int64_t)spmd__dtype_size(dtype);
    for (int d = 0; d < rank; d++)
        if (__builtin_mul_overflow(bytes, shape[d], &bytes))
            return false;
    return true;
}

spmd_status spmd__dim(const char *op, int rank, int64_t dim, int *out)
{
    SPMD_CHECK(dim >= -rank && dim < rank, SPMD_ESHAPE, "%s: dimension %lld of a tensor of rank %d: expected %d to %d",
               op, (long long)dim, rank, -rank, rank - 1);
    *out = (int)(dim < 0 ? dim + rank : dim);
    return SPMD_OK;
}

spmd_status spmd__check_float(const char *op, const char *name, const spmd_tensor *t)
{
    char text[96];
    SPMD_CHECK(spmd_dtype_is_float(t->dtype), SPMD_EDTYPE, "%s: %s is %s: expected f32, bf16 or f16; use spmd_cast", op,
               name, spmd__shape_text(t, text));
    return SPMD_OK;
}
