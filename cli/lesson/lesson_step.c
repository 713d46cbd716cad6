/* Training lesson, second part: parameters, gradients and one step, each looked at by itself. */
#include "cli/lesson/lesson.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMS = SPMD_MODEL_MAX_PARAMS, EAGER_STEPS = 20, JIT_STEPS = 100 };

/* Parameters and the first batch on the mesh. */
typedef struct desk {
    const lesson *lesson;
    spmd_param_info info[PARAMS];
    int n;
    spmd_array *arrays[PARAMS + 2]; /* parameters, x, y */
} desk;

static spmd_status fill_desk(const lesson *l, desk *d, float *memory, int32_t *labels)
{
    spmd_batches batches;
    for (int k = 0; k < d->n; k++) {
        spmd_model_init(&d->info[k], l->train.seed, k, memory);
        SPMD_TRY(
            spmd_shard(l->mesh, memory, SPMD_F32, d->info[k].rank, d->info[k].shape, SPMD_REPLICATED, &d->arrays[k]));
    }
    SPMD_TRY(spmd_batches_init(&l->data.train, l->train.batch, l->train.seed, &batches));
    spmd_status status = spmd_batches_at(&batches, 0, memory, labels);
    spmd_batches_free(&batches);
    SPMD_TRY(status);
    SPMD_TRY(spmd_shard(l->mesh, memory, SPMD_F32, SPMD_SHAPE(l->train.batch, l->data.train.width),
                        SPMD_P("data", NULL), &d->arrays[d->n]));
    return spmd_shard(l->mesh, labels, SPMD_I32, SPMD_SHAPE(l->train.batch), SPMD_P("data"), &d->arrays[d->n + 1]);
}

static void desk_free(desk *d)
{
    for (int k = 0; k < d->n + 2; k++)
        spmd_array_destroy(d->arrays[k]);
}

static spmd_status desk_make(const lesson *l, desk *d)
{
    *d = (desk){.lesson = l, .n = l->train.model->params};
    l->train.model->describe(&l->train.config, d->info);
    int64_t largest = l->train.batch * l->data.train.width;
    for (int k = 0; k < d->n; k++)
        if (spmd_param_count(&d->info[k]) > largest)
            largest = spmd_param_count(&d->info[k]);
    float *memory = malloc((size_t)largest * sizeof *memory);
    int32_t *labels = malloc((size_t)l->train.batch * sizeof *labels);
    spmd_status status = memory && labels ? fill_desk(l, d, memory, labels)
                                          : SPMD_FAIL(SPMD_ENOMEM, "out of memory for a batch on the host");
    free(memory);
    free(labels);
    if (status != SPMD_OK)
        desk_free(d);
    return status;
}

static spmd_status desk_run(const desk *d, spmd_shard_fn *fn, int nout, spmd_array **out)
{
    spmd_spec specs[2 * PARAMS + 1] = {{0}}; /* SPMD_REPLICATED */
    const spmd_job job = {.mesh = d->lesson->mesh,
                          .fn = fn,
                          .user = (void *)d,
                          .nin = d->n + 2,
                          .nout = nout,
                          .in = d->arrays,
                          .out = out,
                          .out_specs = specs};
    return spmd_shard_map(&job);
}

static spmd_model_batch desk_batch(const desk *d, const spmd_tensor *in)
{
    return (spmd_model_batch){
        .model = d->lesson->train.model, .config = &d->lesson->train.config, .x = &in[d->n], .y = &in[d->n + 1]};
}

spmd_status lesson_parameters(lesson *l)
{
    page *p = &l->page;
    desk d;
    int64_t total = 0;
    page_section(p, "parameters", "The parameters");
    SPMD_TRY(desk_make(l, &d));
    page_table(p, "parameter|dtype|shape|elements|spec|devices");
    for (int k = 0; k < d.n; k++) {
        cli_array_text t;
        cli_describe_array(d.arrays[k], &t);
        page_row(p, "%s|%s|%s|%lld|%s|%s", d.info[k].name, t.dtype, t.global, (long long)spmd_param_count(&d.info[k]),
                 t.spec, t.devices);
        total += spmd_param_count(&d.info[k]);
    }
    page_table_end(p);
    page_text(p, "%s: %lld parameters, %.2f MB; weights start with He's normal values, biases with 0.",
              l->train.model->name, (long long)total, (double)total * 4e-6);
    desk_free(&d);
    return SPMD_OK;
}

/* out: gradients of value_and_grad, gradients of grad, loss. */
static spmd_status both_gradients(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const desk *d = user;
    spmd_model_batch batch = desk_batch(d, in);
    SPMD_TRY(spmd_value_and_grad(ctx, spmd_model_loss, &batch, in, d->n, &out[2 * d->n], out));
    SPMD_TRY(spmd_grad(ctx, spmd_model_loss, &batch, in, d->n, out + d->n));
    return spmd_pmean_list(ctx, out, 2 * d->n + 1, "data", out);
}

