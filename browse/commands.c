/* SPDX-License-Identifier: MIT */
/*
 * commands/ID: what a command read and wrote, and the files that it changed, before and
 * after.
 *
 * The files of one of these directories are found all at once, and kept for the next
 * requests as long as the index is the same.
 */
#include "browse/browse.h"

#include "common/path.h"
#include "query/history/uses.h"
#include "query/past/past.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define LISTED_MAX   1000 /* commands in the listing; others are found by their id */
#define SETS_MAX     16
#define FILES_MAX    200000 /* of all sets that are kept */
#define UNKNOWN_MODE 0755   /* of a directory */

enum side { SIDE_AFTER, SIDE_BEFORE, SIDE_READ, SIDE_WROTE, SIDES };

static const char *const side_names[SIDES] = { "after", "before", "read", "wrote" };

/* A file, or a directory that the command changed. */
struct set_file {
	char *path;         /* relative to the root of the project */
	int64_t version_id; /* of a regular file; 0: not recorded */
	uint32_t mode;      /* with its type; 0: that of the version */
	uint32_t known;     /* enum shfs_past_change: which of these are known */
	uint32_t uid, gid;
	int64_t mtime_ns;
	uint64_t rdev;
	char *text;   /* of a link */
	size_t order; /* in which it was added */
};

/* Sorted by path. */
struct shfs_file_set {
	struct shfs_file_set *next; /* used less recently */
	int64_t command_id;
	enum side side;
	struct set_file *files;
	size_t n, cap;
	int64_t time_ns; /* of the command: begin, or end */
};

static void free_file(struct set_file *file)
{
	free(file->path);
	free(file->text);
}

static void free_set(struct shfs_file_set *set)
{
	if (!set)
		return;
	for (size_t i = 0; i < set->n; i++)
		free_file(&set->files[i]);
	free(set->files);
	free(set);
}

static void free_setp(struct shfs_file_set **set)
{
	free_set(*set);
}

void shfs_commands_drop(struct shfs_browse *b)
{
	while (b->sets) {
		struct shfs_file_set *set = b->sets;

		b->sets = set->next;
		free_set(set);
	}
}

/* --- making a set --- */

/* Adds a file at this path of the index, if that is in the project. The rest of *out is
 * the caller's to fill in. */
static int add_file(struct shfs_browse *b, struct shfs_file_set *set, const char *path,
                    struct set_file **out)
{
	const char *rest = shfs_path_relative(path, b->root);

	*out = NULL;
	if (!rest || !*rest)
		return 0;
	if (!MAKE_ROOM(set->files, set->n, set->cap))
		return -ENOMEM;
	set->files[set->n] = (struct set_file){ .path = strdup(rest) };
	if (!set->files[set->n].path)
		return -ENOMEM;
	*out = &set->files[set->n++];
	return 0;
}

/* Loads the versions that the command left, as `shfs show` has them. */
static int load_wrote(struct shfs_browse *b, struct shfs_file_set *set)
{
	_cleanup_uses_ struct shfs_uses uses = { 0 };
	int r = shfs_uses_load(b->index, set->command_id, 0, 0, &uses);

	for (size_t i = 0; !r && i < uses.n; i++) {
		const struct shfs_use *use = &uses.list[i];
		struct set_file *file;

		if (!use->made_id ||
		    (use->kind != SHFS_USE_WROTE && use->kind != SHFS_USE_CHANGED))
			continue;
		r = add_file(b, set, use->path, &file);
		if (file)
			file->version_id = use->made_id;
	}
	return r;
}

/* The first version of each file that the command read, but those that it made itself. */
#define READS                                                                            \
	"SELECT path, seen_version_id FROM v_access a WHERE command_id = ?1 AND is_read" \
	" AND seen_n IS NOT NULL AND NOT EXISTS (SELECT 1 FROM v_access m"               \
	" WHERE m.command_id = ?1 AND m.made_file_id = a.file_id AND m.made_n IS NOT"    \
	" NULL AND m.made_n <= a.seen_n) ORDER BY begin_ns, seq_key"

