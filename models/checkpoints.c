/* Checkpoints: what is written, what is kept, what must fit when it is read again. */
#include "models/checkpoints.h"
#include "models/data/safetensors_entry.h"
#include "models/safetensors.h"
#include "models/train_internal.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FORMAT "spmdkit checkpoint 1"
#define BEST "best.safetensors"
enum { FIELDS = 13 };

static const char *const keys[FIELDS] = {"format",  "model",   "optimizer", "schedule", "inputs", "width", "classes",
                                         "repeats", "compute", "batch",     "seed",     "step",   "score"};

int spmd_schedule_format(const spmd_schedule *s, char *text, size_t size)
{
    return snprintf(text, size, "%.17g,%.17g,%.17g,%lld,%lld,%d", s->start, s->peak, s->end, (long long)s->warmup,
                    (long long)s->decay, s->cosine);
}

/* "clip_by_global_norm(1),adamw(0.9,0.999,1e-08,0.0001)" */
static void format_optimizer(const spmd_optim *optim, char *text, size_t size)
{
    size_t at = (size_t)snprintf(text, size, "%s", optim->transforms ? "" : "sgd");
    for (int k = 0; k < optim->transforms && at < size; k++) {
        const spmd_transform *t = &optim->transform[k];
        at += (size_t)snprintf(text + at, size - at, "%s%s(%.17g,%.17g,%.17g,%.17g)", k ? "," : "", t->name,
                               t->constant[0], t->constant[1], t->constant[2], t->constant[3]);
    }
}

static void describe(const spmd_trainer *t, double score, spmd_checkpoint_info *out)
{
    *out = (spmd_checkpoint_info){.config = t->options.config,
                                  .step = t->steps,
                                  .batch = t->options.batch,
                                  .seed = t->options.seed,
                                  .score = score};
    snprintf(out->model, sizeof out->model, "%s", t->options.model->name);
    format_optimizer(&t->options.optim, out->optimizer, sizeof out->optimizer);
    spmd_schedule_format(&t->options.schedule, out->schedule, sizeof out->schedule);
}

/* The values in the order of `keys`. */
static void to_text(const spmd_checkpoint_info *i, char values[FIELDS][256])
{
    const long long numbers[] = {i->config.inputs, i->config.width, i->config.classes, i->config.repeats};
    snprintf(values[0], 256, "%s", FORMAT);
    snprintf(values[1], 256, "%s", i->model);
    snprintf(values[2], 256, "%s", i->optimizer);
    snprintf(values[3], 256, "%s", i->schedule);
    for (int k = 0; k < 4; k++)
        snprintf(values[4 + k], 256, "%lld", numbers[k]);
    snprintf(values[8], 256, "%s", spmd_dtype_name(i->config.compute));
    snprintf(values[9], 256, "%lld", (long long)i->batch);
    snprintf(values[10], 256, "%llu", (unsigned long long)i->seed);
    snprintf(values[11], 256, "%lld", (long long)i->step);
    snprintf(values[12], 256, "%.17g", i->score);
}

static spmd_status number(const char *path, const char *key, const char *text, long long *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    SPMD_CHECK(*text && !*end && !errno && *out >= 0, SPMD_EDATA,
               "%s: its %s is '%.40s', expected a whole number of 0 or more", path, key, text);
    return SPMD_OK;
}

