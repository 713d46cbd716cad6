/* The MLPs: parameters, start values, logits, loss. One description a model, so that the training loop, the printed
 * tables and the checkpoints never name a layer. */
#include "models/train_internal.h"
#include "kernels/kernels.h"
#include "spmd/grad.h"
#include <math.h>
#include <string.h>

static void describe_mlp(const spmd_model_config *c, spmd_param_info *info)
{
    int64_t half = c->width / 2;
    const spmd_param_info params[] = {
        {"w1", 2, {c->inputs, c->width}}, {"b1", 1, {c->width}},   {"w2", 2, {c->width, half}}, {"b2", 1, {half}},
        {"w3", 2, {half, c->classes}},    {"b3", 1, {c->classes}},
    };
    memcpy(info, params, sizeof params);
}

static void describe_shared(const spmd_model_config *c, spmd_param_info *info)
{
    const spmd_param_info params[] = {
        {"w_in", 2, {c->inputs, c->width}},   {"b_in", 1, {c->width}},
        {"w_block", 2, {c->width, c->width}}, {"b_block", 1, {c->width}},
        {"w_out", 2, {c->width, c->classes}}, {"b_out", 1, {c->classes}},
    };
    memcpy(info, params, sizeof params);
}

/* Parameters and input in the type of the computation. */
static spmd_status cast_all(spmd_ctx *ctx, spmd_dtype dtype, const spmd_tensor *params, int n, const spmd_tensor *x,
                            spmd_tensor *cast_params, spmd_tensor *cast_x)
{
    for (int k = 0; k < n; k++)
        if (params[k].dtype == dtype)
            cast_params[k] = params[k];
        else
            SPMD_TRY(spmd_cast(ctx, &params[k], dtype, &cast_params[k]));
    *cast_x = *x;
    return x->dtype == dtype ? SPMD_OK : spmd_cast(ctx, x, dtype, cast_x);
}

static spmd_status output_layer(spmd_ctx *ctx, const spmd_tensor *h, const spmd_tensor *w, const spmd_tensor *b,
                                spmd_tensor *logits)
{
    SPMD_TRY(spmd_linear(ctx, h, w, b, logits));
    return logits->dtype == SPMD_F32 ? SPMD_OK : spmd_cast(ctx, logits, SPMD_F32, logits);
}

static spmd_status logits_mlp(spmd_ctx *ctx, const spmd_model_config *config, const spmd_tensor *params,
                              const spmd_tensor *x, spmd_tensor *logits)
{
    spmd_tensor p[6], h;
    SPMD_TRY(cast_all(ctx, config->compute, params, 6, x, p, &h));
    SPMD_TRY(spmd_linear_gelu(ctx, &h, &p[0], &p[1], &h));
    SPMD_TRY(spmd_linear_gelu(ctx, &h, &p[2], &p[3], &h));
    return output_layer(ctx, &h, &p[4], &p[5], logits);
}

/* in: h, w, b; out: h after `*user` blocks. */
static spmd_status some_blocks(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const double keep = 0.9, mix = 0.1;
    *out = in[0];
    for (int k = 0; k < *(const int *)user; k++)
        SPMD_TRY(spmd_residual_gelu(ctx, out, &in[1], &in[2], keep, mix, out));
    return SPMD_OK;
}

/* All blocks at once, or so many at a time, of which only the results are kept. */
static spmd_status shared_blocks(spmd_ctx *ctx, const spmd_model_config *config, const spmd_tensor *w,
                                 const spmd_tensor *b, spmd_tensor *h)
{
    int at_once = config->checkpoint ? config->checkpoint : config->repeats;
    for (int done = 0; done < config->repeats; done += at_once) {
        int n = config->repeats - done < at_once ? config->repeats - done : at_once;
        const spmd_tensor in[] = {*h, *w, *b};
        SPMD_TRY(config->checkpoint ? spmd_checkpoint(ctx, some_blocks, &n, in, 3, h, 1) : some_blocks(ctx, in, h, &n));
    }
    return SPMD_OK;
}

static spmd_status logits_shared(spmd_ctx *ctx, const spmd_model_config *config, const spmd_tensor *params,
                                 const spmd_tensor *x, spmd_tensor *logits)
{
    spmd_tensor p[6], h;
    SPMD_TRY(cast_all(ctx, config->compute, params, 6, x, p, &h));
    SPMD_TRY(spmd_linear_gelu(ctx, &h, &p[0], &p[1], &h));
    SPMD_TRY(shared_blocks(ctx, config, &p[2], &p[3], &h));
    return output_layer(ctx, &h, &p[4], &p[5], logits);
}

