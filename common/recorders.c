/* SPDX-License-Identifier: MIT */
#include "common/recorders.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define BACKLOG  16
#define WAIT_SEC 1
#define NAME     "shfs-%u-watch-%" PRIx64 "-%" PRIx64
#define TREE     "shfs-%u-tree-%d"

struct address {
	struct sockaddr_un un;
	socklen_t len;
};

/* The address of a name in the abstract namespace. */
_printf_(2, 3) static void set_address(struct address *out, const char *fmt, ...)
{
	va_list ap;
	int n;

	*out = (struct address){ .un.sun_family = AF_UNIX };
	va_start(ap, fmt);
	n = vsnprintf(out->un.sun_path + 1, sizeof(out->un.sun_path) - 1, fmt, ap);
	va_end(ap);
	out->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static struct address address_of(const struct shfs_recorder_name *name)
{
	struct address address;

	set_address(&address, NAME, (unsigned)geteuid(), (uint64_t)name->dev,
	            (uint64_t)name->ino);
	return address;
}

static struct address address_of_tree(pid_t above)
{
	struct address address;

	set_address(&address, TREE, (unsigned)geteuid(), (int)above);
	return address;
}

/* Opens a socket with time-outs, so that no side makes the other wait for long. */
static int open_watch_socket(void)
{
	return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
}

static void limit_wait(int fd)
{
	const struct timeval wait = { .tv_sec = WAIT_SEC };

	(void)!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	(void)!setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
}

static bool is_peer_of_user(int fd, uid_t uid)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) &&
	       (peer.uid == uid || !peer.uid);
}

static int listen_at(const struct address *address)
{
	_cleanup_close_ int fd = open_watch_socket();

	if (fd < 0 || bind(fd, (const struct sockaddr *)&address->un, address->len) ||
	    listen(fd, BACKLOG))
		return -errno;
	return TAKE_FD(fd);
}

int shfs_recorders_listen(int root_fd)
{
	struct address address;
	struct stat st;

	if (fstat(root_fd, &st))
		return -errno;
	address = address_of(&(struct shfs_recorder_name){ st.st_dev, st.st_ino });
	return listen_at(&address);
}

int shfs_recorders_listen_tree(pid_t above)
{
	const struct address address = address_of_tree(above);

	return listen_at(&address);
}

int shfs_recorders_accept(int listening, char word[static SHFS_RECORDER_WORD_MAX])
{
	_cleanup_close_ int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	if (!is_peer_of_user(fd, geteuid()))
		return -EACCES;
	limit_wait(fd);
	n = recv(fd, word, SHFS_RECORDER_WORD_MAX - 1, 0);
	if (n <= 0)
		return n ? -errno : -ECONNRESET;
	word[n] = '\0';
	return TAKE_FD(fd);
}

/* Parses a line of /proc/net/unix: it ends with the name, with "@" for the NUL before it.
 */
static bool parse_unix_line(const char *line, struct shfs_recorder_name *out)
{
	const char *name = strstr(line, " @shfs-");
	uint64_t dev, ino;
	unsigned uid;
	int end = 0;

	if (!name || sscanf(name + 2, NAME "%n", &uid, &dev, &ino, &end) != 3 ||
	    name[2 + end] != '\n' || uid != geteuid())
		return false;
	*out = (struct shfs_recorder_name){ (dev_t)dev, (ino_t)ino };
	return true;
}

/* Is the name in the list already? Accepted connections have the name of their listener.
 */
static bool is_watch_listed(const struct shfs_recorder_name *names, size_t n,
                            const struct shfs_recorder_name *name)
{
	for (size_t i = 0; i < n; i++)
		if (names[i].dev == name->dev && names[i].ino == name->ino)
			return true;
	return false;
}

int shfs_recorders_list(struct shfs_recorder_name **out, size_t *n_out)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/net/unix", "re");
	_cleanup_free_ struct shfs_recorder_name *names = NULL;
	_cleanup_free_ char *line = NULL;
	struct shfs_recorder_name name, *grown;
	size_t n = 0, size = 0;

	if (!file)
		return -errno;
	while (getline(&line, &size, file) > 0) {
		if (!parse_unix_line(line, &name) || is_watch_listed(names, n, &name))
			continue;
		grown = reallocarray(names, n + 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		names = grown;
		names[n++] = name;
	}
	*out = TAKE_PTR(names);
	*n_out = n;
	return 0;
}

static int ask_at(const struct address *address, const char *word)
{
	_cleanup_close_ int fd = open_watch_socket();

	if (fd < 0)
		return -errno;
	limit_wait(fd);
	if (connect(fd, (const struct sockaddr *)&address->un, address->len))
		return -errno;
	/* another user may have taken the name of a recorder of ours */
	if (!is_peer_of_user(fd, geteuid()))
		return -EACCES;
	if (send(fd, word, strlen(word), MSG_NOSIGNAL) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int shfs_recorders_ask(const struct shfs_recorder_name *name, const char *word)
{
	const struct address address = address_of(name);

	return ask_at(&address, word);
}

int shfs_recorders_ask_tree(pid_t above, const char *word)
{
	const struct address address = address_of_tree(above);

	return ask_at(&address, word);
}

bool shfs_recorders_have_helper(void)
{
	const char *socket = getenv("SHFS_HELPER");

	return !access(socket ? socket : SHFS_HELPER_SOCKET, F_OK);
}

int shfs_recorders_answer(const struct shfs_recorder_name *name, const char *word,
                          struct shfs_buf *out)
{
	_cleanup_free_ char *answer = malloc(SHFS_WATCH_ANSWER_MAX);
	_cleanup_close_ int fd = answer ? shfs_recorders_ask(name, word) : -ENOMEM;
	ssize_t n;

	if (fd < 0)
		return fd;
	n = recv(fd, answer, SHFS_WATCH_ANSWER_MAX, 0);
	if (n <= 0)
		return n ? -errno : -ECONNRESET;
	shfs_buf_add(out, answer, (size_t)n);
	return out->failed ? -ENOMEM : 0;
}
