/* Checkpoints: a resumed run has the bits of one that was never broken; what is kept; what does not fit; what is
 * damaged; a full disk. */
#include "models/safetensors.h"
#include "tests/models/tiny_training.h"
#include <dirent.h>
#include <math.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char folder[PATH_SIZE];

static bool no_links; /* the file system has none */

/* In place of the C library's. */
int link(const char *from, const char *to)
{
    errno = EPERM;
    return no_links ? -1 : linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

static void make(void)
{
    folder_make(folder);
}

static void removed(void)
{
    folder_remove(folder);
}

static uint64_t unbroken(const char *axes, int64_t steps, double *loss)
{
    tiny t;
    tiny_begin(&t, axes);
    tiny_create(&t);
    *loss = tiny_run(&t, steps);
    uint64_t print = tiny_fingerprint(&t);
    tiny_end(&t);
    return print;
}

static void train_and_save(const char *axes, int64_t steps)
{
    tiny t;
    tiny_begin(&t, axes);
    tiny_create(&t);
    tiny_run(&t, steps);
    ck_spmd_ok(spmd_checkpoints_save(t.trainer, folder, 3, NAN));
    tiny_end(&t);
}

START_TEST(a_resumed_run_has_the_same_bits)
{
    static const char *const meshes[] = {"data=1", "data=2", "data=3"};
    double loss;
    uint64_t want = unbroken(meshes[_i], 50, &loss);
    train_and_save(meshes[_i], 23); /* in the middle of an epoch of 8 batches */
    tiny t;
    tiny_resume(&t, meshes[_i], folder);
    ck_assert_int_eq(spmd_trainer_steps(t.trainer), 23);
    ck_assert(tiny_run(&t, 27) == loss);
    ck_assert(tiny_fingerprint(&t) == want);
    tiny_end(&t);
}
END_TEST

START_TEST(on_another_number_of_devices_it_stays_close)
{
    double loss;
    unbroken("data=2", 50, &loss);
    train_and_save("data=2", 23);
    tiny t;
    tiny_resume(&t, "data=4", folder);
    ck_assert_double_eq_tol(tiny_run(&t, 27), loss, 1e-4);
    tiny_end(&t);
}
END_TEST

static int files_in_folder(void)
{
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

START_TEST(the_last_and_the_best_are_kept)
{
    static const double scores[] = {0.1, 0.7, 0.7, 0.2, NAN, 0.3};
    tiny t;
    spmd_checkpoint_info info;
    tiny_begin(&t, "data=1");
    tiny_create(&t);
    for (int k = 0; k < 6; k++) {
        tiny_run(&t, 1);
        ck_spmd_ok(spmd_checkpoints_save(t.trainer, folder, 2, scores[k]));
    }
    ck_assert_int_eq(files_in_folder(), 3);
    ck_spmd_ok(spmd_checkpoints_find(folder, false, &info, NULL, 0));
    ck_assert_int_eq(info.step, 6);
    ck_spmd_ok(spmd_checkpoints_find(folder, true, &info, NULL, 0));
    ck_assert_int_eq(info.step, 2); /* the first of equals */
    ck_assert(info.score == 0.7);
    ck_assert_str_eq(info.model, "mlp");
    ck_assert_int_eq(info.config.width, 16);
    ck_spmd_fails(spmd_checkpoints_save(t.trainer, folder, 0, NAN), SPMD_EINVAL, "keep is 0");
    tiny_end(&t);
}
END_TEST

static struct stat stat_in_folder(const char *name)
{
    char path[PATH_SIZE];
    struct stat info;
    ck_assert_int_eq(stat(path_in(path, folder, name), &info), 0);
    return info;
}

/* The best one is written once, and only its header is read to know its score; where files cannot have two names, and
 * after a kill in between, it is there as well. */
START_TEST(the_best_is_a_second_name)
{
    tiny t;
    spmd_checkpoint_info info;
    char path[PATH_SIZE];
    size_t size;
    tiny_begin(&t, "data=1");
    tiny_create(&t);
    tiny_run(&t, 1);
    no_links = _i == 1;
    file_write(path_in(path, folder, "best.safetensors.tmp"), "left over", 9);
    ck_spmd_ok(spmd_checkpoints_save(t.trainer, folder, 1, 0.5));
    ck_assert_int_eq(files_in_folder(), 2);
    struct stat step = stat_in_folder("step-000000001.safetensors"), best = stat_in_folder("best.safetensors");
    ck_assert_int_eq(step.st_ino == best.st_ino, !no_links);
    tiny_run(&t, 1);
    ck_spmd_ok(spmd_checkpoints_save(t.trainer, folder, 1, 0.25)); /* removes the best one's first name */
    ck_spmd_ok(spmd_checkpoints_find(folder, true, &info, NULL, 0));
    ck_assert(info.step == 1 && info.score == 0.5);
    uint8_t *bytes = file_read(path_in(path, folder, "best.safetensors"), &size);
    bytes[size - 1] ^= 1;
    file_write(path, bytes, size);
    free(bytes);
    tiny_run(&t, 1);
    ck_spmd_ok(spmd_checkpoints_save(t.trainer, folder, 1, 0.25));
    ck_spmd_fails(spmd_checkpoints_find(folder, true, &info, NULL, 0), SPMD_EDATA,
                  "best.safetensors: has the checksum");
    ck_spmd_ok(spmd_checkpoints_save(t.trainer, folder, 1, 0.75));
    ck_spmd_ok(spmd_checkpoints_find(folder, true, &info, NULL, 0));
    ck_assert_int_eq(info.step, 3);
    tiny_end(&t);
}
END_TEST

static void other_batch(tiny *t)
{
    t->options.batch = 24;
}
static void other_seed(tiny *t)
{
    t->options.seed = 7;
}
static void other_optimizer(tiny *t)
{
    t->options.optim = spmd_optim_sgd(0.9, false);
}
static void other_width(tiny *t)
{
    t->options.config.width = 32;
}
static void other_dtype(tiny *t)
{
    t->options.config.compute = SPMD_BF16;
}
static void other_model(tiny *t)
{
    ck_spmd_ok(spmd_model_find("shared-mlp", &t->options.model));
}

static const struct {
    void (*change)(tiny *);
    spmd_status status;
    const char *text;
    bool params_too; /* also refused for the parameters alone */
} misfits[] = {
    {other_batch, SPMD_EINVAL, "batches of 12, this training has 24", false},
    {other_seed, SPMD_EINVAL, "seed 1, this training has 7", false},
    {other_optimizer, SPMD_EINVAL, "use the same optimizer", false},
    {other_dtype, SPMD_EINVAL, "computes in f32, this training in bf16", false},
    {other_width, SPMD_ESHAPE, "tensor \"w1\" is 16, expected 32", true},
    {other_model, SPMD_EINVAL, "is of model mlp, this training is of shared-mlp", true},
};

START_TEST(what_does_not_fit_is_named)
{
    tiny t;
    spmd_checkpoint_info info;
    train_and_save("data=1", 2);
    ck_spmd_ok(spmd_checkpoints_find(folder, false, &info, NULL, 0));
    tiny_begin(&t, "data=1");
    misfits[_i].change(&t);
    tiny_create(&t);
    ck_spmd_fails(spmd_checkpoints_load(t.trainer, &info, false), misfits[_i].status, misfits[_i].text);
    ck_assert_int_eq(spmd_checkpoints_load(t.trainer, &info, true),
                     misfits[_i].params_too ? misfits[_i].status : SPMD_OK);
    tiny_end(&t);
}
END_TEST

/* A byte of the newest file changed, or the file cut: in the header and in the data. */
static void damage(const char *path, int how)
{
    size_t size;
    uint8_t *bytes = file_read(path, &size);
    if (how == 0)
        bytes[size - 5] ^= 1;
    else if (how == 1)
        bytes[20] ^= 1;
    else if (how == 5) /* a digit of the step in the metadata */
        bytes[(size_t)((uint8_t *)memmem(bytes, size, "\"step\":\"", 8) - bytes) + 8] ^= 1;
    file_write(path, bytes, how == 2 ? size / 2 : how == 3 ? 5 : how == 4 ? 0 : size);
    free(bytes);
}

START_TEST(a_damaged_one_is_passed_over)
{
    static const char *const why[] = {"has the checksum", "", "cut short?", "has 5 bytes", "has 0 bytes",
                                      "has the checksum"};
    tiny t;
    spmd_checkpoint_info info;
    char notice[1200];
    tiny_begin(&t, "data=1");
    tiny_create(&t);
    tiny_run(&t, 5);
    ck_spmd_ok(spmd_checkpoints_save(t.trainer, folder, 3, NAN));
    uint64_t want = tiny_fingerprint(&t);
    tiny_run(&t, 5);
    ck_spmd_ok(spmd_checkpoints_save(t.trainer, folder, 3, NAN));
    tiny_end(&t);
    ck_spmd_ok(spmd_checkpoints_find(folder, false, &info, notice, sizeof notice));
    ck_assert_int_eq(info.step, 10);
    ck_assert_str_eq(notice, "");
    damage(info.path, _i);
    ck_spmd_ok(spmd_checkpoints_find(folder, false, &info, notice, sizeof notice));
    ck_assert_int_eq(info.step, 5);
    ck_assert_msg(strstr(notice, "step-000000010") && strstr(notice, why[_i]), "%s", notice);
    tiny_resume(&t, "data=1", folder);
    ck_assert(tiny_fingerprint(&t) == want);
    tiny_end(&t);
    damage(info.path, _i);
    ck_spmd_fails(spmd_checkpoints_find(folder, false, &info, NULL, 0), SPMD_EDATA, "none of the 2 checkpoints");
}
END_TEST

START_TEST(a_full_disk_leaves_what_was_there)
{
    tiny t;
    spmd_checkpoint_info info;
    const struct rlimit small = {1000, 1000};
    signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit fails instead */
    tiny_begin(&t, "data=1");
    tiny_create(&t);
    tiny_run(&t, 3);
    ck_spmd_ok(spmd_checkpoints_save(t.trainer, folder, 1, 0.5));
    tiny_run(&t, 3);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    ck_spmd_fails(spmd_checkpoints_save(t.trainer, folder, 1, 0.9), SPMD_EIO, "what was there before is untouched");
    ck_assert_int_eq(files_in_folder(), 2); /* the older one and the best; no temporary file */
    ck_spmd_ok(spmd_checkpoints_find(folder, false, &info, NULL, 0));
    ck_assert_int_eq(info.step, 3);
    tiny_end(&t);
}
END_TEST

START_TEST(nothing_there)
{
    char path[PATH_SIZE], foreign[PATH_SIZE];
    spmd_checkpoint_info info;
    ck_spmd_fails(spmd_checkpoints_find(folder, false, &info, NULL, 0), SPMD_EIO, "holds no checkpoint");
    ck_spmd_fails(spmd_checkpoints_find(path_in(path, folder, "none"), false, &info, NULL, 0), SPMD_EIO,
                  "no checkpoints at");
    const spmd_safetensors_content empty = {0};
    ck_spmd_ok(spmd_safetensors_write(path_in(foreign, folder, "step-000000001.safetensors"), &empty));
    ck_spmd_fails(spmd_checkpoints_find(folder, false, &info, NULL, 0), SPMD_EDATA, "not a checkpoint of this toolkit");
}
END_TEST

SPMD_TEST_MAIN("checkpoints", tcase_add_checked_fixture(tc, make, removed);
               tcase_add_loop_test(tc, a_resumed_run_has_the_same_bits, 0, 3);
               tcase_add_test(tc, on_another_number_of_devices_it_stays_close);
               tcase_add_test(tc, the_last_and_the_best_are_kept);
               tcase_add_loop_test(tc, the_best_is_a_second_name, 0, 2);
               tcase_add_loop_test(tc, what_does_not_fit_is_named, 0, 6);
               tcase_add_loop_test(tc, a_damaged_one_is_passed_over, 0, 6);
               tcase_add_test(tc, a_full_disk_leaves_what_was_there); tcase_add_test(tc, nothing_there);)
