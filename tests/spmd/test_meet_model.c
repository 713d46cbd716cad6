/* The meeting's protocol (spmd/host/meet.c) as a model: every interleaving of a few threads and meetings is explored.
 *
 * Checked: nobody sleeps for ever although everybody else is done or asleep too (a lost wake-up), and nobody reads a
 * line, or a copy that came by mail, that already belongs to another meeting. The same search finds both faults as soon
 * as the protocol is broken in the ways one would be tempted to: each is a row. */
#include "spmd/testing.h"
#include <stdio.h>

enum { MAX_THREADS = 3, MAX_STATES = 1 << 23 };

enum pc {
    WRITE,
    PUBLISH,
    LOOK_FOR_WAITERS,
    WAKE,
    CHECK,
    READ,
    READ_MAIL,
    COUNT_IN,
    TAKE_EPOCH,
    CHECK_AGAIN,
    SLEEP,
    ASLEEP,
    COUNT_OUT,
    DONE
};

/* Where copies lie: nowhere; as the lines, one a member and parity; two boxes that two members hand to and fro; one a
 * member. */
typedef enum mail { NO_MAIL, BY_PARITY, HANDED, ONE_BOX } mail;

typedef struct variant {
    const char *name;
    int threads, meetings;
    bool waiters_first; /* look for waiters before publishing */
    bool no_recheck;    /* sleep without looking again */
    bool epoch_late;    /* take the epoch after the last look */
    bool one_line;      /* one line a member, no parity */
    bool flag_first;    /* publish, then write what the line says */
    bool glance;        /* look at the others' flags first; for waiters only before waiting and at the end */
    bool no_last_look;  /* with glance: not at the end */
    mail mail;
    unsigned without;  /* bit m: meeting m has no mail */
    bool own_copy;     /* members read their own copies, too */
    const char *fault; /* NULL: none may be found */
} variant;

typedef struct thread {
    uint8_t pc, meeting, other, epoch;
    bool looked; /* for waiters, since the flag was raised; only with glance */
} thread;

typedef struct state {
    thread t[MAX_THREADS];
    uint8_t sequence[MAX_THREADS][2], payload[MAX_THREADS][2], box[MAX_THREADS][2];
    uint8_t waiters, epoch;
} state;

typedef struct search {
    const variant *v;
    state *seen;    /* open addressing; a zero first meeting marks an empty place */
    state *pending; /* to be expanded */
    size_t states, npending;
    const char *fault;
} search;

static int line_of(const variant *v, int meeting)
{
    return v->one_line ? 0 : meeting & 1;
}

/* Of a member's copy for a meeting. */
static uint8_t *box_of(const variant *v, state *s, int member, int meeting)
{
    if (v->mail == HANDED)
        return &s->box[(member + meeting) & 1][0];
    return &s->box[member][v->mail == ONE_BOX ? 0 : meeting & 1];
}

static bool has_mail(const variant *v, int meeting)
{
    return v->mail != NO_MAIL && !(v->without >> meeting & 1);
}

static uint8_t copy_of(int member, int meeting)
{
    return (uint8_t)(member << 4 | meeting);
}

static uint64_t hash_of(const state *s)
{
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < sizeof *s; i++)
        hash = (hash ^ ((const uint8_t *)s)[i]) * 1099511628211u;
    return hash ^ hash >> 29;
}

static void visit(search *x, const state *s)
{
    size_t place = hash_of(s) & (MAX_STATES - 1);
    while (x->seen[place].t[0].meeting) {
        if (!memcmp(&x->seen[place], s, sizeof *s))
            return;
        place = (place + 1) & (MAX_STATES - 1);
    }
    ck_assert_msg(x->states < MAX_STATES / 2, "the model has more states than the table");
    x->seen[place] = *s;
    x->states++;
    x->pending[x->npending++] = *s;
}

