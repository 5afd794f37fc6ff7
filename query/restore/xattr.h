/* SPDX-License-Identifier: MIT */
/* xattr.h - extended attributes, of which POSIX ACLs are some, from one file to another.
 */
#pragma once

#include "common/buf.h"

/*
 * Gives the new file `to` the extended attributes of the file `from` (an O_PATH fd will
 * do), and no other access ACL than that file has. Set the mode afterwards: it depends on
 * the ACL. Appends the quoted names of those that could not be copied to left, and why.
 *
 * Left out are those that are for one content alone, and that the kernel or nobody could
 * keep when it changes: security.capability, which is as good as a set-id bit,
 * security.ima and security.evm. -errno: the attributes cannot be listed.
 */
_must_check_ int shfs_xattr_copy(int from, int to, struct shfs_buf *left);
