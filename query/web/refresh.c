/* SPDX-License-Identifier: MIT */
/* The process beside the server of `shfs web` that takes what is new into the index. */
#include "query/web/refresh.h"

#include "query/base/mounts.h"
#include "store/index/index.h"
#include "store/journal/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

/* --- in the process that writes --- */

static int ingest(const char *store_path)
{
	_cleanup_store_ struct shfs_store *store = NULL;
	_cleanup_index_ struct shfs_index *index = NULL;
	_cleanup_free_ char *hook_dir = shfs_runtime_hook_dir(store_path);
	int r = shfs_store_open(store_path, 0, &store);

	if (!r) {
		shfs_mounts_sync(store->path, false);
		r = shfs_index_open(store, SHFS_INDEX_WRITE, &index);
	}
	return r ?: shfs_index_ingest(index, hook_dir, NULL);
}

static _Noreturn void serve(const char *store_path, int questions, int answers)
{
	unsigned char question, answer;

	prctl(PR_SET_NAME, "shfs-refresh");
	/* ^C is for the server: this process ends when its pipe does */
	signal(SIGINT, SIG_IGN);
	while (read(questions, &question, 1) == 1) {
		answer = (unsigned char)-ingest(store_path);
		malloc_trim(0);
		if (write(answers, &answer, 1) != 1)
			break;
	}
	_exit(0);
}

int shfs_web_refresher_start(struct shfs_web_refresher *r, const char *store_path)
{
	int questions[2], answers[2];
	pid_t pid;

	if (pipe2(questions, O_CLOEXEC))
		return -errno;
	if (pipe2(answers, O_CLOEXEC) || (pid = fork()) < 0) {
		close(questions[0]);
		close(questions[1]);
		return -errno;
	}
	if (!pid) {
		close(questions[1]);
		close(answers[0]);
		serve(store_path, questions[0], answers[1]);
	}
	close(questions[0]);
	close(answers[1]);
	*r = (struct shfs_web_refresher){ .ask = questions[1], .answer = answers[0] };
	return 0;
}

/* --- in the process that asks --- */

static int await_answer(struct shfs_web_refresher *r, int wait_ms)
{
	struct pollfd p = { r->answer, POLLIN, 0 };
	unsigned char answer;

	if (!r->is_waiting)
		return 0;
	if (poll(&p, 1, wait_ms) <= 0)
		return -ETIMEDOUT;
	if (read(r->answer, &answer, 1) != 1)
		return -EPIPE;
	r->is_waiting = false;
	return -(int)answer;
}

int shfs_web_refresher_ask(struct shfs_web_refresher *r, int wait_ms)
{
	int error = await_answer(r, wait_ms); /* to an earlier question */

	if (error == -ETIMEDOUT || error == -EPIPE)
		return error;
	if (write(r->ask, "q", 1) != 1)
		return -EPIPE;
	r->is_waiting = true;
	return await_answer(r, wait_ms);
}
