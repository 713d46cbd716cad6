/* Recording and comparing programs. */
#include "spmd/program.h"
#include <string.h>

spmd_status spmd__append_call(spmd_arena *arena, const spmd_call *call, spmd_call **list, int *n, int *capacity)
{
    if (*n == *capacity) {
        int larger = *capacity ? 2 * *capacity : 256;
        spmd_call *calls = spmd__arena_get(arena, (size_t)larger * sizeof *calls);
        if (!calls)
            return SPMD_ENOMEM;
        if (*n)
            memcpy(calls, *list, (size_t)*n * sizeof *calls);
        *list = calls;
        *capacity = larger;
    }
    size_t ntensors = (size_t)(call->nin + call->nout);
    spmd_tensor *tensors = spmd__arena_get(arena, ntensors * sizeof *tensors);
    if (!tensors)
        return SPMD_ENOMEM;
    memcpy(tensors, call->in, ntensors * sizeof *tensors); /* out follows in */
    spmd_call *entry = &(*list)[(*n)++];
    *entry = *call;
    entry->in = tensors;
    entry->out = tensors + call->nin;
    return SPMD_OK;
}

spmd_status spmd__program_append(spmd_program *p, const spmd_call *call)
{
    return spmd__append_call(&p->arena, call, &p->calls, &p->n, &p->capacity);
}

static spmd_status compare_attributes(int i, const spmd_call *a, const spmd_call *b)
{
    const char *site = b->site ? b->site : "an unknown place";
    for (int k = 0; k < (int)(sizeof a->attr.f / sizeof *a->attr.f); k++)
        SPMD_CHECK(
            !memcmp(&a->attr.f[k], &b->attr.f[k], sizeof a->attr.f[k]), SPMD_EINVAL,
            "op %d (%s, after %s) changed since recording: number %d is %.9g, was %.9g; pass it as an input array", i,
            b->op->name, site, k, b->attr.f[k], a->attr.f[k]);
    for (int k = 0; k < (int)(sizeof a->attr.i / sizeof *a->attr.i); k++)
        SPMD_CHECK(
            a->attr.i[k] == b->attr.i[k], SPMD_EINVAL,
            "op %d (%s, after %s) changed since recording: integer %d is %lld, was %lld; pass it as an input array", i,
            b->op->name, site, k, (long long)b->attr.i[k], (long long)a->attr.i[k]);
    SPMD_CHECK(!memcmp(&a->attr, &b->attr, sizeof a->attr), SPMD_EINVAL,
               "op %d (%s, after %s) changed since recording: other axes, permutation or definition", i, b->op->name,
               site);
    return SPMD_OK;
}

spmd_status spmd__program_compare(const spmd_program *p, const spmd_program *again)
{
    for (int i = 0; i < p->nrecorded && i < again->n; i++) {
        const spmd_call *a = &p->recorded[i], *b = &again->calls[i];
        SPMD_CHECK(a->op == b->op, SPMD_EINVAL,
                   "op %d was %s when recorded and is %s now: the function must issue the same ops every time", i,
                   a->op->name, b->op->name);
        SPMD_TRY(compare_attributes(i, a, b));
        SPMD_CHECK(spmd__call_hash(a) == spmd__call_hash(b), SPMD_EINVAL,
                   "op %d (%s) changed since recording: its inputs have other shapes or dtypes", i, b->op->name);
    }
    SPMD_CHECK(p->nrecorded == again->n, SPMD_EINVAL, "the function issued %d ops when recorded and issues %d now",
               p->nrecorded, again->n);
    return SPMD_OK;
}

void spmd__program_free(spmd_program *p)
{
    if (!p)
        return;
    if (p->captured)
        p->forget(p->captured);
    spmd__block_free(p->mesh, p->memory);
    spmd__arena_free(&p->arena);
    spmd__free(p);
}
