/* SPDX-License-Identifier: MIT */
#include "query/undo/preview.h"
#include "query/undo/same.h"
#include "query/undo/steps.h"

#include "common/clock.h"
#include "common/quote.h"
#include "query/base/time.h"
#include "query/history/diff.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* One change. */
struct line {
	const char *word; /* as shown, and in JSON */
	const char *path, *from;
	const struct shfs_past_file *file;
	const struct shfs_past_file *now; /* that it replaces or removes; or NULL */
	bool directory;
};

typedef int (*line_fn)(const struct line *line, void *arg);

static bool is_directory(const struct shfs_past_file *f)
{
	const struct shfs_undo_file *u = f->plan;

	return S_ISDIR(u->there ? u->st.st_mode : f->mode);
}

/* The path at which the file is given up, for one that moves. */
static const char *path_from(const struct shfs_undo_plan *p,
                             const struct shfs_past_file *f)
{
	for (const struct shfs_past_entry *e = p->past.entries; e; e = e->next)
		if (e->left == f && e->then != f)
			return shfs_undo_entry(e)->path;
	return NULL;
}

/* Has the file another name before, which comes first or stays? */
static const char *other_name(const struct shfs_past_file *f,
                              const struct shfs_past_entry *e)
{
	for (size_t i = 0; i < f->n_then; i++)
		if (f->then[i] != e &&
		    (f->then[i]->left == f || f->then[i] == f->then[0]))
			return shfs_undo_entry(f->then[i])->then_path;
	return NULL;
}

static int each_name(const struct shfs_undo_plan *p, const struct shfs_past_entry *e,
                     line_fn fn, void *arg)
{
	const struct shfs_undo_entry *u = e->plan;
	struct line line = { 0 };
	int r = 0;

	if (!u->change || !shfs_undo_is_done(p, u->group))
		return 0;
	if (e->left && !e->left->n_then && !e->then)
		r = fn(&(struct line){ "remove", u->path, NULL, e->left, e->left,
		                       is_directory(e->left) },
		       arg);
	if (r || !e->then || u->adopt)
		return r;
	line = (struct line){ .path = u->then_path,
		              .file = e->then,
		              .directory = is_directory(e->then) };
	line.from = other_name(e->then, e);
	line.from = line.from ?: shfs_undo_file(e->then)->other_name;
	if (line.from) {
		line.word = "link";
	} else if (e->then->plan && shfs_undo_file(e->then)->make) {
		line.word = "restore";
		line.now = e->left && !e->left->n_then ? e->left : NULL;
	} else {
		line.word = "rename";
		line.from = path_from(p, e->then);
	}
	return fn(&line, arg);
}

static int each_attribute(const struct shfs_past_file *f, line_fn fn, void *arg)
{
	static const struct {
		uint32_t change;
		const char *word;
	} words[] = {
		{ SHFS_PAST_CONTENT, "content" }, { SHFS_PAST_MODE, "mode" },
		{ SHFS_PAST_OWNER, "owner" },     { SHFS_PAST_TIME, "time" },
		{ SHFS_PAST_XATTRS, "xattrs" },
	};
	const struct shfs_undo_file *u = f->plan;
	uint32_t todo = u->todo;
	int r = 0;

	if (todo & SHFS_PAST_CONTENT || is_directory(f))
		todo &= ~(uint32_t)SHFS_PAST_TIME; /* it goes without saying */
	for (size_t i = 0; i < ARRAY_SIZE(words) && !r; i++)
		if (todo & words[i].change)
			r = fn(&(struct line){ u->merge && !i ? "merge" : words[i].word,
			                       u->then_path ?: u->path, NULL, f,
			                       words[i].change == SHFS_PAST_CONTENT
			                               ? f
			                               : NULL,
			                       is_directory(f) },
			       arg);
	return r;
}

static int each_line(const struct shfs_undo_plan *p, line_fn fn, void *arg)
{
	int r = 0;

	for (const struct shfs_past_entry *e = p->past.entries; e && !r; e = e->next)
		r = each_name(p, e, fn, arg);
	for (const struct shfs_past_file *f = p->past.files; f && !r; f = f->next)
		if (f->plan && f->n_then && shfs_undo_file(f)->there &&
		    shfs_undo_is_done(p, shfs_undo_file(f)->group))
			r = each_attribute(f, fn, arg);
	return r;
}

static int count_line(const struct line *line, void *arg)
{
	++*(size_t *)arg;
	return 0;
}

struct shfs_undo_counts shfs_undo_count(const struct shfs_undo_plan *p)
{
	struct shfs_undo_counts n = { 0 };

	(void)!each_line(p, count_line, &n.changes);
	for (size_t i = 0; i < p->n_reasons; i++) {
		if (!shfs_undo_is_wanted(p, p->reasons[i].group))
			continue;
		n.conflicts += p->reasons[i].verdict == SHFS_UNDO_CONFLICT;
		n.cannot += p->reasons[i].verdict == SHFS_UNDO_CANNOT;
	}
	return n;
}

/* --- for people --- */

