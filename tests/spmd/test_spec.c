/* Meshes, specs and arrays: parsing, printing, refusals, and the round trip of random arrays through random cuts. */
#include "spmd/testing.h"

static const struct {
    const char *axes;
    const char *needle; /* of the refusal; NULL: fine */
} meshes[] = {
    {"data=1", NULL},
    {"data=2,model=2", NULL},
    {"a=2,b=2,c=2,d=2,e=2,f=2", NULL},
    {"x=64", NULL},
    {"", "without axes"},
    {"x", "expected name=size"},
    {"x=0", "must be 1 to 64"},
    {"x=65", "must be 1 to 64"},
    {"x=8,y=16", "more than 64 devices"},
    {"x=2,x=2", "axis 'x' twice"},
    {"x=2,", "ends with a comma"},
    {"x=2y=3", "must be 1 to 64"},
    {"x= 2", "must be 1 to 64"},
    {"x=+2", "must be 1 to 64"},
    {"2x=2", "expected name=size"},
    {"a=1,b=1,c=1,d=1,e=1,f=1,g=1", "more than 6 axes"},
    {"a_very_long_axis_name=2", "longer than 15"},
};

START_TEST(mesh_text)
{
    spmd_mesh *mesh;
    if (meshes[_i].needle) {
        ck_spmd_fails(spmd_mesh_create(meshes[_i].axes, "host", &mesh), SPMD_EINVAL, meshes[_i].needle);
        ck_assert_ptr_null(mesh);
        return;
    }
    ck_spmd_ok(spmd_mesh_create(meshes[_i].axes, NULL, &mesh));
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

START_TEST(unknown_backend_is_named)
{
    spmd_mesh *mesh;
    ck_spmd_fails(spmd_mesh_create("x=2", "tpu", &mesh), SPMD_EUNSUPPORTED, "'tpu'");
}
END_TEST

static const struct {
    const char *name, *value;
} environment[] = {
    {"SPMD_SEED", "abc"},
    {"SPMD_SEED", ""},
    {"SPMD_SEED", "-1"},
    {"SPMD_SEED", "1 "},
    {"SPMD_SEED", "99999999999999999999"},
    {"SPMD_TIMEOUT_MS", "1s"},
    {"SPMD_TIMEOUT_MS", "-1"},
};

START_TEST(environment_is_read_strictly)
{
    spmd_mesh *mesh;
    char needle[64];
    snprintf(needle, sizeof needle, "%s='%s'", environment[_i].name, environment[_i].value);
    setenv(environment[_i].name, environment[_i].value, 1);
    ck_spmd_fails(spmd_mesh_create("x=2", "host", &mesh), SPMD_EINVAL, needle);
    setenv(environment[_i].name, "18", 1);
    ck_spmd_ok(spmd_mesh_create("x=2", "host", &mesh));
    unsetenv(environment[_i].name);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

START_TEST(devices_are_numbered_row_major)
{
    spmd_mesh *mesh;
    ck_spmd_ok(spmd_mesh_create("data=2,model=3", NULL, &mesh));
    ck_assert_int_eq(spmd_mesh_devices(mesh), 6);
    ck_assert_int_eq(spmd_mesh_coord(mesh, 5, 0), 1);
    ck_assert_int_eq(spmd_mesh_coord(mesh, 5, 1), 2);
    ck_assert_int_eq(spmd_mesh_coord(mesh, 6, 1), -1);
    ck_assert_str_eq(spmd_mesh_axis_name(mesh, 1), "model");
    ck_assert_ptr_null(spmd_mesh_axis_name(mesh, 2));
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

static const struct {
    const char *text, *printed; /* NULL: refused */
} texts[] = {
    {"", "P()"},
    {"-", "P(-)"},
    {"data,-", "P(data,-)"},
    {"(x,y),-", "P((x,y),-)"},
    {"-,(x,y),z", "P(-,(x,y),z)"},
    {"data,", NULL},
    {",data", NULL},
    {"(x,y", NULL},
    {"x y", NULL},
    {"a,b,c,d,e,f,g", NULL},
};

START_TEST(spec_text)
{
    spmd_spec spec;
    char text[256];
    if (!texts[_i].printed) {
        ck_spmd_fails(spmd_spec_parse(texts[_i].text, &spec), SPMD_ESPEC, texts[_i].text);
        return;
    }
    ck_spmd_ok(spmd_spec_parse(texts[_i].text, &spec));
    spmd_spec_format(&spec, text, sizeof text);
    ck_assert_str_eq(text, texts[_i].printed);
}
END_TEST

/* On mesh x=2,y=2, for f32[shape]. */
static const struct {
    const char *spec;
    int rank;
    int64_t shape[3];
    spmd_status status;
    const char *needle;
} refusals[] = {
    {"x,y", 1, {4}, SPMD_ESPEC, "more than the rank 1"},
    {"x", 0, {0}, SPMD_ESPEC, "SPMD_REPLICATED for a scalar"},
    {"x,x", 2, {4, 4}, SPMD_ESPEC, "'x' in more than one dimension"},
    {"x,(y,x)", 2, {4, 4}, SPMD_ESPEC, "'x' in more than one dimension"},
    {"(x,x)", 1, {4}, SPMD_ESPEC, "'x' twice"},
    {"rows", 1, {4}, SPMD_EAXIS, "no mesh axis 'rows': the mesh has 'x,y'"},
    {"x", 1, {5}, SPMD_ESHAPE, "dimension 0 of size 5 is cut over 'x' of size 2"},
    {"x,y", 2, {3, 5}, SPMD_ESHAPE, "dimension 1 of size 5"},
    {"(x,y)", 1, {6}, SPMD_ESHAPE, "of size 4, which does not divide it; pad"},
    {"-", 1, {-1}, SPMD_ESHAPE, "must not be negative"},
};

START_TEST(array_refusal)
{
    spmd_mesh *mesh;
    spmd_array *array;
    spmd_spec spec;
    ck_spmd_ok(spmd_mesh_create("x=2,y=2", NULL, &mesh));
    ck_spmd_ok(spmd_spec_parse(refusals[_i].spec, &spec));
    ck_spmd_fails(spmd_shard(mesh, NULL, SPMD_F32, refusals[_i].rank, refusals[_i].shape, spec, &array),
                  refusals[_i].status, refusals[_i].needle);
    ck_assert_ptr_null(array);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

START_TEST(all_bad_dimensions_are_listed)
{
    spmd_mesh *mesh;
    ck_spmd_ok(spmd_mesh_create("x=2,y=2", NULL, &mesh));
    spmd_spec spec = SPMD_P("x", "y");
    ck_spmd_fails(spmd_spec_check(&spec, mesh, SPMD_SHAPE(3, 5)), SPMD_ESHAPE, "dimension 0 of size 3");
    ck_assert(strstr(spmd_last_error(), "dimension 1 of size 5"));
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

static spmd_status first_input(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)ctx, (void)user;
    out[0] = in[0];
    return SPMD_OK;
}

START_TEST(all_bad_inputs_are_listed)
{
    spmd_mesh *mesh;
    spmd_array *a[2], *y = NULL;
    ck_spmd_ok(spmd_mesh_create("x=4", NULL, &mesh));
    ck_spmd_ok(spmd_shard(mesh, NULL, SPMD_F32, SPMD_SHAPE(5), SPMD_REPLICATED, &a[0]));
    ck_spmd_ok(spmd_shard(mesh, NULL, SPMD_F32, SPMD_SHAPE(8), SPMD_REPLICATED, &a[1]));
    spmd_spec specs[2] = {SPMD_P("x"), SPMD_P("x")}, out_spec = SPMD_P("x");
    spmd_job job = {.mesh = mesh,
                    .fn = first_input,
                    .nin = 2,
                    .in = a,
                    .in_specs = specs,
                    .nout = 1,
                    .out = &y,
                    .out_specs = &out_spec};
    ck_spmd_fails(spmd_shard_map(&job), SPMD_ESPEC, "input 0: spec P(x): dimension 0 of size 5");
    ck_assert_msg(strstr(spmd_last_error(), "input 1: in_specs says P(x) but the array is P()"), "%s",
                  spmd_last_error());
    spmd_array_destroy(a[0]);
    spmd_array_destroy(a[1]);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

/* P((x,y)) and P((y,x)) are other device orders of the same blocks. */
static spmd_status ranks_and_block(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    spmd_view view;
    SPMD_TRY(spmd_local(ctx, &in[0], &view));
    ((float *)user)[spmd_ctx_device(ctx)] = *(const float *)view.data;
    out[0] = in[0];
    return SPMD_OK;
}

START_TEST(the_first_axis_of_an_entry_is_major)
{
    const float data[4] = {0, 1, 2, 3};
    float held[4];
    spmd_value in = spmd_value_f32(_i ? "(y,x)" : "(x,y)", SPMD_SHAPE(4), data), out = {.spec = in.spec};
    ck_spmd_ok(spmd_test_run("x=2,y=2", ranks_and_block, held, 1, &in, 1, &out));
    ck_assert(held[1] == (_i ? 2 : 1)); /* device 1 is (x 0, y 1) */
    ck_assert_int_eq(spmd_value_count_wrong(&in, &out), 0);
    spmd_value_free(&in);
    spmd_value_free(&out);
}
END_TEST

/* Random meshes, random specs, every dtype: what goes in comes out. */
START_TEST(random_arrays_come_back)
{
    static const char *const axes[] = {"x=1", "x=2", "x=1,y=2", "x=2,y=2", "x=2,y=4", "x=4,y=2", "x=2,y=1,z=3"};
    srand((unsigned)_i);
    const char *mesh = axes[rand() % 7];
    int naxes = 1 + (strchr(mesh, 'y') != NULL) + (strchr(mesh, 'z') != NULL), rank = rand() % 4, where[3];
    char spec[64] = "";
    int64_t shape[4];
    for (int a = 0; a < naxes; a++)
        where[a] = rand() % (rank + 1); /* rank: the axis is not named */
    for (int d = 0; d < rank; d++) {
        char entry[16] = "";
        bool backwards = rand() % 2;
        for (int k = 0; k < naxes; k++) {
            int a = backwards ? naxes - 1 - k : k;
            if (where[a] == d)
                sprintf(entry + strlen(entry), "%s%c", *entry ? "," : "", "xyz"[a]);
        }
        sprintf(spec + strlen(spec), "%s%s%s%s", d ? "," : "", *entry ? "(" : "", *entry ? entry : "-",
                *entry ? ")" : "");
        shape[d] = 24 * (rand() % 3);
    }
    spmd_value in = spmd_value_random((spmd_dtype)(rand() % SPMD_DTYPE_COUNT), spec, rank, shape, 100, (unsigned)_i);
    spmd_value out = {.spec = spec};
    ck_spmd_ok(spmd_test_run(mesh, first_input, NULL, 1, &in, 1, &out));
    ck_assert_int_eq(spmd_value_count_wrong(&in, &out), 0);
    spmd_value_free(&in);
    spmd_value_free(&out);
}
END_TEST

SPMD_TEST_MAIN("spec", tcase_add_loop_test(tc, mesh_text, 0, sizeof meshes / sizeof *meshes);
               tcase_add_loop_test(tc, environment_is_read_strictly, 0, sizeof environment / sizeof *environment);
               tcase_add_test(tc, unknown_backend_is_named); tcase_add_test(tc, devices_are_numbered_row_major);
               tcase_add_loop_test(tc, spec_text, 0, sizeof texts / sizeof *texts);
               tcase_add_loop_test(tc, array_refusal, 0, sizeof refusals / sizeof *refusals);
               tcase_add_test(tc, all_bad_dimensions_are_listed); tcase_add_test(tc, all_bad_inputs_are_listed);
               tcase_add_loop_test(tc, the_first_axis_of_an_entry_is_major, 0, 2);
               tcase_add_loop_test(tc, random_arrays_come_back, 0, 60);)
