/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/drivers/connector.h"

#include "common/clock.h"
#include "common/io.h"
#include "common/proc.h"
#include "kmod-fast-path/drivers/event-text.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#define NS_PER_TICK      10000000ULL
#define MESSAGES_AT_ONCE 64
#define MESSAGE_MAX      256
#define ROOM_BYTES       (32 << 20) /* of messages that wait */
#define PROBE_MS         1000
#define KTHREADD         2 /* the parent of all kernel threads */

/* Kinds of messages, as in proc_event of all kernels: its enumeration has moved in the
 * headers. */
enum {
	WHAT_NONE = 0,
	WHAT_FORK = 1,
	WHAT_EXEC = 2,
	WHAT_UID = 4,
	WHAT_EXIT = (int)0x80000000,
};

struct message {
	struct nlmsghdr header;
	struct cn_msg cn;
	char event[]; /* struct proc_event, not aligned */
};

struct shfs_connector {
	uid_t uid;
	int fd;
	uint64_t sequence, turn;
	int64_t boot_offset_ns; /* CLOCK_BOOTTIME - CLOCK_MONOTONIC */
	struct shfs_life *lives;
	struct shfs_life *ended, **ended_end; /* ended, but not reported yet */
	struct shfs_life **mark;
	struct shfs_life *gone, **gone_end; /* reported, not yet forgotten */
	shfs_event_sink sink;
	void *arg;
	shfs_connector_program *program_of; /* NULL: programs that are gone stay
	                                     * unknown */
	void *program_arg;
	struct shfs_event_room room;
};

/* --- the table --- */

static bool is_life_watched(const struct shfs_connector *c, const struct shfs_life *life)
{
	return !c->uid || (life->known && !life->mixed && life->real == c->uid &&
	                   life->effective == c->uid);
}

/*
 * Called before and after a process changes its user, as its file events do not say which
 * user it had. If it was another ordinary user's, or became root's, its events belong to
 * no user for a while. A process of root that becomes the user's was about to do so.
 */
static void note_other(const struct shfs_connector *c, struct shfs_life *life,
                       bool was_watched)
{
	bool by_root = life->known && !life->mixed &&
	               (!life->real || life->real == c->uid) &&
	               (!life->effective || life->effective == c->uid);

	if (!is_life_watched(c, life) && (was_watched || !by_root))
		life->other_until = c->turn + 2;
}

static struct shfs_life *life_of(const struct shfs_connector *c, uint32_t pid)
{
	struct shfs_life *life;

	HASH_FIND(hh, c->lives, &pid, sizeof(pid), life);
	return life;
}

static void life_ends(struct shfs_connector *c, struct shfs_life *life, uint64_t when_ns)
{
	if (life->exit_ns)
		return;
	life->exit_ns = when_ns;
	life->next_end = NULL;
	*c->ended_end = life;
	c->ended_end = &life->next_end;
}

/* Begins a new life. The process that had this pid before has ended, even if no message
 * said so. */
static struct shfs_life *life_begins(struct shfs_connector *c, uint32_t pid,
                                     uint64_t when_ns)
{
	struct shfs_life *life = calloc(1, sizeof(*life)), *older = life_of(c, pid);

	if (!life)
		return NULL;
	life->process.pid = life->process.tid = pid;
	life->process.start_ns = when_ns;
	life->threads = 1;
	if (older) {
		life_ends(c, older, when_ns);
		HASH_DEL(c->lives, older);
		life->older = older;
	}
	HASH_ADD(hh, c->lives, process.pid, sizeof(life->process.pid), life);
	return life;
}

static void forget_life(struct shfs_connector *c, struct shfs_life *life)
{
	struct shfs_life *newest = life_of(c, life->process.pid);

	if (newest == life) {
		HASH_DEL(c->lives, life);
		if (life->older) /* it ended earlier; its own turn forgets it */
			HASH_ADD(hh, c->lives, process.pid, sizeof(life->process.pid),
			         life->older);
	} else {
		while (newest && newest->older != life)
			newest = newest->older;
		if (newest)
			newest->older = life->older;
	}
	free(life);
}

