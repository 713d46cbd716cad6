/* Private: what the steps of the two lessons share. A lesson is a list of steps; each says something on the page. */
#ifndef CLI_LESSON_LESSON_H
#define CLI_LESSON_LESSON_H

#include "cli/cli.h"
#include "cli/report/plot.h"
#include "cli/run_log.h"
#include "spmd/spmdkit.h"

enum { LESSON_CLASSES = 10, LESSON_SIDE = 28 };

typedef struct lesson {
    const cli_options *options;
    bool full;
    page page;
    spmd_dataset data;
    spmd_mesh *mesh;
    char axes[128];
    spmd_train_options train;
    int64_t steps;
    spmd_trainer *trainer; /* the one that is trained and kept; NULL before that */
    course course;
    spmd_train_result result;
    int32_t *predicted; /* [test count], after the evaluation */
    float *confidence;  /* the probabilities of those */
    double accuracy[2]; /* of f32 and of bf16, on what was evaluated; NaN: not known */
} lesson;

typedef spmd_status lesson_step(lesson *l);

/* --- the training lesson --- */
lesson_step lesson_data, lesson_images, lesson_batches;                                  /* lesson_data.c */
lesson_step lesson_parameters, lesson_gradients, lesson_sgd, lesson_eager, lesson_chain; /* lesson_step.c */
lesson_step lesson_train, lesson_curve, lesson_evaluate, lesson_first, lesson_grid, lesson_confusion;
lesson_step lesson_dtypes, lesson_placement;
/* --- the multi-device lesson --- */
lesson_step lesson_mesh, lesson_topology, lesson_shardings, lesson_workload;
lesson_step lesson_scaling, lesson_modes, lesson_sweep, lesson_next, lesson_trap;

/* --- shared --- */
/* The page that a command writes, where the options want it; false: it has said on stderr what is wrong. */
bool lesson_page_open(page *p, const cli_options *options, const char *title);
const char *lesson_class(const char *dataset, int64_t label); /* "Sneaker" */
void lesson_curve_plot(page *p, const course *c, const char *name, const char *caption);
/* The 5x5 grid of the first test examples, green where right and red where wrong. */
void lesson_grid_picture(page *p, const spmd_dataset *data, const int32_t *predicted, const float *confidence);
/* Counts of the test set by [class][predicted class]: a section with a picture and a table with per-class per cent. */
void lesson_confusion_section(page *p, const spmd_dataset *data, const int32_t *predicted,
                              int64_t counts[LESSON_CLASSES][LESSON_CLASSES]);
/* A table of arrays, ended as any: name, dtype, global shape, spec, block, what devices hold. */
void lesson_array_table(page *p);
void lesson_array_row(page *p, const char *name, const spmd_array *array);
void lesson_print_mesh(page *p, const spmd_mesh *mesh); /* as it prints itself */

#endif
