/* SPDX-License-Identifier: MIT */
#include "query/screen/preview.h"

#include "common/io.h"
#include "common/quote.h"
#include "query/base/model.h"
#include "query/history/diff.h"
#include "query/history/fold.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define USES_MAX     2000        /* accesses of a command that are summed up */
#define ENTRIES_MAX  12          /* of a file */
#define VERSIONS_MAX 1000        /* that are read for them */
#define SHOWN_MAX    (256 << 10) /* bytes of a text */
#define COMPARED_MAX (64ULL << 20)
#define BINARY_BYTES 8000 /* like git: a NUL in the first so many bytes */

static void add_preview_note(const struct shfs_preview *p, struct shfs_buf *out,
                             const char *text)
{
	shfs_buf_str(out, p->view.style->dim);
	shfs_show_signs(out, text);
	shfs_buf_str(out, p->view.style->off);
	shfs_buf_char(out, '\n');
}

/* --- commands --- */

int shfs_preview_command(const struct shfs_preview *p, int64_t command_id,
                         unsigned int times, struct shfs_buf *out)
{
	const struct shfs_entry_view view = { p->view.style, p->view.columns };
	_cleanup_entry_ struct shfs_entry e = { 0 };
	const struct shfs_command_row *c = &e.command;
	int r = shfs_entry_load(p->view.index, false, command_id, USES_MAX, &e);

	if (r > 0)
		r = shfs_entry_show(p->view.index, &view, &e, out);
	if (r)
		return r;
	if (times > 1)
		shfs_buf_printf(out, "\n%srun %u times; this is the last%s\n",
		                view.style->dim, times, view.style->off);
	if (memchr(c->text, '\n', c->text_len) ||
	    shfs_quote_width(c->text, c->text_len) + 9 > view.columns) {
		shfs_buf_char(out, '\n');
		shfs_quote_text(out, c->text, MIN(c->text_len, (size_t)SHOWN_MAX));
	}
	return 0;
}

/* --- contents --- */

static void show_diff_line(const struct shfs_preview *p, const char *line, size_t len,
                           struct shfs_buf *out)
{
	const char *color = *line == '+'   ? "\033[32m"
	                    : *line == '-' ? "\033[31m"
	                    : *line == '@' ? "\033[36m"
	                                   : "";

	shfs_buf_str(out, color);
	shfs_quote_text(out, line, len - (line[len - 1] == '\n'));
	shfs_buf_printf(out, "%s\n", *color ? p->view.style->off : "");
}

/* Adds the output of diff without its first two lines, the labels. */
static void show_diff(const struct shfs_preview *p, const struct shfs_buf *diff,
                      struct shfs_buf *out)
{
	const char *line = diff->data, *end = line + diff->len;

	for (int i = 0; line < end; i++) {
		const char *newline = memchr(line, '\n', end - line);
		size_t len = newline ? newline + 1 - line : end - line;

		if (i >= 2 || strncmp(line, i ? "+++ " : "--- ", 4) != 0)
			show_diff_line(p, line, len, out);
		line += len;
	}
	if (diff->len >= SHOWN_MAX)
		add_preview_note(p, out, "… cut here: shfs diff shows all of it");
	else if (!diff->len)
		add_preview_note(p, out, "no difference");
}

/* Reads the output of diff. -EINTR: a key came first. */
static int read_diff(const struct shfs_preview *p, int fd, struct shfs_buf *diff)
{
	char part[16384];
	ssize_t n;

	while (diff->len < SHOWN_MAX) {
		if (!shfs_screen_wait(p->screen, fd))
			return -EINTR;
		n = read(fd, part, sizeof(part));
		if (n <= 0)
			return n < 0 ? -errno : 0;
		shfs_buf_add(diff, part, n);
	}
	return 0;
}

