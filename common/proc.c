/* SPDX-License-Identifier: MIT */
#include "common/proc.h"

#include "common/io.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

int shfs_proc_open(uint32_t pid)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%" PRIu32, pid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Numbers of fields as in proc(5). */
enum {
	PPID = 4,
	PGID,
	SID,
	TTY_NR,
	FLAGS = 9,
	N_THREADS = 20,
	START_TICKS = 22,
	START_CODE = 26,
	START_STACK = 28,
	PROCESSOR = 39,
	START_BRK = 47,
	ARG_START,
	ARG_END,
	ENV_END = 51,
};
#define PF_EXITING    0x4 /* in FLAGS */
#define PF_FORKNOEXEC 0x40
#define ENVIRON_MAX   (1 << 20)
#define DIGITS        "0123456789"

/* Parses the numbers behind the state, without their signs; fields that an older kernel
 * does not have stay. Without strtoull, which is slow: each open calls this. */
static int parse_fields(const char *p, uint64_t fields[static ENV_END + 1])
{
	int n = PPID;

	p += strspn(p, " ");
	p += *p != '\0'; /* the state: a letter */
	for (; n <= ENV_END; n++) {
		uint64_t value = 0;

		p += *p == ' ';
		p += *p == '-';
		if (*p < '0' || *p > '9')
			break;
		for (; *p >= '0' && *p <= '9'; p++)
			value = value * 10 + (uint64_t)(*p - '0');
		fields[n] = value;
	}
	return n > START_TICKS ? 0 : -EBADMSG;
}

int shfs_proc_parse_stat(const char *text, struct shfs_proc_stat *out)
{
	const char *open = strchr(text, '('), *close = strrchr(text, ')');
	uint64_t f[ENV_END + 1] = { 0 };
	struct shfs_proc_stat s;
	size_t len;
	char *end;

	if (!open || !close || close < open || parse_fields(close + 1, f))
		return -EBADMSG;
	s = (struct shfs_proc_stat){
		.pid = (uint32_t)strtoul(text, &end, 10),
		.ppid = (uint32_t)f[PPID],
		.pgid = (uint32_t)f[PGID],
		.sid = (uint32_t)f[SID],
		.tty_nr = (uint32_t)f[TTY_NR],
		.n_threads = (uint32_t)f[N_THREADS],
		.waiting = strspn(close + 1, " ") == 1 && close[2] == 'S',
		.start_ticks = f[START_TICKS],
		.cpu = (uint32_t)f[PROCESSOR],
		.forked = f[FLAGS] & PF_FORKNOEXEC,
		.ending = f[FLAGS] & PF_EXITING,
	};
	if (end == text)
		return -EBADMSG;
	if (f[START_STACK])
		memcpy(s.image,
		       (uint64_t[]){ f[START_STACK], f[START_CODE], f[START_BRK],
		                     f[ARG_START], f[ARG_END], f[ENV_END] },
		       sizeof(s.image));
	len = MIN((size_t)(close - open - 1), sizeof(s.comm) - 1);
	memcpy(s.comm, open + 1, len);
	*out = s;
	return 0;
}

int shfs_proc_reread_stat(int statfd, struct shfs_proc_stat *out)
{
	char text[1024];
	ssize_t n = pread(statfd, text, sizeof(text) - 1, 0); /* in one piece */

	if (n < 0)
		return -errno;
	text[n] = '\0';
	return shfs_proc_parse_stat(text, out);
}

int shfs_proc_read_stat(int procfd, struct shfs_proc_stat *out)
{
	_cleanup_close_ int fd = openat(procfd, "stat", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	return shfs_proc_reread_stat(fd, out);
}

int shfs_proc_open_stat(int procfd, uint32_t tid)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "task/%" PRIu32 "/stat", tid);
	fd = openat(procfd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	return fd;
}

bool shfs_proc_same_program(const struct shfs_proc_stat *a,
                            const struct shfs_proc_stat *b)
{
	if (a->forked != b->forked)
		return false;
	if (a->image[0] && b->image[0])
		return !memcmp(a->image, b->image, sizeof(a->image));
	return !strcmp(a->comm, b->comm);
}

