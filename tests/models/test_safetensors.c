/* safetensors: a good file is read bit by bit, a bad one is refused with its reason, and no file does harm. */
#include "models/safetensors.h"
#include "tests/models/data_files.h"

static char folder[PATH_SIZE], path[PATH_SIZE];
static spmd_safetensors *file;

static void set_up(void)
{
    folder_make(folder);
    path_in(path, folder, "t.safetensors");
}

static void tear_down(void)
{
    spmd_safetensors_close(file);
    folder_remove(folder);
}

/* Header text and `data` bytes 0, 1, 2, ... after it. */
static size_t build(uint8_t *out, const char *header, size_t data)
{
    size_t n = strlen(header);
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)(n >> (8 * i));
    memcpy(out + 8, header, n);
    for (size_t i = 0; i < data; i++)
        out[8 + n + i] = (uint8_t)i;
    return 8 + n + data;
}

static void write_file(const char *header, size_t data)
{
    uint8_t bytes[2048];
    ck_assert_uint_lt(strlen(header) + data + 8, sizeof bytes);
    file_write(path, bytes, build(bytes, header, data));
}

static const char good[] = "{\"__metadata__\":{\"made\":\"by hand\"},"
                           "\"b\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[3,11]},"
                           "\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                           "\"scalar\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[11,13]},"
                           "\"none\":{\"dtype\":\"I64\",\"shape\":[4,0],\"data_offsets\":[13,13]}}   ";
enum { GOOD_DATA = 13 };

START_TEST(safetensors_reads_a_good_file)
{
    write_file(good, GOOD_DATA);
    ck_spmd_ok(spmd_safetensors_open(path, &file));
    ck_assert_int_eq(spmd_safetensors_count(file), 4);
    static const char *const names[] = {"a", "b", "scalar", "none"};
    static const struct {
        spmd_dtype dtype;
        int rank;
        int64_t count;
        size_t bytes;
        uint8_t first;
    } want[] = {{SPMD_U8, 1, 3, 3, 0}, {SPMD_F32, 2, 2, 8, 3}, {SPMD_BF16, 0, 1, 2, 11}, {SPMD_I64, 2, 0, 0, 0}};
    for (int i = 0; i < 4; i++) {
        const spmd_safetensor *t = spmd_safetensors_at(file, i), *found;
        ck_assert_str_eq(t->name, names[i]);
        ck_assert_int_eq(t->dtype, want[i].dtype);
        ck_assert_int_eq(t->rank, want[i].rank);
        ck_assert_int_eq(t->count, want[i].count);
        ck_assert_uint_eq(t->bytes, want[i].bytes);
        ck_assert_uint_eq((uintptr_t)t->data % 64, 0); /* though "b" begins at byte 3 */
        for (size_t k = 0; k < t->bytes; k++)
            ck_assert_uint_eq(((const uint8_t *)t->data)[k], want[i].first + k);
        ck_spmd_ok(spmd_safetensors_find(file, names[i], &found));
        ck_assert_ptr_eq(found, t);
    }
    ck_assert_int_eq(spmd_safetensors_at(file, 1)->shape[0], 2);
    ck_assert_int_eq(spmd_safetensors_at(file, 3)->shape[1], 0);
    ck_assert_ptr_null(spmd_safetensors_at(file, 4));
    ck_assert_ptr_null(spmd_safetensors_at(file, -1));
    ck_assert_str_eq(spmd_safetensors_metadata(file, "made"), "by hand");
    ck_assert_ptr_null(spmd_safetensors_metadata(file, "Made"));
}
END_TEST

START_TEST(safetensors_reads_only_the_header)
{
    write_file(good, GOOD_DATA);
    ck_spmd_ok(spmd_safetensors_open_header(path, &file));
    ck_assert_int_eq(spmd_safetensors_count(file), 4);
    ck_assert_str_eq(spmd_safetensors_metadata(file, "made"), "by hand");
    ck_assert_int_eq(spmd_safetensors_at(file, 1)->count, 2);
    for (int i = 0; i < 4; i++)
        ck_assert_ptr_null(spmd_safetensors_at(file, i)->data);
    spmd_safetensors_close(file);
    write_file(good, GOOD_DATA - 1); /* what the file's size tells is still checked */
    ck_spmd_fails(spmd_safetensors_open_header(path, &file), SPMD_EDATA, "expected");
}
END_TEST

START_TEST(safetensors_find_names_the_neighbours)
{
    write_file(good, GOOD_DATA);
    ck_spmd_ok(spmd_safetensors_open(path, &file));
    const spmd_safetensor *t;
    ck_spmd_fails(spmd_safetensors_find(file, "c", &t), SPMD_EINVAL,
                  "no tensor \"c\" among its 4; next to it in order: \"b\", \"none\"");
    ck_assert_ptr_null(t);
    ck_spmd_fails(spmd_safetensors_find(file, "__metadata__", &t), SPMD_EINVAL, "no tensor");
}
END_TEST

