/* What a trained model is worth: accuracy over a whole set, the parameters' fingerprint, and the check for NaN. */
#include "models/train_internal.h"
#include "collectives/collectives.h"
#include "kernels/kernels.h"
#include "spmd/auto_map.h"
#include <math.h>

/* in: parameters, x, y, weight; out: sums of loss and hits over all shards, rows of weight 0 left out. */
static spmd_status evaluate_shard(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const spmd_trainer *t = user;
    const spmd_tensor *x = &in[t->nparams], *y = x + 1, *weight = x + 2;
    spmd_tensor logits;
    SPMD_TRY(t->options.model->logits(ctx, &t->options.config, in, x, &logits));
    SPMD_TRY(spmd_softmax_cross_entropy(ctx, &logits, y, &out[0]));
    SPMD_TRY(spmd_model_hits(ctx, &logits, y, &out[1]));
    for (int k = 0; k < 2; k++) {
        SPMD_TRY(spmd_mul(ctx, &out[k], weight, &out[k]));
        SPMD_TRY(spmd_sum(ctx, &out[k], NULL, 0, false, &out[k]));
    }
    return spmd_settle_list(ctx, out, 2, "data", out);
}

spmd_status spmd__trainer_check_examples(const spmd_trainer *t, const spmd_examples *examples)
{
    SPMD_CHECK(examples->width == t->options.config.inputs, SPMD_EINVAL,
               "the examples have %lld values each, the model takes %lld: set the model's inputs to that",
               (long long)examples->width, (long long)t->options.config.inputs);
    return SPMD_OK;
}

spmd_status spmd_trainer_evaluate(spmd_trainer *t, const spmd_examples *examples, spmd_evaluation *out)
{
    SPMD_TRY(spmd__trainer_check_examples(t, examples));
    spmd_array *in[SPMD_MODEL_MAX_PARAMS + 3], *sums[2];
    for (int k = 0; k < t->nparams; k++)
        in[k] = t->arrays[k].array;
    for (int k = 0; k < 3; k++)
        in[t->nparams + k] = spmd__trainer_other(t, (enum trained_other)(BATCH_X + k));
    for (int k = 0; k < 2; k++)
        sums[k] = spmd__trainer_other(t, (enum trained_other)(LOSS + k));
    const spmd_spec specs[2] = {SPMD_REPLICATED, SPMD_REPLICATED};
    const spmd_job job = {.mesh = t->mesh,
                          .fn = evaluate_shard,
                          .user = t,
                          .nin = t->nparams + 3,
                          .nout = 2,
                          .in = in,
                          .out = sums,
                          .out_specs = specs};
    int64_t batch = t->options.batch, steps = spmd_eval_steps(examples, batch);
    double total[2] = {0};
    for (int64_t step = 0; step < steps; step++) {
        SPMD_TRY(spmd_eval_at(examples, batch, step, t->x, t->y, t->weight));
        SPMD_TRY(spmd_shard_update(in[t->nparams], t->x));
        SPMD_TRY(spmd_shard_update(in[t->nparams + 1], t->y));
        SPMD_TRY(spmd_shard_update(in[t->nparams + 2], t->weight));
        SPMD_TRY(t->options.automatic ? spmd_auto_map(&job) : spmd_shard_map(&job));
        for (int k = 0; k < 2; k++) {
            float sum;
            SPMD_TRY(spmd_unshard(sums[k], &sum));
            total[k] += sum;
        }
    }
    double count = examples->count > 0 ? (double)examples->count : 1;
    *out = (spmd_evaluation){.examples = examples->count, .loss = total[0] / count, .accuracy = total[1] / count};
    return SPMD_OK;
}

spmd_status spmd_trainer_fingerprint(spmd_trainer *t, uint64_t *out)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int k = 0; k < t->nparams; k++) {
        SPMD_TRY(spmd_unshard(t->arrays[k].array, t->param));
        const unsigned char *bytes = (const unsigned char *)t->param;
        size_t size = (size_t)spmd_param_count(&t->info[k]) * sizeof *t->param;
        for (size_t i = 0; i < size; i++)
            hash = (hash ^ bytes[i]) * 0x100000001b3u;
    }
    *out = hash;
    return SPMD_OK;
}

/* A NaN gradient makes the next loss NaN: stop before it is trained on. An infinite norm of finite gradients is fine.
 */
spmd_status spmd__trainer_check_finite(spmd_trainer *t, const spmd_metrics *m)
{
    if (isfinite(m->loss) && !isnan(m->grad_norm))
        return SPMD_OK;
    for (int k = 0; k < t->nparams; k++) {
        SPMD_TRY(spmd_unshard(t->arrays[k].array, t->param));
        for (int64_t i = 0; i < spmd_param_count(&t->info[k]); i++)
            SPMD_CHECK(isfinite(t->param[i]), SPMD_ENONFINITE,
                       "step %lld: loss %g, gradient norm %g; first bad parameter: %s[%lld] = %g. Train with a lower "
                       "learning rate (it was %g) or clip the gradients",
                       (long long)m->step, m->loss, m->grad_norm, t->info[k].name, (long long)i, (double)t->param[i],
                       m->rate);
    }
    return SPMD_FAIL(SPMD_ENONFINITE,
                     "step %lld: loss %g, gradient norm %g, though all parameters are finite: the forward pass "
                     "overflows. Train with a lower learning rate (it was %g) or look for huge inputs",
                     (long long)m->step, m->loss, m->grad_norm, m->rate);
}
