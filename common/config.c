/* SPDX-License-Identifier: MIT */
#include "common/config.h"

#include "common/buf.h"
#include "common/io.h"
#include "common/program.h"
#include "common/quote.h"
#include "common/secrets.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <string.h>

#define CONFIG_MAX_BYTES (1 << 20)

#define AT(field) .offset = offsetof(struct shfs_config, field)

const struct shfs_config_key shfs_config_keys[] = {
	{ "archive", "max-size", "SIZE", "16M",
	  "a file that is changed is archived up to this size", SHFS_CONFIG_MOUNTS,
	  SHFS_CONFIG_SIZE, AT(archive_max_bytes) },
	{ "archive", "max-read-size", "SIZE", "1M",
	  "a file that is archived when only read, up to this size", SHFS_CONFIG_MOUNTS,
	  SHFS_CONFIG_SIZE, AT(read_max_bytes) },
	{ "archive", "fingerprint", "SIZE|all", "0",
	  "files up to this size have a fingerprint of the whole", SHFS_CONFIG_MOUNTS,
	  SHFS_CONFIG_SIZE, AT(fingerprint_bytes), .most = UINT64_MAX },
	{ "archive", "other-users", "SIZE", "1G",
	  "what is archived a day for each other user of a mount", SHFS_CONFIG_MOUNTS,
	  SHFS_CONFIG_SIZE, AT(other_users_bytes) },
	{ "archive", "ignore", "PATTERN", NULL, "files that are not archived",
	  SHFS_CONFIG_MOUNTS, SHFS_CONFIG_LINES, AT(ignore) },
	{ "archive", "archive-read", "PATTERN", NULL,
	  "files that are archived even when only read", SHFS_CONFIG_MOUNTS,
	  SHFS_CONFIG_LINES, AT(archive_read) },
	{ "archive", "private-keys", "no|yes", "no",
	  "archive private keys under ordinary names", SHFS_CONFIG_MOUNTS,
	  SHFS_CONFIG_FLAG, AT(private_keys) },
	{ "archive", "wait", "MILLISECONDS", "2000",
	  "how long a change waits at most until its file is read", SHFS_CONFIG_MOUNTS,
	  SHFS_CONFIG_NUMBER, AT(wait_ms), 0, 600000 },
	{ "archive", "compression", "LEVEL", "3", "the level of zstd, 1 to 19",
	  SHFS_CONFIG_MOUNTS, SHFS_CONFIG_NUMBER, AT(compression), 1, 19 },
	{ "mount", "known-files", "NUMBER", "250000",
	  "how many files a mount keeps in memory", SHFS_CONFIG_MOUNTS,
	  SHFS_CONFIG_NUMBER, AT(known_files), 1000, UINT32_MAX },
	{ "mount", "browse", "off|directory|on", "on", "what a mount shows of the past",
	  SHFS_CONFIG_MOUNTS, SHFS_CONFIG_CHOICE, AT(browse) },
	{ "mount", "passthrough", "off|auto", "auto",
	  "root's mounts: the kernel reads and writes by itself", SHFS_CONFIG_MOUNTS,
	  SHFS_CONFIG_FLAG, AT(passthrough) },
	{ "mount", "transport", "auto|dev|uring", "auto",
	  "how the kernel hands requests over", SHFS_CONFIG_MOUNTS, SHFS_CONFIG_CHOICE,
	  AT(transport) },
	{ "record", "environment", "NAMES", NULL,
	  "further variables of the environment to record", SHFS_CONFIG_MOUNTS,
	  SHFS_CONFIG_NAMES, AT(environment), .others = "" },
	{ "record", "ignore-reads", "PROGRAMS", NULL,
	  "further programs whose reads are not recorded", SHFS_CONFIG_MOUNTS,
	  SHFS_CONFIG_NAMES, AT(ignore_reads), .others = "-+." },
	{ "record", "software", "no|yes", "yes",
	  "look up the package of each program that is executed", SHFS_CONFIG_MOUNTS,
	  SHFS_CONFIG_FLAG, AT(software) },
	{ "hook", "origin", "no|yes", "yes", "export LC_SHFS, for ssh to take along",
	  SHFS_CONFIG_SHELLS, SHFS_CONFIG_FLAG, AT(origin) },
	{ "store", "max-size", "SIZE|none", "none",
	  "prune old contents when the store exceeds this", SHFS_CONFIG_INGEST,
	  SHFS_CONFIG_SIZE, AT(store_max_bytes) },
	{ "remote", "push", "off|daily|on-idle", "off", "push to each remote by itself",
	  SHFS_CONFIG_COMMANDS, SHFS_CONFIG_CHOICE, AT(push) },
	{ "remote", "demand-rate", "SIZE|none", "none",
	  "fetch at most so much in a second of what only a remote has",
	  SHFS_CONFIG_COMMANDS, SHFS_CONFIG_SIZE, AT(demand_rate) },
	{ "query", "color", "auto|always|never", "auto", "when output is coloured",
	  SHFS_CONFIG_COMMANDS, SHFS_CONFIG_WORD, AT(color) },
	{ "query", "pager", "COMMAND", NULL, "the pager; empty: none",
	  SHFS_CONFIG_COMMANDS, SHFS_CONFIG_TEXT, AT(pager) },
	{ "secrets", "redact", "no|yes", "yes",
	  "put [redacted] for text that looks like a secret", SHFS_CONFIG_BOTH,
	  SHFS_CONFIG_FLAG, AT(redact) },
	{ "secrets", "patterns", "EXPRESSION", NULL, "further patterns for secrets",
	  SHFS_CONFIG_BOTH, SHFS_CONFIG_PATTERNS, AT(secrets) },
	{ 0 },
};

