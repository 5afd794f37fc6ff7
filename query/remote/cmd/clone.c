/* SPDX-License-Identifier: MIT */
/* `shfs clone`: make a store of what was pushed to a remote. */
#include "query/remote/clone.h"
#include "query/base/cmd.h"
#include "query/base/json.h"
#include "query/base/model.h"
#include "query/base/progress.h"
#include "query/remote/cmd/messages.h"
#include "query/remote/cmd/unlock.h"

#include "common/quote.h"
#include "recording/sandbox.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static struct {
	bool json, despite_damage, metadata;
	const char *host, *name, *rate;
	struct key_options key;
} opts = { .name = "origin" };

static void clone_freep(struct clone **clone)
{
	clone_free(*clone);
}

/* --- which store --- */

/* Looks for the store that is wanted among those that have pushed. 0, or an exit code. */
static int choose_store(const struct place *place, struct shfs_remote *remote,
                        struct head_ref *out)
{
	_cleanup_heads_ struct heads heads = { 0 };
	_cleanup_buf_ struct shfs_buf list = { 0 };
	size_t n_found = 0;
	int r = remote_look(remote);

	if (!r)
		r = heads_find(remote, &heads);
	for (size_t i = 0; i < heads.n && !r; i++) {
		const struct head_ref *head = &heads.list[i];
		_cleanup_manifest_ struct manifest m = { 0 };

		/* of a damaged one the host is not known */
		r = head_fetch(remote, head->store_id, head->generation, NULL, &m);
		if (r == -EBADMSG || r == -EPROTONOSUPPORT)
			r = 0;
		shfs_buf_printf(&list, "%s%s", list.len ? ", " : "", head->store_id);
		if (*m.head.host) {
			shfs_buf_str(&list, " of ");
			shfs_quote_display(&list, m.head.host, strlen(m.head.host));
		}
		if (opts.host && strcmp(opts.host, m.head.host) &&
		    strcmp(opts.host, head->store_id))
			continue;
		*out = *head;
		n_found++;
	}
	if (r)
		return remote_fail("clone", place, remote, r);
	if (n_found == 1)
		return 0;
	if (!heads.n) {
		shfs_error("nothing was pushed there yet");
		return SHFS_EXIT_NOT_FOUND;
	}
	shfs_error("%s: %s",
	           n_found ? "several stores have pushed there"
	                   : "no such store has pushed there",
	           list.data ?: "");
	shfs_hint("--host names one of them, by its host or its number");
	return n_found ? SHFS_EXIT_USAGE : SHFS_EXIT_NOT_FOUND;
}

/* --- errors and output --- */

static int fail_clone(const struct place *place, const struct shfs_remote *remote,
                      const char *store, int error)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	if (error == -EEXIST) {
		shfs_show_directory(&shown, store);
		shfs_error("there is a store already: %s", shown.data ?: "");
		shfs_hint("name another directory: --store DIR; or shfs remote add, and "
		          "shfs pull");
		return SHFS_EXIT_REFUSED;
	}
	if (error == -EBUSY) {
		shfs_error("another clone is at work there");
		return SHFS_EXIT_REFUSED;
	}
	if (error != -EBADMSG && error != -ENODATA)
		return remote_fail("clone", place, remote, error);
	shfs_error("some of what was pushed is %s there",
	           error == -ENODATA ? "missing" : "damaged");
	shfs_hint(
		"--despite-damage takes the rest; then shfs check --read-data says what "
		"is lost");
	return SHFS_EXIT_FAILURE;
}

static int json_clone(const struct clone *clone, const char *store)
{
	struct shfs_json json = { 0 };

	shfs_json_begin(&json, "clone");
	shfs_json_str(&json, "store", store);
	shfs_json_str(&json, "host", clone_head(clone)->host);
	shfs_json_int(&json, "files", (int64_t)clone_files(clone));
	shfs_json_int(&json, "bytes", (int64_t)clone_bytes(clone));
	shfs_json_int(&json, "away", (int64_t)clone_away(clone));
	shfs_json_int(&json, "damaged", (int64_t)clone_damaged(clone));
	return shfs_json_end(&json) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}

