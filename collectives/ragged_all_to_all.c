/* ragged_all_to_all: rows of one block go to the shards in pieces of any size.
 *
 * It is linear in both tensors, out = keep(into) + send(operand), and so are its transposes, two private ops: keep,
 * which clears the rows that are received, and ragged_return, which brings cotangents of rows back to where the rows
 * came from (added there, since one row may be sent to many). All three take the same tables; only the first checks
 * them. */
#include "collectives/ragged.h"
#include "spmd/linear.h"
#include <string.h>

enum { INTO = SPMD_RAGGED_INTO, OPERAND = SPMD_RAGGED_OPERAND, TABLES = SPMD_RAGGED_TABLES, N_TABLES = 4 };
enum { INPUT_OFFSETS, SEND_SIZES, OUTPUT_OFFSETS, RECV_SIZES }; /* the tables among the inputs */
static const char *const table_names[N_TABLES] = {"input_offsets", "send_sizes", "output_offsets", "recv_sizes"};

/* What the others read: the rows to take, and the tables. */
typedef struct ragged_post {
    const void *rows, *table[N_TABLES];
} ragged_post;

/* Entry k of a table; `data` is a peer's, of the same dtype as ours. */
static int64_t entry(const spmd_kernel_args *args, int table, const void *data, int k)
{
    return args->in[TABLES + table].dtype == SPMD_I32 ? ((const int32_t *)data)[k] : ((const int64_t *)data)[k];
}

static int64_t own_entry(const spmd_kernel_args *args, int table, int k)
{
    return entry(args, table, args->in[TABLES + table].data, k);
}

static size_t row_bytes(const spmd_view *v)
{
    return (size_t)spmd__coll_run(v->shape, 1, v->rank) * spmd_dtype_size(v->dtype);
}

static spmd_status check_tables(const spmd_ctx *ctx, const spmd_call *call)
{
    int n = spmd__axes_size(spmd_ctx_mesh(ctx), &call->attr.axes);
    char text[96];
    for (int k = 0; k < N_TABLES; k++) {
        const spmd_tensor *t = &call->in[TABLES + k];
        SPMD_CHECK(t->dtype == SPMD_I32 || t->dtype == SPMD_I64, SPMD_EDTYPE,
                   "ragged_all_to_all: %s is %s; expected i32 or i64", table_names[k], spmd__shape_text(t, text));
        SPMD_CHECK(t->rank == 1 && t->shape[0] == n, SPMD_ESHAPE,
                   "ragged_all_to_all: %s is %s; expected one entry a shard, [%d]", table_names[k],
                   spmd__shape_text(t, text), n);
    }
    return SPMD_OK;
}

/* The output is like one of the two tensors. */
static spmd_status shape(spmd_ctx *ctx, spmd_call *call, int like)
{
    const spmd_tensor *into = &call->in[INTO], *operand = &call->in[OPERAND];
    char one[96], two[96];
    for (int k = 0; k < call->nin; k++)
        SPMD_TRY(spmd__coll_whole(ctx, call->op->name, &call->in[k], ~0u));
    bool fits = operand->dtype == into->dtype && operand->rank == into->rank && into->rank > 0;
    for (int d = 1; fits && d < into->rank; d++)
        fits = operand->shape[d] == into->shape[d];
    SPMD_CHECK(fits, SPMD_ESHAPE,
               "ragged_all_to_all of %s into %s: expected equal dtypes and shapes, but for the number of rows",
               spmd__shape_text(operand, one), spmd__shape_text(into, two));
    SPMD_TRY(check_tables(ctx, call));
    spmd__same_shape(&call->out[0], &call->in[like]);
    call->out[0].vary |= call->attr.axes.mask;
    return SPMD_OK;
}

static spmd_status shape_into(spmd_ctx *ctx, spmd_call *call)
{
    return shape(ctx, call, INTO);
}

static spmd_status shape_operand(spmd_ctx *ctx, spmd_call *call)
{
    return shape(ctx, call, OPERAND);
}

static spmd_status open_tables(spmd_ctx *ctx, const char *op, const spmd_kernel_args *args, const void *rows,
                               const spmd_ragged_moves *moves, spmd_coll *coll)
{
    ragged_post *post = moves->memory(ctx, sizeof *post);
    if (!post)
        return SPMD_ENOMEM;
    post->rows = rows;
    for (int k = 0; k < N_TABLES; k++)
        post->table[k] = args->in[TABLES + k].data;
    return moves->open(ctx, op, args, &(spmd_post){post, NULL}, coll);
}

/* [offset, offset + size) must be rows. */
static spmd_status check_range(int from, int to, const char *offsets, const char *sizes, int64_t offset, int64_t size,
                               int64_t rows)
{
    SPMD_CHECK(offset >= 0 && size >= 0 && size <= rows && offset <= rows - size, SPMD_EINVAL,
               "ragged_all_to_all from shard %d to %d: %s %lld and %s %lld; expected a range of the %lld rows", from,
               to, offsets, (long long)offset, sizes, (long long)size, (long long)rows);
    return SPMD_OK;
}

