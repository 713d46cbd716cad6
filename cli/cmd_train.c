/* spmd train: data, mesh and trainer from the options; the run; and what came of it. */
#include "cli/cli.h"
#include "models/checkpoints.h"
#include "spmd/spmdkit.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* The only state that a signal handler can reach. */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

/* The first Ctrl-C asks the run to end, the second one kills the program as usual. */
static void catch_interrupt(void)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

typedef struct training {
    cli_report report;
    const cli_options *asked;
    spmd_train_options options;
    int64_t steps, start, saved; /* wanted; done before this run; in the newest checkpoint */
    spmd_status saving;
    char axes[128];
    spmd_dataset data;
    spmd_mesh *mesh;
    spmd_trainer *trainer;
    spmd_train_result result;
    spmd_evaluation test;
    uint64_t fingerprint;
} training;

static void on_log(void *user, const char *line)
{
    const cli_report *report = user;
    fprintf(stderr, "%sspmd: %s\n", report->terminal ? "\n" : "", line);
}

/* Scored by the test set if it is evaluated anyway, else by the step's own accuracy. */
static spmd_status save(training *t, double accuracy)
{
    if (t->asked->eval) {
        SPMD_TRY(spmd_trainer_evaluate(t->trainer, &t->data.test, &t->test));
        accuracy = t->test.accuracy;
    }
    int keep = t->asked->keep > 0 ? (int)t->asked->keep : 3;
    SPMD_TRY(spmd_checkpoints_save(t->trainer, t->asked->checkpoint, keep, accuracy));
    t->saved = spmd_trainer_steps(t->trainer);
    return SPMD_OK;
}

static bool after_step(void *user, const spmd_metrics *m)
{
    training *t = user;
    if (!cli_report_step(&t->report, m))
        return false;
    int64_t every = t->asked->every > 0 ? t->asked->every : (t->steps + 9) / 10;
    bool last = m->step == t->steps || interrupted;
    if (t->asked->checkpoint && (m->step % every == 0 || last))
        t->saving = save(t, m->accuracy);
    return t->saving == SPMD_OK && !interrupted;
}

/* A run that was never begun is resumed at its first step, so that one command line does for both. */
static spmd_status resume(training *t)
{
    char notice[1200], schedule[160];
    spmd_checkpoint_info info;
    spmd_status status = spmd_checkpoints_find(t->asked->checkpoint, false, &info, notice, sizeof notice);
    if (status == SPMD_EIO) {
        fprintf(stderr, "spmd: nothing to resume, starting at step 1: %s\n", spmd_last_error());
        return SPMD_OK;
    }
    SPMD_TRY(status);
    if (notice[0])
        fprintf(stderr, "spmd: NOTICE: %s\n", notice);
    SPMD_TRY(spmd_checkpoints_load(t->trainer, &info, false));
    spmd_schedule_format(&t->options.schedule, schedule, sizeof schedule);
    if (strcmp(schedule, info.schedule) != 0)
        fprintf(stderr,
                "spmd: NOTICE: another learning rate from here on: %s, was %s (start, peak, end, warm-up, decay, "
                "cosine)\n",
                schedule, info.schedule);
    t->start = info.step;
    fprintf(t->report.people, "resumed from %s after step %lld\n", info.path, (long long)info.step);
    return SPMD_OK;
}

/* The batch is checked with the trainer, before data is looked for: a wrong number should not cost a download. */
static spmd_status prepare(const cli_options *o, training *t)
{
    SPMD_TRY(spmd_mesh_create(t->axes, o->backend, &t->mesh));
    spmd_mesh_set_log(t->mesh, on_log, &t->report);
    SPMD_TRY(spmd_trainer_create(t->mesh, &t->options, &t->trainer));
    if (o->resume)
        SPMD_TRY(resume(t));
    const spmd_dataset_options data = {.seed = t->options.seed, .progress = cli_download_progress, .user = &t->report};
    SPMD_TRY(spmd_dataset_load(o->dataset ? o->dataset : "fashion-mnist", &data, &t->data));
    if (t->data.notice[0])
        fprintf(stderr, "spmd: NOTICE: %s\n", t->data.notice);
    SPMD_CHECK(t->options.batch <= t->data.train.count, SPMD_EINVAL,
               "--batch %lld is more than the %lld training examples of %s", (long long)t->options.batch,
               (long long)t->data.train.count, t->data.name);
    return SPMD_OK;
}

static void print_start(const training *t)
{
    const spmd_model_config *config = &t->options.config;
    FILE *file = t->report.people;
    fprintf(file, "%s, width %lld", t->options.model->name, (long long)config->width);
    if (config->repeats > 0)
        fprintf(file, ", %d repeats", config->repeats);
    fprintf(file, ", %s, on %s (%d device%s); batch %lld, %lld steps\n", spmd_dtype_name(config->compute), t->axes,
            spmd_mesh_devices(t->mesh), spmd_mesh_devices(t->mesh) == 1 ? "" : "s", (long long)t->options.batch,
            (long long)t->steps);
    fprintf(file, "data: %s, %lld training and %lld test examples, from %s\n\n", t->data.name,
            (long long)t->data.train.count, (long long)t->data.test.count, t->data.source);
}

