/* SPDX-License-Identifier: MIT */
/*
 * archive.h - a store, or a part of one, as a tar archive: docs/archive.md. libarchive
 * lives behind this header.
 */
#pragma once

#include "query/base/cmd.h"

/* shfs export tar: what the store knows of the files at or below these paths (n is 0: all
 * that it has), to fd. An exit code; written: it is a whole archive, though contents that
 * are damaged in the store may be missing. */
int shfs_archive_write(struct shfs_context *ctx, int n, char **paths, int fd,
                       bool *written);
