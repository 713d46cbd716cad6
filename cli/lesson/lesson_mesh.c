/* Multi-device lesson, first part: the devices, the machine below them, and how arrays are cut over them. */
#include "cli/lesson/lesson.h"
#include <stdlib.h>
#include <string.h>
#ifdef SPMD_HAVE_HWLOC
#include <hwloc.h>
#endif

enum { BATCHES = 8 };

void lesson_print_mesh(page *p, const spmd_mesh *mesh)
{
    page_stream s;
    if (page_stream_begin(p, &s)) {
        spmd_mesh_print(mesh, s.file);
        page_stream_end(p, &s);
    }
}

spmd_status lesson_mesh(lesson *l)
{
    page *p = &l->page;
    page_section(p, "mesh", "The mesh");
    char heads[128] = "device";
    for (int a = 0; a < spmd_mesh_axes(l->mesh); a++)
        snprintf(heads + strlen(heads), sizeof heads - strlen(heads), "|%s", spmd_mesh_axis_name(l->mesh, a));
    page_table(p, heads);
    for (int d = 0; d < spmd_mesh_devices(l->mesh); d++) {
        char row[128];
        int used = snprintf(row, sizeof row, "%d", d);
        for (int a = 0; a < spmd_mesh_axes(l->mesh); a++)
            used += snprintf(row + used, sizeof row - (size_t)used, "|%d", spmd_mesh_coord(l->mesh, d, a));
        page_row(p, "%s", row);
    }
    page_table_end(p);
    lesson_print_mesh(p, l->mesh);
    return SPMD_OK;
}

#ifdef SPMD_HAVE_HWLOC
static void topology_table(page *p, hwloc_topology_t topology)
{
    static const struct {
        const char *name;
        hwloc_obj_type_t type;
    } levels[] = {{"package", HWLOC_OBJ_PACKAGE},       {"NUMA node", HWLOC_OBJ_NUMANODE},
                  {"L3 cache", HWLOC_OBJ_L3CACHE},      {"L2 cache", HWLOC_OBJ_L2CACHE},
                  {"L1 data cache", HWLOC_OBJ_L1CACHE}, {"core", HWLOC_OBJ_CORE},
                  {"hardware thread", HWLOC_OBJ_PU}};
    page_table(p, "level|how many|size of each");
    for (size_t k = 0; k < sizeof levels / sizeof *levels; k++) {
        int n = hwloc_get_nbobjs_by_type(topology, levels[k].type);
        hwloc_obj_t first = n > 0 ? hwloc_get_obj_by_type(topology, levels[k].type, 0) : NULL;
        double bytes = 0;
        if (first && levels[k].type == HWLOC_OBJ_NUMANODE)
            bytes = (double)first->attr->numanode.local_memory;
        else if (first && hwloc_obj_type_is_cache(levels[k].type))
            bytes = (double)first->attr->cache.size;
        if (bytes >= 1 << 30)
            page_row(p, "%s|%d|%.1f GiB", levels[k].name, n, bytes / (1 << 30));
        else if (bytes >= 1 << 20)
            page_row(p, "%s|%d|%.1f MiB", levels[k].name, n, bytes / (1 << 20));
        else if (bytes > 0)
            page_row(p, "%s|%d|%.0f KiB", levels[k].name, n, bytes / 1024);
        else
            page_row(p, "%s|%d|", levels[k].name, n);
    }
    page_table_end(p);
}

static void topology_text(page *p)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0)
        return;
    if (hwloc_topology_load(topology) == 0)
        topology_table(p, topology);
    hwloc_topology_destroy(topology);
}
#else
static void topology_text(page *p)
{
    page_text(p, "LEFT OUT: the table of cores, caches and NUMA nodes: this build has no hwloc.");
}
#endif

spmd_status lesson_topology(lesson *l)
{
    page *p = &l->page;
    page_section(p, "topology", "The machine below");
    page_text(p, "A device is a thread with its own memory. What two devices can share, or fight for, is this:");
    topology_text(p);
    return SPMD_OK;
}

static void draw(page *p, const char *title, const spmd_array *array)
{
    page_stream s;
    page_text(p, "%s:", title);
    if (!page_stream_begin(p, &s))
        return;
    cli_draw_array(array, s.file);
    page_stream_end(p, &s);
}

