/* CUDA kernels against the host's, at sizes where they take ways of their own: a block a row instead of a warp, packs
 * and what is left of them, sums in several parts, tiles that are not full, more parameters than one launch takes. */
#include "spmd/testing.h"
#ifdef SPMD_EMU
#include "emu/emu.h"
#include <string.h>

static spmd_status softmax(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_softmax(ctx, in, out);
}

static spmd_status cross_entropy(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_softmax_cross_entropy(ctx, &in[0], &in[1], out);
}

static spmd_status layer_norm(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_layer_norm(ctx, &in[0], &in[1], &in[2], 1e-5, out);
}

static spmd_status bias_gelu(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_bias_gelu(ctx, &in[0], &in[1], out);
}

static spmd_status embedding(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_embedding(ctx, &in[0], &in[1], out);
}

static spmd_status attention(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_causal_attention(ctx, &in[0], &in[1], &in[2], out);
}

static spmd_status add(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_add(ctx, &in[0], &in[1], out);
}

static spmd_status transpose(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_transpose(ctx, in, NULL, out);
}

static spmd_status heads(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_transpose(ctx, in, (const int[]){0, 2, 1, 3}, out);
}

static spmd_status middle(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_slice(ctx, in, 1, 16, 32, out);
}

static spmd_status sum_all(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_sum(ctx, in, NULL, 0, false, out);
}

static spmd_status sum_first(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_sum(ctx, in, (const int[]){0}, 1, false, out);
}

static spmd_status mean_last(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_mean(ctx, in, (const int[]){-1}, 1, true, out);
}

static spmd_status sum_outer(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_sum(ctx, in, (const int[]){0, 2}, 2, false, out);
}

static spmd_status largest(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_max(ctx, in, NULL, 0, false, out);
}

static spmd_status argmax(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_argmax(ctx, in, -1, out);
}

/* A step over the rows of x, each a parameter. */
static spmd_status adamw(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    enum { MOST = 64 };
    const spmd_adamw_opts opts = {0.9, 0.999, 1e-8, 1e-2};
    int n = (int)in->shape[0];
    spmd_tensor p[MOST], mu[MOST], nu[MOST], rate, count;
    (void)user;
    SPMD_TRY(spmd_full(ctx, 1e-2, SPMD_F32, SPMD_SCALAR, &rate));
    SPMD_TRY(spmd_full(ctx, 3, SPMD_F32, SPMD_SCALAR, &count));
    for (int i = 0; i < n; i++) {
        SPMD_TRY(spmd_slice(ctx, in, 0, i, 1, &p[i]));
        SPMD_TRY(spmd_square(ctx, &p[i], &nu[i]));
        mu[i] = p[i];
    }
    SPMD_TRY(spmd_adamw(ctx, &opts, n, p, mu, mu, nu, &rate, &count, p, mu, nu));
    return spmd_concat(ctx, p, n, 0, out);
}

enum { ROWS_MOST = 3, INDEX = 1 };

static const struct row {
    const char *name;
    spmd_test_op_fn *fn;
    spmd_dtype dtype;
    double tolerance;
    bool grad;
    int index_below; /* input 1 is an i32 index below this */
    int nin;
    struct {
        int rank;
        int64_t shape[4];
    } in[ROWS_MOST];
} rows[] = {
    {"softmax, a block a row", softmax, SPMD_F32, 1e-6, true, 0, 1, {{2, {3, 2048}}}},
    {"softmax, no packs", softmax, SPMD_BF16, 8e-3, true, 0, 1, {{2, {3, 1030}}}},
    {"softmax, warps without a row", softmax, SPMD_F16, 1e-3, true, 0, 1, {{2, {13, 72}}}},
    {"cross entropy", cross_entropy, SPMD_F32, 1e-6, true, 1500, 2, {{2, {5, 1500}}, {1, {5}}}},
    {"layer norm, a block a row", layer_norm, SPMD_F32, 3e-6, true, 0, 3, {{2, {3, 1032}}, {1, {1032}}, {1, {1032}}}},
    {"layer norm, rows in parts", layer_norm, SPMD_BF16, 1e-2, true, 0, 3, {{2, {300, 40}}, {1, {40}}, {1, {40}}}},
    {"bias_gelu, rows in parts", bias_gelu, SPMD_F32, 2e-6, true, 0, 2, {{2, {301, 41}}, {1, {41}}}},
    {"bias_gelu, packs", bias_gelu, SPMD_F16, 2e-3, true, 0, 2, {{2, {70, 64}}, {1, {64}}}},
    {"embedding", embedding, SPMD_F32, 0, true, 1100, 2, {{2, {1100, 130}}, {1, {300}}}},
    {"embedding, packs", embedding, SPMD_BF16, 0, true, 7, 2, {{2, {7, 32}}, {2, {10, 30}}}},
    {"attention",
     attention,
     SPMD_F32,
     3e-6,
     true,
     0,
     3,
     {{4, {1, 2, 70, 40}}, {4, {1, 2, 70, 40}}, {4, {1, 2, 70, 40}}}},
    {"attention, bf16",
     attention,
     SPMD_BF16,
     2e-2,
     true,
     0,
     3,
     {{4, {1, 1, 70, 48}}, {4, {1, 1, 70, 48}}, {4, {1, 1, 70, 48}}}},
    {"attention, f16",
     attention,
     SPMD_F16,
     2e-3,
     true,
     0,
     3,
     {{4, {2, 1, 33, 20}}, {4, {2, 1, 33, 20}}, {4, {2, 1, 33, 20}}}},
    {"attention, large heads",
     attention,
     SPMD_BF16,
     2e-2,
     true,
     0,
     3,
     {{4, {1, 1, 36, 136}}, {4, {1, 1, 36, 136}}, {4, {1, 1, 36, 136}}}},
    {"add, broadcast packs", add, SPMD_F32, 1e-6, true, 0, 2, {{3, {16, 1, 32}}, {2, {8, 32}}}},
    {"add, bias", add, SPMD_BF16, 1e-2, true, 0, 2, {{2, {270, 24}}, {1, {24}}}},
    {"add, the end of a pack", add, SPMD_F16, 1e-3, true, 0, 2, {{1, {1029}}, {1, {1029}}}},
    {"transpose", transpose, SPMD_F32, 0, true, 0, 1, {{2, {70, 45}}}},
    {"transpose, three dimensions", transpose, SPMD_BF16, 0, true, 0, 1, {{3, {33, 2, 70}}}},
    {"transpose, whole rows", heads, SPMD_BF16, 0, true, 0, 1, {{4, {2, 9, 3, 16}}}},
    {"slice, 16 bytes at once", middle, SPMD_BF16, 0, true, 0, 1, {{2, {9, 64}}}},
    {"sum in parts", sum_all, SPMD_F32, 2e-6, true, 0, 1, {{2, {70, 1001}}}},
    {"sum of rows in parts", mean_last, SPMD_F32, 2e-6, true, 0, 1, {{2, {3, 9000}}}},
    {"sum of columns in parts", sum_first, SPMD_F16, 2e-3, true, 0, 1, {{2, {700, 33}}}},
    {"sum over both ends", sum_outer, SPMD_BF16, 1e-2, true, 0, 1, {{3, {9, 40, 24}}}},
    {"max in parts", largest, SPMD_F32, 0, false, 0, 1, {{1, {50000}}}},
    {"argmax", argmax, SPMD_BF16, 0, false, 0, 1, {{2, {11, 700}}}},
    {"adamw, many parameters", adamw, SPMD_F32, 1e-6, false, 0, 1, {{2, {60, 5}}}},
    {"adamw, large ones", adamw, SPMD_F32, 1e-6, false, 0, 1, {{2, {3, 9001}}}},
};

