/* Data sets by name: find or fetch the four files, read them, check that they fit each other. */
#include "models/data/dataset.h"
#include "models/data/checksum.h"
#include "models/data/download.h"
#include "models/data/idx.h"
#include "models/data/synthetic.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *spmd_dataset_names(void)
{
    return "fashion-mnist, mnist, mnist-30k, synthetic";
}

/* The environment as it matters here; "" for what is not set. */
typedef struct places {
    char own[PATH_MAX];     /* $SPMD_DATA/<name> */
    char cache[PATH_MAX];   /* the cache's folder for this set */
    char mirror[PATH_MAX];  /* $SPMD_DATA_URL/<name>/, in place of all other mirrors */
    const char *mirrors[2]; /* {mirror} as a list */
} places;

static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

static spmd_status find_places(const char *name, places *out)
{
    const char *own = environment("SPMD_DATA"), *url = environment("SPMD_DATA_URL");
    const char *cache = environment("XDG_CACHE_HOME"), *home = environment("HOME");
    int n = 0, m = 0, k = 0;
    *out = (places){.mirrors = {url[0] ? out->mirror : NULL}};
    if (own[0])
        n = snprintf(out->own, PATH_MAX, "%s/%s", own, name);
    if (cache[0] == '/') /* the XDG standard ignores relative ones */
        m = snprintf(out->cache, PATH_MAX, "%s/spmdkit/%s", cache, name);
    else if (home[0])
        m = snprintf(out->cache, PATH_MAX, "%s/.cache/spmdkit/%s", home, name);
    if (url[0])
        k = snprintf(out->mirror, PATH_MAX, "%s%s%s/", url, url[strlen(url) - 1] == '/' ? "" : "/", name);
    SPMD_CHECK(n < PATH_MAX && m < PATH_MAX &&
                       k<PATH_MAX, SPMD_EINVAL,
                         "SPMD_DATA, SPMD_DATA_URL, XDG_CACHE_HOME or HOME make a path of %d characters, expected "
                         "fewer than %d",
                         n>
                           m
                   ? (n > k ? n : k)
                   : (m > k ? m : k),
               PATH_MAX);
    return SPMD_OK;
}

static spmd_status make_folders(const char *path)
{
    char part[PATH_MAX];
    snprintf(part, sizeof part, "%s", path);
    for (char *p = part + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char kept = *p;
        *p = 0;
        SPMD_CHECK(mkdir(part, 0777) == 0 || errno == EEXIST, SPMD_EIO,
                   "the folder %s cannot be made: %s: set XDG_CACHE_HOME to a folder that can be written", part,
                   strerror(errno));
        if (!kept)
            return SPMD_OK;
        *p = kept;
    }
}

static spmd_status fetch(const spmd__data_source *source, const spmd__data_file *file, const places *where,
                         const spmd_dataset_options *options, bool *network)
{
    const char *const *mirrors = where->mirrors[0] ? where->mirrors : source->mirrors;
    const char *own = environment("SPMD_DATA");
    SPMD_CHECK(mirrors[0], SPMD_EIO,
               "%s: no %s, and it is not published anywhere to be downloaded: put %s, %s, %s and %s into $SPMD_DATA/%s "
               "(SPMD_DATA is %s)",
               source->name, file->name, source->train_images.name, source->train_labels.name, source->test_images.name,
               source->test_labels.name, source->name, own[0] ? own : "not set");
    if (!spmd_dataset_downloader()) {
        *network = true;
        return SPMD_FAIL(SPMD_EUNSUPPORTED, "%s is not on this machine, and this build cannot download (no libcurl)",
                         file->name);
    }
    SPMD_CHECK(where->cache[0], SPMD_EIO,
               "%s: nowhere to put %s: neither XDG_CACHE_HOME nor HOME is set: set one, or put the files into "
               "$SPMD_DATA/%s and set SPMD_DATA",
               source->name, file->name, source->name);
    SPMD_TRY(make_folders(where->cache));
    spmd__download download = {
        .mirrors = mirrors, .file = file, .folder = where->cache, .progress = options->progress, .user = options->user};
    return spmd__download_file(&download, network);
}

/* Where the file is, after fetching it if need be. */
static spmd_status locate(const spmd__data_source *source, const spmd__data_file *file, const places *where,
                          const spmd_dataset_options *options, char path[PATH_MAX], bool *network)
{
    *network = false;
    int n = snprintf(path, PATH_MAX, "%s/%s", where->own, file->name);
    if (where->own[0] && n < PATH_MAX && access(path, F_OK) == 0)
        return spmd__file_check(path, file);
    n = snprintf(path, PATH_MAX, "%s/%s", where->cache, file->name);
    SPMD_CHECK(n < PATH_MAX, SPMD_EINVAL, "the cache's path of %s has %d characters, expected fewer than %d",
               file->name, n, PATH_MAX);
    if (where->cache[0] && spmd__file_check(path, file) == SPMD_OK)
        return SPMD_OK;
    return fetch(source, file, where, options, network);
}

