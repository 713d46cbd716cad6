/* Automatic mode: single ops, whose layouts and calls are known; what has no meaning there; custom kernels. */
#include "auto_run.h"

/* --- one op: the layout it chooses, the calls it makes, its values --- */

typedef spmd_status op_fn(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out);

static spmd_status matmul(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_matmul(ctx, &in[0], &in[1], false, false, out);
}

static spmd_status add(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_add(ctx, &in[0], &in[1], out);
}

static spmd_status sum_all(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_sum(ctx, in, NULL, 0, false, out);
}

static spmd_status sum_0(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_sum(ctx, in, (const int[]){0}, 1, false, out);
}

static spmd_status sum_1(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_sum(ctx, in, (const int[]){1}, 1, false, out);
}

static spmd_status max_0(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_max(ctx, in, (const int[]){0}, 1, false, out);
}

static spmd_status max_1(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_max(ctx, in, (const int[]){1}, 1, false, out);
}

static spmd_status mean_0(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_mean(ctx, in, (const int[]){0}, 1, false, out);
}

static spmd_status split(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_reshape(ctx, in, SPMD_SHAPE(4, 4, 3, 8), out);
}

static spmd_status flatten(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_reshape(ctx, in, SPMD_SHAPE(-1), out);
}

static spmd_status to_3_4(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_reshape(ctx, in, SPMD_SHAPE(3, 4), out);
}

static spmd_status transpose(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_transpose(ctx, in, NULL, out);
}

static spmd_status sum_of_sums(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out) /* sums stay open */
{
    spmd_tensor other;
    SPMD_TRY(sum_0(ctx, in, out));
    SPMD_TRY(spmd_scale(ctx, in, 3, &other));
    SPMD_TRY(sum_0(ctx, &other, &other));
    return spmd_add(ctx, out, &other, out);
}

static spmd_status square_of_sum(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out) /* and are closed for this */
{
    SPMD_TRY(sum_0(ctx, in, out));
    return spmd_square(ctx, out, out);
}

static spmd_status to_columns(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_constrain(ctx, in, SPMD_P(NULL, "x"), out);
}

static spmd_status to_rows_of_both(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    return spmd_constrain(ctx, in, SPMD_P("y,x"), out);
}

static spmd_status scatter_sum(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    SPMD_TRY(matmul(ctx, in, out));
    return spmd_constrain(ctx, out, SPMD_P("y"), out);
}

typedef struct sample {
    const char *name, *axes;
    op_fn *fn;
    struct {
        const char *spec;
        int rank;
        int64_t shape[4];
    } in[2];
    const char *type; /* of the result, as the op leaves it */
    int calls;        /* until the result is whole in `out_spec` */
    const char *out_spec;
    int64_t bytes; /* of the calls' operands on a shard */
} sample;

