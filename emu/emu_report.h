/* Private: findings with a place in the source. */
#ifndef EMU_REPORT_H
#define EMU_REPORT_H

#include <stdbool.h>
#include <stddef.h>

/* Writes "file:line" of the code that returns to `site`, or its address in the program. */
void emu_site_text(const void *site, char *text, size_t size);

/* True the first time that this kind is found at this site by this op; else the finding is only counted. */
bool emu_report_new(const char *kind, const void *site, const char *op);

#endif
