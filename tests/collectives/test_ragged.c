/* ragged_all_to_all: values, bounds, gradients. */
#include "spmd/testing.h"
#include <stdio.h>

/* --- ragged_all_to_all: N = 3, blocks of 5 rows of 2 into 6 rows --- */
enum { N = 3, ROWS = 5, INTO = 6, WIDTH = 2 };
typedef struct tables { /* [shard][other] */
    int input_offsets[N][N], send_sizes[N][N], output_offsets[N][N], recv_sizes[N][N];
} tables;

/* Shard 1 sends its row 1 to all; nobody sends to itself but shard 1; gaps; sizes of 0. */
static const tables good = {
    .input_offsets = {{0, 0, 3}, {1, 1, 1}, {5, 2, 0}},
    .send_sizes = {{0, 3, 2}, {1, 1, 2}, {0, 2, 0}},
    .output_offsets = {{6, 0, 4}, {5, 5, 0}, {0, 3, 0}},
    .recv_sizes = {{0, 1, 0}, {3, 1, 2}, {2, 2, 0}},
};

static spmd_status run_ragged(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    spmd_tensor t[4];
    for (int k = 0; k < 4; k++)
        SPMD_TRY(spmd_reshape(ctx, &in[2 + k], SPMD_SHAPE(N), &t[k]));
    return spmd_ragged_all_to_all(ctx, &in[0], &in[1], &t[0], &t[1], &t[2], &t[3], "x", out);
}

static spmd_value table_value(const int table[N][N], spmd_dtype dtype)
{
    spmd_value v = spmd_value_zeros(dtype, "x", SPMD_SHAPE(N, N));
    for (int k = 0; k < N * N; k++)
        spmd_value_set(&v, k, table[k / N][k % N]);
    return v;
}

/* in[0] operand, in[1] into, in[2..5] tables */
static void make_inputs(const tables *t, spmd_dtype dtype, spmd_dtype index, spmd_value in[6])
{
    in[0] = spmd_value_exact(dtype, "x", SPMD_SHAPE(N * ROWS, WIDTH), 1);
    in[1] = spmd_value_exact(dtype, "x", SPMD_SHAPE(N * INTO, WIDTH), 2);
    in[2] = table_value(t->input_offsets, index);
    in[3] = table_value(t->send_sizes, index);
    in[4] = table_value(t->output_offsets, index);
    in[5] = table_value(t->recv_sizes, index);
}

/* visit(from shard, its row, to shard, its row) */
static void each_row(const tables *t, void (*visit)(spmd_value *a, int64_t row, spmd_value *b, int64_t to),
                     spmd_value *a, spmd_value *b)
{
    for (int from = 0; from < N; from++)
        for (int to = 0; to < N; to++)
            for (int r = 0; r < t->send_sizes[from][to]; r++)
                visit(a, from * ROWS + t->input_offsets[from][to] + r, b, to * INTO + t->output_offsets[from][to] + r);
}

static void copy_row(spmd_value *a, int64_t row, spmd_value *b, int64_t to)
{
    for (int j = 0; j < WIDTH; j++)
        spmd_value_set(b, to * WIDTH + j, spmd_value_at(a, row * WIDTH + j));
}

START_TEST(rows_go_where_the_tables_say)
{
    for (int dtype = 0; dtype < SPMD_DTYPE_COUNT; dtype++) {
        spmd_value in[6], out = {.spec = "x"};
        make_inputs(&good, (spmd_dtype)dtype, dtype % 2 ? SPMD_I64 : SPMD_I32, in);
        ck_spmd_ok(spmd_test_run("x=3", run_ragged, NULL, 6, in, 1, &out));
        each_row(&good, copy_row, &in[0], &in[1]);
        ck_assert_int_eq(spmd_value_count_wrong(&out, &in[1]), 0);
        spmd_values_free(in, 6);
        spmd_value_free(&out);
    }
}
END_TEST

