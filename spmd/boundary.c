/* The edge of a shard function: blocks become tensors, results are checked and become blocks.
 *
 * No output is touched before every shard has succeeded: the shards meet after their functions have returned (which
 * also finds a shard that left early), and only then copy. */
#include "spmd/boundary.h"
#include "spmd/auto.h"
#include "spmd/half.h"
#include "spmd/hash.h"
#include "spmd/host/meet.h"
#include <string.h>

/* What a shard shows the others at the end. */
typedef struct result {
    uint64_t stream_hash;
    const spmd_tensor *out;
} result;

/* One line a bad argument, all in one text. */
static spmd_status check_inputs(const spmd_job *job)
{
    char bad[SPMD_ERROR_SIZE / 2] = "";
    size_t used = 0;
    for (int k = 0; k < job->nin; k++) {
        const spmd_array *array = job->in[k];
        SPMD_CHECK(array && array->mesh == job->mesh, SPMD_EINVAL, "input %d is %s", k,
                   array ? "an array of another mesh" : "NULL");
        spmd_layout wanted;
        if (!job->in_specs)
            continue;
        spmd_status status = spmd_spec_check(&job->in_specs[k], job->mesh, array->rank, array->shape);
        if (status == SPMD_OK)
            status = spmd__layout(&job->in_specs[k], job->mesh, array->rank, &wanted);
        char asked[256], held[256];
        spmd_spec_format(&job->in_specs[k], asked, sizeof asked);
        spmd_spec_format(&array->spec, held, sizeof held);
        if (used + 1 >= sizeof bad)
            break;
        if (status != SPMD_OK)
            used += (size_t)snprintf(bad + used, sizeof bad - used, "%sinput %d: %s", used ? "; " : "", k,
                                     spmd_last_error());
        else if (memcmp(&wanted, &array->layout, sizeof wanted))
            used += (size_t)snprintf(bad + used, sizeof bad - used,
                                     "%sinput %d: in_specs says %s but the array is %s (shard it so)", used ? "; " : "",
                                     k, asked, held);
    }
    SPMD_CHECK(!used, SPMD_ESPEC, "bad inputs: %s", bad);
    return SPMD_OK;
}

spmd_status spmd__job_check(const spmd_job *job)
{
    SPMD_CHECK(job->nin >= 0 && job->nout >= 0, SPMD_EINVAL, "spmd_shard_map: nin %d and nout %d must not be negative",
               job->nin, job->nout);
    SPMD_CHECK(job->nin == 0 || job->in, SPMD_EINVAL, "spmd_shard_map: %d inputs but job->in is NULL", job->nin);
    SPMD_CHECK(job->nout == 0 || (job->out && job->out_specs), SPMD_EINVAL,
               "spmd_shard_map: %d outputs but job->out or job->out_specs is NULL", job->nout);
    SPMD_TRY(check_inputs(job));
    for (int k = 0; job->in_host && k < job->nin; k++)
        SPMD_TRY(job->in_host[k] ? spmd__check_update(job->in[k]) : SPMD_OK);
    for (int k = 0; k < job->nout; k++) {
        spmd_layout layout;
        int rank = job->out[k] ? job->out[k]->rank : SPMD_MAX_RANK;
        spmd_status status = spmd__layout(&job->out_specs[k], job->mesh, rank, &layout);
        SPMD_CHECK(status == SPMD_OK, status, "output %d: %s", k, spmd_last_error());
        SPMD_CHECK(!job->out[k] || job->out[k]->mesh == job->mesh, SPMD_EINVAL, "output %d is an array of another mesh",
                   k);
        SPMD_CHECK(!job->out[k] || !memcmp(&layout, &job->out[k]->layout, sizeof layout), SPMD_ESPEC,
                   "output %d: the given array's spec differs from out_specs", k);
        for (int j = 0; job->out[k] && j < k; j++)
            SPMD_CHECK(job->out[j] != job->out[k], SPMD_EINVAL, "outputs %d and %d are the same array", j, k);
    }
    return SPMD_OK;
}

spmd_tensor *spmd__make_inputs(spmd_ctx *ctx)
{
    const spmd_job *job = &ctx->mesh->job;
    spmd_tensor *in = spmd__scratch(ctx, (size_t)(job->nin + job->nout) * sizeof *in);
    if (!in)
        return NULL;
    memset(in, 0, (size_t)(job->nin + job->nout) * sizeof *in);
    for (int k = 0; k < job->nin; k++) {
        const spmd_array *array = job->in[k];
        in[k] = (spmd_tensor){
            .dtype = array->dtype, .rank = array->rank, .memory = ctx->program ? NULL : array->block[ctx->id]};
        bool global = ctx->mesh->automatic;
        memcpy(in[k].shape, global ? array->shape : array->block_shape, sizeof in[k].shape);
        in[k].vary = global ? 0 : (uint8_t)spmd__layout_mask(&array->layout);
        in[k].id = ++ctx->next_id;
        in[k].launch = ctx->launch;
        in[k].slot = spmd__new_slot(ctx);
        if (!in[k].slot)
            return NULL;
    }
    if (ctx->mesh->automatic && spmd__auto_begin(ctx, in) != SPMD_OK)
        return NULL;
    return in;
}

