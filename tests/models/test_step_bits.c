/* A step that is recorded and replayed gives the bits of the eager one, also where the program works in place. */
#include "models/train.h"
#include "spmd/testing.h"

static uint64_t fingerprint(const char *axes, const char *model, spmd_dtype compute, bool eager)
{
    enum { BATCH = 12, INPUTS = 20, STEPS = 3 };
    spmd_mesh *mesh;
    spmd_train_options options;
    spmd_trainer *trainer;
    ck_spmd_ok(spmd_mesh_create(axes, spmd_test_backend(), &mesh));
    spmd_mesh_set_log(mesh, NULL, NULL);
    ck_spmd_ok(spmd_train_defaults(model, &options));
    options.config.inputs = INPUTS;
    options.config.width = 64; /* so that the block's weight is packed */
    options.config.repeats = 5;
    options.config.compute = compute;
    options.batch = BATCH;
    options.eager = eager;
    ck_spmd_ok(spmd_trainer_create(mesh, &options, &trainer));
    spmd_value x = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(BATCH, INPUTS), 1, 3);
    const int32_t y[BATCH] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1};
    spmd_metrics metrics;
    for (int k = 0; k < STEPS; k++)
        ck_spmd_ok(spmd_trainer_step(trainer, x.data, y, &metrics));
    uint64_t print;
    ck_spmd_ok(spmd_trainer_fingerprint(trainer, &print));
    spmd_value_free(&x);
    spmd_trainer_destroy(trainer);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
    return print;
}

START_TEST(eager_is_replayed)
{
    static const char *const meshes[] = {"data=1", "data=2", "data=3"};
    static const char *const models[] = {"mlp", "shared-mlp"};
    static const spmd_dtype dtypes[] = {SPMD_F32, SPMD_BF16};
    const char *axes = meshes[_i / 4], *model = models[_i / 2 % 2];
    spmd_dtype dtype = dtypes[_i % 2];
    ck_assert_msg(fingerprint(axes, model, dtype, true) == fingerprint(axes, model, dtype, false), "%s, %s, %s", axes,
                  model, spmd_dtype_name(dtype));
}
END_TEST

SPMD_TEST_MAIN("step bits", tcase_add_loop_test(tc, eager_is_replayed, 0, 12);)
