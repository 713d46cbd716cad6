/* Shards that do not make the same calls, and shards that fail: one report with both call sites, in time, and a mesh
 * that works afterwards. Also: many meetings of more shards than cores, out of memory. */
#include "spmd/testing.h"
#include <stdio.h>
#include <time.h>

/* What the odd shard does differently from all others, who do a psum and then an all_gather over the axis. */
typedef enum fault {
    NONE,
    OTHER_OP,
    OTHER_COUNT,
    OTHER_SHAPE,
    OTHER_DTYPE,
    OTHER_DIM,
    OTHER_TILED,
    OTHER_PAIRS,
    OTHER_SOURCE,
    OTHER_LIST,
    MEAN_NOT_SUM,
    SWAPPED,
    SKIPPED,
    ONE_MORE,
    OTHER_AXIS,
    FAILED,
    FAILED_LATE
} fault;

typedef struct run_args {
    fault fault;
    int odd; /* the shard that does it */
} run_args;

static spmd_status swap(spmd_ctx *ctx, const spmd_tensor *in, bool odd, spmd_tensor *out)
{
    if (odd) {
        SPMD_TRY(spmd_all_gather(ctx, &in[0], "x", NULL, out));
        return spmd_psum(ctx, &in[0], "x", out);
    }
    SPMD_TRY(spmd_psum(ctx, &in[0], "x", out));
    return spmd_all_gather(ctx, &in[0], "x", NULL, out);
}

/* in: f32 [4,3]; f32 [3,4]; i32 [4,3]; f32 [2,3] */
static spmd_status act(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *t, fault f, bool odd)
{
    spmd_tensor list[2], *last = &list[0];
    switch (f) {
    case OTHER_OP:
        return odd ? spmd_pmax(ctx, &in[0], "x", t) : spmd_psum(ctx, &in[0], "x", t);
    case OTHER_COUNT:
        return spmd_psum(ctx, &in[odd ? 3 : 0], "x", t);
    case OTHER_SHAPE:
        return spmd_psum(ctx, &in[odd ? 1 : 0], "x", t);
    case OTHER_DTYPE:
        return spmd_psum(ctx, &in[odd ? 2 : 0], "x", t);
    case OTHER_DIM:
        return spmd_all_gather(ctx, &in[0], "x", &(spmd_gather_opts){.dim = odd}, t);
    case OTHER_TILED:
        return spmd_psum_scatter(ctx, &in[odd ? 1 : 0], "x", &(spmd_scatter_opts){.dim = odd, .tiled = odd}, t);
    case OTHER_PAIRS:
        return spmd_ppermute(ctx, &in[0], "x", (const int[][2]){{odd, 1}}, 1, t);
    case OTHER_SOURCE:
        return spmd_pbroadcast(ctx, &in[0], "x", odd, t);
    case OTHER_LIST:
        return spmd_psum_list(ctx, in, odd ? 1 : 2, "x", list);
    case MEAN_NOT_SUM:
        return odd ? spmd_pmean(ctx, &in[0], "x", t) : spmd_psum(ctx, &in[0], "x", t);
    case SWAPPED:
        return swap(ctx, in, odd, t);
    case SKIPPED:
        return odd ? SPMD_OK : spmd_psum(ctx, &in[0], "x", t);
    case ONE_MORE:
        SPMD_TRY(spmd_psum(ctx, &in[0], "x", t));
        return odd ? spmd_psum(ctx, &in[0], "x", last) : SPMD_OK;
    case OTHER_AXIS:
        return spmd_psum(ctx, &in[0], odd ? "x" : "x,y", t);
    case FAILED_LATE:
        SPMD_TRY(spmd_psum(ctx, &in[0], "x", t)); /* fall through */
    case FAILED:
        SPMD_CHECK(!odd, SPMD_EUSER, "the odd shard gives up");
        return spmd_psum(ctx, &in[0], "x", t);
    case NONE:
        break;
    }
    return spmd_psum(ctx, &in[0], "x", t);
}

static spmd_status faulty(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const run_args *a = user;
    spmd_tensor t;
    SPMD_TRY(act(ctx, in, &t, a->fault, spmd_ctx_device(ctx) == a->odd));
    return spmd_psum(ctx, &in[0], "x,y", &out[0]);
}

