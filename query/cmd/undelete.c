/* SPDX-License-Identifier: MIT */
/* `shfs undelete`: restore files that were removed. */
#include "query/base/cmd.h"
#include "query/base/time.h"
#include "query/restore/attributes.h"
#include "query/restore/leaving.h"
#include "query/restore/names.h"
#include "query/restore/restore-set.h"

#include "common/clock.h"
#include "common/path.h"
#include "common/quote.h"

#include <errno.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
	struct shfs_restore_options restore;
	bool list, all, git;
	const char *to, *command;
	char *to_path; /* absolute */
	int64_t command_id, since_ns, until_ns;
} opts = { .restore.only_absent = true };
static bool partly; /* something does not get back all that it had */

/* Is its removal one of those that are asked for? */
static bool is_selected(const struct shfs_leaving *leaving)
{
	if (opts.command_id && leaving->by.command_id != opts.command_id)
		return false;
	if (!opts.command_id && !opts.since_ns && !opts.until_ns)
		return true;
	return leaving->removed && leaving->time_ns >= opts.since_ns &&
	       (!opts.until_ns || leaving->time_ns <= opts.until_ns);
}

/* Was the file removed on purpose: by the command that made it, or by git? 1 or 0. */
static int is_unwanted(struct shfs_index *index, int64_t file_id,
                       const struct shfs_leaving *leaving)
{
	/* what one command made and removed was for itself */
	int r = opts.all ? 0 : shfs_leaving_of_one(index, file_id, leaving);

	return !r && !opts.git ? shfs_leaving_by_git(index, leaving) : r;
}

/* Can the file be restored, and may the user want that? 1 or 0. */
static int is_candidate(struct shfs_index *index, const struct shfs_version *version,
                        struct shfs_leaving *leaving)
{
	enum shfs_leaving_kind kind;
	struct stat st;
	int r;

	if (!lstat(version->path, &st))
		return 0;
	r = shfs_leaving_load(index, version->file_id, leaving);
	if (r < 0 || leaving->moved || !is_selected(leaving))
		return MIN(r, 0);
	/* also since its last removal */
	r = shfs_leaving_moved_along(index, version->file_id, version->path, version->n,
	                             leaving);
	if (r || !leaving->removed)
		return r < 0 ? r : !r;
	r = shfs_leaving_kind(index, version->file_id, leaving, &kind);
	if (r || (kind != SHFS_LEFT_FILE && kind != SHFS_LEFT_UNKNOWN))
		return r; /* it was no regular file at the end */
	r = is_unwanted(index, version->file_id, leaving);
	return r < 0 ? r : !r;
}

static int list_one(struct shfs_index *index, const struct shfs_version *version,
                    const struct shfs_leaving *leaving)
{
	_cleanup_buf_ struct shfs_buf line = { 0 };
	_cleanup_command_ struct shfs_command_row command = { 0 };
	int r = leaving->by.command_id
	                ? shfs_command_load(index, leaving->by.command_id, &command)
	                : 0;

	if (r < 0)
		return r;
	shfs_show_version(&line, version->path, version->n);
	if (!(version->flags & SHFS_CONTENT_OBJECT))
		shfs_buf_printf(&line, "  (not archived: %s)",
		                shfs_version_why_not_archived(version->flags));
	shfs_buf_str(&line, "\n    ");
	shfs_show_size(&line, version->size);
	if (leaving->removed) {
		shfs_buf_str(&line, ", removed ");
		shfs_time_show_relative(&line, leaving->time_ns);
	} else {
		shfs_buf_str(&line, ", gone unseen");
	}
	if (r > 0) {
		shfs_buf_str(&line, " by ");
		r = shfs_show_id(index, &line, command.id);
		if (r)
			return r;
		shfs_buf_char(&line, ' ');
		shfs_show_first_line(&line, command.text, command.text_len, 36);
	}
	shfs_buf_char(&line, '\n');
	return shfs_show_flush(&line) ? 0 : -EIO;
}

/* Opens rows of every file with versions at or below path, with its latest version; not
 * of links, whose versions are only known by their fingerprints. */
