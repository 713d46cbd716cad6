/* Private: the emulated NCCL. A communicator is one rank of a clique. Everything is guarded by emu_lock. */
#ifndef EMU_NCCL_H
#define EMU_NCCL_H
#include "emu/emu_nccl_fold.h"
#include "emu/emu_runtime.h"

typedef struct emu_clique emu_clique;

struct ncclComm {
    emu_clique *clique; /* NULL: a split that not all ranks have called */
    int rank, device;
    uint64_t seq; /* collectives issued so far */
    bool blocking, aborted, finalized, destroyed;
    ncclResult_t failed; /* ncclSuccess, or what went wrong for good */
    int polls;           /* a call in progress: how often ncclCommGetAsyncError still says so */
    emu_op *last;        /* the newest op that was issued */
    int split_color, split_key;
    struct ncclComm *split; /* what this rank gets from the split that it called; see split_called */
    bool split_called;
};

/* One collective: what every rank brings. */
typedef struct emu_meeting_place {
    uint64_t seq;
    emu_op **ops; /* by rank; NULL: not issued, or given up */
    pthread_t *threads;
    bool *grouped;              /* by rank: called inside of a group */
    unsigned *order;            /* by rank: when it called, among all ops; 0: not yet */
    int first, issued, arrived; /* first: the rank whose call the others must match */
    bool mismatch;
    struct emu_meeting_place *next;
} emu_meeting_place;

struct emu_clique {
    char id[NCCL_UNIQUE_ID_BYTES];
    int number, n, joined;
    ncclResult_t failed;
    struct ncclComm **comms;     /* by rank */
    emu_meeting_place *meetings; /* open ones, the newest first */
    emu_meeting_place *past;     /* a few that are over */
    emu_op **transfers;          /* issued ops with sends and receives that have not ended */
    int ntransfers, transfers_room;
    emu_clique *next;
};

typedef enum emu_nccl_kind {
    EMU_ALL_REDUCE,
    EMU_ALL_GATHER,
    EMU_REDUCE_SCATTER,
    EMU_BROADCAST,
    EMU_REDUCE,
    EMU_SEND,
    EMU_RECV
} emu_nccl_kind;

/* A call as it was made; the arguments of its op. */
typedef struct emu_nccl_call {
    emu_nccl_kind kind;
    struct ncclComm *comm;
    const void *send;
    void *recv;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root; /* or the peer */
    bool grouped;
    pthread_t thread;
} emu_nccl_call;

extern emu_clique *emu_cliques; /* all that have a communicator */
/* Two collectives of different communicators, called in different orders on two devices: reported. */
void emu_nccl_check_order(const emu_clique *clique, const emu_meeting_place *meeting, int rank);

const char *emu_nccl_name(emu_nccl_kind kind);
extern const emu_binding emu_collective_binding, emu_transfer_binding;
void emu_run_collective(emu_op *op, void *args);

/* Sends and receives of one group on one stream are one op. Each is done when its partner has met it. */
typedef struct emu_transfer {
    emu_nccl_call call;
    struct emu_transfer *other; /* its partner, and that one's op; NULL: not met */
    emu_op *other_op;
    bool copies, done; /* copies: of the two, this one's op does the work */
} emu_transfer;
typedef struct emu_transfers {
    struct ncclComm *comm;
    int n;
    bool working; /* its function runs */
    emu_transfer item[];
} emu_transfers;
void emu_run_transfers(emu_op *op, void *args);

/* The communicator goes: its waiting ops end, with whatever they have. */
void emu_nccl_leave_meetings(struct ncclComm *comm);
void emu_nccl_leave_transfers(struct ncclComm *comm);

/* May the communicator be used for `call`? Otherwise reported, and what the real one answers. */
ncclResult_t emu_nccl_usable(struct ncclComm *comm, const char *call);
/* A call was accepted: a non-blocking communicator is busy with it for a while, and answers ncclInProgress. */
ncclResult_t emu_nccl_started(struct ncclComm *comm);

/* Waits, at the end of the group if there is one, until the communicator is complete. */
ncclResult_t emu_nccl_complete(struct ncclComm *comm, const char *call);
bool emu_nccl_defer(struct ncclComm *comm, const char *call); /* true: to the end of the group */
#endif
