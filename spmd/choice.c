/* How a call's operands are to lie. Every mesh axis cuts a letter of the op's rule, or nothing, or passes an open sum
 * through; of all combinations the cheapest in bytes wins. Three clauses keep that from being greedy: an axis cuts only
 * a letter that it cuts in some input already (follow the data), it cuts nothing only if no letter is possible, and of
 * equal choices the one that leaves a sum open wins (gradients then meet once, at the end of the step). */
#include "spmd/auto.h"
#include "spmd/rule.h"
#include <string.h>

enum { WHOLE = -1, PASS = -2 }; /* what an axis may do, besides cutting a letter */

typedef struct choice {
    const spmd_ctx *ctx;
    const spmd_mesh *mesh;
    const spmd_call *call;
    const spmd_placement *from;
    spmd_labels labels;
    double work; /* of the call on one device, as bytes */
    int option[SPMD_MAX_AXES][SPMD_MAX_LETTERS + 2], noptions[SPMD_MAX_AXES];
    double lost[SPMD_MAX_AXES]; /* cost of cutting nothing */
    int pick[SPMD_MAX_AXES];    /* of the combination being looked at: by axis */
    uint8_t order[SPMD_MAX_LETTERS][SPMD_MAX_AXES], n[SPMD_MAX_LETTERS]; /* the axes that cut a letter */
} choice;

static const spmd_tensor *operand(const choice *c, int k)
{
    return k < c->call->nin ? &c->call->in[k] : &c->call->out[k - c->call->nin];
}

static const int8_t *letters(const choice *c, int k)
{
    return k < c->call->nin ? c->labels.in[k] : c->labels.out[k - c->call->nin];
}

static bool carries(const choice *c, int k, int letter)
{
    for (int d = 0; d < operand(c, k)->rank; d++)
        if (letters(c, k)[d] == letter)
            return true;
    return false;
}

static bool cut_by(const spmd_layout *layout, int d, int axis)
{
    return memchr(layout->axis[d], axis, layout->n[d]) != NULL;
}

/* May an open sum over `axis` stay open through the op? */
static bool may_pass(const choice *c, int axis)
{
    const spmd_op *op = c->call->op;
    int open = 0, closed = 0;
    for (int k = 0; k < c->call->nin; k++) {
        if (spmd__bit(op->like, k))
            continue;
        bool mine = c->from[k].partial >> axis & 1;
        if (spmd__bit(op->adds, k) ? !mine : mine && !spmd__bit(op->linear, k))
            return false;
        if (spmd__bit(op->adds, k))
            continue;
        open += mine;
        closed += !mine;
    }
    return op->joint ? open > 0 && closed == 0 : open == 1;
}

static void add_option(choice *c, int axis, int what)
{
    for (int i = 0; i < c->noptions[axis]; i++)
        if (c->option[axis][i] == what)
            return;
    c->option[axis][c->noptions[axis]++] = what;
}

static void find_options(choice *c, int axis)
{
    c->noptions[axis] = 0;
    c->lost[axis] = 0;
    if (may_pass(c, axis))
        add_option(c, axis, PASS);
    for (int k = 0; k < c->call->nin; k++)
        for (int d = 0; d < c->call->in[k].rank; d++)
            if (c->labels.in[k][d] >= 0 && cut_by(&c->from[k].cut, d, axis)) {
                add_option(c, axis, c->labels.in[k][d]);
                c->lost[axis] += 1e12;
            }
    add_option(c, axis, WHOLE);
}

/* All operands must agree on the order of a letter's axes: that of the largest input that they cut already; others
 * follow in the mesh's order. */
static void order_axes(choice *c)
{
    memset(c->n, 0, sizeof c->n);
    for (int letter = 0; letter < SPMD_MAX_LETTERS; letter++) {
        unsigned wanted = 0;
        for (int a = 0; a < c->mesh->naxes; a++)
            wanted |= (unsigned)(c->pick[a] == letter) << a;
        const uint8_t *model = NULL;
        int n = 0;
        double largest = -1;
        for (int k = 0; k < c->call->nin && wanted; k++)
            for (int d = 0; d < c->call->in[k].rank; d++) {
                double bytes = (double)spmd_count(&c->call->in[k]);
                if (c->labels.in[k][d] != letter || !c->from[k].cut.n[d] || bytes <= largest)
                    continue;
                largest = bytes;
                model = c->from[k].cut.axis[d];
                n = c->from[k].cut.n[d];
            }
        for (int i = 0; i < n + c->mesh->naxes; i++) {
            int axis = i < n ? model[i] : i - n;
            if (wanted >> axis & 1)
                c->order[letter][c->n[letter]++] = (uint8_t)axis;
            wanted &= ~(1u << axis);
        }
    }
}

/* Cuts operand k by the letters' axes. False: a dimension is not divisible, or an axis would cut two. */
static bool cut(const choice *c, int k, spmd_placement *out)
{
    const spmd_tensor *t = operand(c, k);
    unsigned seen = 0;
    *out = (spmd_placement){0};
    for (int d = 0; d < t->rank; d++) {
        int letter = letters(c, k)[d];
        if (letter < 0 || !c->n[letter])
            continue;
        if (seen >> letter & 1)
            return false;
        seen |= 1u << letter;
        memcpy(out->cut.axis[d], c->order[letter], c->n[letter]);
        out->cut.n[d] = c->n[letter];
        if (t->shape[d] % spmd__layout_cuts(c->mesh, &out->cut, d))
            return false;
    }
    return true;
}

