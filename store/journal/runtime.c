/* SPDX-License-Identifier: MIT */
#include "store/journal/runtime.h"

#include "common/io.h"
#include "common/path.h"
#include "common/proc.h"
#include "store/journal/hooklog.h"
#include "store/objects/object.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#define HEAD_BYTES    512   /* enough for the time of the first S1 */
#define SESSION_BYTES 16384 /* enough for all of the first S1 */
#define COPIES_MAX    1000

/* --- where --- */

char *shfs_runtime_dir(const char *store_path)
{
	_cleanup_free_ char *parent = shfs_path_runtime();
	char name[20];

	snprintf(name, sizeof(name), "%016" PRIx64,
	         shfs_object_hash64(store_path, strlen(store_path)));
	return parent ? shfs_path_join(parent, name) : NULL;
}

char *shfs_runtime_hook_dir(const char *store_path)
{
	_cleanup_free_ char *dir = shfs_runtime_dir(store_path);

	return dir ? shfs_store_journal_dir(dir) : NULL;
}

/* --- logs --- */

/* Was this log written in our pid namespace, where the pid in its name is valid? */
static bool is_of_namespace(int log)
{
	char head[SESSION_BYTES];
	ssize_t n = shfs_pread_full(log, head, sizeof(head), 0);
	struct shfs_hooklog *reader;
	struct shfs_record rec;
	uint64_t namespace;
	bool same;

	if (n < 0 || shfs_proc_pid_namespace(&namespace) ||
	    shfs_hooklog_from_memory(head, n, &reader))
		return false;
	same = shfs_hooklog_next(reader, &rec) > 0 && rec.type == SHFS_REC_SESSION &&
	       rec.session.pid_namespace == namespace;
	shfs_hooklog_close(reader);
	return same;
}

/* Has the shell of this log ended? false also if that cannot be found out. */
static bool has_shell_ended(int log, const char *name)
{
	_cleanup_close_ int procfd = -1;
	struct shfs_proc_stat stat;
	char boot_id[37], boot[9];
	uint64_t ticks;
	uint32_t pid;
	int r;

	if (sscanf(name, "shell-%8[0-9a-f]-%" SCNu32 "-%" SCNu64 ".log", boot, &pid,
	           &ticks) != 3 ||
	    shfs_proc_boot_id(boot_id))
		return false;
	if (strncmp(boot, boot_id, 8))
		return true;
	if (!is_of_namespace(log))
		return false;
	procfd = shfs_proc_open(pid);
	r = procfd < 0 ? procfd : shfs_proc_read_stat(procfd, &stat);
	return r ? r == -ENOENT || r == -ESRCH : stat.start_ticks != ticks;
}

/* Returns the length of the first record. Only the last field can end in NUL LF: a field
 * behind the NUL would begin with LF, and paths are absolute. */
static size_t first_record(const char *bytes, size_t len)
{
	const char *end = memmem(bytes, len, "\0\n", 2);

	return end ? (size_t)(end - bytes) : len;
}

/*
 * Is the copy the beginning of the log? Not if the log was removed and its shell began
 * another one: that one has another time in its first record. Only the first record is
 * compared: the copy may have blanks behind it where another host has forgotten records.
 */
static int is_beginning(int log, int copy, off_t *size)
{
	char a[HEAD_BYTES], b[HEAD_BYTES];
	struct stat ours, theirs;
	ssize_t n, m;

	if (fstat(copy, &ours) || fstat(log, &theirs))
		return -errno;
	*size = ours.st_size;
	if (ours.st_size > theirs.st_size)
		return 0;
	n = shfs_pread_full(copy, a, sizeof(a), 0);
	if (n > 0)
		n = (ssize_t)first_record(a, (size_t)n);
	m = n < 0 ? n : shfs_pread_full(log, b, n, 0);
	if (m < 0)
		return m;
	return n == m && !memcmp(a, b, n);
}

/* Makes the name of a copy: "shell-x.log", or "shell-x.1.log" if the shell began its log
 * anew. */
static void copy_name(const char *name, unsigned number, char out[static 300])
{
	size_t stem = strlen(name) - strlen(".log");

	if (number)
		snprintf(out, 300, "%.*s.%u.log", (int)stem, name, number);
	else
		snprintf(out, 300, "%s", name);
}

/* Returns the fd of the copy, which is created if need be. */
static int open_copy(int dirfd, const char *name, int log, off_t *size)
{
	for (unsigned i = 0; i < COPIES_MAX; i++) {
		char copy[300];
		int fd, r;

		copy_name(name, i, copy);
		fd = openat(dirfd, copy, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0)
			return -errno;
		r = is_beginning(log, fd, size);
		if (r > 0)
			return fd;
		close(fd);
		if (r < 0)
			return r;
	}
	return -EEXIST;
}

