/* NCCL's calls compute what they promise, with threads, in groups, in place, in graphs and without blocking. */
#include "nccl_ranks.h"

static float sum_of_ranks(int n)
{
    return (float)(n * (n + 1) / 2);
}

static void collectives(nccl_rank *me)
{
    float got[RANKS * LENGTH];
    int n = me->n;
    must(ncclAllReduce(me->x, me->y, LENGTH, ncclFloat32, ncclSum, me->comm, me->stream) == ncclSuccess);
    nccl_rank_fetch(me, got, LENGTH);
    for (int i = 0; i < LENGTH; i++)
        must(got[i] == (float)(i + 1) * sum_of_ranks(n));
    must(ncclAllReduce(me->x, me->y, LENGTH, ncclFloat32, ncclMax, me->comm, me->stream) == ncclSuccess);
    nccl_rank_fetch(me, got, LENGTH);
    for (int i = 0; i < LENGTH; i++)
        must(got[i] == (float)((i + 1) * n));
    must(ncclAllGather(me->x, me->y, LENGTH, ncclFloat32, me->comm, me->stream) == ncclSuccess);
    nccl_rank_fetch(me, got, n * LENGTH);
    for (int i = 0; i < n * LENGTH; i++)
        must(got[i] == (float)((i % LENGTH + 1) * (i / LENGTH + 1)));
    must(ncclReduceScatter(me->x, me->y, LENGTH, ncclFloat32, ncclSum, me->comm, me->stream) == ncclSuccess);
    nccl_rank_fetch(me, got, LENGTH);
    for (int i = 0; i < LENGTH; i++)
        must(got[i] == (float)(me->rank * LENGTH + i + 1) * sum_of_ranks(n));
    must(ncclBroadcast(me->x, me->y, LENGTH, ncclFloat32, n - 1, me->comm, me->stream) == ncclSuccess);
    nccl_rank_fetch(me, got, LENGTH);
    for (int i = 0; i < LENGTH; i++)
        must(got[i] == (float)((i + 1) * n));
    must(ncclReduce(me->x, me->y, LENGTH, ncclFloat32, ncclMin, 0, me->comm, me->stream) == ncclSuccess);
    nccl_rank_fetch(me, got, LENGTH);
    for (int i = 0; i < LENGTH; i++)
        must(got[i] == (float)((i + 1) * (me->rank ? n : 1)));
    must(ncclCommDestroy(me->comm) == ncclSuccess);
}

static void in_place(nccl_rank *me)
{
    float got[RANKS * LENGTH];
    float *mine = me->y + me->rank * LENGTH;
    must(cudaMemcpyAsync(me->y, me->x, sizeof got, cudaMemcpyDeviceToDevice, me->stream) == cudaSuccess);
    must(ncclReduceScatter(me->y, mine, LENGTH, ncclFloat32, ncclSum, me->comm, me->stream) == ncclSuccess);
    must(ncclAllGather(mine, me->y, LENGTH, ncclFloat32, me->comm, me->stream) == ncclSuccess);
    must(ncclAllReduce(me->y, me->y, LENGTH, ncclFloat32, ncclAvg, me->comm, me->stream) == ncclSuccess);
    nccl_rank_fetch(me, got, me->n * LENGTH);
    for (int i = 0; i < me->n * LENGTH; i++)
        must(got[i] == (float)(i + 1) * sum_of_ranks(me->n));
    must(ncclCommDestroy(me->comm) == ncclSuccess);
}

/* A ring, with the two calls in one group; then halves of the ranks. */
static void ring_and_halves(nccl_rank *me)
{
    float got[LENGTH];
    int n = me->n, from = (me->rank + n - 1) % n, rank, size;
    ncclComm_t part;
    must(ncclGroupStart() == ncclSuccess);
    must(ncclSend(me->x, LENGTH, ncclFloat32, (me->rank + 1) % n, me->comm, me->stream) == ncclSuccess);
    must(ncclRecv(me->y, LENGTH, ncclFloat32, from, me->comm, me->stream) == ncclSuccess);
    must(ncclGroupEnd() == ncclSuccess);
    nccl_rank_fetch(me, got, LENGTH);
    for (int i = 0; i < LENGTH; i++)
        must(got[i] == (float)((i + 1) * (from + 1)));
    must(ncclCommSplit(me->comm, me->rank % 2, -me->rank, &part, NULL) == ncclSuccess);
    must(ncclCommUserRank(part, &rank) == ncclSuccess && ncclCommCount(part, &size) == ncclSuccess);
    must(size == (n + 1 - me->rank % 2) / 2 && rank == size - 1 - me->rank / 2); /* keys fall */
    must(ncclBroadcast(me->x, me->y, LENGTH, ncclFloat32, 0, part, me->stream) == ncclSuccess);
    nccl_rank_fetch(me, got, LENGTH);
    must(got[0] == (float)(me->rank % 2 + 2 * (size - 1) + 1));
    must(ncclCommDestroy(part) == ncclSuccess);
    must(ncclCommDestroy(me->comm) == ncclSuccess);
}