static const int64_t shapes[4][2] = {{4, 3}, {3, 4}, {4, 3}, {2, 3}};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* x=4, y=2: along x four members. After each fault the mesh does the right thing once. */
START_TEST(mismatches_are_reported_and_survived)
{
    static const struct {
        fault fault;
        spmd_status status;
        const char *says[3];
    } cases[] = {
        {OTHER_OP, SPMD_EMISMATCH, {"pmax", "psum", "test_coll_faults.c:"}},
        {OTHER_COUNT, SPMD_EMISMATCH, {"f32[6]", "f32[12]", "test_coll_faults.c:"}},
        {OTHER_SHAPE, SPMD_EMISMATCH, {"shapes", "psum", "test_coll_faults.c:"}},
        {OTHER_DTYPE, SPMD_EMISMATCH, {"i32[12]", "f32[12]", "test_coll_faults.c:"}},
        {OTHER_DIM, SPMD_EMISMATCH, {"(dim ", "all_gather", "test_coll_faults.c:"}},
        {OTHER_TILED, SPMD_EMISMATCH, {"(shapes ", "psum_scatter", "test_coll_faults.c:"}},
        {OTHER_PAIRS, SPMD_EMISMATCH, {"(shard 1 receives from ", "ppermute", "test_coll_faults.c:"}},
        {OTHER_SOURCE, SPMD_EMISMATCH, {"(source ", "pbroadcast", "test_coll_faults.c:"}},
        {OTHER_LIST, SPMD_EMISMATCH, {"(lists of ", "psum", "test_coll_faults.c:"}},
        {MEAN_NOT_SUM, SPMD_EMISMATCH, {"pmean", "psum", "test_coll_faults.c:"}},
        {SWAPPED, SPMD_EMISMATCH, {"all_gather", "psum", "test_coll_faults.c:"}},
        {SKIPPED, SPMD_EMISMATCH, {"psum", "test_coll_faults.c:"}},
        {ONE_MORE, SPMD_EMISMATCH, {"psum", "test_coll_faults.c:"}},
        {OTHER_AXIS, SPMD_EMISMATCH, {"psum", "test_coll_faults.c:"}},
        {FAILED, SPMD_EUSER, {"the odd shard gives up", "shard "}},
        {FAILED_LATE, SPMD_EUSER, {"the odd shard gives up", "shard "}},
    };
    spmd_mesh *mesh;
    spmd_array *in[4], *out = NULL;
    ck_spmd_ok(spmd_mesh_create("x=4,y=2", spmd_test_backend(), &mesh));
    for (int k = 0; k < 4; k++)
        ck_spmd_ok(spmd_shard(mesh, NULL, k == 2 ? SPMD_I32 : SPMD_F32, 2, shapes[k], SPMD_REPLICATED, &in[k]));
    ck_spmd_ok(spmd_array_set(in[0], 1));
    const spmd_spec specs[] = {SPMD_REPLICATED};
    spmd_mesh_set_log(mesh, NULL, NULL); /* sums of replicated values are wanted here */
    for (int odd = 0; odd < 8; odd += 3) {
        run_args args = {cases[_i].fault, odd};
        spmd_job job = {
            .mesh = mesh, .fn = faulty, .user = &args, .nin = 4, .nout = 1, .in = in, .out = &out, .out_specs = specs};
        double start = seconds();
        spmd_status status = spmd_shard_map(&job);
        ck_assert_msg(status == cases[_i].status, "fault %d: %s: %s", args.fault, spmd_status_name(status),
                      spmd_last_error());
        for (int k = 0; k < 3 && cases[_i].says[k]; k++)
            ck_assert_msg(strstr(spmd_last_error(), cases[_i].says[k]) != NULL, "fault %d: no '%s' in: %s", args.fault,
                          cases[_i].says[k], spmd_last_error());
        ck_assert_msg(seconds() - start < 10, "fault %d took %g s", args.fault, seconds() - start);
        ck_assert_ptr_null(out);
        args.fault = NONE;
        ck_spmd_ok(spmd_shard_map(&job));
        float sum[12];
        ck_spmd_ok(spmd_unshard(out, sum));
        ck_assert(sum[0] == 8 && sum[11] == 8);
        spmd_array_destroy(out);
        out = NULL;
    }
    for (int k = 0; k < 4; k++)
        spmd_array_destroy(in[k]);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

/* Every axis on its own and together: groups meet independently, a thousand times. */
static spmd_status chatter(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    static const char *const axes[] = {"x", "y", "z", "x,y,z"};
    out[0] = in[0];
    for (int k = 0; k < 2000; k++)
        SPMD_TRY(spmd_pmean(ctx, &in[0], axes[k % 4], &out[0]));
    return SPMD_OK;
}

START_TEST(thousands_of_meetings_on_few_cores)
{
    spmd_value x = spmd_value_exact(SPMD_F32, "(x,y,z)", SPMD_SHAPE(8 * 33), 1), y = {.spec = NULL};
    spmd_stats stats;
    double start = seconds();
    ck_spmd_ok(spmd_test_run_job("x=2,y=2,z=2", &(spmd_job){.stats = &stats}, chatter, NULL, 1, &x, 1, &y));
    ck_assert_int_eq(stats.collectives, 2000);
    ck_assert_int_eq(stats.bytes, 2000 * 33 * 4);
    ck_assert_int_eq(stats.collectives_by_axes[7], 500);
    ck_assert_msg(seconds() - start < 0.4 * spmd_test_timeout(), "%g s", seconds() - start);
    for (int i = 0; i < 33; i++) {
        double sum = 0;
        for (int k = 0; k < 8; k++)
            sum += spmd_value_at(&x, k * 33 + i);
        ck_assert(spmd_value_at(&y, i) == sum / 8);
    }
    spmd_values_free((spmd_value[]){x, y}, 2);
}
END_TEST

/* --- no memory: on any shard, at any of its allocations --- */
static bool few(void *user, spmd_operation operation, size_t bytes)
{
    if (operation != SPMD_ALLOCATION)
        return true;
    (void)bytes;
    int *left = user;
    return __atomic_fetch_sub(left, 1, __ATOMIC_RELAXED) > 0;
}

static spmd_status large_sums(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    out[0] = in[0];
    for (int k = 0; k < 8; k++) {
        SPMD_TRY(spmd_all_gather(ctx, &in[0], "x", NULL, &out[0]));
        SPMD_TRY(spmd_psum_scatter(ctx, &out[0], "x", NULL, &out[0]));
    }
    return SPMD_OK;
}

START_TEST(out_of_memory_is_a_status)
{
    const int64_t shape[] = {3 << 18};
    const spmd_spec specs[] = {SPMD_P("x")};
    bool failed = false, passed = false;
    for (int budget = 0; budget < 400 && !passed; budget += 1 + budget / 4) {
        spmd_mesh *mesh;
        spmd_array *in, *out = NULL;
        int left = budget;
        ck_spmd_ok(spmd_mesh_create("x=3", spmd_test_backend(), &mesh));
        ck_spmd_ok(spmd_shard(mesh, NULL, SPMD_F32, 1, shape, specs[0], &in));
        spmd_mesh_set_fault_hook(mesh, few, &left);
        spmd_job job = {
            .mesh = mesh, .fn = large_sums, .nin = 1, .nout = 1, .in = &in, .out = &out, .out_specs = specs};
        spmd_status status = spmd_shard_map(&job);
        ck_assert_msg(status == SPMD_OK || status == SPMD_ENOMEM, "budget %d: %s: %s", budget, spmd_status_name(status),
                      spmd_last_error());
        failed |= status == SPMD_ENOMEM;
        passed = status == SPMD_OK;
        spmd_array_destroy(out);
        spmd_array_destroy(in);
        ck_spmd_ok(spmd_mesh_destroy(mesh));
    }
    ck_assert(failed && passed);
}
END_TEST

SPMD_TEST_MAIN("coll_faults", tcase_add_loop_test(tc, mismatches_are_reported_and_survived, 0, 16);
               tcase_add_test(tc, thousands_of_meetings_on_few_cores); tcase_add_test(tc, out_of_memory_is_a_status);)
