/* Image data sets on the host, and batches of them.
 *
 * A set is bytes as in the IDX files: one row of `width` pixels and one label an example. It is looked for, file by
 * file, in $SPMD_DATA/<name>/, then in ${XDG_CACHE_HOME:-$HOME/.cache}/spmdkit/<name>/, else it is downloaded there.
 * Where it cannot be had (no network, built without libcurl) a generated set of the same format takes its place:
 * `synthetic` and `notice` say so, and whoever reports results must say it too.
 *
 * Batches are global: row i of a batch is the same example for every number of devices, spmd_shard_update cuts it.
 * Everything here is plain host code: it allocates with malloc, knows no mesh and needs no launch. */
#ifndef MODELS_DATA_H
#define MODELS_DATA_H

#include "spmd/status.h"
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Examples in file order. */
typedef struct spmd_examples {
    uint8_t *images; /* [count, width], 0..255 */
    uint8_t *labels; /* [count], each below the set's `classes` */
    int64_t count;
    int64_t width; /* pixels of one image */
} spmd_examples;

typedef struct spmd_dataset {
    const char *name; /* "synthetic" if generated, whatever was asked for */
    spmd_examples train;
    spmd_examples test;
    int64_t classes;
    bool synthetic;
    char source[1024]; /* where it came from, for people */
    char notice[1024]; /* "" or why the set is not the one asked for: to be shown to the user */
} spmd_dataset;

/* Called while a file is downloaded, at most some ten times a second and once at its end; `total` is its full size.
 * Returning false stops the download; what has come so far is kept and continued next time. */
typedef bool spmd_download_fn(void *user, const char *file, int64_t done, int64_t total);

/* The zero value is the default. */
typedef struct spmd_dataset_options {
    int64_t train_count; /* only the first so many examples; 0: all (60000 of a generated set) */
    int64_t test_count;  /* 0: all (10000 of a generated set) */
    uint64_t seed;       /* of a generated set; real sets do not depend on it */
    spmd_download_fn *progress;
    void *user; /* first argument of progress */
} spmd_dataset_options;

/* Names for help texts: "fashion-mnist, mnist, mnist-30k, synthetic". */
SPMD_API const char *spmd_dataset_names(void);

/* Version text of the library that downloads ("libcurl/7.88.1 ..."), NULL if it is not built in: then files are also
 * checked by size only, not by md5. */
SPMD_API const char *spmd_dataset_downloader(void);

/* spmd_dataset_load - fill *out; `options` may be NULL. Free with spmd_dataset_free.
 * Errors: EINVAL unknown name (lists the names), counts larger than the set; EDATA a file that is not what it should
 * be (a wrong file in the cache is fetched anew, one in $SPMD_DATA is an error), label out of range; EIO no such file
 * and no place to download it from (mnist-30k), disk full; EUSER progress returned false; ENOMEM.
 * A network that does not answer is no error: see `synthetic`. */
SPMD_API spmd_status spmd_dataset_load(const char *name, const spmd_dataset_options *options, spmd_dataset *out);
SPMD_API void spmd_dataset_free(spmd_dataset *set); /* leaves the zero value; NULL or a zero value is fine */

/* Training batches in an order that is a function of (seed, epoch) only: a fresh permutation every epoch, its first
 * steps_per_epoch * batch examples used, the partial last batch dropped (its examples come in other epochs). */
typedef struct spmd_batches {
    const spmd_examples *examples; /* borrowed */
    int64_t batch;
    int64_t steps_per_epoch;
    uint64_t seed;
    int64_t epoch;   /* the epoch `order` stands for; -1: none yet */
    uint32_t *order; /* [examples->count] */
} spmd_batches;

/* Errors: EINVAL batch < 1 or larger than the set; ENOMEM. All memory is taken here: steps allocate nothing. */
SPMD_API spmd_status spmd_batches_init(const spmd_examples *examples, int64_t batch, uint64_t seed, spmd_batches *out);
SPMD_API void spmd_batches_free(spmd_batches *batches);

/* spmd_batches_at - global batch of step `step` (0, 1, ...; epoch = step / steps_per_epoch) into x [batch, width],
 * pixels / 255, and y [batch]. Random access: a run that resumes at step s gets what it would have got.
 * Errors: EINVAL negative step. */
SPMD_API spmd_status spmd_batches_at(spmd_batches *batches, int64_t step, float *x, int32_t *y);
/* The same as indices into the set: *indices points at `batch` of them, valid until the next call. */
SPMD_API spmd_status spmd_batches_indices(spmd_batches *batches, int64_t step, const uint32_t **indices);

/* Evaluation goes through a set in file order, every example once: ceil(count / batch) batches, the last one filled
 * up with rows of zeros whose weight is 0 (all others: 1), so that any set fits any batch. */
SPMD_API int64_t spmd_eval_steps(const spmd_examples *examples, int64_t batch); /* 0 if batch < 1 */
/* x [batch, width], y [batch], weight [batch]. Errors: EINVAL step or batch out of range. */
SPMD_API spmd_status spmd_eval_at(const spmd_examples *examples, int64_t batch, int64_t step, float *x, int32_t *y,
                                  float *weight);

#ifdef __cplusplus
}
#endif
#endif