spmd_status spmd__check_output(spmd_ctx *ctx, int k, const spmd_tensor *t)
{
    const spmd_mesh *mesh = ctx->mesh;
    char type[256], spec[256], axes[128], named_text[128];
    spmd_layout layout;
    SPMD_CHECK(t->id && t->launch == ctx->launch, SPMD_ESTALE, "output %d was not set by the shard function", k);
    SPMD_TRY(spmd__check_alive(ctx, "output", k, t));
    spmd_spec_format(&mesh->job.out_specs[k], spec, sizeof spec);
    spmd_tensor_format(ctx, t, type, sizeof type);
    spmd_status status = spmd__layout(&mesh->job.out_specs[k], mesh, t->rank, &layout);
    SPMD_CHECK(status == SPMD_OK, status, "output %d is %s: %s", k, type, spmd_last_error());
    unsigned named = spmd__layout_mask(&layout), wrong = t->vary & ~named;
    SPMD_CHECK(!t->partial, SPMD_EREPLICATION, "output %d is %s, a partial sum over '%s': spmd_psum it first", k, type,
               spmd__mask_text(mesh, t->partial, axes));
    SPMD_CHECK(
        !wrong, SPMD_EREPLICATION,
        "output %d is %s: its spec %s claims equal values over '%s', over which it varies (the spec names only "
        "'%s'); for the gradient of a local loss use spmd_pmean, of a psum'ed loss spmd_psum, else name the axis",
        k, type, spec, spmd__mask_text(mesh, wrong, axes), spmd__mask_text(mesh, named, named_text));
    const spmd_array *array = mesh->job.out[k];
    if (array->rank < 0)
        return SPMD_OK;
    SPMD_CHECK(array->dtype == t->dtype && array->rank == t->rank &&
                   !memcmp(array->block_shape, t->shape, (size_t)t->rank * sizeof *t->shape),
               SPMD_ESHAPE, "output %d is %s, but the given array has %s blocks of rank %d and %zu bytes", k, type,
               spmd_dtype_name(array->dtype), array->rank, array->block_bytes);
    return SPMD_OK;
}

static double element(const void *data, spmd_dtype dtype, size_t i)
{
    switch (dtype) {
    case SPMD_F32:
        return (double)((const float *)data)[i];
    case SPMD_BF16:
        return (double)spmd__bf16_to_f32(((const uint16_t *)data)[i]);
    case SPMD_F16:
        return (double)spmd__f16_to_f32(((const uint16_t *)data)[i]);
    case SPMD_I32:
        return ((const int32_t *)data)[i];
    case SPMD_I64:
        return (double)((const int64_t *)data)[i];
    case SPMD_I8:
        return ((const int8_t *)data)[i];
    default:
        return ((const uint8_t *)data)[i];
    }
}

/* Copies for the host of the same value on this device and on another one. */
static spmd_status fetch_both(spmd_ctx *ctx, int other, size_t bytes, const char **here, const char **there)
{
    char *copies = spmd__scratch(ctx, 2 * bytes);
    if (!copies)
        return SPMD_ENOMEM;
    SPMD_TRY(spmd__block_get(ctx->device, copies, *here, bytes));
    SPMD_TRY(spmd__block_get(&ctx->mesh->devices[other], copies + bytes, *there, bytes));
    *here = copies;
    *there = copies + bytes;
    return SPMD_OK;
}

/* Compares this shard's bytes with those of the first shard along the axes over which the output claims equality. */
static spmd_status compare_replicas(spmd_ctx *ctx, int k, const spmd_tensor *mine, const result *const *results)
{
    const spmd_mesh *mesh = ctx->mesh;
    spmd_layout layout;
    SPMD_TRY(spmd__layout(&mesh->job.out_specs[k], mesh, mine->rank, &layout));
    unsigned named = spmd__layout_mask(&layout);
    int first = 0;
    for (int a = 0; a < mesh->naxes; a++)
        first = first * mesh->size[a] + (named >> a & 1 ? ctx->coord[a] : 0);
    const spmd_tensor *other = &results[first]->out[k];
    size_t size = spmd_dtype_size(mine->dtype), n = (size_t)spmd_count(mine);
    const char *here = mine->memory, *there = other->memory;
    if (first == ctx->id)
        return SPMD_OK;
    if (mesh->backend->remote)
        SPMD_TRY(fetch_both(ctx, first, n * size, &here, &there));
    if (!memcmp(here, there, n * size))
        return SPMD_OK;
    size_t i = 0;
    while (!memcmp(here + i * size, there + i * size, size))
        i++;
    return SPMD_FAIL(SPMD_EREPLICATION,
                     "output %d claims to be replicated, but element %zu is %.9g on shard %d and %.9g on shard %d", k,
                     i, element(there, mine->dtype, i), first, element(here, mine->dtype, i), ctx->id);
}

