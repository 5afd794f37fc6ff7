/* SPDX-License-Identifier: MIT */
/* Tests of fusefs/watch/caller.c and recording/argv.c. */
#include "tests/unit/unit.h"

#include "tests/unit/capturekit.h"

#include "common/event.h"
#include "common/proc.h"
#include "fusefs/watch/caller.h"
#include "recording/argv.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

/* A process that waits for input between the programs that it executes. */
struct child {
	pid_t pid;
	int input;
};

static struct child start(const char *script)
{
	struct child child;
	int fds[2];

	assert_ok(pipe2(fds, O_CLOEXEC));
	child.pid = fork();
	if (!child.pid) {
		dup2(fds[0], STDIN_FILENO);
		execl("/bin/sh", "sh", "-c", script, (char *)NULL);
		_exit(127);
	}
	assert_true(child.pid > 0);
	close(fds[0]);
	child.input = fds[1];
	return child;
}

static void go_on(const struct child *child)
{
	assert_int_equal(write(child->input, "\n", 1), 1);
}

static void end(struct child *child)
{
	kill(child->pid, SIGKILL);
	assert_int_equal(waitpid(child->pid, NULL, 0), child->pid);
	close(child->input);
}

static bool runs(const struct child *child, const char *script)
{
	_cleanup_close_ int fd = shfs_proc_open((uint32_t)child->pid);
	_cleanup_buf_ struct shfs_buf argv = { 0 };

	assert_true(fd >= 0);
	assert_ok(shfs_proc_cmdline(fd, 4096, &argv));
	return argv.len == strlen("sh -c ") + strlen(script) &&
	       !memcmp(argv.data + strlen("sh -c "), script, strlen(script));
}

/* --- arguments --- */

static int64_t in_ms(int ms)
{
	return shfs_clock_ns(CLOCK_MONOTONIC) + ms * INT64_C(1000000);
}

static const struct shfs_proc_stat none_known;

static void arguments(void **state)
{
	_cleanup_(shfs_argv_text_free) struct shfs_argv_text text = { 0 }, none = { 0 };
	struct child child = start("read a; exit");
	_cleanup_close_ int fd = shfs_proc_open((uint32_t)child.pid);
	struct shfs_argv_readers *readers;

	kit_until(runs(&child, "read a; exit"));
	assert_ok(shfs_argv_readers_new(NULL, "", &readers));
	shfs_argv_take(readers, shfs_argv_ask(readers, fd, &none_known), in_ms(10000),
	               &text);
	assert_int_equal(text.argv.len, sizeof("sh\0-c\0read a; exit") - 1);
	assert_memory_equal(text.argv.data, "sh\0-c\0read a; exit", text.argv.len);
	end(&child);
	shfs_argv_take(readers, shfs_argv_ask(readers, fd, &none_known), in_ms(10000),
	               &none);
	assert_int_equal(none.argv.len, 0);
	shfs_argv_readers_free(readers);
}

/* Nobody waits: whatever state the readers are in then. */
static void arguments_given_up(void **state)
{
	_cleanup_close_ int fd = shfs_proc_open((uint32_t)getpid());
	struct shfs_argv_readers *readers;

	assert_ok(shfs_argv_readers_new(NULL, "", &readers));
	for (int i = 0; i < 2000; i++) {
		_cleanup_(shfs_argv_text_free) struct shfs_argv_text text = { 0 };

		shfs_argv_take(readers, shfs_argv_ask(readers, fd, &none_known), 0,
		               &text);
		if (i % 3 == 0)
			usleep(50);
	}
	shfs_argv_readers_free(readers);
}

/* The gate holds the read of its cmdline, as its memory map would. */
static void stuck_process(void **state)
{
	struct child stuck = start("read a; exit"), other = start("read a; exit");
	_cleanup_close_ int fd = shfs_proc_open((uint32_t)stuck.pid);
	_cleanup_close_ int other_fd = shfs_proc_open((uint32_t)other.pid);
	_cleanup_close_ int cmdline = openat(fd, "cmdline", O_RDONLY | O_CLOEXEC);
	_cleanup_(shfs_argv_text_free) struct shfs_argv_text none = { 0 };
	_cleanup_(shfs_argv_text_free) struct shfs_argv_text text = { 0 }, again = { 0 };
	struct shfs_argv_readers *readers;
	struct shfs_argv *asked;
	int n = 0;

	kit_until(runs(&stuck, "read a; exit") && runs(&other, "read a; exit"));
	assert_ok(shfs_argv_readers_new(NULL, "", &readers));
	kit_gate = kit_inode(cmdline);
	asked = shfs_argv_ask(readers, fd, &none_known);
	kit_until(kit_waiting == 1);
	shfs_argv_take(readers, asked, in_ms(20), &none);
	assert_int_equal(none.argv.len, 0);
	/* others are read meanwhile */
	shfs_argv_take(readers, shfs_argv_ask(readers, other_fd, &none_known),
	               in_ms(10000), &text);
	assert_true(text.argv.len > 0);
	/* until all readers are stuck */
	while ((asked = shfs_argv_ask(readers, fd, &none_known))) {
		n++;
		kit_until(kit_waiting == n + 1);
		shfs_argv_take(readers, asked, 0, &none);
		assert_true(n < 100);
	}
	assert_null(shfs_argv_ask(readers, other_fd, &none_known));
	kit_gate = 0;
	kit_until(kit_waiting == 0);
	while (!(asked = shfs_argv_ask(readers, other_fd, &none_known)))
		usleep(1000);
	shfs_argv_take(readers, asked, in_ms(10000), &again);
	assert_int_equal(again.argv.len, text.argv.len);
	shfs_argv_readers_free(readers);
	end(&stuck);
	end(&other);
}

