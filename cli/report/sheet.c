/* Images on a sheet: libpng writes the bare sheet, gnuplot puts the texts under the images. */
#include "cli/report/plot.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef SPMD_HAVE_PNG
#include <png.h>
#endif

bool sheet_make(sheet *s, int images, int across, int rows, int columns, int zoom, int gap)
{
    *s = (sheet){.across = across, .zoom = zoom, .gap = gap};
    s->cell_width = columns * zoom + 2 * gap;
    s->cell_height = rows * zoom + 2 * gap;
    s->width = across * s->cell_width;
    s->height = (images + across - 1) / across * s->cell_height;
    size_t bytes = (size_t)s->width * (size_t)s->height * 3;
    s->rgb = malloc(bytes);
    if (s->rgb)
        memset(s->rgb, 255, bytes);
    return s->rgb != NULL;
}

void sheet_free(sheet *s)
{
    free(s->rgb);
    *s = (sheet){0};
}

static void put_pixel(sheet *s, int x, int y, unsigned colour)
{
    uint8_t *pixel = s->rgb + ((size_t)y * (size_t)s->width + (size_t)x) * 3;
    pixel[0] = (uint8_t)(colour >> 16);
    pixel[1] = (uint8_t)(colour >> 8);
    pixel[2] = (uint8_t)colour;
}

void sheet_put(sheet *s, int k, const uint8_t *pixels, int rows, int columns, unsigned colour)
{
    int left = k % s->across * s->cell_width, top = k / s->across * s->cell_height, thin = s->gap / 2;
    for (int y = thin; y < s->cell_height - thin; y++)
        for (int x = thin; x < s->cell_width - thin; x++) {
            int row = (y - s->gap) / s->zoom, column = (x - s->gap) / s->zoom;
            bool inside = y >= s->gap && x >= s->gap && row < rows && column < columns;
            put_pixel(s, left + x, top + y, inside ? pixels[row * columns + column] * 0x010101u : colour);
        }
}

#ifdef SPMD_HAVE_PNG
static bool write_png(const sheet *s, const char *path)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)s->width,
                       .height = (png_uint_32)s->height,
                       .format = PNG_FORMAT_RGB};
    return png_image_write_to_file(&image, path, 0, s->rgb, 0, NULL) != 0;
}
#else
static bool write_png(const sheet *s, const char *path)
{
    (void)s, (void)path;
    return false;
}
#endif

enum { TEXT_HEIGHT = 26 };

/* gnuplot reads raw pixels, which needs no library, from a file beside the picture. */
static bool write_raw(const sheet *s, const char *path)
{
    FILE *file = fopen(path, "wb");
    size_t bytes = (size_t)s->width * (size_t)s->height * 3;
    bool good = file && fwrite(s->rgb, 1, bytes, file) == bytes;
    return file && fclose(file) == 0 && good;
}

/* Every image is moved down by the texts above it: one plot element a row of images would leave seams, so the sheet is
 * spread on a taller one first. */
static bool spread(const sheet *s, int rows, sheet *out)
{
    *out = *s;
    out->height = rows * (s->cell_height + TEXT_HEIGHT);
    size_t line = (size_t)s->width * 3, bytes = line * (size_t)out->height;
    out->rgb = malloc(bytes);
    if (!out->rgb)
        return false;
    memset(out->rgb, 255, bytes);
    for (int r = 0; r < rows; r++)
        memcpy(out->rgb + (size_t)r * (size_t)(s->cell_height + TEXT_HEIGHT) * line,
               s->rgb + (size_t)r * (size_t)s->cell_height * line, (size_t)s->cell_height * line);
    return true;
}

/* Where text k stands, in the middle. */
static void place(const sheet *s, int k, int *x, int *y)
{
    *x = k % s->across * s->cell_width + s->cell_width / 2;
    *y = k / s->across * (s->cell_height + TEXT_HEIGHT) + s->cell_height + TEXT_HEIGHT / 2 - 3;
}

