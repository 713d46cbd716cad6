/* Batches: which example is where is a function of (seed, epoch, step), of nothing else. */
#include "models/data.h"
#include "models/data/random.h"
#include <stdlib.h>
#include <string.h>

spmd_status spmd_batches_init(const spmd_examples *examples, int64_t batch, uint64_t seed, spmd_batches *out)
{
    *out = (spmd_batches){0};
    SPMD_CHECK(examples->count < UINT32_MAX, SPMD_EINVAL, "a set of %lld examples, expected fewer than %lld",
               (long long)examples->count, (long long)UINT32_MAX);
    SPMD_CHECK(batch >= 1 && batch <= examples->count, SPMD_EINVAL,
               "batch is %lld, expected 1 to %lld, the number of examples", (long long)batch,
               (long long)examples->count);
    uint32_t *order = malloc((size_t)examples->count * sizeof *order);
    SPMD_CHECK(order, SPMD_ENOMEM, "no memory for the order of %lld examples", (long long)examples->count);
    *out = (spmd_batches){.examples = examples,
                          .batch = batch,
                          .steps_per_epoch = examples->count / batch,
                          .seed = seed,
                          .epoch = -1,
                          .order = order};
    return SPMD_OK;
}

void spmd_batches_free(spmd_batches *batches)
{
    if (!batches)
        return;
    free(batches->order);
    *batches = (spmd_batches){0};
}

/* Fisher-Yates, from the identity: an epoch's order does not depend on the one before. */
static void shuffle(spmd_batches *b, int64_t epoch)
{
    uint64_t key = random_key(b->seed, (uint64_t)epoch);
    uint32_t n = (uint32_t)b->examples->count;
    for (uint32_t i = 0; i < n; i++)
        b->order[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = random_below(random_at(key, i), i), kept = b->order[i - 1];
        b->order[i - 1] = b->order[j];
        b->order[j] = kept;
    }
    b->epoch = epoch;
}

spmd_status spmd_batches_indices(spmd_batches *b, int64_t step, const uint32_t **indices)
{
    SPMD_CHECK(step >= 0, SPMD_EINVAL, "step is %lld, expected 0 or more", (long long)step);
    int64_t epoch = step / b->steps_per_epoch;
    if (epoch != b->epoch)
        shuffle(b, epoch);
    *indices = b->order + step % b->steps_per_epoch * b->batch;
    return SPMD_OK;
}

static void copy_example(const spmd_examples *from, int64_t i, float *x, int32_t *y)
{
    const uint8_t *image = from->images + i * from->width;
    for (int64_t k = 0; k < from->width; k++)
        x[k] = (float)image[k] / 255.0f;
    *y = from->labels[i];
}

spmd_status spmd_batches_at(spmd_batches *b, int64_t step, float *x, int32_t *y)
{
    const uint32_t *indices;
    SPMD_TRY(spmd_batches_indices(b, step, &indices));
    for (int64_t i = 0; i < b->batch; i++)
        copy_example(b->examples, indices[i], x + i * b->examples->width, y + i);
    return SPMD_OK;
}

int64_t spmd_eval_steps(const spmd_examples *examples, int64_t batch)
{
    return batch < 1 ? 0 : examples->count / batch + (examples->count % batch != 0);
}

spmd_status spmd_eval_at(const spmd_examples *examples, int64_t batch, int64_t step, float *x, int32_t *y,
                         float *weight)
{
    int64_t steps = spmd_eval_steps(examples, batch), width = examples->width;
    SPMD_CHECK(batch >= 1, SPMD_EINVAL, "batch is %lld, expected 1 or more", (long long)batch);
    SPMD_CHECK(step >= 0 && step < steps, SPMD_EINVAL,
               "step is %lld, expected 0 to %lld (%lld examples in batches of %lld)", (long long)step,
               (long long)(steps - 1), (long long)examples->count, (long long)batch);
    int64_t first = step * batch, left = examples->count - first, real = left < batch ? left : batch;
    for (int64_t i = 0; i < batch; i++)
        weight[i] = i < real ? 1.0f : 0.0f;
    for (int64_t i = 0; i < real; i++)
        copy_example(examples, first + i, x + i * width, y + i);
    memset(x + real * width, 0, (size_t)((batch - real) * width) * sizeof *x);
    memset(y + real, 0, (size_t)(batch - real) * sizeof *y);
    return SPMD_OK;
}
