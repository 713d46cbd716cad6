/* Printing arrays: a line of facts, and the drawing of which device holds which block. */
#include "spmd/ctx.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void spmd_array_print(const spmd_array *array, FILE *file)
{
    char spec[256], shape[128], block[128];
    int distinct = spmd__mask_size(array->mesh, spmd__layout_mask(&array->layout));
    spmd_spec_format(&array->spec, spec, sizeof spec);
    fprintf(file, "%s%s %s: %d distinct block%s %s, %d cop%s of each\n", spmd_dtype_name(array->dtype),
            spmd__sizes_text(array->rank, array->shape, shape), spec, distinct, distinct == 1 ? "" : "s",
            spmd__sizes_text(array->rank, array->block_shape, block), array->mesh->ndevices / distinct,
            array->mesh->ndevices / distinct == 1 ? "y" : "ies");
}

/* "0,2": the devices that hold block (row, column) of the drawing. */
static void cell_text(const spmd_array *array, int row, int column, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (int d = 0; d < array->mesh->ndevices && used < size; d++) {
        int r = array->rank > 0 ? spmd__layout_index(array->mesh, &array->layout, d, 0) : 0;
        int c = array->rank > 1 ? spmd__layout_index(array->mesh, &array->layout, d, 1) : 0;
        if (r == row && c == column)
            used += (size_t)snprintf(text + used, size - used, "%s%d", used ? "," : "", d);
    }
}

static void rule(FILE *file, int columns, int width, const char *left, const char *middle, const char *right)
{
    fputs(left, file);
    for (int c = 0; c < columns; c++) {
        for (int k = 0; k < width + 2; k++)
            fputs("─", file);
        fputs(c + 1 < columns ? middle : right, file);
    }
    fputc('\n', file);
}

spmd_status spmd_array_print_sharding(const spmd_array *array, FILE *file)
{
    static const int colours[] = {41, 44, 42, 45, 43, 46}; /* ANSI backgrounds */
    SPMD_CHECK(array && file, SPMD_EINVAL, "spmd_array_print_sharding: array and file must not be NULL");
    enum { CELL = 256 };
    int rows = array->rank > 0 ? spmd__layout_cuts(array->mesh, &array->layout, 0) : 1;
    int columns = array->rank > 1 ? spmd__layout_cuts(array->mesh, &array->layout, 1) : 1;
    bool colour = isatty(fileno(file)) == 1;
    char text[CELL];
    int width = 5;
    for (int cell = 0; cell < rows * columns; cell++) {
        cell_text(array, cell / columns, cell % columns, text, sizeof text);
        width = (int)strlen(text) > width ? (int)strlen(text) : width;
    }
    rule(file, columns, width, "┌", "┬", "┐");
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < columns; c++) {
            cell_text(array, r, c, text, sizeof text);
            int pad = width - (int)strlen(text);
            fputs("│", file);
            if (colour)
                fprintf(file, "\033[30;%dm", colours[(r * columns + c) % 6]);
            fprintf(file, " %*s%s%*s ", pad / 2, "", text, pad - pad / 2, "");
            if (colour)
                fputs("\033[0m", file);
        }
        fputs("│\n", file);
        if (r + 1 < rows)
            rule(file, columns, width, "├", "┼", "┤");
    }
    rule(file, columns, width, "└", "┴", "┘");
    return SPMD_OK;
}
