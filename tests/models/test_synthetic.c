/* The generated set: the same bytes everywhere, and something that can be learned. */
#include "models/data.h"
#include "spmd/testing.h"

static spmd_dataset load(uint64_t seed, int64_t train, int64_t test)
{
    spmd_dataset set;
    ck_spmd_ok(spmd_dataset_load(
        "synthetic", &(spmd_dataset_options){.seed = seed, .train_count = train, .test_count = test}, &set));
    ck_assert(set.synthetic);
    ck_assert_str_eq(set.notice, ""); /* it is what was asked for */
    ck_assert_int_eq(set.classes, 10);
    return set;
}

static uint64_t hash(uint64_t h, const uint8_t *bytes, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        h = (h ^ bytes[i]) * 0x100000001b3u;
    return h;
}

START_TEST(synthetic_is_a_function_of_the_seed)
{
    spmd_dataset a = load(0, 1000, 10), b = load(0, 200, 0), c = load(1, 200, 10);
    ck_assert_int_eq(b.test.count, 10000);
    ck_assert_mem_eq(a.train.images, b.train.images, (size_t)(200 * 784)); /* a smaller set is the beginning */
    ck_assert_mem_eq(a.train.labels, b.train.labels, 200);
    ck_assert_mem_eq(a.test.images, b.test.images, (size_t)(10 * 784));
    ck_assert_mem_ne(a.train.images, c.train.images, 784);
    ck_assert_mem_ne(a.train.images, a.test.images, 784);
    uint64_t h = hash(hash(0xcbf29ce484222325u, a.train.images, 1000 * 784), a.train.labels, 1000);
    ck_assert_msg(h == 0x9c69114854f4653au, "hash is 0x%llx: another machine would train on other data",
                  (unsigned long long)h);
    spmd_dataset_free(&a);
    spmd_dataset_free(&b);
    spmd_dataset_free(&c);
}
END_TEST

/* Share of test images that are nearest to the mean training image of their class. */
static double nearest_mean(const spmd_dataset *set)
{
    int64_t width = set->train.width, right = 0;
    double *mean = calloc((size_t)(10 * width), sizeof *mean), count[10] = {0};
    for (int64_t i = 0; i < set->train.count; i++) {
        int label = set->train.labels[i];
        count[label]++;
        for (int64_t k = 0; k < width; k++)
            mean[label * width + k] += set->train.images[i * width + k];
    }
    for (int64_t i = 0; i < set->test.count; i++) {
        int best = -1;
        double least = INFINITY;
        for (int c = 0; c < 10; c++) {
            double distance = 0;
            for (int64_t k = 0; k < width; k++)
                distance += pow(mean[c * width + k] / count[c] - set->test.images[i * width + k], 2);
            if (distance < least) {
                least = distance;
                best = c;
            }
        }
        right += best == set->test.labels[i];
    }
    free(mean);
    return (double)right / (double)set->test.count;
}

START_TEST(synthetic_can_be_learned)
{
    spmd_dataset set = load(3, 2000, 500);
    double share = nearest_mean(&set);
    ck_assert_msg(share > 0.9, "nearest class mean gets %g, expected 0.99", share);
    spmd_dataset_free(&set);
}
END_TEST

SPMD_TEST_MAIN("synthetic", tcase_add_test(tc, synthetic_is_a_function_of_the_seed);
               tcase_add_test(tc, synthetic_can_be_learned);)
