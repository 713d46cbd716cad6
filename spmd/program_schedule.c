/* Scheduling a recorded program: dead calls are dropped, reductions that cannot depend on each other share a meeting.
 *
 * Height of a call = number of collectives after it on the longest path to an output. Two collectives of the same
 * height never depend on each other (a path between them would make the earlier one higher). Calls keep their recorded
 * order; a group stands where its last member becomes ready; only groups and their readers move. Rejected: sorting by
 * level from the front (splits buckets with two axes), everything as late as possible (keeps all activations alive). */
#include "spmd/program.h"
#include <string.h>

typedef struct schedule {
    spmd_program *program;
    int *producer; /* by value id: the call that makes it, -1 for inputs */
    int *height;
    bool *live, *placed;
    int *group; /* the first member of the call's group; itself if alone */
    spmd_call *order;
    int n;
} schedule;

static void mark_live(schedule *s)
{
    const spmd_program *p = s->program;
    for (int k = 0; k < p->nout; k++)
        if (s->producer[p->out[k].id] >= 0)
            s->live[s->producer[p->out[k].id]] = true;
    for (int i = p->n - 1; i >= 0; i--) {
        const spmd_call *call = &p->calls[i];
        for (int k = 0; s->live[i] && k < call->nin; k++) {
            int from = s->producer[call->in[k].id];
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
    return a->op == b->op && a->op->list && s->height[i] == s->height[j] && !memcmp(&a->attr, &b->attr, sizeof a->attr);
}

static void find_groups(schedule *s)
{
    for (int i = 0; i < s->program->n; i++) {
        s->group[i] = i;
        for (int j = 0; s->live[i] && j < i && s->group[i] == i; j++)
            if (s->live[j] && s->group[j] == j && mergeable(s, i, j))
                s->group[i] = j;
    }
}

static bool ready(const schedule *s, int i)
{
    const spmd_call *call = &s->program->calls[i];
    for (int k = 0; k < call->nin; k++) {
        int from = s->producer[call->in[k].id];
        if (from >= 0 && !s->placed[from])
            return false;
    }
    return true;
}

/* The group of call i as one call, if all its members are ready. */
static spmd_status place_group(schedule *s, int i, bool *done)
{
    spmd_program *p = s->program;
    int nin = 0, nout = 0, members = 0;
    for (int j = 0; j < p->n; j++)
        if (s->live[j] && s->group[j] == s->group[i]) {
            if (!ready(s, j))
                return SPMD_OK;
            nin += p->calls[j].nin;
            nout += p->calls[j].nout;
            members++;
        }
    spmd_call *call = &s->order[s->n++];
    *call = p->calls[i];
    *done = true;
    s->placed[i] = true;
    if (members == 1)
        return SPMD_OK;
    call->in = spmd__arena_get(&p->arena, (size_t)(nin + nout) * sizeof *call->in);
    if (!call->in)
        return SPMD_ENOMEM;
    call->out = call->in + nin;
    call->nin = call->nout = 0;
    for (int j = 0; j < p->n; j++)
        if (s->live[j] && s->group[j] == s->group[i]) {
            memcpy(call->in + call->nin, p->calls[j].in, (size_t)p->calls[j].nin * sizeof *call->in);
            memcpy(call->out + call->nout, p->calls[j].out, (size_t)p->calls[j].nout * sizeof *call->out);
            call->nin += p->calls[j].nin;
            call->nout += p->calls[j].nout;
            s->placed[j] = true;
        }
    p->info.grouped += members - 1;
    return SPMD_OK;
}

static spmd_status place_all(schedule *s)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < s->program->n; i++)
            if (s->live[i] && !s->placed[i])
                SPMD_TRY(place_group(s, i, &moved));
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

spmd_status spmd__program_schedule(spmd_program *p)
{
    size_t n = (size_t)p->n;
    schedule s = {.program = p};
    s.producer = zeros(p, (p->ids + 1) * sizeof *s.producer);
    s.height = zeros(p, n * sizeof *s.height);
    s.live = zeros(p, n);
    s.placed = zeros(p, n);
    s.group = zeros(p, n * sizeof *s.group);
    s.order = zeros(p, n * sizeof *s.order);
    if (!s.producer || !s.height || !s.live || !s.placed || !s.group || !s.order)
        return SPMD_ENOMEM;
    for (uint32_t id = 0; id <= p->ids; id++)
        s.producer[id] = -1;
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < p->calls[i].nout; k++)
            s.producer[p->calls[i].out[k].id] = i;
    mark_live(&s);
    find_groups(&s);
    SPMD_TRY(place_all(&s));
    p->recorded = p->calls;
    p->info.recorded = p->nrecorded = p->n;
    p->calls = s.order;
    p->n = p->info.ops = s.n;
    return SPMD_OK;
}
