/* Bringing a value from one placement to another. A dimension's axes are an ordered list, the first is major: only its
 * end can be gathered, exchanged or added to, so a dimension first shrinks to what it has in common with the target.
 *
 * The way is found one step at a time, cheapest kind first, and each step changes the placement; its cost and its
 * execution walk the same steps. */
#include "spmd/auto.h"
#include "spmd/linear.h"
#include <string.h>

typedef struct step {
    enum { SLICE, SCATTER, EXCHANGE, SUM, GATHER } kind;
    int dim, to; /* to: the dimension that an exchange cuts instead */
    spmd_axes axes;
} step;

bool spmd__same_cut(const spmd_placement *a, const spmd_placement *b)
{
    bool same = !memcmp(a->cut.n, b->cut.n, sizeof a->cut.n);
    for (int d = 0; d < SPMD_MAX_RANK && same; d++)
        same = !memcmp(a->cut.axis[d], b->cut.axis[d], a->cut.n[d]);
    return same;
}

bool spmd__same_placement(const spmd_placement *a, const spmd_placement *b)
{
    return a->partial == b->partial && spmd__same_cut(a, b);
}

double spmd__block_bytes(const spmd_mesh *mesh, const spmd_tensor *t, const spmd_placement *at)
{
    double bytes = (double)spmd__tensor_bytes(t);
    return bytes / spmd__mask_size(mesh, spmd__layout_mask(&at->cut));
}

static int common(const spmd_placement *at, const spmd_placement *to, int d)
{
    int n = 0;
    while (n < at->cut.n[d] && n < to->cut.n[d] && at->cut.axis[d][n] == to->cut.axis[d][n])
        n++;
    return n;
}

/* How many of the axes that dimension d still needs are in `allowed`, in order; 0 if d must shrink first. */
static int addable(const spmd_placement *at, const spmd_placement *to, int d, unsigned allowed)
{
    int have = at->cut.n[d], n = 0;
    if (common(at, to, d) < have)
        return 0;
    while (have + n < to->cut.n[d] && allowed >> to->cut.axis[d][have + n] & 1)
        n++;
    return n;
}

static void add_axes(spmd_placement *at, int d, const uint8_t *axis, int n)
{
    memcpy(at->cut.axis[d] + at->cut.n[d], axis, (size_t)n);
    at->cut.n[d] = (uint8_t)(at->cut.n[d] + n);
}

static spmd_axes axes_of(const uint8_t *axis, int n)
{
    spmd_axes axes = {.n = (uint8_t)n};
    for (int k = 0; k < n; k++) {
        axes.id[k] = axis[k];
        axes.mask |= (uint8_t)(1u << axis[k]);
    }
    return axes;
}

/* A slice of a whole value, or of a sum. */
static bool find_addition(spmd_placement *at, const spmd_placement *to, int kind, unsigned allowed, step *s)
{
    for (int d = 0; d < SPMD_MAX_RANK; d++) {
        int n = addable(at, to, d, allowed);
        if (!n)
            continue;
        *s = (step){.kind = kind, .dim = d, .axes = axes_of(to->cut.axis[d] + at->cut.n[d], n)};
        add_axes(at, d, s->axes.id, n);
        if (kind == SCATTER)
            at->partial &= (uint8_t)~s->axes.mask;
        return true;
    }
    return false;
}

/* The axes at the end of one dimension are what another one needs next. */
static bool find_exchange(spmd_placement *at, const spmd_placement *to, step *s)
{
    for (int d = 0; d < SPMD_MAX_RANK; d++)
        for (int e = 0; e < SPMD_MAX_RANK; e++) {
            int most = at->cut.n[d] - common(at, to, d), need = addable(at, to, e, ~0u);
            for (int n = most < need ? most : need; n > 0 && d != e; n--) {
                const uint8_t *end = at->cut.axis[d] + at->cut.n[d] - n;
                if (memcmp(end, to->cut.axis[e] + at->cut.n[e], (size_t)n))
                    continue;
                *s = (step){.kind = EXCHANGE, .dim = d, .to = e, .axes = axes_of(end, n)};
                add_axes(at, e, s->axes.id, n);
                at->cut.n[d] = (uint8_t)(at->cut.n[d] - n);
                return true;
            }
        }
    return false;
}

static bool find_gather(spmd_placement *at, const spmd_placement *to, step *s)
{
    for (int d = 0; d < SPMD_MAX_RANK; d++) {
        int keep = common(at, to, d), n = at->cut.n[d] - keep;
        if (!n)
            continue;
        *s = (step){.kind = GATHER, .dim = d, .axes = axes_of(at->cut.axis[d] + keep, n)};
        at->cut.n[d] = (uint8_t)keep;
        return true;
    }
    return false;
}

