/* spmd eval, predictions, confusion: what a model in a checkpoint is worth. Without a checkpoint, predictions and
 * confusion train the default model first. */
#include "cli/lesson/lesson.h"
#include "models/checkpoints.h"
#include <stdlib.h>
#include <string.h>

typedef struct results {
    const cli_options *options;
    FILE *people;
    spmd_train_options train;
    char axes[128];
    spmd_checkpoint_info info;
    spmd_dataset data;
    spmd_mesh *mesh;
    spmd_trainer *trainer;
    int32_t *predicted; /* [test count] */
    float *confidence;
    page page;
} results;

/* What a checkpoint has settled cannot be asked for. */
static int check(const cli_options *o)
{
    bool learns = o->steps > 0 || o->rate >= 0 || o->schedule || o->optimizer || o->width > 0;
    if (o->checkpoint && learns)
        return cli_usage("--steps, --lr, --schedule, --optimizer and --width are for training a model: without "
                         "--checkpoint %s",
                         o->checkpoint);
    return CLI_OK;
}

/* Sizes come from the checkpoint; what the options say of the devices and the batch holds. */
static spmd_status choose(results *r)
{
    cli_options own = *r->options;
    char notice[1200];
    if (own.checkpoint) {
        SPMD_TRY(spmd_checkpoints_find(own.checkpoint, false, &r->info, notice, sizeof notice));
        if (notice[0])
            fprintf(stderr, "spmd: NOTICE: %s\n", notice);
    }
    own.model = own.checkpoint ? r->info.model : "mlp";
    if (own.devices < 0 && !own.mesh)
        own.devices = 1;
    SPMD_TRY(cli_choose(&own, 400, &r->train, r->axes, sizeof r->axes));
    if (own.checkpoint) {
        spmd_dtype asked = r->train.config.compute;
        r->train.config = r->info.config;
        if (own.dtype)
            r->train.config.compute = asked;
    }
    return SPMD_OK;
}

static spmd_status open_model(results *r)
{
    const cli_options *o = r->options;
    spmd_train_result trained;
    SPMD_TRY(choose(r));
    SPMD_TRY(spmd_mesh_create(r->axes, o->backend, &r->mesh));
    SPMD_TRY(spmd_trainer_create(r->mesh, &r->train, &r->trainer));
    const spmd_dataset_options data = {.seed = r->train.seed};
    SPMD_TRY(spmd_dataset_load(o->dataset ? o->dataset : "fashion-mnist", &data, &r->data));
    if (r->data.notice[0])
        fprintf(stderr, "spmd: NOTICE: %s\n", r->data.notice);
    if (o->checkpoint) {
        fprintf(r->people, "%s after %lld steps, from %s\n", r->info.model, (long long)r->info.step, r->info.path);
        return spmd_checkpoints_load(r->trainer, &r->info, true);
    }
    fprintf(r->people, "no --checkpoint: training mlp for 400 steps first\n");
    return spmd_trainer_run(r->trainer, &r->data.train, o->steps > 0 ? o->steps : 400, NULL, NULL, &trained);
}

static spmd_status predict(results *r)
{
    SPMD_TRY(open_model(r));
    size_t n = (size_t)r->data.test.count;
    r->predicted = malloc(n * sizeof *r->predicted);
    r->confidence = malloc(n * sizeof *r->confidence);
    SPMD_CHECK(r->predicted && r->confidence, SPMD_ENOMEM, "out of memory for %zu predictions", n);
    return spmd_trainer_predict(r->trainer, &r->data.test, (int64_t)n, r->predicted, r->confidence);
}

static void close_model(results *r)
{
    spmd_trainer_destroy(r->trainer);
    spmd_mesh_destroy(r->mesh);
    spmd_dataset_free(&r->data);
    free(r->predicted);
    free(r->confidence);
}