/* The png of the sheet inside an svg, with texts as texts. */
static bool write_svg(const page *p, const sheet *tall, const char *name, int images, const char *const *texts,
                      const unsigned *colours)
{
    char path[640];
    snprintf(path, sizeof path, "%s/%s.png", p->folder, name);
    FILE *png = fopen(path, "rb");
    snprintf(path, sizeof path, "%s/%s.svg", p->folder, name);
    FILE *f = png ? fopen(path, "w") : NULL;
    if (f) {
        fprintf(f,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" "
                "width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"13\" "
                "text-anchor=\"middle\">\n<image width=\"%d\" height=\"%d\" xlink:href=\"data:image/png;base64,",
                tall->width, tall->height, tall->width, tall->height, tall->width, tall->height);
        page_base64(f, png);
        fputs("\"/>\n", f);
        for (int k = 0; k < images; k++) {
            int x, y;
            place(tall, k, &x, &y);
            fprintf(f, "<text x=\"%d\" y=\"%d\" fill=\"#%06x\">", x, y + 5, colours ? colours[k] : 0);
            page_escape(f, texts[k]);
            fputs("</text>\n", f);
        }
        fputs("</svg>\n", f);
    }
    if (png)
        fclose(png);
    return f && fclose(f) == 0;
}

/* The png anew, by gnuplot, which has fonts; it reads raw pixels. */
static plot_drawn write_texts(page *p, const sheet *tall, const char *name, int images, const char *const *texts,
                              const unsigned *colours)
{
    char raw[640];
    plot picture;
    snprintf(raw, sizeof raw, "%s/%s.rgb", p->folder, name);
    if (!write_raw(tall, raw) || !plot_begin(p, &picture, name, tall->width, tall->height))
        return PLOT_FAILED;
    FILE *f = picture.script;
    fprintf(f,
            "set lmargin 0\nset rmargin 0\nset tmargin 0\nset bmargin 0\nunset border\nunset tics\nunset key\n"
            "set xrange [0:%d]\nset yrange [%d:0]\n",
            tall->width, tall->height);
    for (int k = 0; k < images; k++) {
        int x, y;
        place(tall, k, &x, &y);
        fprintf(f, "set label %d \"%s\" at %d,%d center noenhanced font ',10' textcolor rgb '#%06x' front\n", k + 1,
                texts[k], x, y, colours ? colours[k] : 0);
    }
    fputs("plot ", f);
    plot_path(f, p, name, "rgb");
    fprintf(f, " binary array=(%d,%d) format='%%uchar' using 1:2:3 with rgbimage\n", tall->width, tall->height);
    plot_drawn drawn = plot_draw(p, &picture, false);
    unlink(raw);
    return drawn;
}

void sheet_show(page *p, const sheet *s, const char *name, int images, const char *const *texts,
                const unsigned *colours, const char *caption)
{
    char path[640];
    sheet tall;
    if (!spread(s, (images + s->across - 1) / s->across, &tall)) {
        p->failed = true;
        return;
    }
    plot_remove_old(p, name);
    snprintf(path, sizeof path, "%s/%s.png", p->folder, name);
    bool bare = write_png(&tall, path), svg = bare && write_svg(p, &tall, name, images, texts, colours);
    plot_drawn drawn = write_texts(p, &tall, name, images, texts, colours);
    free(tall.rgb);
    if (bare || drawn == PLOT_DRAWN)
        page_picture(p, name, caption, true);
    else
        page_text(p, "LEFT OUT: the picture '%s' (%s): neither libpng nor gnuplot could write it into %s.", name,
                  caption, p->folder);
    if (!svg)
        page_text(p, "LEFT OUT: %s.svg: this build has no libpng, or %s cannot be written.", name, p->folder);
    if (bare && drawn != PLOT_DRAWN)
        page_text(p, "LEFT OUT: the texts in %s.png: gnuplot is missing, or failed.", name);
}
