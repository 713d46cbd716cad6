/* Batches: every epoch goes through the set once, in an order that only (seed, epoch) decides. */
#include "models/data.h"
#include "spmd/testing.h"

enum { COUNT = 103, WIDTH = 3, BATCH = 8, STEPS = COUNT / BATCH, EPOCHS = 3 };

static uint8_t images[COUNT * WIDTH], labels[COUNT];
static const spmd_examples set = {images, labels, COUNT, WIDTH};
static spmd_batches batches;

static void set_up(void)
{
    for (int i = 0; i < COUNT; i++) {
        labels[i] = (uint8_t)(i % 10);
        for (int k = 0; k < WIDTH; k++)
            images[i * WIDTH + k] = (uint8_t)(2 * i + k); /* tells which example it is */
    }
    ck_spmd_ok(spmd_batches_init(&set, BATCH, 1, &batches));
}

static void tear_down(void)
{
    spmd_batches_free(&batches);
}

static void copy_indices(spmd_batches *b, int64_t step, uint32_t *out)
{
    const uint32_t *indices;
    ck_spmd_ok(spmd_batches_indices(b, step, &indices));
    memcpy(out, indices, (size_t)b->batch * sizeof *out);
}

START_TEST(batches_use_every_example_at_most_once_an_epoch)
{
    ck_assert_int_eq(batches.steps_per_epoch, STEPS);
    int used[COUNT] = {0};
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        int seen[COUNT] = {0}, distinct = 0;
        for (int s = 0; s < STEPS; s++) {
            uint32_t indices[BATCH];
            copy_indices(&batches, epoch * STEPS + s, indices);
            for (int i = 0; i < BATCH; i++) {
                ck_assert_uint_lt(indices[i], COUNT);
                distinct += seen[indices[i]]++ == 0;
                used[indices[i]]++;
            }
        }
        ck_assert_int_eq(distinct, STEPS * BATCH); /* the other 7 are the dropped partial batch */
    }
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_gt(used[i], 0); /* dropped in one epoch, used in another */
}
END_TEST

START_TEST(batches_depend_on_seed_and_epoch_only)
{
    spmd_batches same, other;
    ck_spmd_ok(spmd_batches_init(&set, BATCH, 1, &same));
    ck_spmd_ok(spmd_batches_init(&set, BATCH, 2, &other));
    uint32_t first[EPOCHS * STEPS][BATCH], again[BATCH];
    for (int s = 0; s < EPOCHS * STEPS; s++)
        copy_indices(&batches, s, first[s]);
    for (int s = EPOCHS * STEPS - 1; s >= 0; s--) { /* backwards, and with an epoch change at every other call */
        copy_indices(&same, s, again);
        ck_assert_mem_eq(again, first[s], sizeof again);
        copy_indices(&same, (s + STEPS) % (EPOCHS * STEPS), again);
        ck_assert_mem_eq(again, first[(s + STEPS) % (EPOCHS * STEPS)], sizeof again);
    }
    ck_assert_mem_ne(first[0], first[STEPS], sizeof first[0]);
    copy_indices(&other, 0, again);
    ck_assert_mem_ne(again, first[0], sizeof again);
    spmd_batches_free(&same);
    spmd_batches_free(&other);
}
END_TEST

/* The order of a whole epoch is one for all batch sizes: twice the batch is two batches. */
START_TEST(batches_of_twice_the_size_are_two_batches)
{
    spmd_batches twice;
    ck_spmd_ok(spmd_batches_init(&set, 2 * BATCH, 1, &twice));
    uint32_t large[2 * BATCH], small[2 * BATCH];
    copy_indices(&twice, 1, large);
    copy_indices(&batches, 2, small);
    copy_indices(&batches, 3, small + BATCH);
    ck_assert_mem_eq(large, small, sizeof large);
    spmd_batches_free(&twice);
}
END_TEST

/* A run that is interrupted in the middle of an epoch must find its order again in a later version too. */
START_TEST(batches_order_is_pinned)
{
    static const uint32_t want[BATCH] = {39, 24, 85, 51, 87, 65, 79, 29};
    uint32_t got[BATCH];
    copy_indices(&batches, STEPS + 3, got);
    ck_assert_msg(memcmp(got, want, sizeof got) == 0, "got %u, %u, %u, %u, %u, %u, %u, %u", got[0], got[1], got[2],
                  got[3], got[4], got[5], got[6], got[7]);
}
END_TEST

