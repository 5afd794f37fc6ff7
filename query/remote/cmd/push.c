/* SPDX-License-Identifier: MIT */
/* `shfs push`: bring what is recorded here to a remote. */
#include "query/remote/push/push.h"
#include "query/base/cmd.h"
#include "query/base/json.h"
#include "query/base/model.h"
#include "query/base/progress.h"
#include "query/remote/cmd/automatic.h"
#include "query/remote/cmd/unlock.h"

#include "common/clock.h"
#include "query/remote/behind.h"
#include "query/remote/cmd/messages.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

static struct {
	bool dry_run, json, automatic;
	const char *rate;
} opts;

static int json_push(const struct place *place, const struct push_stats *s)
{
	struct shfs_json json = { 0 };

	shfs_json_begin(&json, "push");
	shfs_json_bool(&json, "done", !opts.dry_run);
	shfs_json_str(&json, "remote", place->name);
	shfs_json_int(&json, "files", (int64_t)s->files);
	shfs_json_int(&json, "files_new", (int64_t)s->files_new);
	shfs_json_int(&json, "blobs", (int64_t)s->blobs);
	shfs_json_int(&json, "bytes", (int64_t)s->bytes);
	shfs_json_int(&json, "elsewhere", (int64_t)s->elsewhere);
	shfs_json_int(&json, "removed", (int64_t)s->removed);
	shfs_json_int(&json, "generation", (int64_t)s->generation);
	return shfs_json_end(&json) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}

static int show_push(const struct place *place, const struct push_stats *s)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	if (s->was_lost)
		shfs_warn("%s has lost what was pushed there before: all of it is "
		          "pushed again",
		          place->name);
	if (s->elsewhere)
		shfs_warn("%" PRIu64 " content%s not pushed: only another remote has %s "
		          "(shfs pull brings %s)",
		          s->elsewhere, s->elsewhere == 1 ? " is" : "s are",
		          s->elsewhere == 1 ? "it" : "them",
		          s->elsewhere == 1 ? "it" : "them");
	if (opts.json)
		return json_push(place, s);
	if (s->nothing_new) {
		if (s->generation)
			shfs_buf_printf(&out, "%s has all of it already\n", place->name);
		else
			shfs_buf_str(&out, "nothing is recorded that could be pushed\n");
		return shfs_show_flush(&out) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
	}
	shfs_buf_printf(&out, "%s to %s: %" PRIu64 " of %" PRIu64 " file%s, ",
	                opts.dry_run ? "would be pushed" : "pushed", place->name,
	                s->files_new, s->files, shfs_plural(s->files));
	shfs_show_size(&out, s->bytes);
	if (s->removed)
		shfs_buf_printf(&out, "; %" PRIu64 " blob%s removed", s->removed,
		                s->removed == 1 ? " was" : "s were");
	shfs_buf_char(&out, '\n');
	return shfs_show_flush(&out) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}

static int fail_to_bring(const struct place *place, const struct push_stats *s)
{
	shfs_error("cannot push to %s: content %s is only there, and cannot be fetched",
	           place->name, s->not_brought);
	shfs_hint("something beside it was forgotten or pruned here, and stays there "
	          "until then; shfs remote check %s --read-data says what is damaged",
	          place->name);
	return SHFS_EXIT_FAILURE;
}

static int run_push(struct shfs_context *ctx, struct shfs_index *index, int argc,
                    char **argv)
{
	struct shfs_store *store = shfs_context_opened(ctx);
	const struct push_options options = { .dry_run = opts.dry_run,
		                              .progress = shfs_progress_bytes };
	_cleanup_place_ struct place place = { .dirfd = -1 };
	_cleanup_remote_ struct shfs_remote *remote = NULL;
	_cleanup_close_ int lock = -1;
	struct push_stats stats;
	const int64_t begun_ns = shfs_clock_ns(CLOCK_REALTIME);
	int code, r;

	if (opts.automatic)
		return push_automatically(ctx, store, argv[0]);
	code = remote_choose(store, argv[0], &place);
	if (!code)
		code = remote_lock(store, &lock);
	if (!code)
		code = remote_connect("push to", &place, opts.rate, &remote);
	if (code)
		return code;
	shfs_progress_begin("pushing");
	r = push_run(index, &place, remote, &options, &stats);
	shfs_progress_end();
	if (!r && !opts.dry_run)
		r = behind_note_pushed(&place, begun_ns);
	if (*stats.not_brought)
		return fail_to_bring(&place, &stats);
	return r ? remote_fail("push to", &place, remote, r) : show_push(&place, &stats);
}

const struct shfs_command shfs_cmd_push = {
	.name = "push",
	.args = "[REMOTE]",
	.summary = "Bring what is recorded here to a remote",
	.description =
		"Moves what the remote does not have yet: records, contents, and what\n"
		"was typed. What was forgotten or pruned here since the last push is\n"
		"removed there. It may be interrupted: the next push goes on.",
	.options = {
	{ "dry-run", 'n', NULL, "only show how much would be moved",
	  .flag = &opts.dry_run },
	{ "automatic", 0, NULL, "push to all remotes that are due: for a timer",
	  .flag = &opts.automatic },
	{ "rate", 0, "SIZE", "move at most so many bytes in a second, as 500K",
	  .text = &opts.rate },
	{ "json", 0, NULL, "for programs: see docs/json.md", .flag = &opts.json },
	},
	.operands = { 0, 1 },
	.run_on_index = run_push,
};
