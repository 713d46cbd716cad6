/* Private: what an op is, and the one function through which every op goes.
 *
 * An op is one descriptor. To add one: a folder in kernels/ with the descriptor and its public function, a prototype
 * with its contract in kernels.h, a test file. The core never names an op (the five that the tape itself emits are
 * declared in spmd/linear.h and defined in their folders). */
#ifndef SPMD_OP_H
#define SPMD_OP_H

#include "spmd/custom.h"
#include "spmd/shard_map.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Axes of a call, in the order the user gave them; the first is major. */
typedef struct spmd_axes {
    uint8_t mask, n, id[SPMD_MAX_AXES];
} spmd_axes;

/* What a call means beyond its tensors. Plain data, zero where unused: compared and hashed by its bytes, so it holds
 * facts that are the same on every shard, never a rank, an address or a local size. */
typedef struct spmd_attr {
    int64_t i[8];
    double f[4];
    int8_t table[SPMD_MAX_DEVICES]; /* a permutation (source of each destination, -1: none), or a layout */
    spmd_axes axes;
    const void *definition; /* spmd_custom only; hashed by its name */
} spmd_attr;

typedef struct spmd_cost {
    double flops, bytes;
} spmd_cost;

/* One use of an op: an entry of the tape. */
typedef struct spmd_call {
    const struct spmd_op *op;
    spmd_attr attr;
    int nin, nout;
    spmd_tensor *in, *out;
    const char *site;              /* where the user called, for the transpose's messages */
    bool implied;                  /* added by a transposition */
    const struct spmd_call *inner; /* on the tape: the calls that a checkpoint stands for; NULL: it is a call itself */
    int ninner;
} spmd_call;

/* What a kernel gets: local views, row-major and contiguous. Outputs never overlap inputs, but out[k] is in[k]'s memory
 * if the op works in place and nobody needs the input any more: the user donated it, or a program's plan says so. */
typedef struct spmd_kernel_args {
    const spmd_attr *attr;
    int nin, nout;
    const spmd_view *in, *out;
    uint64_t hash; /* of the op's name, attr, and all inputs' dtypes and shapes */
} spmd_kernel_args;

struct spmd_labels; /* spmd/rule.h */

typedef struct spmd_op {
    const char *name;
    /* Checks the inputs and fills dtype, rank, shape of call->out. `vary` is already the union of the inputs',
     * `partial` what passes through by `linear` (a collective sets both itself). It may complete call->attr. */
    spmd_status (*shape)(spmd_ctx *ctx, spmd_call *call);
    /* (optional; NULL: a wanted gradient is EGRAD) ct[k]: cotangent of out[k], zeros if unused. Emits ops that make
     * gin[k] for every k with need[k]; a gin left alone means zero. gin[k] has in[k]'s dtype and shape. See `sums`,
     * `wide_ct`. */
    spmd_status (*grad)(spmd_ctx *ctx, const spmd_call *call, const spmd_tensor *ct, const bool *need,
                        spmd_tensor *gin);
    spmd_status (*host)(spmd_ctx *ctx, const spmd_kernel_args *args);
    /* (optional) The same on backend cuda: views hold device memory, spmd__scratch gives device memory, and all it does
     * is put work on the shard's stream. NULL: a local op is computed by `host`, on copies. See SPMD_CUDA_KERNEL. */
    spmd_status (*cuda)(spmd_ctx *ctx, const spmd_kernel_args *args);
    void (*cost)(const spmd_call *call, spmd_cost *cost); /* (optional) NULL: no flops, bytes of all operands once */
    void (*rule)(const spmd_call *call, struct spmd_labels *labels); /* (optional) see spmd/rule.h; NULL: all whole */
    uint64_t linear;   /* bit k: linear in input k; a partial input k is then allowed and makes the outputs partial */
    uint64_t like;     /* bit k: input k gives shape and state only; it is not read and takes no gradient */
    uint64_t residual; /* bit k: output k is kept for the gradient of this call only; ct[k] is not made (id 0) */
    /* Bit k: the gradient can add to what was found before. gin[k] then may arrive set (id not 0), with the state that
     * the gradient's own part will have, and must leave as the sum of both; its memory is the op's, if donated. Set or
     * not, gin[k].dtype is the sum's: f32 for a 16-bit input that more sums will follow, which are so rounded once. */
    uint64_t sums;
    /* Bit k: input k is added to what the others make. In automatic mode it may be an open sum where theirs stays open,
     * too (partial sums of both add up), and must be one there. */
    uint64_t adds;
    bool joint;      /* the linear inputs must be partial over the same axes (add) */
    bool view;       /* out[0] is in[0]'s memory; no kernel */
    bool in_place;   /* out[k] may be in[k]'s memory: see spmd_kernel_args */
    bool list;       /* out[k] depends on in[k] only: calls with equal attributes may be merged into one */
    bool collective; /* shape() sets the state itself; partial inputs are its business */
    bool stops_gradient;
    bool wide_ct; /* the gradient takes ct in f32 as well where out is a 16-bit float */
} spmd_op;

