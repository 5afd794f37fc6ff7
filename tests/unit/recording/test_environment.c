/* SPDX-License-Identifier: MIT */
/* Which variables of an environment are recorded. */
#include "tests/unit/unit.h"

#include "common/proc.h"
#include "recording/environment.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SELECTED(patterns, environ, expected)                                            \
	is_selected(patterns, (struct shfs_bytes){ environ, sizeof(environ) - 1 },       \
	            (struct shfs_bytes){ expected, sizeof(expected) - 1 })

static void is_selected(const char *patterns, struct shfs_bytes environ,
                        struct shfs_bytes expected)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	assert_int_equal(shfs_environment_select(environ, patterns, &out), 0);
	assert_int_equal(out.len, expected.len);
	assert_memory_equal(out.data, expected.data, out.len);
}

static void listed_variables(void **state)
{
	SELECTED("", "PATH=/bin\0TOKEN=x\0LC_ALL=C\0HOME=/h\0",
	         "HOME=/h\0LC_ALL=C\0PATH=/bin\0");
	SELECTED("", "PATHS=/bin\0PAT=1\0PATH\0=1\0LC_=\0\0\0", "LC_=\0");
	SELECTED("", "TOKEN=x\0", "\0");
	SELECTED("", "", "\0");
	SELECTED("", "TZ=UTC", "TZ=UTC\0"); /* without a NUL at its end */
}

/* Patterns of the user come behind the built-in ones; the last that matches decides. */
static void patterns_of_the_user(void **state)
{
	SELECTED("GENOME_* !HOME\n", "HOME=/h\0GENOME_DIR=/g\0TZ=UTC\0",
	         "GENOME_DIR=/g\0TZ=UTC\0");
	SELECTED("!*\nTZ\n", "HOME=/h\0TZ=UTC\0", "TZ=UTC\0");
	SELECTED("!LC_*\nLC_ALL\n", "LC_TIME=de\0LC_ALL=C\0", "LC_ALL=C\0");
}

#define MARKS(environ, expected)                                                         \
	has_marks((struct shfs_bytes){ environ, sizeof(environ) - 1 }, expected)

static void has_marks(struct shfs_bytes environ, const char *expected)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	shfs_environment_marks(environ, &out);
	shfs_buf_u8(&out, 0);
	assert_string_equal(out.data, expected);
}

/* Jobs of clusters and agents; a value that is no name says nothing. */
static void marks(void **state)
{
	MARKS("", "");
	MARKS("PATH=/bin\0AGENT=x\0JOB_ID=7\0", "");
	MARKS("CLAUDECODE=1\0", " agent claude");
	MARKS("CLAUDECODE=\0", "");
	MARKS("CODEX_SANDBOX=seatbelt\0AI_AGENT=my-agent@1.2\0", " agent my-agent");
	MARKS("AI_AGENT=two words\0GEMINI_CLI=1\0", " agent gemini");
	MARKS("AI_AGENT=$(rm)\0", "");
	MARKS("SLURM_JOB_ID=12\0", " job slurm 12");
	MARKS("SLURM_JOB_ID=12\0SLURM_ARRAY_JOB_ID=10\0SLURM_ARRAY_TASK_ID=2\0",
	      " job slurm 10_2");
	MARKS("JOB_ID=7\0SGE_ROOT=/s\0SGE_TASK_ID=undefined\0", " job sge 7");
	MARKS("JOB_ID=7\0SGE_ROOT=/s\0SGE_TASK_ID=3\0", " job sge 7_3");
	MARKS("LSB_JOBID=5\0LSB_JOBINDEX=0\0", " job lsf 5");
	MARKS("PBS_JOBID=9.host\0CURSOR_AGENT=1\0", " job pbs 9.host agent cursor-agent");
}

/* What is too long is said to be cut, and the rest stays. */
static void long_values(void **state)
{
	_cleanup_buf_ struct shfs_buf environ = { 0 }, out = { 0 };

	shfs_buf_str(&environ, "CC=");
	for (size_t i = 0; i < SHFS_ENVIRONMENT_MAX; i++)
		shfs_buf_char(&environ, 'x');
	shfs_buf_u8(&environ, 0);
	shfs_buf_add(&environ, "TZ=UTC", 7);
	assert_int_equal(shfs_environment_select((struct shfs_bytes){ environ.data,
	                                                              environ.len },
	                                         "", &out),
	                 0);
	assert_int_equal(out.len, sizeof("CC=[cut]\0TZ=UTC"));
	assert_memory_equal(out.data, "CC=[cut]\0TZ=UTC", out.len);
}

static void environment_of_a_process(void **state)
{
	_cleanup_buf_ struct shfs_buf marker = { 0 }, out = { 0 };
	_cleanup_close_ int fd = -1;
	const char *const env[] = { "TZ=UTC", "SHFS_SESSION=01234567-1-99",
		                    "SHFS_COMMAND=3", "SHFS_HIDDEN=1", NULL };
	int ready[2], hidden = 0;
	pid_t pid;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		execle("/bin/sleep", "sleep", "60", NULL, (char *const *)env);
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &hidden, 1), 0); /* it has executed sleep */
	close(ready[0]);
	fd = shfs_proc_open((uint32_t)pid);
	assert_int_equal(shfs_environment_read(fd, "", &marker, &hidden, &out), 0);
	assert_int_equal(out.len, sizeof("TZ=UTC"));
	assert_memory_equal(out.data, "TZ=UTC", out.len);
	assert_int_equal(marker.len, strlen("01234567-1-99-3"));
	assert_int_equal(hidden, 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	marker.len = out.len = 0;
	assert_int_not_equal(shfs_environment_read(fd, "", &marker, &hidden, &out), 0);
	assert_int_equal(hidden, SHFS_HIDDEN_UNSAID);
	assert_int_equal(marker.len + out.len, 0);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(listed_variables),
		cmocka_unit_test(patterns_of_the_user),
		cmocka_unit_test(marks),
		cmocka_unit_test(long_values),
		cmocka_unit_test(environment_of_a_process),
	};

	return shfs_unit_main(tests, argc, argv);
}
