/* Private: collectives of backend cuda by kernels that read and write the other devices' memory.
 *
 * As on the host a collective is: open, work, close. Open meets the others, which carries the signature's check and the
 * addresses, and makes the stream wait until their inputs are there; close meets again and makes the stream wait until
 * they have done their part. The waiting is the streams', by events: no kernel spins, so shards may share a GPU. */
#ifndef COLLECTIVES_P2P_H
#define COLLECTIVES_P2P_H

#include "collectives/coll.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The members post tables of their inputs' and of their outputs' addresses. */
spmd_status spmd__p2p_open(spmd_ctx *ctx, const char *op, const spmd_kernel_args *args, spmd_coll *coll);
/* With a post of the op's own, which lives as long as the launch. */
spmd_status spmd__p2p_open_post(spmd_ctx *ctx, const char *op, const spmd_kernel_args *args, const spmd_post *post,
                                spmd_coll *coll);
spmd_status spmd__p2p_close(spmd_ctx *ctx, const spmd_coll *coll);
/* Host memory for the rest of the launch; NULL: out of memory. */
void *spmd__p2p_post(spmd_ctx *ctx, size_t bytes);

/* Input or output k of the device whose post this is. */
static inline const void *spmd__p2p_input(spmd_post post, int k)
{
    return ((void *const *)post.data)[k];
}

static inline void *spmd__p2p_output(spmd_post post, int k)
{
    return ((void *const *)post.out)[k];
}

/* Folds of many tensors in few launches. The struct is what the kernel gets: at most 4 KiB. */
enum { SPMD_P2P_POINTERS = 408, SPMD_P2P_SEGMENTS = 32 };
typedef struct spmd_p2p_folds {
    int kind;               /* spmd_reduction */
    spmd_dtype in, out;     /* of all segments since the last flush */
    float divisor;          /* of a mean */
    int nsrc, ndst, n;      /* sources and destinations of a segment; segments */
    int pieces, piece, vec; /* sources are piece `piece` of blocks of so many pieces; elements at a time */
    int64_t count[SPMD_P2P_SEGMENTS], run[SPMD_P2P_SEGMENTS];
    void *pointer[SPMD_P2P_POINTERS]; /* by segment: sources, destinations */
} spmd_p2p_folds;

/* Adds a segment: every dst = src[0] op src[1] op ..., `count` elements, where the sources' lie in runs of `run` (see
 * spmd_pieces; count if pieces is 1). What was added runs at the latest in the next flush. */
spmd_status spmd__p2p_fold(spmd_ctx *ctx, spmd_p2p_folds *folds, spmd_dtype in, spmd_dtype out, const void *const *src,
                           void *const *dst, int64_t count, int64_t run);
spmd_status spmd__p2p_fold_flush(spmd_ctx *ctx, spmd_p2p_folds *folds);

/* Copies of pieces, likewise. */
enum { SPMD_P2P_COPIES = 64 };
typedef struct spmd_p2p_copy {
    void *dst;
    const void *src;
    int64_t count, dst_run, src_run; /* in units */
    int8_t dst_n, dst_k, src_n, src_k;
    int unit; /* bytes */
} spmd_p2p_copy;

typedef struct spmd_p2p_copies {
    int n;
    spmd_p2p_copy copy[SPMD_P2P_COPIES];
} spmd_p2p_copies;

/* Adds what spmd__copy_piece would copy: `count` elements of `size` bytes. */
spmd_status spmd__p2p_copy_piece(spmd_ctx *ctx, spmd_p2p_copies *copies, void *dst, spmd_pieces to, const void *src,
                                 spmd_pieces from, int64_t count, size_t size);
spmd_status spmd__p2p_copy_flush(spmd_ctx *ctx, spmd_p2p_copies *copies);

#ifdef __cplusplus
}
#endif
#endif
