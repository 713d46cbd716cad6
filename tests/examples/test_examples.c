/* The example programs end well; those that do the same by hand and in automatic mode need the same bytes, and as many
 * collectives as written here. */
#include "spmd/testing.h"
#include <stdio.h>
#include <sys/wait.h>

static const struct {
    const char *program;
    int by_hand, automatic; /* collectives a step; 0: it does not say */
} rows[] = {
    {"00_psum", 0, 0},
    {"01_data_parallel", 0, 0},
    {"02_own_kernel", 0, 0},
    {"04_fsdp", 3, 3},
    {"05_zero1", 3, 2}, /* automatic: one sum of the gradients and the loss, where by hand each is its own */
    {"06_tensor_parallel", 1, 1},
    {"07_data_and_tensor", 2, 2},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* "  by hand    3 collectives, 10604 bytes a step; ..." */
static void read_counts(const char *text, const char *name, int *calls, int *bytes)
{
    const char *line = strstr(text, name);
    ck_assert_msg(line && sscanf(line + strlen(name), "%d collectives, %d bytes a step", calls, bytes) == 2,
                  "no counts for '%s' in: %s", name, text);
}

START_TEST(an_example_ends_well)
{
    char command[64], text[4096] = "";
    snprintf(command, sizeof command, "../../bin/%s 2>&1", rows[_i].program);
    FILE *output = popen(command, "r");
    ck_assert_ptr_nonnull(output);
    size_t length = fread(text, 1, sizeof text - 1, output);
    int status = pclose(output), calls[2], bytes[2];
    text[length] = '\0';
    fputs(text, stdout);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s failed: %s", command, text);
    if (!rows[_i].by_hand)
        return;
    read_counts(text, "by hand  ", &calls[0], &bytes[0]);
    read_counts(text, "automatic  ", &calls[1], &bytes[1]);
    ck_assert_int_eq(calls[0], rows[_i].by_hand);
    ck_assert_int_eq(calls[1], rows[_i].automatic);
    ck_assert_int_eq(bytes[0], bytes[1]);
}
END_TEST

SPMD_TEST_MAIN("examples", tcase_add_loop_test(tc, an_example_ends_well, 0, ROWS);)
