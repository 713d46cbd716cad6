/* Reductions, rank by rank from `start`. f32, bf16 and f16 are computed in f32 and rounded after every step, in pieces,
 * so that the sums fit on the stack; f64 as it is; integers in 64 bits, of which their type keeps the low ones. */
#include "emu/emu_nccl_fold.h"
#include <math.h>
#include <stdint.h>
#include "emu/emu_float.h"

enum { PIECE = 256 };

size_t emu_nccl_size(ncclDataType_t type)
{
    switch (type) {
    case ncclInt8:
    case ncclUint8:
        return 1;
    case ncclFloat16:
    case ncclBfloat16:
        return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
        return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
        return 8;
    default:
        return 0;
    }
}

bool emu_nccl_known_op(ncclRedOp_t op)
{
    return op == ncclSum || op == ncclProd || op == ncclMax || op == ncclMin || op == ncclAvg;
}

static void widen_float(float *wide, const void *in, size_t count, ncclDataType_t type)
{
    for (size_t i = 0; i < count; i++)
        wide[i] = type == ncclFloat32    ? ((const float *)in)[i]
                  : type == ncclBfloat16 ? emu_from_bf16(((const uint16_t *)in)[i])
                                         : emu_from_f16(((const uint16_t *)in)[i]);
}

static float rounded(float value, ncclDataType_t type)
{
    if (type == ncclFloat32)
        return value;
    return type == ncclBfloat16 ? emu_from_bf16(emu_to_bf16(value)) : emu_from_f16(emu_to_f16(value));
}

static float fold_float(float a, float b, ncclRedOp_t op)
{
    switch (op) {
    case ncclProd:
        return a * b;
    case ncclMax:
        return fmaxf(a, b);
    case ncclMin:
        return fminf(a, b);
    default:
        return a + b;
    }
}

static void fold_floats(void *out, const void *const *in, int ranks, int start, size_t first, size_t count,
                        ncclDataType_t type, ncclRedOp_t op)
{
    float sum[PIECE], next[PIECE];
    size_t size = emu_nccl_size(type);
    float scale = rounded(1.0f / (float)ranks, type);
    for (int r = 0; r < ranks; r++) {
        float *wide = r ? next : sum;
        widen_float(wide, (const char *)in[(start + r) % ranks] + first * size, count, type);
        for (size_t i = 0; i < count && op == ncclAvg; i++)
            wide[i] = rounded(wide[i] * scale, type);
        for (size_t i = 0; i < count && r; i++)
            sum[i] = rounded(fold_float(sum[i], next[i], op), type);
    }
    for (size_t i = 0; i < count; i++) {
        if (type == ncclFloat32)
            ((float *)out)[first + i] = sum[i];
        else
            ((uint16_t *)out)[first + i] = type == ncclBfloat16 ? emu_to_bf16(sum[i]) : emu_to_f16(sum[i]);
    }
}

static double fold_double(double a, double b, ncclRedOp_t op)
{
    switch (op) {
    case ncclProd:
        return a * b;
    case ncclMax:
        return fmax(a, b);
    case ncclMin:
        return fmin(a, b);
    default:
        return a + b;
    }
}

static void fold_doubles(double *out, const void *const *in, int ranks, int start, size_t first, size_t count,
                         ncclRedOp_t op)
{
    double scale = op == ncclAvg ? 1.0 / ranks : 1.0;
    for (size_t i = first; i < first + count; i++) {
        double sum = ((const double *)in[start % ranks])[i] * scale;
        for (int r = 1; r < ranks; r++)
            sum = fold_double(sum, ((const double *)in[(start + r) % ranks])[i] * scale, op);
        out[i] = sum;
    }
}

static bool is_signed(ncclDataType_t type)
{
    return type == ncclInt8 || type == ncclInt32 || type == ncclInt64;
}

static uint64_t load_integer(const void *data, ncclDataType_t type, size_t i)
{
    switch (type) {
    case ncclInt8:
        return (uint64_t)(int64_t)((const int8_t *)data)[i];
    case ncclUint8:
        return ((const uint8_t *)data)[i];
    case ncclInt32:
        return (uint64_t)(int64_t)((const int32_t *)data)[i];
    case ncclUint32:
        return ((const uint32_t *)data)[i];
    default:
        return ((const uint64_t *)data)[i];
    }
}

static void store_integer(void *data, ncclDataType_t type, size_t i, uint64_t value)
{
    switch (emu_nccl_size(type)) {
    case 1:
        ((uint8_t *)data)[i] = (uint8_t)value;
        break;
    case 4:
        ((uint32_t *)data)[i] = (uint32_t)value;
        break;
    default:
        ((uint64_t *)data)[i] = value;
    }
}

static uint64_t fold_integer(uint64_t a, uint64_t b, ncclDataType_t type, ncclRedOp_t op)
{
    bool less = is_signed(type) ? (int64_t)a < (int64_t)b : a < b;
    switch (op) {
    case ncclProd:
        return a * b;
    case ncclMax:
        return less ? b : a;
    case ncclMin:
        return less ? a : b;
    default:
        return a + b;
    }
}

static void fold_integers(void *out, const void *const *in, int ranks, int start, size_t first, size_t count,
                          ncclDataType_t type, ncclRedOp_t op)
{
    for (size_t i = first; i < first + count; i++) {
        uint64_t sum = load_integer(in[start % ranks], type, i);
        for (int r = 1; r < ranks; r++)
            sum = fold_integer(sum, load_integer(in[(start + r) % ranks], type, i), type, op);
        store_integer(out, type, i, sum);
        if (op == ncclAvg) { /* divides what is left after wrapping */
            sum = load_integer(out, type, i);
            uint64_t n = (uint64_t)ranks;
            store_integer(out, type, i, is_signed(type) ? (uint64_t)((int64_t)sum / (int64_t)n) : sum / n);
        }
    }
}

void emu_nccl_fold(void *out, const void *const *in, int ranks, int start, size_t count, ncclDataType_t type,
                   ncclRedOp_t op)
{
    for (size_t first = 0; first < count; first += PIECE) {
        size_t piece = count - first < PIECE ? count - first : PIECE;
        if (type == ncclFloat32 || type == ncclBfloat16 || type == ncclFloat16)
            fold_floats(out, in, ranks, start, first, piece, type, op);
        else if (type == ncclFloat64)
            fold_doubles(out, in, ranks, start, first, piece, op);
        else
            fold_integers(out, in, ranks, start, first, piece, type, op);
    }
}
