/* SPDX-License-Identifier: MIT */
/*
 * at/TIME: the project as it was then (query/past/tree.h).
 *
 * The changes since that time are loaded once, and used for the next requests as long as
 * nothing that a request looks at has changed since. What is there now may change between
 * two requests: what has a later ctime than the moment up to which the changes are loaded
 * has them loaded anew.
 */
#include "browse/browse.h"

#include "common/clock.h"
#include "common/io.h"
#include "query/base/time.h"
#include "query/past/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#define TREES_MAX    4
#define DAYS_LISTED  14
#define WHOLE_MS     10000
#define TICK_NS      20000000 /* by which the kernel's times of files lag behind */
#define REST_TIMES   10       /* a tree is used for so many times what loading it took */
#define REST_MIN_NS  (SHFS_NSEC_PER_SEC / 4)
#define MEANINGS_MAX 32
#define MEANING_NS   (10 * SHFS_NSEC_PER_SEC)
#define TABLE_MAX    (16 << 20)

/* Used last first. */
struct shfs_at_tree {
	struct shfs_at_tree *next;
	struct shfs_tree tree;
	int64_t upto_ns; /* changes of files up to then are loaded (CLOCK_REALTIME) */
	int64_t rest_ns; /* not loaded anew before, for a directory (CLOCK_MONOTONIC) */
};

static void free_tree(struct shfs_at_tree *t)
{
	shfs_tree_close(&t->tree);
	free(t);
}

void shfs_at_drop(struct shfs_browse *b)
{
	while (b->at_trees) {
		struct shfs_at_tree *t = b->at_trees;

		b->at_trees = t->next;
		free_tree(t);
	}
}

/* --- times --- */

/* A name that means another moment later ("2 hours ago") keeps its meaning as long as it
 * is used, so that a program which walks through it finds one state. */
static struct {
	char *name;
	int64_t time_ns;
	int64_t used_ns; /* CLOCK_MONOTONIC */
} meanings[MEANINGS_MAX];

/* Does the text name the same moment whenever it is read? */
static bool is_fixed(const char *text)
{
	return *text == '@' || (strspn(text, "0123456789") == 4 && text[4] == '-');
}

/* The time that a name says: 0; -ENOENT: it is none, or not yet. */
static int parse_time(const char *name, int64_t *ns)
{
	if (shfs_time_parse(name, ns) || *ns > shfs_clock_ns(CLOCK_REALTIME))
		return -ENOENT;
	return 0;
}

static int time_of(const char *name, int64_t *ns)
{
	int64_t now_ns = shfs_clock_ns(CLOCK_MONOTONIC);
	size_t oldest = 0;
	int r;

	if (is_fixed(name))
		return parse_time(name, ns);
	for (size_t i = 0; i < MEANINGS_MAX; i++) {
		if (meanings[i].name && !strcmp(meanings[i].name, name) &&
		    now_ns - meanings[i].used_ns < MEANING_NS) {
			meanings[i].used_ns = now_ns;
			*ns = meanings[i].time_ns;
			return 0;
		}
		if (meanings[i].used_ns < meanings[oldest].used_ns)
			oldest = i;
	}
	r = parse_time(name, ns);
	if (r)
		return r;
	free(meanings[oldest].name);
	meanings[oldest].name = strdup(name);
	meanings[oldest].time_ns = *ns;
	meanings[oldest].used_ns = now_ns;
	return meanings[oldest].name ? 0 : -ENOMEM;
}

int shfs_at_time(const char *rest, int64_t *ns)
{
	_cleanup_free_ char *text = strndup(rest, strcspn(rest, "/"));

	return text ? *text ? time_of(text, ns) : -ENOENT : -ENOMEM;
}

/* --- trees --- */

/* Lets no request go to a file system of shfs-browse, which may be this process, or wait
 * for it. Nothing here asks the file system itself. */
static int enter_mount(int fd)
{
	static uint64_t entered;
	_cleanup_buf_ struct shfs_buf table = { 0 };
	struct statx stx;
	char id[32];
	const char *line;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &stx))
		return -errno;
	if (stx.stx_mnt_id == entered)
		return 0;
	snprintf(id, sizeof(id), "\n%" PRIu64 " ", (uint64_t)stx.stx_mnt_id);
	shfs_buf_char(&table, '\n');
	if (shfs_read_file_at(AT_FDCWD, "/proc/self/mountinfo", TABLE_MAX, &table))
		return -EIO;
	line = strstr(table.data, id);
	if (line) {
		_cleanup_free_ char *one = strndup(line + 1, strcspn(line + 1, "\n"));

		if (!one)
			return -ENOMEM;
		if (strstr(one, " - fuse." SHFS_BROWSE_SUBTYPE " "))
			return -EXDEV;
	}
	entered = stx.stx_mnt_id;
	return 0;
}

/* Makes the tree of a time the first, if it is there. */
static bool find_kept(struct shfs_browse *b, int64_t time_ns)
{
	for (struct shfs_at_tree **at = &b->at_trees; *at; at = &(*at)->next) {
		struct shfs_at_tree *t = *at;

		if (t->tree.time_ns != time_ns)
			continue;
		*at = t->next;
		t->next = b->at_trees;
		b->at_trees = t;
		return true;
	}
	return false;
}

