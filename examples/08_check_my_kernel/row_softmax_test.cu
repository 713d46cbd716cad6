/* An ordinary test of numbers. That memory was used rightly needs no line: findings of the checker fail the program. */
#include "row_softmax.h"
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>

#define CUDA(call)                                                     \
    do {                                                               \
        cudaError_t error = (call);                                    \
        if (error != cudaSuccess) {                                    \
            std::printf("%s: %s\n", #call, cudaGetErrorString(error)); \
            return false;                                              \
        }                                                              \
    } while (0)

static bool right(int rows, int columns)
{
    size_t n = size_t(rows) * columns;
    std::vector<float> x(n), y(n);
    for (size_t i = 0; i < n; i++)
        x[i] = float(i * 7 % 13) - 6;
    float *dx, *dy;
    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaMalloc(&dx, n * sizeof *dx));
    CUDA(cudaMalloc(&dy, n * sizeof *dy));
    CUDA(cudaMemcpyAsync(dx, x.data(), n * sizeof *dx, cudaMemcpyHostToDevice, stream));
    CUDA(row_softmax(dx, dy, rows, columns, stream));
    CUDA(cudaMemcpyAsync(y.data(), dy, n * sizeof *dy, cudaMemcpyDeviceToHost, stream));
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaFree(dx));
    CUDA(cudaFree(dy));
    for (int r = 0; r < rows; r++) {
        double sum = 0;
        for (int i = 0; i < columns; i++)
            sum += std::exp(x[size_t(r) * columns + i]);
        for (int i = 0; i < columns; i++) {
            double want = std::exp(x[size_t(r) * columns + i]) / sum;
            if (!(std::fabs(y[size_t(r) * columns + i] - want) < 1e-5)) {
                std::printf("row %d column %d of %dx%d is %g, not %g\n", r, i, rows, columns,
                            y[size_t(r) * columns + i], want);
                return false;
            }
        }
    }
    return true;
}

int main()
{
    bool ok = right(5, 100) && right(1, 1) && right(3, 64) && right(2, 1000);
    std::printf(ok ? "ok\n" : "wrong\n");
    return ok ? 0 : 1;
}
