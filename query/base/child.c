/* SPDX-License-Identifier: MIT */
/* Programs that a command runs for itself. */
#include "query/base/child.h"

#include "common/exit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t shfs_child_start(const char *file, const char *const *argv,
                       enum shfs_child_says says)
{
	pid_t pid;
	int null;

	fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	null = open("/dev/null", O_RDWR);
	dup2(null, STDIN_FILENO);
	if (says != SHFS_CHILD_ALL)
		dup2(null, STDOUT_FILENO);
	if (says == SHFS_CHILD_NOTHING)
		dup2(null, STDERR_FILENO);
	execvp(file, (char *const *)argv);
	_exit(SHFS_EXIT_FAILURE);
}

int shfs_child_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return SHFS_EXIT_FAILURE;
	return WIFEXITED(status) ? WEXITSTATUS(status) : SHFS_EXIT_FAILURE;
}
