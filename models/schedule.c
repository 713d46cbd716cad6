/* Learning rates over the steps. All of Optax's usual schedules are one curve (a warm-up line, then a decay), so they
 * are one struct evaluated in one place; the value goes to the devices as a scalar input of the step. */
#include "models/optim.h"
#include <math.h>
#include <string.h>

spmd_schedule spmd_schedule_constant(double rate)
{
    return (spmd_schedule){.start = rate, .peak = rate, .end = rate};
}

spmd_schedule spmd_schedule_linear(double start, double end, int64_t steps)
{
    return (spmd_schedule){.start = start, .peak = start, .end = end, .decay = steps};
}

spmd_schedule spmd_schedule_cosine(double start, int64_t steps, double alpha)
{
    return (spmd_schedule){.start = start, .peak = start, .end = alpha * start, .decay = steps, .cosine = true};
}

spmd_schedule spmd_schedule_warmup_cosine(double start, double peak, int64_t warmup, int64_t steps, double end)
{
    return (spmd_schedule){
        .start = start, .peak = peak, .end = end, .warmup = warmup, .decay = steps - warmup, .cosine = true};
}

spmd_status spmd_schedule_find(const char *name, double rate, int64_t steps, spmd_schedule *out)
{
    SPMD_CHECK(steps >= 0, SPMD_EINVAL, "schedule '%s' over %lld steps: needs at least 0", name, (long long)steps);
    if (strcmp(name, "constant") == 0)
        *out = spmd_schedule_constant(rate);
    else if (strcmp(name, "linear") == 0)
        *out = spmd_schedule_linear(rate, 0, steps);
    else if (strcmp(name, "cosine") == 0)
        *out = spmd_schedule_cosine(rate, steps, 0);
    else if (strcmp(name, "warmup_cosine") == 0)
        *out = spmd_schedule_warmup_cosine(0, rate, (steps + 9) / 10, steps, 0);
    else
        return SPMD_FAIL(SPMD_EINVAL, "no schedule '%s': use constant, linear, cosine or warmup_cosine", name);
    return SPMD_OK;
}

double spmd_schedule_at(const spmd_schedule *s, int64_t step)
{
    if (step < s->warmup)
        return s->start + (s->peak - s->start) * (double)step / (double)s->warmup;
    if (s->decay <= 0)
        return s->peak;
    double t = fmin((double)(step - s->warmup) / (double)s->decay, 1);
    if (s->cosine)
        return s->end + (s->peak - s->end) * 0.5 * (1 + cos(acos(-1) * t));
    return s->peak + (s->end - s->peak) * t;
}
