/* From options to a training: what all commands that train have in common. */
#include "cli/cli.h"
#include "spmd/spmdkit.h"
#include <string.h>

static bool backend_known(const char *name)
{
    for (int k = 0; spmd_backend_name(k); k++)
        if (strcmp(spmd_backend_name(k), name) == 0)
            return true;
    return false;
}

/* Whether `names`, separated by ", ", have it. */
static bool listed(const char *names, const char *name)
{
    for (const char *p = names; *p; p += strcspn(p, ", "), p += strspn(p, ", "))
        if (strcspn(p, ", ") == strlen(name) && strncmp(p, name, strlen(name)) == 0)
            return true;
    return false;
}

int cli_check(const cli_options *o)
{
    if (o->mode && strcmp(o->mode, "explicit") != 0 && strcmp(o->mode, "auto") != 0)
        return cli_usage("no mode '%s'; use --mode explicit or --mode auto", o->mode);
    if (o->backend && !backend_known(o->backend))
        return cli_usage("the backend '%s' is not in this build; use --backend host", o->backend);
    if (o->devices > 0 && o->mesh)
        return cli_usage("--devices %lld and --mesh %s both say what the devices are; give one", (long long)o->devices,
                         o->mesh);
    if (o->dataset && !listed(spmd_dataset_names(), o->dataset))
        return cli_usage("no data set '%s'; use one of %s", o->dataset, spmd_dataset_names());
    cli_options any = *o;
    spmd_train_options unused;
    char axes[128];
    any.model = "shared-mlp"; /* has all options; which model it is, is the command's to say */
    spmd_status status = cli_choose(&any, 400, &unused, axes, sizeof axes);
    return status == SPMD_OK ? CLI_OK : cli_refused(o, status);
}

int cli_check_generated(const cli_options *o, const char *command)
{
    if (o->dataset && strcmp(o->dataset, "synthetic") != 0)
        return cli_usage("%s computes on generated data: use --dataset synthetic, or none, not '%s'", command,
                         o->dataset);
    return CLI_OK;
}

spmd_status cli_choose(const cli_options *o, int64_t steps, spmd_train_options *options, char *axes, size_t size)
{
    SPMD_CHECK(o->model, SPMD_EINVAL, "which model? mlp or shared-mlp, as in spmd train mlp");
    SPMD_CHECK(o->repeats < 0 || strcmp(o->model, "mlp") != 0, SPMD_EINVAL,
               "mlp has no block to repeat; --repeats is for shared-mlp");
    SPMD_TRY(spmd_train_defaults(o->model, options));
    options->automatic = o->mode && strcmp(o->mode, "auto") == 0;
    double rate;
    SPMD_TRY(spmd_optim_find(o->optimizer ? o->optimizer : "adamw", &options->optim, &rate));
    if (o->rate >= 0)
        rate = o->rate;
    SPMD_TRY(spmd_schedule_find(o->schedule ? o->schedule : "cosine", rate, steps, &options->schedule));
    if (o->batch > 0)
        options->batch = o->batch;
    if (o->seed >= 0)
        options->seed = (uint64_t)o->seed;
    if (o->width > 0)
        options->config.width = o->width;
    if (o->repeats >= 0)
        options->config.repeats = (int)o->repeats;
    if (o->dtype)
        SPMD_TRY(spmd_dtype_parse(o->dtype, &options->config.compute));
    SPMD_CHECK(options->config.compute == SPMD_F32 || options->config.compute == SPMD_BF16, SPMD_EINVAL,
               "--dtype %s: training computes in f32 or bf16", o->dtype);
    if (o->mesh)
        snprintf(axes, size, "%s", o->mesh);
    else
        snprintf(axes, size, "data=%d", o->devices > 0 ? (int)o->devices : 2);
    return SPMD_OK;
}
