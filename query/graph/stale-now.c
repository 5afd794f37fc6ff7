/* SPDX-License-Identifier: MIT */
/* Reads what a file holds now that is not recorded: one outside, or a link. */
#include "query/graph/stale-internal.h"

#include "common/clock.h"
#include "store/objects/object.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

int shfs_stale_read_now(const char *path, const struct shfs_content *then,
                        struct shfs_content *out)
{
	int flags = S_ISLNK(then->mode) ? AT_SYMLINK_NOFOLLOW : 0;
	_cleanup_close_ int fd = -1;
	char text[PATH_MAX];
	struct stat st;
	ssize_t n;

	if (fstatat(AT_FDCWD, path, &st, flags))
		return -errno;
	*out = (struct shfs_content){
		.flags = SHFS_CONTENT_KNOWN,
		.mode = st.st_mode,
		.size = (uint64_t)st.st_size,
		.mtime_ns = shfs_timespec_ns(st.st_mtim),
		.ctime_ns = shfs_timespec_ns(st.st_ctim),
	};
	if (S_ISLNK(st.st_mode)) {
		n = readlinkat(AT_FDCWD, path, text, sizeof(text));
		out->phash = n > 0 ? shfs_object_hash64(text, (size_t)n) : 0;
		out->flags |= n >= 0 ? SHFS_CONTENT_PHASH : 0;
	} else if (S_ISREG(st.st_mode)) {
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		if (fd >= 0) /* if it cannot be read, its times tell */
			(void)!shfs_object_fingerprint(fd,
			                               shfs_object_whole_max(then->flags),
			                               out);
	}
	return 0;
}