/* A created output: device 0 writes its type, every device its own block. */
spmd_status spmd__fill_shell(spmd_ctx *ctx, int k, const spmd_tensor *t)
{
    spmd_array *array = ctx->mesh->job.out[k];
    size_t bytes = spmd__tensor_bytes(t);
    if (ctx->id == 0) {
        array->dtype = t->dtype;
        array->block_bytes = bytes;
        SPMD_TRY(spmd__layout(&array->spec, ctx->mesh, t->rank, &array->layout));
        for (int d = 0; d < t->rank; d++) {
            array->block_shape[d] = t->shape[d];
            array->shape[d] = t->shape[d] * spmd__layout_cuts(ctx->mesh, &array->layout, d);
        }
    }
    array->block[ctx->id] = spmd__block_alloc(ctx->device, bytes);
    return array->block[ctx->id] ? SPMD_OK : SPMD_ENOMEM;
}

/* A result that is another array's block (an input returned as it is) may be overwritten before it is copied. */
static spmd_status stage(spmd_ctx *ctx, spmd_tensor *t, const void *own_block)
{
    if (t->memory == own_block || spmd__arena_holds(ctx->data, t->memory))
        return SPMD_OK;
    size_t bytes = spmd__tensor_bytes(t);
    void *copy = spmd__data(ctx, bytes);
    if (!copy)
        return SPMD_ENOMEM;
    const void *from = t->memory;
    t->memory = copy;
    return spmd__block_copy(ctx, copy, from, bytes);
}

static spmd_status prepare(spmd_ctx *ctx, spmd_tensor *out, bool compare, const result *const *results)
{
    const spmd_job *job = &ctx->mesh->job;
    for (int k = 0; k < job->nout; k++) {
        if (compare)
            SPMD_TRY(compare_replicas(ctx, k, &out[k], results));
        if (!job->out[k]->block[ctx->id])
            SPMD_TRY(spmd__fill_shell(ctx, k, &out[k]));
    }
    return SPMD_OK;
}

static uint64_t types_hash(const spmd_tensor *out, int n)
{
    uint64_t hash = (uint64_t)n;
    for (int k = 0; k < n; k++) {
        hash = spmd__mix(hash, (uint64_t)out[k].dtype);
        for (int d = 0; d < out[k].rank; d++)
            hash = spmd__mix(hash, (uint64_t)out[k].shape[d]);
    }
    return hash;
}

/* Every shard has succeeded, or none has. */
spmd_status spmd__agree(spmd_ctx *ctx, spmd_tensor *out)
{
    spmd_mesh *mesh = ctx->mesh;
    const spmd_job *job = &mesh->job;
    const spmd_group *group = spmd__group_all(ctx);
    spmd_post posts[SPMD_MAX_DEVICES];
    const result *results[SPMD_MAX_DEVICES];
    result *mine = spmd__scratch(ctx, sizeof *mine);
    if (!mine)
        return SPMD_ENOMEM;
    *mine = (result){.stream_hash = ctx->stream_hash, .out = out};
    spmd_ctx_at(ctx, "the end of the shard function");
    spmd_signature signature = {.op = "return", .count = job->nout, .hash = types_hash(out, job->nout)};
    SPMD_TRY(spmd__meet(ctx, group, &signature, (spmd_post){.data = mine}, posts));
    bool differ = false, create = false, claims = false;
    for (int d = 0; d < group->n; d++) {
        results[d] = posts[d].data;
        differ |= results[d]->stream_hash != mine->stream_hash;
    }
    for (int k = 0; k < job->nout; k++) {
        create |= job->out[k]->rank < 0;
        claims |= spmd__mask_size(mesh, ~(unsigned)out[k].vary) > 1;
    }
    ctx->device->stats.streams_differ = differ;
    if (differ && claims)
        spmd__log(mesh, "streams differ",
                  "the shards issued different ops: outputs that claim replication are compared byte by byte");
    if (!create && !differ && !job->verify_replication)
        return SPMD_OK;
    SPMD_TRY(prepare(ctx, out, differ || job->verify_replication, results));
    return spmd__meet(ctx, group, &signature, (spmd_post){0}, NULL);
}

