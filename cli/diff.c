/* Two programs side by side: the longest common subsequence of their lines, differences in two columns. */
#include "cli/cli.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 2, WIDTH = 58 };

typedef struct lines {
    char **text;
    int n;
} lines;

/* Cuts `text` in place; "%12 " numbers are dropped, since two programs number their values differently. */
static lines split(char *text)
{
    lines l = {0};
    for (char *p = text; *p; p++)
        l.n += *p == '\n';
    l.text = malloc((size_t)(l.n + 1) * sizeof *l.text);
    char *to = text, *line = text;
    int n = 0;
    for (char *from = text; l.text && *from; from++) {
        if (*from == '%' && isdigit((unsigned char)from[1])) {
            while (isdigit((unsigned char)from[1]))
                from++;
            if (from[1] == ' ')
                from++;
            continue;
        }
        bool end = *from == '\n'; /* before it is overwritten: `to` may be here */
        *to++ = end ? '\0' : *from;
        if (end) {
            l.text[n++] = line;
            line = to;
        }
    }
    return l;
}

/* table[i][j]: length of the longest common subsequence of a[i..] and b[j..] */
static int *make_table(const lines *a, const lines *b)
{
    size_t width = (size_t)b->n + 1;
    int *table = calloc((size_t)(a->n + 1) * width, sizeof *table);
    for (int i = a->n - 1; table && i >= 0; i--)
        for (int j = b->n - 1; j >= 0; j--) {
            const int *below = table + (size_t)(i + 1) * width;
            int *here = table + (size_t)i * width;
            int skip = below[j] > here[j + 1] ? below[j] : here[j + 1];
            here[j] = strcmp(a->text[i], b->text[j]) == 0 ? below[j + 1] + 1 : skip;
        }
    return table;
}

static void print_equal(const lines *a, int from, int to, FILE *file)
{
    for (int i = from; i < to; i++) {
        if (to - from > 2 * CONTEXT + 1 && i == from + CONTEXT) {
            fprintf(file, "    ... %d equal lines\n", to - from - 2 * CONTEXT);
            i = to - CONTEXT - 1;
            continue;
        }
        fprintf(file, "    %.*s\n", 2 * WIDTH, a->text[i]);
    }
}

void cli_print_diff(const char *left_name, char *left, const char *right_name, char *right, FILE *file)
{
    lines a = split(left), b = split(right);
    int *table = a.text && b.text ? make_table(&a, &b) : NULL;
    size_t width = (size_t)b.n + 1;
    fprintf(file, "    %-*s | %s\n", WIDTH, left_name, right_name);
    for (int i = 0, j = 0; table && (i < a.n || j < b.n);) {
        int start = i;
        for (; i < a.n && j < b.n && strcmp(a.text[i], b.text[j]) == 0; i++)
            j++;
        print_equal(&a, start, i, file);
        if (i == a.n && j == b.n)
            break;
        bool take_left = j == b.n || (i < a.n && table[(size_t)(i + 1) * width + (size_t)j] >=
                                                     table[(size_t)i * width + (size_t)j + 1]);
        if (take_left)
            fprintf(file, "  < %.*s\n", WIDTH, a.text[i++]);
        else
            fprintf(file, "  > %*s   %.*s\n", WIDTH, "", WIDTH, b.text[j++]);
    }
    free(table);
    free(a.text);
    free(b.text);
}
