/* Specs as text, and resolved on a mesh as layouts. */
#include "spmd/op.h"
#include <stdio.h>
#include <string.h>

spmd_spec spmd_spec_make(int entries, const char *const *axes)
{
    spmd_spec spec = {.entries = entries};
    if (entries < 0 || entries > SPMD_MAX_RANK)
        return (spmd_spec){.entries = -1};
    for (int d = 0; d < entries; d++) {
        if (axes[d] && strlen(axes[d]) >= SPMD_MAX_ENTRY)
            return (spmd_spec){.entries = -1};
        if (axes[d])
            strcpy(spec.axes[d], axes[d]);
    }
    return spec;
}

/* One entry of the text form; returns what follows it, NULL if malformed. */
static const char *parse_entry(const char *p, char *entry)
{
    bool list = *p == '(';
    const char *start = list ? p + 1 : p, *end = start + strcspn(start, list ? ")" : ",");
    size_t n = (size_t)(end - start);
    if (n == 0 || n >= SPMD_MAX_ENTRY || strcspn(start, "( ") < n || (list && *end != ')'))
        return NULL;
    if (n == 1 && *start == '-')
        n = 0;
    memcpy(entry, start, n);
    entry[n] = 0;
    return list ? end + 1 : end;
}

spmd_status spmd_spec_parse(const char *text, spmd_spec *out)
{
    SPMD_CHECK(text && out, SPMD_EINVAL, "spmd_spec_parse: text and out must not be NULL");
    spmd_spec spec = {0};
    for (const char *p = text; *p;) {
        SPMD_CHECK(spec.entries < SPMD_MAX_RANK, SPMD_ESPEC, "spec '%s' has more than %d entries", text, SPMD_MAX_RANK);
        const char *next = parse_entry(p, spec.axes[spec.entries]);
        SPMD_CHECK(next && (!*next || *next == ','), SPMD_ESPEC,
                   "spec '%s': expected \"-\", an axis or \"(x,y)\" at '%s', as in \"data,-\"", text, p);
        SPMD_CHECK(!(*next == ',' && !next[1]), SPMD_ESPEC,
                   "spec '%s' ends with a comma: write \"-\" for a whole dimension", text);
        spec.entries++;
        p = *next ? next + 1 : next;
    }
    *out = spec;
    return SPMD_OK;
}

int spmd_spec_format(const spmd_spec *spec, char *text, size_t size)
{
    char all[SPMD_MAX_RANK * (SPMD_MAX_ENTRY + 4) + 8] = "P(";
    if (spec->entries < 0)
        return snprintf(text, size, "P(malformed)");
    for (int d = 0; d < spec->entries; d++) {
        const char *entry = spec->axes[d];
        bool several = strchr(entry, ',') != NULL;
        strcat(all, d ? "," : "");
        strcat(all, several ? "(" : "");
        strcat(all, *entry ? entry : "-");
        strcat(all, several ? ")" : "");
    }
    return snprintf(text, size, "%s)", all);
}

spmd_status spmd__layout(const spmd_spec *spec, const spmd_mesh *mesh, int rank, spmd_layout *out)
{
    char text[256];
    *out = (spmd_layout){0};
    SPMD_CHECK(spec->entries >= 0, SPMD_ESPEC, "malformed spec: at most %d entries, each shorter than %d letters",
               SPMD_MAX_RANK, SPMD_MAX_ENTRY);
    spmd_spec_format(spec, text, sizeof text);
    SPMD_CHECK(spec->entries <= rank, SPMD_ESPEC, "spec %s has %d entries, more than the rank %d%s", text,
               spec->entries, rank, rank ? "" : ": use SPMD_REPLICATED for a scalar");
    unsigned seen = 0;
    for (int d = 0; d < spec->entries; d++) {
        spmd_axes axes;
        SPMD_TRY(spmd__axes_parse(mesh, spec->axes[d], &axes));
        SPMD_CHECK(!(seen & axes.mask), SPMD_ESPEC, "spec %s names axis '%s' in more than one dimension", text,
                   spmd__mask_text(mesh, seen & axes.mask, (char[128]){0}));
        seen |= axes.mask;
        out->n[d] = axes.n;
        memcpy(out->axis[d], axes.id, sizeof axes.id);
    }
    return SPMD_OK;
}

unsigned spmd__layout_mask(const spmd_layout *layout)
{
    unsigned mask = 0;
    for (int d = 0; d < SPMD_MAX_RANK; d++)
        for (int k = 0; k < layout->n[d]; k++)
            mask |= 1u << layout->axis[d][k];
    return mask;
}

int spmd__layout_cuts(const spmd_mesh *mesh, const spmd_layout *layout, int d)
{
    int cuts = 1;
    for (int k = 0; k < layout->n[d]; k++)
        cuts *= spmd_mesh_axis_size(mesh, layout->axis[d][k]);
    return cuts;
}

