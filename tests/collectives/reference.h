/* Every collective once more, by its definition: one thread, loops over mesh coordinates, one element at a time.
 *
 * A case names a mesh, axes and options; every device gets its own block of small integers, of which all sums are exact
 * in every dtype. Global arrays are the devices' blocks one below the other: dimension 0 is cut over all mesh axes. */
#ifndef TESTS_COLLECTIVES_REFERENCE_H
#define TESTS_COLLECTIVES_REFERENCE_H

#include "spmd/host/meet.h"
#include "tests/collectives/model.h"

typedef enum kind { PSUM, PMEAN, PMAX, PMIN, GATHER, SCATTER, EXCHANGE, PERMUTE, BROADCAST } kind;

typedef struct coll_case {
    kind kind;
    int dim, concat;
    bool tiled, empty, large; /* empty: blocks without elements; large: too many for mail */
    spmd_to to;
    const char *mesh, *axes, *groups;
} coll_case;

/* The permutation of the tests: a ring, open at the end if there are more than two. */
static inline int permute_source(int destination, int n)
{
    return destination == 0 && n > 2 ? -1 : (destination + n - 1) % n;
}

static inline double block_at(const spmd_value *in, int devices, int device, const int64_t *index)
{
    int64_t at = device * (in->shape[0] / devices) + index[0];
    for (int d = 1; d < in->rank; d++)
        at = at * in->shape[d] + index[d];
    return spmd_value_at(in, at);
}

static inline void index_remove(int64_t *index, int dim)
{
    memmove(&index[dim], &index[dim + 1], (size_t)(SPMD_MAX_RANK - 1 - dim) * sizeof *index);
}

static inline void index_insert(int64_t *index, int dim, int64_t i)
{
    memmove(&index[dim + 1], &index[dim], (size_t)(SPMD_MAX_RANK - 1 - dim) * sizeof *index);
    index[dim] = i;
}

static inline double fold_at(const coll_case *c, const spmd_value *in, int devices, const int *members, int n,
                             const int64_t *index)
{
    double result = block_at(in, devices, members[0], index);
    for (int k = 1; k < n; k++) {
        double x = block_at(in, devices, members[k], index);
        result = c->kind == PMAX ? fmax(result, x) : c->kind == PMIN ? fmin(result, x) : result + x;
    }
    return c->kind == PMEAN ? result / n : result;
}

static inline int case_members(const coll_case *c, const model *m, int device, int *members, int *me)
{
    return model_narrow(c->groups, members, me, model_group(m, c->axes, device, members, me));
}

/* Element `index` of device's output block. block: the input block's shape. */
static inline double reference_at(const coll_case *c, const model *m, const spmd_value *in, const int64_t *block,
                                  int device, const int64_t *output_index)
{
    int members[SPMD_MAX_DEVICES], me = 0, n = case_members(c, m, device, members, &me), from;
    int64_t index[SPMD_MAX_RANK];
    memcpy(index, output_index, sizeof index);
    switch (c->kind) {
    case GATHER:
        from = (int)(c->tiled ? index[c->dim] / block[c->dim] : index[c->dim]);
        if (c->tiled)
            index[c->dim] %= block[c->dim];
        else
            index_remove(index, c->dim);
        return block_at(in, m->devices, members[from], index);
    case SCATTER:
        if (c->tiled)
            index[c->dim] += me * (block[c->dim] / n);
        else
            index_insert(index, c->dim, me);
        return fold_at(c, in, m->devices, members, n, index);
    case EXCHANGE: {
        int64_t piece = c->concat == c->dim ? block[c->dim] / n : block[c->concat];
        from = (int)(c->tiled ? index[c->concat] / piece : index[c->concat]);
        if (c->tiled) {
            index[c->concat] %= piece;
            index[c->dim] += me * (block[c->dim] / n);
        } else {
            index_remove(index, c->concat);
            index_insert(index, c->dim, me);
        }
        return block_at(in, m->devices, members[from], index);
    }
    case PERMUTE:
        from = permute_source(me, n);
        return from < 0 ? 0 : block_at(in, m->devices, members[from], index);
    case BROADCAST:
        return block_at(in, m->devices, members[n - 1], index);
    default:
        return fold_at(c, in, m->devices, members, n, index);
    }
}

static inline spmd_dtype reference_dtype(kind op, spmd_dtype dtype)
{
    if (op == PMEAN)
        return spmd_dtype_is_float(dtype) ? dtype : SPMD_F32;
    return dtype == SPMD_BOOL && (op == PSUM || op == SCATTER) ? SPMD_I32 : dtype;
}

/* The input block's shape for n members, and the output block's, as the contracts say. Returns the output's rank. */
static inline int case_shapes(const coll_case *c, int n, int64_t in[3], int64_t out[4])
{
    bool cuts = c->kind == SCATTER || c->kind == EXCHANGE;
    int rank = 3;
    in[0] = 2, in[1] = 3, in[2] = 2;
    if (cuts)
        in[c->dim] = c->tiled ? 2 * n : n;
    if (c->large)
        in[c->dim == 2 ? 1 : 2] *= SPMD_MAIL_BYTES / 40; /* of 12 floats or more */
    if (c->empty)
        in[cuts && !c->tiled && c->dim == 0] = 0;
    memcpy(out, in, 3 * sizeof *in);
    if (cuts && c->tiled) {
        out[c->dim] /= n;
    } else if (cuts) {
        memmove(&out[c->dim], &out[c->dim + 1], (size_t)(2 - c->dim) * sizeof *out);
        rank--;
    }
    int grown = c->kind == GATHER ? c->dim : c->concat;
    if (c->kind != GATHER && c->kind != EXCHANGE)
        return rank;
    if (c->tiled) {
        out[grown] *= n;
        return rank;
    }
    memmove(&out[grown + 1], &out[grown], (size_t)(rank - grown) * sizeof *out);
    out[grown] = n;
    return rank + 1;
}

