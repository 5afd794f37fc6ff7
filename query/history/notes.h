/* SPDX-License-Identifier: MIT */
/*
 * notes.h - the note and the tags that users have given to a command, or to a version of
 * a file (`shfs note`).
 */
#pragma once

#include "query/base/json.h"
#include "query/base/model.h"

struct shfs_notes {
	char *text; /* of the note; NULL: there is none */
	char **tags;
	size_t n_tags, cap;
	int64_t time_ns; /* of the latest of these */
};

/* Loads them; *out is all 0 if there are none. The caller clears it. A negative errno. */
_must_check_ int shfs_notes_of_command(struct shfs_index *index,
                                       const struct shfs_command_row *command,
                                       struct shfs_notes *out);
_must_check_ int shfs_notes_of_version(struct shfs_index *index,
                                       const struct shfs_version *version,
                                       struct shfs_notes *out);
/* Finds the number of the version that a note is about; 0: it is not there any more. */
_must_check_ int shfs_notes_find_version(struct shfs_index *index, const char *path,
                                         int64_t time_ns, int64_t *n);
void shfs_notes_clear(struct shfs_notes *notes);
#define _cleanup_notes_ _cleanup_(shfs_notes_clear)

static inline bool shfs_notes_any(const struct shfs_notes *notes)
{
	return notes->text || notes->n_tags;
}

/* Adds a row of v_note: its tag and its text. -ENOMEM. */
_must_check_ int shfs_notes_add(struct shfs_notes *notes, const char *tag,
                                const char *text, int64_t time_ns);

/* Shows "#draft #fig2  first line of the text…", in so many columns. */
void shfs_notes_show(struct shfs_buf *out, const struct shfs_style *style,
                     const struct shfs_notes *notes, size_t columns);
/* Shows all lines of the text, each behind the indent; tags in a line before it. */
void shfs_notes_show_all(struct shfs_buf *out, const struct shfs_style *style,
                         const struct shfs_notes *notes, const char *indent);

/* Members: note, tags. */
void shfs_notes_json(struct shfs_json *json, const struct shfs_notes *notes);
