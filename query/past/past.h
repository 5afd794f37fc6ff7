/* SPDX-License-Identifier: MIT */
/*
 * past.h - the state of a tree before some changes: walks back through them, and finds
 * for each name that they touched which file it was before, and which one they left
 * there.
 *
 * A file is known by what happened to it: a rename back gives it its former name,
 * whatever it is called now. What nothing is known of is as it is now.
 */
#pragma once

#include "query/past/effects.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

enum shfs_past_change {
	SHFS_PAST_CONTENT = 1 << 0,
	SHFS_PAST_MODE = 1 << 1,
	SHFS_PAST_OWNER = 1 << 2,
	SHFS_PAST_TIME = 1 << 3,
	SHFS_PAST_XATTRS = 1 << 4,
	SHFS_PAST_ENTRIES = 1 << 5, /* what a directory holds */
};
#define SHFS_PAST_BITS     6
#define SHFS_PAST_BIT(bit) __builtin_ctz(bit)

struct shfs_past_entry;

/* An extended attribute as it was before. */
struct shfs_past_xattr {
	char *name, *value; /* value NULL: it was not there */
	size_t len;
	int64_t seq; /* of the change that did away with it */
};

/* A file of any type. */
struct shfs_past_file {
	struct shfs_past_file *same; /* it has turned out to be this one */
	struct shfs_past_file *next; /* of all */
	/* before; all of it counts for a file that was not left */
	uint32_t changed; /* enum shfs_past_change: what is not as before */
	uint32_t known;   /* likewise: which of these are known as they were */
	uint32_t mode;    /* with its type, which is 0 if not known */
	uint32_t uid, gid;
	int64_t mtime_ns;
	uint64_t rdev, links, dev, ino; /* 0: not known */
	char *text;                     /* of a symbolic link; NULL: not known */
	int64_t file_id, n;             /* its version; n 0: not known */
	struct shfs_past_xattr *xattrs;
	size_t n_xattrs;
	bool all_xattrs; /* it had no others */
	/* as the changes left it; of one that they have removed nothing */
	int64_t left_file_id, left_n; /* the version that they made; n 0: none */
	char *left_text;              /* of a link that they made */
	/* the changes of it */
	int64_t first_seq, last_seq, last_ns;
	int64_t touched_file_id; /* its path at the last one */
	int64_t born_ns;         /* made by a change at this time; 0: not (yet) */
	int64_t born_directory_mtime_ns;
	/* of the first changes of its attributes, by the numbers of their bits; of all
	 * xattrs at once */
	int64_t seqs[SHFS_PAST_BITS], all_xattrs_seq;
	int64_t written_mtime_ns; /* its time before the write at written_ns */
	int64_t written_ns;       /* when a process opened it that wrote to it; or 0 */
	bool writing;             /* a process was writing to it at since_ns */
	struct shfs_past_entry **then; /* the names that it has, in the walk */
	size_t n_then, cap_then;
	struct shfs_past_entry *left; /* a name that it was left with, or NULL */
	void *plan;                   /* of the caller */
	UT_hash_handle hh;            /* by dev and ino */
	uint64_t key[2];
};

/* A name in a directory. */
struct shfs_past_entry {
	struct shfs_past_file *directory;
	char *name;
	struct shfs_past_file *left, *then; /* NULL: nothing */
	int64_t first_seq, last_seq;        /* of the changes of the name */
	int64_t file_id;                    /* of a path that it had then */
	bool doubt;      /* what is recorded of it does not fit together */
	bool superseded; /* what was left at it gives way, though the added stay */
	struct shfs_past_entry *next;
	void *plan; /* of the caller */
	UT_hash_handle hh;
	size_t key_len;
	char key[];
};

struct shfs_past {
	int64_t since_ns; /* what an open made before that was there; 0: all changes count
	                   */
	struct shfs_past_file *root; /* the directory "/" */
	struct shfs_past_file *files, *numbers;
	struct shfs_past_entry *entries, *last, *table;
	struct shfs_past_file **born; /* that are to vanish at their born_ns */
	size_t n_born, cap_born;
	struct shfs_past_nameless *nameless;
	size_t n_nameless, cap_nameless;
};

/* Walks back through all effects, which are sorted. *past is {0} at first, but for
 * since_ns. */
_must_check_ int shfs_past_walk(struct shfs_past *past,
                                const struct shfs_effects *effects);
void shfs_past_clear(struct shfs_past *past);
#define _cleanup_past_ _cleanup_(shfs_past_clear)

/* The file that it is, after shfs_past_walk. NULL: NULL. */
struct shfs_past_file *shfs_past_real(struct shfs_past_file *file);

/* Makes file the one that the name is of, in the walk; NULL: it is of none. */
_must_check_ int shfs_past_set_then(struct shfs_past_entry *entry,
                                    struct shfs_past_file *file);
/* The entry of a name in a directory. *fresh: nothing was known of it, so it is new. */
_must_check_ int shfs_past_get_entry(struct shfs_past *past, struct shfs_past_file *dir,
                                     const char *name, size_t len,
                                     struct shfs_past_entry **out, bool *fresh);

/* An attribute of a file as it was; NULL: nothing is known of it, or it had others. */
const struct shfs_past_xattr *shfs_past_find_xattr(const struct shfs_past_file *file,
                                                   const char *name);
/* Notes that the file did not have the attribute. */
_must_check_ int shfs_past_no_xattr(struct shfs_past_file *file, const char *name);

/* Moves all that is known of them from another file. */
void shfs_past_take_xattrs(struct shfs_past_file *file, struct shfs_past_file *other);

/* Lets a file stay at the name that it was left with, in the place of the one that was
 * there: its content, mode and owner are to be the other's. */
void shfs_past_keep(struct shfs_past_file *file);

/* Lets a directory that the changes have made be the one that they have removed at its
 * name: as a place. */
_must_check_ int shfs_past_unite_directories(struct shfs_past *past);

/* Lets files stay that the changes have made, where nothing else was at their names;
 * those in a directory at whose name another one was move into that. */
_must_check_ int shfs_past_keep_added(struct shfs_past *past);

/* Both have turned out to be one file, f: of each attribute counts the first change. */
_must_check_ int shfs_past_unite(struct shfs_past *past, struct shfs_past_file *f,
                                 struct shfs_past_file *g);

/* Appends a sentence about what is not known (enum shfs_past_change): "not recorded: its
 * mode, its time". */
void shfs_past_show_unknown(struct shfs_buf *out, uint32_t unknown);

/* The paths of an entry: as it was left, before. Appends to out. False: its directory was
 * not there. */
bool shfs_past_path_left(const struct shfs_past_entry *entry, struct shfs_buf *out);
bool shfs_past_path_then(const struct shfs_past_entry *entry, struct shfs_buf *out);
