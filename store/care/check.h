/* SPDX-License-Identifier: MIT */
/*
 * check.h - checks whether the store still holds all that was written into it. Reports
 * each flaw with its file and offset, and the versions that are lost by it. repair.h
 * mends.
 *
 * Others may record meanwhile: a write that is under way is no flaw. Nobody can forget.
 */
#pragma once

#include "store/index/index.h"

enum shfs_flaw_kind {
	SHFS_FLAW_RECORD,   /* bytes of the journal that are no records */
	SHFS_FLAW_SEGMENT,  /* a file of the journal of which nothing can be read */
	SHFS_FLAW_FRAME,    /* bytes of a pack that are no frame */
	SHFS_FLAW_LOOKUP,   /* the index of a pack */
	SHFS_FLAW_CONTENT,  /* an object whose content is not that of its name */
	SHFS_FLAW_MISSING,  /* a missing object that the journal names */
	SHFS_FLAW_PRUNED,   /* the list of pruned objects */
	SHFS_FLAW_AWAY,     /* the list of objects that only a remote has */
	SHFS_FLAW_TREES,    /* the list of records of other machines */
	SHFS_FLAW_INDEX,    /* index.db */
	SHFS_FLAW_MODE,     /* a file that other users can read */
	SHFS_FLAW_TORN,     /* the end of a file: a write that was cut short */
	SHFS_FLAW_UNCHECKED /* something that could not be looked at */
};

struct shfs_flaw {
	enum shfs_flaw_kind kind;
	bool harmless; /* nothing was lost by it; or a repair has reported the loss */
	char *file;    /* below the store */
	uint64_t offset,
		bytes; /* bytes 0: the whole file. Of a sealed segment: unpacked */
	bool has_object;
	struct shfs_object_id object;
	char *text; /* a further explanation, or NULL */
};

/* A version whose content is lost. */
struct shfs_loss {
	char *path;
	uint64_t n;
	struct shfs_object_id object;
	bool known; /* a repair has reported it */
};

struct shfs_check {
	struct shfs_flaw *flaws;
	size_t n_flaws, cap_flaws, n_harmless;
	struct shfs_loss *losses;
	size_t n_losses, n_known;
	uint64_t segments, hook_logs, records, packs, loose, objects, named;
	uint64_t away; /* named objects that only a remote has */
	bool index_compared;
	uint64_t total_bytes,
		read_bytes;     /* of objects, as they are stored; read this time */
	uint64_t content_bytes; /* unpacked bytes of these */
	int64_t resumed_ns; /* begin of the interrupted check that goes on; 0: a new one
	                     */
	bool failed;        /* no memory for a flaw */
};

struct shfs_check_options {
	bool read_data;       /* all of each object, and the index against the journal */
	bool alone;           /* the caller holds the store alone (repair.h) */
	bool restart;         /* do not go on with an interrupted check */
	unsigned part, parts; /* check only a part of the objects; 0, 0: all */
	void (*progress)(void *arg, uint64_t done, uint64_t total); /* bytes; or NULL */
	void *arg;
};

/* Checks the store. -EBUSY: something is being removed from the store. */
_must_check_ int shfs_check_run(struct shfs_store *store, const char *hook_dir,
                                const struct shfs_check_options *options,
                                struct shfs_check *out);
void shfs_check_free(struct shfs_check *check);
#define _cleanup_check_ _cleanup_(shfs_check_free)

/* Returns the name of a kind: "record", ...; static. */
const char *shfs_flaw_name(enum shfs_flaw_kind kind);

/* The last check that has read all data, and one that was interrupted. */
struct shfs_check_history {
	int64_t full_ns; /* 0: never */
	uint64_t full_flaws;
	int64_t begun_ns; /* 0: none is interrupted */
};
_must_check_ int shfs_check_history(struct shfs_store *store,
                                    struct shfs_check_history *out);
