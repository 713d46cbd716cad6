/* spmd lesson: runs the steps of a lesson and collects what they say and draw in one report. */
#include "cli/lesson/lesson.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static lesson_step *const training[] = {
    lesson_data,      lesson_images, lesson_batches, lesson_parameters, lesson_gradients,
    lesson_sgd,       lesson_eager,  lesson_chain,   lesson_train,      lesson_curve,
    lesson_evaluate,  lesson_first,  lesson_grid,    lesson_confusion,  lesson_dtypes,
    lesson_placement, NULL};

static lesson_step *const multi_device[] = {
    lesson_mesh,  lesson_topology, lesson_shardings, lesson_workload, lesson_scaling,
    lesson_modes, lesson_sweep,    lesson_next,      lesson_trap,     NULL};

static const struct {
    const char *name, *title;
    lesson_step *const *steps;
} lessons[] = {{"training", "spmdkit lesson: training on one device", training},
               {"multi-device", "spmdkit lesson: explicit parallel training on several devices", multi_device}};

/* The training lesson is small anywhere; the other one's own sizes take minutes on a laptop. */
static spmd_status choose(lesson *l, bool one_device)
{
    const cli_options *o = l->options;
    cli_options own = *o;
    own.model = one_device ? "mlp" : "shared-mlp";
    own.schedule = o->schedule ? o->schedule : "constant";
    if (!l->full && !one_device) {
        own.width = o->width > 0 ? o->width : 256;
        own.repeats = o->repeats >= 0 ? o->repeats : 8;
    }
    if (one_device && own.devices < 0 && !own.mesh)
        own.devices = 1;
    l->steps = o->steps > 0 ? o->steps : 400;
    SPMD_TRY(cli_choose(&own, l->steps, &l->train, l->axes, sizeof l->axes));
    if (one_device && !o->optimizer)
        l->train.optim = spmd_optim_chain(spmd_optim_clip_by_global_norm(1), l->train.optim);
    return SPMD_OK;
}

static spmd_status open_mesh(lesson *l, bool one_device)
{
    const cli_options *o = l->options;
    SPMD_TRY(spmd_mesh_create(l->axes, o->backend, &l->mesh));
    SPMD_CHECK(one_device || spmd_mesh_devices(l->mesh) >= 2, SPMD_EINVAL,
               "the lesson multi-device has 1 device, needs 2 or more: use --devices 2");
    if (!one_device && o->batch < 0)
        l->train.batch = (l->full ? 1024 : 128) * spmd_mesh_devices(l->mesh);
    return SPMD_OK;
}

static spmd_status run(lesson *l, lesson_step *const *steps, bool one_device)
{
    SPMD_TRY(open_mesh(l, one_device));
    if (one_device) {
        const spmd_dataset_options data = {.seed = l->train.seed};
        SPMD_TRY(spmd_dataset_load(l->options->dataset ? l->options->dataset : "fashion-mnist", &data, &l->data));
    }
    page_text(&l->page, "Sizes: %s (--%s). Model %s on %s, backend %s.", l->full ? "the lesson's own" : "for a laptop",
              l->full ? "full" : "quick", l->train.model->name, l->axes, spmd_mesh_backend(l->mesh));
    for (int k = 0; steps[k]; k++)
        SPMD_TRY(steps[k](l));
    return SPMD_OK;
}

static void print_json(const lesson *l, const char *name)
{
    json line;
    if (!json_begin(&line))
        return;
    json_text(&line, "event", "done");
    json_text(&line, "lesson", name);
    json_text(&line, "report", l->page.path);
    json_open(&line, "pictures", '[');
    for (int k = 0; k < l->page.npictures; k++)
        json_text(&line, NULL, l->page.pictures[k]);
    json_close(&line, ']');
    json_open(&line, "sections", '[');
    for (int k = 0; k < l->page.nsections; k++)
        json_text(&line, NULL, l->page.sections[k]);
    json_close(&line, ']');
    if (l->trainer) {
        json_number(&line, "loss", l->result.last.loss);
        json_number(&line, "test_accuracy", l->accuracy[0]);
        json_number(&line, "test_accuracy_bf16", l->accuracy[1]);
        json_integer(&line, "test_examples", l->data.test.count);
        json_text(&line, "dataset", l->data.name);
    }
    json_integer(&line, "devices", spmd_mesh_devices(l->mesh));
    json_print(&line);
}

bool lesson_page_open(page *p, const cli_options *options, const char *title)
{
    return page_open(p, options->out ? options->out : "spmd-report", title, options->json ? stderr : stdout);
}

void cli_open_report(const char *path)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        execlp("xdg-open", "xdg-open", path, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
        fprintf(stderr, "spmd: cannot show the report (xdg-open): open %s in a browser\n", path);
}

static void lesson_free(lesson *l)
{
    spmd_trainer_destroy(l->trainer);
    spmd_dataset_free(&l->data);
    spmd_mesh_destroy(l->mesh);
    free(l->course.rows);
    free(l->predicted);
    free(l->confidence);
}

int cmd_lesson(const cli_options *o)
{
    int which = -1;
    for (int k = 0; o->model && k < 2; k++)
        if (strcmp(o->model, lessons[k].name) == 0)
            which = k;
    if (which < 0)
        return cli_usage("which lesson? training or multi-device, as in spmd lesson training%s%s",
                         o->model ? "; there is no lesson " : "", o->model ? o->model : "");
    if (which == 1 && (o->steps > 0 || o->all))
        return cli_usage("--steps and --all are for the lesson training; multi-device trains and evaluates nothing");
    int code = which == 1 ? cli_check_generated(o, "lesson multi-device") : CLI_OK;
    if (code != CLI_OK)
        return code;
    if (o->quick && o->full)
        return cli_usage("--quick and --full both say how large the lesson is; give one");
    lesson l = {.options = o,
                .full = o->full || (!o->quick && o->backend && strcmp(o->backend, "cuda") == 0),
                .accuracy = {NAN, NAN}};
    spmd_status status = choose(&l, which == 0);
    if (status != SPMD_OK)
        return cli_refused(o, status);
    if (!lesson_page_open(&l.page, o, lessons[which].title))
        return CLI_FAILED;
    status = run(&l, lessons[which].steps, which == 0);
    code = status == SPMD_OK ? CLI_OK : cli_failed(o, status);
    if (code != CLI_OK)
        page_text(&l.page, "The lesson ended here: %s", spmd_last_error());
    if (!page_close(&l.page) && code == CLI_OK)
        code = CLI_FAILED;
    if (code == CLI_OK) {
        fprintf(o->json ? stderr : stdout, "\nwritten: %s\n", l.page.path);
        if (o->json)
            print_json(&l, lessons[which].name);
        if (o->open)
            cli_open_report(l.page.path);
    }
    lesson_free(&l);
    return code;
}
