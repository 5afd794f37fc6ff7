/* SPDX-License-Identifier: MIT */
/* pulled.h - what `shfs pull` and `shfs fetch` have in common: the end of a pull, and
 * what is told of it. */
#pragma once

#include "query/base/json.h"
#include "query/remote/pull.h"

static inline void pull_freep(struct pull **pull)
{
	pull_free(*pull);
}
#define _cleanup_pull_ _cleanup_(pull_freep)

/* Takes over what was fetched, in the sandbox: strangers may have made it. As pull_take.
 */
_must_check_ int pulled_take(struct pull *pull);

/* Warns of what did not come, or was not removed. command: the one that tries again. */
void pulled_warn(const struct pull_stats *stats, const char *command);

/* Adds the rest of a line that names the place, and the lines below it. */
void pulled_show(struct shfs_buf *out, const struct pull_stats *stats, bool dry_run);

/* Adds the numbers to an object, and ends the document. An exit code. */
_must_check_ int pulled_json(struct shfs_json *json, const struct pull_stats *stats);
