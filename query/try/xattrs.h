/* SPDX-License-Identifier: MIT */
/*
 * xattrs.h - the extended attributes in which two files differ, ACLs among them. Those of
 * overlayfs itself, and of the system (security.*), do not count.
 */
#pragma once

#include <stddef.h>

struct shfs_xattr_difference {
	const char *name;
	const void *now, *then; /* the values; NULL: not there */
	size_t now_len, then_len;
};

/* Calls differs for each; stops where that returns something else than 0, and returns it.
 * now, then: paths whose links are followed; then NULL: it has none. */
int shfs_xattrs_compare(const char *now, const char *then,
                        int (*differs)(const struct shfs_xattr_difference *d, void *arg),
                        void *arg);
