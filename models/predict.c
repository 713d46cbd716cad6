/* What a trained model says about examples. */
#include "models/train_internal.h"
#include "kernels/kernels.h"
#include "spmd/auto_map.h"
#include <string.h>

/* in: parameters, x; out: class and its probability, row by row. */
static spmd_status predict_shard(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const spmd_trainer *t = user;
    const int last = 1;
    spmd_tensor logits;
    SPMD_TRY(t->options.model->logits(ctx, &t->options.config, in, &in[t->nparams], &logits));
    SPMD_TRY(spmd_argmax(ctx, &logits, -1, &out[0]));
    SPMD_TRY(spmd_softmax(ctx, &logits, &logits));
    return spmd_max(ctx, &logits, &last, 1, false, &out[1]);
}

static spmd_status predict_batches(spmd_trainer *t, const spmd_job *job, const spmd_examples *examples, int64_t count,
                                   int32_t *predicted, float *confidence)
{
    int64_t batch = t->options.batch;
    for (int64_t first = 0; first < count; first += batch) {
        int64_t n = count - first < batch ? count - first : batch;
        SPMD_TRY(spmd_eval_at(examples, batch, first / batch, t->x, t->y, t->weight));
        SPMD_TRY(spmd_shard_update(job->in[t->nparams], t->x));
        SPMD_TRY(t->options.automatic ? spmd_auto_map(job) : spmd_shard_map(job));
        SPMD_TRY(spmd_unshard(job->out[0], t->y));
        memcpy(predicted + first, t->y, (size_t)n * sizeof *predicted);
        SPMD_TRY(spmd_unshard(job->out[1], t->weight));
        if (confidence)
            memcpy(confidence + first, t->weight, (size_t)n * sizeof *confidence);
    }
    return SPMD_OK;
}

spmd_status spmd_trainer_predict(spmd_trainer *t, const spmd_examples *examples, int64_t count, int32_t *predicted,
                                 float *confidence)
{
    SPMD_TRY(spmd__trainer_check_examples(t, examples));
    SPMD_CHECK(count >= 0 && count <= examples->count, SPMD_EINVAL, "count is %lld, expected 0 to %lld, all examples",
               (long long)count, (long long)examples->count);
    spmd_array *in[SPMD_MODEL_MAX_PARAMS + 1];
    for (int k = 0; k < t->nparams; k++)
        in[k] = t->arrays[k].array;
    in[t->nparams] = spmd__trainer_other(t, BATCH_X);
    spmd_array *out[2] = {spmd__trainer_other(t, BATCH_Y), spmd__trainer_other(t, BATCH_WEIGHT)};
    const spmd_spec specs[2] = {spmd_array_spec(out[0]), spmd_array_spec(out[1])};
    const spmd_job job = {.mesh = t->mesh,
                          .fn = predict_shard,
                          .user = t,
                          .nin = t->nparams + 1,
                          .nout = 2,
                          .in = in,
                          .out = out,
                          .out_specs = specs};
    return predict_batches(t, &job, examples, count, predicted, confidence);
}
