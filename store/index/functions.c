/* SPDX-License-Identifier: MIT */
/* The functions of SQL that shfs adds to SQLite's own. */
#include "store/index/internal.h"

#include "store/index/facts-all.h"
#include "store/objects/object.h"
#include "store/objects/pruned.h"

#include <errno.h>
#include <regex.h>
#include <string.h>

/* --- regexp(pattern, text) --- */

static void regex_destroy(void *p)
{
	regfree(p);
	free(p);
}

/* Compiles a pattern; NULL: an error was reported. A constant pattern is compiled once,
 * as auxiliary data of the statement. */
static const regex_t *compile_regexp(sqlite3_context *ctx, sqlite3_value *pattern)
{
	regex_t *re = sqlite3_get_auxdata(ctx, 0);
	char why[160], message[200];
	const char *text;
	int code;

	if (re)
		return re;
	text = (const char *)sqlite3_value_text(pattern);
	re = malloc(sizeof(*re));
	if (!text || !re) {
		free(re);
		sqlite3_result_error_nomem(ctx);
		return NULL;
	}
	code = regcomp(re, text, REG_EXTENDED | REG_NOSUB);
	if (code) {
		regerror(code, re, why, sizeof(why));
		snprintf(message, sizeof(message), "invalid regular expression: %s", why);
		sqlite3_result_error(ctx, message, -1);
		free(re);
		return NULL;
	}
	sqlite3_set_auxdata(ctx, 0, re, regex_destroy);
	/* SQLite frees it at once if it has no memory. */
	re = sqlite3_get_auxdata(ctx, 0);
	if (!re)
		sqlite3_result_error_nomem(ctx);
	return re;
}

static void regexp(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	const regex_t *re;
	const char *text;

	if (sqlite3_value_type(argv[0]) == SQLITE_NULL)
		return;
	re = compile_regexp(ctx, argv[0]);
	if (!re || sqlite3_value_type(argv[1]) == SQLITE_NULL)
		return;
	text = (const char *)sqlite3_value_text(argv[1]);
	if (!text)
		return sqlite3_result_error_nomem(ctx);
	sqlite3_result_int(ctx, !regexec(re, text, 0, NULL, 0));
}

/* --- words(argv): NUL-separated arguments, with blanks between --- */

static void words(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	size_t len = (size_t)sqlite3_value_bytes(argv[0]);
	const char *text = (const char *)sqlite3_value_text(argv[0]);
	char *copy;

	if (!text)
		return;
	copy = malloc(len + 1);
	if (!copy)
		return sqlite3_result_error_nomem(ctx);
	for (size_t i = 0; i < len; i++)
		copy[i] = text[i] ?: ' ';
	sqlite3_result_text(ctx, copy, (int)len, free);
}

/* --- objects: object_name(blob), object_key(name) --- */

/* Returns the object's name outside of the index; NULL for NULL. */
static void object_name(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	struct shfs_object_id id;
	char name[44];

	if (shfs_object_unpack(sqlite3_value_blob(argv[0]), sqlite3_value_bytes(argv[0]),
	                       &id))
		return;
	shfs_object_name(&id, name);
	sqlite3_result_text(ctx, name, -1, SQLITE_TRANSIENT);
}

uint32_t shfs_index_content_flags(struct shfs_index *index,
                                  const struct shfs_content *content)
{
	uint32_t flags = content->flags & ~SHFS_CONTENT_PRUNED;

	if (index->is_mirror) /* its rows say so themselves */
		return content->flags & SHFS_CONTENT_PRUNED
		               ? content->flags & ~SHFS_CONTENT_OBJECT
		               : flags;
	if (!(flags & SHFS_CONTENT_OBJECT) ||
	    shfs_object_was_pruned(index->store, &content->object) <= 0)
		return flags;
	return (flags & ~SHFS_CONTENT_OBJECT) | SHFS_CONTENT_PRUNED;
}

int shfs_index_find_object(struct shfs_index *index, const void *data, size_t len,
                           struct shfs_object_id *id)
{
	return index->is_mirror ? shfs_mirror_find_object(index, data, len, id)
	                        : shfs_object_find(index->store, data, len, id);
}

/* Returns SHFS_CONTENT_PRUNED if the object was pruned, or 0. */
static void object_pruned(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	struct shfs_content c = { .flags = SHFS_CONTENT_OBJECT };
	uint32_t flags = 0;

	if (!shfs_object_unpack(sqlite3_value_blob(argv[0]), sqlite3_value_bytes(argv[0]),
	                        &c.object))
		flags = shfs_index_content_flags(sqlite3_user_data(ctx), &c);
	sqlite3_result_int(ctx, (int)(flags & SHFS_CONTENT_PRUNED));
}

/* Returns the beginning of the hash, by which the index finds the object. */
static void object_key(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	const char *name = (const char *)sqlite3_value_text(argv[0]);
	struct shfs_object_id id;

	if (name && !shfs_object_parse(name, &id))
		sqlite3_result_blob(ctx, id.hash, 3, SQLITE_TRANSIENT);
}

size_t shfs_object_pack(const struct shfs_object_id *id, uint8_t out[static 20])
{
	memcpy(out, id->hash, sizeof(id->hash));
	memcpy(out + sizeof(id->hash), &id->nth, sizeof(id->nth));
	return sizeof(id->hash) + (id->nth ? sizeof(id->nth) : 0);
}

