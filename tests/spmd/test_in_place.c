/* Programs reuse the memory of an op's input for its output, but only when nothing needs the input any more. */
#include "spmd/testing.h"

enum { N = 64 }; /* more than one unit of memory */

/* The input is used again later. */
static spmd_status used_later(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out)
{
    spmd_tensor a, b;
    SPMD_TRY(spmd_exp(ctx, x, &a));
    SPMD_TRY(spmd_scale(ctx, &a, 2, &b));
    SPMD_TRY(spmd_add(ctx, &b, &b, &b));
    return spmd_sub(ctx, &a, &b, out);
}

/* A view of the input is used again later. */
static spmd_status view_used_later(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out)
{
    spmd_tensor a, b, view;
    SPMD_TRY(spmd_exp(ctx, x, &a));
    SPMD_TRY(spmd_reshape(ctx, &a, SPMD_SHAPE(1, N), &view));
    SPMD_TRY(spmd_scale(ctx, &a, 3, &b));
    SPMD_TRY(spmd_reshape(ctx, &b, SPMD_SHAPE(1, N), &b));
    SPMD_TRY(spmd_sub(ctx, &view, &b, &b));
    return spmd_reshape(ctx, &b, SPMD_SHAPE(N), out);
}

/* The first operand is broadcast: its memory is too small, and `b` lies behind it. */
static spmd_status broadcast(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out)
{
    spmd_tensor a, b, sum;
    SPMD_TRY(spmd_exp(ctx, x, &a));
    SPMD_TRY(spmd_sum(ctx, &a, NULL, 0, false, &sum));
    SPMD_TRY(spmd_exp(ctx, &a, &b));
    SPMD_TRY(spmd_add(ctx, &sum, &a, &a));
    return spmd_sub(ctx, &a, &b, out);
}

/* Nothing needs any of them: each op works where the last one did. */
static spmd_status chain(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out)
{
    spmd_tensor a;
    SPMD_TRY(spmd_exp(ctx, x, &a));
    for (int k = 0; k < 5; k++)
        SPMD_TRY(spmd_scale(ctx, &a, 1.5, &a));
    return spmd_exp(ctx, &a, out);
}

typedef spmd_status program_fn(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *out);
static const struct {
    program_fn *fn;
    int64_t most_bytes; /* of the plan; 0: not looked at */
} rows[] = {{used_later, 0}, {view_used_later, 0}, {broadcast, 0}, {chain, N * sizeof(float)}};

static spmd_status body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return (*(program_fn *const *)user)(ctx, &in[0], &out[0]);
}

START_TEST(like_eager)
{
    float x[N], got[2][N];
    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 7) / 4 - 1;
    spmd_mesh *mesh;
    spmd_jit *jit;
    spmd_array *in, *out[2] = {NULL, NULL};
    spmd_spec spec = SPMD_REPLICATED;
    program_fn *fn = rows[_i].fn;
    ck_spmd_ok(spmd_mesh_create("x=1", spmd_test_backend(), &mesh));
    ck_spmd_ok(spmd_jit_create(mesh, &jit));
    ck_spmd_ok(spmd_shard(mesh, x, SPMD_F32, SPMD_SHAPE(N), SPMD_REPLICATED, &in));
    spmd_job job = {.mesh = mesh, .fn = body, .user = &fn, .nin = 1, .in = &in, .nout = 1, .out_specs = &spec};
    for (int k = 0; k < 2; k++) {
        job.jit = k ? jit : NULL;
        job.out = &out[k];
        ck_spmd_ok(spmd_shard_map(&job));
        ck_spmd_ok(spmd_unshard(out[k], got[k]));
        spmd_array_destroy(out[k]);
    }
    ck_assert_msg(memcmp(got[0], got[1], sizeof got[0]) == 0, "program %d: %g, eager %g", _i, (double)got[1][0],
                  (double)got[0][0]);
    spmd_program_info info;
    ck_spmd_ok(spmd_jit_info(jit, 0, &info));
    ck_assert_msg(!rows[_i].most_bytes || info.memory_bytes <= rows[_i].most_bytes, "program %d: %lld bytes", _i,
                  (long long)info.memory_bytes);
    spmd_array_destroy(in);
    spmd_jit_destroy(jit);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

SPMD_TEST_MAIN("in place", tcase_add_loop_test(tc, like_eager, 0, sizeof rows / sizeof *rows);)
