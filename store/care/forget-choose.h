/* SPDX-License-Identifier: MIT */
/* forget-choose.h - between the parts of forget.h: what goes (forget-choose.c), and the
 * records that it was made of (forget.c). */
#pragma once

#include "store/care/forget-plan.h"

#include "store/index/internal.h"
#include "store/objects/objects.h"

struct shfs_forget {
	struct shfs_store *store; /* borrowed */
	char *hook_dir;
	struct forget_hold hold; /* not where it is only measured */
	struct shfs_draft *draft;
	struct shfs_index *index; /* of the draft */
	struct shfs_trace trace;

	/* Ids; sorted, once all are there. */
	struct shfs_ids commands, processes, accesses, versions, files;
	/* Keys of paths, and of contents at their paths, that go. */
	struct shfs_ids paths, contents;

	struct shfs_objects objects; /* that records which go or change had */
	struct shfs_ids known; /* keys of contents with one of these, in what stays */
	bool *named;           /* by what stays; one for each object */
	bool *changed;         /* one for each file of the trace */
	bool everywhere;       /* the same contents at other paths go, too */
	struct shfs_ids same;  /* versions that hold them, and stay */
	struct shfs_ids gone;  /* keys of objects that no version that stays has */
	size_t n_loose;        /* processes of no command */
};

/* Sets of numbers: of one that is sorted, each once. */
void forget_sort(struct shfs_ids *list);
bool forget_has(const struct shfs_ids *list, int64_t id);

int64_t forget_key_of_path(struct shfs_bytes path);
/* A content of a path: by its object; one without, by what else is known of it. */
int64_t forget_key_of_content(struct shfs_bytes path, const struct shfs_content *content);

int64_t forget_key_of_object(const struct shfs_object_id *object);

/* Adds to what is told all that goes with it, and sorts the lists. */
_must_check_ int forget_complete(struct shfs_forget *f);
