/* Private: pictures. Plots are drawn by gnuplot, images are written by libpng; without one of them its pictures are
 * left out, and the page says so. */
#ifndef CLI_REPORT_PLOT_H
#define CLI_REPORT_PLOT_H

#include "cli/report/page.h"

typedef struct plot {
    FILE *script; /* commands of gnuplot: data blocks, settings, the plot */
    char *text;
    size_t size;
    const char *name;
    int width, height;
} plot;

/* plot_begin - a picture folder/name.svg and .png of width x height; write gnuplot's commands into plot->script.
 * false: out of memory, noted in the page. */
bool plot_begin(page *p, plot *picture, const char *name, int width, int height);
/* plot_end - draws it and puts it into the page, or says there why not. */
void plot_end(page *p, plot *picture, const char *caption);
/* plot_draw - draws it as png, and as svg if `svg`; Ends the plot, shows nothing. */
typedef enum plot_drawn { PLOT_DRAWN, PLOT_NO_GNUPLOT, PLOT_FAILED } plot_drawn;
plot_drawn plot_draw(page *p, plot *picture, bool svg);

void plot_remove_old(const page *p, const char *name); /* the files of a picture that an earlier run left */
void plot_path(FILE *file, const page *p, const char *name, const char *kind); /* folder/name.kind in quotes */

/* Grey images of rows x columns pixels on one sheet, `across` in a row, each enlarged `zoom` times with a margin of
 * `gap` pixels around it. */
typedef struct sheet {
    uint8_t *rgb; /* [height, width, 3] */
    int width, height, cell_width, cell_height, across, zoom, gap;
} sheet;
bool sheet_make(sheet *s, int images, int across, int rows, int columns, int zoom, int gap); /* false: no memory */
/* Image `k`, 0..255 a pixel; its margin gets the colour 0xRRGGBB. */
void sheet_put(sheet *s, int k, const uint8_t *pixels, int rows, int columns, unsigned colour);
void sheet_free(sheet *s);
/* sheet_show - the sheet as folder/name.png and .svg with a text under every image (colours 0xRRGGBB; NULL: black),
 * put into the page. Without gnuplot the png has no texts, without libpng there is no svg. */
void sheet_show(page *p, const sheet *s, const char *name, int images, const char *const *texts,
                const unsigned *colours, const char *caption);

#endif