/* --- the marker --- */

static void markers(void **state)
{
#define SESSION "SHFS_SESSION=01abcdef-12-345"
	static const struct {
		const char *marker, *env;
		size_t len;
	} cases[] = {
#define CASE(marker, env) { marker, env, sizeof(env) - 1 }
		CASE("01abcdef-12-345-6", "A=b\0" SESSION "\0SHFS_COMMAND=6\0"),
		CASE("01abcdef-12-345-6", "SHFS_COMMAND=6\0" SESSION),
		CASE("01abcdef-12-345-0", SESSION "\0SHFS_COMMAND=0\0"),
		CASE("01abcdef-12-345-6",
		     SESSION "-u1\0SHFS_COMMAND=6\0INVOCATION_ID=u1"),
		CASE("01abcdef-12-345-6", SESSION "\0SHFS_COMMAND=6\0INVOCATION_ID="),
		CASE("", SESSION "-u1\0SHFS_COMMAND=6\0INVOCATION_ID=u2"),
		CASE("", SESSION "-u1\0SHFS_COMMAND=6\0INVOCATION_ID=u"),
		CASE("", SESSION "-u1\0SHFS_COMMAND=6\0"),
		CASE("", SESSION "\0SHFS_COMMAND=6\0INVOCATION_ID=u1"),
		CASE("", SESSION "-\0SHFS_COMMAND=6\0"),
		CASE("", SESSION "\0"),
		CASE("", SESSION "\0SHFS_COMMAND="),
		CASE("", SESSION "\0SHFS_COMMAND=6x"),
		CASE("", SESSION "x\0SHFS_COMMAND=6"),
		CASE("", "SHFS_SESSION=01abcdef-12\0SHFS_COMMAND=6"),
		CASE("", "SHFS_SESSION=01abcdef-12-\0SHFS_COMMAND=6"),
		CASE("", "SHFS_SESSION=\0SHFS_COMMAND=6"),
		CASE("", "SHFS_SESSION"),
		CASE("", "\0\0\0"),
		CASE("", ""),
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct shfs_buf out = { 0 };
		char *env = malloc(
			MAX(cases[i].len, (size_t)1)); /* exactly, for a sanitizer */

		memcpy(env, cases[i].env, cases[i].len);
		shfs_environ_marker((struct shfs_bytes){ env, cases[i].len }, &out);
		assert_string_equal(out.len ? out.data : "", cases[i].marker);
		free(env);
	}
}

static void hidden_is_seen_byte_by_byte(void **state)
{
	static const struct {
		uint32_t said;
		struct shfs_bytes env;
	} cases[] = {
#define ENV(said, text)                                                                  \
	{                                                                                \
		said,                                                                    \
		{                                                                        \
			text, sizeof(text) - 1                                           \
		}                                                                        \
	}
		ENV(SHFS_EVENT_HIDDEN, "SHFS_HIDDEN=1\0"),
		ENV(SHFS_EVENT_HIDDEN, "A=1\0SHFS_HIDDEN=1\0SHFS_HIDDEN=0\0"),
		ENV(SHFS_EVENT_SHOWN, "A=SHFS_HIDDEN=1\0SHFS_HIDDEN=0\0"),
		ENV(0, "SHFS_HIDDEN=1"),
		ENV(0, "XSHFS_HIDDEN=1\0"),
		ENV(0, "SHFS_HIDDEN=10\0SHFS_HIDDEN=\0"),
		ENV(0, "SHFS_HIDDEN=2\0\0\0"),
		ENV(0, ""),
#undef ENV
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct shfs_event_window window = { 0 };
		uint32_t said = 0;

		for (size_t n = 0; n < cases[i].env.len && !said; n++)
			said = shfs_event_window_add(&window,
			                             (uint8_t)cases[i].env.data[n]);
		assert_int_equal(said, cases[i].said);
	}
}

