/* SPDX-License-Identifier: MIT */
#include "query/base/context.h"
#include "query/base/json.h"
#include "query/base/model.h"
#include "query/base/mounts.h"
#include "query/base/progress.h"

#include "common/debug.h"
#include "common/io.h"
#include "common/path.h"
#include "common/quote.h"
#include "recording/sandbox.h"
#include "store/care/forget.h"
#include "store/index/heap.h"
#include "store/journal/runtime.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#define INDEX_WAIT_MS 200

static struct shfs_context *current;

const char *shfs_db_url;

void shfs_context_begin(struct shfs_context *ctx)
{
	*ctx = (struct shfs_context){ .color = -1 };
	current = ctx;
}

void shfs_context_one_question(void)
{
	shfs_heap_allow();
}

void shfs_context_clear(struct shfs_context *ctx)
{
	if (ctx == current)
		current = NULL;
	shfs_trees_free(ctx->trees);
	shfs_index_close(ctx->index);
	shfs_store_close(ctx->store);
	free(ctx->store_path);
	if (ctx->config_read)
		shfs_config_free(&ctx->config);
	*ctx = (struct shfs_context){ 0 };
}

const char *shfs_context_store_path(struct shfs_context *ctx)
{
	if (!ctx->store_path)
		ctx->store_path = shfs_path_store(ctx->store_option);
	if (!ctx->store_path) {
		shfs_no_memory();
		exit(SHFS_EXIT_FAILURE);
	}
	return ctx->store_path;
}

const struct shfs_trees *shfs_context_trees(void)
{
	_cleanup_store_ struct shfs_store *store = NULL;

	if (current && !current->trees_read) {
		current->trees_read = true;
		if (shfs_store_open(shfs_context_store_path(current), 0, &store) ||
		    shfs_trees_load(store, &current->trees))
			current->trees = NULL;
	}
	return current ? current->trees : NULL;
}

static void warn_dropped(const struct shfs_store *store, const char *file, uint64_t from,
                         uint64_t to)
{
	_cleanup_buf_ struct shfs_buf name = { 0 };

	shfs_quote_display(&name, file, strlen(file));
	shfs_warn("%s, byte %" PRIu64 " to %" PRIu64
	          ": the damaged bytes there are not kept",
	          name.data, from, to - 1);
	shfs_hint("shfs check lists the versions that are lost");
}

struct shfs_store *shfs_context_store(struct shfs_context *ctx, bool create, int *code)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };
	const char *name = shfs_context_store_path(ctx);
	int r;

	if (ctx->store)
		return ctx->store;
	r = shfs_store_open(name, create ? SHFS_STORE_CREATE : 0, &ctx->store);
	shfs_debug(QUERY, "store %s: %s", name, r ? shfs_store_strerror(r) : "opened");
	if (!r) {
		ctx->store->on_dropped = warn_dropped;
		return ctx->store;
	}
	shfs_quote_display(&path, name, strlen(name));
	if (r == -ENOENT) {
		shfs_error("nothing is recorded yet: there is no store yet at %s",
		           path.data);
		shfs_hint("shfs mount DIR starts one");
	} else {
		shfs_error("cannot use the store %s: %s", path.data,
		           shfs_store_strerror(r));
	}
	*code = SHFS_EXIT_NO_STORE;
	return NULL;
}

/* Prints why the index cannot be used. */
static void fail_index(struct shfs_context *ctx, int error, int *code)
{
	*code = SHFS_EXIT_FAILURE;
	if (error == -EPROTONOSUPPORT) {
		shfs_error("the index was made by a newer version of shfs");
		shfs_hint("use that version, or rebuild the index: shfs reindex");
	} else if (error == -EBADMSG) {
		shfs_error("the index is damaged");
		shfs_hint("shfs reindex rebuilds it from the journal");
	} else if (error == -EREMOTE) {
		shfs_error("the store is on a network, and this machine has no place for "
		           "an index");
		shfs_hint("set XDG_CACHE_HOME to a directory of this machine");
	} else {
		shfs_error("cannot use the index: %s", strerror(-error));
	}
}