static spmd_status show_gradients(lesson *l, const desk *d, spmd_array *const *out)
{
    page *p = &l->page;
    double worst = 0, difference = 0, size = 0;
    bool same = true;
    page_table(p, "parameter|gradient|same tree|largest element|grad - value_and_grad");
    for (int k = 0; k < d->n; k++) {
        cli_array_text t;
        cli_describe_array(out[k], &t);
        SPMD_TRY(cli_compare_arrays(out[k], out[d->n + k], &difference, &size));
        bool fits = spmd_array_rank(out[k]) == d->info[k].rank &&
                    memcmp(spmd_array_shape(out[k]), d->info[k].shape, sizeof(int64_t) * (size_t)d->info[k].rank) ==
                        0 &&
                    spmd_array_dtype(out[k]) == SPMD_F32;
        page_row(p, "%s|%s%s|%s|%.5g|%g", d->info[k].name, t.dtype, t.global, fits ? "yes" : "NO", size, difference);
        same = same && fits;
        worst = cli_larger(worst, difference);
    }
    page_table_end(p);
    page_text(p, "The gradients have the tree of the parameters: %s. spmd_grad and spmd_value_and_grad differ by %g.",
              same ? "same number, shapes and dtypes" : "NO", worst);
    float loss;
    SPMD_TRY(spmd_unshard(out[2 * d->n], &loss));
    page_text(p, "Loss of the untrained model on the first batch: %.5f (guessing one of %d classes: %.5f).",
              (double)loss, LESSON_CLASSES, log(LESSON_CLASSES));
    return SPMD_OK;
}

spmd_status lesson_gradients(lesson *l)
{
    desk d;
    spmd_array *out[2 * PARAMS + 1] = {NULL};
    page_section(&l->page, "gradients", "Gradients");
    SPMD_TRY(desk_make(l, &d));
    spmd_status status = desk_run(&d, both_gradients, 2 * d.n + 1, out);
    if (status == SPMD_OK)
        status = show_gradients(l, &d, out);
    for (int k = 0; k < 2 * d.n + 1; k++)
        spmd_array_destroy(out[k]);
    desk_free(&d);
    return status;
}

static const double sgd_rate = 0.1;

/* out: new parameters, the loss before the step. */
static spmd_status sgd_step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const desk *d = user;
    spmd_model_batch batch = desk_batch(d, in);
    SPMD_TRY(spmd_value_and_grad(ctx, spmd_model_loss, &batch, in, d->n, &out[d->n], out));
    SPMD_TRY(spmd_pmean_list(ctx, out, d->n + 1, "data", out));
    for (int k = 0; k < d->n; k++) {
        SPMD_TRY(spmd_scale(ctx, &out[k], sgd_rate, &out[k]));
        SPMD_TRY(spmd_sub(ctx, &in[k], &out[k], &out[k]));
    }
    return SPMD_OK;
}

spmd_status lesson_sgd(lesson *l)
{
    desk d;
    float before = 0, after = 0;
    spmd_array *out[PARAMS + 1];
    page_section(&l->page, "sgd", "One step of gradient descent");
    SPMD_TRY(desk_make(l, &d));
    for (int k = 0; k < d.n; k++)
        out[k] = d.arrays[k]; /* in place */
    out[d.n] = NULL;
    spmd_status status = desk_run(&d, sgd_step, d.n + 1, out);
    if (status == SPMD_OK)
        status = spmd_unshard(out[d.n], &before);
    if (status == SPMD_OK)
        status = desk_run(&d, sgd_step, d.n + 1, out);
    if (status == SPMD_OK)
        status = spmd_unshard(out[d.n], &after);
    spmd_array_destroy(out[d.n]);
    desk_free(&d);
    SPMD_TRY(status);
    page_lines(&l->page, "spmd_value_and_grad(ctx, spmd_model_loss, &batch, params, n, &loss, grads);  local\n"
                         "spmd_pmean_list(ctx, grads, n, \"data\", grads);                            averaged\n"
                         "new[k] = params[k] - 0.1 * grads[k]                                       updated\n");
    page_text(&l->page, "Loss on the same batch before the step %.5f, after it %.5f.", (double)before, (double)after);
    return SPMD_OK;
}

typedef struct run_kept {
    int64_t at;
    double loss; /* after step `at` */
} run_kept;

static bool keep_loss(void *user, const spmd_metrics *m)
{
    run_kept *kept = user;
    if (m->step == kept->at)
        kept->loss = m->loss;
    return true;
}

