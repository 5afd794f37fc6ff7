/* SPDX-License-Identifier: MIT */
#include "browse/operations.h"

#include "common/debug.h"
#include "common/io.h"
#include "query/base/time.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <utlist.h>

#define TIMEOUT_S 1.0 /* for which the kernel need not ask again */
#define READ_MAX  (1u << 20)

/* How what is not kept is told: never listed, so that no copy of a file takes them
 * along. */
#define XATTR_CONTENT "user.shfs.content"
#define XATTR_VERSION "user.shfs.version"
#define XATTR_COMMAND "user.shfs.command"
#define XATTR_TIME    "user.shfs.time" /* of what is in at/ */

static struct shfs_browse *browse_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static struct shfs_node *node_of(fuse_req_t req, fuse_ino_t ino)
{
	return ino == FUSE_ROOT_ID ? browse_of(req)->nodes.root
	                           : (struct shfs_node *)(uintptr_t)ino;
}

/* The error for the program that asked. */
static int public_error(int r)
{
	switch (r) {
	case -ENOENT:
	case -ENODATA:
	case -ENOTDIR:
	case -EACCES:
	case -EPERM:
	case -ENOMEM:
	case -EAGAIN:
	case -ESTALE:
	case -ERANGE:
	case -ENAMETOOLONG:
	case -EREMOTE: /* the content is only on a remote */
		return -r;
	case -EBUSY:
		return EAGAIN;
	case -ELOOP: /* a link where there was a directory */
		return ENOENT;
	default:
		shfs_debug(QUERY, "EIO in place of %s", strerrordesc_np(-r));
		return EIO;
	}
}

static void reply_error(fuse_req_t req, int r)
{
	fuse_reply_err(req, r ? public_error(r) : 0);
}

/* The numbers of files that have several names are those of the files. */
static void set_ino(struct stat *st, uint64_t by_path)
{
	char key[24];

	if (!S_ISDIR(st->st_mode) && st->st_nlink > 1 && st->st_ino) {
		snprintf(key, sizeof(key), "%" PRIu64, (uint64_t)st->st_ino);
		st->st_ino = shfs_object_hash64(key, strlen(key));
	} else {
		st->st_ino = by_path;
		if (!S_ISDIR(st->st_mode))
			st->st_nlink = 1;
	}
	st->st_blksize = 4096;
}

/* --- names --- */

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct shfs_browse *b = browse_of(req);
	struct shfs_node *dir = node_of(req, parent), *node;
	_cleanup_free_ char *path = shfs_node_path(dir, name);
	_cleanup_place_ struct shfs_place place = { 0 };
	struct fuse_entry_param entry = { .attr_timeout = TIMEOUT_S,
		                          .entry_timeout = TIMEOUT_S };
	int r = strlen(name) > NAME_MAX ? -ENAMETOOLONG : path ? 0 : -ENOMEM;

	if (!r)
		r = shfs_browse_freshen(b);
	if (!r)
		r = shfs_browse_find(b, path, &place);
	if (!r)
		r = shfs_nodes_look(&b->nodes, dir, name, &node);
	if (r) {
		reply_error(req, r);
		return;
	}
	entry.ino = (uintptr_t)node;
	entry.attr = place.st;
	set_ino(&entry.attr, shfs_node_ino(node));
	if (fuse_reply_entry(req, &entry)) /* interrupted */
		shfs_nodes_forget(&b->nodes, node, 1);
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n)
{
	if (ino != FUSE_ROOT_ID)
		shfs_nodes_forget(&browse_of(req)->nodes, node_of(req, ino), n);
	fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *list)
{
	for (size_t i = 0; i < count; i++)
		if (list[i].ino != FUSE_ROOT_ID)
			shfs_nodes_forget(&browse_of(req)->nodes,
			                  node_of(req, list[i].ino), list[i].nlookup);
	fuse_reply_none(req);
}

