/* How much memory a recorded training step of the shared-block MLP needs: two values a block, what the optimizer needs,
 * and little more; with checkpoints much less. The same bits come out. */
#include "models/train.h"
#include "spmd/testing.h"

enum { REPEATS = 48, WIDTH = 32, BATCH = 512, STEPS = 2 };

typedef struct result {
    double planned, kept, block; /* bytes: the program's values; parameters and state; one value of a block */
    uint64_t fingerprint;
    int64_t ops, collectives;
} result;

static double bytes_of(const spmd_trainer *trainer, int n)
{
    double bytes = 0;
    for (int k = 0; k < n; k++) {
        const spmd_array *array = spmd_trainer_array(trainer, k, NULL);
        bytes += (double)spmd_array_count(array) * (double)spmd_dtype_size(spmd_array_dtype(array));
    }
    return bytes;
}

static result train(const char *axes, bool automatic, int checkpoint)
{
    spmd_mesh *mesh;
    spmd_trainer *trainer;
    spmd_train_options options;
    spmd_metrics metrics;
    spmd_program_info info;
    result r = {.block = 4.0 * BATCH * WIDTH};
    ck_spmd_ok(spmd_mesh_create(axes, spmd_test_backend(), &mesh));
    spmd_mesh_set_log(mesh, NULL, NULL);
    ck_spmd_ok(spmd_train_defaults("shared-mlp", &options));
    options.config.inputs = options.config.width = WIDTH;
    options.config.repeats = REPEATS;
    options.config.checkpoint = checkpoint;
    options.batch = BATCH;
    options.automatic = automatic;
    ck_spmd_ok(spmd_trainer_create(mesh, &options, &trainer));
    spmd_value x = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(BATCH, WIDTH), 1, 3);
    const int32_t y[BATCH] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1};
    for (int k = 0; k < STEPS; k++)
        ck_spmd_ok(spmd_trainer_step(trainer, x.data, y, &metrics));
    ck_spmd_ok(spmd_trainer_fingerprint(trainer, &r.fingerprint));
    ck_spmd_ok(spmd_jit_info(spmd_trainer_jit(trainer), 0, &info));
    r.planned = (double)info.memory_bytes;
    r.ops = info.ops;
    r.collectives = info.collectives;
    r.kept = bytes_of(trainer, options.model->params * 3); /* AdamW: two values a parameter */
    r.block /= spmd_mesh_devices(mesh);
    spmd_value_free(&x);
    spmd_trainer_destroy(trainer);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
    return r;
}

static const struct {
    const char *axes;
    bool automatic;
} modes[] = {{"data=1", false}, {"data=2", false}, {"data=1", true}, {"data=2", true}};
static const int checkpoints[] = {1, 6, 8}; /* 6 does not divide the blocks */

START_TEST(memory_is_as_planned)
{
    const char *axes = modes[_i].axes;
    result plain = train(axes, modes[_i].automatic, 0);
    double two = 2 * REPEATS * plain.block + plain.kept, part = (plain.planned + plain.kept) / two;
    printf("%s, %s: %.0f KB, %.3f of two values a block, parameters and state\n", axes,
           modes[_i].automatic ? "automatic" : "explicit", (plain.planned + plain.kept) / 1e3, part);
    ck_assert_double_le(part, 1.1);
    for (size_t k = 0; k < sizeof checkpoints / sizeof *checkpoints; k++) {
        result r = train(axes, modes[_i].automatic, checkpoints[k]);
        part = (r.planned + r.kept) / two;
        printf("  checkpoints of %d blocks: %.3f, %.2f times the calls\n", checkpoints[k], part,
               (double)r.ops / (double)plain.ops);
        ck_assert_double_le(part, 0.6);
        ck_assert_msg(r.fingerprint == plain.fingerprint, "checkpoints of %d change the result", checkpoints[k]);
        ck_assert_int_eq(r.collectives, plain.collectives);
        ck_assert_int_gt(r.ops, plain.ops + REPEATS / 2);
    }
}
END_TEST

SPMD_TEST_MAIN("memory of a step", tcase_add_loop_test(tc, memory_is_as_planned, 0, sizeof modes / sizeof *modes);)
