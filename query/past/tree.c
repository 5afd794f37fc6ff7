/* SPDX-License-Identifier: MIT */
#include "query/past/tree.h"

#include "common/clock.h"
#include "common/io.h"
#include "common/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#define NOT_RECORDED "what it held is not recorded"

/* A file by the number that it has now. */
struct shfs_tree_link {
	uint64_t key[2]; /* dev, ino */
	struct shfs_past_file *file;
	UT_hash_handle hh;
};

/* --- the changes --- */

static int compare_names(const struct shfs_past_file *a, const char *name,
                         const struct shfs_past_entry *e)
{
	if (a != e->directory)
		return (uintptr_t)a < (uintptr_t)e->directory ? -1 : 1;
	return strcmp(name, e->name);
}

static int compare_entries(const void *a, const void *b)
{
	const struct shfs_past_entry *x = *(struct shfs_past_entry *const *)a;

	return compare_names(x->directory, x->name, *(struct shfs_past_entry *const *)b);
}

static int sort_entries(struct shfs_tree *t)
{
	size_t n = 0;

	for (struct shfs_past_entry *e = t->past.entries; e; e = e->next)
		n++;
	t->entries = calloc(n + 1, sizeof(*t->entries));
	if (!t->entries)
		return -ENOMEM;
	for (struct shfs_past_entry *e = t->past.entries; e; e = e->next)
		t->entries[t->n++] = e;
	qsort(t->entries, n, sizeof(*t->entries), compare_entries);
	return 0;
}

/* Finds when a recording first covered root. */
static int find_first_time(struct shfs_tree *t)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(t->index,
	                       "SELECT root, begin_ns FROM v_producer ORDER BY begin_ns",
	                       &rows);

	while (!r && !t->first_ns && (r = shfs_rows_next(rows)) > 0) {
		r = 0;
		if (shfs_path_is_below(t->root, shfs_rows_text(rows, 0)))
			t->first_ns = shfs_rows_int(rows, 1);
	}
	return MIN(r, 0);
}

/* --- names of one file --- */

static int look_at(const struct shfs_tree *t, const char *path, struct stat *st);

static struct shfs_tree_link *find_link(struct shfs_tree_link *links, uint64_t dev,
                                        uint64_t ino)
{
	uint64_t key[2] = { dev, ino };
	struct shfs_tree_link *found = NULL;

	HASH_FIND(hh, links, key, sizeof(key), found);
	return found;
}

static int add_link(struct shfs_tree *t, struct shfs_tree_link **links, uint64_t dev,
                    uint64_t ino, struct shfs_past_file *f)
{
	struct shfs_tree_link *link = find_link(*links, dev, ino), *head = *links;

	if (link)
		return shfs_past_unite(&t->past, link->file, f);
	link = calloc(1, sizeof(*link));
	if (!link)
		return -ENOMEM;
	link->key[0] = dev;
	link->key[1] = ino;
	link->file = f;
	HASH_ADD(hh, head, key, sizeof(link->key), link);
	if (!link->hh.tbl) {
		free(link);
		return -ENOMEM;
	}
	*links = head;
	return 0;
}

/* Had it a name besides those that it lost, as far as its count says? The number of the
 * lower file is that which a mount shows. */
static bool has_kept_name(const struct shfs_past_file *f)
{
	return !f->same && !f->left && f->ino && S_ISREG(f->mode) && f->links > f->n_then;
}

static int add_changed_link(struct shfs_tree *t, struct shfs_past_file *f)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };
	struct shfs_tree_link *kept;
	struct stat st;
	int r;

	if (f->same || !f->left || S_ISDIR(f->mode) ||
	    !shfs_past_path_left(f->left, &path))
		return 0;
	if (path.failed)
		return -ENOMEM;
	r = look_at(t, path.data, &st);
	if (r <= 0 || !S_ISREG(st.st_mode))
		return MIN(r, 0);
	kept = find_link(t->kept, 0, st.st_ino);
	r = kept && !kept->file->same ? shfs_past_unite(&t->past, f, kept->file) : 0;
	if (!r && st.st_nlink > 1)
		r = add_link(t, &t->links, st.st_dev, st.st_ino, f);
	return r;
}

/* A file that was changed by one name has changed at its others. */
static int find_links(struct shfs_tree *t)
{
	int r = 0;

	for (struct shfs_past_file *f = t->past.files; f && !r; f = f->next)
		if (has_kept_name(f))
			r = add_link(t, &t->kept, 0, f->ino, f);
	for (struct shfs_past_file *f = t->past.files; f && !r; f = f->next)
		r = add_changed_link(t, f);
	return MIN(r, 0);
}

