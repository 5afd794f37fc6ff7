/* SPDX-License-Identifier: MIT */
#include "query/remote/cmd/unlock.h"

#include "query/base/cmd.h"
#include "query/base/model.h"
#include "query/remote/cmd/messages.h"
#include "query/remote/encryption/encrypted.h"
#include "query/remote/heads.h"

#include "common/path.h"
#include "common/quote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ENV_KEY      "SHFS_REMOTE_KEY"
#define ENV_KEY_FILE "SHFS_REMOTE_KEY_FILE"

/* Where a key comes from; the first that is set counts. */
struct source {
	const char *text;    /* the key itself */
	const char *command; /* prints it */
	const char *file;
	bool is_default; /* nobody has named the file */
};

static const char *from_environment(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

static bool is_given(const struct key_options *options)
{
	return options->file || options->command || from_environment(ENV_KEY) ||
	       from_environment(ENV_KEY_FILE);
}

/* --- messages --- */

/* "cannot push to lab: why". */
static int refuse(const char *what, const struct place *place, const char *why)
{
	_cleanup_buf_ struct shfs_buf url = { 0 };

	shfs_quote_display(&url, place->url, strlen(place->url));
	shfs_error("cannot %s %s: %s", what, url.data ?: "", why);
	return SHFS_EXIT_REFUSED;
}

static int fail_source(const struct source *source, int error)
{
	_cleanup_buf_ struct shfs_buf file = { 0 };
	const char *why = error == -EINVAL   ? "that is no key of shfs"
	                  : error == -ECHILD ? "it failed"
	                                     : strerror(-error);

	if (source->text) {
		shfs_error("cannot read the key in " ENV_KEY ": %s", why);
	} else if (source->command) {
		shfs_error("cannot read the key by its command: %s", why);
	} else {
		shfs_show_directory(&file, source->file);
		shfs_error("cannot read the key in %s: %s", file.data ?: "", why);
	}
	return SHFS_EXIT_FAILURE;
}

static int refuse_missing(const char *what, const struct place *place,
                          const struct source *source)
{
	_cleanup_buf_ struct shfs_buf file = { 0 };
	int code = refuse(what, place, "it is encrypted, and its key is missing");

	shfs_show_directory(&file, source->file);
	shfs_hint("put it into %s, or name it by --key or " ENV_KEY_FILE,
	          file.data ?: "");
	return code;
}

static int refuse_wrong(const char *what, const struct place *place,
                        const struct source *source, int error)
{
	_cleanup_buf_ struct shfs_buf file = { 0 };
	int code;

	if (error != -EKEYREJECTED)
		return remote_fail(what, place, NULL, error);
	code = refuse(what, place, "the key is not the one of this remote");
	if (!source->text && !source->command) {
		shfs_show_directory(&file, source->file);
		shfs_hint("it was read from %s; --key names another one",
		          file.data ?: "");
	}
	return code;
}

/* --- a place that is known --- */

static int read_source(const struct source *source, struct remote_key **out)
{
	if (source->text)
		return remote_key_parse(source->text, strlen(source->text), out);
	return source->command ? remote_key_run(source->command, out)
	                       : remote_key_read(source->file, out);
}

/* Chooses among all places where a key may be. usual: the path by default. */
static struct source choose_source(const char *file, const char *command,
                                   const char *usual)
{
	struct source source = { .text = from_environment(ENV_KEY) };

	if (source.text)
		return source;
	source.file = from_environment(ENV_KEY_FILE);
	if (source.file)
		return source;
	source.command = command;
	source.file = file ?: usual;
	source.is_default = !command && !file;
	return source;
}

/* Puts the encryption around *remote if the place is known to be encrypted. */
static int unlock(const char *what, const struct place *place,
                  struct shfs_remote **remote)
{
	const struct place_encryption *e = &place->encryption;
	_cleanup_free_ char *usual = NULL;
	_cleanup_key_ struct remote_key *key = NULL;
	struct source source;
	int r;

	if (!e->label)
		return 0;
	usual = remote_key_path(place->name);
	if (!usual)
		return shfs_no_memory(), SHFS_EXIT_FAILURE;
	source = choose_source(e->key_file, e->key_command, usual);
	r = read_source(&source, &key);
	if (r == -ENOENT)
		return refuse_missing(what, place, &source);
	if (r)
		return fail_source(&source, r);
	r = remote_encrypt(*remote, key, e->label, remote);
	return r ? refuse_wrong(what, place, &source, r) : 0;
}

int remote_connect(const char *what, const struct place *place, const char *rate,
                   struct shfs_remote **out)
{
	_cleanup_buf_ struct shfs_buf why = { 0 };
	uint64_t bytes = 0;
	int r;

	if (rate && (shfs_config_parse_size(rate, &bytes) || !bytes)) {
		shfs_error("--rate takes bytes for a second, as 500K or 2M");
		return SHFS_EXIT_USAGE;
	}
	r = shfs_remote_open(place->url, &why, out);
	if (!r) {
		(*out)->rate = bytes;
		return unlock(what, place, out);
	}
	if (why.len) {
		_cleanup_buf_ struct shfs_buf url = { 0 }, said = { 0 };

		shfs_quote_display(&url, place->url, strlen(place->url));
		shfs_quote_display(&said, why.data, strlen(why.data));
		shfs_error("cannot %s %s: %s", what, url.data ?: "", said.data ?: "");
		return SHFS_EXIT_FAILURE;
	}
	return remote_fail(what, place, NULL, r);
}

/* --- a remote that is met for the first time --- */

struct meeting {
	const char *what;
	struct place *place;
	const struct key_options *options;
	struct source source;
	char *usual;
	struct remote_key *key;
};

static void meeting_clear(struct meeting *m)
{
	remote_key_free(m->key);
	free(m->usual);
}

static int write_key(const struct meeting *m)
{
	_cleanup_buf_ struct shfs_buf file = { 0 };
	int r = remote_key_write(m->key, m->source.file);

	shfs_show_directory(&file, m->source.file);
	if (r) {
		shfs_error("cannot write the key to %s: %s", file.data ?: "",
		           strerror(-r));
		return SHFS_EXIT_FAILURE;
	}
	shfs_warn("the key of %s is in %s: keep a copy of it elsewhere, as without it "
	          "nothing there can be read",
	          m->place->name, file.data ?: "");
	return 0;
}

/* Asks for the key of a remote that has this label, and keeps it. */
static int ask_for_key(struct meeting *m, const char *label)
{
	_cleanup_buf_ struct shfs_buf prompt = { 0 };
	int r;

	shfs_buf_printf(&prompt, "Key of %s (shfs-key-1:...): ", m->place->name);
	if (prompt.failed)
		return shfs_no_memory(), SHFS_EXIT_FAILURE;
	r = remote_key_ask(prompt.data, &m->key);
	if (r == -ENOTTY || r == -ECANCELED)
		return refuse_missing(m->what, m->place, &m->source);
	if (r == -EINVAL) {
		shfs_error("that is no key of shfs");
		return SHFS_EXIT_USAGE;
	}
	if (!r)
		r = label_check(m->key, label);
	if (r == -EKEYREJECTED)
		return refuse(m->what, m->place, "the key is not the one of this remote");
	return r ? remote_fail(m->what, m->place, NULL, r) : write_key(m);
}

/* Reads the key, or asks for it. */
static int get_key(struct meeting *m, const char *label)
{
	int r = read_source(&m->source, &m->key);

	if (r == -ENOENT && m->source.is_default)
		return ask_for_key(m, label);
	if (r)
		return fail_source(&m->source, r);
	r = label_check(m->key, label);
	return r ? refuse_wrong(m->what, m->place, &m->source, r) : 0;
}

/* Reads the key that the new remote is to have, or makes one. */
static int get_new_key(struct meeting *m, char label[static LABEL_MAX])
{
	int code = 0, r = read_source(&m->source, &m->key);

	if (r == -ENOENT && !m->source.text && !m->source.command) {
		r = remote_key_make(&m->key);
		if (!r)
			code = write_key(m);
	}
	if (!r && !code)
		r = label_make(m->key, label);
	return code ? code : r ? fail_source(&m->source, r) : 0;
}

/* Notes what the next command needs to find the key. */
static int note_encryption(struct meeting *m, const char *label)
{
	struct place_encryption *e = &m->place->encryption;
	bool is_of_environment =
		from_environment(ENV_KEY) || from_environment(ENV_KEY_FILE);

	e->label = strdup(label);
	if (!is_of_environment && m->source.command)
		e->key_command = strdup(m->source.command);
	else if (!is_of_environment)
		e->key_file = shfs_path_absolute(m->source.file);
	if (e->label && (is_of_environment || e->key_command || e->key_file))
		return 0;
	shfs_no_memory();
	return SHFS_EXIT_FAILURE;
}

/* There is nothing that is known to be a remote. */
static int meet_nothing(struct meeting *m, struct shfs_remote *remote,
                        char label[static LABEL_MAX])
{
	int r = remote_look(remote);

	if (r != -ENOENT)
		return remote_fail(m->what, m->place, remote, r ? r : -EAGAIN);
	return get_new_key(m, label);
}

/* The options go into lines. */
static int check_options(const struct key_options *options)
{
	if ((options->file && strchr(options->file, '\n')) ||
	    (options->command && strchr(options->command, '\n'))) {
		shfs_error("--key and --key-command take one line");
		return SHFS_EXIT_USAGE;
	}
	if (!options->file || !options->command)
		return 0;
	shfs_error("--key and --key-command exclude each other");
	return SHFS_EXIT_USAGE;
}

/* Finds the key for what is there, and the label. *plain: there is no encryption. */
static int find_key(struct meeting *m, struct shfs_remote *remote,
                    char label[static LABEL_MAX], bool *plain)
{
	const bool wanted = m->options->encrypt || is_given(m->options);
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r = shfs_remote_get(remote, REMOTE_FORMAT_NAME, 0, LABEL_MAX - 1, &text);

	if (r && r != -ENOENT)
		return remote_fail(m->what, m->place, remote, r);
	snprintf(label, LABEL_MAX, "%s", text.data ?: "");
	if (label_is_encrypted(label))
		return get_key(m, label);
	*plain = !wanted; /* whoever looks at it then says what is wrong */
	if (!wanted)
		return 0;
	if (!strcmp(label, REMOTE_FORMAT))
		return refuse(m->what, m->place,
		              "it is not encrypted, but a key is given for it");
	if (!m->options->makes) {
		r = remote_look(remote);
		return remote_fail(m->what, m->place, remote, r ? r : -ENOTEMPTY);
	}
	return meet_nothing(m, remote, label);
}

int remote_meet(const char *what, struct place *place, const struct key_options *options,
                struct shfs_remote **remote)
{
	_cleanup_(meeting_clear) struct meeting m = { .what = what,
		                                      .place = place,
		                                      .options = options };
	char label[LABEL_MAX];
	bool plain = false;
	int code = check_options(options), r;

	if (code)
		return code;
	m.usual = remote_key_path(place->name);
	if (!m.usual)
		return shfs_no_memory(), SHFS_EXIT_FAILURE;
	m.source = choose_source(options->file, options->command, m.usual);
	code = find_key(&m, *remote, label, &plain);
	if (code || plain)
		return code;
	code = note_encryption(&m, label);
	if (code)
		return code;
	r = remote_encrypt(*remote, m.key, label, remote);
	return r ? remote_fail(what, place, NULL, r) : 0;
}
