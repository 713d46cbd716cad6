/* More than 2^31 bytes and elements: no index is an int. Needs 7 GiB of memory and some seconds. */
#include "tests/collectives/pattern.h"

enum { NEEDED_GIB = 12 };

static int64_t available_gib(void)
{
    long long kib = 0;
    char line[256];
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file) && sscanf(line, "MemAvailable: %lld", &kib) != 1)
        ;
    if (file)
        fclose(file);
    return kib >> 20;
}

static spmd_status run(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)in;
    const pattern *p = user;
    spmd_tensor t;
    SPMD_TRY(pattern_make(ctx, p, &t));
    if (p->kind == GATHER)
        SPMD_TRY(spmd_all_gather(ctx, &t, "x", &(spmd_gather_opts){.tiled = true}, &t));
    else
        SPMD_TRY(spmd_psum(ctx, spmd_donate(&t), "x", &t));
    SPMD_CHECK(spmd_count(&t) > INT32_MAX, SPMD_EUSER, "only %lld elements", (long long)spmd_count(&t));
    return pattern_check(ctx, p, &t, out);
}

START_TEST(large_counts)
{
    pattern p = {.kind = _i ? GATHER : PSUM, .dtype = SPMD_U8, .count = (_i ? 1LL << 30 : 1LL << 31) + 33, .shards = 2};
    spmd_value wrong = {.spec = "x"};
    pattern_ops(&p);
    ck_spmd_ok(spmd_test_run("x=2", run, &p, 0, NULL, 1, &wrong));
    ck_assert_msg(spmd_value_at(&wrong, 0) == 0 && spmd_value_at(&wrong, 1) == 0, "%g and %g wrong",
                  spmd_value_at(&wrong, 0), spmd_value_at(&wrong, 1));
    spmd_value_free(&wrong);
}
END_TEST

int main(void)
{
    if (spmd_test_timeout() > 60) /* longer under sanitizers */
        return spmd_test_skip("sanitizers need a multiple of the memory");
    if (available_gib() < NEEDED_GIB)
        return spmd_test_skip("less than 12 GiB of memory are available");
    Suite *suite = suite_create("huge");
    TCase *tc = tcase_create("huge");
    tcase_set_timeout(tc, 2 * spmd_test_timeout());
    tcase_add_loop_test(tc, large_counts, 0, 2);
    suite_add_tcase(suite, tc);
    return spmd_test_exit(srunner_create(suite));
}
