/* spmd compare: the same training step in explicit and in automatic mode: speed, collectives, time by op, the two
 * programs side by side, and how far the numbers are apart; then one device against all. */
#include "cli/cli.h"
#include "spmd/spmdkit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MODES = 2, MAX_ROWS = 64, PROFILE_STEPS = 5 };

static const char *const names[MODES] = {"explicit", "automatic"};

typedef struct side {
    spmd_mesh *mesh;
    spmd_trainer *trainer;
    spmd_profile *profile;
    spmd_program_info info;
    cli_timing timing;
    spmd_profile_row rows[MAX_ROWS];
    int nrows;
    char *program; /* as text */
} side;

typedef struct comparison {
    spmd_train_options options;
    char axes[128];
    int64_t steps; /* whose numbers are compared */
    side sides[MODES];
    double loss, grad_norm, params; /* largest relative differences */
    cli_timing one;                 /* one device with the same batch a device */
    int devices;
} comparison;

/* The largest difference of any parameter, relative to the largest value of its array. */
static spmd_status compare_params(comparison *c)
{
    for (int k = 0; k < c->options.model->params; k++) {
        const spmd_array *a = spmd_trainer_array(c->sides[0].trainer, k, NULL);
        const spmd_array *b = spmd_trainer_array(c->sides[1].trainer, k, NULL);
        double difference, size;
        SPMD_TRY(cli_compare_arrays(a, b, &difference, &size));
        c->params = cli_larger(c->params, size == 0 ? difference : difference / size);
    }
    return SPMD_OK;
}

static spmd_status check_agreement(comparison *c)
{
    float *x;
    int32_t *y;
    SPMD_TRY(cli_make_batch(&c->options, &x, &y));
    spmd_status status = SPMD_OK;
    for (int64_t k = 0; k < c->steps && status == SPMD_OK; k++) {
        spmd_metrics m[MODES];
        for (int s = 0; s < MODES && status == SPMD_OK; s++)
            status = spmd_trainer_step(c->sides[s].trainer, x, y, &m[s]);
        if (status != SPMD_OK)
            break;
        c->loss = cli_larger(c->loss, cli_relative(m[0].loss, m[1].loss));
        c->grad_norm = cli_larger(c->grad_norm, cli_relative(m[0].grad_norm, m[1].grad_norm));
    }
    for (int s = 0; s < MODES && status == SPMD_OK; s++) { /* the same batch again, timed op by op */
        spmd_trainer_set_profile(c->sides[s].trainer, c->sides[s].profile);
        for (int k = 0; k < PROFILE_STEPS && status == SPMD_OK; k++) {
            spmd_metrics unused;
            status = spmd_trainer_step(c->sides[s].trainer, x, y, &unused);
        }
        spmd_trainer_set_profile(c->sides[s].trainer, NULL);
        c->sides[s].nrows = spmd_profile_rows(c->sides[s].profile, c->sides[s].rows, MAX_ROWS);
    }
    free(x);
    free(y);
    return status == SPMD_OK ? compare_params(c) : status;
}

static spmd_status open_side(const cli_options *o, comparison *c, int s)
{
    side *d = &c->sides[s];
    spmd_train_options options = c->options;
    options.automatic = s == 1;
    SPMD_TRY(spmd_mesh_create(c->axes, o->backend, &d->mesh));
    SPMD_TRY(spmd_profile_create(d->mesh, 20000, &d->profile));
    SPMD_TRY(spmd_trainer_create(d->mesh, &options, &d->trainer));
    c->devices = spmd_mesh_devices(d->mesh);
    return SPMD_OK;
}

static spmd_status describe(side *d)
{
    size_t size;
    SPMD_TRY(spmd_jit_info(spmd_trainer_jit(d->trainer), 0, &d->info));
    FILE *file = open_memstream(&d->program, &size);
    SPMD_CHECK(file, SPMD_ENOMEM, "out of memory for a program's text");
    spmd_status status = spmd_jit_print(spmd_trainer_jit(d->trainer), 0, file);
    fclose(file);
    return status;
}

static spmd_status time_one_device(const cli_options *o, comparison *c)
{
    spmd_train_options options = c->options;
    options.batch /= c->devices;
    return cli_time_on("data=1", o->backend, &options, &c->one, NULL);
}

static spmd_status open_sides(const cli_options *o, comparison *c)
{
    for (int s = 0; s < MODES; s++)
        SPMD_TRY(open_side(o, c, s));
    return SPMD_OK;
}

static spmd_status compare(const cli_options *o, comparison *c)
{
    SPMD_TRY(check_agreement(c));
    for (int s = 0; s < MODES; s++) {
        SPMD_TRY(describe(&c->sides[s]));
        SPMD_TRY(cli_time_steps(c->sides[s].trainer, &c->options, &c->sides[s].timing));
    }
    return time_one_device(o, c);
}

