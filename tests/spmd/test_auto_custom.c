/* Automatic mode: custom kernels with a rule run on blocks. */
#include "auto_run.h"

/* out = a b, in the letters of matmul. */
static spmd_status product_shape(const spmd_tensor *in, int nin, spmd_tensor *out, int nout, void *user)
{
    (void)nin, (void)nout, (void)user;
    out->dtype = SPMD_F32;
    out->rank = 2;
    out->shape[0] = in[0].shape[0];
    out->shape[1] = in[1].shape[1];
    return SPMD_OK;
}

static spmd_status product_host(const spmd_view *in, int nin, const spmd_view *out, int nout, void *user)
{
    (void)nin, (void)nout, (void)user;
    const float *a = in[0].data, *b = in[1].data;
    int64_t m = in[0].shape[0], k = in[0].shape[1], n = in[1].shape[1];
    SPMD_CHECK(in[1].shape[0] == k && out->shape[0] == m && out->shape[1] == n, SPMD_EUSER, "blocks that do not fit");
    for (int64_t i = 0; i < m * n; i++) {
        float sum = 0;
        for (int64_t j = 0; j < k; j++)
            sum += a[i / n * k + j] * b[j * n + i % n];
        ((float *)out->data)[i] = sum;
    }
    return SPMD_OK;
}

static spmd_status product_grad(spmd_ctx *ctx, const spmd_tensor *in, int nin, const spmd_tensor *out, int nout,
                                const spmd_tensor *ct, const bool *need, spmd_tensor *gin, void *user)
{
    (void)nin, (void)out, (void)nout, (void)user;
    if (need[0])
        SPMD_TRY(spmd_matmul(ctx, ct, &in[1], false, true, &gin[0]));
    return need[1] ? spmd_matmul(ctx, &in[0], ct, true, false, &gin[1]) : SPMD_OK;
}

typedef struct row {
    const char *rule, *spec[2], *type; /* of the result, as the kernel leaves it */
    int calls;                         /* in it and until the result is whole */
} row;

static const row rows[] = {
    {"mk,kn->mn", {"x", ""}, "f32[8@x,4]", 1},
    {"mk,kn->mn", {"x", "-,y"}, "f32[8@x,4@y]", 2},
    {"mk,kn->mn", {"-,y", "y"}, "f32[8,4]{U:y}", 1},
    {"mk,kn->mn", {"(x,y)", ""}, "f32[8@x@y,4]", 1},
    {"z-,-n->zn", {"-,y", "y"}, "f32[8,4]", 2}, /* whole before the kernel */
    {NULL, {"x", ""}, "f32[8,4]", 1},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* Outlives the launch, as kernels on a stream need it. */
typedef struct kernel {
    spmd_custom_op op;
    const char *type; /* NULL: any */
} kernel;

static kernel kernel_of(const char *rule, const char *type)
{
    return (kernel){{.name = "product", .shape = product_shape, .host = product_host, .rule = rule}, type};
}

static spmd_status multiply(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const kernel *k = user;
    char type[256];
    SPMD_TRY(spmd_custom(ctx, &k->op, in, 2, out, 1));
    spmd_tensor_format(ctx, out, type, sizeof type);
    SPMD_CHECK(!k->type || !strcmp(type, k->type), SPMD_EUSER, "the product is %s", type);
    return SPMD_OK;
}

static void run(spmd_shard_fn *fn, void *user, bool automatic, const char *const *spec, int nout, auto_run *r)
{
    spmd_value in[2] = {spmd_value_exact(SPMD_F32, automatic ? spec[0] : "", SPMD_SHAPE(8, 6), 1),
                        spmd_value_exact(SPMD_F32, automatic ? spec[1] : "", SPMD_SHAPE(6, 4), 2)};
    *r = (auto_run){.axes = "x=2,y=2", .fn = fn, .user = user, .explicitly = !automatic};
    r->nin = 2;
    r->nout = nout;
    r->in = in;
    r->out_specs = (const char *const[]){"", "", ""};
    spmd_status status = auto_run_go(r);
    ck_assert_msg(status == SPMD_OK, "%s", spmd_last_error());
    spmd_values_free(in, 2);
}

START_TEST(a_rule_keeps_the_data_cut)
{
    auto_run got, want;
    kernel cut = kernel_of(rows[_i].rule, rows[_i].type), whole = kernel_of(rows[_i].rule, NULL);
    run(multiply, &cut, true, rows[_i].spec, 1, &got);
    run(multiply, &whole, false, rows[_i].spec, 1, &want);
    ck_assert_int_eq(spmd_value_count_wrong(&got.out[0], &want.out[0]), 0);
    ck_assert_int_eq(got.stats.collectives, rows[_i].calls);
    spmd_values_free(got.out, 1);
    spmd_values_free(want.out, 1);
}
END_TEST

static spmd_status product_loss(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n, (void)user;
    static const spmd_custom_op op = {
        .name = "product", .shape = product_shape, .host = product_host, .grad = product_grad, .rule = "mk,kn->mn"};
    SPMD_TRY(spmd_custom(ctx, &op, p, 2, loss, 1));
    SPMD_TRY(spmd_square(ctx, loss, loss));
    return spmd_sum(ctx, loss, NULL, 0, false, loss);
}

static spmd_status gradients(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return spmd_value_and_grad(ctx, product_loss, user, in, 2, &out[2], out);
}

START_TEST(gradients_pass)
{
    auto_run got, want;
    run(gradients, NULL, true, rows[_i].spec, 3, &got);
    run(gradients, NULL, false, rows[_i].spec, 3, &want);
    for (int k = 0; k < 3; k++)
        ck_assert_int_eq(spmd_value_count_wrong(&got.out[k], &want.out[k]), 0);
    spmd_values_free(got.out, 3);
    spmd_values_free(want.out, 3);
}
END_TEST

START_TEST(bad_rules_are_named)
{
    static const char *const bad[][2] = {
        {"mk,kn", "2 inputs and 1 outputs"},
        {"mk->mn", "2 inputs and 1 outputs"},
        {"mk,kn,mn", "2 inputs"},
        {"mk,kn->mn,m", "operand 2 ends with ',m'"},
        {"mk,k->mn", "operand 1 of its rule has 1 letters, but is f32[6,4]"},
        {"m1,kn->mn", "'1,kn->mn' where a letter"},
        {"", "operand 0 of its rule has 0 letters"},
    };
    spmd_value in[2] = {spmd_value_exact(SPMD_F32, "", SPMD_SHAPE(8, 6), 1),
                        spmd_value_exact(SPMD_F32, "", SPMD_SHAPE(6, 4), 2)},
               out = {.spec = ""};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        kernel wrong = kernel_of(bad[k][0], NULL);
        ck_spmd_fails(spmd_test_run("x=1", multiply, &wrong, 2, in, 1, &out), SPMD_EINVAL, bad[k][1]);
    }
    spmd_values_free(in, 2);
}
END_TEST

SPMD_TEST_MAIN("automatic mode, custom kernels", tcase_add_loop_test(tc, a_rule_keeps_the_data_cut, 0, ROWS);
               tcase_add_loop_test(tc, gradients_pass, 0, ROWS); tcase_add_test(tc, bad_rules_are_named);)
