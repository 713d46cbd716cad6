#include <spmd/testing.h>

static spmd_status body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_psum(ctx, &in[0], "x", &out[0]);
}

START_TEST(psum_of_exact_values)
{
    const float data[] = {1, 2, 3, 4};
    spmd_value in = spmd_value_f32("x", SPMD_SHAPE(4), data), out = {.spec = ""};
    ck_spmd_ok(spmd_test_run("x=4", body, NULL, 1, &in, 1, &out));
    ck_assert(spmd_value_at(&out, 0) == 10);
    spmd_value_free(&in);
    spmd_value_free(&out);
}
END_TEST

SPMD_TEST_MAIN("consumer", tcase_add_test(tc, psum_of_exact_values);)
