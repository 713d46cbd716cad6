/* The race checks against a model: random programs of reads, writes and barriers. The model compares every pair of
 * accesses; the checker keeps a few words about each byte, and must find a race exactly if there is one. */
#include "emu_test.h"
#include "spmd/cuda.cuh"

enum { BLOCKS = 2, WARPS = 2, THREADS = 32 * WARPS, STEPS = 5, BYTES = 16, PROGRAMS = 600 };
enum { NOTHING, READ, WRITE, ADD };
enum { NO_BARRIER, SYNCWARP, SYNCTHREADS };

struct action {
    unsigned char what, size, at;
};

struct program {
    action step[STEPS][BLOCKS][THREADS];
    unsigned char barrier[STEPS]; /* behind the step */
};

template <class T> static __device__ float do_action(char *memory, action a)
{
    T *p = reinterpret_cast<T *>(memory + a.at);
    if (a.what == READ)
        return float(*p);
    if (a.what == WRITE)
        *p = T(1.0f);
    return 0;
}

static __device__ float do_step(char *memory, action a)
{
    if (a.what == ADD)
        return float(atomicAdd(reinterpret_cast<int *>(memory + a.at), 1));
    return a.size == 1   ? do_action<signed char>(memory, a)
           : a.size == 2 ? do_action<__nv_bfloat16>(memory, a)
                         : do_action<float>(memory, a);
}

__global__ void interpret(const program *p, char *global, float *out)
{
    SPMD_SMEM(int, shared, [BYTES / 4]);
    char *memory = global ? global : reinterpret_cast<char *>(shared);
    if (!global && threadIdx.x < BYTES / 4)
        shared[threadIdx.x] = 0;
    __syncthreads();
    float sum = 0;
    for (int s = 0; s < STEPS; s++) {
        sum += do_step(memory, p->step[s][blockIdx.x][threadIdx.x]);
        if (p->barrier[s] == SYNCWARP)
            __syncwarp();
        else if (p->barrier[s] == SYNCTHREADS)
            __syncthreads();
    }
    out[blockIdx.x * THREADS + threadIdx.x] = sum;
}

/* --- the model --- */
static bool conflict(action a, action b)
{
    bool overlap = a.at < b.at + b.size && b.at < a.at + a.size;
    return a.what && b.what && overlap && (a.what != READ || b.what != READ) && !(a.what == ADD && b.what == ADD);
}

/* Whether step s of one thread happens before the later step t of another thread of the block. */
static bool ordered(const program *p, int s, int t, bool same_warp)
{
    for (; s < t; s++)
        if (p->barrier[s] == SYNCTHREADS || (p->barrier[s] == SYNCWARP && same_warp))
            return true;
    return false;
}

static bool races(const program *p, bool global)
{
    for (int a = 0; a < BLOCKS * THREADS; a++)
        for (int b = 0; b < BLOCKS * THREADS; b++)
            for (int s = 0; a != b && s < STEPS; s++)
                for (int t = s; t < STEPS; t++) {
                    bool same_block = a / THREADS == b / THREADS;
                    if ((same_block || global) &&
                        conflict(p->step[s][a / THREADS][a % THREADS], p->step[t][b / THREADS][b % THREADS]) &&
                        !(same_block && ordered(p, s, t, a / 32 == b / 32)))
                        return true;
                }
    return false;
}

static unsigned random_below(unsigned *state, unsigned n)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % n;
}

/* Few threads do something, so that about half of the programs have no race. One block acts when it is global. */
static program make_program(unsigned seed, bool global)
{
    program p;
    memset(&p, 0, sizeof p);
    unsigned state = seed * 2654435761u, actors = 1 + random_below(&state, global ? 2 : 4);
    unsigned writers = 1 + random_below(&state, 6);
    for (int s = 0; s < STEPS; s++) {
        p.barrier[s] = (unsigned char)random_below(&state, 3);
        for (unsigned k = 0; k < actors; k++) {
            unsigned thread = random_below(&state, THREADS), block = random_below(&state, global ? 20 : BLOCKS);
            action *a = &p.step[s][block < BLOCKS ? block : 0][thread];
            a->size = (unsigned char)(1u << random_below(&state, 3));
            a->at = (unsigned char)(random_below(&state, BYTES / a->size) * a->size);
            a->what = random_below(&state, writers) == 0 ? WRITE : READ;
            if (a->size == 4 && random_below(&state, 4) == 0)
                a->what = ADD;
        }
    }
    return p;
}

START_TEST(races_are_found_exactly_where_they_are)
{
    bool global = _i != 0;
    int with_race = 0;
    program *dp = nullptr;
    char *memory = nullptr;
    float *out = nullptr;
    ck_cuda(cudaMalloc(reinterpret_cast<void **>(&dp), sizeof *dp));
    ck_cuda(cudaMalloc(reinterpret_cast<void **>(&memory), BYTES));
    ck_cuda(cudaMalloc(reinterpret_cast<void **>(&out), BLOCKS * THREADS * sizeof *out));
    for (unsigned seed = 1; seed <= PROGRAMS; seed++) {
        program p = make_program(seed, global);
        bool race = races(&p, global);
        ck_cuda(cudaMemset(memory, 0, BYTES));
        ck_cuda(cudaMemcpy(dp, &p, sizeof p, cudaMemcpyHostToDevice));
        SPMD_LAUNCH((interpret), BLOCKS, THREADS, 0, nullptr, dp, global ? memory : nullptr, out);
        ck_cuda(cudaDeviceSynchronize());
        ck_assert_msg((emu_reports(global ? "race" : "racecheck") > 0) == race, "program %u %s a race, found: '%s'",
                      seed, race ? "has" : "has not", emu_report_text(NULL));
        ck_assert_int_eq(emu_reports(NULL), emu_reports(global ? "race" : "racecheck"));
        emu_clear_reports();
        with_race += race;
    }
    ck_assert_msg(with_race > PROGRAMS / 5 && with_race < PROGRAMS * 4 / 5, "%d of %d programs race", with_race,
                  PROGRAMS);
}
END_TEST

EMU_TEST_MAIN("race model", tcase_add_loop_test(tc, races_are_found_exactly_where_they_are, 0, 2);)
