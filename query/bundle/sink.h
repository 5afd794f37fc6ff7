/* SPDX-License-Identifier: MIT */
/*
 * sink.h - where the files of a bundle go: a directory, or a tar.
 *
 * Names are relative. Directories come before what is in them. Each function returns a
 * negative errno: -ENOSPC and the like are of the output.
 */
#pragma once

#include "common/buf.h"
#include "query/base/sha256.h"

#include <sys/types.h>

struct archive;

struct shfs_sink {
	int dirfd;            /* the directory; -1: a tar */
	struct archive *tar;  /* NULL: a directory */
	const char *prefix;   /* of names in a tar, "bundle/"; "" */
	struct shfs_buf dirs; /* names of directories that were made, each with a NUL */
	int64_t mtime_ns;     /* of directories, links and texts */
	/* of a tar: where it is written to, its size so far and its hash */
	int fd;
	uint64_t size;
	struct shfs_sha256 *hash;
	int error; /* of writing to fd: a negative errno */
};

/* A directory that exists and is empty. */
void shfs_sink_begin_directory(struct shfs_sink *sink, int dirfd, int64_t mtime_ns);
/* A tar; libarchive is loaded. zstd: compressed. Borrows prefix. */
_must_check_ int shfs_sink_begin_tar(struct shfs_sink *sink, int fd, const char *prefix,
                                     bool zstd, int64_t mtime_ns);
_must_check_ int shfs_sink_directory(struct shfs_sink *sink, const char *name,
                                     mode_t mode);
_must_check_ int shfs_sink_link(struct shfs_sink *sink, const char *name,
                                const char *target);
/* A file with the first size bytes of fd, from where it stands. */
_must_check_ int shfs_sink_file(struct shfs_sink *sink, const char *name, mode_t mode,
                                int64_t mtime_ns, uint64_t size, int fd);
_must_check_ int shfs_sink_text(struct shfs_sink *sink, const char *name, mode_t mode,
                                const struct shfs_buf *text);
/* Completes it: a tar gets its end, directories their times. */
_must_check_ int shfs_sink_finish(struct shfs_sink *sink);
void shfs_sink_clear(struct shfs_sink *sink);
