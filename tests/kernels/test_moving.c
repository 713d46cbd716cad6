/* reshape, transpose, slice, concat, broadcast_to: every element is found by index arithmetic, for every dtype; their
 * gradients; their errors. */
#include "spmd/testing.h"

typedef struct move {
    int rank; /* of x */
    int64_t shape[SPMD_MAX_RANK];
    int out_rank;
    int64_t out_shape[SPMD_MAX_RANK]; /* given to reshape and broadcast_to; expected of the others */
    int order[SPMD_MAX_RANK];         /* transpose */
    int dim;                          /* slice, concat */
    int64_t start;                    /* slice */
    bool reverse;                     /* transpose: order NULL */
} move;

/* Index d of element i of an array of this shape. */
static int64_t index_of(int rank, const int64_t *shape, int64_t i, int d)
{
    for (int k = rank - 1; k > d; k--)
        i /= shape[k];
    return i % shape[d];
}

static void check(const spmd_value *y, const move *m, spmd_dtype dtype)
{
    ck_assert_int_eq(y->dtype, dtype);
    ck_assert_int_eq(y->rank, m->out_rank);
    for (int d = 0; d < y->rank; d++)
        ck_assert_int_eq(y->shape[d], m->out_shape[d]);
}

static void check_gradient(spmd_test_op_fn *fn, const move *m, int n, const spmd_value *x)
{
    if (x->dtype == SPMD_F32)
        ck_assert_double_lt(spmd_test_check_grad(fn, (void *)m, n, x, 2), 1e-3);
}

static const move transposes[] = {
    {0, {0}, .out_rank = 0, {0}, {0}, .reverse = true},
    {1, {5}, .out_rank = 1, {5}, {0}},
    {2, {1, 1}, .out_rank = 2, {1, 1}, {1, 0}},
    {2, {37, 53}, .out_rank = 2, {53, 37}, {1, 0}},
    {2, {3, 0}, .out_rank = 2, {0, 3}, {1, 0}},
    {3, {2, 17, 19}, .out_rank = 3, {2, 19, 17}, {0, 2, 1}},
    {3, {17, 2, 19}, .out_rank = 3, {2, 17, 19}, {1, 0, 2}},
    {4, {2, 5, 3, 7}, .out_rank = 4, {2, 3, 5, 7}, {0, 2, 1, 3}},
    {4, {2, 5, 3, 7}, .out_rank = 4, {7, 3, 5, 2}, .reverse = true},
    {6, {2, 3, 1, 2, 3, 2}, .out_rank = 6, {3, 2, 2, 1, 2, 3}, {4, 0, 5, 2, 3, 1}},
};
enum { TRANSPOSES = sizeof transposes / sizeof transposes[0] };

static spmd_status transpose_op(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const move *m = user;
    return spmd_transpose(ctx, &in[0], m->reverse ? NULL : m->order, out);
}

START_TEST(transpose_moves_every_element)
{
    const move *m = &transposes[_i % TRANSPOSES];
    spmd_dtype dtype = (spmd_dtype)(_i / TRANSPOSES);
    spmd_value x = spmd_value_exact(dtype, NULL, m->rank, m->shape, 1), y;
    ck_spmd_ok(spmd_test_op(transpose_op, (void *)m, 1, &x, &y));
    check(&y, m, dtype);
    for (int64_t i = 0; i < spmd_value_count(&y); i++) {
        int64_t from = 0, index[SPMD_MAX_RANK];
        for (int d = 0; d < m->rank; d++)
            index[m->reverse ? m->rank - 1 - d : m->order[d]] = index_of(m->rank, m->out_shape, i, d);
        for (int d = 0; d < m->rank; d++)
            from = from * m->shape[d] + index[d];
        ck_assert(spmd_value_at(&y, i) == spmd_value_at(&x, from));
    }
    check_gradient(transpose_op, m, 1, &x);
    spmd_values_free((spmd_value[]){x, y}, 2);
}
END_TEST

static const move slices[] = {
    {1, {7}, .out_rank = 1, {3}, .dim = 0, .start = 2},
    {1, {7}, .out_rank = 1, {0}, .dim = 0, .start = 7},
    {2, {5, 11}, .out_rank = 2, {2, 11}, .dim = 0, .start = 3},
    {2, {5, 11}, .out_rank = 2, {5, 4}, .dim = -1, .start = 7},
    {3, {2, 5, 3}, .out_rank = 3, {2, 5, 3}, .dim = 1, .start = 0},
    {3, {2, 5, 3}, .out_rank = 3, {2, 1, 3}, .dim = -2, .start = 4},
    {3, {0, 5, 3}, .out_rank = 3, {0, 2, 3}, .dim = 1, .start = 1},
};
enum { SLICES = sizeof slices / sizeof slices[0] };

static spmd_status slice_op(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const move *m = user;
    return spmd_slice(ctx, &in[0], m->dim, m->start, m->out_shape[m->dim < 0 ? m->rank + m->dim : m->dim], out);
}

