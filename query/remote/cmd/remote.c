/* SPDX-License-Identifier: MIT */
/* `shfs remote`: the places to which what is recorded here is pushed. */
#include "query/base/cmd.h"
#include "query/base/json.h"
#include "query/base/model.h"
#include "query/base/progress.h"
#include "query/base/time.h"
#include "query/remote/check.h"
#include "query/remote/cmd/automatic.h"
#include "query/remote/cmd/messages.h"
#include "query/remote/cmd/unlock.h"
#include "query/remote/elsewhere.h"
#include "query/remote/heads.h"
#include "query/table/table.h"

#include "common/quote.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static const char *verb;
static struct {
	bool json, read_data;
	const char *rate;
	struct key_options key;
} opts = { .key.makes = true };

static const char *const verbs[] = { "add", "check", "list", "remove", NULL };

/* --- add --- */

static int refuse_url(const char *url, int error)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	/* what was taken for a part of it may be a secret */
	shfs_quote_display(&shown, url, strncmp(url, "s3://", 5) ? strlen(url) : 5);
	shfs_error("%s: %s", shown.data ?: "",
	           error == -EPROTONOSUPPORT ? "there are no such remotes"
	                                     : "this is no URL of a remote");
	shfs_hint(strncmp(url, "s3://", 5)
	                  ? "a directory is one, ssh://HOST/DIR, or s3://BUCKET/PREFIX"
	                  : "s3://BUCKET/PREFIX?endpoint=URL&region=NAME&path-style=yes");
	return SHFS_EXIT_USAGE;
}

/* Looks whether there is a remote, or makes one. */
static int prepare_remote(struct place *place)
{
	_cleanup_remote_ struct shfs_remote *remote = NULL;
	int code = remote_connect("use", place, NULL, &remote), r;

	if (!code)
		code = remote_meet("use", place, &opts.key, &remote);
	if (code)
		return code;
	r = remote_look(remote);
	if (r == -ENOENT) {
		r = remote_make(remote);
		if (!r) /* another machine may have made it meanwhile */
			r = remote_look(remote);
	}
	return r ? remote_fail("use", place, remote, r) : 0;
}

/* A remote that is there is pushed to by itself, if the user wants that. */
static int enable_pushes(struct shfs_context *ctx)
{
	int code = SHFS_EXIT_OK;
	const struct shfs_config *config = shfs_context_config(ctx, &code);

	if (config)
		push_enable_timer(config);
	return code;
}

static int refuse_taken(struct shfs_store *store, const char *name)
{
	_cleanup_place_ struct place place = { .dirfd = -1 };

	if (place_open(store, name, &place) == -ENOENT)
		return 0;
	shfs_error("there is a remote %s already", name);
	shfs_hint("shfs remote remove %s, or choose another name", name);
	return SHFS_EXIT_REFUSED;
}

static int add_remote(struct shfs_context *ctx, struct shfs_store *store,
                      const char *name, const char *url)
{
	_cleanup_free_ char *whole = NULL;
	_cleanup_close_ int lock = -1;
	struct place place = { .store = store, .name = (char *)name };
	int code, r;

	if (!place_name_is_valid(name)) {
		shfs_error("the name of a remote has letters, digits, \"-\", \"_\" and "
		           "\".\"");
		return SHFS_EXIT_USAGE;
	}
	r = shfs_remote_url(url, &whole);
	if (r == -ENOMEM)
		return shfs_no_memory(), SHFS_EXIT_FAILURE;
	if (r)
		return refuse_url(url, r);
	place.url = whole;
	code = remote_lock(store, &lock);
	if (!code)
		code = refuse_taken(store, name);
	if (!code)
		code = prepare_remote(&place);
	if (code) {
		place_encryption_clear(&place.encryption);
		return code;
	}
	r = place_new(store, name, whole, &place.encryption);
	place_encryption_clear(&place.encryption);
	if (!r)
		return enable_pushes(ctx);
	shfs_error("cannot note the remote: %s", strerror(-r));
	return SHFS_EXIT_FAILURE;
}

/* --- list --- */

struct listing {
	struct shfs_store *store;
	struct shfs_table *table;
	struct shfs_json json;
	size_t n;
};

enum { NAME, URL, ENCRYPTED, GENERATION, PUSHED, PULLED };

static const struct shfs_column columns[] = {
	[NAME] = { "name", "of the remote" },
	[URL] = { "url", "where it is" },
	[ENCRYPTED] = { "encrypted", "yes or no" },
	[GENERATION] = { "generation", "the number of the last push to it",
	                 SHFS_COLUMN_NUMBER },
	[PUSHED] = { "pushed", "when that was" },
	[PULLED] = { "pulled", "the stores of so many others were pulled from it",
	             SHFS_COLUMN_NUMBER },
	{ NULL },
};

