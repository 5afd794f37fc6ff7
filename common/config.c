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

int shfs_config_init(struct shfs_config *cfg)
{
	*cfg = (struct shfs_config){
		.archive_max_bytes = 16 << 20,
		.read_max_bytes = 1 << 20,
		.other_users_bytes = 1 << 30,
		.wait_ms = 2000,
		.compression = 3,
		.known_files = 250000,
		.passthrough = true,
		.browse = SHFS_BROWSE_ON,
		.ignore = strdup(""),
		.archive_read = strdup(""),
		.color = strdup("auto"),
		.redact = true,
		.software = true,
		.origin = true,
		.secrets = strdup(""),
		.environment = strdup(""),
		.ignore_reads = strdup(""),
	};
	if (!cfg->ignore || !cfg->archive_read || !cfg->color || !cfg->secrets ||
	    !cfg->environment || !cfg->ignore_reads) {
		shfs_config_free(cfg);
		return -ENOMEM;
	}
	return 0;
}

void shfs_config_free(struct shfs_config *cfg)
{
	free(cfg->ignore);
	free(cfg->archive_read);
	free(cfg->pager);
	free(cfg->color);
	free(cfg->secrets);
	free(cfg->environment);
	free(cfg->ignore_reads);
	*cfg = (struct shfs_config){ 0 };
}

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

static int set_number(int64_t *out, const char *value, int64_t least, int64_t most)
{
	long long n;
	char *end;

	errno = 0;
	n = strtoll(value, &end, 10);
	if (errno || *value < '0' || *value > '9' || *end || n < least || n > most)
		return -EINVAL;
	*out = n;
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

static int set_yes(bool *field, const char *value)
{
	if (strcmp(value, "yes") && strcmp(value, "no"))
		return -EINVAL;
	*field = !strcmp(value, "yes");
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

struct reading {
	struct shfs_config *cfg;
	int error, line;
	char *what;
};

static int set_archive(struct shfs_config *cfg, const char *name, const char *value)
{
	int64_t n;
	int r;

	if (!strcmp(name, "max-size"))
		return shfs_config_parse_size(value, &cfg->archive_max_bytes);
	if (!strcmp(name, "fingerprint")) {
		cfg->fingerprint_bytes = UINT64_MAX;
		return strcmp(value, "all") != 0
		               ? shfs_config_parse_size(value, &cfg->fingerprint_bytes)
		               : 0;
	}
	if (!strcmp(name, "max-read-size"))
		return shfs_config_parse_size(value, &cfg->read_max_bytes);
	if (!strcmp(name, "other-users"))
		return shfs_config_parse_size(value, &cfg->other_users_bytes);
	if (!strcmp(name, "ignore"))
		return add_line(&cfg->ignore, value);
	if (!strcmp(name, "archive-read"))
		return add_line(&cfg->archive_read, value);
	if (!strcmp(name, "private-keys"))
		return set_yes(&cfg->private_keys, value);
	if (!strcmp(name, "wait")) {
		r = set_number(&n, value, 0, 600000);
		if (!r)
			cfg->wait_ms = n;
		return r;
	}
	if (!strcmp(name, "compression")) {
		r = set_number(&n, value, 1, 19);
		if (!r)
			cfg->compression = n;
		return r;
	}
	return -ENOENT;
}

/* Returns the place of a word among n; -EINVAL: it is none of them. */
static int find_word(const char *const *words, size_t n, const char *text)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(text, words[i]))
			return (int)i;
	return -EINVAL;
}

int shfs_config_parse_transport(const char *text, enum shfs_transport_kind *out)
{
	static const char *const names[] = {
		[SHFS_TRANSPORT_AUTO] = "auto",
		[SHFS_TRANSPORT_DEV] = "dev",
		[SHFS_TRANSPORT_URING] = "uring",
	};
	int r = find_word(names, ARRAY_SIZE(names), text);

	if (r < 0)
		return r;
	*out = (enum shfs_transport_kind)r;
	return 0;
}

static int set_browse(struct shfs_config *cfg, const char *value)
{
	static const char *const names[] = {
		[SHFS_BROWSE_OFF] = "off",
		[SHFS_BROWSE_DIRECTORY] = "directory",
		[SHFS_BROWSE_ON] = "on",
	};
	int r = find_word(names, ARRAY_SIZE(names), value);

	if (r < 0)
		return r;
	cfg->browse = (enum shfs_browse_kind)r;
	return 0;
}

static int set_mount(struct shfs_config *cfg, const char *name, const char *value)
{
	int64_t n;
	int r;

	if (!strcmp(name, "transport"))
		return shfs_config_parse_transport(value, &cfg->transport);
	if (!strcmp(name, "passthrough")) {
		if (strcmp(value, "auto") && strcmp(value, "off"))
			return -EINVAL;
		cfg->passthrough = !strcmp(value, "auto");
		return 0;
	}
	if (!strcmp(name, "browse"))
		return set_browse(cfg, value);
	if (strcmp(name, "known-files") != 0)
		return -ENOENT;
	r = set_number(&n, value, 1000, UINT32_MAX);
	if (!r)
		cfg->known_files = (uint32_t)n;
	return r;
}

