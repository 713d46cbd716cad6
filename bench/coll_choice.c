/* The limits between the ways that a collective can go, found by forcing both sides of each. */
#include "bench/coll_measure.h"
#include <stdio.h>
#include <string.h>

enum { MOST_MEMBERS = 16, LEAST_MESSAGE = 256, LEAST_FOOTPRINT = 1 << 20 };

typedef struct search {
    coll_setup setup;
    int64_t largest;
    coll_race_fn *tell;
    void *user;
} search;

/* Is the first of the ways not slower, over all ops of the list? A size is the message, or the footprint. */
static spmd_status first_wins(const search *s, const char *const *ops, int64_t size, spmd_way first, spmd_way second,
                              bool *out)
{
    int n = s->setup.groups.n;
    double us[2] = {0};
    for (; *ops; ops++) {
        const coll_row *row = coll_find(*ops, strlen(*ops));
        coll_race race = {.ways = {first, second}};
        int64_t bytes = first == SPMD_WAY_MAIL ? (row->in_cut ? n * size : size) : size / (row->in_cut ? n + 1 : 2 * n);
        SPMD_TRY(coll_run_race(&s->setup, row, bytes, &race));
        s->tell(s->user, row->name, n, size, &race);
        us[0] += race.us[0];
        us[1] += race.us[1];
    }
    *out = us[0] <= us[1];
    return SPMD_OK;
}

/* The largest message up to which mail wins; 0: not even the smallest. */
static spmd_status find_mail(search *s, int64_t *out)
{
    static const char *const ops[] = {"psum", "psum_scatter", NULL}; /* whose work is shared the other way */
    bool wins = true;
    *out = 0;
    s->setup.in_place = true;
    for (int64_t size = LEAST_MESSAGE; size <= SPMD_MAIL_BYTES && wins; size *= 2) {
        SPMD_TRY(first_wins(s, ops, size, SPMD_WAY_MAIL, SPMD_WAY_DIRECT, &wins));
        *out = wins ? size : *out;
    }
    return SPMD_OK;
}

/* The smallest footprint from which streaming wins; twice the largest one: not even there. */
static spmd_status find_stream(search *s, int64_t *out)
{
    static const char *const ops[] = {"psum", "all_gather", NULL};
    bool wins = true;
    *out = 2 * s->largest;
    s->setup.in_place = false;
    for (int64_t size = s->largest; size >= LEAST_FOOTPRINT && wins; size /= 2) {
        SPMD_TRY(first_wins(s, ops, size, SPMD_WAY_STREAM, SPMD_WAY_DIRECT, &wins));
        *out = wins ? size : *out;
    }
    return SPMD_OK;
}

/* The last row is for all larger teams, and no machine is made for 64. */
spmd_status coll_find_limits(const coll_setup *setup, int k, int64_t largest, coll_race_fn *tell, void *user,
                             spmd_coll_limits *out)
{
    search s = {.setup = *setup, .largest = largest, .tell = tell, .user = user};
    int members = spmd__coll_limits[k].members;
    char axes[32];
    snprintf(axes, sizeof axes, "data=%d", members < MOST_MEMBERS ? members : MOST_MEMBERS);
    *out = (spmd_coll_limits){.members = members};
    SPMD_TRY(spmd_mesh_create(axes, "host", &s.setup.mesh));
    s.setup.axes = s.setup.all = "data";
    spmd_status status = coll_find_groups(s.setup.mesh, "data", &s.setup.groups);
    if (status == SPMD_OK)
        status = find_mail(&s, &out->mail);
    if (status == SPMD_OK)
        status = find_stream(&s, &out->stream);
    spmd_mesh_destroy(s.setup.mesh);
    return status;
}