static int show_clone(const struct clone *clone, const char *store)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	if (clone_damaged(clone))
		shfs_warn("%" PRIu64 " piece%s damaged or missing there, and left out: "
		          "shfs check --read-data says what is lost",
		          clone_damaged(clone),
		          clone_damaged(clone) == 1 ? " is" : "s are");
	if (opts.json)
		return json_clone(clone, store);
	shfs_buf_str(&out, "cloned the store of ");
	shfs_quote_display(&out, clone_head(clone)->host,
	                   strlen(clone_head(clone)->host));
	shfs_buf_str(&out, " to ");
	shfs_show_directory(&out, store);
	shfs_buf_printf(&out, ": %" PRIu64 " file%s, ", clone_files(clone),
	                shfs_plural(clone_files(clone)));
	shfs_show_size(&out, clone_bytes(clone));
	if (clone_away(clone))
		shfs_buf_printf(&out, "; %" PRIu64 " content%s there", clone_away(clone),
		                clone_away(clone) == 1 ? " stays" : "s stay");
	shfs_buf_char(&out, '\n');
	return shfs_show_flush(&out) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}

/* --- the command --- */

static int finish(struct clone *clone)
{
	int r = shfs_sandbox_enter(SHFS_SANDBOX_LOCKS);

	return r ? r : clone_finish(clone);
}

static int clone_from(struct place *place, const char *store)
{
	const struct clone_options options = { .store = store,
		                               .url = place->url,
		                               .name = place->name,
		                               .encryption = &place->encryption,
		                               .despite_damage = opts.despite_damage,
		                               .metadata = opts.metadata,
		                               .progress = shfs_progress_bytes };
	_cleanup_remote_ struct shfs_remote *remote = NULL;
	_cleanup_(clone_freep) struct clone *clone = NULL;
	struct head_ref head;
	int code = remote_connect("clone", place, opts.rate, &remote), r;

	if (!code)
		code = remote_meet("clone", place, &opts.key, &remote);
	if (!code)
		code = choose_store(place, remote, &head);
	if (code)
		return code;
	shfs_progress_begin("cloning");
	r = clone_fetch(remote, head.store_id, head.generation, &options, &clone);
	if (!r) {
		shfs_remote_close(TAKE_PTR(remote));
		r = finish(clone);
	}
	shfs_progress_end();
	return r ? fail_clone(place, remote, store, r) : show_clone(clone, store);
}

static int run_clone(struct shfs_context *ctx, int argc, char **argv)
{
	_cleanup_free_ char *url = NULL;
	struct place place = { .name = (char *)opts.name, .dirfd = -1 };
	const char *store = shfs_context_store_path(ctx);
	int code, r;

	if (!place_name_is_valid(opts.name)) {
		shfs_error("the name of a remote has letters, digits, \"-\", \"_\" and "
		           "\".\"");
		return SHFS_EXIT_USAGE;
	}
	if (shfs_remote_url(argv[0], &url)) {
		shfs_error("this is no URL of a remote");
		return SHFS_EXIT_USAGE;
	}
	place.url = url;
	r = clone_check(store, opts.name); /* before a key or password is asked for */
	if (r)
		return fail_clone(&place, NULL, store, r);
	code = clone_from(&place, store);
	place_encryption_clear(&place.encryption);
	return code;
}

const struct shfs_command shfs_cmd_clone = {
	.name = "clone",
	.args = "URL",
	.summary = "Make a store of what was pushed to a remote",
	.description =
		"The same store again, after its machine was lost, or to move it: its\n"
		"records, its contents and its remote, which it goes on to push to. It\n"
		"may be interrupted: when it is called again, it goes on.",
	.options = {
	{ "host", 0, "HOST", "the store of this host, if several have pushed there",
	  .text = &opts.host },
	{ "name", 0, "NAME", "what the remote is called here; default: origin",
	  .text = &opts.name },
	{ "metadata", 0, NULL, "leave contents there: they are fetched when one is read",
	  .flag = &opts.metadata },
	{ "despite-damage", 0, NULL, "leave out what is damaged there, and take the rest",
	  .flag = &opts.despite_damage },
	{ "key", 0, "FILE", "the key of an encrypted remote", .text = &opts.key.file },
	{ "key-command", 0, "COMMAND", "a command that prints the key",
	  .text = &opts.key.command },
	{ "rate", 0, "SIZE", "move at most so many bytes in a second, as 500K",
	  .text = &opts.rate },
	{ "json", 0, NULL, "for programs: see docs/json.md", .flag = &opts.json },
	},
	.operands = { 1, 1 },
	.run = run_clone,
};
