/* The report: what is said goes to people and to the page at once, so that neither can tell more than the other. */
#include "cli/report/page.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char style[] =
    ":root{color-scheme:light dark;--back:#fff;--text:#1d232b;--soft:#5b6673;--line:#d5dbe1;--card:#f5f7f9}\n"
    "@media (prefers-color-scheme:dark){:root{--back:#14181d;--text:#e3e8ed;--soft:#97a3b0;--line:#333c46;"
    "--card:#1d232a}img.plot{filter:invert(.92) hue-rotate(180deg)}}\n"
    "body{background:var(--back);color:var(--text);font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;"
    "padding:0 1rem}\n"
    "h1{font-size:1.7rem}h2{font-size:1.2rem;margin-top:2.2rem;border-bottom:1px solid var(--line)}\n"
    "pre{background:var(--card);padding:.8rem;overflow-x:auto;font-size:.82rem;line-height:1.3}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;margin:.8rem 0}\n"
    "th,td{padding:.2rem .8rem .2rem 0;border-bottom:1px solid var(--line);text-align:left;white-space:nowrap}\n"
    "td.n{text-align:right;font-variant-numeric:tabular-nums}\n"
    "figure{margin:1rem 0}img{max-width:100%;height:auto}figcaption{color:var(--soft);font-size:.9rem}\n";

void page_escape(FILE *file, const char *text)
{
    for (; *text; text++)
        if (*text == '&')
            fputs("&amp;", file);
        else if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '>')
            fputs("&gt;", file);
        else if (*text == '"')
            fputs("&quot;", file);
        else
            fputc(*text, file);
}

/* Every folder of the path, as mkdir -p. */
static bool make_folders(const char *path)
{
    char part[512];
    snprintf(part, sizeof part, "%s", path);
    for (char *p = part + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char kept = *p;
        *p = 0;
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return false;
        if (!kept)
            return true;
        *p = kept;
    }
}

bool page_open(page *p, const char *folder, const char *title, FILE *people)
{
    *p = (page){.people = people};
    if (!*folder || (size_t)snprintf(p->folder, sizeof p->folder, "%s", folder) >= sizeof p->folder) {
        fprintf(stderr, "spmd: --out '%s': needs the name of a folder, of at most %zu letters\n", folder,
                sizeof p->folder - 1);
        return false;
    }
    snprintf(p->path, sizeof p->path, "%s/report.html", folder);
    p->html = make_folders(folder) ? fopen(p->path, "w") : NULL;
    if (!p->html) {
        fprintf(stderr, "spmd: cannot write the report '%s': %s. Choose another folder with --out\n", p->path,
                strerror(errno));
        return false;
    }
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
          p->html);
    page_escape(p->html, title);
    fprintf(p->html, "</title>\n<style>\n%s</style></head>\n<body>\n<h1>", style);
    page_escape(p->html, title);
    fputs("</h1>\n", p->html);
    fprintf(people, "%s\n", title);
    return true;
}

bool page_close(page *p)
{
    if (p->open)
        fputs("</section>\n", p->html);
    fputs("</body></html>\n", p->html);
    bool bad = ferror(p->html) != 0;
    bad = fclose(p->html) != 0 || bad;
    if (bad)
        fprintf(stderr, "spmd: cannot write the report '%s': %s. Free some space or choose another --out\n", p->path,
                strerror(errno));
    if (p->failed)
        fprintf(stderr, "spmd: out of memory for a part of the report\n");
    return !bad && !p->failed;
}

void page_section(page *p, const char *id, const char *title)
{
    fprintf(p->people, "\n== %s\n", title);
    fputs(p->open ? "</section>\n" : "", p->html);
    p->open = true;
    fprintf(p->html, "<section id=\"%s\"><h2>", id);
    page_escape(p->html, title);
    fputs("</h2>\n", p->html);
    if (p->nsections < PAGE_MAX_LIST)
        snprintf(p->sections[p->nsections++], PAGE_NAME, "%s", id);
    fflush(p->people);
}

void page_text(page *p, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(p->people, "%s\n", text);
    fputs("<p>", p->html);
    page_escape(p->html, text);
    fputs("</p>\n", p->html);
    fflush(p->people);
}

void page_lines(page *p, const char *text)
{
    fputs(text, p->people);
    fputs("<pre>", p->html);
    page_escape(p->html, text);
    fputs("</pre>\n", p->html);
}

