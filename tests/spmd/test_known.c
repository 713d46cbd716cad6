/* Calls that are remembered: one place in the source makes calls of all kinds, and each gets its own result. */
#include "spmd/testing.h"

enum { ROUNDS = 3 };

/* Device (i, j) of "x=2,y=2" holds 1 << (2i + j). */
static double along_x(int i, int j)
{
    (void)i;
    return (1 << j) + (1 << (2 + j));
}

static double along_y(int i, int j)
{
    (void)j;
    return (1 << 2 * i) + (1 << (2 * i + 1));
}

static double along_both(int i, int j)
{
    (void)i, (void)j;
    return 15;
}

static double along_none(int i, int j)
{
    return 1 << (2 * i + j);
}

static const struct {
    const char *axes;
    double (*want)(int i, int j);
} rows[] = {{"x", along_x}, {"y", along_y}, {"x,y", along_both}, {"y,x", along_both}, {"", along_none}};

static spmd_status expect(spmd_ctx *ctx, const spmd_tensor *t, int64_t count, double want)
{
    spmd_tensor wide;
    spmd_view view;
    SPMD_TRY(spmd_cast(ctx, t, SPMD_F32, &wide));
    SPMD_TRY(spmd_local(ctx, &wide, &view));
    SPMD_CHECK(spmd_view_count(&view) == count, SPMD_EUSER, "%lld elements", (long long)spmd_view_count(&view));
    for (int64_t k = 0; k < count; k++)
        SPMD_CHECK(((const float *)view.data)[k] == (float)want, SPMD_EUSER, "%g, expected %g",
                   (double)((const float *)view.data)[k], want);
    return SPMD_OK;
}

/* The place. */
static spmd_status sum(spmd_ctx *ctx, spmd_tensor in, const char *axes, bool donate, spmd_tensor *out)
{
    return spmd_psum(ctx, donate ? spmd_donate(&in) : &in, axes, out);
}

static spmd_status one_place(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    static const spmd_dtype dtypes[] = {SPMD_F32, SPMD_I32, SPMD_BF16, SPMD_F32};
    (void)user;
    int device = spmd_ctx_device(ctx), i = device / 2, j = device % 2;
    spmd_tensor t, wide, s;
    out[0] = in[0];
    for (int round = 0; round < ROUNDS; round++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
                for (int64_t count = 1; count <= 2; count++) {
                    SPMD_TRY(spmd_cast(ctx, &in[0], dtypes[d], &t));
                    SPMD_TRY(spmd_reshape(ctx, &t, SPMD_SHAPE(1), &t));
                    SPMD_TRY(spmd_broadcast_to(ctx, &t, SPMD_SHAPE(count), &wide));
                    for (int donate = 0; donate < 2; donate++) {
                        SPMD_TRY(sum(ctx, wide, rows[r].axes, donate, &s));
                        SPMD_TRY(expect(ctx, &s, count, rows[r].want(i, j)));
                    }
                }
    return SPMD_OK;
}

START_TEST(calls_at_one_place)
{
    const float x[] = {1, 2, 4, 8};
    spmd_value in = spmd_value_f32("(x,y)", SPMD_SHAPE(4), x), out = {.spec = "(x,y)"};
    ck_spmd_ok(spmd_test_run("x=2,y=2", one_place, NULL, 1, &in, 1, &out));
    spmd_values_free((spmd_value[]){in, out}, 2);
}
END_TEST

/* A sum of sums is warned about where it stands, though the place has made the call with another state before. */
static spmd_status again(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    SPMD_TRY(sum(ctx, in[0], "x", false, &out[0]));
    SPMD_TRY(sum(ctx, in[0], "x", false, &out[0]));
    return sum(ctx, out[0], "x", false, &out[0]);
}

START_TEST(a_state_is_part_of_a_call)
{
    const float x[] = {1, 2};
    spmd_value in = spmd_value_f32("x", SPMD_SHAPE(2), x), out = {.spec = ""};
    ck_spmd_ok(spmd_test_run("x=2", again, NULL, 1, &in, 1, &out));
    ck_assert(spmd_value_at(&out, 0) == 6);
    ck_assert_ptr_nonnull(strstr(spmd_test_log(), "2 times the input"));
    spmd_values_free((spmd_value[]){in, out}, 2);
}
END_TEST

/* Gradients find remembered calls on the tape as they were made. */
static spmd_status loss(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *out)
{
    spmd_tensor t = p[0];
    (void)n, (void)user;
    for (int k = 0; k < 3; k++)
        SPMD_TRY(spmd_mul(ctx, &t, &p[0], &t)); /* one place, p^4 in the end */
    return spmd_sum(ctx, &t, NULL, 0, false, out);
}

static spmd_status gradient(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_grad(ctx, loss, NULL, in, 1, out);
}

START_TEST(the_tape_keeps_each_call)
{
    const float x[] = {2, 3};
    spmd_value in = spmd_value_f32("x", SPMD_SHAPE(2), x), out = {.spec = "x"};
    ck_spmd_ok(spmd_test_run("x=2", gradient, NULL, 1, &in, 1, &out));
    ck_assert(spmd_value_at(&out, 0) == 32 && spmd_value_at(&out, 1) == 108);
    spmd_values_free((spmd_value[]){in, out}, 2);
}
END_TEST

/* A report says how two calls differ, also if the first of them stands in a loop whose meetings change their parity. */
static spmd_status late_difference(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    spmd_tensor flag, all;
    (void)user;
    SPMD_TRY(spmd_slice(ctx, &in[0], 0, 0, 1, &flag));
    for (int k = 0; k < 4; k++) {
        int dim = k == 3 && spmd_ctx_device(ctx) == 1;
        SPMD_TRY(spmd_all_gather(ctx, &in[0], "x", &(spmd_gather_opts){.dim = dim, .tiled = true}, &all)); /* twice */
        if (k % 2 == 0)
            SPMD_TRY(spmd_psum(ctx, &flag, "x", &flag)); /* by mail: once */
        SPMD_TRY(spmd_slice(ctx, &in[0], 0, 0, 1, &flag));
    }
    out[0] = in[0];
    return SPMD_OK;
}

START_TEST(a_report_is_of_this_call)
{
    spmd_value in = spmd_value_exact(SPMD_F32, "x", SPMD_SHAPE(128, 64), 1), out = {.spec = "x"};
    ck_spmd_fails(spmd_test_run("x=2", late_difference, NULL, 1, &in, 1, &out), SPMD_EMISMATCH, "dim 0 and 1");
    spmd_value_free(&in);
}
END_TEST

SPMD_TEST_MAIN("known", tcase_add_test(tc, calls_at_one_place); tcase_add_test(tc, a_state_is_part_of_a_call);
               tcase_add_test(tc, the_tape_keeps_each_call); tcase_add_test(tc, a_report_is_of_this_call);)