/* Each place is equally likely for each example: chi-square over many epochs of a small set. */
START_TEST(batches_shuffle_evenly)
{
    enum { N = 6, RUNS = 6000 };
    const spmd_examples small = {images, labels, N, WIDTH};
    spmd_batches b;
    ck_spmd_ok(spmd_batches_init(&small, N, 7, &b));
    double counts[N][N] = {{0}}, chi = 0;
    for (int epoch = 0; epoch < RUNS; epoch++) {
        uint32_t order[N];
        copy_indices(&b, epoch, order);
        for (int i = 0; i < N; i++)
            counts[i][order[i]]++;
    }
    for (int i = 0; i < N * N; i++)
        chi += pow(counts[i / N][i % N] - RUNS / N, 2) / (RUNS / N);
    ck_assert_msg(chi < 53, "chi-square is %g with 25 degrees of freedom, expected below 53 (0.1 %%)", chi);
    spmd_batches_free(&b);
}
END_TEST

START_TEST(batches_fill_pixels_and_labels)
{
    float x[BATCH * WIDTH];
    int32_t y[BATCH];
    uint32_t indices[BATCH];
    copy_indices(&batches, 5, indices);
    ck_spmd_ok(spmd_batches_at(&batches, 5, x, y));
    for (int i = 0; i < BATCH; i++) {
        ck_assert_int_eq(y[i], labels[indices[i]]);
        for (int k = 0; k < WIDTH; k++)
            ck_assert(x[i * WIDTH + k] == (float)images[indices[i] * WIDTH + (uint32_t)k] / 255.0f);
    }
}
END_TEST

START_TEST(batches_refuse_bad_sizes)
{
    spmd_batches b;
    ck_spmd_fails(spmd_batches_init(&set, 0, 1, &b), SPMD_EINVAL, "batch is 0, expected 1 to 103");
    ck_spmd_fails(spmd_batches_init(&set, COUNT + 1, 1, &b), SPMD_EINVAL, "batch is 104, expected 1 to 103");
    ck_spmd_fails(spmd_batches_at(&batches, -1, NULL, NULL), SPMD_EINVAL, "step is -1");
    spmd_batches_free(&b);
    spmd_batches_free(NULL);
}
END_TEST

/* 103 examples in batches of 8: 13 batches, the last with 7; of 103: 1; of 200: 1 with 97 rows to fill up. */
START_TEST(eval_covers_the_set_once_in_order)
{
    static const int64_t sizes[] = {1, 8, 103, 200}, steps[] = {103, 13, 1, 1};
    int64_t batch = sizes[_i], next = 0;
    ck_assert_int_eq(spmd_eval_steps(&set, batch), steps[_i]);
    float x[200 * WIDTH], weight[200];
    int32_t y[200];
    for (int64_t s = 0; s < steps[_i]; s++) {
        memset(x, 0xff, sizeof x);
        memset(y, 0xff, sizeof y);
        ck_spmd_ok(spmd_eval_at(&set, batch, s, x, y, weight));
        for (int64_t i = 0; i < batch; i++) {
            bool real = s * batch + i < COUNT;
            ck_assert(weight[i] == (real ? 1.0f : 0.0f));
            ck_assert_int_eq(y[i], real ? labels[next] : 0);
            for (int k = 0; k < WIDTH; k++)
                ck_assert(x[i * WIDTH + k] == (real ? (float)images[next * WIDTH + k] / 255.0f : 0.0f));
            next += real;
        }
    }
    ck_assert_int_eq(next, COUNT);
}
END_TEST

START_TEST(eval_refuses_bad_steps)
{
    ck_assert_int_eq(spmd_eval_steps(&set, 0), 0);
    ck_spmd_fails(spmd_eval_at(&set, 0, 0, NULL, NULL, NULL), SPMD_EINVAL, "batch is 0");
    ck_spmd_fails(spmd_eval_at(&set, 8, 13, NULL, NULL, NULL), SPMD_EINVAL, "step is 13, expected 0 to 12");
    ck_spmd_fails(spmd_eval_at(&set, 8, -1, NULL, NULL, NULL), SPMD_EINVAL, "step is -1");
}
END_TEST

SPMD_TEST_MAIN("batches", tcase_add_checked_fixture(tc, set_up, tear_down);
               tcase_add_test(tc, batches_use_every_example_at_most_once_an_epoch);
               tcase_add_test(tc, batches_depend_on_seed_and_epoch_only);
               tcase_add_test(tc, batches_of_twice_the_size_are_two_batches);
               tcase_add_test(tc, batches_order_is_pinned); tcase_add_test(tc, batches_shuffle_evenly);
               tcase_add_test(tc, batches_fill_pixels_and_labels); tcase_add_test(tc, batches_refuse_bad_sizes);
               tcase_add_loop_test(tc, eval_covers_the_set_once_in_order, 0, 4);
               tcase_add_test(tc, eval_refuses_bad_steps);)
