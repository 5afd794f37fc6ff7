/* SPDX-License-Identifier: MIT */
#include "query/web/waiting.h"

#include "common/clock.h"
#include "common/debug.h"
#include "common/path.h"
#include "store/journal/runtime.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/inotify.h>
#include <utlist.h>

#define NEWS_MAX     100    /* with those below, less than there are connections */
#define SLOW_MAX     20     /* who wait for what takes long */
#define NEWS_MS      25000  /* then a request for news is answered in any case */
#define SLOW_MS      300000 /* who asked may be gone: that is not seen while one waits */
#define SETTLE_MS    80     /* more is about to be written */
#define UNWATCHED_MS 1000   /* between two looks, where nothing says that there is more */
#define WATCHED_MS   10000  /* other hosts write unseen */
#define REST         4      /* of so many times as long as a look takes */

static int64_t now_ms(void)
{
	return shfs_clock_ns(CLOCK_MONOTONIC) / 1000000;
}

/* --- who waits --- */

static void resume(struct shfs_web *web, struct shfs_web_request *request)
{
	DL_DELETE(web->waiting, request);
	request->is_answered = true;
	shfs_mhd.MHD_resume_connection(request->connection);
}

static void tell_news(struct shfs_web *web, struct shfs_web_request *request)
{
	if (shfs_web_answer_news(web, &request->answer))
		shfs_web_say(&request->answer, 500, "out of memory\n");
	resume(web, request);
}

static struct shfs_web_request *first_for(const struct shfs_web *web,
                                          enum shfs_web_when when)
{
	struct shfs_web_request *request;

	DL_FOREACH (web->waiting, request)
		if (request->later.when == when)
			return request;
	return NULL;
}

bool shfs_web_wait(struct shfs_web *web, struct shfs_web_request *request,
                   const struct shfs_web_later *later, const char *seen)
{
	struct shfs_web_request *other;
	size_t n = 0;

	DL_FOREACH (web->waiting, other)
		n += other->later.when == later->when;
	if (web->is_ending || (later->when == SHFS_WEB_SLOW && n >= SLOW_MAX))
		return false;
	if (later->when == SHFS_WEB_NEWS && n >= NEWS_MAX)
		tell_news(web, first_for(web, SHFS_WEB_NEWS)); /* it will ask again */
	snprintf(request->seen, sizeof(request->seen), "%s", seen ?: "");
	request->later = *later;
	request->until_ms = now_ms() + (later->when == SHFS_WEB_NEWS ? NEWS_MS : SLOW_MS);
	DL_APPEND(web->waiting, request);
	shfs_mhd.MHD_suspend_connection(request->connection);
	return true;
}

/* --- news --- */

void shfs_web_watch(struct shfs_web *web)
{
	uint32_t events = IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_ONLYDIR;
	_cleanup_free_ char *hooks = shfs_runtime_hook_dir(web->store->path),
			    *journals = shfs_path_join(web->store->path, "journal"),
			    *journal =
				    journals ? shfs_path_join(journals, web->store->host)
					     : NULL;

	web->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (web->watch < 0)
		return;
	if (hooks) /* where there is one */
		(void)!inotify_add_watch(web->watch, hooks, events);
	if (!journal || inotify_add_watch(web->watch, journal, events) < 0) {
		close(web->watch);
		web->watch = -1;
	}
}

static void drain_watch(struct shfs_web *web)
{
	char events[4096];

	while (read(web->watch, events, sizeof(events)) > 0)
		;
}

/* A look that ended: what it found is told. */
static void end_look(struct shfs_web *web)
{
	struct shfs_web_request *request, *next;
	char mark[SHFS_WEB_MARK];

	if (shfs_refresher_await(&web->refresh, 0) == -ETIMEDOUT)
		return;
	web->looked_ms = now_ms();
	web->rest_ms =
		REST * (web->looked_ms - web->refresh.asked_monotonic_ns / 1000000);
	web->look_ms = MIN(web->look_ms,
	                   web->looked_ms + (web->watch < 0 ? UNWATCHED_MS : WATCHED_MS));
	shfs_web_mark(web, mark);
	DL_FOREACH_SAFE (web->waiting, request, next) {
		if (request->later.when != SHFS_WEB_NEWS || !strcmp(request->seen, mark))
			continue;
		shfs_debug(QUERY, "news: %s", mark);
		tell_news(web, request);
	}
}

static void begin_look(struct shfs_web *web)
{
	web->look_ms = INT64_MAX;
	web->is_hastened = false;
	if (shfs_refresher_ask(&web->refresh, true, 0) != -ETIMEDOUT)
		end_look(web); /* it has failed, or was quick */
}