static void add_cells(page *p, const char *text)
{
    while (true) {
        size_t length = strcspn(text, "|");
        if (p->ncells == p->room) {
            int room = p->room ? 2 * p->room : 64;
            char **more = realloc(p->cells, (size_t)room * sizeof *more);
            if (!more) {
                p->failed = true;
                return;
            }
            p->cells = more;
            p->room = room;
        }
        char *cell = strndup(text, length);
        if (!cell) {
            p->failed = true;
            return;
        }
        p->cells[p->ncells++] = cell;
        if (!text[length])
            return;
        text += length + 1;
    }
}

void page_table(page *p, const char *heads)
{
    p->ncells = 0;
    add_cells(p, heads);
    p->columns = p->ncells;
}

void page_row(page *p, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    int before = p->ncells;
    add_cells(p, text);
    while (!p->failed && (p->ncells - before) < p->columns)
        add_cells(p, "");
}

static bool is_number(const char *cell)
{
    return *cell && strspn(cell, "0123456789.,+-e%x ") == strlen(cell);
}

/* Columns on a terminal are counted in letters, not in bytes. */
static int letters(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += (*text & 0xC0) != 0x80;
    return n;
}

void page_table_end(page *p)
{
    int width[PAGE_MAX_COLUMNS] = {0}, rows = p->columns ? p->ncells / p->columns : 0;
    int columns = p->columns < PAGE_MAX_COLUMNS ? p->columns : PAGE_MAX_COLUMNS;
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++)
            if (letters(p->cells[r * p->columns + c]) > width[c])
                width[c] = letters(p->cells[r * p->columns + c]);
    fputs("<div class=\"wide\"><table>\n", p->html);
    for (int r = 0; r < rows; r++) {
        fputs("<tr>", p->html);
        for (int c = 0; c < columns; c++) {
            const char *cell = p->cells[r * p->columns + c];
            bool right = is_number(r ? cell : rows > 1 ? p->cells[p->columns + c] : "");
            int pad = width[c] - letters(cell);
            fprintf(p->people, "  %*s%s%*s", right ? pad : 0, "", cell, right || c + 1 == columns ? 0 : pad, "");
            fputs(r == 0 ? "<th>" : right ? "<td class=\"n\">" : "<td>", p->html);
            page_escape(p->html, cell);
            fputs(r == 0 ? "</th>" : "</td>", p->html);
        }
        fputs("</tr>\n", p->html);
        fputc('\n', p->people);
    }
    fputs("</table></div>\n", p->html);
    for (int k = 0; k < p->ncells; k++)
        free(p->cells[k]);
    free(p->cells);
    p->cells = NULL;
    p->ncells = p->room = p->columns = 0;
    fflush(p->people);
}

FILE *page_stream_begin(page *p, page_stream *s)
{
    *s = (page_stream){0};
    s->file = open_memstream(&s->text, &s->size);
    p->failed = p->failed || !s->file;
    return s->file;
}

void page_stream_end(page *p, page_stream *s)
{
    if (fclose(s->file) == 0)
        page_lines(p, s->text);
    else
        p->failed = true;
    free(s->text);
}

void page_base64(FILE *out, FILE *in)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char b[3];
    for (size_t n; (n = fread(b, 1, 3, in)) > 0;) {
        unsigned v = (unsigned)b[0] << 16 | (n > 1 ? (unsigned)b[1] << 8 : 0) | (n > 2 ? b[2] : 0);
        for (size_t k = 0; k < 4; k++)
            fputc(k <= n ? digits[v >> (18 - 6 * k) & 63] : '=', out);
    }
}

void page_picture(page *p, const char *name, const char *caption, bool photograph)
{
    static const char *const kinds[][2] = {{"svg", "image/svg+xml"}, {"png", "image/png"}};
    bool shown = false;
    for (int k = 0; k < 2; k++) {
        char path[640];
        snprintf(path, sizeof path, "%s/%s.%s", p->folder, name, kinds[k][0]);
        FILE *file = fopen(path, "rb");
        if (!file)
            continue;
        if (!shown) {
            fprintf(p->html, "<figure><img class=\"%s\" alt=\"", photograph ? "photograph" : "plot");
            page_escape(p->html, caption);
            fprintf(p->html, "\" src=\"data:%s;base64,", kinds[k][1]);
            page_base64(p->html, file);
            fputs("\"><figcaption>", p->html);
            page_escape(p->html, caption);
            fputs("</figcaption></figure>\n", p->html);
            shown = true;
        }
        fclose(file);
        if (p->npictures < PAGE_MAX_LIST)
            snprintf(p->pictures[p->npictures++], PAGE_NAME, "%.*s.%s", PAGE_NAME - 5, name, kinds[k][0]);
        fprintf(p->people, "picture: %s\n", path);
    }
}