const struct shfs_config_key *shfs_config_find(const char *section, const char *name)
{
	for (const struct shfs_config_key *key = shfs_config_keys; key->name; key++)
		if (!strcmp(key->section, section) && !strcmp(key->name, name))
			return key;
	return NULL;
}

static void *key_field(struct shfs_config *cfg, const struct shfs_config_key *key)
{
	return (char *)cfg + key->offset;
}

/* --- parsers --- */

int shfs_config_parse_size(const char *text, uint64_t *bytes)
{
	static const char units[] = "KMGT";
	unsigned long long value;
	int shift = 0;
	char *end;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno)
		return -errno;
	if (*end) {
		const char *unit = strchr(units, *end >= 'a' ? *end - 32 : *end);

		if (!unit || end[1])
			return -EINVAL;
		shift = 10 * (unit - units + 1);
	}
	if (value > UINT64_MAX >> shift)
		return -ERANGE;
	*bytes = value << shift;
	return 0;
}

/* Returns the index of a word in "a|b|c"; -EINVAL: it is none of them. */
static int find_word(const char *words, const char *text)
{
	size_t len = strlen(text);

	for (int i = 0;; i++) {
		size_t n = strcspn(words, "|");

		if (n == len && !memcmp(words, text, n))
			return i;
		if (!words[n])
			return -EINVAL;
		words += n + 1;
	}
}

int shfs_config_parse_transport(const char *text, enum shfs_transport_kind *out)
{
	int r = find_word(shfs_config_find("mount", "transport")->values, text);

	if (r < 0)
		return r;
	*out = (enum shfs_transport_kind)r;
	return 0;
}

static int set_size(uint64_t *out, const struct shfs_config_key *key, const char *value)
{
	const char *word = strchr(key->values, '|');

	if (!word || strcmp(value, word + 1) != 0)
		return shfs_config_parse_size(value, out);
	*out = key->most;
	return 0;
}

static int set_number(uint32_t *out, const struct shfs_config_key *key, const char *value)
{
	long long n;
	char *end;

	errno = 0;
	n = strtoll(value, &end, 10);
	if (errno || *value < '0' || *value > '9' || *end || (uint64_t)n < key->least ||
	    (uint64_t)n > key->most)
		return -EINVAL;
	*out = (uint32_t)n;
	return 0;
}

static int set_flag(bool *out, const struct shfs_config_key *key, const char *value)
{
	int r = find_word(key->values, value);

	if (r < 0)
		return r;
	*out = r;
	return 0;
}

static int set_choice(unsigned *out, const struct shfs_config_key *key, const char *value)
{
	int r = find_word(key->values, value);

	if (r < 0)
		return r;
	*out = (unsigned)r;
	return 0;
}

static int set_config_text(char **field, const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	free(*field);
	*field = copy;
	return 0;
}

/* Adds a pattern as a line: a key given again, or a continued line, adds one more. */
static int add_line(char **field, const char *value)
{
	struct shfs_buf b = { 0 };
	char *text;

	shfs_buf_str(&b, *field);
	shfs_buf_str(&b, value);
	shfs_buf_char(&b, '\n');
	text = shfs_buf_take(&b);
	if (!text)
		return -ENOMEM;
	free(*field);
	*field = text;
	return 0;
}

