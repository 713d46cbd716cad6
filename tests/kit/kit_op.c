/* Ops alone, on one device: forward, gradients by the tape, gradients by differences. */
#include "spmd/testing.h"

enum { MAX_INPUTS = 64, DIRECTIONS = 3 };

typedef struct op_run {
    spmd_test_op_fn *fn;
    void *user;
    int nin;
    const spmd_tensor *in; /* the op's inputs, then the cotangent */
} op_run;

static spmd_status forward(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const op_run *run = user;
    return run->fn(ctx, in, out, run->user);
}

spmd_status spmd_test_op(spmd_test_op_fn *fn, void *user, int nin, const spmd_value *in, spmd_value *out)
{
    op_run run = {.fn = fn, .user = user, .nin = nin};
    out->spec = NULL;
    return spmd_test_run("x=1", forward, &run, nin, in, 1, out);
}

/* sum(op(in) * ct), where the floating inputs are `params` in their order. */
static spmd_status weighted_sum(spmd_ctx *ctx, const spmd_tensor *params, int n, void *user, spmd_tensor *loss)
{
    const op_run *run = user;
    spmd_tensor in[MAX_INPUTS], out;
    for (int k = 0, p = 0; k < run->nin; k++)
        in[k] = p < n && spmd_dtype_is_float(run->in[k].dtype) ? params[p++] : run->in[k];
    SPMD_TRY(run->fn(ctx, in, &out, run->user));
    SPMD_TRY(spmd_mul(ctx, &out, &run->in[run->nin], &out));
    return spmd_sum(ctx, &out, NULL, 0, false, loss);
}

static spmd_status backward(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    op_run run = *(const op_run *)user;
    spmd_tensor params[MAX_INPUTS];
    int n = 0;
    run.in = in;
    for (int k = 0; k < run.nin; k++)
        if (spmd_dtype_is_float(in[k].dtype))
            params[n++] = in[k];
    return spmd_grad(ctx, weighted_sum, &run, params, n, out);
}

spmd_status spmd_test_vjp(spmd_test_op_fn *fn, void *user, int nin, const spmd_value *in, const spmd_value *ct,
                          spmd_value *grads)
{
    op_run run = {.fn = fn, .user = user, .nin = nin};
    spmd_value all[MAX_INPUTS + 1], out[MAX_INPUTS] = {{0}};
    int n = 0;
    SPMD_CHECK(nin <= MAX_INPUTS, SPMD_EINVAL, "harness_vjp: %d inputs, at most %d", nin, MAX_INPUTS);
    for (int k = 0; k < nin; k++) {
        grads[k] = (spmd_value){.dtype = in[k].dtype};
        all[k] = in[k];
        n += spmd_dtype_is_float(in[k].dtype);
    }
    all[nin] = *ct;
    SPMD_TRY(spmd_test_run("x=1", backward, &run, nin + 1, all, n, out));
    for (int k = 0, p = 0; k < nin; k++)
        if (spmd_dtype_is_float(in[k].dtype))
            grads[k] = out[p++];
    return SPMD_OK;
}

static double dot(const spmd_value *a, const spmd_value *b)
{
    double sum = 0;
    for (int64_t i = 0, n = spmd_value_count(a); i < n; i++)
        sum += spmd_value_at(a, i) * spmd_value_at(b, i);
    return sum;
}

/* sum(op(in) * ct) in double: the difference of two of them would drown in an f32 sum's rounding. */
static double loss_at(const op_run *run, const spmd_value *in, const spmd_value *ct)
{
    spmd_value out;
    ck_spmd_ok(spmd_test_op(run->fn, run->user, run->nin, in, &out));
    double loss = dot(&out, ct);
    spmd_value_free(&out);
    return loss;
}

static spmd_value copy(const spmd_value *v)
{
    spmd_value c = spmd_value_zeros(v->dtype, v->spec, v->rank, v->shape);
    memcpy(c.data, v->data, (size_t)spmd_value_count(v) * spmd_dtype_size(v->dtype));
    return c;
}

/* The relative error along one random +-1 direction of input k. The step is what the rounded inputs really differ by.
 * Where the direction happens to be nearly flat, a part of the gradient's norm (what a direction sees on average) is
 * the measure, so that rounding is not taken for an error. */
static double direction_error(const op_run *run, const spmd_value *in, int k, const spmd_value *grad,
                              const spmd_value *ct, unsigned seed)
{
    spmd_value moved[MAX_INPUTS], up = copy(&in[k]), down = copy(&in[k]);
    spmd_value sign = spmd_value_exact(SPMD_BOOL, NULL, in[k].rank, in[k].shape, seed);
    int64_t count = spmd_value_count(&up);
    double scale = count ? sqrt(dot(&in[k], &in[k]) / (double)count) : 0, step = 1e-2 * (scale > 0 ? scale : 1);
    double expected = 0;
    for (int64_t i = 0; i < count; i++) {
        double x = spmd_value_at(&in[k], i), move = spmd_value_at(&sign, i) != 0 ? step : -step;
        spmd_value_set(&up, i, x + move);
        spmd_value_set(&down, i, x - move);
        expected += spmd_value_at(grad, i) * (spmd_value_at(&up, i) - spmd_value_at(&down, i));
    }
    memcpy(moved, in, (size_t)run->nin * sizeof *in);
    moved[k] = up;
    double measured = loss_at(run, moved, ct);
    moved[k] = down;
    measured -= loss_at(run, moved, ct);
    double size = fmax(fmax(fabs(measured), fabs(expected)) / (2 * step), 0.1 * sqrt(dot(grad, grad)));
    spmd_values_free((spmd_value[]){up, down, sign}, 3);
    return fabs(measured - expected) / (2 * step) / fmax(size, 1e-3);
}

double spmd_test_check_grad(spmd_test_op_fn *fn, void *user, int nin, const spmd_value *in, unsigned seed)
{
    op_run run = {.fn = fn, .user = user, .nin = nin};
    spmd_value out, grads[MAX_INPUTS];
    double worst = 0;
    ck_spmd_ok(spmd_test_op(fn, user, nin, in, &out));
    spmd_value ct = spmd_value_random(out.dtype, NULL, out.rank, out.shape, 1, seed);
    ck_spmd_ok(spmd_test_vjp(fn, user, nin, in, &ct, grads));
    for (int k = 0; k < nin; k++)
        for (unsigned d = 0; grads[k].data && d < DIRECTIONS; d++) {
            double error = direction_error(&run, in, k, &grads[k], &ct, seed + 1 + d + DIRECTIONS * (unsigned)k);
            worst = isnan(error) ? INFINITY : fmax(worst, error);
        }
    spmd_values_free(grads, nin);
    spmd_values_free((spmd_value[]){out, ct}, 2);
    return worst;
}
