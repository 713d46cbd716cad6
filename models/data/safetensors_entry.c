/* One entry of a safetensors header, nothing in it believed. */
#include "models/data/safetensors_entry.h"
#include <stdbool.h>
#include <string.h>

/* JSON numbers come as doubles: beyond 2^53 they no longer name one integer. */
static const double exact_limit = 9007199254740992.0;

static bool integer(const cJSON *item, uint64_t *out)
{
    if (!cJSON_IsNumber(item))
        return false;
    double x = item->valuedouble;
    if (!(x >= 0 && x < exact_limit) || (double)(uint64_t)x != x)
        return false;
    *out = (uint64_t)x;
    return true;
}

const char *spmd__safetensors_dtype(spmd_dtype dtype)
{
    static const char *const names[] = {
        [SPMD_F32] = "F32", [SPMD_BF16] = "BF16", [SPMD_F16] = "F16", [SPMD_I8] = "I8",
        [SPMD_U8] = "U8",   [SPMD_I32] = "I32",   [SPMD_I64] = "I64", [SPMD_BOOL] = "BOOL"};
    return names[dtype];
}

static bool dtype_of(const char *text, spmd_dtype *out)
{
    for (int i = 0; i < SPMD_DTYPE_COUNT; i++) {
        if (strcmp(spmd__safetensors_dtype((spmd_dtype)i), text) == 0) {
            *out = (spmd_dtype)i;
            return true;
        }
    }
    return false;
}

static spmd_status read_shape(const char *path, const cJSON *shape, spmd_safetensor *t)
{
    SPMD_CHECK(cJSON_IsArray(shape), SPMD_EDATA, "%s: tensor \"%.100s\" has no shape, expected a list of sizes", path,
               t->name);
    uint64_t count = 1;
    for (const cJSON *item = shape->child; item; item = item->next) {
        uint64_t size;
        SPMD_CHECK(t->rank < SPMD_MAX_RANK, SPMD_EUNSUPPORTED, "%s: tensor \"%.100s\" has rank %d, expected at most %d",
                   path, t->name, cJSON_GetArraySize(shape), SPMD_MAX_RANK);
        SPMD_CHECK(integer(item, &size), SPMD_EDATA,
                   "%s: tensor \"%.100s\": size %d of its shape is %g, expected an integer of 0 or more", path, t->name,
                   t->rank, cJSON_GetNumberValue(item));
        SPMD_CHECK(size == 0 || count <= INT64_MAX / size / 8, SPMD_EDATA,
                   "%s: tensor \"%.100s\": its shape overflows at size %d = %llu", path, t->name, t->rank,
                   (unsigned long long)size);
        count *= size;
        t->shape[t->rank++] = (int64_t)size;
    }
    t->count = (int64_t)count;
    t->bytes = (size_t)count * spmd_dtype_size(t->dtype);
    return SPMD_OK;
}

static spmd_status read_offsets(const char *path, const cJSON *offsets, uint64_t data_bytes, safetensors_entry *out)
{
    const char *name = out->tensor.name;
    SPMD_CHECK(cJSON_IsArray(offsets) && cJSON_GetArraySize(offsets) == 2 && integer(offsets->child, &out->begin) &&
                   integer(offsets->child->next, &out->end),
               SPMD_EDATA, "%s: tensor \"%.100s\" has no data_offsets, expected two integers of 0 or more", path, name);
    SPMD_CHECK(out->begin <= out->end && out->end <= data_bytes, SPMD_EDATA,
               "%s: tensor \"%.100s\": data_offsets %llu to %llu, expected inside 0 to %llu, the data of the file: cut "
               "short?",
               path, name, (unsigned long long)out->begin, (unsigned long long)out->end,
               (unsigned long long)data_bytes);
    SPMD_CHECK(out->end - out->begin == out->tensor.bytes, SPMD_EDATA,
               "%s: tensor \"%.100s\": data_offsets %llu to %llu hold %llu bytes, expected %zu for its shape and dtype "
               "%s",
               path, name, (unsigned long long)out->begin, (unsigned long long)out->end,
               (unsigned long long)(out->end - out->begin), out->tensor.bytes, spmd_dtype_name(out->tensor.dtype));
    return SPMD_OK;
}

spmd_status spmd__safetensors_entry(const char *path, const cJSON *item, uint64_t data_bytes, safetensors_entry *out)
{
    spmd_safetensor *t = &out->tensor;
    *out = (safetensors_entry){.tensor = {.name = item->string}};
    SPMD_CHECK(cJSON_IsObject(item), SPMD_EDATA,
               "%s: tensor \"%.100s\" is no JSON object, expected dtype, shape and data_offsets", path, t->name);
    const char *dtype = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "dtype"));
    SPMD_CHECK(dtype, SPMD_EDATA, "%s: tensor \"%.100s\" has no dtype, expected a string such as \"F32\"", path,
               t->name);
    SPMD_CHECK(dtype_of(dtype, &t->dtype), SPMD_EUNSUPPORTED,
               "%s: tensor \"%.100s\" has dtype \"%.20s\", expected F32, BF16, F16, I8, U8, I32, I64 or BOOL", path,
               t->name, dtype);
    SPMD_TRY(read_shape(path, cJSON_GetObjectItemCaseSensitive(item, "shape"), t));
    return read_offsets(path, cJSON_GetObjectItemCaseSensitive(item, "data_offsets"), data_bytes, out);
}
