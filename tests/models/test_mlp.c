/* The plain MLP: start values, gradient by differences, bf16 near f32, sizes from the tensors; and the other model's
 * shapes. */
#include "models/mlp.h"
#include "spmd/testing.h"

enum { INPUTS = 6, WIDTH = 8, CLASSES = 3, ROWS = 5 };

static const spmd_model *model_named(const char *name)
{
    const spmd_model *model;
    ck_spmd_ok(spmd_model_find(name, &model));
    return model;
}

START_TEST(start_values_are_he)
{
    const spmd_model *model = model_named(_i ? "shared-mlp" : "mlp");
    spmd_param_info info[SPMD_MODEL_MAX_PARAMS];
    model->describe(&model->defaults, info);
    int64_t most = 0;
    for (int k = 0; k < model->params; k++)
        most = spmd_param_count(&info[k]) > most ? spmd_param_count(&info[k]) : most;
    float *first = malloc((size_t)most * sizeof *first), *second = malloc((size_t)most * sizeof *second);
    for (int k = 0; k < model->params; k++) {
        int64_t count = spmd_param_count(&info[k]);
        double sum = 0, squares = 0, want = info[k].rank == 2 ? 2.0 / (double)info[k].shape[0] : 0;
        spmd_model_init(&info[k], 1, k, first);
        spmd_model_init(&info[k], 1, k, second);
        ck_assert_mem_eq(first, second, (size_t)count * sizeof *first);
        for (int64_t i = 0; i < count; i++) {
            sum += (double)first[i];
            squares += (double)first[i] * (double)first[i];
        }
        /* Five standard errors of the sample's mean and variance. */
        double n = (double)count;
        ck_assert_double_le(fabs(sum / n), 5 * sqrt(want / n));
        ck_assert_double_le(fabs(squares / n - want), 5 * want * sqrt(2 / n));
        if (info[k].rank == 2) {
            spmd_model_init(&info[k], 2, k, second);
            ck_assert_msg(memcmp(first, second, (size_t)count * sizeof *first) != 0, "%s ignores the seed",
                          info[k].name);
            spmd_model_init(&info[k], 1, k + 1, second);
            ck_assert_msg(memcmp(first, second, 64) != 0, "parameters %d and %d start alike", k, k + 1);
        }
    }
    free(first);
    free(second);
}
END_TEST

/* Inputs: six parameters, x. */
typedef struct small_model {
    const spmd_model *model;
    spmd_model_config config;
} small_model;

static spmd_status logits(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    const small_model *small = user;
    return small->model->logits(ctx, &small->config, in, &in[6], out);
}

static small_model make_small(const char *name, spmd_dtype compute, spmd_value *in)
{
    small_model small = {model_named(name),
                         {.inputs = INPUTS, .width = WIDTH, .classes = CLASSES, .repeats = 2, .compute = compute}};
    spmd_param_info info[SPMD_MODEL_MAX_PARAMS];
    small.model->describe(&small.config, info);
    for (int k = 0; k < 6; k++)
        in[k] = spmd_value_random(SPMD_F32, NULL, info[k].rank, info[k].shape, 0.7, (unsigned)k + 1);
    in[6] = spmd_value_random(SPMD_F32, NULL, SPMD_SHAPE(ROWS, INPUTS), 1, 7);
    return small;
}

static const char *const names[] = {"mlp", "shared-mlp"};

START_TEST(gradient_by_differences)
{
    spmd_value in[7];
    small_model small = make_small(names[_i], SPMD_F32, in);
    double error = spmd_test_check_grad(logits, &small, 7, in, 3);
    ck_assert_msg(error < 1e-2, "%s: gradient off by %g", names[_i], error);
    spmd_values_free(in, 7);
}
END_TEST

START_TEST(bf16_is_near_f32)
{
    spmd_value in[7], again[7], wide, narrow;
    small_model f32 = make_small(names[_i], SPMD_F32, in), bf16 = make_small(names[_i], SPMD_BF16, again);
    /* The model's configured sizes are not what it computes with: the tensors' are. */
    f32.config.inputs = f32.config.width = f32.config.classes = 1;
    ck_spmd_ok(spmd_test_op(logits, &f32, 7, in, &wide));
    ck_spmd_ok(spmd_test_op(logits, &bf16, 7, in, &narrow));
    ck_assert_int_eq(narrow.dtype, SPMD_F32);
    ck_assert_int_eq(wide.rank, 2);
    ck_assert_int_eq(wide.shape[0], ROWS);
    ck_assert_int_eq(wide.shape[1], CLASSES);
    double difference = spmd_value_difference(&narrow, &wide);
    ck_assert_msg(difference > 0 && difference < 3e-2, "%s: bf16 differs by %g", names[_i], difference);
    spmd_values_free(in, 7);
    spmd_values_free(again, 7);
    spmd_values_free((spmd_value[]){wide, narrow}, 2);
}
END_TEST

static spmd_status hits(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    (void)user;
    return spmd_model_hits(ctx, &in[0], &in[1], out);
}

START_TEST(hits_are_counted)
{
    spmd_value in[] = {spmd_value_f32(NULL, SPMD_SHAPE(3, 2), (float[]){1, 2, 5, -1, 0, 0}),
                       spmd_value_i32(NULL, SPMD_SHAPE(3), (int32_t[]){1, 1, 0})},
               out;
    ck_spmd_ok(spmd_test_op(hits, NULL, 2, in, &out));
    ck_assert_double_eq(spmd_value_at(&out, 0), 1);
    ck_assert_double_eq(spmd_value_at(&out, 1), 0);
    ck_assert_double_eq(spmd_value_at(&out, 2), 1); /* the first of two equal logits */
    spmd_values_free(in, 2);
    spmd_value_free(&out);
}
END_TEST

START_TEST(bad_sizes_are_named)
{
    const spmd_model *model = model_named("mlp");
    spmd_model_config config = model->defaults;
    ck_spmd_ok(spmd_model_check(model, &config));
    config.width = 1; /* its half is nothing */
    ck_spmd_fails(spmd_model_check(model, &config), SPMD_EINVAL, "parameter w2 is 0");
    config = model->defaults;
    config.compute = SPMD_F16;
    ck_spmd_fails(spmd_model_check(model, &config), SPMD_EDTYPE, "f32 or bf16, not f16");
    config = model->defaults;
    config.repeats = -1;
    ck_spmd_fails(spmd_model_check(model, &config), SPMD_EINVAL, "repeats is -1");
    ck_spmd_fails(spmd_model_find("cnn", &model), SPMD_EINVAL, "mlp or shared-mlp");
}
END_TEST

SPMD_TEST_MAIN("mlp", tcase_add_loop_test(tc, start_values_are_he, 0, 2);
               tcase_add_loop_test(tc, gradient_by_differences, 0, 2); tcase_add_loop_test(tc, bf16_is_near_f32, 0, 2);
               tcase_add_test(tc, hits_are_counted); tcase_add_test(tc, bad_sizes_are_named);)