static const sample samples[] = {
    {"matmul, k over y", "x=2,y=2", matmul, {{"x,y", 2, {2, 4}}, {"y", 2, {4, 2}}}, "f32[2@x,2]{U:y}", 1, "x", 8},
    {"matmul, rows", "x=2,y=2", matmul, {{"x", 2, {8, 4}}, {"", 2, {4, 2}}}, "f32[8@x,2]", 0, "x", 0},
    {"matmul, 2-d", "x=2,y=2", matmul, {{"x", 2, {8, 4}}, {"-,y", 2, {4, 2}}}, "f32[8@x,2@y]", 0, "x,y", 0},
    {"matmul, weights gathered", "x=2", matmul, {{"x", 2, {800, 4}}, {"x", 2, {4, 2}}}, "f32[800@x,2]", 1, "x", 16},
    {"matmul, sum scattered", "x=2,y=2", scatter_sum, {{"-,y", 2, {4, 4}}, {"y", 2, {4, 2}}}, "f32[4@y,2]", 1, "y", 32},
    {"sum of all", "x=2,y=2", sum_all, {{"x,y", 2, {8, 2}}}, "f32[]{U:x,y}", 1, "", 4},
    {"sum over 0", "x=2,y=2", sum_0, {{"x,y", 2, {8, 2}}}, "f32[2@y]{U:x}", 1, "y", 4},
    {"sum over 1", "x=2,y=2", sum_1, {{"x,y", 2, {8, 2}}}, "f32[8@x]{U:y}", 1, "x", 16},
    {"sum over 1, rows over both", "x=2,y=2", sum_1, {{"(x,y)", 2, {8, 2}}}, "f32[8@x@y]", 0, "(x,y)", 0},
    {"max over 0", "x=2,y=2", max_0, {{"-,y", 2, {8, 2}}}, "f32[2@y]", 0, "y", 0},
    {"max over 1, rows over both", "x=2,y=2", max_1, {{"(x,y)", 2, {8, 2}}}, "f32[8@x@y]", 0, "(x,y)", 0},
    {"max over a cut dimension", "x=2,y=2", max_0, {{"x,y", 2, {8, 2}}}, "f32[2@y]", 1, "y", 16},
    {"mean over 0", "x=2,y=2", mean_0, {{"(x,y)", 2, {8, 2}}}, "f32[2]{U:x,y}", 1, "", 8},
    {"reshape, split", "x=2,y=2", split, {{"-,(x,y)", 3, {4, 12, 8}}}, "f32[4,4@x@y,3,8]", 0, "-,(x,y)", 0},
    {"reshape, merge", "x=2,y=2", flatten, {{"x,-,y", 3, {2, 2, 2}}}, "f32[8@x]", 1, "x", 8},
    {"reshape, 3 pieces of 4", "x=2,y=2", to_3_4, {{"(x,y)", 1, {12}}}, "f32[3,4]", 1, "", 12},
    {"transpose", "x=2,y=2", transpose, {{"x,y", 2, {8, 2}}}, "f32[2@y,8@x]", 0, "y,x", 0},
    {"replicated and cut", "x=2", add, {{"x", 2, {8, 2}}, {"", 2, {8, 2}}}, "f32[8@x,2]", 0, "x", 0},
    {"rows and columns", "x=2", add, {{"x", 2, {8, 2}}, {"-,x", 2, {8, 2}}}, "f32[8@x,2]", 1, "x", 32},
    {"bias", "x=2,y=2", add, {{"x,y", 2, {8, 2}}, {"x", 1, {2}}}, "f32[8@x,2@y]", 1, "x,y", 4},
    {"open sums", "x=2", sum_of_sums, {{"x", 2, {8, 2}}}, "f32[2]{U:x}", 1, "", 8},
    {"closed sum", "x=2", square_of_sum, {{"x", 2, {8, 2}}}, "f32[2]", 1, "", 8},
    {"rows to columns", "x=2", to_columns, {{"x", 2, {8, 4}}}, "f32[8,4@x]", 1, "-,x", 64},
    {"whole to columns", "x=2", to_columns, {{"", 2, {8, 4}}}, "f32[8,4@x]", 0, "-,x", 0},
    {"minor axis first", "x=2,y=2", to_rows_of_both, {{"(x,y)", 2, {8, 4}}}, "f32[8@y@x,4]", 1, "(y,x)", 32},
    {"major axis is there", "x=2,y=2", to_rows_of_both, {{"y", 2, {8, 4}}}, "f32[8@y@x,4]", 0, "(y,x)", 0},
    {"axes of size 1", "x=1,y=1", matmul, {{"x,y", 2, {2, 4}}, {"y", 2, {4, 2}}}, "f32[2,2]", 0, "x", 0},
};
enum { SAMPLES = sizeof samples / sizeof *samples };

static spmd_status run_op(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const sample *s = user;
    char type[256];
    SPMD_TRY(s->fn(ctx, in, out));
    spmd_tensor_format(ctx, out, type, sizeof type);
    SPMD_CHECK(spmd_mesh_devices(spmd_ctx_mesh(ctx)) == 1 || !strcmp(type, s->type), SPMD_EUSER, "%s is %s, wanted %s",
               s->name, type, s->type);
    return SPMD_OK;
}

START_TEST(an_op_follows_its_data)
{
    sample s = samples[_i];
    spmd_value in[2];
    int nin = s.in[1].spec ? 2 : 1;
    for (int k = 0; k < nin; k++)
        in[k] = spmd_value_exact(SPMD_F32, NULL, s.in[k].rank, s.in[k].shape, (unsigned)k);
    auto_run want = {.axes = "x=1,y=1",
                     .fn = run_op,
                     .user = &s,
                     .explicitly = true,
                     .nin = nin,
                     .nout = 1,
                     .in = in,
                     .out_specs = (const char *const[]){""}};
    ck_spmd_ok(auto_run_go(&want));
    auto_run got = want;
    got.axes = s.axes;
    got.explicitly = false;
    got.out_specs = (const char *const[]){s.out_spec};
    for (int k = 0; k < nin; k++)
        in[k].spec = s.in[k].spec;
    for (int jit = 0; jit < 2; jit++) {
        got.jit = jit;
        spmd_status status = auto_run_go(&got);
        ck_assert_msg(status == SPMD_OK, "%s: %s", s.name, spmd_last_error());
        ck_assert_msg(spmd_value_count_wrong(&got.out[0], &want.out[0]) == 0, "%s: wrong values", s.name);
        ck_assert_msg(got.stats.collectives == s.calls && got.stats.bytes == s.bytes, "%s: %d calls, %d bytes", s.name,
                      (int)got.stats.collectives, (int)got.stats.bytes);
        spmd_values_free(got.out, 1);
    }
    spmd_values_free(want.out, 1);
    spmd_values_free(in, nin);
}
END_TEST

SPMD_TEST_MAIN("automatic mode, single ops", tcase_add_loop_test(tc, an_op_follows_its_data, 0, SAMPLES);)
