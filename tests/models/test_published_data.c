/* The real data sets, where $SPMD_DATA has them: official bytes, counts and the statistics that others report. */
#include "models/data.h"
#include "spmd/testing.h"
#include <stdio.h>
#include <unistd.h>

static const struct {
    const char *name;
    int64_t train;
    double mean, deviation; /* of pixel / 255 over the training set; 0: not known */
    int64_t labels[10];     /* training examples of each class */
} sets[] = {
    {"fashion-mnist", 60000, 0.2860406, 0.3530242, {6000, 6000, 6000, 6000, 6000, 6000, 6000, 6000, 6000, 6000}},
    {"mnist", 60000, 0.1306605, 0.3081078, {5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949}},
    {"mnist-30k", 30000, 0, 0, {2961, 3423, 2948, 3073, 2926, 2709, 2975, 3107, 2875, 3003}},
};
enum { NSETS = sizeof sets / sizeof *sets };

static bool present(int i)
{
    char path[4096];
    const char *data = getenv("SPMD_DATA");
    snprintf(path, sizeof path, "%s/%s/train-images-idx3-ubyte.gz", data ? data : "", sets[i].name);
    return data && access(path, R_OK) == 0;
}

START_TEST(published_set)
{
    if (!present(_i)) {
        printf("SKIP: %s is not in $SPMD_DATA\n", sets[_i].name);
        return;
    }
    spmd_dataset set;
    ck_spmd_ok(spmd_dataset_load(sets[_i].name, NULL, &set));
    ck_assert(!set.synthetic);
    ck_assert_int_eq(set.train.count, sets[_i].train);
    ck_assert_int_eq(set.test.count, 10000);
    int64_t seen[10] = {0};
    for (int64_t i = 0; i < set.train.count; i++)
        seen[set.train.labels[i]]++;
    for (int c = 0; c < 10; c++)
        ck_assert_int_eq(seen[c], sets[_i].labels[c]);
    double sum = 0, squares = 0, n = (double)(set.train.count * set.train.width);
    for (int64_t i = 0; i < set.train.count * set.train.width; i++) {
        double x = set.train.images[i] / 255.0;
        sum += x;
        squares += x * x;
    }
    if (sets[_i].mean != 0) {
        ck_assert_double_eq_tol(sum / n, sets[_i].mean, 1e-6);
        ck_assert_double_eq_tol(sqrt(squares / n - sum / n * (sum / n)), sets[_i].deviation, 1e-6);
    }
    spmd_dataset_free(&set);
}
END_TEST

int main(void)
{
    bool any = false;
    for (int i = 0; i < NSETS; i++)
        any = any || present(i);
    if (!any) {
        puts("SKIP: none of the published data sets is in $SPMD_DATA");
        return 77;
    }
    Suite *suite = suite_create("published_data");
    TCase *tc = tcase_create("published_data");
    tcase_set_timeout(tc, spmd_test_timeout());
    tcase_add_loop_test(tc, published_set, 0, NSETS);
    suite_add_tcase(suite, tc);
    return spmd_test_exit(srunner_create(suite));
}
