/* Training lesson, fourth part: what the trained model says. The pictures are also commands of their own. */
#include "cli/lesson/lesson.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GRID = 5, GREEN = 0x2e8b3d, RED = 0xc62f2f };

spmd_status lesson_evaluate(lesson *l)
{
    page *p = &l->page;
    spmd_examples test = l->data.test;
    int64_t all = test.count, full = all / l->train.batch * l->train.batch;
    page_section(p, "evaluation", "The test set");
    l->predicted = malloc((size_t)all * sizeof *l->predicted);
    l->confidence = malloc((size_t)all * sizeof *l->confidence);
    SPMD_CHECK(l->predicted && l->confidence, SPMD_ENOMEM, "out of memory for %lld predictions", (long long)all);
    SPMD_TRY(spmd_trainer_predict(l->trainer, &l->data.test, all, l->predicted, l->confidence));
    test.count = l->options->all || full == 0 ? all : full;
    l->data.test.count = test.count; /* what follows speaks of the same examples */
    spmd_evaluation e;
    SPMD_TRY(spmd_trainer_evaluate(l->trainer, &test, &e));
    l->accuracy[0] = e.accuracy;
    page_table(p, "test examples|loss|accuracy");
    page_row(p, "%lld|%.5f|%.4f", (long long)e.examples, e.loss, e.accuracy);
    page_table_end(p);
    if (test.count < all)
        page_text(p,
                  "Only full batches of %lld: the last %lld of %lld test examples are LEFT OUT (--all takes them in).",
                  (long long)l->train.batch, (long long)(all - test.count), (long long)all);
    else
        page_text(p, "All %lld test examples; the last batch is filled up with rows that do not count.",
                  (long long)all);
    return SPMD_OK;
}

spmd_status lesson_first(lesson *l)
{
    page *p = &l->page;
    page_section(p, "first-prediction", "The first test example");
    page_table(p, "example|is|predicted|probability|right");
    page_row(p, "0|%s|%s|%.4f|%s", lesson_class(l->data.name, l->data.test.labels[0]),
             lesson_class(l->data.name, l->predicted[0]), (double)l->confidence[0],
             l->predicted[0] == l->data.test.labels[0] ? "yes" : "no");
    page_table_end(p);
    return SPMD_OK;
}

void lesson_grid_picture(page *p, const spmd_dataset *data, const int32_t *predicted, const float *confidence)
{
    enum { IMAGES = GRID * GRID };
    char texts[IMAGES][64];
    const char *list[IMAGES];
    unsigned colours[IMAGES];
    const spmd_examples *e = &data->test;
    int images = e->count < IMAGES ? (int)e->count : IMAGES, right = 0;
    sheet s;
    if (!sheet_make(&s, images, GRID, LESSON_SIDE, LESSON_SIDE, 4, 12)) {
        p->failed = true;
        return;
    }
    for (int k = 0; k < images; k++) {
        bool good = predicted[k] == e->labels[k];
        colours[k] = good ? GREEN : RED;
        right += good;
        sheet_put(&s, k, e->images + k * e->width, LESSON_SIDE, LESSON_SIDE, colours[k]);
        if (good)
            snprintf(texts[k], sizeof texts[k], "%s %.0f%%", lesson_class(data->name, predicted[k]),
                     100 * (double)confidence[k]);
        else
            snprintf(texts[k], sizeof texts[k], "%s, not %s", lesson_class(data->name, e->labels[k]),
                     lesson_class(data->name, predicted[k]));
        list[k] = texts[k];
    }
    char caption[160];
    snprintf(caption, sizeof caption,
             "The first %d test examples: %d right (green), %d wrong (red: what it is, not what "
             "was said)",
             images, right, images - right);
    sheet_show(p, &s, "predictions", images, list, colours, caption);
    sheet_free(&s);
}

spmd_status lesson_grid(lesson *l)
{
    page_section(&l->page, "predictions", "Predictions");
    lesson_grid_picture(&l->page, &l->data, l->predicted, l->confidence);
    return SPMD_OK;
}

