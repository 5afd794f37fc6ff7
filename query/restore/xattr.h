/* SPDX-License-Identifier: MIT */
/* xattr.h - copies extended attributes, including POSIX ACLs, from one file to
 * another. */
#pragma once

#include "common/buf.h"

/*
 * Gives the new file `to` the extended attributes of the file `from` (which may be an
 * O_PATH fd), and no other access ACL than that file has. Set the mode afterwards: it
 * depends on the ACL. Appends the quoted names of those that could not be copied, and
 * why, to left.
 *
 * Attributes that belong to one content only are not copied: security.capability, which
 * is like a set-id bit, security.ima and security.evm. Nor are those by which overlayfs
 * knows its layers (user.overlay.*). -errno: the attributes cannot be
 * listed.
 */
_must_check_ int shfs_xattr_copy(int from, int to, struct shfs_buf *left);
