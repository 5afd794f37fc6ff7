/* SPDX-License-Identifier: MIT */
/*
 * backend.h - one interface to what keeps the blobs of a remote: a directory, a host with
 * sftp, an object store. A backend knows names and bytes, and nothing of shfs.
 *
 * A name is a path without "." and "..", of letters, digits, "-", "_" and "/". What has a
 * name is complete, and never changes until it is removed: a put either gives the name to
 * all bytes, durably, or does nothing. So no backend needs locks. What changes, a head,
 * has a name that ends in a number, and its next state is put under the next number: of
 * two writers one gets -EEXIST.
 *
 * All functions return 0 or a negative errno. An error that another try may not have is
 * tried again by the backend itself. shfs_remote_why has what the other side said. One
 * thread.
 */
#pragma once

#include "common/buf.h"
#include "query/base/sha256.h"

#include <stdbool.h>

#define SHFS_REMOTE_GET_MAX (64u << 20) /* bytes that are got at once */

struct shfs_remote;

/* Called for each name, with the bytes that it has. Non-zero ends the listing. */
typedef int (*shfs_remote_fn)(void *arg, const char *name, uint64_t bytes);

/* A kind of remote. All but open are called with what open made. */
struct shfs_backend {
	const char *scheme; /* "ssh://"; "": a path */
	/* Opens it. Nothing needs to be there. why: as struct shfs_remote. */
	int (*open)(const char *url, struct shfs_buf *why, struct shfs_remote **out);
	void (*close)(struct shfs_remote *remote);
	/* Lists all names below a directory of names, in any order. A listing may be
	 * late: a name that was put a moment ago may be missing. */
	int (*list)(struct shfs_remote *remote, const char *dir, shfs_remote_fn fn,
	            void *arg);
	/* Appends up to len bytes from offset on; fewer only at the end. -ENOENT. */
	int (*get)(struct shfs_remote *remote, const char *name, uint64_t offset,
	           size_t len, struct shfs_buf *out);
	/* Puts len bytes, if there is nothing of that name. -EEXIST. */
	int (*put)(struct shfs_remote *remote, const char *name, const void *data,
	           size_t len);
	/* -ENOENT. */
	int (*stat)(struct shfs_remote *remote, const char *name, uint64_t *bytes);
	/* Removes the name; it may have none. */
	int (*remove)(struct shfs_remote *remote, const char *name);
	/* Removes what puts below a directory of names have left that were cut short, if
	 * there can be such; or NULL. Nothing may be put there meanwhile. */
	int (*sweep)(struct shfs_remote *remote, const char *dir);
	/* As shfs_remote_name_blob, if names of blobs do not tell what is in them; else
	 * NULL. */
	void (*name_blob)(const struct shfs_remote *remote, const char *store_id,
	                  const char *sha, char out[static SHFS_SHA256_SIZE]);
};

extern const struct shfs_backend shfs_backend_directory;
extern const struct shfs_backend shfs_backend_ssh;
extern const struct shfs_backend shfs_backend_s3;

/* What all kinds have. A kind has this as its first member. */
struct shfs_remote {
	const struct shfs_backend *kind;
	struct shfs_buf why; /* a text of the other side about the last error; or empty */
	uint64_t rate;       /* bytes for a second; 0: any number */
	int64_t ready_ns;    /* when the rate allows more (CLOCK_MONOTONIC) */
	uint64_t requests, sent_bytes, got_bytes;
};

/* Can there be a remote at this URL? A path becomes absolute: *out, malloc'ed. -EINVAL;
 * -EPROTONOSUPPORT: it is of no kind that there is. */
_must_check_ int shfs_remote_url(const char *url, char **out);

/* Opens the remote at a URL as shfs_remote_url has made it. *why, if not NULL, gets what
 * the other side says of an error; the caller frees it. */
_must_check_ int shfs_remote_open(const char *url, struct shfs_buf *why,
                                  struct shfs_remote **out);
void shfs_remote_close(struct shfs_remote *remote);
static inline void shfs_remote_closep(struct shfs_remote **remote)
{
	shfs_remote_close(*remote);
}
#define _cleanup_remote_ _cleanup_(shfs_remote_closep)

/* What the other side said of the last error; "": nothing. Bytes of a stranger. */
const char *shfs_remote_why(const struct shfs_remote *remote);

/* As the functions of struct shfs_backend. */
_must_check_ int shfs_remote_list(struct shfs_remote *remote, const char *dir,
                                  shfs_remote_fn fn, void *arg);
_must_check_ int shfs_remote_get(struct shfs_remote *remote, const char *name,
                                 uint64_t offset, size_t len, struct shfs_buf *out);
_must_check_ int shfs_remote_put(struct shfs_remote *remote, const char *name,
                                 const void *data, size_t len);
_must_check_ int shfs_remote_stat(struct shfs_remote *remote, const char *name,
                                  uint64_t *bytes);
_must_check_ int shfs_remote_remove(struct shfs_remote *remote, const char *name);
_must_check_ int shfs_remote_sweep(struct shfs_remote *remote, const char *dir);

/* Gets the name that a blob of that SHA-256 has here among those of a store (names.h).
 * The same bytes always have the same name. */
void shfs_remote_name_blob(const struct shfs_remote *remote, const char *store_id,
                           const char *sha, char out[static SHFS_SHA256_SIZE]);
