/* ragged_all_to_all with equal pieces: what it costs more than all_to_all is the price of its tables. */
#include "bench/coll_rows.h"
#include "spmd/op.h"

enum { INPUT_OFFSETS, SEND_SIZES, OUTPUT_OFFSETS, RECV_SIZES, N_TABLES };

typedef struct pieces {
    int n;
    int32_t rows; /* of a piece */
    spmd_custom_op tables;
} pieces;

static spmd_status tables_shape(const spmd_tensor *in, int nin, spmd_tensor *out, int nout, void *user)
{
    (void)in, (void)nin;
    const pieces *p = user;
    for (int k = 0; k < nout; k++) {
        out[k].dtype = SPMD_I32;
        out[k].rank = 1;
        out[k].shape[0] = p->n;
    }
    return SPMD_OK;
}

/* in[0]: this shard's index */
static spmd_status tables_host(const spmd_view *in, int nin, const spmd_view *out, int nout, void *user)
{
    (void)nin, (void)nout;
    const pieces *p = user;
    int32_t me = *(const int32_t *)in[0].data, *table[N_TABLES];
    for (int k = 0; k < N_TABLES; k++)
        table[k] = out[k].data;
    for (int k = 0; k < p->n; k++) {
        table[INPUT_OFFSETS][k] = k * p->rows;
        table[OUTPUT_OFFSETS][k] = me * p->rows;
        table[SEND_SIZES][k] = table[RECV_SIZES][k] = p->rows;
    }
    return SPMD_OK;
}

spmd_status coll_run_ragged(spmd_ctx *ctx, const spmd_tensor *in, const char *axes, int n, spmd_tensor *out)
{
    spmd_tensor me, t[N_TABLES];
    pieces *p = spmd__scratch(ctx, sizeof *p); /* lives as long as the launch */
    if (!p)
        return SPMD_ENOMEM;
    *p = (pieces){.n = n, .rows = (int32_t)(spmd_count(in) / n)};
    p->tables = (spmd_custom_op){.name = "tables", .shape = tables_shape, .host = tables_host, .user = p};
    SPMD_TRY(spmd_axis_index(ctx, axes, &me));
    SPMD_TRY(spmd_custom(ctx, &p->tables, &me, 1, t, N_TABLES));
    return spmd_ragged_all_to_all(ctx, in, in, &t[INPUT_OFFSETS], &t[SEND_SIZES], &t[OUTPUT_OFFSETS], &t[RECV_SIZES],
                                  axes, out);
}
