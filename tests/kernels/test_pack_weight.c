/* Weights that are packed for many products: where they lie, that no bit changes, and that a new launch sees its own
 * values. */
#include "kernels/matmul/gemm.h"
#include "spmd/testing.h"

enum { USES = 6, FIRST_PACKED = 3 };

static const struct {
    int64_t rows, k, n;
    bool fits;
} sizes[] = {{5, 64, 64, true},  {5, 16, 128, true}, {5, 80, 192, true},  {5, 1024, 64, true},
             {5, 24, 64, false}, {5, 64, 48, false}, {64, 80, 576, true}, {64, 80, 600, false}};
enum { SIZES = sizeof sizes / sizeof *sizes, CASES = SIZES * 2 * 3 };
static const spmd_dtype dtypes[] = {SPMD_F32, SPMD_BF16, SPMD_F16};

typedef struct product {
    int64_t rows, k, n;
    bool fits, transposed;
    spmd_dtype dtype;
} product;

static product case_of(int i)
{
    return (product){sizes[i / 6].rows, sizes[i / 6].k, sizes[i / 6].n, sizes[i / 6].fits, i / 3 % 2, dtypes[i % 3]};
}

static spmd_value weight_of(const product *p, unsigned seed)
{
    int64_t shape[] = {p->transposed ? p->n : p->k, p->transposed ? p->k : p->n};
    return spmd_value_random(p->dtype, NULL, 2, shape, 1, seed);
}

/* As pack_weight.c and matmul_panels.c say. */
static bool machine_packs(const product *p)
{
    return spmd__onednn_reads_panels() || (spmd__onednn_reads_in_place() && p->rows >= 64 && p->n >= 512);
}

static double element(const spmd_view *w, int64_t i)
{
    const spmd_value value = {.dtype = w->dtype, .rank = w->rank, .data = w->data};
    return spmd_value_at(&value, i);
}

/* Panels of 64 columns, or as it was. */
static spmd_status check_packed(const product *p, const spmd_view *w, bool panels, const float *packed)
{
    for (int64_t i = 0; i < p->k; i++)
        for (int64_t j = 0; j < p->n; j++) {
            int64_t at = p->transposed ? j * p->k + i : i * p->n + j;
            double want = element(w, at), got = (double)packed[panels ? (j / 64 * p->k + i) * 64 + j % 64 : at];
            SPMD_CHECK(got == want, SPMD_EUSER, "element %lld, %lld is %g: expected %g", (long long)i, (long long)j,
                       got, want);
        }
    return SPMD_OK;
}

static spmd_status ask(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const product *p = user;
    spmd_view w;
    SPMD_TRY(spmd_local(ctx, &in[0], &w));
    const spmd__gemm_case c = {.dtype = p->dtype,
                               .out_dtype = SPMD_F32,
                               .batch = 1,
                               .m = p->rows,
                               .n = p->n,
                               .k = p->k,
                               .transpose_b = p->transposed,
                               .value_b = w.value};
    SPMD_CHECK(w.value, SPMD_EUSER, "the view of a value has no number");
    for (int use = 0; use < USES; use++) {
        spmd__gemm_case wide;
        const float *packed;
        SPMD_TRY(spmd__pack_weight(ctx, &c, w.data, false, &wide, &packed));
        bool panels = use >= FIRST_PACKED && p->fits && !p->transposed && machine_packs(p);
        bool want = panels || (use >= FIRST_PACKED && p->dtype != SPMD_F32);
        SPMD_CHECK((packed != NULL) == want, SPMD_EUSER, "use %d: packed %d, expected %d", use, packed != NULL, want);
        SPMD_CHECK(wide.packed_b == panels && wide.dtype == SPMD_F32, SPMD_EUSER, "use %d: the wrong product", use);
        if (packed)
            SPMD_TRY(check_packed(p, &w, panels, packed));
    }
    out[0] = in[0];
    return SPMD_OK;
}

START_TEST(packed)
{
    product p = case_of(_i);
    spmd_value w = weight_of(&p, 1), out = {0};
    ck_spmd_ok(spmd_test_run("x=1", ask, &p, 1, &w, 1, &out));
    spmd_values_free((spmd_value[]){w, out}, 2);
}
END_TEST

/* The first and the last of many products with one weight. */
static spmd_status multiply(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const product *p = user;
    SPMD_TRY(spmd_matmul(ctx, &in[0], &in[1], false, p->transposed, &out[0]));
    for (int use = 1; use < USES; use++)
        SPMD_TRY(spmd_matmul(ctx, &in[0], &in[1], false, p->transposed, &out[1]));
    return SPMD_OK;
}

START_TEST(no_bit_changes)
{
    enum { LAUNCHES = 3 }; /* the weight is new in every one of them */
    product p = case_of(_i);
    spmd_value x = spmd_value_random(p.dtype, NULL, SPMD_SHAPE(p.rows, p.k), 1, 7);
    spmd_value first = spmd_value_zeros(p.dtype, NULL, SPMD_SHAPE(p.rows, p.n)), last = first, want[2] = {0};
    last.data = malloc((size_t)spmd_value_count(&last) * spmd_dtype_size(p.dtype));
    spmd_mesh *mesh;
    spmd_array *in[2], *out[2] = {NULL, NULL};
    ck_spmd_ok(spmd_mesh_create("x=1", spmd_test_backend(), &mesh));
    ck_spmd_ok(spmd_shard(mesh, x.data, p.dtype, 2, x.shape, SPMD_REPLICATED, &in[0]));
    for (int launch = 0; launch < LAUNCHES; launch++) {
        spmd_value w = weight_of(&p, (unsigned)launch), both[] = {x, w};
        if (launch == 0)
            ck_spmd_ok(spmd_shard(mesh, w.data, p.dtype, 2, w.shape, SPMD_REPLICATED, &in[1]));
        ck_spmd_ok(spmd_shard_update(in[1], w.data));
        const spmd_job job = {.mesh = mesh,
                              .fn = multiply,
                              .user = &p,
                              .nin = 2,
                              .in = in,
                              .nout = 2,
                              .out = out,
                              .out_specs = (spmd_spec[]){SPMD_REPLICATED, SPMD_REPLICATED}};
        ck_spmd_ok(spmd_shard_map(&job));
        ck_spmd_ok(spmd_unshard(out[0], first.data));
        ck_spmd_ok(spmd_unshard(out[1], last.data));
        ck_spmd_ok(spmd_test_run("x=1", multiply, &p, 2, both, 2, want)); /* on a mesh that has packed nothing yet */
        ck_assert_int_eq(spmd_value_count_wrong(&first, &want[0]), 0);
        ck_assert_int_eq(spmd_value_count_wrong(&last, &want[0]), 0);
        ck_assert_int_eq(spmd_value_count_wrong(&want[1], &want[0]), 0);
        spmd_values_free((spmd_value[]){w, want[0], want[1]}, 3);
    }
    for (int k = 0; k < 2; k++) {
        spmd_array_destroy(in[k]);
        spmd_array_destroy(out[k]);
    }
    ck_spmd_ok(spmd_mesh_destroy(mesh));
    spmd_values_free((spmd_value[]){x, first, last}, 3);
}
END_TEST

SPMD_TEST_MAIN("pack_weight", tcase_add_loop_test(tc, packed, 0, CASES);
               tcase_add_loop_test(tc, no_bit_changes, 0, CASES);)
