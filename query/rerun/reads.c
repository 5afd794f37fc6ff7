/* SPDX-License-Identifier: MIT */
#include "query/rerun/reads.h"

#include "common/path.h"
#include "query/base/mounts.h"
#include "query/rerun/hook-log.h"
#include "store/journal/runtime.h"

#include <errno.h>
#include <string.h>

int shfs_rerun_take_in(struct shfs_rerun *rr)
{
	_cleanup_free_ char *hook_dir = shfs_runtime_hook_dir(rr->store->path);

	shfs_mounts_sync(rr->store->path, false);
	return shfs_index_ingest(rr->index, hook_dir, NULL);
}

void shfs_rerun_reads_clear(struct shfs_rerun_reads *reads)
{
	free(reads->added.list);
	free(reads->gone.list);
	shfs_uses_clear(&reads->then);
	shfs_uses_clear(&reads->now);
	*reads = (struct shfs_rerun_reads){ 0 };
}

/* Did it read a content that was there before? */
static bool is_read(const struct shfs_use *use)
{
	return !use->directory && !use->born &&
	       (use->kind == SHFS_USE_READ ||
	        (use->kind == SHFS_USE_CHANGED && use->read_id));
}

/* In a scratch copy, has the paths of what lies in it say where that lay then. The paths
 * are sorted afterwards. */
static int put_paths_back(const struct shfs_rerun *rr, struct shfs_uses *uses)
{
	for (size_t i = 0; i < uses->n && rr->options.top; i++) {
		struct shfs_use *use = &uses->list[i];
		const char *rest = shfs_path_relative(use->path, rr->options.top);
		char *then = rest ? shfs_path_join(rr->base, rest) : NULL;

		if (rest && !then)
			return -ENOMEM;
		if (!rest)
			continue;
		free(use->path);
		use->path = then;
	}
	return 0;
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(((const struct shfs_use *)a)->path,
	              ((const struct shfs_use *)b)->path);
}

static bool has_path(const struct shfs_uses *uses, const struct shfs_use *use)
{
	return bsearch(use, uses->list, uses->n, sizeof(*use), compare_paths);
}

/* Adds what is read in the one and not used in the other; both are sorted. */
static int add_difference(const struct shfs_uses *in, const struct shfs_uses *not_in,
                          struct shfs_rerun_paths *out)
{
	for (size_t i = 0; i < in->n; i++) {
		const struct shfs_use *use = &in->list[i];

		if (!is_read(use) || has_path(not_in, use))
			continue;
		if (use->bookkeeping) {
			out->of_system++;
			continue;
		}
		if (!MAKE_ROOM(out->list, out->n, out->cap))
			return -ENOMEM;
		out->list[out->n++] = use->path;
	}
	return 0;
}

static void sort_uses(struct shfs_uses *uses)
{
	if (uses->n)
		qsort(uses->list, uses->n, sizeof(*uses->list), compare_paths);
}

int shfs_rerun_reads_load(const struct shfs_rerun *rr, const struct shfs_rerun_step *step,
                          struct shfs_rerun_reads *out)
{
	int64_t id = 0;
	int r;

	*out = (struct shfs_rerun_reads){ 0 };
	if (!step->session)
		return 0;
	r = shfs_hook_log_command(rr->index, step->session, step->number, &id);
	if (r <= 0)
		return r;
	r = shfs_uses_load(rr->index, step->entry.command.command_id, 0, 0, &out->then);
	if (!r)
		r = shfs_uses_load(rr->index, id, 0, 0, &out->now);
	if (!r)
		r = put_paths_back(rr, &out->now);
	sort_uses(&out->then);
	sort_uses(&out->now);
	if (!r)
		r = add_difference(&out->now, &out->then, &out->added);
	if (!r)
		r = add_difference(&out->then, &out->now, &out->gone);
	if (r)
		shfs_rerun_reads_clear(out);
	return r ? r : 1;
}
