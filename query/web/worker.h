/* SPDX-License-Identifier: MIT */
/*
 * worker.h - a process beside the server of `shfs web` for what takes long: it reads the
 * index by itself, so the server answers others meanwhile. It can change nothing, and
 * ends with the server.
 */
#pragma once

#include "common/buf.h"

#include <stdbool.h>
#include <stddef.h>

struct shfs_config;

#define SHFS_WEB_ID 17 /* bytes of an id as it is shown, with its end */

enum shfs_web_kind {
	SHFS_WEB_STALE,    /* which results are stale */
	SHFS_WEB_OVERVIEW, /* how much was done when */
	SHFS_WEB_UNDO,     /* what an undo of a command would do */
};

struct shfs_web_question {
	enum shfs_web_kind kind;
	char command[SHFS_WEB_ID]; /* of an undo: the id that is shown; else "" */
};

struct shfs_web_worker {
	int ask, answer;      /* pipes */
	bool is_busy;         /* with a question */
	struct shfs_buf come; /* of its answer */
	int error;            /* the answer: 0, or why there is none: -errno */
	struct shfs_buf body; /* JSON */
};

/* The process is told this. It is borrowed while shfs_web_worker_start runs: the process
 * has a copy of all memory. */
struct shfs_web_reader {
	const char *store_path;
	const char *project; /* as struct shfs_web has it */
	const struct shfs_config *config;
	const int *closes; /* descriptors that are not for it */
	size_t n_closes;
};

/* Starts the process. Called before an index is opened, and before there are threads. */
_must_check_ int shfs_web_worker_start(struct shfs_web_worker *worker,
                                       const struct shfs_web_reader *reader);

/* Asks it something. -EPIPE: the process has ended. */
_must_check_ int shfs_web_worker_ask(struct shfs_web_worker *worker,
                                     const struct shfs_web_question *question);

/* Takes what can be read from worker->answer. 1: the answer is whole: error and body; 0:
 * not yet. That the process has ended is an answer, too: -EPIPE. */
int shfs_web_worker_take(struct shfs_web_worker *worker);

/* Has the process end. */
void shfs_web_worker_end(struct shfs_web_worker *worker);
