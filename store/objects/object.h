/* SPDX-License-Identifier: MIT */
/*
 * object.h - the content-addressed part of the store: packs of objects, and large ones in
 * files of their own.
 *
 * An object is named by the XXH3-128 of its content (32 hex digits, then "-N" for the Nth
 * further content with the same hash). XXH3 can collide, so a put that finds its name
 * taken compares the bytes. A content that is similar to an earlier one is stored as a
 * delta of that. Layout of the files: docs/objects.md.
 *
 * Durability: shfs_object_put hashes and encodes (a large content into an unnamed file);
 * shfs_object_commit makes a batch durable and then visible: one append to this process'
 * pack and one fdatasync. An object that can be read is complete. Thread-safe: puts and
 * commits may run in parallel, also in several processes.
 */
#pragma once

#include "common/record.h"
#include "store/store.h"

#include <stdbool.h>

/* A content that was put and is not committed yet (or existed already). Borrows the
 * store. */
struct shfs_put;

/*
 * Puts len bytes (borrowed for the call): hashes them, looks for the same content in the
 * store, else encodes them. level: of zstd. before: the object of a content that is
 * probably similar (the file's content before), or NULL. -ENOSPC, -EIO, -ENOMEM and
 * errors of open(2).
 */
_must_check_ int shfs_object_put(struct shfs_store *store, const void *data, size_t len,
                                 int level, const struct shfs_object_id *before,
                                 struct shfs_put **out);

/* Prepares for puts, so that they need no system call that a sandbox may forbid. Without
 * it the first put does so. */
_must_check_ int shfs_object_begin(struct shfs_store *store);

/*
 * Makes all n durable and visible. Two puts of a batch with the same content become one
 * object. puts[i] keeps its id. On an error no object in a pack is visible; of the large
 * ones none, some or all are, and are complete. The puts can be committed again.
 */
_must_check_ int shfs_object_commit(struct shfs_store *store, struct shfs_put **puts,
                                    size_t n);

/* Returns the bytes that are kept for the next put: recent contents, and compressors. */
size_t shfs_object_memory(struct shfs_store *store);

/* Returns the id; valid once committed: in a collision the commit decides nth. */
struct shfs_object_id shfs_put_id(const struct shfs_put *put);
uint64_t shfs_put_stored_bytes(const struct shfs_put *put); /* 0 if it existed already */
/* Returns the memory that the put takes until it is committed. */
uint64_t shfs_put_memory(const struct shfs_put *put);
void shfs_put_free(struct shfs_put *put);

/*
 * Reads an object as a whole and checks its hash. -ENOENT; -ENODATA: it was pruned;
 * -EBADMSG: damaged (wrong header, size, frame or hash); -EFBIG: the size in its header
 * is above max_bytes (nothing allocated).
 */
_must_check_ int shfs_object_read(struct shfs_store *store,
                                  const struct shfs_object_id *id, uint64_t max_bytes,
                                  struct shfs_buf *out);

/* Writes an object to fd piece by piece, in bounded memory. The hash is known only at the
 * end: on -EBADMSG the caller must discard the written bytes. Errors as above. */
_must_check_ int shfs_object_copy(struct shfs_store *store,
                                  const struct shfs_object_id *id, int fd);

/* Is exactly this content in the store? 1 and *id, or 0. */
/* Sets the id that an object of these bytes has, unless contents collide. */
void shfs_object_id_of(const void *data, size_t len, struct shfs_object_id *id);
_must_check_ int shfs_object_find(struct shfs_store *store, const void *data, size_t len,
                                  struct shfs_object_id *id);

/* Makes the name: 32 hex digits, "-N" if nth is not 0, and a NUL. */
void shfs_object_name(const struct shfs_object_id *id, char out[static 44]);
_must_check_ int shfs_object_parse(const char *name, struct shfs_object_id *id);

#define SHFS_OBJECT_PARTIAL 768 /* bytes */
/* Makes the partial hash of a shfs_content: XXH3-64 of 256 bytes of fd at the start, the
 * middle and the end of size_bytes (of all bytes up to 768). */
_must_check_ int shfs_object_partial_hash(int fd, uint64_t size_bytes, uint64_t *out);
uint64_t shfs_object_partial_hash_mem(const void *data, size_t len);

/*
 * Sets phash and its flags, of content->size bytes of fd (of data). A phash of up to
 * whole_max bytes is of all of them. fd is read in pieces. -errno: the flags stay as they
 * are.
 */
_must_check_ int shfs_object_fingerprint(int fd, uint64_t whole_max,
                                         struct shfs_content *content);
void shfs_object_fingerprint_mem(const void *data, uint64_t whole_max,
                                 struct shfs_content *content);
/* Returns the whole_max for a phash of the same kind as that of a content with these
 * flags. */
uint64_t shfs_object_whole_max(uint32_t flags);

/* Returns the XXH3-64, for short names made from identities. */
uint64_t shfs_object_hash64(const void *data, size_t len);
