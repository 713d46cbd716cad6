/* The testing kit: shard functions under test with Check, on many meshes and backends, without a GPU.
 *
 * Link spmdkit::testing. Shards return statuses and the main thread asserts: never call ck_assert inside a shard
 * function (Check would longjmp or _exit from a foreign thread). Check forks every test, so a mesh is created inside
 * the test; for a debugger set CK_FORK=no. A test file is one program: START_TEST(sums_are_right) { ... } END_TEST
 *     SPMD_TEST_MAIN("my collectives", tcase_add_test(tc, sums_are_right);)
 * examples/03_my_all_reduce_test.c is a worked example. */
#ifndef SPMD_TESTING_H
#define SPMD_TESTING_H

#include "spmd/spmdkit.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- host values: a global array and how it is cut --- */
typedef struct spmd_value {
    spmd_dtype dtype;
    int rank;
    int64_t shape[SPMD_MAX_RANK];
    const char *spec; /* as for spmd_spec_parse; NULL: replicated */
    void *data;       /* shape's elements, malloc'ed; free with spmd_value_free */
} spmd_value;

SPMD_API int64_t spmd_value_count(const spmd_value *v);
/* The makers below abort the test when out of memory. rank 0: shape may be NULL (SPMD_SCALAR). */
SPMD_API spmd_value spmd_value_zeros(spmd_dtype dtype, const char *spec, int rank, const int64_t *shape);
/* Uniform in [-scale, scale), a function of (seed, index); integers: the same, truncated. */
SPMD_API spmd_value spmd_value_random(spmd_dtype dtype, const char *spec, int rank, const int64_t *shape, double scale,
                                      unsigned seed);
/* Small integers 0..7 as any dtype: sums of them are exact in every order, so a wrong element is a wrong element. */
SPMD_API spmd_value spmd_value_exact(spmd_dtype dtype, const char *spec, int rank, const int64_t *shape, unsigned seed);
SPMD_API spmd_value spmd_value_f32(const char *spec, int rank, const int64_t *shape, const float *data); /* copies */
SPMD_API spmd_value spmd_value_i32(const char *spec, int rank, const int64_t *shape, const int32_t *data);
SPMD_API double spmd_value_at(const spmd_value *v, int64_t i); /* element i as double, any dtype */
SPMD_API void spmd_value_set(spmd_value *v, int64_t i, double x);
SPMD_API void spmd_value_free(spmd_value *v);
SPMD_API void spmd_values_free(spmd_value *v, int n);

/* Largest |a-b| / largest |b|; NaN equals NaN only, else the result is infinite. Other type or shape: infinite. */
SPMD_API double spmd_value_difference(const spmd_value *a, const spmd_value *b);
/* Number of elements that are not bitwise equal (NaN equals NaN). Other type or shape: -1. */
SPMD_API int64_t spmd_value_count_wrong(const spmd_value *a, const spmd_value *b);
SPMD_API double spmd_test_tolerance(spmd_dtype dtype); /* f32 1e-5, bf16 2e-2, f16 2e-3, others 0 */

/* --- one launch --- */
/* The backend that tests run on: $SPMD_TEST_BACKEND, or NULL (host) if it is not set. For spmd_mesh_create. */
SPMD_API const char *spmd_test_backend(void);
/* spmd_test_run - shard `in` over a fresh mesh (backend: spmd_test_backend()), run `fn`, unshard into
 * out[k].data (allocated; dtype and shape come from the result; out[k].spec is the out spec). The mesh is destroyed,
 * the status returned; the text stays in spmd_last_error(). Log lines are kept for spmd_test_log(). */
SPMD_API spmd_status spmd_test_run(const char *axes, spmd_shard_fn *fn, void *user, int nin, const spmd_value *in,
                                   int nout, spmd_value *out);
/* The same with a job to start from (verify_replication, stats); mesh, fn, in, out, specs are filled in. */
SPMD_API spmd_status spmd_test_run_job(const char *axes, const spmd_job *base, spmd_shard_fn *fn, void *user, int nin,
                                       const spmd_value *in, int nout, spmd_value *out);
SPMD_API const char *spmd_test_log(void); /* all lines of the last run, newline separated */