int shfs_object_unpack(const void *data, size_t len, struct shfs_object_id *out)
{
	*out = (struct shfs_object_id){ 0 };
	if (len != sizeof(out->hash) && len != sizeof(out->hash) + sizeof(out->nth))
		return -EINVAL;
	memcpy(out->hash, data, sizeof(out->hash));
	memcpy(&out->nth, (const char *)data + sizeof(out->hash),
	       len - sizeof(out->hash));
	return 0;
}

/* --- paths: path_dir(path), path_name(path); path is path_dir || '/' || path_name --- */

static void path_part(sqlite3_context *ctx, sqlite3_value *value, bool name)
{
	const char *path = (const char *)sqlite3_value_text(value);
	struct shfs_bytes dir, base;

	if (!path)
		return;
	shfs_path_split((struct shfs_bytes){ path, sqlite3_value_bytes(value) }, &dir,
	                &base);
	if (name)
		dir = base;
	sqlite3_result_text(ctx, dir.data, (int)dir.len, SQLITE_TRANSIENT);
}

static void path_dir(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	path_part(ctx, argv[0], false);
}

static void path_name(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	path_part(ctx, argv[0], true);
}

/* Returns a number of two bytes that few names of a directory share. */
static void name_key(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	const void *name = sqlite3_value_text(argv[0]);
	size_t len = sqlite3_value_bytes(argv[0]);

	if (name)
		sqlite3_result_int(ctx, (int16_t)shfs_object_hash64(name, len));
}

/* --- op_name(op): shfs_index_op_name --- */

const char *shfs_index_op_name(int64_t op)
{
	static const char *const names[] = {
		[0] = "open",
		[SHFS_OP_RENAME] = "rename",
		[SHFS_OP_EXCHANGE] = "exchange",
		[SHFS_OP_LINK] = "link",
		[SHFS_OP_UNLINK] = "unlink",
		[SHFS_OP_MKDIR] = "mkdir",
		[SHFS_OP_RMDIR] = "rmdir",
		[SHFS_OP_SYMLINK] = "symlink",
		[SHFS_OP_MKNOD] = "mknod",
		[SHFS_OP_CHMOD] = "chmod",
		[SHFS_OP_CHOWN] = "chown",
		[SHFS_OP_UTIMES] = "utimes",
		[SHFS_OP_TRUNCATE] = "truncate",
		[SHFS_OP_XATTR] = "xattr",
	};

	return op >= 0 && op < (int64_t)ARRAY_SIZE(names) ? names[op] : NULL;
}

static void op_name(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	const char *name = shfs_index_op_name(sqlite3_value_int64(argv[0]));

	if (name)
		sqlite3_result_text(ctx, name, -1, SQLITE_STATIC);
}

/* --- strings: string_text(value, value of the base) --- */

/* Returns the unpacked string; NULL if the bytes are damaged. */
static void string_text(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	struct shfs_index *index = sqlite3_user_data(ctx);
	struct shfs_bytes value = shfs_value_bytes(argv[0]);
	int r = 0;

	if (sqlite3_value_type(argv[1]) != SQLITE_NULL) {
		r = shfs_string_unpack(index->codecs, value, shfs_value_bytes(argv[1]),
		                       &text);
		value = (struct shfs_bytes){ text.data, text.len };
	}
	if (r == -ENOMEM)
		sqlite3_result_error_nomem(ctx);
	else if (!r)
		sqlite3_result_text(ctx, value.data, (int)value.len, SQLITE_TRANSIENT);
}

int shfs_functions_register(sqlite3 *db, struct shfs_index *index)
{
	static const struct {
		const char *name;
		int n;
		void (*call)(sqlite3_context *ctx, int argc, sqlite3_value **argv);
	} functions[] = {
		{ "regexp", 2, regexp },
		{ "words", 1, words },
		{ "object_name", 1, object_name },
		{ "object_key", 1, object_key },
		{ "object_pruned", 1, object_pruned },
		{ "path_dir", 1, path_dir },
		{ "path_name", 1, path_name },
		{ "name_key", 1, name_key },
		{ "op_name", 1, op_name },
		{ "string_text", 2, string_text },
		{ "file_root_id", 1, shfs_file_root_id },
		{ "file_last_ns", 1, shfs_file_last_ns },
		{ "access_command", 1, shfs_owner_access_command },
		{ "command_accesses", 1, shfs_owner_command_accesses },
		{ "command_last_ns", 1, shfs_owner_command_last },
		{ "session_caller", 1, shfs_owner_session_caller },
	};
	int rc = SQLITE_OK;

	for (size_t i = 0; i < ARRAY_SIZE(functions) && !rc; i++)
		rc = sqlite3_create_function(db, functions[i].name, functions[i].n,
		                             SQLITE_UTF8 | SQLITE_DETERMINISTIC |
		                                     SQLITE_INNOCUOUS,
		                             index, functions[i].call, NULL, NULL);
	return rc ? rc
	          : sqlite3_create_function(db, "take_row", -1,
	                                    SQLITE_UTF8 | SQLITE_DIRECTONLY, NULL, NULL,
	                                    facts_take_row, facts_end_rows);
}
