/* SPDX-License-Identifier: MIT */
#include "fusefs/ops.h"
#include "fusefs/transport.h"

#include "common/buf.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Enough for any answer; what the kernel is told where it asks for the size. */
#define ANSWER_MAX 4096

static void reply(fuse_req_t req, const struct shfs_buf *answer, size_t size)
{
	if (answer->failed)
		shfs_req_fail(req, -ENOMEM);
	else if (!size)
		fuse_reply_xattr(req, ANSWER_MAX);
	else if (size < answer->len)
		shfs_req_fail(req, -ERANGE);
	else
		fuse_reply_buf(req, answer->data, answer->len);
}

/* From the writer's thread, once all is durable. */
static void sync_done(void *arg, int error)
{
	fuse_req_t req = arg;

	if (error)
		shfs_req_fail(req, error);
	else
		fuse_reply_buf(req, "ok", 2);
}

/* Closes that have returned may still have a RELEASE on its way. */
static void sync_all(fuse_req_t req, size_t size)
{
	struct shfs_fs *fs = shfs_req_fs(req);
	int r;

	if (!size) {
		fuse_reply_xattr(req, 2);
		return;
	}
	shfs_transport_quiesce(fs->transport);
	shfs_watch_settle_all(fs);
	r = shfs_capture_sync(fs->capture, sync_done, req);
	if (r)
		shfs_req_fail(req, r);
}

static void status(struct shfs_fs *fs, struct shfs_buf *out)
{
	struct shfs_capture_stats stats;

	shfs_capture_get_stats(fs->capture, &stats);
	shfs_buf_printf(out, "pid=%ld\nroot=%s\nstore=%s\nbackend=fuse\n", (long)getpid(),
	                fs->root, fs->store->path);
	shfs_buf_printf(out, "since=%" PRId64 "\n", fs->since_ns);
	shfs_buf_printf(out,
	                "records=%" PRIu64 "\nlost=%" PRIu64 "\nqueued=%" PRIu64 "\n",
	                stats.records, stats.lost, stats.queued);
	shfs_buf_printf(out,
	                "objects=%" PRIu64 "\nobject_bytes=%" PRIu64
	                "\nstored_bytes=%" PRIu64 "\n",
	                stats.objects, stats.object_bytes, stats.stored_bytes);
	shfs_buf_printf(out, "skipped=%" PRIu64 "\nincomplete=%" PRIu64 "\nerror=%d\n",
	                stats.skipped, stats.incomplete, stats.error);
	shfs_buf_printf(out, "rules_error=%d\n", shfs_fs_rules_error(fs));
}

void shfs_control_get(fuse_req_t req, const char *name, size_t size)
{
	_cleanup_buf_ struct shfs_buf answer = { 0 };

	name += strlen(SHFS_XATTR_PREFIX);
	if (!strcmp(name, "sync")) {
		sync_all(req, size);
	} else if (!strcmp(name, "status")) {
		status(shfs_req_fs(req), &answer);
		reply(req, &answer, size);
	} else {
		shfs_req_fail(req, -ENODATA);
	}
}
