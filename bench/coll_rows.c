/* One row a collective. Inputs are small integers, so every result has one right value, whatever the order of sums. */
#include "bench/coll_rows.h"
#include "spmd/half.h"
#include <stdio.h>
#include <string.h>

double coll_input(spmd_dtype dtype, int group, int place, int64_t i)
{
    int64_t x = (7 * i + i / 13 + 3 * place + 2 * group) % 5; /* neighbours in every direction differ */
    return (double)(dtype == SPMD_BOOL ? x & 1 : x);
}

void coll_put(spmd_dtype dtype, void *data, int64_t i, double x)
{
    switch (dtype) {
    case SPMD_F32:
        ((float *)data)[i] = (float)x;
        break;
    case SPMD_BF16:
        ((uint16_t *)data)[i] = spmd__f32_to_bf16((float)x);
        break;
    case SPMD_F16:
        ((uint16_t *)data)[i] = spmd__f32_to_f16((float)x);
        break;
    case SPMD_I32:
        ((int32_t *)data)[i] = (int32_t)x;
        break;
    case SPMD_I64:
        ((int64_t *)data)[i] = (int64_t)x;
        break;
    default: /* one byte; the low bits of the whole number are its wrapped value, signed or not */
        ((uint8_t *)data)[i] = (uint8_t)(int64_t)x;
    }
}

int64_t coll_count_wrong(const coll_row *row, const coll_check *check, const spmd_view *out)
{
    size_t size = spmd_dtype_size(out->dtype);
    int64_t wrong = 0, count = spmd_view_count(out);
    unsigned char want[8];
    for (int64_t i = 0; i < count; i++) {
        coll_put(out->dtype, want, 0, row->expect(check, i));
        wrong += memcmp(want, (const char *)out->data + (size_t)i * size, size) != 0;
    }
    return wrong;
}

static double at(const coll_check *c, int place, int64_t i)
{
    return coll_input(c->dtype, c->group, place, i);
}

static double twice_rest(int n) /* every byte goes out once to be added, and the result once to the others */
{
    return 2.0 * (n - 1) / n;
}

static double four_times_rest(int n) /* of two tensors */
{
    return 2 * twice_rest(n);
}

static double rest(int n) /* all but the shard's own part crosses */
{
    return (double)(n - 1) / n;
}

static double whole(int n)
{
    return n > 1 ? 1 : 0;
}

static double sum_of(const coll_check *c, int64_t i)
{
    double sum = 0;
    for (int k = 0; k < c->n; k++)
        sum += at(c, k, i);
    return sum;
}

static double mean_of(const coll_check *c, int64_t i)
{
    return (double)((float)sum_of(c, i) / (float)c->n);
}

static double largest_of(const coll_check *c, int64_t i)
{
    double largest = at(c, 0, i);
    for (int k = 1; k < c->n; k++)
        largest = at(c, k, i) > largest ? at(c, k, i) : largest;
    return largest;
}

static double smallest_of(const coll_check *c, int64_t i)
{
    double smallest = at(c, 0, i);
    for (int k = 1; k < c->n; k++)
        smallest = at(c, k, i) < smallest ? at(c, k, i) : smallest;
    return smallest;
}

static double gathered(const coll_check *c, int64_t i)
{
    return at(c, (int)(i / c->cut), i % c->cut);
}

static double own_part_of_sum(const coll_check *c, int64_t i)
{
    return sum_of(c, c->place * c->cut + i);
}

static double exchanged(const coll_check *c, int64_t i)
{
    return at(c, (int)(i / c->cut), c->place * c->cut + i % c->cut);
}

static double from_left(const coll_check *c, int64_t i)
{
    return at(c, (c->place + c->n - 1) % c->n, i);
}

static double from_last(const coll_check *c, int64_t i)
{
    return at(c, c->n - 1, i);
}

static double reversed(const coll_check *c, int64_t i)
{
    return at(c, c->n - 1 - c->place, i);
}

static double sum_of_pair(const coll_check *c, int64_t i)
{
    int first = c->place / 2 * 2;
    return at(c, first, i) + (first + 1 < c->n ? at(c, first + 1, i) : 0);
}

static spmd_status run_psum(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, int n, spmd_tensor *out)
{
    (void)n;
    return spmd_psum(ctx, in, axes, out);
}

static spmd_status run_pmean(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, int n, spmd_tensor *out)
{
    (void)n;
    return spmd_pmean(ctx, in, axes, out);
}

static spmd_status run_pmax(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, int n, spmd_tensor *out)
{
    (void)n;
    return spmd_pmax(ctx, in, axes, out);
}

