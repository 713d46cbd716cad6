/* adamw: one step over a list of parameters in one op, so that a step has one entry on the tape and one pass over
 * memory a parameter. Each output has its own parameter's state: the list may mix sharded and replicated ones. */
#include "spmd/clones.h"
#include "kernels/kernels.h"
#include "spmd/rule.h"
#include <math.h>
#include <string.h>

spmd_status spmd__adamw_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

/* Inputs: n params, n mu, n nu, n grads, rate, count. Outputs: n params, n mu, n nu, each of which may stand in place.
 */
enum { PARAM, MU, NU, GRAD, LISTS };

static spmd_status check_scalar(const char *name, const spmd_tensor *t)
{
    char text[96];
    SPMD_CHECK(t->dtype == SPMD_F32 && t->rank == 0, SPMD_ESHAPE, "adamw: %s is %s: expected an f32 scalar", name,
               spmd__shape_text(t, text));
    return SPMD_OK;
}

static spmd_status adamw_shape(spmd_ctx *ctx, spmd_call *call)
{
    (void)ctx;
    static const char *const names[LISTS] = {"params", "mu", "nu", "grads"};
    int n = call->nout / 3;
    const spmd_tensor *rate = &call->in[LISTS * n], *count = rate + 1;
    SPMD_TRY(check_scalar("rate", rate));
    SPMD_TRY(check_scalar("count", count));
    for (int i = 0; i < n; i++) {
        const spmd_tensor *param = &call->in[i];
        uint8_t vary = rate->vary | count->vary;
        char pt[96], tt[96];
        for (int list = 0; list < LISTS; list++) {
            const spmd_tensor *t = &call->in[list * n + i];
            SPMD_CHECK(t->dtype == SPMD_F32, SPMD_EDTYPE,
                       "adamw: %s[%d] is %s: expected f32; keep f32 masters and "
                       "cast them for the forward pass",
                       names[list], i, spmd__shape_text(t, tt));
            SPMD_CHECK(spmd__shape_equal(t, param), SPMD_ESHAPE,
                       "adamw: %s[%d] is %s, params[%d] is %s: expected "
                       "equal shapes",
                       names[list], i, spmd__shape_text(t, tt), i, spmd__shape_text(param, pt));
            vary |= t->vary;
        }
        for (int k = 0; k < 3; k++) {
            spmd__same_shape(&call->out[k * n + i], param);
            call->out[k * n + i].vary = vary;
        }
    }
    return SPMD_OK;
}

typedef struct factors {
    float b1, b2, rest1, rest2, unbias1, unbias2, epsilon, decay, rate;
} factors;

static inline void adamw_element(const factors *f, float g, float *p, float *mu, float *nu)
{
    float m = f->b1 * *mu + f->rest1 * g;
    float v = f->b2 * *nu + f->rest2 * (g * g);
    float step = m * f->unbias1 / (sqrtf(v * f->unbias2) + f->epsilon);
    *p -= f->rate * (step + f->decay * *p);
    *mu = m;
    *nu = v;
}

SPMD_CLONES static void adamw_in_place(const factors *given, const float *restrict g, float *restrict p,
                                       float *restrict mu, float *restrict nu, int64_t n)
{
    const factors f = *given;
    for (int64_t i = 0; i < n; i++)
        adamw_element(&f, g[i], &p[i], &mu[i], &nu[i]);
}

SPMD_CLONES static void adamw_loop(const factors *given, const float *restrict p, const float *restrict g,
                                   const float *restrict mu, const float *restrict nu, float *restrict new_p,
                                   float *restrict new_mu, float *restrict new_nu, int64_t n)
{
    const factors f = *given;
    for (int64_t i = 0; i < n; i++) {
        float param = p[i], m = mu[i], v = nu[i];
        adamw_element(&f, g[i], &param, &m, &v);
        new_p[i] = param;
        new_mu[i] = m;
        new_nu[i] = v;
    }
}

static void adamw_tensor(const factors *f, const spmd_kernel_args *args, int n, int i)
{
    const spmd_view *in = args->in, *out = args->out;
    int64_t count = spmd_view_count(&in[i]);
    bool places[3], in_place = true, apart = true;
    for (int k = 0; k < 3; k++) {
        places[k] = in[k * n + i].data == out[k * n + i].data;
        in_place &= places[k];
        apart &= !places[k];
    }
    for (int k = 0; !in_place && !apart && k < 3; k++) /* a mix: bring the others to their places first */
        if (!places[k])
            memcpy(out[k * n + i].data, in[k * n + i].data, (size_t)count * sizeof(float));
    if (apart)
        adamw_loop(f, in[i].data, in[GRAD * n + i].data, in[MU * n + i].data, in[NU * n + i].data, out[i].data,
                   out[n + i].data, out[2 * n + i].data, count);
    else
        adamw_in_place(f, in[GRAD * n + i].data, out[i].data, out[n + i].data, out[2 * n + i].data, count);
}

