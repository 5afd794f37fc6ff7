/* SPDX-License-Identifier: MIT */
/*
 * preview.h - what stands beside a list on a screen: texts for shfs_screen_put_lines.
 *
 * Each appends to out, and returns 0 or a negative errno (-EINTR: a key was typed, before
 * it was done); what cannot be shown is said in the text.
 */
#pragma once

#include "query/history/version-show.h"
#include "query/screen/screen.h"

struct shfs_preview {
	struct shfs_store *store;
	struct shfs_screen *screen;
	struct shfs_version_view view;
};

/* What a command did; times: that its text was run. */
_must_check_ int shfs_preview_command(const struct shfs_preview *p, int64_t command_id,
                                      unsigned int times, struct shfs_buf *out);

/* The latest versions of a file, and what the last one changed. */
_must_check_ int shfs_preview_file(const struct shfs_preview *p, int64_t file_id,
                                   struct shfs_buf *out);

/* What it changed of the version before it. A key that is typed meanwhile cuts it short.
 */
_must_check_ int shfs_preview_patch(const struct shfs_preview *p,
                                    const struct shfs_version *version,
                                    struct shfs_buf *out);

/* What has changed since, up to the file as it is now. */
_must_check_ int shfs_preview_since(const struct shfs_preview *p,
                                    const struct shfs_version *version,
                                    struct shfs_buf *out);

/* Its beginning, as text. */
_must_check_ int shfs_preview_content(const struct shfs_preview *p,
                                      const struct shfs_version *version,
                                      struct shfs_buf *out);
