/* Programs: recorded once, replayed with the same bits as eager, grouped, planned, in place, without allocations. */
#include "spmd/testing.h"
#include <stdatomic.h>

enum { PARAMS = 4, IN = 3 * PARAMS + 4, OUT = 3 * PARAMS + 1, STEPS = 6 };

static const int64_t shapes[PARAMS][2] = {{12, 16}, {16, 0}, {16, 4}, {4, 0}};

typedef struct batch {
    const spmd_tensor *x, *y;
} batch;

static spmd_status loss_fn(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    const batch *b = user;
    spmd_tensor h, unused;
    SPMD_TRY(spmd_linear_gelu(ctx, b->x, &p[0], &p[1], &h));
    SPMD_TRY(spmd_exp(ctx, &h, &unused)); /* dead */
    SPMD_TRY(spmd_linear(ctx, &h, &p[2], &p[3], &h));
    SPMD_TRY(spmd_softmax_cross_entropy(ctx, &h, b->y, loss));
    return spmd_mean(ctx, loss, NULL, 0, false, loss);
}

/* in: params, mu, nu, x, y, rate, count; out: params, mu, nu, loss. One pmean a gradient: the program makes it one. */
static spmd_status step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    double factor = user ? *(double *)user : 1;
    const spmd_tensor *rest = in + 3 * PARAMS;
    batch b = {&rest[0], &rest[1]};
    spmd_tensor g[PARAMS + 1];
    SPMD_TRY(spmd_value_and_grad(ctx, loss_fn, &b, in, PARAMS, &g[PARAMS], g));
    for (int k = 0; k <= PARAMS; k++)
        SPMD_TRY(spmd_pmean(ctx, &g[k], "data", &g[k]));
    SPMD_TRY(spmd_scale(ctx, &g[PARAMS], factor, &out[3 * PARAMS]));
    spmd_adamw_opts opts = {0.9, 0.999, 1e-8, 1e-4};
    return spmd_adamw(ctx, &opts, PARAMS, in, g, in + PARAMS, in + 2 * PARAMS, &rest[2], &rest[3], out, out + PARAMS,
                      out + 2 * PARAMS);
}

typedef struct setup {
    spmd_mesh *mesh;
    spmd_jit *jit;
    spmd_array *in[IN], *out[OUT];
    spmd_job job;
    double user;
} setup;

static void open_setup(setup *s, const char *axes, bool jit)
{
    static const spmd_spec replicated[OUT];
    memset(s, 0, sizeof *s);
    ck_spmd_ok(spmd_mesh_create(axes, spmd_test_backend(), &s->mesh));
    spmd_mesh_set_log(s->mesh, NULL, NULL);
    for (int k = 0; k < 3 * PARAMS; k++) {
        const int64_t *shape = shapes[k % PARAMS];
        spmd_value v = spmd_value_random(SPMD_F32, "", shape[1] ? 2 : 1, shape, k < PARAMS ? 0.5 : 0, (unsigned)k);
        ck_spmd_ok(spmd_shard(s->mesh, v.data, SPMD_F32, v.rank, shape, SPMD_REPLICATED, &s->in[k]));
        s->out[k] = s->in[k];
        spmd_value_free(&v);
    }
    spmd_value x = spmd_value_random(SPMD_F32, "", SPMD_SHAPE(8, 12), 1, 99);
    int32_t y[8] = {0, 1, 2, 3, 3, 2, 1, 0};
    spmd_array **rest = s->in + 3 * PARAMS;
    ck_spmd_ok(spmd_shard(s->mesh, x.data, SPMD_F32, SPMD_SHAPE(8, 12), SPMD_P("data"), &rest[0]));
    ck_spmd_ok(spmd_shard(s->mesh, y, SPMD_I32, SPMD_SHAPE(8), SPMD_P("data"), &rest[1]));
    ck_spmd_ok(spmd_shard(s->mesh, NULL, SPMD_F32, SPMD_SCALAR, SPMD_REPLICATED, &rest[2]));
    ck_spmd_ok(spmd_shard(s->mesh, NULL, SPMD_F32, SPMD_SCALAR, SPMD_REPLICATED, &rest[3]));
    ck_spmd_ok(spmd_array_set(rest[2], 0.01));
    spmd_value_free(&x);
    if (jit)
        ck_spmd_ok(spmd_jit_create(s->mesh, &s->jit));
    s->user = 1;
    s->job = (spmd_job){.mesh = s->mesh,
                        .fn = step,
                        .user = &s->user,
                        .nin = IN,
                        .in = s->in,
                        .nout = OUT,
                        .out = s->out,
                        .out_specs = replicated,
                        .jit = s->jit};
}

static spmd_status run_step(setup *s, int count)
{
    SPMD_TRY(spmd_array_set(s->in[IN - 1], count));
    return spmd_shard_map(&s->job);
}