static void confusion_count(const spmd_examples *examples, const int32_t *predicted,
                            int64_t counts[LESSON_CLASSES][LESSON_CLASSES])
{
    memset(counts, 0, sizeof(int64_t) * LESSON_CLASSES * LESSON_CLASSES);
    for (int64_t i = 0; i < examples->count; i++)
        if (examples->labels[i] < LESSON_CLASSES && predicted[i] >= 0 && predicted[i] < LESSON_CLASSES)
            counts[examples->labels[i]][predicted[i]]++;
}

static void confusion_plot(page *p, const char *dataset, int64_t counts[LESSON_CLASSES][LESSON_CLASSES])
{
    plot picture;
    if (!plot_begin(p, &picture, "confusion", 760, 640))
        return;
    FILE *f = picture.script;
    fputs("$d << EOD\n", f);
    for (int c = 0; c < LESSON_CLASSES; c++) {
        int64_t total = 0;
        for (int k = 0; k < LESSON_CLASSES; k++)
            total += counts[c][k];
        for (int k = 0; k < LESSON_CLASSES; k++) /* the colour is the share of the row, so that classes compare */
            fprintf(f, "%d %d %lld %g\n", k, c, (long long)counts[c][k],
                    total ? (double)counts[c][k] / (double)total : 0);
    }
    fputs("EOD\nset xrange [-0.5:9.5]\nset yrange [9.5:-0.5]\nunset key\nunset colorbox\nset tics scale 0\n"
          "set palette defined (0 '#ffffff', 0.05 '#dce8f5', 0.5 '#6ba0d4', 1 '#1d5c9c')\nset cbrange [0:1]\n"
          "set xlabel 'predicted'\nset ylabel 'is'\nset xtics rotate by -40\nset lmargin 17\nset bmargin 7\n",
          f);
    for (int axis = 0; axis < 2; axis++) {
        fprintf(f, "set %ctics (", axis ? 'y' : 'x');
        for (int c = 0; c < LESSON_CLASSES; c++)
            fprintf(f, "%s\"%s\" %d", c ? ", " : "", lesson_class(dataset, c), c);
        fputs(")\n", f);
    }
    fputs("plot $d using 1:2:4 with image pixels, $d using 1:2:(sprintf('%d', $3)):($4 > 0.5 ? 0xffffff : 0x1d232b) "
          "with labels textcolor rgb variable\n",
          f);
    plot_end(p, &picture, "How often a class (row) was called what (column)");
}

static void confusion_table(page *p, const char *dataset, int64_t counts[LESSON_CLASSES][LESSON_CLASSES])
{
    char heads[512] = "class";
    for (int c = 0; c < LESSON_CLASSES; c++)
        snprintf(heads + strlen(heads), sizeof heads - strlen(heads), "|%s", lesson_class(dataset, c));
    page_table(p, strcat(heads, "|all|right"));
    for (int c = 0; c < LESSON_CLASSES; c++) {
        char row[256] = "";
        int64_t total = 0;
        for (int k = 0; k < LESSON_CLASSES; k++) {
            snprintf(row + strlen(row), sizeof row - strlen(row), "|%lld", (long long)counts[c][k]);
            total += counts[c][k];
        }
        page_row(p, "%s%s|%lld|%.1f %%", lesson_class(dataset, c), row, (long long)total,
                 total ? 100 * (double)counts[c][c] / (double)total : 0.0);
    }
    page_table_end(p);
}

void lesson_confusion_section(page *p, const spmd_dataset *data, const int32_t *predicted,
                              int64_t counts[LESSON_CLASSES][LESSON_CLASSES])
{
    page_section(p, "confusion", "What is taken for what");
    confusion_count(&data->test, predicted, counts);
    confusion_plot(p, data->name, counts);
    confusion_table(p, data->name, counts);
}

spmd_status lesson_confusion(lesson *l)
{
    int64_t counts[LESSON_CLASSES][LESSON_CLASSES];
    lesson_confusion_section(&l->page, &l->data, l->predicted, counts);
    return SPMD_OK;
}
