/* SPDX-License-Identifier: MIT */
/* published.h - the databases that have rows of this store: state/published, a URL on
 * each line. A forget names them. */
#pragma once

#include "store/store.h"

#include "common/buf.h"

#include <stdbool.h>

/* Notes that the database at this URL has rows, or has none any more. */
_must_check_ int published_note(struct shfs_store *store, const char *url, bool has);
/* Appends the URLs, with ", " between them, escaped for display. */
_must_check_ int published_list(struct shfs_store *store, struct shfs_buf *out);
