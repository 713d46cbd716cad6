/* Element types. bf16 and f16 are storage types: arithmetic on them is done in f32 and rounded once. */
#ifndef SPMD_DTYPE_H
#define SPMD_DTYPE_H

#include "spmd/status.h"
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(enum name, printed name, bytes) */
#define SPMD_DTYPE_MAP(X) \
    X(F32, "f32", 4)      \
    X(BF16, "bf16", 2)    \
    X(F16, "f16", 2)      \
    X(I8, "i8", 1)        \
    X(I32, "i32", 4)      \
    X(I64, "i64", 8)      \
    X(U8, "u8", 1)        \
    X(BOOL, "bool", 1)

typedef enum spmd_dtype {
#define SPMD_DTYPE_ENUM(name, text, bytes) SPMD_##name,
    SPMD_DTYPE_MAP(SPMD_DTYPE_ENUM)
#undef SPMD_DTYPE_ENUM
        SPMD_DTYPE_COUNT
} spmd_dtype;

SPMD_API const char *spmd_dtype_name(spmd_dtype dtype); /* "f32"; "?" for a value out of range. Local. */
SPMD_API size_t spmd_dtype_size(spmd_dtype dtype);      /* bytes of one element; 0 out of range. Local. */
SPMD_API bool spmd_dtype_is_float(spmd_dtype dtype);    /* f32, bf16, f16. Local. */
SPMD_API spmd_status spmd_dtype_parse(const char *text, spmd_dtype *out); /* Errors: EINVAL lists the names. Local. */

#ifdef __cplusplus
}
#endif
#endif
