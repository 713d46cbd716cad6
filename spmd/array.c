/* Global arrays: blocks on devices, and the only crossing between host and device memory. */
#include "spmd/ctx.h"
#include "spmd/half.h"
#include <math.h>
#include <string.h>

spmd_status spmd__array_shell(spmd_mesh *mesh, spmd_dtype dtype, int rank, const int64_t *shape, const spmd_spec *spec,
                              spmd_array **out)
{
    *out = NULL;
    SPMD_CHECK(spmd_dtype_size(dtype), SPMD_EDTYPE, "dtype %d is not one", (int)dtype);
    SPMD_CHECK(rank == 0 || shape, SPMD_EINVAL, "shape must not be NULL for rank %d", rank);
    SPMD_TRY(spmd_spec_check(spec, mesh, rank, shape));
    SPMD_CHECK(spmd__countable(dtype, rank, shape), SPMD_ESHAPE,
               "a global shape of rank %d has more bytes than can be counted: use smaller sizes", rank);
    spmd_array *array = spmd__alloc(mesh, sizeof *array);
    if (!array)
        return SPMD_ENOMEM;
    *array = (spmd_array){.mesh = mesh, .dtype = dtype, .rank = rank, .spec = *spec};
    spmd__layout(spec, mesh, rank, &array->layout); /* checked above */
    array->block_bytes = spmd_dtype_size(dtype);
    for (int d = 0; d < rank; d++) {
        array->shape[d] = shape[d];
        array->block_shape[d] = shape[d] / spmd__layout_cuts(mesh, &array->layout, d);
        array->block_bytes *= (size_t)array->block_shape[d];
    }
    *out = array;
    return SPMD_OK;
}

/* The contiguous runs of a block in the global array. */
typedef struct runs {
    size_t bytes; /* of a run */
    int outer;    /* dimensions from `outer` on are one run */
    int64_t index[SPMD_MAX_RANK], first[SPMD_MAX_RANK];
} runs;

static runs first_run(const spmd_array *array, int device)
{
    runs r = {.bytes = spmd_dtype_size(array->dtype), .outer = array->rank};
    while (r.outer > 0 && array->block_shape[r.outer - 1] == array->shape[r.outer - 1])
        r.bytes *= (size_t)array->shape[--r.outer];
    if (r.outer > 0)
        r.bytes *= (size_t)array->block_shape[--r.outer];
    for (int d = 0; d < array->rank; d++)
        r.first[d] = array->block_shape[d] * spmd__layout_index(array->mesh, &array->layout, device, d);
    return r;
}

/* Where the present run begins in the global array; in bytes. */
static size_t run_offset(const spmd_array *array, const runs *r)
{
    size_t offset = 0;
    for (int d = 0; d < array->rank; d++)
        offset = offset * (size_t)array->shape[d] + (size_t)(r->first[d] + r->index[d]);
    return offset * spmd_dtype_size(array->dtype);
}

static void copy_runs(const spmd_array *array, runs r, char *block, char *host, bool to_block)
{
    for (size_t at_block = 0; at_block < array->block_bytes; at_block += r.bytes) {
        char *global = host + run_offset(array, &r), *local = block + at_block;
        memcpy(to_block ? local : global, to_block ? global : local, r.bytes);
        for (int d = r.outer - 1; d >= 0 && ++r.index[d] == array->block_shape[d]; d--)
            r.index[d] = 0;
    }
}

/* A device's block to or from the global array in host memory; many runs of a remote block are packed first. */
static spmd_status copy_block(const spmd_array *array, int device, char *host, bool to_block)
{
    spmd_device *at = &array->mesh->devices[device];
    char *block = array->block[device];
    runs r = first_run(array, device);
    if (!array->mesh->backend->remote) {
        copy_runs(array, r, block, host, to_block);
        return SPMD_OK;
    }
    size_t bytes = array->block_bytes;
    if (bytes <= r.bytes)
        return to_block ? spmd__block_put(at, block, host + run_offset(array, &r), bytes)
                        : spmd__block_get(at, host + run_offset(array, &r), block, bytes);
    char *packed = spmd__alloc(array->mesh, bytes);
    if (!packed)
        return SPMD_ENOMEM;
    if (to_block)
        copy_runs(array, r, packed, host, true);
    spmd_status status = to_block ? spmd__block_put(at, block, packed, bytes)
                                  : spmd__block_get(at, packed, block, bytes);
    if (!to_block && status == SPMD_OK)
        copy_runs(array, r, packed, host, false);
    spmd__free(packed);
    return status;
}

