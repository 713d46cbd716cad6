/* Random numbers: the published Philox vectors, the same array on every mesh and spec, moments, streams, seeds. */
#include "kernels/random/philox.h"
#include "spmd/testing.h"

/* Random123's kat_vectors for philox4x32-10: counter, key, result. */
START_TEST(philox_known_answers)
{
    static const uint32_t rows[][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420,
         0x24126ea1},
    };
    uint32_t counter[4];
    memcpy(counter, rows[_i], sizeof counter);
    spmd__philox(counter, rows[_i][4], rows[_i][5]);
    for (int k = 0; k < 4; k++)
        ck_assert_uint_eq(counter[k], rows[_i][6 + k]);
}
END_TEST

typedef spmd_status random_fn(spmd_ctx *ctx, const spmd_tensor *seed, int64_t stream, int rank, const int64_t *shape,
                              spmd_spec spec, spmd_tensor *out);
static random_fn *const fns[] = {spmd_random_uniform, spmd_random_normal};
enum { UNIFORM, NORMAL, FNS };

typedef struct draw {
    int fn;
    int64_t stream;
    int rank;
    int64_t shape[SPMD_MAX_RANK]; /* global */
    const char *spec;
    int cuts[SPMD_MAX_RANK];
} draw;

static spmd_status random_op(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const draw *d = user;
    int64_t block[SPMD_MAX_RANK];
    spmd_spec spec;
    for (int k = 0; k < d->rank; k++)
        block[k] = d->shape[k] / (d->cuts[k] ? d->cuts[k] : 1);
    SPMD_TRY(spmd_spec_parse(d->spec, &spec));
    return fns[d->fn](ctx, &in[0], d->stream, d->rank, block, spec, out);
}

/* The array that `d` draws on `axes`, put together. */
static spmd_value drawn(const char *axes, const draw *d, spmd_dtype seed_dtype, double seed)
{
    spmd_value s = spmd_value_zeros(seed_dtype, NULL, 0, NULL), y = {.spec = d->spec};
    spmd_value_set(&s, 0, seed);
    ck_spmd_ok(spmd_test_run(axes, random_op, (void *)d, 1, &s, 1, &y));
    spmd_value_free(&s);
    return y;
}

static const struct {
    const char *axes, *spec;
    int cuts[3];
} meshes[] = {
    {"x=4", "x,-,-", {4, 1, 1}},     {"x=4", "-,-,x", {1, 1, 4}},         {"x=4", "-", {1, 1, 1}},
    {"x=2,y=2", "x,-,y", {2, 1, 2}}, {"x=2,y=2", "-,(y,x),-", {1, 4, 1}}, {"x=2,y=2", "-,-,(x,y)", {1, 1, 4}},
    {"x=2,y=2", "y,-,-", {2, 1, 1}},
};
enum { MESHES = sizeof meshes / sizeof meshes[0] };

/* A spec that leaves an axis out claims that its shards agree: spmd_test_run's out spec checks the state. */
START_TEST(values_do_not_depend_on_the_mesh)
{
    int m = _i / FNS;
    draw one = {.fn = _i % FNS, .stream = 5, .rank = 3, .shape = {4, 8, 12}, .spec = "-"}, cut = one;
    cut.spec = meshes[m].spec;
    memcpy(cut.cuts, meshes[m].cuts, sizeof meshes[m].cuts);
    spmd_value want = drawn("x=1", &one, SPMD_I32, 42), got = drawn(meshes[m].axes, &cut, SPMD_I32, 42);
    ck_assert_int_eq(spmd_value_count(&got), 4 * 8 * 12);
    ck_assert_int_eq(spmd_value_count_wrong(&got, &want), 0);
    spmd_values_free((spmd_value[]){want, got}, 2);
}
END_TEST

/* Element i is word 0 of the block of counter (i, stream) under key seed, its upper 24 bits. */
START_TEST(uniform_is_philox_of_the_index)
{
    draw d = {.fn = UNIFORM, .stream = 0x123456789a, .rank = 1, .shape = {37}, .spec = "-"};
    spmd_value y = drawn("x=1", &d, SPMD_I64, -7);
    for (uint32_t i = 0; i < 37; i++) {
        uint32_t counter[4] = {i, 0, 0x3456789a, 0x12};
        spmd__philox(counter, (uint32_t)-7, ~0u);
        ck_assert(spmd_value_at(&y, i) == (counter[0] >> 8) * 0x1p-24);
    }
    spmd_value_free(&y);
}
END_TEST