static void in_a_graph(nccl_rank *me)
{
    float got[LENGTH];
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    must(cudaStreamBeginCapture(me->stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    must(ncclAllReduce(me->x, me->y, LENGTH, ncclFloat32, ncclSum, me->comm, me->stream) == ncclSuccess);
    must(ncclAllReduce(me->y, me->x, LENGTH, ncclFloat32, ncclAvg, me->comm, me->stream) == ncclSuccess);
    must(cudaStreamEndCapture(me->stream, &graph) == cudaSuccess);
    must(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
    for (int i = 0; i < 3; i++)
        must(cudaGraphLaunch(exec, me->stream) == cudaSuccess);
    nccl_rank_fetch(me, got, LENGTH);
    float scale = sum_of_ranks(me->n); /* the first sum; then every rank holds it */
    for (int launch = 1; launch < 3; launch++)
        scale *= (float)me->n;
    must(got[1] == 2 * scale);
    must(cudaGraphExecDestroy(exec) == cudaSuccess && cudaGraphDestroy(graph) == cudaSuccess);
    must(ncclCommDestroy(me->comm) == ncclSuccess);
}

static void every_order(void (*body)(nccl_rank *))
{
    for (int policy = EMU_EARLY; policy <= EMU_NEWEST; policy++)
        for (unsigned seed = 1; seed <= 3; seed++)
            for (int n = 2; n <= RANKS; n++) {
                emu_configure(0, (emu_policy)policy, seed);
                ck_assert_msg(!nccl_ranks_run(n, body) && !emu_reports(NULL), "policy %d, seed %u, %d ranks: %s",
                              policy, seed, n, emu_report_text(NULL));
                ck_assert_int_eq(emu_live(NULL), 0);
            }
}

static void (*const bodies[])(nccl_rank *) = {collectives, in_place, ring_and_halves, in_a_graph};

START_TEST(ranks_in_threads)
{
    every_order(bodies[_i]);
}
END_TEST

START_TEST(one_thread_for_all_ranks)
{
    nccl_rank ranks[RANKS];
    ncclComm_t comms[RANKS];
    float got[LENGTH];
    ck_nccl(ncclCommInitAll(comms, RANKS, NULL));
    for (int r = 0; r < RANKS; r++) {
        ranks[r] = nccl_rank();
        ranks[r].rank = r;
        nccl_rank_prepare(&ranks[r]);
    }
    ck_nccl(ncclGroupStart());
    for (int r = 0; r < RANKS; r++)
        ck_nccl(ncclAllReduce(ranks[r].x, ranks[r].y, LENGTH, ncclFloat32, ncclSum, comms[r], ranks[r].stream));
    ck_nccl(ncclGroupEnd());
    for (int r = 0; r < RANKS; r++) {
        nccl_rank_fetch(&ranks[r], got, LENGTH);
        ck_assert(got[2] == 3 * sum_of_ranks(RANKS));
        ck_nccl(ncclCommDestroy(comms[r]));
        ck_assert_int_eq(ranks[r].wrong, 0);
    }
    ck_clean();
}
END_TEST

/* Polls as a program must. */
static ncclResult_t settle(ncclComm_t comm)
{
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress)
        if (ncclCommGetAsyncError(comm, &state) != ncclSuccess)
            return ncclInternalError;
    return state;
}

static void *without_blocking(void *argument)
{
    nccl_rank *me = (nccl_rank *)argument;
    float got[LENGTH];
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    nccl_rank_prepare(me);
    must(ncclCommInitRankConfig(&me->comm, me->n, me->id, me->rank, &config) == ncclInProgress);
    must(settle(me->comm) == ncclSuccess);
    must(ncclAllReduce(me->x, me->y, LENGTH, ncclFloat32, ncclSum, me->comm, me->stream) == ncclInProgress);
    /* too early: the call before is not known to have ended */
    must(ncclAllReduce(me->x, me->y, LENGTH, ncclFloat32, ncclSum, me->comm, me->stream) == ncclInvalidArgument);
    must(settle(me->comm) == ncclSuccess);
    nccl_rank_fetch(me, got, LENGTH);
    must(got[2] == 3 * sum_of_ranks(me->n));
    must(ncclCommFinalize(me->comm) == ncclInProgress && settle(me->comm) == ncclSuccess);
    must(ncclCommDestroy(me->comm) == ncclSuccess);
    nccl_rank_release(me);
    return NULL;
}

START_TEST(communicators_that_do_not_block)
{
    nccl_rank ranks[2];
    pthread_t threads[2];
    ncclUniqueId id;
    ck_nccl(ncclGetUniqueId(&id));
    for (int r = 0; r < 2; r++) {
        ranks[r] = nccl_rank();
        ranks[r].rank = r;
        ranks[r].n = 2;
        ranks[r].id = id;
        pthread_create(&threads[r], NULL, without_blocking, &ranks[r]);
    }
    for (int r = 0; r < 2; r++) {
        pthread_join(threads[r], NULL);
        ck_assert_int_eq(ranks[r].wrong, 0);
    }
    ck_found("nccl", "ncclCommGetAsyncError");
    ck_assert_int_eq(emu_live(NULL), 0);
}
END_TEST

EMU_TEST_MAIN("nccl", tcase_add_checked_fixture(tc, nccl_test_setup, NULL);
              tcase_add_loop_test(tc, ranks_in_threads, 0, 4); tcase_add_test(tc, one_thread_for_all_ranks);
              tcase_add_test(tc, communicators_that_do_not_block);)