struct remote_row {
	const struct place *place;
	const struct remote_head *head; /* generation 0: nothing was pushed */
	size_t n_pulled;
};

static int remote_cell(void *arg, int column, struct shfs_buf *out)
{
	const struct remote_row *row = arg;

	switch (column) {
	case NAME:
		shfs_buf_str(out, row->place->name);
		break;
	case URL:
		shfs_quote_display(out, row->place->url, strlen(row->place->url));
		break;
	case ENCRYPTED:
		shfs_buf_str(out, row->place->encryption.label ? "yes" : "no");
		break;
	case GENERATION:
		if (row->head->generation)
			shfs_buf_int(out, (int64_t)row->head->generation);
		break;
	case PUSHED:
		if (row->head->generation)
			shfs_time_show(out, row->head->time_ns);
		break;
	case PULLED:
		shfs_buf_int(out, (int64_t)row->n_pulled);
		break;
	}
	return 0;
}

static int count_pulled(void *arg, const struct manifest *m)
{
	++*(size_t *)arg;
	return 0;
}

static void json_remote(struct shfs_json *json, const struct place *place,
                        const struct remote_head *head, size_t n_pulled)
{
	shfs_json_object(json, NULL);
	shfs_json_str(json, "name", place->name);
	shfs_json_str(json, "url", place->url);
	shfs_json_bool(json, "encrypted", place->encryption.label != NULL);
	if (head->generation) {
		shfs_json_int(json, "generation", (int64_t)head->generation);
		shfs_json_time(json, "pushed", head->time_ns);
	} else {
		shfs_json_null(json, "generation");
		shfs_json_null(json, "pushed");
	}
	shfs_json_int(json, "pulled", (int64_t)n_pulled);
	shfs_json_object_end(json);
}

static int list_remote(void *arg, const char *name)
{
	struct listing *l = arg;
	_cleanup_place_ struct place place = { .dirfd = -1 };
	_cleanup_manifest_ struct manifest pushed = { 0 };
	size_t n_pulled = 0;
	int r = place_open(l->store, name, &place);

	if (!r)
		r = place_each_pulled(&place, count_pulled, &n_pulled);
	if (r)
		return r;
	(void)!place_read(&place, "pushed", &pushed);
	l->n++;
	if (opts.json) {
		json_remote(&l->json, &place, &pushed.head, n_pulled);
		return 0;
	}
	return shfs_table_add(l->table, remote_cell,
	                      &(struct remote_row){ &place, &pushed.head, n_pulled });
}

static int list_remotes(struct shfs_context *ctx, struct shfs_store *store)
{
	_cleanup_table_ struct shfs_table *table = NULL;
	struct listing l = { .store = store };
	bool written = true;
	int r = shfs_table_open(&shfs_cmd_remote, &table);

	l.table = table;
	if (opts.json) {
		shfs_json_begin(&l.json, "remote");
		shfs_json_array(&l.json, "remotes");
	}
	if (!r)
		r = place_each(store, list_remote, &l);
	if (opts.json) {
		shfs_json_array_end(&l.json);
		written = shfs_json_end(&l.json);
		shfs_json_free(&l.json);
	} else if (!r) {
		r = shfs_table_print(ctx, table, false);
	}
	if (r) {
		shfs_error("cannot list the remotes: %s", strerror(-r));
		return SHFS_EXIT_FAILURE;
	}
	if (!l.n && !opts.json)
		shfs_hint("there is none; shfs remote add NAME URL makes one");
	return written ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}

/* --- remove --- */

static int add_store(void *arg, const char *store_id, const struct manifest *files)
{
	struct shfs_buf *stores = arg;

	shfs_buf_add(stores, store_id, STORE_ID_SIZE);
	return stores->failed ? -ENOMEM : 0;
}

/* Forgets which contents only this remote has. */
static int give_up(const struct place *place)
{
	_cleanup_buf_ struct shfs_buf stores = { 0 };
	uint64_t before = 0, after = 0;
	int r = elsewhere_each(place, add_store, &stores);

	if (!r)
		r = elsewhere_count(place->store, &before);
	for (size_t i = 0; i < stores.len && !r; i += STORE_ID_SIZE)
		r = elsewhere_change(place, stores.data + i, &(struct manifest){ 0 }, -1);
	if (r == -EBADMSG || r == -EUCLEAN) { /* the next pull looks at the list again */
		shfs_warn("which contents are only on a remote is damaged: they stay "
		          "listed until a pull");
		return 0;
	}
	if (!r)
		r = elsewhere_count(place->store, &after);
	if (!r && before > after)
		shfs_warn("%" PRIu64
		          " content%s only there; when it is added again, shfs "
		          "pull finds %s",
		          before - after, before - after == 1 ? " is" : "s are",
		          before - after == 1 ? "it" : "them");
	return r;
}

