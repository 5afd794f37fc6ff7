/* SPDX-License-Identifier: MIT */
/*
 * waiting.h - requests that are answered later, while others are answered: those for
 * news, once the index has changed; those that the worker answers.
 *
 * News come by themselves only while somebody waits for them: then what hooks and mounts
 * write has the index brought up to date.
 */
#pragma once

#include "query/web/http.h"
#include "query/web/web.h"

#include <sys/select.h>

/* A request, from its head to the end of its answer. */
struct shfs_web_request {
	struct MHD_Connection *connection;
	struct shfs_web_later later; /* what it waits for */
	bool is_asked;               /* the worker is at its question */
	bool is_answered;            /* by the answer */
	bool wants_cookie;
	int64_t until_ms;         /* CLOCK_MONOTONIC; then there are no news */
	char seen[SHFS_WEB_MARK]; /* the index was this */
	struct shfs_web_answer answer;
	struct shfs_web_request *prev, *next; /* of those that wait */
};

/* Watches what hooks and mounts write. Without that, the index is asked more often. */
void shfs_web_watch(struct shfs_web *web);

/* Lets a request wait: its connection is suspended. seen: for news, which state of the
 * index is not news; may be NULL. False: too many do, or the server ends. */
bool shfs_web_wait(struct shfs_web *web, struct shfs_web_request *request,
                   const struct shfs_web_later *later, const char *seen);

/* Adds descriptors to be waited for, and lessens the time to wait (-1: any). */
void shfs_web_waiting_add(struct shfs_web *web, fd_set *in, int *last, int64_t *wait_ms);

/* Does what has become due; descriptors of in are ready. Requests that got their answers
 * are resumed. */
void shfs_web_waiting_run(struct shfs_web *web, const fd_set *in);

/* Answers all that wait, and has none wait any more: the server ends. */
void shfs_web_waiting_end(struct shfs_web *web);
