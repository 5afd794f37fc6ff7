/* SPDX-License-Identifier: MIT */
/* `shfs config`: reads the configuration, and changes one key of it. */
#include "query/base/context.h"
#include "query/base/json.h"
#include "query/base/model.h"
#include "query/base/whole-file.h"
#include "query/config/edit.h"

#include "common/io.h"
#include "common/path.h"
#include "common/quote.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/file.h>

#define CONFIG_MAX_BYTES (1 << 20)
#define KEYS_MAX         64
#define NAME_MAX_BYTES   64

static const char *verb;
static struct {
	bool json, origin;
} opts;

static const char *const verbs[] = { "add", "describe", "get", "list",
	                             "set", "unset",    NULL };

/* The file, and what stands in it. */
struct config_file {
	char *path;
	struct shfs_buf text;
};

static void config_file_clear(struct config_file *file)
{
	free(file->path);
	shfs_buf_free(&file->text);
}
#define _cleanup_config_file_ _cleanup_(config_file_clear)

static int fail_file(const struct config_file *file, const char *what, int error)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_quote_display(&shown, file->path, strlen(file->path));
	shfs_error("cannot %s %s: %s", what, shown.data ?: "", strerror(-error));
	return SHFS_EXIT_FAILURE;
}

/* Reads the file; one that does not exist is empty. An exit code. */
static int read_config_file(struct shfs_context *ctx, struct config_file *file)
{
	int r;

	file->path = ctx->config_option ? strdup(ctx->config_option) : shfs_path_config();
	if (!file->path)
		return shfs_no_memory(), SHFS_EXIT_FAILURE;
	r = shfs_read_file_at(AT_FDCWD, file->path, CONFIG_MAX_BYTES, &file->text);
	return r && r != -ENOENT ? fail_file(file, "read", r) : 0;
}

/* --- keys --- */

static void key_name(const struct shfs_config_key *key, char out[static NAME_MAX_BYTES])
{
	snprintf(out, NAME_MAX_BYTES, "%s.%s", key->section, key->name);
}

static void suggest_key(const char *name)
{
	static char names[KEYS_MAX][NAME_MAX_BYTES];
	const char *list[KEYS_MAX], *meant;
	size_t n = 0;

	for (const struct shfs_config_key *k = shfs_config_keys; k->name && n < KEYS_MAX;
	     k++) {
		key_name(k, names[n]);
		list[n] = names[n];
		n++;
	}
	meant = shfs_suggest(name, list, n);
	if (meant)
		shfs_hint("did you mean %s?", meant);
	else
		shfs_hint("shfs config describe lists the keys");
}

/* NULL: there is no such key, which was said. */
static const struct shfs_config_key *find_key(const char *name)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	const char *dot = strchr(name, '.');
	_cleanup_free_ char *section = dot ? strndup(name, dot - name) : NULL;
	const struct shfs_config_key *key =
		section ? shfs_config_find(section, dot + 1) : NULL;

	if (key)
		return key;
	shfs_quote_display(&shown, name, strlen(name));
	shfs_error("there is no key %s", shown.data ?: "");
	suggest_key(name);
	return NULL;
}

/* --- values --- */

/* The values of one key that are in force. */
struct values {
	const struct shfs_config_key *key;
	struct shfs_config scratch; /* says what is a value */
	struct shfs_buf text;       /* each with a NUL behind it */
	int *lines;
	size_t n, cap;
};

static void values_clear(struct values *v)
{
	shfs_config_free(&v->scratch);
	shfs_buf_free(&v->text);
	free(v->lines);
}
#define _cleanup_values_ _cleanup_(values_clear)

