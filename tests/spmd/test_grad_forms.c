/* The example on which JAX's default gives 420: w = 3, x = 0..7 over 4 devices, loss mean((w x)^2), dloss/dw = 105.
 * Every way of writing it must give 105 (108 with weight decay), whether the gradient comes out local or global. */
#include "spmd/testing.h"

enum form {
    LOCAL,
    PMEAN_LOSS,
    PCAST,
    PSUM_OF_SHARE,
    DERIVED,
    RESHAPED,
    LOCAL_DECAY,
    GLOBAL_DECAY,
    TWO_PATHS,
    PSUM_OF_W,
    CUSTOM_LOCAL,
    CUSTOM_GLOBAL,
    GATHERED,
    PERMUTED,
    STOPPED,
    PARTIAL,
    GATHERED_INVARYING,
    GATHERED_INVARYING_CAST,
    BROADCAST_W,
    MEAN_GRADS,
    FORMS
};

static const struct {
    const char *name;
    double gradient;
    bool local; /* comes out varying, to be averaged */
} rows[FORMS] = {
    [LOCAL] = {"local loss", 105, true},
    [PMEAN_LOSS] = {"pmean'd loss", 105, false},
    [PCAST] = {"w cast to varying", 105, true},
    [PSUM_OF_SHARE] = {"psum(loss / N)", 105, false},
    [DERIVED] = {"derived w (a cast)", 105, true},
    [RESHAPED] = {"reshaped w", 105, true},
    [LOCAL_DECAY] = {"weight decay in a local loss", 108, true},
    [GLOBAL_DECAY] = {"weight decay in a global loss", 108, false},
    [TWO_PATHS] = {"two derived paths", 105, true},
    [PSUM_OF_W] = {"psum of the invarying w", 105, true},
    [CUSTOM_LOCAL] = {"user kernel", 105, true},
    [CUSTOM_GLOBAL] = {"user kernel, pmean'd loss", 105, false},
    [GATHERED] = {"gathered activations", 105, true},
    [PERMUTED] = {"ppermute in a local loss", 105, true},
    [STOPPED] = {"stop_gradient of a derived w", 105, true},
    [PARTIAL] = {"explicit partial loss, psum", 105, false},
    [GATHERED_INVARYING] = {"activations gathered to invarying", 105, false},
    [GATHERED_INVARYING_CAST] = {"the same, loss cast to varying", 105, true},
    [BROADCAST_W] = {"pbroadcast of w", 105, true},
    [MEAN_GRADS] = {"local loss, spmd_mean_grads", 105, true},
};

static spmd_status square_shape(const spmd_tensor *in, int nin, spmd_tensor *out, int nout, void *user)
{
    (void)nin, (void)nout, (void)user;
    out->dtype = in->dtype;
    out->rank = in->rank;
    memcpy(out->shape, in->shape, sizeof out->shape);
    return SPMD_OK;
}

static spmd_status square_host(const spmd_view *in, int nin, const spmd_view *out, int nout, void *user)
{
    (void)nin, (void)nout, (void)user;
    const float *x = in->data;
    float *y = out->data;
    for (int64_t i = 0; i < spmd_view_count(in); i++)
        y[i] = x[i] * x[i];
    return SPMD_OK;
}

static spmd_status square_grad(spmd_ctx *ctx, const spmd_tensor *in, int nin, const spmd_tensor *out, int nout,
                               const spmd_tensor *ct, const bool *need, spmd_tensor *gin, void *user)
{
    (void)nin, (void)out, (void)nout, (void)need, (void)user;
    SPMD_TRY(spmd_mul(ctx, &in[0], &ct[0], &gin[0]));
    return spmd_scale(ctx, &gin[0], 2, &gin[0]);
}

static const spmd_custom_op square_op = {
    .name = "my_square", .shape = square_shape, .host = square_host, .grad = square_grad};

/* mean((w x)^2) * factor */
static spmd_status mean_square(spmd_ctx *ctx, const spmd_tensor *w, const spmd_tensor *x, double factor,
                               spmd_tensor *loss)
{
    spmd_tensor t;
    SPMD_TRY(spmd_mul(ctx, x, w, &t));
    SPMD_TRY(spmd_mul(ctx, &t, &t, &t));
    SPMD_TRY(spmd_mean(ctx, &t, NULL, 0, false, &t));
    return spmd_scale(ctx, &t, factor, loss);
}

