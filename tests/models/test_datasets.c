/* Data sets: where they are looked for, what is refused, and what is generated in their place. */
#include "models/data/dataset.h"
#include "tests/models/data_files.h"
#include "tests/models/http_server.h"

enum { ROWS = 3, COLUMNS = 4, WIDTH = ROWS * COLUMNS, TRAIN = 20, TEST = 7, CLASSES = 5 };

static char root[PATH_SIZE], own[PATH_SIZE], cache[PATH_SIZE], md5s[4][33];
static uint8_t pixels[TRAIN * WIDTH], labels[TRAIN];
static spmd__data_source tiny = {.name = "tiny", .rows = ROWS, .columns = COLUMNS, .classes = CLASSES};
static spmd_dataset set;

static void write_set(const char *folder, uint32_t train_labels, uint32_t test_images)
{
    uint8_t bytes[16 + sizeof pixels];
    char path[PATH_SIZE];
    uint32_t train[3] = {TRAIN, ROWS, COLUMNS}, test[3] = {test_images, ROWS, COLUMNS}, test_labels = TEST;
    file_write_gz(path_in(path, folder, "train-x.gz"), bytes, idx_make(bytes, 0x803, 3, train, pixels, TRAIN * WIDTH));
    file_write_gz(path_in(path, folder, "train-y.gz"), bytes,
                  idx_make(bytes, 0x801, 1, &train_labels, labels, train_labels));
    file_write_gz(path_in(path, folder, "test-x.gz"), bytes,
                  idx_make(bytes, 0x803, 3, test, pixels, test_images * WIDTH));
    file_write_gz(path_in(path, folder, "test-y.gz"), bytes, idx_make(bytes, 0x801, 1, &test_labels, labels, TEST));
    tiny.train_images = file_entry(folder, "train-x.gz", md5s[0]);
    tiny.train_labels = file_entry(folder, "train-y.gz", md5s[1]);
    tiny.test_images = file_entry(folder, "test-x.gz", md5s[2]);
    tiny.test_labels = file_entry(folder, "test-y.gz", md5s[3]);
}

static void set_up(void)
{
    char path[PATH_SIZE];
    folder_make(root);
    path_in(own, root, "own/tiny");
    path_in(cache, root, "cache/spmdkit/tiny");
    ck_assert_int_eq(mkdir(path_in(path, root, "own"), 0777), 0);
    ck_assert_int_eq(mkdir(own, 0777), 0);
    setenv("SPMD_DATA", path, 1);
    setenv("XDG_CACHE_HOME", path_in(path, root, "cache"), 1);
    setenv("SPMD_DATA_URL", "http://127.0.0.1:1", 1); /* nobody answers there */
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 7);
    for (int i = 0; i < TRAIN; i++)
        labels[i] = (uint8_t)(i % CLASSES);
    write_set(own, TRAIN, TEST);
}

static void tear_down(void)
{
    spmd_dataset_free(&set);
    folder_remove(root);
}

static void check_tiny(void)
{
    ck_assert_str_eq(set.name, "tiny");
    ck_assert(!set.synthetic);
    ck_assert_str_eq(set.notice, "");
    ck_assert_int_eq(set.train.count, TRAIN);
    ck_assert_int_eq(set.test.count, TEST);
    ck_assert_int_eq(set.train.width, WIDTH);
    ck_assert_int_eq(set.classes, CLASSES);
    ck_assert_mem_eq(set.train.images, pixels, sizeof pixels);
    ck_assert_mem_eq(set.train.labels, labels, TRAIN);
    ck_assert_mem_eq(set.test.images, pixels, (size_t)TEST * WIDTH);
    ck_assert_mem_eq(set.test.labels, labels, TEST);
}

