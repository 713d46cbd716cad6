/* Automatic mode: one MLP, cut by the specs of its arrays alone, trains as on one device; with the calls and the bytes
 * of the explicit mode where that is written by hand. */
#include "auto_run.h"

enum { PARAMS = 4, X = PARAMS, Y, INPUTS };

typedef struct batch {
    const spmd_tensor *x, *y;
} batch;

static spmd_status loss_fn(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    const batch *b = user;
    spmd_tensor h;
    SPMD_TRY(spmd_linear_gelu(ctx, b->x, &p[0], &p[1], &h));
    SPMD_TRY(spmd_matmul(ctx, &h, &p[2], false, false, &h));
    SPMD_TRY(spmd_settle(ctx, &h, "model", &h));
    SPMD_TRY(spmd_add(ctx, &h, &p[3], &h));
    SPMD_TRY(spmd_softmax_cross_entropy(ctx, &h, b->y, loss));
    return spmd_mean(ctx, loss, NULL, 0, false, loss);
}

/* out: the gradients, then loss and the gradients' norm. One source for both modes. */
static spmd_status step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    batch b = {&in[X], &in[Y]};
    SPMD_TRY(spmd_value_and_grad(ctx, loss_fn, &b, in, PARAMS, &out[PARAMS], out));
    SPMD_TRY(spmd_pmean_list(ctx, out, PARAMS + 1, "data", out));
    return spmd_global_norm(ctx, out, PARAMS, &out[PARAMS + 1]);
}

enum { ROWS = 512, WIDTH = 32, CLASSES = 8, FEATURES = 16 };

typedef struct layout {
    const char *name, *axes, *spec[INPUTS];
    bool by_hand; /* the source is right in explicit mode, too */
} layout;

static const layout layouts[] = {
    {"data 2", "data=2,model=1", {"", "", "", "", "data", "data"}, true},
    {"data 4", "data=4,model=1", {"", "", "", "", "data", "data"}, true},
    {"tensor parallel", "data=1,model=2", {"-,model", "model", "model,-", "", "", ""}, true},
    {"both", "data=2,model=2", {"-,model", "model", "model,-", "", "data", "data"}, true},
    {"both, model first", "model=2,data=2", {"-,model", "model", "model,-", "", "data", "data"}, true},
    {"fsdp", "data=2,model=1", {"data", "data", "data", "data", "data", "data"}, false},
    {"fsdp and tensor parallel",
     "data=2,model=2",
     {"data,model", "model", "model,data", "data", "data", "data"},
     false},
    {"rows over both", "data=2,model=2", {"", "", "", "", "(data,model)", "(data,model)"}, false},
    {"rows over both, minor first", "data=2,model=2", {"", "", "", "", "(model,data)", "(data,model)"}, false},
    {"weights over both", "data=2,model=2", {"-,(model,data)", "(data,model)", "(data,model)", "model", "", ""}, false},
    {"replicated", "data=2,model=2", {"", "", "", "", "", ""}, false},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static void make_inputs(spmd_value *in)
{
    in[0] = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(FEATURES, WIDTH), 0.5, 1);
    in[1] = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(WIDTH), 0.5, 2);
    in[2] = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(WIDTH, CLASSES), 0.5, 3);
    in[3] = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(CLASSES), 0.5, 4);
    in[X] = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(ROWS, FEATURES), 1, 5);
    in[Y] = spmd_value_random(SPMD_I32, NULL, SPMD_SHAPE(ROWS), 0, 6);
    for (int i = 0; i < ROWS; i++)
        spmd_value_set(&in[Y], i, i * 7 % CLASSES);
}

/* Gradients come out cut as their parameters. */
static void run_step(const layout *l, spmd_value *in, bool explicitly, bool jit, auto_run *r)
{
    const char *out_specs[PARAMS + 2];
    for (int k = 0; k < INPUTS; k++)
        in[k].spec = l->spec[k];
    for (int k = 0; k < PARAMS + 2; k++)
        out_specs[k] = k < PARAMS ? l->spec[k] : "";
    *r = (auto_run){.axes = l->axes,
                    .fn = step,
                    .explicitly = explicitly,
                    .jit = jit,
                    .nin = INPUTS,
                    .nout = PARAMS + 2,
                    .in = in,
                    .out_specs = out_specs};
    ck_spmd_ok(auto_run_go(r));
}

static void expect_equal(const layout *l, const auto_run *r, const auto_run *want, const char *how)
{
    for (int k = 0; k < PARAMS + 2; k++) {
        double d = spmd_value_difference(&r->out[k], &want->out[k]);
        ck_assert_msg(d < 1e-5, "%s, %s: output %d differs by %g", l->name, how, k, d);
    }
}

START_TEST(trains_as_on_one_device)
{
    const layout *l = &layouts[_i];
    static const layout one = {"one", "data=1,model=1", {"", "", "", "", "", ""}, true};
    spmd_value in[INPUTS];
    make_inputs(in);
    auto_run want, r, hand;
    run_step(&one, in, true, false, &want);
    for (int jit = 0; jit < 2; jit++) {
        run_step(l, in, false, jit, &r);
        expect_equal(l, &r, &want, jit ? "program" : "eager");
        spmd_values_free(r.out, PARAMS + 2);
        if (!l->by_hand)
            continue;
        run_step(l, in, true, jit, &hand);
        expect_equal(l, &hand, &want, "by hand");
        spmd_values_free(hand.out, PARAMS + 2);
        ck_assert_msg(r.stats.collectives == hand.stats.collectives && r.stats.bytes == hand.stats.bytes,
                      "%s: %lld calls and %lld bytes, by hand %lld and %lld", l->name, (long long)r.stats.collectives,
                      (long long)r.stats.bytes, (long long)hand.stats.collectives, (long long)hand.stats.bytes);
    }
    spmd_values_free(want.out, PARAMS + 2);
    spmd_values_free(in, INPUTS);
}
END_TEST

SPMD_TEST_MAIN("automatic mode, an mlp", tcase_add_loop_test(tc, trains_as_on_one_device, 0, LAYOUTS);)
