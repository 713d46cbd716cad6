/* IDX files: what is right is read, and everything that can be wrong with one has its own error. */
#include "models/data/idx.h"
#include "tests/models/data_files.h"

enum { IMAGES = 0x00000803, LABELS = 0x00000801, SIZE = 5 * 2 * 3 };

static const int64_t inner[2] = {2, 3};
static const uint32_t dims[3] = {5, 2, 3};
static char folder[PATH_SIZE], path[PATH_SIZE];
static uint8_t pixels[SIZE];

static void set_up(void)
{
    folder_make(folder);
    path_in(path, folder, "images.gz");
    for (int i = 0; i < SIZE; i++)
        pixels[i] = (uint8_t)(i * 37 + 11);
}

static void tear_down(void)
{
    folder_remove(folder);
}

static void write_images(uint32_t magic, const uint32_t *d, size_t size)
{
    uint8_t bytes[16 + SIZE + 1] = {0};
    uint8_t data[SIZE + 1] = {0};
    memcpy(data, pixels, SIZE);
    file_write_gz(path, bytes, idx_make(bytes, magic, 3, d, data, size));
}

static void fails(spmd_status want, const char *needle)
{
    uint8_t *data = pixels;
    int64_t count;
    ck_spmd_fails(spmd__idx_read(path, 2, inner, &data, &count), want, needle);
    ck_assert_msg(strstr(spmd_last_error(), path) != NULL, "no file name in: %s", spmd_last_error());
    ck_assert_ptr_null(data);
}

START_TEST(idx_reads_images)
{
    write_images(IMAGES, dims, SIZE);
    uint8_t *data;
    int64_t count;
    ck_spmd_ok(spmd__idx_read(path, 2, inner, &data, &count));
    ck_assert_int_eq(count, 5);
    ck_assert_mem_eq(data, pixels, SIZE);
    free(data);
}
END_TEST

START_TEST(idx_reads_labels_and_the_empty_set)
{
    for (uint32_t n = 0; n <= 9; n += 9) {
        uint8_t bytes[32], *data;
        int64_t count;
        file_write_gz(path, bytes, idx_make(bytes, LABELS, 1, &n, pixels, n));
        ck_spmd_ok(spmd__idx_read(path, 0, NULL, &data, &count));
        ck_assert_int_eq(count, n);
        ck_assert_mem_eq(data, pixels, n);
        free(data);
    }
}
END_TEST

/* Wrong content, well compressed. */
static const struct {
    uint32_t magic, dims[3];
    size_t size;
    const char *needle;
} wrong[] = {
    {LABELS, {5, 2, 3}, SIZE, "magic number 0x00000801, expected 0x00000803"},
    {0x00000d03, {5, 2, 3}, SIZE, "magic number 0x00000d03"},
    {IMAGES, {5, 2, 4}, SIZE, "dimension 2 is 4, expected 3"},
    {IMAGES, {5, 3, 2}, SIZE, "dimension 1 is 3, expected 2"},
    {IMAGES, {6, 2, 3}, SIZE, "ends after 30 bytes of data, expected 6 items of 6 = 36 bytes"},
    {IMAGES, {5, 2, 3}, SIZE + 1, "goes on after its 5 items of 6 bytes"},
    {IMAGES, {4, 2, 3}, SIZE, "goes on after its 4 items"},
    {IMAGES, {0xffffffff, 2, 3}, SIZE, "promises 4294967295 items"},
};

START_TEST(idx_refuses_wrong_content)
{
    write_images(wrong[_i].magic, wrong[_i].dims, wrong[_i].size);
    fails(SPMD_EDATA, wrong[_i].needle);
}
END_TEST

START_TEST(idx_refuses_every_truncation)
{
    write_images(IMAGES, dims, SIZE);
    size_t size;
    uint8_t *bytes = file_read(path, &size);
    for (size_t n = 0; n < size; n++) {
        file_write(path, bytes, n);
        fails(SPMD_EDATA, "cut short");
    }
    free(bytes);
}
END_TEST

START_TEST(idx_refuses_damage_anywhere_in_the_data)
{
    write_images(IMAGES, dims, SIZE);
    size_t size;
    uint8_t *bytes = file_read(path, &size);
    for (size_t at = 10; at < size; at++) { /* before: time stamp and system, which nobody needs */
        bytes[at] ^= 0x10;
        file_write(path, bytes, size);
        fails(SPMD_EDATA, path);
        bytes[at] ^= 0x10;
    }
    free(bytes);
}
END_TEST

START_TEST(idx_refuses_bytes_after_the_gzip_data)
{
    write_images(IMAGES, dims, SIZE);
    size_t size;
    uint8_t *bytes = file_read(path, &size);
    uint8_t *longer = calloc(1, size + 200000);
    memcpy(longer, bytes, size);
    file_write(path, longer, size + 1);
    fails(SPMD_EDATA, "1 bytes follow the end of the gzip data");
    file_write(path, longer, size + 200000); /* more than one buffer */
    fails(SPMD_EDATA, "200000 bytes follow");
    free(longer);
    free(bytes);
}
END_TEST

START_TEST(idx_refuses_what_is_not_gzip)
{
    file_write(path, "<html>", 6);
    fails(SPMD_EDATA, "incorrect header check");
    ck_assert_int_eq(unlink(path), 0);
    fails(SPMD_EIO, "No such file");
    ck_assert_int_eq(mkdir(path, 0777), 0);
    fails(SPMD_EIO, "Is a directory");
}
END_TEST

SPMD_TEST_MAIN("idx", tcase_add_checked_fixture(tc, set_up, tear_down); tcase_add_test(tc, idx_reads_images);
               tcase_add_test(tc, idx_reads_labels_and_the_empty_set);
               tcase_add_loop_test(tc, idx_refuses_wrong_content, 0, (int)(sizeof wrong / sizeof *wrong));
               tcase_add_test(tc, idx_refuses_every_truncation);
               tcase_add_test(tc, idx_refuses_damage_anywhere_in_the_data);
               tcase_add_test(tc, idx_refuses_bytes_after_the_gzip_data);
               tcase_add_test(tc, idx_refuses_what_is_not_gzip);)
