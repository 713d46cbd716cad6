/* Specs as text: what is accepted can be written and read again, and means the same. */
#include "spmd/spec.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), written[1024];
    spmd_spec spec, again;
    if (spmd_spec_parse(text, &spec) == SPMD_OK) {
        int n = spmd_spec_format(&spec, written, sizeof written); /* P(data,-) */
        if (n < 3 || n >= (int)sizeof written)
            abort();
        written[n - 1] = 0;
        if (spmd_spec_parse(written + 2, &again) != SPMD_OK || again.entries != spec.entries)
            abort();
        for (int d = 0; d < spec.entries; d++)
            if (strcmp(spec.axes[d], again.axes[d]) != 0)
                abort();
    }
    free(text);
    return 0;
}
