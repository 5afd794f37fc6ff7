/* SPDX-License-Identifier: MIT */
#include "query/history/definitions.h"

#include "common/quote.h"
#include "common/record.h"
#include "query/base/model.h"
#include "query/history/shell-text.h"

#include <errno.h>
#include <string.h>

/* --- loading --- */

/* Unpacks a definition of v_definition: kind, kept, name and NUL, body. */
static int unpack_definition(const char *text, size_t len, struct shfs_definition *out)
{
	struct shfs_definition d = { .packed = malloc(len + 1) };
	char *end;

	if (!d.packed)
		return -ENOMEM;
	memcpy(d.packed, text, len);
	d.packed[len] = '\0';
	end = len > 2 ? memchr(d.packed + 2, '\0', len - 2) : NULL;
	if (!end) {
		free(d.packed);
		return -EBADMSG;
	}
	d.kind = d.packed[0];
	d.kept = d.packed[1] - '0';
	d.name = d.packed + 2;
	d.body = end + 1;
	d.body_len = d.packed + len - d.body;
	*out = d;
	return 0;
}

static int add_row(struct shfs_definitions *all, struct shfs_rows *rows, size_t *cap)
{
	int r;

	if (shfs_rows_is_null(rows, 0)) {
		all->more = true;
		return 0;
	}
	if (!MAKE_ROOM(all->list, all->n, *cap))
		return -ENOMEM;
	r = unpack_definition(shfs_rows_text(rows, 0), shfs_rows_bytes(rows, 0),
	                      &all->list[all->n]);
	all->n += !r;
	return r;
}

int shfs_definitions_load(struct shfs_index *index, int64_t command_id,
                          struct shfs_definitions *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	struct shfs_definitions all = { 0 };
	size_t cap = 0;
	int r = shfs_rows_open_ints(index,
	                            "SELECT definition FROM v_definition"
	                            " WHERE command_id = ?1 ORDER BY position",
	                            SHFS_INTS(command_id), &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = add_row(&all, rows, &cap);
	if (r) {
		shfs_definitions_clear(&all);
		return r;
	}
	*out = all;
	return 0;
}

void shfs_definitions_clear(struct shfs_definitions *all)
{
	for (size_t i = 0; i < all->n; i++)
		free(all->list[i].packed);
	free(all->list);
	*all = (struct shfs_definitions){ 0 };
}

/* --- what they are for a text --- */

static bool is_alias(const struct shfs_definition *d)
{
	return d->kind == SHFS_DEFINITION_ALIAS ||
	       d->kind == SHFS_DEFINITION_GLOBAL_ALIAS ||
	       d->kind == SHFS_DEFINITION_SUFFIX_ALIAS;
}

static bool is_known_kind(const struct shfs_definition *d)
{
	return is_alias(d) || d->kind == SHFS_DEFINITION_FUNCTION ||
	       d->kind == SHFS_DEFINITION_OPTIONS;
}

bool shfs_definitions_has(const struct shfs_definitions *all, const char *word,
                          size_t len)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct shfs_definition *d = &all->list[i];
		size_t n = strlen(d->name);

		if (d->kind == SHFS_DEFINITION_SUFFIX_ALIAS
		            ? len > n && word[len - n - 1] == '.' &&
		                      !memcmp(word + len - n, d->name, n)
		            : n == len && n && !memcmp(word, d->name, n))
			return true;
	}
	return false;
}

/* Does the body of the alias or the function need something of its shell, which is not
 * recorded? Adds what. The text may give it input, and set its variables. */
static bool needs_shell(const struct shfs_definition *d, const char *text,
                        struct shfs_buf *why)
{
	_cleanup_buf_ struct shfs_buf needs = { 0 }, all = { 0 };

	shfs_buf_printf(&all, "%s\n%s", d->body, text);
	if (d->kind == SHFS_DEFINITION_OPTIONS || all.failed ||
	    !shfs_text_needs_shell(all.data, &needs))
		return false;
	shfs_buf_str(why, "runs ");
	shfs_quote_display(why, d->name, strlen(d->name));
	shfs_buf_printf(why, ", which %s, which is not recorded", needs.data ?: "");
	return true;
}

bool shfs_definitions_lack(const struct shfs_definitions *all, const char *text,
                           struct shfs_buf *why)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct shfs_definition *d = &all->list[i];

		if (d->kept == SHFS_DEFINITION_WHOLE && is_known_kind(d)) {
			if (needs_shell(d, text, why))
				return true;
			continue;
		}
		shfs_buf_str(why, "runs ");
		shfs_quote_display(why, d->name, strlen(d->name));
		shfs_buf_str(why, d->kept == SHFS_DEFINITION_REDACTED
		                          ? ", an alias or a function: a secret in it "
		                            "was not kept"
		                          : ", an alias or a function whose text is not "
		                            "recorded");
		return true;
	}
	if (all->more)
		shfs_buf_str(why, "runs more aliases or functions than are recorded");
	return all->more;
}

/* --- the text to run --- */

static void add_alias(struct shfs_buf *out, const struct shfs_definition *d)
{
	shfs_buf_str(out, "alias ");
	if (d->kind != SHFS_DEFINITION_ALIAS)
		shfs_buf_printf(out, "-%c ", d->kind);
	if (!shfs_quote_plain(d->name, strlen(d->name)) || *d->name == '-')
		shfs_buf_str(out, "-- ");
	shfs_quote_shell(out, d->name, strlen(d->name));
	shfs_buf_char(out, '=');
	shfs_quote_shell(out, d->body, d->body_len);
}

