/* safetensors: 8 bytes little-endian header length, that many bytes of JSON, then the data.
 *
 * Opening goes in three passes: read and parse the header, check every entry by itself, then sort the entries by
 * offset and check that together they cover the data exactly (no overlap, no hole, no rest). Only then the data is
 * read, each tensor to an aligned place of its own: the format does not promise alignment. */
#include "models/safetensors.h"
#include "models/data/safetensors_entry.h"
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { ALIGN = 64, MAX_HEADER = 100000000 };

struct spmd_safetensors {
    cJSON *header; /* owns all strings */
    char *path;
    int64_t count;
    safetensors_entry *entries; /* in the order of their data */
    spmd_safetensor **by_name;  /* the same, sorted by name */
    uint8_t *memory;            /* all data, from malloc */
};

/* Bytes of the data part; the header's text in *json, malloc'ed. */
static spmd_status read_json(const char *path, FILE *file, char **json, size_t *length, uint64_t *data_bytes)
{
    struct stat info;
    SPMD_CHECK(fstat(fileno(file), &info) == 0, SPMD_EIO, "%s: cannot be looked at: %s", path, strerror(errno));
    SPMD_CHECK(S_ISREG(info.st_mode), SPMD_EIO, "%s: is not a regular file", path);
    uint64_t size = (uint64_t)info.st_size, n = 0;
    uint8_t prefix[8];
    SPMD_CHECK(size >= 8, SPMD_EDATA, "%s: has %llu bytes, expected at least the 8 of the header's length", path,
               (unsigned long long)size);
    SPMD_CHECK(fread(prefix, 1, 8, file) == 8, SPMD_EIO, "%s: cannot be read: %s", path, strerror(errno));
    for (int i = 0; i < 8; i++)
        n |= (uint64_t)prefix[i] << (8 * i);
    SPMD_CHECK(
        n >= 2 && n <= MAX_HEADER && n <= size - 8, SPMD_EDATA,
        "%s: its header's length is %llu, expected 2 to %llu (file of %llu bytes): cut short, or not safetensors", path,
        (unsigned long long)n, (unsigned long long)(size - 8 < MAX_HEADER ? size - 8 : MAX_HEADER),
        (unsigned long long)size);
    *json = malloc((size_t)n + 1);
    SPMD_CHECK(*json, SPMD_ENOMEM, "%s: no memory for its header of %llu bytes", path, (unsigned long long)n);
    SPMD_CHECK(fread(*json, 1, (size_t)n, file) == n, SPMD_EIO, "%s: its header cannot be read", path);
    (*json)[n] = 0; /* some versions of cJSON look one byte too far */
    *length = (size_t)n;
    *data_bytes = size - 8 - n;
    return SPMD_OK;
}

static spmd_status parse_json(const char *path, const char *json, size_t length, cJSON **out)
{
    const char *end = NULL;
    SPMD_CHECK(json[0] == '{', SPMD_EDATA, "%s: its header begins with byte 0x%02x, expected '{' (0x7b)", path,
               (unsigned char)json[0]);
    *out = cJSON_ParseWithLengthOpts(json, length, &end, 0);
    SPMD_CHECK(*out, SPMD_EDATA, "%s: its header is no JSON: error at byte %lld of %zu", path,
               (long long)(end ? end - json : 0), length);
    while (end < json + length && *end == ' ') /* writers fill up with spaces */
        end++;
    SPMD_CHECK(end == json + length, SPMD_EDATA,
               "%s: its header goes on after the JSON object, at byte %lld of %zu, expected spaces only", path,
               (long long)(end - json), length);
    return SPMD_OK;
}

static spmd_status check_metadata(const char *path, const cJSON *metadata)
{
    if (!metadata)
        return SPMD_OK;
    SPMD_CHECK(cJSON_IsObject(metadata), SPMD_EDATA, "%s: __metadata__ is no JSON object", path);
    for (const cJSON *item = metadata->child; item; item = item->next)
        SPMD_CHECK(cJSON_IsString(item), SPMD_EDATA, "%s: __metadata__ \"%.100s\" is no string, expected strings only",
                   path, item->string);
    return SPMD_OK;
}

