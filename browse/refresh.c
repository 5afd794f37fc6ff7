/* SPDX-License-Identifier: MIT */
#include "browse/refresh.h"

#include "common/clock.h"
#include "common/io.h"
#include "fusefs/transport/mountpoint.h"
#include "query/base/mounts.h"
#include "query/care/detach.h"
#include "recording/daemon.h"
#include "store/index/index.h"
#include "store/journal/runtime.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#define QUICK_MS 200

enum { QUESTION_QUICK = 'q', QUESTION_WHOLE = 'w' };

/* --- in the process that writes --- */

static int ingest(const char *store_path, bool whole)
{
	_cleanup_store_ struct shfs_store *store = NULL;
	_cleanup_index_ struct shfs_index *index = NULL;
	_cleanup_free_ char *hook_dir = shfs_runtime_hook_dir(store_path);
	uint64_t left;
	int r = shfs_store_open(store_path, 0, &store);

	if (!r) {
		shfs_mounts_sync(store->path, false);
		r = shfs_index_open(store, SHFS_INDEX_WRITE, &index);
	}
	if (!r && whole)
		r = shfs_index_ingest(index, hook_dir, NULL);
	else if (!r)
		r = shfs_index_ingest_within(index, hook_dir, QUICK_MS, &left);
	return r == 1 ? -EAGAIN : r;
}

static void unmount_what_is_left(const char *mountpoint, dev_t device)
{
	_cleanup_free_ char *where = shfs_mountpoint_of(device);
	_cleanup_buf_ struct shfs_buf said = { 0 };

	if (where && !strcmp(where, mountpoint))
		(void)!shfs_detach(where, true, &said);
}

static _Noreturn void serve(const char *store_path, const char *mountpoint, dev_t device,
                            int questions, int answers)
{
	unsigned char question, answer;

	prctl(PR_SET_NAME, "shfs-refresh");
	while (read(questions, &question, 1) == 1) {
		answer = (unsigned char)-ingest(store_path, question == QUESTION_WHOLE);
		malloc_trim(0);
		if (shfs_write_all(answers, &answer, 1))
			break;
	}
	unmount_what_is_left(mountpoint, device);
	_exit(0);
}

int shfs_refresher_start(struct shfs_refresher *r, const char *store_path,
                         const char *mountpoint, dev_t device, const int *closes,
                         size_t n)
{
	int questions[2], answers[2], null;
	pid_t pid;

	*r = (struct shfs_refresher){ .ask = -1, .answer = -1 };
	if (pipe2(questions, O_CLOEXEC))
		return -errno;
	if (pipe2(answers, O_CLOEXEC) || (pid = fork()) < 0) {
		close(questions[0]);
		close(questions[1]);
		return -errno;
	}
	if (!pid) {
		for (size_t i = 0; i < n; i++)
			close(closes[i]);
		close(questions[1]);
		close(answers[0]);
		null = open("/dev/null", O_RDWR | O_CLOEXEC);
		for (int fd = 0; fd <= STDERR_FILENO && null >= 0; fd++)
			dup2(null, fd);
		shfs_daemon_told();
		serve(store_path, mountpoint, device, questions[0], answers[1]);
	}
	close(questions[0]);
	close(answers[1]);
	r->ask = questions[1];
	r->answer = answers[0];
	return 0;
}

/* --- in the process that asks --- */

static int await_answer(struct shfs_refresher *r, int64_t until_ms)
{
	struct pollfd p = { r->answer, POLLIN, 0 };
	int64_t left = until_ms - shfs_clock_ns(CLOCK_MONOTONIC) / 1000000;
	unsigned char answer;
	int n;

	if (!r->is_waiting)
		return 0;
	n = poll(&p, 1, (int)MAX(left, 0));
	if (n <= 0)
		return -ETIMEDOUT;
	if (read(r->answer, &answer, 1) != 1)
		return -EPIPE;
	r->is_waiting = false;
	if (!answer) {
		r->fresh_ns = r->asked_ns;
		r->looked_ns = r->asked_monotonic_ns;
	}
	return -(int)answer;
}

int shfs_refresher_ask(struct shfs_refresher *r, bool whole, int wait_ms)
{
	char question = whole ? QUESTION_WHOLE : QUESTION_QUICK;
	int64_t until_ms = shfs_clock_ns(CLOCK_MONOTONIC) / 1000000 + wait_ms;
	int error;

	if (r->ask < 0)
		return -EPIPE;
	error = await_answer(r, until_ms); /* to an earlier question */
	if (error == -ETIMEDOUT || error == -EPIPE)
		return error;
	r->asked_ns = shfs_clock_ns(CLOCK_REALTIME);
	r->asked_monotonic_ns = shfs_clock_ns(CLOCK_MONOTONIC);
	if (write(r->ask, &question, 1) != 1)
		return -EPIPE;
	r->is_waiting = true;
	return await_answer(r, until_ms);
}