static const spmd_model models[] = {
    {.name = "mlp",
     .params = 6,
     .defaults = {.inputs = 784, .width = 256, .classes = 10, .compute = SPMD_F32},
     .describe = describe_mlp,
     .logits = logits_mlp},
    {.name = "shared-mlp",
     .params = 6,
     .defaults = {.inputs = 784, .width = 1024, .classes = 10, .repeats = 128, .compute = SPMD_F32},
     .describe = describe_shared,
     .logits = logits_shared},
};

spmd_status spmd_model_find(const char *name, const spmd_model **out)
{
    for (size_t k = 0; k < sizeof models / sizeof *models; k++)
        if (strcmp(name, models[k].name) == 0) {
            *out = &models[k];
            return SPMD_OK;
        }
    return SPMD_FAIL(SPMD_EINVAL, "no model '%s': use mlp or shared-mlp", name);
}

int64_t spmd_param_count(const spmd_param_info *info)
{
    return info->rank == 2 ? info->shape[0] * info->shape[1] : info->shape[0];
}

spmd_status spmd_model_check(const spmd_model *model, const spmd_model_config *config)
{
    SPMD_CHECK(config->compute == SPMD_F32 || config->compute == SPMD_BF16, SPMD_EDTYPE,
               "model %s: computes in f32 or bf16, not %s", model->name, spmd_dtype_name(config->compute));
    SPMD_CHECK(config->repeats >= 0 && config->checkpoint >= 0, SPMD_EINVAL,
               "model %s: repeats is %d and checkpoint %d, both need at least 0", model->name, config->repeats,
               config->checkpoint);
    spmd_param_info info[SPMD_MODEL_MAX_PARAMS];
    model->describe(config, info);
    for (int k = 0; k < model->params; k++)
        for (int d = 0; d < info[k].rank; d++)
            SPMD_CHECK(info[k].shape[d] > 0 && info[k].shape[d] <= 1 << 20, SPMD_EINVAL,
                       "model %s: dimension %d of parameter %s is %lld, needs 1..%d: check the width (%lld)",
                       model->name, d, info[k].name, (long long)info[k].shape[d], 1 << 20, (long long)config->width);
    return SPMD_OK;
}

/* Steele and Vigna's splitmix64: a counter in, 64 good bits out. */
static uint64_t mixed(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Uniform in (0, 1], never 0, so that its logarithm is finite. */
static double uniform(uint64_t key, uint64_t counter)
{
    return (double)((mixed(key ^ mixed(counter)) >> 11) + 1) * 0x1p-53;
}

void spmd__model_init_some(const spmd_param_info *info, uint64_t seed, int k, int64_t from, int64_t to, float *values)
{
    double deviation = info->rank == 2 ? sqrt(2.0 / (double)info->shape[0]) : 0;
    uint64_t key = mixed(seed ^ mixed((uint64_t)k + 1));
    for (int64_t i = from; i < to; i++) {
        if (deviation == 0) {
            values[i] = 0;
            continue;
        }
        double radius = sqrt(-2 * log(uniform(key, 2 * (uint64_t)i)));
        values[i] = (float)(deviation * radius * cos(2 * acos(-1) * uniform(key, 2 * (uint64_t)i + 1)));
    }
}

void spmd_model_init(const spmd_param_info *info, uint64_t seed, int k, float *values)
{
    spmd__model_init_some(info, seed, k, 0, spmd_param_count(info), values);
}

spmd_status spmd_model_loss(spmd_ctx *ctx, const spmd_tensor *params, int n, void *user, spmd_tensor *loss)
{
    spmd_model_batch *batch = user;
    SPMD_CHECK(n == batch->model->params, SPMD_EINVAL, "model %s has %d parameters, got %d", batch->model->name,
               batch->model->params, n);
    SPMD_TRY(batch->model->logits(ctx, batch->config, params, batch->x, &batch->logits));
    SPMD_TRY(spmd_softmax_cross_entropy(ctx, &batch->logits, batch->y, loss));
    return spmd_mean(ctx, loss, NULL, 0, false, loss);
}

spmd_status spmd_model_hits(spmd_ctx *ctx, const spmd_tensor *logits, const spmd_tensor *y, spmd_tensor *hits)
{
    SPMD_TRY(spmd_argmax(ctx, logits, -1, hits));
    SPMD_TRY(spmd_equal(ctx, hits, y, hits));
    return spmd_cast(ctx, hits, SPMD_F32, hits);
}
