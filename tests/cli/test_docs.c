/* The documents are true: links lead somewhere, functions that are named exist, code compiles, every error's text is
 * there as the library says it, and the manual page knows every command and option. */
#include "tests/cli/run_program.h"
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <sys/stat.h>

static char docs[PATH_MAX]; /* the folder docs, beside tests */

static void find_docs(void)
{
    const char *golden = getenv("SPMD_GOLDEN_DIR");
    ck_assert_msg(golden != NULL, "SPMD_GOLDEN_DIR is not set: run it by ctest");
    snprintf(docs, sizeof docs, "%.3000s/../../docs", golden);
    make_folder();
}

static char *read_path(const char *path)
{
    FILE *file = fopen(path, "r");
    ck_assert_msg(file != NULL, "no file %s", path);
    char *text = calloc(1, 1 << 19);
    ck_assert_uint_lt(fread(text, 1, (1 << 19) - 1, file), (1 << 19) - 1);
    fclose(file);
    return text;
}

typedef void page_check(const char *name, char *text);

/* The pages of docs/`below` and of the folders in it; `below` is "" or ends in a slash. Returns how many. */
static int pages_in(const char *below, page_check *check)
{
    char path[2 * PATH_MAX], name[PATH_MAX];
    int pages = 0;
    snprintf(path, sizeof path, "%s/%s", docs, below);
    DIR *dir = opendir(path);
    ck_assert_msg(dir != NULL, "no folder %s", path);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        struct stat about;
        size_t length = strlen(entry->d_name);
        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%.2000s%s", below, entry->d_name);
        snprintf(path, sizeof path, "%s/%s", docs, name);
        ck_assert_msg(stat(path, &about) == 0, "no file %s", path);
        if (S_ISDIR(about.st_mode)) {
            strcat(name, "/");
            pages += pages_in(name, check);
        } else if (length > 3 && strcmp(entry->d_name + length - 3, ".md") == 0) {
            char *text = read_path(path);
            check(name, text);
            free(text);
            pages++;
        }
    }
    closedir(dir);
    return pages;
}

/* Calls `check` with name ("concepts.md", "lessons/training.md") and text of every page. */
static void each_page(page_check *check)
{
    ck_assert_int_ge(pages_in("", check), 13); /* ten in docs, three in lessons */
}

/* Links count from the folder of their page. */
static void check_links(const char *name, char *text)
{
    const char *slash = strrchr(name, '/');
    int below = slash ? (int)(slash + 1 - name) : 0;
    for (char *p = text; (p = strstr(p, "](")) != NULL;) {
        p += 2;
        size_t length = strcspn(p, ")#\n");
        char path[2 * PATH_MAX];
        snprintf(path, sizeof path, "%s/%.*s%.*s", docs, below, name, (int)length, p);
        if (strncmp(p, "http", 4) != 0 && length > 0)
            ck_assert_msg(access(path, F_OK) == 0, "%s: a link to %.*s, which is not there", name, (int)length, p);
    }
}

START_TEST(links_lead_somewhere)
{
    each_page(check_links);
}
END_TEST

static char *headers; /* the text of all public headers, as the installer lists them, and of CMake's functions */

static void read_headers(void)
{
    char command[4 * PATH_MAX], path[128];
    snprintf(command, sizeof command,
             "cd '%s/..' && cat $(sed -n '/^set(public_headers/,/)/p' cmake/install.cmake | grep -oE '[a-z_/]+\\.h') "
             "cmake/*.cmake emu/*.cmake emu/*.txt emu/*.h spmd/*.cuh >%s/headers 2>/dev/null; test -s %s/headers",
             docs, folder, folder);
    ck_assert_int_eq(system(command), 0);
    snprintf(path, sizeof path, "%s/headers", folder);
    headers = read_path(path);
}

static bool word_in(const char *text, const char *word, size_t length)
{
    for (const char *p = text; (p = strstr(p, "spmd")) != NULL; p++)
        if (strncmp(p, word, length) == 0 && !isalnum((unsigned char)p[length]) && p[length] != '_')
            return true;
    return false;
}