static int compare_offsets(const void *a, const void *b)
{
    const safetensors_entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp(x->tensor.name, y->tensor.name);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(spmd_safetensor *const *)a)->name, (*(spmd_safetensor *const *)b)->name);
}

/* The entries, sorted by offset, must follow each other from 0 to the end of the file. */
static spmd_status check_cover(const spmd_safetensors *f, uint64_t data_bytes)
{
    uint64_t at = 0;
    for (int64_t i = 0; i < f->count; i++) {
        const safetensors_entry *e = &f->entries[i];
        SPMD_CHECK(e->begin >= at, SPMD_EDATA,
                   "%s: tensor \"%.100s\" begins at %llu, inside \"%.100s\" which ends at %llu", f->path,
                   e->tensor.name, (unsigned long long)e->begin, i ? e[-1].tensor.name : "", (unsigned long long)at);
        SPMD_CHECK(e->begin == at, SPMD_EDATA,
                   "%s: tensor \"%.100s\" begins at %llu, expected %llu, where the one before it ends: no holes",
                   f->path, e->tensor.name, (unsigned long long)e->begin, (unsigned long long)at);
        at = e->end;
    }
    SPMD_CHECK(at == data_bytes, SPMD_EDATA, "%s: its tensors end at %llu, but the file has %llu bytes of data",
               f->path, (unsigned long long)at, (unsigned long long)data_bytes);
    return SPMD_OK;
}

static spmd_status check_names(spmd_safetensors *f)
{
    for (int64_t i = 0; i < f->count; i++)
        f->by_name[i] = &f->entries[i].tensor;
    qsort(f->by_name, (size_t)f->count, sizeof *f->by_name, compare_names);
    for (int64_t i = 1; i < f->count; i++)
        SPMD_CHECK(strcmp(f->by_name[i - 1]->name, f->by_name[i]->name) != 0, SPMD_EDATA,
                   "%s: tensor \"%.100s\" is there twice, expected different names", f->path, f->by_name[i]->name);
    return SPMD_OK;
}

static spmd_status read_entries(spmd_safetensors *f, uint64_t data_bytes)
{
    int64_t all = 0;
    for (const cJSON *item = f->header->child; item; item = item->next)
        all++;
    f->entries = calloc((size_t)all + 1, sizeof *f->entries);
    f->by_name = calloc((size_t)all + 1, sizeof *f->by_name);
    SPMD_CHECK(f->entries && f->by_name, SPMD_ENOMEM, "%s: no memory for %lld tensors", f->path, (long long)all);
    for (const cJSON *item = f->header->child; item; item = item->next) {
        if (strcmp(item->string, "__metadata__") == 0)
            SPMD_TRY(check_metadata(f->path, item));
        else
            SPMD_TRY(spmd__safetensors_entry(f->path, item, data_bytes, &f->entries[f->count++]));
    }
    qsort(f->entries, (size_t)f->count, sizeof *f->entries, compare_offsets);
    SPMD_TRY(check_names(f));
    return check_cover(f, data_bytes);
}

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static spmd_status read_data(spmd_safetensors *f, FILE *file)
{
    size_t total = ALIGN; /* also room for an empty tensor at the end */
    for (int64_t i = 0; i < f->count; i++)
        total += aligned(f->entries[i].tensor.bytes);
    f->memory = aligned_alloc(ALIGN, total);
    SPMD_CHECK(f->memory, SPMD_ENOMEM, "%s: no memory for its %zu bytes", f->path, total);
    uint8_t *place = f->memory;
    for (int64_t i = 0; i < f->count; i++) {
        spmd_safetensor *t = &f->entries[i].tensor;
        SPMD_CHECK(fread(place, 1, t->bytes, file) == t->bytes, SPMD_EIO,
                   "%s: tensor \"%.100s\" cannot be read: the file has changed, or the disk has an error", f->path,
                   t->name);
        t->data = place;
        place += aligned(t->bytes);
    }
    return SPMD_OK;
}

