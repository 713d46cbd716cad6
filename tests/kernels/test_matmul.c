/* matmul: every transpose, batched and shared operands, sizes at the edges of tiles, f32 and 16-bit, against sums in
 * double; its gradient and the gradient's gradient; oneDNN against the portable loop, bit by bit on integers. */
#include "kernels/matmul/gemm.h"
#include "tests/harness/golden.h"

typedef struct transposes {
    bool a, b;
} transposes;
static const transposes all[4] = {{false, false}, {false, true}, {true, false}, {true, true}};

static spmd_status matmul(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const transposes *t = user;
    return spmd_matmul(ctx, &in[0], &in[1], t->a, t->b, out);
}

/* batch x [m, k] times [k, n]; lead: number of leading dimensions, shared: b has none */
typedef struct shape_row {
    int lead;
    int64_t batch[2], m, k, n;
    bool shared;
} shape_row;
static const shape_row shapes[] = {
    {0, {1, 1}, 1, 1, 1, false},   {0, {1, 1}, 7, 13, 5, false},   {0, {1, 1}, 65, 257, 33, false},
    {0, {1, 1}, 1, 300, 1, false}, {0, {1, 1}, 31, 1, 513, false}, {0, {1, 1}, 0, 3, 4, false},
    {0, {1, 1}, 3, 0, 4, false},   {0, {1, 1}, 3, 4, 0, false},    {1, {3, 1}, 5, 7, 11, false},
    {1, {3, 1}, 5, 7, 11, true},   {2, {2, 3}, 4, 9, 17, false},   {2, {2, 3}, 4, 9, 17, true},
    {1, {0, 1}, 4, 5, 6, false},   {1, {1, 1}, 4, 5, 6, true},     {0, {1, 1}, 64, 256, 512, false},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static spmd_value operand(const shape_row *s, bool is_b, bool transposed, spmd_dtype dtype, unsigned seed)
{
    int64_t shape[4], rows = is_b ? s->k : s->m, columns = is_b ? s->n : s->k;
    int rank = is_b && s->shared ? 0 : s->lead;
    for (int d = 0; d < rank; d++)
        shape[d] = s->batch[d];
    shape[rank++] = transposed ? columns : rows;
    shape[rank++] = transposed ? rows : columns;
    return spmd_value_random(dtype, NULL, rank, shape, 1, seed);
}

static spmd_value expected(const shape_row *s, const transposes *t, const spmd_value *a, const spmd_value *b,
                           spmd_dtype dtype)
{
    int64_t shape[4] = {s->batch[0], s->batch[1]}, batch = 1;
    for (int d = 0; d < s->lead; d++)
        batch *= shape[d];
    shape[s->lead] = s->m;
    shape[s->lead + 1] = s->n;
    spmd_value out = spmd_value_zeros(dtype, NULL, s->lead + 2, shape);
    for (int64_t l = 0; l < batch; l++)
        for (int64_t i = 0; i < s->m; i++)
            for (int64_t j = 0; j < s->n; j++) {
                double sum = 0;
                int64_t base_a = l * s->m * s->k, base_b = s->shared ? 0 : l * s->k * s->n;
                for (int64_t p = 0; p < s->k; p++)
                    sum += spmd_value_at(a, base_a + (t->a ? p * s->m + i : i * s->k + p)) *
                           spmd_value_at(b, base_b + (t->b ? j * s->k + p : p * s->n + j));
                spmd_value_set(&out, (l * s->m + i) * s->n + j, sum);
            }
    return out;
}

START_TEST(matmul_like_double)
{
    static const struct {
        spmd_dtype dtype;
        double tolerance;
    } dtypes[] = {{SPMD_F32, 2e-6}, {SPMD_BF16, 4e-3}, {SPMD_F16, 5e-4}};
    const shape_row *s = &shapes[_i];
    for (int d = 0; d < 3; d++)
        for (int k = 0; k < 4; k++) {
            transposes t = all[k];
            spmd_value in[2] = {operand(s, false, t.a, dtypes[d].dtype, 1), operand(s, true, t.b, dtypes[d].dtype, 2)},
                       out;
            spmd_value want = expected(s, &t, &in[0], &in[1], dtypes[d].dtype);
            ck_spmd_ok(spmd_test_op(matmul, &t, 2, in, &out));
            ck_assert_int_eq(out.rank, want.rank);
            ck_assert_msg(memcmp(out.shape, want.shape, (size_t)out.rank * sizeof *out.shape) == 0, "wrong shape");
            double error = spmd_value_difference(&out, &want);
            ck_assert_msg(error <= dtypes[d].tolerance, "shape %d, transposes %d, %s: error %g", _i, k,
                          spmd_dtype_name(dtypes[d].dtype), error);
            spmd_values_free((spmd_value[]){in[0], in[1], out, want}, 4);
        }
}
END_TEST

START_TEST(matmul_gradient)
{
    static const int rows[] = {1, 8, 9, 10, 11};
    const shape_row *s = &shapes[rows[_i]];
    for (int k = 0; k < 4; k++) {
        transposes t = all[k];
        spmd_value in[2] = {operand(s, false, t.a, SPMD_F32, 3), operand(s, true, t.b, SPMD_F32, 4)};
        double error = spmd_test_check_grad(matmul, &t, 2, in, 5);
        ck_assert_msg(error < 1e-2, "shape %d, transposes %d: error %g", rows[_i], k, error);
        spmd_values_free(in, 2);
    }
}
END_TEST

START_TEST(matmul_gradient_of_nothing)
{
    transposes t = all[0];
    spmd_value in[2] = {operand(&shapes[6], false, false, SPMD_F32, 3), operand(&shapes[6], true, false, SPMD_F32, 4)};
    spmd_value ct = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(3, 4), 1, 5), grads[2];
    ck_spmd_ok(spmd_test_vjp(matmul, &t, 2, in, &ct, grads));
    ck_assert_int_eq(spmd_value_count(&grads[0]), 0);
    ck_assert_int_eq(grads[1].shape[1], 4);
    spmd_values_free((spmd_value[]){in[0], in[1], ct, grads[0], grads[1]}, 5);
}
END_TEST

