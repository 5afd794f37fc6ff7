/* SPDX-License-Identifier: MIT */
/* `shfs fetch`: take over what another host has recorded, from its store. */
#include "query/base/cmd.h"
#include "query/base/json.h"
#include "query/base/model.h"
#include "query/base/progress.h"
#include "query/remote/cmd/messages.h"
#include "query/remote/cmd/pulled.h"
#include "query/remote/peer/host.h"

#include "common/quote.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define TRIES 3 /* while segments are sealed there */

static struct {
	bool dry_run, json, despite_damage, metadata;
	const char *rate, *program;
} opts;

struct fetching {
	const char *host; /* as it was named */
	struct ssh_url url;
	struct place place;
	char *program; /* what runs shfs there */
	uint64_t rate;
	struct pull *pull;
	struct shfs_buf why;
};

static void fetching_clear(struct fetching *f)
{
	ssh_url_clear(&f->url);
	place_close(&f->place);
	free(f->program);
	pull_free(f->pull);
	shfs_buf_free(&f->why);
}

/* --- what is asked for --- */

/* Sets f->program: to that of --program, or that which an earlier fetch noted. */
static int find_program(struct fetching *f)
{
	_cleanup_free_ char *host = NULL;
	int r = opts.program ? -ENOENT : host_read(&f->place, &host, &f->program);

	if (r != -ENOENT && r != -EBADMSG)
		return r;
	f->program = strdup(opts.program ?: "shfs");
	return f->program ? 0 : -ENOMEM;
}

static int begin_fetch(struct shfs_store *store, struct fetching *f)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 }, url = { 0 };
	int r = host_parse(f->host, &f->url);

	if (r == -EINVAL || (!r && *f->url.path == '~')) {
		shfs_quote_display(&shown, f->host, strlen(f->host));
		shfs_error("this is no host, or no directory there: %s",
		           shown.data ?: "");
		shfs_hint("HOST, USER@HOST, HOST:DIR or ssh://HOST:PORT/DIR");
		return SHFS_EXIT_USAGE;
	}
	if (opts.rate && (shfs_config_parse_size(opts.rate, &f->rate) || !f->rate)) {
		shfs_error("--rate takes bytes for a second, as 500K or 2M");
		return SHFS_EXIT_USAGE;
	}
	shfs_buf_printf(&url, SSH_SCHEME "%s:%u/%s", f->url.host ?: "", f->url.port,
	                f->url.path ?: "");
	if (!r)
		r = url.failed ? -ENOMEM : place_open_unnamed(store, url.data, &f->place);
	if (!r)
		r = find_program(f);
	if (!r)
		return 0;
	shfs_error("cannot note what is fetched: %s", strerror(-r));
	return SHFS_EXIT_FAILURE;
}

/* --- errors --- */

static int refuse(const char *host, const char *what, const char *hint)
{
	shfs_error("cannot fetch from %s: %s", host, what);
	if (hint)
		shfs_hint("%s", hint);
	return SHFS_EXIT_REFUSED;
}

static int fail_fetch(const struct fetching *f, int error)
{
	_cleanup_buf_ struct shfs_buf host = { 0 }, why = { 0 };

	shfs_quote_display(&host, f->host, strlen(f->host));
	if (f->why.len)
		shfs_quote_display(&why, f->why.data, f->why.len);
	if (error == -EAGAIN)
		return refuse(host.data ?: "",
		              "its store is changed all the time just now", "try again");
	if (error == -EBUSY)
		return refuse(host.data ?: "",
		              "a prune, gc, forget, repair or import is at work here",
		              "try again when it has ended");
	if (error == -EPROTONOSUPPORT)
		return refuse(host.data ?: "", "a newer shfs is there", "upgrade shfs");
	if (error == -EEXIST)
		return refuse(host.data ?: "",
		              "a content of its collides with another one here", NULL);
	if (error == -EBADMSG || error == -ENODATA) {
		shfs_error("cannot fetch from %s: something there is %s", host.data ?: "",
		           error == -ENODATA ? "missing" : "damaged");
		shfs_hint("shfs check there says what; --despite-damage takes the rest");
		return SHFS_EXIT_FAILURE;
	}
	shfs_error("cannot fetch from %s: %s", host.data ?: "",
	           why.data ?: strerror(-error));
	if (error == -ENOLINK && f->pull)
		shfs_hint("what was fetched so far stays, and is not fetched again");
	return SHFS_EXIT_FAILURE;
}