void spmd__begin_shard(spmd_ctx *ctx)
{
    spmd__arena_reset(ctx->arena);
    if (ctx->data != ctx->arena)
        spmd__arena_reset(ctx->data);
    ctx->launch = ctx->mesh->launches;
    ctx->next_id = 0;
    ctx->stream_hash = 0;
    ctx->valid_from = NULL;
    ctx->nslots = ctx->slot_capacity = 0;
    ctx->tape = NULL;
    ctx->ntape = ctx->tape_capacity = ctx->depth = 0;
    ctx->loss_axes = 0;
    ctx->site = NULL;
    ctx->transposing = false;
    ctx->program = NULL;
    ctx->automatic = NULL;
    atomic_store(&ctx->device->recorder.calls, 0);
    ctx->device->stats = (spmd_stats){0};
    if (ctx->mesh->backend->begin)
        ctx->mesh->backend->begin(ctx);
}

spmd_status spmd__give_up(spmd_ctx *ctx, spmd_status status)
{
    char text[SPMD_ERROR_SIZE];
    snprintf(text, sizeof text, "%s", spmd_last_error());
    spmd__poison(ctx->mesh, status, text); /* before the wait: the stream may be in a meeting */
    spmd__sync(ctx);
    spmd__error_copy(text);
    return status;
}

/* The user's function and its stream, both done. */
spmd_status spmd__call_shard(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out)
{
    const spmd_job *job = &ctx->mesh->job;
    spmd_status status = job->fn(ctx, in, out, job->user);
    if (status == SPMD_OK && ctx->automatic)
        status = spmd__auto_end(ctx, out);
    ctx->automatic = NULL;
    return status == SPMD_OK ? spmd__sync(ctx) : spmd__give_up(ctx, status);
}

spmd_status spmd__finish(spmd_ctx *ctx, spmd_status agreed, const spmd_tensor *out)
{
    const spmd_job *job = &ctx->mesh->job;
    /* A shard that timed out just when the last one came does commit. */
    if (!spmd__commit(ctx->mesh, agreed == SPMD_OK))
        return agreed == SPMD_OK ? SPMD_FAIL(SPMD_EABORTED, "another shard failed first") : agreed;
    for (int k = 0; k < job->nout; k++)
        if (ctx->id == 0 && job->out[k]->rank < 0) /* read by the caller only, after all threads are back */
            job->out[k]->rank = out[k].rank;
    return SPMD_OK;
}

spmd_status spmd__end_outputs(spmd_ctx *ctx, spmd_status copied)
{
    if (copied == SPMD_OK && ctx->mesh->backend->remote)
        copied = spmd__sync(ctx);
    return spmd__spoil(ctx->mesh, copied);
}

/* After the commit. */
static spmd_status copy_out(spmd_ctx *ctx, const spmd_tensor *out)
{
    const spmd_job *job = &ctx->mesh->job;
    for (int k = 0; k < job->nout; k++)
        if (job->out[k]->block[ctx->id] != out[k].memory)
            SPMD_TRY(spmd__block_copy(ctx, job->out[k]->block[ctx->id], out[k].memory, spmd__tensor_bytes(&out[k])));
    return SPMD_OK;
}

static spmd_status run_eagerly(spmd_ctx *ctx)
{
    const spmd_job *job = &ctx->mesh->job;
    spmd_tensor *in = spmd__make_inputs(ctx);
    if (!in)
        return SPMD_ENOMEM;
    spmd_tensor *out = in + job->nin;
    SPMD_TRY(spmd__call_shard(ctx, in, out));
    for (int k = 0; k < job->nout; k++) {
        SPMD_TRY(spmd__check_output(ctx, k, &out[k]));
        SPMD_TRY(stage(ctx, &out[k], job->out[k]->block[ctx->id]));
    }
    if (ctx->mesh->backend->remote)
        SPMD_TRY(spmd__sync(ctx)); /* the others may read what was staged */
    SPMD_TRY(spmd__finish(ctx, spmd__agree(ctx, out), out));
    return spmd__end_outputs(ctx, copy_out(ctx, out));
}

spmd_status spmd__run_shard(spmd_ctx *ctx)
{
    const spmd_job *job = &ctx->mesh->job;
    spmd__begin_shard(ctx);
    for (int k = 0; k < job->nin; k++)
        if (job->in_host[k])
            SPMD_TRY(spmd__update_block(job->in[k], ctx->id, job->in_host[k]));
    return ctx->mesh->jit_entry ? spmd__run_program(ctx) : run_eagerly(ctx);
}
