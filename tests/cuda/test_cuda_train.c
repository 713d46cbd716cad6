/* A training on backend cuda follows the one on the host, eagerly, as graphs, and in the automatic mode. */
#include "models/train.h"
#include "spmd/testing.h"
#ifdef SPMD_EMU
#include "emu/emu.h"
#include <math.h>

enum { INPUTS = 12, BATCH = 16, STEPS = 8 };

static void train(const char *backend, const char *model, int mode, float *losses)
{
    spmd_mesh *mesh;
    spmd_trainer *trainer;
    spmd_train_options options;
    spmd_metrics metrics;
    float x[BATCH * INPUTS];
    int32_t y[BATCH];
    ck_spmd_ok(spmd_train_defaults(model, &options));
    options.config.inputs = INPUTS;
    options.config.width = 16;
    options.config.repeats = 3;
    options.batch = BATCH;
    options.eager = mode == 0;
    options.automatic = mode == 2;
    ck_spmd_ok(spmd_mesh_create("data=2", backend, &mesh));
    spmd_mesh_set_log(mesh, NULL, NULL);
    ck_spmd_ok(spmd_trainer_create(mesh, &options, &trainer));
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < BATCH * INPUTS; i++)
            x[i] = (float)((i * 5 + step * 3) % 13 - 6) / 4;
        for (int i = 0; i < BATCH; i++)
            y[i] = (i + step) % 10;
        ck_spmd_ok(spmd_trainer_step(trainer, x, y, &metrics));
        losses[step] = (float)metrics.loss;
    }
    spmd_trainer_destroy(trainer);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}

START_TEST(losses_follow_the_host)
{
    static const char *const models[] = {"mlp", "shared-mlp"};
    float want[STEPS], got[STEPS];
    emu_configure(2, EMU_RANDOM, (unsigned)_i + 1);
    train("host", models[_i / 3], _i % 3, want);
    train("cuda", models[_i / 3], _i % 3, got);
    for (int step = 0; step < STEPS; step++)
        ck_assert_msg(fabsf(got[step] - want[step]) < 1e-4f, "step %d: loss %g, %g on the host", step,
                      (double)got[step], (double)want[step]);
    ck_assert_msg(emu_reports(NULL) == 0, "%s", emu_report_text(NULL));
    ck_assert_int_eq(emu_live(NULL), 0);
}
END_TEST

SPMD_TEST_MAIN("cuda_train", tcase_add_loop_test(tc, losses_follow_the_host, 0, 6);)
#else
int main(void)
{
    return spmd_test_skip("needs the emulated CUDA (cmake --preset emu)");
}
#endif
