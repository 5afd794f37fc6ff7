/* SPDX-License-Identifier: MIT */
#include "query/care/refresh.h"

#include "common/clock.h"
#include "common/io.h"
#include "query/base/mounts.h"
#include "query/care/beside.h"
#include "store/index/index.h"
#include "store/journal/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

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

static _Noreturn void serve(const char *store_path,
                            const struct shfs_refresher_duties *duties, int questions,
                            int answers)
{
	unsigned char question, answer;

	prctl(PR_SET_NAME, "shfs-refresh");
	if (duties && duties->begin)
		duties->begin(duties->closure);
	while (read(questions, &question, 1) == 1) {
		answer = (unsigned char)-ingest(store_path, question == QUESTION_WHOLE);
		malloc_trim(0);
		if (shfs_write_all(answers, &answer, 1))
			break;
	}
	if (duties && duties->end)
		duties->end(duties->closure);
	_exit(0);
}

int shfs_refresher_start(struct shfs_refresher *r, const char *store_path,
                         const struct shfs_refresher_duties *duties)
{
	struct shfs_beside ends;
	pid_t pid = shfs_beside_fork(&ends);

	if (!pid)
		serve(store_path, duties, ends.questions, ends.answers);
	*r = (struct shfs_refresher){ .ask = ends.questions, .answer = ends.answers };
	return MIN(pid, 0);
}

/* --- in the process that asks --- */

static int await_until(struct shfs_refresher *r, int64_t until_ms)
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
	r->is_waiting = false;
	if (read(r->answer, &answer, 1) != 1) { /* it has died */
		shfs_closep(&r->ask);
		r->ask = -1;
		return -EPIPE;
	}
	if (!answer) {
		r->fresh_ns = r->asked_ns;
		r->looked_ns = r->asked_monotonic_ns;
	}
	return -(int)answer;
}

int shfs_refresher_await(struct shfs_refresher *r, int wait_ms)
{
	return await_until(r, shfs_clock_ns(CLOCK_MONOTONIC) / 1000000 + wait_ms);
}

int shfs_refresher_ask(struct shfs_refresher *r, bool whole, int wait_ms)
{
	char question = whole ? QUESTION_WHOLE : QUESTION_QUICK;
	int64_t until_ms = shfs_clock_ns(CLOCK_MONOTONIC) / 1000000 + wait_ms;
	int error;

	if (r->ask < 0)
		return -EPIPE;
	error = await_until(r, until_ms); /* to an earlier question */
	if (error == -ETIMEDOUT || error == -EPIPE)
		return error;
	r->asked_ns = shfs_clock_ns(CLOCK_REALTIME);
	r->asked_monotonic_ns = shfs_clock_ns(CLOCK_MONOTONIC);
	if (write(r->ask, &question, 1) != 1)
		return -EPIPE;
	r->is_waiting = true;
	return await_until(r, until_ms);
}
