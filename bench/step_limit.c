/* The products of a step alone. Operands lie where a step has them: an input of its own for every product (so that they
 * come from where the forward pass would have left them), weights and their gradients once. Results that a step goes on
 * with are not chained here, since 128 products in a row would leave the range of floats: forward and backward write
 * one buffer each, which is the most that a cache can help. */
#include "bench/step_limit.h"
#include "bench/bench.h"
#include "kernels/matmul/gemm.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_LAYERS = SPMD_MODEL_MAX_PARAMS };

typedef struct layer {
    int64_t inputs, outputs;
    int uses; /* how often its weight is used */
} layer;

/* One device's operands: offsets into its memory are the same everywhere. */
typedef struct operands {
    char *memory;
    double start, end;
} operands;

struct step_limit {
    spmd_mesh *mesh;
    spmd_dtype dtype;
    int64_t rows;
    layer layers[MOST_LAYERS];
    int nlayers;
    size_t weight[MOST_LAYERS], gradient[MOST_LAYERS], input[MOST_LAYERS]; /* input: of the layer's first use */
    size_t product, cotangent, bytes;
    operands device[SPMD_MAX_DEVICES];
};

static int find_layers(const spmd_model *model, const spmd_model_config *config, layer layers[MOST_LAYERS])
{
    spmd_param_info info[SPMD_MODEL_MAX_PARAMS];
    int n = 0;
    model->describe(config, info);
    for (int k = 0; k < model->params; k++)
        if (info[k].rank == 2)
            layers[n++] = (layer){info[k].shape[0], info[k].shape[1], 1};
    if (model->defaults.repeats)
        layers[1].uses = config->repeats;
    return n;
}

double step_flops(const spmd_model *model, const spmd_model_config *config, int64_t rows)
{
    layer layers[MOST_LAYERS];
    double flops = 0;
    int n = find_layers(model, config, layers);
    for (int k = 0; k < n; k++)
        flops += (k ? 6.0 : 4.0) * layers[k].uses * (double)rows * (double)(layers[k].inputs * layers[k].outputs);
    return flops;
}

static size_t take(size_t *bytes, int64_t count, spmd_dtype dtype)
{
    size_t at = *bytes;
    *bytes += ((size_t)count * spmd_dtype_size(dtype) + 63) / 64 * 64;
    return at;
}

static size_t input_bytes(const step_limit *l, const layer *w)
{
    size_t bytes = 0;
    take(&bytes, l->rows * w->inputs, l->dtype);
    return bytes;
}

static void place(step_limit *l)
{
    int64_t widest = 0;
    for (int k = 0; k < l->nlayers; k++) {
        const layer *w = &l->layers[k];
        l->weight[k] = take(&l->bytes, w->inputs * w->outputs, l->dtype);
        l->gradient[k] = take(&l->bytes, w->inputs * w->outputs, SPMD_F32);
        l->input[k] = l->bytes;
        l->bytes += input_bytes(l, w) * (size_t)w->uses;
        widest = w->inputs > widest ? w->inputs : widest;
        widest = w->outputs > widest ? w->outputs : widest;
    }
    l->product = take(&l->bytes, l->rows * widest, SPMD_F32);
    l->cotangent = take(&l->bytes, l->rows * widest, l->dtype);
}

static spmd_status run_layer(spmd_ctx *ctx, const step_limit *l, int k, int use, bool backward)
{
    const layer *w = &l->layers[k];
    char *memory = l->device[spmd_ctx_device(ctx)].memory;
    const void *input = memory + l->input[k] + (size_t)use * input_bytes(l, w), *weight = memory + l->weight[k];
    spmd__gemm_case forward = {
        .dtype = l->dtype, .out_dtype = SPMD_F32, .batch = 1, .m = l->rows, .n = w->outputs, .k = w->inputs};
    if (!backward)
        return spmd__gemm(ctx, &forward, input, weight, NULL, memory + l->product);
    spmd__gemm_case of_input = forward, of_weight = forward;
    of_input.n = w->inputs;
    of_input.k = w->outputs;
    of_input.transpose_b = true;
    of_weight.m = w->inputs;
    of_weight.k = l->rows;
    of_weight.transpose_a = true;
    of_weight.accumulate = use != w->uses - 1; /* the first that is met */
    if (k > 0)
        SPMD_TRY(spmd__gemm(ctx, &of_input, memory + l->cotangent, weight, NULL, memory + l->product));
    return spmd__gemm(ctx, &of_weight, input, memory + l->cotangent, NULL, memory + l->gradient[k]);
}

/* Small numbers; zeros would be multiplied no faster, but denormals slower. Touched by the thread that uses them. */
static spmd_status fill(const step_limit *l, char **memory)
{
    *memory = spmd__alloc(l->mesh, l->bytes);
    if (!*memory)
        return SPMD_ENOMEM;
    static const uint16_t bf16 = 0x3c00; /* 1/128; twice in a row it is an f32 of nearly that */
    for (size_t i = 0; i < l->bytes / sizeof bf16; i++)
        memcpy(*memory + i * sizeof bf16, &bf16, sizeof bf16);
    return SPMD_OK;
}

static spmd_status body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)in, (void)out;
    step_limit *l = user;
    operands *mine = &l->device[spmd_ctx_device(ctx)];
    if (!mine->memory)
        SPMD_TRY(fill(l, &mine->memory));
    mine->start = bench_seconds();
    for (int k = 0; k < l->nlayers; k++)
        for (int use = 0; use < l->layers[k].uses; use++)
            SPMD_TRY(run_layer(ctx, l, k, use, false));
    for (int k = l->nlayers - 1; k >= 0; k--)
        for (int use = l->layers[k].uses - 1; use >= 0; use--)
            SPMD_TRY(run_layer(ctx, l, k, use, true));
    mine->end = bench_seconds();
    return SPMD_OK;
}

spmd_status step_limit_run(step_limit *l, double *seconds)
{
    double start = 0, end = 0;
    const spmd_job job = {.mesh = l->mesh, .fn = body, .user = l};
    SPMD_TRY(spmd_shard_map(&job));
    for (int d = 0; d < spmd_mesh_devices(l->mesh); d++) {
        start = l->device[d].start > start ? l->device[d].start : start;
        end = l->device[d].end > end ? l->device[d].end : end;
    }
    *seconds = end - start;
    return SPMD_OK;
}

spmd_status step_limit_create(spmd_mesh *mesh, const spmd_model *model, const spmd_model_config *config, int64_t rows,
                              step_limit **out)
{
    step_limit *l = calloc(1, sizeof *l);
    SPMD_CHECK(l, SPMD_ENOMEM, "out of memory for the products of a step (%zu bytes)", sizeof *l);
    l->mesh = mesh;
    l->dtype = config->compute;
    l->rows = rows;
    l->nlayers = find_layers(model, config, l->layers);
    place(l);
    *out = l;
    return SPMD_OK;
}

void step_limit_destroy(step_limit *l)
{
    for (int d = 0; l && d < SPMD_MAX_DEVICES; d++)
        spmd__free(l->device[d].memory);
    free(l);
}
