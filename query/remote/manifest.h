/* SPDX-License-Identifier: MIT */
/*
 * manifest.h - which files a store has on a remote, and where their bytes are: a head,
 * and the lists that it names. docs/remotes.md has the layout. One thread.
 *
 * A file is cut into pieces of 4 MiB. A piece is a blob, or lies in a parcel, a blob that
 * holds many small files.
 */
#pragma once

#include "query/remote/names.h"

#include "common/buf.h"

#define PIECE_BYTES (4u << 20)   /* of a file, but for its last piece */
#define SMALL_BYTES (256u << 10) /* a file of up to so many is put into a parcel */
#define HEAD_MAX    (1u << 20)
#define LIST_MAX    (16u << 20)

struct piece {
	char sha[SHFS_SHA256_SIZE];  /* of its bytes */
	char blob[SHFS_SHA256_SIZE]; /* the blob that has them; "": not put yet */
	uint32_t at, bytes;          /* in the blob */
};

/* By what a file here is known to be unchanged. */
struct file_state {
	uint64_t bytes, ino;
	int64_t mtime_ns, ctime_ns;
};
struct stat;
struct file_state file_state_of(const struct stat *st);

struct remote_file {
	char *name; /* names.h */
	uint64_t bytes;
	struct piece *pieces;
	size_t n, cap;
	struct file_state state; /* 0: not known; not on the remote */
	bool stays;              /* it is only on the remote (elsewhere.h) */
};

struct list_ref {
	char sha[SHFS_SHA256_SIZE], blob[SHFS_SHA256_SIZE];
	uint32_t bytes;
};

struct remote_head {
	char store_id[STORE_ID_SIZE]; /* the id of the store (store/trees.h) */
	char host[65];                /* of the machine that pushed it */
	uint64_t generation;          /* 1, 2, ... */
	uint64_t rewrites; /* grows when records are changed or removed: by a forget */
	int64_t time_ns;
};

/* Initialised by zeros. */
struct manifest {
	struct remote_head head;
	struct list_ref *lists;
	size_t n_lists, cap_lists;
	struct remote_file *files; /* sorted by name, but while they are added */
	size_t n, cap;
};

void manifest_clear(struct manifest *m);
#define _cleanup_manifest_ _cleanup_(manifest_clear)

/* Adds a file without pieces; NULL: no memory. Valid until the next one is added. */
struct remote_file *manifest_add(struct manifest *m, const char *name, uint64_t bytes);
/* Adds a file with the name and the pieces of another one. NULL: no memory. */
struct remote_file *manifest_add_copy(struct manifest *m, const struct remote_file *from);
_must_check_ int manifest_add_piece(struct remote_file *file, const struct piece *piece);
void manifest_sort(struct manifest *m);
/* NULL: there is no such file. The manifest is sorted. */
struct remote_file *manifest_find(const struct manifest *m, const char *name);
/* Have two files the same bytes? */
bool remote_file_equal(const struct remote_file *a, const struct remote_file *b);
/* Sets the pieces of a file to those of another one. */
_must_check_ int remote_file_copy_pieces(struct remote_file *to,
                                         const struct remote_file *from);

/* --- heads --- */

void head_print(const struct manifest *m, struct shfs_buf *out);
/* Parses a head: *out has the head and its lists. -EBADMSG: it is damaged;
 * -EPROTONOSUPPORT: a newer shfs wrote it. */
_must_check_ int head_parse(const char *text, size_t len, struct manifest *out);

/* --- lists --- */

/* Prints the files from *next on as one list, and moves *next behind them. What follows a
 * changed file goes into the same lists as before, mostly. */
void list_print(const struct manifest *m, size_t *next, struct shfs_buf *out);
/* Adds the files of a list. Errors as above. */
_must_check_ int list_parse(const char *text, size_t len, struct manifest *m);

/* --- all of it, in a file here --- */

/* Also with the state of each file. */
void manifest_print(const struct manifest *m, struct shfs_buf *out);
_must_check_ int manifest_parse(const char *text, size_t len, struct manifest *out);
