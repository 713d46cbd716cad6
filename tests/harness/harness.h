/* The tests' harness on Check: run a shard function on a mesh in one call, compare, differentiate numerically.
 *
 * Shards return statuses, the main thread asserts: never call ck_assert inside a shard function (Check would longjmp or
 * _exit from a foreign thread). Every test file is one executable: START_TEST ... END_TEST, then
 *     HARNESS_MAIN("gelu", tcase_add_loop_test(tc, gelu_like_golden, 0, 4); tcase_add_test(tc, gelu_keeps_nan);) */
#ifndef TESTS_HARNESS_H
#define TESTS_HARNESS_H

#include "spmd/spmdkit.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A host value: a global array and how it is cut. */
typedef struct value {
    spmd_dtype dtype;
    int rank;
    int64_t shape[SPMD_MAX_RANK];
    const char *spec; /* as for spmd_spec_parse; NULL: replicated */
    void *data;       /* shape's elements, malloc'ed; free with value_free */
} value;

#define VALUE_SHAPE(...)                                                   \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) \
    {                                                                      \
        __VA_ARGS__                                                        \
    }
int64_t value_count(const value *v);
value value_zeros(spmd_dtype dtype, const char *spec, int rank, const int64_t *shape); /* rank 0: shape may be NULL */
/* f32 (or bf16, f16: rounded) from a generator keyed by seed, uniform in [-scale, scale); integers: the same,
 * truncated. */
value value_random(spmd_dtype dtype, const char *spec, int rank, const int64_t *shape, double scale, unsigned seed);
/* Small integers 0..7 as any dtype: sums of them are exact in every order. */
value value_exact(spmd_dtype dtype, const char *spec, int rank, const int64_t *shape, unsigned seed);
value value_f32(const char *spec, int rank, const int64_t *shape, const float *data); /* copies data */
value value_i32(const char *spec, int rank, const int64_t *shape, const int32_t *data);
double value_at(const value *v, int64_t i); /* element i as double, any dtype */
void value_set(value *v, int64_t i, double x);
void value_free(value *v);
void values_free(value *v, int n);

/* harness_run - shard `in` over a fresh mesh ("data=2", backend from $SPMD_TEST_BACKEND or host), run `fn`, unshard
 * into out[k].data (allocated; dtype and shape are set from the result; out[k].spec is the out spec). The mesh is
 * destroyed, the status returned; the text stays in spmd_last_error(). Log lines are captured into harness_log(). */
spmd_status harness_run(const char *axes, spmd_shard_fn *fn, void *user, int nin, const value *in, int nout,
                        value *out);
/* The same with a job to start from (verify_replication, stats); mesh, fn, in, out, specs are filled in. */
spmd_status harness_run_job(const char *axes, const spmd_job *base, spmd_shard_fn *fn, void *user, int nin,
                            const value *in, int nout, value *out);
const char *harness_log(void); /* all lines of the last run, newline separated */

/* Fails the test, with the text, unless status is OK; or unless it is `want` and the text holds every `needles` string.
 */
#define ck_spmd_ok(expression)                                                                 \
    do {                                                                                       \
        spmd_status ck_s_ = (expression);                                                      \
        ck_assert_msg(ck_s_ == SPMD_OK, "%s: %s", spmd_status_name(ck_s_), spmd_last_error()); \
    } while (0)
#define ck_spmd_fails(expression, want, needle)                                                                    \
    do {                                                                                                           \
        spmd_status ck_s_ = (expression);                                                                          \
        ck_assert_msg(ck_s_ == (want), "got %s, wanted %s: %s", spmd_status_name(ck_s_), spmd_status_name(want),   \
                      spmd_last_error());                                                                          \
        ck_assert_msg(strstr(spmd_last_error(), (needle)) != NULL, "no '%s' in: %s", (needle), spmd_last_error()); \
    } while (0)

/* Largest |a-b| / (largest |b|, at least 1e-30); NaN counts as equal to NaN only, else the result is infinite. */
double value_difference(const value *a, const value *b);
/* Number of elements that are not bitwise equal (NaN equals NaN). Shapes and dtypes must be equal, else -1. */
int64_t value_count_wrong(const value *a, const value *b);
double dtype_tolerance(spmd_dtype dtype); /* f32 1e-5, bf16 2e-2, f16 2e-3, others 0 */

/* An op under test: out = op(in) inside a shard function. */
typedef spmd_status op_fn(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user);
/* harness_op - out of `fn` on one device (mesh "x=1"). */
spmd_status harness_op(op_fn *fn, void *user, int nin, const value *in, value *out);
/* harness_vjp - gradients of sum(out * ct) for the float inputs (others: grads[k].data NULL), on one device. */
spmd_status harness_vjp(op_fn *fn, void *user, int nin, const value *in, const value *ct, value *grads);
/* harness_check_grad - compares harness_vjp with central differences along random directions; returns the largest
 * relative error over the float inputs (expect < 1e-2 for smooth f32 functions). */
double harness_check_grad(op_fn *fn, void *user, int nin, const value *in, unsigned seed);

/* Golden values: a tensor of tests/golden/<file>.safetensors ("ops", "matmul.out"); fails the test if missing. */
value golden(const char *file, const char *name, const char *spec);

int harness_exit(SRunner *runner); /* runs, prints, frees; 0 if all passed */
double harness_timeout(void);      /* seconds for a test case, scaled under sanitizers */

#define HARNESS_MAIN(suite_name, ...)               \
    int main(void)                                  \
    {                                               \
        Suite *suite = suite_create(suite_name);    \
        TCase *tc = tcase_create(suite_name);       \
        tcase_set_timeout(tc, harness_timeout());   \
        __VA_ARGS__                                 \
        suite_add_tcase(suite, tc);                 \
        return harness_exit(srunner_create(suite)); \
    }
#endif
