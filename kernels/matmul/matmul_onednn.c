/* Matrix products by oneDNN.
 *
 * Making a primitive costs as much as running a small one (machine code is generated), so each device keeps an engine,
 * a stream and a table of primitives by case. Their working memory is ours (scratchpad mode "user"), because oneDNN's
 * own is allocated anew by every execution. So a repeated step neither generates nor allocates. The table is bounded:
 * shapes that change for ever drop those that were not used for the longest time. */
#include "kernels/matmul/gemm.h"

#ifdef SPMD_HAVE_ONEDNN
#include "kernels/matmul/onednn_api.h"
#include "kernels/workspace.h"
#include "spmd/hash.h"
#include <omp.h>
#include <string.h>

enum { A, B, BIAS, OUT, SCRATCH, OPERANDS };

enum { KEY_WORDS = 13, MOST_ENTRIES = 256 };

/* A case and its primitive; no primitive: oneDNN has none. The memories get their data for each execution. */
typedef struct entry {
    bool used;
    uint64_t last; /* when it was used: a count of products */
    int64_t key[KEY_WORDS];
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[OPERANDS];
    size_t scratch_bytes;
} entry;

typedef struct library {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    entry *table; /* open addressing */
    size_t size, used;
    uint64_t products;
} library;

#define DNNL_TRY(call)                  \
    do {                                \
        dnnl_status_t status_ = (call); \
        if (status_ != dnnl_success)    \
            return status_;             \
    } while (0)

static void entry_destroy(entry *e)
{
    for (int k = 0; k < OPERANDS; k++)
        if (e->memory[k])
            dnnl_memory_destroy(e->memory[k]);
    if (e->primitive)
        dnnl_primitive_destroy(e->primitive);
    *e = (entry){0};
}

static void library_destroy(void *slot)
{
    library *l = slot;
    for (size_t i = 0; i < l->size; i++)
        entry_destroy(&l->table[i]);
    if (l->stream)
        dnnl_stream_destroy(l->stream);
    if (l->engine)
        dnnl_engine_destroy(l->engine);
    spmd__free(l->table);
    spmd__free(l);
}

static void *library_create(spmd_ctx *ctx)
{
    library *l = spmd__alloc(spmd__ctx_mesh(ctx), sizeof *l);
    if (!l)
        return NULL;
    memset(l, 0, sizeof *l);
    dnnl_status_t status = dnnl_engine_create(&l->engine, dnnl_cpu, 0);
    if (status == dnnl_success)
        status = dnnl_stream_create(&l->stream, l->engine, dnnl_stream_default_flags);
    if (status != dnnl_success) {
        SPMD_FAIL(SPMD_EUNSUPPORTED, "matmul: oneDNN has no CPU engine (%s)", dnnl_status2str(status));
        library_destroy(l);
        return NULL;
    }
    return l;
}

static dnnl_data_type_t type_of(spmd_dtype dtype)
{
    return dtype == SPMD_F32 ? dnnl_f32 : dtype == SPMD_BF16 ? dnnl_bf16 : dnnl_f16;
}

/* An operand [batch, rows, columns], or [rows, columns] if there is no batch; stored transposed is a matter of strides.
 */
static dnnl_status_t make_layout(dnnl_memory_desc_t *out, const spmd__gemm_case *c, spmd_dtype dtype, int64_t batch,
                                 int64_t rows, int64_t columns, bool transposed)
{
    dnnl_dims_t dims, strides;
    int rank = 0;
    if (c->batch > 1) {
        dims[rank] = batch;
        strides[rank++] = rows * columns;
    }
    dims[rank] = rows;
    strides[rank++] = transposed ? 1 : columns;
    dims[rank] = columns;
    strides[rank++] = transposed ? rows : 1;
    return onednn_layout(out, type_of(dtype), rank, dims, strides);
}

