/* The portable matrix product: one core, f32, no library.
 *
 * The usual blocking. Both operands are packed into panels that the inner loop reads in order, which also makes the
 * four transposes one case:
 *
 *   B block [KC, NC] -> panels of NR columns: NR floats for every k     (stays in L2 while all rows of A pass)
 *   A block [MC, KC] -> panels of MR rows:    MR floats for every k     (one panel stays in L1)
 *
 * The inner tile is MR x NR sums of constant size, which compilers keep in vector registers (4 x 32 is what gcc 12 does
 * well for SSE, AVX2 and AVX-512; with 6 or 8 rows it spills). Rows and columns past the edge are packed as zeros and
 * not stored. A sum runs over k in order, in blocks of KC. */
#include "spmd/clones.h"
#include "kernels/matmul/gemm.h"
#include "kernels/workspace.h"
#include <string.h>

enum { NR = 32, MR = 4, KC = 256, MC = 64, NC = 512 };

/* One matrix operand: element (i, j) is data[i * row + j * column]. */
typedef struct matrix {
    const float *data;
    int64_t row, column;
} matrix;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Panels of `width` rows of x (of columns: hand in the transpose), `k` deep, from row i and column p on. */
static void pack(matrix x, int64_t i, int64_t rows, int64_t p, int64_t k, int width, float *to)
{
    for (int64_t panel = 0; panel < rows; panel += width) {
        int64_t full = least(width, rows - panel);
        const float *from = x.data + (i + panel) * x.row + p * x.column;
        if (full < width)
            memset(to, 0, (size_t)(width * k) * sizeof *to);
        if (x.row == 1) {
            for (int64_t q = 0; q < k; q++)
                memcpy(to + q * width, from + q * x.column, (size_t)full * sizeof *to);
        } else {
            for (int64_t r = 0; r < full; r++)
                for (int64_t q = 0; q < k; q++)
                    to[q * width + r] = from[r * x.row + q * x.column];
        }
        to += width * k;
    }
}

/* sums[MR][NR] = a panel of A times a panel of B. */
SPMD_CLONES
static void tile(const float *restrict a, const float *restrict b, int64_t k, float *restrict sums)
{
    float s[MR][NR] = {{0}};
    for (int64_t q = 0; q < k; q++)
        for (int r = 0; r < MR; r++)
            for (int j = 0; j < NR; j++)
                s[r][j] += a[q * MR + r] * b[q * NR + j];
    memcpy(sums, s, sizeof s);
}

/* Adds (or stores, the first time: with the bias) the valid part of a tile. */
static void put(const float *sums, int64_t m, int64_t n, bool add, const float *bias, float *out, int64_t stride)
{
    for (int64_t r = 0; r < m; r++) {
        const float *s = sums + r * NR;
        float *o = out + r * stride;
        if (add)
            for (int64_t j = 0; j < n; j++)
                o[j] += s[j];
        else if (bias)
            for (int64_t j = 0; j < n; j++)
                o[j] = s[j] + bias[j];
        else
            memcpy(o, s, (size_t)n * sizeof *o);
    }
}

typedef struct block {
    int64_t m, n, k;
    bool add;
    const float *bias;
    int64_t stride;
} block;

static void multiply_packed(const block *c, const float *a, const float *b, float *out)
{
    float sums[MR * NR];
    for (int64_t j = 0; j < c->n; j += NR)
        for (int64_t i = 0; i < c->m; i += MR) {
            tile(a + i * c->k, b + j * c->k, c->k, sums);
            put(sums, least(MR, c->m - i), least(NR, c->n - j), c->add, c->bias ? c->bias + j : NULL,
                out + i * c->stride + j, c->stride);
        }
}

spmd_status spmd__gemm_reference(spmd_ctx *ctx, const spmd__gemm_case *c, const float *a, const float *b,
                                 const float *bias, float *out)
{
    float *packed_b = spmd__workspace(ctx, SPMD__SPACE_MATMUL, (size_t)(KC * (NC + MC)) * sizeof *packed_b);
    SPMD_CHECK(packed_b, SPMD_ENOMEM, "matmul: no memory for packed blocks: %s", spmd_last_error());
    float *packed_a = packed_b + KC * NC;
    for (int64_t batch = 0; batch < c->batch; batch++) {
        const float *base_a = a + batch * c->m * c->k, *base_b = b + (c->share_b ? 0 : batch * c->k * c->n);
        float *base = out + batch * c->m * c->n;
        matrix am = c->transpose_a ? (matrix){base_a, 1, c->m} : (matrix){base_a, c->k, 1};
        matrix bm = c->transpose_b ? (matrix){base_b, c->k, 1} : (matrix){base_b, 1, c->n}; /* B^T, for pack */
        for (int64_t j = 0; j < c->n; j += NC)
            for (int64_t p = 0; p < c->k; p += KC) {
                block t = {.n = least(NC, c->n - j), .k = least(KC, c->k - p), .stride = c->n};
                t.add = c->accumulate || p > 0;
                t.bias = bias ? bias + j : NULL;
                pack(bm, j, t.n, p, t.k, NR, packed_b);
                for (int64_t i = 0; i < c->m; i += MC) {
                    t.m = least(MC, c->m - i);
                    pack(am, i, t.m, p, t.k, MR, packed_a);
                    multiply_packed(&t, packed_a, packed_b, base + i * c->n + j);
                }
            }
    }
    return SPMD_OK;
}