START_TEST(slice_takes_a_part)
{
    const move *m = &slices[_i % SLICES];
    spmd_dtype dtype = (spmd_dtype)(_i / SLICES);
    int dim = m->dim < 0 ? m->rank + m->dim : m->dim;
    spmd_value x = spmd_value_exact(dtype, NULL, m->rank, m->shape, 1), y;
    ck_spmd_ok(spmd_test_op(slice_op, (void *)m, 1, &x, &y));
    check(&y, m, dtype);
    for (int64_t i = 0; i < spmd_value_count(&y); i++) {
        int64_t from = 0;
        for (int d = 0; d < m->rank; d++)
            from = from * m->shape[d] + index_of(m->rank, m->out_shape, i, d) + (d == dim ? m->start : 0);
        ck_assert(spmd_value_at(&y, i) == spmd_value_at(&x, from));
    }
    check_gradient(slice_op, m, 1, &x);
    spmd_values_free((spmd_value[]){x, y}, 2);
}
END_TEST

/* Three tensors; the sizes along dim are its number, twice and three times that. */
static const move concats[] = {
    {1, {2}, .out_rank = 1, {12}, .dim = 0},
    {1, {0}, .out_rank = 1, {0}, .dim = 0},
    {2, {1, 5}, .out_rank = 2, {6, 5}, .dim = 0},
    {2, {5, 3}, .out_rank = 2, {5, 18}, .dim = -1},
    {3, {2, 2, 3}, .out_rank = 3, {2, 12, 3}, .dim = 1},
    {2, {0, 3}, .out_rank = 2, {0, 18}, .dim = 1},
};
enum { CONCATS = sizeof concats / sizeof concats[0] };

static spmd_status concat_op(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return spmd_concat(ctx, in, 3, ((const move *)user)->dim, out);
}

START_TEST(concat_joins)
{
    const move *m = &concats[_i % CONCATS];
    spmd_dtype dtype = (spmd_dtype)(_i / CONCATS);
    int dim = m->dim < 0 ? m->rank + m->dim : m->dim;
    spmd_value x[3], y;
    for (int k = 0; k < 3; k++) {
        int64_t shape[SPMD_MAX_RANK];
        memcpy(shape, m->shape, sizeof shape);
        shape[dim] *= k + 1;
        x[k] = spmd_value_exact(dtype, NULL, m->rank, shape, (unsigned)k);
    }
    ck_spmd_ok(spmd_test_op(concat_op, (void *)m, 3, x, &y));
    check(&y, m, dtype);
    for (int64_t i = 0; i < spmd_value_count(&y); i++) {
        int64_t along = index_of(m->rank, m->out_shape, i, dim), from = 0, k = along / m->shape[dim];
        k = k == 0 ? 0 : k < 3 ? 1 : 2;
        along -= m->shape[dim] * (k == 0 ? 0 : k == 1 ? 1 : 3);
        for (int d = 0; d < m->rank; d++)
            from = from * x[k].shape[d] + (d == dim ? along : index_of(m->rank, m->out_shape, i, d));
        ck_assert(spmd_value_at(&y, i) == spmd_value_at(&x[k], from));
    }
    check_gradient(concat_op, m, 3, x);
    spmd_values_free(x, 3);
    spmd_value_free(&y);
}
END_TEST

static const move broadcasts[] = {
    {0, {0}, .out_rank = 0, {0}},
    {0, {0}, .out_rank = 2, {3, 5}},
    {1, {5}, .out_rank = 2, {3, 5}},
    {2, {3, 1}, .out_rank = 2, {3, 1100}},
    {3, {2, 1, 3}, .out_rank = 4, {5, 2, 4, 3}},
    {1, {1}, .out_rank = 2, {0, 3}},
};
enum { BROADCASTS = sizeof broadcasts / sizeof broadcasts[0] };

static spmd_status broadcast_op(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const move *m = user;
    return spmd_broadcast_to(ctx, &in[0], m->out_rank, m->out_shape, out);
}

START_TEST(broadcast_to_repeats)
{
    const move *m = &broadcasts[_i % BROADCASTS];
    spmd_dtype dtype = (spmd_dtype)(_i / BROADCASTS);
    spmd_value x = spmd_value_exact(dtype, NULL, m->rank, m->shape, 1), y;
    ck_spmd_ok(spmd_test_op(broadcast_op, (void *)m, 1, &x, &y));
    check(&y, m, dtype);
    for (int64_t i = 0; i < spmd_value_count(&y); i++) {
        int64_t from = 0;
        for (int d = 0; d < m->rank; d++)
            from = from * m->shape[d] + index_of(m->out_rank, m->out_shape, i, d + m->out_rank - m->rank) % m->shape[d];
        ck_assert(spmd_value_at(&y, i) == spmd_value_at(&x, from));
    }
    check_gradient(broadcast_op, m, 1, &x);
    spmd_values_free((spmd_value[]){x, y}, 2);
}
END_TEST