/* --- /proc --- */

static void users_of(int procfd, struct shfs_life *life)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	const char *line;

	life->known = !shfs_read_file_at(procfd, "status", 1 << 16, &text) &&
	              (line = strstr(text.data, "\nUid:")) &&
	              sscanf(line, "\nUid: %u %u", &life->real, &life->effective) == 2;
}

/*
 * Reads what /proc has of a process. The kernel's message of a fork has a start time that
 * is some microseconds late; /proc's counts, within its 10 ms.
 */
static bool read_life(int procfd, struct shfs_life *life)
{
	struct shfs_event_process *id = &life->process;
	struct shfs_proc_stat stat;
	uint64_t tick;

	if (shfs_proc_read_stat(procfd, &stat) < 0)
		return false;
	tick = stat.start_ticks * NS_PER_TICK;
	if (id->start_ns && id->start_ns / NS_PER_TICK > stat.start_ticks + 1)
		return false; /* another process has this pid now */
	if (id->start_ns && id->start_ns + NS_PER_TICK < tick)
		return false;
	if (id->start_ns < tick)
		id->start_ns = tick;
	if (id->start_ns >= tick + NS_PER_TICK)
		id->start_ns = tick + NS_PER_TICK - 1;
	id->ppid = stat.ppid;
	id->pgid = stat.pgid;
	id->sid = stat.sid;
	id->tty = stat.tty_nr;
	return true;
}

/* Finds a process of which no message came: it began before the connector was opened, or
 * messages were lost. */
static struct shfs_life *find_in_proc(struct shfs_connector *c, uint32_t pid)
{
	_cleanup_close_ int procfd = shfs_proc_open(pid);
	struct shfs_life *life;
	struct shfs_proc_stat stat;

	if (procfd < 0 || shfs_proc_read_stat(procfd, &stat) < 0)
		return NULL;
	life = life_begins(c, pid, stat.start_ticks * NS_PER_TICK);
	if (!life)
		return NULL;
	read_life(procfd, life);
	users_of(procfd, life);
	life->threads = MAX(stat.n_threads, 1u);
	life->process.uid = life->effective;
	return life;
}

static int scan_proc(struct shfs_connector *c)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;

	if (!proc)
		return -errno;
	while ((entry = readdir(proc))) {
		uint32_t pid = (uint32_t)strtoul(entry->d_name, NULL, 10);

		if (pid && !life_of(c, pid))
			find_in_proc(c, pid);
	}
	closedir(proc);
	return 0;
}

/* --- events --- */

static struct shfs_event *begin_life_event(struct shfs_connector *c, unsigned type,
                                           const struct shfs_life *life, uint64_t time_ns)
{
	struct shfs_event *e = &c->room.event;

	memset(e, 0, sizeof(*e));
	e->type = (uint16_t)type;
	e->size = sizeof(*e);
	e->sequence = c->sequence++;
	e->time_ns = time_ns;
	if (life)
		e->process = life->process;
	return e;
}

static void report_room_event(struct shfs_connector *c)
{
	if (c->sink)
		c->sink(c->arg, &c->room.event, -1);
}

static void set_program_file(struct shfs_event_file *file, const struct statx *st)
{
	*file = (struct shfs_event_file){
		.dev = makedev(st->stx_dev_major, st->stx_dev_minor),
		.ino = st->stx_ino,
		.bytes = st->stx_size,
		.mtime_ns = shfs_time_ns(st->stx_mtime.tv_sec, st->stx_mtime.tv_nsec),
		.ctime_ns = shfs_time_ns(st->stx_ctime.tv_sec, st->stx_ctime.tv_nsec),
		.mode = st->stx_mode,
		.nlink = st->stx_nlink,
		.uid = st->stx_uid,
	};
}

/* Appends the arguments, unless the marker that says whether they are hidden is gone.
 * Returns SHFS_EVENT_HIDDEN, SHFS_EVENT_SHOWN or 0. */