static void next_meeting(const variant *v, thread *t)
{
    t->looked = false;
    bool last = t->meeting == v->meetings;
    t->pc = last ? DONE : v->flag_first ? PUBLISH : WRITE;
    t->meeting += !last;
}

/* The next one to be met. When all have been: the mail, or the next meeting. */
static void next_other(const variant *v, thread *t, int me)
{
    do
        t->other++;
    while (t->other == me);
    t->pc = CHECK;
    if (t->other < v->threads)
        return;
    if (v->glance && !v->no_last_look && !t->looked) { /* comes back here: the last member is met a second time */
        t->other--;
        t->other -= t->other == me;
        t->pc = LOOK_FOR_WAITERS;
        return;
    }
    t->other = me == 0;
    if (has_mail(v, t->meeting))
        t->pc = READ_MAIL;
    else
        next_meeting(v, t);
}

static bool has_all_copies(const variant *v, state *s, int me)
{
    bool right = true;
    for (int k = 0; k < v->threads; k++)
        if (k != me || v->own_copy)
            right &= *box_of(v, s, k, s->t[me].meeting) == copy_of(k, s->t[me].meeting);
    return right;
}

/* One atomic step of thread `me`. */
static void step(search *x, state *s, int me)
{
    const variant *v = x->v;
    thread *t = &s->t[me];
    int line = line_of(v, t->meeting);
    bool arrived = s->sequence[t->other][line] == t->meeting;
    switch ((enum pc)t->pc) {
    case WRITE:
        s->payload[me][line] = t->meeting;
        if (has_mail(v, t->meeting))
            *box_of(v, s, me, t->meeting) = copy_of(me, t->meeting);
        t->pc = v->waiters_first || v->flag_first ? LOOK_FOR_WAITERS : PUBLISH;
        break;
    case PUBLISH:
        s->sequence[me][line] = t->meeting;
        t->pc = v->waiters_first || v->glance ? CHECK : v->flag_first ? WRITE : LOOK_FOR_WAITERS;
        break;
    case LOOK_FOR_WAITERS:
        t->looked = v->glance;
        t->pc = s->waiters ? WAKE : v->waiters_first ? PUBLISH : CHECK;
        break;
    case WAKE: /* the epoch and the wake-up are two steps in the code; between them nobody new can sleep on the old one
                */
        s->epoch++;
        for (int k = 0; k < v->threads; k++)
            if (s->t[k].pc == ASLEEP)
                s->t[k].pc = COUNT_OUT;
        t->pc = v->waiters_first ? PUBLISH : CHECK;
        break;
    case CHECK:
        t->pc = arrived ? READ : v->glance && !t->looked ? LOOK_FOR_WAITERS : COUNT_IN;
        break;
    case READ:
        if (s->payload[t->other][line] != t->meeting)
            x->fault = "a line was read that holds another meeting";
        next_other(v, t, me);
        break;
    case READ_MAIL:
        if (!has_all_copies(v, s, me))
            x->fault = "a copy was read that belongs to another meeting";
        next_meeting(v, t);
        break;
    case COUNT_IN:
        s->waiters++;
        t->pc = v->epoch_late ? CHECK_AGAIN : TAKE_EPOCH;
        break;
    case TAKE_EPOCH:
        t->epoch = s->epoch;
        t->pc = v->epoch_late || v->no_recheck ? SLEEP : CHECK_AGAIN;
        break;
    case CHECK_AGAIN:
        t->pc = arrived ? COUNT_OUT : v->epoch_late ? TAKE_EPOCH : SLEEP;
        break;
    case SLEEP: /* futex_wait compares and sleeps at once */
        t->pc = s->epoch == t->epoch ? ASLEEP : COUNT_OUT;
        break;
    case COUNT_OUT:
        s->waiters--;
        t->epoch = 0; /* forgotten: fewer states */
        t->pc = CHECK;
        break;
    case ASLEEP:
    case DONE:
        break;
    }
}

