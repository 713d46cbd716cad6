/* What differs between two calls of one collective, in words, for the report that shards made different calls. */
#include "collectives/coll.h"
#include <stdio.h>
#include <string.h>

/* Names of attr.i. */
static const struct {
    const char *op, *option[SPMD_COLL_GROUPS];
} named[] = {
    {"all_gather", {[SPMD_COLL_DIM] = "dim", [SPMD_COLL_TILED] = "tiled", [SPMD_COLL_TO] = "to"}},
    {"psum_scatter", {[SPMD_COLL_DIM] = "dim", [SPMD_COLL_TILED] = "tiled"}},
    {"all_to_all", {"split", "concat", "tiled"}},
    {"pbroadcast", {"source"}},
};

static const char *option_name(const char *op, int i)
{
    for (size_t k = 0; k < sizeof named / sizeof *named; k++)
        if (!strcmp(named[k].op, op) && named[k].option[i])
            return named[k].option[i];
    return "an option:";
}

typedef char words[256];

static const char *axes_words(const spmd_mesh *mesh, const spmd_told *t, words out)
{
    out[0] = 0;
    for (int k = 0; k < t->attr.axes.n; k++) {
        strcat(out, k ? "," : "");
        strcat(out, spmd_mesh_axis_name(mesh, t->attr.axes.id[k]));
    }
    return out;
}

/* "0,1;2,3", as the user wrote them */
static const char *groups_words(const spmd_mesh *mesh, const spmd_told *t, words out)
{
    int n = t->attr.i[SPMD_COLL_GROUPS] ? spmd__axes_size(mesh, &t->attr.axes) : 0, used = 0;
    snprintf(out, sizeof(words), "none");
    for (int k = 0; k < n; k++) {
        int entry = t->attr.table[k];
        used += snprintf(out + used, sizeof(words) - (size_t)used, "%s%d",
                         !k          ? ""
                         : entry < 0 ? ";"
                                     : ",",
                         entry < 0 ? ~entry : entry);
    }
    return out;
}

static const char *source_words(int source, words out)
{
    snprintf(out, sizeof(words), source < 0 ? "nobody" : "%d", source);
    return out;
}

void spmd__coll_difference(const spmd_mesh *mesh, const char *op, const spmd_told *a, const spmd_told *b,
                           char text[SPMD_DIFFERENCE])
{
    words one, two;
    int i = 0, k = 0;
    for (; i < SPMD_COLL_GROUPS && a->attr.i[i] == b->attr.i[i]; i++)
        ;
    for (; k < SPMD_MAX_DEVICES && a->attr.table[k] == b->attr.table[k]; k++)
        ;
#define SAY(...) snprintf(text, SPMD_DIFFERENCE, __VA_ARGS__)
    if (a->nin != b->nin)
        SAY("lists of %d and %d tensors", a->nin, b->nin);
    else if (a->rank != b->rank || memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) != 0)
        SAY("shapes %s and %s", spmd__sizes_text(a->rank, a->shape, one), spmd__sizes_text(b->rank, b->shape, two));
    else if (memcmp(&a->attr.axes, &b->attr.axes, sizeof a->attr.axes) != 0)
        SAY("axes '%s' and '%s'", axes_words(mesh, a, one), axes_words(mesh, b, two));
    else if (i < SPMD_COLL_GROUPS)
        SAY("%s %lld and %lld", option_name(op, i), (long long)a->attr.i[i], (long long)b->attr.i[i]);
    else if (a->attr.i[i] || b->attr.i[i])
        SAY("groups %s and %s", groups_words(mesh, a, one), groups_words(mesh, b, two));
    else if (k < SPMD_MAX_DEVICES)
        SAY("shard %d receives from %s and from %s", k, source_words(a->attr.table[k], one),
            source_words(b->attr.table[k], two));
    else
        SAY("other tensors of the call, or its divisor, differ");
#undef SAY
}
