/* SPDX-License-Identifier: MIT */
/*
 * facts.h - versions, accesses and whose they are, without a row of SQL for each answer:
 * the one way to them for all that does not ask in SQL.
 *
 * A single question is put to the index. A walk over the graph asks again and again, by a
 * struct shfs_facts: that puts each question to the index, too, but when there are so
 * many of them that this takes longer it has all of the index read at once, in the order
 * in which it lies, and kept in memory: about 80 bytes for each access.
 */
#pragma once

#include "store/index/index.h"
#include "store/objects/object.h"

/* --- what there is; 0 is NULL --- */

/*
 * A row of v_access, as it is stored. Times are microseconds: they are
 * compared with each other alone, and what is in the order of the journal has seq.
 */
struct shfs_access {
	int64_t access_id, seq;
	uint32_t op,
		flags; /* op 0: an open; else enum shfs_pathop (or what no view shows) */
	bool directory;
	bool flawed; /* seen was incomplete or not archived, as far as was known then */
	int64_t file_id, file2_id, text_id;
	int64_t begin_us, end_us;
	int64_t moment_us; /* of the boot: decides the command of a shell's own access */
	int64_t seen_n, made_n; /* seen: of file; made: of file2 where there is one */
	unsigned cut, torn; /* contents that limits or rules kept out; incomplete ones */
};

static inline bool shfs_access_is_written(const struct shfs_access *a)
{
	return a->op ? a->op == SHFS_OP_TRUNCATE : a->flags & SHFS_ACCESS_WRITTEN;
}

/* As v_access has it, whatever was recorded. */
static inline int64_t shfs_access_begin_ns(const struct shfs_access *a)
{
	return (int64_t)((uint64_t)a->begin_us * 1000);
}

static inline int64_t shfs_access_end_ns(const struct shfs_access *a)
{
	return (int64_t)((uint64_t)a->end_us * 1000);
}

/* How a version came to be. */
enum shfs_version_source {
	SHFS_SOURCE_WRITTEN = 1,
	SHFS_SOURCE_FOUND,
	SHFS_SOURCE_RENAMED,
	SHFS_SOURCE_LINKED,
	SHFS_SOURCE_CARRIED = 16, /* one of these, and came with the file by a rename;
	                           * apart in struct shfs_version_fact */
};

/* "written", "found", "renamed", "linked", as v_version has it; NULL: it is none. */
const char *shfs_version_source_name(enum shfs_version_source source);

/* A row of v_version. */
struct shfs_version_fact {
	int64_t version_id, file_id, n;
	int64_t origin_version_id, access_id, process_id, command_id;
	struct shfs_content content; /* object where flags have SHFS_CONTENT_OBJECT */
	int64_t time_ns;
	enum shfs_version_source source; /* without SHFS_SOURCE_CARRIED */
	bool carried;
};

struct shfs_file_fact {
	int64_t versions;
	int64_t last_ns; /* INT64_MIN: no later than its latest version */
	bool present, directory;
};

struct shfs_process_fact {
	int64_t process_id, program_id; /* as of shfs_facts_program */
	int64_t pid, ppid, start_ticks, first_ns;
};

/* Functions that are called for each of them; what they are given is borrowed for the
 * call, in which they may ask. Not 0 ends the walk, and is what that returns. */
typedef int (*shfs_access_fn)(const struct shfs_access *access, void *arg);
typedef int (*shfs_process_fn)(const struct shfs_process_fact *process, void *arg);
typedef int (*shfs_path_fn)(int64_t file_id, const char *path, void *arg);
typedef int (*shfs_id_fn)(int64_t id, void *arg); /* of a file or a version */

/* --- single questions --- */

/* The accesses that v_access has with this command_id; those of a process and of no
 * command; all of a process that is no shell. */
_must_check_ int shfs_accesses_of_command(struct shfs_index *index, int64_t command_id,
                                          shfs_access_fn fn, void *arg);
_must_check_ int shfs_accesses_of_nobody(struct shfs_index *index, int64_t process_id,
                                         shfs_access_fn fn, void *arg);
_must_check_ int shfs_accesses_of_process(struct shfs_index *index, int64_t process_id,
                                          shfs_access_fn fn, void *arg);

/* How many rows of v_access have one of these, which are sorted, as file_id or file2_id.
 */