static int open_files(struct shfs_index *index, const char *path, struct shfs_rows **rows)
{
	_cleanup_buf_ struct shfs_buf sql = { 0 };
	int r;

	_Static_assert(S_IFMT == 61440 && S_IFLNK == 40960, "as the question says");
	shfs_buf_str(&sql, "SELECT" SHFS_VERSION_COLUMNS "FROM v_version v WHERE n ="
	                   " (SELECT versions FROM v_file f WHERE f.file_id = v.file_id)"
	                   " AND mode & 61440 != 40960 AND ");
	shfs_sql_files_below(&sql, "file_id", 1);
	shfs_buf_str(&sql, " ORDER BY path");
	if (sql.failed)
		return -ENOMEM;
	r = shfs_rows_open(index, sql.data, rows);
	return r ? r : shfs_rows_bind_str(*rows, 1, strcmp(path, "/") ? path : "");
}

/* Something that is no regular file, or that had other names. */
struct other {
	enum shfs_leaving_kind kind;
	char *path, *text;           /* path: where it is restored */
	char *was;                   /* its path */
	struct shfs_version version; /* for a file */
	struct shfs_former former;   /* without texts */
	bool linked, named;          /* it had other names; they were seen made */
	bool lost_xattrs; /* it had some; they are not recorded with this name */
};

static struct {
	struct other *list;
	size_t n, cap;
	struct shfs_names *names;
} others;

/* Attributes that are set at the end, when directories have their entries. */
struct attributes {
	char *path; /* where it is restored */
	struct shfs_former former;
	char *data;
	int64_t seq;       /* of its removal */
	int64_t entry_seq; /* of a directory: of the first removal in it; 0: none */
};

static struct {
	struct attributes *list;
	size_t n, cap;
} kept;

/* --- where they are restored --- */

/* The project that path is in: the longest root; "": none. *len: its length. */
static int find_root_length(struct shfs_index *index, const char *path, size_t *len)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(index, "SELECT DISTINCT root FROM v_producer", &rows);

	*len = 0;
	while (!r && (r = shfs_rows_next(rows)) > 0) {
		r = 0;
		if (shfs_path_is_below(path, shfs_rows_text(rows, 0)))
			*len = MAX(*len, shfs_rows_bytes(rows, 0));
	}
	return MIN(r, 0);
}

/* Takes over data, which may be NULL. */
static int keep_former(const char *path, const struct shfs_former *former, char *data,
                       int64_t seq)
{
	struct attributes *a;

	if (!MAKE_ROOM(kept.list, kept.n, kept.cap)) {
		free(data);
		return -ENOMEM;
	}
	a = &kept.list[kept.n++];
	*a = (struct attributes){ strdup(path), *former, data, seq, 0 };
	return a->path ? 0 : -ENOMEM;
}

/* Directories that are still there have in the other place the modes that they have. */
static int keep_directories(const char *path, size_t root_len, size_t to_len,
                            const char *target)
{
	static char last[PATH_MAX];
	size_t n = (size_t)(strrchr(path, '/') - path);

	if (n == strlen(last) && !strncmp(last, path, n))
		return 0;
	snprintf(last, sizeof(last), "%.*s", (int)n, path);
	for (; n > root_len; n--) {
		_cleanup_free_ char *dir = strndup(path, n), *there = NULL;
		struct shfs_former former = { .flags = SHFS_FORMER_STATUS };
		struct stat st;
		int r;

		if (path[n] != '/' || !dir || lstat(dir, &st) || !S_ISDIR(st.st_mode))
			continue;
		there = strndup(target, to_len + n - root_len);
		former.mode = st.st_mode;
		former.uid = st.st_uid;
		former.gid = st.st_gid;
		former.mtime_ns = shfs_timespec_ns(st.st_mtim);
		r = there ? keep_former(there, &former, NULL, 0) : -ENOMEM;
		if (r)
			return r;
	}
	return 0;
}

/* Where path is restored: with --to at its path within its project. */
static int find_target(struct shfs_index *index, const char *path, char **out)
{
	size_t len;
	int r;

	if (!opts.to) {
		*out = strdup(path);
		return *out ? 0 : -ENOMEM;
	}
	r = find_root_length(index, path, &len);
	if (r)
		return r;
	if (!len)
		len = (size_t)(strrchr(path, '/') - path);
	*out = shfs_path_join(opts.to_path, path + len + 1);
	return *out ? keep_directories(path, len, strlen(opts.to_path), *out) : -ENOMEM;
}

