/* SPDX-License-Identifier: MIT */
/* `shfs bugreport`: what one attaches to an issue, without names and secrets. */
#include "query/base/child.h"
#include "query/base/context.h"
#include "query/base/model.h"
#include "query/base/mounts.h"
#include "query/bugreport/words.h"

#include "common/io.h"
#include "common/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <gnu/libc-version.h>
#include <inttypes.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

#define RELEASE_MAX (64 << 10)
#define CONFIG_MAX  (1 << 20)
#define LOG_MAX     (4 << 20)
#define LOG_LINES   20 /* of each log, the last ones */
#define LOGS_MAX    8

static struct {
	const char *output;
	bool force;
} opts;

struct report {
	struct shfs_context *ctx;
	struct shfs_store *store; /* borrowed; NULL: it cannot be opened */
	struct shfs_buf out;
};

static void begin_section(struct report *r, const char *title)
{
	shfs_buf_printf(&r->out, "\n[%s]\n", title);
}

/* --- versions --- */

/* Adds a value of os-release that has the form that os-release(5) asks for: no blanks. A
 * name for people can be any text. */
static void add_release_value(struct report *r, const char *text, const char *key)
{
	const char *value = strstr(text, key);
	size_t len;

	if (!value)
		return;
	value += strlen(key);
	value += *value == '"' || *value == '\'';
	len = strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789._-");
	if (len && strchr("\n\"'", value[len])) { /* or at the end */
		shfs_buf_char(&r->out, ' ');
		shfs_buf_add(&r->out, value, len);
	}
}

static void add_distribution(struct report *r)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };

	shfs_buf_char(&text, '\n');
	if (shfs_read_file_at(AT_FDCWD, "/etc/os-release", RELEASE_MAX, &text))
		return;
	shfs_buf_str(&r->out, "distribution:");
	add_release_value(r, text.data, "\nID=");
	add_release_value(r, text.data, "\nVERSION_ID=");
	shfs_buf_char(&r->out, '\n');
}

static void add_versions(struct report *r)
{
	struct utsname kernel;

	begin_section(r, "versions");
	shfs_buf_printf(&r->out, "shfs: %s\ncompiler: %s\nlibc: %s\n", SHFS_VERSION,
	                __VERSION__, gnu_get_libc_version());
	if (!uname(&kernel)) /* not its nodename; behind the number is any text */
		shfs_buf_printf(&r->out, "kernel: %.*s %s\n",
		                (int)strspn(kernel.release, "0123456789."),
		                kernel.release, kernel.machine);
	add_distribution(r);
}

/* --- mounts --- */

static void add_mount(struct report *r, const struct shfs_mount *m, size_t number)
{
	const struct shfs_mount_status *s = &m->status;

	shfs_buf_printf(&r->out, "mount %zu: ", number);
	if (m->error) {
		shfs_buf_printf(&r->out, "%s\n", strerrordesc_np(-m->error));
		return;
	}
	shfs_buf_printf(&r->out,
	                "backend %s, transport %s, restarts %" PRIu64 ", records %" PRIu64
	                ", lost %" PRIu64 ", queued %" PRIu64 ", objects %" PRIu64
	                ", bytes %" PRIu64 ", stored %" PRIu64 ", memory %" PRIu64
	                ", left out %" PRIu64 ", incomplete %" PRIu64,
	                s->backend ?: "fuse", s->transport ?: "none", s->restarts,
	                s->records, s->lost, s->queued, s->objects, s->object_bytes,
	                s->stored_bytes, s->memory_bytes, s->skipped, s->incomplete);
	if (s->error)
		shfs_buf_printf(&r->out, ", records nothing: %s",
		                strerrordesc_np(s->error));
	if (s->rules_error)
		shfs_buf_printf(&r->out, ", rules: %s", strerrordesc_np(s->rules_error));
	shfs_buf_char(&r->out, '\n');
}

static void add_mounts(struct report *r)
{
	_cleanup_mounts_ struct shfs_mounts mounts = { 0 };
	size_t n = 0;
	int error = shfs_mounts_list(SHFS_MOUNTS_ASK, shfs_context_store_path(r->ctx),
	                             &mounts);

	begin_section(r, "mounts");
	if (error)
		shfs_buf_printf(&r->out, "cannot be listed: %s\n",
		                strerrordesc_np(-error));
	for (size_t i = 0; i < mounts.n; i++)
		if (mounts.list[i].error != -EACCES && mounts.list[i].error != -EXDEV)
			add_mount(r, &mounts.list[i], ++n);
	if (n < mounts.n)
		shfs_buf_printf(&r->out, "of other users or stores: %zu\n", mounts.n - n);
}

/* --- configuration --- */

struct config_report {
	struct report *report;
	struct shfs_config scratch;
	unsigned unknown;
};