/* All devices' outputs, one below the other. */
static inline spmd_value reference(const coll_case *c, const model *m, const spmd_value *in, const int64_t *block,
                                   int rank, const int64_t *shape)
{
    spmd_value want = spmd_value_zeros(reference_dtype(c->kind, in->dtype), NULL, rank, shape);
    for (int64_t i = 0, count = spmd_value_count(&want); i < count; i++) {
        int64_t index[SPMD_MAX_RANK] = {0}, rest = i, rows = shape[0] / m->devices;
        for (int d = rank - 1; d >= 0; rest /= shape[d], d--)
            index[d] = rest % shape[d];
        int device = (int)(index[0] / rows);
        index[0] %= rows;
        spmd_value_set(&want, i, reference_at(c, m, in, block, device, index));
    }
    return want;
}

static inline spmd_status run_permute(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, spmd_tensor *out)
{
    int n, npairs = 0, pairs[SPMD_MAX_DEVICES][2];
    SPMD_TRY(spmd_axis_size(ctx, axes, &n));
    for (int to = 0; to < n; to++)
        if (permute_source(to, n) >= 0) {
            pairs[npairs][0] = permute_source(to, n);
            pairs[npairs++][1] = to;
        }
    return spmd_ppermute(ctx, in, axes, (const int(*)[2])pairs, npairs, out);
}

static inline spmd_status run_case(spmd_ctx *ctx, const coll_case *c, const spmd_tensor *in, spmd_tensor *out)
{
    switch (c->kind) {
    case PSUM:
        return c->groups ? spmd_psum_groups(ctx, in, c->axes, c->groups, out) : spmd_psum(ctx, in, c->axes, out);
    case PMEAN:
        return c->groups ? spmd_pmean_groups(ctx, in, c->axes, c->groups, out) : spmd_pmean(ctx, in, c->axes, out);
    case PMAX:
        return c->groups ? spmd_pmax_groups(ctx, in, c->axes, c->groups, out) : spmd_pmax(ctx, in, c->axes, out);
    case PMIN:
        return c->groups ? spmd_pmin_groups(ctx, in, c->axes, c->groups, out) : spmd_pmin(ctx, in, c->axes, out);
    case GATHER:
        return spmd_all_gather(ctx, in, c->axes, &(spmd_gather_opts){c->dim, c->tiled, c->to, c->groups}, out);
    case SCATTER:
        return spmd_psum_scatter(ctx, in, c->axes, &(spmd_scatter_opts){c->dim, c->tiled, c->groups}, out);
    case EXCHANGE:
        return spmd_all_to_all(ctx, in, c->axes, &(spmd_exchange_opts){c->dim, c->concat, c->tiled, c->groups}, out);
    case PERMUTE:
        return run_permute(ctx, in, c->axes, out);
    default: {
        int n;
        SPMD_TRY(spmd_axis_size(ctx, c->axes, &n));
        return spmd_pbroadcast(ctx, in, c->axes, n - 1, out);
    }
    }
}

static inline spmd_status run_dtypes(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    for (int dtype = 0; dtype < SPMD_DTYPE_COUNT; dtype++)
        SPMD_TRY(run_case(ctx, user, &in[dtype], &out[dtype]));
    return SPMD_OK;
}

/* The case in all dtypes, in one launch, against the reference: not one element may differ. */
static inline void check_case(const coll_case *c)
{
    model m = model_make(c->mesh);
    char spec[64];
    int members[SPMD_MAX_DEVICES], me = 0, n = case_members(c, &m, 0, members, &me);
    int64_t block[3], input[3], output[4];
    int rank = case_shapes(c, n, block, output);
    memcpy(input, block, sizeof input);
    input[0] *= m.devices;
    output[0] *= m.devices;
    spmd_value in[SPMD_DTYPE_COUNT], out[SPMD_DTYPE_COUNT];
    for (int dtype = 0; dtype < SPMD_DTYPE_COUNT; dtype++) {
        in[dtype] = spmd_value_exact((spmd_dtype)dtype, model_spec(&m, spec), 3, input, (unsigned)dtype + 1);
        out[dtype] = (spmd_value){.spec = spec};
    }
    ck_spmd_ok(spmd_test_run(c->mesh, run_dtypes, (void *)c, SPMD_DTYPE_COUNT, in, SPMD_DTYPE_COUNT, out));
    for (int dtype = 0; dtype < SPMD_DTYPE_COUNT; dtype++) {
        spmd_value want = reference(c, &m, &in[dtype], block, rank, output);
        int64_t wrong = spmd_value_count_wrong(&out[dtype], &want);
        ck_assert_msg(wrong == 0,
                      "kind %d dim %d concat %d tiled %d empty %d large %d on %s over %s in %s, %s: %lld of %lld wrong",
                      c->kind, c->dim, c->concat, c->tiled, c->empty, c->large, c->mesh, c->axes,
                      c->groups ? c->groups : "one", spmd_dtype_name((spmd_dtype)dtype), (long long)wrong,
                      (long long)spmd_value_count(&want));
        spmd_value_free(&want);
    }
    spmd_values_free(in, SPMD_DTYPE_COUNT);
    spmd_values_free(out, SPMD_DTYPE_COUNT);
}

#endif
