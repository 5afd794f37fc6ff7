/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/recorder/connection.h"

#include "common/clock.h"
#include "kmod-fast-path/protocol/packet.h"
#include "kmod-fast-path/recorder/receiver.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#define READY_MS 30000
#define REAP_MS  2000

static const char how_to_start[] =
	"start it: sudo systemctl enable --now shfs-helper.socket, or: sudo shfs-helper "
	"--foreground";

struct shfs_connection {
	int socket;
	pid_t pid; /* of the helper, if this process started it; else 0 */
	struct shfs_receiver
		*receiver; /* NULL: packets are read when they are asked for */
	char driver[sizeof(((struct shfs_packet *)0)->driver)];
	char why[sizeof(((struct shfs_packet *)0)->why)];
	bool has_packet; /* in is not used up */
	size_t at;       /* the next event of in */
	size_t fd_at;    /* the next fd of in */
	struct shfs_packet_in in;
};

struct shfs_connection *shfs_connection_adopt(int socket)
{
	struct shfs_connection *c = calloc(1, sizeof(*c));

	if (c)
		c->socket = socket;
	return c;
}

/* The helper learns everything about this user: so it must be root's, or the user's
 * own. */
static int check_listener(int socket)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	return !cred.uid || cred.uid == geteuid() ? 0 : -EPERM;
}

static int connect_to(int socket, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int r;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	do
		r = connect(socket, (struct sockaddr *)&address, sizeof(address));
	while (r && errno == EINTR);
	return r ? -errno : 0;
}

int shfs_connection_open(const char *path, struct shfs_connection **out,
                         struct shfs_buf *why)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int r = fd < 0 ? -errno : 0;

	path = path ? path : SHFS_HELPER_SOCKET;
	if (!r)
		r = connect_to(fd, path);
	if (r == -ENOENT || r == -ECONNREFUSED) {
		shfs_buf_printf(why, "no helper runs here (%s); %s", path, how_to_start);
		return r;
	}
	if (!r && (r = check_listener(fd)) == -EPERM) {
		shfs_buf_printf(why, "%s is served by another user, who is not root",
		                path);
		return r;
	}
	if (!r && !(*out = shfs_connection_adopt(fd)))
		r = -ENOMEM;
	if (r)
		shfs_buf_printf(why, "no connection to the helper (%s): %s", path,
		                strerror(-r));
	else
		(void)TAKE_FD(fd);
	return r;
}

/* Runs in the child of a process that may have threads: it allocates nothing. */
static void become_helper(const char *program, int socket)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (socket != 3 && dup2(socket, 3) < 0)
		_exit(127);
	fcntl(3, F_SETFD, 0);
	close_range(4, ~0U, 0);
	execl(program, "shfs-helper", "--connection", "3", NULL);
	_exit(127);
}

int shfs_connection_spawn(const char *program, struct shfs_connection **out,
                          struct shfs_buf *why)
{
	_cleanup_close_ int ours = -1, theirs = -1;
	struct shfs_connection *c;
	int pair[2];
	pid_t pid;

	if (access(program, X_OK)) {
		shfs_buf_printf(why, "there is no helper: %s: %s", program,
		                strerror(errno));
		return -errno;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		shfs_buf_printf(why, "no connection to a helper: %s", strerror(errno));
		return -errno;
	}
	ours = pair[0];
	theirs = pair[1];
	c = shfs_connection_adopt(ours);
	pid = c ? fork() : -1;
	if (!pid)
		become_helper(program, theirs);
	if (pid < 0) {
		int r = c ? -errno : -ENOMEM;

		free(c);
		shfs_buf_printf(why, "cannot start a helper: %s", strerror(-r));
		return r;
	}
	c->pid = pid;
	(void)TAKE_FD(ours);
	*out = c;
	return 0;
}

