/* SPDX-License-Identifier: MIT */
/*
 * effects.h - the changes that commands or processes made, in the order of the journal,
 * with what each of them did away with.
 */
#pragma once

#include "common/record.h"
#include "store/index/index.h"

struct shfs_effect {
	int64_t seq, access_id, command_id, process_id;
	int64_t begin_ns, end_ns; /* of a change of a name both are its time */
	unsigned op;              /* enum shfs_pathop; 0: a file was written */
	uint32_t flags;           /* enum shfs_access_flags */
	bool directory;
	char *path, *path2; /* path2: another path, or a text; NULL: none */
	int64_t file_id, file2_id;
	int64_t seen_n, made_n;
	int64_t former_n, former_file_id; /* as in v_former; 0: the path's */
	struct shfs_former former;
	char *data; /* owns the texts of former */
};

struct shfs_effects {
	struct shfs_effect *list;
	size_t n, cap;
};

/* Each adds the changes of a command, of a process. Sort them once all are added. */
_must_check_ int shfs_effects_add_command(struct shfs_effects *effects,
                                          struct shfs_index *index, int64_t command_id);
_must_check_ int shfs_effects_add_process(struct shfs_effects *effects,
                                          struct shfs_index *index, int64_t process_id);
/* Adds all changes since that time of files at path or below it. */
_must_check_ int shfs_effects_add_since(struct shfs_effects *effects,
                                        struct shfs_index *index, const char *path,
                                        int64_t since_ns);
/*
 * The same, and what is needed to know how path was at that time: also the changes of
 * what has moved into it or out of it since, and contents that were found changed later
 * (as writes by nobody). Sorts them.
 */
_must_check_ int shfs_effects_add_tree(struct shfs_effects *effects,
                                       struct shfs_index *index, const char *path,
                                       int64_t since_ns);
void shfs_effects_sort(struct shfs_effects *effects);

/* Keeps those for which keep returns true. */
void shfs_effects_filter(struct shfs_effects *effects,
                         bool (*keep)(const struct shfs_effect *effect, void *arg),
                         void *arg);
void shfs_effects_clear(struct shfs_effects *effects);
#define _cleanup_effects_ _cleanup_(shfs_effects_clear)