static uint32_t read_arguments(int procfd, struct shfs_buf *out)
{
	_cleanup_buf_ struct shfs_buf marker = { 0 };
	int hidden = SHFS_HIDDEN_UNSAID;

	if (shfs_proc_cmdline(procfd, SHFS_EVENT_ARGV_MAX, out) < 0 ||
	    shfs_proc_marker(procfd, &marker, &hidden) < 0)
		out->len = 0;
	if (hidden == SHFS_HIDDEN_UNSAID)
		return 0;
	return hidden ? SHFS_EVENT_HIDDEN : SHFS_EVENT_SHOWN;
}

static void report_exec_of_life(struct shfs_connector *c, struct shfs_life *life,
                                uint64_t when_ns)
{
	static const char deleted[] = " (deleted)";
	_cleanup_close_ int procfd = shfs_proc_open(life->process.pid);
	_cleanup_buf_ struct shfs_buf exe = { 0 }, arguments = { 0 };
	bool there = procfd >= 0 && read_life(procfd, life);
	const char *program = NULL;
	struct shfs_event *e;
	struct statx st;

	e = begin_life_event(c, SHFS_EVENT_EXEC, life, when_ns);
	/* it may end between any two of these */
	there = there && !statx(procfd, "exe", 0, STATX_BASIC_STATS, &st) &&
	        !shfs_proc_link(procfd, "exe", &exe);
	if (there) {
		set_program_file(&e->file, &st);
		if (!st.stx_nlink && exe.len > strlen(deleted))
			exe.len -= strlen(deleted);
		e->flags |= read_arguments(procfd, &arguments);
	} else {
		e->flags |= SHFS_EVENT_INEXACT;
		if (c->program_of)
			program = c->program_of(c->program_arg, &life->process);
		shfs_buf_str(&exe, program ? program : "");
	}
	shfs_event_set_text(&c->room, (struct shfs_bytes){ exe.data, exe.len },
	                    (struct shfs_bytes){ arguments.data, arguments.len });
	report_room_event(c);
}

/* --- messages --- */

static void inherit_life(struct shfs_life *child, const struct shfs_life *parent)
{
	child->real = parent->real;
	child->effective = parent->effective;
	child->known = parent->known && !parent->mixed;
	child->process.ppid = parent->process.pid;
	child->process.pgid = parent->process.pgid;
	child->process.sid = parent->process.sid;
	child->process.tty = parent->process.tty;
	child->process.uid = parent->effective;
}

/*
 * Reads the group and session of a parent again, if its child is in another group or is
 * gone: shells put the processes of a job into a group of their own just after the fork,
 * and no message tells that. A process may have been read before.
 */
static void update_parent(struct shfs_life *parent, const struct shfs_life *child,
                          bool child_was_read)
{
	_cleanup_close_ int procfd = -1;

	if (parent->exit_ns ||
	    (child_was_read && child->process.pgid == parent->process.pgid))
		return;
	procfd = shfs_proc_open(parent->process.pid);
	if (procfd >= 0)
		read_life(procfd, parent);
}

static void note_fork_message(struct shfs_connector *c, uint32_t parent_pid,
                              uint32_t child_pid, uint64_t when_ns)
{
	struct shfs_life *parent = life_of(c, parent_pid), *child;
	_cleanup_close_ int procfd = -1;
	bool was_read = false;
	struct shfs_event *e;

	child = life_of(c, child_pid);
	if (!child || child->exit_ns ||
	    child->process.start_ns + 2 * NS_PER_TICK < when_ns)
		child = life_begins(c, child_pid, when_ns);
	if (!child)
		return;
	if (parent)
		inherit_life(child, parent);
	if (!child->known || is_life_watched(c, child))
		procfd = shfs_proc_open(child_pid);
	if (!child->known && procfd >= 0) {
		users_of(procfd, child);
		child->process.uid = child->effective;
	}
	if (!is_life_watched(c, child))
		return;
	if (procfd >= 0)
		was_read = read_life(procfd, child);
	if (!parent || !is_life_watched(c, parent))
		return;
	update_parent(parent, child, was_read);
	child->told = true;
	e = begin_life_event(c, SHFS_EVENT_FORK, parent, when_ns);
	e->child.pid = child_pid;
	e->child.start_ns = child->process.start_ns;
	report_room_event(c);
}