/* The value of `.cuda`: a function that only builds with backend cuda have. */
#ifdef SPMD_HAVE_CUDA
#define SPMD_CUDA_KERNEL(function) (function)
#else
#define SPMD_CUDA_KERNEL(function) NULL
#endif

/* spmd__emit - check, find the shapes, put on the tape, run. `out` may alias `in`. attr may be NULL (all zero). */
spmd_status spmd__emit(spmd_ctx *ctx, const spmd_op *op, const spmd_attr *attr, const spmd_tensor *in, int nin,
                       spmd_tensor *out, int nout);

/* Of an op's name, its attributes and its inputs' types; no addresses. */
uint64_t spmd__call_hash(const spmd_call *call);

/* By the op's formula; bytes, where that says nothing of them: of all operands once. Of a view: none. */
spmd_cost spmd__call_cost(const spmd_call *call);

/* Helpers for shape functions, gradients and kernels. */
static inline size_t
spmd__dtype_size(spmd_dtype dtype) /* spmd_dtype_size for dtypes that exist, on the way of every op */
{
#define SPMD_DTYPE_BYTES(name, text, bytes) bytes,
    static const uint8_t size[] = {SPMD_DTYPE_MAP(SPMD_DTYPE_BYTES)};
#undef SPMD_DTYPE_BYTES
    return size[dtype];
}
static inline int64_t spmd__block_count(int rank, const int64_t *shape)
{
    int64_t n = 1;
    for (int d = 0; d < rank; d++)
        n *= shape[d];
    return n;
}
static inline size_t spmd__view_bytes(const spmd_view *view)
{
    return (size_t)spmd__block_count(view->rank, view->shape) * spmd__dtype_size(view->dtype);
}
static inline size_t spmd__tensor_bytes(const spmd_tensor *t)
{
    return (size_t)spmd__block_count(t->rank, t->shape) * spmd__dtype_size(t->dtype);
}
static inline size_t spmd__whole_lines(size_t bytes) /* rounded up to cache lines */
{
    enum { LINE = 64 };
    return (bytes + LINE - 1) / LINE * LINE;
}
static inline bool spmd__shape_equal(const spmd_tensor *a, const spmd_tensor *b) /* rank and shape */
{
    bool same = a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++)
        same = a->shape[d] == b->shape[d];
    return same;
}
/* Bit k of a descriptor's masks; operands beyond the last bit have none. */
static inline bool spmd__bit(uint64_t mask, int k)
{
    return k < 64 && mask >> k & 1;
}
void spmd__same_shape(spmd_tensor *out, const spmd_tensor *like);             /* dtype, rank and shape */
bool spmd__countable(spmd_dtype dtype, int rank, const int64_t *shape);       /* its bytes fit an int64_t */
const char *spmd__sizes_text(int rank, const int64_t *shape, char text[128]); /* "[4,8]"; returns text */
const char *spmd__shape_text(const spmd_tensor *t, char text[96]);            /* "f32[4,8]"; returns text */
spmd_status spmd__dim(const char *op, int rank, int64_t dim, int *out);       /* -1 is the last; ESHAPE names op */
spmd_status spmd__check_float(const char *op, const char *name, const spmd_tensor *t); /* f32, bf16, f16, else EDTYPE */
/* Memory from the shard's arena: in a kernel until the kernel ends, elsewhere until the launch does. NULL: out of
 * memory. */