static void move_to_cache(void)
{
    char command[3 * PATH_SIZE + 32];
    snprintf(command, sizeof command, "mkdir -p '%s' && mv '%s'/* '%s'/", cache, own, cache);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(dataset_from_own_folder)
{
    ck_spmd_ok(spmd__dataset_load_from(&tiny, NULL, &set));
    check_tiny();
    ck_assert_msg(strstr(set.source, own) != NULL, "%s", set.source);
}
END_TEST

START_TEST(dataset_from_cache)
{
    move_to_cache();
    ck_spmd_ok(spmd__dataset_load_from(&tiny, NULL, &set));
    check_tiny();
    spmd_dataset_free(&set);
    unsetenv("SPMD_DATA"); /* and by $HOME/.cache, with a relative XDG_CACHE_HOME, which does not count */
    char from[PATH_SIZE], to[PATH_SIZE];
    ck_assert_int_eq(rename(path_in(from, root, "cache"), path_in(to, root, ".cache")), 0);
    setenv("HOME", root, 1);
    setenv("XDG_CACHE_HOME", "cache", 1);
    ck_spmd_ok(spmd__dataset_load_from(&tiny, NULL, &set));
    check_tiny();
}
END_TEST

START_TEST(dataset_first_examples_only)
{
    ck_spmd_ok(spmd__dataset_load_from(&tiny, &(spmd_dataset_options){.train_count = 6, .test_count = 7}, &set));
    ck_assert_int_eq(set.train.count, 6);
    ck_assert_int_eq(set.test.count, 7);
    spmd_dataset_free(&set);
    ck_spmd_fails(spmd__dataset_load_from(&tiny, &(spmd_dataset_options){.test_count = 8}, &set), SPMD_EINVAL,
                  "test_count is 8, expected at most the 7");
    ck_spmd_fails(spmd__dataset_load_from(&tiny, &(spmd_dataset_options){.train_count = -1}, &set), SPMD_EINVAL,
                  "train_count is -1");
    ck_assert_ptr_null(set.train.images);
}
END_TEST

START_TEST(dataset_refuses_a_changed_file_of_yours)
{
    char path[PATH_SIZE];
    size_t size;
    uint8_t *bytes = file_read(path_in(path, own, "test-x.gz"), &size);
    file_write(path, bytes, size - 1);
    ck_spmd_fails(spmd__dataset_load_from(&tiny, NULL, &set), SPMD_EDATA, "bytes, expected");
    ck_assert(strstr(spmd_last_error(), path) != NULL);
    bytes[4] ^= 1; /* the time stamp: gzip's own checks see nothing */
    file_write(path, bytes, size);
    free(bytes);
    if (spmd_dataset_downloader()) {
        ck_spmd_fails(spmd__dataset_load_from(&tiny, NULL, &set), SPMD_EDATA, "md5 is ");
        ck_assert(strstr(spmd_last_error(), path) != NULL && strstr(spmd_last_error(), tiny.test_images.md5) != NULL);
    }
}
END_TEST

START_TEST(dataset_refuses_a_label_out_of_range)
{
    labels[13] = CLASSES;
    write_set(own, TRAIN, TEST);
    ck_spmd_fails(spmd__dataset_load_from(&tiny, NULL, &set), SPMD_EDATA,
                  "label 13 of the train set is 5, expected 0 to 4");
}
END_TEST

START_TEST(dataset_refuses_unequal_counts)
{
    write_set(own, TRAIN - 1, TEST);
    ck_spmd_fails(spmd__dataset_load_from(&tiny, NULL, &set), SPMD_EDATA, "has 20 images");
    ck_assert(strstr(spmd_last_error(), "has 19 labels") != NULL);
    write_set(own, TRAIN, TEST + 1);
    ck_spmd_fails(spmd__dataset_load_from(&tiny, NULL, &set), SPMD_EDATA, "has 8 images");
}
END_TEST

START_TEST(dataset_fetches_anew_what_is_wrong_in_the_cache)
{
    if (!spmd_dataset_downloader())
        return; /* test_download, which needs the same, reports the skip */
    move_to_cache();
    char path[PATH_SIZE];
    size_t size;
    uint8_t *bytes = file_read(path_in(path, cache, "test-y.gz"), &size);
    file_write(path, "junk", 4);
    server s = {bytes, size, true, (answer[]){WHOLE}, 1, .listener = -1};
    server_start(&s);
    setenv("SPMD_DATA_URL", s.url, 1);
    ck_spmd_ok(spmd__dataset_load_from(&tiny, NULL, &set));
    server_stop(&s);
    ck_assert_int_eq(s.requests, 1);
    check_tiny();
    free(bytes);
}
END_TEST

START_TEST(dataset_without_a_network_is_generated_and_says_so)
{
    char path[PATH_SIZE];
    ck_assert_int_eq(unlink(path_in(path, own, "test-y.gz")), 0); /* three of four are there: no help */
    ck_spmd_ok(spmd__dataset_load_from(&tiny, &(spmd_dataset_options){.train_count = 15}, &set));
    ck_assert_str_eq(set.name, "synthetic");
    ck_assert(set.synthetic);
    ck_assert_int_eq(set.train.count, 15);
    ck_assert_int_eq(set.test.count, 10000);
    ck_assert_int_eq(set.train.width, 784);
    const char *needles[] = {"tiny", "test-y.gz", "GENERATED", "$SPMD_DATA/tiny"};
    for (size_t i = 0; i < sizeof needles / sizeof *needles; i++)
        ck_assert_msg(strstr(set.notice, needles[i]) != NULL, "no %s in: %s", needles[i], set.notice);
    ck_assert_msg(strchr(set.notice, '[') == NULL, "a source line in: %s", set.notice);
}
END_TEST

START_TEST(dataset_that_nobody_publishes)
{
    unsetenv("SPMD_DATA_URL");
    ck_spmd_fails(spmd_dataset_load("mnist-30k", NULL, &set), SPMD_EIO, "into $SPMD_DATA/mnist-30k");
    ck_assert(strstr(spmd_last_error(), "t10k-labels-idx1-ubyte.gz") != NULL);
}
END_TEST

START_TEST(dataset_nowhere_to_put_it)
{
    if (!spmd_dataset_downloader())
        return; /* without libcurl nothing is put anywhere */
    unsetenv("SPMD_DATA");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    ck_spmd_fails(spmd__dataset_load_from(&tiny, NULL, &set), SPMD_EIO, "neither XDG_CACHE_HOME nor HOME");
    char path[PATH_SIZE];
    file_write(path_in(path, root, "file"), "", 0);
    setenv("XDG_CACHE_HOME", path, 1);
    ck_spmd_fails(spmd__dataset_load_from(&tiny, NULL, &set), SPMD_EIO, "set XDG_CACHE_HOME to a folder");
    ck_assert(strstr(spmd_last_error(), path) != NULL);
}
END_TEST

START_TEST(dataset_unknown_name)
{
    ck_spmd_fails(spmd_dataset_load("minst", NULL, &set), SPMD_EINVAL, spmd_dataset_names());
}
END_TEST

SPMD_TEST_MAIN("datasets", tcase_add_checked_fixture(tc, set_up, tear_down);
               tcase_add_test(tc, dataset_from_own_folder); tcase_add_test(tc, dataset_from_cache);
               tcase_add_test(tc, dataset_first_examples_only);
               tcase_add_test(tc, dataset_refuses_a_changed_file_of_yours);
               tcase_add_test(tc, dataset_refuses_a_label_out_of_range);
               tcase_add_test(tc, dataset_refuses_unequal_counts);
               tcase_add_test(tc, dataset_fetches_anew_what_is_wrong_in_the_cache);
               tcase_add_test(tc, dataset_without_a_network_is_generated_and_says_so);
               tcase_add_test(tc, dataset_that_nobody_publishes); tcase_add_test(tc, dataset_nowhere_to_put_it);
               tcase_add_test(tc, dataset_unknown_name);)