static int find_place(fuse_req_t req, fuse_ino_t ino, struct shfs_place *out)
{
	_cleanup_free_ char *path = shfs_node_path(node_of(req, ino), NULL);
	int r = path ? shfs_browse_look(browse_of(req)) : -ENOMEM;

	return r ? r : shfs_browse_find(browse_of(req), path, out);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	_cleanup_place_ struct shfs_place place = { 0 };
	int r = find_place(req, ino, &place);

	if (r) {
		reply_error(req, r);
		return;
	}
	set_ino(&place.st, shfs_node_ino(node_of(req, ino)));
	fuse_reply_attr(req, &place.st, TIMEOUT_S);
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	_cleanup_place_ struct shfs_place place = { 0 };
	int r = find_place(req, ino, &place);

	if (!r && !S_ISLNK(place.st.st_mode))
		r = -ESTALE;
	if (!r && place.where == SHFS_PLACE_NOWHERE)
		r = place.error;
	if (r)
		reply_error(req, r);
	else
		fuse_reply_readlink(req, place.text);
}

/* --- directories --- */

/* An open directory. */
struct listing {
	struct listing *prev, *next;
	struct shfs_names names;
};

static struct listing *listings;

static void free_listing(struct listing *listing)
{
	DL_DELETE(listings, listing);
	shfs_buf_free(&listing->names.list);
	free(listing);
}

static void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct listing *listing = calloc(1, sizeof(*listing));
	_cleanup_free_ char *path = shfs_node_path(node_of(req, ino), NULL);
	int r = path ? shfs_browse_freshen(browse_of(req)) : -ENOMEM;

	if (!listing) {
		reply_error(req, -ENOMEM);
		return;
	}
	DL_APPEND(listings, listing);
	if (!r)
		r = shfs_browse_list(browse_of(req), path, &listing->names);
	fi->fh = (uintptr_t)listing;
	if (!r && !fuse_reply_open(req, fi))
		return;
	if (r)
		reply_error(req, r);
	free_listing(listing);
}

static void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	free_listing((void *)(uintptr_t)fi->fh);
	fuse_reply_err(req, 0);
}

/* Offsets: 1 and 2 behind "." and "..", then two more than those in the list. */
static void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                       struct fuse_file_info *fi)
{
	const struct shfs_names *names =
		&((const struct listing *)(uintptr_t)fi->fh)->names;
	const struct shfs_node *node = node_of(req, ino);
	uint64_t directory = shfs_node_ino(node);
	_cleanup_free_ char *out = malloc(size);
	size_t used = 0, at = offset > 2 ? (size_t)offset - 2 : 0;

	if (!out) {
		reply_error(req, -ENOMEM);
		return;
	}
	for (; offset < 2; offset++) {
		uint64_t parent =
			node->parent ? shfs_node_ino(node->parent) : SHFS_NODE_ROOT_INO;
		struct stat st = { .st_mode = S_IFDIR,
			           .st_ino = offset ? parent : directory };

		used += fuse_add_direntry(req, out + used, size - used,
		                          offset ? ".." : ".", &st, offset + 1);
	}
	while (at < names->list.len) {
		const char *entry = names->list.data + at;
		size_t len = strlen(entry + 1) + 2, room;
		struct stat st = { .st_mode = DTTOIF((unsigned char)*entry),
			           .st_ino = shfs_node_ino_in(directory, entry + 1) };

		room = fuse_add_direntry(req, out + used, size - used, entry + 1, &st,
		                         (off_t)(at + len + 2));
		if (room > size - used)
			break;
		used += room;
		at += len;
	}
	fuse_reply_buf(req, out, used);
}

/* --- files --- */

struct handle {
	struct handle *prev, *next;
	char *path;
	struct shfs_place place;
	uint64_t generation; /* when the place was found */
	int fd;              /* of the project's file as it is now; or -1 */
	struct stat now;     /* of that, when it was opened */
};

static struct handle *handles;

static void free_handle(struct handle *h)
{
	DL_DELETE(handles, h);
	shfs_place_clear(&h->place);
	shfs_closep(&h->fd);
	free(h->path);
	free(h);
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       shfs_timespec_ns(a->st_mtim) == shfs_timespec_ns(b->st_mtim) &&
	       shfs_timespec_ns(a->st_ctim) == shfs_timespec_ns(b->st_ctim);
}

