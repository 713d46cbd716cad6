/* Kernels of a backend beside the host's: each op on small inputs, compared with backend host, then on large ones,
 * timed as a program (spmd_jit), which on backend cuda is a graph. */
#include "bench/bench.h"
#include "bench/coll_rows.h"
#include "spmd/half.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS = 4, SAMPLES = 11, WARM = 3, SCALE = 8 };

typedef struct arguments {
    const char *backend, *only;
    int64_t samples;
    bool json, check_only;
} arguments;

typedef int64_t shapes[INPUTS][SPMD_MAX_RANK];

typedef struct op_case {
    const char *name;
    spmd_shard_fn *fn;
    spmd_dtype dtype;
    int nin, rank[INPUTS];
    shapes small, large;
    double (*flops)(const shapes s); /* NULL: bytes matter */
} op_case;

static spmd_status matmul(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_matmul(ctx, &in[0], &in[1], false, false, out);
}

static spmd_status linear_gelu(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_linear_gelu(ctx, &in[0], &in[1], &in[2], out);
}

static spmd_status attention(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_causal_attention(ctx, &in[0], &in[1], &in[2], out);
}

static spmd_status attention_loss(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n, (void)user;
    SPMD_TRY(spmd_causal_attention(ctx, &p[0], &p[1], &p[2], loss));
    SPMD_TRY(spmd_cast(ctx, loss, SPMD_F32, loss));
    return spmd_mean(ctx, loss, NULL, 0, false, loss);
}

static spmd_status attention_grad(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    spmd_tensor loss, grads[3];
    SPMD_TRY(spmd_value_and_grad(ctx, attention_loss, user, in, 3, &loss, grads));
    return spmd_concat(ctx, grads, 3, 0, out); /* two kernels made them: all are compared */
}

static spmd_status layer_norm(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_layer_norm(ctx, &in[0], &in[1], &in[2], 1e-5, out);
}

static spmd_status softmax(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_softmax(ctx, in, out);
}

static spmd_status gelu(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_gelu(ctx, in, out);
}

static spmd_status add(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_add(ctx, &in[0], &in[1], out);
}

static spmd_status transpose(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_transpose(ctx, in, (const int[]){1, 0}, out);
}

static spmd_status sum(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_sum(ctx, in, (const int[]){0}, 1, false, out);
}

static spmd_status adamw(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    spmd_tensor rate, count, mu, nu, square;
    const spmd_adamw_opts opts = {0.9, 0.999, 1e-8, 1e-4};
    SPMD_TRY(spmd_full(ctx, 1e-3, SPMD_F32, SPMD_SCALAR, &rate));
    SPMD_TRY(spmd_full(ctx, 1, SPMD_F32, SPMD_SCALAR, &count));
    SPMD_TRY(spmd_square(ctx, &in[3], &square));
    return spmd_adamw(ctx, &opts, 1, &in[0], &in[1], &in[2], &square, &rate, &count, out, &mu, &nu);
}

static double product_flops(const shapes s)
{
    return 2.0 * (double)s[0][0] * (double)s[0][1] * (double)s[1][1];
}

/* Scores and values, half of them under the mask. */
static double attention_flops(const shapes s)
{
    return 2.0 * (double)s[0][0] * (double)s[0][1] * (double)s[0][2] * (double)s[0][2] * (double)s[0][3];
}

static double attention_grad_flops(const shapes s)
{
    return 3.5 * attention_flops(s);
}

#define QKV(b, h, t, d)                           \
    {                                             \
        {b, h, t, d}, {b, h, t, d}, {b, h, t, d}, \
        {                                         \
            0                                     \
        }                                         \
    }
#define SAME(rows, columns)                                \
    {                                                      \
        {rows, columns}, {rows, columns}, {rows, columns}, \
        {                                                  \
            rows, columns                                  \
        }                                                  \
    }
#define ROWS(rows, columns)                    \
    {                                          \
        {rows, columns}, {columns}, {columns}, \
        {                                      \
            0                                  \
        }                                      \
    }
#define PRODUCT(m, k, n)     \
    {                        \
        {m, k}, {k, n}, {n}, \
        {                    \
            0                \
        }                    \
    }

