/* For tests of downloads: a server on the loopback device that misbehaves to order, one connection a request. */
#ifndef TESTS_MODELS_HTTP_SERVER_H
#define TESTS_MODELS_HTTP_SERVER_H

#include <arpa/inet.h>
#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef enum answer {
    WHOLE,      /* everything that was asked for */
    CUT,        /* closes half-way */
    CUT_SILENT, /* the same, without having said how long it is */
    WRONG,      /* as many bytes, but others */
    LONGER,     /* some more bytes than the file has */
    MISSING,    /* 404 */
    STALL,      /* half of it, then nothing more until the client hangs up */
} answer;

enum { MAX_REQUESTS = 32 };

typedef struct server {
    const uint8_t *body;
    size_t size;
    bool ranges;          /* whether it can continue at an offset */
    const answer *script; /* answer k to request k; the last one for all that follow */
    int nscript;
    char url[64]; /* "http://127.0.0.1:<port>/" */
    int listener;
    pthread_t thread;
    int requests;            /* so far; read it after server_stop */
    long from[MAX_REQUESTS]; /* asked for bytes from here on; 0: no range */
} server;

static inline void send_all(int fd, const void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = send(fd, (const char *)bytes + done, size - done, MSG_NOSIGNAL);
        if (n <= 0)
            return; /* the client had enough */
        done += (size_t)n;
    }
}

static inline void send_head(int fd, const char *status, long length, const char *more)
{
    char head[512], said[64] = "";
    if (length >= 0)
        snprintf(said, sizeof said, "Content-Length: %ld\r\n", length);
    int n = snprintf(head, sizeof head, "HTTP/1.1 %s\r\n%s%sConnection: close\r\n\r\n", status, said, more);
    send_all(fd, head, (size_t)n);
}

static inline void serve_body(const server *s, int fd, answer how, size_t from)
{
    size_t left = s->size - from, n = how == CUT || how == CUT_SILENT || how == STALL ? left / 2 : left;
    char range[96] = "";
    if (from > 0)
        snprintf(range, sizeof range, "Content-Range: bytes %zu-%zu/%zu\r\n", from, s->size - 1, s->size);
    long said = how == CUT_SILENT ? -1 : how == LONGER ? (long)left + 5 : (long)left;
    send_head(fd, from > 0 ? "206 Partial Content" : "200 OK", said, range);
    uint8_t *bytes = calloc(left + 5, 1);
    memcpy(bytes, s->body + from, left);
    if (how == WRONG)
        bytes[left / 3] ^= 1;
    send_all(fd, bytes, how == LONGER ? left + 5 : n);
    free(bytes);
    char rest;
    if (how == STALL)
        (void)!recv(fd, &rest, 1, 0); /* returns when the client closes */
}

static inline void serve_one(server *s, int fd)
{
    char request[4096];
    size_t used = 0;
    request[0] = 0;
    while (used < sizeof request - 1 && !strstr(request, "\r\n\r\n")) {
        ssize_t n = recv(fd, request + used, sizeof request - 1 - used, 0);
        if (n <= 0)
            return;
        used += (size_t)n;
        request[used] = 0;
    }
    const char *range = strstr(request, "Range: bytes=");
    long from = range ? atol(range + strlen("Range: bytes=")) : 0;
    int k = s->requests++;
    if (k < MAX_REQUESTS)
        s->from[k] = from;
    answer how = s->script[k < s->nscript ? k : s->nscript - 1];
    if (how == MISSING)
        send_head(fd, "404 Not Found", 0, "");
    else if (s->ranges && from >= (long)s->size)
        send_head(fd, "416 Range Not Satisfiable", 0, "");
    else
        serve_body(s, fd, how, s->ranges ? (size_t)from : 0);
}

static inline void *server_main(void *user)
{
    server *s = user;
    for (int fd; (fd = accept(s->listener, NULL, NULL)) >= 0; close(fd)) {
        serve_one(s, fd);
        shutdown(fd, SHUT_WR);
    }
    return NULL;
}

/* Fill in body, size, ranges, script, nscript before. */
static inline void server_start(server *s)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    s->listener = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_ge(s->listener, 0);
    ck_assert_int_eq(bind(s->listener, (struct sockaddr *)&address, length), 0);
    ck_assert_int_eq(getsockname(s->listener, (struct sockaddr *)&address, &length), 0);
    ck_assert_int_eq(listen(s->listener, 16), 0);
    snprintf(s->url, sizeof s->url, "http://127.0.0.1:%d/", ntohs(address.sin_port));
    ck_assert_int_eq(pthread_create(&s->thread, NULL, server_main, s), 0);
}

static inline void server_stop(server *s)
{
    shutdown(s->listener, SHUT_RDWR); /* ends accept */
    pthread_join(s->thread, NULL);
    close(s->listener);
}

#endif
