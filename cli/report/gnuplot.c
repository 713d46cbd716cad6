/* Plots: one script, run by gnuplot once for each format. */
#include "cli/report/plot.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

bool plot_begin(page *p, plot *picture, const char *name, int width, int height)
{
    *picture = (plot){.name = name, .width = width, .height = height};
    picture->script = open_memstream(&picture->text, &picture->size);
    p->failed = p->failed || !picture->script;
    return picture->script != NULL;
}

/* In gnuplot's single quotes only the quote itself means anything: it is doubled. */
void plot_path(FILE *file, const page *p, const char *name, const char *kind)
{
    fputc('\'', file);
    for (const char *c = p->folder; *c; c++)
        fputs(*c == '\'' ? "''" : (char[]){*c, 0}, file);
    fprintf(file, "/%s.%s'", name, kind);
}

/* What the two terminals have in common is said by the script; fonts are theirs. */
static void write_script(const page *p, const plot *picture, bool svg, FILE *gnuplot)
{
    static const char *const terminals[][2] = {{"png", "pngcairo font 'sans,11'"},
                                               {"svg", "svg font 'sans-serif,14' background '#ffffff'"}};
    for (int k = 0; k < (svg ? 2 : 1); k++) {
        fprintf(gnuplot, "reset\nset terminal %s size %d,%d\nset output ", terminals[k][1], picture->width,
                picture->height);
        plot_path(gnuplot, p, picture->name, terminals[k][0]);
        fprintf(gnuplot, "\n%s\nunset output\n", picture->text);
    }
}

plot_drawn plot_draw(page *p, plot *picture, bool svg)
{
    bool written = fclose(picture->script) == 0;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before; /* a gnuplot that is missing does not read */
    sigaction(SIGPIPE, &ignore, &before);
    fflush(NULL); /* the child must not write what waits here a second time */
    FILE *gnuplot = written ? popen("gnuplot 2>/dev/null", "w") : NULL;
    if (gnuplot)
        write_script(p, picture, svg, gnuplot);
    int status = gnuplot ? pclose(gnuplot) : -1;
    sigaction(SIGPIPE, &before, NULL);
    free(picture->text);
    if (status == 0)
        return PLOT_DRAWN;
    return status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 127 ? PLOT_NO_GNUPLOT : PLOT_FAILED;
}

/* Pictures of an earlier run must not pass for this one's. */
void plot_remove_old(const page *p, const char *name)
{
    char path[640];
    for (int k = 0; k < 2; k++) {
        snprintf(path, sizeof path, "%s/%s.%s", p->folder, name, k ? "png" : "svg");
        unlink(path);
    }
}

void plot_end(page *p, plot *picture, const char *caption)
{
    plot_remove_old(p, picture->name);
    plot_drawn drawn = plot_draw(p, picture, true);
    if (drawn == PLOT_DRAWN)
        page_picture(p, picture->name, caption, false);
    else if (drawn == PLOT_NO_GNUPLOT)
        page_text(p, "LEFT OUT: the picture '%s' (%s): gnuplot is missing; install gnuplot-nox.", picture->name,
                  caption);
    else
        page_text(p, "LEFT OUT: the picture '%s' (%s): gnuplot failed, or %s cannot be written.", picture->name,
                  caption, p->folder);
}
