/* One launch as one call: mesh, arrays, job, results, and all of it gone again, whatever fails on the way. */
#include "spmd/testing.h"

enum { MAX_VALUES = 256 };

static struct {
    char text[1 << 16];
    size_t used;
} captured;

const char *spmd_test_log(void)
{
    return captured.text;
}

/* The mesh calls this from any thread, but never twice at once. */
static void capture(void *user, const char *line)
{
    (void)user;
    if (!strncmp(line, "host-strict:", 12)) { /* the seed: shown, but no part of what a test expects */
        fprintf(stderr, "%s\n", line);
        return;
    }
    int n = snprintf(captured.text + captured.used, sizeof captured.text - captured.used, "%s\n", line);
    if (n > 0 && captured.used + (size_t)n < sizeof captured.text)
        captured.used += (size_t)n;
}

const char *spmd_test_backend(void)
{
    return getenv("SPMD_TEST_BACKEND");
}

static spmd_status parse_spec(const spmd_value *v, spmd_spec *out)
{
    *out = SPMD_REPLICATED;
    return v->spec ? spmd_spec_parse(v->spec, out) : SPMD_OK;
}

static spmd_status fetch(const spmd_array *array, spmd_value *out)
{
    *out = spmd_value_zeros(spmd_array_dtype(array), out->spec, spmd_array_rank(array), spmd_array_shape(array));
    return spmd_unshard(array, out->data);
}

/* The launch on a mesh that stands; arrays made here are destroyed by the caller. */
static spmd_status launch(spmd_mesh *mesh, spmd_job *job, const spmd_value *in, spmd_value *out, spmd_array **arrays)
{
    spmd_spec out_specs[MAX_VALUES];
    for (int k = 0; k < job->nin; k++) {
        spmd_spec spec;
        SPMD_TRY(parse_spec(&in[k], &spec));
        SPMD_TRY(spmd_shard(mesh, in[k].data, in[k].dtype, in[k].rank, in[k].shape, spec, &arrays[k]));
    }
    for (int k = 0; k < job->nout; k++)
        SPMD_TRY(parse_spec(&out[k], &out_specs[k]));
    job->mesh = mesh;
    job->in = arrays;
    job->in_specs = NULL;
    job->out = arrays + job->nin;
    job->out_specs = out_specs;
    SPMD_TRY(spmd_shard_map(job));
    for (int k = 0; k < job->nout; k++)
        SPMD_TRY(fetch(job->out[k], &out[k]));
    return SPMD_OK;
}

spmd_status spmd_test_run_job(const char *axes, const spmd_job *base, spmd_shard_fn *fn, void *user, int nin,
                              const spmd_value *in, int nout, spmd_value *out)
{
    spmd_array *arrays[MAX_VALUES] = {NULL};
    spmd_mesh *mesh = NULL;
    spmd_job job = *base;
    job.fn = fn;
    job.user = user;
    job.nin = nin;
    job.nout = nout;
    for (int k = 0; k < nout; k++)
        out[k].data = NULL;
    captured.used = 0;
    captured.text[0] = '\0';
    SPMD_CHECK(nin + nout <= MAX_VALUES, SPMD_EINVAL, "harness: %d values, at most %d", nin + nout, MAX_VALUES);
    SPMD_TRY(spmd_mesh_create(axes, spmd_test_backend(), &mesh));
    spmd_mesh_set_log(mesh, capture, NULL);
    spmd_status status = launch(mesh, &job, in, out, arrays);
    if (status != SPMD_OK)
        spmd_values_free(out, nout);
    for (int k = 0; k < nin + nout; k++)
        spmd_array_destroy(arrays[k]);
    spmd_status destroyed = spmd_mesh_destroy(mesh);
    return status != SPMD_OK ? status : destroyed;
}

spmd_status spmd_test_run(const char *axes, spmd_shard_fn *fn, void *user, int nin, const spmd_value *in, int nout,
                          spmd_value *out)
{
    return spmd_test_run_job(axes, &(spmd_job){0}, fn, user, nin, in, nout, out);
}

double spmd_test_timeout(void)
{
    double seconds = 60;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(SPMD_EMU)
    return seconds * 5;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return seconds * 5;
#endif
#endif
    return seconds;
}

int spmd_test_exit(SRunner *runner)
{
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    if (failed && srunner_fork_status(runner) == CK_FORK)
        fprintf(stderr, "Every test ran in a process of its own; for a debugger set CK_FORK=no, one test: "
                        "CK_RUN_CASE=<case>; no time limit on meetings: SPMD_TIMEOUT_MS=0.\n");
    srunner_free(runner);
    return failed != 0;
}

int spmd_test_skip(const char *reason)
{
    printf("SKIP: %s\n", reason);
    return 77;
}
