/* Where code stands in the source: asked of addr2line, which reads the debug information of programs built with -g. */
#include "emu/emu_private.h"
#include "emu/emu_report.h"
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A line of code of the user's: not of the headers that stand between him and the built-ins. */
static bool is_users(const char *line)
{
    const char *name = strrchr(line, '/');
    name = name ? name + 1 : line;
    return strncmp(name, "emu_", 4) != 0 && strncmp(name, "cuda_", 5) != 0 && strncmp(name, "??", 2) != 0 &&
           strncmp(name, "vector_functions", 16) != 0 && strncmp(name, "type_traits", 11) != 0 &&
           strncmp(name, "tuple", 5) != 0 && strncmp(name, "invoke.h", 8) != 0;
}

static bool ask_addr2line(const char *object, uintptr_t address, char *text, size_t size)
{
    char command[600], line[600];
    int length = snprintf(command, sizeof command, "addr2line -s -i -e '%s' 0x%zx 2>/dev/null", object,
                          (size_t)address);
    bool found = false;
    if (length >= (int)sizeof command || strchr(object, '\''))
        return false;
    FILE *answer = popen(command, "r");
    while (answer && fgets(line, sizeof line, answer)) { /* innermost inlined function first */
        line[strcspn(line, "\n ")] = '\0';
        if (!found && is_users(line)) {
            snprintf(text, size, "%.150s", line);
            found = true;
        }
    }
    if (answer)
        pclose(answer);
    return found;
}

static void look_up(const void *site, char *text, size_t size)
{
    Dl_info object = {0};
    struct link_map *map = NULL;
    char program[64]; /* addr2line is another process: /proc/self would be its own */
    snprintf(program, sizeof program, "/proc/%ld/exe", (long)getpid());
    if (!dladdr1(site, &object, (void **)&map, RTLD_DL_LINKMAP))
        map = NULL;                                                 /* linked statically */
    uintptr_t call = (uintptr_t)site - 1 - (map ? map->l_addr : 0); /* the return address is behind the call */
    const char *file = map && map->l_name[0] ? map->l_name : program;
    if (!ask_addr2line(file, call, text, size))
        snprintf(text, size, "%.100s+0x%zx (build with -g to see the line)",
                 object.dli_sname ? object.dli_sname : "code", (size_t)call);
}

void emu_site_text(const void *site, char *text, size_t size)
{
    enum { KEPT = 256, TEXT = 160 }; /* a process for each question is slow */
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static struct {
        const void *site;
        char text[TEXT];
    } kept[KEPT];
    if (!site) {
        snprintf(text, size, "an unknown place");
        return;
    }
    pthread_mutex_lock(&mutex);
    size_t at = (uintptr_t)site % KEPT;
    if (kept[at].site != site) {
        look_up(site, kept[at].text, TEXT);
        kept[at].site = site;
    }
    snprintf(text, size, "%s", kept[at].text);
    pthread_mutex_unlock(&mutex);
}
