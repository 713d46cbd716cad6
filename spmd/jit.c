/* The programs of a jit: found by the types of the inputs, printed, described. */
#include "spmd/hash.h"
#include "spmd/program.h"

static uint64_t mix_spec(uint64_t key, const spmd_spec *spec)
{
    for (int d = 0; d < spec->entries; d++) {
        key = spmd__mix(key, (uint64_t)d + 1);
        for (const char *p = spec->axes[d]; *p; p++)
            key = spmd__mix(key, (uint8_t)*p);
    }
    return key;
}

/* Everything that a recording depends on: function, user pointer, mode, the inputs' types and specs, the outputs'
 * specs, and which outputs are also inputs. */
static uint64_t key_of(const spmd_job *job, bool automatic)
{
    uint64_t key = spmd__mix((uint64_t)(uintptr_t)job->fn, (uint64_t)(uintptr_t)job->user);
    key = spmd__mix(key, (uint64_t)job->nin << 1 | automatic);
    for (int k = 0; k < job->nin; k++) {
        const spmd_array *a = job->in[k];
        key = spmd__mix(key, (uint64_t)a->dtype << 8 | (uint64_t)a->rank);
        for (int d = 0; d < a->rank; d++) {
            key = spmd__mix(key, (uint64_t)a->shape[d]);
            for (int x = 0; x < a->layout.n[d]; x++)
                key = spmd__mix(key, (uint64_t)(d * SPMD_MAX_AXES + a->layout.axis[d][x] + 1));
        }
    }
    for (int k = 0; k < job->nout; k++)
        key = mix_spec(key, &job->out_specs[k]);
    for (int k = 0; k < job->nout; k++)
        for (int j = 0; j < job->nin; j++)
            if (job->out[k] && job->out[k] == job->in[j])
                key = spmd__mix(key, (uint64_t)k << 32 | (uint64_t)j);
    return spmd__mix(key, (uint64_t)job->nout);
}

spmd_jit_entry *spmd__jit_entry(const spmd_job *job, bool automatic)
{
    uint64_t key = key_of(job, automatic);
    spmd_jit_entry **place = &job->jit->first;
    for (; *place; place = &(*place)->next)
        if ((*place)->key == key)
            return *place;
    spmd_jit_entry *entry = spmd__alloc(job->mesh, sizeof *entry);
    if (!entry)
        return NULL;
    *entry = (spmd_jit_entry){.key = key};
    *place = entry;
    if (job->jit->n++)
        spmd__log(job->mesh, NULL,
                  "jit: recording again (program %d): other shapes, dtypes, specs, function or user pointer",
                  job->jit->n);
    return entry;
}

static void free_entry(spmd_jit_entry *entry)
{
    for (int d = 0; d < SPMD_MAX_DEVICES; d++)
        spmd__program_free(entry->program[d]);
    spmd__free(entry);
}

void spmd__jit_forget(spmd_jit *jit, spmd_jit_entry *entry)
{
    spmd_jit_entry **place = &jit->first;
    while (*place != entry)
        place = &(*place)->next;
    *place = entry->next;
    free_entry(entry);
    jit->n--;
}

spmd_status spmd_jit_create(spmd_mesh *mesh, spmd_jit **out)
{
    SPMD_CHECK(mesh && out, SPMD_EINVAL, "spmd_jit_create: mesh and out must not be NULL");
    *out = spmd__alloc(mesh, sizeof **out);
    if (!*out)
        return SPMD_ENOMEM;
    **out = (spmd_jit){.mesh = mesh};
    return SPMD_OK;
}

spmd_jit *spmd__jit_free(spmd_jit *jit)
{
    spmd_jit *after = jit->orphan;
    for (spmd_jit_entry *e = jit->first, *next; e; e = next) {
        next = e->next;
        free_entry(e);
    }
    spmd__free(jit);
    return after;
}

void spmd_jit_destroy(spmd_jit *jit)
{
    if (!jit)
        return;
    if (!spmd__has_stuck_thread(jit->mesh)) {
        spmd__jit_free(jit);
        return;
    }
    jit->orphan = jit->mesh->orphan_jits;
    jit->mesh->orphan_jits = jit;
}

int spmd_jit_programs(const spmd_jit *jit)
{
    return jit ? jit->n : 0;
}

static const spmd_program *program_of(const spmd_jit *jit, int k)
{
    const spmd_jit_entry *entry = jit ? jit->first : NULL;
    for (; entry && k > 0; k--)
        entry = entry->next;
    return k == 0 && entry ? entry->program[0] : NULL;
}

spmd_status spmd_jit_info(const spmd_jit *jit, int k, spmd_program_info *out)
{
    const spmd_program *p = program_of(jit, k);
    SPMD_CHECK(out, SPMD_EINVAL, "spmd_jit_info: out must not be NULL");
    SPMD_CHECK(p, SPMD_EINVAL, "spmd_jit_info: no program %d: %d are recorded", k, spmd_jit_programs(jit));
    *out = p->info;
    return SPMD_OK;
}

static void print_call(const spmd_program *p, const spmd_call *call, FILE *file)
{
    char type[256];
    for (int k = 0; k < call->nout; k++) {
        spmd_tensor_format(&p->mesh->devices[0].ctx, &call->out[k], type, sizeof type);
        fprintf(file, "%s%%%u %s", k ? ", " : "  ", call->out[k].id, type);
    }
    fprintf(file, " = %s", call->op->name);
    for (int k = 0; k < call->nin; k++)
        fprintf(file, " %%%u", call->in[k].id);
    char axes[128];
    if (call->attr.axes.n)
        fprintf(file, " over %s", spmd__mask_text(p->mesh, call->attr.axes.mask, axes));
    if (call->implied)
        fprintf(file, " (transposed)");
    if (call->op->collective && call->site)
        fprintf(file, "   %s", call->site);
    fputc('\n', file);
}

spmd_status spmd_jit_print(const spmd_jit *jit, int k, FILE *file)
{
    const spmd_program *p = program_of(jit, k);
    char type[256];
    SPMD_CHECK(file, SPMD_EINVAL, "spmd_jit_print: file must not be NULL");
    SPMD_CHECK(p, SPMD_EINVAL, "spmd_jit_print: no program %d: %d are recorded", k, spmd_jit_programs(jit));
    fprintf(file, "program of %d calls (%d recorded), %d collectives, %lld bytes; memory %lld for values of %lld\n",
            p->n, p->info.recorded, p->info.collectives, (long long)p->info.collective_bytes,
            (long long)p->info.memory_bytes, (long long)p->info.values_bytes);
    for (int i = 0; i < p->nin; i++) {
        spmd_tensor_format(&p->mesh->devices[0].ctx, &p->in[i], type, sizeof type);
        fprintf(file, "  %%%u %s = input %d\n", p->in[i].id, type, i);
    }
    for (int i = 0; i < p->n; i++)
        print_call(p, &p->calls[i], file);
    fprintf(file, "  return");
    for (int i = 0; i < p->nout; i++)
        fprintf(file, " %%%u", p->out[i].id);
    fputc('\n', file);
    return SPMD_OK;
}