/* The file at a name that nothing is recorded of. */
static struct shfs_past_file *file_by_number(const struct shfs_tree *t,
                                             const struct stat *st)
{
	struct shfs_tree_link *link = find_link(t->links, st->st_dev, st->st_ino);
	struct shfs_past_file *f;

	link = link ?: find_link(t->kept, 0, st->st_ino);
	f = link ? shfs_past_real(link->file) : NULL;
	/* the number may have been given to another file while nothing recorded */
	if (f && !f->left && !(f->changed & (SHFS_PAST_CONTENT | SHFS_PAST_TIME)) &&
	    (!(f->known & SHFS_PAST_TIME) || !S_ISREG(st->st_mode) ||
	     f->mtime_ns != shfs_timespec_ns(st->st_mtim)))
		return NULL;
	return f;
}

static void free_links(struct shfs_tree_link **links)
{
	struct shfs_tree_link *link, *next, *head = *links;

	HASH_ITER (hh, head, link, next) {
		HASH_DEL(head, link);
		free(link);
	}
	*links = head;
}

int shfs_tree_open(struct shfs_tree *out, struct shfs_index *index, const char *path,
                   int now_fd, int64_t time_ns)
{
	_cleanup_effects_ struct shfs_effects effects = { 0 };
	struct shfs_tree t = { .index = index,
		               .time_ns = time_ns,
		               .root = strdup(path),
		               .now_fd = now_fd,
		               .enter = out->enter,
		               .past.since_ns = time_ns };
	int r = t.root ? shfs_effects_add_tree(&effects, index, path, time_ns) : -ENOMEM;

	if (!r)
		r = shfs_past_walk(&t.past, &effects);
	if (!r)
		r = sort_entries(&t);
	if (!r)
		r = find_first_time(&t);
	if (!r)
		r = find_links(&t);
	if (r)
		shfs_tree_close(&t);
	else
		*out = t;
	return r;
}

void shfs_tree_close(struct shfs_tree *t)
{
	free_links(&t->links);
	free_links(&t->kept);
	shfs_past_clear(&t->past);
	free(t->entries);
	free(t->root);
	*t = (struct shfs_tree){ .now_fd = -1 };
}

/* --- what is there now --- */

