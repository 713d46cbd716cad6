/* The meeting: flag lines, one a device and parity, and an event count to sleep on.
 *
 *   slots, cards[mask][parity][device]   each device writes its own line only; members differ along the axes of `mask`
 *   sequence q of a member = its q-th meeting on that mask. A member publishes q in the line of parity q&1. Nobody is
 * two meetings ahead (q+2 needs everybody's q+1, which they publish after reading the lines of q), so a line is free
 * again when its turn comes.
 *
 * Mail: boxes[mask][parity][device], for posts that are copies. What holds for a line holds for its box, so that nobody
 * has to meet again when it is read. Two members hand two boxes to and fro instead: what one has read, it writes next,
 * and need not call back from the other's cache; half as much passes between the cores.
 *
 * Waiting: spin (only while every device has a core), then yield, then sleep. Sleepers count themselves in `waiters`
 * before they look at the flag a last time; publishers store the flag before they look at `waiters`; both sides are
 * in the order of sequential consistency, so one of them sees the other. A publisher first glances at the others'
 * flags: what orders its look at `waiters` is a fence, which is slow while its lines are still on their way.
 *
 * Nobody can go on: a shard about to sleep enters the table `blocked`. When all devices are in it and no meeting of any
 * of them is complete, the launch is stuck, exactly and at once: EMISMATCH with every shard's call. `departures` tells
 * whether somebody left while the table was read; then the next to block looks again.
 *
 * Rejected: a barrier counter (8 devices on 2 cores spin each other out), one condition variable a group (4 to 11 times
 * slower), sequence numbers compared across axes (a subgroup may legally make an extra call). */
#include "spmd/ctx.h"
#include "spmd/host/futex.h"
#include "spmd/host/meet_private.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { GLANCES = 16, SPINS = 4000, YIELDS = 32, WARN_MS = 20000, NAP_MS = 500 };
/* Not a power of two: the members' boxes, read side by side, lie in different sets of a cache. */
enum { BOX_STRIDE = SPMD_MAIL_BYTES + 128 };

/* What the others read in every meeting, and wait for: one cache line, written in one go. */
typedef struct slot {
    _Atomic uint32_t sequence;
    bool check; /* the first meeting of a call: the rest is valid */
    const char *op;
    uint64_t hash;
    spmd_post post;
} __attribute__((aligned(128))) slot;

/* What the others read only if calls differ; its line otherwise stays with its owner. */
typedef struct card {
    spmd_signature signature;
    const char *site;
    spmd_told told; /* if signature.args is set */
    bool whole;     /* not the second meeting's, which has no `told` of its own */
} __attribute__((aligned(128))) card;

typedef struct blocked {
    _Atomic uint32_t sequence; /* 0: running */
    _Atomic uint32_t mask;
    _Atomic(const char *) op, site; /* for other shards' reports */
} __attribute__((aligned(128))) blocked;

struct spmd_meetings {
    slot *slots;
    card *cards;
    char *boxes; /* take no memory before they are used */
    blocked *table;
    int masks;
    __attribute__((aligned(128))) _Atomic uint32_t epoch;
    __attribute__((aligned(128))) _Atomic uint32_t waiters;
    __attribute__((aligned(128))) _Atomic int nblocked;
    _Atomic uint32_t departures;
};

spmd_status spmd__meetings_create(spmd_mesh *mesh)
{
    size_t n = (size_t)mesh->ndevices, masks = (size_t)1 << mesh->naxes;
    struct spmd_meetings *m = aligned_alloc(128, sizeof *m);
    SPMD_CHECK(m, SPMD_ENOMEM, "out of memory for the mesh's meetings");
    memset(m, 0, sizeof *m);
    mesh->meetings = m;
    m->masks = (int)masks;
    m->slots = aligned_alloc(128, masks * 2 * n * sizeof(slot));
    m->cards = aligned_alloc(128, masks * 2 * n * sizeof(card));
    m->table = aligned_alloc(128, n * sizeof(blocked));
    m->boxes = aligned_alloc(128, masks * 2 * n * BOX_STRIDE);
    SPMD_CHECK(m->slots && m->cards && m->table && m->boxes, SPMD_ENOMEM, "out of memory for the mesh's meetings");
    spmd__meetings_reset(mesh);
    return SPMD_OK;
}

