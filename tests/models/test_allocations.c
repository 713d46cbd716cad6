/* A training takes its memory before and in its first step: none later, and each of these allocations may fail without
 * a leak or a hang. What libraries below allocate behind the toolkit's back is counted apart and printed. */
#include "models/train.h"
#include "spmd/testing.h"
#include <errno.h>
#include <stdatomic.h>

enum { BATCH = 64, INPUTS = 784, STEPS = 20 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

static atomic_long mallocs;

/* glibc lets a program replace malloc; a sanitizer has done so already. */
#if defined(__GLIBC__) && !defined(SANITIZED)
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size)
{
    atomic_fetch_add(&mallocs, 1);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    atomic_fetch_add(&mallocs, 1);
    return __libc_calloc(count, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    atomic_fetch_add(&mallocs, 1);
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    atomic_fetch_add(&mallocs, 1);
    *out = __libc_memalign(alignment, size);
    return *out ? 0 : ENOMEM;
}
#endif

static spmd_train_options small_options(const char *model, int64_t width)
{
    spmd_train_options options;
    ck_spmd_ok(spmd_train_defaults(model, &options));
    options.config.width = width;
    if (options.config.repeats)
        options.config.repeats = 4;
    options.batch = BATCH;
    return options;
}

static bool count_allocation(void *user, spmd_operation operation, size_t bytes)
{
    if (operation != SPMD_ALLOCATION)
        return true;
    (void)bytes;
    atomic_fetch_add((atomic_int *)user, 1);
    return true;
}

START_TEST(steps_after_the_first_take_no_memory)
{
    const char *name = _i ? "shared-mlp" : "mlp";
    spmd_mesh *mesh;
    spmd_trainer *trainer;
    spmd_train_options options = small_options(name, 64); /* the block's weight is packed */
    atomic_int own = 0;
    static float x[BATCH * INPUTS];
    static int32_t y[BATCH];
    for (int i = 0; i < BATCH * INPUTS; i++)
        x[i] = (float)(i % 17) / 17;
    ck_spmd_ok(spmd_mesh_create("data=2", spmd_test_backend(), &mesh));
    spmd_mesh_set_fault_hook(mesh, count_allocation, &own);
    ck_spmd_ok(spmd_trainer_create(mesh, &options, &trainer));
    int first = 0;
    long others = 0;
    for (int step = 0; step < STEPS; step++) {
        spmd_metrics metrics;
        ck_spmd_ok(spmd_trainer_step(trainer, x, y, &metrics));
        if (step == 0) {
            first = atomic_load(&own);
            others = atomic_load(&mallocs);
        }
    }
    others = atomic_load(&mallocs) - others;
    printf("%s: %d own allocations with the first step, then %d; malloc below: %.1f a step\n", name, first,
           atomic_load(&own) - first, (double)others / (STEPS - 1));
    ck_assert_int_gt(first, 0);
    ck_assert_msg(atomic_load(&own) == first, "%d own allocations in %d steps after the first",
                  atomic_load(&own) - first, STEPS - 1);
    spmd_trainer_destroy(trainer);
    ck_spmd_ok(spmd_mesh_destroy(mesh));
}
END_TEST

static bool refuse_one(void *user, spmd_operation operation, size_t bytes)
{
    if (operation != SPMD_ALLOCATION)
        return true;
    (void)bytes;
    return atomic_fetch_sub((atomic_int *)user, 1) != 0;
}

START_TEST(every_allocation_may_fail)
{
    spmd_train_options options = small_options("mlp", 4);
    const spmd_dataset_options small = {.train_count = BATCH, .test_count = 1};
    spmd_dataset data;
    ck_spmd_ok(spmd_dataset_load("synthetic", &small, &data));
    bool done = false;
    for (int n = 0; !done; n++) {
        spmd_mesh *mesh;
        spmd_trainer *trainer = NULL;
        spmd_train_result result;
        atomic_int left = n;
        ck_spmd_ok(spmd_mesh_create("data=2", spmd_test_backend(), &mesh));
        spmd_mesh_set_fault_hook(mesh, refuse_one, &left);
        spmd_status status = spmd_trainer_create(mesh, &options, &trainer);
        if (status == SPMD_OK)
            status = spmd_trainer_run(trainer, &data.train, 2, NULL, NULL, &result);
        done = atomic_load(&left) >= 0; /* it was never that many */
        ck_assert_msg(status == (done ? SPMD_OK : SPMD_ENOMEM), "allocation %d refused: %s, %s", n,
                      spmd_status_name(status), spmd_last_error());
        spmd_trainer_destroy(trainer);
        ck_spmd_ok(spmd_mesh_destroy(mesh));
    }
    spmd_dataset_free(&data);
}
END_TEST

SPMD_TEST_MAIN("allocations", tcase_add_loop_test(tc, steps_after_the_first_take_no_memory, 0, 2);
               tcase_add_test(tc, every_allocation_may_fail);)
