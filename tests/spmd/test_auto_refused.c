/* Automatic mode: what has no meaning on global values is an error that says so, and what to do instead. */
#include "auto_run.h"

static spmd_status call_psum(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_psum(ctx, in, "x", out);
}

static spmd_status call_all_gather(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_all_gather(ctx, in, "x", NULL, out);
}

static spmd_status call_ppermute(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_ppermute(ctx, in, "x", (const int[][2]){{0, 1}}, 1, out);
}

static spmd_status call_pmean_groups(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_pmean_groups(ctx, in, "x", "0;1", out);
}

static spmd_status call_axis_index(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)in, (void)user;
    return spmd_axis_index(ctx, "x", out);
}

static spmd_status call_pcast_partial(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_pcast_partial(ctx, in, "x", out);
}

static spmd_status call_local(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    spmd_view view;
    *out = *in;
    return spmd_local(ctx, in, &view);
}

static spmd_status mean_of_integers(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    SPMD_TRY(spmd_cast(ctx, in, SPMD_I32, out));
    return spmd_pmean(ctx, out, "x", out);
}

static spmd_status constrain_odd(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    SPMD_TRY(spmd_slice(ctx, in, 0, 0, 3, out));
    return spmd_constrain(ctx, out, SPMD_P("x"), out);
}

static spmd_status constrain_unknown(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_constrain(ctx, in, SPMD_P("nope"), out);
}

static spmd_status odd(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_slice(ctx, in, 0, 0, 3, out);
}

static spmd_status nothing(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)ctx, (void)in, (void)out, (void)user;
    return SPMD_OK;
}

static spmd_status nest(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    spmd_job job = {.mesh = (spmd_mesh *)spmd_ctx_mesh(ctx), .fn = nothing};
    *out = *in;
    return spmd_auto_map(&job);
}

static const struct {
    const char *name;
    spmd_shard_fn *fn;
    const char *out_spec;
    spmd_status status;
    const char *needle;
} refused[] = {
    {"psum", call_psum, "", SPMD_EAXIS, "psum has no meaning on global values"},
    {"psum, the remedy", call_psum, "", SPMD_EAXIS, "use spmd_settle"},
    {"all_gather", call_all_gather, "", SPMD_EAXIS, "all_gather has no meaning"},
    {"ppermute", call_ppermute, "", SPMD_EAXIS, "ppermute has no meaning"},
    {"groups", call_pmean_groups, "", SPMD_EAXIS, "pmean has no meaning"},
    {"axis_index", call_axis_index, "", SPMD_EAXIS, "axis_index has no meaning"},
    {"pcast_partial", call_pcast_partial, "", SPMD_EAXIS, "pcast_partial has no meaning"},
    {"local", call_local, "", SPMD_EUNSUPPORTED, "spmd_custom"},
    {"mean of integers", mean_of_integers, "", SPMD_EDTYPE, "cast it to f32"},
    {"constraint that does not divide", constrain_odd, "", SPMD_ESHAPE, "3"},
    {"constraint over no axis", constrain_unknown, "", SPMD_EAXIS, "nope"},
    {"output that does not divide", odd, "x", SPMD_ESHAPE, "output 0"},
    {"output that is not set", nothing, "x", SPMD_ESTALE, "output 0 was not set"},
    {"a launch inside", nest, "x", SPMD_EINVAL, "spmd_auto_map inside a shard function"},
};
enum { REFUSED = sizeof refused / sizeof *refused };

START_TEST(what_has_no_meaning_is_refused)
{
    spmd_value in = spmd_value_exact(SPMD_F32, "x", SPMD_SHAPE(4), 3);
    const char *spec = refused[_i].out_spec;
    auto_run r = {.axes = "x=2", .fn = refused[_i].fn, .nin = 1, .nout = 1, .in = &in, .out_specs = &spec};
    for (int jit = 0; jit < 2; jit++) {
        r.jit = jit;
        ck_spmd_fails(auto_run_go(&r), refused[_i].status, refused[_i].needle);
    }
    spmd_value_free(&in);
}
END_TEST

SPMD_TEST_MAIN("automatic mode, refused", tcase_add_loop_test(tc, what_has_no_meaning_is_refused, 0, REFUSED);)
