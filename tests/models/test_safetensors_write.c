/* What is written can be read again, by the reader that believes nothing; and it is safetensors as others know it. */
#include "models/safetensors.h"
#include "tests/models/data_files.h"
#include <limits.h>

static char folder[PATH_SIZE];

static void make(void)
{
    folder_make(folder);
}

static void removed(void)
{
    folder_remove(folder);
}

static const float ones[6] = {1, 2, 3, 4, 5, 6};
static const int64_t big[1] = {INT64_MIN};
static const uint8_t bytes[3] = {1, 0, 255};
static const spmd_safetensor tensors[] = {
    {.name = "w \"quoted\" \\ \n", .dtype = SPMD_F32, .rank = 2, .shape = {2, 3}, .data = ones},
    {.name = "bytes", .dtype = SPMD_U8, .rank = 1, .shape = {3}, .data = bytes},
    {.name = "scalar", .dtype = SPMD_I64, .rank = 0, .data = big},
    {.name = "empty", .dtype = SPMD_BF16, .rank = 2, .shape = {0, 7}, .data = ones},
};
static const char *const metadata[][2] = {{"who", "a \"test\""}, {"step", "12"}};

static spmd_status from_user(void *user, int64_t i, const void **data)
{
    const spmd_safetensor *all = user;
    SPMD_CHECK(strcmp(all[i].name, "stop") != 0, SPMD_EUSER, "no data for tensor %lld", (long long)i);
    *data = all[i].data;
    return SPMD_OK;
}

static void expect_read_back(const char *path)
{
    spmd_safetensors *file;
    ck_spmd_ok(spmd_safetensors_open(path, &file));
    ck_assert_int_eq(spmd_safetensors_count(file), 4);
    for (int k = 0; k < 4; k++) {
        const spmd_safetensor *found;
        ck_spmd_ok(spmd_safetensors_find(file, tensors[k].name, &found));
        ck_assert_int_eq(found->dtype, tensors[k].dtype);
        ck_assert_int_eq(found->rank, tensors[k].rank);
        for (int d = 0; d < found->rank; d++)
            ck_assert_int_eq(found->shape[d], tensors[k].shape[d]);
        ck_assert_mem_eq(found->data, tensors[k].data, found->bytes);
    }
    ck_assert_str_eq(spmd_safetensors_metadata(file, "who"), "a \"test\"");
    ck_assert_int_eq(strlen(spmd_safetensors_metadata(file, SPMD_SAFETENSORS_CRC32)), 8);
    spmd_safetensors_close(file);
}

START_TEST(what_is_written_is_read)
{
    char path[PATH_SIZE];
    spmd_safetensors_content content = {.count = 4, .tensors = tensors, .metadata = metadata, .nmetadata = 2};
    if (_i == 1) {
        content.bytes = from_user;
        content.user = (void *)tensors;
    }
    ck_spmd_ok(spmd_safetensors_write(path_in(path, folder, "a.safetensors"), &content));
    expect_read_back(path);
    size_t size;
    uint8_t *file = file_read(path, &size);
    ck_assert_int_eq((8 + file[0] + file[1] * 256) % 8, 0); /* the data is aligned */
    free(file);
}
END_TEST

START_TEST(every_flipped_bit_is_seen)
{
    char path[PATH_SIZE];
    size_t size;
    const spmd_safetensors_content content = {.count = 4, .tensors = tensors, .metadata = metadata, .nmetadata = 2};
    ck_spmd_ok(spmd_safetensors_write(path_in(path, folder, "a.safetensors"), &content));
    uint8_t *file = file_read(path, &size);
    size_t known = 8 + strlen("{\"__metadata__\":{\"" SPMD_SAFETENSORS_CRC32 "\":\""); /* before: not a checked file */
    for (size_t bit = 8 * known; bit < 8 * size; bit++) {
        spmd_safetensors *opened;
        file[bit / 8] ^= (uint8_t)(1 << bit % 8);
        file_write(path, file, size);
        spmd_status status = spmd_safetensors_open(path, &opened);
        ck_assert_msg(status != SPMD_OK, "bit %zu of %zu was flipped unseen", bit, 8 * size);
        file[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    free(file);
}
END_TEST

START_TEST(a_failure_leaves_the_old_file)
{
    static const spmd_safetensor stopping[] = {
        {.name = "first", .dtype = SPMD_F32, .rank = 1, .shape = {6}, .data = ones}, {.name = "stop"}};
    char path[PATH_SIZE], other[PATH_SIZE];
    spmd_safetensors_content content = {.count = 4, .tensors = tensors, .metadata = metadata, .nmetadata = 2};
    ck_spmd_ok(spmd_safetensors_write(path_in(path, folder, "a.safetensors"), &content));
    const spmd_safetensors_content bad = {
        .count = 2, .tensors = stopping, .bytes = from_user, .user = (void *)stopping};
    ck_spmd_fails(spmd_safetensors_write(path, &bad), SPMD_EUSER, "no data for tensor 1");
    expect_read_back(path);
    ck_assert_int_ne(access(path_in(other, folder, "a.safetensors.tmp"), F_OK), 0);
    ck_spmd_fails(spmd_safetensors_write(path_in(other, folder, "none/a.safetensors"), &content), SPMD_EIO,
                  "cannot be made");
    content.tensors = &(const spmd_safetensor){.name = ""};
    content.count = 1;
    ck_spmd_fails(spmd_safetensors_write(path, &content), SPMD_EINVAL, "tensor 0 has no name");
}
END_TEST

SPMD_TEST_MAIN("safetensors write", tcase_add_checked_fixture(tc, make, removed);
               tcase_add_loop_test(tc, what_is_written_is_read, 0, 2); tcase_add_test(tc, every_flipped_bit_is_seen);
               tcase_add_test(tc, a_failure_leaves_the_old_file);)
