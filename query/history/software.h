/* SPDX-License-Identifier: MIT */
/*
 * software.h - which software a command used, and in which environment.
 */
#pragma once

#include "query/base/model.h"

/* A program that was executed, or a script that a package has. */
struct shfs_used_program {
	char *path;
	char *manager, *package, *version; /* "": no package is known */
	int64_t size, mtime_ns;
	uint64_t phash; /* 0: not known */
};

struct shfs_software {
	struct shfs_used_program *programs; /* each path once, as they came */
	size_t n_programs;
	char **variables; /* NAME=VALUE, sorted, of all its programs together */
	size_t n_variables;
	bool has_environment; /* it is known of one of them */
};

/* Loads what is known of a command, or of a process of no command. The shell and its
 * forks do not count: what they export meanwhile is not seen. */
_must_check_ int shfs_software_load(struct shfs_index *index, bool is_process, int64_t id,
                                    struct shfs_software *out);
void shfs_software_clear(struct shfs_software *software);
#define _cleanup_software_ _cleanup_(shfs_software_clear)

/* Do both hold the same software? Where no package is known, only if the file was not
 * touched: programs that were compiled again mostly have the same fingerprint. */
bool shfs_used_program_equals(const struct shfs_used_program *a,
                              const struct shfs_used_program *b);

/* Shows "samtools 1.17 (conda)"; without a package what the file is, if full is set. */
void shfs_used_program_show(struct shfs_buf *out, const struct shfs_used_program *program,
                            bool full);

/* Members software and environment: see docs/json.md. */
void shfs_software_json(struct shfs_json *json, const struct shfs_software *software);