/* Opens name by name, as RESOLVE_NO_SYMLINKS does. */
static int open_by_names(const struct shfs_tree *t, int dirfd, const char *path,
                         int flags, int *fd)
{
	_cleanup_close_ int at =
		openat(dirfd, *path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_free_ char *names = strdup(path);
	char *rest = names, *name, self[40];
	int r = at < 0 ? -errno : names ? 0 : -ENOMEM;

	while (!r && (name = strsep(&rest, "/"))) {
		int next;

		if (!*name || !strcmp(name, "."))
			continue;
		next = openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			r = -errno;
		shfs_closep(&at);
		at = next;
		if (!r && t->enter)
			r = t->enter(at);
	}
	if (!r && !(flags & O_PATH)) {
		/* the name may be another file's by now: this one is opened */
		snprintf(self, sizeof(self), "/proc/self/fd/%d", at);
		*fd = open(self, flags | O_CLOEXEC);
		return *fd < 0 ? -errno : 0;
	}
	if (!r)
		*fd = TAKE_FD(at);
	return r;
}

static int open_path(const struct shfs_tree *t, const char *path, int flags, int *fd)
{
	struct open_how how = { .flags = (uint64_t)flags | O_NOFOLLOW | O_CLOEXEC,
		                .resolve = RESOLVE_NO_SYMLINKS };
	const char *below = t->now_fd < 0 ? NULL : shfs_path_relative(path, t->root);
	int dirfd = below ? t->now_fd : AT_FDCWD;

	if (below)
		path = *below ? below : ".";
	if (t->enter)
		return open_by_names(t, dirfd, path, flags, fd);
	*fd = (int)syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
	/* some containers forbid it, with either error */
	if (*fd < 0 && (errno == ENOSYS || errno == EPERM))
		return open_by_names(t, dirfd, path, flags, fd);
	return *fd < 0 ? -errno : 0;
}

int shfs_tree_open_now(const struct shfs_tree *t, const struct shfs_tree_node *node,
                       int flags, int *fd)
{
	return node->now ? open_path(t, node->now, flags, fd) : -ENOENT;
}

/* 1: there is something, 0, or a negative errno. */
static int look_at(const struct shfs_tree *t, const char *path, struct stat *st)
{
	_cleanup_close_ int fd = -1;
	int r = open_path(t, path, O_PATH, &fd);

	if (!r && fstat(fd, st))
		r = -errno;
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP ? 0 : r ? r : 1;
}

/* --- names --- */

void shfs_tree_node_clear(struct shfs_tree_node *node)
{
	free(node->path);
	free(node->now);
	*node = (struct shfs_tree_node){ 0 };
}

/* The index of the first entry of a directory that is not before name. */
static size_t find_entry(const struct shfs_tree *t, const struct shfs_past_file *dir,
                         const char *name)
{
	size_t low = 0, high = t->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare_names(dir, name, t->entries[middle]) > 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct shfs_past_entry *
entry_of(const struct shfs_tree *t, const struct shfs_past_file *dir, const char *name)
{
	size_t i = dir ? find_entry(t, dir, name) : t->n;

	return i < t->n && !compare_names(dir, name, t->entries[i]) ? t->entries[i]
	                                                            : NULL;
}

/* A node for what an entry held. */
static int take_entry(const struct shfs_tree_node *dir, const struct shfs_past_entry *e,
                      struct shfs_tree_node *out)
{
	_cleanup_tree_node_ struct shfs_tree_node node = { shfs_past_real(e->then) };
	struct shfs_buf now = { 0 };

	node.path = shfs_path_join(dir->path, e->name);
	if (node.file->left && shfs_past_path_left(node.file->left, &now)) {
		node.now = shfs_buf_take(&now);
		if (!node.now)
			return -ENOMEM;
	}
	shfs_buf_free(&now);
	if (!node.path)
		return -ENOMEM;
	*out = node;
	node = (struct shfs_tree_node){ 0 };
	return 0;
}

/* A node for what nothing is recorded of, unless by another name. */
static int take_now(const struct shfs_tree *t, const struct shfs_tree_node *dir,
                    const char *name, struct shfs_tree_node *out)
{
	_cleanup_tree_node_ struct shfs_tree_node node = { 0 };
	struct stat st;
	int r;

	node.path = shfs_path_join(dir->path, name);
	node.now = shfs_path_join(dir->now, name);
	if (!node.path || !node.now)
		return -ENOMEM;
	if (t->links || t->kept) {
		r = look_at(t, node.now, &st);
		node.file = r > 0 ? file_by_number(t, &st) : NULL;
	}
	*out = node;
	node = (struct shfs_tree_node){ 0 };
	return 0;
}

int shfs_tree_lookup(const struct shfs_tree *t, const struct shfs_tree_node *dir,
                     const char *name, struct shfs_tree_node *out)
{
	const struct shfs_past_entry *e = entry_of(t, dir->file, name);
	struct shfs_tree_node node = { 0 };
	struct stat st;
	int r;

	if (e)
		return e->then ? take_entry(dir, e, out) : -ENOENT;
	if (!dir->now)
		return -ENOENT;
	r = take_now(t, dir, name, &node);
	if (r)
		return r;
	r = look_at(t, node.now, &st);
	if (r > 0)
		*out = node;
	else
		shfs_tree_node_clear(&node);
	return r > 0 ? 0 : r ? r : -ENOENT;
}

int shfs_tree_find(const struct shfs_tree *t, const char *path,
                   struct shfs_tree_node *out)
{
	_cleanup_tree_node_ struct shfs_tree_node dir = { t->past.root, strdup("/"),
		                                          strdup("/") };
	_cleanup_free_ char *names = strdup(path);
	char *rest = names, *name;
	int r = 0;

	if (!dir.path || !dir.now || !names)
		return -ENOMEM;
	while (!r && (name = strsep(&rest, "/"))) {
		struct shfs_tree_node node = { 0 };

		if (!*name)
			continue;
		r = shfs_tree_lookup(t, &dir, name, &node);
		if (r)
			break;
		shfs_tree_node_clear(&dir);
		dir = node;
	}
	if (r)
		return r;
	*out = dir;
	dir = (struct shfs_tree_node){ 0 };
	return 0;
}

/* --- lists --- */

static int list_now(const struct shfs_tree *t, const struct shfs_tree_node *dir,
                    shfs_tree_fn fn, void *arg)
{
	_cleanup_close_ int fd = -1;
	struct dirent *de;
	DIR *d;
	int r = shfs_tree_open_now(t, dir, O_RDONLY | O_DIRECTORY, &fd), error = 0;

	if (r)
		return r;
	d = fdopendir(fd);
	if (!d)
		return -errno;
	fd = -1;
	while (!r && (de = shfs_readdir(d, &error))) {
		_cleanup_tree_node_ struct shfs_tree_node node = { 0 };

		if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, "..") ||
		    entry_of(t, dir->file, de->d_name))
			continue;
		r = take_now(t, dir, de->d_name, &node);
		if (!r)
			r = fn(de->d_name, &node, arg);
	}
	closedir(d);
	return r ? r : error;
}

