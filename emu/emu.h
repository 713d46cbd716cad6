/* The emulated CUDA under control of a test: devices, order of execution, failures, and what the checker found.
 *
 * Programs link spmdkit::emu in the place of the CUDA runtime, cuBLAS and NCCL; the headers are NVIDIA's own. Streams
 * run in an order that the policy and the seed choose, and every memory access of a kernel is checked. Findings are
 * printed to stderr and counted here; a program that ends with findings which nobody cleared ends with exit code 66.
 *
 * Kinds of findings:
 *   memcheck     memory that is not allocated, freed, or the host's; shared memory outside of every variable
 *   initcheck    a read of memory that nobody has written
 *   racecheck    shared memory: two threads, one writes, no barrier between
 *   race         global memory: the same inside one launch
 *   stream-race  two ops on one memory with no event or synchronization between
 *   sync         barriers or warp functions that not all threads reach
 *   alignment    an access to an address that its type does not allow
 *   cp.async     asynchronous copies that are wrong or never waited for
 *   peer, host, free, pinned, device, capture, nccl, blas, launch, hang, leak    misuse of the runtime
 *
 * The environment sets what a program does not: EMU_DEVICES (2), EMU_POLICY (early, late, random, newest), EMU_SEED
 * (1), EMU_QUIET (1: print nothing), EMU_EXIT_CODE (0: findings do not change the exit code). */
#ifndef EMU_H
#define EMU_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum emu_policy {
    EMU_EARLY = 0,  /* every op as soon as it may run */
    EMU_LATE = 1,   /* nothing before a synchronization asks for it: shows what a missing wait reads too early */
    EMU_RANDOM = 2, /* any op that may run, by the seed; several blocks at once, threads in any order */
    EMU_NEWEST = 3, /* the op issued last: shows what overwrites too early */
} emu_policy;

/* emu_configure - the number of devices (only before the first CUDA call; 0: as it is), the order of execution and its
 * seed. Call it while no op is in flight. */
void emu_configure(int devices, emu_policy policy, unsigned seed);

/* emu_set_timeout - seconds after which a synchronization that does not end is reported as "hang" (default 20). */
void emu_set_timeout(double seconds);

/* emu_fail - the nth call from now (1: the next) of a function, such as "cudaMalloc", fails with this error. One
 * failure a function is pending at a time; nth 0 takes it back. A kernel's launch is "cudaLaunchKernel". Error 0: the
 * call does nothing and says success, so that a test can leave out one "cudaStreamWaitEvent" and see it reported. */
void emu_fail(const char *function, int nth, int error);

/* emu_fail_left - calls of the function until the failure that emu_fail ordered; 0: it has happened, or there is none.
 * emu_function - the names that emu_fail knows, by index from 0; NULL behind the last. */
int emu_fail_left(const char *function);
const char *emu_function(int index);

/* emu_live - how many things of a kind exist: "device memory", "pinned memory", "stream", "event", "graph",
 * "executable graph", "cuBLAS handle", "NCCL communicator"; NULL: all together.
 * emu_report_leaks - a finding "leak" for every kind of which something is left. */
long emu_live(const char *kind);
void emu_report_leaks(void);

/* emu_reports - how many findings there are of this kind (NULL: of all kinds) since the last emu_clear_reports. */
int emu_reports(const char *kind);

/* emu_report_text - the newest finding of this kind (NULL: of all), or "". The text lives until the calling thread
 * calls this function again. */
const char *emu_report_text(const char *kind);

void emu_clear_reports(void);

/* emu_quiet - true: findings are counted and not printed. */
void emu_quiet(bool quiet);

/* emu_reset_device - forgets the error that a failed kernel left on the device (real devices need a new process). */
void emu_reset_device(int device);

/* emu_accesses - memory accesses of kernels that were checked so far; a test kernel should stay below 5 million. */
unsigned long emu_accesses(void);

#ifdef __cplusplus
}
#endif

#endif
