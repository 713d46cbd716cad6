/* The program from outside: exit codes, what goes to stdout and what to stderr, the JSON, bad usage, logs that cannot
 * be written, Ctrl-C. */
#include "tests/cli/run_program.h"
#include <signal.h>
#include <sys/stat.h>

#define SMALL "train mlp --dataset synthetic --steps 30 --batch 64 --width 16 "

START_TEST(usage)
{
    static const struct {
        const char *arguments;
        int code;
        const char *out, *err;
    } rows[] = {
        {"--help", 0, "spmd train mlp|shared-mlp", ""},
        {"train --help", 0, "--optimizer NAME", ""},
        {"--version", 0, "spmdkit 0.", ""},
        {"", 2, "", "usage:"},
        {"trian", 2, "", "no command 'trian'; the nearest is train"},
        {"lesson", 2, "", "which lesson? training or multi-device"},
        {"lesson cooking", 2, "", "there is no lesson cooking"},
        {"lesson multi-device --devices 1 --out %s", 1, "", "has 1 device, needs 2 or more"},
        {"lesson training --quick --full", 2, "", "give one"},
        {"lesson training --out /dev/null/x", 1, "",
         "cannot write the report '/dev/null/x/report.html': Not a directory"},
        {"train mlp --stpes 3", 2, "", "no option '--stpes'; the nearest is --steps"},
        {"train mlp --bach=64", 2, "", "no option '--bach'; the nearest is --batch"},
        {"train mlp --steps", 2, "", "--steps needs a value"},
        {"train mlp --steps ten", 2, "", "--steps 'ten': needs a whole number from 1"},
        {"train mlp --devices 65", 2, "", "--devices '65': needs a whole number from 1 to 64"},
        {"train mlp --lr nan", 2, "", "--lr 'nan': needs a number"},
        {"train mlp --eval=yes", 2, "", "--eval takes no value"},
        {"train mlp --devices 2 --mesh data=2", 2, "", "give one"},
        {"train mlp --mesh data=two", 2, "", "data=two"},
        {"train mlp --mesh rows=2", 2, "", "no axis 'data'"},
        {"train mlp --backend cuda", 2, "", "backend 'cuda' is not in this build"},
        {"train mlp --mode manual", 2, "", "no mode 'manual'; use --mode explicit or --mode auto"},
        {"train mlp --dtype i32", 2, "", "f32 or bf16"},
        {"train mlp --optimizer adamx", 2, "", "no optimizer 'adamx'"},
        {"train mlp --schedule cosin", 2, "", "no schedule 'cosin'"},
        {"train mlp --repeats 3", 2, "", "--repeats is for shared-mlp"},
        {"train mlp --dataset cifar", 2, "", "fashion-mnist, mnist"},
        {"train cnn", 2, "", "no model 'cnn'"},
        {"train", 2, "", "which model? mlp or shared-mlp"},
        {"sweep mlp --batches 256,x", 2, "", "expected at most 64 sizes"},
        {"train mlp --batch 511 --devices 2", 2, "",
         "batch 511 cannot be cut evenly over 2 devices along 'data': use 510 or 512"},
        {"train mlp --dataset synthetic --batch 65536", 2, "", "more than the"},
        {"train mlp --dtype f31", 2, "", "f31"},
        {"train mlp --keep 2", 2, "", "give --checkpoint DIR"},
        {"train mlp --every 2", 2, "", "give --checkpoint DIR"},
        {"sweep", 2, "", "which model? mlp or shared-mlp"},
        {"sweep mlp --dataset mnist", 2, "", "sweep computes on generated data"},
        {"compare cnn", 2, "", "no model 'cnn'"},
        {"compare mlp --repeats 3", 2, "", "--repeats is for shared-mlp"},
        {"compare mlp --dataset mnist", 2, "", "compare computes on generated data"},
        {"lesson training --repeats 3", 2, "", "--repeats is for shared-mlp"},
        {"lesson multi-device --steps 3", 2, "", "--steps and --all are for the lesson training"},
        {"lesson multi-device --dataset mnist", 2, "", "lesson multi-device computes on generated data"},
        {"predictions --checkpoint x --lr 1", 2, "", "are for training a model: without --checkpoint x"},
        {"eval --help", 0, "options of eval:", ""},
        {SMALL "--log %s/none/log.jsonl", 1, "", "Make its folder first: mkdir -p"},
        {SMALL "--log /dev/full", 1, "", "cannot write the log '/dev/full': No space left"},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        ended e = run(rows[k].arguments);
        ck_assert_msg(e.code == rows[k].code, "'%s': exit code %d, wanted %d: %s", rows[k].arguments, e.code,
                      rows[k].code, e.err);
        ck_assert_msg(strstr(e.out, rows[k].out) != NULL, "'%s': no '%s' in: %s", rows[k].arguments, rows[k].out,
                      e.out);
        ck_assert_msg(strstr(e.err, rows[k].err) != NULL, "'%s': no '%s' in: %s", rows[k].arguments, rows[k].err,
                      e.err);
        end_free(&e);
    }
}
END_TEST

