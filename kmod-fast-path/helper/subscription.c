/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/helper/subscription.h"

#include "common/clock.h"
#include "common/io.h"
#include "kmod-fast-path/helper/log.h"
#include "kmod-fast-path/helper/privilege.h"
#include "kmod-fast-path/helper/queue.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#define ORDER_MS  10000 /* from the connection to the order */
#define DRAIN_MS  10    /* driver.h */
#define FLIGHT_MS 1     /* for a recorder to take the fds that were sent to it */
#define SEND_EACH 128   /* events, while many are drained */
#define LAST_MS   1000  /* for a recorder to take the rest, once the driver ended */

struct subscription {
	int socket, signal_fd, root_fd;
	struct shfs_peer peer;
	const struct shfs_driver_ops *ops;
	struct shfs_driver *driver;
	struct shfs_queue queue;
	struct shfs_reach reach;
	struct shfs_packet_in *in;
	unsigned n_unsent;
	uint64_t n_broken; /* events that no driver may report */
};

void shfs_helper_refuse(int socket, int error, const char *why)
{
	struct shfs_packet ready;

	shfs_packet_fill(&ready, SHFS_PACKET_READY, error, NULL, why);
	(void)!shfs_packet_send(socket, &ready, sizeof(ready), NULL, 0);
}