static const op_case cases[] = {
    {"matmul", matmul, SPMD_F32, 2, {2, 2}, PRODUCT(96, 64, 80), PRODUCT(4096, 4096, 4096), product_flops},
    {"matmul", matmul, SPMD_BF16, 2, {2, 2}, PRODUCT(96, 64, 80), PRODUCT(8192, 8192, 8192), product_flops},
    {"linear_gelu",
     linear_gelu,
     SPMD_BF16,
     3,
     {2, 2, 1},
     PRODUCT(96, 64, 80),
     PRODUCT(8192, 4096, 4096),
     product_flops},
    /* f32 is multiplied by plain loops, bf16 on tensor cores */
    {"causal_attention", attention, SPMD_F32, 3, {4, 4, 4}, QKV(2, 2, 48, 64), QKV(8, 12, 1024, 64), attention_flops},
    {"causal_attention", attention, SPMD_BF16, 3, {4, 4, 4}, QKV(2, 2, 48, 64), QKV(8, 12, 1024, 64), attention_flops},
    {"attention's gradient",
     attention_grad,
     SPMD_F32,
     3,
     {4, 4, 4},
     QKV(2, 2, 48, 64),
     QKV(8, 12, 1024, 64),
     attention_grad_flops},
    {"attention's gradient",
     attention_grad,
     SPMD_BF16,
     3,
     {4, 4, 4},
     QKV(2, 2, 48, 64),
     QKV(8, 12, 1024, 64),
     attention_grad_flops},
    {"layer_norm", layer_norm, SPMD_BF16, 3, {2, 1, 1}, ROWS(33, 96), ROWS(16384, 4096), NULL},
    {"softmax", softmax, SPMD_F32, 1, {2}, SAME(33, 96), SAME(16384, 4096), NULL},
    {"gelu", gelu, SPMD_BF16, 1, {2}, SAME(33, 96), SAME(16384, 4096), NULL},
    {"add", add, SPMD_F32, 2, {2, 2}, SAME(33, 96), SAME(16384, 4096), NULL},
    {"transpose", transpose, SPMD_F32, 1, {2}, SAME(33, 96), SAME(16384, 4096), NULL},
    {"sum", sum, SPMD_F32, 1, {2}, SAME(33, 96), SAME(16384, 4096), NULL},
    {"adamw", adamw, SPMD_F32, 4, {2, 2, 2, 2}, SAME(33, 96), SAME(8192, 4096), NULL},
};

static int64_t count_of(const op_case *c, const shapes s, int k)
{
    int64_t n = 1;
    for (int d = 0; d < c->rank[k]; d++)
        n *= s[k][d];
    return n;
}

/* Inputs of one op on one device: integers over SCALE, which every dtype holds. */
typedef struct run {
    spmd_mesh *mesh;
    spmd_jit *jit;
    spmd_array *in[INPUTS], *out;
    spmd_job job;
} run;

static spmd_status fill_input(run *r, const op_case *c, const shapes s, int k)
{
    int64_t n = count_of(c, s, k);
    void *data = malloc((size_t)n * spmd_dtype_size(c->dtype));
    SPMD_CHECK(data, SPMD_ENOMEM, "out of memory for an input of %lld elements", (long long)n);
    for (int64_t i = 0; i < n; i++)
        coll_put(c->dtype, data, i, (double)((i * 7 + k * 3) % 17 - 8) / SCALE);
    spmd_status status = spmd_shard(r->mesh, data, c->dtype, c->rank[k], s[k], SPMD_REPLICATED, &r->in[k]);
    free(data);
    return status;
}

static spmd_status open_run(run *r, const char *backend, const op_case *c, const shapes s)
{
    static const spmd_spec replicated;
    *r = (run){0};
    SPMD_TRY(spmd_mesh_create("data=1", backend, &r->mesh));
    SPMD_TRY(spmd_jit_create(r->mesh, &r->jit));
    for (int k = 0; k < c->nin; k++)
        SPMD_TRY(fill_input(r, c, s, k));
    r->job = (spmd_job){.mesh = r->mesh, .fn = c->fn, .nin = c->nin, .in = r->in, .nout = 1, .out = &r->out};
    r->job.out_specs = &replicated;
    r->job.jit = r->jit;
    return spmd_shard_map(&r->job);
}

static void close_run(run *r)
{
    for (int k = 0; k < INPUTS; k++)
        spmd_array_destroy(r->in[k]);
    spmd_array_destroy(r->out);
    spmd_jit_destroy(r->jit);
    spmd_mesh_destroy(r->mesh);
}

static double value(const void *data, spmd_dtype dtype, int64_t i)
{
    return (double)(dtype == SPMD_BF16 ? spmd__bf16_widen(((const uint16_t *)data)[i]) : ((const float *)data)[i]);
}

