/* SPDX-License-Identifier: MIT */
/* `shfs pull`: take over what other stores have pushed to a remote. */
#include "query/base/cmd.h"
#include "query/base/json.h"
#include "query/base/model.h"
#include "query/base/progress.h"
#include "query/remote/cmd/messages.h"
#include "query/remote/cmd/pulled.h"
#include "query/remote/cmd/unlock.h"

#include "common/quote.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static struct {
	bool dry_run, json, despite_damage, metadata;
	const char *rate;
} opts;

/* --- errors --- */

static int fail_pull(const struct place *place, const struct shfs_remote *remote,
                     const struct pull *pull, int error)
{
	const char *host = pull ? pull_host(pull) : NULL;

	if (error != -EBADMSG && error != -ENODATA && error != -EEXIST)
		return remote_fail("pull from", place, remote, error);
	if (error == -EEXIST)
		shfs_error("cannot take over what %s has pushed: a content collides with "
		           "another one here",
		           host ?: "another store");
	else
		shfs_error("cannot pull from %s: %s of what %s has pushed is %s",
		           place->name, host ? "some" : "something", host ?: "a store",
		           error == -ENODATA ? "missing there" : "damaged there");
	if (error != -EEXIST)
		shfs_hint("shfs remote check %s --read-data says what; shfs pull "
		          "--despite-damage takes the rest",
		          place->name);
	return SHFS_EXIT_FAILURE;
}

/* --- output --- */

static int json_pull(const struct place *place, const struct pull_stats *s)
{
	struct shfs_json json = { 0 };

	shfs_json_begin(&json, "pull");
	shfs_json_bool(&json, "done", !opts.dry_run);
	shfs_json_str(&json, "remote", place->name);
	shfs_json_int(&json, "stores", (int64_t)s->stores);
	shfs_json_int(&json, "stores_new", (int64_t)s->stores_new);
	return pulled_json(&json, s);
}

static void warn_of_pull(const struct pull_stats *s)
{
	if (s->older)
		shfs_warn("%" PRIu64 " store%s an older state there than was pulled from "
		          "another remote: it was left out",
		          s->older, s->older == 1 ? " has" : "s have");
	pulled_warn(s, "pull");
}

static int show_pull(const struct place *place, const struct pull_stats *s)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	warn_of_pull(s);
	if (opts.json)
		return json_pull(place, s);
	if (!s->stores_new) {
		shfs_buf_printf(&out, "%s has nothing new\n", place->name);
		return shfs_show_flush(&out) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
	}
	shfs_buf_printf(&out, "%s from %s", opts.dry_run ? "would be pulled" : "pulled",
	                place->name);
	pulled_show(&out, s, opts.dry_run);
	return shfs_show_flush(&out) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}

/* --- the command --- */

static int run_pull(struct shfs_context *ctx, int argc, char **argv)
{
	const struct pull_options options = { .dry_run = opts.dry_run,
		                              .despite_damage = opts.despite_damage,
		                              .metadata = opts.metadata,
		                              .progress = shfs_progress_bytes };
	int code = SHFS_EXIT_OK, r;
	struct shfs_store *store = shfs_context_store(ctx, false, &code);
	_cleanup_place_ struct place place = { .dirfd = -1 };
	_cleanup_remote_ struct shfs_remote *remote = NULL;
	_cleanup_pull_ struct pull *pull = NULL;
	_cleanup_close_ int lock = -1;

	if (!store)
		return code;
	code = remote_choose(store, argv[0], &place);
	if (!code)
		code = remote_lock(store, &lock);
	if (!code)
		code = remote_connect("pull from", &place, opts.rate, &remote);
	if (code)
		return code;
	shfs_progress_begin("pulling");
	r = pull_fetch(&place, remote, &options, &pull);
	if (!r && !opts.dry_run) {
		shfs_remote_close(TAKE_PTR(remote));
		r = pulled_take(pull);
	}
	shfs_progress_end();
	return r ? fail_pull(&place, remote, pull, r)
	         : show_pull(&place, pull_stats(pull));
}

const struct shfs_command shfs_cmd_pull = {
	.name = "pull",
	.args = "[REMOTE]",
	.summary = "Take over what other stores have pushed to a remote",
	.description =
		"Everything is checked first. What this store recorded itself stays as\n"
		"it is; what others recorded stays apart: its files are named\n"
		"hostb:~/p/x. What was forgotten where it was recorded is forgotten here.",
	.options = {
	{ "dry-run", 'n', NULL, "only show how much would be pulled",
	  .flag = &opts.dry_run },
	{ "metadata", 0, NULL, "leave contents there: they are fetched when one is read",
	  .flag = &opts.metadata },
	{ "despite-damage", 0, NULL, "leave out what is damaged there, and take the rest",
	  .flag = &opts.despite_damage },
	{ "rate", 0, "SIZE", "move at most so many bytes in a second, as 500K",
	  .text = &opts.rate },
	{ "json", 0, NULL, "for programs: see docs/json.md", .flag = &opts.json },
	},
	.operands = { 0, 1 },
	.run = run_pull,
};
