/* Generated images: every class has a smooth random pattern; an example is its class's pattern, moved by up to three
 * pixels, with some of another class's pattern and noise on it. Easy on purpose (nearest class mean: 99 %): it shows
 * whether training works, not how good a model is.
 * Integer arithmetic only: the same bytes on every machine and compiler. */
#include "models/data/synthetic.h"
#include "models/data/random.h"
#include <stdlib.h>

enum { SIDE = 28, CLASSES = 10, TRAIN = 60000, TEST = 10000 };
enum { CELL = 4, SHIFT = 4, FIELD = SIDE + SHIFT, KNOTS = FIELD / CELL + 1 };
enum { STREAM_PATTERN, STREAM_TRAIN, STREAM_TEST };

typedef uint8_t pattern[FIELD][FIELD];

/* Random heights on a coarse grid, linear in between. */
static void draw_pattern(uint64_t key, pattern out)
{
    int knots[KNOTS][KNOTS];
    for (int i = 0; i < KNOTS * KNOTS; i++)
        knots[i / KNOTS][i % KNOTS] = (int)random_below(random_at(key, (uint64_t)i), 256);
    for (int r = 0; r < FIELD; r++) {
        for (int c = 0; c < FIELD; c++) {
            int i = r / CELL, j = c / CELL, u = r % CELL, v = c % CELL;
            int upper = knots[i][j] * (CELL - v) + knots[i][j + 1] * v;
            int lower = knots[i + 1][j] * (CELL - v) + knots[i + 1][j + 1] * v;
            out[r][c] = (uint8_t)((upper * (CELL - u) + lower * u) / (CELL * CELL));
        }
    }
}

static int clamp(int x)
{
    return x < 0 ? 0 : x > 255 ? 255 : x;
}

static uint8_t draw_example(uint64_t key, const pattern *patterns, uint8_t *image)
{
    uint32_t label = random_below(random_at(key, 0), CLASSES);
    uint32_t other = random_below(random_at(key, 1), CLASSES);
    uint32_t down = random_below(random_at(key, 2), SHIFT), right = random_below(random_at(key, 3), SHIFT);
    for (int r = 0; r < SIDE; r++) {
        uint64_t bits = 0;
        for (int c = 0; c < SIDE; c++, bits >>= 8) {
            if (c % 8 == 0)
                bits = random_at(key, (uint64_t)(4 + r * CELL + c / 8));
            int noise = (int)(bits & 255) - 128;
            int mixed = 5 * patterns[label][r + (int)down][c + (int)right] + 3 * patterns[other][r][c];
            image[r * SIDE + c] = (uint8_t)clamp(mixed / 8 + noise / 2);
        }
    }
    return (uint8_t)label;
}

static spmd_status fill(uint64_t key, const pattern *patterns, int64_t count, spmd_examples *out)
{
    out->width = SIDE * SIDE;
    out->count = count;
    /* A count so large that the bytes overflow is no count that memory could hold. */
    size_t bytes = count <= INT64_MAX / out->width ? (size_t)(count * out->width) : SIZE_MAX / 2;
    out->images = malloc(bytes);
    out->labels = malloc((size_t)count);
    SPMD_CHECK(out->images && out->labels, SPMD_ENOMEM, "no memory for %lld generated examples: ask for fewer",
               (long long)count);
    for (int64_t i = 0; i < count; i++)
        out->labels[i] = draw_example(random_key(key, (uint64_t)i), patterns, out->images + i * out->width);
    return SPMD_OK;
}

spmd_status spmd__synthetic_fill(uint64_t seed, int64_t train_count, int64_t test_count, spmd_dataset *out)
{
    pattern patterns[CLASSES];
    uint64_t key = random_key(seed, STREAM_PATTERN);
    for (int c = 0; c < CLASSES; c++)
        draw_pattern(random_key(key, (uint64_t)c), patterns[c]);
    out->classes = CLASSES;
    const pattern *shared = (const pattern *)patterns;
    SPMD_TRY(fill(random_key(seed, STREAM_TRAIN), shared, train_count ? train_count : TRAIN, &out->train));
    return fill(random_key(seed, STREAM_TEST), shared, test_count ? test_count : TEST, &out->test);
}
