/* Gradients whose numbers are known from JAX's tests, documents and bug reports, here under our own rule: the loss is
 * differentiated inside the shard function; a loss that is the same on every shard has settled gradients, a local loss
 * has local ones. Expected: loss and gradient, and how many collectives transposition added. */
#include "spmd/testing.h"

typedef struct known {
    const char *what;
    spmd_loss_fn *loss;
    int n;                   /* shards on axis x */
    const char *spec;        /* of the parameter */
    int64_t size;            /* its elements */
    double first, increment; /* parameter i = first + i * increment */
    bool cast;               /* the parameter is cast to varying before it is differentiated */
    double want_loss;
    double want[4]; /* the gradient repeats these */
    int period, implied;
} known;

static spmd_status total(spmd_ctx *ctx, const spmd_tensor *x, spmd_tensor *loss)
{
    return spmd_sum(ctx, x, NULL, 0, false, loss);
}

/* psum(x), one element a shard, taken once; or summed as if every shard's copy counted */
static spmd_status psum_once(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    (void)user;
    spmd_tensor y;
    SPMD_TRY(spmd_psum(ctx, &p[0], "x", &y));
    return total(ctx, &y, loss);
}

static spmd_status psum_counted(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    SPMD_TRY(psum_once(ctx, p, n, user, loss));
    SPMD_TRY(spmd_pcast(ctx, loss, "x", loss));
    return spmd_psum(ctx, loss, "x", loss);
}

static spmd_status identity(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    (void)user;
    return total(ctx, &p[0], loss);
}

static spmd_status identity_counted(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    SPMD_TRY(identity(ctx, p, n, user, loss));
    SPMD_TRY(spmd_pcast(ctx, loss, "x", loss));
    return spmd_psum(ctx, loss, "x", loss);
}

/* sum over shards of (w^2 + 1) * index */
static spmd_status quadratic(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    (void)user;
    spmd_tensor y, data;
    SPMD_TRY(spmd_axis_index(ctx, "x", &data));
    SPMD_TRY(spmd_cast(ctx, &data, SPMD_F32, &data));
    SPMD_TRY(spmd_square(ctx, &p[0], &y));
    SPMD_TRY(spmd_mul(ctx, &y, &data, &y));
    SPMD_TRY(spmd_add(ctx, &y, &data, &y));
    SPMD_TRY(total(ctx, &y, loss));
    return spmd_psum(ctx, loss, "x", loss);
}

/* The shard's two of 0..7, times w, squared */
static spmd_status squares(spmd_ctx *ctx, const spmd_tensor *w, spmd_tensor *out)
{
    spmd_tensor index, x;
    SPMD_TRY(spmd_axis_index(ctx, "x", &index));
    SPMD_TRY(spmd_cast(ctx, &index, SPMD_F32, &index));
    SPMD_TRY(spmd_scale(ctx, &index, 2, &index));
    SPMD_TRY(spmd_iota(ctx, SPMD_F32, 2, &x));
    SPMD_TRY(spmd_add(ctx, &x, &index, &x));
    SPMD_TRY(spmd_mul(ctx, &x, w, &x));
    return spmd_square(ctx, &x, out);
}

static spmd_status sum_of_squares(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    (void)user;
    spmd_tensor y;
    SPMD_TRY(squares(ctx, &p[0], &y));
    SPMD_TRY(total(ctx, &y, loss));
    return spmd_psum(ctx, loss, "x", loss);
}

static spmd_status mean_of_squares(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    (void)user;
    spmd_tensor y;
    SPMD_TRY(squares(ctx, &p[0], &y));
    SPMD_TRY(spmd_mean(ctx, &y, NULL, 0, false, loss));
    return spmd_pmean(ctx, loss, "x", loss);
}

static spmd_status gathered(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    (void)user;
    spmd_tensor y;
    SPMD_TRY(spmd_all_gather(ctx, &p[0], "x", &(spmd_gather_opts){.tiled = true}, &y));
    SPMD_TRY(total(ctx, &y, loss));
    return spmd_psum(ctx, loss, "x", loss);
}

static spmd_status gathered_invarying(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    (void)user;
    spmd_tensor y;
    SPMD_TRY(spmd_all_gather(ctx, &p[0], "x", &(spmd_gather_opts){.tiled = true, .to = SPMD_TO_INVARYING}, &y));
    return total(ctx, &y, loss);
}

static spmd_status scattered(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    (void)user;
    spmd_tensor y;
    SPMD_TRY(spmd_psum_scatter(ctx, &p[0], "x", &(spmd_scatter_opts){.tiled = true}, &y));
    SPMD_TRY(total(ctx, &y, loss));
    return spmd_psum(ctx, loss, "x", loss);
}

