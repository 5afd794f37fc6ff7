/* SPDX-License-Identifier: MIT */
/* `shfs sync`: wait until everything that happened is durable and in the index. */
#include "query/base/cmd.h"
#include "query/base/mounts.h"

#include "store/journal/runtime.h"

#include <string.h>

static int run_sync(struct shfs_context *ctx, struct shfs_store *store, int argc,
                    char **argv)
{
	_cleanup_free_ char *hook_dir = NULL;
	_cleanup_index_ struct shfs_index *index = NULL;
	int r, failed = shfs_mounts_sync(store->path, true);

	hook_dir = shfs_runtime_hook_dir(store->path);
	r = shfs_index_open(store, SHFS_INDEX_WRITE, &index);
	if (!r)
		r = shfs_index_ingest(index, hook_dir, NULL);
	if (r) {
		shfs_error("cannot bring the index up to date: %s", strerror(-r));
		return SHFS_EXIT_FAILURE;
	}
	return failed ? SHFS_EXIT_FAILURE : SHFS_EXIT_OK;
}

const struct shfs_command shfs_cmd_sync = {
	.name = "sync",
	.args = "",
	.summary = "Wait until everything that happened is durable and in the index",
	.description = "Fails where a mount does not answer or has lost records.",
	.hidden = true,
	.alone = true,
	.run_on_store = run_sync,
};