/* Nothing can be written to the disk (error): ingests into a copy of the index in
 * memory. */
static int freshen_in_memory(struct shfs_context *ctx, const char *hook_dir, int error)
{
	_cleanup_index_ struct shfs_index *copy = NULL;
	int r = shfs_index_open_in_memory(ctx->store, ctx->index, &copy);

	if (r)
		return ctx->index && r == -EFBIG ? error : r;
	r = shfs_index_ingest(copy, hook_dir, NULL);
	shfs_index_close(ctx->index);
	ctx->index = TAKE_PTR(copy);
	return r;
}

static void warn_behind(uint64_t left_bytes)
{
	_cleanup_buf_ struct shfs_buf size = { 0 };

	if (left_bytes)
		shfs_show_size(&size, left_bytes);
	shfs_warn("the index is not up to date: this answer lacks %s of the journal",
	          size.len ? size.data : "the last bit");
	shfs_hint("shfs sync waits until the index is complete");
	shfs_json_say_incomplete();
}

/* How long a command that is at_once waits; UINT_MAX: until everything is ingested. */
static unsigned index_wait_ms(void)
{
	const char *text = getenv("SHFS_INDEX_WAIT");
	unsigned long ms;
	char *end;

	if (!text || !*text)
		return INDEX_WAIT_MS;
	if (!strcmp(text, "all"))
		return UINT_MAX;
	ms = strtoul(text, &end, 10);
	if (strchr("0123456789", *text) && !*end)
		return (unsigned)MIN(ms, (unsigned long)INT_MAX);
	shfs_warn("SHFS_INDEX_WAIT is neither a number of milliseconds nor \"all\": %s",
	          text);
	return INDEX_WAIT_MS;
}

/* Ingests: a command that only looks waits for a moment, the others until everything is
 * ingested. */
static int take_in(struct shfs_context *ctx, const char *hook_dir)
{
	unsigned ms = ctx->at_once ? index_wait_ms() : UINT_MAX;
	uint64_t left_bytes;
	int r;

	shfs_debug(QUERY, "what is new is read first, for %s",
	           ms == UINT_MAX ? "as long as it takes" : "a moment");
	if (ms == UINT_MAX)
		return shfs_index_ingest(ctx->index, hook_dir, NULL);
	r = shfs_index_ingest_within(ctx->index, hook_dir, ms, &left_bytes);
	shfs_debug(QUERY, "%" PRIu64 " bytes of the journal are not in the index",
	           left_bytes);
	if (r == 1)
		warn_behind(left_bytes);
	return MIN(r, 0);
}

/* Ingests what is new; on failure the older answer is used, with a warning. If the index
 * could not be made (error), one is made in memory. */
static int freshen(struct shfs_context *ctx, int error)
{
	_cleanup_free_ char *hook_dir = shfs_runtime_hook_dir(ctx->store->path);
	bool begun = shfs_progress_begin("reading the journal");
	int r = error;

	shfs_ingest_progress = begun ? shfs_progress_bytes : NULL;
	if (ctx->index)
		r = take_in(ctx, hook_dir);
	if (shfs_takes_nothing(r))
		r = freshen_in_memory(ctx, hook_dir, r);
	shfs_debug(QUERY, "what is new is taken in: %s", strerrordesc_np(-r));
	if (begun)
		shfs_progress_end();
	if (r && ctx->index)
		shfs_warn("the answer may not be up to date: %s",
		          r == -EBADMSG ? "something in the store is damaged"
		                        : strerror(-r));
	if (r == -EBADMSG && ctx->index)
		shfs_hint("shfs check tells what");
	return ctx->index ? 0 : r;
}

struct shfs_index *shfs_context_index(struct shfs_context *ctx, int *code)
{
	int r;

