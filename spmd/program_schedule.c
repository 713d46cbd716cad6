/* Scheduling a recorded program: dead calls are dropped, reductions that cannot depend on each other share a meeting.
 *
 * Height of a call = number of collectives after it on the longest path to an output. Two collectives of the same
 * height never depend on each other (a path between them would make the earlier one higher). Calls keep their recorded
 * order; a group stands where its last member becomes ready; only groups and their readers move. Rejected: sorting by
 * level from the front (splits buckets with two axes), everything as late as possible (keeps all activations alive).
 *
 * The order is that of passes over the calls, each of which places what is ready: a call that becomes ready behind the
 * one that made it so is placed in the same pass, one before it in the next. */
#include "spmd/program.h"
#include <string.h>

typedef struct schedule {
    spmd_program *program;
    int *producer; /* by value id: the call that makes it, -1 for inputs */
    int *height;
    bool *live;
    int *group; /* the first member of the call's group; itself if alone */
    int *next;  /* the next member, -1: the last one */
    int *wants; /* by call: inputs that are not made yet; of a group's first member those of all */
    int *first_reader,
        *reader;    /* calls that read what call i makes: reader[first_reader[i]] .. [first_reader[i+1]-1] */
    uint64_t *heap; /* calls to place: pass << 32 | call, the smallest on top */
    int nheap;
    spmd_call *order;
    int n;
} schedule;

static int producer_of(const schedule *s, const spmd_call *call, int k)
{
    return s->producer[call->in[k].id];
}

static void mark_live(schedule *s)
{
    const spmd_program *p = s->program;
    for (int k = 0; k < p->nout; k++)
        if (s->producer[p->out[k].id] >= 0)
            s->live[s->producer[p->out[k].id]] = true;
    for (int i = p->n - 1; i >= 0; i--) {
        const spmd_call *call = &p->calls[i];
        for (int k = 0; s->live[i] && k < call->nin; k++) {
            int from = producer_of(s, call, k);
            if (from < 0)
                continue;
            s->live[from] = true; /* of shape-only inputs, too: the plan places them */
            int height = s->height[i] + spmd__meets(call);
            s->height[from] = height > s->height[from] ? height : s->height[from];
        }
    }
}

static bool mergeable(const schedule *s, int i, int j)
{
    const spmd_call *a = &s->program->calls[i], *b = &s->program->calls[j];
    return a->op == b->op && a->op->list && !memcmp(&a->attr, &b->attr, sizeof a->attr);
}

/* `same_height[h]`: the first member of the last group of height h, and `before` the one before that. */
static void find_groups(schedule *s, int *same_height, int *last, int *before)
{
    for (int i = 0; i < s->program->n; i++) {
        s->group[i] = last[i] = i;
        s->next[i] = -1;
        if (!s->live[i] || !s->program->calls[i].op->list)
            continue;
        int j = same_height[s->height[i]];
        while (j >= 0 && !mergeable(s, i, j))
            j = before[j];
        if (j < 0) {
            before[i] = same_height[s->height[i]];
            same_height[s->height[i]] = i;
            continue;
        }
        s->group[i] = j;
        s->next[last[j]] = i;
        last[j] = i;
    }
}

static void find_readers(schedule *s)
{
    const spmd_program *p = s->program;
    int *count = s->first_reader + 2; /* shifted, so that filling in moves each to its place */
    for (int i = 0; i < p->n; i++)
        for (int k = 0; s->live[i] && k < p->calls[i].nin; k++)
            if (producer_of(s, &p->calls[i], k) >= 0)
                count[producer_of(s, &p->calls[i], k)]++;
    for (int i = 1; i < p->n; i++)
        count[i] += count[i - 1];
    count--;
    for (int i = 0; i < p->n; i++)
        for (int k = 0; s->live[i] && k < p->calls[i].nin; k++) {
            int from = producer_of(s, &p->calls[i], k);
            if (from < 0)
                continue;
            s->reader[count[from]++] = i;
            s->wants[s->group[i]]++;
        }
}

static void push(schedule *s, uint64_t entry)
{
    int at = s->nheap++;
    for (int above = (at - 1) / 2; at > 0 && s->heap[above] > entry; at = above, above = (at - 1) / 2)
        s->heap[at] = s->heap[above];
    s->heap[at] = entry;
}

static uint64_t pop(schedule *s)
{
    uint64_t top = s->heap[0], entry = s->heap[--s->nheap];
    int at = 0;
    for (int below = 1; below < s->nheap; below = 2 * at + 1) {
        below += below + 1 < s->nheap && s->heap[below + 1] < s->heap[below];
        if (s->heap[below] >= entry)
            break;
        s->heap[at] = s->heap[below];
        at = below;
    }
    s->heap[at] = entry;
    return top;
}