/* w^2 / 2 as a scalar: its gradient is w */
static spmd_status decay(spmd_ctx *ctx, const spmd_tensor *w, spmd_tensor *out)
{
    SPMD_TRY(spmd_mul(ctx, w, w, out));
    SPMD_TRY(spmd_mean(ctx, out, NULL, 0, false, out));
    return spmd_scale(ctx, out, 0.5, out);
}

typedef struct batch {
    enum form form;
    const spmd_tensor *x;
} batch;

static spmd_status via_gather(spmd_ctx *ctx, const batch *b, const spmd_tensor *w, spmd_tensor *loss)
{
    spmd_tensor t;
    spmd_to to = b->form == GATHERED ? SPMD_TO_VARYING : SPMD_TO_INVARYING;
    SPMD_TRY(spmd_mul(ctx, b->x, w, &t));
    SPMD_TRY(spmd_all_gather(ctx, &t, "data", (&(spmd_gather_opts){.tiled = true, .to = to}), &t));
    SPMD_TRY(spmd_mul(ctx, &t, &t, &t));
    SPMD_TRY(spmd_mean(ctx, &t, NULL, 0, false, loss));
    return b->form == GATHERED_INVARYING_CAST ? spmd_pcast(ctx, loss, "data", loss) : SPMD_OK;
}

static spmd_status via_permute(spmd_ctx *ctx, const batch *b, const spmd_tensor *w, spmd_tensor *loss)
{
    static const int ring[4][2] = {{0, 1}, {1, 2}, {2, 3}, {3, 0}};
    spmd_tensor mine, other;
    SPMD_TRY(spmd_mul(ctx, b->x, w, &mine));
    SPMD_TRY(spmd_ppermute(ctx, &mine, "data", ring, 4, &other));
    SPMD_TRY(spmd_mul(ctx, &mine, &mine, &mine));
    SPMD_TRY(spmd_mul(ctx, &other, &other, &other));
    SPMD_TRY(spmd_add(ctx, &mine, &other, &mine));
    SPMD_TRY(spmd_mean(ctx, &mine, NULL, 0, false, loss));
    return spmd_scale(ctx, loss, 0.5, loss);
}

static spmd_status via_custom(spmd_ctx *ctx, const batch *b, const spmd_tensor *w, spmd_tensor *loss)
{
    spmd_tensor t;
    SPMD_TRY(spmd_mul(ctx, b->x, w, &t));
    SPMD_TRY(spmd_custom(ctx, &square_op, &t, 1, &t, 1));
    SPMD_TRY(spmd_mean(ctx, &t, NULL, 0, false, loss));
    return b->form == CUSTOM_GLOBAL ? spmd_pmean(ctx, loss, "data", loss) : SPMD_OK;
}

/* Forms that only prepare w differently. */
static spmd_status prepare(spmd_ctx *ctx, enum form form, spmd_tensor *w)
{
    spmd_tensor a, b;
    switch (form) {
    case PCAST:
        return spmd_pcast(ctx, w, "data", w);
    case DERIVED:
        return spmd_scale(ctx, w, 1, w);
    case RESHAPED:
        SPMD_TRY(spmd_reshape(ctx, w, SPMD_SHAPE(1, 1), w));
        return spmd_reshape(ctx, w, SPMD_SHAPE(1), w);
    case TWO_PATHS:
        SPMD_TRY(spmd_scale(ctx, w, 0.5, &a));
        SPMD_TRY(spmd_scale(ctx, w, 0.5, &b));
        return spmd_add(ctx, &a, &b, w);
    case PSUM_OF_W:
        SPMD_TRY(spmd_psum(ctx, w, "data", w));
        return spmd_scale(ctx, w, 0.25, w);
    case BROADCAST_W:
        return spmd_pbroadcast(ctx, w, "data", 2, w);
    default:
        return SPMD_OK;
    }
}