/* --- one test on many meshes and backends --- */
typedef struct spmd_test {
    spmd_shard_fn *fn;
    void *user;
    int nin, nout;
    const spmd_value *in;
    const char *const *out_specs; /* nout of them */
    /* What the outputs must be: those of another shard function, which is known to be right; */
    spmd_shard_fn *same_as;
    /* or, if that is NULL, computed for this mesh: fills want[k] (spmd_value_...; the caller frees them). */
    void (*want)(const spmd_mesh *mesh, const spmd_value *in, spmd_value *want, void *user);
    bool failures;               /* also with every collective and every allocation failing in turn */
    double tolerance;            /* 0: every element exactly; negative: spmd_test_tolerance of the dtype */
    const char *const *meshes;   /* ends with NULL */
    const char *const *backends; /* ends with NULL; NULL: $SPMD_TEST_BACKEND, or host and host-strict */
} spmd_test;
/* spmd_test_everywhere - runs the test on every mesh and backend, each twice, which must give the same bits; asserts
 * that launches succeed and outputs are right, naming mesh, backend, output and element. With `failures` on each of
 * them spmd_test_each_failure as well. */
SPMD_API void spmd_test_everywhere(const spmd_test *test);

/* spmd_test_each_failure - runs `scenario` on a fresh mesh with the first, second, ... `operation` failing (see
 * spmd_mesh_set_fault_hook), until it succeeds untouched. Asserts that every run with a failure returns a status with a
 * text, that the same mesh then runs the scenario successfully, and that it can be destroyed. Returns the number of
 * failures that were tried. Leaks and hangs are for the sanitizers and the test's time limit to see. */
typedef spmd_status spmd_test_scenario(spmd_mesh *mesh, void *user);
SPMD_API int spmd_test_each_failure(const char *axes, const char *backend, spmd_operation operation,
                                    spmd_test_scenario *scenario, void *user);

/* --- an op alone: out = op(in) inside a shard function, on one device --- */
typedef spmd_status spmd_test_op_fn(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user);
SPMD_API spmd_status spmd_test_op(spmd_test_op_fn *fn, void *user, int nin, const spmd_value *in, spmd_value *out);
/* Gradients of sum(out * ct) for the floating inputs (others: grads[k].data NULL). */
SPMD_API spmd_status spmd_test_vjp(spmd_test_op_fn *fn, void *user, int nin, const spmd_value *in, const spmd_value *ct,
                                   spmd_value *grads);
/* Compares spmd_test_vjp with central differences along random directions; returns the largest relative error over the
 * floating inputs (expect < 1e-2 for smooth f32 functions). */
SPMD_API double spmd_test_check_grad(spmd_test_op_fn *fn, void *user, int nin, const spmd_value *in, unsigned seed);

/* --- assertions on statuses --- */
#define ck_spmd_ok(expression)                                                                 \
    do {                                                                                       \
        spmd_status ck_s_ = (expression);                                                      \
        ck_assert_msg(ck_s_ == SPMD_OK, "%s: %s", spmd_status_name(ck_s_), spmd_last_error()); \
    } while (0)
/* The status must be `want` and its text hold `needle`. */
#define ck_spmd_fails(expression, want, needle)                                                                    \
    do {                                                                                                           \
        spmd_status ck_s_ = (expression);                                                                          \
        ck_assert_msg(ck_s_ == (want), "got %s, wanted %s: %s", spmd_status_name(ck_s_), spmd_status_name(want),   \
                      spmd_last_error());                                                                          \
        ck_assert_msg(strstr(spmd_last_error(), (needle)) != NULL, "no '%s' in: %s", (needle), spmd_last_error()); \
    } while (0)

/* --- the program --- */
SPMD_API double spmd_test_timeout(void);         /* seconds for a test case: 60, longer where all is checked */
SPMD_API int spmd_test_exit(SRunner *runner);    /* runs, prints, frees; 0 if all passed: for main to return */
SPMD_API int spmd_test_skip(const char *reason); /* prints "SKIP: reason"; 77, for main to return (ctest: Skipped) */

#define SPMD_TEST_MAIN(suite_name, ...)               \
    int main(void)                                    \
    {                                                 \
        Suite *suite = suite_create(suite_name);      \
        TCase *tc = tcase_create(suite_name);         \
        tcase_set_timeout(tc, spmd_test_timeout());   \
        __VA_ARGS__                                   \
        suite_add_tcase(suite, tc);                   \
        return spmd_test_exit(srunner_create(suite)); \
    }

#ifdef __cplusplus
}
#endif
#endif
