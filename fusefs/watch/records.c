/* SPDX-License-Identifier: MIT */
/* Emits the records of a watched file. */
#include "fusefs/watch/internal.h"

#include "common/debug.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

/* path is relative to the root. */
static uint32_t flag_replaced(const struct shfs_fs *fs, const struct shfs_buf *path)
{
	struct stat st;

	return path->failed || fstatat(fs->root_fd, path->data, &st, AT_SYMLINK_NOFOLLOW)
	               ? 0
	               : SHFS_ACCESS_REPLACED;
}

static void emit_access_of_handle(struct shfs_fs *fs, struct shfs_handle *handle,
                                  uint64_t process, uint32_t flags, struct shfs_time last,
                                  struct shfs_snapshot *made)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };
	struct shfs_snapshot *content[2] = {
		flags & SHFS_ACCESS_READ ? handle->seen : NULL,
		flags & SHFS_ACCESS_WRITTEN ? made : NULL,
	};
	struct shfs_record rec = {
		.type = SHFS_REC_ACCESS,
		.access = {
			.process = process,
			.flags = flags,
			.begin = handle->begin,
			.last = last,
			.dev = handle->node->dev,
			.ino = handle->node->ino,
			.directory_mtime_ns = handle->directory_mtime_ns,
		},
	};

	shfs_tree_lock_read(fs->tree);
	if (!shfs_node_path_by(handle->node, handle->name, &path))
		rec.access.flags |= SHFS_ACCESS_NAMELESS | flag_replaced(fs, &path);
	if (!path.failed) {
		rec.access.path = (struct shfs_bytes){ path.data, path.len };
		shfs_capture_emit(fs->capture, &rec, content);
	} else {
		shfs_capture_lose(fs->capture, -ENOMEM);
	}
	shfs_tree_unlock(fs->tree);
}

void shfs_watch_emit_preimage(struct shfs_fs *fs, struct shfs_node *node,
                              const struct shfs_handle *handle,
                              struct shfs_snapshot *snapshot, uint64_t process)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };
	struct shfs_snapshot *content[2] = { snapshot, NULL };
	struct shfs_record rec = {
		.type = SHFS_REC_PREIMAGE,
		.preimage = { .process = process, .dev = node->dev, .ino = node->ino },
	};

	shfs_tree_lock_read(fs->tree);
	if (handle)
		shfs_node_path_by(node, handle->name, &path);
	else
		shfs_node_path(node, NULL, &path);
	shfs_debug(WATCH,
	           "file %" PRIu64
	           ": about to be changed by the process of record %" PRIu64,
	           node->ino, process);
	if (!path.failed) {
		rec.preimage.path = (struct shfs_bytes){ path.data, path.len };
		shfs_capture_emit(fs->capture, &rec, content);
	} else {
		shfs_capture_lose(fs->capture, -ENOMEM);
	}
	shfs_tree_unlock(fs->tree);
}

void shfs_watch_emit_writers(struct shfs_fs *fs, struct shfs_handle *handle,
                             struct shfs_snapshot *made)
{
	uint32_t anew = 0; /* flags that say that no older content is in the file */
	bool reads = handle->tells_read;

	shfs_debug(WATCH, "file %" PRIu64 ": what %u writers left becomes a version",
	           handle->node->ino, handle->n_writers);
	for (unsigned i = 0; i < handle->n_writers; i++)
		anew |= handle->writers[i].flags &
		        (SHFS_ACCESS_CREATED | SHFS_ACCESS_TRUNCATED);
	/* the last writer comes first: it made the content, the others had a part in it
	 */
	for (unsigned i = 0; i < handle->n_writers; i++) {
		unsigned turn = (handle->last_writer + i) % handle->n_writers;
		const struct shfs_writer *w = &handle->writers[turn];
		uint32_t flags = w->flags | SHFS_ACCESS_WRITTEN | (i ? 0 : anew);

		if (reads && w->process == handle->opener) {
			flags |= SHFS_ACCESS_READ;
			reads = false;
		}
		emit_access_of_handle(fs, handle, w->process, handle->flags | flags,
		                      w->last, made);
	}
	for (unsigned i = 0; i < handle->n_lines; i++)
		emit_access_of_handle(fs, handle, handle->lines[i].process,
		                      handle->flags | SHFS_ACCESS_WRITTEN,
		                      handle->lines[i].last, made);
	if (reads)
		emit_access_of_handle(fs, handle, handle->opener,
		                      handle->flags | SHFS_ACCESS_READ, handle->begin,
		                      NULL);
	handle->tells_read = false;
}
