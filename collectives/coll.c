/* What the collectives share: the two meetings around every transfer, and small helpers for states and shapes. */
#include "collectives/coll.h"
#include "spmd/ctx.h"
#include "spmd/linear.h"
#include <string.h>

/* In a message, inputs begin at cache lines. */
size_t spmd__coll_offset(const spmd_kernel_args *args, int k)
{
    size_t offset = 0;
    for (int j = 0; j < k; j++)
        offset += spmd__whole_lines(spmd__view_bytes(&args->in[j]));
    return offset;
}

/* Of a list, tables. */
static spmd_status post_tensors(spmd_ctx *ctx, const spmd_kernel_args *args, spmd_post *post)
{
    size_t n = (size_t)args->nin;
    *post = (spmd_post){args->in[0].data, args->out[0].data};
    if (n == 1)
        return SPMD_OK;
    void **table = spmd__scratch(ctx, 2 * n * sizeof *table);
    if (!table)
        return SPMD_ENOMEM;
    for (size_t k = 0; k < n; k++) {
        table[k] = args->in[k].data;
        table[n + k] = args->out[k].data;
    }
    *post = (spmd_post){table, table + n};
    return SPMD_OK;
}

void *spmd__coll_output(const spmd_kernel_args *args, spmd_post post, int k)
{
    return args->nin == 1 ? post.out : ((void **)post.out)[k];
}

/* All inputs, one after the other. */
static spmd_post post_copies(const spmd_ctx *ctx, const spmd_group *group, const spmd_kernel_args *args)
{
    char *box = spmd__mail_box(ctx, group), *end = box;
    for (int k = 0; k < args->nin; k++) {
        size_t bytes = spmd__view_bytes(&args->in[k]);
        spmd__copy(end, args->in[k].data, bytes);
        end += spmd__whole_lines(bytes);
    }
    return (spmd_post){.data = box};
}

spmd_status spmd__coll_open(spmd_ctx *ctx, const char *op, const spmd_kernel_args *args, const spmd_post *post,
                            spmd_coll *coll)
{
    const spmd_group *all = coll->all = spmd__group(ctx, &args->attr->axes);
    coll->n = all->n;
    coll->me = all->me;
    coll->device = all->device;
    size_t bytes = 0, message = 0;
    for (int k = 0; k < args->nin; k++) {
        size_t more = spmd__view_bytes(&args->in[k]);
        message = spmd__whole_lines(message) + more;
        bytes += more;
    }
    bool mailable = !post && coll->n > 1;
    spmd_way way = spmd__coll_way(ctx->mesh, coll->n, mailable ? (int64_t)message : -1, args);
    coll->copy = way == SPMD_WAY_STREAM ? spmd__stream : spmd__copy;
    coll->backwards = false;
    coll->mailed = way == SPMD_WAY_MAIL;
    if (post)
        coll->posts[0] = *post;
    else if (coll->mailed)
        coll->posts[0] = post_copies(ctx, all, args);
    else
        SPMD_TRY(post_tensors(ctx, args, &coll->posts[0]));
    if (coll->n == 1)
        return SPMD_OK;
    coll->backwards = spmd__count_collective(ctx, all->mask, (int64_t)bytes) % 2;
    spmd_signature signature = {.op = op,
                                .dtype = args->in[0].dtype,
                                .count = spmd__block_count(args->in[0].rank, args->in[0].shape),
                                .hash = args->hash,
                                .mail = coll->mailed ? message : 0,
                                .args = args,
                                .difference = spmd__coll_difference};
    SPMD_TRY(spmd__meet(ctx, all, &signature, coll->posts[0], coll->posts));
    if (coll->mailed)
        coll->posts[coll->me].data = NULL; /* the others' only: see spmd__coll_input */
    if (args->attr->i[SPMD_COLL_GROUPS])
        spmd__groups_narrow(args->attr, coll);
    return SPMD_OK;
}

spmd_status spmd__coll_close(spmd_ctx *ctx, const spmd_coll *coll)
{
    if (coll->all->n > 1 && !coll->mailed)
        SPMD_TRY(spmd__meet(ctx, coll->all, NULL, (spmd_post){0}, NULL));
    return SPMD_OK;
}

const spmd_post *spmd__coll_sort(const spmd_coll *coll, spmd_post room[SPMD_MAX_DEVICES])
{
    int device[SPMD_MAX_DEVICES];
    for (int k = 0; k < coll->n; k++) {
        int at = k;
        for (; at > 0 && device[at - 1] > coll->device[k]; at--) {
            device[at] = device[at - 1];
            room[at] = room[at - 1];
        }
        device[at] = coll->device[k];
        room[at] = coll->posts[k];
    }
    return room;
}

int spmd__coll_size(const spmd_ctx *ctx, const spmd_attr *attr)
{
    int n = spmd__axes_size(ctx->mesh, &attr->axes), groups = (int)attr->i[SPMD_COLL_GROUPS];
    return groups ? n / groups : n;
}

bool spmd__coll_moves(const spmd_ctx *ctx, unsigned mask)
{
    return spmd__mask_size(ctx->mesh, mask) > 1;
}

spmd_status spmd__coll_whole(const spmd_ctx *ctx, const char *op, const spmd_tensor *t, unsigned mask)
{
    char axes[128], shape[96];
    SPMD_CHECK(!(t->partial & mask), SPMD_EINVAL,
               "%s: %s is a partial sum over '%s', and only a sum may be taken of such a value; psum it first", op,
               spmd__shape_text(t, shape), spmd__mask_text(ctx->mesh, t->partial & mask, axes));
    return SPMD_OK;
}

int64_t spmd__coll_run(const int64_t *shape, int from, int to)
{
    return spmd__block_count(to - from, shape + from);
}

void spmd__coll_shrink(spmd_tensor *t, int dim, int n, bool tiled)
{
    if (tiled) {
        t->shape[dim] /= n;
        return;
    }
    t->rank--;
    for (int d = dim; d < t->rank; d++)
        t->shape[d] = t->shape[d + 1];
}

void spmd__coll_grow(spmd_tensor *t, int dim, int n, bool tiled)
{
    if (tiled) {
        t->shape[dim] *= n;
        return;
    }
    for (int d = t->rank++; d > dim; d--)
        t->shape[d] = t->shape[d - 1];
    t->shape[dim] = n;
}

spmd_status spmd__coll_rows(spmd_ctx *ctx, const spmd_tensor *in, int dim, spmd_tensor *out)
{
    const int64_t shape[] = {spmd__coll_run(in->shape, 0, dim), spmd__coll_run(in->shape, dim, in->rank)};
    return spmd__linear_reshape(ctx, in, 2, shape, out);
}

spmd_status spmd__coll_check_cut(const char *op, const spmd_tensor *t, int dim, int n, bool tiled)
{
    char text[96];
    SPMD_CHECK(!tiled || t->shape[dim] % n == 0, SPMD_ESHAPE,
               "%s of %s: dimension %d has size %lld, which must be divisible by the axis size %d; pad it", op,
               spmd__shape_text(t, text), dim, (long long)t->shape[dim], n);
    SPMD_CHECK(tiled || t->shape[dim] == n, SPMD_ESHAPE,
               "%s of %s: dimension %d has size %lld, which must equal the axis size %d; use .tiled = true to cut it",
               op, spmd__shape_text(t, text), dim, (long long)t->shape[dim], n);
    return SPMD_OK;
}