static void print_modes(const comparison *c, FILE *file)
{
    fprintf(file, "%s on %s, batch %lld, %s\n\n", c->options.model->name, c->axes, (long long)c->options.batch,
            spmd_dtype_name(c->options.config.compute));
    fprintf(file, "  %-34s %10s %12s %12s %12s\n", "mode (median of 3 x 15 steps)", "ms/step", "examples/s",
            "collectives", "bytes");
    static const char *const long_names[MODES] = {"explicit shard_map", "automatic on sharded arrays"};
    for (int s = MODES - 1; s >= 0; s--) {
        const side *d = &c->sides[s];
        fprintf(file, "  %-34s %10.2f %12.0f %12d %12lld\n", long_names[s], d->timing.ms, d->timing.examples_per_s,
                d->info.collectives, (long long)d->info.collective_bytes);
    }
    for (int s = MODES - 1; s >= 0; s--)
        for (unsigned mask = 1; mask < 1u << SPMD_MAX_AXES; mask++) {
            char axes[128] = "";
            for (int a = 0; a < spmd_mesh_axes(c->sides[s].mesh); a++)
                if (mask >> a & 1)
                    snprintf(axes + strlen(axes), sizeof axes - strlen(axes), "%s%s", *axes ? "," : "",
                             spmd_mesh_axis_name(c->sides[s].mesh, a));
            if (c->sides[s].info.collectives_by_axes[mask])
                fprintf(file, "    %s, over %s: %lld collectives, %lld bytes a step and device\n", names[s], axes,
                        (long long)c->sides[s].info.collectives_by_axes[mask],
                        (long long)c->sides[s].info.bytes_by_axes[mask]);
        }
    fprintf(file, "\n  largest difference over %lld steps (relative): loss %.2g, gradient norm %.2g, parameters %.2g\n",
            (long long)c->steps, c->loss, c->grad_norm, c->params);
}

static double time_of(const side *d, const char *op)
{
    for (int k = 0; k < d->nrows; k++)
        if (!strcmp(d->rows[k].op, op))
            return d->rows[k].us / PROFILE_STEPS;
    return 0;
}

static void print_ops(const comparison *c, FILE *file)
{
    fprintf(file, "\n  %-26s %14s %14s   us a step, all devices together\n", "op", names[0], names[1]);
    for (int s = 0; s < MODES; s++)
        for (int k = 0; k < c->sides[s].nrows; k++) {
            const char *op = c->sides[s].rows[k].op;
            if (s == 0 || time_of(&c->sides[0], op) == 0) /* the second pass adds what only the automatic mode has */
                fprintf(file, "  %-26s %14.1f %14.1f%s\n", op, time_of(&c->sides[0], op), time_of(&c->sides[1], op),
                        c->sides[s].rows[k].collective ? "   with waiting" : "");
        }
}

static void print_scaling(const comparison *c, FILE *file)
{
    double ratio = c->sides[0].timing.examples_per_s / c->one.examples_per_s;
    double share = time_of(&c->sides[0], "pmean") / (c->sides[0].timing.ms * 1e3 * c->devices);
    fprintf(file, "\n  1 device, batch %lld: %.2f ms a step, %.0f examples/s; %d devices: %.2f times that\n",
            (long long)(c->options.batch / c->devices), c->one.ms, c->one.examples_per_s, c->devices, ratio);
    const char *scaling = cli_scaling(c->devices, ratio);
    if (scaling)
        fprintf(file, "  %s\n", scaling);
    else if (share > 0.3)
        fprintf(file, "  Communication-bound: %.0f %% of the step is the averaging and the waiting for it.\n",
                100 * share);
    else
        fprintf(file, "  Out of cores, or of memory bandwidth: one device already used what the others would need.\n");
}

static void json_side(json *line, const comparison *c, int s)
{
    const side *d = &c->sides[s];
    json_open(line, names[s], '{');
    json_number(line, "ms_per_step", d->timing.ms);
    json_number(line, "examples_per_s", d->timing.examples_per_s);
    json_integer(line, "collectives", d->info.collectives);
    json_integer(line, "bytes", d->info.collective_bytes);
    json_close(line, '}');
}

static void print_json(const comparison *c)
{
    json line;
    if (!json_begin(&line))
        return;
    for (int s = 0; s < MODES; s++)
        json_side(&line, c, s);
    json_number(&line, "max_diff_loss", c->loss);
    json_number(&line, "max_diff_grad_norm", c->grad_norm);
    json_number(&line, "max_diff_params", c->params);
    json_integer(&line, "devices", c->devices);
    json_number(&line, "one_device_examples_per_s", c->one.examples_per_s);
    json_print(&line);
}

int cmd_compare(const cli_options *o)
{
    int code = cli_check_generated(o, "compare");
    if (code != CLI_OK)
        return code;
    comparison c = {.devices = 1, .steps = o->steps > 0 ? o->steps : 20};
    spmd_status status = cli_choose(o, 400, &c.options, c.axes, sizeof c.axes);
    if (status == SPMD_OK)
        status = open_sides(o, &c);
    if (status != SPMD_OK) {
        code = cli_refused(o, status);
    } else if ((status = compare(o, &c)) != SPMD_OK) {
        code = cli_failed(o, status);
    } else {
        FILE *people = o->json ? stderr : stdout;
        print_modes(&c, people);
        print_ops(&c, people);
        print_scaling(&c, people);
        fprintf(people, "\n  the two programs, where they differ:\n");
        cli_print_diff(names[0], c.sides[0].program, names[1], c.sides[1].program, people);
        if (o->json)
            print_json(&c);
    }
    for (int s = 0; s < MODES; s++) {
        spmd_trainer_destroy(c.sides[s].trainer);
        spmd_profile_destroy(c.sides[s].profile);
        spmd_mesh_destroy(c.sides[s].mesh);
        free(c.sides[s].program);
    }
    return code;
}