static spmd_status run_pmin(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, int n, spmd_tensor *out)
{
    (void)n;
    return spmd_pmin(ctx, in, axes, out);
}

static spmd_status run_all_gather(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, int n, spmd_tensor *out)
{
    (void)n;
    return spmd_all_gather(ctx, in, axes, &(spmd_gather_opts){.tiled = true}, out);
}

static spmd_status run_psum_scatter(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, int n, spmd_tensor *out)
{
    (void)n;
    return spmd_psum_scatter(ctx, in, axes, &(spmd_scatter_opts){.tiled = true}, out);
}

static spmd_status run_all_to_all(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, int n, spmd_tensor *out)
{
    (void)n;
    return spmd_all_to_all(ctx, in, axes, &(spmd_exchange_opts){.tiled = true}, out);
}

/* A ring: everybody sends to the right. */
static spmd_status run_ppermute(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, int n, spmd_tensor *out)
{
    int pairs[SPMD_MAX_DEVICES][2];
    for (int k = 0; k < n; k++) {
        pairs[k][0] = k;
        pairs[k][1] = (k + 1) % n;
    }
    return spmd_ppermute(ctx, in, axes, pairs, n, out);
}

/* From the last shard: one that takes the first by mistake is found out. */
static spmd_status run_pbroadcast(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, int n, spmd_tensor *out)
{
    return spmd_pbroadcast(ctx, in, axes, n - 1, out);
}

/* Backwards: the last shard's goes to the first. */
static spmd_status run_pshuffle(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, int n, spmd_tensor *out)
{
    int source[SPMD_MAX_DEVICES];
    for (int k = 0; k < n; k++)
        source[k] = n - 1 - k;
    return spmd_pshuffle(ctx, in, axes, source, n, out);
}

/* The tensor twice, which can only be read then; the size is that of one. */
static spmd_status run_list(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, int n, spmd_tensor *out)
{
    (void)n;
    spmd_tensor both[2] = {*in, *in};
    SPMD_TRY(spmd_psum_list(ctx, both, 2, axes, both));
    *out = both[0];
    return SPMD_OK;
}

/* By pairs of neighbours; an odd one stays alone. */
static spmd_status run_groups(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, int n, spmd_tensor *out)
{
    char groups[4 * SPMD_MAX_DEVICES] = "";
    for (int k = 0, used = 0; k < n; k++)
        used += snprintf(groups + used, sizeof groups - (size_t)used, "%s%d", !k ? "" : k % 2 ? "," : ";", k);
    return spmd_psum_groups(ctx, in, axes, groups, out);
}

const coll_row coll_rows[] = {
    {"psum", twice_rest, "2(n-1)/n", .reduces = true, .in_place = true, .run = run_psum, .expect = sum_of},
    {"pmean", twice_rest, "2(n-1)/n", .reduces = true, .in_place = true, .run = run_pmean, .expect = mean_of},
    {"pmax", twice_rest, "2(n-1)/n", .reduces = true, .in_place = true, .run = run_pmax, .expect = largest_of},
    {"pmin", twice_rest, "2(n-1)/n", .reduces = true, .in_place = true, .run = run_pmin, .expect = smallest_of},
    {"all_gather", rest, "(n-1)/n", .cuts = true, .in_cut = true, .run = run_all_gather, .expect = gathered},
    {"psum_scatter", rest, "(n-1)/n", .cuts = true, .out_cut = true, .reduces = true, .run = run_psum_scatter,
     .expect = own_part_of_sum},
    {"all_to_all", rest, "(n-1)/n", .cuts = true, .run = run_all_to_all, .expect = exchanged},
    {"ppermute", whole, "1", .run = run_ppermute, .expect = from_left},
    {"pbroadcast", whole, "1", .run = run_pbroadcast, .expect = from_last},
    {"pshuffle", whole, "1", .run = run_pshuffle, .expect = reversed},
    {"ragged_all_to_all", rest, "(n-1)/n", .cuts = true, .run = coll_run_ragged, .expect = exchanged},
    {"psum_list", four_times_rest, "4(n-1)/n", .reduces = true, .run = run_list, .expect = sum_of},
    {"psum_groups", whole, "1", .reduces = true, .in_place = true, .run = run_groups, .expect = sum_of_pair},
};
const int coll_nrows = sizeof coll_rows / sizeof *coll_rows;

const coll_row *coll_find(const char *name, size_t length)
{
    for (int k = 0; k < coll_nrows; k++)
        if (strlen(coll_rows[k].name) == length && memcmp(coll_rows[k].name, name, length) == 0)
            return &coll_rows[k];
    return NULL;
}
