/* SPDX-License-Identifier: MIT */
/* `shfs status`: report what is mounted, what is stored, and what is wrong. */
#include "query/base/context.h"
#include "query/base/hook.h"
#include "query/base/json.h"
#include "query/base/model.h"
#include "query/base/mounts.h"
#include "query/base/projects.h"
#include "query/base/time.h"
#include "query/history/gap.h"
#include "query/remote/behind.h"
#include "query/remote/elsewhere.h"

#include "common/clock.h"
#include "common/io.h"
#include "common/path.h"
#include "common/quote.h"
#include "store/care/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/statvfs.h>

#define MEASURE_NS (2 * SHFS_NSEC_PER_SEC) /* large stores on slow disks take longer */
#define ALERT_MAX  (64 << 10)
#define GAPS_SHOWN 3
#define LATE_NS    (3 * 24 * 3600 * SHFS_NSEC_PER_SEC) /* of pushes by themselves */

static struct {
	bool json;
} opts;

/* The columns of v_stats, in this order. */
enum total {
	TOTAL_COMMANDS,
	TOTAL_SESSIONS,
	TOTAL_ACCESSES,
	TOTAL_FILES,
	TOTAL_VERSIONS,
	TOTAL_OBJECTS,
	TOTAL_LOST,
	TOTAL_DAMAGED_BYTES,
	TOTAL_UNATTRIBUTED,
	N_TOTALS
};

static const char *const total_names[N_TOTALS] = {
	"commands", "sessions", "accesses",      "files",        "versions",
	"objects",  "lost",     "damaged_bytes", "unattributed",
};

static const struct {
	uint32_t flag;
	const char *name;
} reasons[] = {
	{ SHFS_CONTENT_SKIP_SIZE, "size" },     { SHFS_CONTENT_SKIP_RULE, "rule" },
	{ SHFS_CONTENT_SKIP_BUDGET, "budget" }, { SHFS_CONTENT_SKIP_ERROR, "error" },
	{ SHFS_CONTENT_SKIP_TYPE, "type" },     { SHFS_CONTENT_SKIP_USER, "user" },
};

struct status {
	const char *store_path;
	struct shfs_store *store; /* borrowed; NULL: it cannot be used */
	uint64_t store_bytes, free_bytes;
	bool at_least;      /* store_bytes is a minimum: there was no time to measure
	                     * all */
	uint64_t max_bytes; /* [store] max-size; 0: any */
	bool indexed;       /* totals and left_out are set */
	struct shfs_check_history checked;
	int64_t totals[N_TOTALS], left_out[ARRAY_SIZE(reasons)];
	struct shfs_gaps gaps;
	struct behind *remotes;
	size_t n_remotes, cap_remotes;
	uint64_t away; /* contents that only a remote has */
	struct shfs_mounts mounts;
	struct shfs_projects projects;
	pid_t hook;
	char **problems;
	size_t n_problems;
	bool failed; /* no memory */
};

static void clear_status(struct status *s)
{
	shfs_mounts_clear(&s->mounts);
	shfs_projects_clear(&s->projects);
	shfs_gaps_clear(&s->gaps);
	for (size_t i = 0; i < s->n_problems; i++)
		free(s->problems[i]);
	free(s->problems);
	for (size_t i = 0; i < s->n_remotes; i++)
		behind_clear(&s->remotes[i]);
	free(s->remotes);
}

static void add_problem(struct status *s, char *text)
{
	char **grown = reallocarray(s->problems, s->n_problems + 1, sizeof(*grown));

	if (grown)
		s->problems = grown;
	if (!grown || !text) {
		free(text);
		s->failed = true;
		return;
	}
	grown[s->n_problems++] = text;
}

/* Adds a problem, one line; the caller escapes user bytes. */
static void _printf_(2, 3) note_problem(struct status *s, const char *fmt, ...)
{
	char *text;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	add_problem(s, text);
}

/* --- finding out --- */

