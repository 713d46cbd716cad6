/* embedding: rows bit by bit, sums of repeated rows, against JAX, refusals. */
#include "tests/harness/golden.h"

static spmd_status embedding(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_embedding(ctx, &in[0], &in[1], out);
}

static const struct shape_row {
    int64_t v, n;
    int rank;
    int64_t indices[3];
} shapes[] = {{5, 3, 1, {7}}, {1, 1, 0, {0}}, {19, 12, 2, {3, 7}},
              {4, 0, 1, {3}}, {4, 3, 1, {0}}, {7, 33, 3, {2, 1, 5}}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void operands(int i, spmd_dtype dtype, spmd_value in[2])
{
    in[0] = spmd_value_exact(dtype, NULL, SPMD_SHAPE(shapes[i].v, shapes[i].n), 1);
    in[1] = spmd_value_zeros(SPMD_I32, NULL, shapes[i].rank, shapes[i].indices);
    for (int64_t k = 0; k < spmd_value_count(&in[1]); k++)
        spmd_value_set(&in[1], k, (double)(k * k % shapes[i].v));
}

START_TEST(embedding_takes_rows)
{
    static const spmd_dtype dtypes[] = {SPMD_F32, SPMD_BF16, SPMD_F16};
    for (int d = 0; d < 3; d++) {
        spmd_value in[2], out;
        int64_t n = shapes[_i].n;
        operands(_i, dtypes[d], in);
        ck_spmd_ok(spmd_test_op(embedding, NULL, 2, in, &out));
        ck_assert_int_eq(out.rank, shapes[_i].rank + 1);
        for (int64_t i = 0; i < spmd_value_count(&out); i++)
            ck_assert_double_eq(spmd_value_at(&out, i),
                                spmd_value_at(&in[0], (int64_t)spmd_value_at(&in[1], i / n) * n + i % n));
        spmd_values_free((spmd_value[]){in[0], in[1], out}, 3);
    }
}
END_TEST

/* Small integers: the sums are exact, so every row's gradient is compared bit by bit. */
START_TEST(embedding_gradient_adds_rows)
{
    static const spmd_dtype dtypes[] = {SPMD_F32, SPMD_BF16, SPMD_F16};
    for (int d = 0; d < 3; d++) {
        spmd_value in[2], out, grads[2];
        int64_t n = shapes[_i].n;
        operands(_i, dtypes[d], in);
        ck_spmd_ok(spmd_test_op(embedding, NULL, 2, in, &out));
        spmd_value ct = spmd_value_exact(dtypes[d], NULL, out.rank, out.shape, 5);
        spmd_value want = spmd_value_zeros(dtypes[d], NULL, SPMD_SHAPE(shapes[_i].v, n));
        for (int64_t i = 0; i < spmd_value_count(&ct); i++) {
            int64_t to = (int64_t)spmd_value_at(&in[1], i / n) * n + i % n;
            spmd_value_set(&want, to, spmd_value_at(&want, to) + spmd_value_at(&ct, i));
        }
        ck_spmd_ok(spmd_test_vjp(embedding, NULL, 2, in, &ct, grads));
        ck_assert_int_eq(spmd_value_count_wrong(&grads[0], &want), 0);
        spmd_values_free((spmd_value[]){in[0], in[1], out, ct, want, grads[0]}, 6);
    }
}
END_TEST

/* 300 times 1: bf16 counts only to 256, so the sum must be f32 inside. */
START_TEST(embedding_gradient_sums_in_f32)
{
    spmd_value in[2] = {spmd_value_zeros(SPMD_BF16, NULL, SPMD_SHAPE(2, 1)),
                        spmd_value_zeros(SPMD_I32, NULL, SPMD_SHAPE(300))};
    spmd_value ct = spmd_value_zeros(SPMD_BF16, NULL, SPMD_SHAPE(300, 1)), grads[2];
    for (int64_t i = 0; i < 300; i++)
        spmd_value_set(&ct, i, 1);
    ck_spmd_ok(spmd_test_vjp(embedding, NULL, 2, in, &ct, grads));
    ck_assert_double_eq(spmd_value_at(&grads[0], 0), 300);
    spmd_values_free((spmd_value[]){in[0], in[1], ct, grads[0]}, 4);
}
END_TEST

START_TEST(embedding_golden)
{
    spmd_value in[2] = {golden("ops", "embedding.in0", NULL), golden("ops", "embedding.tokens", NULL)}, out, grads[2];
    spmd_value ct = golden("ops", "embedding.ct", NULL), want = golden("ops", "embedding.out", NULL);
    spmd_value want_grad = golden("ops", "embedding.grad0", NULL);
    ck_spmd_ok(spmd_test_op(embedding, NULL, 2, in, &out));
    ck_spmd_ok(spmd_test_vjp(embedding, NULL, 2, in, &ct, grads));
    ck_assert_int_eq(spmd_value_count_wrong(&out, &want), 0);
    ck_assert_double_lt(spmd_value_difference(&grads[0], &want_grad), 1e-6);
    spmd_values_free((spmd_value[]){in[0], in[1], out, grads[0], ct, want, want_grad}, 7);
}
END_TEST

START_TEST(embedding_refuses)
{
    static const struct {
        spmd_dtype table, indices;
        int rank_table, rank_indices;
        int32_t index;
        spmd_status status;
        const char *needle;
    } rows[] = {
        {SPMD_F32, SPMD_I32, 2, 1, 4, SPMD_EINVAL, "index 4 at position 1 is outside 0..3 (a table of 4 rows)"},
        {SPMD_F32, SPMD_I32, 2, 1, -3, SPMD_EINVAL, "index -3 at position 1"},
        {SPMD_F32, SPMD_I64, 2, 1, 0, SPMD_EDTYPE, "indices are i64[4]: expected i32"},
        {SPMD_I32, SPMD_I32, 2, 1, 0, SPMD_EDTYPE, "embedding"},
        {SPMD_F32, SPMD_I32, 1, 1, 0, SPMD_ESHAPE, "the table is f32[4]: expected [v, n]"},
        {SPMD_F32, SPMD_I32, 2, 6, 0, SPMD_ESHAPE, "a rank of at most 5"},
    };
    const int64_t shape[6] = {4, 1, 1, 1, 1, 1};
    spmd_value in[2] = {spmd_value_zeros(rows[_i].table, NULL, rows[_i].rank_table, shape),
                        spmd_value_zeros(rows[_i].indices, NULL, rows[_i].rank_indices, shape)},
               out;
    spmd_value_set(&in[1], 1, rows[_i].index);
    ck_spmd_fails(spmd_test_op(embedding, NULL, 2, in, &out), rows[_i].status, rows[_i].needle);
    spmd_values_free(in, 2);
}
END_TEST

SPMD_TEST_MAIN("embedding", tcase_add_loop_test(tc, embedding_takes_rows, 0, SHAPES);
               tcase_add_loop_test(tc, embedding_gradient_adds_rows, 0, SHAPES);
               tcase_add_test(tc, embedding_gradient_sums_in_f32); tcase_add_test(tc, embedding_golden);
               tcase_add_loop_test(tc, embedding_refuses, 0, 6);)