void spmd__meetings_free(struct spmd_meetings *meetings)
{
    if (!meetings)
        return;
    free(meetings->slots);
    free(meetings->cards);
    free(meetings->table);
    free(meetings->boxes);
    free(meetings);
}

void spmd__meetings_reset(spmd_mesh *mesh)
{
    struct spmd_meetings *m = mesh->meetings;
    size_t n = (size_t)mesh->ndevices;
    memset(m->slots, 0, (size_t)m->masks * 2 * n * sizeof(slot));
    memset(m->cards, 0, (size_t)m->masks * 2 * n * sizeof(card));
    memset(m->table, 0, n * sizeof(blocked));
    atomic_store(&m->nblocked, 0);
    for (size_t d = 0; d < n; d++)
        memset(mesh->devices[d].meetings, 0, sizeof mesh->devices[d].meetings);
}

void spmd__meetings_wake(spmd_mesh *mesh)
{
    atomic_fetch_add(&mesh->meetings->epoch, 1);
    spmd__futex_wake_all(&mesh->meetings->epoch);
}

/* Of device 0's line; those of the others follow. */
static size_t row_of(const spmd_mesh *mesh, unsigned mask, uint32_t sequence)
{
    return ((size_t)mask * 2 + (sequence & 1)) * (size_t)mesh->ndevices;
}

/* 0 means "running" in the table of the blocked; the parity must alternate. */
static uint32_t next_sequence(uint32_t before)
{
    return before == UINT32_MAX ? 2 : before + 1;
}

static slot *line(const spmd_mesh *mesh, unsigned mask, uint32_t sequence, int device)
{
    return &mesh->meetings->slots[row_of(mesh, mask, sequence) + (size_t)device];
}

static card *card_of(const spmd_mesh *mesh, unsigned mask, uint32_t sequence, int device)
{
    return &mesh->meetings->cards[row_of(mesh, mask, sequence) + (size_t)device];
}

static bool same_group(const spmd_mesh *mesh, unsigned mask, int a, int b)
{
    for (int x = 0; x < mesh->naxes; x++)
        if (!(mask >> x & 1) && mesh->devices[a].ctx.coord[x] != mesh->devices[b].ctx.coord[x])
            return false;
    return true;
}

/* Has every member of `device`'s meeting arrived? */
static bool meeting_complete(const spmd_mesh *mesh, int device, uint32_t sequence, unsigned mask)
{
    for (int d = 0; d < mesh->ndevices; d++)
        if (same_group(mesh, mask, device, d) && atomic_load(&line(mesh, mask, sequence, d)->sequence) != sequence)
            return false;
    return true;
}

void spmd__describe_shards(const spmd_mesh *mesh, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (int d = 0; d < mesh->ndevices && used + 1 < size; d++) {
        blocked *b = &mesh->meetings->table[d];
        const spmd_recorder *r = &mesh->devices[d].recorder;
        uint64_t calls = atomic_load_explicit(&r->calls, memory_order_acquire);
        const char *last = calls ? atomic_load(&r->op[(calls - 1) % SPMD_RECORDER_CALLS]) : "none",
                   *separator = used ? "; " : "";
        int n = atomic_load(&b->sequence)
                    ? snprintf(text + used, size - used, "%sshard %d waits in %s at %s", separator, d,
                               atomic_load(&b->op), atomic_load(&b->site))
                    : snprintf(text + used, size - used, "%sshard %d runs, last call %s", separator, d, last);
        used += n > 0 ? (size_t)n : 0;
    }
}