static void measure_store(struct status *s)
{
	char *paths[] = { (char *)s->store_path, NULL };
	int64_t until = shfs_clock_ns(CLOCK_MONOTONIC) + MEASURE_NS;
	FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_XDEV | FTS_NOCHDIR, NULL);
	struct statvfs fs;
	FTSENT *entry;

	while (fts && (entry = fts_read(fts))) {
		if ((entry->fts_info == FTS_F &&
		     !shfs_ends_with(entry->fts_path, "/state/reserve")) ||
		    entry->fts_info == FTS_D)
			s->store_bytes += (uint64_t)entry->fts_statp->st_blocks * 512;
		if (shfs_clock_ns(CLOCK_MONOTONIC) > until) {
			s->at_least = true;
			break;
		}
	}
	if (fts)
		fts_close(fts);
	if (!fstatvfs(s->store->dirfd, &fs))
		s->free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
}

static bool records_nothing(const struct status *s)
{
	for (size_t i = 0; i < s->mounts.n; i++)
		if (!s->mounts.list[i].error && s->mounts.list[i].status.error)
			return true;
	return false;
}

/* Shows an alert, unless a mount's own error says the same. */
static void show_alert(struct status *s, const char *line, size_t len, bool ours)
{
	static const char self[] = "shfs: ", fails[] = "not recording in ";
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	if (len >= strlen(self) && !strncmp(line, self, strlen(self))) {
		line += strlen(self);
		len -= strlen(self);
	}
	if (!len || (ours && records_nothing(s) && !strncmp(line, fails, strlen(fails))))
		return;
	shfs_quote_display(&shown, line, len);
	if (!shown.failed)
		note_problem(s, "%s", shown.data);
}

/* Reads an alert file, which has a line for each project in trouble. */
static void read_alert(struct status *s, const char *name)
{
	bool ours = !strcmp(name + strlen("alert-"), s->store->host);
	_cleanup_buf_ struct shfs_buf text = { 0 };
	const char *line;

	if (shfs_read_file_at(s->store->state_fd, name, ALERT_MAX, &text))
		return;
	line = text.data;
	for (size_t len; *line; line += len + (line[len] == '\n')) {
		len = strcspn(line, "\n");
		show_alert(s, line, len, ours);
	}
}

static void read_alerts(struct status *s)
{
	int fd = openat(s->store->state_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir && fd >= 0)
		close(fd);
	while (dir && (entry = readdir(dir)))
		/* not a rest of an interrupted write */
		if (!strncmp(entry->d_name, "alert-", 6) &&
		    !strstr(entry->d_name, ".tmp-"))
			read_alert(s, entry->d_name);
	if (dir)
		closedir(dir);
}

static int read_totals(struct shfs_index *index, struct status *s)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(
		index,
		"SELECT commands, sessions, accesses, files, versions, objects,"
		" lost, damaged_bytes, unattributed FROM v_stats",
		&rows);

	if (!r)
		r = shfs_rows_next(rows);
	for (int i = 0; r > 0 && i < N_TOTALS; i++)
		s->totals[i] = shfs_rows_int(rows, i);
	return MIN(r, 0);
}

static int read_left_out(struct shfs_index *index, struct status *s)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(index, "SELECT flags, versions FROM v_left_out", &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		uint32_t flags = (uint32_t)shfs_rows_int(rows, 0);

		for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
			if (flags & reasons[i].flag)
				s->left_out[i] += shfs_rows_int(rows, 1);
		r = 0;
	}
	return MIN(r, 0);
}

/* --- remotes --- */

struct remotes {
	struct status *status;
	struct shfs_index *index;
};

static int read_remote(void *arg, const char *name)
{
	struct remotes *remotes = arg;
	struct status *s = remotes->status;
	_cleanup_place_ struct place place = { .dirfd = -1 };
	int r = place_open(s->store, name, &place);

	if (!r && !MAKE_ROOM(s->remotes, s->n_remotes, s->cap_remotes))
		r = -ENOMEM;
	if (!r)
		r = behind_find(remotes->index, &place, &s->remotes[s->n_remotes]);
	s->n_remotes += !r;
	if (r)
		note_problem(s, "cannot read what is known of the remote %s: %s", name,
		             strerror(-r));
	return r == -ENOMEM ? r : 0;
}

/* Looks whether pushes by themselves work, where they are wanted. */
static void check_pushes(struct shfs_context *ctx, struct status *s)
{
	const int64_t now = shfs_clock_ns(CLOCK_REALTIME);
	int code;
	const struct shfs_config *config = shfs_context_config(ctx, &code);

	if (!config || config->push == SHFS_PUSH_OFF || !s->n_remotes)
		return;
	if (now - behind_automatic_ns(s->store) > LATE_NS)
		note_problem(s, "nothing pushes by itself: systemctl --user enable --now "
		                "shfs-push.timer, or shfs push --automatic by cron");
	for (size_t i = 0; i < s->n_remotes; i++)
		if (s->remotes[i].failed_ns && now - s->remotes[i].failed_ns > LATE_NS)
			note_problem(s, "pushes to %s fail since days",
			             s->remotes[i].name);
}