static void print_end(const cli_options *o, const training *t)
{
    FILE *file = t->report.people;
    const spmd_train_result *r = &t->result;
    int64_t done = spmd_trainer_steps(t->trainer);
    if (t->report.terminal && done < t->steps)
        fputc('\n', file);
    fprintf(file, "\n%s after %lld of %lld steps: loss %.5f, accuracy %.4f, gradient norm %.4f\n",
            done < t->steps ? "ended" : "done", (long long)done, (long long)t->steps, r->last.loss, r->last.accuracy,
            r->last.grad_norm);
    if (o->eval)
        fprintf(file, "test accuracy %.4f on %lld examples%s\n", t->test.accuracy, (long long)t->test.examples,
                t->data.synthetic ? " (generated data, not a real set)" : "");
    fprintf(file, "%.0f examples/s without the first step (%.1f ms); %.2f s in all; parameters %016llx\n",
            r->examples_per_s, r->first_step_s * 1e3, r->seconds, (unsigned long long)t->fingerprint);
    cli_print_placement(t->trainer, t->mesh, file);
    if (o->log)
        fprintf(file, "\nwritten: %s\n", o->log);
    if (t->saved)
        fprintf(file, "\ncheckpoint after step %lld in %s\n", (long long)t->saved, o->checkpoint);
}

static bool report_done(const cli_options *o, training *t)
{
    char fingerprint[17];
    json line;
    if (!json_begin(&line))
        return false;
    snprintf(fingerprint, sizeof fingerprint, "%016llx", (unsigned long long)t->fingerprint);
    json_text(&line, "event", "done");
    json_text(&line, "model", t->options.model->name);
    json_text(&line, "mode", t->options.automatic ? "auto" : "explicit");
    json_integer(&line, "steps", spmd_trainer_steps(t->trainer));
    if (t->start)
        json_integer(&line, "resumed_from", t->start);
    json_number(&line, "loss", t->result.last.loss);
    json_number(&line, "accuracy", t->result.last.accuracy);
    json_number(&line, "grad_norm", t->result.last.grad_norm);
    json_number(&line, "examples_per_s", t->result.examples_per_s);
    json_number(&line, "seconds", t->result.seconds);
    json_number(&line, "first_step_s", t->result.first_step_s);
    if (o->eval) {
        json_number(&line, "test_accuracy", t->test.accuracy);
        json_number(&line, "test_loss", t->test.loss);
    }
    json_integer(&line, "test_examples", o->eval ? t->test.examples : 0);
    json_integer(&line, "devices", spmd_mesh_devices(t->mesh));
    json_text(&line, "mesh", t->axes);
    json_text(&line, "dtype", spmd_dtype_name(t->options.config.compute));
    json_text(&line, "dataset", t->data.name);
    json_bool(&line, "synthetic", t->data.synthetic);
    json_integer(&line, "batch", t->options.batch);
    json_integer(&line, "seed", (int64_t)t->options.seed);
    json_text(&line, "optimizer", o->optimizer ? o->optimizer : "adamw");
    json_text(&line, "schedule", o->schedule ? o->schedule : "cosine");
    json_number(&line, "lr", t->options.schedule.peak);
    json_bool(&line, "interrupted", interrupted != 0);
    json_text(&line, "params_fingerprint", fingerprint);
    return cli_report_line(&t->report, &line, o->json);
}

static spmd_status train(const cli_options *o, training *t)
{
    print_start(t);
    catch_interrupt();
    SPMD_TRY(spmd_trainer_run(t->trainer, &t->data.train, t->steps - t->start, after_step, t, &t->result));
    SPMD_TRY(t->saving);
    if (t->report.failed) /* said already */
        return SPMD_OK;
    if (o->eval && t->saved != spmd_trainer_steps(t->trainer)) /* else save() has just done it */
        SPMD_TRY(spmd_trainer_evaluate(t->trainer, &t->data.test, &t->test));
    return spmd_trainer_fingerprint(t->trainer, &t->fingerprint);
}

int cmd_train(const cli_options *o)
{
    int code = CLI_OK;
    if (o->resume && !o->checkpoint)
        return cli_usage("--resume: from where? Give --checkpoint DIR");
    if ((o->every > 0 || o->keep > 0) && !o->checkpoint)
        return cli_usage("--every and --keep are about checkpoints: give --checkpoint DIR");
    training t = {.asked = o, .steps = o->steps > 0 ? o->steps : 400};
    spmd_status status = cli_choose(o, t.steps, &t.options, t.axes, sizeof t.axes);
    if (status != SPMD_OK)
        return cli_refused(o, status);
    if (!cli_report_open(&t.report, o, t.steps, t.options.batch))
        return CLI_FAILED;
    status = prepare(o, &t);
    if (status != SPMD_OK) {
        code = cli_refused(o, status);
    } else if ((status = train(o, &t)) != SPMD_OK) {
        code = cli_failed(o, status);
    } else if (!t.report.failed && report_done(o, &t)) {
        print_end(o, &t);
    }
    if (!cli_report_close(&t.report) && code == CLI_OK)
        code = CLI_FAILED;
    spmd_trainer_destroy(t.trainer);
    spmd_dataset_free(&t.data);
    spmd_mesh_destroy(t.mesh);
    return code == CLI_OK && interrupted ? CLI_INTERRUPTED : code;
}
