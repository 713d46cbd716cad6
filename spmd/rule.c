/* Ways to write a sharding rule. */
#include "spmd/rule.h"
#include <string.h>

void spmd__label(const spmd_call *call, spmd_labels *labels, const char *text)
{
    int operand = 0, dim = 0;
    for (const char *p = text; *p; p++) {
        if (*p == ',') {
            operand++;
            dim = 0;
        } else if (p[0] == '-' && p[1] == '>') {
            operand = call->nin;
            dim = 0;
            p++;
        } else {
            int8_t letter = *p == '-' ? SPMD_WHOLE : (int8_t)((*p - 'a') % SPMD_MAX_LETTERS);
            if (operand < call->nin)
                labels->in[operand][dim++] = letter;
            else
                labels->out[operand - call->nin][dim++] = letter;
        }
    }
}

void spmd__label_pointwise(const spmd_call *call, spmd_labels *labels)
{
    const spmd_tensor *out = &call->out[0];
    for (int d = 0; d < out->rank; d++)
        for (int k = 0; k < call->nout; k++)
            labels->out[k][d] = (int8_t)d;
    for (int k = 0; k < call->nin; k++)
        for (int back = 1; back <= call->in[k].rank && back <= out->rank; back++)
            if (call->in[k].shape[call->in[k].rank - back] == out->shape[out->rank - back])
                labels->in[k][call->in[k].rank - back] = (int8_t)(out->rank - back);
}

static void label_rows_of(const spmd_tensor *t, int8_t *letters, int rows)
{
    for (int d = 0; d < t->rank && d < rows; d++)
        letters[d] = (int8_t)d;
}

void spmd__label_rows(const spmd_call *call, spmd_labels *labels, int n)
{
    int rows = call->in[0].rank - n;
    for (int k = 0; k < call->nin; k++)
        label_rows_of(&call->in[k], labels->in[k], rows);
    for (int k = 0; k < call->nout; k++)
        label_rows_of(&call->out[k], labels->out[k], rows);
}