static spmd_status squares(spmd_ctx *ctx, const spmd_tensor *params, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    spmd_tensor y;
    SPMD_TRY(matmul(ctx, params, &y, user));
    SPMD_TRY(spmd_square(ctx, &y, &y));
    return spmd_sum(ctx, &y, NULL, 0, false, loss);
}

/* dA + dB-dependent second derivatives: the gradient for a of sum((a b)^2), itself differentiated. */
static spmd_status gradient_op(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    spmd_tensor grads[2];
    SPMD_TRY(spmd_grad(ctx, squares, user, in, 2, grads));
    *out = grads[0];
    return SPMD_OK;
}

START_TEST(matmul_second_order)
{
    static const int rows[] = {1, 9, 10};
    for (int k = 0; k < 4; k++) {
        transposes t = all[k];
        const shape_row *s = &shapes[rows[_i]];
        spmd_value in[2] = {operand(s, false, t.a, SPMD_F32, 3), operand(s, true, t.b, SPMD_F32, 4)};
        double error = spmd_test_check_grad(gradient_op, &t, 2, in, 6);
        ck_assert_msg(error < 1e-2, "shape %d, transposes %d: error %g", rows[_i], k, error);
        spmd_values_free(in, 2);
    }
}
END_TEST

START_TEST(matmul_golden)
{
    transposes t = all[0];
    spmd_value in[2] = {golden("ops", "matmul.in0", NULL), golden("ops", "matmul.in1", NULL)}, out, grads[2];
    spmd_value ct = golden("ops", "matmul.ct", NULL), want = golden("ops", "matmul.out", NULL);
    spmd_value want0 = golden("ops", "matmul.grad0", NULL), want1 = golden("ops", "matmul.grad1", NULL);
    ck_spmd_ok(spmd_test_op(matmul, &t, 2, in, &out));
    ck_spmd_ok(spmd_test_vjp(matmul, &t, 2, in, &ct, grads));
    ck_assert_double_lt(spmd_value_difference(&out, &want), 1e-5);
    ck_assert_double_lt(spmd_value_difference(&grads[0], &want0), 1e-5);
    ck_assert_double_lt(spmd_value_difference(&grads[1], &want1), 1e-5);
    spmd_values_free((spmd_value[]){in[0], in[1], out, grads[0], grads[1], ct, want, want0, want1}, 9);
}
END_TEST

/* Integers, so that every order of summation gives the same bits. */
static void fill(float *x, int64_t n, unsigned seed)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 29) - 3.0f;
}