/* Every command refuses what it would only overlook: options of other commands, and names of nothing. */
START_TEST(nothing_is_overlooked)
{
    static const struct {
        const char *command, *unused; /* the options that it does not use */
    } rows[] = {
        {"train mlp", "batches= out= quick full all open"},
        {"compare mlp", "mode= eval log= checkpoint= every= keep= resume batches= out= quick full all open"},
        {"sweep mlp", "batch= steps= eval log= checkpoint= every= keep= resume quick full all open"},
        {"lesson training", "eval log= checkpoint= every= keep= resume batches="},
        {"eval",
         "steps= lr= schedule= optimizer= width= repeats= eval log= every= keep= resume batches= out= quick full "
         "all open"},
        {"predictions", "repeats= eval log= every= keep= resume batches= quick full all"},
        {"confusion", "repeats= eval log= every= keep= resume batches= quick full all"},
        {"report x",
         "devices= mesh= backend= dtype= seed= dataset= mode= batch= steps= lr= schedule= optimizer= width= "
         "repeats= eval log= checkpoint= every= keep= resume batches= quick full all"},
        {"watch x", "devices= mesh= backend= dtype= seed= dataset= mode= batch= steps= lr= schedule= optimizer= width= "
                    "repeats= eval log= checkpoint= every= keep= resume batches= out= quick full all open"},
        {"info", "devices= mesh= backend= dtype= seed= dataset= mode= batch= steps= lr= schedule= optimizer= width= "
                 "repeats= eval log= checkpoint= every= keep= resume batches= out= quick full all open"},
    };
    static const char *const named[] = {"mode", "backend", "dtype", "dataset", "optimizer", "schedule", NULL};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        char list[512], arguments[128], want[128];
        snprintf(list, sizeof list, " %s ", rows[k].unused);
        for (int n = 0; named[n]; n++) { /* a name that nothing has is refused in either case */
            snprintf(arguments, sizeof arguments, "%s --%s atuo", rows[k].command, named[n]);
            ended e = run(arguments);
            snprintf(want, sizeof want, " %s= ", named[n]);
            snprintf(want, sizeof want, strstr(list, want) ? "does not use --%s" : "atuo", named[n]);
            ck_assert_msg(e.code == 2 && strstr(e.err, want), "'%s': exit code %d: %s", arguments, e.code, e.err);
            end_free(&e);
        }
        for (const char *name = strtok(list, " "); name; name = strtok(NULL, " ")) {
            snprintf(arguments, sizeof arguments, "%s --%s%s", rows[k].command, name, strchr(name, '=') ? "1" : "");
            snprintf(want, sizeof want, "%.*s does not use --%.*s. ", (int)strcspn(rows[k].command, " "),
                     rows[k].command, (int)strcspn(name, "="), name);
            ended e = run(arguments);
            ck_assert_msg(e.code == 2 && strstr(e.err, want), "'%s': exit code %d: %s", arguments, e.code, e.err);
            end_free(&e);
        }
    }
}
END_TEST

START_TEST(info)
{
    int lines;
    ended e = run("info"), j = run("info --json");
    ck_assert_int_eq(e.code, 0);
    ck_assert_ptr_nonnull(strstr(e.out, "matmul"));
    ck_assert_int_eq(j.code, 0);
    cJSON *object = last_object(j.out, &lines);
    ck_assert_int_eq(lines, 1);
    expect_keys(object, (const char *const[]){"version", "backends", "devices", "cores", "libraries", NULL});
    ck_assert_int_ge(cJSON_GetObjectItem(object, "cores")->valueint, 1);
    cJSON_Delete(object);
    end_free(&e);
    end_free(&j);
}
END_TEST

START_TEST(train_for_scripts)
{
    static const char *const keys[] = {"steps",   "loss", "accuracy", "grad_norm", "examples_per_s", "test_accuracy",
                                       "devices", "mesh", "dtype",    "dataset",   "test_examples",  NULL};
    int lines, logged;
    char fingerprint[32];
    ended e = run(SMALL "--json --eval --log %s/log.jsonl");
    ck_assert_msg(e.code == 0, "exit code %d: %s", e.code, e.err);
    ck_assert_ptr_nonnull(strstr(e.err, "placement"));
    cJSON *done = last_object(e.out, &lines);
    ck_assert_int_eq(lines, 4); /* steps 1, 25, 30 and done */
    ck_assert_str_eq(cJSON_GetObjectItem(done, "event")->valuestring, "done");
    expect_keys(done, keys);
    ck_assert_int_eq(cJSON_GetObjectItem(done, "steps")->valueint, 30);
    ck_assert_int_eq(cJSON_GetObjectItem(done, "test_examples")->valueint, 10000);
    snprintf(fingerprint, sizeof fingerprint, "%s", cJSON_GetObjectItem(done, "params_fingerprint")->valuestring);
    ck_assert_int_eq(strlen(fingerprint), 16);
    cJSON_Delete(done);
    char *log = read_file("log.jsonl");
    done = last_object(log, &logged);
    ck_assert_int_eq(logged, 31); /* every step and done */
    ck_assert_str_eq(cJSON_GetObjectItem(done, "params_fingerprint")->valuestring, fingerprint);
    cJSON_Delete(done);
    free(log);
    end_free(&e);
    e = run(SMALL "--json");
    ck_assert_ptr_nonnull(strstr(e.out, fingerprint)); /* the same bits again */
    ck_assert_ptr_null(strstr(e.out, "test_accuracy"));
    end_free(&e);
}
END_TEST