/* Slices first: all that follows is then smaller. A sum that nobody wants in pieces is made before blocks grow. */
static bool next_step(spmd_placement *at, const spmd_placement *to, step *s)
{
    unsigned used = spmd__layout_mask(&at->cut), open = at->partial & ~(unsigned)to->partial;
    if (find_addition(at, to, SLICE, ~(used | at->partial), s) || find_addition(at, to, SCATTER, open, s) ||
        find_exchange(at, to, s))
        return true;
    unsigned sum = open & ~spmd__layout_mask(&to->cut);
    if (!sum)
        return find_gather(at, to, s);
    *s = (step){.kind = SUM};
    s->axes.mask = (uint8_t)sum;
    at->partial &= (uint8_t)~sum;
    return true;
}

double spmd__move_bytes(const spmd_mesh *mesh, const spmd_tensor *t, const spmd_placement *from,
                        const spmd_placement *to)
{
    spmd_placement at = *from;
    step s;
    double bytes = 0, block = spmd__block_bytes(mesh, t, &at);
    while (next_step(&at, to, &s)) {
        double n = spmd__mask_size(mesh, s.axes.mask), share = (n - 1) / n, after = spmd__block_bytes(mesh, t, &at);
        if (s.kind != SLICE)
            bytes += share * (s.kind == SUM ? 2 * block : s.kind == GATHER ? after : block);
        block = after;
    }
    return bytes;
}

static spmd_status take(spmd_ctx *ctx, const step *s, spmd_tensor *block)
{
    switch (s->kind) {
    case SLICE:
        return spmd__linear_slice(ctx, block, s->dim, &s->axes, block);
    case SCATTER:
        return spmd__linear_scatter(ctx, block, s->dim, &s->axes, block);
    case EXCHANGE:
        return spmd__linear_exchange(ctx, block, s->to, s->dim, &s->axes, block);
    case SUM:
        return spmd__linear_psum(ctx, block, 1, s->axes.mask, block);
    case GATHER:
        break;
    }
    return spmd__linear_gather(ctx, block, s->dim, &s->axes, block);
}

/* What moves a value are explicit calls on blocks, and no part of the user's function: the tape keeps the value. */
typedef struct users_side {
    struct spmd_automatic *automatic;
    int depth;
    const char *site;
} users_side;

static users_side enter_blocks(spmd_ctx *ctx)
{
    users_side user = {ctx->automatic, ctx->depth, ctx->site};
    ctx->automatic = NULL;
    ctx->depth = 0;
    ctx->site = "the automatic mode";
    return user;
}

static void leave_blocks(spmd_ctx *ctx, const users_side *user)
{
    ctx->automatic = user->automatic;
    ctx->depth = user->depth;
    ctx->site = user->site;
}

spmd_status spmd__move(spmd_ctx *ctx, const spmd_tensor *t, const spmd_placement *to, spmd_tensor *block)
{
    uint32_t id = t->id; /* block may be t */
    spmd_placement at = *spmd__placement(ctx, t);
    const spmd_tensor *before = spmd__moved(ctx, id, to);
    *block = before ? *before : spmd__block_of(ctx->mesh, t, &at);
    if (before || spmd__same_placement(&at, to))
        return SPMD_OK;
    users_side user = enter_blocks(ctx);
    spmd_status status = SPMD_OK;
    for (step s; status == SPMD_OK && next_step(&at, to, &s);)
        status = take(ctx, &s, block);
    leave_blocks(ctx, &user);
    SPMD_TRY(status);
    return spmd__remember_move(ctx, id, to, block);
}

spmd_status spmd__sum_together(spmd_ctx *ctx, const spmd_tensor *t, int n, unsigned mask)
{
    spmd_tensor *blocks = spmd__scratch(ctx, (size_t)n * sizeof *blocks + 1);
    if (!blocks)
        return SPMD_ENOMEM;
    for (int k = 0; k < n; k++)
        blocks[k] = spmd__block_of(ctx->mesh, &t[k], spmd__placement(ctx, &t[k]));
    users_side user = enter_blocks(ctx);
    spmd_status status = spmd__linear_psum(ctx, blocks, n, mask, blocks);
    leave_blocks(ctx, &user);
    SPMD_TRY(status);
    for (int k = 0; k < n; k++) {
        spmd_placement to = *spmd__placement(ctx, &t[k]);
        to.partial &= (uint8_t)~mask;
        SPMD_TRY(spmd__remember_move(ctx, t[k].id, &to, &blocks[k]));
    }
    return SPMD_OK;
}