static int set_store(struct shfs_config *cfg, const char *name, const char *value)
{
	if (strcmp(name, "max-size") != 0)
		return -ENOENT;
	if (!strcmp(value, "none")) {
		cfg->store_max_bytes = 0;
		return 0;
	}
	return shfs_config_parse_size(value, &cfg->store_max_bytes);
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

static int add_names(char **field, const char *value, const char *others)
{
	return is_name_list(value, others) ? add_line(field, value) : -EINVAL;
}

static int set_record(struct shfs_config *cfg, const char *name, const char *value)
{
	if (!strcmp(name, "software"))
		return set_yes(&cfg->software, value);
	if (!strcmp(name, "environment"))
		return add_names(&cfg->environment, value, "");
	if (!strcmp(name, "ignore-reads"))
		return add_names(&cfg->ignore_reads, value, "-+.");
	return -ENOENT;
}

static int set_hook(struct shfs_config *cfg, const char *name, const char *value)
{
	return strcmp(name, "origin") ? -ENOENT : set_yes(&cfg->origin, value);
}

static int set_remote(struct shfs_config *cfg, const char *name, const char *value)
{
	static const char *const names[] = {
		[SHFS_PUSH_OFF] = "off",
		[SHFS_PUSH_DAILY] = "daily",
		[SHFS_PUSH_ON_IDLE] = "on-idle",
	};
	int r;

	if (!strcmp(name, "demand-rate"))
		return shfs_config_parse_size(value, &cfg->demand_rate);
	r = strcmp(name, "push") ? -ENOENT : find_word(names, ARRAY_SIZE(names), value);
	if (r < 0)
		return r;
	cfg->push = (enum shfs_push_kind)r;
	return 0;
}

static int set_query(struct shfs_config *cfg, const char *name, const char *value)
{
	if (!strcmp(name, "pager"))
		return set_config_text(&cfg->pager, value);
	if (!strcmp(name, "color")) {
		if (strcmp(value, "auto") && strcmp(value, "always") &&
		    strcmp(value, "never"))
			return -EINVAL;
		return set_config_text(&cfg->color, value);
	}
	return -ENOENT;
}

static int set_secrets(struct shfs_config *cfg, const char *name, const char *value)
{
	if (!strcmp(name, "patterns"))
		return shfs_secrets_fault(value) ? -EINVAL
		                                 : add_line(&cfg->secrets, value);
	if (strcmp(name, "redact") != 0)
		return -ENOENT;
	return set_yes(&cfg->redact, value);
}

static void add_quoted(struct shfs_buf *out, const char *before, const char *s)
{
	shfs_buf_str(out, before);
	shfs_quote_display(out, s, strlen(s));
}

/* The handler of libinih, called in the order of lines. Returns 1 to go on. */
static int on_key(void *arg, const char *section, const char *name, const char *value)
{
	struct reading *rd = arg;
	struct shfs_buf what = { 0 };
	int r = -ENOENT;

	if (!strcmp(section, "archive"))
		r = set_archive(rd->cfg, name, value);
	else if (!strcmp(section, "mount"))
		r = set_mount(rd->cfg, name, value);
	else if (!strcmp(section, "record"))
		r = set_record(rd->cfg, name, value);
	else if (!strcmp(section, "hook"))
		r = set_hook(rd->cfg, name, value);
	else if (!strcmp(section, "store"))
		r = set_store(rd->cfg, name, value);
	else if (!strcmp(section, "remote"))
		r = set_remote(rd->cfg, name, value);
	else if (!strcmp(section, "query"))
		r = set_query(rd->cfg, name, value);
	else if (!strcmp(section, "secrets"))
		r = set_secrets(rd->cfg, name, value);
	if (!r || rd->error)
		return 1;
	rd->error = r == -ENOMEM ? -ENOMEM : -EINVAL;
	if (r == -ENOENT) {
		add_quoted(&what, "there is no key \"", name);
		add_quoted(&what, "\" in [", section);
		shfs_buf_char(&what, ']');
	} else {
		add_quoted(&what, "bad value \"", value);
		shfs_buf_printf(&what, "\" for %s", name);
		if (!strcmp(name, "patterns"))
			shfs_buf_printf(&what, ": %s", shfs_secrets_fault(value) ?: "");
	}
	rd->what = shfs_buf_take(&what);
	return 0;
}

/* The lines, given to libinih one by one, so that the line of the first bad key is known.
 */
struct lines {
	const char *next, *end;
	struct reading *rd;
	int line;
};

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
	struct reading *rd = l->rd;
	const char *newline, *fault;
	size_t len;

	if (rd->error && !rd->line)
		rd->line = l->line;
	if (l->next == l->end)
		return NULL;
	newline = memchr(l->next, '\n', l->end - l->next);
	len = newline ? newline + 1 - l->next : l->end - l->next;
	l->line++;
	fault = line_fault(l->next, len, size);
	if (fault && !rd->error) {
		rd->what = strdup(fault);
		rd->error = rd->what ? -EINVAL : -ENOMEM;
		rd->line = l->line;
	}
	if (!fault)
		memcpy(out, l->next, len);
	out[fault ? 0 : len] = '\0';
	l->next += len;
	return out;
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
	struct lines lines = { .rd = &rd };
	int r = shfs_read_file_at(AT_FDCWD, path, CONFIG_MAX_BYTES, &text);

	if (r == -ENOENT)
		return 0;
	if (r) {
		set_message(message, path, 0, strerror(-r));
		return r;
	}
	lines.next = text.data;
	lines.end = text.data + text.len;
	/* r: the first line that libinih or the handler rejected; -2: no memory */
	r = ini_parse_stream(next_line, &lines, on_key, &rd);
	if (!r && !rd.error)
		return 0;
	if (r > 0 && (!rd.error || r < rd.line)) {
		set_message(message, path, r, "not \"key = value\" in a [section]");
		rd.error = -EINVAL;
	} else {
		set_message(message, path, rd.line, rd.what ? rd.what : "no memory");
	}
	free(rd.what);
	return rd.error ? rd.error : -ENOMEM;
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
