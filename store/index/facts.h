/* SPDX-License-Identifier: MIT */
/*
 * facts.h - looks up versions, accesses and their owners without SQL queries of the
 * caller.
 *
 * A single question is one query of the index. A walk over the graph asks again and
 * again, by a struct shfs_facts. Once it has asked so often that reading all would have
 * been faster, the whole index is read at once and kept in memory: about 65 bytes for
 * each access.
 */
#pragma once

#include "store/index/index.h"
#include "store/objects/object.h"

/* --- rows; 0 is NULL --- */

/*
 * A row of v_access, as it is stored. Times are microseconds, only for comparison with
 * each other; seq is the order of the journal.
 */
struct shfs_access {
	int64_t access_id, seq;
	uint32_t op,
		flags; /* op 0: an open; else enum shfs_pathop (or SHFS_OP_PREIMAGE) */
	bool directory;
	bool flawed; /* seen was incomplete or not archived, as was known then */
	int64_t file_id, file2_id, text_id;
	int64_t begin_us, end_us;
	int64_t moment_us; /* of the boot: decides the command of a shell's own access */
	int64_t seen_n, made_n; /* seen: of file; made: of file2 where there is one */
	unsigned cut, torn;     /* number of contents left out; of incomplete ones */
};

static inline bool shfs_access_is_written(const struct shfs_access *a)
{
	return a->op ? a->op == SHFS_OP_TRUNCATE : a->flags & SHFS_ACCESS_WRITTEN;
}

/* Returns the begin as v_access has it, in nanoseconds. */
static inline int64_t shfs_access_begin_ns(const struct shfs_access *a)
{
	return (int64_t)((uint64_t)a->begin_us * 1000);
}

static inline int64_t shfs_access_end_ns(const struct shfs_access *a)
{
	return (int64_t)((uint64_t)a->end_us * 1000);
}

/* Does a file or link that nothing watches hold what it held then? Its size and mtime are
 * the same, and what was hashed; or all of it was hashed: a link, a small file. */
bool shfs_content_is_unchanged(const struct shfs_content *then,
                               const struct shfs_content *now);

/* How a version came to be. */
enum shfs_version_source {
	SHFS_SOURCE_WRITTEN = 1,
	SHFS_SOURCE_FOUND,
	SHFS_SOURCE_RENAMED,
	SHFS_SOURCE_LINKED,
	/* added; fields of their own in struct shfs_version_fact: */
	SHFS_SOURCE_CARRIED = 16, /* it came with the file by a rename */
	SHFS_SOURCE_AGAIN = 32,   /* another access wrote or moved the same bytes there */
};

/* Returns "written", "found", "renamed" or "linked", as v_version has it; NULL: it is no
 * source. */
const char *shfs_version_source_name(enum shfs_version_source source);

/* A row of v_version. */
struct shfs_version_fact {
	int64_t version_id, file_id, n;
	int64_t origin_version_id, access_id, process_id, command_id;
	struct shfs_content content; /* object is set if flags have SHFS_CONTENT_OBJECT */
	int64_t time_ns;
	enum shfs_version_source source; /* without what is added */
	bool carried;
	/* It may be by another access, too. false: it is not, but for the move that
	 * carried it, and for what was written through another name of the file. */
	bool again;
};

struct shfs_file_fact {
	int64_t versions;
	int64_t last_ns; /* INT64_MIN: the time of its latest version */
	bool present, directory;
};

struct shfs_process_fact {
	int64_t process_id, program_id; /* as of shfs_facts_program */
	int64_t streams_id;             /* as program_id; 0: not known */
	int64_t pid, ppid, start_ticks, first_ns;
	bool outside; /* its words may name files outside of the project */
};

/* Functions that are called for each row, which is borrowed for the call. They may ask
 * questions. A non-zero result ends the walk, and is returned. */
typedef int (*shfs_access_fn)(const struct shfs_access *access, void *arg);
typedef int (*shfs_process_fn)(const struct shfs_process_fact *process, void *arg);
typedef int (*shfs_path_fn)(int64_t file_id, const char *path, void *arg);
typedef int (*shfs_id_fn)(int64_t id, void *arg); /* of a file or a version */

/* --- single questions --- */

/* Call fn for the accesses of a command (as in v_access), for those of a process and of
 * no command, and for all of a process that is no shell. */
_must_check_ int shfs_accesses_of_command(struct shfs_index *index, int64_t command_id,
                                          shfs_access_fn fn, void *arg);
_must_check_ int shfs_accesses_of_nobody(struct shfs_index *index, int64_t process_id,
                                         shfs_access_fn fn, void *arg);
_must_check_ int shfs_accesses_of_process(struct shfs_index *index, int64_t process_id,
                                          shfs_access_fn fn, void *arg);

