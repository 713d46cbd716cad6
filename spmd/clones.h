/* Private. What loops that must become vector code say to the compiler.
 *
 * SPMD_CLONES before a function: the compiler makes one copy for each x86-64 level and the loader picks the best that
 * the machine has, so a portable build still uses its vectors. The copies give the same bits, since products and sums
 * are never contracted or reordered (-ffp-contract=off, no -ffast-math). Needs gcc's ifuncs: empty elsewhere, and under
 * sanitizers, which cannot start before relocation is done.
 *
 * SPMD_SAME_PLACE before a loop: arrays that overlap are the same array, element k of each being in one place. */
#ifndef SPMD_CLONES_H
#define SPMD_CLONES_H

#include <stdint.h> /* defines __GLIBC__ where there is one */

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12 && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(SPMD_NO_CLONES)
#define SPMD_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define SPMD_CLONES
#endif

#ifdef __clang__
#define SPMD_SAME_PLACE _Pragma("clang loop vectorize(assume_safety)")
#else
#define SPMD_SAME_PLACE _Pragma("GCC ivdep")
#endif

#endif