/* The checksum that the header promises, "" if none; `json` is left with zeros in its place, for summing up. */
static void take_checksum(char *json, size_t length, char want[SAFETENSORS_DIGITS + 1])
{
    const size_t at = sizeof SAFETENSORS_CHECKED - 1;
    want[0] = 0;
    if (length < at + SAFETENSORS_DIGITS || memcmp(json, SAFETENSORS_CHECKED, at) != 0)
        return;
    memcpy(want, json + at, SAFETENSORS_DIGITS);
    want[SAFETENSORS_DIGITS] = 0;
    memset(json + at, '0', SAFETENSORS_DIGITS);
}

static spmd_status check_sum(const spmd_safetensors *f, uLong crc, const char *want)
{
    char have[16];
    for (int64_t i = 0; i < f->count; i++)
        crc = crc32_z(crc, f->entries[i].tensor.data, f->entries[i].tensor.bytes);
    snprintf(have, sizeof have, "%08lx", crc);
    SPMD_CHECK(strcmp(have, want) == 0, SPMD_EDATA,
               "%s: has the checksum %s, expected %s: the file is damaged, use another one", f->path, have, want);
    return SPMD_OK;
}

static spmd_status read_file(spmd_safetensors *f, FILE *file, bool data)
{
    char *json = NULL, want[SAFETENSORS_DIGITS + 1] = "";
    size_t length = 0;
    uint64_t data_bytes = 0;
    uLong crc = 0;
    spmd_status status = read_json(f->path, file, &json, &length, &data_bytes);
    if (status == SPMD_OK)
        status = parse_json(f->path, json, length, &f->header);
    if (status == SPMD_OK) {
        take_checksum(json, length, want);
        crc = crc32_z(crc32(0, NULL, 0), (const Bytef *)json, length);
    }
    free(json);
    SPMD_TRY(status);
    SPMD_TRY(read_entries(f, data_bytes));
    if (!data)
        return SPMD_OK;
    SPMD_TRY(read_data(f, file));
    return want[0] ? check_sum(f, crc, want) : SPMD_OK;
}

static spmd_status open_file(const char *path, bool data, spmd_safetensors **out)
{
    *out = NULL;
    FILE *file = fopen(path, "rb");
    SPMD_CHECK(file, SPMD_EIO, "%s: cannot be opened: %s", path, strerror(errno));
    spmd_safetensors *f = calloc(1, sizeof *f);
    spmd_status status;
    if (!f || !(f->path = strdup(path)))
        status = SPMD_FAIL(SPMD_ENOMEM, "%s: no memory to open it", path);
    else
        status = read_file(f, file, data);
    fclose(file);
    if (status == SPMD_OK)
        *out = f;
    else
        spmd_safetensors_close(f);
    return status;
}

spmd_status spmd_safetensors_open(const char *path, spmd_safetensors **out)
{
    return open_file(path, true, out);
}

spmd_status spmd_safetensors_open_header(const char *path, spmd_safetensors **out)
{
    return open_file(path, false, out);
}

void spmd_safetensors_close(spmd_safetensors *f)
{
    if (!f)
        return;
    cJSON_Delete(f->header);
    free(f->entries);
    free(f->by_name);
    free(f->memory);
    free(f->path);
    free(f);
}

int64_t spmd_safetensors_count(const spmd_safetensors *f)
{
    return f->count;
}

const spmd_safetensor *spmd_safetensors_at(const spmd_safetensors *f, int64_t i)
{
    return i >= 0 && i < f->count ? &f->entries[i].tensor : NULL;
}

spmd_status spmd_safetensors_find(const spmd_safetensors *f, const char *name, const spmd_safetensor **out)
{
    int64_t low = 0, high = f->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (strcmp(f->by_name[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *out = low < f->count ? f->by_name[low] : NULL;
    if (*out && strcmp((*out)->name, name) == 0)
        return SPMD_OK;
    *out = NULL;
    return SPMD_FAIL(SPMD_EINVAL, "%s: no tensor \"%s\" among its %lld; next to it in order: \"%.100s\", \"%.100s\"",
                     f->path, name, (long long)f->count, low > 0 ? f->by_name[low - 1]->name : "",
                     low < f->count ? f->by_name[low]->name : "");
}

const char *spmd_safetensors_metadata(const spmd_safetensors *f, const char *key)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(f->header, "__metadata__");
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(metadata, key));
}
