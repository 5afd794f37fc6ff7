/* SPDX-License-Identifier: MIT */
/* packages.h - which packages of dpkg the system's files of a bundle are of. */
#pragma once

#include "query/bundle/closure.h"

struct bundle_packages {
	struct shfs_names names; /* "coreutils=9.1-1", sorted */
	struct owned_path *owned;
};
#define _cleanup_packages_ _cleanup_(bundle_packages_clear)

/* Reads dpkg's lists. Without dpkg there are none. */
_must_check_ int bundle_packages_find(const struct shfs_closure *c,
                                      struct bundle_packages *out);
/* Does one of them have the file, or link? */
bool bundle_packages_own(const struct bundle_packages *p, const char *path);
void bundle_packages_clear(struct bundle_packages *p);
