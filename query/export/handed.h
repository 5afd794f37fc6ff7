/* SPDX-License-Identifier: MIT */
/*
 * handed.h - what steps hand on in files outside of the project, where each step runs
 * apart from the others (CWL), and which steps must not run at the same time because of
 * such a file.
 */
#pragma once

#include "query/rerun/workflow.h"

/* A file outside as the step leaves it for others. */
struct shfs_handed_file {
	const struct shfs_step *from;
	const char *path; /* borrowed from a step */
};
/* The step finds the file so. */
struct shfs_handed_use {
	const struct shfs_step *to;
	size_t file; /* index */
};
struct shfs_handed_order {
	const struct shfs_step *from, *to;
};

struct shfs_handed {
	struct shfs_handed_file *files;
	size_t n_files, cap_files;
	struct shfs_handed_use *uses;
	size_t n_uses, cap_uses;
	struct shfs_handed_order *orders; /* besides those that uses tell */
	size_t n_orders, cap_orders;
};

/* The steps have an order already. A step gets the file from the last of those that left
 * it, and each of these from the one before it. */
_must_check_ int shfs_handed_find(const struct shfs_workflow *wf,
                                  struct shfs_handed *out);
void shfs_handed_clear(struct shfs_handed *handed);

/* Does the step get such a file, or leave one for another step? */
bool shfs_handed_has(const struct shfs_handed *handed, const struct shfs_step *step);