static dnnl_status_t make_layouts(const spmd__gemm_case *c, dnnl_memory_desc_t layouts[SCRATCH])
{
    DNNL_TRY(make_layout(&layouts[A], c, c->dtype, c->batch, c->m, c->k, c->transpose_a));
    if (c->packed_b)
        DNNL_TRY(onednn_tagged(&layouts[B], dnnl_f32, 2, (const dnnl_dims_t){c->k, c->n}, dnnl_BA16a64b));
    else
        DNNL_TRY(make_layout(&layouts[B], c, c->dtype, c->share_b ? 1 : c->batch, c->k, c->n, c->transpose_b));
    DNNL_TRY(make_layout(&layouts[BIAS], c, c->dtype, 1, 1, c->n, false));
    if (c->out_row)
        return onednn_layout(&layouts[OUT], type_of(c->out_dtype), 2, (const dnnl_dims_t){c->m, c->n},
                             (const dnnl_dims_t){c->out_row, 1});
    return make_layout(&layouts[OUT], c, c->out_dtype, c->batch, c->m, c->n, false);
}

static dnnl_status_t make_attr(const spmd__gemm_case *c, dnnl_primitive_attr_t *attr)
{
    DNNL_TRY(dnnl_primitive_attr_create(attr));
    DNNL_TRY(dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user));
    if (!c->accumulate)
        return dnnl_success;
    dnnl_post_ops_t ops;
    DNNL_TRY(dnnl_post_ops_create(&ops));
    dnnl_status_t status = onednn_append_sum(ops);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(*attr, ops);
    dnnl_post_ops_destroy(ops);
    return status;
}

/* Intel's processors multiply pairs of bf16 (vdpbf16ps) at half the speed of f32, unless they have tiles (AMX). */
static bool has_slow_bf16(const char *kernel)
{
#ifdef __x86_64__
    return __builtin_cpu_is("intel") && !strstr(kernel, "amx");
#else
    (void)kernel;
    return false;
#endif
}

/* What is slower than our own way counts as not implemented: reference loops, and bf16 where f32 is faster. */
static dnnl_status_t refuse_slow(const_dnnl_primitive_desc_t pd, spmd_dtype dtype)
{
    const char *name;
    DNNL_TRY(dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name));
    bool slow = strncmp(name, "ref", 3) == 0 || (dtype == SPMD_BF16 && has_slow_bf16(name));
    return slow ? dnnl_unimplemented : dnnl_success;
}

static dnnl_status_t make_primitive(dnnl_engine_t engine, entry *e, const_dnnl_primitive_desc_t pd,
                                    const dnnl_memory_desc_t *layouts, bool bias)
{
    e->scratch_bytes = dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
    DNNL_TRY(dnnl_memory_create(&e->memory[SCRATCH], dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0),
                                engine, DNNL_MEMORY_NONE));
    for (int k = A; k <= OUT; k++)
        if (k != BIAS || bias)
            DNNL_TRY(dnnl_memory_create(&e->memory[k], onednn_ref(&layouts[k]), engine, DNNL_MEMORY_NONE));
    return dnnl_primitive_create(&e->primitive, pd);
}

/* Fills the entry; dnnl_unimplemented leaves it without a primitive. */
static dnnl_status_t entry_create(dnnl_engine_t engine, const spmd__gemm_case *c, bool bias, entry *e)
{
    dnnl_memory_desc_t layouts[SCRATCH];
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    memset(layouts, 0, sizeof layouts);
    dnnl_status_t status = make_layouts(c, layouts);
    if (status == dnnl_success)
        status = make_attr(c, &attr);
    if (status == dnnl_success)
        status = onednn_matmul(&pd, engine, &layouts[A], &layouts[B], bias ? &layouts[BIAS] : NULL, &layouts[OUT],
                               attr);
    if (status == dnnl_success)
        status = refuse_slow(pd, c->dtype);
    if (status == dnnl_success)
        status = make_primitive(engine, e, pd, layouts, bias);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    for (int k = 0; k < SCRATCH; k++)
        onednn_layout_destroy(&layouts[k]);
    return status;
}

static void make_key(const spmd__gemm_case *c, bool bias, int64_t key[KEY_WORDS])
{
    const int64_t words[KEY_WORDS] = {c->dtype,    c->out_dtype,   c->batch,       c->m,       c->n,
                                      c->k,        c->transpose_a, c->transpose_b, c->share_b, c->accumulate,
                                      c->packed_b, bias,           c->out_row};
    memcpy(key, words, sizeof words);
}