static spmd_status read_info(const spmd_safetensors *file, const char *path, spmd_checkpoint_info *out)
{
    const char *text[FIELDS];
    long long numbers[FIELDS] = {0};
    *out = (spmd_checkpoint_info){0};
    SPMD_CHECK(spmd_safetensors_metadata(file, SPMD_SAFETENSORS_CRC32), SPMD_EDATA,
               "%s: has no checksum: not a checkpoint of this toolkit", path);
    for (int k = 0; k < FIELDS; k++) {
        text[k] = spmd_safetensors_metadata(file, keys[k]);
        SPMD_CHECK(text[k], SPMD_EDATA, "%s: has no '%s' in its metadata: not a checkpoint of this toolkit", path,
                   keys[k]);
    }
    SPMD_CHECK(strcmp(text[0], FORMAT) == 0, SPMD_EDATA, "%s: its format is '%.40s', expected '%s'", path, text[0],
               FORMAT);
    for (int k = 4; k < 12; k++)
        if (k != 8 && k != 10)
            SPMD_TRY(number(path, keys[k], text[k], &numbers[k]));
    SPMD_TRY(spmd_dtype_parse(text[8], &out->config.compute));
    SPMD_CHECK(numbers[7] <= INT_MAX, SPMD_EDATA, "%s: its repeats are %lld", path, numbers[7]);
    snprintf(out->path, sizeof out->path, "%s", path);
    snprintf(out->model, sizeof out->model, "%s", text[1]);
    snprintf(out->optimizer, sizeof out->optimizer, "%s", text[2]);
    snprintf(out->schedule, sizeof out->schedule, "%s", text[3]);
    out->config.inputs = numbers[4];
    out->config.width = numbers[5];
    out->config.classes = numbers[6];
    out->config.repeats = (int)numbers[7];
    out->batch = numbers[9];
    out->seed = strtoull(text[10], NULL, 10);
    out->step = numbers[11];
    out->score = strtod(text[12], NULL);
    return SPMD_OK;
}

/* `whole`: only if all of the file is undamaged, which takes reading all of it. */
static spmd_status open_info(const char *path, bool whole, spmd_checkpoint_info *out)
{
    spmd_safetensors *file;
    SPMD_TRY(whole ? spmd_safetensors_open(path, &file) : spmd_safetensors_open_header(path, &file));
    spmd_status status = read_info(file, path, out);
    spmd_safetensors_close(file);
    return status;
}

/* --- the folder --- */

static void step_name(int64_t step, char name[64])
{
    snprintf(name, 64, "step-%09lld.safetensors", (long long)step);
}

/* The step in "step-000000400.safetensors"; -1: another name. */
static int64_t step_of(const char *name)
{
    long long step;
    char same[64];
    if (sscanf(name, "step-%18lld", &step) != 1 || step < 0)
        return -1;
    step_name(step, same);
    return strcmp(name, same) == 0 ? step : -1;
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x > y ? -1 : x < y;
}

/* The steps in the folder, newest first, to be freed. */
static spmd_status list_steps(const char *folder, int64_t **out, int *n)
{
    int room = 0;
    *out = NULL;
    *n = 0;
    DIR *dir = opendir(folder);
    SPMD_CHECK(dir, SPMD_EIO, "the checkpoints' folder %s cannot be read: %s", folder, strerror(errno));
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        int64_t step = step_of(entry->d_name);
        if (step < 0)
            continue;
        if (*n == room) {
            int64_t *more = realloc(*out, (size_t)(room = room ? 2 * room : 16) * sizeof *more);
            if (!more) {
                free(*out);
                closedir(dir);
                return SPMD_FAIL(SPMD_ENOMEM, "no memory for the list of %d checkpoints", room);
            }
            *out = more;
        }
        (*out)[(*n)++] = step;
    }
    closedir(dir);
    if (*n > 0)
        qsort(*out, (size_t)*n, sizeof **out, newest_first);
    return SPMD_OK;
}

static spmd_status step_path(const char *folder, int64_t step, char path[PATH_MAX])
{
    char name[64];
    step_name(step, name);
    int n = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    SPMD_CHECK(n < (int)sizeof(((spmd_checkpoint_info *)0)->path), SPMD_EINVAL,
               "the checkpoints' folder has a path of %d characters, expected fewer than %zu", n,
               sizeof(((spmd_checkpoint_info *)0)->path));
    return SPMD_OK;
}

