/* matmul of more shapes than a device keeps code for, twice over: what was dropped is made again, and nothing is mixed
 * up. */
#include "spmd/testing.h"

enum { SHAPES = 700, K = 3 };

/* Shape i is [rows, K] x [K, columns]; all are slices of one array of small integers. */
static spmd_status products(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    spmd_tensor a, b, sum;
    SPMD_TRY(spmd_full(ctx, 0, SPMD_F32, SPMD_SCALAR, out));
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < SHAPES; i++) {
            SPMD_TRY(spmd_slice(ctx, &in[0], 0, 0, 1 + i % 26, &a));
            SPMD_TRY(spmd_slice(ctx, &in[1], 1, 0, 1 + i / 26, &b));
            SPMD_TRY(spmd_matmul(ctx, &a, &b, false, false, &sum));
            SPMD_TRY(spmd_sum(ctx, &sum, NULL, 0, false, &sum));
            SPMD_TRY(spmd_scale(ctx, &sum, 1.0 / 1024, &sum)); /* exact, as all sums here are */
            SPMD_TRY(spmd_add(ctx, out, &sum, out));
        }
    return SPMD_OK;
}

START_TEST(many_shapes)
{
    spmd_value in[2] = {spmd_value_exact(SPMD_F32, "", SPMD_SHAPE(26, K), 1),
                        spmd_value_exact(SPMD_F32, "", SPMD_SHAPE(K, 27), 2)},
               out = {.spec = ""};
    double want = 0;
    for (int i = 0; i < SHAPES; i++)
        for (int r = 0; r <= i % 26; r++)
            for (int c = 0; c <= i / 26; c++)
                for (int k = 0; k < K; k++)
                    want += spmd_value_at(&in[0], r * K + k) * spmd_value_at(&in[1], k * 27 + c) / 512;
    ck_spmd_ok(spmd_test_run("data=2", products, NULL, 2, in, 1, &out));
    ck_assert_double_eq(spmd_value_at(&out, 0), want);
    spmd_values_free(in, 2);
    spmd_value_free(&out);
}
END_TEST

SPMD_TEST_MAIN("matmul, many shapes", tcase_add_test(tc, many_shapes);)
