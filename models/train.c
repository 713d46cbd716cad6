/* One training step on every shard, and the loop around it. The averaging is written out by hand: in explicit mode what
 * the shard function says is all that moves. In automatic mode a mean over shards is the value itself. */
#include "models/train_internal.h"
#include "collectives/collectives.h"
#include "kernels/kernels.h"
#include "spmd/auto_map.h"
#include "spmd/grad.h"
#include <math.h>
#include <time.h>

/* in: parameters, state, x, y, rate, count; out: parameters, state, loss, accuracy, grad_norm. */
static spmd_status step_shard(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const spmd_trainer *t = user;
    int n = t->nparams, kept = n + t->nstate;
    spmd_model_batch batch = {
        .model = t->options.model, .config = &t->options.config, .x = &in[kept], .y = &in[kept + 1]};

    spmd_tensor mean[SPMD_MODEL_MAX_PARAMS + 2], *loss = &mean[n], *accuracy = &mean[n + 1];
    SPMD_TRY(spmd_value_and_grad(ctx, spmd_model_loss, &batch, in, n, loss, mean));
    SPMD_TRY(spmd_model_hits(ctx, &batch.logits, batch.y, accuracy));
    SPMD_TRY(spmd_mean(ctx, accuracy, NULL, 0, false, accuracy));
    SPMD_TRY(spmd_pmean_list(ctx, mean, n + 2, "data", mean));
    out[kept] = *loss;
    out[kept + 1] = *accuracy;
    SPMD_TRY(spmd_global_norm(ctx, mean, n, &out[kept + 2]));

    const spmd_optim_step step = {.n = n,
                                  .params = in,
                                  .grads = mean,
                                  .state = in + n,
                                  .rate = &in[kept + 2],
                                  .count = &in[kept + 3],
                                  .new_params = out,
                                  .new_state = out + n};
    return spmd_optim_update(ctx, &t->options.optim, &step);
}

static spmd_status read_scalar(const spmd_trainer *t, enum trained_other which, double *out)
{
    float value;
    SPMD_TRY(spmd_unshard(spmd__trainer_other(t, which), &value));
    *out = value;
    return SPMD_OK;
}

spmd_status spmd_trainer_step(spmd_trainer *t, const float *x, const int32_t *y, spmd_metrics *out)
{
    int kept = t->nparams + t->nstate;
    spmd_metrics m = {.step = t->steps + 1, .rate = spmd_schedule_at(&t->options.schedule, t->steps)};
    t->in_host[kept] = x;
    t->in_host[kept + 1] = y;
    SPMD_TRY(spmd_array_set(spmd__trainer_other(t, RATE), m.rate));
    SPMD_TRY(spmd_array_set(spmd__trainer_other(t, COUNT), (double)m.step));
    const spmd_job job = {.mesh = t->mesh,
                          .fn = step_shard,
                          .user = t,
                          .nin = kept + 4,
                          .nout = kept + 3,
                          .in = t->in,
                          .in_host = t->in_host,
                          .out = t->out,
                          .out_specs = t->out_specs,
                          .jit = t->jit,
                          .profile = t->profile};
    SPMD_TRY(t->options.automatic ? spmd_auto_map(&job) : spmd_shard_map(&job));
    t->steps++;
    SPMD_TRY(read_scalar(t, LOSS, &m.loss));
    SPMD_TRY(read_scalar(t, ACCURACY, &m.accuracy));
    SPMD_TRY(read_scalar(t, GRAD_NORM, &m.grad_norm));
    *out = m;
    return spmd__trainer_check_finite(t, &m);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static spmd_status run_steps(spmd_trainer *t, spmd_batches *batches, int64_t steps, spmd_train_fn *fn, void *user,
                             spmd_train_result *out)
{
    double start = now(), first_end = start;
    while (out->steps < steps && !out->stopped) {
        SPMD_TRY(spmd_batches_at(batches, t->steps, t->x, t->y));
        SPMD_TRY(spmd_trainer_step(t, t->x, t->y, &out->last));
        out->steps++;
        out->stopped = fn && !fn(user, &out->last);
        double end = now();
        if (out->steps == 1)
            first_end = end;
        out->seconds = end - start;
        out->first_step_s = first_end - start;
        if (end > first_end)
            out->examples_per_s = (double)((out->steps - 1) * t->options.batch) / (end - first_end);
    }
    return SPMD_OK;
}

spmd_status spmd_trainer_run(spmd_trainer *t, const spmd_examples *examples, int64_t steps, spmd_train_fn *fn,
                             void *user, spmd_train_result *out)
{
    *out = (spmd_train_result){0};
    SPMD_TRY(spmd__trainer_check_examples(t, examples));
    spmd_batches batches;
    SPMD_TRY(spmd_batches_init(examples, t->options.batch, t->options.seed, &batches));
    spmd_status status = run_steps(t, &batches, steps, fn, user, out);
    spmd_batches_free(&batches);
    return status == SPMD_OK ? SPMD_OK : spmd_trace_at(__FILE__, __LINE__, status);
}
