/* Profiles: every op is there once a device, with its cost; the trace is JSON. */
#include "spmd/testing.h"
#include <cjson/cJSON.h>

static spmd_status body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    SPMD_TRY(spmd_matmul(ctx, &in[0], &in[0], false, false, &out[0]));
    SPMD_TRY(spmd_neg(ctx, &out[0], &out[0]));
    SPMD_TRY(spmd_neg(ctx, &out[0], &out[0]));
    return spmd_psum(ctx, &out[0], "x", &out[0]);
}

static const spmd_profile_row *row_named(const spmd_profile_row *rows, int n, const char *op)
{
    for (int k = 0; k < n; k++)
        if (!strcmp(rows[k].op, op))
            return &rows[k];
    ck_abort_msg("no row for %s", op);
    return NULL;
}

START_TEST(ops_are_timed_and_traced)
{
    enum { N = 16, LAUNCHES = 3 };
    spmd_mesh *mesh;
    spmd_profile *profile;
    spmd_jit *jit = NULL;
    spmd_array *x, *y = NULL;
    ck_spmd_ok(spmd_mesh_create("x=2", spmd_test_backend(), &mesh));
    ck_spmd_ok(spmd_profile_create(mesh, _i == 2 ? 2 : 1000, &profile));
    if (_i == 1)
        ck_spmd_ok(spmd_jit_create(mesh, &jit));
    spmd_spec cut = SPMD_P("x"), replicated = SPMD_REPLICATED;
    ck_spmd_ok(spmd_shard(mesh, NULL, SPMD_F32, SPMD_SHAPE(2 * N, N), cut, &x));
    spmd_job job = {.mesh = mesh,
                    .fn = body,
                    .nin = 1,
                    .in = &x,
                    .nout = 1,
                    .out = &y,
                    .out_specs = &replicated,
                    .jit = jit,
                    .profile = profile};
    for (int k = 0; k < LAUNCHES; k++)
        ck_spmd_ok(spmd_shard_map(&job));
    spmd_profile_row rows[16];
    int n = spmd_profile_rows(profile, rows, 16);
    char *text;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    ck_spmd_ok(spmd_profile_trace(profile, file));
    fclose(file);
    cJSON *json = cJSON_Parse(text);
    ck_assert_ptr_nonnull(json);
    int events = cJSON_GetArraySize(cJSON_GetObjectItem(json, "traceEvents"));
    if (_i == 2) { /* two a device are kept */
        ck_assert_int_eq(events, 4 + 2 * 2);
    } else {
        ck_assert_int_eq(n, 3);
        ck_assert_int_eq(events, 4 + 2 * LAUNCHES * 4);
        ck_assert_int_eq(row_named(rows, n, "matmul")->calls, 2 * LAUNCHES);
        ck_assert_int_eq(row_named(rows, n, "neg")->calls, 4 * LAUNCHES);
        ck_assert(row_named(rows, n, "matmul")->flops == 2.0 * LAUNCHES * 2 * N * N * N);
        ck_assert(row_named(rows, n, "psum")->collective && row_named(rows, n, "psum")->us > 0);
        ck_assert(rows[0].us >= rows[1].us && rows[1].us >= rows[2].us);
        ck_assert(row_named(rows, n, "neg")->bytes == 4.0 * LAUNCHES * 2 * N * N * sizeof(float)); /* in and out */
    }
    if (jit) { /* says of a device's launch before it what the profile says after it */
        spmd_program_info info;
        ck_spmd_ok(spmd_jit_info(jit, 0, &info));
        ck_assert(info.bytes == (rows[0].bytes + rows[1].bytes + rows[2].bytes) / (2 * LAUNCHES));
        ck_assert(info.flops == (rows[0].flops + rows[1].flops + rows[2].flops) / (2 * LAUNCHES));
    }
    spmd_profile_clear(profile);
    ck_assert_int_eq(spmd_profile_rows(profile, NULL, 0), 0);
    cJSON_Delete(json);
    free(text);
    spmd_array_destroy(x);
    spmd_array_destroy(y);
    spmd_jit_destroy(jit);
    spmd_profile_destroy(profile);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

START_TEST(a_profile_belongs_to_one_mesh)
{
    spmd_mesh *mesh, *larger;
    spmd_profile *profile;
    ck_spmd_ok(spmd_mesh_create("x=1", spmd_test_backend(), &mesh));
    ck_spmd_ok(spmd_mesh_create("x=2", spmd_test_backend(), &larger));
    ck_spmd_ok(spmd_profile_create(mesh, 10, &profile));
    spmd_job job = {.mesh = larger, .fn = body, .profile = profile};
    ck_spmd_fails(spmd_shard_map(&job), SPMD_EINVAL, "job->profile was created for another mesh");
    spmd_profile_destroy(profile);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
    ck_spmd_ok(spmd_mesh_destroy(larger));
}
END_TEST

SPMD_TEST_MAIN("profile", tcase_add_loop_test(tc, ops_are_timed_and_traced, 0, 3);
               tcase_add_test(tc, a_profile_belongs_to_one_mesh);)
