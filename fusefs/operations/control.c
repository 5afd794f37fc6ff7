/* SPDX-License-Identifier: MIT */
/*
 * Answers the extended attributes by which shfs asks a mount: user.shfs.sync, seal and
 * status.
 */
#include "fusefs/operations/invented.h"
#include "fusefs/operations/operations.h"
#include "fusefs/takeover/again.h"
#include "fusefs/transport/transport.h"
#include "fusefs/watch/lookups.h"

#include "recording/status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

/* Largest answer; also the reply to a request for the size. */
#define ANSWER_MAX 4096

static void reply_answer(fuse_req_t req, const struct shfs_buf *answer, size_t size)
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

/* A sync request, answered by the writer or by an interrupt, whichever comes first. */
struct sync {
	fuse_req_t req;
	size_t size; /* most bytes of the answer */
	_Atomic enum { SYNC_NEW, SYNC_WAITS, SYNC_ENDED } state;
};

/* Changes the state from `from` to `to`. False: the other thread was first. */
static bool sync_step(struct sync *sync, int from, int to)
{
	return atomic_compare_exchange_strong(&sync->state, &from, to);
}

static void sync_interrupted(fuse_req_t req, void *arg)
{
	struct sync *sync = arg;

	/* while it is SYNC_NEW, libfuse has the request locked: no reply here */
	if (!sync_step(sync, SYNC_NEW, SYNC_ENDED) &&
	    sync_step(sync, SYNC_WAITS, SYNC_ENDED))
		shfs_req_fail(req, -EINTR);
}

static void sync_reply(struct sync *sync, int error, const char *text)
{
	/* from here on no interrupt uses sync */
	fuse_req_interrupt_func(sync->req, NULL, NULL);
	if (error)
		shfs_req_fail(sync->req, error);
	else if (sync->size < strlen(text))
		shfs_req_fail(sync->req, -ERANGE);
	else
		fuse_reply_buf(sync->req, text, strlen(text));
}

/* Called by the writer's thread once all is durable, and a new segment was begun. */
static void seal_done(void *arg, int error, const char *segment)
{
	struct sync *sync = arg;

	if (sync_step(sync, SYNC_WAITS, SYNC_ENDED))
		sync_reply(sync, error, segment);
	free(sync);
}

/* Called by the writer's thread once all is durable. */
static void reply_sync_done(void *arg, int error)
{
	seal_done(arg, error, "ok");
}

/* Syncs, after the RELEASE requests of files that were closed before have been served. */
static void sync_all(fuse_req_t req, size_t size, bool seal)
{
	struct shfs_fs *fs = shfs_req_fs(req);
	struct sync *sync;
	int r;

	if (!size) {
		fuse_reply_xattr(req, seal ? SHFS_SEGMENT_NAME_MAX : 2);
		return;
	}
	sync = calloc(1, sizeof(*sync));
	if (!sync) {
		shfs_req_fail(req, -ENOMEM);
		return;
	}
	sync->req = req;
	sync->size = size;
	shfs_transport_quiesce(fs->transport);
	shfs_watch_settle_all(fs);
	fuse_req_interrupt_func(req, sync_interrupted, sync);
	if (!sync_step(sync, SYNC_NEW, SYNC_WAITS)) {
		sync_reply(sync, -EINTR, "");
		free(sync);
		return;
	}
	shfs_lookups_flush(fs);
	shfs_callers_settle(fs->callers);
	r = seal ? shfs_capture_seal(fs->capture, seal_done, sync)
	         : shfs_capture_sync(fs->capture, reply_sync_done, sync);
	if (r)
		reply_sync_done(sync, r);
}

static void write_mount_status(struct shfs_fs *fs, struct shfs_buf *out)
{
	static const char *const passing[] = {
		[SHFS_PASSING_NONE] = "off",
		[SHFS_PASSING_READS] = "reads",
		[SHFS_PASSING_ALL] = "on",
	};
	const struct shfs_status common = {
		.root = fs->root,
		.store = fs->store,
		.capture = fs->capture,
		.rules = &fs->rules,
		.since_ns = fs->since_ns,
	};
	enum shfs_passing_mode mode = shfs_passthrough_mode(fs);

	shfs_status_write(out, &common);
	shfs_buf_printf(out, "backend=%s\npassthrough=%s\ntransport=%s\n",
	                mode == SHFS_PASSING_NONE ? "fuse" : "fuse+passthrough",
	                passing[mode], shfs_transport_name(fs->transport));
	if (shfs_transport_reason(fs->transport))
		shfs_status_line(out, "transport_reason",
		                 shfs_transport_reason(fs->transport));
	if (fs->invented)
		shfs_status_line(out, "browse", shfs_invented_place(fs->invented));
	shfs_buf_printf(out, "nodes=%zu\n", shfs_tree_size(fs->tree));
	if (fs->again->count)
		shfs_buf_printf(out, "restarts=%u\nrestarted=%" PRId64 "\n",
		                fs->again->count, fs->again->last_ns);
}

/* May the caller ask the mount? Only its user and root may. */
static bool may_ask(fuse_req_t req)
{
	uid_t uid = fuse_req_ctx(req)->uid;

	return !uid || uid == geteuid();
}

void shfs_control_get(fuse_req_t req, const char *name, size_t size)
{
	_cleanup_buf_ struct shfs_buf answer = { 0 };

	name += strlen(SHFS_XATTR_PREFIX);
	if (!may_ask(req)) {
		shfs_req_fail(req, -EACCES);
	} else if (!strcmp(name, "sync")) {
		sync_all(req, size, false);
	} else if (!strcmp(name, "seal")) {
		sync_all(req, size, true);
	} else if (!strcmp(name, "status")) {
		write_mount_status(shfs_req_fs(req), &answer);
		reply_answer(req, &answer, size);
	} else {
		shfs_req_fail(req, -ENODATA);
	}
}
