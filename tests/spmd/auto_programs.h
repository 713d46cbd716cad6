/* Random programs for test_auto_property.c: a shard function whose ops follow from a seed alone. It keeps a few values
 * and replaces one of them at every step; the loss is made of all of them. */
#ifndef TESTS_AUTO_PROGRAMS_H
#define TESTS_AUTO_PROGRAMS_H

#include "auto_run.h"

enum { KEPT = 6, FLOATS = 5, INDICES = FLOATS, SEED, PROGRAM_INPUTS, MOST_ELEMENTS = 2048 };

/* A program under way. */
typedef struct making {
    spmd_ctx *ctx;
    uint64_t random;
    spmd_tensor kept[KEPT];
    const spmd_tensor *indices, *seed;
} making;

static int draw(uint64_t *random, int n)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (int)((*random >> 33) % (uint64_t)n);
}

/* Cuts `shape` by the axes of `mesh`, each along a random dimension if it divides: draws the same on every mesh. */
static spmd_spec draw_spec(uint64_t *random, const spmd_mesh *mesh, int rank, const int64_t *shape)
{
    static const char *const names[] = {"x", "y", "z"};
    char text[SPMD_MAX_RANK][SPMD_MAX_ENTRY] = {{0}};
    const char *entries[SPMD_MAX_RANK];
    int64_t left[SPMD_MAX_RANK];
    int first = draw(random, 3);
    memcpy(left, shape, (size_t)rank * sizeof *left);
    for (int k = 0; k < 3; k++) {
        int d = draw(random, rank + 2), size = 0, axis = (first + k) % 3;
        for (int a = 0; a < spmd_mesh_axes(mesh); a++)
            size = strcmp(spmd_mesh_axis_name(mesh, a), names[axis]) ? size : spmd_mesh_axis_size(mesh, a);
        if (!size || spmd_mesh_devices(mesh) == 1 || d >= rank || left[d] % size)
            continue;
        left[d] /= size;
        snprintf(text[d] + strlen(text[d]), 8, "%s%s", *text[d] ? "," : "", names[axis]);
    }
    for (int d = 0; d < rank; d++)
        entries[d] = text[d];
    return spmd_spec_make(rank, entries);
}

static bool fits_matmul(const spmd_tensor *a, const spmd_tensor *b, bool ta, bool tb)
{
    return a->rank >= 2 && b->rank == 2 && a->shape[a->rank - (ta ? 2 : 1)] == b->shape[tb ? 1 : 0] &&
           spmd_count(a) / a->shape[a->rank - (ta ? 2 : 1)] * b->shape[tb ? 0 : 1] <= MOST_ELEMENTS;
}

static spmd_status try_matmul(making *m, const spmd_tensor *a, spmd_tensor *out)
{
    int first = draw(&m->random, KEPT), flags = draw(&m->random, 4);
    for (int k = 0; k < 4 * KEPT; k++) {
        const spmd_tensor *b = &m->kept[(first + k) % KEPT];
        bool ta = (flags + k / KEPT) & 1, tb = (flags + k / KEPT) & 2;
        if (!fits_matmul(a, b, ta, tb))
            continue;
        SPMD_TRY(spmd_matmul(m->ctx, a, b, ta, tb, out));
        return spmd_scale(m->ctx, out, 0.3, out);
    }
    return SPMD_OK;
}

static spmd_status try_binary(making *m, const spmd_tensor *a, spmd_tensor *out)
{
    int which = draw(&m->random, 3), first = draw(&m->random, KEPT);
    for (int k = 0; k < KEPT; k++) {
        const spmd_tensor *b = &m->kept[(first + k) % KEPT];
        bool fits = b->rank <= a->rank;
        for (int d = 1; fits && d <= b->rank; d++)
            fits = b->shape[b->rank - d] == a->shape[a->rank - d] || b->shape[b->rank - d] == 1;
        if (fits)
            return which == 0   ? spmd_add(m->ctx, a, b, out)
                   : which == 1 ? spmd_mul(m->ctx, b, a, out)
                                : spmd_sub(m->ctx, b, a, out);
    }
    return SPMD_OK;
}

