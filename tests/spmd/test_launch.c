/* Launches: outputs that are inputs, claims of replication, tensors that die. */
#include "spmd/testing.h"
#include <limits.h>
#include <malloc.h>

static spmd_mesh *mesh_of(const char *axes)
{
    spmd_mesh *mesh;
    ck_spmd_ok(spmd_mesh_create(axes, spmd_test_backend(), &mesh));
    spmd_mesh_set_log(mesh, NULL, NULL);
    return mesh;
}

static spmd_status identity(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)ctx, (void)user;
    out[0] = in[0];
    return SPMD_OK;
}

START_TEST(swapped_arrays_swap)
{
    spmd_mesh *mesh = mesh_of("x=2");
    const float a[2] = {1, 2}, b[2] = {3, 4};
    spmd_array *array[2];
    ck_spmd_ok(spmd_shard(mesh, a, SPMD_F32, SPMD_SHAPE(2), SPMD_P("x"), &array[0]));
    ck_spmd_ok(spmd_shard(mesh, b, SPMD_F32, SPMD_SHAPE(2), SPMD_P("x"), &array[1]));
    spmd_array *in[2] = {array[1], array[0]}, *out[2] = {array[0], array[1]};
    spmd_spec specs[2] = {SPMD_P("x"), SPMD_P("x")};
    spmd_job job = {.mesh = mesh, .fn = identity, .nin = 1, .in = in, .nout = 1, .out = out, .out_specs = specs};
    ck_spmd_ok(spmd_shard_map(&job)); /* array[0] = array[1] */
    float got[2];
    ck_spmd_ok(spmd_unshard(array[0], got));
    ck_assert(got[0] == 3 && got[1] == 4);
    spmd_array_destroy(array[0]);
    spmd_array_destroy(array[1]);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

static spmd_status swap(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)ctx, (void)user;
    out[0] = in[1];
    out[1] = in[0];
    return SPMD_OK;
}

START_TEST(outputs_that_are_inputs_may_swap)
{
    spmd_mesh *mesh = mesh_of("x=2");
    const float a[2] = {1, 2}, b[2] = {3, 4};
    float got[2];
    spmd_array *array[2];
    ck_spmd_ok(spmd_shard(mesh, a, SPMD_F32, SPMD_SHAPE(2), SPMD_P("x"), &array[0]));
    ck_spmd_ok(spmd_shard(mesh, b, SPMD_F32, SPMD_SHAPE(2), SPMD_P("x"), &array[1]));
    spmd_spec specs[2] = {SPMD_P("x"), SPMD_P("x")};
    spmd_job job = {.mesh = mesh, .fn = swap, .nin = 2, .in = array, .nout = 2, .out = array, .out_specs = specs};
    ck_spmd_ok(spmd_shard_map(&job));
    ck_spmd_ok(spmd_unshard(array[0], got));
    ck_assert(got[0] == 3 && got[1] == 4);
    ck_spmd_ok(spmd_unshard(array[1], got));
    ck_assert(got[0] == 1 && got[1] == 2);
    spmd_array_destroy(array[0]);
    spmd_array_destroy(array[1]);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

/* in P(x,y,z) returned under P(x): the text lists x, y,z and what it varies over. */
START_TEST(a_replicated_claim_on_a_varying_value_is_refused)
{
    spmd_value in = spmd_value_zeros(SPMD_F32, "x,y,z", SPMD_SHAPE(2, 2, 2)), out = {.spec = "x"};
    ck_spmd_fails(spmd_test_run("x=2,y=2,z=2", identity, NULL, 1, &in, 1, &out), SPMD_EREPLICATION, "over 'y,z'");
    ck_assert(strstr(spmd_last_error(), "only 'x'") && strstr(spmd_last_error(), "{V:x,y,z}"));
    spmd_value_free(&in);
}
END_TEST

static spmd_status constant(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)in, (void)user;
    return spmd_full(ctx, 3, SPMD_F32, SPMD_SHAPE(1, 1), &out[0]);
}

static const struct {
    const char *spec;
    int64_t rows, columns;
} constants[] = {{"x,y", 4, 2}, {"x,-", 4, 1}, {"", 1, 1}};

