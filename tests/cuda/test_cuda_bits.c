/* All collectives on backend cuda: their bits are those of the host, whatever the order in which streams run and
 * however many GPUs the shards share. And where NCCL does them, what NCCL does otherwise does not show: it adds bf16 in
 * bf16, drops NaN in maxima and minima, and sums in an order of its own (tests/emu/test_nccl_misuse.cu). */
#include "spmd/testing.h"
#ifdef SPMD_EMU
#include "emu/emu.h"

enum { SHARDS = 4, DTYPES = 3, RESULTS = 9, OUTPUTS = DTYPES * (RESULTS + 1), SEEDS = 3 };

static spmd_status collective(spmd_ctx *ctx, int which, const spmd_tensor *in, spmd_tensor *out)
{
    static const int ring[SHARDS][2] = {{0, 1}, {1, 2}, {2, 3}, {3, 0}};
    switch (which) {
    case 0:
        return spmd_psum(ctx, in, "x", out);
    case 1:
        return spmd_pmean(ctx, in, "x", out);
    case 2:
        return spmd_pmax(ctx, in, "x", out);
    case 3:
        return spmd_pmin(ctx, in, "x", out);
    case 4:
        return spmd_all_gather(ctx, in, "x", &(spmd_gather_opts){.dim = 1}, out);
    case 5:
        return spmd_psum_scatter(ctx, in, "x", &(spmd_scatter_opts){.tiled = true}, out);
    case 6:
        return spmd_all_to_all(ctx, in, "x", &(spmd_exchange_opts){.concat = 1, .tiled = true}, out);
    case 7:
        return spmd_ppermute(ctx, in, "x", ring, SHARDS, out);
    default:
        return spmd_pbroadcast(ctx, in, "x", 2, out);
    }
}

/* The operand is computed right before every collective, and overwritten right after it. */
static spmd_status all_collectives(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    spmd_tensor grown[DTYPES];
    for (int k = 0; k < DTYPES; k++) {
        SPMD_TRY(spmd_add(ctx, &in[k], &in[k], &grown[k]));
        for (int which = 0; which < RESULTS; which++) {
            SPMD_TRY(collective(ctx, which, &grown[k], out++));
            SPMD_TRY(spmd_add(ctx, spmd_donate(&grown[k]), &in[k], &grown[k]));
        }
    }
    for (int k = 0; k < DTYPES; k++)
        spmd_donate(&grown[k]); /* in place: a share on each shard */
    return spmd_psum_list(ctx, grown, DTYPES, "x", out);
}

static void run(const char *backend, const spmd_value *in, spmd_value *out)
{
    setenv("SPMD_TEST_BACKEND", backend, true);
    for (int k = 0; k < OUTPUTS; k++)
        out[k] = (spmd_value){.spec = "x"};
    ck_spmd_ok(spmd_test_run("x=4", all_collectives, NULL, DTYPES, in, OUTPUTS, out));
}

static const int gpus[] = {1, 2, SHARDS};

START_TEST(bits_are_the_hosts)
{
    static const char *const transports[] = {"p2p", "copy"};
    static const spmd_dtype dtypes[DTYPES] = {SPMD_F32, SPMD_BF16, SPMD_I32};
    spmd_value in[DTYPES], want[OUTPUTS], got[OUTPUTS];
    emu_configure(gpus[_i / 2], EMU_EARLY, 0);
    setenv("SPMD_CUDA_TRANSPORT", transports[_i % 2], true);
    for (int k = 0; k < DTYPES; k++)
        in[k] = spmd_value_random(dtypes[k], "x", SPMD_SHAPE(20 * SHARDS, 3), 1000, (unsigned)k);
    run("host", in, want);
    for (int policy = EMU_EARLY; policy <= EMU_NEWEST; policy++)
        for (unsigned seed = 0; seed < SEEDS; seed++) {
            emu_configure(0, (emu_policy)policy, seed);
            run("cuda", in, got);
            for (int k = 0; k < OUTPUTS; k++)
                ck_assert_msg(!spmd_value_count_wrong(&got[k], &want[k]), "%d GPUs, %s, policy %d, seed %u: output %d",
                              gpus[_i / 2], transports[_i % 2], policy, seed, k);
            spmd_values_free(got, OUTPUTS);
        }
    spmd_values_free(in, DTYPES);
    spmd_values_free(want, OUTPUTS);
}
END_TEST

