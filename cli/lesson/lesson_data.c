/* Training lesson, first part: the examples, how they look, how they become batches. */
#include "cli/lesson/lesson.h"
#include "models/data/registry.h"
#include <stdlib.h>
#include <string.h>

const char *lesson_class(const char *dataset, int64_t label)
{
    static const char *const fashion[] = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                                          "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
    static const char *const digits[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    if (label < 0 || label >= LESSON_CLASSES)
        return "?";
    return strcmp(dataset, "fashion-mnist") == 0 ? fashion[label] : digits[label];
}

static void files_table(lesson *l)
{
    const spmd__data_source *source = spmd__data_source_find(l->data.name);
    if (!source)
        return;
    const spmd__data_file files[] = {source->train_images, source->train_labels, source->test_images,
                                     source->test_labels};
    page_table(&l->page, "file|bytes|md5");
    for (int k = 0; k < 4; k++)
        page_row(&l->page, "%s|%lld|%s", files[k].name, (long long)files[k].bytes, files[k].md5);
    page_table_end(&l->page);
}

static void split_row(page *p, const char *name, const spmd_examples *e)
{
    int64_t counts[LESSON_CLASSES] = {0}, least = e->count, most = 0;
    for (int64_t i = 0; i < e->count; i++)
        counts[e->labels[i] % LESSON_CLASSES]++;
    for (int c = 0; c < LESSON_CLASSES; c++) {
        least = counts[c] < least ? counts[c] : least;
        most = counts[c] > most ? counts[c] : most;
    }
    page_row(p, "%s|%lld|u8[%lld,%lld]|u8[%lld]|%lld to %lld", name, (long long)e->count, (long long)e->count,
             (long long)e->width, (long long)e->count, (long long)least, (long long)most);
}

spmd_status lesson_data(lesson *l)
{
    page *p = &l->page;
    page_section(p, "data", "The data, with its checksums");
    if (l->data.notice[0])
        page_text(p, "NOTICE: %s", l->data.notice);
    page_text(p, "%s, from %s.", l->data.name, l->data.source);
    files_table(l);
    page_table(p, "split|examples|images|labels|examples of a class");
    split_row(p, "train", &l->data.train);
    split_row(p, "test", &l->data.test);
    page_table_end(p);
    return SPMD_OK;
}

spmd_status lesson_images(lesson *l)
{
    const spmd_examples *e = &l->data.train;
    const char *names[LESSON_CLASSES];
    sheet s;
    page_section(&l->page, "images", "One image of every class");
    SPMD_CHECK(sheet_make(&s, LESSON_CLASSES, 5, LESSON_SIDE, LESSON_SIDE, 4, 10), SPMD_ENOMEM,
               "out of memory for %d images", LESSON_CLASSES);
    for (int c = 0; c < LESSON_CLASSES; c++) {
        int64_t i = 0;
        while (i < e->count - 1 && e->labels[i] != c)
            i++;
        sheet_put(&s, c, e->images + i * e->width, LESSON_SIDE, LESSON_SIDE, 0xffffff);
        names[c] = lesson_class(l->data.name, c);
    }
    sheet_show(&l->page, &s, "classes", LESSON_CLASSES, names, NULL, "The first training image of each class");
    sheet_free(&s);
    return SPMD_OK;
}

void lesson_array_table(page *p)
{
    page_table(p, "array|dtype|global|spec|block|devices");
}

void lesson_array_row(page *p, const char *name, const spmd_array *array)
{
    cli_array_text t;
    cli_describe_array(array, &t);
    page_row(p, "%s|%s|%s|%s|%s|%s", name, t.dtype, t.global, t.spec, t.block, t.devices);
}

spmd_status lesson_batches(lesson *l)
{
    page *p = &l->page;
    spmd_batches batches;
    page_section(p, "batches", "Fixed batches");
    SPMD_TRY(spmd_batches_init(&l->data.train, l->train.batch, l->train.seed, &batches));
    page_text(p,
              "A recorded step has one shape, so every batch has %lld examples: %lld batches an epoch, in a new order "
              "every epoch. The partial last batch of %lld examples is dropped (its examples come in other epochs).",
              (long long)batches.batch, (long long)batches.steps_per_epoch,
              (long long)(l->data.train.count - batches.batch * batches.steps_per_epoch));
    spmd_batches_free(&batches);
    spmd_trainer *trainer;
    SPMD_TRY(spmd_trainer_create(l->mesh, &l->train, &trainer));
    const spmd_array *array;
    const char *name;
    lesson_array_table(p);
    for (int k = 0; (array = spmd_trainer_array(trainer, k, &name)) != NULL; k++)
        if (strncmp(name, "batch.", 6) == 0)
            lesson_array_row(p, name, array);
    page_table_end(p);
    spmd_trainer_destroy(trainer);
    return SPMD_OK;
}
