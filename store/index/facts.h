/* SPDX-License-Identifier: MIT */
/*
 * facts.h - what a walk over the graph asks again and again, without a row of SQL
 * for each answer: versions, accesses and whose they are.
 *
 * Each is looked up when it is asked for. Who asks for so many that this takes longer has
 * all of them read at once, in the order in which they lie, and kept in memory: about 80
 * bytes for each access of the index.
 */
#pragma once

#include "store/index/index.h"
#include "store/objects/object.h"

struct shfs_facts;

_must_check_ int shfs_facts_new(struct shfs_index *index, struct shfs_facts **out);
void shfs_facts_free(struct shfs_facts *facts);
/* As shfs_access_fn; of a file or a version. */
typedef int (*shfs_id_fn)(int64_t id, void *arg);

/* Has all of them read at once from now on, if that can be. */
_must_check_ int shfs_facts_load(struct shfs_facts *facts);

/* From hold to release, all is answered as it is in one moment, and quicker. */
_must_check_ int shfs_facts_hold(struct shfs_facts *facts);
void shfs_facts_release(struct shfs_facts *facts);

struct shfs_file_fact {
	int64_t versions;
	int64_t last_ns; /* INT64_MIN: no later than its latest version */
	bool present, directory;
};

/* 1, 0: there is none, or a negative errno. Paths are to be freed. Of an access, only op,
 * flags, directory, file_id, file2_id, seen_n, made_n, seq, begin and end are told. */
_must_check_ int shfs_facts_version(struct shfs_facts *facts, int64_t version_id,
                                    struct shfs_version_fact *out);
_must_check_ int shfs_facts_path(struct shfs_facts *facts, int64_t file_id, char **out);
_must_check_ int shfs_facts_file(struct shfs_facts *facts, int64_t file_id,
                                 struct shfs_file_fact *out);
/* Those at an absolute path and below it, upwards; fn may ask. */
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

/* As in index.h; fn may ask for other facts. */
_must_check_ int shfs_facts_of_command(struct shfs_facts *facts, int64_t command_id,
                                       shfs_access_fn fn, void *arg);
_must_check_ int shfs_facts_of_nobody(struct shfs_facts *facts, int64_t process_id,
                                      shfs_access_fn fn, void *arg);
_must_check_ int shfs_facts_of_process(struct shfs_facts *facts, int64_t process_id,
                                       shfs_access_fn fn, void *arg);
_must_check_ int shfs_facts_opens_of_file(struct shfs_facts *facts, int64_t file_id,
                                          shfs_access_fn fn, void *arg);

struct shfs_process_fact {
	int64_t process_id, program_id; /* as of shfs_facts_program */
	int64_t pid, ppid, start_ticks, first_ns;
};

/* As shfs_access_fn. */
typedef int (*shfs_process_fn)(const struct shfs_process_fact *process, void *arg);
/* Those of a command, also what did nothing to files. */
_must_check_ int shfs_facts_processes(struct shfs_facts *facts, int64_t command_id,
                                      shfs_process_fn fn, void *arg);

/* The versions with the same object, this one too; those that have it as their origin. */
_must_check_ int shfs_facts_same(struct shfs_facts *facts, int64_t version_id,
                                 shfs_id_fn fn, void *arg);
_must_check_ int shfs_facts_moved(struct shfs_facts *facts, int64_t version_id,
                                  shfs_id_fn fn, void *arg);