/* Where the rows from place k go in this shard's block. */
typedef struct range {
    int64_t first, size;
} range;

static range received(const spmd_kernel_args *args, const spmd_coll *coll, int k)
{
    const ragged_post *post = coll->posts[k].data;
    return (range){entry(args, OUTPUT_OFFSETS, post->table[OUTPUT_OFFSETS], coll->me),
                   entry(args, SEND_SIZES, post->table[SEND_SIZES], coll->me)};
}

static spmd_status check_received(const spmd_kernel_args *args, const spmd_coll *coll)
{
    range all[SPMD_MAX_DEVICES];
    for (int k = 0; k < coll->n; k++) {
        all[k] = received(args, coll, k);
        int64_t expected = own_entry(args, RECV_SIZES, k);
        SPMD_CHECK(all[k].size == expected, SPMD_EINVAL,
                   "ragged_all_to_all from shard %d to %d: send_sizes %lld there, recv_sizes %lld here; expected the "
                   "same",
                   k, coll->me, (long long)all[k].size, (long long)expected);
        SPMD_TRY(
            check_range(k, coll->me, "output_offsets", "send_sizes", all[k].first, all[k].size, args->out[0].shape[0]));
        for (int other = 0; other < k; other++)
            SPMD_CHECK(all[k].size == 0 || all[other].size == 0 || all[k].first >= all[other].first + all[other].size ||
                           all[other].first >= all[k].first + all[k].size,
                       SPMD_EINVAL,
                       "ragged_all_to_all to shard %d: the rows from shards %d and %d overlap (output_offsets %lld and "
                       "%lld)",
                       coll->me, other, k, (long long)all[other].first, (long long)all[k].first);
    }
    return SPMD_OK;
}

spmd_status spmd__ragged(spmd_ctx *ctx, const spmd_kernel_args *args, const spmd_ragged_moves *moves)
{
    const spmd_view *into = &args->in[INTO], *operand = &args->in[OPERAND], *out = &args->out[0];
    int n = (int)args->in[TABLES].shape[0], me = spmd__axes_index(ctx, &args->attr->axes);
    for (int k = 0; k < n; k++)
        SPMD_TRY(check_range(me, k, "input_offsets", "send_sizes", own_entry(args, INPUT_OFFSETS, k),
                             own_entry(args, SEND_SIZES, k), operand->shape[0]));
    spmd_coll coll;
    SPMD_TRY(open_tables(ctx, "ragged_all_to_all", args, operand->data, moves, &coll));
    SPMD_TRY(check_received(args, &coll));
    size_t row = row_bytes(out);
    if (out->data != into->data)
        SPMD_TRY(moves->copy(ctx, out->data, into->data, (size_t)out->shape[0] * row));
    for (int k = 0; k < n; k++) {
        const ragged_post *post = coll.posts[k].data;
        range r = received(args, &coll, k);
        size_t first = (size_t)entry(args, INPUT_OFFSETS, post->table[INPUT_OFFSETS], coll.me);
        SPMD_TRY(moves->copy(ctx, (char *)out->data + (size_t)r.first * row, (const char *)post->rows + first * row,
                             (size_t)r.size * row));
    }
    return moves->close(ctx, &coll);
}

spmd_status spmd__ragged_keep(spmd_ctx *ctx, const spmd_kernel_args *args, const spmd_ragged_moves *moves)
{
    const spmd_view *in = &args->in[INTO], *out = &args->out[0];
    size_t row = row_bytes(out);
    spmd_coll coll;
    SPMD_TRY(open_tables(ctx, "ragged_keep", args, NULL, moves, &coll));
    SPMD_TRY(moves->copy(ctx, out->data, in->data, (size_t)out->shape[0] * row));
    for (int k = 0; k < coll.n; k++) {
        range r = received(args, &coll, k);
        SPMD_TRY(moves->clear(ctx, (char *)out->data + (size_t)r.first * row, (size_t)r.size * row));
    }
    return moves->close(ctx, &coll);
}

spmd_status spmd__ragged_return(spmd_ctx *ctx, const spmd_kernel_args *args, const spmd_ragged_moves *moves)
{
    const spmd_view *in = &args->in[INTO], *out = &args->out[0];
    size_t row = row_bytes(out);
    spmd_coll coll;
    SPMD_TRY(open_tables(ctx, "ragged_return", args, in->data, moves, &coll));
    SPMD_TRY(moves->clear(ctx, out->data, (size_t)out->shape[0] * row));
    for (int k = 0; k < coll.n; k++) {
        const ragged_post *post = coll.posts[k].data;
        void *dst = (char *)out->data + (size_t)own_entry(args, INPUT_OFFSETS, k) * row;
        const void *more = (const char *)post->rows + (size_t)own_entry(args, OUTPUT_OFFSETS, k) * row;
        int64_t count = own_entry(args, SEND_SIZES, k) * spmd__coll_run(out->shape, 1, out->rank);
        SPMD_TRY(moves->add(ctx, dst, more, out->dtype, count));
    }
    return moves->close(ctx, &coll);
}

