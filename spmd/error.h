/* Private: what the launch does with this thread's error text. */
#ifndef SPMD_ERROR_H
#define SPMD_ERROR_H

#include "spmd/status.h"
#include <stdbool.h>

enum { SPMD_ERROR_SIZE = 1024 };

/* Later messages of this thread begin with "where: " ("shard 2 (data=2)"); NULL: not a shard's thread (any more). */
void spmd__error_set_where(const char *where);
/* True in a shard's thread while it runs the shard function. */
bool spmd__error_in_shard(void);
/* Takes over a text that another thread wrote. */
void spmd__error_copy(const char *text);

#endif