static spmd_status find_newest(const char *folder, spmd_checkpoint_info *out, char *notice, size_t size)
{
    int64_t *steps;
    int n;
    char path[PATH_MAX], first[1024] = "";
    spmd_status status = SPMD_EDATA;
    SPMD_TRY(list_steps(folder, &steps, &n));
    for (int k = 0; k < n && status != SPMD_OK; k++) {
        status = step_path(folder, steps[k], path);
        if (status == SPMD_OK)
            status = open_info(path, true, out);
        if (status != SPMD_OK && !first[0])
            snprintf(first, sizeof first, "%s", spmd_last_error());
    }
    free(steps);
    SPMD_CHECK(n > 0, SPMD_EIO, "the folder %s holds no checkpoint (step-*.safetensors)", folder);
    SPMD_CHECK(status == SPMD_OK, SPMD_EDATA, "none of the %d checkpoints in %s can be read; the newest: %s", n, folder,
               first);
    if (notice && first[0])
        snprintf(notice, size, "a checkpoint was passed over: %s", first);
    return SPMD_OK;
}

spmd_status spmd_checkpoints_find(const char *folder, bool best, spmd_checkpoint_info *out, char *notice, size_t size)
{
    struct stat info;
    char path[PATH_MAX];
    if (notice && size)
        notice[0] = 0;
    SPMD_CHECK(stat(folder, &info) == 0, SPMD_EIO, "no checkpoints at %s: %s", folder, strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return open_info(folder, true, out);
    if (!best)
        return find_newest(folder, out, notice, size);
    SPMD_CHECK(snprintf(path, sizeof path, "%s/" BEST, folder) < (int)sizeof out->path, SPMD_EINVAL,
               "the path of %s is too long", folder);
    return open_info(path, true, out);
}

static spmd_status make_folder(const char *folder)
{
    SPMD_CHECK(mkdir(folder, 0777) == 0 || errno == EEXIST, SPMD_EIO, "the checkpoints' folder %s cannot be made: %s",
               folder, strerror(errno));
    return SPMD_OK;
}

static spmd_status remove_old(const char *folder, int keep)
{
    int64_t *steps;
    int n;
    char path[PATH_MAX];
    SPMD_TRY(list_steps(folder, &steps, &n));
    spmd_status status = SPMD_OK;
    for (int k = keep; k < n && status == SPMD_OK; k++) {
        status = step_path(folder, steps[k], path);
        if (status == SPMD_OK)
            unlink(path);
    }
    free(steps);
    return status;
}

/* --- writing --- */

static spmd_status array_bytes(void *user, int64_t i, const void **data)
{
    spmd_trainer *t = user;
    *data = t->param;
    return spmd_unshard(t->arrays[i].array, t->param);
}

static spmd_status write_trainer(spmd_trainer *t, const spmd_checkpoint_info *info, const char *path)
{
    char values[FIELDS][256];
    const char *metadata[FIELDS][2];
    int n = t->nparams + t->nstate;
    to_text(info, values);
    for (int k = 0; k < FIELDS; k++) {
        metadata[k][0] = keys[k];
        metadata[k][1] = values[k];
    }
    spmd_safetensor *tensors = calloc((size_t)n, sizeof *tensors);
    SPMD_CHECK(tensors, SPMD_ENOMEM, "no memory for the names of %d arrays", n);
    for (int k = 0; k < n; k++) {
        const spmd_array *array = t->arrays[k].array;
        tensors[k] = (spmd_safetensor){
            .name = t->arrays[k].name, .dtype = spmd_array_dtype(array), .rank = spmd_array_rank(array)};
        memcpy(tensors[k].shape, spmd_array_shape(array), sizeof(int64_t) * (size_t)tensors[k].rank);
    }
    const spmd_safetensors_content content = {
        .count = n, .tensors = tensors, .bytes = array_bytes, .user = t, .metadata = metadata, .nmetadata = FIELDS};
    spmd_status status = spmd_safetensors_write(path, &content);
    free(tensors);
    return status;
}

spmd_status spmd_checkpoints_save(spmd_trainer *t, const char *folder, int keep, double score)
{
    char path[PATH_MAX], best[PATH_MAX];
    spmd_checkpoint_info info, before = {0};
    SPMD_CHECK(keep >= 1, SPMD_EINVAL, "keep is %d, expected 1 or more checkpoints", keep);
    SPMD_TRY(step_path(folder, t->steps, path));
    SPMD_TRY(make_folder(folder));
    describe(t, score, &info);
    SPMD_TRY(write_trainer(t, &info, path));
    snprintf(best, sizeof best, "%.*s/" BEST, (int)strlen(folder), folder);
    bool first = !isnan(score) && (open_info(best, false, &before) != SPMD_OK || isnan(before.score));
    bool is_best = first || score > before.score; /* no score is above nothing */
    if (is_best && !spmd__safetensors_link(path, best))
        SPMD_TRY(write_trainer(t, &info, best));
    return remove_old(folder, keep);
}

/* --- reading --- */

static spmd_status check_fits(const spmd_trainer *t, const spmd_checkpoint_info *i, bool only_params)
{
    spmd_checkpoint_info own;
    describe(t, NAN, &own);
    SPMD_CHECK(strcmp(own.model, i->model) == 0, SPMD_EINVAL, "%s: is of model %s, this training is of %s", i->path,
               i->model, own.model);
    SPMD_CHECK(own.config.repeats == i->config.repeats, SPMD_EINVAL, "%s: has %d repeats, this training has %d",
               i->path, i->config.repeats, own.config.repeats);
    if (only_params)
        return SPMD_OK;
    SPMD_CHECK(own.config.compute == i->config.compute, SPMD_EINVAL, "%s: computes in %s, this training in %s", i->path,
               spmd_dtype_name(i->config.compute), spmd_dtype_name(own.config.compute));
    SPMD_CHECK(own.batch == i->batch, SPMD_EINVAL,
               "%s: was trained with batches of %lld, this training has %lld: its place in the data would be another; "
               "use the same",
               i->path, (long long)i->batch, (long long)own.batch);
    SPMD_CHECK(
        own.seed == i->seed, SPMD_EINVAL,
        "%s: was trained with seed %llu, this training has %llu: the order of the data would be another; use the "
        "same",
        i->path, (unsigned long long)i->seed, (unsigned long long)own.seed);
    SPMD_CHECK(strcmp(own.optimizer, i->optimizer) == 0, SPMD_EINVAL,
               "%s: was trained with %s, this training uses %s: their state differs; use the same optimizer", i->path,
               i->optimizer, own.optimizer);
    return SPMD_OK;
}

static spmd_status load_array(const spmd_safetensors *file, const char *path, const trained_array *into)
{
    const spmd_safetensor *found;
    const int64_t *shape = spmd_array_shape(into->array);
    int rank = spmd_array_rank(into->array);
    SPMD_TRY(spmd_safetensors_find(file, into->name, &found));
    SPMD_CHECK(found->dtype == spmd_array_dtype(into->array), SPMD_EDTYPE, "%s: tensor \"%s\" is %s, expected %s", path,
               into->name, spmd_dtype_name(found->dtype), spmd_dtype_name(spmd_array_dtype(into->array)));
    SPMD_CHECK(found->rank == rank, SPMD_ESHAPE, "%s: tensor \"%s\" has rank %d, expected %d", path, into->name,
               found->rank, rank);
    for (int d = 0; d < rank; d++)
        SPMD_CHECK(found->shape[d] == shape[d], SPMD_ESHAPE,
                   "%s: dimension %d of tensor \"%s\" is %lld, expected %lld: use the sizes it was trained with", path,
                   d, into->name, (long long)found->shape[d], (long long)shape[d]);
    return spmd_shard_update(into->array, found->data);
}

spmd_status spmd_checkpoints_load(spmd_trainer *t, const spmd_checkpoint_info *info, bool only_params)
{
    spmd_safetensors *file;
    SPMD_TRY(check_fits(t, info, only_params));
    SPMD_TRY(spmd_safetensors_open(info->path, &file));
    spmd_status status = SPMD_OK;
    for (int k = 0; k < t->nparams + (only_params ? 0 : t->nstate) && status == SPMD_OK; k++)
        status = load_array(file, info->path, &t->arrays[k]);
    spmd_safetensors_close(file);
    SPMD_TRY(status);
    if (!only_params)
        t->steps = info->step;
    return SPMD_OK;
}
