/* SPDX-License-Identifier: MIT */
/* The entry for libFuzzer; FUZZ_TARGET is the function to call. */
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FUZZ_TARGET(size ? data : (const uint8_t *)"", size); /* it may be NULL then */
	return 0;
}