static spmd_status exchanged(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    (void)user;
    spmd_tensor y;
    SPMD_TRY(spmd_reshape(ctx, &p[0], SPMD_SHAPE(2, 8), &y));
    SPMD_TRY(spmd_all_to_all(ctx, &y, "x", &(spmd_exchange_opts){.split = 1, .concat = 0, .tiled = true}, &y));
    SPMD_TRY(total(ctx, &y, loss));
    SPMD_TRY(spmd_scale(ctx, loss, 2, loss));
    return spmd_psum(ctx, loss, "x", loss);
}

static spmd_status broadcast(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    (void)user;
    spmd_tensor y;
    SPMD_TRY(spmd_pbroadcast(ctx, &p[0], "x", 0, &y));
    return total(ctx, &y, loss);
}

static spmd_status broadcast_counted(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    SPMD_TRY(broadcast(ctx, p, n, user, loss));
    SPMD_TRY(spmd_pcast(ctx, loss, "x", loss));
    return spmd_psum(ctx, loss, "x", loss);
}

/* A list of two, of which only the first is used */
static spmd_status half_used(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    (void)user;
    spmd_tensor list[2] = {p[0]};
    SPMD_TRY(spmd_square(ctx, &p[0], &list[1]));
    SPMD_TRY(spmd_psum_list(ctx, list, 2, "x", list));
    return total(ctx, &list[0], loss);
}

static const known cases[] = {
    {"psum, one copy", psum_once, 4, "x", 4, 1, 1, false, 10, {1}, 1, 0},
    {"psum, every copy", psum_counted, 4, "x", 4, 1, 1, false, 40, {4}, 1, 1},
    {"identity", identity, 4, NULL, 1, 5, 0, false, 5, {1}, 1, 0},
    {"identity, every copy", identity_counted, 4, NULL, 1, 5, 0, false, 20, {4}, 1, 1},
    {"psum((w^2+1)d)", quadratic, 2, NULL, 1, 1, 0, false, 2, {2}, 1, 1},
    {"psum((w^2+1)d), w varying", quadratic, 2, NULL, 1, 1, 0, true, 2, {0, 2}, 2, 0},
    {"psum(sum((wx)^2))", sum_of_squares, 4, NULL, 1, 3, 0, false, 1260, {840}, 1, 1},
    {"pmean(mean((wx)^2))", mean_of_squares, 4, NULL, 1, 3, 0, false, 157.5, {105}, 1, 1},
    {"all_gather", gathered, 4, "x", 4, 1, 1, false, 40, {4}, 1, 1},
    {"all_gather to invarying", gathered_invarying, 4, "x", 4, 1, 1, false, 10, {1}, 1, 0},
    {"psum_scatter", scattered, 4, "x", 16, 0, 1, false, 120, {1}, 1, 1},
    {"all_to_all", exchanged, 4, "x", 64, 0, 1, false, 4032, {2}, 1, 1},
    {"pbroadcast, one copy", broadcast, 4, "x", 4, 1, 1, false, 1, {1, 0, 0, 0}, 4, 0},
    {"pbroadcast, every copy", broadcast_counted, 4, "x", 4, 1, 1, false, 4, {4, 0, 0, 0}, 4, 1},
    {"half used list", half_used, 4, "x", 4, 1, 1, false, 10, {1}, 1, 0},
};

static spmd_status run(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const known *k = user;
    spmd_tensor param = in[0];
    if (k->cast)
        SPMD_TRY(spmd_pcast(ctx, &param, "x", &param));
    return spmd_value_and_grad(ctx, k->loss, NULL, &param, 1, &out[0], &out[1]);
}

START_TEST(known_numbers)
{
    known k = cases[_i];
    spmd_value x = spmd_value_zeros(SPMD_F32, k.spec, 1, &k.size),
               out[] = {{.spec = NULL}, {.spec = k.cast ? "x" : k.spec}};
    for (int64_t i = 0; i < k.size; i++)
        spmd_value_set(&x, i, k.first + (double)i * k.increment);
    char mesh[16];
    snprintf(mesh, sizeof mesh, "x=%d", k.n);
    spmd_stats stats;
    ck_spmd_ok(spmd_test_run_job(mesh, &(spmd_job){.stats = &stats}, run, &k, 1, &x, 2, out));
    ck_assert_msg(spmd_value_at(&out[0], 0) == k.want_loss, "%s: loss %g", k.what, spmd_value_at(&out[0], 0));
    for (int64_t i = 0; i < spmd_value_count(&out[1]); i++)
        ck_assert_msg(spmd_value_at(&out[1], i) == k.want[i % k.period], "%s: gradient %lld is %g", k.what,
                      (long long)i, spmd_value_at(&out[1], i));
    ck_assert_msg(stats.implied == k.implied, "%s: %lld collectives added", k.what, (long long)stats.implied);
    spmd_value_free(&x);
    spmd_values_free(out, 2);
}
END_TEST

enum { CASES = sizeof cases / sizeof cases[0] };

SPMD_TEST_MAIN("coll_grad_known", tcase_add_loop_test(tc, known_numbers, 0, CASES);)
