/* Groups: the shards along the axes cut into parts, each of which does the collective by itself (JAX's
 * axis_index_groups), written "0,1;2,3".
 *
 * attr.table lists the members of all groups one after the other; the first of a group stands there as ~index, which is
 * negative. So order and cuts are hashed with the rest of the call, and shards that name other groups are found out. */
#include "collectives/coll.h"
#include <stdlib.h>

static int member(int8_t entry)
{
    return entry < 0 ? ~entry : entry;
}

/* One index; *at moves to the separator behind it. */
static spmd_status parse_index(const char *op, const char *text, const char **at, int n, int *out)
{
    char *end;
    long index = strtol(*at, &end, 10);
    while (*end == ' ')
        end++;
    SPMD_CHECK(end != *at && (*end == ',' || *end == ';' || *end == 0), SPMD_EINVAL,
               "%s: groups \"%s\": expected an axis index at \"%s\", as in \"0,1;2,3\"", op, text, *at);
    SPMD_CHECK(index >= 0 && index < n, SPMD_EINVAL, "%s: groups \"%s\" name index %ld; expected 0 to %d", op, text,
               index, n - 1);
    *out = (int)index;
    *at = end;
    return SPMD_OK;
}

/* Sizes of the groups, and the table; every index must come once. */
static spmd_status parse_table(const char *op, const char *text, int n, int8_t *table, int *sizes, int *ngroups)
{
    bool named[SPMD_MAX_DEVICES] = {false}, first = true;
    int count = 0;
    for (const char *at = text;; at++) {
        int index = 0;
        SPMD_TRY(parse_index(op, text, &at, n, &index));
        SPMD_CHECK(!named[index], SPMD_EINVAL, "%s: groups \"%s\" name index %d twice; every index stands once", op,
                   text, index);
        named[index] = true;
        table[count++] = (int8_t)(first ? ~index : index);
        *ngroups += first;
        sizes[*ngroups - 1]++;
        first = *at == ';';
        if (!*at)
            break;
    }
    for (int index = 0; index < n; index++)
        SPMD_CHECK(named[index], SPMD_EINVAL, "%s: groups \"%s\" leave out index %d; every index 0 to %d stands once",
                   op, text, index, n - 1);
    return SPMD_OK;
}

static spmd_status parse(const char *op, const char *text, int n, bool equal, spmd_attr *attr)
{
    int sizes[SPMD_MAX_DEVICES] = {0}, ngroups = 0;
    SPMD_TRY(parse_table(op, text, n, attr->table, sizes, &ngroups));
    for (int g = 1; equal && g < ngroups; g++)
        SPMD_CHECK(sizes[g] == sizes[0], SPMD_EINVAL,
                   "%s: groups \"%s\": group 0 has %d members, group %d has %d; they must have one size here", op, text,
                   sizes[0], g, sizes[g]);
    attr->i[SPMD_COLL_GROUPS] = ngroups;
    return SPMD_OK;
}

spmd_status spmd__groups_parse(const char *op, const char *text, int n, bool equal, spmd_attr *attr)
{
    return text ? parse(op, text, n, equal, attr) : SPMD_OK;
}

void spmd__groups_narrow(const spmd_attr *attr, spmd_coll *coll)
{
    const int8_t *table = attr->table;
    spmd_post posts[SPMD_MAX_DEVICES];
    int first = 0, mine = 0, n = coll->all->n;
    for (; member(table[mine]) != coll->all->me; mine++)
        ;
    for (first = mine; table[first] >= 0; first--)
        ;
    coll->n = 0;
    coll->me = mine - first;
    coll->device = coll->narrowed;
    for (int k = first; k < n && (k == first || table[k] >= 0); k++) {
        coll->narrowed[coll->n] = coll->all->device[member(table[k])];
        posts[coll->n++] = coll->posts[member(table[k])];
    }
    for (int k = 0; k < coll->n; k++)
        coll->posts[k] = posts[k];
}
