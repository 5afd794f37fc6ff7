/* SPDX-License-Identifier: MIT */
#include "store/reserve.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define NAME         "reserve" /* in state/ */
#define ROOM_TO_MAKE 16        /* it is made if so many times its size are free */

void reserve_make(struct shfs_store *store)
{
	_cleanup_close_ int fd = -1;
	struct statvfs disk;
	struct stat st;

	if (!fstatat(store->state_fd, NAME, &st, AT_SYMLINK_NOFOLLOW) &&
	    st.st_size >= (off_t)SHFS_RESERVE_BYTES)
		return;
	if (shfs_store_may_hang(store->path) || fstatvfs(store->state_fd, &disk) ||
	    (uint64_t)disk.f_bavail * disk.f_frsize <
	            (uint64_t)ROOM_TO_MAKE * SHFS_RESERVE_BYTES)
		return;
	fd = openat(store->state_fd, NAME, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
	            0600);
	/* a file without reserved room is of no use */
	if (fd >= 0 && fallocate(fd, 0, 0, SHFS_RESERVE_BYTES))
		unlinkat(store->state_fd, NAME, 0);
}

bool reserve_give_up(struct shfs_store *store)
{
	return !unlinkat(store->state_fd, NAME, 0);
}
