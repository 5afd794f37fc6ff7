/* SPDX-License-Identifier: MIT */
/*
 * web.h - serves the page of the map on the loopback, with data and contents as they are
 * asked for (docs/web.md). Nothing can be changed by it.
 */
#pragma once

#include "query/base/cmd.h"
#include "query/web/refresh.h"

#define SHFS_WEB_TOKEN 32 /* hex digits */

struct shfs_web {
	struct shfs_store *store;
	struct shfs_index *index; /* opened to read */
	const char *project;      /* a path of the index, or NULL: all; borrowed */
	struct shfs_web_refresher refresh;
	char token[SHFS_WEB_TOKEN + 1]; /* what one must know to be answered */
	uint16_t port;
};

/* Answers to GET: the body, its type, and the status of HTTP. */
struct shfs_web_answer {
	unsigned status;
	const char *type; /* static */
	const char *csp;  /* static: its Content-Security-Policy */
	struct shfs_buf body;
};

/* Gives the value of a parameter of the URL, decoded; NULL: there is none. Borrowed. */
typedef const char *shfs_web_parameter(void *request, const char *name);

/* Answers for a path of the URL, of one who may ask. 0, or -ENOMEM. */
_must_check_ int shfs_web_answer(struct shfs_web *web, const char *url,
                                 shfs_web_parameter *parameter, void *request,
                                 struct shfs_web_answer *out);

/* Listens on 127.0.0.1. port 0: on one that is free. -EADDRINUSE, or another -errno;
 * else the socket, and web->port is set. */
_must_check_ int shfs_web_listen(struct shfs_web *web, uint16_t port);

/* Loads libmicrohttpd. An exit code, after a message. */
_must_check_ int shfs_web_load(void);

/* Serves on that socket, which it closes, under a filter of system calls, until a signal
 * is read from signals (signalfd(2)). ready: called once it serves. -errno. */
_must_check_ int shfs_web_serve(struct shfs_web *web, int socket, int signals,
                                void (*ready)(const struct shfs_web *web));