/* Something was written: the index is asked soon, and again only after a rest. */
static void hasten_look(struct shfs_web *web)
{
	int64_t soon = MAX(now_ms() + SETTLE_MS, web->looked_ms + web->rest_ms);

	drain_watch(web);
	web->look_ms = MIN(web->look_ms, soon);
	shfs_debug(QUERY, "something was written: the index is asked in %" PRId64 " ms",
	           MAX(web->look_ms - now_ms(), 0));
	web->is_hastened = true;
}

/* --- what takes long --- */

static bool is_same_question(const struct shfs_web_question *a,
                             const struct shfs_web_question *b)
{
	return a->kind == b->kind && !strcmp(a->command, b->command);
}

/* Asks the worker what has waited longest, for all that have asked the same. */
static void ask_worker(struct shfs_web *web)
{
	struct shfs_web_request *first = first_for(web, SHFS_WEB_SLOW), *request;

	if (web->worker.is_busy || !first)
		return;
	DL_FOREACH (web->waiting, request)
		request->is_asked = request->later.when == SHFS_WEB_SLOW &&
		                    is_same_question(&request->later.question,
		                                     &first->later.question);
	/* what it cannot, it says by its end */
	(void)!shfs_web_worker_ask(&web->worker, &first->later.question);
	web->worker.is_busy = true;
}

static void take_answer(struct shfs_web *web)
{
	struct shfs_web_request *request, *next;

	if (!shfs_web_worker_take(&web->worker))
		return;
	DL_FOREACH_SAFE (web->waiting, request, next) {
		if (!request->is_asked)
			continue;
		if (shfs_web_answer_slow(&web->worker, &request->answer))
			shfs_web_say(&request->answer, 500, "out of memory\n");
		resume(web, request);
	}
}

/* --- the loop --- */

static void add_fd(int fd, fd_set *in, int *last)
{
	if (fd < 0)
		return;
	FD_SET(fd, in);
	*last = MAX(*last, fd);
}

static void lessen(int64_t *wait_ms, int64_t until_ms)
{
	int64_t left = MAX(until_ms - now_ms(), 0);

	if (until_ms < INT64_MAX && (*wait_ms < 0 || left < *wait_ms))
		*wait_ms = left;
}

void shfs_web_waiting_add(struct shfs_web *web, fd_set *in, int *last, int64_t *wait_ms)
{
	struct shfs_web_request *oldest = first_for(web, SHFS_WEB_NEWS),
				*slow = first_for(web, SHFS_WEB_SLOW);

	ask_worker(web);
	if (web->worker.is_busy)
		add_fd(web->worker.answer, in, last);
	if (slow)
		lessen(wait_ms, slow->until_ms);
	if (!oldest)
		return;
	lessen(wait_ms, oldest->until_ms);
	if (web->refresh.is_waiting)
		add_fd(web->refresh.answer, in, last);
	else
		lessen(wait_ms, web->look_ms);
	if (!web->is_hastened)
		add_fd(web->watch, in, last);
}

static void run_news(struct shfs_web *web, const fd_set *in)
{
	struct shfs_web_request *oldest;

	if (web->watch >= 0 && FD_ISSET(web->watch, in))
		hasten_look(web);
	if (web->refresh.is_waiting && FD_ISSET(web->refresh.answer, in))
		end_look(web);
	if (first_for(web, SHFS_WEB_NEWS) && !web->refresh.is_waiting &&
	    now_ms() >= web->look_ms)
		begin_look(web);
	while ((oldest = first_for(web, SHFS_WEB_NEWS)) && now_ms() >= oldest->until_ms)
		tell_news(web, oldest);
}

void shfs_web_waiting_run(struct shfs_web *web, const fd_set *in)
{
	struct shfs_web_request *slow;

	run_news(web, in);
	if (web->worker.is_busy && FD_ISSET(web->worker.answer, in))
		take_answer(web);
	while ((slow = first_for(web, SHFS_WEB_SLOW)) && now_ms() >= slow->until_ms) {
		shfs_web_say(&slow->answer, 503, "This takes too long.\n");
		resume(web, slow);
	}
}

void shfs_web_waiting_end(struct shfs_web *web)
{
	struct shfs_web_request *request, *next;

	web->is_ending = true;
	DL_FOREACH_SAFE (web->waiting, request, next) {
		shfs_web_say(&request->answer, 503, "The server has ended.\n");
		resume(web, request);
	}
}
