/* SPDX-License-Identifier: MIT */
/*
 * forget.h - takes commands, accesses and versions out of the journal, and then the
 * objects that nothing names any more.
 *
 * Others may record meanwhile: docs/journal.md tells how. What goes is told by ids of an
 * index of its own, made of the whole journal, which knows what row each record led to.
 * Segments that change are written anew beside the old ones and a plan of all that is to
 * be done is made durable: that is the moment at which it is forgotten. The plan is then
 * carried out (by the next one, if this one is killed): the new segments take their
 * places, the commands in hook logs are overwritten, the index is made again, the objects
 * are removed. docs/journal.md, "Forgetting".
 */
#pragma once

#include "store/index/index.h"

struct shfs_forget;

/* Is there a plan that is not carried out? 1, 0, or a negative errno. */
_must_check_ int shfs_forget_pending(struct shfs_store *store);

/* Those that record into the store meanwhile. */
struct shfs_forget_beside {
	/* Each begins a new segment (shfs_capture_seal), whose name is appended, with a
	 * NUL. An error ends it, and is returned. */
	int (*seal)(void *arg, struct shfs_buf *segments);
	void *arg;
};

/*
 * Carries it out. -EBUSY: something in the store is in use, or is forgotten, now.
 * -EOPNOTSUPP: some record, into a store on a network. -EPROTONOSUPPORT: another shfs
 * wrote some of the journal.
 */
_must_check_ int shfs_forget_finish(struct shfs_store *store, const char *hook_dir,
                                    const struct shfs_forget_beside *beside);

/* beside: to forget, borrowed; NULL: only to measure. What happened until now goes. No
 * plan must be pending then. hook_dir as for shfs_index_ingest. Errors as above. */
_must_check_ int shfs_forget_open(struct shfs_store *store, const char *hook_dir,
                                  const struct shfs_forget_beside *beside,
                                  struct shfs_forget **out);
/* NULL is fine. */
void shfs_forget_close(struct shfs_forget *forget);

/* For the questions which tell what goes. Closed with it. */
struct shfs_index *shfs_forget_index(struct shfs_forget *forget);

enum shfs_forget_kind {
	SHFS_FORGET_COMMAND, /* with its processes, its accesses, the versions it made */
	SHFS_FORGET_PROCESS, /* one of no command, likewise; of a shell that is recorded
	                      * what it did for none */
	SHFS_FORGET_ACCESS,
	SHFS_FORGET_VERSION, /* what else was the same by a rename or link goes with it */
	SHFS_FORGET_FILE,    /* all versions and accesses of a path; what it was before it
	                      * was    renamed or linked to it */
};
_must_check_ int shfs_forget_add(struct shfs_forget *forget, enum shfs_forget_kind kind,
                                 int64_t id);

/* What holds the same content goes too, at whatever path; not where that is shorter than
 * 5 bytes. To be told before it is measured. */
void shfs_forget_everywhere(struct shfs_forget *forget);

struct shfs_forget_stats {
	uint64_t commands, processes; /* the latter: of no command */
	uint64_t accesses, versions;
	uint64_t elsewhere;      /* versions of the same contents, which stay */
	uint64_t objects, bytes; /* that nothing names any more; as they are stored */
};

/* Did nobody record when it was opened, who can be asked or holds a lock? */
bool shfs_forget_is_alone(const struct shfs_forget *forget);

/* What would go. Nothing is added behind it. -EINPROGRESS: some of it is in a segment
 * that may still be written, by somebody who cannot be asked. */
_must_check_ int shfs_forget_measure(struct shfs_forget *forget,
                                     struct shfs_forget_stats *out);

/* Once it is measured: the ids of the versions that hold the same contents, and stay. */
const int64_t *shfs_forget_elsewhere(const struct shfs_forget *forget, size_t *n);

/* Forgets what was measured, if it was opened for it. */
_must_check_ int shfs_forget_run(struct shfs_forget *forget);

/*
 * What stays, handed out instead: the files of a journal that holds nothing else, then
 * the objects that these name, each once. A segment is as shfs_rewrite makes it, a hook
 * log as it is, with blanks. Nothing of a segment of which no file is left. Stops where
 * one returns non-zero, and returns that.
 */
struct shfs_handed_out {
	int (*file)(const char *host, const char *name, const struct shfs_buf *bytes,
	            void *arg);
	int (*object)(const struct shfs_object_id *id, void *arg);
	/* behind a segment: its producer has not ended, as far as is known; or NULL */
	int (*alive)(const char *host, const char *name, void *arg);
	void *arg;
};
_must_check_ int shfs_forget_hand_out(struct shfs_forget *forget,
                                      const struct shfs_handed_out *to);
