/* SPDX-License-Identifier: MIT */
/*
 * bundle.h - steps with all that they need, and what they have to make: a bundle, in one
 * of several forms.
 *
 * In the root of each is /.bundle: steps.sh runs the steps there, and SHA256SUMS has what
 * comes out.
 */
#pragma once

#include "query/bundle/closure.h"
#include "query/bundle/sink.h"
#include "query/export/export.h"

extern const struct shfs_export_format shfs_export_bundle, shfs_export_oci,
	shfs_export_dockerfile;

struct bundle_result {
	const struct shfs_workflow_file *file;
	char sha256[SHFS_SHA256_SIZE]; /* "": not known */
};

struct bundle {
	struct shfs_export *x;
	struct shfs_closure *closure;
	struct shfs_buf steps; /* the script that runs inside */
	struct bundle_result *results;
	size_t n_results, n_taken;
	int64_t mtime_ns; /* of what has no time of its own: when the last command began
	                   */
	int64_t uid;
	bool checks_inside; /* steps.sh compares the results */
	bool needs_cp, needs_rm;
};
#define _cleanup_bundle_ _cleanup_(bundle_clear)

/* Plans all of it, and names what is missing, before anything is written. *incomplete:
 * something is. An exit code after a message, or a negative errno. */
_must_check_ int bundle_plan(struct shfs_export *x, bool checks_inside, struct bundle *b,
                             bool *incomplete);
void bundle_clear(struct bundle *b);

enum bundle_part {
	BUNDLE_SYSTEM, /* what is of the machine */
	BUNDLE_REST,   /* the inputs, and /.bundle */
	BUNDLE_ALL,
};

/* Does a form take the file? */
typedef bool (*bundle_filter_fn)(void *arg, const struct shfs_closure_file *file);

/* Writes a part of the root; prefix: of all names ("root/", or ""). filter: NULL, or what
 * else decides. An exit code after a message, or 0. */
_must_check_ int bundle_write_root(const struct bundle *b, struct shfs_sink *sink,
                                   const char *prefix, enum bundle_part part,
                                   bundle_filter_fn filter, void *arg);
/* Says that the output cannot be written. An exit code. */
int bundle_fail(const struct bundle *b, int error);

/* A new directory that gets its name when it is complete. */
struct bundle_directory {
	int parent, fd;
	char *temporary, *name;
};
#define _cleanup_bundle_directory_ _cleanup_(bundle_directory_clear)
_must_check_ int bundle_directory_begin(const struct bundle *b,
                                        struct bundle_directory *d);
_must_check_ int bundle_directory_finish(const struct bundle *b,
                                         struct bundle_directory *d);
/* Removes what was not finished. */
void bundle_directory_clear(struct bundle_directory *d);

/* --- texts --- */

/* Adds the script that runs the steps inside: of the command of a step. */
_must_check_ int bundle_add_step(struct bundle *b, const struct shfs_step *step);
void bundle_begin_steps(struct bundle *b);
void bundle_end_steps(struct bundle *b);
/* Adds a source that a step takes between commands, from /.bundle/take/N. */
_must_check_ int bundle_add_take(struct bundle *b, const struct shfs_step *step);
/* The list for sha256sum -c. */
void bundle_add_sums(const struct bundle *b, struct shfs_buf *out);
void bundle_add_run(const struct bundle *b, struct shfs_buf *out);
/* how: how to run it, for a person. */
_must_check_ int bundle_add_readme(const struct bundle *b, const char *how,
                                   struct shfs_buf *out);
/* Adds the word, quoted for any POSIX shell. */
void bundle_quote(struct shfs_buf *out, const char *word);