static int write_at(int fd, const char *data, size_t len, off_t at)
{
	while (len) {
		ssize_t n = pwrite(fd, data, len, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		data += n;
		len -= n;
		at += n;
	}
	return 0;
}

/*
 * Copies the rest of the log. Each byte has the same offset in the copy as in the log:
 * another process that copies at the same time writes the same bytes, so no lock is
 * needed, and the size of the copy is where to go on. Returns whether there was something
 * to copy.
 */
static int copy_rest(int log, int copy, off_t at)
{
	char buf[16384];
	bool any = false;
	ssize_t n;
	int r = 0;

	while ((n = shfs_pread_full(log, buf, sizeof(buf), at)) > 0) {
		any = true;
		r = write_at(copy, buf, n, at);
		if (r)
			return r;
		at += n;
	}
	return n < 0 ? (int)n : any;
}

/* Opens a log without blocking on a FIFO or following a link. */
static int open_log(int dirfd, const char *name)
{
	int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	int fd = openat(dirfd, name, flags);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return -EINVAL;
}

static int collect_one(int from, int to, const char *name)
{
	_cleanup_close_ int log = open_log(from, name);
	_cleanup_close_ int copy = -1;
	off_t size = 0;
	bool ended;
	int r;

	if (log < 0)
		return log == -ENOENT || log == -EINVAL || log == -ELOOP ? 0 : log;
	ended = has_shell_ended(
		log, name); /* before the copy, so that it gets the last record */
	copy = open_copy(to, name, log, &size);
	if (copy < 0)
		return copy;
	r = copy_rest(log, copy, size);
	if (r > 0 && (fdatasync(copy) || (!size && fsync(to))))
		return -errno;
	if (r < 0)
		return r;
	/* Another process may have copied the end, but not have synced it yet. */
	if (ended && !fsync(copy) && !fsync(to))
		unlinkat(from, name, 0);
	return 0;
}

static bool is_log(const char *name)
{
	size_t n = strlen(name);

	return n < 256 && !strncmp(name, "shell-", 6) && n > 10 &&
	       !strcmp(name + n - 4, ".log");
}

/* Opens journal/<host>, and creates it if a query is the first to need it. */
static int open_journal(struct shfs_store *store, const char *host)
{
	char path[80];
	int fd, r;

	if (snprintf(path, sizeof(path), "journal/%s", host) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = openat(store->dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		_cleanup_close_ int parent = openat(store->dirfd, "journal",
		                                    O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		r = shfs_mkdir_p_at(store->dirfd, path, 0700);
		if (r || fsync(parent))
			return r ? r : -errno;
		fd = openat(store->dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	return fd < 0 ? -errno : fd;
}

/* Takes ownership of fd, the directory of the host's logs. */
static int collect_host(struct shfs_store *store, int fd, const char *host)
{
	DIR *d = fdopendir(fd);
	_cleanup_close_ int to = -1;
	struct dirent *e;
	int r, end = 0, first = 0;

	if (!d) {
		close(fd);
		return -ENOMEM;
	}
	while ((e = shfs_readdir(d, &end))) {
		if (!is_log(e->d_name))
			continue;
		if (to < 0 && (to = open_journal(store, host)) < 0) {
			first = to;
			break;
		}
		r = collect_one(dirfd(d), to, e->d_name);
		if (r && !first)
			first = r;
	}
	closedir(d);
	return first ? first : end;
}

int shfs_runtime_collect(struct shfs_store *store, const char *dir)
{
	_cleanup_free_ char *all = strdup(dir);
	char *slash = all ? strrchr(all, '/') : NULL;
	struct dirent *e;
	DIR *hosts;
	int first = 0, end = 0;

	if (!slash)
		return all ? -EINVAL : -ENOMEM;
	*slash = '\0';
	hosts = opendir(all);
	if (!hosts)
		return errno == ENOENT ? 0 : -errno;
	while ((e = shfs_readdir(hosts, &end))) {
		int fd, r = 0;

		if (e->d_name[0] == '.')
			continue;
		fd = openat(dirfd(hosts), e->d_name,
		            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0)
			r = collect_host(store, fd, e->d_name);
		else if (errno != ENOTDIR && errno != ELOOP && errno != ENOENT)
			r = -errno;
		first = first ?: r;
	}
	closedir(hosts);
	return first ? first : end;
}

/* --- alerts --- */

void shfs_runtime_alert(const char *store_path, const char *name, const char *text)
{
	_cleanup_free_ char *dir = shfs_runtime_dir(store_path);
	_cleanup_free_ char *state = dir ? shfs_path_join(dir, "state") : NULL;
	_cleanup_close_ int fd =
		state ? open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (fd >= 0 && text)
		(void)!shfs_write_file_at(fd, name, 0600, text, strlen(text));
	else if (fd >= 0)
		unlinkat(fd, name, 0);
}
