/* One HTTP transfer with libcurl: the only file that knows it. */
#include "models/data/http.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef SPMD_HAVE_CURL
#include <curl/curl.h>

enum { CONNECT_S = 10, MAX_REDIRECTS = 5 };

typedef struct transfer {
    const spmd__http_request *request;
    CURL *curl;
    int64_t have;
    int64_t shown_ns; /* when progress was last called */
    bool started;     /* the first byte of the answer has come */
    bool stopped;     /* by progress */
    bool too_long;
    int write_error; /* errno of a failed write; 0: none */
} transfer;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* 206 continues; any other answer is the whole file from its start. */
static bool start(transfer *t)
{
    long code = 0;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code);
    t->started = true;
    if (code == 206 && t->have > 0)
        return true;
    t->have = 0;
    if (ftruncate(t->request->fd, 0) == 0)
        return true;
    t->write_error = errno;
    return false;
}

static size_t on_bytes(char *data, size_t one, size_t n, void *user)
{
    transfer *t = user;
    size_t bytes = one * n;
    if (!t->started && !start(t))
        return CURL_WRITEFUNC_ERROR;
    if ((int64_t)bytes > t->request->bytes - t->have) {
        t->too_long = true;
        return CURL_WRITEFUNC_ERROR;
    }
    for (size_t done = 0; done < bytes;) {
        ssize_t k = pwrite(t->request->fd, data + done, bytes - done, (off_t)t->have);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0) {
            t->write_error = k < 0 ? errno : ENOSPC;
            return CURL_WRITEFUNC_ERROR;
        }
        done += (size_t)k;
        t->have += k;
    }
    return bytes;
}

static int on_progress(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up)
{
    (void)total, (void)now, (void)up_total, (void)up;
    transfer *t = user;
    int64_t ns = now_ns();
    if (ns - t->shown_ns < 100000000)
        return 0;
    t->shown_ns = ns;
    t->stopped = !t->request->progress(t->request->user, t->request->file, t->have, t->request->bytes);
    return t->stopped;
}

static void set_options(transfer *t, char *error)
{
    CURL *c = t->curl;
    const spmd__http_request *r = t->request;
    curl_easy_setopt(c, CURLOPT_URL, r->url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https"); /* also for redirects: never file:// */
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, (long)MAX_REDIRECTS);
    curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L); /* the library owns no signals */
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, r->stall_s);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "spmdkit");
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, error);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    if (r->progress) {
        curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
        curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
        curl_easy_setopt(c, CURLOPT_XFERINFODATA, t);
    }
}

/* What became of a transfer, in our words. */
static spmd_status judge(transfer *t, CURLcode code, const char *error, bool *network)
{
    const spmd__http_request *r = t->request;
    long answer = 0;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &answer);
    SPMD_CHECK(!t->stopped, SPMD_EUSER, "%s: stopped after %lld of %lld bytes by the progress callback", r->url,
               (long long)t->have, (long long)r->bytes);
    SPMD_CHECK(!t->write_error, SPMD_EIO, "%s: cannot be stored after %lld of %lld bytes: %s: make room for it", r->url,
               (long long)t->have, (long long)r->bytes, strerror(t->write_error));
    SPMD_CHECK(!t->too_long, SPMD_EDATA, "%s: goes on after %lld bytes, expected exactly so many: not the same file",
               r->url, (long long)r->bytes);
    *network = true;
    SPMD_CHECK(code == CURLE_OK, SPMD_EIO, "%s: %s (HTTP answer %ld, %lld of %lld bytes)", r->url,
               error[0] ? error : curl_easy_strerror(code), answer, (long long)t->have, (long long)r->bytes);
    SPMD_CHECK(t->have == r->bytes, SPMD_EIO, "%s: ended after %lld bytes, expected %lld", r->url, (long long)t->have,
               (long long)r->bytes);
    *network = false;
    return SPMD_OK;
}

static spmd_status perform(transfer *t, bool *network)
{
    char error[CURL_ERROR_SIZE] = "", range[32];
    set_options(t, error);
    if (t->have > 0) {
        snprintf(range, sizeof range, "%lld-", (long long)t->have);
        curl_easy_setopt(t->curl, CURLOPT_RANGE, range);
    }
    CURLcode code = curl_easy_perform(t->curl);
    long answer = 0;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &answer);
    if (answer == 416) /* nothing to continue with there: whatever we hold belongs to another file */
        t->have = 0;
    return judge(t, code, error, network);
}

spmd_status spmd__http_get(const spmd__http_request *request, int64_t *have, bool *network)
{
    transfer t = {.request = request, .have = request->from};
    *have = request->from;
    *network = false;
    SPMD_CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK, SPMD_ENOMEM, "%s: libcurl cannot start",
               request->url);
    t.curl = curl_easy_init();
    spmd_status status = t.curl ? perform(&t, network)
                                : SPMD_FAIL(SPMD_ENOMEM, "%s: no memory for a libcurl handle", request->url);
    if (t.curl)
        curl_easy_cleanup(t.curl);
    curl_global_cleanup();
    *have = t.have;
    return status;
}

const char *spmd_dataset_downloader(void)
{
    return curl_version();
}
#else
spmd_status spmd__http_get(const spmd__http_request *request, int64_t *have, bool *network)
{
    *have = request->from;
    *network = true;
    return SPMD_FAIL(SPMD_EUNSUPPORTED, "%s: this build has no libcurl to fetch it with", request->url);
}

const char *spmd_dataset_downloader(void)
{
    return NULL;
}
#endif
