/* Planning memory: every value of a program has a fixed place.
 *
 * A value lives from the call that makes it to the last call that uses it or a view of it. Values that are outputs are
 * made where they belong, in the output's block, if nothing reads what that block held before (an input that is updated
 * in place) after that moment; else they are copied at the end. The others share one piece of memory, first fit in
 * program order. A call is one point in time: its outputs never overlap its inputs, unless the op works in place. */
#include "spmd/program.h"
#include <string.h>

static spmd_planned *root_of(spmd_program *p, uint32_t id)
{
    return &p->plan[p->plan[id].root];
}

static void define(spmd_program *p, const spmd_tensor *t, int call)
{
    spmd_planned *value = &p->plan[t->id];
    *value = (spmd_planned){.root = t->id, .first = call, .last = call};
    value->bytes = spmd__tensor_bytes(t);
    p->info.values_bytes += call >= 0 ? (int64_t)value->bytes : 0;
}

/* Call i is the first to read what call `from` makes. A collective that runs beside what follows it reads its inputs
 * until then; nobody must wait for it because their memory is wanted. One that works in place has nothing to give. */
static void keep_inputs(spmd_program *p, int from, int i)
{
    const spmd_call *call = from >= 0 ? &p->calls[from] : NULL;
    if (!p->mesh->backend->beside || !call || !spmd__meets(call) || call->op->in_place)
        return;
    for (int k = 0; k < call->nin; k++)
        root_of(p, call->in[k].id)->last = i;
}

static void find_lifetimes(spmd_program *p)
{
    for (int k = 0; k < p->nin; k++) {
        define(p, &p->in[k], -1);
        p->plan[p->in[k].id].place = SPMD_PLACE_INPUT;
        p->plan[p->in[k].id].index = k;
    }
    for (int i = 0; i < p->n; i++) {
        const spmd_call *call = &p->calls[i];
        for (int k = 0; k < call->nin; k++)
            if (!spmd__bit(call->op->like, k)) { /* shape-only inputs keep nothing alive */
                spmd_planned *value = root_of(p, call->in[k].id);
                if (value->last == value->first)
                    keep_inputs(p, value->first, i);
                value->last = i;
            }
        for (int k = 0; k < call->nout; k++)
            if (call->op->view && k == 0)
                p->plan[call->out[0].id].root = p->plan[call->in[0].id].root;
            else
                define(p, &call->out[k], i);
    }
}

/* May output k's value be written into block `block` (of input j, if it is one) by call `first` already? */
static bool block_is_free(spmd_program *p, const spmd_job *job, int k, const spmd_planned *value)
{
    for (int j = 0; j < p->nin; j++) {
        if (job->in[j] != job->out[k])
            continue;
        const spmd_planned *input = &p->plan[p->in[j].id];
        if (input->last < value->first)
            continue;
        const spmd_call *call = &p->calls[value->first];
        if (input->last > value->first || !call->op->in_place)
            return false;
        for (int i = 0; i < call->nin; i++) /* the op reads element i of in[i] before it writes element i of out[i] */
            if (p->plan[call->in[i].id].root == p->in[j].id &&
                (i >= call->nout || p->plan[call->out[i].id].root != value->root))
                return false;
    }
    return true;
}

static void place_outputs(spmd_program *p, const spmd_job *job)
{
    for (int k = 0; k < p->nout; k++)
        root_of(p, p->out[k].id)->last = p->n; /* until the end, whatever happens to it */
    for (int k = 0; k < p->nout; k++) {
        spmd_planned *value = root_of(p, p->out[k].id);
        bool direct = value->place == SPMD_PLACE_MEMORY && value->first >= 0 && block_is_free(p, job, k, value);
        if (!direct) {
            p->copies[p->ncopies++] = k;
            continue;
        }
        value->place = SPMD_PLACE_OUTPUT;
        value->index = k;
        p->commit = value->first < p->commit ? value->first : p->commit;
        p->info.in_place++;
    }
    p->info.copies = p->ncopies;
}

/* Values in memory at the moment, by offset. */
typedef struct shelf {
    spmd_planned **value;
    int n;
    size_t top;
} shelf;

/* Where the value stands; -1: it does not. */
static int find(const shelf *s, const spmd_planned *value)
{
    int from = 0, to = s->n;
    while (from < to) {
        int middle = (from + to) / 2;
        if (s->value[middle]->offset < value->offset)
            from = middle + 1;
        else
            to = middle;
    }
    return from < s->n && s->value[from] == value ? from : -1;
}

/* Takes off those whose last use is behind: `ended` is the first of them, `next` the one behind each. */
static void expire(shelf *s, spmd_planned *plan, uint32_t ended, const uint32_t *next)
{
    for (uint32_t id = ended; id; id = next[id]) {
        int place = find(s, &plan[id]);
        if (place < 0)
            continue;
        memmove(s->value + place, s->value + place + 1, (size_t)(s->n - place - 1) * sizeof *s->value);
        s->n--;
    }
}

/* Values begin at cache lines. */
static void put(shelf *s, spmd_planned *value)
{
    size_t bytes = spmd__whole_lines(value->bytes), at = 0;
    int place = 0;
    for (; place < s->n; place++) {
        if (s->value[place]->offset >= at + bytes)
            break;
        at = s->value[place]->offset + spmd__whole_lines(s->value[place]->bytes);
    }
    memmove(s->value + place + 1, s->value + place, (size_t)(s->n - place) * sizeof *s->value);
    s->value[place] = value;
    s->n++;
    value->offset = at;
    s->top = at + bytes > s->top ? at + bytes : s->top;
}

