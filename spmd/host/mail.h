/* Private to the meeting: the lines in which a message travels. A cache line carries a piece of it and, written last,
 * the sequence of the meeting: a line that shows it is whole, whatever the others do. */
#ifndef SPMD_HOST_MAIL_H
#define SPMD_HOST_MAIL_H

#include "spmd/host/futex.h"
#include "spmd/host/meet.h"
#include <stdatomic.h>
#include <string.h>

enum { SPMD_MAIL_LINE = 60, SPMD_MAIL_HASH = sizeof(uint64_t) };
/* A box: the call's hash, then the message. */
enum { SPMD_MAIL_BOX_LINES = (SPMD_MAIL_HASH + SPMD_MAIL_BYTES) / SPMD_MAIL_LINE + 1 };

typedef struct spmd_mail_line {
    char data[SPMD_MAIL_LINE];
    _Atomic uint32_t sequence;
} __attribute__((aligned(64))) spmd_mail_line;

static inline void spmd__mail_write(spmd_mail_line *line, uint32_t sequence, uint64_t hash, const spmd_mail *mail)
{
    size_t done = mail->bytes < SPMD_MAIL_LINE - SPMD_MAIL_HASH ? mail->bytes : SPMD_MAIL_LINE - SPMD_MAIL_HASH;
    memcpy(line->data, &hash, SPMD_MAIL_HASH);
    if (done)
        memcpy(line->data + SPMD_MAIL_HASH, mail->message, done);
    atomic_store_explicit(&line->sequence, sequence, memory_order_release);
    for (size_t left = mail->bytes - done; left; left = mail->bytes - done) {
        line++;
        if (left >= SPMD_MAIL_LINE)
            memcpy(line->data, (const char *)mail->message + done, SPMD_MAIL_LINE); /* of known size: a few moves */
        else
            memcpy(line->data, (const char *)mail->message + done, left);
        atomic_store_explicit(&line->sequence, sequence, memory_order_release);
        done += left < SPMD_MAIL_LINE ? left : SPMD_MAIL_LINE;
    }
}

/* The next message goes into lines that its readers have had since the meeting before, and are done with: they come
 * back while the caller computes. */
static inline void spmd__mail_prepare(const spmd_mail_line *next, size_t bytes)
{
    for (size_t done = 0; done < SPMD_MAIL_HASH + bytes; done += SPMD_MAIL_LINE)
        spmd__prefetch_to_write(next++);
}

#endif
