/* Private to the core: the meetings' life, and the meeting at the end of a launch. */
#ifndef SPMD_HOST_MEET_PRIVATE_H
#define SPMD_HOST_MEET_PRIVATE_H

#include "spmd/host/meet.h"

struct spmd_meetings;

spmd_status spmd__groups_create(spmd_mesh *mesh);
void spmd__groups_free(spmd_mesh *mesh);
spmd_status spmd__meetings_create(spmd_mesh *mesh);
void spmd__meetings_free(struct spmd_meetings *meetings);
/* Forgets half-finished meetings of a failed launch; no device thread may be running. */
void spmd__meetings_reset(spmd_mesh *mesh);
/* Wakes every waiting shard (they see the poison). */
void spmd__meetings_wake(spmd_mesh *mesh);
/* One clause a shard: what it last did. For reports. */
void spmd__describe_shards(const spmd_mesh *mesh, char *text, size_t size);

#endif
