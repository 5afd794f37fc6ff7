/* SPDX-License-Identifier: MIT */
/* helper-queue.c, and what helper-privilege.c leaves a process; cases/test_helper.py has
 * the rest. */
#include "tests/unit/unit.h"

#include "common/io.h"
#include "kmod-fast-path/helper/privilege.h"
#include "kmod-fast-path/helper/queue.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define N_FILL (SHFS_HELPER_QUEUE_MAX / sizeof(struct shfs_event) + 1000)

struct fixture {
	struct shfs_queue q;
	int ours, theirs;
	int first_fd;
	struct shfs_packet_in in;
	uint64_t sequence; /* the next that is told */
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int pair[2];

	f->first_fd = shfs_unit_free_fd();
	shfs_unit_socketpair(pair);
	f->ours = pair[0];
	f->theirs = pair[1];
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	shfs_queue_free(&f->q);
	close(f->ours);
	close(f->theirs);
	assert_int_equal(shfs_unit_free_fd(), f->first_fd);
	free(f);
	return 0;
}

static void put(struct fixture *f, size_t n, int fd)
{
	for (size_t i = 0; i < n; i++) {
		struct shfs_event e = {
			.size = sizeof(e),
			.type = SHFS_EVENT_CLOSE,
			.flags = fd >= 0 ? SHFS_EVENT_PINNED : 0,
			.sequence = f->sequence++,
		};

		shfs_queue_event(&f->q, &e, fd);
	}
}

struct got {
	size_t events, pinned, fds, controls;
	uint64_t lost, next; /* the next sequence number, losses counted */
};

/* Sends and takes until nothing is left, and checks that nothing is missed unsaid. */
static void take_all(struct fixture *f, struct got *got)
{
	const struct shfs_event *e;
	int r, sent;

	do {
		sent = shfs_queue_send(&f->q, f->ours);
		assert_true(!sent || sent == -EAGAIN || sent == -EBUSY);
		while ((r = shfs_packet_receive(f->theirs, &f->in)) > 0) {
			size_t at = 0;

			assert_int_equal(shfs_packet_check(f->in.data, f->in.len), 0);
			got->controls += f->in.packet.type != SHFS_PACKET_EVENTS;
			got->fds += f->in.n_fds;
			shfs_packet_close_fds(&f->in, 0);
			if (f->in.packet.type != SHFS_PACKET_EVENTS)
				continue;
			while ((e = shfs_packet_next_event(f->in.data, f->in.len, &at))) {
				if (e->type == SHFS_EVENT_LOST) {
					got->lost += e->lost.count;
					got->next += e->lost.count;
					continue;
				}
				assert_int_equal(e->sequence, got->next++);
				got->events++;
				got->pinned += (e->flags & SHFS_EVENT_PINNED) != 0;
			}
		}
		assert_int_equal(r, 0);
	} while (sent);
}

static void losses_are_told_in_their_place(void **state)
{
	struct fixture *f = *state;
	struct shfs_packet p;
	struct got got = { 0 };

	put(f, N_FILL, -1);
	assert_true(f->q.bytes <= SHFS_HELPER_QUEUE_MAX);
	assert_true(f->q.lost > 0);
	take_all(f, &got);
	put(f, 10, -1); /* there is room again: the loss comes first */
	take_all(f, &got);
	put(f, N_FILL, -1);
	shfs_packet_fill(&p, SHFS_PACKET_SYNCED, 0, NULL, NULL);
	/* an answer finds room, and what was lost before it is told before it */
	assert_int_equal(shfs_queue_control(&f->q, &p), 0);
	assert_int_equal(f->q.lost, 0);
	take_all(f, &got);
	assert_int_equal(got.events + got.lost, f->sequence);
	assert_int_equal(got.next, f->sequence);
	assert_int_equal(got.controls, 1);
	assert_int_equal(f->q.bytes, 0);
	assert_int_equal(f->q.n_lost, got.lost);
}

static void contents_are_bounded(void **state)
{
	struct fixture *f = *state;
	struct got got = { 0 };

	put(f, SHFS_QUEUE_FDS_MAX + 100, 0);
	put(f, 100, -1);
	assert_true(f->q.n_fds <= SHFS_QUEUE_FDS_MAX);
	take_all(f, &got);
	assert_int_equal(got.events, SHFS_QUEUE_FDS_MAX + 200);
	assert_int_equal(got.fds, got.pinned);
	assert_int_equal(got.pinned + f->q.n_unpinned, SHFS_QUEUE_FDS_MAX + 100);
	assert_int_equal(f->q.n_fds, 0);
}

