/* SPDX-License-Identifier: MIT */
#include "store/index-dir.h"

#include "common/io.h"
#include "common/path.h"
#include "store/objects/object.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#define REWRITTEN "rewritten" /* in state/, and beside an index: u64 */

/* --- where --- */

/* Opens a directory if it is ours alone: another user may have made it, in /var/tmp. */
static int open_own(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && st.st_uid == geteuid() && !(st.st_mode & 022))
		return fd;
	close(fd);
	return -EACCES;
}

/* Takes ownership of base. */
static int open_place_below(char *base, const char *name, char **path)
{
	_cleanup_free_ char *own = base;
	_cleanup_close_ int parent = -1;
	int r;

	if (!base)
		return -ENOMEM;
	if (shfs_store_is_on_network(base))
		return -EREMOTE;
	r = shfs_mkdir_p_at(AT_FDCWD, base, 0700);
	if (!r)
		r = parent = open_own(AT_FDCWD, base);
	if (r < 0)
		return r;
	if (mkdirat(parent, name, 0700) && errno != EEXIST)
		return -errno;
	*path = shfs_path_join(base, name);
	if (!*path)
		return -ENOMEM;
	r = open_own(parent, name);
	if (r < 0)
		free(TAKE_PTR(*path));
	return r;
}

int index_dir_open(const char *store_path, char **path)
{
	char name[20], shared[40], *runtime;
	int r;

	snprintf(name, sizeof(name), "%016" PRIx64,
	         shfs_object_hash64(store_path, strlen(store_path)));
	snprintf(shared, sizeof(shared), "/var/tmp/shfs-%u", (unsigned)geteuid());
	r = open_place_below(shfs_path_cache(), name, path);
	if (r < 0)
		r = open_place_below(strdup(shared), name, path);
	if (r < 0 && (runtime = shfs_path_runtime()))
		r = open_place_below(runtime, name, path);
	return r < 0 ? -EREMOTE : r;
}

/* --- is it of the journal that is there? --- */

static int read_number(int dirfd, uint64_t *out)
{
	_cleanup_buf_ struct shfs_buf bytes = { 0 };
	struct stat st;
	int r;

	/* a network file system may otherwise say what was there a while ago */
	(void)!shfs_stat_now(dirfd, "", &st);
	r = shfs_read_file_at(dirfd, REWRITTEN, sizeof(*out), &bytes);
	*out = 0;
	if (!r && bytes.len == sizeof(*out))
		memcpy(out, bytes.data, sizeof(*out));
	return r == -ENOENT ? 0 : r;
}

int index_dir_announce(struct shfs_store *store)
{
	uint64_t number; /* random, not counted: two hosts may announce at once */

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -EIO;
	return shfs_write_file_at(store->state_fd, REWRITTEN, 0600, &number,
	                          sizeof(number));
}

int index_dir_announced(struct shfs_store *store, uint64_t *number)
{
	return read_number(store->state_fd, number);
}

int index_dir_is_stale(struct shfs_store *store, uint64_t *number)
{
	uint64_t noted = 0;
	int r;

	if (store->index_fd == store->dirfd)
		return 0;
	r = read_number(store->state_fd, number);
	if (!r)
		r = read_number(store->index_fd, &noted);
	return r ? r : noted != *number;
}

int index_dir_note(struct shfs_store *store, uint64_t number)
{
	return shfs_write_file_at(store->index_fd, REWRITTEN, 0600, &number,
	                          sizeof(number));
}
