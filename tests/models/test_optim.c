/* Every optimizer against Optax: six given gradients, the parameter afterwards. On one device, on two with copies, and
 * on two that hold half the rows each (norms must then be those of the whole tensor). */
#include "models/optim.h"
#include "tests/harness/golden.h"

enum { ROWS = 7, PADDED = 8, COLUMNS = 5, STEPS = 6, MAX_STATE = 4 };

static spmd_optim clip_adamw(void)
{
    return spmd_optim_chain(spmd_optim_clip_by_global_norm(0.5), spmd_optim_adamw(0.9, 0.999, 1e-8, 0.1));
}

/* Rebuilt in every test, for constructors are no constant expressions. */
typedef struct optim_case {
    const char *name;
    spmd_optim optim;
    spmd_schedule schedule;
} optim_case;
enum { CASES = 10 };

static optim_case case_at(int k)
{
    const optim_case cases[CASES] = {
        {"sgd", spmd_optim_sgd(0, false), spmd_schedule_constant(0.1)},
        {"sgd_momentum", spmd_optim_sgd(0.9, false), spmd_schedule_constant(0.1)},
        {"sgd_nesterov", spmd_optim_sgd(0.9, true), spmd_schedule_constant(0.1)},
        {"adam", spmd_optim_adam(0.9, 0.999, 1e-8), spmd_schedule_constant(1e-2)},
        {"adamw", spmd_optim_adamw(0.9, 0.999, 1e-8, 0.1), spmd_schedule_constant(1e-2)},
        {"clip_adamw", clip_adamw(), spmd_schedule_constant(1e-2)},
        {"warmup_cosine_adam", spmd_optim_adam(0.9, 0.999, 1e-8), spmd_schedule_warmup_cosine(0, 1e-2, 2, 6, 0)},
        {"lion", spmd_optim_lion(0.9, 0.99, 1e-3), spmd_schedule_constant(1e-3)},
        {"rmsprop", spmd_optim_rmsprop(0.9, 1e-8), spmd_schedule_constant(1e-2)},
        {"lamb", spmd_optim_lamb(0.9, 0.999, 1e-6, 0), spmd_schedule_constant(1e-2)},
    };
    return cases[k];
}

/* in: w, gradient, rate, count, state; out: w, state. */
static spmd_status update(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const spmd_optim_step step = {.n = 1,
                                  .params = in,
                                  .grads = in + 1,
                                  .rate = in + 2,
                                  .count = in + 3,
                                  .state = in + 4,
                                  .new_params = out,
                                  .new_state = out + 1};
    return spmd_optim_update(ctx, user, &step);
}

static void run_case(optim_case *c, const char *axes, const char *spec_text, const float *w, const float *grads,
                     float *after)
{
    const int64_t shape[] = {PADDED, COLUMNS};
    spmd_mesh *mesh;
    spmd_spec spec, specs[1 + MAX_STATE];
    spmd_array *in[4 + MAX_STATE] = {NULL}, *out[1 + MAX_STATE];
    ck_spmd_ok(spmd_mesh_create(axes, spmd_test_backend(), &mesh));
    ck_spmd_ok(spmd_spec_parse(spec_text, &spec));
    ck_spmd_ok(spmd_shard(mesh, w, SPMD_F32, 2, shape, spec, &in[0]));
    ck_spmd_ok(spmd_shard(mesh, NULL, SPMD_F32, 2, shape, spec, &in[1]));
    for (int k = 2; k < 4; k++)
        ck_spmd_ok(spmd_shard(mesh, NULL, SPMD_F32, SPMD_SCALAR, SPMD_REPLICATED, &in[k]));
    int nstate = spmd_optim_state_count(&c->optim, 1);
    ck_assert_int_le(nstate, MAX_STATE);
    ck_spmd_ok(spmd_optim_init(&c->optim, 1, in, in + 4));
    for (int k = 0; k <= nstate; k++) {
        out[k] = k ? in[3 + k] : in[0];
        specs[k] = spec;
    }
    const spmd_job job = {.mesh = mesh,
                          .fn = update,
                          .user = &c->optim,
                          .nin = 4 + nstate,
                          .nout = 1 + nstate,
                          .in = in,
                          .out = out,
                          .out_specs = specs,
                          .verify_replication = true};
    for (int step = 0; step < STEPS; step++) {
        ck_spmd_ok(spmd_shard_update(in[1], grads + (ptrdiff_t)step * PADDED * COLUMNS));
        ck_spmd_ok(spmd_array_set(in[2], spmd_schedule_at(&c->schedule, step)));
        ck_spmd_ok(spmd_array_set(in[3], step + 1));
        ck_spmd_ok(spmd_shard_map(&job));
    }
    ck_spmd_ok(spmd_unshard(in[0], after));
    for (int k = 0; k < 4 + nstate; k++)
        spmd_array_destroy(in[k]);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}

