/* Timing ops: each device writes into its own list, and the host thread adds up between launches. */
#include "spmd/profile.h"
#include "spmd/ctx.h"
#include "spmd/host/futex.h"
#include <stdlib.h>
#include <string.h>

typedef struct event {
    const char *op, *site;
    bool collective;
    int64_t start_ns, end_ns;
    spmd_cost cost;
} event;

typedef struct track {
    event *events;
    int64_t n; /* may exceed the capacity */
} track;

struct spmd_profile {
    spmd_mesh *mesh;
    int capacity;
    int64_t start_ns;
    track tracks[SPMD_MAX_DEVICES];
    struct spmd_profile *orphan; /* next of the mesh's orphan_profiles */
};

spmd_status spmd_profile_create(spmd_mesh *mesh, int events, spmd_profile **out)
{
    SPMD_CHECK(mesh && out && events > 0, SPMD_EINVAL, "spmd_profile_create: %d events; mesh and out must not be NULL",
               events);
    spmd_profile *p = *out = spmd__alloc(mesh, sizeof *p);
    if (!p)
        return SPMD_ENOMEM;
    *p = (spmd_profile){.mesh = mesh, .capacity = events, .start_ns = spmd__now_ns()};
    for (int d = 0; d < mesh->ndevices; d++) {
        p->tracks[d].events = spmd__alloc(mesh, (size_t)events * sizeof(event));
        if (p->tracks[d].events)
            continue;
        spmd_profile_destroy(p);
        *out = NULL;
        return SPMD_ENOMEM;
    }
    return SPMD_OK;
}

bool spmd__profile_is_of(const spmd_profile *profile, const spmd_mesh *mesh)
{
    return profile->mesh == mesh;
}

spmd_profile *spmd__profile_free(spmd_profile *profile)
{
    spmd_profile *after = profile->orphan;
    for (int d = 0; d < SPMD_MAX_DEVICES; d++)
        spmd__free(profile->tracks[d].events);
    spmd__free(profile);
    return after;
}

void spmd_profile_destroy(spmd_profile *profile)
{
    if (!profile)
        return;
    if (!spmd__has_stuck_thread(profile->mesh)) {
        spmd__profile_free(profile);
        return;
    }
    profile->orphan = profile->mesh->orphan_profiles; /* the thread may still write into it */
    profile->mesh->orphan_profiles = profile;
}

void spmd_profile_clear(spmd_profile *profile)
{
    for (int d = 0; d < SPMD_MAX_DEVICES; d++)
        profile->tracks[d].n = 0;
    profile->start_ns = spmd__now_ns();
}

/* The cost formulas read tensors; a kernel has views. */
static spmd_cost cost_of(spmd_ctx *ctx, const spmd_op *op, const spmd_kernel_args *args)
{
    size_t n = (size_t)(args->nin + args->nout);
    spmd_tensor *tensors = spmd__scratch(ctx, n * sizeof *tensors);
    if (!tensors)
        return (spmd_cost){0};
    for (size_t k = 0; k < n; k++) {
        const spmd_view *v = &args->in[k]; /* out follows in */
        tensors[k] = (spmd_tensor){.dtype = v->dtype, .rank = v->rank};
        memcpy(tensors[k].shape, v->shape, (size_t)v->rank * sizeof *v->shape);
    }
    spmd_call call = {.op = op, .attr = *args->attr, .nin = args->nin, .nout = args->nout, .in = tensors};
    call.out = tensors + args->nin;
    return spmd__call_cost(&call);
}

spmd_status spmd__run_timed(spmd_ctx *ctx, const spmd_op *op, spmd_kernel *kernel, const spmd_kernel_args *args)
{
    spmd_profile *p = ctx->mesh->job.profile;
    if (!p)
        return kernel(ctx, args);
    spmd_cost cost = cost_of(ctx, op, args);
    int64_t start = spmd__now_ns();
    spmd_status status = kernel(ctx, args);
    track *t = &p->tracks[ctx->id];
    if (t->n < p->capacity)
        t->events[t->n] = (event){.op = op->name,
                                  .site = ctx->site,
                                  .collective = op->collective,
                                  .start_ns = start,
                                  .end_ns = spmd__now_ns(),
                                  .cost = cost};
    t->n++;
    return status;
}

