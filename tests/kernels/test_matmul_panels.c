/* Products by panels of B's columns: the same as in one call, whatever is added, packed or not, on every processor that
 * oneDNN runs on; and the rule which products take this way. */
#include "kernels/matmul/gemm.h"
#include "spmd/testing.h"

typedef struct product {
    int64_t m, n, k;
    bool bias, accumulate;
} product;

static product case_of(int i)
{
    static const int64_t sizes[][3] = {{64, 512, 80}, {65, 600, 7}, {3, 64, 16}, {100, 72, 33}, {300, 1024, 64}};
    const int64_t *s = sizes[i / 3];
    return (product){s[0], s[1], s[2], i % 3 == 1, i % 3 == 2};
}
enum { CASES = 15 };

/* The panels follow each other; the last one may be narrower. */
static void pack(const product *p, const float *b, float *out)
{
    for (int64_t j = 0; j < p->n; j += SPMD__PANEL)
        for (int64_t i = 0; i < p->k; i++)
            for (int64_t c = j; c < j + SPMD__PANEL && c < p->n; c++)
                *out++ = b[i * p->n + c];
}

/* Both ways into memory that holds the addend. in: a, b, bias, addend; out: the number of wrong elements. */
static spmd_status both_ways(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const product *p = user;
    spmd_view v[4];
    for (int k = 0; k < 4; k++)
        SPMD_TRY(spmd_local(ctx, &in[k], &v[k]));
    size_t size = (size_t)(p->m * p->n);
    float *want = spmd__scratch(ctx, size * sizeof *want), *got = spmd__scratch(ctx, size * sizeof *got);
    float *panels = spmd__scratch(ctx, (size_t)(p->k * p->n) * sizeof *panels);
    SPMD_CHECK(want && got && panels, SPMD_ENOMEM, "no memory for the test");
    spmd__gemm_case c = {.dtype = SPMD_F32, .out_dtype = SPMD_F32, .batch = 1, .m = p->m, .n = p->n, .k = p->k};
    c.accumulate = p->accumulate;
    const float *bias = p->bias ? v[2].data : NULL;
    bool done, whole;
    double wrong = 0;
    memcpy(want, v[3].data, size * sizeof *want);
    SPMD_TRY(spmd__gemm_onednn(ctx, &c, v[0].data, v[1].data, bias, want, &whole));
    pack(p, v[1].data, panels);
    for (int packed = 0; packed < 2; packed++) {
        memcpy(got, v[3].data, size * sizeof *got);
        c.packed_b = packed;
        SPMD_TRY(spmd__gemm_panels(ctx, &c, v[0].data, packed ? panels : v[1].data, bias, got, &done));
        SPMD_CHECK(done == whole, SPMD_EUSER, "oneDNN does it whole: %d, by panels: %d", whole, done);
        for (size_t i = 0; i < size; i++)
            wrong += got[i] != (whole ? want[i] : ((const float *)v[3].data)[i]);
    }
    return spmd_full(ctx, wrong, SPMD_F32, SPMD_SCALAR, out);
}

START_TEST(same_as_in_one_call)
{
    product p = case_of(_i);
    spmd_value in[4] = {spmd_value_exact(SPMD_F32, NULL, SPMD_SHAPE(p.m, p.k), 1),
                        spmd_value_exact(SPMD_F32, NULL, SPMD_SHAPE(p.k, p.n), 2),
                        spmd_value_exact(SPMD_F32, NULL, SPMD_SHAPE(p.n), 3),
                        spmd_value_exact(SPMD_F32, NULL, SPMD_SHAPE(p.m, p.n), 4)},
               out = {.spec = NULL};
    ck_spmd_ok(spmd_test_run("x=1", both_ways, &p, 4, in, 1, &out));
    ck_assert_double_eq(spmd_value_at(&out, 0), 0);
    spmd_values_free(in, 4);
    spmd_value_free(&out);
}
END_TEST

START_TEST(which_products)
{
    bool in_place = spmd__onednn_reads_in_place();
    spmd__gemm_case c = {.dtype = SPMD_F32, .out_dtype = SPMD_F32, .batch = 1, .m = 256, .n = 1024, .k = 1024};
    ck_assert(!(in_place && spmd__onednn_reads_panels()));
    ck_assert_int_eq(spmd__panels_pay(&c), in_place);
    c.m = 319, c.n = 512, c.k = 1;
    ck_assert_int_eq(spmd__panels_pay(&c), in_place);
    spmd__gemm_case others[] = {c, c, c, c, c, c};
    others[0].m = 320;
    others[1].m = 63;
    others[2].n = 511;
    others[3].transpose_a = true;
    others[4].transpose_b = true;
    others[5].batch = 2;
    for (int k = 0; k < 6; k++)
        ck_assert_msg(!spmd__panels_pay(&others[k]), "case %d", k);
}
END_TEST

SPMD_TEST_MAIN("matmul, panels", tcase_add_loop_test(tc, same_as_in_one_call, 0, CASES);
               tcase_add_test(tc, which_products);)