/* The group is ready, now that call `at` is placed in pass `pass`: its next member behind stands for it, or in the next
 * pass its first one. */
static void push_group(schedule *s, int group, uint64_t pass, int at)
{
    int member = group;
    while (member >= 0 && member <= at)
        member = s->next[member];
    push(s, member < 0 ? (pass + 1) << 32 | (uint64_t)group : pass << 32 | (uint64_t)member);
}

/* The group of call i as one call. */
static spmd_status place_group(schedule *s, int i)
{
    spmd_program *p = s->program;
    int nin = 0, nout = 0, first = s->group[i];
    spmd_call *call = &s->order[s->n++];
    *call = p->calls[i];
    if (s->next[first] < 0)
        return SPMD_OK;
    for (int j = first; j >= 0; j = s->next[j]) {
        nin += p->calls[j].nin;
        nout += p->calls[j].nout;
        p->info.grouped += j != first;
    }
    call->in = spmd__arena_get(&p->arena, (size_t)(nin + nout) * sizeof *call->in);
    if (!call->in)
        return SPMD_ENOMEM;
    call->out = call->in + nin;
    call->nin = call->nout = 0;
    for (int j = first; j >= 0; j = s->next[j]) {
        memcpy(call->in + call->nin, p->calls[j].in, (size_t)p->calls[j].nin * sizeof *call->in);
        memcpy(call->out + call->nout, p->calls[j].out, (size_t)p->calls[j].nout * sizeof *call->out);
        call->nin += p->calls[j].nin;
        call->nout += p->calls[j].nout;
    }
    return SPMD_OK;
}

static spmd_status place_all(schedule *s)
{
    for (int i = 0; i < s->program->n; i++)
        if (s->live[i] && s->group[i] == i && !s->wants[i])
            push_group(s, i, 0, -1);
    while (s->nheap) {
        uint64_t entry = pop(s), pass = entry >> 32;
        int at = (int)(entry & UINT32_MAX);
        SPMD_TRY(place_group(s, at));
        for (int j = s->group[at]; j >= 0; j = s->next[j])
            for (int k = s->first_reader[j]; k < s->first_reader[j + 1]; k++) {
                int group = s->group[s->reader[k]];
                if (--s->wants[group] == 0)
                    push_group(s, group, pass, at);
            }
    }
    return SPMD_OK;
}

static void *zeros(spmd_program *p, size_t bytes)
{
    void *memory = spmd__arena_get(&p->arena, bytes);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

static spmd_status arrange(schedule *s)
{
    spmd_program *p = s->program;
    size_t n = (size_t)p->n, reads = 0;
    for (int i = 0; i < p->n; i++)
        reads += (size_t)p->calls[i].nin;
    int *same_height = zeros(p, (n + 1) * sizeof(int)), *last = zeros(p, n * sizeof(int)),
        *before = zeros(p, n * sizeof(int));
    s->group = zeros(p, n * sizeof *s->group);
    s->next = zeros(p, n * sizeof *s->next);
    s->wants = zeros(p, n * sizeof *s->wants);
    s->first_reader = zeros(p, (n + 2) * sizeof *s->first_reader);
    s->reader = zeros(p, reads * sizeof *s->reader);
    s->heap = zeros(p, n * sizeof *s->heap);
    s->order = zeros(p, n * sizeof *s->order);
    if (!same_height || !last || !before || !s->group || !s->next || !s->wants || !s->first_reader || !s->reader ||
        !s->heap || !s->order)
        return SPMD_ENOMEM;
    memset(same_height, -1, (n + 1) * sizeof *same_height);
    find_groups(s, same_height, last, before);
    find_readers(s);
    return place_all(s);
}

spmd_status spmd__program_schedule(spmd_program *p)
{
    schedule s = {.program = p};
    s.producer = zeros(p, (p->ids + 1) * sizeof *s.producer);
    s.height = zeros(p, (size_t)p->n * sizeof *s.height);
    s.live = zeros(p, (size_t)p->n);
    if (!s.producer || !s.height || !s.live)
        return SPMD_ENOMEM;
    memset(s.producer, -1, (p->ids + 1) * sizeof *s.producer);
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < p->calls[i].nout; k++)
            s.producer[p->calls[i].out[k].id] = i;
    mark_live(&s);
    SPMD_TRY(arrange(&s));
    p->recorded = p->calls;
    p->info.recorded = p->nrecorded = p->n;
    p->calls = s.order;
    p->n = p->info.ops = s.n;
    return SPMD_OK;
}
