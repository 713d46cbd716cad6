/* One error of every status code, compared with tests/golden/errors.txt: how the texts read is part of the contract,
 * so a change shows in a diff. After an intended change put the new line, which the test prints, into the file. */
#include "tests/spmd/error_samples.h"

/* Row of a status: a launch of `fn` on a scalar input, or a call. */
static const struct {
    spmd_status (*call)(char *text);
    const char *axes;
    spmd_shard_fn *fn;
    spmd_dtype dtype;
} rows[SPMD_STATUS_COUNT] = {
    [SPMD_EINVAL] = {.call = no_devices},
    [SPMD_ESHAPE] = {.call = uneven_blocks},
    [SPMD_EDTYPE] = {NULL, "data=1", exp_of, SPMD_I32},
    [SPMD_ESPEC] = {.call = open_parenthesis},
    [SPMD_EAXIS] = {NULL, "data=1,model=1", sum_over_nope, SPMD_F32},
    [SPMD_EREPLICATION] = {NULL, "data=1", axis_index, SPMD_F32},
    [SPMD_EGRAD] = {NULL, "data=1", grad_of_pmax, SPMD_F32},
    [SPMD_ESTALE] = {NULL, "data=1", nothing, SPMD_F32},
    [SPMD_ERECORDING] = {.call = read_while_recording},
    [SPMD_EMISMATCH] = {.call = mismatch},
    [SPMD_EABORTED] = {.call = aborted},
    [SPMD_ETIMEOUT] = {.call = times_out},
    [SPMD_EBUSY] = {.call = destroyed_while_running},
    [SPMD_EMESHLOST] = {.call = lost_mesh},
    [SPMD_EFORK] = {.call = used_in_child},
    [SPMD_ENOMEM] = {.call = refused_memory},
    [SPMD_EUNSUPPORTED] = {.call = unknown_backend},
    [SPMD_EIO] = {.call = missing_file},
    [SPMD_EDATA] = {.call = short_file},
    [SPMD_ENONFINITE] = {.call = infinite_input},
    [SPMD_EUSER] = {NULL, "data=2", shard_1_fails, SPMD_F32},
};

static spmd_status provoke(int row, char *text)
{
    if (rows[row].call)
        return rows[row].call(text);
    spmd_value x = spmd_value_zeros(rows[row].dtype, NULL, 0, NULL), out = {0};
    spmd_status status = spmd_test_run(rows[row].axes, rows[row].fn, NULL, 1, &x, 1, &out);
    spmd_values_free((spmd_value[]){x, out}, 2);
    return status;
}

static size_t digits(const char *text)
{
    return strspn(text, "0123456789");
}

/* Takes out what may differ: the path " [file.c:41 < file.c:88]", numbers of lines, processes and bytes, the sign of a
 * NaN, the backend that not every build has. */
static void normalize(const char *text, char *out)
{
    static const char *const before_number[] = {".c:", ".h:", "process ", "child ", "memory: "};
    static const char with_cuda[] = ", \"host-strict\" or \"cuda\"";
    while (*text) {
        if (!strncmp(text, with_cuda, sizeof with_cuda - 1)) {
            text += sizeof with_cuda - 1;
            out = stpcpy(out, " or \"host-strict\"");
        }
        size_t file = text[0] == ' ' && text[1] == '[' ? strcspn(text + 2, ":]") : 0;
        if (file > 2 &&
            (!strncmp(text + file, ".c:", 3) || !strncmp(text + file, ".h:", 3))) { /* text + 2 + file is the colon */
            text += strcspn(text, "]");
            text += *text == ']';
            continue;
        }
        text += !strncmp(text, "-nan", 4);
        size_t known = 0;
        for (size_t k = 0; k < sizeof before_number / sizeof *before_number; k++)
            if (!strncmp(text, before_number[k], strlen(before_number[k])))
                known = strlen(before_number[k]);
        if (known && digits(text + known)) {
            memcpy(out, text, known);
            out[known] = 'N';
            out += known + 1;
            text += known + digits(text + known);
        } else {
            *out++ = *text++;
        }
    }
    *out = '\0';
}

/* Line `number` (from 1) of the golden file, without newline. */
static void expected_line(int number, char *line)
{
    char path[TEXT];
    snprintf(path, sizeof path, "%s/errors.txt",
             getenv("SPMD_GOLDEN_DIR") ? getenv("SPMD_GOLDEN_DIR") : "tests/golden");
    FILE *file = fopen(path, "r");
    ck_assert_msg(file != NULL, "cannot open %s", path);
    line[0] = '\0';
    for (int k = 0; k < number; k++)
        if (!fgets(line, 2 * TEXT, file))
            line[0] = '\0';
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
}

START_TEST(errors_read_as_promised)
{
    char text[TEXT] = "", got[2 * TEXT], want[2 * TEXT];
    if (_i == SPMD_ECUDA) /* only backend cuda has it, and its texts are CUDA's */
        return;
    ck_assert_msg(rows[_i].call || rows[_i].fn, "%s has no sample", spmd_status_name((spmd_status)_i));
    spmd_status status = provoke(_i, text);
    if (!text[0])
        snprintf(text, sizeof text, "%s", spmd_last_error());
    ck_assert_msg(status == (spmd_status)_i, "%s gave %s: %s", spmd_status_name((spmd_status)_i),
                  spmd_status_name(status), text);
    int used = snprintf(got, sizeof got, "%s: ", spmd_status_name(status));
    normalize(text, got + used);
    expected_line(_i, want);
    ck_assert_msg(!strcmp(got, want), "the text changed; errors.txt, line %d:\n-%s\n+%s", _i, want, got);
}
END_TEST

SPMD_TEST_MAIN("errors", tcase_add_loop_test(tc, errors_read_as_promised, 1, SPMD_STATUS_COUNT);)
