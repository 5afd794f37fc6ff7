/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/helper/helper.h"

#include "common/proc.h"
#include "kmod-fast-path/helper/log.h"
#include "kmod-fast-path/helper/privilege.h"
#include "kmod-fast-path/helper/subscription.h"
#include "kmod-fast-path/protocol/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <libgen.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#define IDLE_MS  60000 /* systemd starts the helper again for the next connection */
#define END_MS   3000  /* for serving processes to end by SIGTERM */
#define KILL_MS  500   /* and by SIGKILL, if they did not */
#define FIRST_FD 3     /* the first descriptor that systemd passes */

enum { EXIT_USAGE = 2 };

struct child {
	pid_t pid;
	uid_t uid;
};

struct helper {
	const struct shfs_driver_ops *const *drivers;
	int listen_fd, signal_fd;
	bool activated; /* by systemd */
	struct child children[SHFS_HELPER_TOTAL_MAX];
	size_t n;
};

struct options {
	bool foreground;
	const char *socket;
	int connection;
};

static const char usage[] =
	"usage: shfs-helper --foreground [--socket PATH]\n"
	"       shfs-helper --connection FD\n"
	"systemd starts it when it is asked: systemctl enable --now shfs-helper.socket\n";

static int parse_helper_options(int argc, char **argv, struct options *out)
{
	static const struct option longs[] = {
		{ "foreground", no_argument, NULL, 'f' },
		{ "socket", required_argument, NULL, 's' },
		{ "connection", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'v' },
		{ 0 },
	};
	int c;

	*out = (struct options){ .socket = SHFS_HELPER_SOCKET, .connection = -1 };
	while ((c = getopt_long(argc, argv, "", longs, NULL)) >= 0) {
		char *end = NULL;

		if (c == 'f') {
			out->foreground = true;
		} else if (c == 's') {
			out->socket = optarg;
		} else if (c == 'c') {
			out->connection = (int)strtol(optarg, &end, 10);
		} else if (c == 'v') {
			puts("shfs-helper " SHFS_VERSION);
			return -1;
		} else if (c == 'h') {
			fputs(usage, stdout);
			return -1;
		}
		if (c == '?' || (end && (end == optarg || *end || out->connection < 0))) {
			fputs(usage, stderr);
			return EXIT_USAGE;
		}
	}
	if (optind < argc)
		fputs(usage, stderr);
	return optind < argc ? EXIT_USAGE : 0;
}

/* --- the socket --- */

static bool is_seqpacket_socket(int fd)
{
	int domain = 0, type = 0;
	socklen_t len = sizeof(int);

	return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) &&
	       !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) && domain == AF_UNIX &&
	       type == SOCK_SEQPACKET;
}

/* Refuses a directory that others may write to: they could replace the socket by their
 * own. */
static int check_directory(const char *path)
{
	_cleanup_free_ char *copy = strdup(path);
	const char *dir = copy ? dirname(copy) : NULL;
	struct stat st;

	if (!dir)
		return -ENOMEM;
	if (mkdir(dir, 0755) && errno != EEXIST)
		return -errno;
	if (stat(dir, &st))
		return -errno;
	if (st.st_uid != geteuid() || st.st_mode & 022) {
		shfs_helper_log("%s: others may write to this directory", dir);
		return -EPERM;
	}
	return 0;
}

/* Removes a socket that no process listens to any more. */
static int remove_dead_socket(int fd, const struct sockaddr_un *address)
{
	struct stat st;

	if (lstat(address->sun_path, &st))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode)) {
		shfs_helper_log("%s: this is not a socket", address->sun_path);
		return -EEXIST;
	}
	if (!connect(fd, (const struct sockaddr *)address, sizeof(*address))) {
		shfs_helper_log("%s: another helper serves this socket",
		                address->sun_path);
		return -EADDRINUSE;
	}
	if (errno != ECONNREFUSED)
		return -errno;
	return unlink(address->sun_path) ? -errno : 0;
}

static int make_socket(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd =
		socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r;

	if (fd < 0)
		return -errno;
	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	r = check_directory(path);
	if (!r)
		r = remove_dead_socket(fd, &address);
	if (r)
		return r;
	umask(0111);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 128))
		return -errno;
	umask(0022);
	return TAKE_FD(fd);
}

/* --- connections --- */

/* Serves one connection in a process of its own, which ends with this one. */
static void serve_connection(struct helper *h, int socket, pid_t parent)
{
	close(h->listen_fd);
	close(h->signal_fd);
	/* also if this process cannot end it */
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != parent)
		_exit(1);
	exit(shfs_subscription_serve(socket, h->drivers));
}

static size_t count_of(const struct helper *h, uid_t uid)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n; i++)
		n += h->children[i].uid == uid;
	return n;
}

static void refuse_peer(int socket, const struct ucred *peer, int error, const char *why)
{
	shfs_helper_refuse(socket, error, why);
	shfs_helper_log_of(peer->uid, "user %u, process %d: refused: %s",
	                   (unsigned)peer->uid, (int)peer->pid, why);
}