static void limit_trees(struct shfs_browse *b)
{
	struct shfs_at_tree *t = b->at_trees, *next;

	for (unsigned n = 1; t && n < TREES_MAX; n++)
		t = t->next;
	if (!t)
		return;
	for (next = TAKE_PTR(t->next); (t = next);) {
		next = t->next;
		free_tree(t);
	}
}

/* Loads the tree of a time, with all that has been done until now. It is the first
 * then. */
static int load_tree(struct shfs_browse *b, int64_t time_ns)
{
	int64_t begin_ns = shfs_clock_ns(CLOCK_MONOTONIC), end_ns;
	struct shfs_at_tree *t;
	int r = shfs_refresher_ask(&b->refresher, true, WHOLE_MS);

	/* without the process that takes it in, what is in the index has to do */
	if (r && r != -EPIPE)
		return r == -ETIMEDOUT ? -EAGAIN : r;
	r = shfs_browse_look(b);
	if (r)
		return r;
	if (find_kept(b, time_ns)) {
		t = b->at_trees;
		b->at_trees = t->next;
		free_tree(t);
	}
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->tree.enter = enter_mount;
	r = shfs_tree_open(&t->tree, b->index, b->root, -1, time_ns);
	if (r) {
		free(t);
		return r;
	}
	end_ns = shfs_clock_ns(CLOCK_MONOTONIC);
	t->upto_ns = b->refresher.fresh_ns ?: INT64_MAX;
	t->rest_ns = end_ns + MAX(REST_TIMES * (end_ns - begin_ns), REST_MIN_NS);
	t->next = b->at_trees;
	b->at_trees = t;
	limit_trees(b);
	return 0;
}

/* Has it changed since the changes were loaded? */
static bool is_newer(const struct shfs_at_tree *t, const struct shfs_tree_node *node)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (!node->now || t->upto_ns == INT64_MAX)
		return false;
	if (shfs_tree_open_now(&t->tree, node, O_PATH, &fd) || fstat(fd, &st))
		return true;
	return shfs_timespec_ns(st.st_ctim) > t->upto_ns - TICK_NS;
}

/* Goes down from the root of the project: names is cut. -ESTALE: the changes have to be
 * loaded anew. */
static int walk_down(struct shfs_at_tree *t, char *names, bool sure,
                     struct shfs_tree_node *out)
{
	bool rests = shfs_clock_ns(CLOCK_MONOTONIC) < t->rest_ns;
	_cleanup_tree_node_ struct shfs_tree_node dir = { 0 };
	char *name;
	int r = shfs_tree_find(&t->tree, t->tree.root, &dir);

	while (!r && (name = strsep(&names, "/")) && *name) {
		struct shfs_tree_node node = { 0 };

		r = shfs_tree_lookup(&t->tree, &dir, name, &node);
		if (r == -ENOENT && !sure && is_newer(t, &dir))
			r = -ESTALE;
		if (r == -EXDEV && names)
			r = -ENOENT;
		if (!r && names && !sure && !rests && !node.file && is_newer(t, &node))
			r = -ESTALE;
		if (r) {
			shfs_tree_node_clear(&node);
			break;
		}
		shfs_tree_node_clear(&dir);
		dir = node;
	}
	if (!r && !sure && is_newer(t, &dir) &&
	    !(dir.file && dir.file->changed & SHFS_PAST_CONTENT))
		r = -ESTALE;
	if (r)
		return r;
	*out = dir;
	dir = (struct shfs_tree_node){ 0 };
	return 0;
}

/* Finds what lay at TIME/PATH, in the first of the trees. -ENOENT: also where PATH is
 * empty, and there was no such directory. */
static int find_node(struct shfs_browse *b, const char *rest, struct shfs_tree_node *out)
{
	int64_t time_ns;
	int r = shfs_at_time(rest, &time_ns);
	bool sure = false;

	if (r)
		return r;
	rest += strcspn(rest, "/");
	rest += *rest == '/';
	if (!find_kept(b, time_ns)) {
		r = load_tree(b, time_ns);
		sure = true;
	}
	for (; !r; sure = true) {
		_cleanup_free_ char *names = strdup(rest);

		r = names ? walk_down(b->at_trees, names, sure, out) : -ENOMEM;
		if (r != -ESTALE)
			return r;
		r = load_tree(b, time_ns);
	}
	return r;
}

/* --- the view --- */

static int place_content(struct shfs_browse *b, const struct shfs_tree_node *node,
                         struct shfs_place *out)
{
	_cleanup_tree_content_ struct shfs_tree_content c = { 0 };
	const struct stat *st = &out->st;
	int r = shfs_tree_content(&b->at_trees->tree, node, &c);

