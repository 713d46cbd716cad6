/* pshuffle: values, what is no permutation, its gradient. */
#include "spmd/testing.h"

/* --- pshuffle --- */
typedef struct shuffle {
    int n, perm[4];
    const char *says; /* NULL: it is valid */
} shuffle;

static spmd_status run_shuffle(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const shuffle *s = user;
    return spmd_pshuffle(ctx, in, "x", s->perm, s->n, out);
}

START_TEST(shuffles)
{
    static const shuffle cases[] = {
        {4, {3, 0, 1, 2}, NULL},
        {4, {0, 1, 2, 3}, NULL},
        {4, {2, 3, 1, 0}, NULL},
        {4, {1, 1, 2, 3}, "index 1 is 1, which stands before"},
        {4, {0, 1, 2, 4}, "index 3 is 4; expected 0 to 3"},
        {4, {0, -1, 2, 3}, "index 1 is -1; expected 0 to 3"},
        {3, {0, 1, 2}, "3 indices at address 0x"},
    };
    shuffle s = cases[_i];
    spmd_value x = spmd_value_f32("x", SPMD_SHAPE(4), (float[]){10, 11, 12, 13}), y = {.spec = "x"};
    if (s.says) {
        ck_spmd_fails(spmd_test_run("x=4", run_shuffle, &s, 1, &x, 1, &y), SPMD_EINVAL, s.says);
    } else {
        ck_spmd_ok(spmd_test_run("x=4", run_shuffle, &s, 1, &x, 1, &y));
        for (int k = 0; k < 4; k++)
            ck_assert(spmd_value_at(&y, k) == 10 + s.perm[k]);
        spmd_value_free(&y);
    }
    spmd_value_free(&x);
}
END_TEST

static spmd_status shuffle_loss(spmd_ctx *ctx, const spmd_tensor *x, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    spmd_tensor y, index;
    SPMD_TRY(run_shuffle(ctx, x, &y, user));
    SPMD_TRY(spmd_axis_index(ctx, "x", &index));
    SPMD_TRY(spmd_cast(ctx, &index, SPMD_F32, &index));
    SPMD_TRY(spmd_mul(ctx, &y, &index, &y));
    SPMD_TRY(spmd_sum(ctx, &y, NULL, 0, false, &y));
    return spmd_psum(ctx, &y, "x", loss);
}

static spmd_status shuffle_grad(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return spmd_grad(ctx, shuffle_loss, user, in, 1, out);
}

START_TEST(a_shuffle_is_transposed_by_its_inverse)
{
    shuffle s = {4, {2, 3, 1, 0}, NULL};
    spmd_value x = spmd_value_exact(SPMD_F32, "x", SPMD_SHAPE(4), 1), y = {.spec = "x"};
    ck_spmd_ok(spmd_test_run("x=4", shuffle_grad, &s, 1, &x, 1, &y));
    for (int k = 0; k < 4; k++)
        ck_assert(spmd_value_at(&y, s.perm[k]) == k);
    spmd_values_free((spmd_value[]){x, y}, 2);
}
END_TEST

SPMD_TEST_MAIN("pshuffle", tcase_add_loop_test(tc, shuffles, 0, 7);
               tcase_add_test(tc, a_shuffle_is_transposed_by_its_inverse);)