/* Finds where the bytes of the handle's path are. */
static int settle_handle(struct shfs_browse *b, struct handle *h)
{
	struct shfs_place *p = &h->place;
	int r;

	shfs_place_clear(p);
	shfs_closep(&h->fd);
	h->fd = -1;
	r = shfs_browse_find(b, h->path, p);
	h->generation = b->generation;
	if (r || S_ISLNK(p->st.st_mode))
		return r ? r : -ESTALE;
	if (p->where == SHFS_PLACE_NOWHERE)
		return p->error;
	if (p->where == SHFS_PLACE_OBJECT)
		return shfs_contents_check(&b->contents, &p->object);
	if (p->where != SHFS_PLACE_NOW)
		return 0;
	r = shfs_browse_open_now(b, h->path, &h->fd);
	if (!r && fstat(h->fd, &h->now))
		r = -errno;
	if (!r && (!S_ISREG(h->now.st_mode) || h->now.st_size != p->st.st_size))
		r = -ESTALE;
	return r;
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct shfs_browse *b = browse_of(req);
	struct handle *h = calloc(1, sizeof(*h));
	int r = shfs_browse_freshen(b);

	if (!h) {
		reply_error(req, -ENOMEM);
		return;
	}
	h->fd = -1;
	h->path = shfs_node_path(node_of(req, ino), NULL);
	DL_APPEND(handles, h);
	if (!r)
		r = h->path ? settle_handle(b, h) : -ENOMEM;
	fi->fh = (uintptr_t)h;
	if (!r && !fuse_reply_open(req, fi))
		return;
	if (r)
		reply_error(req, r);
	free_handle(h);
}

static void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	free_handle((void *)(uintptr_t)fi->fh);
	fuse_reply_err(req, 0);
}

/* Reads the project's file, if it still is what it was when it was opened. -ESTALE. */
static int read_now(struct handle *h, uint64_t offset, char *data, size_t len, size_t *n)
{
	ssize_t got = shfs_pread_full(h->fd, data, len, (off_t)offset);
	struct stat now;

	if (got < 0)
		return got;
	*n = got;
	return fstat(h->fd, &now) ? -errno : is_same(&h->now, &now) ? 0 : -ESTALE;
}

static int read_handle(struct shfs_browse *b, struct handle *h, uint64_t offset,
                       char *data, size_t len, size_t *n)
{
	const struct shfs_place *p = &h->place;

	switch (p->where) {
	case SHFS_PLACE_OBJECT:
		return shfs_contents_read(&b->contents, &p->object, offset, data, len, n);
	case SHFS_PLACE_NOW:
		return read_now(h, offset, data, len, n);
	case SHFS_PLACE_TEXT:
		*n = offset < p->text_len ? MIN(len, p->text_len - offset) : 0;
		if (*n)
			memcpy(data, p->text + offset, *n);
		return 0;
	default:
		return p->error;
	}
}

/* Is the handle's file still the one that was opened? It may have been forgotten, or
 * changed where it was not in the store; what was done away with by a change is. */
static int check_handle(struct shfs_browse *b, struct handle *h)
{
	struct shfs_object_id was = h->place.object;
	enum shfs_place_where where = h->place.where;
	off_t size = h->place.st.st_size;
	int r = settle_handle(b, h);

	if (!r && where == SHFS_PLACE_OBJECT &&
	    (h->place.where != where || was.nth != h->place.object.nth ||
	     memcmp(was.hash, h->place.object.hash, sizeof(was.hash))))
		r = -ESTALE;
	if (!r && size != h->place.st.st_size)
		r = -ESTALE;
	if (r) {
		h->place.where = SHFS_PLACE_NOWHERE;
		h->place.error = r == -ENOENT ? -ESTALE : r;
	}
	return r;
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                    struct fuse_file_info *fi)
{
	struct shfs_browse *b = browse_of(req);
	struct handle *h = (void *)(uintptr_t)fi->fh;
	size_t len = MIN(size, (size_t)READ_MAX), n = 0;
	_cleanup_free_ char *data = malloc(len + 1);
	int r = data ? shfs_browse_look(b) : -ENOMEM;

	if (!r && h->place.where == SHFS_PLACE_OBJECT && h->generation != b->generation)
		r = check_handle(b, h);
	if (!r)
		r = read_handle(b, h, (uint64_t)offset, data, len, &n);
	if (r == -ESTALE && h->place.where == SHFS_PLACE_NOW) {
		r = check_handle(b, h);
		if (!r)
			r = read_handle(b, h, (uint64_t)offset, data, len, &n);
	}
	if (r)
		reply_error(req, r);
	else
		fuse_reply_buf(req, data, n);
}