START_TEST(tables_are_checked)
{
    static const struct {
        int table, shard, other, entry;
        spmd_status status;
        const char *says;
    } cases[] = {
        {0, 0, 1, 3, SPMD_EINVAL,
         "from shard 0 to 1: input_offsets 3 and send_sizes 3; expected a range of the 5 rows"},
        {0, 2, 0, -1, SPMD_EINVAL, "from shard 2 to 0: input_offsets -1 and send_sizes 0"},
        {1, 0, 1, -3, SPMD_EINVAL, "from shard 0 to 1: input_offsets 0 and send_sizes -3"},
        {1, 0, 1, 2, SPMD_EINVAL, "from shard 0 to 1: send_sizes 2 there, recv_sizes 3 here"},
        {3, 1, 2, 1, SPMD_EINVAL, "from shard 2 to 1: send_sizes 2 there, recv_sizes 1 here"},
        {2, 1, 0, 6, SPMD_EINVAL,
         "from shard 1 to 0: output_offsets 6 and send_sizes 1; expected a range of the 6 rows"},
        {2, 1, 0, -1, SPMD_EINVAL, "from shard 1 to 0: output_offsets -1"},
        {2, 2, 1, 2, SPMD_EINVAL, "to shard 1: the rows from shards 0 and 2 overlap (output_offsets 0 and 2)"},
    };
    spmd_value in[6], out = {.spec = "x"};
    make_inputs(&good, SPMD_F32, SPMD_I32, in);
    spmd_value_set(&in[2 + cases[_i].table], cases[_i].shard * N + cases[_i].other, cases[_i].entry);
    ck_spmd_fails(spmd_test_run("x=3", run_ragged, NULL, 6, in, 1, &out), cases[_i].status, cases[_i].says);
    spmd_values_free(in, 6);
}
END_TEST

START_TEST(tensors_are_checked)
{
    spmd_value in[6], out = {.spec = "x"}, kept;
    make_inputs(&good, SPMD_F32, SPMD_I32, in);
    kept = in[0];
    in[0] = spmd_value_exact(SPMD_I32, "x", SPMD_SHAPE(N * ROWS, WIDTH), 1);
    ck_spmd_fails(spmd_test_run("x=3", run_ragged, NULL, 6, in, 1, &out), SPMD_ESHAPE, "of i32[5,2] into f32[6,2]");
    spmd_value_free(&in[0]);
    in[0] = spmd_value_exact(SPMD_F32, "x", SPMD_SHAPE(N * ROWS, 3), 1);
    ck_spmd_fails(spmd_test_run("x=3", run_ragged, NULL, 6, in, 1, &out), SPMD_ESHAPE, "of f32[5,3] into f32[6,2]");
    spmd_value_free(&in[0]);
    in[0] = kept;
    spmd_value_free(&in[4]);
    in[4] = table_value(good.output_offsets, SPMD_F32);
    ck_spmd_fails(spmd_test_run("x=3", run_ragged, NULL, 6, in, 1, &out), SPMD_EDTYPE, "output_offsets is f32[3]");
    spmd_values_free(in, 6);
}
END_TEST

/* Loss: the sum of weight * out (or of its square), weights that differ everywhere. */
typedef struct ragged_loss {
    const spmd_tensor *in;
    bool twice;
} ragged_loss;

static spmd_status weighted_out(spmd_ctx *ctx, const spmd_tensor *x, const ragged_loss *a, spmd_tensor *loss)
{
    spmd_tensor all[6], y;
    memcpy(all, a->in, sizeof all);
    all[0] = x[0];
    all[1] = x[1];
    SPMD_TRY(run_ragged(ctx, all, &y, NULL));
    if (a->twice)
        SPMD_TRY(spmd_square(ctx, &y, &y));
    SPMD_TRY(spmd_mul(ctx, &y, &a->in[6], &y));
    SPMD_TRY(spmd_sum(ctx, &y, NULL, 0, false, &y));
    return spmd_psum(ctx, &y, "x", loss);
}

static spmd_status loss_once(spmd_ctx *ctx, const spmd_tensor *x, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    return weighted_out(ctx, x, user, loss);
}

static spmd_status loss_of_grad(spmd_ctx *ctx, const spmd_tensor *x, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    spmd_tensor grads[2], sums[2];
    SPMD_TRY(spmd_grad(ctx, loss_once, user, x, 2, grads));
    for (int k = 0; k < 2; k++) {
        SPMD_TRY(spmd_square(ctx, &grads[k], &grads[k]));
        SPMD_TRY(spmd_sum(ctx, &grads[k], NULL, 0, false, &sums[k]));
    }
    SPMD_TRY(spmd_add(ctx, &sums[0], &sums[1], loss));
    return spmd_psum(ctx, loss, "x", loss);
}

