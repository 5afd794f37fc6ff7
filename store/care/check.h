/* SPDX-License-Identifier: MIT */
/*
 * check.h - does the store still hold what was written into it? Where not, what is wrong
 * at which byte of which file, and which versions are lost by it. repair.h mends.
 *
 * Others may record meanwhile: what is just being written is no flaw. Nobody can forget.
 */
#pragma once

#include "store/index/index.h"

enum shfs_flaw_kind {
	SHFS_FLAW_RECORD,   /* of the journal: bytes that are no records */
	SHFS_FLAW_SEGMENT,  /* a file of the journal of which nothing can be read */
	SHFS_FLAW_FRAME,    /* of a pack: bytes that are no frame */
	SHFS_FLAW_LOOKUP,   /* the index of a pack */
	SHFS_FLAW_CONTENT,  /* of an object: not what its name says */
	SHFS_FLAW_MISSING,  /* an object that the journal names */
	SHFS_FLAW_PRUNED,   /* the list of what was taken away on purpose */
	SHFS_FLAW_INDEX,    /* index.db */
	SHFS_FLAW_MODE,     /* others can read it */
	SHFS_FLAW_TORN,     /* the end of a file: a write that was cut short */
	SHFS_FLAW_UNCHECKED /* something that could not be looked at */
};

struct shfs_flaw {
	enum shfs_flaw_kind kind;
	bool harmless; /* nothing was lost by it; or that was told when it was repaired */
	char *file;    /* below the store */
	uint64_t offset, bytes; /* bytes 0: all of it. Of what is packed, unpacked ones */
	bool has_object;
	struct shfs_object_id object;
	char *text; /* more words, or NULL */
};

/* A version of which the content is lost. */
struct shfs_loss {
	char *path;
	uint64_t n;
	struct shfs_object_id object;
	bool known; /* since it was repaired */
};

struct shfs_check {
	struct shfs_flaw *flaws;
	size_t n_flaws, cap_flaws, n_harmless;
	struct shfs_loss *losses;
	size_t n_losses, n_known;
	uint64_t segments, hook_logs, records, packs, loose, objects, named;
	bool index_compared;
	uint64_t total_bytes,
		read_bytes;     /* of objects, as they are stored; read this time */
	uint64_t content_bytes; /* what these unpacked to */
	int64_t resumed_ns; /* when what is gone on with was begun; 0: it is a new one */
	bool failed;        /* no memory for a flaw */
};

struct shfs_check_options {
	bool read_data;       /* all of each object, and the index against the journal */
	bool alone;           /* the caller holds the store alone (repair.h) */
	bool restart;         /* not where an interrupted one was */
	unsigned part, parts; /* of the objects; 0, 0: all */
	void (*progress)(void *arg, uint64_t done, uint64_t total); /* bytes; or NULL */
	void *arg;
};

/* -EBUSY: something is taken out of the store. */
_must_check_ int shfs_check_run(struct shfs_store *store, const char *hook_dir,
                                const struct shfs_check_options *options,
                                struct shfs_check *out);
void shfs_check_free(struct shfs_check *check);
#define _cleanup_check_ _cleanup_(shfs_check_free)

/* "record", ...; static. */
const char *shfs_flaw_name(enum shfs_flaw_kind kind);

/* The last time that all data was read, and how far a later one is. */
struct shfs_check_history {
	int64_t full_ns; /* 0: never */
	uint64_t full_flaws;
	int64_t begun_ns; /* 0: none is interrupted */
};
_must_check_ int shfs_check_history(struct shfs_store *store,
                                    struct shfs_check_history *out);