static int show_content_diff(const struct shfs_preview *p,
                             const struct shfs_diff_side side[2], struct shfs_buf *out)
{
	static const struct shfs_diff_options options = { 0 };
	_cleanup_buf_ struct shfs_buf diff = { 0 };
	int fds[2], r;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	r = shfs_diff_start(side, &options, fds[1], &pid);
	close(fds[1]);
	if (!r) {
		r = read_diff(p, fds[0], &diff);
		kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (!r)
		show_diff(p, &diff, out);
	else if (r == -ENOENT)
		add_preview_note(p, out, "there is no diff(1)");
	close(fds[0]);
	return r == -ENOENT ? 0 : r;
}

static bool take_content(const struct shfs_preview *p, const struct shfs_version *v,
                         struct shfs_diff_side *side, struct shfs_buf *out)
{
	_cleanup_buf_ struct shfs_buf why = { 0 };

	shfs_buf_char(&side->label, 'x');
	if (v->flags & SHFS_CONTENT_OBJECT && v->size > COMPARED_MAX)
		shfs_buf_str(&why, "too large to be shown here");
	else if (!shfs_version_content(p->store, v, &side->fd, &why))
		return true;
	add_preview_note(p, out, why.data ? why.data : "");
	return false;
}

static bool take_present(const struct shfs_preview *p, const char *path,
                         struct shfs_diff_side *side, struct shfs_buf *out)
{
	struct stat st;

	shfs_buf_char(&side->label, 'x');
	if (!shfs_path_is_here(path)) {
		add_preview_note(p, out, "it" SHFS_NOT_HERE);
		return false;
	}
	side->fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (side->fd < 0 || fstat(side->fd, &st))
		add_preview_note(p, out,
		                 errno == ENOENT ? "it does not exist now"
		                                 : strerror(errno));
	else if (!S_ISREG(st.st_mode))
		add_preview_note(p, out, "it is not a regular file now");
	else if ((uint64_t)st.st_size > COMPARED_MAX)
		add_preview_note(p, out, "too large to be shown here");
	else
		return true;
	return false;
}

int shfs_preview_patch(const struct shfs_preview *p, const struct shfs_version *v,
                       struct shfs_buf *out)
{
	_cleanup_version_ struct shfs_version before = { 0 };
	struct shfs_diff_side side[2] = { { .fd = -1 }, { .fd = -1 } };
	int r = shfs_version_before(p->view.index, v, &before);

	if (r < 0)
		return r;
	if (before.n ? take_content(p, &before, &side[0], out)
	             : !shfs_diff_nothing(&side[0]))
		r = take_content(p, v, &side[1], out) ? show_content_diff(p, side, out)
		                                      : 0;
	else
		r = 0;
	shfs_diff_side_clear(&side[0]);
	shfs_diff_side_clear(&side[1]);
	return r;
}

int shfs_preview_since(const struct shfs_preview *p, const struct shfs_version *v,
                       struct shfs_buf *out)
{
	struct shfs_diff_side side[2] = { { .fd = -1 }, { .fd = -1 } };
	int r = 0;

	if (take_content(p, v, &side[0], out) && take_present(p, v->path, &side[1], out))
		r = show_content_diff(p, side, out);
	shfs_diff_side_clear(&side[0]);
	shfs_diff_side_clear(&side[1]);
	return r;
}

int shfs_preview_content(const struct shfs_preview *p, const struct shfs_version *v,
                         struct shfs_buf *out)
{
	struct shfs_diff_side side = { .fd = -1 };
	_cleanup_free_ char *text = malloc(SHOWN_MAX);
	ssize_t n = 0;

	if (!text)
		return -ENOMEM;
	if (take_content(p, v, &side, out)) {
		n = read(side.fd, text, SHOWN_MAX);
		if (n > 0 && memchr(text, '\0', MIN(n, (ssize_t)BINARY_BYTES)))
			add_preview_note(p, out, "not text");
		else if (n > 0)
			shfs_quote_text(out, text, n);
		else
			add_preview_note(p, out, "empty");
		if (n == SHOWN_MAX)
			add_preview_note(p, out,
			                 "\n… cut here: shfs cat shows all of it");
	}
	shfs_diff_side_clear(&side);
	return 0;
}

/* --- files --- */

static int show_gone(const struct shfs_preview *p, const struct shfs_gone_list *gone,
                     int64_t n, struct shfs_buf *out)
{
	const struct shfs_gone *one = shfs_gone_find(gone, n), *next;
	int r = 0;

	while (one && (next = shfs_gone_next(gone, one)))
		one = next;
	for (; one && !r; one = shfs_gone_before(gone, one))
		r = shfs_version_show_gone(&p->view, one, out);
	return r;
}

struct entries {
	const struct shfs_preview *p;
	struct shfs_gone_list gone;
	struct shfs_buf *out;
	int64_t n, latest_id, oldest_n;
};

static int add_entry(void *arg, const struct shfs_version *newest,
                     const struct shfs_version *oldest)
{
	struct entries *e = arg;
	int r = show_gone(e->p, &e->gone, newest->n, e->out);

	if (!r)
		r = shfs_version_show_fold(&e->p->view, newest, oldest, e->out);
	if (!e->n)
		e->latest_id = newest->version_id;
	e->oldest_n = oldest->n;
	return r ? r : ++e->n == ENTRIES_MAX;
}

static int show_entries_of_file(struct entries *e, int64_t file_id)
{
	struct shfs_index *index = e->p->view.index;
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_gone_load(index, file_id, &e->gone);

	if (!r)
		r = shfs_rows_open_ints(index,
		                        "SELECT" SHFS_VERSION_COLUMNS "FROM v_version"
		                        " WHERE file_id = ?1 ORDER BY n DESC LIMIT ?2",
		                        SHFS_INTS(file_id, VERSIONS_MAX), &rows);
	if (!r)
		r = shfs_fold_each(rows, true, &e->gone, add_entry, e);
	return MIN(r, 0);
}

int shfs_preview_file(const struct shfs_preview *p, int64_t file_id, struct shfs_buf *out)
{
	_cleanup_version_ struct shfs_version latest = { 0 };
	struct entries e = { .p = p, .out = out };
	int r = show_entries_of_file(&e, file_id);

	shfs_gone_clear(&e.gone);
	if (r || !e.n)
		return r;
	if (e.oldest_n > 1)
		add_preview_note(p, out, "…");
	r = shfs_version_load(p->view.index, e.latest_id, &latest);
	if (r <= 0)
		return r;
	shfs_buf_char(out, '\n');
	return shfs_preview_patch(p, &latest, out);
}
