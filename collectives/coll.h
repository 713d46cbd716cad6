/* Private: what the collectives share.
 *
 * A collective on the host is: open (meet the others and see what they posted), work, close (meet again, so that nobody
 * goes on while a peer still reads his input or writes his output). What is posted lives in the shard's arena or its
 * mail box, never on its stack: a shard that is told to give up in the second meeting may return while a peer still
 * works. */
#ifndef COLLECTIVES_COLL_H
#define COLLECTIVES_COLL_H

#include "collectives/collectives.h"
#include "spmd/host/meet.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void spmd_copy(void *dst, const void *src, size_t bytes);
spmd_copy spmd__copy;   /* memcpy; of no bytes, even at NULL, nothing */
spmd_copy spmd__stream; /* the same past the caches */

/* One transfer. All shards along the axes meet; those of this shard's group (all of them, if the call names no groups)
 * then work together. Places in the team are those of the group's list, or row-major over the axes. */
typedef struct spmd_coll {
    const spmd_group *all; /* who meets */
    bool mailed;           /* the posts are copies that came by mail: nobody needs to wait for the readers */
    int n, me;             /* the team, and this shard's place in it */
    const int *device;     /* by place */
    spmd_post posts[SPMD_MAX_DEVICES];
    int narrowed[SPMD_MAX_DEVICES]; /* where `device` points, if the call names groups */
    spmd_copy *copy;                /* into the outputs: through or past the caches */
    bool backwards;                 /* every other call: where one ends, the next begins */
} spmd_coll;

/* open: meet, and see what the team posted. A single shard neither meets nor counts.
 *   post   NULL: the inputs by mail, if they are small; else where inputs and outputs are */
spmd_status spmd__coll_open(spmd_ctx *ctx, const char *op, const spmd_kernel_args *args, const spmd_post *post,
                            spmd_coll *coll);
spmd_status spmd__coll_close(spmd_ctx *ctx, const spmd_coll *coll);
void spmd__coll_difference(const spmd_mesh *mesh, const char *op, const spmd_told *a, const spmd_told *b,
                           char text[SPMD_DIFFERENCE]);
size_t spmd__coll_offset(const spmd_kernel_args *args, int k); /* of input k in a message */
/* Input and output k, in what a shard posted. By mail come the others' inputs only: no outputs, and not one's own. */
static inline const void *spmd__coll_input(const spmd_coll *coll, const spmd_kernel_args *args, spmd_post post, int k)
{
    if (coll->mailed)
        return post.data ? (const char *)post.data + spmd__coll_offset(args, k) : args->in[k].data;
    return args->nin == 1 ? post.data : ((const void *const *)post.data)[k];
}
void *spmd__coll_output(const spmd_kernel_args *args, spmd_post post, int k);
/* The team's posts by device number: the order of sums, whatever the order of places. `room` is for those that must be
 * sorted. */
const spmd_post *spmd__coll_sort(const spmd_coll *coll, spmd_post room[SPMD_MAX_DEVICES]);
static inline const spmd_post *spmd__coll_sorted(const spmd_coll *coll, spmd_post room[SPMD_MAX_DEVICES])
{
    bool sorted = coll->all->sorted && coll->device == coll->all->device;
    return sorted ? coll->posts : spmd__coll_sort(coll, room);
}

/* attr.i of all_gather, psum_scatter and what is made of them; and the number of groups in every collective that may
 * have groups (0: one group of all). The groups themselves are in attr.table, see groups.c. */
enum { SPMD_COLL_DIM, SPMD_COLL_TILED, SPMD_COLL_TO, SPMD_COLL_GROUPS = 7 };

/* spmd__groups_parse - "0,1;2,3" into attr, for axes of n shards; a NULL text: no groups. equal: one size for all. */
spmd_status spmd__groups_parse(const char *op, const char *text, int n, bool equal, spmd_attr *attr);
/* Keeps the team of this shard's group. */
void spmd__groups_narrow(const spmd_attr *attr, spmd_coll *coll);
/* Size of the axes, or of each of the equal groups. */
int spmd__coll_size(const spmd_ctx *ctx, const spmd_attr *attr);

/* Does the mask hold an axis with more than one shard? */
bool spmd__coll_moves(const spmd_ctx *ctx, unsigned mask);
/* EINVAL "psum it first" if the tensor is partial over an axis of `mask`. */
spmd_status spmd__coll_whole(const spmd_ctx *ctx, const char *op, const spmd_tensor *t, unsigned mask);
int64_t spmd__coll_run(const int64_t *shape, int from, int to); /* product of shape[from] .. shape[to - 1] */

/* A dimension cut in n (tiled), or one of size n taken away (not tiled), and the reverse. */
void spmd__coll_shrink(spmd_tensor *t, int dim, int n, bool tiled);
void spmd__coll_grow(spmd_tensor *t, int dim, int n, bool tiled);
/* As a matrix whose rows are the runs of dimension `dim`: cutting it along 1 is cutting `in` along dim. So calls along
 * all dimensions are alike, and programs merge them. */