static int load_read(struct shfs_browse *b, struct shfs_file_set *set)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(b->index, READS, SHFS_INTS(set->command_id), &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		struct set_file *file;

		r = add_file(b, set, shfs_rows_text(rows, 0), &file);
		if (file)
			file->version_id = shfs_rows_int(rows, 1);
	}
	return r;
}

/* The version that a path had at a time: of what the command did not change. */
static int find_version_at(struct shfs_browse *b, const char *path, int64_t time_ns,
                           int64_t *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(
		b->index,
		"SELECT version_id, time_ns FROM v_version WHERE " SHFS_SQL_FILE(
			"?1") "ORDER BY n",
		path, &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		r = 0;
		if (shfs_rows_int(rows, 1) > time_ns)
			break;
		*out = shfs_rows_int(rows, 0);
	}
	return MIN(r, 0);
}

static int set_text(struct set_file *file, const char *text)
{
	file->text = text ? strdup(text) : NULL;
	return text && !file->text ? -ENOMEM : 0;
}

static int add_before(struct shfs_browse *b, struct shfs_file_set *set,
                      const struct shfs_past_entry *e)
{
	const struct shfs_past_file *f = shfs_past_real(e->then);
	_cleanup_buf_ struct shfs_buf path = { 0 };
	struct set_file *file;
	int r;

	if (!f || !shfs_past_path_then(e, &path) || path.failed)
		return path.failed ? -ENOMEM : 0;
	r = add_file(b, set, path.data, &file);
	if (!file)
		return r;
	file->known = f->known;
	file->mode = f->mode;
	file->uid = f->uid;
	file->gid = f->gid;
	file->mtime_ns = f->mtime_ns;
	file->rdev = f->rdev;
	if (f->n)
		file->version_id = f->file_id << 32 | f->n;
	else if (!(f->changed & SHFS_PAST_CONTENT) && (!f->mode || S_ISREG(f->mode)))
		r = find_version_at(b, path.data, set->time_ns, &file->version_id);
	return r ? r : set_text(file, f->text);
}

static int add_after(struct shfs_browse *b, struct shfs_file_set *set,
                     const struct shfs_past_entry *e)
{
	const struct shfs_past_file *f = shfs_past_real(e->left);
	_cleanup_buf_ struct shfs_buf path = { 0 };
	struct set_file *file;
	int r;

	if (!f || !shfs_past_path_left(e, &path) || path.failed)
		return path.failed ? -ENOMEM : 0;
	r = add_file(b, set, path.data, &file);
	if (!file)
		return r;
	file->mode = f->left_text ? S_IFLNK : f->left_n ? S_IFREG : f->mode & S_IFMT;
	if (f->left_n)
		file->version_id = f->left_file_id << 32 | f->left_n;
	else if (!file->mode || S_ISREG(file->mode))
		r = find_version_at(b, path.data, set->time_ns, &file->version_id);
	return r ? r : set_text(file, f->left_text ?: f->text);
}

static int load_changes(struct shfs_browse *b, struct shfs_file_set *set)
{
	_cleanup_effects_ struct shfs_effects effects = { 0 };
	_cleanup_past_ struct shfs_past past = { 0 };
	int r = shfs_effects_add_command(&effects, b->index, set->command_id);

	if (r)
		return r;
	shfs_effects_sort(&effects);
	r = shfs_past_walk(&past, &effects);
	for (const struct shfs_past_entry *e = past.entries; !r && e; e = e->next)
		if (e->first_seq)
			r = set->side == SIDE_BEFORE ? add_before(b, set, e)
			                             : add_after(b, set, e);
	return r;
}

