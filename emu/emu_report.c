#include "emu/emu_report.h"
#include "emu/emu_private.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KINDS = 32, TEXT = 1200, PRINTED = 3, EXIT_FINDINGS = 66 };

typedef struct kind_findings {
    const char *kind; /* interned */
    int count;
    unsigned order; /* of its newest text */
    char text[TEXT];
} kind_findings;

typedef struct seen_site {
    const char *kind, *op;
    const void *site;
} seen_site;

static struct {
    pthread_mutex_t mutex;
    kind_findings kind[KINDS];
    int kinds;
    unsigned order;
    seen_site *seen;
    size_t nseen;
    bool quiet, watching_exit;
} findings = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Findings that nobody cleared fail the program, so that a test of a kernel needs no line for it. */
static void at_exit(void)
{
    const char *code = getenv("EMU_EXIT_CODE");
    int count = emu_reports(NULL);
    if (!count)
        return;
    if (!findings.quiet)
        fprintf(stderr, "[emu] %d findings in the order of EMU_POLICY=%s EMU_SEED=%u; the newest: %s\n", count,
                emu_policy_name(), emu_settings.seed, emu_report_text(NULL));
    fflush(NULL);
    if (!code || atoi(code))
        _exit(code ? atoi(code) : EXIT_FINDINGS);
}

static kind_findings *find_kind(const char *kind)
{
    for (int i = 0; i < findings.kinds; i++)
        if (strcmp(findings.kind[i].kind, kind) == 0)
            return &findings.kind[i];
    if (findings.kinds == KINDS)
        return &findings.kind[KINDS - 1];
    if (!findings.watching_exit) {
        findings.watching_exit = true;
        findings.quiet |= getenv("EMU_QUIET") && atoi(getenv("EMU_QUIET"));
        atexit(at_exit);
    }
    kind_findings *found = &findings.kind[findings.kinds++];
    found->kind = emu_intern(kind);
    return found;
}

void emu_report(const char *kind, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    pthread_mutex_lock(&findings.mutex);
    kind_findings *found = find_kind(kind);
    found->order = ++findings.order;
    int used = snprintf(found->text, TEXT, "%s: ", found->kind);
    vsnprintf(found->text + used, (size_t)(TEXT - used), format, list);
    if (++found->count <= PRINTED && !findings.quiet)
        fprintf(stderr, "[emu] %s\n", found->text);
    pthread_mutex_unlock(&findings.mutex);
    va_end(list);
}

bool emu_report_new(const char *kind, const void *site, const char *op)
{
    pthread_mutex_lock(&findings.mutex);
    kind_findings *found = find_kind(kind);
    bool is_new = true;
    for (size_t i = 0; i < findings.nseen && is_new; i++)
        is_new = findings.seen[i].kind != found->kind || findings.seen[i].site != site || findings.seen[i].op != op;
    if (is_new) {
        findings.seen = emu_resize(findings.seen, (findings.nseen + 1) * sizeof *findings.seen);
        findings.seen[findings.nseen++] = (seen_site){found->kind, op, site};
    } else {
        found->count++;
    }
    pthread_mutex_unlock(&findings.mutex);
    return is_new;
}

int emu_reports(const char *kind)
{
    int count = 0;
    pthread_mutex_lock(&findings.mutex);
    for (int i = 0; i < findings.kinds; i++)
        if (!kind || strcmp(findings.kind[i].kind, kind) == 0)
            count += findings.kind[i].count;
    pthread_mutex_unlock(&findings.mutex);
    return count;
}

const char *emu_report_text(const char *kind)
{
    static _Thread_local char text[TEXT];
    unsigned newest = 0;
    text[0] = '\0';
    pthread_mutex_lock(&findings.mutex);
    for (int i = 0; i < findings.kinds; i++) {
        const kind_findings *found = &findings.kind[i];
        if (found->count && found->order > newest && (!kind || strcmp(found->kind, kind) == 0)) {
            newest = found->order;
            memcpy(text, found->text, TEXT);
        }
    }
    pthread_mutex_unlock(&findings.mutex);
    return text;
}

void emu_clear_reports(void)
{
    pthread_mutex_lock(&findings.mutex);
    for (int i = 0; i < findings.kinds; i++)
        findings.kind[i].count = 0;
    findings.nseen = 0;
    pthread_mutex_unlock(&findings.mutex);
}

void emu_quiet(bool quiet)
{
    findings.quiet = quiet;
}
