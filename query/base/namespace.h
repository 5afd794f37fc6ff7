/* SPDX-License-Identifier: MIT */
/*
 * namespace.h - mounts that only a command and its children see.
 *
 * Root makes a mount namespace. A user makes a user namespace around it, in which he may
 * mount; his ids are there what they were, and no others can be mapped without
 * privileges. So what belongs to others belongs to nobody there.
 */
#pragma once

#include "common/util.h"

#include <stdbool.h>

/* Enters new namespaces; the caller has one thread. more: CLONE_NEW* flags besides. No
 * mount made from here on is seen outside. -errno. */
_must_check_ int shfs_namespace_enter(int more);

/* Says that namespaces cannot be made, and what may forbid them. An exit code. */
int shfs_namespace_fail(int r);

/* Lets programs that are executed from here on keep the capability to mount, or not. */
void shfs_namespace_pass_mounting(bool pass);

/* Gives up the user's privileges in his namespace: programs that are executed have none.
 * Those of root are left alone. */
void shfs_namespace_drop_privileges(void);