/* Largest difference from the host, relative to the largest value. */
static spmd_status difference(const arguments *args, const op_case *c, double *out)
{
    run mine, host;
    spmd_status status = open_run(&mine, args->backend, c, c->small);
    spmd_status other = status == SPMD_OK ? open_run(&host, "host", c, c->small) : (host = (run){0}, SPMD_OK);
    int64_t n = status == SPMD_OK ? spmd_array_count(mine.out) : 0;
    void *a = malloc((size_t)n * 4 + 1), *b = malloc((size_t)n * 4 + 1);
    status = status == SPMD_OK ? other : status;
    if (status == SPMD_OK)
        status = spmd_unshard(mine.out, a);
    if (status == SPMD_OK)
        status = spmd_unshard(host.out, b);
    double worst = 0, largest = 1e-30;
    for (int64_t i = 0; i < n && status == SPMD_OK; i++) {
        double x = value(a, spmd_array_dtype(mine.out), i), y = value(b, spmd_array_dtype(mine.out), i);
        worst = fabs(x - y) <= worst ? worst : fabs(x - y); /* a NaN comes in and stays */
        largest = fabs(y) > largest ? fabs(y) : largest;
    }
    *out = worst / largest;
    free(a);
    free(b);
    close_run(&mine);
    close_run(&host);
    return status;
}

static spmd_status measure(const arguments *args, const op_case *c, double *us)
{
    run r;
    double samples[64];
    int n = (int)(args->samples < 64 ? args->samples : 64);
    spmd_status status = open_run(&r, args->backend, c, c->large);
    for (int k = -WARM; k < n && status == SPMD_OK; k++) {
        double start = bench_seconds();
        status = spmd_shard_map(&r.job);
        if (k >= 0)
            samples[k] = 1e6 * (bench_seconds() - start);
    }
    if (status == SPMD_OK)
        *us = bench_percentile(samples, n, 50);
    close_run(&r);
    return status;
}

static double megabytes(const op_case *c)
{
    double n = (double)count_of(c, c->large, 0); /* the output, about */
    for (int k = 0; k < c->nin; k++)
        n += (double)count_of(c, c->large, k);
    return n * (double)spmd_dtype_size(c->dtype) / 1e6;
}

static int print_result(const arguments *args, const op_case *c, double error, double us)
{
    double tflops = c->flops ? c->flops(c->large) / us / 1e6 : (double)NAN, gbs = megabytes(c) / us * 1e3;
    if (!args->json) {
        printf("%-22s %-5s %10.1e", c->name, spmd_dtype_name(c->dtype), error);
        if (us > 0)
            printf(" %12.1f %10.2f %10.0f", us, tflops, gbs);
        putchar('\n');
        return fflush(stdout) == 0 ? CLI_OK : CLI_FAILED;
    }
    json line;
    if (!json_begin(&line))
        return CLI_FAILED;
    json_text(&line, "op", c->name);
    json_text(&line, "dtype", spmd_dtype_name(c->dtype));
    json_number(&line, "difference", error);
    json_number(&line, "us", us > 0 ? us : (double)NAN);
    json_number(&line, "tflops", us > 0 ? tflops : (double)NAN);
    json_number(&line, "gb_per_s", us > 0 ? gbs : (double)NAN);
    return json_print(&line) ? CLI_OK : CLI_FAILED;
}

int main(int argc, char **argv)
{
    arguments a = {.backend = "host", .samples = SAMPLES};
    const bench_option options[] = {
        {"--backend", "NAME", "host (default), cuda", BENCH_TEXT, &a.backend, 0, 0},
        {"--op", "NAME", "only ops of this name", BENCH_TEXT, &a.only, 0, 0},
        {"-n", "SAMPLES", "launches measured (default 11)", BENCH_NUMBER, &a.samples, 1, 64},
        {"--check", NULL, "compare with the host only; exit 1 if an op differs", BENCH_FLAG, &a.check_only, 0, 0},
        {"--json", NULL, "one JSON object an op", BENCH_FLAG, &a.json, 0, 0},
    };
    const bench_program program = {"bench_ops", "Compares a backend's ops with the host's, and times them.", options,
                                   sizeof options / sizeof *options};
    int code = bench_parse(&program, argc, argv);
    if (code != CLI_OK)
        return code < 0 ? CLI_OK : code;
    if (!a.json)
        printf("%-22s %-5s %10s %12s %10s %10s\n", "op", "dtype", "difference", "us", "TFLOP/s", "GB/s");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const op_case *c = &cases[k];
        double error = 0, us = 0, allowed = c->dtype == SPMD_BF16 ? 2e-2 : 1e-5;
        if (a.only && strcmp(a.only, c->name) != 0)
            continue;
        spmd_status status = difference(&a, c, &error);
        if (status == SPMD_OK && !a.check_only)
            status = measure(&a, c, &us);
        if (status != SPMD_OK)
            return bench_failed(&program, status);
        if (print_result(&a, c, error, us) != CLI_OK || !(error <= allowed))
            code = CLI_FAILED;
    }
    return code;
}
