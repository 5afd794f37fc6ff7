/* SPDX-License-Identifier: MIT */
/*
 * check-objects.h - shared by the files that check objects.
 *
 *     check-objects.c   all files below objects/, and the threads that take one by one
 *     check-pack.c      a pack: its frames, the gaps between them, its index
 *     check-contents.c  the contents of its frames
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
	uint32_t member; /* of a solid frame: the number of the content */
	bool delta, solid;
	bool read;     /* the content was read */
	uint8_t state; /* including its bases; LOST from the begin: the content is not
	                  that of its name */
};
enum { UNKNOWN, ASKED, GOOD, LOST };

struct found_list {
	struct found *list;
	size_t n, cap;
};
_must_check_ int found_add(struct found_list *list, const struct found *found);

/* A file to be checked. */
struct unit {
	char *name; /* below objects/ */
	uint64_t bytes;
	bool pack, done;
	bool read; /* all of it is read by this check */
};

struct scan {
	struct check_run *run;
	int packs_fd;
	pthread_mutex_t large; /* held to unpack a large content; taken before lock */
	pthread_mutex_t lock;  /* guards all below, and run->out */
	struct unit *units;    /* sorted by name */
	size_t n, cap, next, settled;
	struct found_list found;
	int64_t saved_ns;
	int error;
};

/* The buffers of one thread. */
struct reader {
	struct scan *scan;
	unsigned char *window; /* of the file that is read */
	size_t len;
	uint64_t base;
	unsigned char *frame; /* FRAME_MAX bytes, for a frame that is read out of order */
};

/* A pack that is checked. */
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
	/* its index, as it was before the frames were read */
	int index_fd; /* or an error */
	struct pack_index index;
};

/* Reports a flaw of a file. bytes 0: the whole file. */
void _printf_(7, 8)
	check_unit_flaw(struct scan *s, const struct unit *unit, enum shfs_flaw_kind kind,
                        uint64_t offset, uint64_t bytes,
                        const struct shfs_object_id *object, const char *text, ...);

/* Is this an error of our process (such as no memory), not of the file that it reads? */
bool check_is_ours(int error);

/* Checks a pack. 1: there is a flaw. */
_must_check_ int check_pack(struct reader *rd, struct unit *unit);

/* Gets up to need bytes at offset, from the window of the reader. Bytes that cannot be
 * read are zeros. */
_must_check_ ssize_t check_get(struct walk *w, uint64_t offset, size_t need,
                               unsigned char **out);

/* Adds a piece to the hash; arg is the struct object_hash. */
int check_hash_piece(void *arg, const void *data, size_t len);

/* Unpacks and checks all frames. */
_must_check_ int check_contents(struct walk *w);