static spmd_status check_copy(const spmd_array *array, const char *function)
{
    size_t bytes = array->block_bytes * (size_t)array->mesh->ndevices;
    SPMD_CHECK(spmd__permitted(array->mesh, SPMD_COPY, bytes), SPMD_EIO,
               "%s: a copy of %zu bytes failed, because the mesh's fault hook refused it", function, bytes);
    return SPMD_OK;
}

spmd_status spmd__update_block(spmd_array *array, int device, const void *host)
{
    return copy_block(array, device, (char *)host, true);
}

spmd_status spmd__check_update(const spmd_array *array)
{
    return check_copy(array, "spmd_shard_map");
}

spmd_status spmd_shard_update(spmd_array *array, const void *host)
{
    SPMD_CHECK(array && host, SPMD_EINVAL, "spmd_shard_update: array and host must not be NULL");
    SPMD_TRY(check_copy(array, "spmd_shard_update"));
    for (int d = 0; d < array->mesh->ndevices; d++)
        SPMD_TRY(spmd__update_block(array, d, host));
    return SPMD_OK;
}

static void repeat(char *block, size_t bytes, const char *element, size_t size)
{
    enum { MOST = 4096 }; /* what has been written and is copied again stays in the caches */
    if (!bytes)
        return;
    memcpy(block, element, size);
    for (size_t done = size, step; done < bytes; done += step) {
        step = done < MOST ? done : MOST;
        step = step < bytes - done ? step : bytes - done;
        memcpy(block + done, block, step);
    }
}

/* Every element of every block. */
static spmd_status fill(spmd_array *array, const char element[8])
{
    size_t bytes = array->block_bytes, size = spmd_dtype_size(array->dtype);
    int n = array->mesh->ndevices;
    if (!array->mesh->backend->remote) {
        for (int d = 0; d < n; d++)
            repeat(array->block[d], bytes, element, size);
        return SPMD_OK;
    }
    char small[64], *block = bytes <= sizeof small ? small : spmd__alloc(array->mesh, bytes);
    if (!block)
        return SPMD_ENOMEM;
    repeat(block, bytes, element, size);
    spmd_status status = SPMD_OK;
    for (int d = 0; d < n && status == SPMD_OK; d++)
        status = spmd__block_put(&array->mesh->devices[d], array->block[d], block, bytes);
    if (block != small)
        spmd__free(block);
    return status;
}

static spmd_status clear(spmd_array *array)
{
    if (array->mesh->backend->remote)
        return fill(array, (const char[8]){0});
    for (int d = 0; d < array->mesh->ndevices; d++)
        spmd__clear(array->block[d], array->block_bytes);
    return SPMD_OK;
}

spmd_status spmd_shard(spmd_mesh *mesh, const void *host, spmd_dtype dtype, int rank, const int64_t *shape,
                       spmd_spec spec, spmd_array **out)
{
    SPMD_CHECK(mesh && out, SPMD_EINVAL, "spmd_shard: mesh and out must not be NULL");
    spmd_array *array;
    *out = NULL;
    SPMD_TRY(spmd__array_shell(mesh, dtype, rank, shape, &spec, &array));
    spmd_status status = SPMD_OK;
    for (int d = 0; d < mesh->ndevices && status == SPMD_OK; d++) {
        array->block[d] = spmd__block_alloc(&mesh->devices[d], array->block_bytes);
        status = array->block[d] ? SPMD_OK : SPMD_ENOMEM;
    }
    if (status == SPMD_OK)
        status = host ? spmd_shard_update(array, host) : clear(array);
    if (status != SPMD_OK)
        spmd_array_destroy(array);
    else
        *out = array;
    return status;
}

