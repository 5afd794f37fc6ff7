/* SPDX-License-Identifier: MIT */
/*
 * web.h - serves the page of the map on the loopback, with data and contents as they are
 * asked for (docs/map.md). Nothing can be changed by it.
 */
#pragma once

#include "query/base/cmd.h"
#include "query/care/refresh.h"
#include "query/web/worker.h"

#define SHFS_WEB_TOKEN 32 /* hex digits */
#define SHFS_WEB_MARK  64

struct shfs_web_request; /* of waiting.h */

struct shfs_web {
	struct shfs_store *store;
	struct shfs_index *index; /* opened to read */
	const char *project;      /* a path of the index, or NULL: all; borrowed */
	struct shfs_refresher refresh;
	struct shfs_web_worker worker;
	char token[SHFS_WEB_TOKEN + 1]; /* what one must know to be answered */
	uint16_t port;
	unsigned number; /* random: tells it from other servers at this port */
	/* of waiting.c */
	struct shfs_web_request *waiting; /* the oldest first */
	bool is_ending;                   /* nobody may wait any more */
	int watch;        /* inotify on what hooks and mounts write; -1: there is none */
	bool is_hastened; /* something was written */
	int64_t look_ms, looked_ms; /* when the index is to be brought up to date, and
	                             * when it was; CLOCK_MONOTONIC */
	int64_t rest_ms;            /* in between, at least */
};

/* Answers to GET: the body, its type, and the status of HTTP. */
struct shfs_web_answer {
	unsigned status;
	const char *type; /* static */
	const char *csp;  /* static: its Content-Security-Policy */
	struct shfs_buf body;
};

/* A request is answered now, or waits for one of these. */
enum shfs_web_when {
	SHFS_WEB_NOW,
	SHFS_WEB_NEWS, /* a change of the index */
	SHFS_WEB_SLOW, /* the process that answers what takes long */
};

struct shfs_web_later {
	enum shfs_web_when when;
	struct shfs_web_question question; /* to that process */
};

/* Gives the value of a parameter of the URL, decoded; NULL: there is none. Borrowed. */
typedef const char *shfs_web_parameter(void *request, const char *name);

/* Answers for a path of the URL, of one who may ask; or *later says what has to come
 * first. 0, or -ENOMEM. */
_must_check_ int shfs_web_answer(struct shfs_web *web, const char *url,
                                 shfs_web_parameter *parameter, void *request,
                                 struct shfs_web_answer *out,
                                 struct shfs_web_later *later);

/* Makes the answer once that has come: of news; of what the worker has found. -ENOMEM. */
_must_check_ int shfs_web_answer_news(struct shfs_web *web, struct shfs_web_answer *out);
_must_check_ int shfs_web_answer_slow(const struct shfs_web_worker *worker,
                                      struct shfs_web_answer *out);

/* Tells states of the index apart: "SERVER.REBUILT.CHANGES". If it has become another
 * server, or if it was rebuilt, all is to be loaded anew. */
void shfs_web_mark(struct shfs_web *web, char out[SHFS_WEB_MARK]);

/* Makes an answer that is a line of text. */
void shfs_web_say(struct shfs_web_answer *answer, unsigned status, const char *text);

/* Listens on 127.0.0.1. port 0: on one that is free. -EADDRINUSE, or another -errno;
 * else the socket, and web->port is set. */
_must_check_ int shfs_web_listen(struct shfs_web *web, uint16_t port);

/* Loads libmicrohttpd. An exit code, after a message. */
_must_check_ int shfs_web_load(void);

/* Serves on that socket, which it closes, under a filter of system calls, until a signal
 * is read from signals (signalfd(2)). ready: called once it serves. -errno. */
_must_check_ int shfs_web_serve(struct shfs_web *web, int socket, int signals,
                                void (*ready)(const struct shfs_web *web));
