/* SPDX-License-Identifier: MIT */
/* Questions and requests about all files that the mount has open. */
#include "fusefs/fs.h"
#include "fusefs/watch/watch.h"

#include <stdlib.h>
#include <utlist.h>

void shfs_watch_release_all(struct shfs_fs *fs)
{
	while (fs->handles)
		shfs_watch_release(fs, fs->handles);
}

void shfs_watch_settle_all(struct shfs_fs *fs)
{
	struct shfs_node **nodes = NULL;
	struct shfs_handle *handle;
	size_t n = 0, total;

	pthread_mutex_lock(&fs->handles_lock);
	DL_COUNT2(fs->handles, handle, total, next_open);
	if (total)
		nodes = calloc(total, sizeof(struct shfs_node *));
	if (nodes)
		DL_FOREACH2 (fs->handles, handle, next_open) {
			if (!handle->is_dirty)
				continue;
			shfs_node_ref(fs->tree, handle->node);
			nodes[n++] = handle->node;
		}
	pthread_mutex_unlock(&fs->handles_lock);
	for (size_t i = 0; i < n; i++) {
		shfs_watch_settle(fs, nodes[i]);
		shfs_node_unref(fs->tree, nodes[i]);
	}
	free(nodes);
}

bool shfs_watch_is_read(struct shfs_fs *fs, const struct shfs_node *node)
{
	const struct shfs_handle *handle;

	pthread_mutex_lock(&fs->handles_lock);
	DL_FOREACH2 (fs->handles, handle, next_open)
		if ((!node || handle->node == node) && handle->tells_read &&
		    !handle->is_dirty)
			break;
	pthread_mutex_unlock(&fs->handles_lock);
	return handle;
}

bool shfs_watch_may_be_mapped(struct shfs_fs *fs, const struct shfs_handle *but)
{
	const struct shfs_handle *handle;

	pthread_mutex_lock(&fs->handles_lock);
	DL_FOREACH2 (fs->handles, handle, next_open)
		if (handle != but && handle->node == but->node && handle->reads &&
		    handle->writable && handle->passed.io == SHFS_IO_CACHED)
			break;
	pthread_mutex_unlock(&fs->handles_lock);
	return handle;
}