spmd_status spmd__coll_rows(spmd_ctx *ctx, const spmd_tensor *in, int dim, spmd_tensor *out);
/* ESHAPE unless dimension `dim` of t can be cut in n (tiled) or has size n (not tiled). */
spmd_status spmd__coll_check_cut(const char *op, const spmd_tensor *t, int dim, int n, bool tiled);

/* --- reductions --- */
typedef enum spmd_reduction { SPMD_REDUCE_SUM, SPMD_REDUCE_MEAN, SPMD_REDUCE_MAX, SPMD_REDUCE_MIN } spmd_reduction;

const char *spmd__reduction_name(spmd_reduction kind); /* "psum" */
/* The descriptors' functions; attr.i[0] is the spmd_reduction, attr.f[0] the divisor of a mean (0: the size of the
 * shard's group). */
spmd_status spmd__reduction_shape(spmd_ctx *ctx, spmd_call *call);
spmd_status spmd__reduction_grad(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                                 spmd_tensor *gin);
spmd_status spmd__reduction_host(spmd_ctx *ctx, const spmd_kernel_args *args);
/* What the public functions do: parse the axes, warn about a reduction that was made before, emit. */
spmd_status spmd__reduce(spmd_ctx *ctx, const spmd_op *op, spmd_reduction kind, const spmd_tensor *in, int n,
                         const char *axes, spmd_tensor *out);
spmd_status spmd__reduce_groups(spmd_ctx *ctx, const spmd_op *op, spmd_reduction kind, const spmd_tensor *in,
                                const char *axes, const char *groups, spmd_tensor *out);
/* The host's transfer: n tensors in two meetings. */
spmd_status spmd__all_reduce(spmd_ctx *ctx, const char *op, const spmd_kernel_args *args);
/* The dtype that a reduction of `dtype` has: bools are counted in i32, means of integers are f32. */
spmd_dtype spmd__reduction_dtype(spmd_reduction kind, spmd_dtype dtype);

/* spmd__fold - every dst = src[0] op src[1] op ..., in this order, `count` elements. A dst may be a src (at the same
 * place): all is read before anything is written, tile by tile. */
typedef struct spmd_fold {
    spmd_reduction kind;
    spmd_dtype in, out;
    float divisor; /* of a mean */
    bool stream;   /* no dst is a src, and none will be read soon */
} spmd_fold;
void spmd__fold(const spmd_fold *fold, const void *const *src, int nsrc, void *const *dst, int ndst, int64_t count);

/* --- which way: they all give the same bits --- */
typedef enum spmd_way {
    SPMD_WAY_ANY,    /* not a way: the table chooses */
    SPMD_WAY_MAIL,   /* one meeting, but every shard reads all messages and does the whole work */
    SPMD_WAY_DIRECT, /* straight from inputs to outputs: two meetings, and the work of a reduction is shared */
    SPMD_WAY_STREAM  /* the same past the caches */
} spmd_way;
/* A row of select.c's table, for teams of up to so many members. In bytes: by mail up to, of a message; past the caches
 * from, of inputs and outputs on all shards. */
typedef struct spmd_coll_limits {
    int members;
    int64_t mail, stream;
} spmd_coll_limits;
extern const spmd_coll_limits spmd__coll_limits[];
extern const int spmd__coll_nlimits;
/* message: its bytes; -1 if the call cannot go by mail. */
spmd_way spmd__coll_way(const spmd_mesh *mesh, int members, int64_t message, const spmd_kernel_args *args);
/* For the bench, between launches: from here on this way wherever it can be gone. */
void spmd__force_way(spmd_mesh *mesh, spmd_way way);

/* --- moving --- */
/* Where the elements of a piece lie in a block that n pieces make up: piece `k`, in runs of `run` elements, the runs of
 * all pieces taking turns. A dimension cut in n, or a new dimension of size n, is this; n = 1: the piece is the block.
 */
typedef struct spmd_pieces {
    int64_t run;
    int n, k;
} spmd_pieces;
/* Copies a piece of `count` elements of `size` bytes. One run length must divide the other. */
void spmd__copy_piece(spmd_copy *copy, void *dst, spmd_pieces to, const void *src, spmd_pieces from, int64_t count,
                      size_t size);

/* Runs of all_to_all's pieces in its input and output, for a team of n. */
void spmd__all_to_all_runs(const spmd_kernel_args *args, int n, int64_t *from, int64_t *to);

/* --- those that are each other's transposes; attr as above --- */
spmd_status spmd__all_gather(spmd_ctx *ctx, const spmd_tensor *in, const spmd_attr *attr, spmd_tensor *out);
spmd_status spmd__psum_scatter(spmd_ctx *ctx, const spmd_tensor *in, const spmd_attr *attr, spmd_tensor *out);
/* This shard's slice. Local. */
spmd_status spmd__slice_own(spmd_ctx *ctx, const spmd_tensor *in, const spmd_attr *attr, spmd_tensor *out);

/* --- the descriptors' kernels on backend cuda --- */
spmd_status spmd__reduction_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);
spmd_status spmd__all_gather_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);
spmd_status spmd__psum_scatter_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);
spmd_status spmd__all_to_all_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);
spmd_status spmd__ppermute_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);
spmd_status spmd__pbroadcast_cuda(spmd_ctx *ctx, const spmd_kernel_args *args);

#ifdef __cplusplus
}
#endif

#endif