START_TEST(moments)
{
    enum { N = 200000 };
    draw d = {.fn = _i, .rank = 1, .shape = {N}, .spec = "-"};
    spmd_value y = drawn("x=1", &d, SPMD_I32, 1);
    double sum = 0, squares = 0, fourth = 0, neighbours = 0, low = INFINITY, high = -INFINITY,
           centre = _i == UNIFORM ? 0.5 : 0;
    for (int i = 0; i < N; i++) {
        double x = spmd_value_at(&y, i) - centre;
        sum += x;
        squares += x * x;
        fourth += x * x * x * x;
        neighbours += i ? x * (spmd_value_at(&y, i - 1) - centre) : 0;
        low = fmin(low, spmd_value_at(&y, i));
        high = fmax(high, spmd_value_at(&y, i));
    }
    double variance = _i == UNIFORM ? 1.0 / 12 : 1, kurtosis = _i == UNIFORM ? 1.0 / 80 : 3;
    ck_assert_double_lt(fabs(sum / N), 5 * sqrt(variance / N));
    ck_assert_double_lt(fabs(squares / N / variance - 1), 0.02);
    ck_assert_double_lt(fabs(fourth / N / kurtosis - 1), 0.05);
    ck_assert_double_lt(fabs(neighbours / N), 5 * variance / sqrt(N));
    if (_i == UNIFORM)
        ck_assert(low >= 0 && low < 1e-4 && high < 1 && high > 1 - 1e-4);
    else
        ck_assert(low < -4 && low > -7 && high > 4 && high < 7);
    spmd_value_free(&y);
}
END_TEST

START_TEST(seeds_and_streams_differ)
{
    draw a = {.fn = _i, .stream = 1, .rank = 2, .shape = {20, 50}, .spec = "-"}, b = a;
    b.stream = 2;
    spmd_value ya = drawn("x=1", &a, SPMD_I32, -3), yb = drawn("x=1", &b, SPMD_I32, -3),
               yc = drawn("x=1", &a, SPMD_I32, -4);
    spmd_value same = drawn("x=1", &a, SPMD_I64, -3);
    ck_assert_int_gt(spmd_value_count_wrong(&ya, &yb), 990);
    ck_assert_int_gt(spmd_value_count_wrong(&ya, &yc), 990);
    ck_assert_int_eq(spmd_value_count_wrong(&ya, &same), 0); /* i32 and i64 seeds of one value */
    spmd_values_free((spmd_value[]){ya, yb, yc, same}, 4);
}
END_TEST

START_TEST(random_of_nothing_and_of_a_scalar)
{
    draw d = {.fn = _i, .rank = 0, .spec = ""}, none = {.fn = _i, .rank = 2, .shape = {4, 0}, .spec = "-"};
    spmd_value y = drawn("x=1", &d, SPMD_I32, 1), z = drawn("x=1", &none, SPMD_I32, 1);
    ck_assert_int_eq(spmd_value_count(&y), 1);
    ck_assert_int_eq(spmd_value_count(&z), 0);
    spmd_values_free((spmd_value[]){y, z}, 2);
}
END_TEST

START_TEST(random_errors)
{
    draw d = {.fn = UNIFORM, .rank = 1, .shape = {4}, .spec = "z"};
    spmd_value seed = spmd_value_zeros(SPMD_I32, NULL, 0, NULL), odd = spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(2));
    spmd_value y = {.spec = "x"};
    ck_spmd_fails(spmd_test_run("x=2", random_op, &d, 1, &seed, 1, &y), SPMD_EAXIS, "z");
    d.spec = "-";
    ck_spmd_fails(spmd_test_op(random_op, &d, 1, &odd, &y), SPMD_EDTYPE, "random_uniform: seed is f32[2]");
    /* cut over x, so it varies there: it cannot be returned as replicated */
    d.spec = "x";
    y.spec = NULL;
    ck_spmd_fails(spmd_test_run("x=2", random_op, &d, 1, &seed, 1, &y), SPMD_EREPLICATION, "x");
    spmd_values_free((spmd_value[]){seed, odd}, 2);
}
END_TEST

SPMD_TEST_MAIN("random", tcase_add_loop_test(tc, philox_known_answers, 0, 3);
               tcase_add_loop_test(tc, values_do_not_depend_on_the_mesh, 0, FNS *MESHES);
               tcase_add_test(tc, uniform_is_philox_of_the_index); tcase_add_loop_test(tc, moments, 0, FNS);
               tcase_add_loop_test(tc, seeds_and_streams_differ, 0, FNS);
               tcase_add_loop_test(tc, random_of_nothing_and_of_a_scalar, 0, FNS); tcase_add_test(tc, random_errors);)