static int64_t kept(const spmd_profile *p, int device)
{
    return p->tracks[device].n < p->capacity ? p->tracks[device].n : p->capacity;
}

static int longest_first(const void *a, const void *b)
{
    double x = ((const spmd_profile_row *)a)->us, y = ((const spmd_profile_row *)b)->us;
    return x < y ? 1 : x > y ? -1 : 0;
}

enum { MAX_ROWS = 256 };

static int collect(const spmd_profile *p, spmd_profile_row rows[MAX_ROWS])
{
    int n = 0;
    for (int d = 0; d < p->mesh->ndevices; d++)
        for (int64_t i = 0; i < kept(p, d); i++) {
            const event *e = &p->tracks[d].events[i];
            int k = 0;
            while (k < n && strcmp(rows[k].op, e->op) != 0)
                k++;
            if (k == MAX_ROWS)
                continue;
            if (k == n)
                rows[n++] = (spmd_profile_row){.op = e->op, .collective = e->collective};
            rows[k].calls++;
            rows[k].us += (double)(e->end_ns - e->start_ns) * 1e-3;
            rows[k].flops += e->cost.flops;
            rows[k].bytes += e->cost.bytes;
        }
    qsort(rows, (size_t)n, sizeof *rows, longest_first);
    return n;
}

int spmd_profile_rows(const spmd_profile *profile, spmd_profile_row *rows, int most)
{
    spmd_profile_row all[MAX_ROWS];
    int n = collect(profile, all);
    if (most > 0)
        memcpy(rows, all, (size_t)(n < most ? n : most) * sizeof *rows);
    return n;
}

void spmd_profile_print(const spmd_profile *profile, FILE *file)
{
    spmd_profile_row rows[MAX_ROWS];
    int n = collect(profile, rows);
    double total = 0;
    int64_t lost = 0;
    for (int k = 0; k < n; k++)
        total += rows[k].us;
    for (int d = 0; d < profile->mesh->ndevices; d++)
        lost += profile->tracks[d].n - kept(profile, d);
    fprintf(file, "  %-26s %8s %12s %7s %9s %8s\n", "op", "calls", "us", "share", "GFLOP/s", "GB/s");
    for (int k = 0; k < n; k++)
        fprintf(file, "  %-26s %8lld %12.1f %6.1f%% %9.2f %8.2f%s\n", rows[k].op, (long long)rows[k].calls, rows[k].us,
                100 * rows[k].us / total, rows[k].flops / rows[k].us * 1e-3, rows[k].bytes / rows[k].us * 1e-3,
                rows[k].collective ? "  with waiting" : "");
    fprintf(file, "  all devices together: %.1f us in ops\n", total);
    if (lost)
        fprintf(file, "  %lld later ops were not kept\n", (long long)lost);
}

spmd_status spmd_profile_trace(const spmd_profile *profile, FILE *file)
{
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", file);
    const char *comma = "";
    for (int d = 0; d < profile->mesh->ndevices; d++) {
        for (int kind = 0; kind < 2; kind++, comma = ",\n")
            fprintf(
                file,
                "%s{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":%d,\"args\":{\"name\":\"device %d%s\"}}",
                comma, 2 * d + kind, d, kind ? " collectives" : "");
        for (int64_t i = 0; i < kept(profile, d); i++) {
            const event *e = &profile->tracks[d].events[i];
            fprintf(file, ",\n{\"ph\":\"X\",\"name\":\"%s\",\"pid\":0,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f", e->op,
                    2 * d + e->collective, (double)(e->start_ns - profile->start_ns) * 1e-3,
                    (double)(e->end_ns - e->start_ns) * 1e-3);
            fprintf(file, ",\"args\":{\"flops\":%.0f,\"bytes\":%.0f", e->cost.flops, e->cost.bytes);
            if (e->site && e->collective) /* __FILE__ and a number: nothing to escape but what a path may hold */
                fprintf(file, ",\"at\":\"%s\"", strpbrk(e->site, "\"\\") ? "" : e->site);
            fputs("}}", file);
        }
    }
    fputs("\n]}\n", file);
    SPMD_CHECK(fflush(file) == 0 && !ferror(file), SPMD_EIO, "the trace cannot be written: is the disk full?");
    return SPMD_OK;
}
