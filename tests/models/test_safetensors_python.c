/* A checkpoint, read by the reference implementation: Python's safetensors, from $SPMD_PYTHON or python3. */
#include "tests/models/tiny_training.h"

static char folder[PATH_SIZE];

static void make(void)
{
    folder_make(folder);
}

static void removed(void)
{
    folder_remove(folder);
}

static const char *python(void)
{
    const char *own = getenv("SPMD_PYTHON");
    return own ? own : "python3";
}

START_TEST(python_reads_a_checkpoint)
{
    static const char script[] = "import sys\n"
                                 "from safetensors import safe_open\n"
                                 "with safe_open(sys.argv[1], 'np') as f:\n"
                                 "    assert f.metadata()['model'] == 'mlp' and f.metadata()['step'] == '7'\n"
                                 "    assert len(f.keys()) == 18, f.keys()\n"
                                 "    w = f.get_tensor('w1')\n"
                                 "    assert w.shape == (20, 16) and str(w.dtype) == 'float32'\n"
                                 "    open(sys.argv[2], 'wb').write(w.tobytes())\n";
    char path[PATH_SIZE], bytes[PATH_SIZE], command[4 * PATH_SIZE];
    tiny t;
    spmd_checkpoint_info info;
    float want[TINY_INPUTS * 16];
    tiny_begin(&t, "data=2");
    tiny_create(&t);
    tiny_run(&t, 7);
    ck_spmd_ok(spmd_checkpoints_save(t.trainer, folder, 1, NAN));
    ck_spmd_ok(spmd_checkpoints_find(folder, false, &info, NULL, 0));
    file_write(path_in(path, folder, "read.py"), script, sizeof script - 1);
    snprintf(command, sizeof command, "'%s' '%s' '%s' '%s'", python(), path, info.path,
             path_in(bytes, folder, "w1.bytes"));
    ck_assert_msg(system(command) == 0, "failed: %s", command);
    size_t size;
    uint8_t *read = file_read(bytes, &size);
    ck_spmd_ok(spmd_unshard(spmd_trainer_array(t.trainer, 0, NULL), want));
    ck_assert_uint_eq(size, sizeof want);
    ck_assert_mem_eq(read, want, sizeof want);
    free(read);
    tiny_end(&t);
}
END_TEST

int main(void)
{
    char command[PATH_SIZE];
    snprintf(command, sizeof command, "'%s' -c 'import safetensors.numpy' >/dev/null 2>&1", python());
    if (system(command) != 0)
        return spmd_test_skip("python3 has no safetensors (or set SPMD_PYTHON): nobody else read a checkpoint");
    Suite *suite = suite_create("safetensors python");
    TCase *tc = tcase_create("safetensors python");
    tcase_set_timeout(tc, spmd_test_timeout());
    tcase_add_checked_fixture(tc, make, removed);
    tcase_add_test(tc, python_reads_a_checkpoint);
    suite_add_tcase(suite, tc);
    return spmd_test_exit(srunner_create(suite));
}