static void read_remotes(struct shfs_context *ctx, struct status *s)
{
	int code;
	struct remotes remotes = { s,
		                   s->indexed ? shfs_context_index(ctx, &code) : NULL };

	if (place_each(s->store, read_remote, &remotes) == -ENOMEM ||
	    elsewhere_count(s->store, &s->away) == -ENOMEM)
		s->failed = true;
	check_pushes(ctx, s);
}

static void read_index(struct shfs_context *ctx, struct status *s)
{
	int code, r;
	struct shfs_index *index = shfs_context_index(ctx, &code);

	if (!index) {
		note_problem(s, "the index cannot be used");
		return;
	}
	r = read_totals(index, s);
	if (!r)
		r = read_left_out(index, s);
	if (!r)
		r = shfs_gaps_load(index, &s->gaps);
	if (r)
		note_problem(s,
		             "the index cannot be read (%s): shfs reindex makes it again",
		             shfs_index_error(index));
	s->indexed = !r;
	if (s->indexed && s->totals[TOTAL_DAMAGED_BYTES])
		note_problem(s,
		             "%" PRId64
		             " bytes of the journal are damaged and were passed over",
		             s->totals[TOTAL_DAMAGED_BYTES]);
}

static bool records_into_store(const struct shfs_mount *m)
{
	return m->error != -EACCES && m->error != -EXDEV;
}

static void check_mount(struct status *s, const struct shfs_mount *m)
{
	_cleanup_buf_ struct shfs_buf dir = { 0 };

	shfs_show_directory(&dir, m->dir);
	if (dir.failed || !records_into_store(m))
		return;
	if (m->error == -ENOTCONN)
		note_problem(s, "%s is dead: shfs umount removes it, then mount it again",
		             dir.data);
	else if (m->error == -ETIMEDOUT)
		note_problem(s, "%s hangs: its process does not answer", dir.data);
	else if (m->error)
		note_problem(s, "%s cannot be asked: %s", dir.data, strerror(-m->error));
	else if (m->status.error == ENOSPC || m->status.error == EDQUOT)
		note_problem(s,
		             "%s IS NOT RECORDED: no space left for the store; make room",
		             dir.data);
	else if (m->status.error)
		note_problem(s, "%s IS NOT RECORDED: %s", dir.data,
		             strerror(m->status.error));
	if (!m->error && m->status.rules_error)
		note_problem(s, "%s: .shfsignore is not followed: %s", dir.data,
		             m->status.rules_error == ELOOP ||
		                             m->status.rules_error == EINVAL
		                     ? "it is no plain file"
		                     : strerror(m->status.rules_error));
	if (!m->error && m->status.lost)
		note_problem(s, "%s: %" PRIu64 " records lost since it was mounted",
		             dir.data, m->status.lost);
}

static void check_config_file(struct shfs_context *ctx, struct status *s)
{
	_cleanup_free_ char *path = NULL, *message = NULL;
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	struct shfs_config config;

	if (shfs_config_init(&config)) {
		s->failed = true;
		return;
	}
	path = ctx->config_option ? strdup(ctx->config_option) : shfs_path_config();
	if (path && shfs_config_read(&config, path, &message) && message) {
		shfs_quote_display(&shown, message, strlen(message));
		note_problem(s, "%s",
		             shown.data ? shown.data : "the configuration is wrong");
	}
	s->max_bytes = config.store_max_bytes;
	shfs_config_free(&config);
}

static bool has_own_mount(const struct status *s)
{
	for (size_t i = 0; i < s->mounts.n; i++)
		if (records_into_store(&s->mounts.list[i]))
			return true;
	return false;
}

static void find_mounts(struct status *s)
{
	int r = shfs_mounts_list(SHFS_MOUNTS_ASK, s->store_path, &s->mounts);

	if (r)
		note_problem(s, "cannot look for mounts: %s", strerror(-r));
	for (size_t i = 0; i < s->mounts.n; i++)
		check_mount(s, &s->mounts.list[i]);
	r = shfs_projects_read(s->store_path, &s->projects);
	if (r)
		note_problem(s, "cannot read which projects are enabled: %s",
		             strerror(-r));
}

