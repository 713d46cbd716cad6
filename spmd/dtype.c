#include "spmd/dtype.h"
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} table[] = {
#define ROW(name, text, bytes) {text, bytes},
    SPMD_DTYPE_MAP(ROW)
#undef ROW
};

const char *spmd_dtype_name(spmd_dtype dtype)
{
    return (unsigned)dtype < SPMD_DTYPE_COUNT ? table[dtype].name : "?";
}

size_t spmd_dtype_size(spmd_dtype dtype)
{
    return (unsigned)dtype < SPMD_DTYPE_COUNT ? table[dtype].size : 0;
}

bool spmd_dtype_is_float(spmd_dtype dtype)
{
    return dtype == SPMD_F32 || dtype == SPMD_BF16 || dtype == SPMD_F16;
}

spmd_status spmd_dtype_parse(const char *text, spmd_dtype *out)
{
    SPMD_CHECK(text && out, SPMD_EINVAL, "dtype: text and out must not be NULL");
    for (int k = 0; k < SPMD_DTYPE_COUNT; k++)
        if (!strcmp(text, table[k].name)) {
            *out = (spmd_dtype)k;
            return SPMD_OK;
        }
    return SPMD_FAIL(SPMD_EINVAL, "dtype '%s': expected f32, bf16, f16, i8, i32, i64, u8 or bool", text);
}