static spmd_status adamw_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    (void)ctx;
    int n = args->nout / 3;
    const double *opts = args->attr->f;
    double count = *(const float *)args->in[LISTS * n + 1].data;
    SPMD_CHECK(count >= 1, SPMD_EINVAL, "adamw: count is %g: expected the step's number, from 1", count);
    const factors f = {
        .b1 = (float)opts[0],
        .b2 = (float)opts[1],
        .rest1 = (float)(1 - opts[0]),
        .rest2 = (float)(1 - opts[1]),
        .unbias1 = (float)(1 / (1 - pow(opts[0], count))),
        .unbias2 = (float)(1 / (1 - pow(opts[1], count))),
        .epsilon = (float)opts[2],
        .decay = (float)opts[3],
        .rate = *(const float *)args->in[LISTS * n].data,
    };
    for (int i = 0; i < n; i++)
        adamw_tensor(&f, args, n, i);
    return SPMD_OK;
}

static void adamw_cost(const spmd_call *call, spmd_cost *cost)
{
    double elements = 0;
    for (int i = 0; i < call->nout / 3; i++)
        elements += (double)spmd_count(&call->in[i]);
    cost->flops = 15 * elements;
    cost->bytes = 7 * sizeof(float) * elements;
}

/* Of a call for one parameter: all seven tensors are cut alike. */
static void adamw_rule(const spmd_call *call, spmd_labels *labels)
{
    for (int d = 0; d < call->in[0].rank; d++) {
        for (int list = 0; list < LISTS; list++)
            labels->in[list][d] = (int8_t)d;
        for (int k = 0; k < 3; k++)
            labels->out[k][d] = (int8_t)d;
    }
}

static const spmd_op adamw_op = {
    .name = "adamw",
    .shape = adamw_shape,
    .host = adamw_host,
    .cuda = SPMD_CUDA_KERNEL(spmd__adamw_cuda),
    .cost = adamw_cost,
    .rule = adamw_rule,
    .in_place = true,
};

/* In automatic mode parameters lie on the mesh each in its own way, and a call chooses one way for all it has. */
static spmd_status one_by_one(spmd_ctx *ctx, const spmd_attr *attr, const spmd_tensor *in, int n, spmd_tensor *out)
{
    for (int i = 0; i < n; i++) {
        spmd_tensor one[LISTS + 2], made[3];
        for (int list = 0; list < LISTS; list++)
            one[list] = in[list * n + i];
        memcpy(one + LISTS, in + LISTS * n, 2 * sizeof *one);
        SPMD_TRY(spmd__emit(ctx, &adamw_op, attr, one, LISTS + 2, made, 3));
        for (int k = 0; k < 3; k++)
            out[k * n + i] = made[k];
    }
    return SPMD_OK;
}

spmd_status spmd_adamw(spmd_ctx *ctx, const spmd_adamw_opts *opts, int n, const spmd_tensor *params,
                       const spmd_tensor *grads, const spmd_tensor *mu, const spmd_tensor *nu, const spmd_tensor *rate,
                       const spmd_tensor *count, spmd_tensor *new_params, spmd_tensor *new_mu, spmd_tensor *new_nu)
{
    SPMD_CHECK(n >= 0, SPMD_EINVAL, "adamw: n is %d: expected 0 or more parameters", n);
    SPMD_CHECK(opts->b1 >= 0 && opts->b1 < 1 && opts->b2 >= 0 && opts->b2 < 1, SPMD_EINVAL,
               "adamw: b1 is %g, b2 is %g: expected values in [0, 1), as 0.9 and 0.999", opts->b1, opts->b2);
    const spmd_attr attr = {.f = {opts->b1, opts->b2, opts->epsilon, opts->weight_decay}};
    const spmd_tensor *lists[LISTS] = {params, mu, nu, grads};
    spmd_tensor *const outs[3] = {new_params, new_mu, new_nu};
    size_t list = (size_t)n * sizeof(spmd_tensor);
    spmd_tensor *in = spmd__scratch(ctx, (LISTS + 3) * list + 2 * sizeof *in), *out = in + LISTS * n + 2;
    SPMD_CHECK(in, SPMD_ENOMEM, "adamw: no memory for a list of %d parameters: %s", n, spmd_last_error());
    for (int k = 0; k < LISTS && n > 0; k++)
        memcpy(in + k * n, lists[k], list);
    in[LISTS * n] = *rate;
    in[LISTS * n + 1] = *count;
    SPMD_TRY(spmd__is_automatic(ctx) ? one_by_one(ctx, &attr, in, n, out)
                                     : spmd__emit(ctx, &adamw_op, &attr, in, LISTS * n + 2, out, 3 * n));
    for (int k = 0; k < 3 && n > 0; k++)
        memcpy(outs[k], out + k * n, list);
    return SPMD_OK;
}
