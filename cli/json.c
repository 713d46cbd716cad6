/* One JSON object on one line, into memory first, so that a line is written whole or not at all. */
#include "cli/cli.h"
#include <math.h>
#include <stdlib.h>

bool json_begin(json *line)
{
    *line = (json){.first = true};
    line->file = open_memstream(&line->text, &line->size);
    if (!line->file)
        return false;
    fputc('{', line->file);
    return true;
}

static void quote(FILE *file, const char *text)
{
    fputc('"', file);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if (*c == '"' || *c == '\\')
            fprintf(file, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(file, "\\u%04x", (unsigned)*c);
        else
            fputc(*c, file);
    fputc('"', file);
}

static FILE *key_then(json *line, const char *key)
{
    if (!line->first)
        fputs(", ", line->file);
    line->first = false;
    if (key) {
        quote(line->file, key);
        fputs(": ", line->file);
    }
    return line->file;
}

void json_text(json *line, const char *key, const char *value)
{
    quote(key_then(line, key), value);
}

void json_integer(json *line, const char *key, int64_t value)
{
    fprintf(key_then(line, key), "%lld", (long long)value);
}

void json_number(json *line, const char *key, double value)
{
    FILE *file = key_then(line, key);
    if (isfinite(value))
        fprintf(file, "%.9g", value);
    else
        fputs("null", file);
}

void json_bool(json *line, const char *key, bool value)
{
    fputs(value ? "true" : "false", key_then(line, key));
}

void json_open(json *line, const char *key, char bracket)
{
    fputc(bracket, key_then(line, key));
    line->first = true;
}

void json_close(json *line, char bracket)
{
    fputc(bracket, line->file);
    line->first = false;
}

char *json_end(json *line)
{
    fputs("}\n", line->file);
    bool failed = ferror(line->file) != 0;
    failed = fclose(line->file) != 0 || failed;
    if (!failed)
        return line->text;
    free(line->text);
    return NULL;
}

bool json_print(json *line)
{
    char *text = json_end(line);
    bool written = text && fputs(text, stdout) >= 0 && fflush(stdout) == 0;
    free(text);
    return written;
}
