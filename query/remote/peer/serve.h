/* SPDX-License-Identifier: MIT */
/*
 * serve.h - gives this store to another host, which takes it as from a remote.
 *
 * The store is listed as by a push, but nothing is put anywhere: pieces are read when
 * they are asked for, while nothing is moved or removed in the store. First the answering
 * side says SERVE_GREETING. Then, until its input ends, each line is a request:
 *
 *     list DIR                  ok BYTES, and lines "BYTES NAME"
 *     get NAME OFFSET BYTES     ok BYTES, and so many bytes; fewer only at the end
 *
 * or the answer is "no ERROR": ENOENT, EAGAIN (a file got another name meanwhile: begin
 * anew), or another one. Names are those of a remote (docs/remotes.md).
 */
#pragma once

#include "query/remote/place.h"
#include "store/index/index.h"

#define SERVE_GREETING   "shfs serve 1\n"
#define SERVE_LINE_MAX   400
#define SERVE_SILENCE_MS 300000 /* then the other side is believed to be gone */

/* Serves until in ends. The lock of places is held. Errors as push_run; -ETIMEDOUT;
 * -EPROTO: the other side asks for what there is not. */
_must_check_ int serve_run(struct shfs_index *index, struct place *place, int in,
                           int out);