_must_check_ int shfs_uses_count(struct shfs_index *index, const int64_t *file_ids,
                                 size_t n, int64_t *out);

/* The paths of files, whose ids are sorted; of those that there are. */
_must_check_ int shfs_paths_of(struct shfs_index *index, const int64_t *file_ids,
                               size_t n, shfs_path_fn fn, void *arg);

/* All of a version but its command_id: 1, 0: there is none, or a negative errno. */
_must_check_ int shfs_version_look(struct shfs_index *index, int64_t version_id,
                                   struct shfs_version_fact *out);
/* The command that an access belongs to; 0: none. */
_must_check_ int shfs_access_command(struct shfs_index *index, int64_t access_id,
                                     int64_t *command_id);

/* --- many questions --- */

struct shfs_facts;

_must_check_ int shfs_facts_new(struct shfs_index *index, struct shfs_facts **out);
void shfs_facts_free(struct shfs_facts *facts);

/* Has all of them read at once from now on, if that can be. */
_must_check_ int shfs_facts_load(struct shfs_facts *facts);

/* From hold to release, all is answered as it is in one moment, and quicker. */
_must_check_ int shfs_facts_hold(struct shfs_facts *facts);
void shfs_facts_release(struct shfs_facts *facts);

/* 1, 0: there is none, or a negative errno. Paths are to be freed. Of an access, only op,
 * flags, directory, file_id, file2_id, seen_n, made_n, seq, begin and end are told. */
_must_check_ int shfs_facts_version(struct shfs_facts *facts, int64_t version_id,
                                    struct shfs_version_fact *out);
_must_check_ int shfs_facts_path(struct shfs_facts *facts, int64_t file_id, char **out);
_must_check_ int shfs_facts_file(struct shfs_facts *facts, int64_t file_id,
                                 struct shfs_file_fact *out);
/* The files at an absolute path and below it, upwards. */
_must_check_ int shfs_facts_below(struct shfs_facts *facts, const char *path,
                                  shfs_id_fn fn, void *arg);
_must_check_ int shfs_facts_access(struct shfs_facts *facts, int64_t access_id,
                                   struct shfs_access *out);
/* Whose an access is; *command_id 0: of no command. */
_must_check_ int shfs_facts_owner(struct shfs_facts *facts, int64_t access_id,
                                  int64_t *command_id);
/* The program of a process, as a number, and what that stands for. */
_must_check_ int shfs_facts_program(struct shfs_facts *facts, int64_t process_id,
                                    int64_t *program_id);
_must_check_ int shfs_facts_exe(struct shfs_facts *facts, int64_t program_id, char **out);
/* Appends its arguments, a NUL between two. */
_must_check_ int shfs_facts_argv(struct shfs_facts *facts, int64_t process_id,
                                 struct shfs_buf *out);

/* By which a command last wrote the version, or moved it to where it is (file2), also
 * where that was the same content again. */
_must_check_ int shfs_facts_last_made(struct shfs_facts *facts, int64_t version_id,
                                      bool moved, struct shfs_access *out);

/* As the single questions. */
_must_check_ int shfs_facts_of_command(struct shfs_facts *facts, int64_t command_id,
                                       shfs_access_fn fn, void *arg);
_must_check_ int shfs_facts_of_nobody(struct shfs_facts *facts, int64_t process_id,
                                      shfs_access_fn fn, void *arg);
_must_check_ int shfs_facts_of_process(struct shfs_facts *facts, int64_t process_id,
                                       shfs_access_fn fn, void *arg);
_must_check_ int shfs_facts_opens_of_file(struct shfs_facts *facts, int64_t file_id,
                                          shfs_access_fn fn, void *arg);

/* The processes of a command, also those that did nothing to files. */
_must_check_ int shfs_facts_processes(struct shfs_facts *facts, int64_t command_id,
                                      shfs_process_fn fn, void *arg);

/* The versions with the same object, this one too; those that have it as their origin. */
_must_check_ int shfs_facts_same(struct shfs_facts *facts, int64_t version_id,
                                 shfs_id_fn fn, void *arg);
_must_check_ int shfs_facts_moved(struct shfs_facts *facts, int64_t version_id,
                                  shfs_id_fn fn, void *arg);