/* Keeps what a file was, to be put back at the end. Its state moves there. */
static int keep_leaving(struct shfs_index *index, const char *path,
                        struct shfs_leaving *leaving)
{
	_cleanup_free_ char *target = NULL;
	int r = leaving->former.flags ? find_target(index, path, &target) : 0;

	return r || !target ? r
	                    : keep_former(target, &leaving->former,
	                                  TAKE_PTR(leaving->data), leaving->seq);
}

static int compare_lengths(const void *a, const void *b)
{
	size_t x = strlen(((const struct attributes *)a)->path),
	       y = strlen(((const struct attributes *)b)->path);

	return (x < y) - (x > y);
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(((const struct attributes *)a)->path,
	              ((const struct attributes *)b)->path);
}

/* The first removal in a directory tells which time that had. */
static void find_times_of_directories(void)
{
	if (kept.n)
		qsort(kept.list, kept.n, sizeof(*kept.list), compare_paths);
	for (size_t i = 0; i < kept.n; i++) {
		const struct attributes *a = &kept.list[i];
		_cleanup_free_ char *dir =
			strndup(a->path, (size_t)(strrchr(a->path, '/') - a->path));
		const struct attributes key = { .path = dir };
		struct attributes *d = dir ? bsearch(&key, kept.list, kept.n,
		                                     sizeof(*kept.list), compare_paths)
		                           : NULL;

		if (!d || !(a->former.flags & SHFS_FORMER_DIRECTORY) ||
		    (d->entry_seq && d->entry_seq < a->seq))
			continue;
		d->entry_seq = a->seq;
		d->former.mtime_ns = a->former.directory_mtime_ns;
	}
}

/* Sets attributes of what is there now; that in a directory comes first. */
static void put_back_attributes(void)
{
	find_times_of_directories();
	if (kept.n)
		qsort(kept.list, kept.n, sizeof(*kept.list), compare_lengths);
	for (size_t i = 0; i < kept.n; i++) {
		const struct attributes *a = &kept.list[i];
		_cleanup_buf_ struct shfs_buf shown = { 0 };
		int r = opts.restore.dry_run
		                ? 0
		                : shfs_attributes_put_back(a->path, &a->former);

		if (!r || r == -ENOENT)
			continue;
		shfs_show_path(&shown, a->path);
		shfs_warn("%s: its attributes are not put back: %s", shown.data ?: "",
		          strerror(-r));
		partly = true;
	}
}

static void clear_kept(void)
{
	for (size_t i = 0; i < kept.n; i++) {
		free(kept.list[i].path);
		free(kept.list[i].data);
	}
	free(kept.list);
}

/* --- */

static int add_other_deletion(struct shfs_index *index, enum shfs_leaving_kind kind,
                              const char *path, const struct shfs_leaving *leaving)
{
	struct other *o;

	if (!MAKE_ROOM(others.list, others.n, others.cap))
		return -ENOMEM;
	o = &others.list[others.n++];
	*o = (struct other){ .kind = kind,
		             .text = strdup(leaving->text ?: ""),
		             .was = strdup(path),
		             .former = leaving->former,
		             .linked = leaving->linked };
	return o->text && o->was ? find_target(index, path, &o->path) : -ENOMEM;
}

/* Takes version over if the file had other names: 1 or 0. */
static int add_deleted_name(struct shfs_index *index, struct shfs_version *version,
                            const struct shfs_leaving *leaving)
{
	int r = shfs_names_add(&others.names, index, version->file_id, version->path);
	bool named = r > 0;

	if (r < 0 || (!named && !leaving->linked && !leaving->former.ino))
		return r;
	r = add_other_deletion(index, SHFS_LEFT_FILE, version->path, leaving);
	if (r)
		return r;
	others.list[others.n - 1].named = named;
	others.list[others.n - 1].version = *version;
	*version = (struct shfs_version){ 0 };
	return 1;
}