spmd_status lesson_shardings(lesson *l)
{
    page *p = &l->page;
    enum { SHOWN = 2 + SPMD_MODEL_MAX_PARAMS };
    spmd_param_info info[SPMD_MODEL_MAX_PARAMS];
    spmd_array *arrays[SHOWN] = {NULL};
    int n = l->train.model->params;
    int64_t batch = l->train.batch, width = l->train.config.inputs;
    page_section(p, "shardings", "How arrays are cut");
    l->train.model->describe(&l->train.config, info);
    spmd_status status = spmd_shard(l->mesh, NULL, SPMD_F32, SPMD_SHAPE(BATCHES, batch, width),
                                    SPMD_P(NULL, "data", NULL), &arrays[0]);
    if (status == SPMD_OK)
        status = spmd_shard(l->mesh, NULL, SPMD_I32, SPMD_SHAPE(BATCHES, batch), SPMD_P(NULL, "data"), &arrays[1]);
    for (int k = 0; k < n && status == SPMD_OK; k++)
        status = spmd_shard(l->mesh, NULL, SPMD_F32, info[k].rank, info[k].shape, SPMD_REPLICATED, &arrays[2 + k]);
    if (status == SPMD_OK) {
        page_text(p,
                  "%d batches lie on the devices at once: [batches, examples, pixels], the examples cut over "
                  "\"data\". Every device holds its part of every batch; parameters are copied to all.",
                  BATCHES);
        lesson_array_table(p);
        lesson_array_row(p, "batches", arrays[0]);
        lesson_array_row(p, "labels", arrays[1]);
        for (int k = 0; k < n; k++)
            lesson_array_row(p, info[k].name, arrays[2 + k]);
        page_table_end(p);
        draw(p, "The batches: dimension 0 downwards, dimension 1 to the right; the numbers are devices", arrays[0]);
        draw(p, "A replicated parameter", arrays[2]);
    }
    for (int k = 0; k < SHOWN; k++)
        spmd_array_destroy(arrays[k]);
    return status;
}

static spmd_status step_once(const lesson *l, spmd_trainer *trainer)
{
    float *x;
    int32_t *y;
    spmd_metrics unused;
    SPMD_TRY(cli_make_batch(&l->train, &x, &y));
    spmd_status status = spmd_trainer_step(trainer, x, y, &unused);
    free(x);
    free(y);
    return status;
}

spmd_status lesson_workload(lesson *l)
{
    page *p = &l->page;
    spmd_param_info info[SPMD_MODEL_MAX_PARAMS];
    spmd_trainer *trainer;
    spmd_program_info program;
    int64_t params = 0;
    page_section(p, "workload", "The work of one step");
    l->train.model->describe(&l->train.config, info);
    for (int k = 0; k < l->train.model->params; k++)
        params += spmd_param_count(&info[k]);
    SPMD_TRY(spmd_trainer_create(l->mesh, &l->train, &trainer));
    spmd_status status = step_once(l, trainer);
    if (status == SPMD_OK)
        status = spmd_jit_info(spmd_trainer_jit(trainer), 0, &program);
    spmd_trainer_destroy(trainer);
    SPMD_TRY(status);
    page_table(p, "what|of one step and device");
    page_row(p, "model|%s, width %lld, block repeated %d times", l->train.model->name, (long long)l->train.config.width,
             l->train.config.repeats);
    page_row(p, "parameters|%lld", (long long)params);
    page_row(p, "gradient|%.3f MB", (double)params * 4e-6);
    page_row(p, "moved by collectives|%.3f MB", (double)program.collective_bytes * 1e-6);
    page_row(p, "meetings|%d", program.collectives);
    page_row(p, "examples|%lld of %lld", (long long)(l->train.batch / spmd_mesh_devices(l->mesh)),
             (long long)l->train.batch);
    page_row(p, "computed|%.4f GFLOP", program.flops * 1e-9);
    page_table_end(p);
    page_text(p,
              "The shared block is one parameter used %d times: the work grows with the repeats, the gradient does "
              "not. That is why this model is a good one to see devices scale with.",
              l->train.config.repeats);
    return SPMD_OK;
}