/* Everybody blocked, nothing complete: an exact answer, or no answer if somebody left while we looked. */
static spmd_status check_stuck(spmd_ctx *ctx)
{
    const spmd_mesh *mesh = ctx->mesh;
    struct spmd_meetings *m = mesh->meetings;
    uint32_t departures = atomic_load(&m->departures);
    if (atomic_load(&m->nblocked) != mesh->ndevices)
        return SPMD_OK;
    for (int d = 0; d < mesh->ndevices; d++) {
        uint32_t sequence = atomic_load(&m->table[d].sequence), mask = atomic_load(&m->table[d].mask);
        if (!sequence || meeting_complete(mesh, d, sequence, mask))
            return SPMD_OK;
    }
    if (atomic_load(&m->departures) != departures)
        return SPMD_OK;
    char text[SPMD_ERROR_SIZE / 2];
    spmd__describe_shards(mesh, text, sizeof text);
    return SPMD_FAIL(SPMD_EMISMATCH, "no shard can go on: %s; every shard along an axis must make the same calls",
                     text);
}

static bool poisoned_now(const spmd_mesh *mesh)
{
    return atomic_load(&mesh->fate) == SPMD_FATE_POISONED;
}

static spmd_status aborted(void)
{
    return SPMD_FAIL(SPMD_EABORTED, "another shard failed first");
}

static spmd_status timed_out(const spmd_ctx *ctx, int64_t waited)
{
    char text[SPMD_ERROR_SIZE / 2];
    spmd__describe_shards(ctx->mesh, text, sizeof text);
    return SPMD_FAIL(SPMD_ETIMEOUT, "waited %lld ms: %s (bound: SPMD_TIMEOUT_MS)", (long long)waited, text);
}

/* Sleeps until `other` publishes `sequence`. The shard stands in the table of the blocked. */
static spmd_status sleep_for(spmd_ctx *ctx, unsigned mask, slot *other, uint32_t sequence)
{
    spmd_mesh *mesh = ctx->mesh;
    struct spmd_meetings *m = mesh->meetings;
    blocked *me = &m->table[ctx->id];
    const card *mine = card_of(mesh, mask, sequence, ctx->id);
    atomic_store(&me->op, mine->signature.op);
    atomic_store(&me->site, mine->site);
    atomic_store(&me->mask, mask);
    atomic_store(&me->sequence, sequence);
    spmd_status status = SPMD_OK;
    if (atomic_fetch_add(&m->nblocked, 1) + 1 == mesh->ndevices)
        status = check_stuck(ctx);
    int64_t start = spmd__now_ms();
    bool warned = false;
    while (status == SPMD_OK) {
        atomic_fetch_add(&m->waiters, 1);
        uint32_t epoch = atomic_load(&m->epoch);
        bool arrived = atomic_load(&other->sequence) == sequence, poisoned = poisoned_now(mesh);
        int64_t waited = spmd__now_ms() - start, left = mesh->timeout_ms ? mesh->timeout_ms - waited : NAP_MS;
        if (!arrived && !poisoned && left > 0)
            spmd__futex_wait(&m->epoch, epoch, left < NAP_MS ? left : NAP_MS);
        atomic_fetch_sub(&m->waiters, 1);
        if (arrived)
            break;
        if (poisoned)
            status = aborted();
        else if (left <= 0)
            status = timed_out(ctx, waited);
        else if (!warned && waited >= WARN_MS) {
            char text[SPMD_ERROR_SIZE / 2];
            spmd__describe_shards(mesh, text, sizeof text);
            spmd__log(mesh, NULL, "shard %d has waited %d s: %s", ctx->id, WARN_MS / 1000, text);
            warned = true;
        }
    }
    atomic_store(&me->sequence, 0);
    atomic_fetch_sub(&m->nblocked, 1);
    atomic_fetch_add(&m->departures, 1); /* last: whoever counted this shard before sees it leave before it publishes */
    return status;
}

/* One meeting of one shard. */
typedef struct meeting {
    spmd_ctx *ctx;
    const spmd_group *group;
    uint32_t sequence;
    slot *row, *mine; /* of all devices, and in it this shard's */
    bool looked;      /* for sleepers, since the flag was raised */
} meeting;

/* Wakes those who went to sleep before they could see this shard's flag. A fence costs half of what a sequentially
 * consistent store does while the line is in the peers' caches; ThreadSanitizer knows no fences, see publish. */