/* --- output --- */

static int json_fetch(const struct fetching *f, const struct pull_stats *s)
{
	struct shfs_json json = { 0 };

	shfs_json_begin(&json, "fetch");
	shfs_json_bool(&json, "done", !opts.dry_run);
	shfs_json_str(&json, "from", f->host);
	shfs_json_bool(&json, "new", s->stores_new);
	return pulled_json(&json, s);
}

static void warn_of_fetch(const struct pull_stats *s)
{
	if (s->older)
		shfs_warn("an older state of that store is there than was pulled from a "
		          "remote: it was left out");
	pulled_warn(s, "fetch");
}

static int show_fetch(const struct fetching *f, const struct pull_stats *s)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	warn_of_fetch(s);
	if (opts.json)
		return json_fetch(f, s);
	if (s->stores_new)
		shfs_buf_str(&out,
		             opts.dry_run ? "would be fetched from " : "fetched from ");
	shfs_quote_display(&out, f->host, strlen(f->host));
	if (!s->stores_new) {
		shfs_buf_str(&out, " has nothing new\n");
		return shfs_show_flush(&out) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
	}
	pulled_show(&out, s, opts.dry_run);
	return shfs_show_flush(&out) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}

/* --- the command --- */

static int fetch_once(struct fetching *f)
{
	const struct pull_options options = { .dry_run = opts.dry_run,
		                              .despite_damage = opts.despite_damage,
		                              .metadata = opts.metadata,
		                              .direct = true,
		                              .progress = shfs_progress_bytes };
	struct shfs_remote *remote;
	int r;

	f->why.len = 0;
	r = host_open(&f->url, f->program, &f->why, &remote);
	if (r)
		return r;
	remote->rate = f->rate;
	r = pull_fetch(&f->place, remote, &options, &f->pull);
	if (r && *shfs_remote_why(remote))
		shfs_buf_str(&f->why, shfs_remote_why(remote));
	shfs_remote_close(remote);
	return r;
}

static int fetch(struct fetching *f)
{
	int r = -EAGAIN;

	for (int i = 0; i < TRIES && r == -EAGAIN; i++) {
		pull_free(TAKE_PTR(f->pull));
		r = fetch_once(f);
	}
	if (r || opts.dry_run)
		return r;
	/* it was reached so; what stays there is fetched in the same way */
	if (opts.metadata)
		r = host_note(&f->place, f->host, f->program);
	return r ? r : pulled_take(f->pull);
}

static int run_fetch(struct shfs_context *ctx, int argc, char **argv)
{
	_cleanup_(fetching_clear) struct fetching f = { .host = argv[0],
		                                        .place.dirfd = -1 };
	_cleanup_close_ int lock = -1;
	int code = SHFS_EXIT_OK, r;
	struct shfs_store *store = shfs_context_store(ctx, true, &code);

	if (!store)
		return code;
	code = remote_lock(store, &lock);
	if (!code)
		code = begin_fetch(store, &f);
	if (code)
		return code;
	shfs_progress_begin("fetching");
	r = fetch(&f);
	shfs_progress_end();
	return r ? fail_fetch(&f, r) : show_fetch(&f, pull_stats(f.pull));
}

const struct shfs_command shfs_cmd_fetch = {
	.name = "fetch",
	.args = "HOST[:DIR]",
	.summary = "Take over what another host has recorded",
	.description =
		"By ssh, from the store of the user there, or the one in DIR, where shfs\n"
		"must be, too. What comes, and what becomes of it, is as with shfs pull.",
	.options = {
	{ "dry-run", 'n', NULL, "only show how much would be fetched",
	  .flag = &opts.dry_run },
	{ "program", 0, "COMMAND", "what runs shfs there, as ~/.local/bin/shfs",
	  .text = &opts.program },
	{ "metadata", 0, NULL, "leave contents there: they are fetched when one is read",
	  .flag = &opts.metadata },
	{ "despite-damage", 0, NULL, "leave out what is damaged there, and take the rest",
	  .flag = &opts.despite_damage },
	{ "rate", 0, "SIZE", "move at most so many bytes in a second, as 500K",
	  .text = &opts.rate },
	{ "json", 0, NULL, "for programs: see docs/json.md", .flag = &opts.json },
	},
	.operands = { 1, 1 },
	.run = run_fetch,
};
