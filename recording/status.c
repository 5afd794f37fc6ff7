/* SPDX-License-Identifier: MIT */
#include "recording/status.h"

#include <inttypes.h>
#include <unistd.h>

void shfs_status_line(struct shfs_buf *out, const char *key, const char *text)
{
	shfs_buf_printf(out, "%s=", key);
	for (; *text; text++) {
		if (*text == '\n' || *text == '\\')
			shfs_buf_char(out, '\\');
		shfs_buf_char(out, *text == '\n' ? 'n' : *text);
	}
	shfs_buf_char(out, '\n');
}

void shfs_status_write(struct shfs_buf *out, const struct shfs_status *status)
{
	struct shfs_capture_stats stats;

	shfs_capture_get_stats(status->capture, &stats);
	shfs_buf_printf(out, "pid=%ld\n", (long)getpid());
	shfs_status_line(out, "root", status->root);
	shfs_status_line(out, "store", status->store->path);
	shfs_buf_printf(out, "since=%" PRId64 "\n", status->since_ns);
	shfs_buf_printf(out,
	                "records=%" PRIu64 "\nlost=%" PRIu64 "\nqueued=%" PRIu64 "\n",
	                stats.records, stats.lost + status->lost, stats.queued);
	shfs_buf_printf(out,
	                "objects=%" PRIu64 "\nobject_bytes=%" PRIu64
	                "\nstored_bytes=%" PRIu64 "\nmemory_bytes=%" PRIu64 "\n",
	                stats.objects, stats.object_bytes, stats.stored_bytes,
	                stats.memory_bytes + status->waiting_bytes);
	shfs_buf_printf(out, "skipped=%" PRIu64 "\nincomplete=%" PRIu64 "\nerror=%d\n",
	                stats.skipped, stats.incomplete, stats.error);
	shfs_buf_printf(out, "rules_error=%d\n", shfs_project_rules_error(status->rules));
}