static int compare_files(const void *a, const void *b)
{
	const struct set_file *x = a, *y = b;
	int r = strcmp(x->path, y->path);

	return r ? r : (x->order > y->order) - (x->order < y->order);
}

/* Sorts by path; of several at one path the first that was added stays. */
static void sort_set(struct shfs_file_set *set)
{
	size_t n = 0;

	for (size_t i = 0; i < set->n; i++)
		set->files[i].order = i;
	if (set->n)
		qsort(set->files, set->n, sizeof(*set->files), compare_files);
	for (size_t i = 0; i < set->n; i++)
		if (n && !strcmp(set->files[i].path, set->files[n - 1].path))
			free_file(&set->files[i]);
		else
			set->files[n++] = set->files[i];
	set->n = n;
}

/* Finds the set that is kept, and makes it the first. */
static bool find_kept(struct shfs_browse *b, int64_t command_id, enum side side)
{
	for (struct shfs_file_set **at = &b->sets; *at; at = &(*at)->next) {
		struct shfs_file_set *set = *at;

		if (set->command_id != command_id || set->side != side)
			continue;
		*at = set->next;
		set->next = b->sets;
		b->sets = set;
		return true;
	}
	return false;
}

static void limit_sets(struct shfs_browse *b)
{
	struct shfs_file_set *set = b->sets;
	size_t files = set->n;

	for (unsigned n = 1; set->next; n++) {
		files += set->next->n;
		if (n < SETS_MAX && files <= FILES_MAX) {
			set = set->next;
			continue;
		}
		while (set->next) {
			struct shfs_file_set *last = set->next;

			set->next = last->next;
			free_set(last);
		}
	}
}

/* Loads a set, which is the first of those that are kept then. */
static int load_set(struct shfs_browse *b, const struct shfs_command_row *command,
                    enum side side)
{
	_cleanup_(free_setp) struct shfs_file_set *set = NULL;
	int r;

	if (find_kept(b, command->command_id, side))
		return 0;
	set = calloc(1, sizeof(*set));
	if (!set)
		return -ENOMEM;
	set->command_id = command->command_id;
	set->side = side;
	set->time_ns = side == SIDE_BEFORE || !command->ended ? command->begin_ns
	                                                      : command->end_ns;
	if (!command->ended && side == SIDE_AFTER)
		set->time_ns = INT64_MAX;
	r = side == SIDE_READ    ? load_read(b, set)
	    : side == SIDE_WROTE ? load_wrote(b, set)
	                         : load_changes(b, set);
	if (r)
		return r;
	sort_set(set);
	if (set->time_ns == INT64_MAX)
		set->time_ns = command->begin_ns;
	set->next = b->sets;
	b->sets = TAKE_PTR(set);
	limit_sets(b);
	return 0;
}

/* --- looking into a set --- */