static void clear_others(void)
{
	for (size_t i = 0; i < others.n; i++) {
		free(others.list[i].path);
		free(others.list[i].was);
		free(others.list[i].text);
		shfs_version_clear(&others.list[i].version);
	}
	free(others.list);
	shfs_names_free(&others.names);
}

/* Warns that something besides the content cannot be restored. */
static void warn_lost(const char *path, const char *what)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_show_path(&shown, path);
	shfs_warn("%s had %s", shown.data ?: "", what);
	partly = true;
}

/* Had it extended attributes that are not recorded with this removal? 1 or 0. */
static int has_lost_xattrs(struct shfs_index *index, int64_t file_id,
                           const struct shfs_leaving *leaving)
{
	if (leaving->former.flags & SHFS_FORMER_XATTRS)
		return 0;
	return shfs_leaving_attributes(index, file_id, leaving);
}

#define LOST_XATTRS "extended attributes, which are not recorded"

struct found {
	size_t known, candidates;
	bool git; /* asked for, or the operand is in .git itself */
};

static int take_deleted_version(struct shfs_index *index, struct shfs_version *version,
                                bool named, struct shfs_restore_set *set,
                                struct found *found)
{
	_cleanup_leaving_ struct shfs_leaving leaving = { 0 };
	int r;

	found->known++;
	if (!found->git && shfs_path_is_version_control(version->path))
		return 0;
	r = is_candidate(index, version, &leaving);
	/* a named file is tried, so that the reason is printed */
	if (r < 0 || (!r && !(named && !opts.list)))
		return r;
	found->candidates++;
	if (opts.list)
		return list_one(index, version, &leaving);
	if (r > 0) {
		int lost = has_lost_xattrs(index, version->file_id, &leaving);

		r = lost < 0 ? lost : keep_leaving(index, version->path, &leaving);
		if (!r)
			r = add_deleted_name(index, version, &leaving);
		if (r > 0)
			others.list[others.n - 1].lost_xattrs = lost;
		else if (!r && lost)
			warn_lost(version->path, LOST_XATTRS);
	}
	return r ? MIN(r, 0) : shfs_restore_set_add(set, index, version, opts.to_path);
}

/* --- links and directories --- */

static int list_other(enum shfs_leaving_kind kind, const char *path,
                      const struct shfs_leaving *leaving)
{
	_cleanup_buf_ struct shfs_buf line = { 0 };
	const char *text = leaving->text ?: "";

	shfs_show_path(&line, path);
	if (kind == SHFS_LEFT_DIRECTORY) {
		shfs_buf_char(&line, '/');
	} else if (kind == SHFS_LEFT_LINK) {
		shfs_buf_str(&line, " -> ");
		shfs_quote_display(&line, text, strlen(text));
	} else {
		shfs_buf_str(&line, "  (no file: only its name is recorded)");
	}
	shfs_buf_str(&line, "\n    removed ");
	shfs_time_show_relative(&line, leaving->time_ns);
	shfs_buf_char(&line, '\n');
	return shfs_show_flush(&line) ? 0 : -EIO;
}

static int take_other(struct shfs_index *index, int64_t file_id, const char *path,
                      bool has_versions, struct found *found)
{
	_cleanup_leaving_ struct shfs_leaving leaving = { 0 };
	enum shfs_leaving_kind kind;
	struct stat st;
	int r;

	if (!found->git && shfs_path_is_version_control(path))
		return 0;
	found->known += !has_versions;
	if (!lstat(path, &st))
		return 0;
	r = shfs_leaving_load(index, file_id, &leaving);
	if (r <= 0 || !leaving.removed || !is_selected(&leaving))
		return MIN(r, 0);
	r = shfs_leaving_kind(index, file_id, &leaving, &kind);
	if (r || kind == SHFS_LEFT_FILE || (kind == SHFS_LEFT_UNKNOWN && has_versions))
		return r;
	r = shfs_leaving_moved_along(index, file_id, path, 0, &leaving);
	if (!r)
		r = is_unwanted(index, file_id, &leaving);
	if (r)
		return MIN(r, 0);
	found->candidates++;
	if (opts.list)
		return list_other(kind, path, &leaving);
	r = has_lost_xattrs(index, file_id, &leaving);
	if (r > 0)
		warn_lost(path, LOST_XATTRS);
	r = r < 0 ? r : add_other_deletion(index, kind, path, &leaving);
	return r ? r : keep_leaving(index, path, &leaving);
}

