/* The command line: one table of options, from which parsing, the help text and the suggestions are made. */
#include "cli/cli.h"
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum kind { FLAG, TEXT, INTEGER, REAL };

/* Commands that take steps on a mesh, those that need a model for it, and those that may train one. */
enum {
    STEPS = CLI_TRAIN | CLI_COMPARE | CLI_SWEEP | CLI_LESSON,
    MODEL = STEPS | CLI_EVAL | CLI_SHOW,
    LEARN = STEPS | CLI_SHOW
};

static const struct option {
    const char *name, *value, *help;
    enum kind kind;
    unsigned commands; /* that use it */
    size_t offset;
    int64_t min, max;
} options[] = {
    {"--devices", "N", "devices, as one mesh axis \"data\" (1..64; default 2)", INTEGER, MODEL,
     offsetof(cli_options, devices), 1, SPMD_MAX_DEVICES},
    {"--mesh", "AXES", "the mesh instead, e.g. data=2", TEXT, MODEL, offsetof(cli_options, mesh), 0, 0},
    {"--backend", "NAME", "host (default), cuda, or host-strict, host's hostile twin for tests", TEXT, MODEL,
     offsetof(cli_options, backend), 0, 0},
    {"--dtype", "NAME", "computes in f32 (default) or bf16", TEXT, MODEL, offsetof(cli_options, dtype), 0, 0},
    {"--seed", "N", "of start values and order of examples (default 1)", INTEGER, MODEL, offsetof(cli_options, seed), 0,
     INT64_MAX},
    {"--json", NULL, "one JSON object a line on stdout, text for people on stderr", FLAG, CLI_ALL,
     offsetof(cli_options, json), 0, 0},
    {"--dataset", "NAME", "fashion-mnist (default), mnist, mnist-30k, synthetic", TEXT, MODEL,
     offsetof(cli_options, dataset), 0, 0},
    {"--mode", "NAME", "explicit (default): gradients averaged by hand; auto: by the library", TEXT,
     MODEL & ~CLI_COMPARE, offsetof(cli_options, mode), 0, 0},
    {"--batch", "N", "global batch size (default 512)", INTEGER, MODEL & ~CLI_SWEEP, offsetof(cli_options, batch), 1,
     1 << 24},
    {"--steps", "N", "training steps (default 400); compare: whose numbers are compared (default 20)", INTEGER,
     LEARN & ~CLI_SWEEP, offsetof(cli_options, steps), 1, INT64_MAX / 2},
    {"--lr", "X", "highest learning rate (default: the optimizer's)", REAL, LEARN, offsetof(cli_options, rate), 0, 0},
    {"--schedule", "NAME", "cosine (default), constant, linear, warmup_cosine", TEXT, LEARN,
     offsetof(cli_options, schedule), 0, 0},
    {"--optimizer", "NAME", "adamw (default), sgd, momentum, nesterov, adam, lion, rmsprop, lamb", TEXT, LEARN,
     offsetof(cli_options, optimizer), 0, 0},
    {"--width", "W", "width of the first hidden layer (default 256; shared-mlp 1024)", INTEGER, LEARN,
     offsetof(cli_options, width), 1, 1 << 16},
    {"--repeats", "L", "shared-mlp: how often the block is applied (default 128)", INTEGER, STEPS,
     offsetof(cli_options, repeats), 0, 4096},
    {"--eval", NULL, "measure the accuracy on the test set at the end", FLAG, CLI_TRAIN, offsetof(cli_options, eval), 0,
     0},
    {"--log", "FILE", "write every step as a line of JSON", TEXT, CLI_TRAIN, offsetof(cli_options, log), 0, 0},
    {"--checkpoint", "DIR", "train: save there; eval, predictions, confusion: the model to load", TEXT,
     CLI_TRAIN | CLI_EVAL | CLI_SHOW, offsetof(cli_options, checkpoint), 0, 0},
    {"--every", "N", "steps between checkpoints (default: a tenth of --steps)", INTEGER, CLI_TRAIN,
     offsetof(cli_options, every), 1, INT64_MAX / 2},
    {"--keep", "N", "how many checkpoints are kept, besides the best (default 3)", INTEGER, CLI_TRAIN,
     offsetof(cli_options, keep), 1, 1 << 20},
    {"--resume", NULL, "go on from the newest checkpoint, if there is one", FLAG, CLI_TRAIN,
     offsetof(cli_options, resume), 0, 0},
    {"--batches", "LIST", "sweep: global batch sizes (default 256,512,1024,2048,4096)", TEXT, CLI_SWEEP,
     offsetof(cli_options, batches), 0, 0},
    {"--out", "DIR", "where reports and pictures are written (default: sweep ., else spmd-report)", TEXT,
     CLI_SWEEP | CLI_LESSON | CLI_SHOW | CLI_REPORT, offsetof(cli_options, out), 0, 0},
    {"--quick", NULL, "lesson: sizes for a laptop (default on host)", FLAG, CLI_LESSON, offsetof(cli_options, quick), 0,
     0},
    {"--full", NULL, "lesson: the lesson's own sizes (default on cuda)", FLAG, CLI_LESSON, offsetof(cli_options, full),
     0, 0},
    {"--all", NULL, "lesson: evaluate every test example, not only full batches", FLAG, CLI_LESSON,
     offsetof(cli_options, all), 0, 0},
    {"--open", NULL, "show the report in the browser at the end", FLAG, CLI_LESSON | CLI_SHOW | CLI_REPORT,
     offsetof(cli_options, open), 0, 0},
};
enum { OPTIONS = sizeof options / sizeof *options };

