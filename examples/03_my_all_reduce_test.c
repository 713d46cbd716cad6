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

static spmd_status known_sum(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_psum(ctx, &in[0], "x", &out[0]);
}

START_TEST(ring_sum_is_right_everywhere)
{
    spmd_value in = spmd_value_exact(SPMD_F32, "x", SPMD_SHAPE(840), 1);
    spmd_test test = {.fn = ring_sum, .same_as = known_sum, .nin = 1, .in = &in, .nout = 1, .failures = true};
    test.out_specs = (const char *[]){"x"};
    test.meshes = (const char *[]){"x=1", "x=2", "x=3", "x=8", "x=2,y=2", NULL};
    spmd_test_everywhere(&test);
    spmd_value_free(&in);
}
END_TEST

SPMD_TEST_MAIN("my all-reduce", tcase_add_test(tc, ring_sum_is_right_everywhere);)
