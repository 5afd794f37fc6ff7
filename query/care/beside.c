/* SPDX-License-Identifier: MIT */
#include "query/care/beside.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

pid_t shfs_beside_fork(struct shfs_beside *ends)
{
	int questions[2], answers[2];
	pid_t pid;

	*ends = (struct shfs_beside){ -1, -1 };
	if (pipe2(questions, O_CLOEXEC))
		return -errno;
	if (pipe2(answers, O_CLOEXEC)) {
		int error = errno;

		close(questions[0]);
		close(questions[1]);
		return -error;
	}
	pid = fork();
	if (pid < 0)
		pid = -errno;
	/* each side keeps its own two */
	if (pid) {
		close(questions[0]);
		close(answers[1]);
		*ends = (struct shfs_beside){ questions[1], answers[0] };
	} else {
		close(questions[1]);
		close(answers[0]);
		*ends = (struct shfs_beside){ questions[0], answers[1] };
		signal(SIGPIPE, SIG_IGN); /* an answer may come after the server's end */
	}
	if (pid < 0) {
		close(ends->questions);
		close(ends->answers);
		*ends = (struct shfs_beside){ -1, -1 };
	}
	return pid;
}
