/* SPDX-License-Identifier: MIT */
/*
 * check-objects.h - what the files of the check share that look at objects.
 *
 *     check-objects.c   all files below objects/, and the threads that take one by one
 *     check-pack.c      a pack: its frames, what lies between them, its index
 *     check-contents.c  what is in its frames
 */
#pragma once

#include "store/care/index-check.h"
#include "store/objects/content.h"

#include <pthread.h>

#define CHECK_WINDOW_BYTES (4u << 20)

/* A frame, or a loose object. */
struct found {
	struct shfs_object_id id, base;
	uint32_t offset; /* of a frame */
	bool delta;
	bool read;     /* what is in it */
	uint8_t state; /* with what it is a delta of; LOST from the begin: it is not what
	                  its name says */
};
enum { UNKNOWN, ASKED, GOOD, LOST };

struct found_list {
	struct found *list;
	size_t n, cap;
};
_must_check_ int found_add(struct found_list *list, const struct found *found);

/* A file to be looked at. */
struct unit {
	char *name; /* below objects/ */
	uint64_t bytes;
	bool pack, done;
	bool read; /* all of it, now */
};

struct scan {
	struct check_run *run;
	int packs_fd;
	pthread_mutex_t large; /* held by who unpacks large contents; taken before lock */
	pthread_mutex_t lock;  /* of all below, and of run->out */
	struct unit *units;    /* by name */
	size_t n, cap, next, settled;
	struct found_list found;
	int64_t saved_ns;
	int error;
};

/* What one thread has. */
struct reader {
	struct scan *scan;
	unsigned char *window; /* of the file that is read */
	size_t len;
	uint64_t base;
	unsigned char *frame; /* one out of order: room for FRAME_MAX */
};

/* A pack. */
struct walk {
	struct reader *rd;
	struct unit *unit;
	int fd;
	uint64_t size;
	struct found_list frames; /* in order */
	uint64_t content_bytes;
	struct span {
		uint64_t from, to;
	} * gaps;
	size_t n_gaps;
	bool flawed;
	/* its index, as it was before */
	int index_fd; /* or an error */
	struct pack_index index;
};

/* bytes 0: the whole file. */
void _printf_(7, 8)
	check_unit_flaw(struct scan *s, const struct unit *unit, enum shfs_flaw_kind kind,
                        uint64_t offset, uint64_t bytes,
                        const struct shfs_object_id *object, const char *text, ...);

/* An error that tells of this process, and not of what it reads. */
bool check_is_ours(int error);

/* 1: there is a flaw. */
_must_check_ int check_pack(struct reader *rd, struct unit *unit);

/* Up to need bytes at offset, from the window of the reader. What cannot be read are
 * zeros. */
_must_check_ ssize_t check_get(struct walk *w, uint64_t offset, size_t need,
                               unsigned char **out);

/* For pieces; arg is the struct object_hash. */
int check_hash_piece(void *arg, const void *data, size_t len);

/* Unpacks all frames. */
_must_check_ int check_contents(struct walk *w);