static void expand(search *x, const state *s)
{
    bool moved = false, finished = true;
    for (int me = 0; me < x->v->threads && !x->fault; me++) {
        finished &= s->t[me].pc == DONE;
        if (s->t[me].pc == ASLEEP || s->t[me].pc == DONE)
            continue;
        state after = *s;
        step(x, &after, me);
        moved = true;
        visit(x, &after);
    }
    if (!moved && !finished && !x->fault)
        x->fault = "everybody sleeps";
}

static const variant variants[] = {
    {.name = "2 threads", .threads = 2, .meetings = 4},
    {.name = "3 threads", .threads = 3, .meetings = 2},
    {.name = "a glance first", .threads = 2, .meetings = 4, .glance = true},
    {.name = "a glance first, 3 threads", .threads = 3, .meetings = 2, .glance = true},
    {.name = "a glance, no last look",
     .threads = 2,
     .meetings = 2,
     .glance = true,
     .no_last_look = true,
     .fault = "everybody sleeps"},
    {.name = "waiters before flag", .threads = 2, .meetings = 2, .waiters_first = true, .fault = "everybody sleeps"},
    {.name = "no second look", .threads = 2, .meetings = 2, .no_recheck = true, .fault = "everybody sleeps"},
    {.name = "epoch after the look", .threads = 2, .meetings = 2, .epoch_late = true, .fault = "everybody sleeps"},
    {.name = "one line", .threads = 2, .meetings = 3, .one_line = true, .fault = "everybody sleeps"},
    {.name = "flag before content",
     .threads = 2,
     .meetings = 2,
     .flag_first = true,
     .fault = "a line was read that holds another meeting"},
    {.name = "mail, 3 threads", .threads = 3, .meetings = 2, .mail = BY_PARITY},
    {.name = "mail, own copies read", .threads = 2, .meetings = 4, .mail = BY_PARITY, .own_copy = true},
    {.name = "boxes handed to and fro", .threads = 2, .meetings = 4, .glance = true, .mail = HANDED},
    {.name = "the same, not in meeting 2", .threads = 2, .meetings = 4, .mail = HANDED, .without = 1 << 2},
    {.name = "the same, not in 2 and 3", .threads = 2, .meetings = 4, .mail = HANDED, .without = 3 << 2},
    {.name = "one box",
     .threads = 2,
     .meetings = 2,
     .mail = ONE_BOX,
     .fault = "a copy was read that belongs to another meeting"},
    {.name = "boxes handed over, own copies read",
     .threads = 2,
     .meetings = 2,
     .mail = HANDED,
     .own_copy = true,
     .fault = "a copy was read that belongs to another meeting"},
};

START_TEST(every_interleaving)
{
    search x = {.v = &variants[_i],
                .seen = calloc(MAX_STATES, sizeof(state)),
                .pending = malloc(MAX_STATES / 2 * sizeof(state))};
    ck_assert(x.seen && x.pending);
    state start = {0};
    for (int me = 0; me < x.v->threads; me++)
        start.t[me] = (thread){.pc = x.v->flag_first ? PUBLISH : WRITE, .meeting = 1, .other = me == 0};
    visit(&x, &start);
    while (x.npending && !x.fault) {
        state s = x.pending[--x.npending];
        expand(&x, &s);
    }
    printf("%s: %zu states, %s\n", x.v->name, x.states, x.fault ? x.fault : "no fault");
    if (x.v->fault)
        ck_assert_msg(x.fault && !strcmp(x.fault, x.v->fault), "%s: found %s", x.v->name,
                      x.fault ? x.fault : "nothing");
    else
        ck_assert_msg(!x.fault, "%s: %s", x.v->name, x.fault);
    free(x.seen);
    free(x.pending);
}
END_TEST

SPMD_TEST_MAIN("meet_model", tcase_add_loop_test(tc, every_interleaving, 0, sizeof variants / sizeof *variants);)