START_TEST(a_constant_fits_any_out_spec)
{
    spmd_value out = {.spec = constants[_i].spec};
    ck_spmd_ok(spmd_test_run("x=4,y=2", constant, NULL, 0, NULL, 1, &out));
    ck_assert_int_eq(out.shape[0], constants[_i].rows);
    ck_assert_int_eq(out.shape[1], constants[_i].columns);
    for (int64_t i = 0; i < spmd_value_count(&out); i++)
        ck_assert(spmd_value_at(&out, i) == 3);
    spmd_value_free(&out);
}
END_TEST

static spmd_status forget(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)ctx, (void)in, (void)out, (void)user;
    return SPMD_OK;
}

START_TEST(an_output_that_is_not_set_is_named)
{
    spmd_value out[2] = {{.spec = ""}, {.spec = ""}};
    ck_spmd_fails(spmd_test_run("x=2", forget, NULL, 0, NULL, 2, out), SPMD_ESTALE, "output 0 was not set");
}
END_TEST

static spmd_status keeps(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)in;
    spmd_tensor *kept = user;
    if (kept->id)
        return spmd_neg(ctx, kept, &out[0]);
    SPMD_TRY(spmd_full(ctx, 1, SPMD_F32, SPMD_SCALAR, &out[0]));
    *kept = out[0];
    return SPMD_OK;
}

START_TEST(tensors_die_with_the_launch)
{
    spmd_mesh *mesh = mesh_of("x=1");
    spmd_tensor kept = {0};
    spmd_array *y = NULL;
    spmd_spec spec = SPMD_REPLICATED;
    spmd_job job = {.mesh = mesh, .fn = keeps, .user = &kept, .nout = 1, .out = &y, .out_specs = &spec};
    ck_spmd_ok(spmd_shard_map(&job));
    ck_spmd_fails(spmd_shard_map(&job), SPMD_ESTALE, "not made in this launch");
    spmd_array_destroy(y);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

static const int64_t huge[] = {(int64_t)1 << 40, (int64_t)1 << 40}; /* the product is 0 modulo 2^64 */

static spmd_status makes_huge(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)in, (void)user;
    return spmd_full(ctx, 1, SPMD_F32, 2, huge, &out[0]);
}

START_TEST(sizes_beyond_counting_are_refused)
{
    spmd_mesh *mesh = mesh_of("x=2");
    spmd_array *x;
    spmd_value out = {.spec = ""};
    ck_spmd_fails(spmd_shard(mesh, NULL, SPMD_F32, 2, huge, SPMD_P("x"), &x), SPMD_ESHAPE, "can be counted");
    ck_spmd_fails(spmd_test_run("x=2", makes_huge, NULL, 0, NULL, 1, &out), SPMD_ESHAPE,
                  "full: output 0 would be f32[1099511627776,1099511627776]");
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

/* A kernel that reads its rank makes differing "replicated" values, which the types cannot see. */
static spmd_status rank_dependent(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)in, (void)user;
    return spmd_full(ctx, spmd_ctx_device(ctx) == 2 ? 5 : 4, SPMD_F32, SPMD_SHAPE(3), &out[0]);
}

START_TEST(differing_op_streams_are_compared_by_bytes)
{
    spmd_value out = {.spec = ""};
    ck_spmd_fails(spmd_test_run("x=4", rank_dependent, NULL, 0, NULL, 1, &out), SPMD_EREPLICATION,
                  "element 0 is 4 on shard 0 and 5 on shard 2");
    ck_assert_msg(strstr(spmd_test_log(), "issued different ops"), "log: %s", spmd_test_log());
}
END_TEST

/* A kernel that gives every shard its own value, and says so to nobody: only the bytes can tell. */
static spmd_status counter_shape(const spmd_tensor *in, int nin, spmd_tensor *out, int nout, void *user)
{
    (void)in, (void)nin, (void)nout, (void)user;
    *out = (spmd_tensor){.dtype = SPMD_F32, .rank = 1, .shape = {3}};
    return SPMD_OK;
}

static spmd_status counter_host(const spmd_view *in, int nin, const spmd_view *out, int nout, void *user)
{
    (void)in, (void)nin, (void)nout;
    float *y = out->data;
    y[0] = y[1] = 7;
    y[2] = (float)__atomic_fetch_add((int *)user, 1, __ATOMIC_RELAXED);
    return SPMD_OK;
}

static spmd_status secretly_different(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    spmd_custom_op *op = user;
    (void)in;
    return spmd_custom(ctx, op, NULL, 0, &out[0], 1);
}