int64_t shfs_proc_bytes_written(uint32_t tid)
{
	char path[32], text[512], *at;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/io", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		n = -errno;
	close(fd);
	if (n < 0)
		return n;
	text[n] = '\0';
	at = strstr(text, "wchar:");
	return at ? strtoll(at + strlen("wchar:"), NULL, 10) : -EBADMSG;
}

#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL /* since Linux 6.9 */
#endif

int shfs_proc_mark(int procfd, const struct shfs_proc_stat *stat, bool is_first,
                   struct shfs_proc_mark *out)
{
	struct shfs_proc_mark mark = { -1, -1 };

	if (is_first && stat->forked)
		return -EOPNOTSUPP;
	mark.pidfd = (int)syscall(SYS_pidfd_open, stat->pid, is_first ? 0 : PIDFD_THREAD);
	if (mark.pidfd >= 0 && is_first)
		mark.mapfd = openat(procfd, "pagemap", O_RDONLY | O_CLOEXEC);
	if (mark.pidfd < 0 || (is_first && mark.mapfd < 0) ||
	    !shfs_proc_is_marked(&mark)) {
		shfs_proc_unmark(&mark);
		return -EOPNOTSUPP;
	}
	*out = mark;
	return 0;
}

void shfs_proc_unmark(struct shfs_proc_mark *mark)
{
	shfs_closep(&mark->pidfd);
	shfs_closep(&mark->mapfd);
	mark->pidfd = mark->mapfd = -1;
}

bool shfs_proc_is_marked(const struct shfs_proc_mark *mark)
{
	char none;

	/* A read of one byte returns 0 if the map is not used any more, else EINVAL, as
	 * pagemap has only whole entries. It takes no lock of the map. */
	if (mark->mapfd >= 0 && (pread(mark->mapfd, &none, 1, 0) >= 0 || errno != EINVAL))
		return false;
	return !syscall(SYS_pidfd_send_signal, mark->pidfd, 0, NULL, 0) || errno == EPERM;
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

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

int shfs_proc_shares_root(int procfd)
{
	struct stat root, mounts, our_root, our_mounts;

	/* a process that ends gives up first its root, then its namespace */
	if (fstatat(procfd, "ns/mnt", &mounts, 0) || fstatat(procfd, "root", &root, 0) ||
	    stat("/proc/self/ns/mnt", &our_mounts) || stat("/", &our_root))
		return -errno;
	return is_same_file(&root, &our_root) && is_same_file(&mounts, &our_mounts);
}

int shfs_proc_streams(int procfd, struct shfs_buf *out)
{
	static const char *const names[] = { "fd/0", "fd/1", "fd/2" };
	size_t len = out->len;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		int r = shfs_proc_link(procfd, names[i], out);

		if (r && r != -ENOENT) {
			out->len = len;
			return r;
		}
		if (i + 1 < ARRAY_SIZE(names))
			shfs_buf_u8(out, 0);
	}
	return out->failed ? -ENOMEM : 0;
}

/* Returns the value of a variable, borrowed; {NULL, 0}: it is not set. The first of
 * several counts, as for programs. */
struct shfs_bytes shfs_environ_variable(struct shfs_bytes env, const char *name)
{
	size_t len = strlen(name);

	while (env.len) {
		size_t n = strnlen(env.data, env.len);

		if (n > len && !memcmp(env.data, name, len) && env.data[len] == '=')
			return (struct shfs_bytes){ env.data + len + 1, n - len - 1 };
		n += n < env.len;
		env.data += n;
		env.len -= n;
	}
	return (struct shfs_bytes){ NULL, 0 };
}

/* Returns how many bytes of value, from `from` on, are such characters. */
static size_t span_of_characters(struct shfs_bytes value, size_t from,
                                 const char *characters)
{
	size_t n = from;

	while (n < value.len && value.data[n] && strchr(characters, value.data[n]))
		n++;
	return n - from;
}