static spmd_status try_affine(making *m, const spmd_tensor *a, spmd_tensor *out)
{
    int gelu = draw(&m->random, 2);
    for (int k = 0; k < KEPT * KEPT && a->rank > 0; k++) {
        const spmd_tensor *w = &m->kept[k / KEPT], *bias = &m->kept[k % KEPT];
        if (!fits_matmul(a, w, false, false) || bias->rank != 1 || bias->shape[0] != w->shape[1])
            continue;
        return gelu ? spmd_linear_gelu(m->ctx, a, w, bias, out) : spmd_linear(m->ctx, a, w, bias, out);
    }
    return SPMD_OK;
}

static spmd_status try_norm(making *m, const spmd_tensor *a, spmd_tensor *out)
{
    for (int k = 0; k < KEPT && a->rank > 0; k++)
        if (m->kept[k].rank == 1 && m->kept[k].shape[0] == a->shape[a->rank - 1] && a->shape[a->rank - 1] > 1)
            return spmd_layer_norm(m->ctx, a, &m->kept[k], &m->kept[k], 0.1, out);
    return a->rank > 0 ? spmd_softmax(m->ctx, a, out) : SPMD_OK;
}

static spmd_status try_unary(making *m, const spmd_tensor *a, spmd_tensor *out)
{
    switch (draw(&m->random, 5)) {
    case 0:
        return spmd_gelu(m->ctx, a, out);
    case 1:
        return spmd_tanh(m->ctx, a, out);
    case 2:
        return spmd_sigmoid(m->ctx, a, out);
    case 3:
        return spmd_scale(m->ctx, a, -0.7, out);
    default:
        SPMD_TRY(spmd_stop_gradient(m->ctx, a, out));
        return spmd_mul(m->ctx, a, out, out);
    }
}

static spmd_status try_reduction(making *m, const spmd_tensor *a, spmd_tensor *out)
{
    int dims[SPMD_MAX_RANK], n = 0, chosen = draw(&m->random, 64), which = draw(&m->random, 3);
    bool keep = draw(&m->random, 2);
    for (int d = 0; d < a->rank; d++)
        if (chosen >> d & 1)
            dims[n++] = d;
    if (which == 0)
        return spmd_mean(m->ctx, a, dims, n, keep, out);
    if (which == 1)
        return spmd_max(m->ctx, a, dims, n, keep, out);
    SPMD_TRY(spmd_sum(m->ctx, a, dims, n, keep, out));
    return spmd_scale(m->ctx, out, 0.2, out);
}

static spmd_status try_transpose(making *m, const spmd_tensor *a, spmd_tensor *out)
{
    int order[SPMD_MAX_RANK];
    for (int d = 0; d < a->rank; d++)
        order[d] = d;
    for (int d = a->rank - 1; d > 0; d--) {
        int e = draw(&m->random, d + 1), swap = order[d];
        order[d] = order[e];
        order[e] = swap;
    }
    return spmd_transpose(m->ctx, a, order, out);
}

/* Merges two neighbours, or splits a dimension. */
static spmd_status try_reshape(making *m, const spmd_tensor *a, spmd_tensor *out)
{
    static const int factors[] = {2, 3, 4};
    int64_t shape[SPMD_MAX_RANK];
    int rank = 0, d = a->rank ? draw(&m->random, a->rank) : 0, factor = factors[draw(&m->random, 3)];
    bool merge = draw(&m->random, 2) && d + 1 < a->rank;
    bool split = !merge && a->rank && a->rank < 4 && a->shape[d] % factor == 0;
    for (int k = 0; k < a->rank; k++) {
        if (split && k == d)
            shape[rank++] = factor;
        shape[rank++] = split && k == d ? a->shape[k] / factor : a->shape[k];
        if (merge && k == d + 1) {
            rank--;
            shape[rank - 1] *= a->shape[k];
        }
    }
    return spmd_reshape(m->ctx, a, rank, shape, out);
}