/* Collects paths, each before those below it. */
static int collect_others(struct shfs_index *index, const char *path, struct found *found)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_buf_ struct shfs_buf sql = { 0 };
	int r;

	shfs_buf_str(&sql, "SELECT p.file_id, p.path, EXISTS (SELECT 1 FROM v_file f"
	                   " WHERE f.file_id = p.file_id) FROM v_path p WHERE ");
	shfs_sql_files_below(&sql, "p.file_id", 1);
	shfs_buf_str(&sql, " ORDER BY p.path");
	if (sql.failed)
		return -ENOMEM;
	r = shfs_rows_open_str(index, sql.data, strcmp(path, "/") ? path : "", &rows);
	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = take_other(index, shfs_rows_int(rows, 0), shfs_rows_text(rows, 1),
		               shfs_rows_int(rows, 2), found);
	return r;
}

/* Were both removed as names of one file, by its number? Each removal left one name less;
 * the number may have been another file's before. */
static bool is_same_file(const struct other *a, const struct other *b)
{
	const struct shfs_former *x = &a->former, *y = &b->former;

	return a->kind == SHFS_LEFT_FILE && b->kind == SHFS_LEFT_FILE && x->ino &&
	       x->ino == y->ino && x->dev == y->dev && x->links != y->links &&
	       x->mtime_ns == y->mtime_ns;
}

/* Another name of the file that is there (again), or NULL. */
static const char *find_other_name(const struct other *o)
{
	const char *name = shfs_names_other(others.names, o->was);
	struct stat st;

	for (const struct other *p = others.list; p < others.list + others.n; p++) {
		bool same = name && opts.to ? !strcmp(p->was, name)
		                            : !name && p < o && is_same_file(p, o);

		if (same && (opts.restore.dry_run || !lstat(p->path, &st)))
			return p->path;
	}
	return opts.to ? NULL : name;
}

/* Restores a name; if that cannot be a name of the same file, it gets a content of its
 * own. */
static int restore_name(struct shfs_restorer *restorer, const struct other *o,
                        struct shfs_buf *message)
{
	const struct shfs_restore_target target = { "/", o->path + 1, opts.to };
	const char *other = find_other_name(o);
	int code = SHFS_EXIT_FAILURE;

	if (other && (o->version.flags & SHFS_CONTENT_OBJECT)) {
		code = shfs_restore_name(restorer, &o->version, o->path, other, message);
		if (code == SHFS_EXIT_FAILURE) {
			shfs_warn("%s", message->data ?: "");
			*opts.restore.partly = true;
			shfs_buf_free(message);
		}
	}
	if (code != SHFS_EXIT_FAILURE)
		return code;
	code = shfs_restore(restorer, &o->version, &target, message);
	if (!code)
		shfs_names_is_there(others.names, o->was);
	return code;
}

static bool is_node(const struct other *o)
{
	uint32_t type = o->former.mode & S_IFMT;

	return o->former.flags & SHFS_FORMER_STATUS && type != S_IFREG &&
	       type != S_IFDIR && type != S_IFLNK;
}

static int restore_other(struct shfs_restorer *restorer, const struct other *o,
                         struct shfs_buf *message)
{
	struct stat st;

	switch (o->kind) {
	case SHFS_LEFT_FILE:
		return restore_name(restorer, o, message);
	case SHFS_LEFT_LINK:
		return shfs_restore_link(restorer, o->path, o->text, message);
	case SHFS_LEFT_DIRECTORY: /* restoring a file in it may have made it */
		return lstat(o->path, &st)
		               ? shfs_restore_directory(restorer, o->path, message)
		               : SHFS_EXIT_OK;
	default:
		if (is_node(o))
			return shfs_restore_node(restorer, o->path, o->former.mode,
			                         o->former.rdev, message);
		shfs_show_path(message, o->path);
		shfs_buf_str(message, " is not brought back: it was no file, and only "
		                      "its name is recorded");
		return SHFS_EXIT_FAILURE;
	}
}