static spmd_status form_loss(spmd_ctx *ctx, const spmd_tensor *params, int n, void *user, spmd_tensor *loss)
{
    (void)n;
    const batch *b = user;
    spmd_tensor w = params[0], t, extra;
    SPMD_TRY(prepare(ctx, b->form, &w));
    switch (b->form) {
    case GATHERED:
    case GATHERED_INVARYING:
    case GATHERED_INVARYING_CAST:
        return via_gather(ctx, b, &w, loss);
    case PERMUTED:
        return via_permute(ctx, b, &w, loss);
    case CUSTOM_LOCAL:
    case CUSTOM_GLOBAL:
        return via_custom(ctx, b, &w, loss);
    case PMEAN_LOSS:
        SPMD_TRY(mean_square(ctx, &w, b->x, 1, &t));
        return spmd_pmean(ctx, &t, "data", loss);
    case PSUM_OF_SHARE:
        SPMD_TRY(mean_square(ctx, &w, b->x, 0.25, &t));
        return spmd_psum(ctx, &t, "data", loss);
    case PARTIAL:
        SPMD_TRY(mean_square(ctx, &w, b->x, 1, &t));
        SPMD_TRY(spmd_pcast_partial(ctx, &t, "data", &t));
        SPMD_TRY(spmd_scale(ctx, &t, 0.25, &t));
        return spmd_psum(ctx, &t, "data", loss);
    case LOCAL_DECAY:
    case GLOBAL_DECAY:
        SPMD_TRY(mean_square(ctx, &w, b->x, 1, &t));
        if (b->form == GLOBAL_DECAY)
            SPMD_TRY(spmd_pmean(ctx, &t, "data", &t));
        SPMD_TRY(decay(ctx, &w, &extra));
        return spmd_add(ctx, &t, &extra, loss);
    case STOPPED:
        SPMD_TRY(decay(ctx, &w, &extra));
        SPMD_TRY(spmd_stop_gradient(ctx, &extra, &extra));
        SPMD_TRY(mean_square(ctx, &w, b->x, 1, &t));
        return spmd_add(ctx, &t, &extra, loss);
    default:
        return mean_square(ctx, &w, b->x, 1, loss);
    }
}

typedef struct seen {
    enum form form;
    bool local;
} seen;

static spmd_status step(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    seen *s = user;
    batch b = {s->form, &in[1]};
    spmd_tensor loss;
    SPMD_TRY(spmd_value_and_grad(ctx, form_loss, &b, in, 1, &loss, &out[0]));
    bool local = out[0].vary != 0;
    if (spmd_ctx_device(ctx) == 0)
        s->local = local;
    if (s->form == MEAN_GRADS)
        return spmd_mean_grads(ctx, in, &out[0], 1, "data");
    return local ? spmd_pmean(ctx, &out[0], "data", &out[0]) : SPMD_OK;
}

START_TEST(every_form_gives_the_same_gradient)
{
    const float w[] = {3}, x[] = {0, 1, 2, 3, 4, 5, 6, 7};
    spmd_value in[2] = {spmd_value_f32(NULL, SPMD_SHAPE(1), w), spmd_value_f32("data", SPMD_SHAPE(8), x)},
               out[1] = {{.spec = ""}};
    seen s = {.form = (enum form)_i};
    ck_spmd_ok(spmd_test_run("data=4", step, &s, 2, in, 1, out));
    ck_assert_msg(fabs(spmd_value_at(&out[0], 0) - rows[_i].gradient) < 1e-3, "%s: %g, not %g", rows[_i].name,
                  spmd_value_at(&out[0], 0), rows[_i].gradient);
    ck_assert_msg(s.local == rows[_i].local, "%s: the gradient came out %s", rows[_i].name,
                  s.local ? "local" : "global");
    spmd_values_free(in, 2);
    spmd_values_free(out, 1);
}
END_TEST

/* Without the average, a local gradient claimed as replicated is refused. */
static spmd_status forget_the_mean(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    batch b = {LOCAL, &in[1]};
    return spmd_value_and_grad(ctx, form_loss, &b, in, 1, &out[1], &out[0]);
}

START_TEST(a_local_gradient_is_no_replicated_output)
{
    spmd_value in[2] = {spmd_value_zeros(SPMD_F32, NULL, SPMD_SHAPE(1)),
                        spmd_value_zeros(SPMD_F32, "data", SPMD_SHAPE(8))};
    spmd_value out[2] = {{.spec = ""}, {.spec = ""}};
    spmd_status status = spmd_test_run("data=4", forget_the_mean, NULL, 2, in, 2, out);
    ck_spmd_fails(status, SPMD_EREPLICATION, "varies");
    ck_assert_msg(strstr(spmd_last_error(), "spmd_pmean"), "%s", spmd_last_error());
    spmd_values_free(in, 2);
}
END_TEST

SPMD_TEST_MAIN("grad_forms", tcase_add_loop_test(tc, every_form_gives_the_same_gradient, 0, FORMS);
               tcase_add_test(tc, a_local_gradient_is_no_replicated_output);)