static int take_value(void *arg, const struct shfs_config_line *line)
{
	struct values *v = arg;
	int r;

	if (strcmp(line->section, v->key->section) != 0 ||
	    strcmp(line->name, v->key->name) != 0)
		return 0;
	r = shfs_config_set(&v->scratch, v->key, line->value);
	if (r)
		return r == -ENOMEM ? r : 0;
	if (!shfs_config_adds(v->key)) {
		v->text.len = 0;
		v->n = 0;
	}
	if (!MAKE_ROOM(v->lines, v->n, v->cap))
		return -ENOMEM;
	v->lines[v->n++] = line->line;
	shfs_buf_add(&v->text, line->value, strlen(line->value) + 1);
	return v->text.failed ? -ENOMEM : 0;
}

/* Fills in the values of a key: those of the file, else the default with line 0. */
static int find_values(const struct config_file *file, struct values *v)
{
	int r = shfs_config_init(&v->scratch);

	if (!r)
		r = shfs_config_each(file->text.data, file->text.len, take_value, v);
	if (r || v->n || !v->key->initial)
		return r;
	if (!MAKE_ROOM(v->lines, v->n, v->cap))
		return -ENOMEM;
	v->lines[v->n++] = 0;
	shfs_buf_add(&v->text, v->key->initial, strlen(v->key->initial) + 1);
	return v->text.failed ? -ENOMEM : 0;
}

static void show_origin(struct shfs_buf *out, const struct config_file *file, int line)
{
	if (line) {
		shfs_quote_display(out, file->path, strlen(file->path));
		shfs_buf_printf(out, ":%d\t", line);
	} else {
		shfs_buf_str(out, "default\t");
	}
}

static void show_values(struct shfs_buf *out, const struct config_file *file,
                        const struct values *v, bool named)
{
	const char *value = v->text.data;

	for (size_t i = 0; i < v->n; i++, value += strlen(value) + 1) {
		if (opts.origin)
			show_origin(out, file, v->lines[i]);
		if (named)
			shfs_buf_printf(out, "%s.%s=", v->key->section, v->key->name);
		shfs_quote_display(out, value, strlen(value));
		shfs_buf_char(out, '\n');
	}
}

static void json_values(struct shfs_json *json, const struct config_file *file,
                        const struct values *v)
{
	const char *value = v->text.data;
	char name[NAME_MAX_BYTES];

	key_name(v->key, name);
	shfs_json_object(json, NULL);
	shfs_json_str(json, "key", name);
	shfs_json_array(json, "values");
	for (size_t i = 0; i < v->n; i++, value += strlen(value) + 1) {
		shfs_json_object(json, NULL);
		shfs_json_str(json, "value", value);
		if (v->lines[i])
			shfs_json_int(json, "line", v->lines[i]);
		else
			shfs_json_null(json, "line");
		shfs_json_object_end(json);
	}
	shfs_json_array_end(json);
	shfs_json_object_end(json);
}

static int list_config(const struct config_file *file)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };
	_cleanup_json_ struct shfs_json json = { 0 };

	if (opts.json) {
		shfs_json_begin(&json, "config");
		shfs_json_str(&json, "file", file->path);
		shfs_json_array(&json, "keys");
	}
	for (const struct shfs_config_key *key = shfs_config_keys; key->name; key++) {
		_cleanup_values_ struct values v = { .key = key };

		if (find_values(file, &v))
			return shfs_no_memory(), SHFS_EXIT_FAILURE;
		if (opts.json)
			json_values(&json, file, &v);
		else
			show_values(&out, file, &v, true);
	}
	if (!opts.json)
		return shfs_show_flush(&out) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
	shfs_json_array_end(&json);
	return shfs_json_end(&json) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}

static int get_config(const struct config_file *file, const struct shfs_config_key *key)
{
	_cleanup_values_ struct values v = { .key = key };
	_cleanup_buf_ struct shfs_buf out = { 0 };

	if (find_values(file, &v))
		return shfs_no_memory(), SHFS_EXIT_FAILURE;
	if (!v.n)
		return SHFS_EXIT_NOT_FOUND;
	show_values(&out, file, &v, false);
	return shfs_show_flush(&out) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}

/* --- describe --- */

