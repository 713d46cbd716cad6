/* Profilers see a range with the op's name around each op: this program is its own profiler, linked in. */
#include "spmd/testing.h"
#ifdef SPMD_EMU
#define NVTX_STATIC_INJECTION_IMPL
extern int (*InitializeInjectionNvtx2_fnptr)(const void *(*tables)(uint32_t)); /* by which NVTX finds it */
#include "spmd/cuda/cuda_range.h"
#endif
#ifdef SPMD_HAVE_NVTX
#include "emu/emu.h"
#include "tests/cuda/cuda_jobs.h"
#include <stdatomic.h>
#include <string.h>

static atomic_int products, graphs, open_ranges, wrong;

static int NVTX_API on_push(const char *name)
{
    atomic_fetch_add(&products, !strcmp(name, "matmul"));
    atomic_fetch_add(&graphs, !strcmp(name, "graph"));
    return atomic_fetch_add(&open_ranges, 1);
}

static int NVTX_API on_pop(void)
{
    int before = atomic_fetch_sub(&open_ranges, 1);
    atomic_fetch_add(&wrong, before <= 0);
    return before - 1;
}

static int NVTX_API attach(NvtxGetExportTableFunc_t tables)
{
    const NvtxExportTableCallbacks *callbacks = tables(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable core = NULL;
    if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &core, NULL))
        return 0;
    *core[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)on_push;
    *core[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)on_pop;
    return 1;
}

int (*InitializeInjectionNvtx2_fnptr)(const void *(*tables)(uint32_t)) = attach;

START_TEST(ops_have_ranges)
{
    float w[WIDTH * WIDTH];
    emu_configure(2, EMU_LATE, 1);
    ck_spmd_ok(job_result("data=2", 1, false, w));
    int once = atomic_load(&products);
    ck_assert_int_ge(once, 2 * 2); /* shards; forward and backward */
    ck_assert_int_eq(atomic_load(&graphs), 0);
    ck_spmd_ok(job_result("data=2", 3, true, w));
    ck_assert_int_gt(atomic_load(&products), once);
    ck_assert_int_gt(atomic_load(&graphs), 0);
    ck_assert_int_eq(atomic_load(&open_ranges), 0);
    ck_assert_int_eq(atomic_load(&wrong), 0);
}
END_TEST

SPMD_TEST_MAIN("cuda_ranges", tcase_add_test(tc, ops_have_ranges);)
#else
int main(void)
{
    return spmd_test_skip("needs the emulated CUDA (cmake --preset emu) and NVTX's header (nvtx3/nvToolsExt.h)");
}
#endif