/* Is it to be recorded always, and is not now? */
static bool is_missed(const struct status *s, const struct shfs_project *project)
{
	return project->state == SHFS_PROJECT_ENABLED &&
	       !shfs_mounts_record(&s->mounts, project->dir);
}

static void read_checked(struct status *s)
{
	int r = shfs_check_history(s->store, &s->checked);

	if (r)
		note_problem(s, "state/check of the store cannot be read: %s",
		             strerror(-r));
	else if (s->checked.full_flaws)
		note_problem(s,
		             "the last check found %" PRIu64
		             " flaw%s: shfs check --read-data shows them",
		             s->checked.full_flaws, shfs_plural(s->checked.full_flaws));
}

/* Collects everything. Returns an exit code. */
static int find_out(struct shfs_context *ctx, struct status *s)
{
	int code = SHFS_EXIT_OK;

	s->store_path = shfs_context_store_path(ctx);
	s->store = shfs_context_store(ctx, false, &code);
	if (s->store)
		read_index(ctx, s); /* first: it syncs the mounts, which changes their
		                     * counts */
	find_mounts(s);
	check_config_file(ctx, s);
	if (s->store)
		read_remotes(ctx, s);
	s->hook = shfs_hook_of_ancestor(s->store_path);
	if (!s->store) {
		note_problem(s, "the store cannot be used");
		return code;
	}
	measure_store(s);
	if (s->max_bytes && s->store_bytes > s->max_bytes + s->max_bytes / 10)
		note_problem(s, "the store takes more than [store] max-size, and nothing "
		                "more could be pruned; see shfs stats --store");
	read_alerts(s);
	read_checked(s);
	return s->failed || s->n_problems ? SHFS_EXIT_FAILURE : SHFS_EXIT_OK;
}

/* --- for people --- */

static void show_status_label(struct shfs_buf *out, const struct shfs_style *style,
                              const char *label)
{
	shfs_buf_printf(out, "%s%-9s%s", style->bold, label, style->off);
}

static void show_status_count(struct shfs_buf *out, int64_t n, const char *one,
                              const char *many)
{
	shfs_buf_printf(out, "%" PRId64 " %s", n, n == 1 ? one : many);
}

static void show_store(struct shfs_buf *out, const struct shfs_style *style,
                       const struct status *s)
{
	show_status_label(out, style, "Store");
	shfs_show_directory(out, s->store_path);
	if (!s->store) {
		shfs_buf_str(out, "  (cannot be used)\n");
		return;
	}
	shfs_buf_printf(out, "\n         %s", s->at_least ? "at least " : "");
	shfs_show_size(out, s->store_bytes);
	if (s->max_bytes) {
		shfs_buf_str(out, " of at most ");
		shfs_show_size(out, s->max_bytes);
	}
	shfs_buf_str(out, ", ");
	shfs_show_size(out, s->free_bytes);
	shfs_buf_str(out, " free\n");
}

static void show_mount_status(struct shfs_buf *out, const struct shfs_mount *m)
{
	const struct shfs_mount_status *st = &m->status;

	shfs_show_directory(out, m->dir);
	shfs_buf_char(out, '\n');
	if (m->error)
		return;
	shfs_buf_printf(out, "         %s, ", st->backend ? st->backend : "fuse");
	if (st->transport && !st->transport_reason)
		shfs_buf_printf(out, "by %s, ", st->transport);
	shfs_buf_printf(out, "pid %d, since ", (int)st->pid);
	shfs_time_show(out, st->since_ns);
	if (st->restarts) {
		shfs_buf_printf(out, "\n         started again %" PRIu64 " %s, last ",
		                st->restarts, st->restarts == 1 ? "time" : "times");
		shfs_time_show(out, st->restarted_ns);
		shfs_buf_str(out, ", as its process had died");
	}
	if (st->backend_reason)
		shfs_buf_printf(out, "\n         not otherwise: %s", st->backend_reason);
	if (st->transport_reason)
		shfs_buf_printf(out, "\n         not by io_uring: %s",
		                st->transport_reason);
	shfs_buf_printf(out, "\n         ");
	show_status_count(out, (int64_t)st->records, "record", "records");
	shfs_buf_printf(out, ", %" PRIu64 " lost, ", st->lost);
	show_status_count(out, (int64_t)st->objects, "new object", "new objects");
	shfs_buf_str(out, ", ");
	shfs_show_size(out, (int64_t)st->memory_bytes);
	shfs_buf_str(out, " in memory\n");
	if (!st->skipped && !st->incomplete)
		return;
	shfs_buf_str(out, "         ");
	show_status_count(out, (int64_t)st->skipped, "content", "contents");
	shfs_buf_printf(out, " not archived, %" PRIu64 " incomplete\n", st->incomplete);
}

