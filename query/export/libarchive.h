/* SPDX-License-Identifier: MIT */
/*
 * libarchive.h - libarchive, loaded when it is needed first (query/base/library.h). It
 * brings libxml2, ICU and the C++ runtime, which take longer to load than all others
 * together.
 */
#pragma once

#include "query/base/cmd.h"
#include "query/base/library.h"

#include <archive.h>
#include <archive_entry.h>

#define SHFS_LIBARCHIVE_FUNCTIONS(F)                                                     \
	F(archive_entry_filetype)                                                        \
	F(archive_entry_free)                                                            \
	F(archive_entry_hardlink)                                                        \
	F(archive_entry_is_encrypted)                                                    \
	F(archive_entry_new)                                                             \
	F(archive_entry_pathname)                                                        \
	F(archive_entry_set_filetype)                                                    \
	F(archive_entry_set_pathname)                                                    \
	F(archive_entry_set_mtime)                                                       \
	F(archive_entry_set_perm)                                                        \
	F(archive_entry_set_size)                                                        \
	F(archive_entry_set_symlink)                                                     \
	F(archive_entry_size)                                                            \
	F(archive_errno)                                                                 \
	F(archive_error_string)                                                          \
	F(archive_filter_bytes)                                                          \
	F(archive_read_data_block)                                                       \
	F(archive_read_free)                                                             \
	F(archive_read_new)                                                              \
	F(archive_read_next_header)                                                      \
	F(archive_read_open_fd)                                                          \
	F(archive_read_open_filename)                                                    \
	F(archive_read_support_filter_gzip)                                              \
	F(archive_read_support_filter_xz)                                                \
	F(archive_read_support_filter_zstd)                                              \
	F(archive_read_support_format_tar)                                               \
	F(archive_write_add_filter_zstd)                                                 \
	F(archive_write_close)                                                           \
	F(archive_write_data)                                                            \
	F(archive_write_free)                                                            \
	F(archive_write_header)                                                          \
	F(archive_write_new)                                                             \
	F(archive_write_open)                                                            \
	F(archive_write_open_fd)                                                         \
	F(archive_write_set_bytes_in_last_block)                                         \
	F(archive_write_set_format_pax_restricted)

/* Its functions, by their own names. NULL before shfs_libarchive_load. */
extern struct shfs_libarchive {
	SHFS_LIBARCHIVE_FUNCTIONS(SHFS_LIBRARY_MEMBER)
} libarchive;

/* Loads it, for the rest of the process. Before a sandbox is entered. Not thread-safe.
 * An exit code, after a message. */
_must_check_ int shfs_libarchive_load(void);
