/* Random programs of kernels and copies on several streams, ordered by just the events that they need: every order of
 * execution gives the numbers of the program's text order, and no finding. Without one of the events there is one. */
#include "emu_test.h"
#include "spmd/cuda.cuh"
#include <stdio.h>
#include <vector>

enum { STREAMS = 3, BUFFERS = 5, OPS = 30, N = 64, PROGRAMS = 12 };

__global__ void mix(const float *from, float *to, float factor)
{
    int i = threadIdx.x;
    to[i] = 0.5f * to[i] + factor * from[i];
}

struct random_numbers {
    unsigned state;
    int below(int n)
    {
        state = state * 1664525u + 1013904223u;
        return static_cast<int>((state >> 8) % static_cast<unsigned>(n));
    }
};

struct op {
    int stream, from, to;
    float factor;
    std::vector<int> after; /* ops of other streams that touch the same buffers */
};

static bool conflict(const op &a, const op &b)
{
    return a.to == b.to || a.to == b.from || a.from == b.to;
}

static std::vector<op> make_program(unsigned seed)
{
    random_numbers r = {seed};
    std::vector<op> ops(OPS);
    for (int i = 0; i < OPS; i++) {
        op &o = ops[i];
        o.stream = r.below(STREAMS);
        o.from = r.below(BUFFERS);
        o.to = (o.from + 1 + r.below(BUFFERS - 1)) % BUFFERS;
        o.factor = 0.25f * static_cast<float>(1 + r.below(7));
        for (int k = 0; k < i; k++)
            if (ops[k].stream != o.stream && conflict(ops[k], o))
                o.after.push_back(k);
    }
    return ops;
}

static std::vector<float> in_text_order(const std::vector<op> &ops)
{
    std::vector<float> value(BUFFERS);
    for (int b = 0; b < BUFFERS; b++)
        value[b] = static_cast<float>(b + 1);
    for (const op &o : ops)
        value[o.to] = 0.5f * value[o.to] + o.factor * value[o.from];
    return value;
}

/* `forgotten`: an op that waits for nothing; -1: none. `graph`: captured and launched. */
static std::vector<float> run(const std::vector<op> &ops, int forgotten, bool graph)
{
    float *buffer[BUFFERS], host[N];
    cudaStream_t stream[STREAMS];
    cudaEvent_t event[OPS], edge;
    std::vector<float> result(BUFFERS);
    for (int s = 0; s < STREAMS; s++)
        ck_cuda(cudaStreamCreateWithFlags(&stream[s], cudaStreamNonBlocking));
    for (int b = 0; b < BUFFERS; b++) {
        for (float &x : host)
            x = static_cast<float>(b + 1);
        ck_cuda(cudaMalloc(reinterpret_cast<void **>(&buffer[b]), sizeof host));
        ck_cuda(cudaMemcpy(buffer[b], host, sizeof host, cudaMemcpyHostToDevice));
    }
    ck_cuda(cudaDeviceSynchronize());
    ck_cuda(cudaEventCreateWithFlags(&edge, cudaEventDisableTiming));
    if (graph)
        ck_cuda(cudaStreamBeginCapture(stream[0], cudaStreamCaptureModeThreadLocal));
    ck_cuda(cudaEventRecord(edge, stream[0]));
    for (int s = 1; s < STREAMS; s++)
        ck_cuda(cudaStreamWaitEvent(stream[s], edge, 0));
    for (int i = 0; i < OPS; i++) {
        const op &o = ops[i];
        for (int k : o.after)
            if (i != forgotten)
                ck_cuda(cudaStreamWaitEvent(stream[o.stream], event[k], 0));
        SPMD_LAUNCH((mix), 1, N, 0, stream[o.stream], buffer[o.from], buffer[o.to], o.factor);
        ck_cuda(cudaGetLastError());
        ck_cuda(cudaEventCreateWithFlags(&event[i], cudaEventDisableTiming));
        ck_cuda(cudaEventRecord(event[i], stream[o.stream]));
    }
    for (int s = 1; s < STREAMS; s++) {
        ck_cuda(cudaEventRecord(edge, stream[s]));
        ck_cuda(cudaStreamWaitEvent(stream[0], edge, 0));
    }
    if (graph) {
        cudaGraph_t captured;
        cudaGraphExec_t exec;
        ck_cuda(cudaStreamEndCapture(stream[0], &captured));
        ck_cuda(cudaGraphInstantiate(&exec, captured, 0));
        ck_cuda(cudaGraphLaunch(exec, stream[0]));
        ck_cuda(cudaGraphExecDestroy(exec));
        ck_cuda(cudaGraphDestroy(captured));
    }
    ck_cuda(cudaStreamSynchronize(stream[0]));
    for (int b = 0; b < BUFFERS; b++) {
        ck_cuda(cudaMemcpy(host, buffer[b], sizeof host, cudaMemcpyDeviceToHost));
        result[b] = host[N - 1];
        ck_cuda(cudaFree(buffer[b]));
    }
    for (cudaStream_t s : stream)
        ck_cuda(cudaStreamDestroy(s));
    for (cudaEvent_t e : event)
        ck_cuda(cudaEventDestroy(e));
    ck_cuda(cudaEventDestroy(edge));
    return result;
}

START_TEST(every_order_gives_the_same)
{
    for (unsigned seed = 1; seed <= PROGRAMS; seed++) {
        std::vector<op> ops = make_program(seed);
        std::vector<float> want = in_text_order(ops);
        emu_configure(0, static_cast<emu_policy>(_i / 2), seed);
        std::vector<float> got = run(ops, -1, _i % 2);
        for (int b = 0; b < BUFFERS; b++)
            ck_assert_msg(got[b] == want[b], "policy %d, seed %u, buffer %d: %g, not %g", _i / 2, seed, b, got[b],
                          want[b]);
        ck_assert_msg(!emu_reports(NULL), "policy %d, seed %u: %s", _i / 2, seed, emu_report_text(NULL));
    }
    ck_assert_int_eq(emu_live(NULL), 0);
}
END_TEST

/* Is op i ordered behind op k by streams and the events of ops other than `without`? */
static bool ordered(const std::vector<op> &ops, int k, int i, int without)
{
    std::vector<bool> before(OPS, false);
    before[k] = true;
    for (int j = k + 1; j <= i; j++) {
        for (int m = k; m < j; m++)
            if (before[m] && ops[m].stream == ops[j].stream)
                before[j] = true;
        for (int m : ops[j].after)
            if (j != without && before[m])
                before[j] = true;
    }
    return before[i];
}

START_TEST(a_forgotten_event_is_found)
{
    int tried = 0;
    for (unsigned seed = 1; seed <= PROGRAMS; seed++) {
        std::vector<op> ops = make_program(seed);
        for (int i = OPS / 2; i < OPS; i += 5) {
            bool matters = false;
            for (int k : ops[i].after)
                matters = matters || !ordered(ops, k, i, i);
            emu_configure(0, static_cast<emu_policy>(_i / 2), seed);
            (void)run(ops, i, _i % 2);
            ck_assert_msg((emu_reports("stream-race") > 0) == matters, "policy %d, seed %u, op %d: %s '%s'", _i / 2,
                          seed, i, matters ? "not found" : "found", emu_report_text(NULL));
            emu_clear_reports();
            tried += matters;
        }
    }
    ck_assert(tried > PROGRAMS / 2);
}
END_TEST

EMU_TEST_MAIN("schedules", tcase_add_loop_test(tc, every_order_gives_the_same, 0, 8);
              tcase_add_loop_test(tc, a_forgotten_event_is_found, 0, 8);)
