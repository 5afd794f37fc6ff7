/* SPDX-License-Identifier: MIT */
/* Decides whether a call has changed its file: by its result, or if it failed by the
 * file. */
#include "fusefs/watch/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

void shfs_change_note_size(struct shfs_change *change)
{
	bool needs_size = change->kind == SHFS_CHANGE_TRUNCATE ||
	                  change->kind == SHFS_CHANGE_ALLOCATE;
	struct stat st;

	change->size_before = needs_size && !fstat(change->fd, &st) ? st.st_size : -1;
}

static bool has_other_size(const struct shfs_change *change)
{
	struct stat st;

	return fstat(change->fd, &st) || st.st_size != change->size_before;
}

bool shfs_change_is_done(const struct shfs_change *change, ssize_t result)
{
	switch (change->kind) {
	case SHFS_CHANGE_WRITE:
	case SHFS_CHANGE_MAPPED:
	case SHFS_CHANGE_COPY:
		/* with O_DSYNC the data may be written, and only the sync have failed */
		return result > 0 ||
		       (result < 0 && (fcntl(change->fd, F_GETFL) & O_DSYNC));
	case SHFS_CHANGE_TRUNCATE:
	case SHFS_CHANGE_ALLOCATE:
		/* room that was allocated before it ran out stays */
		return !result || has_other_size(change);
	case SHFS_CHANGE_EMPTY:
		/* a part of the range may be empty, unless the call was refused at once
		 */
		return !result || result == -ENOSPC || result == -EDQUOT ||
		       result == -EIO || result == -EINTR || result == -ENOMEM;
	}
	return true;
}