static void take_connection(struct helper *h)
{
	_cleanup_close_ int socket =
		accept4(h->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	pid_t pid, parent = getpid();
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (socket < 0) {
		if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
			shfs_helper_log("no connection is taken: %s", strerror(errno));
			poll(NULL, 0, 100); /* some resource is short: wait until it is
			                     * back */
		}
		return;
	}
	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &len))
		return;
	if (peer.uid && count_of(h, peer.uid) >= SHFS_HELPER_USER_MAX) {
		refuse_peer(socket, &peer, -EUSERS,
		            "this user has too many subscriptions");
		return;
	}
	if (h->n == SHFS_HELPER_TOTAL_MAX) {
		refuse_peer(socket, &peer, -EUSERS, "there are too many subscriptions");
		return;
	}
	pid = fork();
	if (!pid)
		serve_connection(h, TAKE_FD(socket), parent);
	if (pid < 0)
		refuse_peer(socket, &peer, -errno,
		            "there is no process for another subscription");
	else
		h->children[h->n++] = (struct child){ pid, peer.uid };
}

static void reap_children(struct helper *h)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (size_t i = 0; i < h->n; i++) {
			if (h->children[i].pid != pid)
				continue;
			if (WIFSIGNALED(status))
				shfs_helper_log_of(
					h->children[i].uid,
					"user %u: a subscription was ended by signal %d",
					(unsigned)h->children[i].uid, WTERMSIG(status));
			h->children[i] = h->children[--h->n];
			break;
		}
	}
}

/* true: a signal has asked to end. */
static bool take_signals(struct helper *h)
{
	struct signalfd_siginfo info;
	bool ends = false;

	while (read(h->signal_fd, &info, sizeof(info)) == sizeof(info))
		ends |= info.ssi_signo != SIGCHLD;
	reap_children(h);
	return ends;
}

static void end_children_by(struct helper *h, int signal, int wait_ms)
{
	struct pollfd fd = { h->signal_fd, POLLIN };

	for (size_t i = 0; i < h->n; i++)
		kill(h->children[i].pid, signal);
	for (int ms = 0; h->n && ms < wait_ms; ms += 10) {
		poll(&fd, 1, 10);
		take_signals(h);
	}
}

static int run_helper(struct helper *h)
{
	struct pollfd fds[] = { { h->listen_fd, POLLIN }, { h->signal_fd, POLLIN } };
	bool idle, left_out;
	int n;

	for (;;) {
		left_out = shfs_helper_log_left_out(false);
		idle = h->activated && !h->n;
		n = poll(fds, ARRAY_SIZE(fds), idle || left_out ? IDLE_MS : -1);
		if (n < 0 && errno != EINTR)
			return 1;
		if (!n && idle)
			break;
		if (n > 0 && fds[1].revents && take_signals(h))
			break;
		if (n > 0 && fds[0].revents)
			take_connection(h);
	}
	end_children_by(h, SIGTERM, END_MS);
	end_children_by(h, SIGKILL, KILL_MS);
	(void)shfs_helper_log_left_out(true);
	return 0;
}

/* --- the start --- */

/* The listening socket that systemd has passed, or -1. */
static int passed_socket(void)
{
	const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");

	if (!pid || !n || atol(pid) != (long)getpid() || atoi(n) != 1)
		return -1;
	fcntl(FIRST_FD, F_SETFD, FD_CLOEXEC);
	fcntl(FIRST_FD, F_SETFL, fcntl(FIRST_FD, F_GETFL) | O_NONBLOCK);
	return FIRST_FD;
}

static int open_signals(bool with_children)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (with_children)
		sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_SETMASK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int give_up_rights(void)
{
	int r = shfs_privilege_begin();

	if (r)
		shfs_helper_log("cannot give up the rights that are not needed: %s",
		                strerror(-r));
	return r;
}

static int serve_one(int socket, const struct shfs_driver_ops *const *drivers)
{
	sigset_t set;

	if (!is_seqpacket_socket(socket)) {
		shfs_helper_log("--connection %d: not a connected socket of packets",
		                socket);
		return EXIT_USAGE;
	}
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_SETMASK, &set, NULL);
	return give_up_rights() ? 1 : shfs_subscription_serve(socket, drivers);
}

static int serve_all(const struct options *o,
                     const struct shfs_driver_ops *const *drivers)
{
	struct helper h = { .drivers = drivers, .listen_fd = passed_socket() };
	int status;

	h.activated = h.listen_fd >= 0;
	if (!h.activated && !o->foreground) {
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	if (h.activated && !is_seqpacket_socket(h.listen_fd)) {
		shfs_helper_log("the socket of the unit is not one of packets");
		return EXIT_USAGE;
	}
	if (!h.activated)
		h.listen_fd = make_socket(o->socket);
	if (h.listen_fd < 0) {
		shfs_helper_log("%s: %s", o->socket, strerror(-h.listen_fd));
		return 1;
	}
	shfs_helper_log_share();
	h.signal_fd = open_signals(true);
	if (h.signal_fd < 0 || give_up_rights())
		return 1;
	if (!h.activated)
		shfs_helper_log("listens at %s", o->socket);
	status = run_helper(&h);
	if (!h.activated)
		unlink(o->socket);
	close(h.listen_fd);
	close(h.signal_fd);
	return status;
}

int shfs_helper_main(int argc, char **argv, const struct shfs_driver_ops *const *drivers)
{
	struct options o;
	int r = parse_helper_options(argc, argv, &o);

	if (r)
		return r < 0 ? 0 : r;
	umask(0022);
	signal(SIGPIPE, SIG_IGN);
	shfs_proc_raise_limit(RLIMIT_NOFILE);
	if (o.connection >= 0)
		return serve_one(o.connection, drivers);
	return serve_all(&o, drivers);
}
