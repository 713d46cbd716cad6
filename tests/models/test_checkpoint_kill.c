/* kill -9 at random moments while checkpoints are written: the newest complete one always loads, and the run that was
 * broken so often ends with the bits of one that was not. */
#include "tests/models/tiny_training.h"
#include <signal.h>
#include <sys/wait.h>

enum { KILLS = 50, STEPS = 100000 };

static char folder[PATH_SIZE];

static void make(void)
{
    folder_make(folder);
}

static void removed(void)
{
    folder_remove(folder);
}

/* Large enough that a checkpoint takes a while to write. */
static void create(tiny *t)
{
    tiny_begin(t, "data=2");
    t->options.config.width = 400;
    tiny_create(t);
}

/* A process that goes on from where the last one was killed and saves after every step; returns when it has begun. */
static pid_t start(void)
{
    int ready[2];
    char byte = 0;
    ck_assert_int_eq(pipe(ready), 0);
    pid_t child = fork();
    if (child != 0) {
        close(ready[1]);
        ck_assert_msg(read(ready[0], &byte, 1) == 1, "the training did not begin");
        close(ready[0]);
        return child;
    }
    tiny t;
    spmd_checkpoint_info info;
    create(&t);
    if (spmd_checkpoints_find(folder, false, &info, NULL, 0) == SPMD_OK &&
        spmd_checkpoints_load(t.trainer, &info, false) != SPMD_OK)
        _exit(2);
    if (write(ready[1], &byte, 1) != 1)
        _exit(4);
    for (int64_t k = spmd_trainer_steps(t.trainer); k < STEPS; k++) {
        tiny_run(&t, 1);
        if (spmd_checkpoints_save(t.trainer, folder, 2, (double)k) != SPMD_OK)
            _exit(3);
    }
    _exit(0);
}

static int64_t newest_step(void)
{
    spmd_checkpoint_info info;
    char notice[1200] = "";
    spmd_status status = spmd_checkpoints_find(folder, false, &info, notice, sizeof notice);
    if (status == SPMD_EIO)
        return 0; /* killed before the first one */
    ck_assert_msg(status == SPMD_OK && !notice[0], "%s %s", spmd_last_error(), notice);
    return info.step;
}

START_TEST(the_newest_complete_one_always_loads)
{
    int64_t reached = 0;
    int advanced = 0, window = 30000; /* us; longer where a step takes longer */
    unsigned seed = (unsigned)getpid();
    printf("seed %u\n", seed);
    for (int k = 0; k < KILLS; k++) {
        int status;
        pid_t child = start();
        ck_assert_int_gt(child, 0);
        usleep((useconds_t)(rand_r(&seed) % window));
        ck_assert_int_eq(kill(child, SIGKILL), 0);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_msg(WIFSIGNALED(status), "the training ended by itself: exit code %d", WEXITSTATUS(status));
        int64_t step = newest_step();
        ck_assert_int_ge(step, reached);
        advanced += step > reached;
        window *= step > reached || window > 500000 ? 1 : 2;
        reached = step;
    }
    printf("%d kills, %d runs that got on, %lld steps\n", KILLS, advanced, (long long)reached);
    ck_assert_int_gt(advanced, 0);
    tiny t, whole;
    spmd_checkpoint_info info;
    create(&t);
    ck_spmd_ok(spmd_checkpoints_find(folder, false, &info, NULL, 0));
    ck_spmd_ok(spmd_checkpoints_load(t.trainer, &info, false));
    tiny_run(&t, 10);
    create(&whole);
    tiny_run(&whole, reached + 10);
    ck_assert(tiny_fingerprint(&t) == tiny_fingerprint(&whole));
    tiny_end(&t);
    tiny_end(&whole);
}
END_TEST

SPMD_TEST_MAIN("checkpoint kill", tcase_set_timeout(tc, 4 * spmd_test_timeout());
               tcase_add_checked_fixture(tc, make, removed); tcase_add_test(tc, the_newest_complete_one_always_loads);)