/* --- extended attributes --- */

/* Says what the place has of one of ours. False: nothing. */
static bool print_own(struct shfs_browse *b, const char *path, const struct shfs_place *p,
                      const char *name, struct shfs_buf *out)
{
	_cleanup_command_ struct shfs_command_row c = { 0 };
	int64_t time_ns;

	if (!strcmp(name, XATTR_CONTENT) && S_ISREG(p->st.st_mode))
		shfs_buf_str(out, p->where == SHFS_PLACE_NOWHERE ? p->why ?: "not kept"
		                  : p->flawed                    ? "incomplete"
		                                                 : "kept");
	else if (!strcmp(name, XATTR_VERSION) && p->version.version_id && p->version.path)
		shfs_buf_printf(out, "%s@%" PRId64, p->version.path, p->version.n);
	else if (!strcmp(name, XATTR_COMMAND) && p->version.command_id &&
	         shfs_command_load(b->index, p->version.command_id, &c) > 0)
		shfs_buf_str(out, c.id);
	else if (!strcmp(name, XATTR_TIME) && !strncmp(path, "at/", 3) &&
	         !shfs_at_time(path + 3, &time_ns))
		shfs_time_show_utc(out, time_ns);
	else
		return false;
	return true;
}

struct asked {
	const char *name;
	struct shfs_buf value;
	bool found;
};

static int take_value(const char *name, const void *value, size_t len, void *arg)
{
	struct asked *asked = arg;

	if (strcmp(name, asked->name) != 0)
		return 0;
	shfs_buf_add(&asked->value, value, len);
	asked->found = true;
	return 0;
}

static void reply_sized(fuse_req_t req, const struct shfs_buf *value, size_t size)
{
	if (value->failed)
		reply_error(req, -ENOMEM);
	else if (!size)
		fuse_reply_xattr(req, value->len);
	else if (value->len > size)
		reply_error(req, -ERANGE);
	else
		fuse_reply_buf(req, value->data, value->len);
}

static void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	_cleanup_free_ char *path = shfs_node_path(node_of(req, ino), NULL);
	_cleanup_place_ struct shfs_place place = { 0 };
	struct asked asked = { .name = name };
	int r = find_place(req, ino, &place);

	if (!r && path && print_own(browse_of(req), path, &place, name, &asked.value))
		asked.found = true;
	else if (!r)
		r = path ? shfs_browse_xattrs(browse_of(req), path, take_value, &asked)
		         : -ENOMEM;
	if (!r && !asked.found)
		r = -ENODATA;
	if (r)
		reply_error(req, r);
	else
		reply_sized(req, &asked.value, size);
	shfs_buf_free(&asked.value);
}

static int take_name(const char *name, const void *value, size_t len, void *arg)
{
	shfs_buf_add(arg, name, strlen(name) + 1);
	return 0;
}

static void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	_cleanup_free_ char *path = shfs_node_path(node_of(req, ino), NULL);
	_cleanup_buf_ struct shfs_buf names = { 0 };
	int r = path ? shfs_browse_look(browse_of(req)) : -ENOMEM;

	if (!r)
		r = shfs_browse_xattrs(browse_of(req), path, take_name, &names);
	if (r)
		reply_error(req, r);
	else
		reply_sized(req, &names, size);
}

void shfs_operations_end(void)
{
	while (listings)
		free_listing(listings);
	while (handles)
		free_handle(handles);
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	/* no splice, as the filter knows only plain writes; reads in order, as contents
	 * are unpacked from the front to the end */
	conn->want &= ~(unsigned)(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
	                          FUSE_CAP_SPLICE_MOVE | FUSE_CAP_ASYNC_READ |
	                          FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO);
}

const struct fuse_lowlevel_ops shfs_browse_operations = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = op_getattr,
	.readlink = op_readlink,
	.opendir = op_opendir,
	.readdir = op_readdir,
	.releasedir = op_releasedir,
	.open = op_open,
	.read = op_read,
	.release = op_release,
	.getxattr = op_getxattr,
	.listxattr = op_listxattr,
};
