/* The two classifiers: a plain MLP and one whose hidden block is shared by all repeats.
 *
 *   mlp          gelu(x w1 + b1), gelu(. w2 + b2), . w3 + b3                inputs, width, width / 2, classes
 *   shared-mlp   h = gelu(x w_in + b_in); `repeats` times h = 0.9 h + 0.1 gelu(h w_block + b_block);
 *                h w_out + b_out                                            inputs, width, width, classes
 *
 * A model is a description of its parameters and a function for one shard; the function takes all sizes from its
 * tensors, so it runs on any block. Parameters are f32; with compute bf16 they and x are cast, the logits cast back. */
#ifndef MODELS_MLP_H
#define MODELS_MLP_H

#include "spmd/shard_map.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPMD_MODEL_MAX_PARAMS = 8 };

typedef struct spmd_model_config {
    int64_t inputs, width, classes;
    int repeats;    /* shared-mlp only */
    int checkpoint; /* shared-mlp only: so many blocks at a time keep no inner values (spmd_checkpoint); 0: all do */
    spmd_dtype compute; /* SPMD_F32 or SPMD_BF16 */
} spmd_model_config;

typedef struct spmd_param_info {
    const char *name;
    int rank; /* 2: a weight [inputs, outputs]; 1: a bias */
    int64_t shape[2];
} spmd_param_info;

typedef struct spmd_model {
    const char *name;
    int params;
    spmd_model_config defaults;
    void (*describe)(const spmd_model_config *config, spmd_param_info *info); /* fills `params` entries */
    /* x [rows, inputs] f32 -> logits [rows, classes] f32. Local. */
    spmd_status (*logits)(spmd_ctx *ctx, const spmd_model_config *config, const spmd_tensor *params,
                          const spmd_tensor *x, spmd_tensor *logits);
} spmd_model;

/* spmd_model_find - "mlp" or "shared-mlp".   Local. Errors: EINVAL lists the names. */
SPMD_API spmd_status spmd_model_find(const char *name, const spmd_model **out);
/* spmd_model_check - sizes positive, counts not negative, compute f32 or bf16.   Local. Errors: EINVAL, EDTYPE. */
SPMD_API spmd_status spmd_model_check(const spmd_model *model, const spmd_model_config *config);
SPMD_API int64_t spmd_param_count(const spmd_param_info *info); /* number of elements. Local. */

/* spmd_model_init - start values of parameter k on the host: He's for weights (normal, sd sqrt(2 / inputs)), 0 for
 * biases. A function of (seed, k, element) only, so the same for every mesh.   Local. */
SPMD_API void spmd_model_init(const spmd_param_info *info, uint64_t seed, int k, float *values);

/* spmd_model_loss - mean softmax cross entropy over the rows of x.   Local. `user` is a spmd_model_batch: it has the
 * form of spmd_loss_fn. Keeps the logits in the batch, for the accuracy. */
typedef struct spmd_model_batch {
    const spmd_model *model;
    const spmd_model_config *config;
    const spmd_tensor *x, *y;
    spmd_tensor logits;
} spmd_model_batch;
SPMD_API spmd_status spmd_model_loss(spmd_ctx *ctx, const spmd_tensor *params, int n, void *user, spmd_tensor *loss);
/* 1 where the largest logit is the label's, else 0: f32 [rows].   Local. */
SPMD_API spmd_status spmd_model_hits(spmd_ctx *ctx, const spmd_tensor *logits, const spmd_tensor *y, spmd_tensor *hits);

#ifdef __cplusplus
}
#endif
#endif
