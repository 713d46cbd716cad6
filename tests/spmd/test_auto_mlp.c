/* Automatic mode: one MLP, cut by the specs of its arrays alone, trains as on one device; with the calls and the bytes
 * of the explicit mode where that is written by hand. */
#include "auto_run.h"

/* Inputs: parameters, their two moments, the batch, rate and count. Outputs: the same lists updated, gradients, loss,
 * the gradients' norm. */
enum { PARAMS = 4, LISTS = 3, X = LISTS * PARAMS, Y, RATE, COUNT, INPUTS };
enum { GRADS = LISTS * PARAMS, LOSS = GRADS + PARAMS, NORM, OUTPUTS };

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

/* One source for both modes. */
static spmd_status step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    batch b = {&in[X], &in[Y]};
    const spmd_adamw_opts opts = {0.9, 0.999, 1e-8, 1e-2};
    spmd_tensor *grads = &out[GRADS];
    SPMD_TRY(spmd_value_and_grad(ctx, loss_fn, &b, in, PARAMS, &out[LOSS], grads));
    SPMD_TRY(spmd_pmean_list(ctx, grads, PARAMS + 1, "data", grads));
    SPMD_TRY(spmd_global_norm(ctx, grads, PARAMS, &out[NORM]));
    return spmd_adamw(ctx, &opts, PARAMS, in, grads, in + PARAMS, in + 2 * PARAMS, &in[RATE], &in[COUNT], out,
                      out + PARAMS, out + 2 * PARAMS);
}

enum { ROWS = 512, WIDTH = 32, CLASSES = 8, FEATURES = 16 };

typedef struct layout {
    const char *name, *axes, *spec[PARAMS + 1]; /* of the parameters, and of the batch */
    bool by_hand;                               /* the source is right in explicit mode, too */
    int calls;                                  /* of a program; 0: as by hand, or not counted */
} layout;

static const layout layouts[] = {
    {"data 2", "data=2,model=1", {"", "", "", "", "data"}, true, 0},
    {"data 4", "data=4,model=1", {"", "", "", "", "data"}, true, 0},
    {"tensor parallel", "data=1,model=2", {"-,model", "model", "model,-", "", ""}, true, 0},
    {"both", "data=2,model=2", {"-,model", "model", "model,-", "", "data"}, true, 0},
    {"both, model first", "model=2,data=2", {"-,model", "model", "model,-", "", "data"}, true, 0},
    {"fsdp", "data=2,model=1", {"data", "data", "data", "data", "data"}, false, 3},
    {"fsdp and tensor parallel", "data=2,model=2", {"data,model", "model", "model,data", "data", "data"}, false, 8},
    {"rows over both", "data=2,model=2", {"", "", "", "", "(data,model)"}, false, 1},
    {"rows over both, minor first", "data=2,model=2", {"", "", "", "", "(model,data)"}, false, 0},
    {"weights over both", "data=2,model=2", {"-,(model,data)", "(data,model)", "(data,model)", "model", ""}, false, 0},
    {"replicated", "data=2,model=2", {"", "", "", "", ""}, false, 0},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static void make_inputs(spmd_value *in)
{
    in[0] = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(FEATURES, WIDTH), 0.5, 1);
    in[1] = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(WIDTH), 0.5, 2);
    in[2] = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(WIDTH, CLASSES), 0.5, 3);
    in[3] = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(CLASSES), 0.5, 4);
    for (int k = PARAMS; k < X; k++)
        in[k] = spmd_value_zeros(SPMD_F32, NULL, in[k % PARAMS].rank, in[k % PARAMS].shape);
    in[RATE] = spmd_value_f32(NULL, SPMD_SCALAR, (const float[]){0.1f});
    in[COUNT] = spmd_value_f32(NULL, SPMD_SCALAR, (const float[]){1});
    in[X] = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(ROWS, FEATURES), 1, 5);
    in[Y] = spmd_value_random(SPMD_I32, NULL, SPMD_SHAPE(ROWS), 0, 6);
    for (int i = 0; i < ROWS; i++)
        spmd_value_set(&in[Y], i, i * 7 % CLASSES);
}

static void run_step(const layout *l, spmd_value *in, bool explicitly, bool jit, auto_run *r)
{
    const char *out_specs[OUTPUTS];
    for (int k = 0; k < INPUTS; k++)
        in[k].spec = k < X ? l->spec[k % PARAMS] : k <= Y ? l->spec[PARAMS] : "";
    for (int k = 0; k < OUTPUTS; k++)
        out_specs[k] = k < LOSS ? l->spec[k % PARAMS] : "";
    *r = (auto_run){.axes = l->axes,
                    .fn = step,
                    .explicitly = explicitly,
                    .jit = jit,
                    .nin = INPUTS,
                    .nout = OUTPUTS,
                    .in = in,
                    .out_specs = out_specs};
    ck_spmd_ok(auto_run_go(r));
}

static void expect_equal(const layout *l, const auto_run *r, const auto_run *want, const char *how)
{
    for (int k = 0; k < OUTPUTS; k++) {
        double d = spmd_value_difference(&r->out[k], &want->out[k]);
        ck_assert_msg(d < 1e-5, "%s, %s: output %d differs by %g", l->name, how, k, d);
    }
}

START_TEST(trains_as_on_one_device)
{
    const layout *l = &layouts[_i];
    static const layout one = {"one", "data=1,model=1", {"", "", "", "", ""}, true, 0};
    spmd_value in[INPUTS];
    make_inputs(in);
    auto_run want, r, hand;
    run_step(&one, in, true, false, &want);
    for (int jit = 0; jit < 2; jit++) {
        run_step(l, in, false, jit, &r);
        expect_equal(l, &r, &want, jit ? "program" : "eager");
        spmd_values_free(r.out, OUTPUTS);
        ck_assert_msg(!jit || !l->calls || r.stats.collectives == l->calls, "%s: %lld calls, wanted %d", l->name,
                      (long long)r.stats.collectives, l->calls);
        if (!l->by_hand)
            continue;
        run_step(l, in, true, jit, &hand);
        expect_equal(l, &hand, &want, "by hand");
        spmd_values_free(hand.out, OUTPUTS);
        ck_assert_msg(r.stats.collectives == hand.stats.collectives && r.stats.bytes == hand.stats.bytes,
                      "%s: %lld calls and %lld bytes, by hand %lld and %lld", l->name, (long long)r.stats.collectives,
                      (long long)r.stats.bytes, (long long)hand.stats.collectives, (long long)hand.stats.bytes);
    }
    spmd_values_free(want.out, OUTPUTS);
    spmd_values_free(in, INPUTS);
}
END_TEST

SPMD_TEST_MAIN("automatic mode, an mlp", tcase_add_loop_test(tc, trains_as_on_one_device, 0, LAYOUTS);)
