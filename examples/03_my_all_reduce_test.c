/* A user's own all-reduce, tested: a ring of ppermutes. Look at: no GPU, every mesh and backend from one table, exact
 * inputs, and each collective failing in turn without a hang. Link spmdkit::testing. */
#include "spmd/testing.h"

/* Sum along "x": each shard adds what comes round the ring, n - 1 times. */
static spmd_status ring_sum(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    int n, pairs[SPMD_MAX_DEVICES][2];
    SPMD_TRY(spmd_axis_size(ctx, "x", &n));
    for (int k = 0; k < n; k++)
        pairs[k][0] = k, pairs[k][1] = (k + 1) % n;
    spmd_tensor passing = in[0];
    out[0] = in[0];
    for (int k = 1; k < n; k++) {
        SPMD_TRY(spmd_ppermute(ctx, &passing, "x", (const int(*)[2])pairs, n, &passing));
        SPMD_TRY(spmd_add(ctx, &out[0], &passing, &out[0]));
    }
    return SPMD_OK;
}

/* `in` is cut over x: its blocks, summed; every shard holds the sum. */
static void sum_of_blocks(const spmd_mesh *mesh, const spmd_value *in, spmd_value *want, void *user)
{
    (void)user;
    int64_t n = spmd_mesh_axis_size(mesh, 0), block = in->shape[0] / n;
    want[0] = spmd_value_zeros(SPMD_F32, "x", SPMD_SHAPE(in->shape[0]));
    for (int64_t i = 0; i < in->shape[0]; i++)
        for (int64_t k = 0; k < n; k++)
            spmd_value_set(&want[0], i, spmd_value_at(&want[0], i) + spmd_value_at(in, i % block + k * block));
}

START_TEST(ring_sum_everywhere)
{
    spmd_value in = spmd_value_exact(SPMD_F32, "x", SPMD_SHAPE(840), 1);
    spmd_test_everywhere(&(spmd_test){.fn = ring_sum,
                                      .nin = 1,
                                      .in = &in,
                                      .nout = 1,
                                      .out_specs = (const char *[]){"x"},
                                      .want = sum_of_blocks,
                                      .meshes = (const char *[]){"x=1", "x=2", "x=3", "x=8", "x=2,y=2", NULL}});
    spmd_value_free(&in);
}
END_TEST

static spmd_status scenario(spmd_mesh *mesh, void *user)
{
    spmd_array *x, *y = NULL;
    spmd_spec spec = SPMD_P("x");
    SPMD_TRY(spmd_shard(mesh, user, SPMD_F32, SPMD_SHAPE(6), spec, &x));
    spmd_job job = {.mesh = mesh, .fn = ring_sum, .nin = 1, .in = &x, .nout = 1, .out = &y, .out_specs = &spec};
    spmd_status status = spmd_shard_map(&job);
    spmd_array_destroy(x);
    spmd_array_destroy(y);
    return status;
}

START_TEST(ring_sum_survives_failures)
{
    float data[6] = {1, 2, 3, 4, 5, 6};
    ck_assert_int_gt(spmd_test_each_failure("x=3", "host", SPMD_COLLECTIVE, scenario, data), 5);
    ck_assert_int_gt(spmd_test_each_failure("x=3", "host", SPMD_ALLOCATION, scenario, data), 5);
}
END_TEST

SPMD_TEST_MAIN("my all-reduce", tcase_add_test(tc, ring_sum_everywhere);
               tcase_add_test(tc, ring_sum_survives_failures);)
