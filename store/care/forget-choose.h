/* SPDX-License-Identifier: MIT */
/* forget-choose.h - shared by the parts of forget.h: forget-choose.c chooses the rows to
 * forget, forget.c finds the records that these were made of. */
#pragma once

#include "store/care/forget-plan.h"

#include "store/index/internal.h"
#include "store/objects/objects.h"

struct shfs_forget {
	struct shfs_store *store; /* borrowed */
	char *hook_dir;
	struct forget_hold hold; /* not held if it is only measured */
	struct shfs_draft *draft;
	struct shfs_index *index; /* of the draft */
	struct shfs_trace trace;
	struct shfs_trees *trees;

	/* Ids to forget; sorted, once all are there. */
	struct shfs_ids commands, processes, accesses, versions, files, programs, notes;
	/* Keys of paths, and of contents at their paths, to forget. */
	struct shfs_ids paths, contents;

	struct shfs_objects objects; /* of records that are removed or changed */
	struct shfs_ids known; /* keys of contents with these objects in other records */
	bool *named;           /* for each object: a record that stays names it */
	bool *changed;         /* for each file of the trace: it is written anew */
	bool everywhere;       /* forget the same contents at other paths, too */
	struct shfs_ids same;  /* versions with the same contents that stay */
	struct shfs_ids gone;  /* keys of objects that no remaining version has */
	size_t n_loose;        /* processes of no command */
};

/* Sets the paths that a record is about, as the index has them: those below the root
 * (empty: none; both may have failed). path2: of a rename, exchange or link. */
void forget_read_paths(const struct shfs_record *rec, struct shfs_bytes root,
                       struct shfs_buf *path, struct shfs_buf *path2);
static inline struct shfs_bytes forget_path_bytes(const struct shfs_buf *path)
{
	return (struct shfs_bytes){ path->data ? path->data : "", path->len };
}

int64_t forget_key_of_path(struct shfs_bytes path);
/* Returns a key for a content at a path, made of its object; without one, of its size and
 * mtime. */
int64_t forget_key_of_content(struct shfs_bytes path, const struct shfs_content *content);

int64_t forget_key_of_object(const struct shfs_object_id *object);

/* Adds all rows that belong to the given ones, and sorts the lists. */
_must_check_ int forget_complete(struct shfs_forget *f);
