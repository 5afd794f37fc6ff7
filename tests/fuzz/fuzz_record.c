/* SPDX-License-Identifier: MIT */
/* A byte for the type, then a payload: what can be decoded is stable when it is encoded
 * and decoded again. */
#include "tests/fuzz/fuzz.h"

#include "common/record.h"

#include <errno.h>
#include <string.h>

#define OPTIONAL_BYTES 20 /* of fields that older records do not have, at most */

void fuzz_record(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct shfs_buf once = { 0 }, twice = { 0 };
	struct shfs_record rec = { 0 }, again = { 0 };
	int r;

	if (!size)
		return;
	rec.type = again.type = data[0];
	r = shfs_record_decode(data + 1, size - 1, &rec);
	FUZZ_ASSERT(r == 0 || r == -EBADMSG || r == -ENOTSUP);
	if (r)
		return;
	shfs_buf_add(&once, "", 0);
	FUZZ_ASSERT(shfs_record_encode(&rec, &once) == 0);
	FUZZ_ASSERT(once.len <= size - 1 + OPTIONAL_BYTES);
	FUZZ_ASSERT(shfs_record_decode(once.data, once.len, &again) == 0);
	FUZZ_ASSERT(shfs_record_encode(&again, &twice) == 0);
	FUZZ_ASSERT(once.len == twice.len);
	FUZZ_ASSERT(!once.len || !memcmp(once.data, twice.data, once.len));
}
