/* SPDX-License-Identifier: MIT */
/*
 * behind.h - what a remote does not have yet of this store, told without asking it; and
 * how the last push ended. Below remote/NAME of the store:
 *
 *     last     when the last push began that came to its end
 *     failed   when the last push by itself failed, and why; none: it did not
 *
 * and remote/automatic, which says when pushes by themselves were last considered.
 */
#pragma once

#include "query/base/json.h"
#include "query/remote/place.h"
#include "store/index/index.h"

/* Initialised by zeros. */
struct behind {
	char *name;
	int64_t pushed_ns;  /* when the last push began; 0: there was none */
	uint64_t commands;  /* of this host, begun since */
	uint64_t bytes;     /* of files, that the remote does not have; about */
	int64_t changed_ns; /* when the last of these files changed; 0: there are none */
	int64_t failed_ns;  /* 0: the last push by itself did not fail */
	char *why;          /* one line, as it was said */
};

void behind_clear(struct behind *behind);
#define _cleanup_behind_ _cleanup_(behind_clear)

/* index: NULL if commands are not to be counted. */
_must_check_ int behind_find(struct shfs_index *index, const struct place *place,
                             struct behind *out);

/* Notes that a push that began then came to its end. */
_must_check_ int behind_note_pushed(const struct place *place, int64_t begun_ns);
_must_check_ int behind_note_failed(const struct place *place, int64_t ns,
                                    const char *why);
/* Notes that pushes by themselves are considered now; and when that was. 0: never. */
_must_check_ int behind_note_automatic(struct shfs_store *store);
int64_t behind_automatic_ns(struct shfs_store *store);

/* Shows it in one line, without the name. */
void behind_show(struct shfs_buf *out, const struct behind *behind);
void behind_json(struct shfs_json *json, const struct behind *behind);
