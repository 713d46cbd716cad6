/* Training lesson, third part: the training and its curve, the same in bf16, and where everything lies. */
#include "cli/lesson/lesson.h"
#include "kernels/matmul/gemm.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_EVERY = 25 };

typedef struct watching {
    lesson *l;
    double first_end;
    bool failed;
} watching;

static void step_json(const spmd_metrics *m)
{
    json line;
    if (!json_begin(&line))
        return;
    json_text(&line, "event", "step");
    json_integer(&line, "step", m->step);
    json_number(&line, "loss", m->loss);
    json_number(&line, "accuracy", m->accuracy);
    json_number(&line, "grad_norm", m->grad_norm);
    json_print(&line);
}

static bool on_step(void *user, const spmd_metrics *m)
{
    watching *w = user;
    lesson *l = w->l;
    w->failed = !course_add(&l->course, m);
    if (m->step == 1)
        w->first_end = cli_seconds();
    if (m->step == 1 || m->step % ROW_EVERY == 0 || m->step == l->steps) {
        char rate[32] = "-";
        if (m->step > 1)
            snprintf(rate, sizeof rate, "%.0f",
                     (double)((m->step - 1) * l->train.batch) / (cli_seconds() - w->first_end));
        page_row(&l->page, "%lld|%.5f|%.4f|%.4f|%.6f|%s", (long long)m->step, m->loss, m->accuracy, m->grad_norm,
                 m->rate, rate);
        if (l->options->json)
            step_json(m);
    }
    return !w->failed;
}

spmd_status lesson_train(lesson *l)
{
    page *p = &l->page;
    watching w = {.l = l};
    page_section(p, "training", "The training");
    SPMD_TRY(spmd_trainer_create(l->mesh, &l->train, &l->trainer));
    page_table(p, "step|loss|accuracy|gradient norm|learning rate|examples/s");
    spmd_status status = spmd_trainer_run(l->trainer, &l->data.train, l->steps, on_step, &w, &l->result);
    page_table_end(p);
    SPMD_TRY(status);
    SPMD_CHECK(!w.failed, SPMD_ENOMEM, "out of memory for the course of %lld steps", (long long)l->steps);
    page_text(p, "%lld steps of %lld examples in %.2f s: %.0f examples/s without the first step (%.1f ms).",
              (long long)l->result.steps, (long long)l->train.batch, l->result.seconds, l->result.examples_per_s,
              l->result.first_step_s * 1e3);
    return SPMD_OK;
}

void lesson_curve_plot(page *p, const course *c, const char *name, const char *caption)
{
    plot picture;
    if (!plot_begin(p, &picture, name, 760, 420))
        return;
    fputs("$d << EOD\n", picture.script);
    for (int64_t k = 0; k < c->count; k++)
        fprintf(picture.script, "%lld %g %g\n", (long long)c->rows[k].step, c->rows[k].loss, c->rows[k].accuracy);
    fputs("EOD\nset grid\nset key center right\nset xlabel 'step'\nset ylabel 'loss'\nset y2label 'accuracy'\n"
          "set ytics nomirror\nset y2tics\nset yrange [0:*]\nset y2range [0:1]\n"
          "plot $d using 1:2 with lines lw 1.5 lc rgb '#b0651d' title 'loss', "
          "$d using 1:3 axes x1y2 with lines lw 1.5 lc rgb '#2f6db3' title 'accuracy (right)'\n",
          picture.script);
    plot_end(p, &picture, caption);
}

spmd_status lesson_curve(lesson *l)
{
    page_section(&l->page, "curve", "The training curve");
    lesson_curve_plot(&l->page, &l->course, "training-curve", "Loss and accuracy of every step, before its update");
    return SPMD_OK;
}

/* Only the types of what the model computes: out[0] is a scalar that nobody needs. */
typedef struct dtypes_seen {
    const lesson *l;
    const spmd_model_config *config;
    spmd_dtype params, logits;
} dtypes_seen;