static void check_names(const char *name, char *text)
{
    for (char *p = text; (p = strstr(p, "spmd_")) != NULL; p++) {
        size_t length = 0;
        while (isalnum((unsigned char)p[length]) || p[length] == '_')
            length++;
        bool inside = p > text && (isalnum((unsigned char)p[-1]) || p[-1] == '_');
        bool prefix = p[length - 1] == '_' || p[length] == '*' || p[length] == '-';
        if (!inside && !prefix && !word_in(headers, p, length))
            ck_abort_msg("%s names %.*s, which no public header has", name, (int)length, p);
    }
}

START_TEST(functions_exist)
{
    read_headers();
    each_page(check_names);
    free(headers);
}
END_TEST

/* All ```c blocks of a page, one after the other, are one file. */
static void check_code(const char *name, char *text)
{
    char source[128], command[4 * PATH_MAX];
    const char *compiler = getenv("CC");
    snprintf(source, sizeof source, "%s/page.c", folder);
    FILE *file = fopen(source, "w");
    int blocks = 0;
    for (char *p = text; (p = strstr(p, "```c\n")) != NULL; blocks++) {
        p += 5;
        char *end = strstr(p, "```");
        ck_assert_msg(end != NULL, "%s: a block of code that does not end", name);
        fwrite(p, 1, (size_t)(end - p), file);
        p = end + 3;
    }
    fclose(file);
    snprintf(command, sizeof command,
             "%s -std=c11 -Wall -Wextra -Werror -Wno-unused-function -fsyntax-only -I '%s/..' %s",
             compiler ? compiler : "cc", docs, source);
    ck_assert_msg(blocks == 0 || system(command) == 0, "the code in %s does not compile", name);
}

START_TEST(code_compiles)
{
    each_page(check_code);
}
END_TEST

START_TEST(every_error_is_explained)
{
    char path[2 * PATH_MAX], heading[64];
    snprintf(path, sizeof path, "%s/troubleshooting.md", docs);
    char *page = read_path(path);
    for (int status = SPMD_OK + 1; status < SPMD_STATUS_COUNT; status++) {
        snprintf(heading, sizeof heading, "## %s\n", spmd_status_name((spmd_status)status));
        ck_assert_msg(strstr(page, heading) != NULL, "troubleshooting.md has no %s", heading);
    }
    snprintf(path, sizeof path, "%s/errors.txt", getenv("SPMD_GOLDEN_DIR"));
    char *golden = read_path(path);
    for (char *line = strtok(golden, "\n"); line; line = strtok(NULL, "\n")) {
        const char *text = strstr(line, ": ");
        ck_assert_ptr_nonnull(text);
        ck_assert_msg(strstr(page, text + 2) != NULL, "troubleshooting.md does not have the text: %s", text + 2);
    }
    free(golden);
    free(page);
}
END_TEST

/* Words that begin with "--" in the help, and the commands at its head, are in the manual page. */
START_TEST(the_manual_page_is_complete)
{
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/spmd.1", docs);
    char *page = read_path(path), plain[1 << 16], *out = plain;
    for (char *p = page; *p; p++) /* "\-" is how a page writes "-" */
        if (*p != '\\' || p[1] != '-')
            *out++ = *p;
    *out = 0;
    ended e = run("--help");
    int options = 0, commands = 0;
    for (char *line = strtok(e.out, "\n"); line; line = strtok(NULL, "\n")) {
        char word[64];
        if (sscanf(line, "  --%60[a-z]", word) == 1) {
            memmove(word + 2, word, strlen(word) + 1);
            memcpy(word, "--", 2);
            ck_assert_msg(strstr(plain, word) != NULL, "the manual page does not have %s", word);
            options++;
        } else if (sscanf(line, "%*[ a-z:]spmd %60[a-z]", word) == 1 || sscanf(line, " spmd %60[a-z]", word) == 1) {
            ck_assert_msg(strstr(plain, word) != NULL, "the manual page does not have the command %s", word);
            commands++;
        }
    }
    ck_assert_int_ge(options, 20);
    ck_assert_int_ge(commands, 5);
    free(page);
    end_free(&e);
}
END_TEST

SPMD_TEST_MAIN("docs", tcase_add_checked_fixture(tc, find_docs, remove_folder);
               tcase_add_test(tc, links_lead_somewhere); tcase_add_test(tc, functions_exist);
               tcase_add_test(tc, code_compiles); tcase_add_test(tc, every_error_is_explained);
               tcase_add_test(tc, the_manual_page_is_complete);)
