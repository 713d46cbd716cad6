/* Weights in the form that the products read, made once for many of them.
 *
 * A product of row-major matrices copies B into panels of 64 columns, every time: 6 % of the product where a step has
 * 16 of them with one weight. So the panels are kept. (With B transposed, as the backward pass has it, panels gain
 * nothing.) And a 16-bit weight that is multiplied in f32 is widened only once. Nothing about the numbers changes: the
 * same products are added in the same order (test_pack_weight compares the bits).
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
    STEP = 16    /* rows of a block in a panel (oneDNN's BA16a64b): k must be a multiple */
};

typedef struct watched {
    uint32_t value, launch;
    int64_t k, n;
    spmd_dtype dtype;
    bool transposed, packed;
    int uses, before; /* in this launch, and in the last one that had it */
    float *memory;
    size_t bytes;
} watched;

static void watch_destroy(void *slot)
{
    watched *table = slot;
    for (int i = 0; i < SLOTS; i++)
        spmd__free(table[i].memory);
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

/* A row of a panel is a piece of a row of B. */
void spmd__make_panel(spmd_dtype dtype, const void *b, int64_t k, int64_t n, int64_t first, int64_t columns, float *out)
{
    for (int64_t i = 0; i < k; i++)
        spmd__widen(dtype, spmd__element((void *)b, dtype, i * n + first), columns, out + i * columns);
}

/* Only where the products use these panels; c: the product in f32. */
static bool has_panels(const spmd__gemm_case *c)
{
    return !c->transpose_b && c->n % SPMD__PANEL == 0 && c->k % STEP == 0 &&
           (spmd__onednn_reads_panels() || spmd__panels_pay(c));
}

static spmd_status take_memory(spmd_ctx *ctx, watched *w)
{
    size_t bytes = (size_t)(w->k * w->n) * sizeof *w->memory;
    if (w->bytes >= bytes)
        return SPMD_OK;
    spmd__free(w->memory);
    w->memory = spmd__alloc(spmd__ctx_mesh(ctx), bytes);
    w->bytes = w->memory ? bytes : 0;
    SPMD_CHECK(w->memory, SPMD_ENOMEM, "matmul: no memory to pack a weight of %lld x %lld: %s", (long long)w->k,
               (long long)w->n, spmd_last_error());
    return SPMD_OK;
}

spmd_status spmd__pack_weight(spmd_ctx *ctx, const spmd__gemm_case *c, const void *b, bool bias, spmd__gemm_case *wide,
                              const float **packed)
{
    static const char key;
    *packed = NULL;
    *wide = *c;
    wide->dtype = wide->out_dtype = SPMD_F32;
    spmd__gemm_case with_panels = *wide;
    with_panels.packed_b = has_panels(wide);
    if (!c->value_b || c->batch > 1 || !(with_panels.packed_b || c->dtype != SPMD_F32))
        return SPMD_OK;
    watched *table = spmd__device_slot(ctx, &key, watch_create, watch_destroy);
    SPMD_CHECK(table, SPMD_ENOMEM, "matmul: no memory to watch weights: %s", spmd_last_error());
    watched *w = count_use(ctx, table, c);
    if (w->before < WORTH && w->uses < WORTH)
        return SPMD_OK;
    bool known = true;
    if (with_panels.packed_b)
        SPMD_TRY(spmd__panels_pay(&with_panels) ? spmd__panels_known(ctx, &with_panels, bias, &known)
                                                : spmd__onednn_knows(ctx, &with_panels, bias, &known));
    if (!known)
        return SPMD_OK;
    SPMD_TRY(take_memory(ctx, w));
    for (int64_t j = 0; !w->packed && with_panels.packed_b && j < c->n; j += SPMD__PANEL)
        spmd__make_panel(c->dtype, b, c->k, c->n, j, SPMD__PANEL, w->memory + j * c->k);
    if (!w->packed && !with_panels.packed_b)
        spmd__widen(w->dtype, b, w->k * w->n, w->memory);
    w->packed = true;
    *wide = with_panels;
    *packed = w->memory;
    return SPMD_OK;
}