static spmd_status check_labels(const char *set, const char *part, const spmd_examples *e, int64_t classes)
{
    for (int64_t i = 0; i < e->count; i++)
        SPMD_CHECK(e->labels[i] < classes, SPMD_EDATA, "%s: label %lld of the %s set is %d, expected 0 to %lld", set,
                   (long long)i, part, e->labels[i], (long long)(classes - 1));
    return SPMD_OK;
}

static spmd_status read_part(const spmd__data_source *source, const char *part, const char *images, const char *labels,
                             int64_t limit, spmd_examples *out)
{
    int64_t inner[2] = {source->rows, source->columns}, nlabels = 0;
    out->width = source->rows * source->columns;
    SPMD_TRY(spmd__idx_read(images, 2, inner, &out->images, &out->count));
    SPMD_TRY(spmd__idx_read(labels, 0, NULL, &out->labels, &nlabels));
    SPMD_CHECK(nlabels == out->count, SPMD_EDATA, "%s has %lld images, but %s has %lld labels, expected as many",
               images, (long long)out->count, labels, (long long)nlabels);
    SPMD_TRY(check_labels(source->name, part, out, source->classes));
    SPMD_CHECK(limit <= out->count, SPMD_EINVAL, "%s: %s_count is %lld, expected at most the %lld there are (0: all)",
               source->name, part, (long long)limit, (long long)out->count);
    out->count = limit ? limit : out->count;
    return SPMD_OK;
}

static spmd_status load_real(const spmd__data_source *source, const places *where, const spmd_dataset_options *options,
                             spmd_dataset *out, bool *network)
{
    char images[PATH_MAX], labels[PATH_MAX];
    SPMD_TRY(locate(source, &source->train_images, where, options, images, network));
    SPMD_TRY(locate(source, &source->train_labels, where, options, labels, network));
    SPMD_TRY(read_part(source, "train", images, labels, options->train_count, &out->train));
    snprintf(out->source, sizeof out->source, "%.*s (%s checked)", (int)(strrchr(images, '/') - images), images,
             spmd_dataset_downloader() ? "md5" : "size");
    SPMD_TRY(locate(source, &source->test_images, where, options, images, network));
    SPMD_TRY(locate(source, &source->test_labels, where, options, labels, network));
    SPMD_TRY(read_part(source, "test", images, labels, options->test_count, &out->test));
    out->name = source->name;
    out->classes = source->classes;
    return SPMD_OK;
}

static spmd_status generate(const spmd_dataset_options *options, spmd_dataset *out)
{
    out->name = "synthetic";
    out->synthetic = true;
    snprintf(out->source, sizeof out->source, "generated, seed %llu", (unsigned long long)options->seed);
    return spmd__synthetic_fill(options->seed, options->train_count, options->test_count, out);
}

static spmd_status load_or_generate(const spmd__data_source *source, const spmd_dataset_options *options,
                                    spmd_dataset *out)
{
    SPMD_CHECK(options->train_count >= 0 && options->test_count >= 0, SPMD_EINVAL,
               "train_count is %lld and test_count %lld, expected 0 (all) or more", (long long)options->train_count,
               (long long)options->test_count);
    if (!source)
        return generate(options, out);
    places where;
    bool network = false;
    SPMD_TRY(find_places(source->name, &where));
    spmd_status status = load_real(source, &where, options, out, &network);
    if (!network)
        return status;
    char reason[512];
    spmd__last_reason(reason, sizeof reason);
    spmd_dataset_free(out);
    snprintf(out->notice, sizeof out->notice,
             "%s is not to be had here (%s). GENERATED DATA of the same format is used instead: results on it say "
             "nothing about %s. For the real one put its files into $SPMD_DATA/%s, or try again with a network.",
             source->name, reason, source->name, source->name);
    return generate(options, out);
}

spmd_status spmd__dataset_load_from(const spmd__data_source *source, const spmd_dataset_options *options,
                                    spmd_dataset *out)
{
    *out = (spmd_dataset){0};
    spmd_dataset_options defaults = {0};
    spmd_status status = load_or_generate(source, options ? options : &defaults, out);
    if (status != SPMD_OK)
        spmd_dataset_free(out);
    return status;
}

spmd_status spmd_dataset_load(const char *name, const spmd_dataset_options *options, spmd_dataset *out)
{
    const spmd__data_source *source = spmd__data_source_find(name);
    SPMD_CHECK(source || strcmp(name, "synthetic") == 0, SPMD_EINVAL, "no data set \"%s\", expected one of %s", name,
               spmd_dataset_names());
    return spmd__dataset_load_from(source, options, out);
}

void spmd_dataset_free(spmd_dataset *set)
{
    if (!set)
        return;
    free(set->train.images);
    free(set->train.labels);
    free(set->test.images);
    free(set->test.labels);
    *set = (spmd_dataset){0};
}
