/* SPDX-License-Identifier: MIT */
/*
 * package.h - finds the package that a program's file belongs to, and its version.
 *
 * Reads the package managers' own files and starts no process: dpkg's lists, conda-meta,
 * the *.dist-info of Python packages, package.json of npm, DESCRIPTION of R. They may be
 * forged by whoever can write there: what is found are texts to show, no more.
 */
#pragma once

#include "common/buf.h"

struct shfs_store;

/* How files are reached. Those below root are opened from root_fd, as a mount must not
 * ask itself; root_fd -1: by their paths. */
struct shfs_reach {
	const char *root; /* absolute */
	int root_fd;
	const char *dpkg;               /* dpkg's directory; NULL: /var/lib/dpkg */
	const struct shfs_store *store; /* keeps what dpkg's lists said; may be NULL */
};

/* Opens an absolute path. Links that lead from below root to elsewhere are not followed.
 */
_must_check_ int shfs_reach_open(const struct shfs_reach *reach, const char *path,
                                 int flags);

/* A file, and the package that has it. */
struct shfs_package {
	char *path;          /* absolute, links resolved; given */
	const char *manager; /* "dpkg", "conda", "venv", "pip", "npm", "R"; NULL: none has
	                        it */
	char *name, *version;
};
void shfs_package_clear(struct shfs_package *package);

/* Finds the packages of n files: dpkg's lists are read once for all of them. What cannot
 * be read is not there. */
void shfs_packages_find(const struct shfs_reach *reach, struct shfs_package *list,
                        size_t n);