/* Adds a key that is set. What can be any text is not shown. */
static int add_key(void *arg, const struct shfs_config_line *line)
{
	struct config_report *c = arg;
	const struct shfs_config_key *key = shfs_config_find(line->section, line->name);
	const char *value;
	int r;

	if (!key) {
		c->unknown++;
		return 0;
	}
	r = shfs_config_set(&c->scratch, key, line->value);
	if (r == -ENOMEM)
		return r;
	value = r                              ? "(a bad value)"
	        : key->kind < SHFS_CONFIG_TEXT ? line->value
	                                       : "(not shown)";
	shfs_buf_printf(&c->report->out, "%s.%s = %s\n", key->section, key->name, value);
	return 0;
}

static void add_config(struct report *r)
{
	_cleanup_free_ char *path = r->ctx->config_option ? strdup(r->ctx->config_option)
	                                                  : shfs_path_config();
	_cleanup_buf_ struct shfs_buf text = { 0 };
	struct config_report c = { .report = r };
	int error = path ? shfs_read_file_at(AT_FDCWD, path, CONFIG_MAX, &text) : -ENOMEM;

	begin_section(r, "configuration");
	if (!error)
		error = shfs_config_init(&c.scratch);
	if (!error) {
		error = shfs_config_each(text.data, text.len, add_key, &c);
		shfs_config_free(&c.scratch);
	}
	if (c.unknown)
		shfs_buf_printf(&r->out, "unknown keys: %u\n", c.unknown);
	if (error)
		shfs_buf_printf(&r->out, "%s\n",
		                error == -ENOENT ? "no file: the defaults hold"
		                                 : strerrordesc_np(-error));
}

/* --- store --- */

/* The top of a store has these: docs/store.md. */
static const char *const parts[] = {
	"format",   "journal",      "projects",     "trees",      "objects",
	"index.db", "index.db-wal", "index.db-shm", "state",      "rerun",
	"remote",   "record",       "try",          "quarantine", "log",
};

struct measure {
	uint64_t files, bytes;
};

/* The part that an entry lies in; the number of parts: another one. */
static size_t part_of(const char *path)
{
	size_t len = strcspn(path, "/"), i = 0;

	while (i < ARRAY_SIZE(parts) &&
	       (strlen(parts[i]) != len || memcmp(parts[i], path, len) != 0))
		i++;
	return i;
}

static void add_parts(struct report *r)
{
	const char *store = shfs_context_store_path(r->ctx);
	char *paths[] = { (char *)store, NULL };
	struct measure sums[ARRAY_SIZE(parts) + 1] = { 0 };
	FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_XDEV | FTS_NOCHDIR, NULL);
	FTSENT *entry;

	while (fts && (entry = fts_read(fts))) {
		struct measure *sum;

		if (entry->fts_info != FTS_F)
			continue;
		sum = &sums[part_of(entry->fts_path + strlen(store) + 1)];
		sum->files++;
		sum->bytes += (uint64_t)entry->fts_statp->st_size;
	}
	if (fts)
		fts_close(fts);
	for (size_t i = 0; i <= ARRAY_SIZE(parts); i++)
		if (sums[i].files)
			shfs_buf_printf(&r->out,
			                "%s: files %" PRIu64 ", bytes %" PRIu64 "\n",
			                i < ARRAY_SIZE(parts) ? parts[i] : "other",
			                sums[i].files, sums[i].bytes);
}

/* Adds what the index counts, as it is: without an ingest, which may be what fails. */
static void add_counts(struct report *r)
{
	static const char *const names[] = { "sqlite",      "commands", "sessions",
		                             "accesses",    "files",    "versions",
		                             "objects",     "lost",     "damaged bytes",
		                             "unattributed" };
	_cleanup_index_ struct shfs_index *index = NULL;
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int error = shfs_index_open(r->store, SHFS_INDEX_READ, &index);

	if (!error)
		error = shfs_rows_open(index,
		                       "SELECT sqlite_version(), commands, sessions,"
		                       " accesses, files, versions, objects, lost,"
		                       " damaged_bytes, unattributed FROM v_stats",
		                       &rows);
	if (!error)
		error = shfs_rows_next(rows);
	if (error < 0)
		shfs_buf_printf(&r->out, "index: %s\n", strerrordesc_np(-error));
	for (int i = 0; error > 0 && i < (int)ARRAY_SIZE(names); i++)
		shfs_buf_printf(&r->out, "%s: %s\n", names[i], shfs_rows_text(rows, i));
}

static void add_store(struct report *r)
{
	const char *path = shfs_context_store_path(r->ctx);
	struct statfs fs;
	int error = shfs_store_open(path, 0, &r->ctx->store);

	begin_section(r, "store");
	r->store = error ? NULL : r->ctx->store;
	if (error) {
		shfs_buf_printf(&r->out, "cannot be opened: %s\n",
		                shfs_store_strerror(error));
		if (error == -ENOENT)
			return;
	}
	if (!statfs(path, &fs))
		shfs_buf_printf(&r->out,
		                "file system: type 0x%lx, block %ld, free %" PRIu64
		                " of %" PRIu64 "\n",
		                (unsigned long)fs.f_type, (long)fs.f_bsize,
		                (uint64_t)fs.f_bavail, (uint64_t)fs.f_blocks);
	add_parts(r);
	if (r->store)
		add_counts(r);
}