static void show_checked(struct shfs_buf *out, const struct shfs_style *style,
                         const struct status *s)
{
	const struct shfs_check_history *h = &s->checked;

	if (!h->full_ns && !h->begun_ns)
		return;
	show_status_label(out, style, "Checked");
	if (h->full_ns) {
		shfs_buf_str(out, "all data, ");
		shfs_time_show_relative(out, h->full_ns);
	}
	if (h->begun_ns) {
		shfs_buf_printf(out, "%sone was interrupted, begun ",
		                h->full_ns ? "; " : "");
		shfs_time_show(out, h->begun_ns);
	}
	shfs_buf_char(out, '\n');
}

/* Shows the mounts, except those of other users and stores. */
static void show_mounts(struct shfs_buf *out, const struct shfs_style *style,
                        const struct status *s)
{
	bool any = false;

	for (size_t i = 0; i < s->mounts.n; i++) {
		if (!records_into_store(&s->mounts.list[i]))
			continue;
		show_status_label(out, style, any ? "" : "Mounts");
		show_mount_status(out, &s->mounts.list[i]);
		any = true;
	}
	for (size_t i = 0; i < s->projects.n; i++) {
		if (!is_missed(s, &s->projects.list[i]))
			continue;
		show_status_label(out, style, any ? "" : "Mounts");
		shfs_show_directory(out, s->projects.list[i].dir);
		shfs_buf_str(out, "  not mounted, though it is enabled\n");
		any = true;
	}
	if (any)
		return;
	show_status_label(out, style, "Mounts");
	shfs_buf_str(out, "none: nothing is recorded now; shfs mount DIR begins\n");
}

static void show_left_out(struct shfs_buf *out, const struct shfs_style *style,
                          const struct status *s)
{
	bool any = false;

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
		if (!s->left_out[i])
			continue;
		show_status_label(out, style, any ? "" : "Left out");
		show_status_count(out, s->left_out[i], "version", "versions");
		shfs_buf_printf(out, ": %s\n",
		                shfs_version_why_not_archived(reasons[i].flag));
		any = true;
	}
}

static void show_index(struct shfs_buf *out, const struct shfs_style *style,
                       const struct status *s)
{
	const int64_t *t = s->totals;

	show_status_label(out, style, "Index");
	show_status_count(out, t[TOTAL_COMMANDS], "command", "commands");
	shfs_buf_str(out, " in ");
	show_status_count(out, t[TOTAL_SESSIONS], "session", "sessions");
	shfs_buf_str(out, ", ");
	show_status_count(out, t[TOTAL_ACCESSES], "access", "accesses");
	shfs_buf_str(out, "\n         ");
	show_status_count(out, t[TOTAL_VERSIONS], "version", "versions");
	shfs_buf_str(out, " of ");
	show_status_count(out, t[TOTAL_FILES], "file", "files");
	shfs_buf_str(out, " in ");
	show_status_count(out, t[TOTAL_OBJECTS], "object", "objects");
	shfs_buf_char(out, '\n');
	if (t[TOTAL_LOST]) {
		shfs_buf_str(out, "         ");
		show_status_count(out, t[TOTAL_LOST], "record", "records");
		shfs_buf_str(out, " lost in all\n");
	}
	if (t[TOTAL_UNATTRIBUTED]) {
		shfs_buf_str(out, "         ");
		show_status_count(out, t[TOTAL_UNATTRIBUTED], "process", "processes");
		shfs_buf_str(out, " without a command\n");
	}
}

