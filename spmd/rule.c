/* Ways to write a sharding rule. */
#include "spmd/rule.h"
#include <ctype.h>
#include <string.h>

/* Letters are numbered as they come; -1: there are too many. */
static int number_of(char names[SPMD_MAX_LETTERS], char name)
{
    int k = 0;
    while (k < SPMD_MAX_LETTERS && names[k] && names[k] != name)
        k++;
    if (k == SPMD_MAX_LETTERS)
        return -1;
    names[k] = name;
    return k;
}

void spmd__label(const spmd_call *call, spmd_labels *labels, const char *text)
{
    char names[SPMD_MAX_LETTERS] = {0};
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
            int8_t letter = *p == '-' ? SPMD_WHOLE : (int8_t)number_of(names, *p);
            if (operand < call->nin)
                labels->in[operand][dim++] = letter;
            else
                labels->out[operand - call->nin][dim++] = letter;
        }
    }
}

/* The letters of one operand; *text moves behind them. */
static spmd_status check_operand(const char *op, const spmd_tensor *t, int k, char *names, const char **text)
{
    const char *start = *text;
    char shape[96];
    for (; **text && **text != ',' && !(**text == '-' && (*text)[1] == '>'); ++*text)
        SPMD_CHECK(**text == '-' || (isalpha((unsigned char)**text) && number_of(names, **text) >= 0), SPMD_EINVAL,
                   "custom op '%s': its rule has '%s' where a letter or '-' should be, at most %d different ones", op,
                   *text, SPMD_MAX_LETTERS);
    SPMD_CHECK(*text - start == t->rank, SPMD_EINVAL,
               "custom op '%s': operand %d of its rule has %d letters, but is %s: expected one a dimension", op, k,
               (int)(*text - start), spmd__shape_text(t, shape));
    return SPMD_OK;
}

spmd_status spmd__check_label(const char *op, const spmd_call *call, const char *text)
{
    char names[SPMD_MAX_LETTERS] = {0};
    int n = call->nin + call->nout;
    text += !call->nin && !strncmp(text, "->", 2) ? 2 : 0;
    for (int k = 0; k < n; k++) {
        SPMD_TRY(check_operand(op, k < call->nin ? &call->in[k] : &call->out[k - call->nin], k, names, &text));
        const char *end = k + 1 == call->nin ? "->" : k + 1 == n ? "" : ",";
        SPMD_CHECK(*end ? !strncmp(text, end, strlen(end)) : !*text, SPMD_EINVAL,
                   "custom op '%s': its rule must have %d inputs and %d outputs, as in \"mk,kn->mn\"; operand %d ends "
                   "with '%s'",
                   op, call->nin, call->nout, k, text);
        text += strlen(end);
    }
    return SPMD_OK;
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
