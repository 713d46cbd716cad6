#ifndef ROW_SOFTMAX_H
#define ROW_SOFTMAX_H

#include <cuda_runtime_api.h>

/* y[r][:] = softmax(x[r][:]) for rows x columns floats on the device, on stream. */
cudaError_t row_softmax(const float *x, float *y, int rows, int columns, cudaStream_t stream);

#endif
