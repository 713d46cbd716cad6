/* spmd info: what this build can do on this machine. */
#include "cli/cli.h"
#include "kernels/matmul/gemm.h"
#include "spmd/cuda.h"
#include "spmd/host/pin.h"
#include "spmd/spmdkit.h"
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <zlib.h>
#ifdef SPMD_HAVE_HWLOC
#include <hwloc.h>
#endif

enum { LIBRARIES = 5 };

typedef struct library {
    const char *name;
    char version[96];
} library;

static void processor(char *text, size_t size)
{
    struct utsname machine;
    snprintf(text, size, "%s", uname(&machine) == 0 ? machine.machine : "unknown");
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':')) {
            snprintf(text, size, "%s", strchr(line, ':') + 2);
            text[strcspn(text, "\n")] = '\0';
            break;
        }
    if (file)
        fclose(file);
}

static void libraries(library *list)
{
    const char *curl = spmd_dataset_downloader();
    list[0].name = "matmul";
    snprintf(list[0].version, sizeof list[0].version, "%s", spmd__matmul_library());
    list[1].name = "hwloc";
#ifdef SPMD_HAVE_HWLOC
    unsigned v = hwloc_get_api_version();
    snprintf(list[1].version, sizeof list[1].version, "%u.%u.%u", v >> 16, v >> 8 & 255, v & 255);
#else
    snprintf(list[1].version, sizeof list[1].version, "not built in");
#endif
    list[2].name = "curl";
    if (curl) /* the first word; the others are what libcurl stands on */
        snprintf(list[2].version, sizeof list[2].version, "%.*s", (int)strcspn(curl, " "), curl);
    else
        snprintf(list[2].version, sizeof list[2].version, "not built in");
    list[3].name = "zlib";
    snprintf(list[3].version, sizeof list[3].version, "%s", zlibVersion());
    list[4].name = "cjson";
    snprintf(list[4].version, sizeof list[4].version, "%s", cJSON_Version());
}

/* GPUs as text lines: "0 NVIDIA H200, sm_90, 132 processors, 139 of 141 GiB free, peers 1 2 3" */
static void print_gpus(void)
{
    enum { MOST = 64 };
    const double gib = 1024.0 * 1024 * 1024;
    spmd_cuda_gpu gpus[MOST];
    char versions[96];
    int n = spmd_cuda_gpus(gpus, MOST);
    if (n == 0)
        printf("  GPUs       none: %s\n", spmd_last_error());
    else
        printf("  GPUs       %d; %s\n", n, spmd_cuda_versions(versions, sizeof versions));
    for (int k = 0; k < n && k < MOST; k++) {
        printf("    %-2d       %s, sm_%d%d, %d processors, %.1f of %.1f GiB free, peers", k, gpus[k].name,
               gpus[k].major, gpus[k].minor, gpus[k].processors, (double)gpus[k].free / gib,
               (double)gpus[k].memory / gib);
        for (int other = 0; other < n && other < MOST; other++)
            if (other != k && gpus[k].peers >> other & 1)
                printf(" %d", other);
        printf("%s\n", gpus[k].peers == (uint64_t)1 << k ? " none" : "");
    }
}

static void gpus_json(json *line)
{
    enum { MOST = 64 };
    spmd_cuda_gpu gpus[MOST];
    int n = spmd_cuda_gpus(gpus, MOST);
    for (int k = 0; k < n && k < MOST; k++) {
        json_open(line, NULL, '{');
        json_text(line, "backend", "cuda");
        json_text(line, "name", gpus[k].name);
        json_integer(line, "compute_capability", 10 * gpus[k].major + gpus[k].minor);
        json_integer(line, "processors", gpus[k].processors);
        json_integer(line, "memory_bytes", (int64_t)gpus[k].memory);
        json_integer(line, "free_bytes", (int64_t)gpus[k].free);
        json_open(line, "peers", '[');
        for (int other = 0; other < n && other < MOST; other++)
            if (other != k && gpus[k].peers >> other & 1)
                json_integer(line, NULL, other);
        json_close(line, ']');
        json_close(line, '}');
    }
}

static int info_json(const char *name, const library *list)
{
    json line;
    if (!json_begin(&line))
        return CLI_FAILED;
    json_text(&line, "version", SPMD_VERSION);
    json_open(&line, "backends", '[');
    for (int k = 0; spmd_backend_name(k); k++)
        json_text(&line, NULL, spmd_backend_name(k));
    json_close(&line, ']');
    json_open(&line, "devices", '[');
    json_open(&line, NULL, '{');
    json_text(&line, "backend", "host");
    json_text(&line, "name", name);
    json_integer(&line, "max_devices", SPMD_MAX_DEVICES);
    json_bool(&line, "native_bf16", spmd__matmul_has_native_bf16());
    json_close(&line, '}');
    gpus_json(&line);
    json_close(&line, ']');
    json_integer(&line, "cores", spmd__allowed_cores());
    json_open(&line, "libraries", '{');
    for (int k = 0; k < LIBRARIES; k++)
        json_text(&line, list[k].name, list[k].version);
    char versions[96];
    if (spmd_cuda_versions(versions, sizeof versions))
        json_text(&line, "cuda", versions);
    json_close(&line, '}');
    return json_print(&line) ? CLI_OK : CLI_FAILED;
}

int cmd_info(const cli_options *options)
{
    library list[LIBRARIES];
    char name[128];
    processor(name, sizeof name);
    libraries(list);
    if (options->json)
        return info_json(name, list);
    printf("spmdkit %s\n", SPMD_VERSION);
    printf("  backends  ");
    for (int k = 0; spmd_backend_name(k); k++)
        printf(" %s", spmd_backend_name(k));
    printf("; a device is a thread with its own memory, up to %d devices\n", SPMD_MAX_DEVICES);
    printf("  processor  %s\n", name);
    printf("  cores      %d\n", spmd__allowed_cores());
    printf("  bf16       %s\n", spmd__matmul_has_native_bf16()
                                    ? "native: matmuls on bf16 use the processor's own instructions"
                                    : "converted: matmuls on bf16 are computed in f32, rounded once");
    for (int k = 0; k < LIBRARIES; k++)
        printf("  %-9s  %s\n", list[k].name, list[k].version);
    print_gpus();
    return CLI_OK;
}
