/* NCCL where it hurts: calls that do not match or do not come, and arithmetic that is not what one might expect. */
#include "nccl_ranks.h"
#include <math.h>

static void different_counts(nccl_rank *me)
{
    (void)ncclAllReduce(me->x, me->y, me->rank ? 10 : 20, ncclFloat32, ncclSum, me->comm, me->stream);
    must(cudaStreamSynchronize(me->stream) != cudaSuccess);
    emu_reset_device(me->rank);
    must(ncclCommAbort(me->comm) == ncclSuccess);
}

static void different_calls(nccl_rank *me)
{
    if (me->rank)
        (void)ncclAllGather(me->x, me->y, 10, ncclFloat32, me->comm, me->stream);
    else
        (void)ncclBroadcast(me->x, me->y, 10, ncclFloat32, 0, me->comm, me->stream);
    must(cudaStreamSynchronize(me->stream) != cudaSuccess);
    emu_reset_device(me->rank);
    must(ncclCommAbort(me->comm) == ncclSuccess);
}

START_TEST(calls_that_differ_name_both)
{
    ck_assert_int_eq(nccl_ranks_run(2, different_counts), 0);
    ck_assert(strstr(emu_report_text("nccl"), "ncclAllReduce(20 x float32, sum)") != NULL);
    ck_found("nccl", "ncclAllReduce(10 x float32, sum)");
    ck_assert_int_eq(nccl_ranks_run(2, different_calls), 0);
    ck_assert(strstr(emu_report_text("nccl"), "ncclAllGather(10 x float32)") != NULL);
    ck_found("nccl", "ncclBroadcast(10 x float32, root 0)");
}
END_TEST

static void one_does_not_call(nccl_rank *me)
{
    if (me->rank != 1)
        must(ncclAllReduce(me->x, me->y, 10, ncclFloat32, ncclSum, me->comm, me->stream) == ncclSuccess);
    must((cudaStreamSynchronize(me->stream) == cudaErrorLaunchTimeout) == (me->rank != 1));
    emu_reset_device(me->rank);
    must(ncclCommAbort(me->comm) == ncclSuccess);
    must(cudaStreamSynchronize(me->stream) == cudaSuccess); /* the waiting op has ended */
}

static void one_does_not_send(nccl_rank *me)
{
    if (me->rank == 0)
        must(ncclRecv(me->y, 10, ncclFloat32, 1, me->comm, me->stream) == ncclSuccess);
    must((cudaStreamSynchronize(me->stream) == cudaErrorLaunchTimeout) == (me->rank == 0));
    emu_reset_device(me->rank);
    must(ncclCommAbort(me->comm) == ncclSuccess);
    must(cudaStreamSynchronize(me->stream) == cudaSuccess);
}

START_TEST(a_missing_rank_is_a_hang_that_names_it)
{
    emu_set_timeout(0.5);
    ck_assert_int_eq(nccl_ranks_run(3, one_does_not_call), 0);
    ck_found("hang", "not called by rank 1");
    ck_assert_int_eq(nccl_ranks_run(2, one_does_not_send), 0);
    ck_found("hang", "no partner for the receive from rank 1");
    ck_assert_int_eq(emu_live(NULL), 0);
}
END_TEST

static void sends_too_much(nccl_rank *me)
{
    if (me->rank == 0)
        must(ncclSend(me->x, 10, ncclFloat32, 1, me->comm, me->stream) == ncclSuccess);
    else
        must(ncclRecv(me->y, 5, ncclFloat32, 0, me->comm, me->stream) == ncclSuccess);
    must(cudaStreamSynchronize(me->stream) == cudaSuccess);
    must(ncclCommDestroy(me->comm) == ncclSuccess);
}

static void allocates_in_flight(nccl_rank *me)
{
    void *p;
    must(ncclAllReduce(me->x, me->y, 10, ncclFloat32, ncclSum, me->comm, me->stream) == ncclSuccess);
    must(cudaMalloc(&p, 4) == cudaSuccess);
    must(cudaStreamSynchronize(me->stream) == cudaSuccess);
    int before = emu_reports("nccl");
    must(cudaFree(p) == cudaSuccess && before > 0);
    must(ncclCommDestroy(me->comm) == ncclSuccess);
}

/* Two communicators, whose collectives start in another order on each device. Nothing waits: only a real one can. */
static void orders_differ(nccl_rank *me)
{
    ncclComm_t other;
    cudaStream_t side;
    must(ncclCommSplit(me->comm, 0, 0, &other, NULL) == ncclSuccess);
    must(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking) == cudaSuccess);
    emu_configure(0, EMU_LATE, 1);
    must(ncclAllReduce(me->x, me->x, 10, ncclFloat32, ncclSum, me->rank ? me->comm : other, me->stream) == ncclSuccess);
    must(ncclAllReduce(me->y, me->y, 10, ncclFloat32, ncclSum, me->rank ? other : me->comm, side) == ncclSuccess);
    must(cudaStreamSynchronize(side) == cudaSuccess && cudaStreamSynchronize(me->stream) == cudaSuccess);
    must(cudaStreamDestroy(side) == cudaSuccess && ncclCommDestroy(other) == ncclSuccess);
    must(ncclCommDestroy(me->comm) == ncclSuccess);
}

static void overlaps(nccl_rank *me)
{
    must(ncclAllReduce(me->x, me->x + 1, 10, ncclFloat32, ncclSum, me->comm, me->stream) == ncclInvalidArgument);
    must(ncclAllGather(me->x, me->x + 1, 10, ncclFloat32, me->comm, me->stream) == ncclInvalidArgument);
    must(ncclCommDestroy(me->comm) == ncclSuccess);
}

