/* SPDX-License-Identifier: MIT */
/* `shfs repair`: keep what can be kept of a damaged store. */
#include "query/base/cmd.h"
#include "query/base/model.h"
#include "query/base/mounts.h"
#include "query/care/check-show.h"

#include "common/quote.h"
#include "store/care/forget.h"
#include "store/care/repair.h"
#include "store/journal/runtime.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static struct {
	bool dry_run, json;
} opts;

static int refuse_repair(const char *why, const char *hint)
{
	shfs_error("nothing is repaired: %s", why);
	shfs_hint("%s", hint);
	return SHFS_EXIT_REFUSED;
}

static int check_others(struct shfs_store *store)
{
	_cleanup_mounts_ struct shfs_mounts mounts = { 0 };
	_cleanup_buf_ struct shfs_buf why = { 0 };

	if (shfs_forget_pending(store) > 0)
		return refuse_repair("an earlier shfs forget is not complete yet",
		                     "shfs forget --resume completes it");
	if (shfs_mounts_list(SHFS_MOUNTS_ASK, store->path, &mounts))
		return 0; /* a recorder holds the store */
	for (size_t i = 0; i < mounts.n; i++) {
		const struct shfs_mount *m = &mounts.list[i];

		if (!shfs_mount_is_of_store(m, store->path) && m->error != -ETIMEDOUT)
			continue;
		shfs_buf_str(&why, "the store is in use by the mount ");
		shfs_quote_display(&why, m->dir, strlen(m->dir));
		return refuse_repair(
			why.failed ? "" : why.data,
			"shfs umount it first, and mount it again afterwards");
	}
	return 0;
}

static bool json_repair(const struct shfs_repair *rp)
{
	struct shfs_json j = { 0 };

	shfs_json_begin(&j, "repair");
	shfs_json_bool(&j, "done", !opts.dry_run);
	shfs_json_str(&j, "quarantine", rp->any ? rp->aside : NULL);
	shfs_json_int(&j, "segments_mended", (int64_t)rp->segments);
	shfs_json_int(&j, "segments_unreadable", (int64_t)rp->unreadable);
	shfs_json_int(&j, "packs_mended", (int64_t)rp->packs);
	shfs_json_int(&j, "loose_moved", (int64_t)rp->loose);
	shfs_json_int(&j, "modes_set", (int64_t)rp->modes);
	shfs_json_bool(&j, "index_made", rp->indexed);
	shfs_check_json(&j, &rp->found);
	return shfs_json_end(&j);
}

static void show_done(struct shfs_buf *out, const struct shfs_repair *rp)
{
	const struct {
		size_t n;
		const char *one, *many;
	} done[] = {
		{ rp->segments, "file of the journal was", "files of the journal were" },
		{ rp->packs, "pack was", "packs were" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(done); i++)
		if (done[i].n)
			shfs_buf_printf(out,
			                "%zu %s written anew with the intact records\n",
			                done[i].n,
			                done[i].n == 1 ? done[i].one : done[i].many);
	if (rp->unreadable)
		shfs_buf_printf(
			out,
			"%zu file%s of the journal could not be read at all: what "
			"only %s told is lost, and the next gc removes its contents\n",
			rp->unreadable, shfs_plural(rp->unreadable),
			rp->unreadable == 1 ? "it" : "they");
	if (rp->loose)
		shfs_buf_printf(out, "%zu damaged content%s set aside\n", rp->loose,
		                rp->loose == 1 ? " was" : "s were");
	if (rp->modes)
		shfs_buf_printf(out, "%zu mode%s set\n", rp->modes,
		                rp->modes == 1 ? " was" : "s were");
	if (rp->indexed)
		shfs_buf_str(out, "the index was made again\n");
	if (rp->any)
		shfs_buf_printf(out, "what was damaged is kept in %s of the store\n",
		                rp->aside);
}

static bool show_repair(const struct shfs_repair *rp)
{
	const struct shfs_check *c = &rp->found;
	_cleanup_buf_ struct shfs_buf out = { 0 };
	size_t lost = c->n_losses - c->n_known;

	shfs_check_show(&out, c);
	if (c->n_flaws == c->n_harmless)
		shfs_buf_str(&out, "there is nothing to repair\n");
	show_done(&out, rp);
	if (lost)
		shfs_buf_printf(
			&out,
			"%zu version%s lost; what holds the same bytes again heals "
			"them\n",
			lost, lost == 1 ? " is" : "s are");
	return shfs_show_flush(&out);
}

static int fail_unreadable(const struct shfs_repair *rp)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	shfs_check_show(&out, &rp->found);
	if (!shfs_show_flush(&out))
		return SHFS_EXIT_FAILURE;
	return refuse_repair(
		"some of the store may not be read",
		"give its files to their owner (chown), and let them be read "
		"(chmod -R u+rwX)");
}

/* Only the file "format": what else is wrong with the store, its opening reports. */
static int mend_format_file(struct shfs_context *ctx, int argc)
{
	if (!opts.dry_run && shfs_store_mend(shfs_context_store_path(ctx)) > 0)
		shfs_warn("the file \"format\" of the store was damaged: it is written "
		          "anew");
	return 0;
}

static int run_repair(struct shfs_context *ctx, struct shfs_store *store, int argc,
                      char **argv)
{
	static const struct shfs_check_options how = { .progress = shfs_check_progress };
	_cleanup_repair_ struct shfs_repair rp = { 0 };
	_cleanup_free_ char *hook_dir = NULL;
	int r, code = opts.dry_run ? 0 : check_others(store);

	if (code)
		return code;
	hook_dir = shfs_runtime_hook_dir(store->path);
	r = shfs_repair_run(store, hook_dir, &how, opts.dry_run, &rp);
	shfs_check_progress_end();
	if (r)
		return r == -EACCES && !opts.json ? fail_unreadable(&rp)
		                                  : shfs_check_fail(r);
	if (!(opts.json ? json_repair(&rp) : show_repair(&rp)))
		return SHFS_EXIT_FAILURE;
	return opts.dry_run && rp.found.n_flaws > rp.found.n_harmless ? SHFS_EXIT_FAILURE
	                                                              : SHFS_EXIT_OK;
}

const struct shfs_command shfs_cmd_repair = {
	.name = "repair",
	.args = "",
	.summary = "Save what can be saved of a damaged store",
	.description =
		"Reads everything, as shfs check --read-data does. Damaged files are "
		"written\n"
		"anew with their intact parts, the index is rebuilt, and damaged bytes "
		"are\n"
		"kept in the directory quarantine of the store. Lists the versions that "
		"are\n"
		"lost. Nothing may record into the store meanwhile: shfs umount first.",
	.alone = true,
	.options = {
	{ "dry-run", 'n', NULL, "only show what is wrong, and what is lost",
	  .flag = &opts.dry_run },
	{ "json", 0, NULL, "for programs: see docs/json.md", .flag = &opts.json },
	},
	.check = mend_format_file,
	.run_on_store = run_repair,
};