static const char *const readers[] = {
	[SHFS_CONFIG_COMMANDS] = "the next command",
	[SHFS_CONFIG_MOUNTS] = "a mount, when it is mounted again",
	[SHFS_CONFIG_SHELLS] = "a shell, when it starts",
	[SHFS_CONFIG_BOTH] = "a shell when it starts, a mount when it is mounted again",
	[SHFS_CONFIG_INGEST] = "the background ingest of each store, within a minute",
};

static void describe_key(struct shfs_buf *out, const struct shfs_config_key *key)
{
	shfs_buf_printf(out, "%s.%s = %s", key->section, key->name, key->values);
	if (key->initial)
		shfs_buf_printf(out, " (%s)", key->initial);
	shfs_buf_printf(out, "\n    %s%s\n    taken up by: %s\n", key->summary,
	                shfs_config_adds(key) ? "; may be given several times" : "",
	                readers[key->reader]);
}

static int describe_config(struct shfs_context *ctx, const struct shfs_config_key *one)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	if (!one)
		shfs_context_pager(ctx);
	for (const struct shfs_config_key *key = shfs_config_keys; key->name; key++)
		if (!one || key == one)
			describe_key(&out, key);
	return shfs_show_flush(&out) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}

/* --- changes --- */

static int refuse_value(const struct shfs_config_key *key, const char *value)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_quote_display(&shown, value, strlen(value));
	shfs_error("%s.%s: bad value \"%s\"", key->section, key->name, shown.data ?: "");
	shfs_hint("it is %s: %s", key->values, key->summary);
	return SHFS_EXIT_USAGE;
}

static int check_value(const struct shfs_config_key *key, const char *value)
{
	_cleanup_values_ struct values v = { .key = key };
	int r = shfs_config_init(&v.scratch);

	if (!r)
		r = shfs_config_set(&v.scratch, key, value);
	if (r == -ENOMEM)
		return shfs_no_memory(), SHFS_EXIT_FAILURE;
	return r ? refuse_value(key, value) : 0;
}

static int fail_edit(const struct shfs_config_key *key, enum config_change change,
                     int error)
{
	switch (error) {
	case -ENOENT:
		shfs_error("%s.%s has no such value in the file", key->section,
		           key->name);
		return SHFS_EXIT_NOT_FOUND;
	case -EEXIST:
		shfs_error("%s.%s has several values", key->section, key->name);
		shfs_hint("shfs config add adds one; shfs config unset removes them");
		return SHFS_EXIT_USAGE;
	case -EILSEQ:
		if (change == CONFIG_UNSET) {
			shfs_error("the lines that continue %s.%s would change their "
			           "meaning",
			           key->section, key->name);
			shfs_hint("edit the file by hand");
			return SHFS_EXIT_REFUSED;
		}
		shfs_error("the value cannot stand in a configuration file");
		shfs_hint(
			"it has one line of at most 198 bytes with its key, no blank at "
			"an end, no \" ;\"");
		return SHFS_EXIT_USAGE;
	default:
		shfs_no_memory();
		return SHFS_EXIT_FAILURE;
	}
}

/* Locks the directory of the file, so that two changes at once are both kept. */
static int lock_directory(const char *path, int *fd)
{
	_cleanup_free_ char *copy = strdup(path);
	const char *dir = copy ? dirname(copy) : NULL;
	int r = dir ? shfs_mkdir_p_at(AT_FDCWD, dir, 0700) : -ENOMEM;

	if (r)
		return r;
	*fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*fd < 0)
		return -errno;
	(void)flock(*fd, LOCK_EX); /* a file system may have no locks */
	return 0;
}

static int write_config_file(const struct config_file *file, const struct shfs_buf *text)
{
	struct shfs_whole_file whole;
	int r = shfs_whole_file_begin(&whole, file->path, true, 0600);

	if (!r)
		r = shfs_write_all(whole.fd, text->data, text->len);
	if (!r)
		r = shfs_whole_file_finish(&whole);
	shfs_whole_file_close(&whole);
	return r;
}

