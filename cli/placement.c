/* Which device holds what: a row for every array of a training, and drawings of the two kinds there are. */
#include "cli/cli.h"
#include "spmd/op.h"
#include <string.h>

static void shape_text(const int64_t *shape, int rank, char *text, size_t size)
{
    size_t at = (size_t)snprintf(text, size, "[");
    for (int d = 0; d < rank && at < size; d++)
        at += (size_t)snprintf(text + at, size - at, "%s%lld", d ? "," : "", (long long)shape[d]);
    if (at < size)
        snprintf(text + at, size - at, "]");
}

void cli_describe_array(const spmd_array *array, cli_array_text *out)
{
    const spmd_mesh *mesh = spmd_array_mesh(array);
    spmd_spec spec = spmd_array_spec(array);
    int rank = spmd_array_rank(array), blocks = 1, devices = spmd_mesh_devices(mesh);
    spmd_layout layout;
    *out = (cli_array_text){.dtype = spmd_dtype_name(spmd_array_dtype(array))};
    if (spmd__layout(&spec, mesh, rank, &layout) != SPMD_OK)
        return;
    int64_t block[SPMD_MAX_RANK] = {0};
    for (int d = 0; d < rank; d++) {
        int cuts = spmd__layout_cuts(mesh, &layout, d);
        block[d] = spmd_array_shape(array)[d] / cuts;
        blocks *= cuts;
    }
    shape_text(spmd_array_shape(array), rank, out->global, sizeof out->global);
    shape_text(block, rank, out->block, sizeof out->block);
    spmd_spec_format(&spec, out->spec, sizeof out->spec);
    if (blocks == devices)
        snprintf(out->devices, sizeof out->devices, devices > 1 ? "%d, each its own block" : "%d", devices);
    else if (blocks == 1)
        snprintf(out->devices, sizeof out->devices, "%d, each a copy", devices);
    else
        snprintf(out->devices, sizeof out->devices, "%d, %d copies of %d blocks", devices, devices / blocks, blocks);
}

static void print_row(const char *name, const spmd_array *array, FILE *file)
{
    cli_array_text t;
    cli_describe_array(array, &t);
    fprintf(file, "  %-24s %-5s %-12s %-10s %-12s %s\n", name, t.dtype, t.global, t.spec, t.block, t.devices);
}

void cli_draw_array(const spmd_array *array, FILE *file)
{
    spmd_array_print(array, file);
    if (spmd_array_print_sharding(array, file) != SPMD_OK)
        fprintf(file, "(no drawing: %s)\n", spmd_last_error());
}

void cli_print_placement(const spmd_trainer *trainer, const spmd_mesh *mesh, FILE *file)
{
    const char *name;
    const spmd_array *array, *batch = NULL;
    fprintf(file, "\nplacement\n  %-24s %-5s %-12s %-10s %-12s %s\n", "array", "dtype", "global", "spec", "block",
            "devices");
    for (int k = 0; (array = spmd_trainer_array(trainer, k, &name)) != NULL; k++) {
        print_row(name, array, file);
        if (strcmp(name, "batch.x") == 0)
            batch = array;
    }
    fputc('\n', file);
    spmd_mesh_print(mesh, file);
    array = spmd_trainer_array(trainer, 0, &name);
    const char *const titles[] = {"batch.x", name};
    const spmd_array *const drawn[] = {batch, array};
    for (int k = 0; k < 2; k++) {
        fprintf(file, "\n%s: ", titles[k]);
        cli_draw_array(drawn[k], file);
    }
}