static void make_inputs(const struct row *r, spmd_value in[ROWS_MOST])
{
    for (int k = 0; k < r->nin; k++) {
        bool index = k == INDEX && r->index_below;
        in[k] = spmd_value_random(index ? SPMD_I32 : r->dtype, NULL, r->in[k].rank, r->in[k].shape, 1, (unsigned)k + 1);
        for (int64_t i = 0; index && i < spmd_value_count(&in[k]); i++)
            spmd_value_set(&in[k], i, (double)(i * i * 7 % r->index_below));
    }
}

static void expect_close(const struct row *r, const char *what, const spmd_value *got, const spmd_value *want)
{
    double difference = spmd_value_difference(got, want);
    ck_assert_msg(difference <= r->tolerance, "%s, %s: %g from the host's, at most %g expected", r->name, what,
                  difference, r->tolerance);
}

START_TEST(as_on_the_host)
{
    const struct row *r = &rows[_i];
    spmd_value in[ROWS_MOST], out[2], grads[2][ROWS_MOST];
    setenv("SPMD_CUDA_MEMORY", "16", true);
    emu_configure(1, EMU_RANDOM, 1);
    make_inputs(r, in);
    for (int cuda = 0; cuda < 2; cuda++) {
        setenv("SPMD_TEST_BACKEND", cuda ? "cuda" : "host", true);
        ck_spmd_ok(spmd_test_op(r->fn, NULL, r->nin, in, &out[cuda]));
        if (!r->grad)
            continue;
        spmd_value ct = spmd_value_random(out[0].dtype, NULL, out[0].rank, out[0].shape, 1, 9);
        ck_spmd_ok(spmd_test_vjp(r->fn, NULL, r->nin, in, &ct, grads[cuda]));
        spmd_value_free(&ct);
    }
    expect_close(r, "result", &out[1], &out[0]);
    for (int k = 0; r->grad && k < r->nin; k++) {
        char what[32];
        snprintf(what, sizeof what, "gradient %d", k);
        if (grads[0][k].data)
            expect_close(r, what, &grads[1][k], &grads[0][k]);
    }
    ck_assert_msg(emu_reports(NULL) == 0, "%s: %s", r->name, emu_report_text(NULL));
    for (int cuda = 0; cuda < 2; cuda++) {
        spmd_value_free(&out[cuda]);
        if (r->grad)
            spmd_values_free(grads[cuda], r->nin);
    }
    spmd_values_free(in, r->nin);
}
END_TEST

START_TEST(heads_that_do_not_fit)
{
    spmd_value in[3], out;
    setenv("SPMD_TEST_BACKEND", "cuda", true);
    emu_configure(1, EMU_RANDOM, 1);
    for (int k = 0; k < 3; k++)
        in[k] = spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(1, 1, 2, 1024));
    ck_spmd_fails(spmd_test_op(attention, NULL, 3, in, &out), SPMD_EUNSUPPORTED,
                  "causal_attention: heads of 1024 take 402304 bytes");
    spmd_values_free(in, 3);
}
END_TEST

SPMD_TEST_MAIN("cuda_kernels", tcase_add_loop_test(tc, as_on_the_host, 0, sizeof rows / sizeof *rows);
               tcase_add_test(tc, heads_that_do_not_fit);)

#else

int main(void)
{
    return spmd_test_skip("this build has no emulated CUDA");
}
#endif
