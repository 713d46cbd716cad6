/* Meshes as the tests see them: from the text, without the library. Axis names are single letters here. */
#ifndef TESTS_COLLECTIVES_MODEL_H
#define TESTS_COLLECTIVES_MODEL_H

#include "spmd/testing.h"
#include <stdio.h>

/* Meshes, and axes of theirs in some order. */
typedef struct mesh_case {
    const char *mesh, *axes;
} mesh_case;
static const mesh_case mesh_cases[] = {
    {"x=1", "x"},
    {"x=2", "x"},
    {"x=3", "x"},
    {"x=4", "x"},
    {"x=8", "x"},
    {"x=1,y=1", "x"},
    {"x=1,y=1", "x,y"},
    {"x=1,y=2", "x"},
    {"x=1,y=2", "y"},
    {"x=1,y=2", "y,x"},
    {"x=2,y=1,z=2", "x"},
    {"x=2,y=1,z=2", "y"},
    {"x=2,y=1,z=2", "z,x"},
    {"x=2,y=1,z=2", "x,y,z"},
    {"x=2,y=2", "x"},
    {"x=2,y=2", "y"},
    {"x=2,y=2", "x,y"},
    {"x=2,y=2", "y,x"},
    {"x=2,y=2,z=2", "y"},
    {"x=2,y=2,z=2", "z,x"},
    {"x=2,y=2,z=2", "z,y,x"},
    {"x=4,y=2", "x"},
    {"x=4,y=2", "y,x"},
    {"x=3,y=2", "y,x"},
};
enum { MESH_CASES = sizeof mesh_cases / sizeof mesh_cases[0] };

typedef struct model {
    int naxes, devices, size[SPMD_MAX_AXES];
    char name[SPMD_MAX_AXES][SPMD_MAX_AXIS_NAME];
} model;

static inline model model_make(const char *mesh)
{
    model m = {.devices = 1};
    for (int used; sscanf(mesh, "%15[a-z]=%d%n", m.name[m.naxes], &m.size[m.naxes], &used) == 2; mesh += used) {
        m.devices *= m.size[m.naxes++];
        used += mesh[used] == ',';
    }
    return m;
}

static inline int model_coord(const model *m, int device, int axis)
{
    for (int a = m->naxes - 1; a > axis; a--)
        device /= m->size[a];
    return device % m->size[axis];
}

/* The group of `device` along `axes`: members by place, row-major in the order given. Returns their number. */
static inline int model_group(const model *m, const char *axes, int device, int *members, int *me)
{
    bool named[SPMD_MAX_AXES] = {false};
    int n = 1;
    for (const char *at = axes; *at; at++)
        for (int a = 0; a < m->naxes; a++)
            if (*at == m->name[a][0]) {
                named[a] = true;
                n *= m->size[a];
            }
    for (int other = 0; other < m->devices; other++) {
        bool same = true;
        int place = 0;
        for (int a = 0; a < m->naxes; a++)
            same = same && (named[a] || model_coord(m, other, a) == model_coord(m, device, a));
        for (const char *at = axes; *at; at++)
            for (int a = 0; a < m->naxes; a++)
                if (*at == m->name[a][0])
                    place = place * m->size[a] + model_coord(m, other, a);
        if (same)
            members[place] = other;
        if (other == device)
            *me = place;
    }
    return n;
}

/* Keeps those of the members that are in one group with `me`; groups "0,1;2,3", NULL: all. Returns their number. */
static inline int model_narrow(const char *groups, int *members, int *me, int n)
{
    int group[SPMD_MAX_DEVICES], size = 0, index, used;
    for (const char *at = groups; at && sscanf(at, "%d %n", &index, &used) == 1; at += used + (at[used] != 0)) {
        group[size++] = index;
        if (at[used] == ',')
            continue;
        for (int k = 0; k < size; k++)
            if (group[k] == *me) {
                int all[SPMD_MAX_DEVICES];
                memcpy(all, members, (size_t)n * sizeof *all);
                for (int j = 0; j < size; j++)
                    members[j] = all[group[j]];
                *me = k;
                return size;
            }
        size = 0;
    }
    return n;
}

/* "(x,y),-,-": dimension 0 cut over all axes. */
static inline const char *model_spec(const model *m, char text[64])
{
    strcpy(text, "(");
    for (int a = 0; a < m->naxes; a++)
        strcat(strcat(text, a ? "," : ""), m->name[a]);
    return strcat(text, ")");
}

#endif