	if (r)
		return r;
	out->version = c.version;
	c.version.path = NULL;
	switch (c.where) {
	case SHFS_TREE_NOW:
		/* what is in the store cannot change while it is read */
		if (c.version.flags & SHFS_CONTENT_OBJECT &&
		    c.version.size == (uint64_t)st->st_size &&
		    c.version.mtime_ns == shfs_timespec_ns(st->st_mtim))
			shfs_place_archived(out);
		else
			out->where = SHFS_PLACE_NOW;
		break;
	case SHFS_TREE_OBJECT:
		shfs_place_archived(out);
		break;
	case SHFS_TREE_EMPTY:
		out->where = SHFS_PLACE_TEXT;
		break;
	default:
		out->where = SHFS_PLACE_NOWHERE;
		out->error = -ENODATA;
		out->why = c.why;
	}
	return 0;
}

static int place_node(struct shfs_browse *b, const struct shfs_tree_node *node,
                      struct shfs_place *out)
{
	_cleanup_tree_status_ struct shfs_tree_status status = { 0 };
	int r = shfs_tree_status(&b->at_trees->tree, node, &status);

	if (r)
		return r;
	out->st = status.st;
	if (node->file) { /* of a file with several names the same for each */
		out->st.st_ino = node->file->ino ?: out->st.st_ino;
		out->st.st_nlink = MAX(out->st.st_nlink, (nlink_t)node->file->n_then);
	}
	if (!(out->st.st_mode & S_IFMT))
		out->st.st_mode |= S_IFREG;
	if (status.unknown & SHFS_PAST_OWNER) {
		out->st.st_uid = b->uid;
		out->st.st_gid = b->gid;
	}
	if (S_ISREG(out->st.st_mode))
		return place_content(b, node, out);
	if (!S_ISLNK(out->st.st_mode))
		return 0;
	out->where = status.text ? SHFS_PLACE_TEXT : SHFS_PLACE_NOWHERE;
	out->error = -ENODATA;
	out->why = "what it said is not recorded";
	out->text = TAKE_PTR(status.text);
	out->text_len = out->text ? strlen(out->text) : 0;
	return 0;
}

static int find(struct shfs_browse *b, const char *rest, struct shfs_place *out)
{
	_cleanup_tree_node_ struct shfs_tree_node node = { 0 };
	int r;

	if (!*rest) {
		shfs_place_directory(b, 0, out);
		return 0;
	}
	r = find_node(b, rest, &node);
	if (!r)
		r = place_node(b, &node, out);
	if (r != -EXDEV)
		return r;
	shfs_place_clear(out);
	shfs_place_directory(b, 0, out); /* what it covers is not seen */
	return 0;
}

/* Lists the latest days on which commands began. */
static int list_days(struct shfs_browse *b, struct shfs_names *out)
{
	int64_t before_ns = INT64_MAX;
	int r = 1;

	for (int i = 0; i < DAYS_LISTED && r > 0; i++) {
		_cleanup_rows_ struct shfs_rows *rows = NULL;
		char name[16];
		struct tm tm;
		time_t s;

		r = shfs_rows_open_ints(b->index,
		                        "SELECT begin_ns FROM v_command WHERE begin_ns <"
		                        " ?1 ORDER BY begin_ns DESC LIMIT 1",
		                        SHFS_INTS(before_ns), &rows);
		if (!r)
			r = shfs_rows_next(rows);
		if (r <= 0)
			break;
		s = shfs_ns_timespec(shfs_rows_int(rows, 0)).tv_sec;
		if (!localtime_r(&s, &tm) ||
		    !strftime(name, sizeof(name), "%Y-%m-%d", &tm) ||
		    shfs_time_parse(name, &before_ns))
			break;
		shfs_names_add(out, DT_DIR, name);
	}
	return MIN(r, 0);
}

static int add_node(const char *name, struct shfs_tree_node *node, void *arg)
{
	shfs_names_add(arg, DT_UNKNOWN, name);
	return 0;
}

static int list(struct shfs_browse *b, const char *rest, struct shfs_names *out)
{
	_cleanup_tree_node_ struct shfs_tree_node node = { 0 };
	int r;

	if (!*rest)
		return list_days(b, out);
	r = find_node(b, rest, &node);
	if (!r)
		r = shfs_tree_list(&b->at_trees->tree, &node, add_node, out);
	return r == -EXDEV ? 0 : r;
}

static int open_now(struct shfs_browse *b, const char *rest, int *fd)
{
	_cleanup_tree_node_ struct shfs_tree_node node = { 0 };
	int r = find_node(b, rest, &node);

	return r ? r
	         : shfs_tree_open_now(&b->at_trees->tree, &node, O_RDONLY | O_NONBLOCK,
	                              fd);
}

static int list_xattrs(struct shfs_browse *b, const char *rest, shfs_xattr_fn fn,
                       void *arg)
{
	_cleanup_tree_node_ struct shfs_tree_node node = { 0 };
	int r;

	if (!*rest)
		return 0;
	r = find_node(b, rest, &node);
	if (!r)
		r = shfs_tree_xattrs(&b->at_trees->tree, &node, fn, arg);
	return r == -EXDEV ? 0 : r;
}

const struct shfs_view shfs_view_at = {
	.name = "at",
	.find = find,
	.list = list,
	.open_now = open_now,
	.xattrs = list_xattrs,
};
