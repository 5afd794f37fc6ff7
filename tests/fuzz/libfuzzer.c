/* SPDX-License-Identifier: MIT */
/* The entry for libFuzzer; FUZZ_TARGET is the function to call. */
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__asan_default_options(void);

/* What was freed is soon used again: else all memory is always new, and that takes most
 * of the time. */
const char *__asan_default_options(void)
{
	return "quarantine_size_mb=4:malloc_context_size=4:allocator_release_to_os_"
	       "interval_ms=-1";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FUZZ_TARGET(size ? data : (const uint8_t *)"", size); /* it may be NULL then */
	return 0;
}