static void close_setup(setup *s)
{
    spmd_array_destroy(s->out[OUT - 1]);
    for (int k = 0; k < IN; k++)
        spmd_array_destroy(s->in[k]);
    spmd_jit_destroy(s->jit);
    ck_spmd_ok(spmd_mesh_destroy(s->mesh));
}

/* All parameters, state and the loss, one after the other. */
static size_t contents(const setup *s, float *data)
{
    size_t n = 0;
    for (int k = 0; k < OUT; k++) {
        ck_spmd_ok(spmd_unshard(s->out[k], data + n));
        n += (size_t)spmd_array_count(s->out[k]);
    }
    return n;
}

static const char *const meshes[] = {"data=1", "data=2", "data=4", "data=2,model=2"};

START_TEST(eager_and_replayed_steps_have_the_same_bits)
{
    static float eager_data[4096], jit_data[4096];
    setup eager, jit;
    open_setup(&eager, meshes[_i], false);
    open_setup(&jit, meshes[_i], true);
    for (int k = 1; k <= STEPS; k++) {
        ck_spmd_ok(run_step(&eager, k));
        ck_spmd_ok(run_step(&jit, k));
        size_t n = contents(&eager, eager_data);
        ck_assert_int_eq(n, contents(&jit, jit_data));
        ck_assert_msg(!memcmp(eager_data, jit_data, n * sizeof(float)), "step %d: other bits", k);
    }
    ck_assert_int_eq(spmd_jit_programs(jit.jit), 1);
    close_setup(&eager);
    close_setup(&jit);
}
END_TEST

START_TEST(a_step_is_grouped_planned_and_in_place)
{
    setup s;
    spmd_program_info info;
    open_setup(&s, "data=2", true);
    spmd_stats stats;
    s.job.stats = &stats;
    ck_spmd_ok(run_step(&s, 1));
    ck_spmd_ok(run_step(&s, 2));
    ck_spmd_ok(spmd_jit_info(s.jit, 0, &info));
    ck_assert_int_eq(info.collectives, 1); /* four gradients and the loss */
    ck_assert_int_eq(info.grouped, PARAMS);
    ck_assert_int_eq(stats.collectives, 1);
    ck_assert_int_eq(info.collective_bytes, (12 * 16 + 16 + 16 * 4 + 4 + 1) * 4);
    ck_assert_int_eq(stats.bytes, info.collective_bytes);
    ck_assert_int_eq(info.copies, 0);
    ck_assert_int_eq(info.in_place, OUT);
    ck_assert_int_lt(info.ops, info.recorded); /* the dead exp is gone */
    ck_assert_int_lt(info.memory_bytes, info.values_bytes);
    ck_assert_int_gt((int64_t)info.flops, 2 * 2 * 4 * 12 * 16);
    char text[8192] = "";
    FILE *file = fmemopen(text, sizeof text, "w");
    ck_spmd_ok(spmd_jit_print(s.jit, 0, file));
    fclose(file);
    ck_assert_msg(strstr(text, "= linear_gelu %") && strstr(text, "pmean") && !strstr(text, "exp"), "%s", text);
    ck_spmd_fails(spmd_jit_info(s.jit, 1, &info), SPMD_EINVAL, "no program 1: 1 are recorded");
    close_setup(&s);
}
END_TEST

static bool count_calls(void *user, spmd_operation operation, size_t bytes)
{
    (void)bytes;
    atomic_fetch_add((atomic_int *)user, operation == SPMD_ALLOCATION);
    return true;
}

START_TEST(a_replay_allocates_nothing)
{
    setup s;
    atomic_int allocations = 0;
    open_setup(&s, "data=2", true);
    ck_spmd_ok(run_step(&s, 1));
    ck_spmd_ok(run_step(&s, 2));
    spmd_mesh_set_fault_hook(s.mesh, count_calls, &allocations);
    for (int k = 3; k < 10; k++)
        ck_spmd_ok(run_step(&s, k));
    const char *backend = spmd_test_backend();
    if (!backend || strcmp(backend, "host-strict"))
        ck_assert_int_eq(atomic_load(&allocations), 0);
    close_setup(&s);
}
END_TEST

START_TEST(a_baked_in_constant_is_found)
{
    setup s;
    open_setup(&s, "data=2", true);
    ck_spmd_ok(run_step(&s, 1));
    s.job.verify_recording = true;
    ck_spmd_ok(run_step(&s, 2));
    s.user = 0.5;
    ck_spmd_fails(run_step(&s, 3), SPMD_EINVAL, "(scale, after");
    ck_assert_msg(strstr(spmd_last_error(), "number 0 is 0.5, was 1; pass it as an input"), "%s", spmd_last_error());
    close_setup(&s);
}
END_TEST

