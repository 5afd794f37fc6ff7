/* SPDX-License-Identifier: MIT */
/*
 * preview.h - the text beside a list on a screen, for shfs_screen_put_lines.
 *
 * Each function appends to out, and returns 0 or a negative errno (-EINTR: a key was
 * typed before it was done); if something cannot be shown, the text says so.
 */
#pragma once

#include "query/history/version-show.h"
#include "query/screen/screen.h"

struct shfs_preview {
	struct shfs_store *store;
	struct shfs_screen *screen;
	struct shfs_version_view view;
};

/* The uses of a command; times: number of its runs. */
_must_check_ int shfs_preview_command(const struct shfs_preview *p, int64_t command_id,
                                      unsigned int times, struct shfs_buf *out);

/* The latest versions of a file, and what the last one changed. */
_must_check_ int shfs_preview_file(const struct shfs_preview *p, int64_t file_id,
                                   struct shfs_buf *out);

/* The changes from the version before. A key interrupts it. */
_must_check_ int shfs_preview_patch(const struct shfs_preview *p,
                                    const struct shfs_version *version,
                                    struct shfs_buf *out);

/* The changes since the version, up to the file as it is now. */
_must_check_ int shfs_preview_since(const struct shfs_preview *p,
                                    const struct shfs_version *version,
                                    struct shfs_buf *out);

/* The beginning of the content, as text. */
_must_check_ int shfs_preview_content(const struct shfs_preview *p,
                                      const struct shfs_version *version,
                                      struct shfs_buf *out);