static const move reshapes[] = {
    {2, {4, 6}, .out_rank = 1, {24}}, {2, {4, 6}, .out_rank = 3, {2, -1, 4}}, {1, {1}, .out_rank = 0, {0}},
    {0, {0}, .out_rank = 2, {1, 1}},  {2, {0, 3}, .out_rank = 3, {3, 5, 0}},  {2, {0, 3}, .out_rank = 2, {-1, 3}},
};
enum { RESHAPES = sizeof reshapes / sizeof reshapes[0] };

static spmd_status reshape_op(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const move *m = user;
    return spmd_reshape(ctx, &in[0], m->out_rank, m->out_shape, out);
}

START_TEST(reshape_keeps_the_elements)
{
    const move *m = &reshapes[_i % RESHAPES];
    spmd_dtype dtype = (spmd_dtype)(_i / RESHAPES);
    spmd_value x = spmd_value_exact(dtype, NULL, m->rank, m->shape, 1), y;
    ck_spmd_ok(spmd_test_op(reshape_op, (void *)m, 1, &x, &y));
    ck_assert_int_eq(y.rank, m->out_rank);
    ck_assert_int_eq(spmd_value_count(&y), spmd_value_count(&x));
    for (int d = 0; d < y.rank; d++)
        ck_assert(m->out_shape[d] == -1 || m->out_shape[d] == y.shape[d]);
    ck_assert(memcmp(x.data, y.data, (size_t)spmd_value_count(&x) * spmd_dtype_size(dtype)) == 0);
    check_gradient(reshape_op, m, 1, &x);
    spmd_values_free((spmd_value[]){x, y}, 2);
}
END_TEST

static const struct {
    spmd_test_op_fn *fn;
    move move;
    const char *text;
} errors[] = {
    {reshape_op, {2, {4, 8}, .out_rank = 2, {5, 6}}, "reshape: f32[4,8] has 32 elements, f32[5,6] would have 30"},
    {reshape_op, {2, {4, 8}, .out_rank = 2, {-1, -1}}, "dimensions 0 and 1 are -1"},
    {reshape_op, {2, {4, 8}, .out_rank = 2, {-1, 5}}, "size -1 of dimension 0 cannot be found"},
    {reshape_op, {2, {0, 8}, .out_rank = 2, {-1, 0}}, "give it as a number"},
    {reshape_op, {1, {1}, .out_rank = 7, {1, 1, 1, 1, 1, 1}}, "rank 7, expected 0..6"},
    {reshape_op, {2, {4, 8}, .out_rank = 2, {-4, -8}}, "size -4 of dimension 0 is negative"},
    {transpose_op, {2, {4, 8}, .out_rank = 2, {8, 4}, {1, 1}}, "transpose: order[1] of f32[4,8] is 1"},
    {transpose_op, {2, {4, 8}, .out_rank = 2, {8, 4}, {0, 2}}, "expected every one of 0..1 once"},
    {slice_op,
     {2, {4, 8}, .out_rank = 2, {4, 5}, .dim = 1, .start = 4},
     "slice: 5 elements from 4 of dimension 1, but x is f32[4,8]"},
    {slice_op, {2, {4, 8}, .out_rank = 2, {1, 8}, .dim = 0, .start = -1}, "slice"},
    {slice_op, {2, {4, 8}, .out_rank = 3, {4, 8, 1}, .dim = 2}, "slice"},
    {concat_op, {2, {4, 8}, .out_rank = 2, {8, 8}, .dim = 2}, "concat"},
    {broadcast_op, {2, {4, 8}, .out_rank = 2, {4, 9}}, "broadcast_to: f32[4,8] does not broadcast to f32[4,9]"},
    {broadcast_op, {2, {4, 8}, .out_rank = 1, {8}}, "broadcast_to"},
};
enum { ERRORS = sizeof errors / sizeof errors[0] };

START_TEST(moving_errors)
{
    spmd_value x = spmd_value_zeros(SPMD_F32, NULL, errors[_i].move.rank, errors[_i].move.shape), y;
    ck_spmd_fails(spmd_test_op(errors[_i].fn, (void *)&errors[_i].move, 3, (spmd_value[]){x, x, x}, &y), SPMD_ESHAPE,
                  errors[_i].text);
    spmd_value_free(&x);
}
END_TEST

SPMD_TEST_MAIN("moving", tcase_add_loop_test(tc, transpose_moves_every_element, 0, TRANSPOSES *SPMD_DTYPE_COUNT);
               tcase_add_loop_test(tc, slice_takes_a_part, 0, SLICES *SPMD_DTYPE_COUNT);
               tcase_add_loop_test(tc, concat_joins, 0, CONCATS *SPMD_DTYPE_COUNT);
               tcase_add_loop_test(tc, broadcast_to_repeats, 0, BROADCASTS *SPMD_DTYPE_COUNT);
               tcase_add_loop_test(tc, reshape_keeps_the_elements, 0, RESHAPES *SPMD_DTYPE_COUNT);
               tcase_add_loop_test(tc, moving_errors, 0, ERRORS);)