START_TEST(claims_are_verified_by_bytes_on_demand)
{
    int count = 0;
    spmd_custom_op op = {.name = "counter", .shape = counter_shape, .host = counter_host, .user = &count};
    spmd_value out = {.spec = ""};
    ck_spmd_ok(spmd_test_run("x=2", secretly_different, &op, 0, NULL, 1, &out)); /* nobody looks */
    spmd_value_free(&out);
    count = 0;
    spmd_status status = spmd_test_run_job("x=2", &(spmd_job){.verify_replication = true}, secretly_different, &op, 0,
                                           NULL, 1, &out);
    ck_spmd_fails(status, SPMD_EREPLICATION, "but element 2 is ");
    ck_assert_msg(strstr(spmd_last_error(), "on shard 0 and ") && strstr(spmd_last_error(), "on shard 1"), "%s",
                  spmd_last_error());
    op.varies = "x"; /* the honest definition needs no bytes */
    ck_spmd_fails(spmd_test_run("x=2", secretly_different, &op, 0, NULL, 1, &out), SPMD_EREPLICATION, "varies");
}
END_TEST

START_TEST(inputs_are_filled_from_the_host)
{
    enum { N = 6 };
    static const char *const specs[] = {"x", "y", ""};
    spmd_mesh *mesh = mesh_of("x=2,y=3");
    spmd_array *in[2], *out[1] = {NULL};
    spmd_spec spec;
    const float values[N] = {1, 2, 3, 4, 5, 6}, other[N] = {0};
    const void *host[2] = {values, NULL};
    float got[N];
    ck_spmd_ok(spmd_spec_parse(specs[_i], &spec));
    for (int k = 0; k < 2; k++)
        ck_spmd_ok(spmd_shard(mesh, other, SPMD_F32, SPMD_SHAPE(N), spec, &in[k]));
    spmd_job job = {.mesh = mesh, .fn = identity, .nin = 2, .in = in, .in_host = host};
    job.nout = 1;
    job.out = out;
    job.out_specs = &spec;
    job.verify_replication = true;
    ck_spmd_ok(spmd_shard_map(&job));
    ck_spmd_ok(spmd_unshard(out[0], got));
    ck_assert(memcmp(got, values, sizeof got) == 0);
    ck_spmd_ok(spmd_unshard(in[0], got));
    ck_assert(memcmp(got, values, sizeof got) == 0);
    ck_spmd_ok(spmd_unshard(in[1], got));
    ck_assert(memcmp(got, other, sizeof got) == 0);
    spmd_array_destroy(in[0]);
    spmd_array_destroy(in[1]);
    spmd_array_destroy(out[0]);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

/* Blocks as large as huge pages and a little larger, in memory that was used before: freed, it stays in the heap. */
START_TEST(arrays_without_values_are_zero)
{
    const int64_t counts[] = {1000, 1 << 19, (1 << 19) + 3}, count = counts[_i];
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    spmd_mesh *mesh = mesh_of("x=2");
    float *got = malloc((size_t)count * sizeof *got);
    for (int round = 0; round < 3; round++) {
        spmd_array *array;
        ck_spmd_ok(spmd_shard(mesh, NULL, SPMD_F32, SPMD_SHAPE(count), SPMD_REPLICATED, &array));
        ck_spmd_ok(spmd_unshard(array, got));
        int64_t i = 0;
        while (i < count && got[i] == 0)
            i++;
        ck_assert_msg(i == count, "round %d: element %lld is not 0", round, (long long)i);
        ck_spmd_ok(spmd_array_set(array, 7));
        spmd_array_destroy(array);
    }
    free(got);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

SPMD_TEST_MAIN("launch", tcase_add_test(tc, sizes_beyond_counting_are_refused);
               tcase_add_loop_test(tc, inputs_are_filled_from_the_host, 0, 3);
               tcase_add_loop_test(tc, arrays_without_values_are_zero, 0, 3); tcase_add_test(tc, swapped_arrays_swap);
               tcase_add_test(tc, outputs_that_are_inputs_may_swap);
               tcase_add_test(tc, a_replicated_claim_on_a_varying_value_is_refused);
               tcase_add_loop_test(tc, a_constant_fits_any_out_spec, 0, 3);
               tcase_add_test(tc, an_output_that_is_not_set_is_named); tcase_add_test(tc, tensors_die_with_the_launch);
               tcase_add_test(tc, differing_op_streams_are_compared_by_bytes);
               tcase_add_test(tc, claims_are_verified_by_bytes_on_demand);)