static spmd_status host_copy(spmd_ctx *ctx, void *to, const void *from, size_t bytes)
{
    (void)ctx;
    spmd__copy(to, from, bytes);
    return SPMD_OK;
}

static spmd_status host_clear(spmd_ctx *ctx, void *at, size_t bytes)
{
    (void)ctx;
    if (bytes)
        memset(at, 0, bytes);
    return SPMD_OK;
}

static spmd_status host_add(spmd_ctx *ctx, void *to, const void *more, spmd_dtype dtype, int64_t count)
{
    (void)ctx;
    spmd_fold fold = {SPMD_REDUCE_SUM, dtype, dtype, 1, false};
    spmd__fold(&fold, (const void *[]){to, more}, 2, &to, 1, count);
    return SPMD_OK;
}

static const spmd_ragged_moves on_host = {.memory = spmd__scratch,
                                          .open = spmd__coll_open,
                                          .close = spmd__coll_close,
                                          .copy = host_copy,
                                          .clear = host_clear,
                                          .add = host_add};

static spmd_status ragged_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return spmd__ragged(ctx, args, &on_host);
}

static spmd_status keep_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return spmd__ragged_keep(ctx, args, &on_host);
}

static spmd_status return_host(spmd_ctx *ctx, const spmd_kernel_args *args)
{
    return spmd__ragged_return(ctx, args, &on_host);
}

static spmd_status ragged_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                               spmd_tensor *gin);
static spmd_status keep_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                             spmd_tensor *gin);
static spmd_status return_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                               spmd_tensor *gin);

static const spmd_op ragged = {.name = "ragged_all_to_all",
                               .shape = shape_into,
                               .grad = ragged_grad,
                               .host = ragged_host,
                               .cuda = SPMD_CUDA_KERNEL(spmd__ragged_cuda),
                               .in_place = true, /* nobody else reads `into` */
                               .collective = true};
static const spmd_op ragged_keep = {.name = "ragged_keep",
                                    .shape = shape_into,
                                    .grad = keep_grad,
                                    .host = keep_host,
                                    .cuda = SPMD_CUDA_KERNEL(spmd__ragged_keep_cuda),
                                    .like = 1u << OPERAND,
                                    .collective = true};
static const spmd_op ragged_return = {.name = "ragged_return",
                                      .shape = shape_operand,
                                      .grad = return_grad,
                                      .host = return_host,
                                      .cuda = SPMD_CUDA_KERNEL(spmd__ragged_return_cuda),
                                      .like = 1u << OPERAND,
                                      .collective = true};

/* One of the three on two tensors and the tables of `call`. */
static spmd_status with_tables(spmd_ctx *ctx, const spmd_op *op, const spmd_call *call, const spmd_tensor *into,
                               const spmd_tensor *operand, spmd_tensor *out)
{
    spmd_tensor in[TABLES + N_TABLES] = {*into, *operand};
    memcpy(&in[TABLES], &call->in[TABLES], N_TABLES * sizeof *in);
    return spmd__emit(ctx, op, &call->attr, in, TABLES + N_TABLES, out, 1);
}

static spmd_status ragged_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                               spmd_tensor *gin)
{
    if (need[INTO])
        SPMD_TRY(with_tables(ctx, &ragged_keep, call, ct, ct, &gin[INTO]));
    if (need[OPERAND])
        SPMD_TRY(with_tables(ctx, &ragged_return, call, ct, &call->in[OPERAND], &gin[OPERAND]));
    return SPMD_OK;
}

static spmd_status keep_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                             spmd_tensor *gin)
{
    (void)need;
    return with_tables(ctx, &ragged_keep, call, ct, ct, &gin[INTO]);
}

static spmd_status return_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                               spmd_tensor *gin)
{
    (void)need;
    spmd_tensor zeros;
    SPMD_TRY(spmd__linear_fill(ctx, &call->in[INTO], 0, &zeros));
    return with_tables(ctx, &ragged, call, &zeros, ct, &gin[INTO]);
}

spmd_status(spmd_ragged_all_to_all)(spmd_ctx *ctx, const spmd_tensor *in, const spmd_tensor *into,
                                    const spmd_tensor *input_offsets, const spmd_tensor *send_sizes,
                                    const spmd_tensor *output_offsets, const spmd_tensor *recv_sizes, const char *axes,
                                    spmd_tensor *out)
{
    spmd_attr attr = {0};
    const spmd_tensor all[] = {[INTO] = *into,
                               [OPERAND] = *in,
                               [TABLES + INPUT_OFFSETS] = *input_offsets,
                               [TABLES + SEND_SIZES] = *send_sizes,
                               [TABLES + OUTPUT_OFFSETS] = *output_offsets,
                               [TABLES + RECV_SIZES] = *recv_sizes};
    SPMD_TRY(spmd__axes_parse(spmd_ctx_mesh(ctx), axes, &attr.axes));
    return spmd__emit(ctx, &ragged, &attr, all, TABLES + N_TABLES, out, 1);
}
