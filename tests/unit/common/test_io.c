/* SPDX-License-Identifier: MIT */
/* Tests of common/io.c. */
#include "tests/unit/unit.h"

#include "common/io.h"
#include "common/path.h"
#include "common/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

static int open_dir(void)
{
	int fd = open(shfs_unit_tmpdir(), O_RDONLY | O_DIRECTORY);

	assert_true(fd >= 0);
	return fd;
}

/* --- files --- */

static void write_and_read(void **state)
{
	static const size_t sizes[] = { 0, 1, 16383, 16384, 16385, 100000 };
	_cleanup_close_ int dir = open_dir();

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		_cleanup_buf_ struct shfs_buf out = { 0 };
		_cleanup_free_ char *data = malloc(sizes[i] + 1);
		struct stat st;

		memset(data, 'a' + (int)i, sizes[i]);
		assert_int_equal(shfs_write_file_at(dir, "f", 0640, data, sizes[i]), 0);
		assert_int_equal(fstatat(dir, "f", &st, 0), 0);
		assert_int_equal(st.st_mode & 07777, 0640 & ~022);
		assert_int_equal(shfs_read_file_at(dir, "f", sizes[i], &out), 0);
		assert_int_equal(out.len, sizes[i]);
		assert_memory_equal(out.data, data, sizes[i]);
		assert_int_equal(out.data[out.len], 0);
		if (sizes[i]) {
			out.len = 0;
			assert_int_equal(shfs_read_file_at(dir, "f", sizes[i] - 1, &out),
			                 -EFBIG);
		}
	}
}

/*
 * Whoever has the old file open keeps it; a failed replacement leaves it, and no litter.
 */