static void show_detail(const struct line *line, struct shfs_buf *out)
{
	const struct shfs_past_file *f = line->file;
	const struct shfs_undo_file *u = f->plan;

	if (!strcmp(line->word, "mode"))
		shfs_buf_printf(out, ": %04o again, not %04o", f->mode & 07777,
		                (unsigned)u->st.st_mode & 07777);
	else if (!strcmp(line->word, "owner"))
		shfs_buf_printf(out, ": %u:%u again, not %u:%u", f->uid, f->gid,
		                u->st.st_uid, u->st.st_gid);
	else if ((!strcmp(line->word, "content") || !strcmp(line->word, "restore")) &&
	         u->before.version_id) {
		shfs_buf_str(out, ": ");
		if (!strstr(u->before.path, "/" SHFS_STEP_TMP)) {
			shfs_show_version(out, u->before.path, u->before.n);
			shfs_buf_str(out, ", ");
		}
		shfs_show_size(out, u->before.size);
	} else if (!strcmp(line->word, "restore") && f->text && S_ISLNK(f->mode)) {
		shfs_buf_str(out, " -> ");
		shfs_quote_display(out, f->text, strlen(f->text));
	}
}

static int show_line(const struct line *line, void *arg)
{
	struct shfs_buf *out = arg;

	shfs_buf_printf(out, "  %-8s ", line->word);
	if (line->from && !strcmp(line->word, "rename")) {
		shfs_show_path(out, line->from);
		shfs_buf_str(out, " -> ");
	}
	shfs_show_path(out, line->path ?: "/");
	if (line->directory)
		shfs_buf_char(out, '/');
	if (line->from && !strcmp(line->word, "link")) {
		shfs_buf_str(out, ", a name of ");
		shfs_show_path(out, line->from);
	}
	show_detail(line, out);
	shfs_buf_char(out, '\n');
	return 0;
}

int shfs_undo_show(const struct shfs_undo_plan *p, const char *head, struct shfs_buf *out)
{
	size_t n = shfs_undo_count(p).changes;
	int r;

	if (!n)
		return 0;
	shfs_buf_printf(out, "%s:\n", head);
	r = each_line(p, show_line, out);
	return r ? r : out->failed ? -ENOMEM : 0;
}

static int show_doer(const struct shfs_undo_plan *p,
                     const struct shfs_undo_reason *reason, struct shfs_buf *out)
{
	_cleanup_command_ struct shfs_command_row command = { 0 };
	_cleanup_process_ struct shfs_process_row process = { 0 };
	int r = 0;

	if (reason->command_id)
		r = shfs_command_load(p->index, reason->command_id, &command);
	if (r > 0) {
		shfs_buf_str(out, ", by ");
		shfs_command_show(out, p->index, &command);
		return 0;
	}
	if (!r && reason->process_id)
		r = shfs_process_load(p->index, reason->process_id, &process);
	if (r > 0) {
		shfs_buf_str(out, ", by the process ");
		shfs_show_process(out, &process, 40);
	}
	return MIN(r, 0);
}

int shfs_undo_show_reasons(const struct shfs_undo_plan *p, struct shfs_buf *out)
{
	static const char *const heads[] = {
		[SHFS_UNDO_NOTE] = "Not all as it was:\n",
		[SHFS_UNDO_CONFLICT] = "Left alone:\n",
		[SHFS_UNDO_CANNOT] = "Cannot be put back:\n",
	};
	int r = 0;

	for (unsigned verdict = 0; verdict < ARRAY_SIZE(heads); verdict++) {
		bool any = false;

		for (size_t i = 0; i < p->n_reasons && !r; i++) {
			const struct shfs_undo_reason *reason = &p->reasons[i];

			if (reason->verdict != verdict ||
			    !shfs_undo_is_wanted(p, reason->group) ||
			    (verdict == SHFS_UNDO_NOTE &&
			     !shfs_undo_is_done(p, reason->group)))
				continue;
			shfs_buf_str(out, any ? "" : heads[verdict]);
			any = true;
			shfs_buf_str(out, "  ");
			shfs_show_path(out, reason->path);
			shfs_buf_printf(out, ": %s", reason->why);
			r = show_doer(p, reason, out);
			shfs_buf_char(out, '\n');
		}
	}
	return r ? r : out->failed ? -ENOMEM : 0;
}

/* --- diffs --- */

struct diffing {
	const struct shfs_undo_plan *plan;
	struct shfs_diff_options options;
	int code;
};

static int open_merged(const struct shfs_undo_file *u, struct shfs_diff_side *side)
{
	side->fd = memfd_create("merged", MFD_CLOEXEC);
	shfs_show_path(&side->label, u->path);
	shfs_buf_str(&side->label, "\tmerged");
	return side->fd < 0 || (u->merged.len &&
	                        pwrite(side->fd, u->merged.data, u->merged.len, 0) !=
	                                (ssize_t)u->merged.len)
	               ? SHFS_EXIT_FAILURE
	               : 0;
}

static int open_before(const struct diffing *d, const struct shfs_undo_file *u,
                       struct shfs_diff_side *side)
{
	if (u->before.flags & SHFS_CONTENT_OBJECT)
		return shfs_diff_version(d->plan->store, &u->before, side);
	return shfs_diff_nothing(side);
}