void *spmd__scratch(spmd_ctx *ctx, size_t bytes);

/* Names to axes: "data" or "x,y"; "" is the empty set. Errors: EAXIS (the name and the mesh's axes), ESPEC (twice). */
spmd_status spmd__axes_parse(const spmd_mesh *mesh, const char *text, spmd_axes *out);
int spmd__axes_size(const spmd_mesh *mesh, const spmd_axes *axes); /* product of sizes; 1 for none */
int spmd__mask_size(const spmd_mesh *mesh, unsigned mask);
/* The axes of a mask in the mesh's order: places are then device numbers in rising order. */
void spmd__mask_axes(unsigned mask, spmd_axes *out);
int spmd__axes_index(const spmd_ctx *ctx, const spmd_axes *axes);                  /* this shard's row-major index */
const char *spmd__mask_text(const spmd_mesh *mesh, unsigned mask, char text[128]); /* "data,model"; returns text */

/* A spec resolved on a mesh: the axes of every dimension. */
typedef struct spmd_layout {
    uint8_t n[SPMD_MAX_RANK], axis[SPMD_MAX_RANK][SPMD_MAX_AXES];
} spmd_layout;
spmd_status spmd__layout(const spmd_spec *spec, const spmd_mesh *mesh, int rank, spmd_layout *out);
unsigned spmd__layout_mask(const spmd_layout *layout);
/* Number of cuts of dimension d, and which of them `device` holds. */
int spmd__layout_cuts(const spmd_mesh *mesh, const spmd_layout *layout, int d);
int spmd__layout_index(const spmd_mesh *mesh, const spmd_layout *layout, int device, int d);

/* Something a kernel keeps on a device between calls (a cache of primitives), made on first use by `create`; keyed by
 * `key`, an address that the op owns. Freed by `destroy` with the mesh. NULL with the error text set on failure. */
void *spmd__device_slot(spmd_ctx *ctx, const void *key, void *(*create)(spmd_ctx *), void (*destroy)(void *));
/* Which launch of the mesh this is. Within it a view's `value` names contents that never change, so that a kernel may
 * keep something made from them. */
uint32_t spmd__launch_number(const spmd_ctx *ctx);
int spmd__device_threads(const spmd_ctx *ctx); /* how many threads a kernel may use: cores / devices, at least 1 */
/* The library's allocator for what outlives a launch: counted, and refused when the mesh's hook says so. */
void *spmd__alloc(spmd_mesh *mesh, size_t bytes); /* 64-byte aligned, not cleared; NULL with the error text set */
void spmd__free(void *memory);
/* Zeros in all of what spmd__alloc gave. Whole huge pages are handed back and come zeroed, each when it is first
 * touched and so by the thread that uses it: memory that no other process had before costs milliseconds a MiB then. */
void spmd__clear(void *memory, size_t bytes);
spmd_mesh *spmd__ctx_mesh(spmd_ctx *ctx);

/* A notice or warning to the mesh's log; `once` (may be NULL) is a static string: said once a mesh. */
void spmd__log(spmd_mesh *mesh, const char *once, const char *format, ...) __attribute__((format(printf, 3, 4)));
int64_t spmd__count_collective(spmd_ctx *ctx, unsigned mask, int64_t bytes); /* for the statistics; how many before */
void spmd__warn(spmd_ctx *ctx, const char *once, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Is the shard function run by spmd_auto_map: are values global? */
bool spmd__is_automatic(const spmd_ctx *ctx);
/* The axes along which shards hold different parts of a value: `vary`; in automatic mode those that cut it. */
unsigned spmd__spread(const spmd_ctx *ctx, const spmd_tensor *t);
const char *spmd__site(const spmd_ctx *ctx); /* where the user called, "file:line", or the op's name */

#ifdef __cplusplus
}
#endif
#endif
