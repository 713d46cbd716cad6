/* Meshes as text. The backend does not exist, so that an accepted text starts no threads. */
#include "spmd/mesh.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    spmd_mesh *mesh = NULL;
    spmd_status status = spmd_mesh_create(text, "no such backend", &mesh);
    if ((status != SPMD_EINVAL && status != SPMD_EUNSUPPORTED) || !spmd_last_error()[0])
        abort();
    free(text);
    return 0;
}