START_TEST(optimizer_like_optax)
{
    static const struct {
        const char *axes, *spec;
    } placed[] = {{"data=1", "-"}, {"data=2", "-"}, {"data=2", "data,-"}};
    optim_case c = case_at(_i);
    char key[64];
    snprintf(key, sizeof key, "after.%s", c.name);
    spmd_value w = golden("optimizers", "w", NULL), g = golden("optimizers", "grads", NULL),
               want = golden("optimizers", key, NULL);
    ck_assert_int_eq(spmd_value_count(&g), STEPS * ROWS * COLUMNS);
    /* A row of zeros below, so that two devices can share the rows; it changes no norm. */
    float padded[PADDED * COLUMNS] = {0}, grads[STEPS][PADDED * COLUMNS] = {{0}}, after[PADDED * COLUMNS];
    memcpy(padded, w.data, sizeof(float) * ROWS * COLUMNS);
    for (ptrdiff_t step = 0; step < STEPS; step++)
        memcpy(grads[step], (float *)g.data + step * ROWS * COLUMNS, sizeof(float) * ROWS * COLUMNS);
    for (size_t p = 0; p < sizeof placed / sizeof *placed; p++) {
        run_case(&c, placed[p].axes, placed[p].spec, padded, grads[0], after);
        spmd_value got = spmd_value_f32(NULL, SPMD_SHAPE(ROWS, COLUMNS), after);
        double difference = spmd_value_difference(&got, &want);
        ck_assert_msg(difference <= 1e-6, "%s on %s as %s: differs by %g", c.name, placed[p].axes, placed[p].spec,
                      difference);
        for (int k = ROWS * COLUMNS; k < PADDED * COLUMNS; k++)
            ck_assert_msg(after[k] == 0, "%s moved a zero parameter without gradient to %g", c.name, (double)after[k]);
        spmd_value_free(&got);
    }
    spmd_values_free((spmd_value[]){w, g, want}, 3);
}
END_TEST

