/* Automatic mode over many steps: whatever way the arrays are cut, losses and gradient norms are those of one device,
 * with clipping by the global norm, which every device must know.
 *
 * The automatic rows of the public cases: a product cut over its inner dimension, sums and maxima over cut dimensions,
 * reshapes: spmd/test_auto.c; an embedding cut over the vocabulary: spmd/test_auto_meaning.c; a data-parallel step's
 * calls and bytes against the explicit mode's: spmd/test_auto_mlp.c and models/test_auto_train.c; the norm of sharded
 * gradients, losses of 1, 2 and 4 devices: here. */
#include "kernels/kernels.h"
#include "models/optim.h"
#include "spmd/auto_map.h"
#include "spmd/grad.h"
#include "spmd/testing.h"

enum { FEATURES = 16, HIDDEN = 32, CLASSES = 8, ROWS = 256, STEPS = 50 };
enum { PARAMS = 4, LISTS = 3, X = LISTS * PARAMS, Y, RATE, COUNT, INPUTS, LOSS = X, NORM, OUTPUTS };
static const int64_t shapes[PARAMS][2] = {{FEATURES, HIDDEN}, {HIDDEN}, {HIDDEN, CLASSES}, {CLASSES}};

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
    SPMD_TRY(spmd_add(ctx, &h, &p[3], &h));
    SPMD_TRY(spmd_softmax_cross_entropy(ctx, &h, b->y, loss));
    return spmd_mean(ctx, loss, NULL, 0, false, loss);
}

static spmd_status step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    batch b = {&in[X], &in[Y]};
    spmd_tensor grads[PARAMS];
    SPMD_TRY(spmd_value_and_grad(ctx, loss_fn, &b, in, PARAMS, &out[LOSS], grads));
    SPMD_TRY(spmd_global_norm(ctx, grads, PARAMS, &out[NORM]));
    const spmd_optim_step update = {.n = PARAMS,
                                    .params = in,
                                    .grads = grads,
                                    .state = in + PARAMS,
                                    .rate = &in[RATE],
                                    .count = &in[COUNT],
                                    .new_params = out,
                                    .new_state = out + PARAMS};
    return spmd_optim_update(ctx, user, &update);
}

typedef struct history {
    float loss[STEPS], norm[STEPS];
} history;

static spmd_array *make(spmd_mesh *mesh, spmd_value value, const char *spec)
{
    spmd_spec parsed;
    spmd_array *array;
    ck_spmd_ok(spmd_spec_parse(spec, &parsed));
    ck_spmd_ok(spmd_shard(mesh, value.data, value.dtype, value.rank, value.shape, parsed, &array));
    spmd_value_free(&value);
    return array;
}

static void make_arrays(spmd_mesh *mesh, const spmd_optim *optim, const char *const *specs, spmd_array **in)
{
    spmd_value y = spmd_value_zeros(SPMD_I32, NULL, SPMD_SHAPE(ROWS));
    for (int i = 0; i < ROWS; i++)
        spmd_value_set(&y, i, i * 5 % CLASSES);
    for (int k = 0; k < PARAMS; k++)
        in[k] = make(mesh, spmd_value_random(SPMD_F32, NULL, k % 2 ? 1 : 2, shapes[k], 0.5, (unsigned)k), specs[k]);
    ck_spmd_ok(spmd_optim_init(optim, PARAMS, in, in + PARAMS));
    in[X] = make(mesh, spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(ROWS, FEATURES), 1, 9), specs[PARAMS]);
    in[Y] = make(mesh, y, specs[PARAMS]);
    in[RATE] = make(mesh, spmd_value_f32(NULL, SPMD_SCALAR, (const float[]){0.01f}), "");
    in[COUNT] = make(mesh, spmd_value_f32(NULL, SPMD_SCALAR, (const float[]){0}), "");
}

static void train(const char *axes, const char *const *specs, bool jit, history *h)
{
    spmd_optim optim = spmd_optim_chain(spmd_optim_clip_by_global_norm(0.1), spmd_optim_adamw(0.9, 0.999, 1e-8, 1e-3));
    spmd_array *in[INPUTS], *out[OUTPUTS] = {NULL};
    spmd_spec out_specs[OUTPUTS] = {{0}};
    spmd_job job = {.fn = step, .user = &optim, .nin = INPUTS, .in = in, .nout = OUTPUTS, .out = out};
    ck_assert_int_eq(spmd_optim_state_count(&optim, PARAMS), 2 * PARAMS);
    ck_spmd_ok(spmd_mesh_create(axes, spmd_test_backend(), &job.mesh));
    make_arrays(job.mesh, &optim, specs, in);
    for (int k = 0; k < LOSS; k++) {
        out[k] = in[k];
        out_specs[k] = spmd_array_spec(in[k]);
    }
    job.out_specs = out_specs;
    if (jit)
        ck_spmd_ok(spmd_jit_create(job.mesh, &job.jit));
    for (int k = 0; k < STEPS; k++) {
        ck_spmd_ok(spmd_array_set(in[COUNT], k + 1));
        ck_spmd_ok(spmd_auto_map(&job));
        ck_spmd_ok(spmd_unshard(out[LOSS], &h->loss[k]));
        ck_spmd_ok(spmd_unshard(out[NORM], &h->norm[k]));
    }
    spmd_array_destroy(out[LOSS]);
    spmd_array_destroy(out[NORM]);
    for (int k = 0; k < INPUTS; k++)
        spmd_array_destroy(in[k]);
    spmd_jit_destroy(job.jit);
    ck_spmd_ok(spmd_mesh_destroy(job.mesh));
}

static const struct {
    const char *axes, *spec[PARAMS + 1]; /* of the parameters, and of the batch */
} rows[] = {
    {"data=2", {"", "", "", "", "data"}},
    {"data=4", {"", "", "", "", "data"}},
    {"model=2", {"-,model", "model", "model,-", "", ""}},
    {"data=2,model=2", {"-,model", "model", "model,-", "", "data"}},
    {"data=4", {"data", "data", "data", "data", "data"}},
    {"data=2,model=2", {"data,model", "model", "model,data", "data", "data"}},
};
enum { CASES = 2 * sizeof rows / sizeof *rows };

/* Sums are made in another order, no more. */
START_TEST(many_steps_are_those_of_one_device)
{
    static const char *const whole[] = {"", "", "", "", ""};
    history one, many;
    bool jit = _i % 2;
    train("data=1", whole, jit, &one);
    train(rows[_i / 2].axes, rows[_i / 2].spec, jit, &many);
    for (int k = 0; k < STEPS; k++) {
        ck_assert_double_eq_tol((double)many.loss[k], (double)one.loss[k], 1e-6 * (double)one.loss[k]);
        ck_assert_double_eq_tol((double)many.norm[k], (double)one.norm[k], 1e-6 * (double)one.norm[k]);
    }
    ck_assert(one.norm[0] > 0.1f); /* so that it is clipped */
    ck_assert(one.loss[STEPS - 1] < 0.95f * one.loss[0]);
}
END_TEST

SPMD_TEST_MAIN("automatic mode, many steps", tcase_add_loop_test(tc, many_steps_are_those_of_one_device, 0, CASES);)