/* Are all names of the file among those that are brought back? */
static bool has_all_names(const struct other *o)
{
	size_t n = 0;

	for (const struct other *p = others.list; p < others.list + others.n; p++)
		n += p == o || is_same_file(p, o);
	for (const struct other *p = others.list; p < others.list + others.n; p++)
		if ((p == o || is_same_file(p, o)) && p->former.links > n)
			return false;
	return o->former.ino;
}

/* Are its extended attributes known by another name? */
static bool has_xattrs(const struct other *o)
{
	for (const struct other *p = others.list; p < others.list + others.n; p++)
		if (is_same_file(p, o) && p->former.flags & SHFS_FORMER_XATTRS)
			return true;
	return false;
}

static void warn_of_names(void)
{
	for (const struct other *o = others.list; o < others.list + others.n; o++) {
		if (o->lost_xattrs && !has_xattrs(o))
			warn_lost(o->was, LOST_XATTRS);
		if (o->kind == SHFS_LEFT_FILE && o->linked && !o->named &&
		    !has_all_names(o))
			warn_lost(o->was, "other names, which are not recorded");
	}
}

static int restore_others(struct shfs_context *ctx, struct shfs_index *index)
{
	_cleanup_restorer_ struct shfs_restorer *restorer = NULL;
	int code = SHFS_EXIT_OK, worst = SHFS_EXIT_OK, r = -ENOMEM;
	struct shfs_store *store = shfs_context_store(ctx, false, &code);
	const struct shfs_config *config = store ? shfs_context_config(ctx, &code) : NULL;

	if (config)
		r = shfs_restorer_new(store, index, config, opts.restore, &restorer);
	if (!config || r)
		return config ? shfs_fail_index(index, r) : code;
	warn_of_names();
	for (size_t i = 0; i < others.n; i++) {
		_cleanup_buf_ struct shfs_buf message = { 0 };

		code = restore_other(restorer, &others.list[i], &message);
		if (message.len && code)
			shfs_error("%s", message.data);
		else if (message.len)
			puts(message.data);
		worst = MAX(worst, code);
	}
	return worst;
}

static int collect_deleted_below(struct shfs_index *index, const char *path,
                                 struct shfs_restore_set *set, struct found *found)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = open_files(index, path, &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		_cleanup_version_ struct shfs_version version = { 0 };

		r = shfs_version_from_row(rows, &version);
		if (r > 0)
			r = take_deleted_version(index, &version,
			                         !strcmp(version.path, path), set, found);
	}
	return r;
}

static int collect_operand(struct shfs_index *index, const char *operand,
                           struct shfs_restore_set *set)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	struct found found = { 0 };
	int r = shfs_operand_file(index, operand, &path);

	if (path && !shfs_path_is_here(path)) {
		shfs_show_path(&shown, path);
		shfs_error("%s" SHFS_NOT_HERE, shown.data);
		shfs_hint("shfs restore --to DIR brings a version of it here");
		return SHFS_EXIT_REFUSED;
	}
	if (r >= 0 && path) {
		found.git = opts.git || shfs_path_is_version_control(path);
		r = collect_deleted_below(index, path, set, &found);
		if (r >= 0)
			r = collect_others(index, path, &found);
	}
	if (r < 0 || !path)
		return shfs_fail_index(index, path ? r : -ENOMEM);
	if (!found.known)
		return shfs_fail_unseen(index, path);
	if (found.candidates)
		return 0;
	shfs_show_path(&shown, path);
	if (!strcmp(path, "/")) /* nothing was named but a command */
		shfs_error("nothing to bring back: all that was removed is there, or has "
		           "moved");
	else
		shfs_error("%s: nothing to bring back: all that is known below it is "
		           "there, or has moved",
		           shown.data);
	if (!opts.all || !opts.git)
		shfs_hint("temporary files of one command (--all) and files of git "
		          "(--git) are left out");
	return SHFS_EXIT_NOT_FOUND;
}

static int check_undelete_options(struct shfs_context *ctx, int argc)
{
	if (argc || opts.list || opts.command || opts.since_ns || opts.until_ns)
		return 0;
	shfs_error("undelete what? Name a file or a directory, or use --list");
	return SHFS_EXIT_USAGE;
}

