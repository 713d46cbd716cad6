/* random: uniform and normal numbers. Element i of the GLOBAL array takes the Philox block of counter (i, stream) under
 * key `seed`, whichever device makes it: a model starts the same on one device and on eight. */
#include "spmd/clones.h"
#include "kernels/given_shape.h"
#include "kernels/kernels.h"
#include "kernels/random/philox.h"
#include "kernels/random/random_block.h"
#include <math.h>
#include <string.h>

spmd_status spmd__random_uniform_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);
spmd_status spmd__random_normal_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

enum { STREAM = 7 }; /* in attr.i, behind the shape; the layout of the global array lies in attr.table */
_Static_assert(sizeof(spmd_layout) <= sizeof((spmd_attr){0}.table), "a layout fits in an attribute's table");

static spmd_status random_shape(spmd_ctx *ctx, spmd_call *call)
{
    const spmd_tensor *seed = &call->in[0];
    spmd_tensor *out = &call->out[0];
    spmd_layout layout;
    char text[96];
    (void)ctx;
    SPMD_CHECK(seed->rank == 0 && (seed->dtype == SPMD_I32 || seed->dtype == SPMD_I64), SPMD_EDTYPE,
               "%s: seed is %s, i32 or i64 scalar expected", call->op->name, spmd__shape_text(seed, text));
    memcpy(&layout, call->attr.table, sizeof layout);
    out->dtype = SPMD_F32;
    spmd__given_shape(&call->attr, out);
    out->vary |= (uint8_t)spmd__layout_mask(&layout);
    return SPMD_OK;
}

/* The numbers of n elements that follow each other in the global array. */
typedef void fill_fn(uint64_t first, uint64_t stream, uint64_t seed, float *y, int64_t n);

SPMD_CLONES static void fill_uniform(uint64_t first, uint64_t stream, uint64_t seed, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t c[4];
        spmd__random_bits(first + (uint64_t)i, stream, seed, c);
        y[i] = (float)(c[0] >> 8) * 0x1p-24f; /* 24 bits: exact, and below 1 */
    }
}

/* Box-Muller. The radius' uniform lies in (0, 1]: its logarithm is finite. */
static void fill_normal(uint64_t first, uint64_t stream, uint64_t seed, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t c[4];
        spmd__random_bits(first + (uint64_t)i, stream, seed, c);
        float radius = sqrtf(-2.0f * logf(((float)c[0] + 0.5f) * 0x1p-32f));
        y[i] = radius * cosf((float)(c[1] >> 8) * 0x1p-24f * 6.28318531f);
    }
}

spmd__random_block spmd__random_block_of(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    const spmd_view *y = &args->out[0];
    const spmd_mesh *mesh = spmd_ctx_mesh(ctx);
    spmd__random_block block = {.rank = y->rank, .stream = (uint64_t)args->attr->i[STREAM]};
    spmd_layout layout;
    memcpy(&layout, args->attr->table, sizeof layout);
    for (int d = 0; d < y->rank; d++) {
        block.shape[d] = y->shape[d];
        block.global[d] = y->shape[d] * spmd__layout_cuts(mesh, &layout, d);
        block.origin[d] = y->shape[d] * spmd__layout_index(mesh, &layout, spmd_ctx_device(ctx), d);
    }
    return block;
}

/* Rows of the block are consecutive in the global array. */
static spmd_status fill(spmd_ctx *ctx, const spmd_kernel_args *args, fill_fn *numbers)
{
    const spmd_view *seed = &args->in[0], *y = &args->out[0];
    const spmd__random_block block = spmd__random_block_of(ctx, args);
    int64_t count = spmd_view_count(y), width = y->rank ? y->shape[y->rank - 1] : 1;
    uint64_t key = seed->dtype == SPMD_I32 ? (uint64_t)(int64_t) * (const int32_t *)seed->data
                                           : *(const uint64_t *)seed->data;
    for (int64_t at = 0; at < count; at += width)
        numbers((uint64_t)spmd__random_index(&block, at), block.stream, key, (float *)y->data + at, width);
    return SPMD_OK;
}

static spmd_status uniform_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return fill(ctx, args, fill_uniform);
}

static spmd_status normal_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return fill(ctx, args, fill_normal);
}

static const spmd_op uniform_op = {.name = "random_uniform",
                                   .shape = random_shape,
                                   .host = uniform_host,
                                   .cuda = SPMD_CUDA_KERNEL(spmd__random_uniform_cuda)};
static const spmd_op normal_op = {.name = "random_normal",
                                  .shape = random_shape,
                                  .host = normal_host,
                                  .cuda = SPMD_CUDA_KERNEL(spmd__random_normal_cuda)};

static spmd_status emit_random(spmd_ctx *ctx, const spmd_op *op, const spmd_tensor *seed, int64_t stream, int rank,
                               const int64_t *shape, const spmd_spec *spec, spmd_tensor *out)
{
    spmd_attr attr = {0};
    spmd_layout layout = {0};
    SPMD_TRY(spmd__give_shape(op->name, rank, shape, &attr));
    SPMD_TRY(spmd__layout(spec, spmd__ctx_mesh(ctx), rank, &layout));
    if (spmd__is_automatic(ctx)) /* the shape is global: every device makes all, and takes what it needs */
        layout = (spmd_layout){0};
    attr.i[STREAM] = stream;
    memcpy(attr.table, &layout, sizeof layout);
    return spmd__emit(ctx, op, &attr, seed, 1, out, 1);
}

spmd_status spmd_random_uniform(spmd_ctx *ctx, const spmd_tensor *seed, int64_t stream, int rank, const int64_t *shape,
                                spmd_spec spec, spmd_tensor *out)
{
    return emit_random(ctx, &uniform_op, seed, stream, rank, shape, &spec, out);
}

spmd_status spmd_random_normal(spmd_ctx *ctx, const spmd_tensor *seed, int64_t stream, int rank, const int64_t *shape,
                               spmd_spec spec, spmd_tensor *out)
{
    return emit_random(ctx, &normal_op, seed, stream, rank, shape, &spec, out);
}