/* A file that is made again may take the place of one: `sed -i` is undone so. */
static int open_replaced(const char *path, struct shfs_diff_side *side)
{
	struct stat st;

	return !lstat(path, &st) && S_ISREG(st.st_mode) ? shfs_diff_now(path, side)
	                                                : shfs_diff_nothing(side);
}

static int diff_line(const struct line *line, void *arg)
{
	struct shfs_diff_side side[2] = { { .fd = -1 }, { .fd = -1 } };
	const struct shfs_undo_file *u = line->file->plan;
	bool removed = !strcmp(line->word, "remove"),
	     made = !strcmp(line->word, "restore");
	bool content = !strcmp(line->word, "content"),
	     merge = !strcmp(line->word, "merge");
	struct diffing *d = arg;
	int code = 0;

	if ((!removed && !made && !content && !merge) || line->directory ||
	    !S_ISREG(u->there ? u->st.st_mode : line->file->mode))
		return 0;
	code = made ? open_replaced(line->path, &side[0])
	            : shfs_diff_now(u->path, &side[0]);
	if (!code)
		code = removed ? shfs_diff_nothing(&side[1])
		       : merge ? open_merged(u, &side[1])
		               : open_before(d, u, &side[1]);
	if (!code)
		code = shfs_diff_run(side, &d->options);
	shfs_diff_side_clear(&side[0]);
	shfs_diff_side_clear(&side[1]);
	d->code = code > 1 ? code : d->code;
	return 0;
}

int shfs_undo_diff(const struct shfs_undo_plan *p, bool color)
{
	struct diffing d = { .plan = p, .options.color = color };

	(void)!each_line(p, diff_line, &d);
	return d.code;
}

/* --- for programs --- */

struct writing {
	const struct shfs_undo_plan *plan;
	struct shfs_json *json;
};

/* The version that is there now, if it is archived. */
static int json_now(struct writing *w, const struct shfs_undo_file *u)
{
	_cleanup_version_ struct shfs_version v = { 0 };
	int r = u->now_known ? shfs_version_latest(w->plan->index, u->path, &v) : 0;

	if (r > 0 && v.flags & SHFS_CONTENT_OBJECT && shfs_undo_is_object(&v, &u->now)) {
		shfs_json_str(w->json, "now_of", v.path);
		shfs_json_int(w->json, "now_n", v.n);
	}
	return MIN(r, 0);
}

static int json_line(const struct line *line, void *arg)
{
	const struct shfs_undo_file *u = line->file->plan;
	struct writing *w = arg;
	struct shfs_json *json = w->json;
	int r = 0;

	shfs_json_object(json, NULL);
	shfs_json_str(json, "change", line->word);
	shfs_json_str(json, "path", line->path ?: "/");
	if (line->from)
		shfs_json_str(json, "from", line->from);
	if (line->directory)
		shfs_json_bool(json, "directory", true);
	if (u->before.version_id &&
	    (!strcmp(line->word, "content") || !strcmp(line->word, "restore"))) {
		shfs_json_str(json, "version_of", u->before.path);
		shfs_json_int(json, "n", u->before.n);
	}
	if (line->now)
		r = json_now(w, shfs_undo_file(line->now));
	shfs_json_object_end(json);
	return r;
}

static int json_reasons(const struct shfs_undo_plan *p, struct shfs_json *json,
                        bool notes)
{
	static const char *const words[] = {
		[SHFS_UNDO_NOTE] = "note",
		[SHFS_UNDO_CONFLICT] = "conflict",
		[SHFS_UNDO_CANNOT] = "cannot",
	};
	int r = 0;

	for (size_t i = 0; i < p->n_reasons && !r; i++) {
		const struct shfs_undo_reason *reason = &p->reasons[i];
		_cleanup_command_ struct shfs_command_row command = { 0 };

		if ((reason->verdict == SHFS_UNDO_NOTE) != notes ||
		    !shfs_undo_is_wanted(p, reason->group))
			continue;
		if (reason->command_id)
			r = shfs_command_load(p->index, reason->command_id, &command);
		shfs_json_object(json, NULL);
		shfs_json_str(json, "path", reason->path);
		shfs_json_str(json, "reason", words[reason->verdict]);
		shfs_json_str(json, "text", reason->why);
		if (r > 0)
			shfs_json_str(json, "command", command.id);
		shfs_json_object_end(json);
		r = MIN(r, 0);
	}
	return r;
}

int shfs_undo_json(const struct shfs_undo_plan *p, struct shfs_json *json)
{
	struct writing w = { p, json };
	int r;

	shfs_json_array(json, "changes");
	r = each_line(p, json_line, &w);
	shfs_json_array_end(json);
	shfs_json_array(json, "left_alone");
	if (!r)
		r = json_reasons(p, json, false);
	shfs_json_array_end(json);
	shfs_json_array(json, "notes");
	if (!r)
		r = json_reasons(p, json, true);
	shfs_json_array_end(json);
	return r;
}