static spmd_status compare_libraries(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    int *compared = user;
    *out = in[0];
    for (int s = 0; s < SHAPES; s++)
        for (int k = 0; k < 16; k++) {
            const shape_row *row = &shapes[s];
            bool bias = k & 4, accumulate = !bias && k & 8, done;
            const spmd__gemm_case c = {.batch = row->batch[0] * row->batch[1],
                                       .m = row->m,
                                       .n = row->n,
                                       .k = row->k,
                                       .transpose_a = all[k & 3].a,
                                       .transpose_b = all[k & 3].b,
                                       .share_b = row->shared,
                                       .accumulate = accumulate};
            int64_t na = c.batch * c.m * c.k, nb = c.batch * c.k * c.n, nout = c.batch * c.m * c.n;
            if (!na || !nb)
                continue;
            float *a = spmd__scratch(ctx, (size_t)(na + nb + c.n + 2 * nout) * sizeof *a);
            SPMD_CHECK(a, SPMD_ENOMEM, "no memory");
            float *b = a + na, *add = b + nb, *x = add + c.n, *y = x + nout;
            fill(a, na + nb + c.n + nout, 7);
            memcpy(y, x, (size_t)nout * sizeof *y);
            SPMD_TRY(spmd__gemm_reference(ctx, &c, a, b, bias ? add : NULL, x));
            SPMD_TRY(spmd__gemm_onednn(ctx, &c, a, b, bias ? add : NULL, y, &done));
            *compared += done;
            SPMD_CHECK(!done || memcmp(x, y, (size_t)nout * sizeof *y) == 0, SPMD_EUSER, "shape %d, case %d differ", s,
                       k);
        }
    return SPMD_OK;
}

START_TEST(matmul_libraries_agree)
{
    spmd_value in = spmd_value_zeros(SPMD_F32, NULL, 0, NULL), out = {0};
    int compared = 0;
    ck_spmd_ok(spmd_test_run("x=1", compare_libraries, &compared, 1, &in, 1, &out));
    bool built_in = strcmp(spmd__matmul_library(), "portable") != 0;
    ck_assert_msg((compared > 100) == built_in, "%s: %d cases compared", spmd__matmul_library(), compared);
    spmd_values_free((spmd_value[]){in, out}, 2);
}
END_TEST

START_TEST(matmul_refuses)
{
    static const struct {
        spmd_dtype dtype_b;
        int rank_a, rank_b;
        int64_t a[3], b[3];
        spmd_status status;
        const char *needle;
    } rows[] = {
        {SPMD_F32, 2, 2, {2, 3}, {4, 5}, SPMD_ESHAPE, "a is f32[2,3], b is f32[4,5]: the contracted sizes 3 and 4"},
        {SPMD_F32, 1, 2, {3}, {3, 5}, SPMD_ESHAPE, "a is f32[3], b is f32[3,5]: expected a of rank 2 or more"},
        {SPMD_F32, 2, 3, {2, 3}, {2, 3, 5}, SPMD_ESHAPE, "b of rank 2 or of a's rank"},
        {SPMD_F32, 3, 3, {2, 3, 4}, {3, 4, 5}, SPMD_ESHAPE, "leading dimensions must be equal"},
        {SPMD_BF16, 2, 2, {2, 3}, {3, 5}, SPMD_EDTYPE, "a is f32[2,3], b is bf16[3,5]: expected one dtype"},
        {SPMD_I32, 2, 2, {2, 3}, {3, 5}, SPMD_EDTYPE, "matmul"},
    };
    transposes t = all[0];
    spmd_value in[2] = {spmd_value_zeros(SPMD_F32, NULL, rows[_i].rank_a, rows[_i].a),
                        spmd_value_zeros(rows[_i].dtype_b, NULL, rows[_i].rank_b, rows[_i].b)},
               out = {0};
    ck_spmd_fails(spmd_test_op(matmul, &t, 2, in, &out), rows[_i].status, rows[_i].needle);
    spmd_values_free(in, 2);
}
END_TEST

SPMD_TEST_MAIN("matmul", tcase_add_loop_test(tc, matmul_like_double, 0, SHAPES);
               tcase_add_loop_test(tc, matmul_gradient, 0, 5); tcase_add_test(tc, matmul_gradient_of_nothing);
               tcase_add_loop_test(tc, matmul_second_order, 0, 3); tcase_add_test(tc, matmul_golden);
               tcase_add_test(tc, matmul_libraries_agree); tcase_add_loop_test(tc, matmul_refuses, 0, 6);)
