/* SPDX-License-Identifier: MIT */
/* `shfs gc`: remove objects from the store that nothing in the journal names. */
#include "query/base/cmd.h"
#include "query/base/json.h"
#include "query/base/model.h"
#include "query/base/mounts.h"
#include "query/base/progress.h"
#include "query/care/prune.h"
#include "store/care/garbage.h"

#include <inttypes.h>
#include <string.h>

#define WAIT_MS 15000

static struct {
	bool dry_run, json, alone, despite_damage;
} opts;

static int show_gc_result(uint64_t objects, uint64_t bytes)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };
	struct shfs_json json = { 0 };

	if (opts.json) {
		shfs_json_begin(&json, "gc");
		shfs_json_bool(&json, "done", !opts.dry_run);
		shfs_json_int(&json, "objects", (int64_t)objects);
		shfs_json_int(&json, "bytes", (int64_t)bytes);
		return shfs_json_end(&json) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
	}
	shfs_buf_printf(&out, "%s: %" PRIu64 " object%s that nothing names, ",
	                opts.dry_run ? "would be collected" : "collected", objects,
	                shfs_plural(objects));
	shfs_show_size(&out, bytes);
	shfs_buf_char(&out, '\n');
	return shfs_show_flush(&out) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}

static int measure_garbage(struct shfs_store *store, struct shfs_garbage *g,
                           uint64_t *objects, uint64_t *bytes)
{
	struct shfs_objects found = { 0 };
	int r = shfs_garbage_pick(g, &found);

	shfs_objects_sort(&found);
	*objects = found.n;
	if (!r)
		r = shfs_objects_measure(store, found.ids, found.n, bytes);
	shfs_objects_free(&found);
	return r;
}

static int run_gc(struct shfs_context *ctx, struct shfs_store *store, int argc,
                  char **argv)
{
	struct shfs_garbage g = { store, opts.despite_damage };
	uint64_t objects = 0, bytes = 0;
	struct shfs_collect how = {
		.pick = shfs_garbage_pick,
		.arg = &g,
		.alone = opts.alone,
		.wait_ms = WAIT_MS,
		.objects = &objects,
		.bytes = &bytes,
	};
	int r;

	shfs_progress_begin("looking for garbage");
	r = opts.dry_run ? measure_garbage(store, &g, &objects, &bytes)
	                 : shfs_collect(store, &how);
	shfs_progress_end();
	if (objects && !opts.dry_run)
		shfs_mounts_let_go(store->path);
	return r ? shfs_fail_collect(store, "collected", r)
	         : show_gc_result(objects, bytes);
}

const struct shfs_command shfs_cmd_gc = {
	.name = "gc",
	.args = "",
	.summary = "Remove objects from the store that nothing in the journal names",
	.description =
		"A recording that is killed between storing an object and writing its\n"
		"record leaves such objects. Mounts go on recording meanwhile.",
	.alone = true,
	.options = {
	{ "offline", 0, NULL, "you assert that no machine records (network file systems)",
	  .flag = &opts.alone },
	{ "despite-damage", 0, NULL,
	  "even if a part of the journal is damaged or in the quarantine",
	  .flag = &opts.despite_damage },
	{ "dry-run", 'n', NULL, "only show how much would go", .flag = &opts.dry_run },
	{ "json", 0, NULL, "for programs: see docs/json.md", .flag = &opts.json },
	},
	.run_on_store = run_gc,
};