int cmd_eval(const cli_options *o)
{
    if (!o->checkpoint)
        return cli_usage("eval: of what? Give --checkpoint DIR, as written by spmd train --checkpoint DIR");
    results r = {.options = o, .people = o->json ? stderr : stdout};
    spmd_evaluation test;
    json line;
    spmd_status status = open_model(&r);
    if (status == SPMD_OK)
        status = spmd_trainer_evaluate(r.trainer, &r.data.test, &test);
    if (status == SPMD_OK) {
        fprintf(r.people, "test accuracy %.4f, loss %.5f on %lld examples of %s\n", test.accuracy, test.loss,
                (long long)test.examples, r.data.name);
        if (o->json && json_begin(&line)) {
            json_text(&line, "event", "done");
            json_number(&line, "test_accuracy", test.accuracy);
            json_number(&line, "test_loss", test.loss);
            json_integer(&line, "test_examples", test.examples);
            json_integer(&line, "steps", r.info.step);
            json_text(&line, "checkpoint", r.info.path);
            json_text(&line, "dataset", r.data.name);
            json_print(&line);
        }
    }
    int code = status == SPMD_OK ? CLI_OK : cli_refused(o, status);
    close_model(&r);
    return code;
}

static void json_predictions(const results *r)
{
    json line;
    if (!json_begin(&line))
        return;
    json_text(&line, "event", "done");
    json_text(&line, "report", r->page.path);
    json_integer(&line, "test_examples", r->data.test.count);
    json_open(&line, "predictions", '[');
    for (int64_t k = 0; k < 25 && k < r->data.test.count; k++) {
        json_open(&line, NULL, '{');
        json_integer(&line, "label", r->data.test.labels[k]);
        json_integer(&line, "predicted", r->predicted[k]);
        json_number(&line, "confidence", (double)r->confidence[k]);
        json_close(&line, '}');
    }
    json_close(&line, ']');
    json_print(&line);
}

static void json_confusion(const results *r, int64_t counts[LESSON_CLASSES][LESSON_CLASSES])
{
    json line;
    if (!json_begin(&line))
        return;
    json_text(&line, "event", "done");
    json_text(&line, "report", r->page.path);
    json_integer(&line, "test_examples", r->data.test.count);
    json_open(&line, "rows", '[');
    for (int c = 0; c < LESSON_CLASSES; c++) {
        json_open(&line, NULL, '[');
        for (int k = 0; k < LESSON_CLASSES; k++)
            json_integer(&line, NULL, counts[c][k]);
        json_close(&line, ']');
    }
    json_close(&line, ']');
    json_print(&line);
}

static void show_confusion(results *r)
{
    int64_t counts[LESSON_CLASSES][LESSON_CLASSES];
    lesson_confusion_section(&r->page, &r->data, r->predicted, counts);
    if (r->options->json)
        json_confusion(r, counts);
}

static void show_predictions(results *r)
{
    page_section(&r->page, "predictions", "Predictions");
    lesson_grid_picture(&r->page, &r->data, r->predicted, r->confidence);
    if (r->options->json)
        json_predictions(r);
}

/* The page around one of the two. */
static int show(const cli_options *o, const char *title, void (*content)(results *))
{
    int code = check(o);
    if (code != CLI_OK)
        return code;
    results r = {.options = o, .people = o->json ? stderr : stdout};
    spmd_status status = predict(&r);
    code = status == SPMD_OK ? CLI_OK : cli_refused(o, status);
    if (code == CLI_OK && !lesson_page_open(&r.page, o, title))
        code = CLI_FAILED;
    else if (code == CLI_OK) {
        content(&r);
        if (!page_close(&r.page))
            code = CLI_FAILED;
        else if (o->open)
            cli_open_report(r.page.path);
    }
    close_model(&r);
    return code;
}

int cmd_predictions(const cli_options *o)
{
    return show(o, "spmdkit: predictions", show_predictions);
}

int cmd_confusion(const cli_options *o)
{
    return show(o, "spmdkit: confusion", show_confusion);
}
