/* Weights in the layout that the library's kernels read, made once for many products.
 *
 * A product of row-major matrices copies B into panels of 64 columns, every time. A weight that a step uses 16 times in
 * the forward pass and 16 times, transposed, in the backward pass is so copied 32 times, where twice would do: 7 and 3
 * % of those products, and much more of a bf16 one that is computed in f32, since the panels are widened as well.
 * Nothing about the numbers changes: the same products are added in the same order (test_matmul compares the bits).
 *
 * Whether it pays is known only afterwards. So B is packed when it meets its WORTH-th product in a launch, and at its
 * first one if it met as many in the launch before, since steps are alike. That is the same for an eager step and for a
 * replayed one, needs no pass over programs, and takes its memory in the first step. What was packed is valid while the
 * launch lasts, in which a value never changes. Each device packs its own: it needs no meeting. */
#include "kernels/elements.h"
#include "kernels/matmul/gemm.h"
#include <string.h>

enum {
    WORTH = 4,   /* products: packing costs as much as two to four of them save */
    SLOTS = 256, /* values that are watched; two in one slot keep each other from being packed, which costs only time */
    PANEL = 64,  /* columns; oneDNN's BA16a64b */
    STEP = 16    /* rows of a block in a panel: k must be a multiple */
};

typedef struct watched {
    uint32_t value, launch;
    int64_t k, n;
    spmd_dtype dtype;
    bool transposed, packed;
    int uses, before; /* in this launch, and in the last one that had it */
    float *panels;
    size_t bytes;
} watched;

static void watch_destroy(void *slot)
{
    watched *table = slot;
    for (int i = 0; i < SLOTS; i++)
        spmd__free(table[i].panels);
    spmd__free(table);
}

static void *watch_create(spmd_ctx *ctx)
{
    watched *table = spmd__alloc(spmd__ctx_mesh(ctx), SLOTS * sizeof *table);
    if (table)
        memset(table, 0, SLOTS * sizeof *table);
    return table;
}

/* Counts this use. */
static watched *count_use(spmd_ctx *ctx, watched *table, const spmd__gemm_case *c)
{
    watched *w = &table[(2 * (size_t)c->value_b + c->transpose_b) % SLOTS];
    uint32_t launch = spmd__launch_number(ctx);
    bool same = w->value == c->value_b && w->transposed == c->transpose_b && w->dtype == c->dtype && w->k == c->k &&
                w->n == c->n;
    if (!same || w->launch != launch) {
        w->before = same ? w->uses : 0;
        w->uses = 0;
        w->packed = false;
        w->value = c->value_b;
        w->launch = launch;
        w->k = c->k;
        w->n = c->n;
        w->dtype = c->dtype;
        w->transposed = c->transpose_b;
    }
    w->uses++;
    return w;
}

/* B [k, n]: a row of a panel is a piece of a row of B. */
static void pack_plain(const watched *w, const void *b)
{
    float *to = w->panels;
    for (int64_t j = 0; j < w->n; j += PANEL)
        for (int64_t i = 0; i < w->k; i++, to += PANEL)
            spmd__widen(w->dtype, spmd__element((void *)b, w->dtype, i * w->n + j), PANEL, to);
}

/* B [n, k]: PANEL rows of B, piece by piece, each small enough to be turned within the cache. */
static void pack_transposed(const watched *w, const void *b)
{
    float piece[PANEL], *to = w->panels;
    for (int64_t j = 0; j < w->n; j += PANEL)
        for (int64_t i = 0; i < w->k; i += PANEL) {
            int64_t rows = w->k - i < PANEL ? w->k - i : PANEL;
            for (int64_t column = 0; column < PANEL; column++) {
                spmd__widen(w->dtype, spmd__element((void *)b, w->dtype, (j + column) * w->k + i), rows, piece);
                for (int64_t row = 0; row < rows; row++)
                    to[row * PANEL + column] = piece[row];
            }
            to += rows * PANEL;
        }
}

/* Only where oneDNN's kernels use these panels. */
static bool can_pack(const spmd__gemm_case *c)
{
#if defined(SPMD_HAVE_ONEDNN) && defined(__x86_64__)
    return c->value_b && c->batch == 1 && c->n % PANEL == 0 && c->k % STEP == 0 && __builtin_cpu_supports("avx512f");
#else
    (void)c;
    return false;
#endif
}

spmd_status spmd__pack_weight(spmd_ctx *ctx, const spmd__gemm_case *c, const void *b, bool bias, const float **packed)
{
    static const char key;
    const spmd__gemm_case with_panels = spmd__packed_case(c);
    bool known;
    *packed = NULL;
    if (!can_pack(c))
        return SPMD_OK;
    watched *table = spmd__device_slot(ctx, &key, watch_create, watch_destroy);
    SPMD_CHECK(table, SPMD_ENOMEM, "matmul: no memory to watch weights: %s", spmd_last_error());
    watched *w = count_use(ctx, table, c);
    if (w->before < WORTH && w->uses < WORTH)
        return SPMD_OK;
    SPMD_TRY(spmd__onednn_knows(ctx, &with_panels, bias, &known));
    if (!known)
        return SPMD_OK;
    size_t bytes = (size_t)(c->k * c->n) * sizeof(float);
    if (w->bytes < bytes) {
        spmd__free(w->panels);
        w->panels = spmd__alloc(spmd__ctx_mesh(ctx), bytes);
        w->bytes = w->panels ? bytes : 0;
        SPMD_CHECK(w->panels, SPMD_ENOMEM, "matmul: no memory to pack a weight of %lld x %lld: %s", (long long)c->k,
                   (long long)c->n, spmd_last_error());
    }
    if (!w->packed)
        (w->transposed ? pack_transposed : pack_plain)(w, b);
    w->packed = true;
    *packed = w->panels;
    return SPMD_OK;
}