START_TEST(other_shapes_are_another_program)
{
    setup s;
    open_setup(&s, "data=2", true);
    ck_spmd_ok(run_step(&s, 1));
    spmd_array **x = &s.in[3 * PARAMS], **y = x + 1;
    spmd_array_destroy(*x);
    spmd_array_destroy(*y);
    ck_spmd_ok(spmd_shard(s.mesh, NULL, SPMD_F32, SPMD_SHAPE(4, 12), SPMD_P("data"), x));
    ck_spmd_ok(spmd_shard(s.mesh, NULL, SPMD_I32, SPMD_SHAPE(4), SPMD_P("data"), y));
    ck_spmd_ok(run_step(&s, 2));
    ck_assert_int_eq(spmd_jit_programs(s.jit), 2);
    close_setup(&s);
}
END_TEST

static spmd_status reads_a_value(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    spmd_view view;
    SPMD_TRY(spmd_local(ctx, &in[0], &view));
    out[0] = in[0];
    return SPMD_OK;
}

/* Outputs that are inputs, crosswise; the same value twice; a view. */
static spmd_status shuffle(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    out[0] = in[1];
    out[1] = in[0];
    SPMD_TRY(spmd_neg(ctx, &in[0], &out[2]));
    return spmd_reshape(ctx, &out[2], SPMD_SHAPE(-1), &out[3]);
}

START_TEST(reading_while_recording_is_refused)
{
    spmd_mesh *mesh;
    spmd_jit *jit;
    spmd_array *x, *y = NULL;
    spmd_spec spec = SPMD_P("x");
    ck_spmd_ok(spmd_mesh_create("x=2", spmd_test_backend(), &mesh));
    spmd_mesh_set_log(mesh, NULL, NULL);
    ck_spmd_ok(spmd_jit_create(mesh, &jit));
    ck_spmd_ok(spmd_shard(mesh, NULL, SPMD_F32, SPMD_SHAPE(4), spec, &x));
    spmd_job job = {
        .mesh = mesh, .fn = reads_a_value, .nin = 1, .in = &x, .nout = 1, .out = &y, .out_specs = &spec, .jit = jit};
    ck_spmd_fails(spmd_shard_map(&job), SPMD_ERECORDING, "cannot read or branch");
    ck_assert_int_eq(spmd_jit_programs(jit), 0);
    job.jit = NULL;
    ck_spmd_ok(spmd_shard_map(&job));
    spmd_array_destroy(x);
    spmd_array_destroy(y);
    spmd_jit_destroy(jit);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

START_TEST(crossed_and_repeated_outputs)
{
    spmd_mesh *mesh;
    spmd_jit *jit;
    spmd_array *array[2], *out[4] = {NULL};
    const float data[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
    spmd_spec specs[4] = {SPMD_P("x"), SPMD_P("x"), SPMD_P("x"), SPMD_P("x")};
    ck_spmd_ok(spmd_mesh_create("x=2", spmd_test_backend(), &mesh));
    ck_spmd_ok(spmd_jit_create(mesh, &jit));
    for (int k = 0; k < 2; k++)
        ck_spmd_ok(spmd_shard(mesh, data[k], SPMD_F32, SPMD_SHAPE(4), specs[k], &out[k]));
    memcpy(array, out, sizeof array);
    spmd_job job = {
        .mesh = mesh, .fn = shuffle, .nin = 2, .in = array, .nout = 4, .out = out, .out_specs = specs, .jit = jit};
    for (int round = 0; round < 3; round++) {
        ck_spmd_ok(spmd_shard_map(&job));
        float got[4][4];
        for (int k = 0; k < 4; k++)
            ck_spmd_ok(spmd_unshard(out[k], got[k]));
        ck_assert_mem_eq(got[0], data[round % 2 == 0], sizeof got[0]);
        ck_assert_mem_eq(got[1], data[round % 2], sizeof got[1]);
        for (int i = 0; i < 4; i++)
            ck_assert(got[2][i] == -data[round % 2][i] && got[3][i] == got[2][i]);
    }
    for (int k = 0; k < 4; k++)
        spmd_array_destroy(out[k]);
    spmd_jit_destroy(jit);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

SPMD_TEST_MAIN("jit", tcase_add_loop_test(tc, eager_and_replayed_steps_have_the_same_bits, 0, 4);
               tcase_add_test(tc, a_step_is_grouped_planned_and_in_place);
               tcase_add_test(tc, a_replay_allocates_nothing); tcase_add_test(tc, a_baked_in_constant_is_found);
               tcase_add_test(tc, other_shapes_are_another_program);
               tcase_add_test(tc, reading_while_recording_is_refused);
               tcase_add_test(tc, crossed_and_repeated_outputs);)
