/* Downloads against a server that misbehaves: what arrives under the final name is always the published file. */
#include "models/data/download.h"
#include "tests/models/data_files.h"
#include "tests/models/http_server.h"
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

enum { SIZE = 300000 };

static char folder[PATH_SIZE], path[PATH_SIZE], part[PATH_SIZE], md5[33];
static uint8_t body[SIZE];
static spmd__data_file entry = {"images.gz", SIZE, md5};

static void set_up(void)
{
    folder_make(folder);
    path_in(path, folder, "images.gz");
    path_in(part, folder, "images.gz.part");
    uint32_t state = 1;
    for (int i = 0; i < SIZE; i++)
        body[i] = (uint8_t)((state = state * 1664525u + 1013904223u) >> 24);
    md5_hex(body, SIZE, md5);
}

static void tear_down(void)
{
    folder_remove(folder);
}

static spmd_status get(const char *const *mirrors, bool *network)
{
    spmd__download d = {.mirrors = mirrors, .file = &entry, .folder = folder, .stall_s = 1};
    return spmd__download_file(&d, network);
}

static bool exists(const char *name)
{
    return access(name, F_OK) == 0;
}

static void check_arrived(void)
{
    size_t size;
    uint8_t *bytes = file_read(path, &size);
    ck_assert_uint_eq(size, SIZE);
    ck_assert_mem_eq(bytes, body, SIZE);
    free(bytes);
    ck_assert(!exists(part));
}

/* One mirror: its answers in turn, and what becomes of it. */
static const struct {
    const char *name;
    bool ranges;
    answer script[4];
    int nscript, requests; /* answers; requests that come */
    long from[4];          /* where each request begins */
    spmd_status status;
    bool network;
    const char *needle;
} cases[] = {
    {"whole", true, {WHOLE}, 1, 1, {0}, SPMD_OK, false, NULL},
    {"broken off", true, {CUT, WHOLE}, 2, 2, {0, SIZE / 2}, SPMD_OK, false, NULL},
    {"twice", true, {CUT, CUT, WHOLE}, 3, 3, {0, SIZE / 2, SIZE * 3 / 4}, SPMD_OK, false, NULL},
    {"no length", true, {CUT_SILENT, WHOLE}, 2, 2, {0, SIZE / 2}, SPMD_OK, false, NULL},
    {"no ranges", false, {CUT, WHOLE}, 2, 2, {0, SIZE / 2}, SPMD_OK, false, NULL},
    {"stall", true, {STALL, WHOLE}, 2, 2, {0, SIZE / 2}, SPMD_OK, false, NULL},
    {"never whole", false, {CUT}, 1, 3, {0, SIZE / 2, SIZE / 2}, SPMD_EIO, true, "150000 of 300000 bytes"},
    {"missing", true, {MISSING}, 1, 2, {0, 0}, SPMD_EIO, true, "404"},
    {"once wrong", true, {WRONG, WHOLE}, 2, 2, {0, 0}, SPMD_OK, false, NULL},
    {"wrong", true, {WRONG}, 1, 2, {0, 0}, SPMD_EDATA, false, "expected"},
    {"longer", true, {LONGER}, 1, 2, {0, 0}, SPMD_EDATA, false, "goes on after 300000 bytes"},
};

START_TEST(download_case)
{
    server s = {body, SIZE, cases[_i].ranges, cases[_i].script, cases[_i].nscript, .listener = -1};
    server_start(&s);
    bool network;
    spmd_status status = get((const char *[]){s.url, NULL}, &network);
    server_stop(&s);
    ck_assert_msg(status == cases[_i].status, "%s: %s: %s", cases[_i].name, spmd_status_name(status),
                  spmd_last_error());
    ck_assert_int_eq(s.requests, cases[_i].requests);
    for (int k = 0; k < s.requests; k++)
        ck_assert_int_eq(s.from[k], cases[_i].from[k]);
    if (status == SPMD_OK) {
        check_arrived();
        return;
    }
    ck_assert_msg(strstr(spmd_last_error(), cases[_i].needle) != NULL, "%s: %s", cases[_i].name, spmd_last_error());
    ck_assert_int_eq(network, cases[_i].network);
    ck_assert(!exists(path));
    ck_assert_int_eq(exists(part), cases[_i].network && cases[_i].script[0] == CUT);
}
END_TEST

START_TEST(download_asks_the_next_mirror)
{
    server bad = {body, SIZE, true, (answer[]){MISSING}, 1, .listener = -1};
    server good = {body, SIZE, true, (answer[]){WHOLE}, 1, .listener = -1};
    server_start(&bad);
    server_start(&good);
    bool network;
    ck_spmd_ok(get((const char *[]){"http://127.0.0.1:1/", bad.url, good.url, NULL}, &network));
    server_stop(&bad);
    server_stop(&good);
    ck_assert_int_eq(bad.requests, 1);
    ck_assert_int_eq(good.requests, 1);
    check_arrived();
}
END_TEST

START_TEST(download_without_a_network)
{
    bool network = false;
    time_t before = time(NULL);
    ck_spmd_fails(get((const char *[]){"http://127.0.0.1:1/", NULL}, &network), SPMD_EIO, "could not be fetched");
    ck_assert(network);
    ck_assert_int_le(time(NULL) - before, 3);
}
END_TEST