static void uses_what_was_destroyed(nccl_rank *me)
{
    must(ncclCommDestroy(me->comm) == ncclSuccess);
    must(ncclAllReduce(me->x, me->y, 10, ncclFloat32, ncclSum, me->comm, me->stream) == ncclInvalidUsage);
}

static void uses_the_stream_of_another_device(nccl_rank *me)
{
    cudaStream_t stream;
    must(cudaSetDevice(1 - me->rank) == cudaSuccess);
    must(cudaStreamCreate(&stream) == cudaSuccess);
    must(ncclAllReduce(me->x, me->y, 10, ncclFloat32, ncclSum, me->comm, stream) == ncclInvalidArgument);
    must(cudaStreamDestroy(stream) == cudaSuccess && ncclCommDestroy(me->comm) == ncclSuccess);
}

static const struct {
    void (*body)(nccl_rank *);
    const char *word;
} misuses[] = {
    {sends_too_much, "sends 40 bytes"},     {allocates_in_flight, "cudaMalloc on device"}, {overlaps, "overlap"},
    {orders_differ, "the other way round"}, {uses_what_was_destroyed, "was destroyed"},
};

START_TEST(misuse_is_found)
{
    ck_assert_int_eq(nccl_ranks_run(2, misuses[_i].body), 0);
    ck_found("nccl", misuses[_i].word);
}
END_TEST

START_TEST(things_of_another_device_are_found)
{
    ck_assert_int_eq(nccl_ranks_run(2, uses_the_stream_of_another_device), 0);
    ck_found("device", "ncclAllReduce");
}
END_TEST

START_TEST(two_ranks_on_one_device_are_refused)
{
    ncclComm_t comms[2];
    int devices[2] = {1, 1};
    ck_assert_int_eq(ncclCommInitAll(comms, 2, devices), ncclInvalidUsage);
    ck_found("nccl", "Duplicate GPU");
    ck_assert_int_eq(emu_live(NULL), 0);
}
END_TEST

START_TEST(one_thread_needs_a_group)
{
    ncclComm_t comms[2];
    float *x[2];
    ck_nccl(ncclCommInitAll(comms, 2, NULL));
    for (int d = 0; d < 2; d++) {
        ck_cuda(cudaSetDevice(d));
        ck_cuda(cudaMalloc((void **)&x[d], 40));
        ck_cuda(cudaMemset(x[d], 0, 40));
    }
    for (int d = 0; d < 2; d++)
        ck_nccl(ncclAllReduce(x[d], x[d], 10, ncclFloat32, ncclSum, comms[d], NULL));
    ck_found("nccl", "outside of a group");
}
END_TEST

/* One element a rank, reduced; the bits of the result. */
static unsigned reduce(const unsigned short *values, int n, ncclRedOp_t op, unsigned seed)
{
    ncclComm_t comms[RANKS];
    unsigned short *x[RANKS], got = 0;
    emu_configure(0, EMU_RANDOM, seed);
    ck_nccl(ncclCommInitAll(comms, n, NULL));
    ck_nccl(ncclGroupStart());
    for (int r = 0; r < n; r++) {
        ck_cuda(cudaSetDevice(r));
        ck_cuda(cudaMalloc((void **)&x[r], 2));
        ck_cuda(cudaMemcpy(x[r], &values[r], 2, cudaMemcpyHostToDevice));
        ck_nccl(ncclAllReduce(x[r], x[r], 1, ncclBfloat16, op, comms[r], NULL));
    }
    ck_nccl(ncclGroupEnd());
    for (int r = n; r-- > 0;) {
        unsigned short mine;
        ck_cuda(cudaSetDevice(r));
        ck_cuda(cudaMemcpy(&mine, x[r], 2, cudaMemcpyDeviceToHost));
        ck_assert(r == n - 1 || mine == got); /* the same bits everywhere */
        got = mine;
    }
    for (int r = 0; r < n; r++) {
        ck_nccl(ncclCommDestroy(comms[r]));
        ck_cuda(cudaFree(x[r]));
    }
    return got;
}

START_TEST(arithmetic_is_ncclss_own)
{
    const unsigned short one = 0x3f80, tiny = 0x3b80 /* 2^-8 */, nan = 0x7fc0;
    const unsigned short parts[RANKS] = {one, tiny, tiny, tiny}, with_nan[2] = {nan, one};
    bool small_first = false, big_first = false;
    for (unsigned seed = 1; seed <= 20; seed++) { /* bf16 in bf16: 1 + 2^-8 is 1, but 3 * 2^-8 is kept */
        unsigned sum = reduce(parts, RANKS, ncclSum, seed);
        big_first |= sum == one;
        small_first |= sum > one;
    }
    ck_assert_msg(small_first && big_first, "the order of a sum depends on the seed");
    ck_assert_uint_eq(reduce(with_nan, 2, ncclMax, 1), one); /* NaN is dropped */
    ck_assert_uint_eq(reduce(with_nan, 2, ncclMin, 1), one);
    ck_assert_uint_eq(reduce(with_nan, 2, ncclSum, 1) & 0x7fffu, 0x7fffu);
    ck_clean();
}
END_TEST

EMU_TEST_MAIN("nccl misuse", tcase_add_checked_fixture(tc, nccl_test_setup, NULL);
              tcase_add_test(tc, calls_that_differ_name_both);
              tcase_add_test(tc, a_missing_rank_is_a_hang_that_names_it);
              tcase_add_loop_test(tc, misuse_is_found, 0, 5); tcase_add_test(tc, things_of_another_device_are_found);
              tcase_add_test(tc, two_ranks_on_one_device_are_refused); tcase_add_test(tc, one_thread_needs_a_group);
              tcase_add_test(tc, arithmetic_is_ncclss_own);)