/* Counts the rows of v_access with one of these ids, which are sorted, as file_id or
 * file2_id. */
_must_check_ int shfs_uses_count(struct shfs_index *index, const int64_t *file_ids,
                                 size_t n, int64_t *out);

/* Calls fn for the paths of files, whose ids are sorted; missing files are left out. */
_must_check_ int shfs_paths_of(struct shfs_index *index, const int64_t *file_ids,
                               size_t n, shfs_path_fn fn, void *arg);

/* Gets a version, without its command_id: 1; 0: there is none; or a negative errno. */
_must_check_ int shfs_version_look(struct shfs_index *index, int64_t version_id,
                                   struct shfs_version_fact *out);
/* Gets the command that an access belongs to; 0: none. */
_must_check_ int shfs_access_command(struct shfs_index *index, int64_t access_id,
                                     int64_t *command_id);

/* --- many questions --- */

struct shfs_facts;

_must_check_ int shfs_facts_new(struct shfs_index *index, struct shfs_facts **out);
void shfs_facts_free(struct shfs_facts *facts);

/* Has the whole index read at once from now on, if that is possible. */
_must_check_ int shfs_facts_load(struct shfs_facts *facts);

/* From hold to release, all answers are of the same state of the index, and faster. */
_must_check_ int shfs_facts_hold(struct shfs_facts *facts);
void shfs_facts_release(struct shfs_facts *facts);

/* These return 1; 0: there is none; or a negative errno. Paths are malloc'ed. Of an
 * access, only op, flags, directory, file_id, file2_id, seen_n, made_n, seq, begin and
 * end are set.
 */
_must_check_ int shfs_facts_version(struct shfs_facts *facts, int64_t version_id,
                                    struct shfs_version_fact *out);
_must_check_ int shfs_facts_path(struct shfs_facts *facts, int64_t file_id, char **out);
/* As shfs_facts_path, but appends the path. */
_must_check_ int shfs_facts_add_path(struct shfs_facts *facts, int64_t file_id,
                                     struct shfs_buf *out);
_must_check_ int shfs_facts_file(struct shfs_facts *facts, int64_t file_id,
                                 struct shfs_file_fact *out);
/* Calls fn for the files at an absolute path and below it, in ascending order. */
_must_check_ int shfs_facts_below(struct shfs_facts *facts, const char *path,
                                  shfs_id_fn fn, void *arg);
_must_check_ int shfs_facts_access(struct shfs_facts *facts, int64_t access_id,
                                   struct shfs_access *out);
/* Gets the command of an access; *command_id 0: none. */
_must_check_ int shfs_facts_owner(struct shfs_facts *facts, int64_t access_id,
                                  int64_t *command_id);
/* Get the program of a process as a number, and the name of that number. */
_must_check_ int shfs_facts_program(struct shfs_facts *facts, int64_t process_id,
                                    int64_t *program_id);
_must_check_ int shfs_facts_exe(struct shfs_facts *facts, int64_t program_id, char **out);
/* Appends a text by its number, as a streams_id. */
_must_check_ int shfs_facts_string(struct shfs_facts *facts, int64_t string_id,
                                   struct shfs_buf *out);
/* Appends its arguments, a NUL between two. */
_must_check_ int shfs_facts_argv(struct shfs_facts *facts, int64_t process_id,
                                 struct shfs_buf *out);

/* Gets the access of a command that last wrote the version, or moved it to its path
 * (file2), also if the content stayed the same. */
_must_check_ int shfs_facts_last_made(struct shfs_facts *facts, int64_t version_id,
                                      bool moved, struct shfs_access *out);

/* As the single questions above. */
_must_check_ int shfs_facts_of_command(struct shfs_facts *facts, int64_t command_id,
                                       shfs_access_fn fn, void *arg);
_must_check_ int shfs_facts_of_nobody(struct shfs_facts *facts, int64_t process_id,
                                      shfs_access_fn fn, void *arg);
_must_check_ int shfs_facts_of_process(struct shfs_facts *facts, int64_t process_id,
                                       shfs_access_fn fn, void *arg);
_must_check_ int shfs_facts_opens_of_file(struct shfs_facts *facts, int64_t file_id,
                                          shfs_access_fn fn, void *arg);

/* Calls fn for the processes of a command, also for those without accesses. */
_must_check_ int shfs_facts_processes(struct shfs_facts *facts, int64_t command_id,
                                      shfs_process_fn fn, void *arg);

/* Call fn for the versions with the same object, this one included; for those that have
 * it as their origin. */
_must_check_ int shfs_facts_same(struct shfs_facts *facts, int64_t version_id,
                                 shfs_id_fn fn, void *arg);
_must_check_ int shfs_facts_moved(struct shfs_facts *facts, int64_t version_id,
                                  shfs_id_fn fn, void *arg);
