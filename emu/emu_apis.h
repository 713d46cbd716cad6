/* Private: every function that the emulator provides and that can be made to fail (emu_fail). An entry macro with a
 * name that is not listed, and a listed name that no header declares, do not compile. */
#ifndef EMU_APIS_H
#define EMU_APIS_H

/* clang-format off */
#define EMU_CUDA_APIS(X)                                                                                               \
    X(cudaGetDeviceCount) X(cudaSetDevice) X(cudaGetDevice) X(cudaGetDeviceProperties) X(cudaDeviceGetAttribute)       \
    X(cudaDeviceGetPCIBusId) X(cudaDeviceCanAccessPeer) X(cudaDeviceEnablePeerAccess) X(cudaDeviceDisablePeerAccess)   \
    X(cudaDeviceGetP2PAttribute) X(cudaDeviceGetStreamPriorityRange) X(cudaDeviceSynchronize) X(cudaDriverGetVersion)  \
    X(cudaRuntimeGetVersion) X(cudaMalloc) X(cudaFree) X(cudaMallocAsync) X(cudaFreeAsync) X(cudaMallocHost)           \
    X(cudaHostAlloc) X(cudaFreeHost) X(cudaHostRegister) X(cudaHostUnregister) X(cudaMemGetInfo)                       \
    X(cudaPointerGetAttributes) X(cudaMemcpy) X(cudaMemcpyAsync) X(cudaMemcpy2DAsync) X(cudaMemcpyPeerAsync)           \
    X(cudaMemset) X(cudaMemsetAsync) X(cudaLaunchHostFunc) X(cudaStreamCreate)                                         \
    X(cudaStreamCreateWithFlags) X(cudaStreamCreateWithPriority) X(cudaStreamDestroy) X(cudaStreamSynchronize)         \
    X(cudaStreamQuery) X(cudaStreamWaitEvent) X(cudaStreamGetFlags) X(cudaStreamGetPriority) X(cudaStreamGetDevice)    \
    X(cudaStreamBeginCapture) X(cudaStreamEndCapture) X(cudaStreamIsCapturing) X(cudaThreadExchangeStreamCaptureMode)  \
    X(cudaEventCreate) X(cudaEventCreateWithFlags) X(cudaEventDestroy) X(cudaEventRecord) X(cudaEventRecordWithFlags)  \
    X(cudaEventSynchronize) X(cudaEventQuery) X(cudaEventElapsedTime) X(cudaGraphInstantiate)                          \
    X(cudaGraphInstantiateWithFlags) X(cudaGraphUpload) X(cudaGraphLaunch) X(cudaGraphDestroy)                         \
    X(cudaGraphExecDestroy) X(cudaGraphGetNodes) X(cudaFuncSetAttribute) X(cudaFuncGetAttributes)                      \
    X(cudaOccupancyMaxActiveBlocksPerMultiprocessor)

#define EMU_BLAS_APIS(X)                                                                                               \
    X(cublasCreate) X(cublasDestroy) X(cublasGetVersion) X(cublasSetStream) X(cublasGetStream) X(cublasSetWorkspace)   \
    X(cublasSetPointerMode) X(cublasSetMathMode) X(cublasGemmEx) X(cublasGemmStridedBatchedEx) X(cublasSgemm)          \
    X(cublasSgemmStridedBatched) X(cublasLtCreate) X(cublasLtDestroy) X(cublasLtMatmul)                                \
    X(cublasLtMatmulAlgoGetHeuristic) X(cublasLtMatmulDescInit_internal) X(cublasLtMatmulDescCreate)                   \
    X(cublasLtMatmulDescDestroy) X(cublasLtMatmulDescSetAttribute) X(cublasLtMatmulDescGetAttribute)                   \
    X(cublasLtMatrixLayoutInit_internal) X(cublasLtMatrixLayoutCreate) X(cublasLtMatrixLayoutDestroy)                  \
    X(cublasLtMatrixLayoutSetAttribute) X(cublasLtMatrixLayoutGetAttribute) X(cublasLtMatmulPreferenceInit_internal)   \
    X(cublasLtMatmulPreferenceCreate) X(cublasLtMatmulPreferenceDestroy) X(cublasLtMatmulPreferenceSetAttribute)

#define EMU_NCCL_APIS(X)                                                                                               \
    X(ncclGetVersion) X(ncclGetUniqueId) X(ncclCommInitRank) X(ncclCommInitRankConfig) X(ncclCommInitAll)              \
    X(ncclCommSplit) X(ncclCommFinalize) X(ncclCommDestroy) X(ncclCommAbort) X(ncclCommGetAsyncError)                  \
    X(ncclCommCount) X(ncclCommCuDevice) X(ncclCommUserRank) X(ncclCommRegister) X(ncclCommDeregister)                 \
    X(ncclMemAlloc) X(ncclMemFree) X(ncclGroupStart) X(ncclGroupEnd) X(ncclAllReduce) X(ncclAllGather)                 \
    X(ncclReduceScatter) X(ncclBroadcast) X(ncclReduce) X(ncclSend) X(ncclRecv)

/* clang-format on */

/* A launch (emu_launch) counts as cudaLaunchKernel. */
#define EMU_APIS(X) EMU_CUDA_APIS(X) EMU_BLAS_APIS(X) EMU_NCCL_APIS(X) X(cudaLaunchKernel)

#define EMU_API_ENUM(name) EMU_API_##name,
typedef enum emu_api { EMU_APIS(EMU_API_ENUM) EMU_API_COUNT } emu_api;
#undef EMU_API_ENUM

#endif