/* May output k of call i lie where its input k lies, which nothing needs any more? */
static spmd_planned *taken_over(spmd_program *p, int i, int k, const spmd_planned *value)
{
    const spmd_call *call = &p->calls[i];
    if (!call->op->in_place || k >= call->nin)
        return NULL;
    spmd_planned *from = root_of(p, call->in[k].id);
    if (from->place != SPMD_PLACE_MEMORY || from->last != i || from->bytes != value->bytes)
        return NULL;
    for (int j = 0; j < call->nin; j++)
        if (j != k && root_of(p, call->in[j].id) == from)
            return NULL;
    return from;
}

static void replace(shelf *s, const spmd_planned *from, spmd_planned *value)
{
    s->value[find(s, from)] = value;
    value->offset = from->offset;
}

/* Chains the values by their last call: *ended is the first of each call's, *next the one behind each. */
static spmd_status chain_ended(spmd_program *p, uint32_t **ended, uint32_t **next)
{
    size_t calls = ((size_t)p->n + 1) * sizeof **ended;
    *ended = spmd__arena_get(&p->arena, calls);
    *next = spmd__arena_get(&p->arena, (p->ids + 1) * sizeof **next);
    if (!*ended || !*next)
        return SPMD_ENOMEM;
    memset(*ended, 0, calls);
    for (uint32_t id = 1; id <= p->ids; id++)
        if (p->plan[id].root == id && p->plan[id].last >= 0) {
            (*next)[id] = (*ended)[p->plan[id].last];
            (*ended)[p->plan[id].last] = id;
        }
    return SPMD_OK;
}

static spmd_status place_memory(spmd_program *p)
{
    shelf s = {.value = spmd__arena_get(&p->arena, (p->ids + 1) * sizeof *s.value)};
    uint32_t *ended, *next;
    if (!s.value)
        return SPMD_ENOMEM;
    SPMD_TRY(chain_ended(p, &ended, &next));
    for (int i = 0; i < p->n; i++) {
        if (i)
            expire(&s, p->plan, ended[i - 1], next);
        for (int k = 0; k < p->calls[i].nout; k++) {
            spmd_planned *value = &p->plan[p->calls[i].out[k].id];
            if (value->root != p->calls[i].out[k].id || value->place != SPMD_PLACE_MEMORY || !value->bytes)
                continue;
            const spmd_planned *from = taken_over(p, i, k, value);
            if (from)
                replace(&s, from, value);
            else
                put(&s, value);
        }
    }
    for (int c = 0; c < p->ncopies; c++) { /* an input that is returned as another output may be overwritten first */
        const spmd_planned *value = root_of(p, p->out[p->copies[c]].id);
        p->stage[c] = s.top;
        s.top += value->place == SPMD_PLACE_INPUT ? spmd__whole_lines(value->bytes) : 0;
    }
    p->info.memory_bytes = (int64_t)s.top;
    p->memory = spmd__block_alloc(p->device, s.top);
    return p->memory ? SPMD_OK : SPMD_ENOMEM;
}

static spmd_status make_arguments(spmd_program *p)
{
    p->args = spmd__arena_get(&p->arena, (size_t)p->n * sizeof *p->args);
    p->bound = spmd__arena_get(&p->arena, (size_t)(p->nin + p->nout + 1) * sizeof *p->bound);
    if (!p->args || !p->bound)
        return SPMD_ENOMEM;
    memset(p->bound, 0, (size_t)(p->nin + p->nout + 1) * sizeof *p->bound);
    for (int i = 0; i < p->n; i++) {
        const spmd_call *call = &p->calls[i];
        int n = call->nin + call->nout;
        spmd_view *views = spmd__arena_get(&p->arena, (size_t)n * sizeof *views);
        if (!views)
            return SPMD_ENOMEM;
        for (int k = 0; k < n; k++)
            spmd__view_of(k < call->nin ? &call->in[k] : &call->out[k - call->nin], &views[k]);
        p->args[i] = (spmd_kernel_args){.attr = &call->attr,
                                        .nin = call->nin,
                                        .nout = call->nout,
                                        .in = views,
                                        .out = views + call->nin,
                                        .hash = spmd__call_hash(call)};
    }
    return SPMD_OK;
}

static void count_costs(spmd_program *p)
{
    for (int i = 0; i < p->n; i++) {
        const spmd_call *call = &p->calls[i];
        spmd_cost cost = spmd__call_cost(call);
        p->info.flops += cost.flops;
        p->info.bytes += cost.bytes;
        unsigned mask = call->attr.axes.mask;
        if (!spmd__meets(call) || spmd__mask_size(p->mesh, mask) == 1)
            continue;
        int64_t bytes = 0;
        for (int k = 0; k < call->nin; k++)
            bytes += (int64_t)spmd__tensor_bytes(&call->in[k]);
        p->info.collectives++;
        p->info.collective_bytes += bytes;
        p->info.collectives_by_axes[mask]++;
        p->info.bytes_by_axes[mask] += bytes;
    }
}

spmd_status spmd__program_plan(spmd_program *p, const spmd_job *job)
{
    p->plan = spmd__arena_get(&p->arena, (p->ids + 1) * sizeof *p->plan);
    p->copies = spmd__arena_get(&p->arena, (size_t)(p->nout + 1) * sizeof *p->copies);
    p->stage = spmd__arena_get(&p->arena, (size_t)(p->nout + 1) * sizeof *p->stage);
    if (!p->plan || !p->copies || !p->stage)
        return SPMD_ENOMEM;
    memset(p->plan, 0, (p->ids + 1) * sizeof *p->plan);
    p->commit = p->n;
    find_lifetimes(p);
    place_outputs(p, job);
    SPMD_TRY(place_memory(p));
    SPMD_TRY(make_arguments(p));
    count_costs(p);
    return SPMD_OK;
}