static int list_entries(const struct shfs_tree *t, const struct shfs_tree_node *dir,
                        shfs_tree_fn fn, void *arg)
{
	int r = 0;

	for (size_t i = find_entry(t, dir->file, "");
	     !r && i < t->n && t->entries[i]->directory == dir->file; i++) {
		_cleanup_tree_node_ struct shfs_tree_node node = { 0 };

		if (!t->entries[i]->then)
			continue;
		r = take_entry(dir, t->entries[i], &node);
		if (!r)
			r = fn(t->entries[i]->name, &node, arg);
	}
	return r;
}

int shfs_tree_list(const struct shfs_tree *t, const struct shfs_tree_node *dir,
                   shfs_tree_fn fn, void *arg)
{
	int r = dir->now ? list_now(t, dir, fn, arg) : 0;

	return r || !dir->file ? r : list_entries(t, dir, fn, arg);
}

int shfs_tree_list_changed(const struct shfs_tree *t, const struct shfs_tree_node *dir,
                           shfs_tree_name_fn fn, void *arg)
{
	int r = 0;

	for (size_t i = dir->file ? find_entry(t, dir->file, "") : t->n;
	     !r && i < t->n && t->entries[i]->directory == dir->file; i++)
		r = fn(t->entries[i]->name, arg);
	return r;
}

/* --- attributes --- */

void shfs_tree_status_clear(struct shfs_tree_status *status)
{
	free(status->text);
	*status = (struct shfs_tree_status){ 0 };
}

static int read_text(int fd, struct shfs_tree_status *out)
{
	char text[PATH_MAX];
	ssize_t n = readlinkat(fd, "", text, sizeof(text));

	if (n < 0)
		return -errno;
	out->text = strndup(text, n);
	return out->text ? 0 : -ENOMEM;
}

static int look_now(const struct shfs_tree *t, const struct shfs_tree_node *node,
                    struct shfs_tree_status *out)
{
	_cleanup_close_ int fd = -1;
	int r = shfs_tree_open_now(t, node, O_PATH, &fd);

	if (!r && fstat(fd, &out->st))
		r = -errno;
	return r || !S_ISLNK(out->st.st_mode) ? r : read_text(fd, out);
}

/* Is not this file there, but what took its name while nothing recorded? */
static bool is_other_type(const struct shfs_past_file *f, const struct stat *now)
{
	uint32_t type = f->left_text ? S_IFLNK : f->left_n ? S_IFREG : f->mode & S_IFMT;

	return type && type != (now->st_mode & S_IFMT);
}

static void take_known(const struct shfs_past_file *f, uint32_t take, struct stat *st)
{
	if (take & SHFS_PAST_MODE)
		st->st_mode = (st->st_mode & S_IFMT) | (f->mode & 07777);
	if (take & SHFS_PAST_OWNER) {
		st->st_uid = f->uid;
		st->st_gid = f->gid;
	}
	if (take & SHFS_PAST_TIME)
		st->st_mtim = shfs_ns_timespec(f->mtime_ns);
}

/* What a version tells of a file of which the journal has no more. */
static void take_version(const struct shfs_version *v, uint32_t unknown, struct stat *st)
{
	if (!v->version_id)
		return;
	if (unknown & SHFS_PAST_MODE)
		st->st_mode = (st->st_mode & S_IFMT) | (v->mode & 07777);
	if (unknown & SHFS_PAST_TIME)
		st->st_mtim = shfs_ns_timespec(v->mtime_ns);
}

/* Of one that is gone: all that is known. */
static int take_gone(const struct shfs_past_file *f, struct shfs_tree_status *out)
{
	struct stat *st = &out->st;

	*st = (struct stat){ .st_mode = f->mode & S_IFMT,
		             .st_dev = f->dev,
		             .st_ino = f->ino,
		             .st_nlink = MAX(f->n_then, (size_t)1),
		             .st_rdev = f->rdev };
	if (!st->st_mode && f->n)
		st->st_mode = S_IFREG;
	take_known(f, f->known, st);
	out->unknown = (SHFS_PAST_CONTENT | SHFS_PAST_MODE | SHFS_PAST_OWNER |
	                SHFS_PAST_TIME | SHFS_PAST_XATTRS) &
	               ~f->known;
	if (!f->text)
		return 0;
	free(out->text);
	out->text = strdup(f->text);
	return out->text ? 0 : -ENOMEM;
}

