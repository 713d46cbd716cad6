/* Products by panels of B's columns, for oneDNN 2.x on x86 processors without AVX-512.
 *
 * For few rows of A its kernels there read B where it lies. Where B's rows are 2 KiB and longer, the elements of a
 * column fall into few sets of the first-level cache, and into a page each: half the speed is lost (measured: from 512
 * columns on, up to 320 rows of A; with more rows the library copies B itself). A panel of 64 columns that was copied
 * is read at full speed, and the copy is a few percent of the product; a weight that is used often is packed once
 * (pack_weight.c). oneDNN 3 has other kernels, which nobody has measured here. */
#include "kernels/matmul/gemm.h"
#include "kernels/workspace.h"

enum { LEAST_ROWS = 64, MOST_ROWS = 320, LEAST_COLUMNS = 512 };

bool spmd__panels_pay(const spmd__gemm_case *c)
{
    return spmd__onednn_reads_in_place() && c->batch == 1 && !c->transpose_a && !c->transpose_b && c->m >= LEAST_ROWS &&
           c->m < MOST_ROWS && c->n >= LEAST_COLUMNS;
}

static spmd__gemm_case panel_case(const spmd__gemm_case *c, int64_t columns)
{
    spmd__gemm_case panel = *c;
    panel.n = columns;
    panel.out_row = c->n;
    panel.packed_b = false; /* within a panel rows follow each other */
    return panel;
}

spmd_status spmd__panels_known(spmd_ctx *ctx, const spmd__gemm_case *c, bool bias, bool *known)
{
    const spmd__gemm_case panel = panel_case(c, SPMD__PANEL), last = panel_case(c, c->n % SPMD__PANEL);
    SPMD_TRY(spmd__onednn_knows(ctx, &panel, bias, known));
    return *known && last.n ? spmd__onednn_knows(ctx, &last, bias, known) : SPMD_OK;
}

spmd_status spmd__gemm_panels(spmd_ctx *ctx, const spmd__gemm_case *c, const float *a, const float *b,
                              const float *bias, float *out, bool *done)
{
    float *copy = NULL;
    SPMD_TRY(spmd__panels_known(ctx, c, bias != NULL, done));
    if (!*done)
        return SPMD_OK;
    if (!c->packed_b && !(copy = spmd__workspace(ctx, SPMD__SPACE_PANEL, (size_t)(c->k * SPMD__PANEL) * sizeof *copy)))
        return SPMD_ENOMEM;
    for (int64_t j = 0; j < c->n; j += SPMD__PANEL) {
        int64_t columns = c->n - j < SPMD__PANEL ? c->n - j : SPMD__PANEL;
        const spmd__gemm_case panel = panel_case(c, columns);
        if (copy)
            spmd__make_panel(SPMD_F32, b, c->k, c->n, j, columns, copy);
        SPMD_TRY(spmd__gemm_onednn(ctx, &panel, a, copy ? copy : b + j * c->k, bias ? bias + j : NULL, out + j, done));
    }
    return SPMD_OK;
}
