/* Sharding rules, checked by their numbers. A sample runs ops and their gradients with a tape. Then every call on the
 * tape is run again in pieces: its inputs cut along a letter of its rule, the kernel alone on each piece, with the
 * attributes of the whole call. The outputs laid side by side along the letter, or added up if they do not carry it,
 * must be the whole result. Inputs in which an op says it is linear are split into two sums and checked likewise. */
#include "kernels/elements.h"
#include "tests/kernels/rule_samples.h"
#include "spmd/ctx.h"
#include "spmd/rule.h"

enum { MAX_OPERANDS = 8, LOG_SIZE = 1 << 14 };

typedef struct rule_check {
    const rule_sample *sample;
    char log[LOG_SIZE]; /* every call's rule, a line each */
} rule_check;

/* One call, and one way to run it in pieces. */
typedef struct pieces {
    const spmd_call *call;
    spmd_view whole[2 * MAX_OPERANDS], piece[2 * MAX_OPERANDS]; /* inputs, then outputs */
    int dim[2 * MAX_OPERANDS];                                  /* cut dimension; -1: none */
    spmd_view made[MAX_OPERANDS];                               /* of outputs: what the pieces make */
    int n;
} pieces;

static int8_t *letters_of(const spmd_call *call, const spmd_labels *labels, int operand)
{
    return operand < call->nin ? labels->in[operand] : labels->out[operand - call->nin];
}

static void write_rule(const spmd_call *call, const spmd_labels *labels, char *log)
{
    char *p = log + strlen(log);
    p += sprintf(p, "%s ", call->op->name);
    for (int k = 0; k < call->nin + call->nout; k++) {
        const spmd_tensor *t = k < call->nin ? &call->in[k] : &call->out[k - call->nin];
        p += sprintf(p, "%s", k == call->nin ? "->" : k ? "," : "");
        for (int d = 0; d < t->rank; d++)
            *p++ = letters_of(call, labels, k)[d] < 0 ? '-' : (char)('a' + letters_of(call, labels, k)[d]);
    }
    memcpy(p, "\n", 2);
}

static spmd_value value_of(const spmd_view *view)
{
    spmd_value v = {.dtype = view->dtype, .rank = view->rank, .data = view->data};
    memcpy(v.shape, view->shape, sizeof v.shape);
    return v;
}

/* Copies piece p of `whole` along `dim` (-1: all of it) to or from `piece`. */
static void move(const spmd_view *whole, const spmd_view *piece, int dim, int p, bool back)
{
    size_t step = spmd_dtype_size(whole->dtype);
    int64_t rows = 1;
    for (int d = 0; d < whole->rank; d++) {
        rows *= d < dim ? whole->shape[d] : 1;
        step *= d > dim ? (size_t)whole->shape[d] : 1;
    }
    size_t wide = dim < 0 ? step : step * (size_t)whole->shape[dim];
    size_t width = dim < 0 ? step : step * (size_t)piece->shape[dim];
    char *at = (char *)whole->data + (dim < 0 ? 0 : (size_t)p * width);
    if (back)
        spmd__copy_rows(at, wide, piece->data, width, width, rows);
    else
        spmd__copy_rows(piece->data, width, at, wide, width, rows);
}

/* Views of the whole operands, and memory for the pieces of them and for what the pieces make. */
static spmd_status prepare(spmd_ctx *ctx, const spmd_call *call, pieces *s)
{
    SPMD_CHECK(call->nin <= MAX_OPERANDS && call->nout <= MAX_OPERANDS, SPMD_EUSER, "%s: too many operands",
               call->op->name);
    *s = (pieces){.call = call};
    for (int k = 0; k < call->nin + call->nout; k++) {
        spmd_view *whole = &s->whole[k], *piece = &s->piece[k];
        SPMD_TRY(spmd_local(ctx, k < call->nin ? &call->in[k] : &call->out[k - call->nin], whole));
        size_t bytes = (size_t)spmd_view_count(whole) * spmd_dtype_size(whole->dtype);
        *piece = *whole;
        piece->data = spmd__scratch(ctx, bytes);
        if (!piece->data)
            return SPMD_ENOMEM;
        if (k < call->nin && call->op->like >> k & 1)
            piece->data = NULL; /* to be seen if it is read */
        if (k < call->nin)
            continue;
        s->made[k - call->nin] = *whole;
        s->made[k - call->nin].data = spmd__scratch(ctx, bytes);
        if (!s->made[k - call->nin].data)
            return SPMD_ENOMEM;
    }
    return SPMD_OK;
}

