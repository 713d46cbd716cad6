/* Copies of pieces: all that gather, exchange and slice do with memory. */
#include "collectives/coll.h"
#include <string.h>

void spmd__copy(void *dst, const void *src, size_t bytes)
{
    if (bytes)
        memcpy(dst, src, bytes);
}

enum { LEAST = 4096 }; /* bytes: shorter runs are not worth streaming */

/* Walks through one side: `left` elements of the present run, then over the other pieces' runs to the next. */
typedef struct cursor {
    char *at;
    int64_t run, left;
    size_t gap;
} cursor;

static cursor cursor_start(void *block, spmd_pieces pieces, int64_t count, size_t size)
{
    int64_t run = pieces.n == 1 ? count : pieces.run;
    size_t bytes = (size_t)run * size;
    return (cursor){(char *)block + (size_t)pieces.k * bytes, run, run, (size_t)(pieces.n - 1) * bytes};
}

static void cursor_step(cursor *c, int64_t step, size_t size)
{
    c->at += (size_t)step * size;
    c->left -= step;
    if (c->left == 0) {
        c->at += c->gap;
        c->left = c->run;
    }
}

void spmd__copy_piece(spmd_copy *copy, void *dst, spmd_pieces to, const void *src, spmd_pieces from, int64_t count,
                      size_t size)
{
    if (count == 0) /* a run may be 0 then, and a block NULL */
        return;
    cursor d = cursor_start(dst, to, count, size), s = cursor_start((void *)src, from, count, size);
    int64_t step = d.run < s.run ? d.run : s.run;
    if ((size_t)step * size < LEAST)
        copy = spmd__copy;
    for (int64_t done = step;; done += step) {
        copy(d.at, s.at, (size_t)step * size);
        if (done >= count)
            return;
        cursor_step(&d, step, size);
        cursor_step(&s, step, size);
    }
}
