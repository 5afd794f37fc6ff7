/* SPDX-License-Identifier: MIT */
/* Tests of unit.c. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void tmpdir_is_new_and_private(void **state)
{
	const char *a = shfs_unit_tmpdir(), *b = shfs_unit_tmpdir();
	struct stat st;

	assert_string_not_equal(a, b);
	assert_int_equal(stat(a, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(st.st_nlink, 2);
}

static void touch(const char *dir, const char *name)
{
	int dirfd = open(dir, O_PATH | O_DIRECTORY), fd;

	assert_true(dirfd >= 0);
	fd = openat(dirfd, name, O_CREAT | O_WRONLY, 0400);
	assert_true(fd >= 0);
	close(fd);
	close(dirfd);
}

/* The directory goes with the process that asked for it, and not with its children. */
static void tmpdir_ends_with_its_process(void **state)
{
	char dir[4096] = "";
	int fds[2], status;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		const char *mine = shfs_unit_tmpdir();

		touch(mine, "file");
		if (fork() == 0)
			exit(0);
		wait(NULL);
		if (write(fds[1], mine, strlen(mine)) < 0 || access(mine, F_OK) < 0)
			_exit(1);
		exit(0);
	}
	close(fds[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(read(fds[0], dir, sizeof(dir) - 1) > 0);
	close(fds[0]);
	assert_int_not_equal(access(dir, F_OK), 0);
}

static void passes(void **state)
{
}

static void fails(void **state)
{
	assert_true(false);
}

static void skips(void **state)
{
	shfs_unit_skip("because");
}

/* Runs the inner tests in a child, without their output, and returns its exit status. */
static int run_inner(int argc, const char *const *argv)
{
	static const struct CMUnitTest inner[] = {
		cmocka_unit_test(passes),
		cmocka_unit_test(fails),
		cmocka_unit_test(skips),
	};
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY);

		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		_exit(shfs_unit_main(inner, argc, (char **)argv));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void exit_status_tells(void **state)
{
	assert_int_equal(run_inner(1, (const char *const[]){ "t", NULL }), 1);
	assert_int_equal(run_inner(2, (const char *const[]){ "t", "passes", NULL }), 0);
	assert_int_equal(run_inner(2, (const char *const[]){ "t", "fails", NULL }), 1);
	assert_int_equal(run_inner(2, (const char *const[]){ "t", "skips", NULL }), 77);
	assert_int_equal(run_inner(3,
	                           (const char *const[]){ "t", "skips", "pas*", NULL }),
	                 0);
	assert_int_equal(run_inner(3, (const char *const[]){ "t", "passes", "no-such",
	                                                     NULL }),
	                 2);
	assert_int_equal(run_inner(2, (const char *const[]){ "t", "--list", NULL }), 0);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(tmpdir_is_new_and_private),
		cmocka_unit_test(tmpdir_ends_with_its_process),
		cmocka_unit_test(exit_status_tells),
	};

	return shfs_unit_main(tests, argc, argv);
}