static int remove_remote(struct shfs_store *store, const char *name)
{
	_cleanup_place_ struct place place = { .dirfd = -1 };
	_cleanup_close_ int lock = -1;
	int code = remote_choose(store, name, &place), r;

	if (!code)
		code = remote_lock(store, &lock);
	if (code)
		return code;
	r = give_up(&place);
	if (!r)
		r = place_remove(store, name);
	if (!r)
		return SHFS_EXIT_OK;
	shfs_error("cannot remove what is known of the remote: %s", strerror(-r));
	return SHFS_EXIT_FAILURE;
}

/* --- check --- */

struct remote_checking {
	struct place *place;
	char own[STORE_ID_SIZE]; /* the id of this store */
	size_t n, n_own;
	struct shfs_buf out;
	struct shfs_json json;
};

static const char *const problem_texts[] = {
	[REMOTE_MISSING] = "missing",
	[REMOTE_LENGTH] = "damaged: it has another length",
	[REMOTE_DAMAGED] = "damaged",
	[REMOTE_HEAD] = "damaged: nothing is known of what that store has pushed",
};

static void show_problem(struct shfs_buf *out, const struct remote_problem *problem)
{
	const char *of = *problem->host ? problem->host : problem->store_id;

	shfs_quote_display(out, of, strlen(of));
	shfs_buf_str(out, ": ");
	if (!problem->blob) {
		shfs_buf_str(out, "the head");
	} else {
		shfs_buf_printf(out, "blob %.12s of ", problem->blob);
		if (problem->file)
			shfs_quote_display(out, problem->file, strlen(problem->file));
		else
			shfs_buf_str(out, "a list");
	}
	shfs_buf_printf(out, " is %s\n", problem_texts[problem->kind]);
}

static void json_problem(struct shfs_json *json, const struct remote_problem *problem)
{
	static const char *const kinds[] = { [REMOTE_MISSING] = "missing",
		                             [REMOTE_LENGTH] = "length",
		                             [REMOTE_DAMAGED] = "damaged",
		                             [REMOTE_HEAD] = "head" };

	shfs_json_object(json, NULL);
	shfs_json_str(json, "problem", kinds[problem->kind]);
	shfs_json_str(json, "store", problem->store_id);
	if (*problem->host)
		shfs_json_str(json, "host", problem->host);
	else
		shfs_json_null(json, "host");
	if (problem->blob)
		shfs_json_str(json, "blob", problem->blob);
	else
		shfs_json_null(json, "blob");
	if (problem->file)
		shfs_json_str(json, "file", problem->file);
	else
		shfs_json_null(json, "file");
	shfs_json_object_end(json);
}

/* What this store has there, the next push brings again. */
static int note_problem(void *arg, const struct remote_problem *problem)
{
	struct remote_checking *c = arg;

	c->n++;
	if (opts.json)
		json_problem(&c->json, problem);
	else
		show_problem(&c->out, problem);
	if (strcmp(problem->store_id, c->own) != 0)
		return 0;
	c->n_own++;
	return place_add_line(c->place, "bad", problem->blob ?: "head");
}

static int find_own_id(struct shfs_store *store, char out[static STORE_ID_SIZE])
{
	_cleanup_(shfs_tree_identity_clear) struct shfs_tree_identity here = { 0 };
	_cleanup_trees_ struct shfs_trees *trees = NULL;
	int r = shfs_trees_load(store, &trees);

	if (!r)
		r = shfs_trees_here(trees, &here);
	if (!r)
		snprintf(out, STORE_ID_SIZE, "%s", here.store);
	return r;
}

static int show_remote_check(struct remote_checking *c, const struct remote_check *check)
{
	if (opts.json) {
		shfs_json_array_end(&c->json);
		shfs_json_bool(&c->json, "ok", !c->n);
		shfs_json_int(&c->json, "stores", (int64_t)check->stores);
		shfs_json_int(&c->json, "blobs", (int64_t)check->blobs);
		shfs_json_int(&c->json, "bytes", (int64_t)check->bytes);
		shfs_json_int(&c->json, "unneeded", (int64_t)check->unneeded);
		return shfs_json_end(&c->json) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
	}
	shfs_buf_printf(&c->out, "%" PRIu64 " store%s, %" PRIu64 " blob%s, ",
	                check->stores, shfs_plural(check->stores), check->blobs,
	                shfs_plural(check->blobs));
	shfs_show_size(&c->out, check->bytes);
	if (check->unneeded)
		shfs_buf_printf(&c->out,
		                "; %" PRIu64 " more of pushes that were interrupted",
		                check->unneeded);
	if (c->n)
		shfs_buf_printf(&c->out, "\n%zu flaw%s\n", c->n, shfs_plural(c->n));
	else
		shfs_buf_str(&c->out, "\nno flaws\n");
	return shfs_show_flush(&c->out) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}

