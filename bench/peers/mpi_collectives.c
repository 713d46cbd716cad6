/* The bench's loops in MPI: the same operations, sizes and statistics, one JSON line a size from rank 0.
 * usage: mpirun -n N mpi_collectives OPS FIRST LAST FACTOR, for example: psum,all_gather 1024 67108864 16
 *
 * Bytes are the larger one of a rank's input and output. A reduction is measured in place and out of place; the faster
 * form counts. Started and compiled by bench/compare-peers; not part of the build. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 11, MOST_CALLS = 10000 };
static const double SAMPLE_SECONDS = 4e-3;

typedef struct buffers {
    float *in, *out;
    int count, cut; /* floats of the size, and of one rank's part of it */
    int rank, ranks;
    int in_place;
} buffers;

typedef struct row {
    const char *name;
    int reduces; /* has a form in place */
    int in_cut, out_cut;
    void (*run)(const buffers *b);
    float (*expect)(const buffers *b, int i); /* if every rank's input is rank + 1 */
} row;

static void run_psum(const buffers *b)
{
    if (b->in_place)
        MPI_Allreduce(MPI_IN_PLACE, b->in, b->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else
        MPI_Allreduce(b->in, b->out, b->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void run_pmax(const buffers *b)
{
    if (b->in_place)
        MPI_Allreduce(MPI_IN_PLACE, b->in, b->count, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
    else
        MPI_Allreduce(b->in, b->out, b->count, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
}

static void run_all_gather(const buffers *b)
{
    MPI_Allgather(b->in, b->cut, MPI_FLOAT, b->out, b->cut, MPI_FLOAT, MPI_COMM_WORLD);
}

static void run_psum_scatter(const buffers *b)
{
    MPI_Reduce_scatter_block(b->in, b->out, b->cut, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void run_all_to_all(const buffers *b)
{
    MPI_Alltoall(b->in, b->cut, MPI_FLOAT, b->out, b->cut, MPI_FLOAT, MPI_COMM_WORLD);
}

static void run_ppermute(const buffers *b)
{
    MPI_Sendrecv(b->in, b->count, MPI_FLOAT, (b->rank + 1) % b->ranks, 0, b->out, b->count, MPI_FLOAT,
                 (b->rank + b->ranks - 1) % b->ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* MPI's broadcast has one buffer: it is the output, and the source's input as well. */
static void run_pbroadcast(const buffers *b)
{
    MPI_Bcast(b->rank == b->ranks - 1 ? b->in : b->out, b->count, MPI_FLOAT, b->ranks - 1, MPI_COMM_WORLD);
}

static float sum_of(const buffers *b, int i)
{
    (void)i;
    return (float)(b->ranks * (b->ranks + 1) / 2);
}

static float last_of(const buffers *b, int i)
{
    (void)i;
    return (float)b->ranks;
}

static float block_of(const buffers *b, int i)
{
    return (float)(i / b->cut + 1);
}

static float left_of(const buffers *b, int i)
{
    (void)i;
    return (float)((b->rank + b->ranks - 1) % b->ranks + 1);
}

static const row rows[] = {
    {"psum", 1, 0, 0, run_psum, sum_of},
    {"pmax", 1, 0, 0, run_pmax, last_of},
    {"all_gather", 0, 1, 0, run_all_gather, block_of},
    {"psum_scatter", 0, 0, 1, run_psum_scatter, sum_of},
    {"all_to_all", 0, 0, 0, run_all_to_all, block_of},
    {"ppermute", 0, 0, 0, run_ppermute, left_of},
    {"pbroadcast", 0, 0, 0, run_pbroadcast, last_of},
};

static int in_count(const row *r, const buffers *b)
{
    return r->in_cut ? b->cut : b->count;
}

static int out_count(const row *r, const buffers *b)
{
    return r->out_cut ? b->cut : b->count;
}

/* Where the result is; the source of a broadcast has it in its input. */
static const float *result_of(const row *r, const buffers *b)
{
    return b->in_place || (r->run == run_pbroadcast && b->rank == b->ranks - 1) ? b->in : b->out;
}

static void check(const row *r, const buffers *b)
{
    for (int i = 0; i < in_count(r, b); i++)
        b->in[i] = (float)(b->rank + 1);
    r->run(b);
    const float *result = result_of(r, b);
    for (int i = 0; i < out_count(r, b); i++)
        if (result[i] != r->expect(b, i)) {
            fprintf(stderr, "mpi_collectives: %s: element %d is %g, wanted %g\n", r->name, i, (double)result[i],
                    (double)r->expect(b, i));
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
}

static volatile uint64_t sink; /* what was read is used */

static void write_read(const row *r, const buffers *b, int k)
{
    uint64_t *in = (uint64_t *)(void *)b->in, pattern = k % 2 ? UINT64_C(0x3f8000003f800000) : 0, sum = 0;
    for (int i = 0; i < in_count(r, b) / 2; i++)
        in[i] = pattern;
    r->run(b);
    const uint64_t *out = (const uint64_t *)(const void *)result_of(r, b);
    for (int i = 0; i < out_count(r, b) / 2; i++)
        sum += out[i];
    sink += sum;
}

static double seconds(const row *r, const buffers *b, int honest, int calls)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int k = 0; k < calls; k++)
        if (honest)
            write_read(r, b, k);
        else
            r->run(b);
    MPI_Barrier(MPI_COMM_WORLD);
    return (MPI_Wtime() - start) / calls;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* us a call: the median of the samples. */
static double measure(const row *r, const buffers *b, int honest)
{
    double sample[SAMPLES];
    for (int k = 0; k < 2; k++) /* the first one meets cold memory */
        sample[0] = seconds(r, b, honest, 8);
    double fit = SAMPLE_SECONDS / sample[0];
    int calls = fit < 1 ? 1 : fit > MOST_CALLS ? MOST_CALLS : (int)fit;
    MPI_Bcast(&calls, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int k = 0; k < SAMPLES; k++)
        sample[k] = seconds(r, b, honest, calls);
    qsort(sample, SAMPLES, sizeof *sample, ascending);
    return 1e6 * sample[SAMPLES / 2];
}

static void run_size(const row *r, buffers *b)
{
    double us[2] = {0};
    for (int form = 0; form <= r->reduces; form++) {
        b->in_place = form;
        check(r, b);
        for (int honest = 0; honest < 2; honest++) {
            double t = measure(r, b, honest);
            us[honest] = form && us[honest] < t ? us[honest] : t;
        }
    }
    if (b->rank == 0) {
        printf("{\"op\": \"%s\", \"bytes\": %lld, \"us\": %.4f, \"honest_us\": %.4f}\n", r->name,
               (long long)b->count * (long long)sizeof(float), us[0], us[1]);
        fflush(stdout);
    }
}

static void run_op(const char *name, long long first, long long last, long long factor)
{
    const row *r = rows;
    while (r < rows + sizeof rows / sizeof *rows && strcmp(r->name, name) != 0)
        r++;
    if (r == rows + sizeof rows / sizeof *rows)
        return; /* not every collective has a counterpart */
    buffers b = {0};
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b.ranks);
    for (long long bytes = first; bytes <= last; bytes *= factor) {
        b.cut = (int)((bytes / (long long)sizeof(float) + b.ranks - 1) / b.ranks);
        b.count = b.cut * b.ranks;
        size_t room = ((size_t)b.count * sizeof(float) + 63) / 64 * 64;
        b.in = aligned_alloc(64, room);
        b.out = aligned_alloc(64, room);
        if (!b.in || !b.out)
            MPI_Abort(MPI_COMM_WORLD, 1);
        memset(b.out, 0, room);
        run_size(r, &b);
        free(b.in);
        free(b.out);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 5 || atoll(argv[2]) < 4 || atoll(argv[3]) > (1ll << 32) || atoll(argv[4]) < 2) {
        fprintf(stderr, "usage: mpi_collectives OPS FIRST LAST FACTOR\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (char *name = strtok(argv[1], ","); name; name = strtok(NULL, ","))
        run_op(name, atoll(argv[2]), atoll(argv[3]), atoll(argv[4]));
    MPI_Finalize();
    return 0;
}