void shfs_environ_marker(struct shfs_bytes env, struct shfs_buf *out)
{
	struct shfs_bytes session = shfs_environ_variable(env, "SHFS_SESSION");
	struct shfs_bytes number = shfs_environ_variable(env, "SHFS_COMMAND");
	struct shfs_bytes unit = shfs_environ_variable(env, "INVOCATION_ID");
	size_t end = 0;

	for (int i = 0; i < 3; i++) {
		size_t n = span_of_characters(session, end, i ? DIGITS : DIGITS "abcdef");

		if (!n || n > 20 || (i < 2 && end + n == session.len) ||
		    (end + n < session.len && session.data[end + n] != '-'))
			return;
		end += n + (i < 2);
	}
	if (!number.len || number.len > 20 ||
	    span_of_characters(number, 0, DIGITS) < number.len)
		return;
	/* a service with the environment of a shell runs in a systemd unit of its own */
	if (unit.len ? session.len - end != unit.len + 1 ||
	                       memcmp(session.data + end + 1, unit.data, unit.len)
	             : session.len != end)
		return;
	shfs_buf_add(out, session.data, end);
	shfs_buf_char(out, '-');
	shfs_buf_add(out, number.data, number.len);
}

struct shfs_bytes shfs_marker_marks(struct shfs_bytes marker)
{
	const char *marks = marker.len ? memchr(marker.data, ' ', marker.len) : NULL;

	return marks ? (struct shfs_bytes){ marks, marker.data + marker.len - marks }
	             : (struct shfs_bytes){ NULL, 0 };
}

int shfs_environ_hidden(struct shfs_bytes env)
{
	struct shfs_bytes value = shfs_environ_variable(env, "SHFS_HIDDEN");

	if (value.len != 1 || (*value.data != '0' && *value.data != '1'))
		return SHFS_HIDDEN_UNSAID;
	return *value.data == '1';
}

int shfs_proc_environ(int procfd, struct shfs_buf *out)
{
	int r = shfs_read_file_at(procfd, "environ", ENVIRON_MAX, out);

	return r == -ENOENT ? -ESRCH : r;
}

int shfs_proc_marker(int procfd, struct shfs_buf *out, int *hidden)
{
	_cleanup_buf_ struct shfs_buf env = { 0 };
	int r = shfs_proc_environ(procfd, &env);

	*hidden = shfs_environ_hidden((struct shfs_bytes){ env.data, env.len });
	if (r)
		return r;
	shfs_environ_marker((struct shfs_bytes){ env.data, env.len }, out);
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

bool shfs_proc_is_ours(void)
{
	char pid[16] = "";

	return readlink("/proc/self", pid, sizeof(pid) - 1) > 0 && atoi(pid) == getpid();
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

size_t shfs_proc_share_of_fds(unsigned parts, size_t most)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return MAX(most / parts, (size_t)1);
	return (size_t)MAX(MIN(limit.rlim_cur / parts, (rlim_t)most), (rlim_t)16);
}

/* --- the own pid --- */

static _Atomic pid_t *own_pid; /* NULL: there is no such page; a child finds a 0 there */
static pthread_once_t own_pid_once = PTHREAD_ONCE_INIT;

static void make_own_pid(void)
{
	size_t len = (size_t)sysconf(_SC_PAGESIZE);
	void *page = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	                  -1, 0);

	if (page == MAP_FAILED)
		return;
	if (madvise(page, len, MADV_WIPEONFORK))
		munmap(page, len);
	else
		own_pid = page;
}

pid_t shfs_pid(void)
{
	pid_t pid;

	pthread_once(&own_pid_once, make_own_pid);
	if (!own_pid)
		return getpid();
	pid = atomic_load_explicit(own_pid, memory_order_relaxed);
	if (!pid) {
		pid = getpid();
		atomic_store_explicit(own_pid, pid, memory_order_relaxed);
	}
	return pid;
}