static void show_gaps(struct shfs_buf *out, const struct shfs_style *style,
                      const struct status *s)
{
	size_t n = MIN(s->gaps.n, (size_t)GAPS_SHOWN);

	for (size_t i = 0; i < n; i++) {
		show_status_label(out, style, i ? "" : "Gaps");
		shfs_gap_show(out, &s->gaps.list[i]);
		shfs_buf_char(out, '\n');
	}
	if (n < s->gaps.n)
		shfs_buf_printf(out, "         and %zu more, longer ago\n",
		                s->gaps.n - n);
	if (n)
		shfs_buf_str(out, "         " SHFS_GAP_MEANS "\n");
}

static void show_remotes(struct shfs_buf *out, const struct shfs_style *style,
                         const struct status *s)
{
	for (size_t i = 0; i < s->n_remotes; i++) {
		show_status_label(out, style, i ? "" : "Remotes");
		shfs_buf_printf(out, "%s ", s->remotes[i].name);
		behind_show(out, &s->remotes[i]);
		shfs_buf_char(out, '\n');
	}
	if (!s->away)
		return;
	show_status_label(out, style, s->n_remotes ? "" : "Remotes");
	shfs_buf_printf(out, "%" PRIu64 " content%s only on a remote\n", s->away,
	                s->away == 1 ? " is" : "s are");
}

static void show_hook(struct shfs_buf *out, const struct shfs_style *style,
                      const struct status *s)
{
	show_status_label(out, style, "Hook");
	if (s->hook)
		shfs_buf_printf(out, "active in this shell (pid %d)\n", (int)s->hook);
	else
		shfs_buf_printf(out,
		                "not in this shell: no text of its commands is recorded\n"
		                "         %s\n",
		                shfs_hook_line(shfs_hook_shell()));
}

static void show_status_text(struct shfs_context *ctx, const struct status *s,
                             struct shfs_buf *out)
{
	const struct shfs_style *style = shfs_style_of(ctx);

	for (size_t i = 0; i < s->n_problems; i++)
		shfs_buf_printf(out, "%s! %s%s\n", style->bad, s->problems[i],
		                style->off);
	show_mounts(out, style, s);
	show_store(out, style, s);
	show_checked(out, style, s);
	if (s->indexed) {
		show_index(out, style, s);
		show_left_out(out, style, s);
		show_gaps(out, style, s);
	}
	show_remotes(out, style, s);
	show_hook(out, style, s);
}

/* --- for programs --- */

static void json_store(struct shfs_json *json, const struct status *s)
{
	shfs_json_object(json, "store");
	shfs_json_str(json, "path", s->store_path);
	shfs_json_bool(json, "usable", s->store);
	if (s->store) {
		shfs_json_int(json, "bytes", (int64_t)s->store_bytes);
		shfs_json_bool(json, "at_least", s->at_least);
		if (s->max_bytes)
			shfs_json_int(json, "max_bytes", (int64_t)s->max_bytes);
		shfs_json_int(json, "free_bytes", (int64_t)s->free_bytes);
	}
	shfs_json_object_end(json);
}

static const char *mount_state(const struct shfs_mount *m)
{
	if (!m->error)
		return m->status.error ? "failing" : "recording";
	if (m->error == -EACCES)
		return "foreign";
	if (m->error == -EXDEV)
		return "elsewhere";
	return m->error == -ENOTCONN ? "dead" : "hangs";
}

static void json_mount(struct shfs_json *json, const struct shfs_mount *m)
{
	const struct shfs_mount_status *st = &m->status;

	shfs_json_object(json, NULL);
	shfs_json_str(json, "path", m->dir);
	shfs_json_str(json, "state", mount_state(m));
	shfs_json_int(json, "uid", m->owner);
	if (!m->error) {
		shfs_json_str(json, "backend", st->backend);
		shfs_json_str(json, "backend_reason", st->backend_reason);
		shfs_json_str(json, "transport", st->transport);
		shfs_json_str(json, "transport_reason", st->transport_reason);
		shfs_json_str(json, "store", st->store);
		shfs_json_int(json, "pid", st->pid);
		shfs_json_time(json, "since", st->since_ns);
		shfs_json_int(json, "restarts", (int64_t)st->restarts);
		if (st->restarts)
			shfs_json_time(json, "restarted", st->restarted_ns);
		else
			shfs_json_null(json, "restarted");
		shfs_json_int(json, "records", (int64_t)st->records);
		shfs_json_int(json, "lost", (int64_t)st->lost);
		shfs_json_int(json, "queued", (int64_t)st->queued);
		shfs_json_int(json, "objects", (int64_t)st->objects);
		shfs_json_int(json, "object_bytes", (int64_t)st->object_bytes);
		shfs_json_int(json, "stored_bytes", (int64_t)st->stored_bytes);
		shfs_json_int(json, "memory_bytes", (int64_t)st->memory_bytes);
		shfs_json_int(json, "skipped", (int64_t)st->skipped);
		shfs_json_int(json, "incomplete", (int64_t)st->incomplete);
		shfs_json_str(json, "error",
		              st->error ? strerrorname_np(st->error) : NULL);
	}
	shfs_json_object_end(json);
}

