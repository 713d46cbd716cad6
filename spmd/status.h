/* What every function returns, and the text that explains the last failure of this thread.
 *
 * A failing function sets the thread's error text: what was wrong, the value, what was expected and the remedy.
 * SPMD_TRY adds where the error passed through: "... [matmul.c:41 < mlp.c:88]". The library never prints, exits or
 * aborts; spmd_shard_map copies the text of the first failing shard to its caller. */
#ifndef SPMD_STATUS_H
#define SPMD_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#ifndef SPMD_API
#define SPMD_API __attribute__((visibility("default")))
#endif

#define SPMD_STATUS_MAP(X)                                                     \
    X(EINVAL, "invalid argument")                                              \
    X(ESHAPE, "shapes do not fit")                                             \
    X(EDTYPE, "dtype does not fit")                                            \
    X(ESPEC, "spec does not fit")                                              \
    X(EAXIS, "no such mesh axis")                                              \
    X(EREPLICATION, "a value claimed as replicated may differ between shards") \
    X(EGRAD, "no gradient")                                                    \
    X(ESTALE, "a tensor of another launch")                                    \
    X(ERECORDING, "no values while recording")                                 \
    X(EMISMATCH, "shards made different calls")                                \
    X(EABORTED, "another shard failed first")                                  \
    X(ETIMEOUT, "a shard did not answer in time")                              \
    X(EBUSY, "the mesh is already running a launch")                           \
    X(EMESHLOST, "a thread of the mesh never came back")                       \
    X(EFORK, "the mesh belongs to the parent process")                         \
    X(ENOMEM, "out of memory")                                                 \
    X(EUNSUPPORTED, "not supported here")                                      \
    X(EIO, "input or output failed")                                           \
    X(EDATA, "a file does not hold what it should")                            \
    X(ENONFINITE, "a value is NaN or infinite")                                \
    X(EUSER, "the user's function failed")                                     \
    X(ECUDA, "CUDA, cuBLAS or NCCL failed")

typedef enum spmd_status {
    SPMD_OK = 0,
#define SPMD_STATUS_ENUM(name, text) SPMD_##name,
    SPMD_STATUS_MAP(SPMD_STATUS_ENUM)
#undef SPMD_STATUS_ENUM
        SPMD_STATUS_COUNT
} spmd_status;

/* The code's name ("SPMD_ESHAPE") and what it means in a few words. Never NULL. Local. */
SPMD_API const char *spmd_status_name(spmd_status status);
SPMD_API const char *spmd_status_text(spmd_status status);

/* Text of the last failure in this thread; "" if none. Valid until this thread's next failure. Local. */
SPMD_API const char *spmd_last_error(void);

/* Sets this thread's error text and returns `status`; user code may call it too (see SPMD_CHECK). Local. */
SPMD_API spmd_status spmd_fail_at(const char *file, int line, spmd_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));
/* Adds file:line to the text's path and returns `status`. */
SPMD_API spmd_status spmd_trace_at(const char *file, int line, spmd_status status) __attribute__((cold));

#define SPMD_FAIL(status, ...) spmd_fail_at(__FILE__, __LINE__, (status), __VA_ARGS__)
#define SPMD_CHECK(condition, status, ...)         \
    do {                                           \
        if (!(condition))                          \
            return SPMD_FAIL(status, __VA_ARGS__); \
    } while (0)
#define SPMD_TRY(expression)                                     \
    do {                                                         \
        spmd_status spmd_try_ = (expression);                    \
        if (spmd_try_ != SPMD_OK)                                \
            return spmd_trace_at(__FILE__, __LINE__, spmd_try_); \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
