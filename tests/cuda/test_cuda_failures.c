/* Every function of CUDA, cuBLAS and NCCL that backend cuda calls fails once, at every place: the failure is a status
 * with a text, or is survived; nothing hangs or leaks, and the mesh can be destroyed. */
#include "spmd/testing.h"
#ifdef SPMD_EMU
#include "emu/emu.h"
#include "tests/cuda/cuda_jobs.h"
#include <stdlib.h>
#include <string.h>

enum { ERROR = 2, MOST = 60 };        /* memory allocation, and NCCL's system error; calls of one function */
enum { ROWS_OF_JOBS = 4, PARTS = 8 }; /* the functions are cut into parts, so that each test ends soon */

/* Failing to give something back leaves it there; there is nobody to tell. */
static bool gives_back(const char *function)
{
    return strstr(function, "Destroy") || strstr(function, "Free") || strstr(function, "Abort") ||
           strstr(function, "Finalize");
}

/* Where a failure is survived: NCCL is not needed, graphs are not, and so nothing that is captured. */
static bool may_succeed(const char *function, bool jit)
{
    return gives_back(function) || !strncmp(function, "nccl", 4) || strstr(function, "GetDevice") ||
           strstr(function, "SetDevice") || strstr(function, "Heuristic") ||
           (jit && (strstr(function, "Graph") || strstr(function, "Capture") || strstr(function, "Launch") ||
                    strstr(function, "LtMat") || strstr(function, "Memcpy") || strstr(function, "Memset") ||
                    strstr(function, "FuncSet")));
}

/* One failure; false: the function is not called so often. */
static bool fails_once(const char *function, int nth, const char *transport, bool jit)
{
    float w[WIDTH * WIDTH];
    setenv("SPMD_CUDA_TRANSPORT", transport, true);
    long before = emu_live(NULL);
    emu_fail(function, nth, ERROR);
    spmd_status status = job_result("data=2", 4, jit, w);
    bool happened = emu_fail_left(function) == 0;
    emu_fail(function, 0, 0);
    ck_assert_msg(happened || status == SPMD_OK, "%s: %s", function, spmd_last_error());
    ck_assert_msg(!happened || status != SPMD_OK || may_succeed(function, jit),
                  "call %d of %s failed, and nobody saw it", nth, function);
    ck_assert_msg(status == SPMD_OK || spmd_last_error()[0], "%s failed without a text", function);
    ck_assert_msg(gives_back(function) || emu_live(NULL) == before, "call %d of %s: %ld things are left", nth, function,
                  emu_live(NULL) - before);
    emu_clear_reports();
    for (int d = 0; d < 2; d++)
        emu_reset_device(d);
    return happened;
}

START_TEST(each_call_fails)
{
    static const struct {
        const char *transport;
        bool jit;
    } rows[ROWS_OF_JOBS] = {{"p2p", false}, {"p2p", true}, {"nccl", false}, {"nccl", true}};
    const char *transport = rows[_i % ROWS_OF_JOBS].transport;
    bool jit = rows[_i % ROWS_OF_JOBS].jit;
    int functions = 0, failures = 0;
    emu_configure(2, EMU_LATE, 1);
    emu_quiet(true);
    for (int k = _i / ROWS_OF_JOBS; emu_function(k); k += PARTS) {
        int n = 1;
        while (n < MOST && fails_once(emu_function(k), n, transport, jit))
            n++;
        functions += n > 1;
        failures += n - 1;
        ck_spmd_ok(job_result("data=2", 2, true, (float[WIDTH * WIDTH]){0}));
    }
    fprintf(stderr, "%s, jit %d: %d failures of %d functions\n", transport, jit, failures, functions);
    ck_assert_int_gt(failures, 0);
}
END_TEST

SPMD_TEST_MAIN("cuda_failures", tcase_add_loop_test(tc, each_call_fails, 0, ROWS_OF_JOBS *PARTS);)
#else
int main(void)
{
    return spmd_test_skip("needs the emulated CUDA (cmake --preset emu)");
}
#endif