static size_t home(const int64_t key[KEY_WORDS], size_t size)
{
    uint64_t hash = 0;
    for (int i = 0; i < KEY_WORDS; i++)
        hash = spmd__mix(hash, (uint64_t)key[i]);
    return hash & (size - 1);
}

/* The entry with this key, or the free one where it belongs. */
static entry *look_up(entry *table, size_t size, const int64_t key[KEY_WORDS])
{
    size_t at = home(key, size);
    while (table[at].used && memcmp(table[at].key, key, KEY_WORDS * sizeof *key) != 0)
        at = (at + 1) & (size - 1);
    return &table[at];
}

/* Those behind it move up where their way to their place led over it. */
static void drop(library *l, size_t hole)
{
    entry_destroy(&l->table[hole]);
    l->used--;
    for (size_t at = (hole + 1) & (l->size - 1); l->table[at].used; at = (at + 1) & (l->size - 1)) {
        size_t way = (at - home(l->table[at].key, l->size)) & (l->size - 1);
        if (way < ((at - hole) & (l->size - 1)))
            continue;
        l->table[hole] = l->table[at];
        l->table[at] = (entry){0};
        hole = at;
    }
}

static void drop_oldest(library *l)
{
    size_t oldest = 0;
    for (size_t i = 0; i < l->size; i++)
        if (l->table[i].used && (!l->table[oldest].used || l->table[i].last < l->table[oldest].last))
            oldest = i;
    drop(l, oldest);
}

/* Room for one more. */
static bool grow(spmd_ctx *ctx, library *l)
{
    if (2 * (l->used + 1) <= l->size || l->used == MOST_ENTRIES)
        return true;
    size_t size = l->size ? 2 * l->size : 64;
    entry *table = spmd__alloc(spmd__ctx_mesh(ctx), size * sizeof *table);
    if (!table)
        return false;
    memset(table, 0, size * sizeof *table);
    for (size_t i = 0; i < l->size; i++)
        if (l->table[i].used)
            *look_up(table, size, l->table[i].key) = l->table[i];
    spmd__free(l->table);
    l->table = table;
    l->size = size;
    return true;
}

static dnnl_status_t execute(const library *l, const entry *e, const void *a, const void *b, const void *bias,
                             void *out, void *scratch)
{
    void *data[OPERANDS] = {(void *)a, (void *)b, (void *)bias, out, scratch};
    const int arg[OPERANDS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD};
    dnnl_exec_arg_t args[OPERANDS];
    int n = 0;
    for (int k = 0; k < OPERANDS; k++) {
        if (!e->memory[k])
            continue;
        DNNL_TRY(dnnl_memory_set_data_handle(e->memory[k], data[k]));
        args[n++] = (dnnl_exec_arg_t){arg[k], e->memory[k]};
    }
    DNNL_TRY(dnnl_primitive_execute(e->primitive, l->stream, n, args));
    return dnnl_stream_wait(l->stream);
}

/* The case's entry, made the first time. */
static dnnl_status_t find(library *l, const spmd__gemm_case *c, bool bias, entry **out)
{
    int64_t key[KEY_WORDS];
    make_key(c, bias, key);
    entry *e = look_up(l->table, l->size, key);
    if (!e->used && l->used == MOST_ENTRIES) {
        drop_oldest(l);
        e = look_up(l->table, l->size, key);
    }
    if (!e->used) {
        dnnl_status_t status = entry_create(l->engine, c, bias, e);
        if (status != dnnl_success)
            entry_destroy(e);
        if (status != dnnl_success && status != dnnl_unimplemented)
            return status;
        e->used = true;
        memcpy(e->key, key, sizeof key);
        l->used++;
    }
    e->last = ++l->products;
    *out = e;
    return dnnl_success;
}

/* The data of a product. */
typedef struct operands {
    const void *a, *b, *bias;
    void *out;
} operands;

