/* Golden values: reference tensors in tests/golden/ (see its README), read with the product's own reader. */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include "spmd/testing.h"

/* A tensor of tests/golden/<file>.safetensors ("ops", "matmul.out"); fails the test if it is missing. */
spmd_value golden(const char *file, const char *name, const char *spec);

#endif