static void note_exec_message(struct shfs_connector *c, uint32_t pid, uint64_t when_ns)
{
	struct shfs_life *life = life_of(c, pid);

	if (!life)
		life = find_in_proc(c, pid);
	if (!life)
		return;
	life->threads = 1;
	life->mixed = false;
	if (!is_life_watched(c, life))
		return;
	life->told = true;
	report_exec_of_life(c, life, when_ns);
}

static void user_set(struct shfs_connector *c, uint32_t pid, uint32_t tid, uid_t real,
                     uid_t effective)
{
	struct shfs_life *life = life_of(c, pid);
	bool was_watched;

	if (!life)
		return;
	was_watched = is_life_watched(c, life);
	note_other(c, life, false);
	if (tid != pid) {
		life->mixed |= real != life->real || effective != life->effective;
	} else {
		life->real = real;
		life->effective = effective;
		life->known = true;
		life->process.uid = effective;
	}
	note_other(c, life, was_watched);
}

static void thread_ended(struct shfs_connector *c, uint32_t pid, uint64_t when_ns)
{
	struct shfs_life *life = life_of(c, pid);

	if (life && !life->exit_ns && --life->threads == 0)
		life_ends(c, life, when_ns);
}

static void take_message(struct shfs_connector *c, const struct proc_event *e)
{
	uint64_t when_ns = e->timestamp_ns + (uint64_t)c->boot_offset_ns;

	switch ((int)e->what) {
	case WHAT_FORK:
		if (e->event_data.fork.child_pid != e->event_data.fork.child_tgid) {
			struct shfs_life *life =
				life_of(c, (uint32_t)e->event_data.fork.child_tgid);

			if (life)
				life->threads++;
			break;
		}
		note_fork_message(c, (uint32_t)e->event_data.fork.parent_tgid,
		                  (uint32_t)e->event_data.fork.child_tgid, when_ns);
		break;
	case WHAT_EXEC:
		note_exec_message(c, (uint32_t)e->event_data.exec.process_tgid, when_ns);
		break;
	case WHAT_UID:
		user_set(c, (uint32_t)e->event_data.id.process_tgid,
		         (uint32_t)e->event_data.id.process_pid, e->event_data.id.r.ruid,
		         e->event_data.id.e.euid);
		break;
	case WHAT_EXIT:
		thread_ended(c, (uint32_t)e->event_data.exit.process_tgid, when_ns);
		break;
	}
}

/* Messages were lost: a process that is not in /proc has ended, the others are read
 * anew. */
static int start_afresh(struct shfs_connector *c)
{
	uint64_t now_ns = (uint64_t)shfs_clock_ns(CLOCK_BOOTTIME);
	struct shfs_life *life, *next;

	HASH_ITER (hh, c->lives, life, next) {
		_cleanup_close_ int procfd = shfs_proc_open(life->process.pid);
		struct shfs_proc_stat stat;
		bool was_watched;

		if (life->exit_ns)
			continue;
		if (procfd < 0 || !read_life(procfd, life) ||
		    shfs_proc_read_stat(procfd, &stat) < 0) {
			life_ends(c, life, now_ns);
			continue;
		}
		was_watched = is_life_watched(c, life);
		note_other(c, life, false);
		users_of(procfd, life);
		note_other(c, life, was_watched);
		life->threads = MAX(stat.n_threads, 1u);
	}
	return scan_proc(c);
}

