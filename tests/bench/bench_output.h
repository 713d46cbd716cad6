/* Bench programs from outside: run one, read numbers from its JSON. */
#ifndef TESTS_BENCH_OUTPUT_H
#define TESTS_BENCH_OUTPUT_H

#include "spmd/testing.h"
#include <cjson/cJSON.h>
#include <sys/wait.h>

enum { TEXT = 1 << 16 };

/* Runs the program `name`; its stdout (stderr where `errors`) into `text`; returns the exit code. */
static inline int run_bench(const char *name, const char *arguments, bool errors, char text[TEXT])
{
    char command[512];
    snprintf(command, sizeof command, "../../bin/%s %s %s", name, arguments,
             errors ? "2>&1 >/dev/null" : "2>/dev/null");
    FILE *pipe = popen(command, "r");
    ck_assert_msg(pipe != NULL, "cannot run '%s'", command);
    text[fread(text, 1, TEXT - 1, pipe)] = '\0';
    int status = pclose(pipe);
    ck_assert_msg(WIFEXITED(status), "'%s' ended by a signal", command);
    return WEXITSTATUS(status);
}

static inline double number(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItem(object, key);
    ck_assert_msg(cJSON_IsNumber(item), "'%s' is not a number", key);
    return item->valuedouble;
}

typedef struct usage_row {
    const char *arguments, *error;
} usage_row;

/* Exit code 2, and the text on stderr. */
static inline void check_usage(const char *name, const usage_row *rows, size_t n)
{
    static char text[TEXT];
    for (size_t k = 0; k < n; k++) {
        int code = run_bench(name, rows[k].arguments, true, text);
        ck_assert_msg(code == 2, "'%s': exit code %d, wanted 2", rows[k].arguments, code);
        ck_assert_msg(strstr(text, rows[k].error) != NULL, "'%s': no '%s' in: %s", rows[k].arguments, rows[k].error,
                      text);
    }
}

#endif
