/* SPDX-License-Identifier: MIT */
#include "query/restore/restore-set.h"

#include "common/path.h"
#include "query/base/model.h"

#include <errno.h>
#include <string.h>

static int add_restore_item(struct shfs_restore_set *set, struct shfs_version *version,
                            char *base, char *below)
{
	if (!base || !below || !MAKE_ROOM(set->items, set->n, set->cap)) {
		free(base);
		free(below);
		return -ENOMEM;
	}
	set->items[set->n++] =
		(struct shfs_restore_item){ *version, .base = base, .below = below };
	version->path = NULL;
	return 0;
}

int shfs_restore_set_add(struct shfs_restore_set *set, struct shfs_index *index,
                         struct shfs_version *version, const char *dir)
{
	_cleanup_free_ char *root = NULL;
	const char *below;
	int r = shfs_version_root(index, version, &root);

	if (r < 0)
		return r;
	/* the root was a file, not a project */
	if (!r || !*(below = shfs_path_relative(version->path, root)))
		return shfs_restore_set_add_as(set, version, version->path);
	return add_restore_item(set, version, strdup(dir ? dir : root), strdup(below));
}

int shfs_restore_set_add_as(struct shfs_restore_set *set, struct shfs_version *version,
                            const char *path)
{
	const char *slash = strrchr(path, '/');

	return add_restore_item(set, version,
	                        slash == path ? strdup("/") : strndup(path, slash - path),
	                        strdup(slash + 1));
}

void shfs_restore_set_clear(struct shfs_restore_set *set)
{
	for (size_t i = 0; i < set->n; i++) {
		shfs_version_clear(&set->items[i].version);
		free(set->items[i].base);
		free(set->items[i].below);
	}
	free(set->items);
	memset(set, 0, sizeof(*set));
}

/* Restores one file; without say_done only failures are printed. */
static int run_one(struct shfs_restorer *restorer, const struct shfs_restore_set *set,
                   const struct shfs_restore_item *item, bool say_done)
{
	_cleanup_buf_ struct shfs_buf message = { 0 };
	struct shfs_restore_target target = { item->base, item->below, set->no_links };
	int code = SHFS_EXIT_REFUSED;

	if (shfs_path_is_here(item->base)) {
		code = shfs_restore(restorer, &item->version, &target, &message);
	} else {
		shfs_show_path(&message, item->version.path);
		shfs_buf_str(&message, SHFS_NOT_HERE ": restore it --to a place here");
	}
	if (message.failed || !message.data)
		shfs_no_memory();
	else if (code)
		shfs_error("%s", message.data);
	else if (say_done)
		puts(message.data);
	return code;
}

/* Restores all files; returns the worst code: refused, then failed. Earlier failures were
 * printed. */
static int run_all(struct shfs_restore_set *set, struct shfs_store *store,
                   struct shfs_index *index, const struct shfs_config *config,
                   struct shfs_restore_options options, bool say_done)
{
	_cleanup_restorer_ struct shfs_restorer *restorer = NULL;
	int worst = SHFS_EXIT_OK;
	int r = shfs_restorer_new(store, index, config, options, &restorer);

	if (r) {
		shfs_error("%s", strerror(-r));
		return SHFS_EXIT_FAILURE;
	}
	for (size_t i = 0; i < set->n; i++) {
		struct shfs_restore_item *item = &set->items[i];

		if (!item->code)
			item->code = run_one(restorer, set, item, say_done);
		worst = MAX(worst, item->code);
	}
	return worst;
}

int shfs_restore_set_run(struct shfs_restore_set *set, struct shfs_context *ctx,
                         struct shfs_index *index, struct shfs_restore_options options)
{
	struct shfs_restore_options try = options;
	int done, code = SHFS_EXIT_OK;
	struct shfs_store *store = shfs_context_store(ctx, false, &code);
	const struct shfs_config *config = store ? shfs_context_config(ctx, &code) : NULL;

	if (!config)
		return code;
	try.dry_run = true;
	if (options.dry_run || set->n == 1)
		return run_all(set, store, index, config, options, true);
	code = run_all(set, store, index, config, try, false);
	if (code == SHFS_EXIT_REFUSED) {
		shfs_hint("so none of the %zu files was restored", set->n);
		return code;
	}
	if (code) {
		/* the reasons were printed: go on with the other files */
		shfs_hint("the others are restored");
	}
	done = run_all(set, store, index, config, options, true);
	return MAX(code, done);
}