/* --- processes --- */

static void begin(struct kit *k, struct shfs_callers **callers)
{
	const struct shfs_reach reach = { .root = "/nowhere", .root_fd = -1 };

	kit_begin(k, kit_store(), 0, 1);
	assert_ok(shfs_callers_new(k->capture, &k->config, &reach, callers));
}

static void same_program_executed_again(void **state)
{
	struct child child = start("read a; exec sh -c 'read a; exit'");
	struct shfs_callers *callers;
	struct kit k = { 0 };
	uint64_t before, after;

	begin(&k, &callers);
	kit_until(runs(&child, "read a; exec sh -c 'read a; exit'"));
	before = shfs_caller_process(callers, (uint32_t)child.pid);
	assert_true(before > 0);
	assert_int_equal(shfs_caller_process(callers, (uint32_t)child.pid), before);
	go_on(&child);
	kit_until(runs(&child, "read a; exit")); /* in between it has no arguments */
	after = shfs_caller_process(callers, (uint32_t)child.pid);
	assert_true(after > before);
	assert_int_equal(shfs_caller_process(callers, (uint32_t)child.pid), after);
	end(&child);
	assert_int_equal(shfs_caller_process(callers, (uint32_t)child.pid), 0);
	shfs_callers_free(callers);
	kit_end(&k);
}

struct asking {
	struct shfs_callers *callers;
	pthread_barrier_t barrier;
	atomic_int n_asked;
};

static void *ask_as_thread(void *arg)
{
	struct asking *a = arg;
	uint64_t seq;

	pthread_barrier_wait(&a->barrier);
	seq = shfs_caller_process(a->callers, (uint32_t)gettid());
	atomic_fetch_add(&a->n_asked, 1);
	return (void *)(uintptr_t)seq;
}

/* Those that are seen first at the same time, too; and the parent of all is in front. */
static void threads_of_one_process(void **state)
{
	struct kit_journal *journal;
	pthread_t threads[8];
	struct asking a = { 0 };
	struct kit k = { 0 };
	unsigned n_self = 0, n_parent = 0;
	uint64_t self;

	begin(&k, &a.callers);
	pthread_barrier_init(&a.barrier, NULL, ARRAY_SIZE(threads));
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		assert_ok(pthread_create(&threads[i], NULL, ask_as_thread, &a));
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
		void *seq;

		pthread_join(threads[i], &seq);
		self = i ? self : (uint64_t)(uintptr_t)seq;
		assert_int_equal((uint64_t)(uintptr_t)seq, self);
	}
	assert_int_equal(shfs_caller_process(a.callers, (uint32_t)getpid()), self);
	pthread_barrier_destroy(&a.barrier);
	shfs_callers_free(a.callers);
	kit_close(&k);
	journal = kit_read_journal(&k);
	for (unsigned i = 0; i < journal->n; i++) {
		const struct shfs_record *rec = &journal->recs[i];

		n_parent += rec->process.pid == (uint32_t)getppid() && !n_self;
		n_self += rec->process.pid == (uint32_t)getpid();
		if (rec->process.pid == (uint32_t)getpid()) {
			assert_int_equal(rec->seq, self);
			assert_true(rec->process.argv.len > 0);
			assert_int_equal(rec->process.ppid, getppid());
		}
	}
	assert_int_equal(n_self, 1);
	assert_int_equal(n_parent, 1);
	free(journal);
	kit_end(&k);
}

/* More than are kept in mind at once. */
static void many_threads(void **state)
{
	struct asking a = { 0 };
	struct kit k = { 0 };
	uint64_t self;

	begin(&k, &a.callers);
	self = shfs_caller_process(a.callers, (uint32_t)getpid());
	assert_true(self > 0);
	pthread_barrier_init(&a.barrier, NULL, 1);
	for (int i = 0; i < 600; i++) {
		pthread_t thread;
		void *seq;

		assert_ok(pthread_create(&thread, NULL, ask_as_thread, &a));
		pthread_join(thread, &seq);
		assert_int_equal((uint64_t)(uintptr_t)seq, self);
	}
	assert_int_equal(atomic_load(&a.n_asked), 600);
	pthread_barrier_destroy(&a.barrier);
	shfs_callers_free(a.callers);
	kit_end(&k);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(markers),
	cmocka_unit_test(hidden_is_seen_byte_by_byte),
	cmocka_unit_test(arguments),
	cmocka_unit_test(arguments_given_up),
	cmocka_unit_test(stuck_process),
	cmocka_unit_test(same_program_executed_again),
	cmocka_unit_test(threads_of_one_process),
	cmocka_unit_test(many_threads),
};

int main(int argc, char **argv)
{
	return shfs_unit_main(tests, argc, argv);
}