/* *found: the library has a primitive; it runs unless `data` is NULL. */
static dnnl_status_t multiply(spmd_ctx *ctx, library *l, const spmd__gemm_case *c, bool bias, const operands *data,
                              bool *found)
{
    entry *e = NULL;
    DNNL_TRY(find(l, c, bias, &e));
    *found = e->primitive != NULL;
    if (!*found || !data)
        return dnnl_success;
    void *scratch = spmd__workspace(ctx, SPMD__SPACE_MATMUL, e->scratch_bytes);
    return scratch ? execute(l, e, data->a, data->b, data->bias, data->out, scratch) : dnnl_out_of_memory;
}

static spmd_status use_library(spmd_ctx *ctx, const spmd__gemm_case *c, bool bias, const operands *data, bool *found)
{
    static const char key;
    *found = false;
    library *l = spmd__device_slot(ctx, &key, library_create, library_destroy);
    SPMD_CHECK(l && grow(ctx, l), SPMD_ENOMEM, "matmul: no memory for oneDNN's primitives: %s", spmd_last_error());
    /* oneDNN cuts work by the calling thread's setting; the user's own (OMP_NUM_THREADS) stays the upper bound. */
    int before = omp_get_max_threads(), threads = spmd__device_threads(ctx);
    omp_set_num_threads(threads < before ? threads : before);
    dnnl_status_t status = multiply(ctx, l, c, bias, data, found);
    omp_set_num_threads(before);
    SPMD_CHECK(status == dnnl_success, status == dnnl_out_of_memory ? SPMD_ENOMEM : SPMD_EUNSUPPORTED,
               "matmul: oneDNN failed (%s) at a %s product of batch %lld, m %lld, n %lld, k %lld; a build with "
               "SPMD_ONEDNN=OFF does without it",
               dnnl_status2str(status), spmd_dtype_name(c->dtype), (long long)c->batch, (long long)c->m,
               (long long)c->n, (long long)c->k);
    return SPMD_OK;
}

spmd_status spmd__gemm_onednn(spmd_ctx *ctx, const spmd__gemm_case *c, const void *a, const void *b, const void *bias,
                              void *out, bool *done)
{
    return use_library(ctx, c, bias, &(const operands){a, b, bias, out}, done);
}

spmd_status spmd__onednn_knows(spmd_ctx *ctx, const spmd__gemm_case *c, bool bias, bool *known)
{
    return use_library(ctx, c, bias, NULL, known);
}

bool spmd__onednn_reads_panels(void)
{
#ifdef __x86_64__
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
#else
    return false;
#endif
}

bool spmd__onednn_reads_in_place(void)
{
#if defined(__x86_64__) && DNNL_VERSION_MAJOR < 3
    return !spmd__onednn_reads_panels();
#else
    return false;
#endif
}

const char *spmd__matmul_library(void)
{
    return "oneDNN " SPMD_STRING(DNNL_VERSION_MAJOR) "." SPMD_STRING(DNNL_VERSION_MINOR) "." SPMD_STRING(
        DNNL_VERSION_PATCH);
}

bool spmd__matmul_has_native_bf16(void)
{
    const spmd__gemm_case probe = {.dtype = SPMD_BF16, .out_dtype = SPMD_BF16, .batch = 1, .m = 64, .n = 64, .k = 64};
    entry e = {0};
    dnnl_engine_t engine;
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success)
        return false;
    bool native = entry_create(engine, &probe, false, &e) == dnnl_success;
    entry_destroy(&e);
    dnnl_engine_destroy(engine);
    return native;
}

#else

spmd_status spmd__gemm_onednn(spmd_ctx *ctx, const spmd__gemm_case *c, const void *a, const void *b, const void *bias,
                              void *out, bool *done)
{
    (void)ctx, (void)c, (void)a, (void)b, (void)bias, (void)out;
    *done = false;
    return SPMD_OK;
}

spmd_status spmd__onednn_knows(spmd_ctx *ctx, const spmd__gemm_case *c, bool bias, bool *known)
{
    (void)ctx, (void)c, (void)bias;
    *known = false;
    return SPMD_OK;
}

bool spmd__onednn_reads_panels(void)
{
    return false;
}

bool spmd__onednn_reads_in_place(void)
{
    return false;
}

const char *spmd__matmul_library(void)
{
    return "portable";
}

bool spmd__matmul_has_native_bf16(void)
{
    return false;
}

#endif
