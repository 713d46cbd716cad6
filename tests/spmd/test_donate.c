/* spmd_donate: reductions in place, older copies stale, nothing given away that somebody needs. */
#include "spmd/testing.h"

static void *memory_of(spmd_ctx *ctx, const spmd_tensor *t)
{
    spmd_view view = {0};
    return spmd_local(ctx, t, &view) == SPMD_OK ? view.data : NULL;
}

enum use { IN_PLACE, OLD_COPY, OLD_VIEW, INPUT, TWICE, TAPED, USES };

static spmd_status square_loss(spmd_ctx *ctx, const spmd_tensor *p, int n, void *user, spmd_tensor *loss)
{
    (void)n, (void)user;
    spmd_tensor t, u;
    SPMD_TRY(spmd_mul(ctx, p, p, &t));
    SPMD_TRY(spmd_psum(ctx, spmd_donate(&t), "x", &t)); /* the tape needs p, not t, but keeps all */
    SPMD_TRY(spmd_mul(ctx, &t, &t, &u));
    return spmd_sum(ctx, &u, NULL, 0, false, loss);
}

static spmd_status body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    spmd_tensor t = in[0], copy, view, list[2];
    enum use use = *(enum use *)user;
    if (use == TAPED)
        return spmd_grad(ctx, square_loss, NULL, in, 1, out);
    if (use != INPUT)
        SPMD_TRY(spmd_scale(ctx, &in[0], 1, &t));
    copy = t;
    SPMD_TRY(spmd_reshape(ctx, &t, SPMD_SHAPE(1, -1), &view));
    void *before = memory_of(ctx, &t);
    if (use == TWICE) {
        list[0] = list[1] = *spmd_donate(&t);
        SPMD_TRY(spmd_psum_list(ctx, list, 2, "x", list));
        SPMD_TRY(spmd_sub(ctx, &list[0], &list[1], &t));
        return spmd_add(ctx, &t, &list[0], &out[0]); /* the sum, if both are equal */
    }
    SPMD_TRY(spmd_psum(ctx, spmd_donate(&t), "x", &t));
    SPMD_CHECK((memory_of(ctx, &t) == before) == (use != INPUT), SPMD_EUSER, "in place: %d", use != INPUT);
    SPMD_CHECK(!t.donated, SPMD_EUSER, "the result is on offer again");
    if (use == OLD_COPY)
        return spmd_neg(ctx, &copy, &out[0]);
    if (use == OLD_VIEW)
        return spmd_neg(ctx, &view, &out[0]);
    out[0] = t;
    return SPMD_OK;
}

static const struct {
    spmd_status status;
    double first; /* of the result, from inputs 1 and 2 */
} rows[USES] = {
    [IN_PLACE] = {SPMD_OK, 3}, [OLD_COPY] = {SPMD_ESTALE, 0}, [OLD_VIEW] = {SPMD_ESTALE, 0}, [INPUT] = {SPMD_OK, 3},
    [TWICE] = {SPMD_OK, 3},    [TAPED] = {SPMD_OK, 4 * 1 * 5}}; /* d/dp (sum p^2)^2, settled */

START_TEST(donated)
{
    const float x[] = {1, 0, 2, 0};
    spmd_value in = spmd_value_f32("x", SPMD_SHAPE(4), x), out = {.spec = _i == TAPED ? "x" : ""};
    enum use use = (enum use)_i;
    spmd_status status = spmd_test_run("x=2", body, &use, 1, &in, 1, &out);
    if (rows[_i].status == SPMD_OK) {
        ck_spmd_ok(status);
        ck_assert_msg(spmd_value_at(&out, 0) == rows[_i].first, "%g", spmd_value_at(&out, 0));
        spmd_value_free(&out);
    } else {
        ck_spmd_fails(status, rows[_i].status, "given away by spmd_donate");
    }
    spmd_value_free(&in);
}
END_TEST

/* Ten thousand reductions in place take no more memory than one. */
static spmd_status many(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *user)
{
    SPMD_TRY(spmd_scale(ctx, &in[0], 1, &out[0]));
    for (int k = 0; k < *(int *)user; k++)
        SPMD_TRY(spmd_pmax(ctx, spmd_donate(&out[0]), "x", &out[0]));
    return SPMD_OK;
}

START_TEST(in_place_needs_no_memory)
{
    int64_t bytes[2];
    spmd_value in = spmd_value_exact(SPMD_F32, "", SPMD_SHAPE(1000), 1), out = {.spec = ""};
    for (int k = 0; k < 2; k++) {
        spmd_stats stats;
        ck_spmd_ok(spmd_test_run_job("x=2", &(spmd_job){.stats = &stats}, many, &(int){k ? 1000 : 1}, 1, &in, 1, &out));
        bytes[k] = stats.arena_bytes;
        spmd_value_free(&out);
    }
    const char *strict = getenv("SPMD_TEST_BACKEND"); /* records wait for the stream there */
    if (!strict || strcmp(strict, "host-strict"))
        ck_assert_int_eq(bytes[0], bytes[1]);
    spmd_value_free(&in);
}
END_TEST

SPMD_TEST_MAIN("donate", tcase_add_loop_test(tc, donated, 0, USES); tcase_add_test(tc, in_place_needs_no_memory);)