static void shrink(spmd_view *piece, int dim, int n)
{
    int64_t stride = 1;
    if (dim >= 0)
        piece->shape[dim] /= n;
    for (int d = piece->rank - 1; d >= 0; d--) {
        piece->strides[d] = stride;
        stride *= piece->shape[d];
    }
}

/* Cuts every operand's dimension that carries `letter` in n; false if that cannot be, or none carries it. */
static bool cut(pieces *s, const spmd_labels *labels, int letter, int n)
{
    bool any = false;
    s->n = n;
    for (int k = 0; k < s->call->nin + s->call->nout; k++) {
        s->dim[k] = -1;
        for (int d = 0; d < s->whole[k].rank; d++)
            if (letters_of(s->call, labels, k)[d] == letter) {
                if (s->whole[k].shape[d] % n)
                    return false;
                s->dim[k] = d;
                any = true;
            }
        memcpy(s->piece[k].shape, s->whole[k].shape, sizeof s->piece[k].shape);
        shrink(&s->piece[k], s->dim[k], n);
    }
    return any;
}

/* Runs the kernel on the pieces as they are, and takes its outputs as the p-th. */
static spmd_status run_piece(spmd_ctx *ctx, pieces *s, int p)
{
    const spmd_call *call = s->call;
    const spmd_view *out = s->piece + call->nin;
    spmd_kernel_args args = {&call->attr, call->nin, call->nout, s->piece, out, 0};
    for (int k = 0; k < call->nout; k++) /* not a number, nor any index; bool is kept a bool */
        memset(out[k].data, out[k].dtype == SPMD_BOOL ? 1 : 0xFF,
               (size_t)spmd_view_count(&out[k]) * spmd_dtype_size(out[k].dtype));
    if (call->op->view)
        memcpy(out->data, s->piece[0].data, (size_t)spmd_view_count(out) * spmd_dtype_size(out->dtype));
    else
        SPMD_TRY(call->op->host(ctx, &args));
    for (int k = 0; k < call->nout; k++) {
        int dim = s->dim[call->nin + k];
        spmd_value sum = value_of(&s->made[k]), part = value_of(&out[k]);
        if (dim >= 0 || p == 0)
            move(&s->made[k], &out[k], dim, p, true);
        else
            for (int64_t i = 0; i < spmd_value_count(&sum); i++)
                spmd_value_set(&sum, i, spmd_value_at(&sum, i) + spmd_value_at(&part, i));
    }
    return SPMD_OK;
}

static spmd_status compare(const pieces *s, const char *how, int which)
{
    for (int k = 0; k < s->call->nout; k++) {
        spmd_value made = value_of(&s->made[k]), want = value_of(&s->whole[s->call->nin + k]);
        double difference = spmd_value_difference(&made, &want), allowed = 3 * spmd_test_tolerance(want.dtype);
        SPMD_CHECK(difference <= allowed, SPMD_EUSER, "%s: output %d of %d pieces by %s %d is off by %g",
                   s->call->op->name, k, s->n, how, which, difference);
    }
    return SPMD_OK;
}

static spmd_status check_letters(spmd_ctx *ctx, pieces *s, const spmd_labels *labels)
{
    for (int letter = 0; letter < SPMD_MAX_LETTERS; letter++)
        for (int n = 2; n <= 3; n++) {
            if (!cut(s, labels, letter, n))
                continue;
            for (int p = 0; p < n; p++) {
                for (int k = 0; k < s->call->nin; k++)
                    if (s->piece[k].data)
                        move(&s->whole[k], &s->piece[k], s->dim[k], p, false);
                SPMD_TRY(run_piece(ctx, s, p));
            }
            SPMD_TRY(compare(s, "letter", letter));
        }
    return SPMD_OK;
}

