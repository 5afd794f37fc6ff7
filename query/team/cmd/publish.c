/* SPDX-License-Identifier: MIT */
/* `shfs publish`: put the rows of the index into a team's PostgreSQL database. */
#include "query/team/publish.h"
#include "query/base/cmd.h"
#include "query/base/json.h"
#include "query/base/model.h"
#include "query/base/progress.h"
#include "query/base/time.h"
#include "query/team/published.h"

#include <inttypes.h>
#include <string.h>

static struct {
	bool dry_run, json, prepare, remove;
} opts;

static int check(struct shfs_context *ctx, int argc)
{
	if (opts.dry_run + opts.prepare + opts.remove <= 1)
		return 0;
	shfs_error("--dry-run, --prepare and --remove do not go together");
	return SHFS_EXIT_USAGE;
}

static int json_publish(const struct pieces_stats *s)
{
	struct shfs_json json = { 0 };

	shfs_json_begin(&json, "publish");
	shfs_json_bool(&json, "done", !opts.dry_run);
	shfs_json_int(&json, "rows", (int64_t)s->rows);
	shfs_json_int(&json, "sent", (int64_t)s->sent);
	shfs_json_int(&json, "removed", (int64_t)s->removed);
	shfs_json_int(&json, "bytes", (int64_t)s->bytes);
	return shfs_json_end(&json) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}

static int show_publish(const struct pieces_stats *s)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	if (opts.json)
		return json_publish(s);
	if (!s->sent && !s->removed) {
		shfs_buf_printf(&out,
		                "nothing new: the database has all %" PRIu64 " rows\n",
		                s->rows);
	} else {
		shfs_buf_printf(&out, "%s: %" PRIu64 " of %" PRIu64 " rows, ",
		                opts.dry_run ? "would be published" : "published",
		                s->sent, s->rows);
		shfs_show_size(&out, s->bytes);
		if (s->removed)
			shfs_buf_printf(&out, ", in place of %" PRIu64, s->removed);
		shfs_buf_char(&out, '\n');
	}
	return shfs_show_flush(&out) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}

static int publish(struct shfs_index *index, struct database *db, bool is_there,
                   const struct shfs_tree_identity *here)
{
	const struct publish_options options = { .store = here->store,
		                                 .host = here->host,
		                                 .machine = here->machine,
		                                 .home = here->home,
		                                 .dry_run = opts.dry_run };
	struct pieces_stats stats = { 0 };
	int r;

	shfs_progress_begin("publishing");
	r = publish_index(db, index, is_there, &options, &stats);
	shfs_progress_end();
	return r ? r : show_publish(&stats);
}

static int remove_store(struct database *db, bool is_there,
                        const struct shfs_tree_identity *here)
{
	bool was_there = false;
	int code = is_there ? publish_remove(db, here->store, &was_there) : 0;

	if (!code)
		puts(was_there
		             ? "removed: the database has nothing of this store any more"
		             : "the database has nothing of this store");
	return code;
}

/* Before anything is there, as it stays there if this is killed. */
static int note_database(struct shfs_context *ctx, const char *url, bool has)
{
	int r = opts.dry_run ? 0 : published_note(shfs_context_opened(ctx), url, has);

	if (!r)
		return 0;
	shfs_error("cannot note in the store where it is published: %s", strerror(-r));
	return SHFS_EXIT_FAILURE;
}

static enum database_use use_of_database(void)
{
	return opts.remove    ? DATABASE_REMOVE
	       : opts.dry_run ? DATABASE_ASK
	                      : DATABASE_MAKE;
}

static int run_publish(struct shfs_context *ctx, int argc, char **argv)
{
	_cleanup_(shfs_tree_identity_clear) struct shfs_tree_identity here = { 0 };
	_cleanup_database_ struct database *db = NULL;
	struct shfs_index *index = NULL;
	bool is_there = false;
	int code = database_open(argv[0], &db);

	if (!code)
		code = database_prepare(db, use_of_database(), &is_there);
	if (code || opts.prepare)
		return code;
	index = shfs_context_index(ctx, &code);
	if (!index)
		return code;
	if (!shfs_context_trees() || shfs_trees_here(shfs_context_trees(), &here)) {
		shfs_error("cannot read which store this is");
		return SHFS_EXIT_FAILURE;
	}
	if (opts.remove) {
		code = remove_store(db, is_there, &here);
		return code ? code : note_database(ctx, argv[0], false);
	}
	code = note_database(ctx, argv[0], true);
	if (!code)
		code = publish(index, db, is_there, &here);
	return code < 0 ? shfs_fail_index(index, code) : code;
}

const struct shfs_command shfs_cmd_publish = {
	.name = "publish",
	.args = "URL",
	.summary = "Put the index into a team's PostgreSQL database",
	.description =
		"URL is postgresql://[USER@][HOST]/DATABASE[?OPTION=VALUE]; a password is\n"
		"found where libpq looks for it (~/.pgpass), never in the URL. Only what\n"
		"has changed is sent, and what was forgotten is removed. Nobody else sees\n"
		"a row before its owner shares a project with them: docs/team.md.",
	.options = {
	{ "dry-run", 'n', NULL, "only show how much would be published",
	  .flag = &opts.dry_run },
	{ "prepare", 0, NULL, "only make the tables, if there are none",
	  .flag = &opts.prepare },
	{ "remove", 0, NULL, "remove all that this store has published there",
	  .flag = &opts.remove },
	{ "json", 0, NULL, "for programs: see docs/json.md", .flag = &opts.json },
	},
	.operands = { 1, 1 },
	.check = check,
	.run = run_publish,
};