static void fds_that_nobody_receives_are_few(void **state)
{
	struct fixture *f = *state;
	struct got got = { 0 };

	put(f, 3000, 0);
	assert_int_equal(shfs_queue_send(&f->q, f->ours), -EBUSY);
	assert_int_equal(f->q.in_flight, SHFS_QUEUE_FLIGHT_MAX);
	assert_int_equal(shfs_queue_send(&f->q, f->ours), -EBUSY);
	take_all(f, &got);
	assert_int_equal(got.fds + f->q.n_unpinned, 3000);
}

static void an_end_that_is_gone(void **state)
{
	struct fixture *f = *state;

	put(f, 10, 0);
	close(f->theirs);
	assert_int_equal(shfs_queue_send(&f->q, f->ours), -EPIPE);
	f->theirs = dup(0);
}

static void an_fd_without_its_flag_is_not_sent(void **state)
{
	struct fixture *f = *state;
	struct shfs_event e = { .size = sizeof(e), .type = SHFS_EVENT_CLOSE };
	struct got got = { 0 };

	shfs_queue_event(&f->q, &e, 0);
	take_all(f, &got);
	assert_int_equal(got.events, 1);
	assert_int_equal(got.fds, 0);
}

/* --- what a process that serves may not do --- */

static void *nothing(void *arg)
{
	return arg;
}

/* Returns the line of what is not as it should be. */
static int try_all(const char *dir)
{
	struct shfs_peer peer = { .uid = geteuid(), .gid = getegid() };
	char *const argv[] = { (char *)"true", NULL };
	pthread_t thread;
	int fd = open(dir, O_RDONLY);

	if (shfs_privilege_begin())
		return __LINE__;
	if (execv("/bin/true", argv) != -1 || errno != EPERM)
		return __LINE__;
	if (socket(AF_UNIX, SOCK_STREAM, 0) < 0) /* a driver may, to open */
		return __LINE__;
	if (shfs_privilege_serve("module", &peer))
		return __LINE__;
	if (socket(AF_UNIX, SOCK_STREAM, 0) != -1 || errno != EPERM)
		return __LINE__;
	if (connect(-1, NULL, 0) != -1 || errno != EPERM)
		return __LINE__;
	if (mount("", "", "", 0, NULL) != -1 || errno != EPERM)
		return __LINE__;
	if (execv("/bin/true", argv) != -1 || errno != EPERM)
		return __LINE__;
	if (setuid(geteuid()) != -1 || errno != EPERM)
		return __LINE__;
	if (unlinkat(fd, "file", 0) != -1 || errno != EPERM)
		return __LINE__;
	if (mkdirat(fd, "new", 0700) != -1 || errno != EPERM)
		return __LINE__;
	if (openat(fd, "file", O_RDONLY) < 0)
		return __LINE__;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	if (openat(fd, "file", O_WRONLY) != -1 || errno != EPERM)
		return __LINE__;
	if (openat(fd, "file", O_RDWR) != -1 || errno != EPERM)
		return __LINE__;
	if (openat(fd, "new", O_RDONLY | O_CREAT, 0600) != -1 || errno != EPERM)
		return __LINE__;
	if (fork() != -1 || errno != EPERM)
		return __LINE__;
	if (kill(getpid(), 0) != -1 || errno != EPERM)
		return __LINE__;
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != -1 || errno != EPERM)
		return __LINE__;
#endif
	if (pthread_create(&thread, NULL, nothing, NULL))
		return __LINE__;
	return pthread_join(thread, NULL) ? __LINE__ : 0;
}

static void rights_are_given_up(void **state)
{
	const char *dir = shfs_unit_tmpdir();
	_cleanup_close_ int fd = open(dir, O_RDONLY);
	int status, report[2], line = -1;
	pid_t pid;

	assert_int_equal(shfs_write_file_at(fd, "file", 0600, "x", 1), 0);
	assert_int_equal(pipe(report), 0);
	pid = fork();
	if (!pid) {
		line = try_all(dir);
		(void)!write(report[1], &line, sizeof(line));
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(read(report[0], &line, sizeof(line)), sizeof(line));
	close(report[0]);
	close(report[1]);
	if (line)
		fail_msg("line %d", line);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		TEST(losses_are_told_in_their_place),
		TEST(contents_are_bounded),
		TEST(fds_that_nobody_receives_are_few),
		TEST(an_end_that_is_gone),
		TEST(an_fd_without_its_flag_is_not_sent),
		cmocka_unit_test(rights_are_given_up),
	};

	return shfs_unit_main(tests, argc, argv);
}
