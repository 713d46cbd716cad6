/* The reductions' loops alone: every dtype and kind, views that begin anywhere, lengths around tiles and vectors, in
 * place or not; and the conversions of 16-bit floats, all 65536 of each. */
#include "collectives/coll.h"
#include "spmd/half.h"
#include "spmd/testing.h"

enum { MOST = 5, ROOM = 5000 };

/* One element by the definition. */
static double fold_one(const spmd_fold *fold, const spmd_value *src, int nsrc, int64_t at)
{
    double result = spmd_value_at(&src[0], at);
    for (int k = 1; k < nsrc; k++) {
        double x = spmd_value_at(&src[k], at);
        bool better = fold->kind == SPMD_REDUCE_MAX ? x > result : x < result;
        if (fold->kind == SPMD_REDUCE_MAX || fold->kind == SPMD_REDUCE_MIN)
            result = better || x != x ? x : result;
        else
            result += x;
    }
    return fold->kind == SPMD_REDUCE_MEAN ? (double)((float)result / fold->divisor) : result;
}

/* Elements [from, from + count) of values of ROOM elements; the rest must stay as it is. */
static void check_fold(spmd_fold fold, int nsrc, int64_t from, int64_t count, bool in_place)
{
    spmd_value in[MOST], want[MOST], out[MOST];
    const void *src[MOST];
    void *dst[MOST];
    size_t in_size = spmd_dtype_size(fold.in), out_size = spmd_dtype_size(fold.out);
    for (int k = 0; k < nsrc; k++) {
        in[k] = spmd_value_exact(fold.in, NULL, SPMD_SHAPE(ROOM), (unsigned)k + 1);
        if (spmd_dtype_is_float(fold.in) && count > 3) /* every position of a NaN, now and then */
            spmd_value_set(&in[k], from + count * (k + 1) / (nsrc + 1), NAN);
        want[k] = in_place ? spmd_value_exact(fold.in, NULL, SPMD_SHAPE(ROOM), (unsigned)k + 1)
                           : spmd_value_zeros(fold.out, NULL, SPMD_SHAPE(ROOM));
        out[k] = in_place ? in[k] : spmd_value_zeros(fold.out, NULL, SPMD_SHAPE(ROOM));
        src[k] = (char *)in[k].data + (size_t)from * in_size;
        dst[k] = (char *)out[k].data + (size_t)from * out_size;
    }
    for (int k = 0; k < nsrc; k++) {
        if (in_place) /* what lies outside stays, NaN or not */
            memcpy(want[k].data, in[k].data, ROOM * in_size);
        for (int64_t i = from; i < from + count; i++)
            spmd_value_set(&want[k], i, fold_one(&fold, in, nsrc, i));
    }
    spmd__fold(&fold, src, nsrc, dst, nsrc, count);
    for (int k = 0; k < nsrc; k++)
        ck_assert_msg(spmd_value_count_wrong(&out[k], &want[k]) == 0,
                      "kind %d of %s, %d sources, %lld from %lld, in place %d, past caches %d: %lld wrong", fold.kind,
                      spmd_dtype_name(fold.in), nsrc, (long long)count, (long long)from, in_place, fold.stream,
                      (long long)spmd_value_count_wrong(&out[k], &want[k]));
    spmd_values_free(in, nsrc);
    spmd_values_free(want, nsrc);
    if (!in_place)
        spmd_values_free(out, nsrc);
}

START_TEST(folds_equal_the_definition)
{
    static const int64_t counts[] = {0, 1, 3, 63, 65, 1023, 1024, 1025, 4095, 4097};
    spmd_dtype dtype = (spmd_dtype)(_i / 4);
    spmd_reduction kind = (spmd_reduction)(_i % 4);
    for (int k = 0; k < 10; k++)
        for (int nsrc = 1; nsrc <= MOST; nsrc++)
            for (int way = 0; way < 3; way++) {
                spmd_fold fold = {kind, dtype, spmd__reduction_dtype(kind, dtype), (float)nsrc, way == 2};
                if (way != 1 || fold.in == fold.out)
                    check_fold(fold, nsrc, k % 4, counts[k], way == 1);
            }
}
END_TEST

/* --- 16-bit floats --- */
static double f16_value(unsigned h)
{
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    double magnitude = exponent == 31  ? (mantissa ? (double)NAN : (double)INFINITY)
                       : exponent == 0 ? ldexp(mantissa, -24)
                                       : ldexp(1024 + mantissa, exponent - 25);
    return h >> 15 ? -magnitude : magnitude;
}

static double bf16_value(unsigned h)
{
    int exponent = h >> 7 & 255, mantissa = h & 127;
    double magnitude = exponent == 255 ? (mantissa ? (double)NAN : (double)INFINITY)
                       : exponent == 0 ? ldexp(mantissa, -133)
                                       : ldexp(128 + mantissa, exponent - 134);
    return h >> 15 ? -magnitude : magnitude;
}

START_TEST(conversions_are_exact_and_round_to_even)
{
    double (*value)(unsigned) = _i ? bf16_value : f16_value;
    float (*widen)(uint16_t) = _i ? spmd__bf16_to_f32 : spmd__f16_to_f32;
    uint16_t (*narrow)(float) = _i ? spmd__f32_to_bf16 : spmd__f32_to_f16;
    unsigned infinity = _i ? 0x7f80 : 0x7c00;
    for (unsigned h = 0; h < 65536; h++) {
        double x = value(h);
        float f = widen((uint16_t)h);
        unsigned magnitude = h & 0x7fff, sign = h & 0x8000;
        if (magnitude > infinity) {
            ck_assert(isnan(f) && (narrow(f) & 0x7fff) > infinity);
            continue;
        }
        ck_assert_msg(f == x && !!signbit(f) == !!sign, "%04x is %g, wanted %g", h, (double)f, x);
        ck_assert_int_eq(narrow(f), (int)h);
        if (magnitude >= infinity)
            continue;
        /* Half of the way to the next one: to the even one; a little more or less: to the nearer one. The largest
         * one's next would be where infinity is. */
        double next = magnitude + 1 == infinity ? ldexp(1, _i ? 128 : 16) : fabs(value(magnitude + 1));
        float middle = (float)((fabs(x) + next) / 2), signed_middle = sign ? -middle : middle;
        float less = nextafterf(middle, 0), more = nextafterf(middle, INFINITY);
        ck_assert_int_eq(narrow(signed_middle), (int)(h + (h & 1)));
        ck_assert_int_eq(narrow(sign ? -less : less), (int)h);
        ck_assert_int_eq(narrow(sign ? -more : more), (int)h + 1);
    }
    ck_assert_int_eq(narrow(INFINITY), (int)infinity);
    ck_assert_int_eq(narrow(-3e38F) & 0x7fff, _i ? 0x7f62 : (int)infinity);
}
END_TEST

SPMD_TEST_MAIN("fold", tcase_add_loop_test(tc, folds_equal_the_definition, 0, 4 * SPMD_DTYPE_COUNT);
               tcase_add_loop_test(tc, conversions_are_exact_and_round_to_even, 0, 2);)