	if (ctx->index)
		return ctx->index;
	if (!shfs_context_store(ctx, false, code))
		return NULL;
	/* mounts first: a child that asks a mount that hangs would keep the index mapped,
	 * and the index may lie on a mount itself */
	shfs_mounts_sync(ctx->store->path, false);
	if (shfs_forget_pending(ctx->store) > 0) {
		shfs_warn("an earlier shfs forget is not complete yet");
		shfs_hint("shfs forget --resume completes it");
	}
	r = shfs_index_open_to_ask(ctx->store, &ctx->index);
	if (!r || shfs_takes_nothing(r))
		r = freshen(ctx, r);
	if (!r)
		return ctx->index;
	fail_index(ctx, r, code);
	return NULL;
}

struct shfs_store *shfs_context_opened(struct shfs_context *ctx)
{
	shfs_assert(ctx->index);
	return ctx->store;
}

const struct shfs_config *shfs_context_config(struct shfs_context *ctx, int *code)
{
	_cleanup_free_ char *name = NULL, *message = NULL;
	int r;

	if (ctx->config_read)
		return &ctx->config;
	r = shfs_config_init(&ctx->config);
	if (!r) {
		ctx->config_read = true;
		name = ctx->config_option ? strdup(ctx->config_option)
		                          : shfs_path_config();
		r = name ? shfs_config_read(&ctx->config, name, &message) : -ENOMEM;
		shfs_debug(QUERY, "configuration %s: %s", name ? name : "",
		           message ? message : strerrordesc_np(-r));
	}
	if (!ctx->config_read) {
		shfs_no_memory();
		*code = SHFS_EXIT_FAILURE;
		return NULL;
	}
	if (r)
		shfs_warn("%s", message ? message : strerror(-r));
	return &ctx->config;
}

static bool wants_color(struct shfs_context *ctx, bool terminal)
{
	const char *when = ctx->color_option, *term = getenv("TERM");
	const char *no_color = getenv("NO_COLOR");
	const struct shfs_config *config;
	int code;

	if (!when) {
		config = shfs_context_config(ctx, &code);
		when = config ? config->color : "auto";
	}
	if (!strcmp(when, "auto"))
		return terminal && !(no_color && *no_color) && term && *term &&
		       strcmp(term, "dumb") != 0;
	return !strcmp(when, "always");
}

bool shfs_context_color(struct shfs_context *ctx)
{
	if (ctx->color < 0)
		ctx->color = wants_color(ctx, isatty(STDOUT_FILENO));
	return ctx->color;
}

bool shfs_context_screen_color(struct shfs_context *ctx)
{
	return wants_color(ctx, true);
}

void shfs_context_pager(struct shfs_context *ctx)
{
	const char *command = getenv("SHFS_PAGER");
	const struct shfs_config *config;
	int code;

	shfs_context_color(ctx); /* now, while standard output may still be the
	                          * terminal */
	if (ctx->no_pager || !isatty(STDOUT_FILENO))
		return;
	if (!command) {
		config = shfs_context_config(ctx, &code);
		command = config ? config->pager : NULL;
	}
	if (!command)
		command = getenv("PAGER");
	if (!command)
		command = "less";
	if (*command && strcmp(command, "cat") != 0)
		shfs_pager_start(command);
}

void shfs_context_alone(struct shfs_context *ctx)
{
	if (!ctx->no_pager)
		shfs_pager_prepare();
	(void)!shfs_sandbox_enter(SHFS_SANDBOX_SOCKETS | SHFS_SANDBOX_LOCKS);
}

int shfs_context_exec(struct shfs_context *ctx, const char *const *words)
{
	_cleanup_free_ const char **argv = NULL;
	size_t n = 0, used = 0;

	while (words[n])
		n++;
	argv = calloc(n + 6, sizeof(*argv));
	if (!argv) {
		shfs_no_memory();
		return SHFS_EXIT_FAILURE;
	}
	argv[used++] = "shfs";
	argv[used++] = "--store";
	argv[used++] = shfs_context_store_path(ctx);
	if (ctx->config_option) {
		argv[used++] = "--config";
		argv[used++] = ctx->config_option;
	}
	memcpy(argv + used, words, n * sizeof(*argv));
	execv("/proc/self/exe", (char **)argv);
	shfs_error("cannot run shfs: %s", strerror(errno));
	return SHFS_EXIT_FAILURE;
}
