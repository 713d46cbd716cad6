/* What the tests of cuBLAS and cuBLASLt share: matrices of any type, as floats on the host. */
#ifndef BLAS_SAMPLES_H
#define BLAS_SAMPLES_H

#include "emu_test.h"
#include "spmd/cuda.cuh"
#include <cublasLt.h>
#include <cublas_v2.h>
#include <math.h>
#include <vector>

#define ck_blas(call)                                                                                   \
    do {                                                                                                \
        cublasStatus_t ck_s_ = (call);                                                                  \
        ck_assert_msg(ck_s_ == CUBLAS_STATUS_SUCCESS, "%s: %s (%s)", #call, cublasGetStatusName(ck_s_), \
                      emu_report_text(NULL));                                                           \
    } while (0)

typedef std::vector<float> floats;

static inline float rounded(cudaDataType type, float value)
{
    return type == CUDA_R_16BF  ? __bfloat162float(__float2bfloat16(value))
           : type == CUDA_R_16F ? __half2float(__float2half(value))
                                : value;
}

static inline size_t size_of(cudaDataType type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

/* Values that a type holds exactly. */
static inline floats numbers(size_t n, cudaDataType type, unsigned seed)
{
    floats v(n);
    for (float &x : v) {
        seed = seed * 1664525u + 1013904223u;
        x = rounded(type, static_cast<float>(seed >> 16 & 0xfff) / 2048.0f - 1.0f);
    }
    return v;
}

static inline void *upload(const floats &v, cudaDataType type)
{
    std::vector<unsigned char> bytes(v.size() * size_of(type) + 1);
    for (size_t i = 0; i < v.size(); i++) {
        if (type == CUDA_R_32F)
            reinterpret_cast<float *>(bytes.data())[i] = v[i];
        else if (type == CUDA_R_16BF)
            reinterpret_cast<__nv_bfloat16 *>(bytes.data())[i] = __float2bfloat16(v[i]);
        else
            reinterpret_cast<__half *>(bytes.data())[i] = __float2half(v[i]);
    }
    void *p;
    ck_cuda(cudaMalloc(&p, v.size() * size_of(type)));
    ck_cuda(cudaMemcpy(p, bytes.data(), v.size() * size_of(type), cudaMemcpyHostToDevice));
    return p;
}

static inline floats download(const void *p, size_t n, cudaDataType type)
{
    std::vector<unsigned char> bytes(n * size_of(type));
    floats v(n);
    ck_cuda(cudaMemcpy(bytes.data(), p, bytes.size(), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < n; i++)
        v[i] = type == CUDA_R_32F    ? reinterpret_cast<float *>(bytes.data())[i]
               : type == CUDA_R_16BF ? __bfloat162float(reinterpret_cast<__nv_bfloat16 *>(bytes.data())[i])
                                     : __half2float(reinterpret_cast<__half *>(bytes.data())[i]);
    return v;
}

static inline void ck_near(float got, double want, double tolerance, const char *what, int i)
{
    ck_assert_msg(fabs(got - want) <= tolerance * (1 + fabs(want)), "%s[%d]: %g, not %g", what, i, got, want);
}

static const cudaDataType blas_types[] = {CUDA_R_32F, CUDA_R_16BF, CUDA_R_16F};

#endif
