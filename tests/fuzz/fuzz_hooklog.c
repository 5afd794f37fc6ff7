/* SPDX-License-Identifier: MIT */
/* The bytes of a hook log: read at once, and in two parts as it grows. */
#include "tests/fuzz/fuzz.h"

#include "store/journal/hooklog.h"
#include "store/journal/origin.h"

#include <string.h>

/* What the records say, as text; returns where the reading ended. */
static size_t read_all(const uint8_t *data, size_t size, struct shfs_buf *out)
{
	struct shfs_hooklog *log;
	struct shfs_record rec;
	uint64_t end;

	FUZZ_ASSERT(shfs_hooklog_from_memory(data, size, &log) == 0);
	while (shfs_hooklog_next(log, &rec) == 1) {
		shfs_buf_printf(out, "%d %llu %lld %llu\n", rec.type,
		                (unsigned long long)rec.seq, (long long)rec.time.real_ns,
		                (unsigned long long)rec.time.boot_ns);
		if (rec.type == SHFS_REC_SESSION) {
			shfs_buf_add(out, rec.session.boot_id.data,
			             rec.session.boot_id.len);
			shfs_buf_add(out, rec.session.cwd.data, rec.session.cwd.len);
		} else if (rec.type == SHFS_REC_BEGIN) {
			shfs_buf_add(out, rec.begin.cwd.data, rec.begin.cwd.len);
			shfs_buf_add(out, rec.begin.text.data, rec.begin.text.len);
			FUZZ_ASSERT(!memchr(rec.begin.text.data, 0, rec.begin.text.len));
			FUZZ_ASSERT(rec.begin.hidden <= 1);
		} else if (rec.type == SHFS_REC_DEFINITION) {
			shfs_buf_add(out, &rec.definition.kind, 1);
			shfs_buf_add(out, rec.definition.name.data,
			             rec.definition.name.len);
			shfs_buf_add(out, rec.definition.body.data,
			             rec.definition.body.len);
			FUZZ_ASSERT(rec.definition.kept <= SHFS_DEFINITION_LEFT_OUT);
		} else if (rec.type == SHFS_REC_USES) {
			struct shfs_bytes list = rec.uses.list;
			uint64_t seq;

			while (shfs_hooklog_next_use(&list, &seq))
				shfs_buf_printf(out, "%llu ", (unsigned long long)seq);
			FUZZ_ASSERT(!list.len && rec.uses.more <= 1);
		} else if (rec.type == SHFS_REC_ORIGIN) {
			struct shfs_origin origin;

			FUZZ_ASSERT(!shfs_origin_parse(rec.origin.value, &origin));
			shfs_buf_add(out, rec.origin.value.data, rec.origin.value.len);
			shfs_buf_printf(out, "%s %s %u", origin.host, origin.boot,
			                origin.pid);
		} else {
			FUZZ_ASSERT(rec.type == SHFS_REC_FINISH);
			shfs_buf_printf(out, "%d", rec.finish.status);
		}
	}
	end = shfs_hooklog_offset(log);
	FUZZ_ASSERT(end <= size);
	FUZZ_ASSERT(shfs_hooklog_damaged(log) <= end);
	shfs_hooklog_close(log);
	return (size_t)end;
}

void fuzz_hooklog(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct shfs_buf whole = { 0 }, parts = { 0 };
	size_t end;

	read_all(data, size, &whole);
	end = read_all(data, size / 2, &parts);
	read_all(data + end, size - end, &parts);
	FUZZ_ASSERT(whole.len == parts.len);
	FUZZ_ASSERT(!whole.len || !memcmp(whole.data, parts.data, whole.len));
}