/* Adds a text that needs what comes before it: zsh would read all lines before it does
 * the first, so it gets them in an eval. */
static void add_part(struct shfs_buf *out, bool in_eval, const char *text, size_t len)
{
	if (in_eval) {
		shfs_buf_str(out, "eval ");
		shfs_quote_shell(out, text, len);
	} else {
		shfs_buf_add(out, text, len);
	}
}

static bool has_kind(const struct shfs_definitions *all,
                     bool (*is)(const struct shfs_definition *d))
{
	for (size_t i = 0; i < all->n; i++)
		if (is(&all->list[i]))
			return true;
	return false;
}

static bool is_function(const struct shfs_definition *d)
{
	return d->kind == SHFS_DEFINITION_FUNCTION;
}

static bool is_options(const struct shfs_definition *d)
{
	return d->kind == SHFS_DEFINITION_OPTIONS;
}

/* Adds the definitions of one kind, a line each. */
static void add_kind(struct shfs_buf *out, const struct shfs_definitions *all,
                     bool (*is)(const struct shfs_definition *d), bool in_eval)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct shfs_definition *d = &all->list[i];

		if (!is(d))
			continue;
		if (is_alias(d))
			add_alias(out, d);
		else
			add_part(out, in_eval, d->body, d->body_len);
		shfs_buf_char(out, '\n');
	}
}

/* Functions come before aliases: their bodies are as they were read, with the aliases of
 * that time in place. */
static void add_script_text(struct shfs_command_script *script,
                            const struct shfs_command_row *command)
{
	const struct shfs_definitions *all = &script->definitions;
	struct shfs_buf *out = &script->text;
	bool zsh = !strcmp(script->shell, "zsh");

	add_kind(out, all, is_options, false);
	add_kind(out, all, is_function, zsh && has_kind(all, is_options));
	if (has_kind(all, is_alias) && !zsh)
		shfs_buf_str(out, "shopt -s expand_aliases\n");
	add_kind(out, all, is_alias, false);
	add_part(out, zsh && all->n, command->text, command->text_len);
}

/* A program gave the text to another shell, such as dash: bash is told to run that. */
static int call_shell(struct shfs_command_script *script,
                      const struct shfs_command_row *command)
{
	char *bash = strdup("bash");

	shfs_buf_printf(&script->text, "%s -c ", script->shell);
	shfs_quote_shell(&script->text, command->text, command->text_len);
	free(script->shell);
	script->shell = bash;
	return bash ? 0 : -ENOMEM;
}

int shfs_command_script_load(struct shfs_index *index,
                             const struct shfs_command_row *command,
                             struct shfs_command_script *out)
{
	struct shfs_command_script script = { 0 };
	bool known;
	int r = shfs_command_shell(index, command, "bash", &script.shell);

	if (!r)
		r = shfs_definitions_load(index, command->command_id,
		                          &script.definitions);
	if (!r) {
		known = !strcmp(script.shell, "bash") || !strcmp(script.shell, "zsh") ||
		        !strcmp(script.shell, "fish");
		if (*command->invoker && !known)
			r = call_shell(&script, command);
		else
			add_script_text(&script, command);
		r = r ? r : script.text.failed ? -ENOMEM : 0;
	}
	*out = script;
	if (r)
		shfs_command_script_clear(out);
	return r;
}

void shfs_command_script_clear(struct shfs_command_script *script)
{
	free(script->shell);
	shfs_definitions_clear(&script->definitions);
	shfs_buf_free(&script->text);
	script->shell = NULL;
}

/* --- shown --- */

void shfs_definition_show(struct shfs_buf *out, const struct shfs_definition *d)
{
	if (d->kept == SHFS_DEFINITION_LEFT_OUT || !is_known_kind(d)) {
		shfs_quote_display(out, d->name, strlen(d->name));
		shfs_buf_str(out, is_alias(d)
		                          ? " (an alias: its text is not recorded)"
		                          : " (a function: its text is not recorded)");
	} else if (is_alias(d)) {
		_cleanup_buf_ struct shfs_buf text = { 0 };

		add_alias(&text, d);
		shfs_quote_text(out, text.data ?: "", text.len);
	} else {
		shfs_quote_text(out, d->body, d->body_len);
	}
}

static const char *kind_word(const struct shfs_definition *d)
{
	return is_alias(d)      ? "alias"
	       : is_function(d) ? "function"
	       : is_options(d)  ? "options"
	                        : "unknown";
}

void shfs_definitions_json(struct shfs_json *json, const struct shfs_definitions *all)
{
	shfs_json_array(json, "definitions");
	for (size_t i = 0; i < all->n; i++) {
		const struct shfs_definition *d = &all->list[i];

		shfs_json_object(json, NULL);
		shfs_json_str(json, "kind", kind_word(d));
		if (*d->name)
			shfs_json_str(json, "name", d->name);
		if (d->kept != SHFS_DEFINITION_LEFT_OUT)
			shfs_json_text(json, "text", d->body, d->body_len);
		if (d->kept == SHFS_DEFINITION_REDACTED)
			shfs_json_bool(json, "redacted", true);
		shfs_json_object_end(json);
	}
	shfs_json_array_end(json);
}
