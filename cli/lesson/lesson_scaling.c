/* Multi-device lesson, second part: measured. One device against all, explicit against automatic, other sizes. */
#include "cli/lesson/lesson.h"
#include "spmd/host/pin.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *honest(int devices, int cores, double ratio)
{
    const char *scaling = cli_scaling(devices, ratio);
    if (scaling)
        return scaling;
    if (devices > cores)
        return "There are fewer cores than devices, so the devices take turns: nothing can be gained here, and what is "
               "lost is the price of the meetings.";
    if (ratio > 1.1)
        return "It gains, but not in proportion: memory bandwidth and caches are shared, and every step ends in a "
               "meeting that waits for the slowest.";
    return "It gains nothing: one device already used what the others would need, or the step is too small for the "
           "meeting at its end.";
}

static void scaling_row(page *p, const char *what, int devices, int64_t batch, const cli_timing *t, double ratio)
{
    page_row(p, "%s|%d|%lld|%.2f|%.0f|%.2f", what, devices, (long long)batch, t->ms, t->examples_per_s, ratio);
}

spmd_status lesson_scaling(lesson *l)
{
    page *p = &l->page;
    int devices = spmd_mesh_devices(l->mesh), cores = spmd__allowed_cores();
    spmd_train_options one = l->train;
    cli_timing single, all;
    page_section(p, "scaling", "One device against all, the same batch a device");
    one.batch = l->train.batch / devices;
    SPMD_TRY(cli_time_on("data=1", l->options->backend, &one, &single, NULL));
    SPMD_TRY(cli_time_on(l->axes, l->options->backend, &l->train, &all, NULL));
    double ratio = all.examples_per_s / single.examples_per_s;
    page_table(p, "what|devices|batch|ms a step|examples/s|times one device");
    scaling_row(p, "baseline", 1, one.batch, &single, 1);
    scaling_row(p, l->axes, devices, l->train.batch, &all, ratio);
    page_table_end(p);
    page_text(p, "%d devices on %d cores do %.2f times the examples of one. %s", devices, cores, ratio,
              honest(devices, cores, ratio));
    if (cores > 1)
        page_text(p,
                  "One device alone may use all %d cores inside its matrix products, so this is a fair baseline, "
                  "not a device that was tied down.",
                  cores);
    return SPMD_OK;
}

spmd_status lesson_modes(lesson *l)
{
    page *p = &l->page;
    static const char *const names[] = {"explicit shard_map, pmean by hand", "automatic, on the same sharded arrays"};
    cli_timing t[2];
    spmd_program_info program[2];
    page_section(p, "modes", "Explicit against automatic");
    page_table(p, "mode|ms a step|examples/s|meetings|bytes moved");
    for (int k = 0; k < 2; k++) {
        spmd_train_options options = l->train;
        options.automatic = k == 1;
        SPMD_TRY(cli_time_on(l->axes, l->options->backend, &options, &t[k], &program[k]));
        page_row(p, "%s|%.2f|%.0f|%d|%lld", names[k], t[k].ms, t[k].examples_per_s, program[k].collectives,
                 (long long)program[k].collective_bytes);
    }
    page_table_end(p);
    page_text(p,
              "The same source in both modes; explicit runs %.2f times as fast as automatic. Data parallelism leaves "
              "the automatic mode nothing to find, so equal speed is what to expect; spmd compare shows both "
              "programs.",
              t[0].examples_per_s / t[1].examples_per_s);
    return SPMD_OK;
}

static void sweep_plot(page *p, const int64_t *batch, const cli_timing *t, int n)
{
    plot picture;
    if (!plot_begin(p, &picture, "batch-sweep", 760, 420))
        return;
    double least = t[0].examples_per_s, most = least;
    fputs("$d << EOD\n", picture.script);
    for (int k = 0; k < n; k++) {
        least = fmin(least, t[k].examples_per_s);
        most = fmax(most, t[k].examples_per_s);
        fprintf(picture.script, "%lld %g %g\n", (long long)batch[k], t[k].ms, t[k].examples_per_s);
    }
    fprintf(picture.script, "EOD\nset y2range [%g:%g]\n", least / 2, most * 2); /* room for a few powers of 2 */
    fputs(
        "set logscale x 2\nset logscale y 2\nset logscale y2 2\nset grid\nset key top left\n"
        "set xlabel 'global batch'\nset ylabel 'ms a step'\nset y2label 'examples/s'\nset ytics nomirror\nset y2tics\n"
        "plot $d using 1:2 with linespoints lw 2 pt 7 lc rgb '#b0651d' title 'ms a step', "
        "$d using 1:3 axes x1y2 with linespoints lw 2 pt 5 lc rgb '#2f6db3' title 'examples/s (right)'\n",
        picture.script);
    plot_end(p, &picture, "Batch sweep; all axes are logarithmic to base 2");
}

spmd_status lesson_sweep(lesson *l)
{
    enum { SIZES = 5 };
    page *p = &l->page;
    int64_t batch[SIZES];
    cli_timing t[SIZES];
    page_section(p, "sweep", "Batch sizes");
    page_table(p, "global batch|ms a step|examples/s|us an example");
    for (int k = 0; k < SIZES; k++) {
        spmd_train_options options = l->train;
        batch[k] = options.batch = l->train.batch / 4 * (1 << k);
        if (batch[k] == 0 || batch[k] % spmd_mesh_devices(l->mesh) != 0)
            batch[k] = options.batch = (int64_t)spmd_mesh_devices(l->mesh) << k;
        SPMD_TRY(cli_time_on(l->axes, l->options->backend, &options, &t[k], NULL));
        page_row(p, "%lld|%.2f|%.0f|%.2f", (long long)batch[k], t[k].ms, t[k].examples_per_s,
                 1e6 / t[k].examples_per_s);
    }
    page_table_end(p);
    sweep_plot(p, batch, t, SIZES);
    page_text(p, "While doubling the batch leaves the time of a step nearly alone, overhead dominates; once the time "
                 "doubles too, arithmetic does, and a larger batch only costs steps.");
    return SPMD_OK;
}
