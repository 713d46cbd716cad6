/* What tests of the emulated CUDA share. They use nothing of spmdkit but its cuda.cuh, so that the emulator is tested
 * as its users have it. A test is a pair: a kernel with a planted defect, which must be found by its kind and with
 * words of its text, and the clean twin, about which nothing may be said. */
#ifndef EMU_TEST_H
#define EMU_TEST_H

#include "emu/emu.h"
#include <check.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#define ck_cuda(call)                                                                                              \
    do {                                                                                                           \
        cudaError_t ck_e_ = (call);                                                                                \
        ck_assert_msg(ck_e_ == cudaSuccess, "%s: %s (%s)", #call, cudaGetErrorName(ck_e_), emu_report_text(NULL)); \
    } while (0)

#define ck_clean() ck_assert_msg(emu_reports(NULL) == 0, "found without a defect: %s", emu_report_text(NULL))

/* There is a finding of this kind and its text holds the word; findings are cleared. */
#define ck_found(kind, word)                                                                                        \
    do {                                                                                                            \
        ck_assert_msg(emu_reports(kind) > 0, "no %s; newest finding: '%s'", kind, emu_report_text(NULL));           \
        ck_assert_msg(strstr(emu_report_text(kind), word) != NULL, "no '%s' in '%s'", word, emu_report_text(kind)); \
        emu_clear_reports();                                                                                        \
        emu_reset_device(0);                                                                                        \
        (void)cudaGetLastError();                                                                                   \
    } while (0)

static inline void emu_test_setup(void)
{
    emu_quiet(getenv("EMU_TEST_LOUD") == NULL);
}

/* int main() that runs the tests which `...` adds to the test case tc. */
#define EMU_TEST_MAIN(name, ...)                             \
    int main(void)                                           \
    {                                                        \
        Suite *suite = suite_create(name);                   \
        TCase *tc = tcase_create(name);                      \
        tcase_set_timeout(tc, 60);                           \
        tcase_add_checked_fixture(tc, emu_test_setup, NULL); \
        __VA_ARGS__                                          \
        suite_add_tcase(suite, tc);                          \
        SRunner *runner = srunner_create(suite);             \
        srunner_run_all(runner, CK_ENV);                     \
        int failed = srunner_ntests_failed(runner);          \
        srunner_free(runner);                                \
        return failed != 0;                                  \
    }

#endif
