/* SPDX-License-Identifier: MIT */
/* attributes.h - sets attributes of a file without following links. */
#pragma once

#include "common/record.h"

enum shfs_attribute {
	SHFS_ATTRIBUTE_MODE = 1 << 0,
	SHFS_ATTRIBUTE_OWNER = 1 << 1,
	SHFS_ATTRIBUTE_TIME = 1 << 2,
};

struct shfs_attributes {
	uint32_t mode, uid, gid;
	int64_t mtime_ns;
};

/*
 * Sets some of them (what: enum shfs_attribute) of the file name in a directory. Set-id
 * bits of files are never set, and an owner that may not be given is left.
 */
_must_check_ int shfs_attributes_set(int dirfd, const char *name, uint32_t what,
                                     struct shfs_attributes attributes);

/* Sets an extended attribute; value.data NULL: removes it. One that is not the user's to
 * set is left. */
_must_check_ int shfs_attributes_set_xattr(int dirfd, const char *name, const char *xattr,
                                           struct shfs_bytes value);

/* Sets all that is known of what a file was; -ENOENT: it is not there. */
_must_check_ int shfs_attributes_put_back(const char *path,
                                          const struct shfs_former *former);
