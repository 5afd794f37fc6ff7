/* SPDX-License-Identifier: MIT */
/* `shfs reindex`: make the index again from the journal. */
#include "query/base/cmd.h"
#include "query/base/model.h"
#include "query/base/mounts.h"
#include "query/base/progress.h"
#include "query/base/time.h"

#include "common/clock.h"
#include "store/journal/runtime.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static int show_reindex(const struct shfs_ingest_stats *stats, int64_t took_ns)
{
	_cleanup_buf_ struct shfs_buf took = { 0 };

	shfs_time_show_duration(&took, took_ns);
	printf("%" PRIu64 " record%s: %" PRIu64 " command%s, %" PRIu64
	       " access%s, %" PRIu64 " version%s (%s)\n",
	       stats->records, shfs_plural(stats->records), stats->commands,
	       shfs_plural(stats->commands), stats->accesses,
	       stats->accesses == 1 ? "" : "es", stats->versions,
	       shfs_plural(stats->versions), took.data);
	if (stats->damaged_bytes)
		shfs_warn("%" PRIu64
		          " byte%s of the journal are damaged and were passed over",
		          stats->damaged_bytes, shfs_plural(stats->damaged_bytes));
	return SHFS_EXIT_OK;
}

static int run_reindex(struct shfs_context *ctx, struct shfs_store *store, int argc,
                       char **argv)
{
	int64_t begin_ns = shfs_clock_ns(CLOCK_MONOTONIC);
	_cleanup_free_ char *hook_dir = NULL;
	struct shfs_ingest_stats stats = { 0 };
	int r;

	shfs_mounts_sync(store->path, false);
	hook_dir = shfs_runtime_hook_dir(store->path);
	shfs_progress_begin("reading the journal");
	shfs_ingest_progress = shfs_progress_bytes;
	r = shfs_index_rebuild(store, hook_dir, &stats);
	shfs_progress_end();
	if (!r)
		return show_reindex(&stats, shfs_clock_ns(CLOCK_MONOTONIC) - begin_ns);
	shfs_error("cannot make the index: %s", strerror(-r));
	if (r == -EBUSY)
		shfs_hint("another shfs reindex may be at work");
	return SHFS_EXIT_FAILURE;
}

const struct shfs_command shfs_cmd_reindex = {
	.name = "reindex",
	.args = "",
	.summary = "Rebuild the index from the journal",
	.description = "The old index stays in use until the new one is complete. "
		       "Nothing is lost:\n"
		       "the journal is the source of truth.",
	.alone = true,
	.run_on_store = run_reindex,
};