_printf_(3, 4) static int refuse_order(const struct subscription *w, int error,
                                       const char *fmt, ...)
{
	char why[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	shfs_helper_refuse(w->socket, error, why);
	shfs_helper_log_of(w->peer.uid, "user %u, process %d: refused: %s",
	                   (unsigned)w->peer.uid, (int)w->peer.pid, why);
	return error;
}

/* --- the order --- */

/* 1: a packet; 0: the connection or the helper ends without an order. */
static int wait_for_order(struct subscription *w)
{
	struct pollfd fds[] = { { w->socket, POLLIN }, { w->signal_fd, POLLIN } };
	int r = poll(fds, ARRAY_SIZE(fds), ORDER_MS);

	if (r < 0 || fds[1].revents)
		return 0;
	r = r ? shfs_packet_receive(w->socket, w->in) : 0;
	if (!r && !fds[0].revents)
		refuse_order(w, -ETIMEDOUT, "no order came within %d s", ORDER_MS / 1000);
	else if (r < 0 && r != -ECONNRESET)
		refuse_order(w, r, "the order is not a packet of shfs");
	return r > 0;
}

/* A descriptor that was opened for reading proves the right to read the directory. */
static int check_root(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat st;

	if (flags < 0 || fstat(fd, &st))
		return -errno;
	if (flags & O_PATH || (flags & O_ACCMODE) == O_WRONLY)
		return -EACCES;
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

static int check_order(struct subscription *w)
{
	struct shfs_packet_in *in = w->in;
	int r = shfs_packet_check(in->data, in->len);

	if (r == -EPROTONOSUPPORT)
		return refuse_order(
			w, r,
			"the helper is of another version of shfs (%d, asked by "
			"%d); restart it: systemctl restart shfs-helper",
			SHFS_EVENT_VERSION, in->packet.version);
	if (r || in->packet.type != SHFS_PACKET_WATCH)
		return refuse_order(w, -EBADMSG, "the order is not a packet of shfs");
	if (in->n_fds != 1 || in->fds_lost)
		return refuse_order(w, -EBADMSG, "the order comes without its directory");
	r = check_root(in->fds[0]);
	if (r)
		return refuse_order(w, r, "the directory was not opened to be read: %s",
		                    strerror(-r));
	w->root_fd = in->fds[0];
	in->n_fds = 0;
	return 0;
}

/* --- which driver --- */

/* Opens the driver, or appends to why what is wrong with it. */
static int try_driver(struct subscription *w, const struct shfs_driver_ops *ops,
                      struct shfs_buf *why)
{
	struct shfs_subscription_order order = {
		.root_fd = w->root_fd,
		.uid = w->peer.uid,
		.pid = w->peer.pid,
	};
	_cleanup_buf_ struct shfs_buf wrong = { 0 };
	int r = ops->open(&order, &w->driver, &wrong);

	if (!r) {
		w->ops = ops;
		return 0;
	}
	shfs_buf_printf(why, "%s%s: %s", why->len ? "; " : "", ops->name,
	                wrong.len ? wrong.data : strerror(-r));
	return r;
}

static int open_first_driver(struct subscription *w,
                             const struct shfs_driver_ops *const *drivers,
                             struct shfs_buf *why)
{
	const char *name = w->in->packet.driver;
	int r = *name ? -ENOENT : -EOPNOTSUPP;

	for (; *drivers && !w->ops; drivers++)
		if (!*name || !strcmp(name, (*drivers)->name))
			r = try_driver(w, *drivers, why);
	if (w->ops)
		return 0;
	if (!why->len)
		shfs_buf_str(why, *name ? "this helper has no driver of that name"
		                        : "this helper has no driver");
	return refuse_order(w, r, "%s", why->data ? why->data : strerror(-r));
}

static int begin_subscription(struct subscription *w,
                              const struct shfs_driver_ops *const *drivers)
{
	_cleanup_buf_ struct shfs_buf why = { 0 };
	const char *not_there;
	struct shfs_packet ready;
	int r = shfs_peer_enter(&w->peer, &not_there);

	if (r)
		return refuse_order(w, r, "%s", not_there);
	r = open_first_driver(w, drivers, &why);
	if (r)
		return r;
	r = shfs_privilege_serve(w->ops->name, &w->peer);
	if (r)
		return refuse_order(w, r, "the helper cannot give up its rights: %s",
		                    strerror(-r));
	w->reach.uid = w->peer.uid;
	w->reach.root_fd = w->root_fd;
	shfs_packet_fill(&ready, SHFS_PACKET_READY, 0, w->ops->name, why.data);
	shfs_helper_log_of(w->peer.uid, "user %u, process %d: watches by %s%s%s",
	                   (unsigned)w->peer.uid, (int)w->peer.pid, w->ops->name,
	                   why.len ? "; " : "", why.len ? why.data : "");
	return shfs_queue_control(&w->queue, &ready);
}

/* --- the subscription --- */

static void queue_driver_event(void *arg, const struct shfs_event *event, int content_fd)
{
	struct subscription *w = arg;

	if (!shfs_event_is_whole(event, SHFS_EVENT_SIZE_MAX) ||
	    event->type == SHFS_EVENT_DIRECTORY || event->flags & SHFS_EVENT_BELOW) {
		w->n_broken++;
		return;
	}
	if (!shfs_reach_event(&w->reach, event))
		return;
	if (content_fd >= 0 && !shfs_reach_content(&w->reach, content_fd))
		content_fd = -1;
	shfs_queue_event(&w->queue, event, content_fd);
	/* the end of the drain notices a broken connection */
	if (++w->n_unsent % SEND_EACH == 0)
		(void)!shfs_queue_send(&w->queue, w->socket);
}

static int drain_driver(struct subscription *w)
{
	return w->ops->drain(w->driver, queue_driver_event, w);
}

static int answer_sync(struct subscription *w, int error, uint64_t cookie)
{
	struct shfs_packet synced;

	shfs_packet_fill(&synced, SHFS_PACKET_SYNCED, error, w->ops->name, NULL);
	synced.cookie = cookie;
	return shfs_queue_control(&w->queue, &synced);
}

/* Takes one order of a recorder. 1: go on, there may be more. */
static int take_order(struct subscription *w, int *broken)
{
	int r = shfs_packet_receive(w->socket, w->in);
	bool alone = !w->in->n_fds && !w->in->fds_lost;

	if (r <= 0)
		return r;
	shfs_packet_close_fds(w->in, 0);
	if (!alone || shfs_packet_check(w->in->data, w->in->len) ||
	    w->in->packet.type != SHFS_PACKET_SYNC)
		return -EBADMSG;
	*broken = drain_driver(w);
	r = *broken ? 0 : answer_sync(w, 0, w->in->packet.cookie);
	return r ? r : !*broken;
}

/* Sends what can be sent now. Sets what to wait for, and how long: nothing reports that
 * fds were received. */
static int send_some(struct subscription *w, struct pollfd *socket, int *wait_ms)
{
	int r = shfs_queue_send(&w->queue, w->socket);

	*wait_ms = r == -EBUSY ? FLIGHT_MS : DRAIN_MS;
	socket->events = r == -EAGAIN ? POLLOUT : 0;
	if (w->queue.n_control < SHFS_QUEUE_CONTROL_MAX)
		socket->events |= POLLIN;
	return r == -EAGAIN || r == -EBUSY ? 0 : r;
}

/*
 * Serves until one side ends it: *broken is the error that ended the driver, or 0.
 * -errno: the recorder is gone.
 */
static int serve_subscription(struct subscription *w, int *broken)
{
	struct pollfd fds[] = {
		{ w->socket, POLLIN },
		{ w->signal_fd, POLLIN },
		{ w->ops->fd(w->driver), POLLIN },
	};
	int r = 0, wait_ms;

	*broken = 0;
	while (!*broken) {
		r = send_some(w, &fds[0], &wait_ms);
		if (r)
			return r;
		if (poll(fds, ARRAY_SIZE(fds), wait_ms) < 0 && errno != EINTR)
			return -errno;
		*broken = drain_driver(w);
		if (fds[1].revents)
			return *broken ? 0 : (*broken = -ESHUTDOWN, 0);
		for (r = 1; r > 0 && !*broken && fds[0].events & POLLIN &&
		            w->queue.n_control < SHFS_QUEUE_CONTROL_MAX;)
			r = take_order(w, broken);
		if (r < 0)
			return r;
		if (fds[0].revents & (POLLHUP | POLLERR) && !(fds[0].events & POLLIN))
			return -ECONNRESET;
	}
	return 0;
}

/* Sends what is left, and what ended the driver, to a recorder that reads it soon. */
static void say_last(struct subscription *w, int broken)
{
	int64_t until = shfs_clock_ns(CLOCK_MONOTONIC) + LAST_MS * 1000000LL;
	int r = answer_sync(w, broken, 0);

	while (!r && (r = shfs_queue_send(&w->queue, w->socket)) &&
	       (r == -EAGAIN || r == -EBUSY) && shfs_clock_ns(CLOCK_MONOTONIC) < until) {
		struct pollfd fd = { w->socket, r == -EAGAIN ? POLLOUT : 0 };

		r = poll(&fd, 1, DRAIN_MS) < 0 ? -errno : 0;
	}
}

static void say_how_it_ended(const struct subscription *w, int r, int broken)
{
	const char *end = broken == -ESHUTDOWN ? "the helper ends" : "the driver ended";

	if (!broken)
		end = r == -ECONNRESET || r == -EPIPE ? "the recorder ended"
		      : r == -EBADMSG                 ? "the recorder sent garbage"
		                                      : "the connection broke";
	shfs_helper_log_of(w->peer.uid,
	                   "user %u, process %d: %s (%s); sent %" PRIu64
	                   " packets, lost %" PRIu64 " events, left out %" PRIu64
	                   " of others and %" PRIu64 " that were broken, and %" PRIu64
	                   " contents",
	                   (unsigned)w->peer.uid, (int)w->peer.pid, end,
	                   broken || r ? strerror(broken ? -broken : -r) : "in order",
	                   w->queue.n_sent, w->queue.n_lost, w->reach.n_refused,
	                   w->n_broken, w->queue.n_unpinned);
}

static int run_subscription(struct subscription *w,
                            const struct shfs_driver_ops *const *drivers)
{
	int r, broken = 0;

	if (!wait_for_order(w))
		return 1;
	r = check_order(w);
	if (!r)
		r = begin_subscription(w, drivers);
	shfs_packet_close_fds(w->in, 0);
	if (r)
		return 1;
	r = serve_subscription(w, &broken);
	if (broken)
		say_last(w, broken);
	say_how_it_ended(w, r, broken);
	return broken && broken != -ESHUTDOWN;
}

int shfs_subscription_serve(int socket, const struct shfs_driver_ops *const *drivers)
{
	struct subscription w = { .socket = socket, .signal_fd = -1, .root_fd = -1 };
	int r = shfs_peer_read(socket, &w.peer), status = 1;
	sigset_t ends;

	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	w.signal_fd = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
	w.in = malloc(sizeof(*w.in));
	if (r || w.signal_fd < 0 || !w.in)
		shfs_helper_log("a connection cannot be served: %s",
		                strerror(r ? -r : errno));
	else
		status = run_subscription(&w, drivers);
	if (w.ops)
		w.ops->close(w.driver);
	shfs_queue_free(&w.queue);
	shfs_reach_free(&w.reach);
	shfs_peer_free(&w.peer);
	shfs_closep(&w.root_fd);
	shfs_closep(&w.signal_fd);
	free(w.in);
	return status;
}
