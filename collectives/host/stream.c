/* Copies past the caches, for results that are too large to stay in them: a store that does not first read the line it
 * overwrites moves a third less memory. select.c says when. */
#include "collectives/coll.h"
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#ifdef __SSE2__
void spmd__stream(void *dst, const void *src, size_t bytes)
{
    enum { STEP = 64 };
    char *to = dst;
    const char *from = src;
    size_t head = -(uintptr_t)to % STEP;
    head = head < bytes ? head : bytes;
    spmd__copy(to, from, head);
    size_t at = head;
    for (; at + STEP <= bytes; at += STEP)
        for (int k = 0; k < STEP; k += 16)
            _mm_stream_si128((__m128i *)(void *)(to + at + k),
                             _mm_loadu_si128((const __m128i *)(const void *)(from + at + k)));
    spmd__copy(to + at, from + at, bytes - at);
    _mm_sfence(); /* before the flag that tells the others */
}
#else
void spmd__stream(void *dst, const void *src, size_t bytes)
{
    spmd__copy(dst, src, bytes);
}
#endif
