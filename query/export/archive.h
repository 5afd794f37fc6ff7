/* SPDX-License-Identifier: MIT */
/*
 * archive.h - a store, or a part of one, as a tar archive: docs/archive.md. Only
 * query/export/archive.c uses libarchive.
 */
#pragma once

#include "query/base/cmd.h"

/* shfs export tar: writes everything about the files at or below these paths (n is 0:
 * about all files) to fd. with_data: takes along contents that were only fingerprinted
 * (raw.h). Returns an exit code; written: it is a whole archive, though contents that are
 * damaged in the store may be missing. */
int shfs_archive_write(struct shfs_context *ctx, int n, char **paths, bool with_data,
                       int fd, bool *written);