static spmd_status ragged_grads(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    ragged_loss a = {in, *(const bool *)user};
    return spmd_value_and_grad(ctx, a.twice ? loss_of_grad : loss_once, &a, in, 2, &out[2], out);
}

static void add_back(spmd_value *a, int64_t row, spmd_value *b, int64_t to)
{
    for (int j = 0; j < WIDTH; j++)
        spmd_value_set(a, row * WIDTH + j, spmd_value_at(a, row * WIDTH + j) + spmd_value_at(b, to * WIDTH + j));
}

static void clear_row(spmd_value *a, int64_t row, spmd_value *b, int64_t to)
{
    (void)a;
    (void)row;
    for (int j = 0; j < WIDTH; j++)
        spmd_value_set(b, to * WIDTH + j, 0);
}

START_TEST(cotangents_come_back)
{
    spmd_value in[7], out[3] = {{.spec = "x"}, {.spec = "x"}, {.spec = NULL}};
    make_inputs(&good, SPMD_F32, SPMD_I32, in);
    in[6] = spmd_value_exact(SPMD_F32, "x", SPMD_SHAPE(N * INTO, WIDTH), 3);
    ck_spmd_ok(spmd_test_run("x=3", ragged_grads, &(bool){false}, 7, in, 3, out));
    spmd_value want = spmd_value_zeros(SPMD_F32, "x", SPMD_SHAPE(N * ROWS, WIDTH));
    each_row(&good, add_back, &want, &in[6]);
    ck_assert_int_eq(spmd_value_count_wrong(&out[0], &want), 0);
    each_row(&good, clear_row, NULL, &in[6]);
    ck_assert_int_eq(spmd_value_count_wrong(&out[1], &in[6]), 0);
    spmd_values_free(in, 7);
    spmd_values_free(out, 3);
    spmd_value_free(&want);
}
END_TEST

/* The loss is a polynomial of small integers: central differences of a quadratic are exact. */
START_TEST(second_gradients_equal_differences)
{
    spmd_value in[7], base[3], up[3], down[3];
    spmd_value *const outs[] = {base, up, down};
    make_inputs(&good, SPMD_F32, SPMD_I32, in);
    in[6] = spmd_value_exact(SPMD_F32, "x", SPMD_SHAPE(N * INTO, WIDTH), 3);
    for (int tensor = 0; tensor < 2; tensor++) {
        spmd_value step = spmd_value_exact(SPMD_F32, "x", 2, in[tensor].shape, 9);
        for (int k = 0; k < 3; k++) {
            for (int i = 0; i < 3; i++)
                outs[k][i] = (spmd_value){.spec = i < 2 ? "x" : NULL};
            for (int64_t i = 0; i < spmd_value_count(&step); i++) /* 0, +1, -1 steps */
                spmd_value_set(&in[tensor], i,
                               spmd_value_at(&in[tensor], i) + (k == 1 ? 1
                                                                : k    ? -2
                                                                       : 0) *
                                                                   spmd_value_at(&step, i));
            ck_spmd_ok(spmd_test_run("x=3", ragged_grads, &(bool){true}, 7, in, 3, outs[k]));
        }
        double expected = 0;
        for (int64_t i = 0; i < spmd_value_count(&step); i++) {
            expected += spmd_value_at(&base[tensor], i) * spmd_value_at(&step, i);
            spmd_value_set(&in[tensor], i, spmd_value_at(&in[tensor], i) + spmd_value_at(&step, i));
        }
        ck_assert(expected != 0);
        ck_assert(spmd_value_at(&up[2], 0) - spmd_value_at(&down[2], 0) == 2 * expected);
        for (int k = 0; k < 3; k++)
            spmd_values_free(outs[k], 3);
        spmd_value_free(&step);
    }
    spmd_values_free(in, 7);
}
END_TEST

SPMD_TEST_MAIN("ragged", tcase_add_test(tc, rows_go_where_the_tables_say);
               tcase_add_loop_test(tc, tables_are_checked, 0, 8); tcase_add_test(tc, tensors_are_checked);
               tcase_add_test(tc, cotangents_come_back); tcase_add_test(tc, second_gradients_equal_differences);)