/* What an earlier run left: good, of another file, or longer than the file. */
START_TEST(download_takes_up_a_part)
{
    static const struct {
        size_t size;
        bool good;
        int requests;
        long from[2];
    } parts[] = {{1000, true, 1, {1000}},
                 {1000, false, 2, {1000, 0}},
                 {SIZE, true, 0, {0}},
                 {SIZE, false, 1, {0}},
                 {SIZE + 1, true, 1, {0}}};
    uint8_t *bytes = calloc(SIZE + 1, 1);
    if (parts[_i].good)
        memcpy(bytes, body, SIZE);
    file_write(part, bytes, parts[_i].size);
    free(bytes);
    server s = {body, SIZE, true, (answer[]){WHOLE}, 1, .listener = -1};
    server_start(&s);
    bool network;
    ck_spmd_ok(get((const char *[]){s.url, NULL}, &network));
    server_stop(&s);
    ck_assert_int_eq(s.requests, parts[_i].requests);
    for (int k = 0; k < s.requests; k++)
        ck_assert_int_eq(s.from[k], parts[_i].from[k]);
    check_arrived();
}
END_TEST

/* The mirrors are not to blame for what an earlier run left: this counts as no network, not as wrong data. */
START_TEST(download_of_a_bad_part_and_then_nothing)
{
    uint8_t junk[1000] = {0};
    file_write(part, junk, sizeof junk);
    server s = {body, SIZE, true, (answer[]){WHOLE, MISSING}, 2, .listener = -1};
    server_start(&s);
    bool network = false;
    ck_spmd_fails(get((const char *[]){s.url, NULL}, &network), SPMD_EIO, "404");
    server_stop(&s);
    ck_assert(network);
    ck_assert(!exists(path) && !exists(part));
}
END_TEST

static bool stop_half_way(void *user, const char *file, int64_t done, int64_t total)
{
    (void)file;
    int64_t *seen = user;
    *seen = done;
    return total == SIZE && done < SIZE / 2;
}

START_TEST(download_stops_when_told_and_continues)
{
    server s = {body, SIZE, true, (answer[]){STALL, WHOLE}, 2, .listener = -1};
    server_start(&s);
    int64_t seen = -1;
    bool network;
    spmd__download d = {.mirrors = (const char *[]){s.url, NULL},
                        .file = &entry,
                        .folder = folder,
                        .stall_s = 30,
                        .progress = stop_half_way,
                        .user = &seen};
    ck_spmd_fails(spmd__download_file(&d, &network), SPMD_EUSER, "progress");
    ck_assert(!network);
    ck_assert_int_eq(seen, SIZE / 2);
    ck_assert(exists(part));
    ck_spmd_ok(get(d.mirrors, &network));
    server_stop(&s);
    ck_assert_int_eq(s.from[1], SIZE / 2);
    check_arrived();
}
END_TEST

/* A limit on the size of files stands for the full disk: the same failing write, for root as well. */
START_TEST(download_on_a_full_disk)
{
    server s = {body, SIZE, true, (answer[]){WHOLE}, 1, .listener = -1};
    server_start(&s);
    struct rlimit kept, limit;
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &kept), 0);
    limit = (struct rlimit){SIZE / 3, kept.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    bool network;
    ck_spmd_fails(get((const char *[]){s.url, NULL}, &network), SPMD_EIO, "make room");
    ck_assert(!network);
    ck_assert(!exists(path));
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &kept), 0);
    ck_spmd_ok(get((const char *[]){s.url, NULL}, &network));
    server_stop(&s);
    ck_assert_int_eq(s.requests, 2);
    check_arrived();
}
END_TEST

static void *get_in_thread(void *user)
{
    bool network;
    return get(user, &network) == SPMD_OK ? user : NULL;
}

START_TEST(download_by_several_at_once_is_one)
{
    enum { N = 4 };
    server s = {body, SIZE, true, (answer[]){WHOLE}, 1, .listener = -1};
    server_start(&s);
    const char *mirrors[] = {s.url, NULL};
    pthread_t threads[N];
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, get_in_thread, mirrors), 0);
    for (int i = 0; i < N; i++) {
        void *ok;
        pthread_join(threads[i], &ok);
        ck_assert_ptr_nonnull(ok);
    }
    server_stop(&s);
    ck_assert_int_eq(s.requests, 1);
    check_arrived();
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("download");
    TCase *tc = tcase_create("download");
    tcase_set_timeout(tc, spmd_test_timeout());
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, download_case, 0, (int)(sizeof cases / sizeof *cases));
    tcase_add_test(tc, download_asks_the_next_mirror);
    tcase_add_test(tc, download_without_a_network);
    tcase_add_loop_test(tc, download_takes_up_a_part, 0, 5);
    tcase_add_test(tc, download_of_a_bad_part_and_then_nothing);
    tcase_add_test(tc, download_stops_when_told_and_continues);
    tcase_add_test(tc, download_on_a_full_disk);
    tcase_add_test(tc, download_by_several_at_once_is_one);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    if (!spmd_dataset_downloader()) {
        puts("SKIP: downloads: this build has no libcurl");
        return 77;
    }
    return spmd_test_exit(srunner_create(suite()));
}