int cli_usage(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("spmd: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return CLI_USAGE;
}

void cli_print_options(unsigned commands, FILE *file)
{
    for (int k = 0; k < OPTIONS; k++) {
        char left[40];
        if (!(options[k].commands & commands))
            continue;
        snprintf(left, sizeof left, "%s %s", options[k].name, options[k].value ? options[k].value : "");
        fprintf(file, "  %-18s %s\n", left, options[k].help);
    }
}

/* Levenshtein's distance, on the first 31 characters. */
static int distance(const char *a, const char *b)
{
    enum { LONGEST = 31 };
    int row[LONGEST + 1];
    int na = (int)strnlen(a, LONGEST), nb = (int)strnlen(b, LONGEST);
    for (int j = 0; j <= nb; j++)
        row[j] = j;
    for (int i = 1; i <= na; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[nb];
}

const char *cli_nearest(const char *text, const char *const *names)
{
    const char *best = names[0];
    for (int k = 1; names[k]; k++)
        if (distance(text, names[k]) < distance(text, best))
            best = names[k];
    return best;
}

static const struct option *find(const char *name, size_t length)
{
    for (int k = 0; k < OPTIONS; k++)
        if (strlen(options[k].name) == length && memcmp(options[k].name, name, length) == 0)
            return &options[k];
    return NULL;
}

static bool unknown(const cli_command *command, const char *argument)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(argument, "="), argument);
    const char *names[OPTIONS + 1] = {NULL};
    for (int k = 0, n = 0; k < OPTIONS; k++)
        if (options[k].commands & command->id)
            names[n++] = options[k].name;
    cli_usage("%s has no option '%s'; the nearest is %s. All its options: spmd %s --help", command->name, name,
              cli_nearest(name, names), command->name);
    return false;
}

static bool set(const struct option *option, const char *value, cli_options *out)
{
    char *place = (char *)out + option->offset, *end = NULL;
    errno = 0;
    if (option->kind == TEXT) {
        *(const char **)(void *)place = value;
    } else if (option->kind == INTEGER) {
        long long number = strtoll(value, &end, 10);
        if (!*value || *end || errno || number < option->min || number > option->max) {
            cli_usage("%s '%s': needs a whole number from %lld to %lld", option->name, value, (long long)option->min,
                      (long long)option->max);
            return false;
        }
        *(int64_t *)(void *)place = number;
    } else {
        double number = strtod(value, &end);
        if (!*value || *end || errno || !(number >= 0 && number <= 1e6)) {
            cli_usage("%s '%s': needs a number from 0 to 1e6, like 3e-3", option->name, value);
            return false;
        }
        *(double *)(void *)place = number;
    }
    return true;
}

bool cli_parse(const cli_command *command, int argc, char **argv, int first, cli_options *out)
{
    *out = (cli_options){.devices = -1,
                         .seed = -1,
                         .batch = -1,
                         .steps = -1,
                         .width = -1,
                         .repeats = -1,
                         .every = -1,
                         .keep = -1,
                         .rate = -1};
    for (int k = first; k < argc; k++) {
        const char *argument = argv[k];
        if (strncmp(argument, "--", 2) != 0) {
            if (out->nwords == command->words) {
                cli_usage("%s: '%s' is one word too many; options start with --", command->name, argument);
                return false;
            }
            out->words[out->nwords++] = argument;
            out->model = out->words[0];
            continue;
        }
        size_t length = strcspn(argument, "=");
        const struct option *option = find(argument, length);
        if (!option)
            return unknown(command, argument);
        if (!(option->commands & command->id)) {
            cli_usage("%s does not use %s. What it uses: spmd %s --help", command->name, option->name, command->name);
            return false;
        }
        if (option->kind == FLAG) {
            if (argument[length]) {
                cli_usage("%s takes no value, got '%s'", option->name, argument);
                return false;
            }
            *(bool *)(void *)((char *)out + option->offset) = true;
            continue;
        }
        const char *value = argument[length] ? argument + length + 1 : k + 1 < argc ? argv[++k] : NULL;
        if (!value) {
            cli_usage("%s needs a value: %s %s (%s)", option->name, option->name, option->value, option->help);
            return false;
        }
        if (!set(option, value, out))
            return false;
    }
    return true;
}