int spmd__layout_index(const spmd_mesh *mesh, const spmd_layout *layout, int device, int d)
{
    int index = 0;
    for (int k = 0; k < layout->n[d]; k++)
        index = index * spmd_mesh_axis_size(mesh, layout->axis[d][k]) +
                spmd_mesh_coord(mesh, device, layout->axis[d][k]);
    return index;
}

spmd_status spmd_spec_check(const spmd_spec *spec, const spmd_mesh *mesh, int rank, const int64_t *shape)
{
    SPMD_CHECK(spec && mesh, SPMD_EINVAL, "spmd_spec_check: spec and mesh must not be NULL");
    SPMD_CHECK(rank >= 0 && rank <= SPMD_MAX_RANK, SPMD_ESHAPE, "rank %d: expected 0 to %d", rank, SPMD_MAX_RANK);
    spmd_layout layout;
    SPMD_TRY(spmd__layout(spec, mesh, rank, &layout));
    char bad[512] = "", text[256];
    size_t used = 0;
    for (int d = 0; d < rank; d++) {
        SPMD_CHECK(shape[d] >= 0, SPMD_ESHAPE, "dimension %d has size %lld: sizes must not be negative", d,
                   (long long)shape[d]);
        int cuts = spmd__layout_cuts(mesh, &layout, d);
        if (shape[d] % cuts && used < sizeof bad)
            used += (size_t)snprintf(
                bad + used, sizeof bad - used,
                "%sdimension %d of size %lld is cut over '%s' of size %d, which does not divide it", used ? "; " : "",
                d, (long long)shape[d], spec->axes[d], cuts);
    }
    spmd_spec_format(spec, text, sizeof text);
    SPMD_CHECK(!used, SPMD_ESHAPE, "spec %s: %s; pad to a multiple", text, bad);
    return SPMD_OK;
}

/* The axis that stands at `text`, and the length of what stands there. */
static int axis_at(const spmd_mesh *mesh, const char *text, size_t *length)
{
    for (int a = 0; a < spmd_mesh_axes(mesh); a++) {
        const char *name = spmd_mesh_axis_name(mesh, a);
        size_t n = 0;
        while (name[n] && name[n] == text[n])
            n++;
        *length = n;
        if (!name[n] && (!text[n] || text[n] == ','))
            return a;
    }
    *length = strcspn(text, ",");
    return -1;
}

spmd_status spmd__axes_parse(const spmd_mesh *mesh, const char *text, spmd_axes *out)
{
    *out = (spmd_axes){0};
    SPMD_CHECK(text, SPMD_EINVAL, "mesh axes: NULL; use \"\" for the empty set");
    for (const char *p = *text ? text : NULL; p;) {
        size_t n;
        int axis = axis_at(mesh, p, &n);
        SPMD_CHECK(axis >= 0, SPMD_EAXIS, "no mesh axis '%.*s': the mesh has '%s'", (int)n, p,
                   spmd__mask_text(mesh, ~0u, (char[128]){0}));
        SPMD_CHECK(!(out->mask >> axis & 1), SPMD_ESPEC, "mesh axis '%.*s' twice in '%s'", (int)n, p, text);
        out->mask |= (uint8_t)(1u << axis);
        out->id[out->n++] = (uint8_t)axis;
        p = p[n] == ',' ? p + n + 1 : NULL;
    }
    return SPMD_OK;
}

int spmd__axes_size(const spmd_mesh *mesh, const spmd_axes *axes)
{
    return spmd__mask_size(mesh, axes->mask);
}

int spmd__axes_index(const spmd_ctx *ctx, const spmd_axes *axes)
{
    const spmd_mesh *mesh = spmd_ctx_mesh(ctx);
    int index = 0;
    for (int k = 0; k < axes->n; k++)
        index = index * spmd_mesh_axis_size(mesh, axes->id[k]) +
                spmd_mesh_coord(mesh, spmd_ctx_device(ctx), axes->id[k]);
    return index;
}

void spmd__mask_axes(unsigned mask, spmd_axes *out)
{
    *out = (spmd_axes){.mask = (uint8_t)mask};
    for (int axis = 0; axis < SPMD_MAX_AXES; axis++)
        if (mask >> axis & 1)
            out->id[out->n++] = (uint8_t)axis;
}

const char *spmd__mask_text(const spmd_mesh *mesh, unsigned mask, char text[128])
{
    text[0] = 0;
    for (int a = 0; a < spmd_mesh_axes(mesh); a++)
        if (mask >> a & 1) {
            strcat(text, *text ? "," : "");
            strcat(text, spmd_mesh_axis_name(mesh, a));
        }
    return text;
}