static spmd_status see_dtypes(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    dtypes_seen *seen = user;
    spmd_tensor logits;
    const spmd_model *model = seen->l->train.model;
    SPMD_TRY(model->logits(ctx, seen->config, in, &in[model->params], &logits));
    if (spmd_ctx_device(ctx) == 0) {
        seen->params = in[0].dtype;
        seen->logits = logits.dtype;
    }
    return spmd_full(ctx, 0, SPMD_F32, SPMD_SCALAR, &out[0]);
}

static spmd_status find_dtypes(const lesson *l, const spmd_trainer *trainer, dtypes_seen *seen)
{
    spmd_array *in[SPMD_MODEL_MAX_PARAMS + 1], *out = NULL;
    int n = l->train.model->params;
    const char *name = "";
    for (int k = 0; k < n; k++)
        in[k] = spmd_trainer_array(trainer, k, NULL);
    for (int k = n; strcmp(name, "batch.x") != 0; k++)
        in[n] = spmd_trainer_array(trainer, k, &name);
    const spmd_job job = {.mesh = l->mesh,
                          .fn = see_dtypes,
                          .user = seen,
                          .nin = n + 1,
                          .nout = 1,
                          .in = in,
                          .out = &out,
                          .out_specs = (const spmd_spec[]){SPMD_REPLICATED}};
    spmd_status status = spmd_shard_map(&job);
    spmd_array_destroy(out);
    return status;
}

static void dtype_row(page *p, const dtypes_seen *seen, const spmd_train_result *r, double accuracy)
{
    page_row(p, "%s|%s|%s|%.0f|%.5f|%.4f", spmd_dtype_name(seen->config->compute), spmd_dtype_name(seen->params),
             spmd_dtype_name(seen->logits), r->examples_per_s, r->last.loss, accuracy);
}

static spmd_status run_bf16(lesson *l, spmd_trainer *trainer, dtypes_seen *seen, spmd_train_result *result)
{
    spmd_evaluation test;
    SPMD_TRY(spmd_trainer_run(trainer, &l->data.train, l->steps, NULL, NULL, result));
    SPMD_TRY(spmd_trainer_evaluate(trainer, &l->data.test, &test));
    l->accuracy[1] = test.accuracy;
    return find_dtypes(l, trainer, seen);
}

spmd_status lesson_dtypes(lesson *l)
{
    page *p = &l->page;
    spmd_train_options half = l->train;
    half.config.compute = SPMD_BF16;
    dtypes_seen seen[2] = {{.l = l, .config = &l->train.config}, {.l = l, .config = &half.config}};
    spmd_train_result result;
    spmd_trainer *trainer;
    page_section(p, "dtypes", "float32 against bfloat16");
    SPMD_TRY(find_dtypes(l, l->trainer, &seen[0]));
    SPMD_TRY(spmd_trainer_create(l->mesh, &half, &trainer));
    spmd_status status = run_bf16(l, trainer, &seen[1], &result);
    spmd_trainer_destroy(trainer);
    SPMD_TRY(status);
    page_table(p, "computes in|parameters|logits|examples/s|final loss|test accuracy");
    dtype_row(p, &seen[0], &l->result, l->accuracy[0]);
    dtype_row(p, &seen[1], &result, l->accuracy[1]);
    page_table_end(p);
    page_text(p,
              "The same parameters in f32, the same batches; inside the model they are cast to bf16 and the logits are "
              "cast back, so that loss, gradients and optimizer stay f32. Speed of bf16: %.2f times f32. %s",
              result.examples_per_s / l->result.examples_per_s,
              spmd__matmul_has_native_bf16()
                  ? "Products use the processor's own bf16 instructions."
                  : "Products are computed in f32 and rounded once: this processor has no bf16 "
                    "instructions, or they are slower.");
    return SPMD_OK;
}

spmd_status lesson_placement(lesson *l)
{
    page *p = &l->page;
    const spmd_array *array;
    const char *name;
    page_section(p, "placement", "What lies where");
    lesson_array_table(p);
    for (int k = 0; (array = spmd_trainer_array(l->trainer, k, &name)) != NULL; k++)
        lesson_array_row(p, name, array);
    page_table_end(p);
    lesson_print_mesh(p, l->mesh);
    return SPMD_OK;
}
