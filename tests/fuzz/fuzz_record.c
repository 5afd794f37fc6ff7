/* SPDX-License-Identifier: MIT */
/*
 * '2' and a batch: what can be read of it is stable when it is written and read again.
 */
#include "tests/fuzz/fuzz.h"

#include "common/record.h"

#include <errno.h>
#include <string.h>

/* What can be read of a list is stable, too. */
static void touch_list(struct shfs_bytes list)
{
	const uint8_t *data = (const uint8_t *)list.data;
	struct shfs_cursor in = { data, data + list.len, false }, again;
	_cleanup_buf_ struct shfs_buf last = { 0 }, out = { 0 }, out_last = { 0 };
	_cleanup_buf_ struct shfs_buf again_last = { 0 };
	struct shfs_lookup lookup, same;
	size_t n = 0;

	for (; shfs_lookup_next(&in, &last, &lookup); n++) {
		fuzz_touch(lookup.path);
		fuzz_touch(lookup.text);
		shfs_lookup_add(&out, &out_last, &lookup);
	}
	again = (struct shfs_cursor){ (const uint8_t *)out.data,
		                      (const uint8_t *)out.data + out.len, false };
	for (; out.len && shfs_lookup_next(&again, &again_last, &same); n--)
		fuzz_touch(same.path);
	FUZZ_ASSERT(!again.failed && !n);
}

static void touch(const struct shfs_record *rec)
{
	if (rec->type == SHFS_REC_ACCESS)
		fuzz_touch(rec->access.path);
	if (rec->type == SHFS_REC_PATHOP)
		fuzz_touch(rec->pathop.path2);
	if (rec->type == SHFS_REC_PROCESS) {
		fuzz_touch(rec->process.argv);
		fuzz_touch(rec->process.environment);
	}
	if (rec->type == SHFS_REC_LOOKUP)
		touch_list(rec->lookup.list);
	if (rec->type == SHFS_REC_NOTE) {
		fuzz_touch(rec->note.command);
		fuzz_touch(rec->note.path);
		fuzz_touch(rec->note.text);
	}
	if (rec->type == SHFS_REC_PROGRAM) {
		fuzz_touch(rec->program.path);
		fuzz_touch(rec->program.version);
	}
}

/* Writes what can be read into out; returns how many records that are. */
static size_t rewrite(const uint8_t *data, size_t size, struct shfs_buf *out)
{
	struct shfs_record_context reading = { 0 }, writing = { 0 };
	struct shfs_cursor c = { data, data + size, false };
	struct shfs_record rec;
	size_t n = 0;
	int r = 0;

	shfs_record_context_reset(&reading);
	shfs_record_context_reset(&writing);
	while (c.p < c.end && r != -EBADMSG) {
		const uint8_t *before = c.p;

		r = shfs_record_unpack(&reading, &c, &rec);
		FUZZ_ASSERT(r == 0 || r == -EBADMSG || r == -ENOTSUP);
		if (r)
			continue;
		FUZZ_ASSERT(c.p > before && c.p <= c.end);
		touch(&rec);
		FUZZ_ASSERT(shfs_record_pack(&writing, &rec, out) == 0);
		n++;
	}
	shfs_record_context_free(&reading);
	shfs_record_context_free(&writing);
	return n;
}

void fuzz_record(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct shfs_buf once = { 0 }, twice = { 0 };
	size_t n;

	if (!size || data[0] != '2')
		return;
	n = rewrite(data + 1, size - 1, &once);
	FUZZ_ASSERT(rewrite((const uint8_t *)(once.data ?: ""), once.len, &twice) == n);
	FUZZ_ASSERT(once.len == twice.len);
	FUZZ_ASSERT(!once.len || !memcmp(once.data, twice.data, once.len));
}