/* Reads one batch of messages; 0: no more, -ENOBUFS: some were lost. */
static int read_messages_batch(struct shfs_connector *c)
{
	static _Thread_local struct {
		_Alignas(8) char data[MESSAGE_MAX];
	} data[MESSAGES_AT_ONCE];
	struct mmsghdr messages[MESSAGES_AT_ONCE] = { 0 };
	struct sockaddr_nl from[MESSAGES_AT_ONCE];
	struct iovec parts[MESSAGES_AT_ONCE];
	int n;

	for (size_t i = 0; i < MESSAGES_AT_ONCE; i++) {
		parts[i] = (struct iovec){ data[i].data, MESSAGE_MAX };
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = &parts[i],
			                               .msg_iovlen = 1,
			                               .msg_name = &from[i],
			                               .msg_namelen = sizeof(*from) };
	}
	n = recvmmsg(c->fd, messages, MESSAGES_AT_ONCE, MSG_DONTWAIT, NULL);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	for (int i = 0; i < n; i++) {
		const struct message *m = (const void *)data[i].data;
		struct proc_event e = { 0 };

		if (messages[i].msg_len < sizeof(*m) || from[i].nl_pid)
			continue;
		memcpy(&e, m->event, MIN(sizeof(e), messages[i].msg_len - sizeof(*m)));
		take_message(c, &e);
	}
	return n;
}

int shfs_connector_read(struct shfs_connector *c, shfs_event_sink sink, void *arg)
{
	int r;

	c->sink = sink;
	c->arg = arg;
	c->boot_offset_ns = shfs_clock_distance_ns(CLOCK_BOOTTIME, CLOCK_MONOTONIC);
	for (;;) {
		r = read_messages_batch(c);
		if (!r)
			return 0;
		if (r > 0)
			continue;
		if (r != -ENOBUFS)
			return r;
		begin_life_event(c, SHFS_EVENT_LOST, NULL,
		                 (uint64_t)shfs_clock_ns(CLOCK_BOOTTIME))
			->lost.count = 1;
		report_room_event(c);
		r = start_afresh(c);
		if (r < 0)
			return r;
	}
}

void shfs_connector_mark(struct shfs_connector *c)
{
	c->mark = c->ended_end;
}

void shfs_connector_turn(struct shfs_connector *c, shfs_event_sink sink, void *arg)
{
	struct shfs_life *life;

	c->sink = sink;
	c->arg = arg;
	c->turn++;
	while ((life = c->gone) && life->turns++) {
		c->gone = life->next_end;
		if (!c->gone)
			c->gone_end = &c->gone;
		forget_life(c, life);
	}
	for (life = c->gone; life; life = life->next_end)
		life->turns = 1;
	while (c->mark && c->mark != &c->ended) {
		life = c->ended;
		c->ended = life->next_end;
		if (c->mark == &life->next_end)
			c->mark = NULL;
		if (!c->ended)
			c->ended_end = &c->ended;
		if (life->told) {
			begin_life_event(c, SHFS_EVENT_EXIT, life, life->exit_ns);
			report_room_event(c);
		}
		life->next_end = NULL;
		*c->gone_end = life;
		c->gone_end = &life->next_end;
	}
	c->mark = NULL;
}

uint64_t shfs_connector_sequence(struct shfs_connector *c)
{
	return c->sequence++;
}

const struct shfs_life *shfs_connector_find(const struct shfs_connector *c, uint32_t pid,
                                            bool *sure)
{
	const struct shfs_life *life = life_of(c, pid), *older;

	*sure = life && !life->older;
	if (!life)
		return NULL;
	for (older = life; older; older = older->older)
		if (older->other_until > c->turn || !is_life_watched(c, older))
			return NULL;
	return life;
}

void shfs_connector_ask(struct shfs_connector *c, shfs_connector_program *program_of,
                        void *arg)
{
	c->program_of = program_of;
	c->program_arg = arg;
}

bool shfs_connector_is_kernel(const struct shfs_connector *c, uint32_t pid)
{
	const struct shfs_life *life = life_of(c, pid);

	return pid == KTHREADD || (life && life->process.ppid == KTHREADD);
}

/* --- open and close --- */

/* The kernel sends every message to all listeners; the filter keeps other kinds out of
 * the queue. */