/* Is the letter a dimension of an input that is read? */
static bool summed(const choice *c, int letter)
{
    for (int k = 0; k < c->call->nin; k++)
        if (!spmd__bit(c->call->op->like, k) && carries(c, k, letter))
            return true;
    return false;
}

/* Sums that the combination leaves open: passed on, or over letters that an output does not carry. False: what is added
 * there is no open sum. */
static bool leave_open(const choice *c, spmd_placement *to)
{
    const spmd_call *call = c->call;
    for (int a = 0; a < c->mesh->naxes; a++) {
        uint8_t axis = (uint8_t)(1u << a);
        bool opened = false;
        for (int k = 0; k < call->nin + call->nout; k++) {
            bool read = k < call->nin && !spmd__bit(call->op->like, k);
            if (c->pick[a] == PASS && (k >= call->nin || (read && c->from[k].partial & axis)))
                to[k].partial |= axis;
            if (c->pick[a] >= 0 && k >= call->nin && !carries(c, k, c->pick[a]) && summed(c, c->pick[a])) {
                to[k].partial |= axis;
                opened = true;
            }
        }
        for (int k = 0; k < call->nin && opened; k++) {
            if (spmd__bit(call->op->adds, k) && !(c->from[k].partial & axis))
                return false;
            if (spmd__bit(call->op->adds, k))
                to[k].partial |= axis;
        }
    }
    return true;
}

/* What the combination costs; a negative number: it is not possible. */
static double weigh(choice *c, spmd_placement *to)
{
    const spmd_call *call = c->call;
    double cost = 0, parallel = 1;
    order_axes(c);
    for (int k = 0; k < call->nin + call->nout; k++)
        if (!cut(c, k, &to[k]))
            return -1;
    if (!leave_open(c, to))
        return -1;
    for (int a = 0; a < c->mesh->naxes; a++) {
        cost += c->pick[a] == WHOLE ? c->lost[a] : 0;
        parallel *= c->pick[a] >= 0 ? c->mesh->size[a] : 1;
    }
    for (int k = 0; k < call->nin; k++)
        if (!spmd__bit(call->op->like, k))
            cost += spmd__moved(c->ctx, call->in[k].id, &to[k])
                        ? 0
                        : spmd__move_bytes(c->mesh, &call->in[k], &c->from[k], &to[k]);
        else if (!spmd__same_cut(&c->from[k], &to[k])) /* a hint, no more */
            cost += 1e-3 * (double)spmd_count(&call->in[k]);
    for (int k = call->nin; k < call->nin + call->nout; k++)
        for (int a = 0; a < c->mesh->naxes; a++) {
            double n = c->mesh->size[a], later = 2 * (n - 1) / n * spmd__block_bytes(c->mesh, operand(c, k), &to[k]);
            if (to[k].partial >> a & 1)
                cost += c->pick[a] == PASS ? 0.95 * later : later; /* of equals, the sum that stays open wins */
        }
    return cost + c->work / parallel;
}

/* Flops, or elements, as bytes: a device computes about 50 of them while it sends a byte. */
static double work_of(const spmd_call *call)
{
    spmd_cost cost = {0};
    if (call->op->cost)
        call->op->cost(call, &cost);
    for (int k = 0; k < call->nout && !call->op->cost; k++)
        cost.flops += (double)spmd_count(&call->out[k]);
    return cost.flops / 50;
}

/* Goes through all combinations as a counter does. */
static void search(choice *c, spmd_placement *try, spmd_placement *best)
{
    size_t bytes = (size_t)(c->call->nin + c->call->nout) * sizeof *best;
    int at[SPMD_MAX_AXES] = {0}, axis = 0;
    double least = -1;
    do {
        for (int a = 0; a < c->mesh->naxes; a++)
            c->pick[a] = c->option[a][at[a]];
        double cost = weigh(c, try);
        if (cost >= 0 && (least < 0 || cost < least - 1e-9)) {
            least = cost;
            memcpy(best, try, bytes);
        }
        for (axis = 0; axis < c->mesh->naxes && ++at[axis] == c->noptions[axis]; axis++)
            at[axis] = 0;
    } while (axis < c->mesh->naxes);
}

spmd_status spmd__choose(spmd_ctx *ctx, const spmd_call *call, const spmd_placement *from, spmd_placement *to)
{
    enum { SMALL = 8 };
    size_t n = (size_t)(call->nin + call->nout);
    int8_t small_labels[SMALL][SPMD_MAX_RANK], (*labels)[SPMD_MAX_RANK] = small_labels;
    spmd_placement small[SMALL], *try = small;
    if (n > SMALL) {
        labels = spmd__scratch(ctx, n * sizeof *labels);
        try = spmd__scratch(ctx, n * sizeof *try);
        if (!labels || !try)
            return SPMD_ENOMEM;
    }
    memset(labels, SPMD_WHOLE, n * sizeof *labels);
    choice c = {.ctx = ctx, .mesh = ctx->mesh, .call = call, .from = from, .labels = {labels, labels + call->nin}};
    if (call->op->rule)
        call->op->rule(call, &c.labels);
    c.work = work_of(call);
    for (int a = 0; a < c.mesh->naxes; a++)
        find_options(&c, a);
    search(&c, try, to);
    return SPMD_OK;
}