static spmd_status try_moving(making *m, const spmd_tensor *a, spmd_tensor *out)
{
    int d = a->rank ? draw(&m->random, a->rank) : 0, which = draw(&m->random, 4);
    spmd_tensor pair[2] = {*a, *a};
    if (!a->rank || spmd_count(a) > MOST_ELEMENTS / 2)
        return SPMD_OK;
    if (which == 0)
        return spmd_concat(m->ctx, pair, 2, d, out);
    if (which == 1)
        return spmd_slice(m->ctx, a, d, a->shape[d] / 3, (a->shape[d] + 1) / 2, out);
    if (which == 2 && a->rank == 2 && a->shape[0] >= 4)
        return spmd_embedding(m->ctx, a, m->indices, out);
    int64_t shape[SPMD_MAX_RANK] = {2};
    memcpy(shape + 1, a->shape, sizeof shape - sizeof *shape);
    return a->rank < 4 ? spmd_broadcast_to(m->ctx, a, a->rank + 1, shape, out) : SPMD_OK;
}

static spmd_status try_making(making *m, const spmd_tensor *a, spmd_tensor *out)
{
    spmd_spec spec = draw_spec(&m->random, spmd_ctx_mesh(m->ctx), a->rank, a->shape);
    if (draw(&m->random, 2))
        return spmd_constrain(m->ctx, a, spec, out);
    SPMD_TRY(spmd_random_normal(m->ctx, m->seed, 3, a->rank, a->shape, spec, out));
    return spmd_mul(m->ctx, out, a, out);
}

static spmd_status program_loss(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    static spmd_status (*const ways[])(making *, const spmd_tensor *, spmd_tensor *) = {
        try_matmul,    try_matmul,    try_binary,  try_binary, try_affine, try_norm,
        try_reduction, try_transpose, try_reshape, try_moving, try_making, try_unary};
    making *m = user;
    for (int k = 0; k < KEPT; k++)
        m->kept[k] = p[k % n];
    int steps = 4 + draw(&m->random, 20);
    for (int k = 0; k < steps; k++) {
        spmd_tensor made = {0};
        const spmd_tensor *a = &m->kept[draw(&m->random, KEPT)];
        SPMD_TRY(ways[draw(&m->random, sizeof ways / sizeof *ways)](m, a, &made));
        if (made.id)
            m->kept[draw(&m->random, KEPT)] = made;
    }
    SPMD_TRY(spmd_full(ctx, 0, SPMD_F32, SPMD_SCALAR, loss));
    for (int k = 0; k < KEPT; k++) {
        spmd_tensor part;
        SPMD_TRY(spmd_square(ctx, &m->kept[k], &part));
        SPMD_TRY(spmd_mean(ctx, &part, NULL, 0, false, &part));
        SPMD_TRY(spmd_add(ctx, loss, &part, loss));
    }
    return SPMD_OK;
}

/* All of it once more for the gradient. */
static spmd_status program_again(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return program_loss(ctx, in, FLOATS, user, out);
}

static spmd_status checkpointed_loss(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    return spmd_checkpoint(ctx, program_again, user, p, n, loss, 1);
}

static spmd_status run_with(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user, spmd_loss_fn *loss)
{
    making m = {.ctx = ctx, .random = *(const uint64_t *)user, .indices = &in[INDICES], .seed = &in[SEED]};
    SPMD_TRY(spmd_value_and_grad(ctx, loss, &m, in, FLOATS, &out[FLOATS], out));
    out[FLOATS + 1] = m.kept[0];
    return SPMD_OK;
}

/* out: the gradients of the float inputs, the loss, and a value that was kept. */
static spmd_status run_program(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return run_with(ctx, in, out, user, program_loss);
}

static spmd_status run_checkpointed(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    return run_with(ctx, in, out, user, checkpointed_loss);
}

#endif