static const char blanks[] = " \t\n";

/* others: the characters of a name beside letters, digits and `_`. */
static bool is_name_list(const char *line, const char *others)
{
	while (*line) {
		size_t n = 0;

		line += *line == '!';
		while (isalnum((unsigned char)line[n]) || line[n] == '_' ||
		       (line[n] && strchr(others, line[n])))
			n++;
		n += line[n] == '*';
		line += n;
		if (!n || (*line && !strchr(blanks, *line)))
			return false;
		line += strspn(line, blanks);
	}
	return true;
}

int shfs_config_set(struct shfs_config *cfg, const struct shfs_config_key *key,
                    const char *value)
{
	void *field = key_field(cfg, key);

	switch (key->kind) {
	case SHFS_CONFIG_SIZE:
		return set_size(field, key, value);
	case SHFS_CONFIG_NUMBER:
		return set_number(field, key, value);
	case SHFS_CONFIG_FLAG:
		return set_flag(field, key, value);
	case SHFS_CONFIG_CHOICE:
		return set_choice(field, key, value);
	case SHFS_CONFIG_WORD:
		if (find_word(key->values, value) < 0)
			return -EINVAL;
		return set_config_text(field, value);
	case SHFS_CONFIG_TEXT:
		return set_config_text(field, value);
	case SHFS_CONFIG_NAMES:
		return is_name_list(value, key->others) ? add_line(field, value)
		                                        : -EINVAL;
	case SHFS_CONFIG_PATTERNS:
		return shfs_secrets_fault(value) ? -EINVAL : add_line(field, value);
	case SHFS_CONFIG_LINES:
		return add_line(field, value);
	}
	return -EINVAL;
}

/* --- the whole --- */

static int set_default(struct shfs_config *cfg, const struct shfs_config_key *key)
{
	char **text;

	if (key->initial)
		return shfs_config_set(cfg, key, key->initial);
	if (!shfs_config_adds(key))
		return 0;
	text = key_field(cfg, key);
	*text = strdup("");
	return *text ? 0 : -ENOMEM;
}

int shfs_config_init(struct shfs_config *cfg)
{
	*cfg = (struct shfs_config){ 0 };
	for (const struct shfs_config_key *key = shfs_config_keys; key->name; key++) {
		int r = set_default(cfg, key);

		if (r) {
			shfs_config_free(cfg);
			return r;
		}
	}
	return 0;
}

void shfs_config_free(struct shfs_config *cfg)
{
	for (const struct shfs_config_key *key = shfs_config_keys; key->name; key++)
		if (key->kind >= SHFS_CONFIG_WORD)
			free(*(char **)key_field(cfg, key));
	*cfg = (struct shfs_config){ 0 };
}

/* --- the file --- */

struct reading {
	struct shfs_config *cfg;
	int error, line;
	char *what;
};

static void add_quoted(struct shfs_buf *out, const char *before, const char *s)
{
	shfs_buf_str(out, before);
	shfs_quote_display(out, s, strlen(s));
}

/* Takes a value; the first one that is wrong is described. */
static int take_value(void *arg, const struct shfs_config_line *line)
{
	struct reading *rd = arg;
	struct shfs_buf what = { 0 };
	const struct shfs_config_key *key = shfs_config_find(line->section, line->name);
	int r = key ? shfs_config_set(rd->cfg, key, line->value) : -ENOENT;

	if (!r || rd->error)
		return 0;
	rd->error = r == -ENOMEM ? -ENOMEM : -EINVAL;
	rd->line = line->line;
	if (!key) {
		add_quoted(&what, "there is no key \"", line->name);
		add_quoted(&what, "\" in [", line->section);
		shfs_buf_char(&what, ']');
	} else {
		add_quoted(&what, "bad value \"", line->value);
		shfs_buf_printf(&what, "\" for %s", line->name);
		if (key->kind == SHFS_CONFIG_PATTERNS)
			shfs_buf_printf(&what, ": %s",
			                shfs_secrets_fault(line->value) ?: "");
	}
	rd->what = shfs_buf_take(&what);
	return 0;
}

/* The lines, given to libinih one by one, so that the number of each value's line is
 * known. */
struct lines {
	const char *next, *end;
	int line;
	int (*each)(void *arg, const struct shfs_config_line *line);
	void *arg;
	int error;         /* of each() */
	const char *fault; /* of the first line that libinih would cut silently */
	int fault_line;
};

