/* Kernels on memory that begins anywhere. They read and write packs of 16 bytes where addresses allow it; one element
 * further they do not, which the emulator would report, and the results must be the same. */
#include "spmd/testing.h"
#ifdef SPMD_EMU
#include "emu/emu.h"
#include "spmd/op.h"
#include <string.h>

typedef spmd_status kernel_fn(spmd_ctx *ctx, const spmd_kernel_args *args);
kernel_fn spmd__add_cuda, spmd__full_cuda, spmd__gelu_cuda, spmd__softmax_cuda, spmd__sum_cuda;

enum { INPUTS = 2 };

/* The inputs have one shape, of which the result has the first dimensions. */
static const struct row {
    const char *name;
    kernel_fn *kernel;
    spmd_dtype dtype;
    int nin, rank, out_rank;
    int64_t shape[2];
    spmd_attr attr;
} rows[] = {
    {"add", spmd__add_cuda, SPMD_F32, 2, 1, 1, {2059}, {.i = {0}}},
    {"gelu", spmd__gelu_cuda, SPMD_BF16, 1, 1, 1, {2059}, {.i = {0}}},
    {"full", spmd__full_cuda, SPMD_F16, 0, 1, 1, {2059}, {.f = {1.5}}},
    {"sum", spmd__sum_cuda, SPMD_BF16, 1, 2, 1, {3, 2048}, {.i = {2}}},
    {"softmax", spmd__softmax_cuda, SPMD_F32, 1, 2, 2, {5, 64}, {.i = {0}}},
};

typedef struct placed {
    const struct row *row;
    int64_t begin; /* of all operands, in elements */
} placed;

static int64_t count(const struct row *r, int rank)
{
    return rank == 1 ? r->shape[0] : r->shape[0] * r->shape[1];
}

static spmd_status view_of(spmd_ctx *ctx, const placed *p, const spmd_tensor *tensor, int rank, spmd_view *out)
{
    SPMD_TRY(spmd_local(ctx, tensor, out));
    out->data = (char *)out->data + (size_t)p->begin * spmd_dtype_size(p->row->dtype);
    out->rank = rank;
    memcpy(out->shape, p->row->shape, sizeof p->row->shape);
    out->strides[0] = rank == 1 ? 1 : out->shape[1];
    out->strides[rank - 1] = 1;
    return SPMD_OK;
}

/* The kernel, on inputs of one element more, to zeros. */
static spmd_status run_placed(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const placed *p = user;
    const struct row *r = p->row;
    spmd_view x[INPUTS], y;
    SPMD_TRY(spmd_full(ctx, 0, r->dtype, SPMD_SHAPE(count(r, r->out_rank) + 1), out));
    SPMD_TRY(view_of(ctx, p, out, r->out_rank, &y));
    for (int k = 0; k < r->nin; k++)
        SPMD_TRY(view_of(ctx, p, &in[k], r->rank, &x[k]));
    return r->kernel(ctx, &(spmd_kernel_args){.attr = &r->attr, .nin = r->nin, .nout = 1, .in = x, .out = &y});
}

START_TEST(places_do_not_matter)
{
    const struct row *r = &rows[_i];
    int64_t n = count(r, r->rank), results = count(r, r->out_rank);
    spmd_value in[INPUTS], out[2];
    setenv("SPMD_TEST_BACKEND", "cuda", true);
    emu_configure(1, EMU_RANDOM, 1);
    for (int64_t begin = 0; begin < 2; begin++) {
        placed p = {r, begin};
        for (int k = 0; k < INPUTS; k++) {
            in[k] = spmd_value_zeros(r->dtype, NULL, SPMD_SHAPE(n + 1));
            for (int64_t i = 0; i < n; i++)
                spmd_value_set(&in[k], begin + i, (double)((i * 7 + k) % 23 - 11) / 8);
        }
        ck_spmd_ok(spmd_test_op(run_placed, &p, r->nin, in, &out[begin]));
        spmd_values_free(in, INPUTS);
    }
    ck_assert_msg(emu_reports(NULL) == 0, "%s: %s", r->name, emu_report_text(NULL));
    ck_assert_double_eq(spmd_value_at(&out[0], results), 0); /* what lies beside the results stays */
    ck_assert_double_eq(spmd_value_at(&out[1], 0), 0);
    for (int64_t i = 0; i < results; i++)
        ck_assert_double_eq_tol(spmd_value_at(&out[0], i), spmd_value_at(&out[1], i + 1), 1e-6);
    ck_assert_double_ne(spmd_value_at(&out[0], results - 1), 0);
    spmd_values_free(out, 2);
}
END_TEST

SPMD_TEST_MAIN("cuda_views", tcase_add_loop_test(tc, places_do_not_matter, 0, sizeof rows / sizeof *rows);)

#else

int main(void)
{
    return spmd_test_skip("this build has no emulated CUDA");
}
#endif
