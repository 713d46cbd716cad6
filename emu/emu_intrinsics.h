/* What kernels compiled with emu_device.h call: the C side of the device built-ins. Not for programs. */
#ifndef EMU_INTRINSICS_H
#define EMU_INTRINSICS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define EMU_THREAD_LOCAL __thread
#else
#define EMU_THREAD_LOCAL _Thread_local
#endif

/* The built-in variables of the thread that runs now. */
typedef struct emu_builtins {
    uint3 thread_idx, block_idx;
    dim3 block_dim, grid_dim;
    int lane;                      /* of the warp */
    struct emu_thread *thread;     /* NULL: host code */
    struct emu_execution *running; /* the launch */
} emu_builtins;
extern EMU_THREAD_LOCAL emu_builtins emu_now __attribute__((tls_model("initial-exec")));

/* One launch. `call` calls the kernel with the arguments packed at `pack`. */
typedef struct emu_launch_info {
    const char *name;
    dim3 grid, block;
    size_t smem;
    cudaStream_t stream;
    const void *kernel; /* its address: attributes are set by it */
    void (*call)(void *pack);
    const void *pack; /* copied */
    size_t pack_size;
    bool cooperative;
} emu_launch_info;
void emu_launch(const emu_launch_info *launch); /* errors: cudaGetLastError */

/* Shared memory. `tag` is the variable's identity. */
void *emu_smem(const void *tag, const char *name, size_t size, size_t align);
void *emu_smem_dynamic(void);

/* Returns the number of threads with a true predicate. */
int emu_syncthreads(const char *file, int line, bool predicate);
void emu_sync_grid(const char *file, int line);

/* Lanes of `mask` meet; each brings a value. Until emu_release the others' values stay readable. */
typedef enum emu_meeting { EMU_SYNCWARP, EMU_SHUFFLE, EMU_VOTE, EMU_MATRIX } emu_meeting;
typedef struct emu_convergence emu_convergence;
emu_convergence *emu_converge(unsigned mask, emu_meeting kind, uint64_t value, const char *file, int line);
uint64_t emu_value_of(const emu_convergence *meeting, int lane); /* of a lane that is absent: reported */
unsigned emu_arrived(const emu_convergence *meeting);
void emu_release(emu_convergence *meeting);

void emu_spin(void);
void emu_fence(void);
void emu_trap(const char *file, int line);
unsigned emu_load_acquire(const unsigned *flag);
void emu_store_release(unsigned *flag, unsigned value);
void emu_copy_async(void *to, const void *from, size_t size, size_t zeros);
void emu_copy_commit(void);
void emu_copy_wait(size_t prior);
void emu_atomic(const void *address, size_t size, const void *site); /* before an atomic access */
/* Reported unless the address is a multiple of align. */
void emu_aligned(const void *address, size_t align, const char *what, const char *file, int line);

#ifdef __cplusplus
}
#endif

#endif