START_TEST(train_for_people)
{
    static const char *const said[] = {"shared-mlp, width 16, 2 repeats, bf16, on data=2 (2 devices)",
                                       "  step ",
                                       "\n      25 ",
                                       "done after 30 of 30 steps",
                                       "placement",
                                       "nu/w_block",
                                       "P(data)",
                                       "written: "};
    ended e = run("train shared-mlp --dataset synthetic --steps 30 --batch 64 --width 16 --repeats 2 --dtype bf16 "
                  "--mesh data=2 --log %s/log.jsonl");
    ck_assert_msg(e.code == 0, "exit code %d: %s", e.code, e.err);
    for (size_t k = 0; k < sizeof said / sizeof *said; k++)
        ck_assert_msg(strstr(e.out, said[k]) != NULL, "no '%s' in: %s", said[k], e.out);
    ck_assert_ptr_null(strchr(e.out, '\r')); /* no bar where it is not a terminal */
    end_free(&e);
}
END_TEST

START_TEST(nan_is_a_failure)
{
    int lines;
    ended e = run(SMALL "--json --optimizer sgd --lr 1e6 --schedule constant --steps 200");
    ck_assert_msg(e.code == 1, "exit code %d: %s", e.code, e.err);
    ck_assert_ptr_nonnull(strstr(e.err, "SPMD_ENONFINITE"));
    ck_assert_ptr_nonnull(strstr(e.err, "learning rate"));
    cJSON *object = last_object(e.out, &lines);
    ck_assert_str_eq(cJSON_GetObjectItem(object, "event")->valuestring, "error");
    cJSON_Delete(object);
    end_free(&e);
}
END_TEST

/* A child that trains for ever, its output in the folder's files. */
static pid_t start_endless(void)
{
    const char *program = getenv("SPMD_CLI");
    char out[128], err[128], log[128];
    snprintf(out, sizeof out, "%s/out", folder);
    snprintf(err, sizeof err, "%s/err", folder);
    snprintf(log, sizeof log, "%s/log.jsonl", folder);
    pid_t child = fork();
    if (child == 0) {
        if (freopen(out, "w", stdout) && freopen(err, "w", stderr))
            execl(program ? program : "../../bin/spmd", "spmd", "train", "mlp", "--dataset", "synthetic", "--steps",
                  "1000000000", "--batch", "64", "--width", "16", "--json", "--eval", "--log", log, NULL);
        _exit(99);
    }
    return child;
}

static bool has_bytes(const char *name)
{
    char path[128];
    struct stat found;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return stat(path, &found) == 0 && found.st_size > 0;
}

START_TEST(interrupt_ends_after_the_step)
{
    int lines, status = 0;
    pid_t child = start_endless();
    ck_assert_int_gt(child, 0);
    while (!has_bytes("log.jsonl") && waitpid(child, &status, WNOHANG) == 0)
        usleep(10000);
    ck_assert_int_eq(kill(child, SIGINT), 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ended e = {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file("out"), read_file("err")};
    ck_assert_msg(e.code == 130, "exit code %d: %s", e.code, e.err);
    cJSON *done = last_object(e.out, &lines);
    ck_assert_str_eq(cJSON_GetObjectItem(done, "event")->valuestring, "done");
    ck_assert(cJSON_IsTrue(cJSON_GetObjectItem(done, "interrupted")));
    ck_assert_int_ge(cJSON_GetObjectItem(done, "steps")->valueint, 1);
    expect_keys(done, (const char *const[]){"test_accuracy", "params_fingerprint", NULL});
    ck_assert_ptr_nonnull(strstr(e.err, "ended after"));
    cJSON_Delete(done);
    end_free(&e);
}
END_TEST

SPMD_TEST_MAIN("cli", tcase_add_checked_fixture(tc, make_folder, remove_folder); tcase_add_test(tc, usage);
               tcase_add_test(tc, nothing_is_overlooked); tcase_add_test(tc, info);
               tcase_add_test(tc, train_for_scripts); tcase_add_test(tc, train_for_people);
               tcase_add_test(tc, nan_is_a_failure);

               tcase_add_test(tc, interrupt_ends_after_the_step);)