/* Is it there now, with the content that it had, as far as that is recorded? */
static bool is_unchanged(const struct shfs_tree_node *node)
{
	return node->now && !(node->file && node->file->changed & SHFS_PAST_CONTENT);
}

static int take_content(const struct shfs_tree *t, const struct shfs_tree_node *node,
                        struct shfs_tree_status *out)
{
	_cleanup_tree_content_ struct shfs_tree_content content = { 0 };
	int r = shfs_tree_content(t, node, &content);

	if (r)
		return r;
	out->unknown &= ~(uint32_t)SHFS_PAST_CONTENT;
	if (content.where != SHFS_TREE_NOW) {
		out->st.st_size =
			content.version.version_id ? (off_t)content.version.size : 0;
		if (is_unchanged(node))
			out->unknown |= SHFS_PAST_TIME;
	}
	if (content.where == SHFS_TREE_NOT_RECORDED)
		out->unknown |= SHFS_PAST_CONTENT;
	take_version(&content.version, out->unknown, &out->st);
	out->st.st_blocks = (out->st.st_size + 511) / 512;
	return 0;
}

int shfs_tree_status(const struct shfs_tree *t, const struct shfs_tree_node *node,
                     struct shfs_tree_status *out)
{
	_cleanup_tree_status_ struct shfs_tree_status s = { 0 };
	const struct shfs_past_file *f = node->file;
	int r = node->now ? look_now(t, node, &s) : 0;

	if (r == -ENOENT && f)
		r = 0; /* it is gone unseen */
	if (r)
		return r;
	if (f && (!s.st.st_mode || is_other_type(f, &s.st))) {
		r = take_gone(f, &s);
	} else if (f) {
		take_known(f, f->changed & f->known, &s.st);
		s.unknown = f->changed & ~f->known & ~(uint32_t)SHFS_PAST_ENTRIES;
	}
	if (!r && S_ISREG(s.st.st_mode))
		r = take_content(t, node, &s);
	else
		s.unknown &= ~(uint32_t)SHFS_PAST_CONTENT;
	if (r)
		return r;
	if (S_ISLNK(s.st.st_mode) && s.text)
		s.st.st_size = (off_t)strlen(s.text);
	*out = s;
	s = (struct shfs_tree_status){ 0 };
	return 0;
}

static int list_xattrs_now(const struct shfs_tree *t, const struct shfs_tree_node *node,
                           shfs_tree_xattr_fn fn, void *arg)
{
	_cleanup_free_ char *names = malloc(XATTR_LIST_MAX), *value = NULL;
	_cleanup_close_ int fd = -1;
	char proc[40];
	ssize_t len, n;
	int r = shfs_tree_open_now(t, node, O_PATH, &fd);

	value = malloc(XATTR_SIZE_MAX);
	if (r || !names || !value)
		return r ? r : -ENOMEM;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	len = listxattr(proc, names, XATTR_LIST_MAX);
	if (len < 0)
		return errno == EOPNOTSUPP || errno == ELOOP ? 0 : -errno;
	for (const char *name = names; !r && name < names + len;
	     name += strlen(name) + 1) {
		if (node->file && shfs_past_find_xattr(node->file, name))
			continue;
		n = getxattr(proc, name, value, XATTR_SIZE_MAX);
		r = n < 0 ? errno == ENODATA ? 0 : -errno
		          : fn(name, value, (size_t)n, arg);
	}
	return r;
}

int shfs_tree_xattrs(const struct shfs_tree *t, const struct shfs_tree_node *node,
                     shfs_tree_xattr_fn fn, void *arg)
{
	const struct shfs_past_file *f = node->file;
	int r = 0;

	for (size_t i = 0; f && i < f->n_xattrs && !r; i++)
		if (f->xattrs[i].value)
			r = fn(f->xattrs[i].name, f->xattrs[i].value, f->xattrs[i].len,
			       arg);
	if (r || !node->now || (f && f->all_xattrs))
		return r;
	r = list_xattrs_now(t, node, fn, arg);
	return r == -ENOENT ? 0 : r;
}

/* --- contents --- */