/* The first file whose path is not before this one. */
static size_t find_index(const struct shfs_file_set *set, const char *path)
{
	size_t low = 0, high = set->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(set->files[middle].path, path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Is there a file below this directory? */
static bool is_directory_in(const struct shfs_file_set *set, const char *path)
{
	_cleanup_buf_ struct shfs_buf below = { 0 };
	size_t i;

	shfs_buf_printf(&below, "%s/", path);
	if (below.failed)
		return false;
	i = find_index(set, below.data);
	return i < set->n && !strncmp(set->files[i].path, below.data, below.len);
}

static void set_known(const struct set_file *f, struct stat *st)
{
	if (f->known & SHFS_PAST_MODE)
		st->st_mode = (st->st_mode & S_IFMT) | (f->mode & 07777);
	if (f->known & SHFS_PAST_OWNER) {
		st->st_uid = f->uid;
		st->st_gid = f->gid;
	}
	if (f->known & SHFS_PAST_TIME)
		st->st_mtim = st->st_ctim = st->st_atim = shfs_ns_timespec(f->mtime_ns);
	st->st_rdev = f->rdev;
}

static int place_of(struct shfs_browse *b, const struct shfs_file_set *set,
                    const struct set_file *f, struct shfs_place *out)
{
	struct shfs_version version = { 0 };
	char *text;
	int r = 0;

	if (S_ISLNK(f->mode)) {
		text = strdup(f->text ?: "");
		r = shfs_place_text(b, S_IFLNK, text, text ? strlen(text) : 0,
		                    set->time_ns, out);
		if (!f->text) {
			out->where = SHFS_PLACE_NOWHERE;
			out->error = -ENODATA;
			out->why = "what it said is not recorded";
		}
	} else if (f->version_id) {
		r = shfs_version_load(b->index, f->version_id, &version);
		if (r > 0)
			shfs_place_version(b, &version, out);
		r = r > 0 ? 0 : r ? r : -ENOENT;
	} else if (f->mode && !S_ISREG(f->mode)) {
		shfs_place_directory(b, set->time_ns, out);
		out->st.st_mode = (f->mode & S_IFMT) | UNKNOWN_MODE;
	} else {
		r = shfs_place_text(b, S_IFREG, strdup(""), 0, set->time_ns, out);
		out->where = SHFS_PLACE_NOWHERE;
		out->error = -ENODATA;
		out->why = "what it held is not recorded";
	}
	if (!r)
		set_known(f, &out->st);
	return r;
}

static int find_in_set(struct shfs_browse *b, const char *path, struct shfs_place *out)
{
	const struct shfs_file_set *set = b->sets;
	size_t i = find_index(set, path);
	bool found = i < set->n && !strcmp(set->files[i].path, path);

	if (*path && found && !is_directory_in(set, path))
		return place_of(b, set, &set->files[i], out);
	if (*path && !found && !is_directory_in(set, path))
		return -ENOENT;
	shfs_place_directory(b, set->time_ns, out);
	if (found && S_ISDIR(set->files[i].mode))
		set_known(&set->files[i], &out->st);
	return 0;
}

static int list_set(struct shfs_browse *b, const char *path, struct shfs_names *out)
{
	const struct shfs_file_set *set = b->sets;
	_cleanup_buf_ struct shfs_buf below = { 0 }, name = { 0 }, last = { 0 };

	if (*path)
		shfs_buf_printf(&below, "%s/", path);
	else
		shfs_buf_str(&below, "");
	if (below.failed)
		return -ENOMEM;
	for (size_t i = find_index(set, below.data);
	     i < set->n && !strncmp(set->files[i].path, below.data, below.len); i++) {
		const char *rest = set->files[i].path + below.len;
		size_t len = strcspn(rest, "/");
		bool is_directory = rest[len] || S_ISDIR(set->files[i].mode);

		name.len = 0;
		shfs_buf_add(&name, rest, len);
		shfs_buf_str(&name, "");
		if (name.failed)
			return -ENOMEM;
		/* "a", "a-b", "a/b": "a" comes twice */
		if (rest[len] && last.len == len && !memcmp(last.data, name.data, len))
			continue;
		if (rest[len]) {
			_cleanup_buf_ struct shfs_buf whole = { 0 };
			size_t k;

			shfs_buf_printf(&whole, "%s%s", below.data, name.data);
			if (whole.failed)
				return -ENOMEM;
			k = find_index(set, whole.data);
			last.len = 0;
			shfs_buf_add(&last, name.data, len);
			if (last.failed)
				return -ENOMEM;
			if (k < set->n && !strcmp(set->files[k].path, whole.data))
				continue;
		}
		shfs_names_add(out, is_directory ? DT_DIR : DT_UNKNOWN, name.data);
	}
	return 0;
}

/* --- commands --- */

/* Finds the command with an id, or with one that begins so. 1; 0: there is none, or there
 * are several. */
static int find_command(struct shfs_browse *b, const char *id, size_t len,
                        struct shfs_command_row *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	char first[17], end[18];
	int64_t found;
	int r;

	if (len < 4 || len > 16 || strspn(id, "0123456789abcdef") < len)
		return 0;
	snprintf(first, sizeof(first), "%.*s", (int)len, id);
	snprintf(end, sizeof(end), "%sg", first);
	r = shfs_rows_open_str(b->index,
	                       "SELECT command_id FROM v_command WHERE id >= ?1"
	                       " AND id < ?2 ORDER BY id LIMIT 2",
	                       first, &rows);
	if (!r)
		r = shfs_rows_bind_str(rows, 2, end);
	if (!r)
		r = shfs_rows_next(rows);
	if (r <= 0)
		return r;
	found = shfs_rows_int(rows, 0);
	r = shfs_rows_next(rows);
	if (r)
		return MIN(r, 0);
	return shfs_command_load(b->index, found, out);
}

static int side_of(const char *name, size_t len)
{
	for (int i = 0; i < SIDES; i++)
		if (strlen(side_names[i]) == len && !memcmp(side_names[i], name, len))
			return i;
	return -ENOENT;
}

static int place_text_of(struct shfs_browse *b, const struct shfs_command_row *c,
                         struct shfs_place *out)
{
	size_t len = c->hidden ? 0 : c->text_len + 1;
	char *text = calloc(1, len + 1);

	if (text && len) {
		memcpy(text, c->text, c->text_len);
		text[c->text_len] = '\n';
	}
	return shfs_place_text(b, S_IFREG, text, len, c->begin_ns, out);
}

/* Splits what is behind the id: loads the set, or says that there is none (1). */
static int load_side(struct shfs_browse *b, const struct shfs_command_row *c,
                     const char *rest, const char **path)
{
	size_t len = strcspn(rest, "/");
	int side = side_of(rest, len);

	*path = rest + len + (rest[len] == '/');
	return side < 0 ? side : load_set(b, c, (enum side)side);
}

static int find(struct shfs_browse *b, const char *rest, struct shfs_place *out)
{
	_cleanup_command_ struct shfs_command_row c = { 0 };
	size_t len = strcspn(rest, "/");
	const char *path = rest + len + (rest[len] == '/');
	int r;

	if (!*rest) {
		shfs_place_directory(b, 0, out);
		return 0;
	}
	r = find_command(b, rest, len, &c);
	if (r <= 0)
		return r ? r : -ENOENT;
	if (!*path)
		shfs_place_directory(b, c.ended ? c.end_ns : c.begin_ns, out);
	else if (!strcmp(path, "text"))
		return place_text_of(b, &c, out);
	else
		r = load_side(b, &c, path, &path) ?: find_in_set(b, path, out);
	return MIN(r, 0);
}

static int list_commands(struct shfs_browse *b, struct shfs_names *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(b->index,
	                            "SELECT id FROM v_command ORDER BY begin_ns DESC"
	                            " LIMIT ?1",
	                            SHFS_INTS(LISTED_MAX), &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		shfs_names_add(out, DT_DIR, shfs_rows_text(rows, 0));
		r = 0;
	}
	return r;
}

static int list(struct shfs_browse *b, const char *rest, struct shfs_names *out)
{
	_cleanup_command_ struct shfs_command_row c = { 0 };
	size_t len = strcspn(rest, "/");
	int r;

	if (!*rest)
		return list_commands(b, out);
	r = find_command(b, rest, len, &c);
	if (r <= 0)
		return r ? r : -ENOENT;
	rest += len + (rest[len] == '/');
	if (*rest)
		return load_side(b, &c, rest, &rest) ?: list_set(b, rest, out);
	for (int i = 0; i < SIDES; i++)
		shfs_names_add(out, DT_DIR, side_names[i]);
	shfs_names_add(out, DT_REG, "text");
	return 0;
}

const struct shfs_view shfs_view_commands = {
	.name = "commands",
	.find = find,
	.list = list,
};