START_TEST(safetensors_empty_file_of_tensors)
{
    write_file("{}", 0);
    ck_spmd_ok(spmd_safetensors_open(path, &file));
    const spmd_safetensor *t;
    ck_assert_int_eq(spmd_safetensors_count(file), 0);
    ck_spmd_fails(spmd_safetensors_find(file, "a", &t), SPMD_EINVAL, "among its 0");
    ck_assert_ptr_null(spmd_safetensors_metadata(file, "made"));
}
END_TEST

/* One tensor "t" with this dtype, shape, data_offsets; 8 bytes of data unless said otherwise. */
#define T(dtype, shape, offsets) "{\"t\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define U(name, offsets) "\"" name "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" offsets "}"

static const struct {
    const char *header;
    size_t data;
    spmd_status status;
    const char *needle;
} bad[] = {
    {"[]", 0, SPMD_EDATA, "begins with byte 0x5b"},
    {" {}", 0, SPMD_EDATA, "begins with byte 0x20"},
    {"{\"t\":", 0, SPMD_EDATA, "no JSON"},
    {"{\"t\":\"\\ud800\"}", 0, SPMD_EDATA, "no JSON"},
    {"{}x", 0, SPMD_EDATA, "goes on after the JSON object, at byte 2 of 3"},
    {"{} \n", 0, SPMD_EDATA, "expected spaces only"},
    {"{}", 1, SPMD_EDATA, "end at 0, but the file has 1"},
    {"{\"t\":7}", 0, SPMD_EDATA, "\"t\" is no JSON object"},
    {"{\"t\":{}}", 0, SPMD_EDATA, "\"t\" has no dtype"},
    {"{\"t\":{\"dtype\":\"F32\"}}", 0, SPMD_EDATA, "\"t\" has no shape"},
    {"{\"t\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, SPMD_EDATA, "\"t\" has no data_offsets"},
    {"{\"__metadata__\":[]}", 0, SPMD_EDATA, "__metadata__ is no JSON object"},
    {"{\"__metadata__\":{\"k\":1}}", 0, SPMD_EDATA, "__metadata__ \"k\" is no string"},
    {T("7", "[2]", "[0,8]"), 8, SPMD_EDATA, "has no dtype"},
    {T("\"F64\"", "[1]", "[0,8]"), 8, SPMD_EUNSUPPORTED, "dtype \"F64\""},
    {T("\"f32\"", "[2]", "[0,8]"), 8, SPMD_EUNSUPPORTED, "dtype \"f32\""},
    {T("\"F32\"", "{}", "[0,8]"), 8, SPMD_EDATA, "has no shape"},
    {T("\"F32\"", "[-2]", "[0,8]"), 8, SPMD_EDATA, "size 0 of its shape is -2"},
    {T("\"F32\"", "[1,1.5]", "[0,8]"), 8, SPMD_EDATA, "size 1 of its shape is 1.5"},
    {T("\"F32\"", "[\"2\"]", "[0,8]"), 8, SPMD_EDATA, "size 0"},
    {T("\"F32\"", "[1e300]", "[0,8]"), 8, SPMD_EDATA, "1e+300"},
    {T("\"F32\"", "[2,1,1,1,1,1,1]", "[0,8]"), 8, SPMD_EUNSUPPORTED, "rank 7, expected at most 6"},
    {T("\"F32\"", "[4294967296,4294967296]", "[0,0]"), 0, SPMD_EDATA, "overflows at size 1 = 4294967296"},
    {T("\"I8\"", "[2305843009213693952]", "[0,0]"), 0, SPMD_EDATA, "size 0"},
    {T("\"F32\"", "[2]", "[0]"), 8, SPMD_EDATA, "data_offsets"},
    {T("\"F32\"", "[2]", "[0,8,9]"), 8, SPMD_EDATA, "data_offsets"},
    {T("\"F32\"", "[2]", "[-8,0]"), 8, SPMD_EDATA, "data_offsets"},
    {T("\"F32\"", "[2]", "[0.5,8.5]"), 8, SPMD_EDATA, "data_offsets"},
    {T("\"F32\"", "[2]", "[8,0]"), 8, SPMD_EDATA, "data_offsets 8 to 0"},
    {T("\"F32\"", "[2]", "[0,8]"), 7, SPMD_EDATA, "data_offsets 0 to 8, expected inside 0 to 7"},
    {T("\"F32\"", "[2]", "[0,4]"), 8, SPMD_EDATA, "hold 4 bytes, expected 8"},
    {T("\"F32\"", "[2]", "[0,8]"), 9, SPMD_EDATA, "end at 8, but the file has 9"},
    {T("\"F32\"", "[2]", "[1,9]"), 9, SPMD_EDATA, "\"t\" begins at 1, expected 0"},
    {"{" U("t", "[0,4]") "," U("u", "[3,7]") "}", 8, SPMD_EDATA, "\"u\" begins at 3, inside \"t\" which ends at 4"},
    {"{" U("u", "[0,4]") "," U("t", "[0,4]") "}", 4, SPMD_EDATA, "\"u\" begins at 0, inside \"t\""},
    {"{" U("t", "[0,4]") "," U("u", "[5,9]") "}", 9, SPMD_EDATA, "\"u\" begins at 5, expected 4"},
    {"{" U("t", "[0,4]") "," U("t", "[4,8]") "}", 8, SPMD_EDATA, "\"t\" is there twice"},
};

