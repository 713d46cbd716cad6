/* Private: named ranges that profilers show (Nsight Systems: NVTX). NVTX is headers only; without a tool a range costs
 * one load. A build whose toolkit lacks the header has no ranges. */
#ifndef SPMD_CUDA_RANGE_H
#define SPMD_CUDA_RANGE_H

#if defined(__has_include)
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define SPMD_HAVE_NVTX 1
#endif
#endif

/* Around what this thread does until spmd__range_end; ranges nest. */
static inline void spmd__range_begin(const char *name)
{
#ifdef SPMD_HAVE_NVTX
    (void)nvtxRangePushA(name);
#else
    (void)name;
#endif
}

static inline void spmd__range_end(void)
{
#ifdef SPMD_HAVE_NVTX
    (void)nvtxRangePop();
#endif
}

#endif
