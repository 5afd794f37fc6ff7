/* SPDX-License-Identifier: MIT */
/*
 * mirror.h - a mirror: an index whose rows come from a team's database (docs/team.md),
 * and not from a journal.
 *
 * It has the views of an index but for v_stats and v_left_out, and all questions of
 * facts.h can be asked of it. It lies in a directory of a store of its own. Rows are
 * written in one transaction, by one process at a time; others read what was there before
 * until it ends.
 */
#pragma once

#include "store/index/index.h"

/*
 * Opens the mirror in the store `at`, made if it is missing or of another version.
 * Contents are looked for in `store`. Both are borrowed; `at` can be closed before the
 * index is.
 */
_must_check_ int shfs_mirror_open(struct shfs_store *at, struct shfs_store *store,
                                  struct shfs_index **out);

/* Removes the mirror in a store. Who has it open goes on with what was there. */
_must_check_ int shfs_mirror_remove(struct shfs_store *at);
/* Removes the files of an index that is a mirror: true. It is only a copy. */
bool shfs_mirror_remove_damaged(struct shfs_index *index);

/*
 * A table: its key and its columns in the database, and how each is kept, a letter each:
 *   i  a number            I  the number of a row, of the store's own
 *   A  that of an access   V  that of a version
 *   t  a text              p  a path, absolute or not
 *   d  the directory of a path                    x  the path of a program
 *   s  paths with NULs between                    o  the name of an operation
 *   b  bytes as a text     B  bytes               -  not kept
 *   h  the id of a command or session             c  that of a content
 *   w  where a version is from
 *   H  the id of a command, or empty      P  an absolute path, or empty
 * The key is the first column.
 */
struct shfs_mirror_table {
	const char *name, *key, *columns, *kinds;
};
extern const struct shfs_mirror_table shfs_mirror_tables[]; /* ends with a NULL name */

/* A store of the database. Its numbers are below room. */
struct shfs_mirror_store {
	int64_t store_id, base, room;
	char *tree;   /* "": this one */
	char *mark;   /* what the database had of it when it was read last */
	char **roots; /* its projects, a NULL at the end; borrowed, only to add rows */
};
void shfs_mirror_store_clear(struct shfs_mirror_store *store);

struct shfs_mirror_piece {
	char name[16]; /* of a table */
	int64_t first, last, hash, rows;
};

/* Begins to write. Waits for another process that writes. */
_must_check_ int shfs_mirror_begin(struct shfs_index *mirror);
/* Ends that: all is there, or nothing. What was removed is in no file any more, unless
 * another process is reading the rows of before. */
_must_check_ int shfs_mirror_commit(struct shfs_index *mirror);
void shfs_mirror_rollback(struct shfs_index *mirror);
/* Within that: begins to write one store; ends it, and keeps all of that or nothing. */
_must_check_ int shfs_mirror_begin_store(struct shfs_index *mirror);
_must_check_ int shfs_mirror_end_store(struct shfs_index *mirror, bool keep);

/* Gets the stores, by their base; the caller frees them. */
_must_check_ int shfs_mirror_stores(struct shfs_index *mirror,
                                    struct shfs_mirror_store **out, size_t *n);
/* Is what there is of a store in pieces? 1; 0; -errno. */
_must_check_ int shfs_mirror_has_pieces(struct shfs_index *mirror, int64_t store_id);
/* Adds a store, or replaces its mark. */
_must_check_ int shfs_mirror_put_store(struct shfs_index *mirror,
                                       const struct shfs_mirror_store *store);
/* Removes a store's rows and pieces, and itself. */
_must_check_ int shfs_mirror_remove_store(struct shfs_index *mirror,
                                          const struct shfs_mirror_store *store);

/* Begins the list of the pieces that the database has of a store; adds one, if it is of
 * such a table. -EPROTO: it is beyond the store's room, or in the list already. */
_must_check_ int shfs_mirror_list(struct shfs_index *mirror);
_must_check_ int shfs_mirror_list_piece(struct shfs_index *mirror,
                                        const struct shfs_mirror_store *store,
                                        const struct shfs_mirror_piece *piece);
/* Removes the store's pieces that are not in the list, with their rows. */
_must_check_ int shfs_mirror_remove_unlisted(struct shfs_index *mirror,
                                             const struct shfs_mirror_store *store);
/* Takes the pieces of a table in the list that are not here yet. Calls fn, which adds
 * their rows, for the keys (of the database) of those in a row; what it returns but 0
 * ends that, and is returned. After shfs_mirror_remove_unlisted. */
_must_check_ int
shfs_mirror_take_listed(struct shfs_index *mirror, const struct shfs_mirror_store *store,
                        const struct shfs_mirror_table *table,
                        int (*fn)(void *arg, int64_t first, int64_t last), void *arg);

/* A value of a column; text is borrowed. */
struct shfs_mirror_value {
	bool is_null;
	int64_t n;
	const char *text;
	size_t len;
};

struct shfs_mirror_load;

/* Begins to add rows of a table. */
_must_check_ int shfs_mirror_load(struct shfs_index *mirror,
                                  const struct shfs_mirror_store *store,
                                  const struct shfs_mirror_table *table,
                                  struct shfs_mirror_load **out);
/* Adds a row, with a value for each letter of kinds. -ERANGE: a number is beyond the
 * store's room. -EPROTO: shfs publishes no such row, or it is there already. */
_must_check_ int shfs_mirror_add(struct shfs_mirror_load *load,
                                 const struct shfs_mirror_value *values);
void shfs_mirror_load_free(struct shfs_mirror_load *load);
static inline void shfs_mirror_load_freep(struct shfs_mirror_load **load)
{
	shfs_mirror_load_free(*load);
}
#define _cleanup_mirror_load_ _cleanup_(shfs_mirror_load_freep)