/* --- logs --- */

/* Returns where the last LOG_LINES lines begin. */
static const char *last_lines(const struct shfs_buf *text)
{
	const char *p = text->data + text->len;
	unsigned n = 0;

	if (p > text->data && p[-1] == '\n')
		p--;
	for (; p > text->data; p--)
		if (p[-1] == '\n' && ++n == LOG_LINES)
			break;
	return p;
}

static void add_log(struct report *r, int dirfd, const char *name,
                    const struct words *words)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int error = shfs_read_file_at(dirfd, name, LOG_MAX, &text);

	if (!error && !text.len)
		return;
	shfs_buf_printf(&r->out, "of a%s:\n",
	                strncmp(name, "fuse-", 5) ? "n ingest" : " mount");
	if (error) {
		shfs_buf_printf(&r->out, "  %s\n", strerrordesc_np(-error));
		return;
	}
	for (const char *line = last_lines(&text); *line;) {
		size_t len = strcspn(line, "\n");

		shfs_buf_str(&r->out, "  ");
		words_keep(words, line, len, &r->out);
		shfs_buf_char(&r->out, '\n');
		line += len + (line[len] == '\n');
	}
}

static void add_logs(struct report *r)
{
	int fd = r->store ? openat(r->store->dirfd, "log",
	                           O_RDONLY | O_DIRECTORY | O_CLOEXEC)
	                  : -1;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	struct words words;
	unsigned n = 0;

	begin_section(r, "logs");
	if (!dir) {
		shfs_closep(&fd);
		return;
	}
	words_open(&words);
	while ((entry = readdir(dir)))
		if (shfs_ends_with(entry->d_name, ".log") && n++ < LOGS_MAX)
			add_log(r, fd, entry->d_name, &words);
	if (n > LOGS_MAX)
		shfs_buf_printf(&r->out, "and %u more\n", n - LOGS_MAX);
	words_close(&words);
	closedir(dir);
}

/* --- doctor --- */

/* Runs `shfs doctor`, which writes to the same standard output. */
static int add_doctor(struct report *r)
{
	const char *argv[12] = { "shfs", "--store", shfs_context_store_path(r->ctx) };
	size_t n = 3;
	pid_t pid;

	begin_section(r, "doctor");
	if (!shfs_show_flush(&r->out))
		return -EIO;
	if (r->ctx->config_option) {
		argv[n++] = "--config";
		argv[n++] = r->ctx->config_option;
	}
	argv[n++] = "--color=never";
	argv[n++] = "--no-pager";
	argv[n++] = "doctor";
	argv[n++] = "--anonymous";
	pid = shfs_child_start("/proc/self/exe", argv, SHFS_CHILD_ALL);
	if (pid < 0)
		return -errno;
	(void)shfs_child_wait(pid); /* 1: a check failed, which it says */
	return 0;
}

/* --- the command --- */

/* Makes the file of -o the standard output. */
static int redirect_output(void)
{
	FILE *file = NULL;
	int code = shfs_output_option(opts.output, opts.force, 0600, &file);

	if (code)
		return code;
	if (file == stdout)
		return 0;
	if (dup2(fileno(file), STDOUT_FILENO) < 0)
		code = shfs_fail_output(opts.output, errno);
	fclose(file);
	return code;
}

static int run_bugreport(struct shfs_context *ctx, int argc, char **argv)
{
	struct report r = { .ctx = ctx };
	int code = opts.output ? redirect_output() : 0, error;

	if (code)
		return code;
	shfs_buf_str(
		&r.out,
		"A report of shfs for an issue. It has no names of files, commands, "
		"users\nor hosts, and no values that can be any text. Read it before "
		"you send it.\n");
	add_versions(&r);
	add_mounts(&r);
	add_config(&r);
	add_store(&r);
	add_logs(&r);
	error = add_doctor(&r);
	shfs_buf_free(&r.out);
	if (!error)
		return SHFS_EXIT_OK;
	shfs_error("cannot write the report: %s", strerror(-error));
	return SHFS_EXIT_FAILURE;
}

const struct shfs_command shfs_cmd_bugreport = {
	.name = "bugreport",
	.args = "",
	.summary = "Write what one attaches to an issue, without secrets",
	.description =
		"Versions, mounts, the configuration, sizes of the store, the last lines\n"
		"of logs, and what doctor says. Names of files, commands, users and hosts\n"
		"are left out, and so is all that can be any text.",
	.options = {
	{ "output", 'o', "FILE", "write to this file", .text = &opts.output },
	{ "force", 'f', NULL, "replace the file", .flag = &opts.force },
	},
	.run = run_bugreport,
};
