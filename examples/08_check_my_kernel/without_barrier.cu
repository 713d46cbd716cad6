/* row_softmax.cu with its barrier left out. */
#define BARRIER() ((void)0)
#include "row_softmax.cu"
