/* spmd: the command line. Finds the command, reads its options, runs it. */
#include "cli/cli.h"
#include "spmd/spmdkit.h"
#include <stdlib.h>
#include <string.h>

static void print_help(const char *heading, unsigned used, FILE *file)
{
    fputs("spmd - train on every device of a mesh, one C function for one shard\n\n"
          "usage: spmd info [--json]\n"
          "       spmd train mlp|shared-mlp [options]\n"
          "       spmd compare mlp|shared-mlp [options] explicit and automatic side by side\n"
          "       spmd sweep mlp|shared-mlp [options]   steps of several batch sizes, timed\n"
          "       spmd lesson training|multi-device [--quick|--full] [--out DIR] [--open]\n"
          "       spmd eval --checkpoint DIR             accuracy of a saved model\n"
          "       spmd predictions|confusion [--checkpoint DIR] [--out DIR]\n"
          "       spmd report RUN.jsonl... [--out DIR]   the page of trainings' logs\n"
          "       spmd watch RUN.jsonl...                trainings as they run, from their logs\n"
          "       spmd COMMAND --help | --help | --version\n",
          file);
    fprintf(file, "\n%s:\n", heading);
    cli_print_options(used, file);
    fputs("\nData is looked for in $SPMD_DATA, then in $XDG_CACHE_HOME/spmdkit (~/.cache/spmdkit), else downloaded.\n"
          "Ctrl-C ends a training after its step, with its results. Exit codes: 0 ok, 1 failed, 2 bad usage, "
          "130 interrupted.\n",
          file);
}

int cli_failed(const cli_options *options, spmd_status status)
{
    fprintf(stderr, "spmd: %s (%s)\n", spmd_last_error(), spmd_status_name(status));
    json line;
    if (options->json && json_begin(&line)) {
        json_text(&line, "event", "error");
        json_text(&line, "status", spmd_status_name(status));
        json_text(&line, "message", spmd_last_error());
        json_print(&line);
    }
    return CLI_FAILED;
}

int cli_refused(const cli_options *options, spmd_status status)
{
    cli_failed(options, status);
    return status == SPMD_EINVAL || status == SPMD_EAXIS ? CLI_USAGE : CLI_FAILED;
}

static const cli_command commands[] = {
    {"train", CLI_TRAIN, 1, cmd_train},
    {"compare", CLI_COMPARE, 1, cmd_compare},
    {"sweep", CLI_SWEEP, 1, cmd_sweep},
    {"lesson", CLI_LESSON, 1, cmd_lesson},
    {"eval", CLI_EVAL, 0, cmd_eval},
    {"predictions", CLI_SHOW, 0, cmd_predictions},
    {"confusion", CLI_SHOW, 0, cmd_confusion},
    {"report", CLI_REPORT, CLI_WORDS, cmd_report},
    {"watch", CLI_WATCH, CLI_WORDS, cmd_watch},
    {"info", CLI_INFO, 0, cmd_info},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static int unknown_command(const char *command)
{
    const char *names[COMMANDS + 3] = {NULL};
    for (int k = 0; k < COMMANDS; k++)
        names[k] = commands[k].name;
    names[COMMANDS] = "--help";
    names[COMMANDS + 1] = "--version";
    return cli_usage("no command '%s'; the nearest is %s. All commands: spmd --help", command,
                     cli_nearest(command, names));
}

static int run_command(const cli_command *command, int argc, char **argv)
{
    cli_options options;
    for (int k = 2; k < argc; k++)
        if (strcmp(argv[k], "--help") == 0) {
            char heading[32];
            snprintf(heading, sizeof heading, "options of %s", command->name);
            print_help(heading, command->id, stdout);
            return CLI_OK;
        }
    if (!cli_parse(command, argc, argv, 2, &options))
        return CLI_USAGE;
    int code = cli_check(&options);
    return code == CLI_OK ? command->run(&options) : code;
}

static int run(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    if (!*command || strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0 || strcmp(command, "help") == 0) {
        print_help("options, of which each command has some", CLI_ALL, *command ? stdout : stderr);
        return *command ? CLI_OK : CLI_USAGE;
    }
    if (strcmp(command, "--version") == 0) {
        printf("spmdkit %s\n", SPMD_VERSION);
        return CLI_OK;
    }
    for (int k = 0; k < COMMANDS; k++)
        if (strcmp(command, commands[k].name) == 0)
            return run_command(&commands[k], argc, argv);
    return unknown_command(command);
}

int main(int argc, char **argv)
{
    int code = run(argc, argv);
    if (fflush(stdout) != 0 && code == CLI_OK) {
        perror("spmd: cannot write to stdout");
        return CLI_FAILED;
    }
    return code;
}
