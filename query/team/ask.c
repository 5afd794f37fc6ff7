/* SPDX-License-Identifier: MIT */
#include "query/team/ask.h"

#include "common/io.h"
#include "common/path.h"
#include "common/quote.h"
#include "query/team/fetch.h"
#include "store/objects/object.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int take_text(void *arg, const char *const *row)
{
	shfs_buf_str(arg, row[0] ? row[0] : "");
	return 0;
}

/* Makes the path of the cache: what one role sees is no other's. */
static bool find_cache(struct database *db, const char *url, char **path)
{
	_cleanup_buf_ struct shfs_buf key = { 0 };
	_cleanup_free_ char *cache = shfs_path_cache(), *dir = NULL;
	char name[17];

	shfs_buf_add(&key, url, strlen(url) + 1);
	if (!database_ask(db, "SELECT current_user", NULL, take_text, &key))
		return false;
	dir = cache ? shfs_path_join(cache, "db") : NULL;
	if (dir && !key.failed) {
		snprintf(name, sizeof(name), "%016" PRIx64,
		         shfs_object_hash64(key.data, key.len));
		*path = shfs_path_join(dir, name);
	}
	if (!*path)
		shfs_no_memory();
	return *path;
}

static int fail_cache(const char *why)
{
	shfs_error("cannot keep what the database has: %s", why);
	shfs_hint("it is kept in XDG_CACHE_HOME, or ~/.cache");
	return SHFS_EXIT_FAILURE;
}

/* Opens the cache, and the store here; there may be none yet. */
static int open_stores(struct shfs_context *ctx, const char *path,
                       struct shfs_store **cache)
{
	int r = shfs_mkdir_p_at(AT_FDCWD, path, 0700);

	if (r)
		return fail_cache(strerror(-r));
	r = shfs_store_open(path, SHFS_STORE_CREATE, cache);
	if (r)
		return fail_cache(shfs_store_strerror(r));
	r = shfs_store_open(shfs_context_store_path(ctx), 0, &ctx->store);
	if (r == -ENOENT)
		ctx->store = TAKE_PTR(*cache);
	else if (r && !shfs_context_store(ctx, false, &r))
		return r; /* it said why */
	ctx->trees_read = true;
	if (!shfs_trees_load(ctx->store, &ctx->trees))
		return 0;
	shfs_error("cannot read which store this is");
	return SHFS_EXIT_FAILURE;
}

/* Reads what is new into the mirror. -EBADMSG: that is damaged. */
static int read_mirror(struct shfs_context *ctx, struct database *db,
                       struct shfs_store *at)
{
	int r = shfs_mirror_open(at, ctx->store, &ctx->index);

	if (r)
		return r == -EBADMSG ? r : fail_cache(strerror(-r));
	return fetch_mirror(db, ctx->index, ctx->trees);
}

/* A mirror is only a copy: one that is damaged is made anew. */
static int read_sound_mirror(struct shfs_context *ctx, struct database *db,
                             const char *path)
{
	_cleanup_store_ struct shfs_store *cache = NULL;
	int code = open_stores(ctx, path, &cache), r;
	struct shfs_store *at = cache ? cache : ctx->store;

	if (!code)
		code = read_mirror(ctx, db, at);
	if (code != -EBADMSG)
		return code;
	shfs_index_close(TAKE_PTR(ctx->index));
	r = shfs_mirror_remove(at);
	if (!r)
		r = code = read_mirror(ctx, db, at);
	return r < 0 ? fail_cache(strerror(-r)) : code;
}

/* Removes the mirror of a cache, if there is one. */
static int remove_mirror(const char *path)
{
	_cleanup_store_ struct shfs_store *cache = NULL;
	int r = shfs_store_open(path, 0, &cache);

	return r == -ENOENT ? 0 : r ? r : shfs_mirror_remove(cache);
}

static void fail_removal(const char *path)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_quote_display(&shown, path, strlen(path));
	shfs_warn("cannot remove what was kept of a database in %s", shown.data ?: "?");
}

void team_forget(void)
{
	_cleanup_free_ char *cache = shfs_path_cache();
	_cleanup_free_ char *top = cache ? shfs_path_join(cache, "db") : NULL;
	DIR *dir = top ? opendir(top) : NULL;
	struct dirent *entry;

	if (!dir) {
		if (!top || errno != ENOENT)
			fail_removal(top ?: "?");
		return;
	}
	while ((entry = readdir(dir))) {
		_cleanup_free_ char *path = NULL;

		if (*entry->d_name == '.')
			continue;
		path = shfs_path_join(top, entry->d_name);
		if (!path || remove_mirror(path))
			fail_removal(path ?: top);
	}
	closedir(dir);
}

int team_ask(struct shfs_context *ctx, const char *url)
{
	_cleanup_database_ struct database *db = NULL;
	_cleanup_free_ char *path = NULL;
	bool is_there = false;
	int code = database_open(url, &db);

	if (code)
		return code;
	if (!find_cache(db, url, &path))
		return SHFS_EXIT_FAILURE;
	code = database_prepare(db, DATABASE_ASK, &is_there);
	if ((code || !is_there) && remove_mirror(path))
		fail_removal(path);
	if (code)
		return code;
	if (!is_there) {
		shfs_error("the database has nothing of shfs yet");
		shfs_hint("shfs publish puts an index there: docs/team.md");
		return SHFS_EXIT_NO_STORE;
	}
	return read_sound_mirror(ctx, db, path);
}
