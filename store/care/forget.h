/* SPDX-License-Identifier: MIT */
/*
 * forget.h - forgets: removes commands, accesses and versions from the journal, and then
 * the objects that no record names any more.
 *
 * 1. An index of its own (the draft) is made of the whole journal; it knows the row that
 *    each record led to. The caller chooses ids of this index.
 * 2. Segments that change are written anew, beside the old ones.
 * 3. A plan of all that is left to do is made durable: from then on it is forgotten.
 * 4. The plan is carried out, by the next shfs forget if this one is killed: the new
 *    segments replace the old ones, the commands in hook logs are overwritten, the index
 * is made again, the objects are removed.
 *
 * Others may record meanwhile: docs/journal.md, "Forgetting".
 */
#pragma once

#include "store/index/index.h"

struct shfs_forget;

/* Is there a plan that was not carried out? 1, 0, or a negative errno. */
_must_check_ int shfs_forget_pending(struct shfs_store *store);

/* How to reach the producers that record into the store meanwhile. */
struct shfs_forget_beside {
	/* Has each producer begin a new segment (shfs_capture_seal), and appends its
	 * name, with a NUL. An error ends forgetting, and is returned. */
	int (*seal)(void *arg, struct shfs_buf *segments);
	void *arg;
};

/*
 * Carries a pending plan out. -EBUSY: something in the store is in use, or is being
 * forgotten. -EOPNOTSUPP: producers record into a store on a network. -EPROTONOSUPPORT:
 * another version of shfs wrote some of the journal.
 */
_must_check_ int shfs_forget_finish(struct shfs_store *store, const char *hook_dir,
                                    const struct shfs_forget_beside *beside);

/* Opens. beside: to forget, borrowed; NULL: only to measure. Only records written so far
 * can be forgotten. To forget, no plan may be pending. hook_dir as for shfs_index_ingest.
 * Errors as above. */
_must_check_ int shfs_forget_open(struct shfs_store *store, const char *hook_dir,
                                  const struct shfs_forget_beside *beside,
                                  struct shfs_forget **out);
/* NULL is fine. */
void shfs_forget_close(struct shfs_forget *forget);

/* Returns the index in which the caller chooses ids; borrowed. */
struct shfs_index *shfs_forget_index(struct shfs_forget *forget);

enum shfs_forget_kind {
	SHFS_FORGET_COMMAND, /* with its processes, its accesses, the versions it made */
	SHFS_FORGET_PROCESS, /* of no command, likewise; of a recorded shell only what it
	                      * did outside of commands */
	SHFS_FORGET_ACCESS,
	SHFS_FORGET_VERSION, /* with those that have its content by a rename or link */
	SHFS_FORGET_NOTE,    /* one record of v_note_record */
	SHFS_FORGET_FILE, /* all versions and accesses of a path, and what it was before
	                   * it was renamed or linked to that path */
};
_must_check_ int shfs_forget_add(struct shfs_forget *forget, enum shfs_forget_kind kind,
                                 int64_t id);

/* Has versions with the same contents at other paths forgotten, too, unless they are
 * shorter than 5 bytes. Called before shfs_forget_measure. */
void shfs_forget_everywhere(struct shfs_forget *forget);

struct shfs_forget_stats {
	uint64_t commands, processes; /* processes of no command */
	uint64_t accesses, versions;
	uint64_t notes;          /* records of notes and tags */
	uint64_t elsewhere;      /* versions of the same contents, which stay */
	uint64_t objects, bytes; /* objects that nothing names any more; stored bytes */
};

/* Was there no producer, that can be asked or holds a lock, when it was opened? */
bool shfs_forget_is_alone(const struct shfs_forget *forget);

/* Measures what would be forgotten; nothing may be added afterwards. -EINPROGRESS: some
 * of it is in a segment that may still be written, by a producer that cannot be asked. */
_must_check_ int shfs_forget_measure(struct shfs_forget *forget,
                                     struct shfs_forget_stats *out);

/* Returns, once it is measured, the ids of versions with the same contents that stay. */
const int64_t *shfs_forget_elsewhere(const struct shfs_forget *forget, size_t *n);

/* Forgets what was measured, if it was opened to forget. */
_must_check_ int shfs_forget_run(struct shfs_forget *forget);

/*
 * Hands out what stays, instead of forgetting: the files of a journal that holds nothing
 * else, then the objects that these name, each once. A segment is as shfs_rewrite makes
 * it, a hook log as it is, with blanks. A segment without records of files or notes is
 * left out. Stops when a function returns non-zero, and returns that.
 */
struct shfs_handed_out {
	int (*file)(const char *host, const char *name, const struct shfs_buf *bytes,
	            void *arg);
	/* called with all objects before the first of them is handed out; or NULL */
	void (*objects)(const struct shfs_object_id *ids, size_t n, void *arg);
	int (*object)(const struct shfs_object_id *id, void *arg);
	/* called for each content of a record, with the paths that the record is about as
	 * the index has them (path2: or empty); it may give the content an object. Or
	 * NULL */
	void (*content)(struct shfs_bytes path, struct shfs_bytes path2,
	                struct shfs_content *content, void *arg);
	/* called after a segment whose producer is not known to have ended; or NULL */
	int (*alive)(const char *host, const char *name, void *arg);
	void *arg;
};
_must_check_ int shfs_forget_hand_out(struct shfs_forget *forget,
                                      const struct shfs_handed_out *to);