START_TEST(safetensors_refuses)
{
    write_file(bad[_i].header, bad[_i].data);
    ck_spmd_fails(spmd_safetensors_open(path, &file), bad[_i].status, bad[_i].needle);
    ck_assert_msg(strstr(spmd_last_error(), path) != NULL, "no file name in: %s", spmd_last_error());
    ck_assert_ptr_null(file);
}
END_TEST

START_TEST(safetensors_refuses_bad_header_lengths)
{
    static const uint64_t lengths[] = {0, 1, 3, 100000001, UINT64_MAX, UINT64_MAX - 7, 1ull << 63};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        uint8_t bytes[10] = {[8] = '{', '}'};
        for (int i = 0; i < 8; i++)
            bytes[i] = (uint8_t)(lengths[k] >> (8 * i));
        file_write(path, bytes, sizeof bytes);
        ck_spmd_fails(spmd_safetensors_open(path, &file), SPMD_EDATA, "expected 2 to 2");
    }
    file_write(path, "1234567", 7);
    ck_spmd_fails(spmd_safetensors_open(path, &file), SPMD_EDATA, "has 7 bytes");
    ck_spmd_fails(spmd_safetensors_open(folder, &file), SPMD_EIO, "not a regular file");
    path_in(path, folder, "nothing");
    ck_spmd_fails(spmd_safetensors_open(path, &file), SPMD_EIO, "No such file");
}
END_TEST

/* Every single byte of a good file changed, and every cut: an error or a file, under sanitizers without a report. */
START_TEST(safetensors_survives_damage)
{
    uint8_t bytes[1024];
    size_t size = build(bytes, good, GOOD_DATA), header = size - GOOD_DATA;
    for (size_t n = 0; n < size; n++) {
        file_write(path, bytes, n);
        ck_assert_int_ne(spmd_safetensors_open(path, &file), SPMD_OK);
    }
    static const uint8_t changes[] = {0, '"', '{', ']', '9', 0xff};
    for (size_t at = 0; at < header; at++) {
        for (size_t k = 0; k < sizeof changes; k++) {
            uint8_t kept = bytes[at];
            bytes[at] = changes[k];
            file_write(path, bytes, size);
            if (spmd_safetensors_open(path, &file) == SPMD_OK)
                spmd_safetensors_close(file);
            file = NULL;
            bytes[at] = kept;
        }
    }
}
END_TEST

/* Brackets within brackets: the parser must not run out of stack. */
START_TEST(safetensors_survives_depth)
{
    enum { DEPTH = 200000 };
    char *header = malloc(DEPTH + 16);
    uint8_t *bytes = malloc(DEPTH + 32);
    memcpy(header, "{\"t\":", 5);
    memset(header + 5, '[', DEPTH);
    header[5 + DEPTH] = 0;
    file_write(path, bytes, build(bytes, header, 0));
    ck_spmd_fails(spmd_safetensors_open(path, &file), SPMD_EDATA, "no JSON");
    free(header);
    free(bytes);
}
END_TEST

SPMD_TEST_MAIN("safetensors", tcase_add_checked_fixture(tc, set_up, tear_down);
               tcase_add_test(tc, safetensors_reads_a_good_file); tcase_add_test(tc, safetensors_reads_only_the_header);
               tcase_add_test(tc, safetensors_find_names_the_neighbours);
               tcase_add_test(tc, safetensors_empty_file_of_tensors);
               tcase_add_loop_test(tc, safetensors_refuses, 0, (int)(sizeof bad / sizeof *bad));
               tcase_add_test(tc, safetensors_refuses_bad_header_lengths);
               tcase_add_test(tc, safetensors_survives_damage); tcase_add_test(tc, safetensors_survives_depth);)
