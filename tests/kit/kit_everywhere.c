/* One test on many meshes and backends, and one scenario with every operation failing in turn. */
#include "spmd/testing.h"
#include <stdatomic.h>

enum { MAX_VALUES = 64 };

static const char *const all_backends[] = {"host", "host-strict", NULL};

static spmd_status get_inputs(const spmd_test *test, spmd_mesh *mesh, spmd_array **arrays)
{
    for (int k = 0; k < test->nin; k++) {
        spmd_spec spec;
        SPMD_TRY(spmd_spec_parse(test->in[k].spec ? test->in[k].spec : "", &spec));
        SPMD_TRY(spmd_shard(mesh, test->in[k].data, test->in[k].dtype, test->in[k].rank, test->in[k].shape, spec,
                            &arrays[k]));
    }
    return SPMD_OK;
}

static spmd_status launch(const spmd_test *test, spmd_shard_fn *fn, spmd_mesh *mesh, spmd_array **in, spmd_array **out)
{
    spmd_spec specs[MAX_VALUES];
    SPMD_TRY(get_inputs(test, mesh, in));
    for (int k = 0; k < test->nout; k++)
        SPMD_TRY(spmd_spec_parse(test->out_specs[k], &specs[k]));
    spmd_job job = {.mesh = mesh, .fn = fn, .user = test->user, .nin = test->nin, .nout = test->nout};
    job.in = in;
    job.out = out;
    job.out_specs = specs;
    job.verify_replication = true;
    return spmd_shard_map(&job);
}

/* One launch; out[k].data is allocated. Without `out` the results are dropped. */
static spmd_status run(const spmd_test *test, spmd_shard_fn *fn, spmd_mesh *mesh, spmd_value *out)
{
    spmd_array *in[MAX_VALUES] = {NULL}, *arrays[MAX_VALUES] = {NULL};
    spmd_status status = launch(test, fn, mesh, in, arrays);
    for (int k = 0; k < test->nout && out && status == SPMD_OK; k++) {
        out[k] = spmd_value_zeros(spmd_array_dtype(arrays[k]), test->out_specs[k], spmd_array_rank(arrays[k]),
                                  spmd_array_shape(arrays[k]));
        status = spmd_unshard(arrays[k], out[k].data);
    }
    for (int k = 0; k < MAX_VALUES; k++) {
        spmd_array_destroy(in[k]);
        spmd_array_destroy(arrays[k]);
    }
    return status;
}

static spmd_status run_once(spmd_mesh *mesh, void *test)
{
    return run(test, ((const spmd_test *)test)->fn, mesh, NULL);
}

static void compare(const spmd_test *test, const char *where, int k, const spmd_value *got, const spmd_value *want)
{
    int64_t wrong = spmd_value_count_wrong(got, want);
    ck_assert_msg(wrong >= 0, "%s: output %d has another dtype or shape than was wanted", where, k);
    double tolerance = test->tolerance < 0 ? spmd_test_tolerance(want->dtype) : test->tolerance;
    double difference = wrong ? spmd_value_difference(got, want) : 0;
    int64_t i = 0;
    while (wrong && i + 1 < spmd_value_count(got) && spmd_value_at(got, i) == spmd_value_at(want, i))
        i++;
    ck_assert_msg(tolerance > 0 ? difference <= tolerance : wrong == 0,
                  "%s: output %d: %lld elements differ, by %g relative (allowed %g); element %lld is %.9g, not %.9g",
                  where, k, (long long)wrong, difference, tolerance, (long long)i, spmd_value_at(got, i),
                  spmd_value_at(want, i));
}

static void run_on(const spmd_test *test, const char *axes, const char *backend)
{
    char where[128];
    spmd_mesh *mesh;
    spmd_value want[MAX_VALUES], got[MAX_VALUES], again[MAX_VALUES];
    snprintf(where, sizeof where, "mesh %s, backend %s", axes, backend);
    ck_spmd_ok(spmd_mesh_create(axes, backend, &mesh));
    ck_spmd_ok(run(test, test->fn, mesh, got));
    ck_spmd_ok(run(test, test->fn, mesh, again));
    if (test->same_as)
        ck_spmd_ok(run(test, test->same_as, mesh, want));
    else
        test->want(mesh, test->in, want, test->user);
    for (int k = 0; k < test->nout; k++) {
        compare(test, where, k, &got[k], &want[k]);
        ck_assert_msg(spmd_value_count_wrong(&got[k], &again[k]) == 0, "%s: output %d: a second run gave other bits",
                      where, k);
    }
    spmd_values_free(want, test->nout);
    spmd_values_free(got, test->nout);
    spmd_values_free(again, test->nout);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
    for (int operation = 0; test->failures && operation < 2; operation++)
        spmd_test_each_failure(axes, backend, operation ? SPMD_ALLOCATION : SPMD_COLLECTIVE, run_once, (void *)test);
}

void spmd_test_everywhere(const spmd_test *test)
{
    const char *const chosen[] = {spmd_test_backend(), NULL};
    const char *const *backends = test->backends ? test->backends : chosen[0] ? chosen : all_backends;
    ck_assert_msg(test->nin <= MAX_VALUES && test->nout <= MAX_VALUES, "at most %d inputs and outputs", MAX_VALUES);
    for (int b = 0; backends[b]; b++)
        for (int m = 0; test->meshes[m]; m++)
            run_on(test, test->meshes[m], backends[b]);
}

typedef struct countdown {
    spmd_operation operation;
    atomic_int left; /* operations that may still succeed; below zero: all may again */
    atomic_bool fired;
} countdown;

static bool let_pass(void *user, spmd_operation operation, size_t bytes)
{
    (void)bytes;
    countdown *c = user;
    if (operation != c->operation || atomic_fetch_sub(&c->left, 1) != 0)
        return true;
    atomic_store(&c->fired, true);
    return false;
}

int spmd_test_each_failure(const char *axes, const char *backend, spmd_operation operation,
                           spmd_test_scenario *scenario, void *user)
{
    for (int n = 0;; n++) {
        spmd_mesh *mesh;
        countdown c = {.operation = operation};
        atomic_store(&c.left, n);
        ck_spmd_ok(spmd_mesh_create(axes, backend, &mesh));
        spmd_mesh_set_log(mesh, NULL, NULL);
        spmd_mesh_set_fault_hook(mesh, let_pass, &c);
        spmd_status status = scenario(mesh, user);
        bool fired = atomic_load(&c.fired);
        ck_assert_msg(fired == (status != SPMD_OK), "failure %d: %s", n,
                      fired ? "the scenario succeeded although an operation failed" : spmd_last_error());
        if (fired) {
            ck_assert_msg(*spmd_last_error(), "failure %d: %s without a text", n, spmd_status_name(status));
            spmd_mesh_set_fault_hook(mesh, NULL, NULL);
            ck_spmd_ok(scenario(mesh, user));
        }
        ck_spmd_ok(spmd_mesh_destroy(mesh));
        if (!fired)
            return n;
    }
}