static int filter_messages(int fd)
{
	const unsigned what = offsetof(struct message, event);
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, what),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(WHAT_NONE), 5, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(WHAT_FORK), 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(WHAT_EXEC), 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(WHAT_UID), 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl((uint32_t)WHAT_EXIT), 1, 0),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
	};
	struct sock_fprog program = { ARRAY_SIZE(code), code };

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program))
	               ? -errno
	               : 0;
}

static int listen_to(int fd, enum proc_cn_mcast_op op)
{
	struct {
		struct nlmsghdr header;
		struct cn_msg cn;
		uint32_t op;
	} m = {
		.header = { .nlmsg_len = offsetof(typeof(m), op) + sizeof(m.op),
		            .nlmsg_type = NLMSG_DONE },
		.cn = { .id = { CN_IDX_PROC, CN_VAL_PROC }, .len = sizeof(m.op) },
		.op = op,
	};

	return send(fd, &m, m.header.nlmsg_len, 0) < 0 ? -errno : 0;
}

static int open_connector_socket(void)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK,
		                       .nl_groups = CN_IDX_PROC };
	_cleanup_close_ int fd =
		socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_CONNECTOR);
	int room = ROOM_BYTES, r;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) &&
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)))
		return -errno;
	r = filter_messages(fd);
	if (r < 0)
		return r;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)))
		return -errno;
	r = listen_to(fd, PROC_CN_MCAST_LISTEN);
	return r < 0 ? r : TAKE_FD(fd);
}

/* Does the kernel report a child of this process? It sends nothing to other pid
 * namespaces than the first. */
static bool are_processes_reported(int fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	int64_t end = shfs_clock_ns(CLOCK_MONOTONIC) + PROBE_MS * 1000000LL;
	char data[MESSAGE_MAX];
	bool told = false;
	pid_t child = fork();

	if (!child)
		_exit(0);
	while (child > 0 && !told && shfs_clock_ns(CLOCK_MONOTONIC) < end) {
		const struct message *m = (const void *)data;
		struct proc_event e = { 0 };
		ssize_t n;

		if (poll(&poll_fd, 1, 10) <= 0)
			continue;
		n = recv(fd, data, sizeof(data), MSG_DONTWAIT);
		if (n < (ssize_t)sizeof(*m))
			continue;
		memcpy(&e, m->event, MIN(sizeof(e), (size_t)n - sizeof(*m)));
		told = (int)e.what == WHAT_FORK && e.event_data.fork.child_tgid == child;
	}
	if (child > 0)
		waitpid(child, NULL, 0);
	return told;
}

void shfs_connector_close(struct shfs_connector *c)
{
	struct shfs_life *life, *next;

	if (!c)
		return;
	HASH_ITER (hh, c->lives, life, next) {
		HASH_DEL(c->lives, life);
		while (life) {
			struct shfs_life *older = life->older;

			free(life);
			life = older;
		}
	}
	if (c->fd >= 0 && listen_to(c->fd, PROC_CN_MCAST_IGNORE) < 0) {
		/* closing the socket does the same */
	}
	shfs_closep(&c->fd);
	free(c);
}

int shfs_connector_open(uid_t uid, struct shfs_connector **out, struct shfs_buf *why)
{
	struct shfs_connector *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->uid = uid;
	c->ended_end = &c->ended;
	c->gone_end = &c->gone;
	c->fd = open_connector_socket();
	r = c->fd;
	if (r < 0)
		shfs_buf_printf(why, "the kernel does not report processes: %s",
		                strerror(-r));
	if (r >= 0 && !are_processes_reported(c->fd)) {
		shfs_buf_str(why, "the kernel does not report processes "
		                  "(CONFIG_PROC_EVENTS, or inside a container)");
		r = -EOPNOTSUPP;
	}
	if (r >= 0) {
		r = scan_proc(c);
		if (r >= 0)
			r = shfs_connector_read(c, NULL, NULL);
		if (r < 0)
			shfs_buf_printf(why, "/proc cannot be read: %s", strerror(-r));
	}
	if (r < 0) {
		shfs_connector_close(c);
		return r;
	}
	*out = c;
	return 0;
}

int shfs_connector_fd(const struct shfs_connector *c)
{
	return c->fd;
}