spmd_status spmd_unshard(const spmd_array *array, void *host)
{
    SPMD_CHECK(array && host, SPMD_EINVAL, "spmd_unshard: array and host must not be NULL");
    SPMD_TRY(check_copy(array, "spmd_unshard"));
    unsigned named = spmd__layout_mask(&array->layout);
    for (int d = 0; d < array->mesh->ndevices; d++) {
        bool copy = false; /* another device with smaller coordinates holds the same block */
        for (int a = 0; a < array->mesh->naxes; a++)
            copy |= !(named >> a & 1) && spmd_mesh_coord(array->mesh, d, a) > 0;
        if (!copy)
            SPMD_TRY(copy_block(array, d, host, false));
    }
    return SPMD_OK;
}

/* `value` as one element of the dtype, in `element`; the caller has checked that it fits. */
static void encode(double value, spmd_dtype dtype, void *element)
{
    switch (dtype) {
    case SPMD_F32:
        memcpy(element, &(float){(float)value}, 4);
        break;
    case SPMD_BF16:
        memcpy(element, &(uint16_t){spmd__f32_to_bf16((float)value)}, 2);
        break;
    case SPMD_F16:
        memcpy(element, &(uint16_t){spmd__f32_to_f16((float)value)}, 2);
        break;
    case SPMD_I32:
        memcpy(element, &(int32_t){(int32_t)value}, 4);
        break;
    case SPMD_I64:
        memcpy(element, &(int64_t){(int64_t)value}, 8);
        break;
    default: /* i8, u8, bool: one byte */
        memcpy(element, &(uint8_t){(uint8_t)(dtype == SPMD_BOOL ? value != 0 : (int)value)}, 1);
    }
}

/* The values an integer dtype holds: [least, top). */
static void integer_range(spmd_dtype dtype, double *least, double *top)
{
    bool is_signed = dtype != SPMD_U8 && dtype != SPMD_BOOL;
    *top = dtype == SPMD_BOOL ? 2 : ldexp(1, 8 * (int)spmd_dtype_size(dtype) - is_signed);
    *least = is_signed ? -*top : 0;
}

spmd_status spmd_array_set(spmd_array *array, double value)
{
    SPMD_CHECK(array, SPMD_EINVAL, "spmd_array_set: array must not be NULL");
    char element[8];
    if (!spmd_dtype_is_float(array->dtype)) {
        double least, top;
        integer_range(array->dtype, &least, &top);
        SPMD_CHECK(value >= least && value < top, SPMD_EINVAL, "spmd_array_set: %g does not fit %s", value,
                   spmd_dtype_name(array->dtype));
    }
    encode(value, array->dtype, element);
    return fill(array, element);
}

spmd_array *spmd__array_free(spmd_array *array)
{
    spmd_array *after = array->orphan;
    for (int d = 0; d < array->mesh->ndevices; d++)
        spmd__block_free(array->mesh, array->block[d]);
    spmd__free(array);
    return after;
}

void spmd_array_destroy(spmd_array *array)
{
    if (!array)
        return;
    if (!spmd__has_stuck_thread(array->mesh)) {
        spmd__array_free(array);
        return;
    }
    array->orphan = array->mesh->orphans;
    array->mesh->orphans = array;
}

spmd_dtype spmd_array_dtype(const spmd_array *array)
{
    return array->dtype;
}

int spmd_array_rank(const spmd_array *array)
{
    return array->rank;
}

const int64_t *spmd_array_shape(const spmd_array *array)
{
    return array->shape;
}

int64_t spmd_array_count(const spmd_array *array)
{
    return spmd__block_count(array->rank, array->shape);
}

spmd_spec spmd_array_spec(const spmd_array *array)
{
    return array->spec;
}

spmd_mesh *spmd_array_mesh(const spmd_array *array)
{
    return array->mesh;
}