/* The version that a path had then, by the times of its versions: clocks may jump, but
 * numbers rise. 1: *later: it has others since; 0: it had none. */
static int find_version(const struct shfs_tree *t, const char *path,
                        struct shfs_version *out, bool *later)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(t->index,
	                           "SELECT" SHFS_VERSION_COLUMNS
	                           "FROM v_version WHERE " SHFS_SQL_FILE(
					   "?1") "ORDER BY n",
	                           path, &rows);

	*later = false;
	while (!r && (r = shfs_rows_next(rows)) > 0) {
		struct shfs_version v = { 0 };

		r = shfs_version_from_row(rows, &v);
		if (r <= 0)
			return r ? r : -EIO;
		r = 0;
		*later = v.time_ns > t->time_ns;
		if (*later) {
			shfs_version_clear(&v);
			break;
		}
		shfs_version_clear(out);
		*out = v;
	}
	return r < 0 ? r : out->version_id != 0;
}

/* A version that was found there later may have come while nothing recorded: then the one
 * before it counts. */
static int load_version(const struct shfs_tree *t, int64_t file_id, int64_t n,
                        struct shfs_version *out)
{
	int r;

	for (;; n--) {
		shfs_version_clear(out);
		*out = (struct shfs_version){ 0 };
		r = shfs_version_load(t->index, file_id << 32 | n, out);
		if (r <= 0 || n == 1 || out->time_ns <= t->time_ns ||
		    strcmp(out->source, "found") != 0)
			return MIN(r, 0);
	}
}

static void judge_version(struct shfs_tree_content *c)
{
	const struct shfs_version *v = &c->version;

	if (!v->version_id) {
		c->where = SHFS_TREE_NOT_RECORDED;
		c->why = c->why ?: NOT_RECORDED;
	} else if (v->flags & SHFS_CONTENT_OBJECT) {
		c->where = SHFS_TREE_OBJECT;
	} else if (!v->size) {
		c->where = SHFS_TREE_EMPTY;
	} else {
		c->where = SHFS_TREE_NOT_KEPT;
		c->why = shfs_version_why_not_archived(v->flags) ?: "not archived";
	}
}

/* The time of a file before changes of its time that are recorded. */
static int64_t time_before(const struct shfs_past_file *f, const struct stat *now)
{
	if (!f || !(f->changed & SHFS_PAST_TIME))
		return shfs_timespec_ns(now->st_mtim);
	return f->known & SHFS_PAST_TIME ? f->mtime_ns : 0;
}

/* Of a file whose content was not changed by what is recorded: was it changed unseen, or
 * is it being written? */
static int judge_now(const struct shfs_tree *t, const struct shfs_tree_node *node,
                     struct shfs_tree_content *c)
{
	struct stat st = { 0 };
	bool later = false;
	int r = look_at(t, node->now, &st);

	if (r >= 0)
		r = find_version(t, node->path, &c->version, &later);
	if (r < 0)
		return r;
	c->where = SHFS_TREE_NOW;
	if (st.st_mode && (time_before(node->file, &st) <= t->time_ns ||
	                   shfs_timespec_ns(st.st_ctim) <= t->time_ns))
		return 0;
	if (c->version.version_id && !later && c->version.size == (uint64_t)st.st_size &&
	    c->version.mtime_ns == shfs_timespec_ns(st.st_mtim))
		return 0;
	c->why = "it was changed since, and that is not recorded";
	judge_version(c);
	return 0;
}

int shfs_tree_content(const struct shfs_tree *t, const struct shfs_tree_node *node,
                      struct shfs_tree_content *out)
{
	_cleanup_tree_content_ struct shfs_tree_content c = { 0 };
	const struct shfs_past_file *f = node->file;
	bool later;
	int r = 0;

	if (is_unchanged(node)) {
		r = judge_now(t, node, &c);
	} else {
		if (f && f->n)
			r = load_version(t, f->file_id, f->n, &c.version);
		if (!r && f && f->writing) {
			_cleanup_version_ struct shfs_version v = { 0 };

			/* it may have been captured meanwhile */
			r = find_version(t, node->path, &v, &later);
			if (r > 0 && v.n > c.version.n) {
				shfs_version_clear(&c.version);
				c.version = v;
				v = (struct shfs_version){ 0 };
			}
			c.why = "it was being written at that time";
		}
		r = MIN(r, 0);
		judge_version(&c);
	}
	if (r)
		return r;
	*out = c;
	c = (struct shfs_tree_content){ 0 };
	return 0;
}