/* Input k (all linear ones, if they go together) as a sum: 2x - x in even elements, x/2 + x/2 in odd ones. */
static spmd_status check_linear(spmd_ctx *ctx, pieces *s, const spmd_labels *labels)
{
    const spmd_op *op = s->call->op;
    cut(s, labels, SPMD_MAX_LETTERS, 1);
    s->n = 2;
    for (int k = 0; k < s->call->nin; k++) {
        if (!(op->linear >> k & 1) || !spmd_dtype_is_float(s->piece[k].dtype))
            continue;
        for (int p = 0; p < 2; p++) {
            for (int j = 0; j < s->call->nin; j++) {
                spmd_value v = value_of(&s->piece[j]);
                if (!v.data)
                    continue;
                move(&s->whole[j], &s->piece[j], -1, 0, false);
                bool split = j == k || (op->joint && op->linear >> j & 1);
                for (int64_t i = 0; split && i < spmd_value_count(&v); i++)
                    spmd_value_set(&v, i, spmd_value_at(&v, i) * (i % 2 ? 0.5 : p ? -1 : 2));
            }
            SPMD_TRY(run_piece(ctx, s, p));
        }
        SPMD_TRY(compare(s, "input", k));
    }
    return SPMD_OK;
}

static spmd_status check_call(spmd_ctx *ctx, const spmd_call *call, char *log)
{
    int8_t in[MAX_OPERANDS][SPMD_MAX_RANK], out[MAX_OPERANDS][SPMD_MAX_RANK];
    spmd_labels labels = {in, out};
    pieces s;
    SPMD_CHECK(call->op->rule, SPMD_EUSER, "%s has no rule", call->op->name);
    SPMD_TRY(prepare(ctx, call, &s));
    memset(in, SPMD_WHOLE, sizeof in);
    memset(out, SPMD_WHOLE, sizeof out);
    call->op->rule(call, &labels);
    write_rule(call, &labels, log);
    SPMD_TRY(check_letters(ctx, &s, &labels));
    return check_linear(ctx, &s, &labels);
}

/* Uneven in every element, so that no two cotangents are alike. */
static spmd_status loss(spmd_ctx *ctx, const spmd_tensor *params, int n, void *user, spmd_tensor *out)
{
    const rule_check *check = user;
    (void)n;
    SPMD_TRY(check->sample->fn(ctx, params, out));
    SPMD_TRY(spmd_cast(ctx, out, SPMD_F32, out));
    SPMD_TRY(spmd_square(ctx, out, out));
    return spmd_sum(ctx, out, NULL, 0, false, out);
}

static spmd_status check_sample(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    rule_check *check = user;
    spmd_tensor grads[RULE_FLOATS];
    ctx->depth = 1; /* as inside a loss function: the gradient's ops go onto the tape, too */
    SPMD_TRY(spmd_grad(ctx, loss, check, in, RULE_FLOATS, grads));
    ctx->depth = 0;
    for (int i = 0; i < ctx->ntape; i++)
        if (ctx->tape[i].nin)
            SPMD_TRY(check_call(ctx, &ctx->tape[i], check->log));
    out[0] = in[0];
    return SPMD_OK;
}

START_TEST(pieces_make_the_whole)
{
    rule_check *check = calloc(1, sizeof *check);
    spmd_value in[RULE_INPUTS], y = {0};
    ck_assert_ptr_nonnull(check);
    check->sample = &rule_samples[_i];
    rule_inputs(in);
    ck_spmd_ok(spmd_test_run("x=1", check_sample, check, RULE_INPUTS, in, 1, &y));
    for (const char *const *rule = check->sample->rules; *rule; rule++) {
        char line[128];
        snprintf(line, sizeof line, "%s\n", *rule);
        ck_assert_msg(strstr(check->log, line) != NULL, "no rule '%s' in:\n%s", *rule, check->log);
    }
    spmd_values_free(in, RULE_INPUTS);
    spmd_value_free(&y);
    free(check);
}
END_TEST

SPMD_TEST_MAIN("rules", tcase_add_loop_test(tc, pieces_make_the_whole, 0, RULE_SAMPLES);)