/* Reaps the helper, which ends with its connection; one that hangs is not waited for. */
static void reap_helper(pid_t pid)
{
	int64_t until = shfs_clock_ns(CLOCK_MONOTONIC) + REAP_MS * 1000000LL;
	pid_t r;

	while (!(r = waitpid(pid, NULL, WNOHANG)) &&
	       shfs_clock_ns(CLOCK_MONOTONIC) < until)
		poll(NULL, 0, 2);
	if (r)
		return;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void drop_packet(struct shfs_connection *c)
{
	if (c->has_packet)
		for (size_t i = c->fd_at; i < c->in.n_fds; i++)
			close(c->in.fds[i]);
	c->has_packet = false;
}

void shfs_connection_close(struct shfs_connection *c)
{
	if (!c)
		return;
	drop_packet(c);
	shfs_receiver_free(c->receiver);
	close(c->socket);
	if (c->pid)
		reap_helper(c->pid);
	free(c);
}

/* --- the order --- */

/* Waits for one packet. */
static int receive_soon(struct shfs_connection *c)
{
	int64_t until = shfs_clock_ns(CLOCK_MONOTONIC) + READY_MS * 1000000LL;
	struct pollfd fd = { c->socket, POLLIN };
	int r;

	while (!(r = shfs_packet_receive(c->socket, &c->in))) {
		int64_t left = until - shfs_clock_ns(CLOCK_MONOTONIC);

		if (left <= 0)
			return -ETIMEDOUT;
		if (poll(&fd, 1, (int)(left / 1000000) + 1) < 0 && errno != EINTR)
			return -errno;
	}
	if (r < 0)
		return r;
	shfs_packet_close_fds(&c->in, 0);
	return shfs_packet_check(c->in.data, c->in.len);
}

static int say_no_answer(int r, struct shfs_buf *why)
{
	if (r == -EPROTONOSUPPORT)
		shfs_buf_str(why, "the helper is of another version of shfs; restart it: "
		                  "sudo systemctl restart shfs-helper");
	else if (r == -ECONNRESET || r == -EPIPE)
		shfs_buf_str(why, "the helper ended without an answer");
	else if (r == -ETIMEDOUT)
		shfs_buf_str(why, "the helper does not answer");
	else
		shfs_buf_printf(why, "the helper's answer cannot be used: %s",
		                strerror(-r));
	return r;
}

int shfs_connection_subscribe(struct shfs_connection *c, int root_fd, const char *driver,
                              struct shfs_buf *why)
{
	struct shfs_packet order, *ready = &c->in.packet;
	int r;

	if (driver && strlen(driver) >= sizeof(order.driver)) {
		shfs_buf_str(why, "there is no driver of that name");
		return -ENOENT;
	}
	shfs_packet_fill(&order, SHFS_PACKET_WATCH, 0, driver, NULL);
	r = shfs_packet_send(c->socket, &order, sizeof(order), &root_fd, 1);
	/* a helper that refused may have sent the reason before */
	if (!r || r == -EPIPE || r == -ECONNRESET)
		r = receive_soon(c);
	if (!r && ready->type != SHFS_PACKET_READY)
		r = -EBADMSG;
	if (r)
		return say_no_answer(r, why);
	if (ready->error) {
		shfs_buf_str(why, ready->why[0] ? ready->why : strerror(-ready->error));
		return ready->error;
	}
	memcpy(c->driver, ready->driver, sizeof(c->driver));
	memcpy(c->why, ready->why, sizeof(c->why));
	return 0;
}

const char *shfs_connection_driver(const struct shfs_connection *c)
{
	return c->driver;
}

const char *shfs_connection_why(const struct shfs_connection *c)
{
	return c->why;
}

int shfs_connection_receive_ahead(struct shfs_connection *c)
{
	return c->receiver ? 0 : shfs_receiver_new(c->socket, &c->receiver);
}

uint64_t shfs_connection_bytes(const struct shfs_connection *c)
{
	return c->receiver ? shfs_receiver_bytes(c->receiver) : 0;
}

int shfs_connection_fd(const struct shfs_connection *c)
{
	return c->receiver ? shfs_receiver_fd(c->receiver) : c->socket;
}

int shfs_connection_sync(struct shfs_connection *c, uint64_t cookie)
{
	struct shfs_packet order;

	shfs_packet_fill(&order, SHFS_PACKET_SYNC, 0, NULL, NULL);
	order.cookie = cookie;
	return shfs_packet_send(c->socket, &order, sizeof(order), NULL, 0);
}

/* --- events --- */

/* Each pinned event needs an fd; fewer came only if this process may not have more. */
static int check_fds(const struct shfs_packet_in *in)
{
	const struct shfs_event *event;
	size_t at = 0, pinned = 0;

	if (in->packet.type == SHFS_PACKET_EVENTS)
		while ((event = shfs_packet_next_event(in->data, in->len, &at)))
			pinned += (event->flags & SHFS_EVENT_PINNED) != 0;
	if (in->n_fds == pinned)
		return 0;
	return in->n_fds < pinned && in->fds_lost ? 0 : -EBADMSG;
}

/* 1: there is a packet of events, or an answer. */
static int next_packet(struct shfs_connection *c)
{
	int r = c->receiver ? shfs_receiver_next(c->receiver, &c->in)
	                    : shfs_packet_receive(c->socket, &c->in);

	if (r <= 0)
		return r;
	c->has_packet = true;
	c->at = c->fd_at = 0;
	r = shfs_packet_check(c->in.data, c->in.len);
	if (!r)
		r = check_fds(&c->in);
	if (!r && c->in.packet.type != SHFS_PACKET_EVENTS &&
	    c->in.packet.type != SHFS_PACKET_SYNCED)
		r = -EBADMSG;
	if (!r && c->in.packet.error)
		r = c->in.packet.error;
	if (r)
		drop_packet(c);
	return r ? r : 1;
}

int shfs_connection_next(struct shfs_connection *c, struct shfs_told *out)
{
	struct shfs_told told = { .content_fd = -1 };
	int r;

	for (;;) {
		if (!c->has_packet && (r = next_packet(c)) <= 0)
			return r;
		if (c->in.packet.type == SHFS_PACKET_SYNCED) {
			told.cookie = c->in.packet.cookie;
			drop_packet(c);
			*out = told;
			return SHFS_TOLD_SYNCED;
		}
		told.event = shfs_packet_next_event(c->in.data, c->in.len, &c->at);
		if (told.event)
			break;
		drop_packet(c);
	}
	if (told.event->flags & SHFS_EVENT_PINNED && c->fd_at < c->in.n_fds)
		told.content_fd = c->in.fds[c->fd_at++];
	*out = told;
	return SHFS_TOLD_EVENT;
}
