/* A training's log: the same steps come out, however the bytes are cut. */
#include "cli/run_log.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    run_log whole, parts;
    run_log_begin(&whole);
    run_log_begin(&parts);
    run_log_feed(&whole, (const char *)data, size);
    size_t step = size ? data[0] % 16 + 1u : 1;
    for (size_t at = 0; at < size; at += step)
        run_log_feed(&parts, (const char *)data + at, size - at < step ? size - at : step);
    if (whole.course.count != parts.course.count || whole.done != parts.done || whole.bad != parts.bad)
        abort();
    for (int64_t k = 1; k < whole.course.count; k++)
        if (whole.course.rows[k].step <= whole.course.rows[k - 1].step)
            abort();
    run_log_free(&whole);
    run_log_free(&parts);
    return 0;
}
