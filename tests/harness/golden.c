/* Reference values from files, read with the product's own reader. */
#include "models/safetensors.h"
#include "tests/harness/golden.h"

spmd_value golden(const char *file, const char *name, const char *spec)
{
    const char *folder = getenv("SPMD_GOLDEN_DIR");
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.safetensors", folder ? folder : "tests/golden", file);
    spmd_safetensors *opened;
    const spmd_safetensor *tensor;
    ck_spmd_ok(spmd_safetensors_open(path, &opened));
    ck_spmd_ok(spmd_safetensors_find(opened, name, &tensor));
    spmd_value v = spmd_value_zeros(tensor->dtype, spec, tensor->rank, tensor->shape);
    memcpy(v.data, tensor->data, tensor->bytes);
    spmd_safetensors_close(opened);
    return v;
}