START_TEST(schedule_like_optax)
{
    const struct {
        spmd_schedule schedule;
        int64_t step;
        double rate;
    } rows[] = {
        {spmd_schedule_constant(0.1), 0, 0.1},
        {spmd_schedule_constant(0.1), 1000, 0.1},
        {spmd_schedule_linear(1, 0.5, 10), 5, 0.75},
        {spmd_schedule_linear(1, 0.5, 10), 11, 0.5},
        {spmd_schedule_cosine(1, 10, 0), 0, 1},
        {spmd_schedule_cosine(1, 10, 0), 5, 0.5},
        {spmd_schedule_cosine(1, 10, 0.1), 10, 0.1},
        {spmd_schedule_cosine(1, 10, 0.1), 50, 0.1},
        {spmd_schedule_warmup_cosine(0, 1, 4, 12, 0.2), 0, 0},
        {spmd_schedule_warmup_cosine(0, 1, 4, 12, 0.2), 1, 0.25},
        {spmd_schedule_warmup_cosine(0, 1, 4, 12, 0.2), 4, 1},
        {spmd_schedule_warmup_cosine(0, 1, 4, 12, 0.2), 8, 0.6},
        {spmd_schedule_warmup_cosine(0, 1, 4, 12, 0.2), 12, 0.2},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        ck_assert_double_eq_tol(spmd_schedule_at(&rows[k].schedule, rows[k].step), rows[k].rate, 1e-12);
    spmd_schedule found;
    ck_spmd_ok(spmd_schedule_find("warmup_cosine", 1, 40, &found));
    ck_assert_double_eq_tol(spmd_schedule_at(&found, 2), 0.5, 1e-12);
    ck_spmd_fails(spmd_schedule_find("cosin", 1, 40, &found), SPMD_EINVAL, "warmup_cosine");
}
END_TEST

static spmd_status update_array_onto_itself(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    spmd_optim_step step = {.n = 1, .params = out, .grads = in, .rate = in + 1, .count = in + 1, .new_params = out};
    out[0] = in[0];
    return spmd_optim_update(ctx, user, &step);
}

START_TEST(bad_chains_are_named)
{
    spmd_value w = spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(4)), rate = spmd_value_zeros(SPMD_F32, NULL, 0, NULL);
    spmd_value in[] = {w, w, rate, rate, w, w}, out[5] = {{0}};
    spmd_optim wrong = spmd_optim_chain(spmd_optim_adamw(0.9, 0.999, 1e-8, 0), spmd_optim_clip_by_global_norm(1));
    ck_spmd_fails(spmd_test_run("data=2", update, &wrong, 6, in, 3, out), SPMD_EINVAL, "'clip_by_global_norm' does");
    spmd_optim longer = spmd_optim_clip_by_global_norm(1);
    for (int k = 0; k < SPMD_MAX_TRANSFORMS; k++)
        longer = spmd_optim_chain(longer, spmd_optim_clip_by_global_norm(1));
    ck_spmd_fails(spmd_test_run("data=2", update, &longer, 6, in, 1, out), SPMD_EINVAL, "longer than 8");
    spmd_optim sgd = spmd_optim_sgd(0, false), found;
    spmd_value two[] = {w, rate};
    ck_spmd_fails(spmd_test_run("data=2", update_array_onto_itself, &sgd, 2, two, 1, out), SPMD_EINVAL,
                  "array of its own");
    double start;
    ck_spmd_ok(spmd_optim_find("lion", &found, &start));
    ck_assert_double_eq(start, 3e-4);
    ck_spmd_fails(spmd_optim_find("adamx", &found, NULL), SPMD_EINVAL, "adamw, lion");
    spmd_values_free((spmd_value[]){w, rate}, 2);
}
END_TEST

START_TEST(state_must_be_f32_and_leaves_nothing_behind)
{
    spmd_mesh *mesh;
    spmd_array *param, *state[2] = {NULL};
    const int64_t shape[] = {4};
    ck_spmd_ok(spmd_mesh_create("data=2", spmd_test_backend(), &mesh));
    ck_spmd_ok(spmd_shard(mesh, NULL, SPMD_BF16, 1, shape, SPMD_REPLICATED, &param));
    spmd_optim adam = spmd_optim_adam(0.9, 0.999, 1e-8);
    ck_spmd_fails(spmd_optim_init(&adam, 1, &param, state), SPMD_EDTYPE, "bf16, needs f32");
    ck_assert_ptr_null(state[0]);
    spmd_array_destroy(param);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

SPMD_TEST_MAIN("optim", tcase_add_loop_test(tc, optimizer_like_optax, 0, CASES);
               tcase_add_test(tc, schedule_like_optax); tcase_add_test(tc, bad_chains_are_named);
               tcase_add_test(tc, state_must_be_f32_and_leaves_nothing_behind);)