/* Finds the command of --command, and the path of --to. */
static int prepare(struct shfs_index *index)
{
	_cleanup_free_ char *cwd = NULL, *joined = NULL;
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	int r = opts.command ? shfs_command_find(index, opts.command, &opts.command_id)
	                     : 1;

	if (r == -ENOTUNIQ)
		return SHFS_EXIT_NOT_FOUND;
	if (r < 0)
		return shfs_fail_index(index, r);
	if (!r) {
		shfs_quote_display(&shown, opts.command, strlen(opts.command));
		shfs_error("no command's id begins with %s", shown.data);
		return SHFS_EXIT_NOT_FOUND;
	}
	if (!opts.to)
		return 0;
	cwd = getcwd(NULL, 0);
	joined = cwd ? shfs_path_join(cwd, opts.to) : NULL;
	opts.to_path = joined ? shfs_path_absolute(joined) : NULL;
	umask(077); /* until the modes are set */
	return opts.to_path ? 0 : shfs_fail_index(index, -ENOMEM);
}

static int set_undelete_option(const struct shfs_option *opt, const char *value)
{
	if (!strcmp(opt->name, "since") || !strcmp(opt->name, "until")) {
		int64_t *ns = *opt->name == 's' ? &opts.since_ns : &opts.until_ns;

		return shfs_time_parse(value, ns) ? shfs_bad_value(opt, value, "a time")
		                                  : 0;
	}
	*(strcmp(opt->name, "to") ? &opts.command : &opts.to) = value;
	if (!*value) {
		shfs_error("--%s needs a value that is not empty", opt->name);
		return SHFS_EXIT_USAGE;
	}
	return 0;
}

static int run_undelete(struct shfs_context *ctx, struct shfs_index *index, int argc,
                        char **argv)
{
	_cleanup_restore_set_ struct shfs_restore_set set = { 0 };
	static char dot[] = ".", root[] = "/", *here[] = { dot, NULL },
		    *all[] = { root, NULL };
	int code = prepare(index), rest;

	if (!argc) {
		argv = opts.command ? all : here;
		argc = 1;
	}
	if (opts.list)
		shfs_context_pager(ctx);
	for (int i = 0; i < argc && !code; i++)
		code = collect_operand(index, argv[i], &set);
	if (code || opts.list)
		return code;
	opts.restore.partly = &partly;
	if (set.n)
		code = shfs_restore_set_run(&set, ctx, index, opts.restore);
	set.no_links = opts.to;
	rest = code == SHFS_EXIT_REFUSED ? code : restore_others(ctx, index);
	if (rest != SHFS_EXIT_REFUSED)
		put_back_attributes();
	clear_others();
	clear_kept();
	free(TAKE_PTR(opts.to_path));
	code = MAX(code, rest);
	return partly ? MAX(code, SHFS_EXIT_FAILURE) : code;
}

const struct shfs_command shfs_cmd_undelete = {
	.name = "undelete",
	.args = "[FILE|DIRECTORY]…",
	.summary = "Bring back files that were removed",
	.description =
		"Each gets its last content, and all that it was: mode, owner, times, links.\n"
		"Existing files are never replaced, and files that were renamed are not\n"
		"brought back.",
	.alone = true,
	.options = {
	{ "list", 'l', NULL, "only list what can be brought back", .flag = &opts.list },
	{ "all", 'a', NULL, "also what one command made and removed again",
	  .flag = &opts.all },
	{ "git", 0, NULL, "also in .git, and what git removed for another branch",
	  .flag = &opts.git },
	{ "command", 0, "ID", "only what this command removed; without operands, anywhere" },
	{ "since", 0, "TIME", "only what was removed since" },
	{ "until", 0, "TIME", "only what was removed until then" },
	{ "to", 0, "DIR", "bring it back below this directory, each at its path in its project" },
	{ "dry-run", 'n', NULL, "only show what would be done",
	  .flag = &opts.restore.dry_run },
	},
	.on_demand = true,
	.operands = { 0, -1 },
	.option = set_undelete_option,
	.check = check_undelete_options,
	.run_on_index = run_undelete,
};