static int check_place(struct remote_checking *c)
{
	struct remote_check check = { .read_data = opts.read_data,
		                      .problem = note_problem,
		                      .progress = shfs_progress_bytes,
		                      .arg = c };
	_cleanup_remote_ struct shfs_remote *remote = NULL;
	int code = remote_connect("check", c->place, opts.rate, &remote), r;

	if (code)
		return code;
	if (opts.json) {
		shfs_json_begin(&c->json, "remote-check");
		shfs_json_array(&c->json, "problems");
	}
	shfs_progress_begin("checking the remote");
	r = place_remove_file(c->place, "bad");
	if (!r)
		r = remote_check_run(remote, &check);
	shfs_progress_end();
	if (r)
		return remote_fail("check", c->place, remote, r);
	code = show_remote_check(c, &check);
	if (code || !c->n)
		return code;
	if (c->n_own)
		shfs_hint("shfs push %s brings again what is of this store",
		          c->place->name);
	return SHFS_EXIT_FAILURE;
}

static int check_remote(struct shfs_store *store, const char *name)
{
	_cleanup_place_ struct place place = { .dirfd = -1 };
	_cleanup_close_ int lock = -1;
	struct remote_checking c = { .place = &place };
	int code = remote_choose(store, name, &place), r;

	if (!code)
		code = remote_lock(store, &lock);
	if (code)
		return code;
	r = find_own_id(store, c.own);
	if (r) {
		shfs_error("cannot read the trees of the store: %s", strerror(-r));
		return SHFS_EXIT_FAILURE;
	}
	code = check_place(&c);
	shfs_buf_free(&c.out);
	shfs_json_free(&c.json);
	return code;
}

/* --- the command --- */

static const struct shfs_verb operands[] = {
	{ "add", 2, 2, "a name and a URL" },
	{ "check", 0, 1, "one name at most" },
	{ "list", 0, 0, "nothing else" },
	{ "remove", 1, 1, "a name" },
	{ NULL },
};

static int check_remote_operands(struct shfs_context *ctx, int argc)
{
	if (shfs_output_columns && verb && strcmp(verb, "list") != 0) {
		shfs_error("--output goes with list alone");
		return SHFS_EXIT_USAGE;
	}
	return shfs_check_verb(&shfs_cmd_remote, operands, verb, argc);
}

static int run_remote(struct shfs_context *ctx, int argc, char **argv)
{
	const char *what = verb ?: "list";
	int code = SHFS_EXIT_OK;
	struct shfs_store *store = shfs_context_store(ctx, !strcmp(what, "add"), &code);

	if (!store)
		return code;
	if (!strcmp(what, "add"))
		return add_remote(ctx, store, argv[0], argv[1]);
	if (!strcmp(what, "check"))
		return check_remote(store, argv[0]);
	return !strcmp(what, "remove") ? remove_remote(store, argv[0])
	                               : list_remotes(ctx, store);
}

const struct shfs_command shfs_cmd_remote = {
	.name = "remote",
	.args = "[add NAME URL|check [NAME]|list|remove NAME]",
	.summary = "Name the places to which this store is pushed",
	.description =
		"A remote keeps what stores have pushed: a copy for the day when this\n"
		"machine is lost, and for other machines. A URL is a directory,\n"
		"or one on another host: ssh://USER@HOST/DIR, or HOST:DIR as scp has it;\n"
		"or a bucket: s3://BUCKET/PREFIX.\n"
		"\n"
		"check looks whether all is there that was pushed. remove forgets the\n"
		"name, and leaves what is on the remote.\n"
		"\n"
		"With --encrypt all is encrypted before it goes there. The key stays here:\n"
		"keep a copy of it elsewhere, as without it nothing can be had back.",
	.options = {
	{ "encrypt", 0, NULL, "with add: encrypt all that goes there",
	  .flag = &opts.key.encrypt },
	{ "key", 0, "FILE", "with add: its key, which is made if there is none",
	  .text = &opts.key.file },
	{ "key-command", 0, "COMMAND", "with add: a command that prints the key",
	  .text = &opts.key.command },
	{ "read-data", 0, NULL, "with check: get all of it, and compare every byte",
	  .flag = &opts.read_data },
	{ "rate", 0, "SIZE", "move at most so many bytes in a second, as 500K",
	  .text = &opts.rate },
	SHFS_OUTPUT_OPTION,
	{ "json", 0, NULL, "for programs: see docs/json.md", .flag = &opts.json },
	},
	.columns = columns,
	.usual_columns = "name,url,encrypted,pushed,pulled",
	.operands = { 0, 2 },
	.verbs = verbs,
	.verb = &verb,
	.check = check_remote_operands,
	.run = run_remote,
};