static int change_config(const struct config_file *file,
                         const struct shfs_config_key *key, enum config_change change,
                         const char *value)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r = config_edit(&file->text, key, change, value, &text);

	if (r)
		return fail_edit(key, change, r);
	r = write_config_file(file, &text);
	if (r)
		return fail_file(file, "write", r);
	if (key->reader != SHFS_CONFIG_COMMANDS)
		shfs_hint("taken up by %s", readers[key->reader]);
	return SHFS_EXIT_OK;
}

static int run_change(struct shfs_context *ctx, struct config_file *file,
                      const struct shfs_config_key *key, const char *value)
{
	_cleanup_close_ int lock = -1;
	enum config_change change = !strcmp(verb, "set")   ? CONFIG_SET
	                            : !strcmp(verb, "add") ? CONFIG_ADD
	                                                   : CONFIG_UNSET;
	int code = change == CONFIG_UNSET ? 0 : check_value(key, value), r;

	if (code)
		return code;
	if (change == CONFIG_ADD && !shfs_config_adds(key)) {
		shfs_error("%s.%s has one value only", key->section, key->name);
		shfs_hint("shfs config set replaces it");
		return SHFS_EXIT_USAGE;
	}
	r = lock_directory(file->path, &lock);
	if (r)
		return fail_file(file, "write", r);
	shfs_buf_free(&file->text);
	r = shfs_read_file_at(AT_FDCWD, file->path, CONFIG_MAX_BYTES, &file->text);
	if (r && r != -ENOENT)
		return fail_file(file, "read", r);
	return change_config(file, key, change, value);
}

/* --- the command --- */

static const struct shfs_verb operands[] = {
	{ "add", 2, 2, "a key and a value" },
	{ "describe", 0, 1, "one key at most" },
	{ "get", 1, 1, "a key" },
	{ "list", 0, 0, "nothing else" },
	{ "set", 2, 2, "a key and a value" },
	{ "unset", 1, 2, "a key, and one value at most" },
	{ NULL },
};

static int check_config(struct shfs_context *ctx, int argc)
{
	return shfs_check_verb(&shfs_cmd_config, operands, verb, argc);
}

static int run_config(struct shfs_context *ctx, int argc, char **argv)
{
	_cleanup_config_file_ struct config_file file = { 0 };
	const char *what = verb ?: "list";
	const struct shfs_config_key *key = argc ? find_key(argv[0]) : NULL;
	int code;

	if (argc && !key)
		return SHFS_EXIT_USAGE;
	if (!strcmp(what, "describe"))
		return describe_config(ctx, key);
	code = read_config_file(ctx, &file);
	if (code)
		return code;
	if (!strcmp(what, "set") || !strcmp(what, "add") || !strcmp(what, "unset"))
		return run_change(ctx, &file, key, argc > 1 ? argv[1] : NULL);
	/* of what is wrong in the file one is warned */
	if (!shfs_context_config(ctx, &code))
		return code;
	return key ? get_config(&file, key) : list_config(&file);
}

const struct shfs_command shfs_cmd_config = {
	.name = "config",
	.args = "[list|get|set|add|unset|describe] [KEY [VALUE]]",
	.summary = "Show and change the configuration",
	.description =
		"KEY is SECTION.NAME, as archive.max-size. list shows what is in force,\n"
		"describe what there is, and when a change is taken up.\n"
		"\n"
		"set gives a key its value, add one more to a key that may have several;\n"
		"unset removes the key, or one of its values. Comments and all other lines\n"
		"of the file stay as they are.",
	.options = {
	{ "show-origin", 0, NULL, "with list and get: the line that says it, or default",
	  .flag = &opts.origin },
	{ "json", 0, NULL, "with list: for programs, see docs/json.md", .flag = &opts.json },
	},
	.operands = { 0, 2 },
	.verbs = verbs,
	.verb = &verb,
	.check = check_config,
	.run = run_config,
};
