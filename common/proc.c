/* SPDX-License-Identifier: MIT */
#include "common/proc.h"

#include "common/io.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>

int shfs_proc_open(uint32_t pid)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%" PRIu32, pid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int shfs_proc_parse_stat(const char *text, struct shfs_proc_stat *out)
{
	struct shfs_proc_stat s = { 0 };
	const char *open = strchr(text, '('), *close = strrchr(text, ')');
	size_t len;

	if (!open || !close || close < open)
		return -EBADMSG;
	if (sscanf(text, "%" SCNu32, &s.pid) != 1 ||
	    sscanf(close + 1,
	           " %*c %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32
	           " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %" SCNu64,
	           &s.ppid, &s.pgid, &s.sid, &s.tty_nr, &s.start_ticks) != 5)
		return -EBADMSG;
	len = MIN((size_t)(close - open - 1), sizeof(s.comm) - 1);
	memcpy(s.comm, open + 1, len);
	*out = s;
	return 0;
}

int shfs_proc_read_stat(int procfd, struct shfs_proc_stat *out)
{
	_cleanup_close_ int fd = openat(procfd, "stat", O_RDONLY | O_CLOEXEC);
	char text[1024];
	ssize_t n;

	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	n = shfs_pread_full(fd, text, sizeof(text) - 1, 0);
	if (n < 0)
		return n;
	text[n] = '\0';
	return shfs_proc_parse_stat(text, out);
}

int shfs_proc_thread_group(int procfd, uint32_t *tgid)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r = shfs_read_file_at(procfd, "status", 65536, &text);
	const char *line;

	if (r)
		return r == -ENOENT ? -ESRCH : r;
	line = strstr(text.data, "\nTgid:");
	if (!line || sscanf(line, "\nTgid: %" SCNu32, tgid) != 1)
		return -EBADMSG;
	return 0;
}

int shfs_proc_cmdline(int procfd, size_t max_bytes, struct shfs_buf *out)
{
	_cleanup_close_ int fd = openat(procfd, "cmdline", O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *text = malloc(max_bytes);
	ssize_t n;

	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	if (!text)
		return -ENOMEM;
	n = shfs_pread_full(fd, text, max_bytes, 0);
	if (n < 0)
		return n;
	if (n && !text[n - 1])
		n--;
	shfs_buf_add(out, text, n);
	return out->failed ? -ENOMEM : 0;
}

int shfs_proc_link(int procfd, const char *name, struct shfs_buf *out)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(procfd, name, target, sizeof(target));

	if (n < 0)
		return -errno;
	shfs_buf_add(out, target, n);
	return out->failed ? -ENOMEM : 0;
}

int shfs_proc_boot_id(char out[static 37])
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r = shfs_read_file_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 64, &text);

	if (r)
		return r;
	if (text.len < 36)
		return -EBADMSG;
	memcpy(out, text.data, 36);
	out[36] = '\0';
	return 0;
}

int shfs_proc_pid_namespace(uint64_t *out)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st))
		return -errno;
	*out = st.st_ino;
	return 0;
}

void shfs_proc_host(char out[static 65])
{
	char name[65] = "";

	if (gethostname(name, sizeof(name) - 1) || !name[0])
		strcpy(name, "localhost");
	for (char *p = name; *p; p++)
		if (*p == '/' || (unsigned char)*p <= ' ' || (p == name && *p == '.'))
			*p = '_';
	memcpy(out, name, sizeof(name));
}

bool shfs_proc_raise_limit(int resource)
{
	struct rlimit none = { RLIM_INFINITY, RLIM_INFINITY }, limit;

	if (!setrlimit(resource, &none))
		return true;
	if (getrlimit(resource, &limit))
		return false;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(resource, &limit);
	return limit.rlim_max == RLIM_INFINITY;
}