static void replaced_as_a_whole(void **state)
{
	_cleanup_close_ int dir = open_dir(), old = -1;
	struct rlimit limit, small;
	char text[8] = "";
	struct stat st;

	assert_int_equal(shfs_write_file_at(dir, "f", 0600, "old", 3), 0);
	old = openat(dir, "f", O_RDONLY);
	assert_int_equal(shfs_write_file_at(dir, "f", 0600, "new!", 4), 0);
	assert_int_equal(shfs_pread_full(old, text, sizeof(text), 0), 3);
	assert_string_equal(text, "old");

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	small = limit;
	small.rlim_cur = 2;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(shfs_write_file_at(dir, "f", 0600, "newer", 5), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(fstatat(dir, "f", &st, 0), 0);
	assert_int_equal(st.st_size, 4);
	assert_int_equal(unlinkat(dir, "f", 0), 0);
	assert_int_equal(fstat(dir, &st), 0);
	assert_int_equal(rmdir("/nonexistent"), -1);
	assert_int_equal(shfs_write_file_at(dir, "no/f", 0600, "x", 1), -ENOENT);
}

static void short_reads(void **state)
{
	_cleanup_close_ int dir = open_dir(), fd = -1;
	char data[8];

	assert_int_equal(shfs_write_file_at(dir, "f", 0600, "12345", 5), 0);
	fd = openat(dir, "f", O_RDONLY);
	assert_int_equal(shfs_pread_full(fd, data, 8, 2), 3);
	assert_memory_equal(data, "345", 3);
	assert_int_equal(shfs_pread_full(fd, data, 8, 5), 0);
	assert_int_equal(shfs_pread_full(fd, data, 8, 99), 0);
	assert_int_equal(shfs_pread_full(-1, data, 8, 0), -EBADF);
	assert_int_equal(shfs_write_all(fd, "x", 1), -EBADF);
}

static void make_directories(void **state)
{
	_cleanup_close_ int dir = open_dir();
	struct stat st;

	assert_int_equal(shfs_mkdir_p_at(dir, "a/b//c/", 0700), 0);
	assert_int_equal(fstatat(dir, "a/b/c", &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0700);
	assert_int_equal(shfs_mkdir_p_at(dir, "a/b/c", 0755), 0);
	assert_int_equal(fstatat(dir, "a/b/c", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0700); /* it was there */
	assert_int_equal(shfs_mkdir_p_at(dir, "/", 0700), 0);
	assert_int_equal(shfs_write_file_at(dir, "f", 0600, "", 0), 0);
	assert_int_equal(shfs_mkdir_p_at(dir, "f/a", 0700), -ENOTDIR);
}

/* --- /proc --- */

static void stat_lines(void **state)
{
	static const char rest[] = " S 10 11 12 34816 13 4194560 1 2 3 4 5 6 7 8 20 0 1 0"
				   " 123456789012 99 98 18446744073709551615\n";
	static const char *const names[] = { "bash", "a b", "a) S 1 2 3",
		                             "((",   "))",  ") (",
		                             "",     "\n",  "kworker/0:1H-kb" };
	struct shfs_proc_stat st;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char line[300];

		snprintf(line, sizeof(line), "4321 (%s)%s", names[i], rest);
		assert_int_equal(shfs_proc_parse_stat(line, &st), 0);
		assert_int_equal(st.pid, 4321);
		assert_int_equal(st.ppid, 10);
		assert_int_equal(st.pgid, 11);
		assert_int_equal(st.sid, 12);
		assert_int_equal(st.tty_nr, 34816);
		assert_true(st.start_ticks == 123456789012);
		assert_string_equal(st.comm, names[i]);
	}
}

static void malformed_stat_lines(void **state)
{
	static const char *const lines[] = {
		"",
		"1",
		"1 (x",
		"1 x)",
		"1 )x(",
		"1 (x)",
		"1 (x) S",
		"x (y) S 1 2 3 4",
		"1 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18"
	};
	struct shfs_proc_stat st = { .pid = 77 };

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		assert_int_equal(shfs_proc_parse_stat(lines[i], &st), -EBADMSG);
	assert_int_equal(st.pid, 77);
}

/* Fields of one process, and of the same with another program. */
static void programs_in_stat_lines(void **state)
{
	static const char format[] =
		"9 (%s) S 1 9 9 0 -1 %u 1 2 3 4 5 6 7 8 20 0 3 0 777 8 9 10 %" PRIu64
		" 2 %" PRIu64 " 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 50 51"
		" %" PRIu64 " 53 54";
	static const struct {
		const char *comm;
		unsigned flags;
		uint64_t code, stack, argv;
		bool same;
	} looks[] = {
		{ "sh", 0x400000, 94682777874432, 140732421733056, 40, true },
		{ "other-name", 0x400000, 94682777874432, 140732421733056, 40, true },
		{ "sh", 0x400040, 94682777874432, 140732421733056, 40, false },
		{ "sh", 0x400000, 94682777874433, 140732421733056, 40, false },
		{ "sh", 0x400000, 94682777874432, 140732421733057, 40, false },
		{ "sh", 0x400000, 94682777874432, 140732421733056, 41, false },
		/* not for us to know */
		{ "sh", 0x400000, 1, 0, 0, true },
		{ "cat", 0x400000, 1, 0, 0, false },
	};
	struct shfs_proc_stat first, st;

	for (size_t i = 0; i < ARRAY_SIZE(looks); i++) {
		char line[500];

		snprintf(line, sizeof(line), format, looks[i].comm, looks[i].flags,
		         looks[i].code, looks[i].stack, looks[i].argv);
		assert_int_equal(shfs_proc_parse_stat(line, &st), 0);
		first = i ? first : st;
		assert_int_equal(st.n_threads, 3);
		assert_int_equal(st.start_ticks, 777);
		assert_int_equal(st.cpu, 14);
		assert_int_equal(shfs_proc_same_program(&first, &st), looks[i].same);
		assert_int_equal(shfs_proc_same_program(&st, &first), looks[i].same);
	}
}

static void comm_is_cut(void **state)
{
	struct shfs_proc_stat st;
	char line[300];

	snprintf(line, sizeof(line),
	         "1 (%0100d) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19", 0);
	assert_int_equal(shfs_proc_parse_stat(line, &st), 0);
	assert_int_equal(strlen(st.comm), 63);
	assert_true(st.start_ticks == 19);
}

static void this_process(void **state)
{
	_cleanup_close_ int fd = shfs_proc_open((uint32_t)getpid());
	_cleanup_buf_ struct shfs_buf exe = { 0 }, cwd = { 0 }, argv = { 0 };
	struct shfs_proc_stat st;
	uint32_t tgid;
	char here[4096];

	assert_true(fd >= 0);
	assert_int_equal(shfs_proc_read_stat(fd, &st), 0);
	assert_int_equal(st.pid, getpid());
	assert_int_equal(st.ppid, getppid());
	assert_int_equal(st.pgid, getpgrp());
	assert_int_equal(st.sid, getsid(0));
	assert_int_equal(shfs_proc_thread_group(fd, &tgid), 0);
	assert_int_equal(tgid, getpid());
	assert_int_equal(shfs_proc_link(fd, "exe", &exe), 0);
	assert_non_null(strstr(exe.data, "test_io"));
	assert_int_equal(shfs_proc_link(fd, "cwd", &cwd), 0);
	assert_non_null(getcwd(here, sizeof(here)));
	assert_string_equal(cwd.data, here);
	assert_int_equal(shfs_proc_cmdline(fd, 65536, &argv), 0);
	assert_true(argv.len > 0);
	assert_int_not_equal(argv.data[argv.len - 1], 0);
}

static void cmdline_of(const char *const *argv, size_t max, struct shfs_buf *out)
{
	int fds[2], fd;
	pid_t pid;
	char c;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		dup2(fds[1], STDOUT_FILENO);
		execv("/bin/sh", (char *const *)argv);
		_exit(127);
	}
	assert_int_equal(read(fds[0], &c, 1), 1);
	fd = shfs_proc_open((uint32_t)pid);
	assert_int_equal(shfs_proc_cmdline(fd, max, out), 0);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(fd);
	close(fds[0]);
	close(fds[1]);
}

static void cmdlines(void **state)
{
	static const char *const argv[] = {
		"sh", "-c", "echo; kill -STOP $$; :", "", "two words", "end", NULL
	};
	static const char expected[] = "sh\0-c\0echo; kill -STOP $$; :\0\0two words\0end";
	_cleanup_buf_ struct shfs_buf out = { 0 }, cut = { 0 };

	cmdline_of(argv, 65536, &out);
	assert_int_equal(out.len, sizeof(expected) - 1);
	assert_memory_equal(out.data, expected, out.len);
	cmdline_of(argv, 5, &cut);
	assert_int_equal(cut.len, 5);
	assert_memory_equal(cut.data, expected, 5);
}

/* The fd goes on meaning the process that it was opened for. */
static void ended_process(void **state)
{
	pid_t pid = fork();
	struct shfs_proc_stat st;
	_cleanup_buf_ struct shfs_buf out = { 0 };
	_cleanup_close_ int fd = -1;
	uint32_t tgid;

	if (!pid) {
		pause();
		_exit(0);
	}
	fd = shfs_proc_open((uint32_t)pid);
	assert_int_equal(shfs_proc_read_stat(fd, &st), 0);
	assert_int_equal(st.pid, pid);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(shfs_proc_read_stat(fd, &st), -ESRCH);
	assert_int_equal(shfs_proc_thread_group(fd, &tgid), -ESRCH);
	assert_int_equal(shfs_proc_cmdline(fd, 10, &out), -ESRCH);
	assert_true(shfs_proc_link(fd, "exe", &out) < 0);
	assert_int_equal(shfs_proc_open((uint32_t)pid), -ENOENT);
}

static void machine(void **state)
{
	char boot[37], host[65];
	uint64_t ns = 0;

	assert_int_equal(shfs_proc_boot_id(boot), 0);
	assert_int_equal(strlen(boot), 36);
	assert_int_equal(shfs_proc_pid_namespace(&ns), 0);
	assert_true(ns > 0);
	shfs_proc_host(host);
	assert_true(strlen(host) > 0);
	assert_null(strchr(host, '/'));
	assert_int_not_equal(host[0], '.');
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(write_and_read),
		cmocka_unit_test(replaced_as_a_whole),
		cmocka_unit_test(short_reads),
		cmocka_unit_test(make_directories),
		cmocka_unit_test(stat_lines),
		cmocka_unit_test(malformed_stat_lines),
		cmocka_unit_test(programs_in_stat_lines),
		cmocka_unit_test(comm_is_cut),
		cmocka_unit_test(this_process),
		cmocka_unit_test(cmdlines),
		cmocka_unit_test(ended_process),
		cmocka_unit_test(machine),
	};

	umask(022);
	return shfs_unit_main(tests, argc, argv);
}
