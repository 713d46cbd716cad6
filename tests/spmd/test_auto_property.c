/* Automatic mode: random programs, with gradients, on random meshes with random specs give what one device gives; and
 * with all of the loss in a checkpoint the same bits. */
#include "auto_programs.h"

static const char *const meshes[] = {"x=2",         "x=4",     "x=2,y=2", "y=2,x=2", "x=2,y=3",
                                     "x=2,y=2,z=2", "x=1,y=4", "x=3,y=2", "z=2,x=3", "x=8"};
enum { MESHES = sizeof meshes / sizeof *meshes, PROGRAMS = 150, OUTPUTS = FLOATS + 2 };

static void make_inputs(uint64_t *random, spmd_value *in)
{
    static const int64_t sizes[] = {4, 6, 8, 12};
    for (int k = 0; k < FLOATS; k++) {
        int64_t shape[3];
        int rank = k < 2 ? 2 : 1 + draw(random, 3);
        for (int d = 0; d < rank; d++)
            shape[d] = sizes[draw(random, k < 3 ? 2 : 4)];
        in[k] = spmd_value_random(SPMD_F32, NULL, rank, shape, 1, (unsigned)k + 1);
    }
    in[INDICES] = spmd_value_i32(NULL, SPMD_SHAPE(6), (const int32_t[]){0, 3, 1, 1, 2, 3});
    in[SEED] = spmd_value_i32(NULL, SPMD_SCALAR, (const int32_t[]){7});
}

static void draw_specs(uint64_t *random, const char *axes, spmd_value *in, char text[][64])
{
    spmd_mesh *mesh;
    ck_spmd_ok(spmd_mesh_create(axes, NULL, &mesh));
    for (int k = 0; k < PROGRAM_INPUTS; k++) {
        spmd_spec spec = draw_spec(random, mesh, in[k].rank, in[k].shape);
        char formatted[64];
        spmd_spec_format(&spec, formatted, sizeof formatted);
        snprintf(text[k], 64, "%.*s", (int)strlen(formatted) - 3, formatted + 2); /* without P( ) */
        in[k].spec = text[k];
    }
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}

/* Gradients that cancel to rounding noise count as equal. */
static double difference(const spmd_value *got, const spmd_value *want)
{
    double largest = 1e-2, most = 0;
    if (got->rank != want->rank || memcmp(got->shape, want->shape, (size_t)want->rank * sizeof *want->shape))
        return INFINITY;
    for (int64_t i = 0; i < spmd_value_count(want); i++) {
        largest = fmax(largest, fabs(spmd_value_at(want, i)));
        double d = fabs(spmd_value_at(got, i) - spmd_value_at(want, i));
        most = isnan(most) || d <= most ? most : d;
    }
    return most / largest;
}

/* The same, with everything made twice. */
static void expect_checkpointed(const auto_run *plain)
{
    auto_run again = *plain;
    again.fn = run_checkpointed;
    spmd_status status = auto_run_go(&again);
    ck_assert_msg(status == SPMD_OK, "checkpointed, on %s: %s", again.axes, spmd_last_error());
    for (int k = 0; k < OUTPUTS; k++)
        ck_assert_msg(!spmd_value_count_wrong(&again.out[k], &plain->out[k]), "checkpointed, on %s: output %d differs",
                      again.axes, k);
    spmd_values_free(again.out, OUTPUTS);
}

START_TEST(random_programs_give_what_one_device_gives)
{
    uint64_t random = (uint64_t)_i * 977 + 5, seed;
    spmd_value in[PROGRAM_INPUTS];
    char specs[PROGRAM_INPUTS][64];
    const char *out_specs[OUTPUTS] = {"", "", "", "", "", "", ""};
    make_inputs(&random, in);
    seed = random;
    auto_run want = {.axes = "x=1,y=1,z=1",
                     .fn = run_program,
                     .user = &seed,
                     .explicitly = true,
                     .nin = PROGRAM_INPUTS,
                     .nout = OUTPUTS,
                     .in = in,
                     .out_specs = out_specs};
    ck_spmd_ok(auto_run_go(&want));
    expect_checkpointed(&want);
    auto_run got = want;
    got.axes = meshes[draw(&random, MESHES)];
    got.explicitly = false;
    got.jit = draw(&random, 2);
    draw_specs(&random, got.axes, in, specs);
    for (int k = 0; k < FLOATS; k++)
        out_specs[k] = specs[k];
    spmd_status status = auto_run_go(&got);
    ck_assert_msg(status == SPMD_OK, "program %d on %s: %s", _i, got.axes, spmd_last_error());
    for (int k = 0; k < OUTPUTS; k++) {
        double d = difference(&got.out[k], &want.out[k]);
        ck_assert_msg(d < 1e-4, "program %d on %s%s, input specs %s; %s; %s; %s; %s: output %d differs by %g", _i,
                      got.axes, got.jit ? " (program)" : "", specs[0], specs[1], specs[2], specs[3], specs[4], k, d);
    }
    expect_checkpointed(&got);
    spmd_values_free(got.out, OUTPUTS);
    spmd_values_free(want.out, OUTPUTS);
    spmd_values_free(in, PROGRAM_INPUTS);
}
END_TEST

SPMD_TEST_MAIN("automatic mode, random programs",
               tcase_add_loop_test(tc, random_programs_give_what_one_device_gives, 0, PROGRAMS);)