/* The handler of libinih, called in the order of lines. Returns 1 to go on. */
static int on_key(void *arg, const char *section, const char *name, const char *value)
{
	struct lines *l = arg;
	struct shfs_config_line line = { l->line, section, name, value };

	if (!l->error)
		l->error = l->each(l->arg, &line);
	return 1;
}

/* Returns what is wrong with a line that libinih would cut silently, or NULL. */
static const char *line_fault(const char *line, size_t len, size_t size)
{
	if (memchr(line, '\0', len))
		return "a NUL byte";
	return len < size ? NULL : "the line is too long";
}

static char *next_line(char *out, int size, void *arg)
{
	struct lines *l = arg;
	const char *newline, *fault;
	size_t len;

	if (l->next == l->end || l->error)
		return NULL;
	newline = memchr(l->next, '\n', l->end - l->next);
	len = newline ? newline + 1 - l->next : l->end - l->next;
	l->line++;
	fault = line_fault(l->next, len, size);
	if (fault && !l->fault) {
		l->fault = fault;
		l->fault_line = l->line;
	}
	if (!fault)
		memcpy(out, l->next, len);
	out[fault ? 0 : len] = '\0';
	l->next += len;
	return out;
}

int shfs_config_each(const char *text, size_t len,
                     int (*each)(void *arg, const struct shfs_config_line *line),
                     void *arg)
{
	struct lines lines = {
		.next = text, .end = text + len, .each = each, .arg = arg
	};
	int r = len ? ini_parse_stream(next_line, &lines, on_key, &lines) : 0;

	return r < 0 ? -ENOMEM : lines.error;
}

static void set_message(char **message, const char *path, int line, const char *what)
{
	struct shfs_buf b = { 0 };

	add_quoted(&b, "", path);
	if (line)
		shfs_buf_printf(&b, ":%d", line);
	shfs_buf_printf(&b, ": %s", what);
	*message = shfs_buf_take(&b);
}

int shfs_config_read(struct shfs_config *cfg, const char *path, char **message)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	struct reading rd = { .cfg = cfg };
	struct lines lines = { .each = take_value, .arg = &rd };
	int r = shfs_read_file_at(AT_FDCWD, path, CONFIG_MAX_BYTES, &text), line;
	const char *what = NULL;

	if (r == -ENOENT)
		return 0;
	if (r) {
		set_message(message, path, 0, strerror(-r));
		return r;
	}
	lines.next = text.data;
	lines.end = text.data + text.len;
	/* line: the first one that libinih rejected; -2: no memory */
	line = ini_parse_stream(next_line, &lines, on_key, &lines);
	if (line > 0)
		what = "not \"key = value\" in a [section]";
	if (lines.fault && (!what || lines.fault_line < line)) {
		what = lines.fault;
		line = lines.fault_line;
	}
	if (rd.error && (!what || rd.line < line)) {
		what = rd.what;
		line = rd.line;
	}
	if (rd.error == -ENOMEM || line < 0 || (rd.error && !rd.what))
		r = -ENOMEM;
	else if (what)
		r = -EINVAL;
	if (r)
		set_message(message, path, MAX(line, 0),
		            r == -ENOMEM ? "no memory" : what);
	free(rd.what);
	return r;
}

/* --- lists of names --- */

static bool matches_name(const char *pattern, size_t pattern_len, const char *name,
                         size_t len)
{
	if (pattern_len && pattern[pattern_len - 1] == '*')
		return len >= pattern_len - 1 && !memcmp(pattern, name, pattern_len - 1);
	return pattern_len == len && !memcmp(pattern, name, len);
}

bool shfs_config_list_has(const char *list, const char *name, size_t len, bool otherwise)
{
	bool is_meant = otherwise;

	for (const char *p = list + strspn(list, blanks); *p; p += strspn(p, blanks)) {
		size_t n = strcspn(p, blanks);
		bool excludes = *p == '!';

		if (matches_name(p + excludes, n - excludes, name, len))
			is_meant = !excludes;
		p += n;
	}
	return is_meant;
}

bool shfs_config_ignores_reads(const struct shfs_config *cfg, const char *exe)
{
	const char *name = basename(exe);
	size_t len = strlen(name);

	return shfs_config_list_has(cfg->ignore_reads, name, len,
	                            shfs_program_scans(name, len));
}
