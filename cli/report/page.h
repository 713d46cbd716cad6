/* Private: a report that is written as it happens: text for people, and one HTML page that needs nothing else. */
#ifndef CLI_REPORT_PAGE_H
#define CLI_REPORT_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { PAGE_MAX_LIST = 64, PAGE_NAME = 64, PAGE_MAX_COLUMNS = 16 };

/* The page holds every picture inside itself (data: URIs) and one style for light and dark; the pictures also lie
 * beside it as files. Functions that write never fail by themselves: page_close tells whether all of it was written. */
typedef struct page {
    FILE *html, *people;
    char folder[512], path[600]; /* path: of the page itself */
    char sections[PAGE_MAX_LIST][PAGE_NAME], pictures[PAGE_MAX_LIST][PAGE_NAME];
    int nsections, npictures;
    bool open; /* a section is */
    /* The table that is being collected. */
    char **cells;
    int ncells, room, columns;
    bool failed; /* out of memory */
} page;

/* page_open - makes `folder` if need be and begins folder/report.html. `people` gets the same as text.
 * false: it has said on stderr what is wrong. */
bool page_open(page *p, const char *folder, const char *title, FILE *people);
/* page_close - ends and closes the page; false: it was not written whole (said on stderr). */
bool page_close(page *p);

/* A new section; `id` is its name for scripts, [a-z0-9-]. */
void page_section(page *p, const char *id, const char *title);
/* A paragraph. */
void page_text(page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Lines as they are, in a fixed-width font. */
void page_lines(page *p, const char *text);
/* A table: the heads and every row are cells separated by '|'. */
void page_table(page *p, const char *heads);
void page_row(page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void page_table_end(page *p);
/* page_picture - shows folder/name.svg, or .png where there is no svg; lists both. A plot's colours turn dark with the
 * page, photographs' do not. */
void page_picture(page *p, const char *name, const char *caption, bool photograph);
void page_escape(FILE *file, const char *text); /* for HTML and SVG */
void page_base64(FILE *out, FILE *in);          /* the rest of `in` */
/* Where page_lines' text comes from: a stream into memory; page_stream_end shows and frees it. */
typedef struct page_stream {
    FILE *file;
    char *text;
    size_t size;
} page_stream;
FILE *page_stream_begin(page *p, page_stream *s); /* NULL: out of memory, noted in the page */
void page_stream_end(page *p, page_stream *s);

#endif