static spmd_status timed_run(const lesson *l, bool eager, int64_t steps, run_kept *kept, spmd_train_result *out)
{
    spmd_train_options options = l->train;
    options.eager = eager;
    spmd_trainer *trainer;
    SPMD_TRY(spmd_trainer_create(l->mesh, &options, &trainer));
    spmd_status status = spmd_trainer_run(trainer, &l->data.train, steps, keep_loss, kept, out);
    spmd_trainer_destroy(trainer);
    return status;
}

/* Every mode runs twice, in turns, and the faster run counts: whatever else the machine does only ever slows down. */
static spmd_status run_both(const lesson *l, run_kept *kept, spmd_train_result *best)
{
    const int64_t steps[] = {EAGER_STEPS, JIT_STEPS};
    for (int k = 0; k < 4; k++) {
        spmd_train_result result;
        SPMD_TRY(timed_run(l, k % 2 == 0, steps[k % 2], &kept[k % 2], &result));
        if (k < 2 || result.examples_per_s > best[k % 2].examples_per_s)
            best[k % 2] = result;
    }
    return SPMD_OK;
}

spmd_status lesson_eager(lesson *l)
{
    static const char *const names[] = {"eager", "jit"};
    page *p = &l->page;
    run_kept kept[2] = {{.at = EAGER_STEPS}, {.at = EAGER_STEPS}};
    spmd_train_result result[2];
    page_section(p, "eager-and-jit", "Eager against recorded");
    SPMD_TRY(run_both(l, kept, result));
    page_table(p, "mode|steps|final loss|seconds|first step ms|examples/s");
    for (int k = 0; k < 2; k++)
        page_row(p, "%s|%lld|%.5f|%.3f|%.1f|%.0f", names[k], (long long)result[k].steps, result[k].last.loss,
                 result[k].seconds, result[k].first_step_s * 1e3, result[k].examples_per_s);
    page_table_end(p);
    page_text(p,
              "Loss at step %d: eager %.9g, recorded %.9g, difference %g: the same bits. In this run recorded steps "
              "were %.2f times as fast. The kernels are the same in both, so recording saves what stands around them; "
              "on a busy "
              "machine chance is larger than that.",
              EAGER_STEPS, kept[0].loss, kept[1].loss, fabs(kept[0].loss - kept[1].loss),
              result[1].examples_per_s / result[0].examples_per_s);
    plot picture;
    if (!plot_begin(p, &picture, "eager-and-jit", 560, 320))
        return SPMD_OK;
    fprintf(picture.script, "$d << EOD\neager %g\njit %g\nEOD\n", result[0].examples_per_s, result[1].examples_per_s);
    fputs("set style fill solid\nset boxwidth 0.5\nset yrange [0:*]\nset ylabel 'examples/s'\nset grid y\nunset key\n"
          "set format y '%.0s%c'\nset xtics nomirror scale 0\nset border 3\nset ytics nomirror\n"
          "set linetype 1 lc rgb '#b0651d'\nset linetype 2 lc rgb '#2f6db3'\n"
          "plot $d using 0:2:($0+1):xtic(1) with boxes lc variable, "
          "$d using 0:2:(sprintf('%.0f', $2)) with labels offset 0,0.7\n",
          picture.script);
    plot_end(p, &picture, "Examples a second, without the first step");
    return SPMD_OK;
}

spmd_status lesson_chain(lesson *l)
{
    page *p = &l->page;
    const spmd_optim *optim = &l->train.optim;
    page_section(p, "optimizer", "The optimizer: a chain of gradient transforms");
    page_table(p, "transform|state a parameter|constants|makes the new parameters");
    for (int k = 0; k < optim->transforms; k++) {
        const spmd_transform *t = &optim->transform[k];
        char slots[64] = "none", constants[96] = "";
        if (t->slots)
            snprintf(slots, sizeof slots, "%s%s%s", t->slot_name[0], t->slots > 1 ? ", " : "",
                     t->slots > 1 ? t->slot_name[1] : "");
        for (int c = 0; c < 4 && t->constant[c] != 0; c++)
            snprintf(constants + strlen(constants), sizeof constants - strlen(constants), "%s%g", c ? ", " : "",
                     t->constant[c]);
        page_row(p, "%s|%s|%s|%s", t->name, slots, constants, t->makes_params ? "yes" : "no");
    }
    page_table_end(p);
    if (l->options->schedule) {
        page_table(p, "step|learning rate");
        for (int k = 0; k <= 4; k++)
            page_row(p, "%lld|%.6f", (long long)(l->steps * k / 4),
                     spmd_schedule_at(&l->train.schedule, l->steps * k / 4));
        page_table_end(p);
    } else {
        page_text(p, "The learning rate stays at %g; --schedule cosine lets it fall.",
                  spmd_schedule_at(&l->train.schedule, 0));
    }
    page_text(p, "%d state arrays for %d parameters, all f32, placed like the parameters.",
              spmd_optim_state_count(optim, l->train.model->params), l->train.model->params);
    return SPMD_OK;
}
