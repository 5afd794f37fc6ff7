/* SPDX-License-Identifier: MIT */
#include "tests/unit/faults.h"

#include "common/util.h"

#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zstd.h>

#define FRAMES_MAX 40
#define CALLERS    5 /* so many make a site */
#define SITES_MAX  20000

struct site {
	const char *call;
	const void *from;
	unsigned long stack;
	unsigned times;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic enum { OFF, COUNTING, FAILING } mode;
static struct site sites[SITES_MAX];
static struct fault found[3 * SITES_MAX];
static size_t n_sites;

static struct fault wanted;
static unsigned seen;
static bool hit;
static void *where[FRAMES_MAX];
static int n_where;

extern const char __executable_start, etext;

static bool is_ours(const void *at)
{
	return (const char *)at >= &__executable_start && (const char *)at < &etext;
}

/* Of the callers in this program: what libraries do between does not count. */
static unsigned long hash_stack(void **frames, int n)
{
	unsigned long hash = 5381;

	for (int i = 2, callers = 0; i < n && callers < CALLERS; i++)
		if (is_ours(frames[i])) {
			hash = hash * 1099511628211u + (uintptr_t)frames[i];
			callers++;
		}
	return hash;
}

static void count(const char *call, const void *from, unsigned long stack)
{
	size_t i = 0;

	while (i < n_sites && (sites[i].stack != stack || sites[i].call != call))
		i++;
	if (i == SITES_MAX)
		abort();
	if (i == n_sites)
		sites[n_sites++] = (struct site){ call, from, stack, 0 };
	sites[i].times++;
}

static bool is_wanted(unsigned long stack)
{
	if (hit)
		return wanted.stays;
	return stack == wanted.stack && ++seen == wanted.nth;
}

/* from: a stack takes long to look at. */
static bool fails(const char *call, const void *from, int error)
{
	void *frames[FRAMES_MAX];
	bool fail = false;
	int n;

	if (mode == OFF ||
	    (mode == FAILING && (call != wanted.call || from != wanted.from)))
		return false;
	n = backtrace(frames, FRAMES_MAX);
	pthread_mutex_lock(&lock);
	if (mode == COUNTING) {
		count(call, from, hash_stack(frames, n));
	} else if (mode == FAILING) {
		fail = is_wanted(hash_stack(frames, n));
		if (fail && !hit) {
			memcpy(where, frames, sizeof(frames));
			n_where = n;
		}
		hit |= fail;
		if (hit && !wanted.stays)
			mode = OFF;
	}
	pthread_mutex_unlock(&lock);
	if (fail)
		errno = error;
	return fail;
}

/* Memory comes and goes; a disk, a descriptor, a directory may be missing for good. */
static bool may_stay(const struct site *s)
{
	static const char *const not [] = { "alloc", "dup", "printf", "flock" };

	for (size_t i = 0; i < ARRAY_SIZE(not ); i++)
		if (strstr(s->call, not [i]))
			return false;
	for (const struct site *before = sites; before < s; before++)
		if (before->from == s->from)
			return false;
	return true;
}

void faults_count_begin(void)
{
	n_sites = 0;
	mode = COUNTING;
}

const struct fault *faults_count_end(size_t *n)
{
	mode = OFF;
	*n = 0;
	for (size_t i = 0; i < n_sites; i++) {
		const struct site *s = &sites[i];

		struct fault f = { s->call, s->from, s->stack, 1, false };

		found[(*n)++] = f;
		f.stays = true;
		if (may_stay(s))
			found[(*n)++] = f;
		f = (struct fault){ s->call, s->from, s->stack, s->times, false };
		if (s->times > 1 && strstr(s->call, "write"))
			found[(*n)++] = f;
	}
	return found;
}

void faults_begin(const struct fault *fault)
{
	wanted = *fault;
	seen = 0;
	hit = false;
	mode = FAILING;
}

bool faults_end(void)
{
	mode = OFF;
	return hit;
}

void faults_tell(void)
{
	fprintf(stderr, "%s, time %u%s:\n", wanted.call, wanted.nth,
	        wanted.stays ? " and after" : "");
	if (hit)
		for (int i = 2; i < n_where && i < 2 + 2 * CALLERS; i++)
			if (is_ours(where[i]))
				fprintf(stderr, "  0x%tx\n",
				        (const char *)where[i] - &__executable_start);
}

/* --- the calls; errors that each may have --- */

/* A literal is one address only where it stands once. */
#define FAILS(call, error)                                                               \
	({                                                                               \
		static const char name_[] = #call;                                       \
		fails(name_, __builtin_return_address(0), error);                        \
	})

#define WRAP(type, call, error, bad, parameters, ...)                                    \
	type __real_##call parameters;                                                   \
	type __wrap_##call parameters;                                                   \
	type __wrap_##call parameters                                                    \
	{                                                                                \
		return FAILS(call, error) ? (bad) : __real_##call(__VA_ARGS__);          \
	}

WRAP(void *, malloc, ENOMEM, NULL, (size_t n), n)
WRAP(void *, calloc, ENOMEM, NULL, (size_t n, size_t m), n, m)
WRAP(void *, realloc, ENOMEM, NULL, (void *p, size_t n), p, n)
WRAP(void *, reallocarray, ENOMEM, NULL, (void *p, size_t n, size_t m), p, n, m)
WRAP(char *, strdup, ENOMEM, NULL, (const char *s), s)
WRAP(char *, strndup, ENOMEM, NULL, (const char *s, size_t n), s, n)
WRAP(int, vasprintf, ENOMEM, -1, (char **out, const char *fmt, va_list ap), out, fmt, ap)
WRAP(ZSTD_CCtx *, ZSTD_createCCtx, ENOMEM, NULL, (void))
WRAP(ZSTD_DCtx *, ZSTD_createDCtx, ENOMEM, NULL, (void))
WRAP(int, pthread_create, EAGAIN, EAGAIN,
     (pthread_t * out, const pthread_attr_t *attr, void *(*fn)(void *), void *arg), out,
     attr, fn, arg)

WRAP(int, fstat64, EIO, -1, (int fd, struct stat *st), fd, st)
WRAP(int, fstatat64, EIO, -1, (int fd, const char *path, struct stat *st, int flags), fd,
     path, st, flags)
WRAP(int, fstatfs64, EIO, -1, (int fd, struct statfs *st), fd, st)
WRAP(int, statx, EIO, -1,
     (int fd, const char *path, int flags, unsigned mask, struct statx *st), fd, path,
     flags, mask, st)
WRAP(ssize_t, read, EIO, -1, (int fd, void *data, size_t len), fd, data, len)
WRAP(ssize_t, write, ENOSPC, -1, (int fd, const void *data, size_t len), fd, data, len)
WRAP(ssize_t, pread64, EIO, -1, (int fd, void *data, size_t len, off_t at), fd, data, len,
     at)
WRAP(ssize_t, pwrite64, ENOSPC, -1, (int fd, const void *data, size_t len, off_t at), fd,
     data, len, at)
WRAP(int, ftruncate64, EIO, -1, (int fd, off_t len), fd, len)
WRAP(int, fallocate64, ENOSPC, -1, (int fd, int how, off_t at, off_t len), fd, how, at,
     len)
WRAP(void *, mmap64, ENOMEM, MAP_FAILED,
     (void *at, size_t len, int prot, int flags, int fd, off_t offset), at, len, prot,
     flags, fd, offset)
WRAP(int, mkdirat, ENOSPC, -1, (int fd, const char *path, mode_t how), fd, path, how)
WRAP(int, linkat, EIO, -1, (int a, const char *from, int b, const char *to, int flags), a,
     from, b, to, flags)
WRAP(int, renameat, EIO, -1, (int a, const char *from, int b, const char *to), a, from, b,
     to)
WRAP(int, renameat2, EIO, -1,
     (int a, const char *from, int b, const char *to, unsigned flags), a, from, b, to,
     flags)
WRAP(int, unlinkat, EIO, -1, (int fd, const char *path, int flags), fd, path, flags)
WRAP(int, fchmod, EPERM, -1, (int fd, mode_t how), fd, how)
WRAP(int, flock, EINTR, -1, (int fd, int how), fd, how)
WRAP(int, pipe2, EMFILE, -1, (int fds[2], int flags), fds, flags)
WRAP(int, socket, EMFILE, -1, (int domain, int type, int protocol), domain, type,
     protocol)
WRAP(int, bind, EACCES, -1, (int fd, const struct sockaddr *at, socklen_t len), fd, at,
     len)
WRAP(int, listen, EIO, -1, (int fd, int n), fd, n)
WRAP(int, connect, ECONNREFUSED, -1, (int fd, const struct sockaddr *at, socklen_t len),
     fd, at, len)
WRAP(int, accept4, EMFILE, -1, (int fd, struct sockaddr *at, socklen_t *len, int flags),
     fd, at, len, flags)
WRAP(int, getsockopt, EIO, -1, (int fd, int level, int name, void *value, socklen_t *len),
     fd, level, name, value, len)
WRAP(ssize_t, send, EPIPE, -1, (int fd, const void *data, size_t len, int flags), fd,
     data, len, flags)
WRAP(ssize_t, recv, EIO, -1, (int fd, void *data, size_t len, int flags), fd, data, len,
     flags)
WRAP(FILE *, fopen64, EMFILE, NULL, (const char *path, const char *how), path, how)
WRAP(DIR *, fdopendir, ENOMEM, NULL, (int fd), fd)
WRAP(DIR *, opendir, EMFILE, NULL, (const char *path), path)
WRAP(struct dirent *, readdir64, EIO, NULL, (DIR * dir), dir)
WRAP(ssize_t, getrandom, ENOSYS, -1, (void *out, size_t len, unsigned flags), out, len,
     flags)

#define WRAP_SYNC(call)                                                                  \
	int __wrap_##call(int fd);                                                       \
	int __wrap_##call(int fd)                                                        \
	{                                                                                \
		return FAILS(call, EIO) ? -1 : 0;                                        \
	}

WRAP_SYNC(fsync)
WRAP_SYNC(fdatasync)
WRAP_SYNC(syncfs)

int __wrap_open64(const char *path, int flags, ...);

int __wrap_open64(const char *path, int flags, ...)
{
	va_list ap;
	mode_t how;

	va_start(ap, flags);
	how = va_arg(ap, mode_t);
	va_end(ap);
	return FAILS(open64, EMFILE)
	               ? -1
	               : (int)syscall(SYS_openat, AT_FDCWD, path, flags, how);
}

int __wrap_openat64(int fd, const char *path, int flags, ...);

int __wrap_openat64(int fd, const char *path, int flags, ...)
{
	va_list ap;
	mode_t how;

	va_start(ap, flags);
	how = va_arg(ap, mode_t);
	va_end(ap);
	return FAILS(openat64, EMFILE) ? -1
	                               : (int)syscall(SYS_openat, fd, path, flags, how);
}

/* --- SQLite --- */

static sqlite3_mem_methods sqlite;

static void *sqlite_malloc(int n)
{
	return FAILS(sqlite_malloc, ENOMEM) ? NULL : sqlite.xMalloc(n);
}

static void *sqlite_realloc(void *p, int n)
{
	return FAILS(sqlite_realloc, ENOMEM) ? NULL : sqlite.xRealloc(p, n);
}

static ssize_t sqlite_pread(int fd, void *data, size_t len, off_t at)
{
	return FAILS(sqlite_pread, EIO) ? -1 : syscall(SYS_pread64, fd, data, len, at);
}

static ssize_t sqlite_pwrite(int fd, const void *data, size_t len, off_t at)
{
	return FAILS(sqlite_pwrite, ENOSPC) ? -1
	                                    : syscall(SYS_pwrite64, fd, data, len, at);
}

static int sqlite_open(const char *path, int flags, int how)
{
	return FAILS(sqlite_open, EMFILE)
	               ? -1
	               : (int)syscall(SYS_openat, AT_FDCWD, path, flags, how);
}

static void sqlite_system_call(const char *name, sqlite3_syscall_ptr call)
{
	sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);

	vfs->xSetSystemCall(vfs, name, call);
}

void faults_init(void)
{
	sqlite3_mem_methods methods;
	void *frames[4];

	backtrace(frames, 4); /* loads what it needs */
	sqlite3_config(SQLITE_CONFIG_GETMALLOC, &sqlite);
	methods = sqlite;
	methods.xMalloc = sqlite_malloc;
	methods.xRealloc = sqlite_realloc;
	sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
	sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0);
	sqlite_system_call("pread64", (sqlite3_syscall_ptr)sqlite_pread);
	sqlite_system_call("pread", (sqlite3_syscall_ptr)sqlite_pread);
	sqlite_system_call("pwrite64", (sqlite3_syscall_ptr)sqlite_pwrite);
	sqlite_system_call("pwrite", (sqlite3_syscall_ptr)sqlite_pwrite);
	sqlite_system_call("open", (sqlite3_syscall_ptr)sqlite_open);
}