static void look_for_sleepers(meeting *m)
{
    const spmd_mesh *mesh = m->ctx->mesh;
    if (m->looked)
        return;
    m->looked = true;
#if !defined(__SANITIZE_THREAD__)
    atomic_thread_fence(memory_order_seq_cst);
#endif
    if (atomic_load(&mesh->meetings->waiters))
        spmd__meetings_wake(m->ctx->mesh);
}

/* Until `other` shows this meeting. */
static spmd_status wait_for(meeting *m, slot *other)
{
    const spmd_mesh *mesh = m->ctx->mesh;
    int spins = mesh->ndevices <= mesh->cores ? SPINS : 0;
    for (int i = -GLANCES; i < spins + YIELDS; i++) {
        if (atomic_load_explicit(&other->sequence, memory_order_acquire) == m->sequence)
            return SPMD_OK;
        if (i < 0) {
            spmd__cpu_relax();
            continue;
        }
        look_for_sleepers(m);
        if (atomic_load_explicit(&mesh->fate, memory_order_relaxed) == SPMD_FATE_POISONED)
            return aborted();
        if (i < spins)
            spmd__cpu_relax();
        else
            sched_yield();
    }
    return sleep_for(m->ctx, m->group->mask, other, m->sequence);
}

/* "psum f32[4] at step.c:12" */
static const char *call_text(const card *c, char text[192])
{
    const spmd_signature *g = &c->signature;
    if (!strcmp(g->op, "return"))
        snprintf(text, 192, "returned %lld outputs", (long long)g->count);
    else
        snprintf(text, 192, "%s %s[%lld] at %s", g->op, spmd_dtype_name(g->dtype), (long long)g->count, c->site);
    return text;
}

/* Either member may be the first to see it: the text is the lower shard's, whoever reports. */
static spmd_status differ(const meeting *m, int other, bool in_step)
{
    const spmd_mesh *mesh = m->ctx->mesh;
    int me = m->ctx->id, low = me < other ? me : other, high = me < other ? other : me;
    const card *one = card_of(mesh, m->group->mask, m->sequence, low);
    const card *two = card_of(mesh, m->group->mask, m->sequence, high);
    const spmd_signature *a = &one->signature, *b = &two->signature;
    char text[2][192], why[SPMD_DIFFERENCE], detail[SPMD_DIFFERENCE + 4] = "";
    if (in_step && !strcmp(a->op, b->op) && a->dtype == b->dtype && a->count == b->count && a->difference) {
        a->difference(mesh, a->op, &one->told, &two->told, why);
        snprintf(detail, sizeof detail, " (%s)", why);
    }
    spmd__enter_shard(&mesh->devices[low].ctx);
    spmd_status status = SPMD_FAIL(SPMD_EMISMATCH, "shards made different calls: shard %d %s, shard %d %s%s", low,
                                   call_text(one, text[0]), high, call_text(two, text[1]), detail);
    spmd__enter_shard(m->ctx);
    return status;
}

static spmd_status compare(const meeting *m, const slot *other, int place)
{
    const slot *mine = m->mine;
    bool in_step = mine->check == other->check, same = in_step;
    if (same && mine->check)
        same = mine->hash == other->hash && (mine->op == other->op || !strcmp(mine->op, other->op));
    return same ? SPMD_OK : differ(m, m->group->device[place], in_step);
}

/* Everything by value: what the call's own thread has on its stack is gone when another one reports. */
static void write_card(const spmd_ctx *ctx, const spmd_signature *signature, card *out)
{
    const char *site = spmd__site(ctx);
    const spmd_signature *before = &out->signature;
    if (out->whole && out->site == site && before->op == signature->op && before->hash == signature->hash &&
        before->count == signature->count && before->dtype == signature->dtype)
        return; /* a loop: it is there already */
    out->signature = *signature;
    out->site = site;
    out->whole = true;
    if (!signature->args)
        return;
    const spmd_view *first = &signature->args->in[0];
    out->told.attr = *signature->args->attr;
    out->told.nin = signature->args->nin;
    out->told.rank = first->rank;
    memcpy(out->told.shape, first->shape, sizeof first->shape);
}