/* --- one number a shard --- */
enum { SUM, MAX, MIN, SCATTERED };

static spmd_status reduce(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    spmd_tensor all;
    switch (*(const int *)user) {
    case MAX:
        return spmd_pmax(ctx, in, "x", out);
    case MIN:
        return spmd_pmin(ctx, in, "x", out);
    case SCATTERED: /* of the sum of as many copies as there are shards, each gets one */
        SPMD_TRY(spmd_broadcast_to(ctx, in, SPMD_SHAPE(SHARDS), &all));
        return spmd_psum_scatter(ctx, &all, "x", &(spmd_scatter_opts){.tiled = true}, out);
    default:
        return spmd_psum(ctx, in, "x", out);
    }
}

static double reduced(int how, spmd_dtype dtype, const double *numbers)
{
    spmd_value x = spmd_value_zeros(dtype, "x", SPMD_SHAPE(SHARDS)), y = {.spec = "x"};
    for (int k = 0; k < SHARDS; k++)
        spmd_value_set(&x, k, numbers[k]);
    ck_spmd_ok(spmd_test_run("x=4", reduce, &how, 1, &x, 1, &y));
    double result = spmd_value_at(&y, 0);
    for (int k = 1; k < SHARDS; k++)
        ck_assert_msg(spmd_value_at(&y, k) == result || (isnan(result) && isnan(spmd_value_at(&y, k))),
                      "shard %d has %g, shard 0 %g", k, spmd_value_at(&y, k), result);
    spmd_values_free((spmd_value[]){x, y}, 2);
    return result;
}

START_TEST(semantics_do_not_depend_on_the_transport)
{
    static const char *const transports[] = {"p2p", "copy", "nccl"};
    static const spmd_dtype floats[] = {SPMD_F32, SPMD_BF16, SPMD_F16};
    emu_configure(SHARDS, EMU_RANDOM, 0);
    setenv("SPMD_TEST_BACKEND", "cuda", true);
    setenv("SPMD_CUDA_TRANSPORT", transports[_i], true);
    bool rank_order = false, another = false;
    for (unsigned seed = 0; seed < 4 * SEEDS; seed++) {
        emu_configure(0, EMU_RANDOM, seed);
        for (int how = SUM; how <= SCATTERED; how += SCATTERED) { /* in f32, rounded once */
            ck_assert(reduced(how, SPMD_BF16, (double[]){256, 1, 1, 1}) == 260);
            ck_assert(reduced(how, SPMD_F16, (double[]){2048, 1, 1, 1}) == 2052);
        }
        double numbers[SHARDS] = {1, 2, 3, 4};
        numbers[seed % SHARDS] = NAN;
        for (int f = 0; f < 3; f++)
            for (int how = SUM; how <= MIN; how++)
                ck_assert_msg(isnan(reduced(how, floats[f], numbers)), "%s, reduction %d: NaN of shard %u is lost",
                              spmd_dtype_name(floats[f]), how, seed % SHARDS);
        double sum = reduced(SUM, SPMD_F32, (double[]){1e8, 1, -1e8, 1});
        rank_order |= sum == 1;
        another |= sum == 0; /* the sum that starts at the second or the fourth */
    }
    ck_assert(rank_order && another == !strcmp(transports[_i], "nccl"));
}
END_TEST

SPMD_TEST_MAIN("cuda_bits", tcase_add_loop_test(tc, bits_are_the_hosts, 0, 6);
               tcase_add_loop_test(tc, semantics_do_not_depend_on_the_transport, 0, 3);)
#else
int main(void)
{
    return spmd_test_skip("needs the emulated CUDA (cmake --preset emu)");
}
#endif
