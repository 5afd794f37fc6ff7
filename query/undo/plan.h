/* SPDX-License-Identifier: MIT */
/*
 * plan.h - what is to be done to put back what some commands did, and nothing else.
 *
 * Changes that hang together (names of one file, renames, a name that another file took)
 * are a group: all of it is put back or nothing. A group is left alone where others have
 * changed something of it since (a conflict), or where something cannot be put back.
 */
#pragma once

#include "common/ids.h"
#include "query/base/model.h"
#include "query/past/past.h"

#include <sys/stat.h>

/* Names that files have for a moment while something is undone begin with this. */

struct shfs_undo_options {
	bool merge, git, force;
	bool stay;    /* names that were added stay */
	char **paths; /* only what lies there; absolute */
	size_t n_paths;
};

enum shfs_undo_verdict {
	SHFS_UNDO_NOTE,     /* all but a part of it is put back */
	SHFS_UNDO_CONFLICT, /* others have changed it */
	SHFS_UNDO_CANNOT,   /* it cannot be put back */
};

/* Why something is left alone. */
struct shfs_undo_reason {
	enum shfs_undo_verdict verdict;
	size_t group;
	char *path, *why;
	int64_t command_id, process_id; /* who changed it; 0: not known */
};

/* A file (shfs_past_file.plan). */
struct shfs_undo_file {
	size_t group;
	char *path;      /* a name that it has now, or NULL */
	char *then_path; /* a name that it had before, or NULL */
	bool there;      /* it is at path, and st is its status */
	struct stat st;
	bool make;      /* it is to be made, as there is none */
	uint32_t todo;  /* enum shfs_past_change: of one that is there */
	bool already;   /* its content is as before */
	bool merge;     /* its content is to be merged */
	bool empty;     /* its content before was empty */
	bool now_known; /* now is the object of what it holds */
	struct shfs_object_id now;
	uint32_t others; /* enum shfs_past_change: what others have changed since */
	bool between;    /* they changed it before the last change, too */
	int64_t other_command_id, other_process_id;
	bool left_known; /* the attributes that the commands left, if others changed them
	                  */
	uint32_t left_mode, left_uid, left_gid;
	int64_t left_mtime_ns;
	struct shfs_past_xattr *left_xattrs; /* likewise */
	size_t n_left_xattrs;
	bool xattrs_lost;                 /* not all that they left is known */
	struct shfs_version before, left; /* version_id 0: not known */
	struct shfs_buf merged;
	char *other_name; /* of one that was not left: a name that it has kept, the path
	                   */
	struct shfs_past_file *root; /* the project that it was found in */
	/* while the steps are arranged */
	const struct shfs_past_entry *placed; /* the name that it has got back */
	char kept[40];        /* with other_name: a name in the root; or "" */
	const char *order;    /* borrowed: a path to sort by */
	bool opened;          /* its mode is to be set again */
	bool guarded;         /* a directory: going back sets its time again */
	int64_t own_mtime_ns; /* a directory: to be set again; or 0 */
};

/* A name (shfs_past_entry.plan). */
struct shfs_undo_entry {
	size_t group;
	char *path, *then_path; /* NULL: its directory is not there, was not there */
	bool change;
	bool adopt; /* a directory is there again already */
	/* while the steps are arranged */
	char aside[40]; /* the name that the file at it has for a moment; or "" */
	bool moved;     /* that has got its former name back */
};

struct shfs_undo_plan {
	struct shfs_store *store;
	struct shfs_index *index;
	const struct shfs_config *config;
	const struct shfs_undo_options *options;
	struct shfs_past past;
	const struct shfs_ids *selected; /* commands, or processes; sorted */
	bool by_process;
	bool all;       /* all changes since past.since_ns: there are no others */
	size_t *groups; /* the parent of each, by number */
	bool *blocked, *wanted;
	size_t n_groups, cap_groups;
	struct shfs_undo_reason *reasons;
	size_t n_reasons, cap_reasons;
};

/* Is it an effect that may be put back: here, and not left to git? git: also in .git, but
 * for its contents: those that nothing names do no harm, and are not archived. */
bool shfs_undo_may_touch(const struct shfs_effect *effect, bool git);

/* Makes the plan for effects, which are sorted. *plan is set up to all, and
 * past.since_ns. */
_must_check_ int shfs_undo_plan(struct shfs_undo_plan *plan,
                                const struct shfs_effects *effects);
void shfs_undo_plan_clear(struct shfs_undo_plan *plan);
#define _cleanup_undo_plan_ _cleanup_(shfs_undo_plan_clear)

/* Says why something is left alone, and leaves its group alone (but for a NOTE). by:
 * whose others did it; or NULL. */
_must_check_ int shfs_undo_add_reason(struct shfs_undo_plan *plan,
                                      enum shfs_undo_verdict verdict, size_t group,
                                      const char *path, const char *why,
                                      const struct shfs_undo_file *by);

/* Makes a group a part of another one. */
void shfs_undo_move_group(struct shfs_undo_plan *plan, size_t group, size_t to);

/* Is the group asked for? */
bool shfs_undo_is_wanted(const struct shfs_undo_plan *plan, size_t group);
/* Is it put back? */
bool shfs_undo_is_done(const struct shfs_undo_plan *plan, size_t group);

static inline struct shfs_undo_file *shfs_undo_file(const struct shfs_past_file *file)
{
	return file ? file->plan : NULL;
}

static inline struct shfs_undo_entry *shfs_undo_entry(const struct shfs_past_entry *entry)
{
	return entry->plan;
}