/* This shard's line for its next meeting: content, then the flag. */
static void publish(meeting *m, const spmd_signature *signature, spmd_post post)
{
    spmd_ctx *ctx = m->ctx;
    const spmd_mesh *mesh = ctx->mesh;
    unsigned mask = m->group->mask;
    uint32_t before = ctx->device->meetings[mask], q = next_sequence(before);
    size_t row = row_of(mesh, mask, q);
    card *own = &mesh->meetings->cards[row + (size_t)ctx->id];
    m->row = &mesh->meetings->slots[row];
    slot *mine = m->mine = &m->row[ctx->id];
    ctx->device->meetings[mask] = m->sequence = q;
    mine->check = signature != NULL;
    if (signature) {
        write_card(ctx, signature, own);
        mine->op = signature->op;
        mine->hash = signature->hash;
        mine->post = post;
    } else { /* the second meeting of the same call */
        const card *last = card_of(mesh, mask, before, ctx->id);
        own->signature = last->signature;
        own->site = last->site;
        own->whole = false;
    }
#if defined(__SANITIZE_THREAD__)
    atomic_store(&mine->sequence, q); /* where a fence would follow */
#else
    atomic_store_explicit(&mine->sequence, q, memory_order_release);
#endif
}

/* A copy that will be read: it comes while calls are compared. If they differ, it is no copy, and asking does no harm.
 * Eight lines at a time, for the sake of a short loop. */
static void expect_to_read(const void *copy, size_t bytes)
{
    enum { LINE = 64, BATCH = 8 * LINE };
    for (size_t k = 0; k < bytes; k += BATCH)
        for (size_t j = 0; j < BATCH; j += LINE)
            spmd__expect_read((const void *)((uintptr_t)copy + k + j));
}

static spmd_status meet(spmd_ctx *ctx, const spmd_group *group, const spmd_signature *signature, spmd_post post,
                        spmd_post *posts)
{
    meeting m = {.ctx = ctx, .group = group};
    publish(&m, signature, post);
    for (int k = 1, place = group->me; k < group->n; k++) {
        place = place + 1 < group->n ? place + 1 : 0;
        slot *other = &m.row[group->device[place]];
        SPMD_TRY(wait_for(&m, other));
        if (signature)
            expect_to_read(other->post.data, signature->mail);
        SPMD_TRY(compare(&m, other, place));
        if (posts)
            posts[place] = other->post;
    }
    spmd__expect_write(line(ctx->mesh, group->mask, next_sequence(m.sequence), ctx->id));
    look_for_sleepers(&m);
    return poisoned_now(ctx->mesh) ? aborted() : SPMD_OK; /* a member may have given up after it had published */
}

spmd_status spmd__meet(spmd_ctx *ctx, const spmd_group *group, const spmd_signature *signature, spmd_post post,
                       spmd_post *posts)
{
    spmd_status status = SPMD_OK;
    if (posts)
        posts[group->me] = post;
    if (group->n == 1)
        return SPMD_OK;
    if (signature && !spmd__permitted(ctx->mesh, SPMD_COLLECTIVE, 0))
        status = SPMD_FAIL(SPMD_EIO, "%s at %s failed, because the mesh's fault hook refused it", signature->op,
                           spmd__site(ctx));
    if (status == SPMD_OK)
        status = meet(ctx, group, signature, post, posts);
    if (status != SPMD_OK) /* at once: the others must not wait for a shard that ignores the error */
        spmd__poison(ctx->mesh, status, spmd_last_error());
    return status;
}

void *spmd__mail_box(const spmd_ctx *ctx, const spmd_group *group)
{
    uint32_t q = next_sequence(ctx->device->meetings[group->mask]), row = q;
    int device = ctx->id;
    if (group->n == 2) {
        row = 0;
        device = group->device[((uint32_t)group->me + q) & 1];
    }
    return ctx->mesh->meetings->boxes + (row_of(ctx->mesh, group->mask, row) + (size_t)device) * BOX_STRIDE;
}
