/* Running the program `spmd` from a test: its exit code, what it wrote, its JSON. */
#ifndef TESTS_RUN_PROGRAM_H
#define TESTS_RUN_PROGRAM_H

#include "spmd/testing.h"
#include <cjson/cJSON.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/spmd-cli-XXXXXX"; /* one a process, made by the fixture */

static inline void make_folder(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static inline void remove_folder(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static inline bool program_is_there(const char *name)
{
    char command[128];
    snprintf(command, sizeof command, "command -v %s >/dev/null", name);
    return system(command) == 0;
}

static inline char *read_file(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    ck_assert_msg(file != NULL, "no file %s", path);
    char *text = calloc(1, 1 << 20);
    size_t length = fread(text, 1, (1 << 20) - 1, file);
    text[length] = '\0';
    fclose(file);
    return text;
}

typedef struct ended {
    int code;
    char *out, *err;
} ended;

/* Runs the program through the shell, `%s` in `arguments` being the test's folder. */
static inline ended run(const char *arguments)
{
    char filled[512], command[1024];
    const char *program = getenv("SPMD_CLI");
    snprintf(filled, sizeof filled, arguments, folder, folder);
    snprintf(command, sizeof command, "%s %s >%s/out 2>%s/err", program ? program : "../../bin/spmd", filled, folder,
             folder);
    int status = system(command);
    ck_assert_msg(WIFEXITED(status), "'%s' ended by a signal", command);
    return (ended){WEXITSTATUS(status), read_file("out"), read_file("err")};
}

static inline void end_free(ended *e)
{
    free(e->out);
    free(e->err);
}

/* Every line of `text` is one JSON object; returns the last. */
static inline cJSON *last_object(char *text, int *lines)
{
    cJSON *last = NULL;
    *lines = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), ++*lines) {
        cJSON_Delete(last);
        last = cJSON_Parse(line);
        ck_assert_msg(cJSON_IsObject(last), "not a JSON object: %s", line);
    }
    return last;
}

/* Not `valuedouble` of what may be missing or null, as NaN is written: that is 0. */
static inline double number_of(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItem(object, key);
    ck_assert_msg(cJSON_IsNumber(item), "no number '%s'", key);
    return item->valuedouble;
}

static inline void expect_keys(const cJSON *object, const char *const *keys)
{
    for (int k = 0; keys[k]; k++)
        ck_assert_msg(cJSON_HasObjectItem(object, keys[k]), "the object has no '%s'", keys[k]);
}

/* "report" is the page's file, of which `name` is the path in the test's folder. */
static inline void expect_report(const cJSON *object, const char *name)
{
    char path[128];
    const char *got = cJSON_GetStringValue(cJSON_GetObjectItem(object, "report"));
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ck_assert_str_eq(got ? got : "no report", path);
}

#endif