static void json_index(struct shfs_json *json, const struct status *s)
{
	if (!s->indexed) {
		shfs_json_null(json, "index");
		return;
	}
	shfs_json_object(json, "index");
	for (int i = 0; i < N_TOTALS; i++)
		shfs_json_int(json, total_names[i], s->totals[i]);
	shfs_json_object(json, "left_out");
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		shfs_json_int(json, reasons[i].name, s->left_out[i]);
	shfs_json_object_end(json);
	shfs_json_object_end(json);
}

static void json_checked(struct shfs_json *json, const struct shfs_check_history *h)
{
	shfs_json_object(json, "checked");
	if (h->full_ns) {
		shfs_json_time(json, "full", h->full_ns);
		shfs_json_int(json, "flaws", (int64_t)h->full_flaws);
	}
	if (h->begun_ns)
		shfs_json_time(json, "interrupted", h->begun_ns);
	shfs_json_object_end(json);
}

static bool json_whole_status(const struct status *s)
{
	_cleanup_json_ struct shfs_json json = { 0 };

	shfs_json_begin(&json, "status");
	shfs_json_bool(&json, "ok", !s->n_problems);
	shfs_json_array(&json, "problems");
	for (size_t i = 0; i < s->n_problems; i++)
		shfs_json_str(&json, NULL, s->problems[i]);
	shfs_json_array_end(&json);
	shfs_json_array(&json, "mounts");
	for (size_t i = 0; i < s->mounts.n; i++)
		json_mount(&json, &s->mounts.list[i]);
	shfs_json_array_end(&json);
	shfs_json_array(&json, "not_mounted");
	for (size_t i = 0; i < s->projects.n; i++)
		if (is_missed(s, &s->projects.list[i]))
			shfs_json_str(&json, NULL, s->projects.list[i].dir);
	shfs_json_array_end(&json);
	json_store(&json, s);
	json_checked(&json, &s->checked);
	json_index(&json, s);
	shfs_json_array(&json, "gaps");
	for (size_t i = 0; i < s->gaps.n; i++)
		shfs_gap_json(&json, &s->gaps.list[i]);
	shfs_json_array_end(&json);
	shfs_json_array(&json, "remotes");
	for (size_t i = 0; i < s->n_remotes; i++)
		behind_json(&json, &s->remotes[i]);
	shfs_json_array_end(&json);
	shfs_json_int(&json, "away", (int64_t)s->away);
	if (s->hook)
		shfs_json_int(&json, "hook_pid", s->hook);
	else
		shfs_json_null(&json, "hook_pid");
	return shfs_json_end(&json);
}

static int run_status(struct shfs_context *ctx, int argc, char **argv)
{
	_cleanup_(clear_status) struct status s = { 0 };
	_cleanup_buf_ struct shfs_buf out = { 0 };
	int code = find_out(ctx, &s);
	bool shown;

	if (!s.store && !has_own_mount(&s))
		return code; /* every problem was printed */
	if (opts.json) {
		shown = json_whole_status(&s);
	} else {
		show_status_text(ctx, &s, &out);
		shown = shfs_show_flush(&out);
	}
	if (!shown)
		shfs_error("cannot write the output: %s", strerror(errno));
	return shown ? code : SHFS_EXIT_FAILURE;
}

const struct shfs_command shfs_cmd_status = {
	.name = "status",
	.args = "",
	.summary = "Show what is mounted, what is stored, and what is wrong",
	.description =
		"Lines that begin with \"!\" need attention; the exit code is then 1.",
	.options = {
	{ "json", 0, NULL, "for programs", .flag = &opts.json },
	},
	.at_once = true,
	.run = run_status,
};
