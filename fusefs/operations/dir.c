/* SPDX-License-Identifier: MIT */
/* Requests for directories: opendir, readdir, readdirplus and their cursors. */
#include "fusefs/operations/operations.h"
#include "fusefs/transport/transport.h"
#include "fusefs/watch/beneath.h"
#include "fusefs/watch/lookups.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <utlist.h>

#define SETTLED_NS 20000000 /* longest tick of file systems' clocks */

struct shfs_directory {
	DIR *dir;
	uint64_t fh;            /* in fs.heir */
	struct shfs_node *node; /* referenced */
	struct dirent *next;    /* read, but not yet returned for lack of room */
	off_t offset;           /* position of dir */
	pthread_mutex_t lock;
	struct shfs_directory *prev_open, *next_open; /* of the mount's */
};

/* Returns the open directory of a request, as handle_of. */
static struct shfs_directory *request_directory(fuse_req_t req,
                                                const struct fuse_file_info *fi)
{
	struct shfs_directory *d = shfs_req_opened(req, fi);

	if (!d)
		shfs_req_fail(req, -ESTALE);
	return d;
}

static void directory_free(struct shfs_fs *fs, struct shfs_directory *d)
{
	pthread_mutex_lock(&fs->handles_lock);
	DL_DELETE2(fs->directories, d, prev_open, next_open);
	fs->n_open--;
	pthread_mutex_unlock(&fs->handles_lock);
	shfs_heir_open_done(fs->heir, d->fh);
	if (d->dir)
		closedir(d->dir);
	shfs_node_unref(fs->tree, d->node);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

/* Makes an open directory; takes ownership of fd. */
static int directory_new(struct shfs_fs *fs, struct shfs_node *node, int fd,
                         struct shfs_directory **out)
{
	struct shfs_directory *d = calloc(1, sizeof(*d));

	if (!d) {
		close(fd);
		return -ENOMEM;
	}
	shfs_node_ref(fs->tree, node);
	d->node = node;
	pthread_mutex_lock(&fs->handles_lock);
	DL_APPEND2(fs->directories, d, prev_open, next_open);
	fs->n_open++;
	pthread_mutex_unlock(&fs->handles_lock);
	pthread_mutex_init(&d->lock, NULL);
	d->dir = fdopendir(fd);
	if (!d->dir) {
		close(fd);
		directory_free(fs, d);
		return -ENOMEM;
	}
	*out = d;
	return 0;
}

void *shfs_directory_resume(struct shfs_fs *fs, const struct shfs_open *open, uint64_t fh)
{
	struct shfs_node *node = shfs_node_find(fs->tree, open->node);
	struct shfs_directory *d = NULL;

	if (!node || !shfs_node_resume(fs->tree, node, open->fd)) {
		close(open->fd);
		return NULL;
	}
	if (directory_new(fs, node, open->fd, &d))
		return NULL;
	rewinddir(d->dir);
	d->fh = fh;
	return d;
}

void shfs_directories_release_all(struct shfs_fs *fs)
{
	while (fs->directories)
		directory_free(fs, fs->directories);
}

/*
 * Has the directory the same entries as when it was last opened? Then the kernel may use
 * its cached entries. Not if it has forgotten the files: then it would look them up one
 * by one, while reading gives it entries with attributes.
 */
static bool is_as_listed(struct shfs_fs *fs, struct shfs_node *node,
                         const struct shfs_directory *d)
{
	int64_t now_ns = shfs_clock_ns(CLOCK_REALTIME), ctime_ns, listed_ns;
	struct stat st;

	if (fstat(dirfd(d->dir), &st))
		return false;
	/* not the mtime, which others may set back in the lower file system */
	ctime_ns = shfs_time_ns(st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
	/* a directory that changes now may change again with the same ctime */
	listed_ns = atomic_exchange(&node->listed_ns,
	                            now_ns - ctime_ns > SETTLED_NS ? ctime_ns : 0);
	return listed_ns && listed_ns == ctime_ns &&
	       shfs_tree_size(fs->tree) < fs->config.known_files / 2;
}

static void op_opendir(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct shfs_fs *fs = shfs_req_fs(req);
	struct shfs_node *node = shfs_req_node(req, id);
	struct shfs_directory *d;
	int fd, r;

	if (!node)
		return;
	shfs_beneath_watch(fs->beneath, node);
	fd = shfs_is_all_open(fs)
	             ? -ENFILE
	             : shfs_node_open(fs->tree, node, O_RDONLY | O_DIRECTORY);
	r = fd < 0 ? fd : directory_new(fs, node, fd, &d);
	if (r) {
		shfs_req_fail(req, r);
		return;
	}
	d->fh = shfs_heir_open(fs->heir,
	                       &(struct shfs_open){
				       .what = SHFS_OPENED_DIRECTORY,
				       .unique = shfs_transport_unique(),
				       .node = id,
				       .fd = dirfd(d->dir),
			       },
	                       d);
	fi->fh = d->fh;
	fi->cache_readdir = !node->hidden && shfs_beneath_is_watched(node);
	fi->keep_cache = fi->cache_readdir && is_as_listed(fs, node, d);
	if (fuse_reply_open(req, fi))
		directory_free(fs, d);
}

static void op_releasedir(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct shfs_directory *d = shfs_req_opened(req, fi);

	if (d)
		directory_free(shfs_req_fs(req), d);
	else /* as in op_release */
		shfs_heir_open_done(shfs_req_fs(req)->heir, fi->fh);
	fuse_reply_err(req, 0);
}

static void op_fsyncdir(fuse_req_t req, fuse_ino_t id, int datasync,
                        struct fuse_file_info *fi)
{
	struct shfs_directory *d = request_directory(req, fi);
	int fd;

	if (!d)
		return;
	fd = dirfd(d->dir);
	shfs_req_result(req, (datasync ? fdatasync(fd) : fsync(fd)) ? -errno : 0);
}

static bool is_dot(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

/* Fills in an entry: with plus a node with a lookup, else only its type. */
static void fill_entry(struct shfs_fs *fs, struct shfs_directory *d,
                       const struct dirent *ent, bool plus, struct fuse_entry_param *out)
{
	struct shfs_node *node;
	struct statx stx;

	*out = (struct fuse_entry_param){
		.attr = { .st_ino = ent->d_ino, .st_mode = DTTOIF(ent->d_type) },
	};
	if (plus && !is_dot(ent->d_name) &&
	    !shfs_node_statx(dirfd(d->dir), ent->d_name, &stx) &&
	    !shfs_node_enter(fs->tree, d->node, ent->d_name, &stx, &node)) {
		/* that may have been a lent mode; if it is gone, so is its name soon */
		if (atomic_load(&node->lent))
			(void)!shfs_stat_node(fs, node, &stx);
		shfs_expire_moved(fs);
		shfs_fill_entry(d->node, node, &stx, out);
	}
}

static size_t add_dirent(fuse_req_t req, char *at, size_t room, const struct dirent *ent,
                         const struct fuse_entry_param *entry, bool plus)
{
	if (plus)
		return fuse_add_direntry_plus(req, at, room, ent->d_name, entry,
		                              ent->d_off);
	return fuse_add_direntry(req, at, room, ent->d_name, &entry->attr, ent->d_off);
}

/* Fills data from offset on. Returns bytes, or a negative errno. */
static ssize_t read_entries(fuse_req_t req, struct shfs_directory *d, char *data,
                            size_t size, off_t offset, bool plus)
{
	struct shfs_fs *fs = shfs_req_fs(req);
	size_t used = 0;

	if (offset != d->offset) {
		seekdir(d->dir, offset);
		d->next = NULL;
		d->offset = offset;
	}
	for (;;) {
		struct fuse_entry_param entry;
		size_t n;

		errno = 0;
		if (!d->next)
			d->next = readdir(d->dir);
		if (!d->next)
			return errno && !used ? -errno : (ssize_t)used;
		fill_entry(fs, d, d->next, plus, &entry);
		n = add_dirent(req, data + used, size - used, d->next, &entry, plus);
		if (n > size - used) {
			if (entry.ino)
				shfs_node_forget(fs->tree, entry.ino, 1);
			return (ssize_t)used;
		}
		used += n;
		d->offset = d->next->d_off;
		d->next = NULL;
	}
}

static void reply_entries(fuse_req_t req, size_t size, off_t offset,
                          struct fuse_file_info *fi, bool plus)
{
	struct shfs_directory *d = request_directory(req, fi);
	_cleanup_free_ char *data = d ? malloc(size) : NULL;
	ssize_t n;

	if (!d)
		return;
	if (!data) {
		shfs_req_fail(req, -ENOMEM);
		return;
	}
	if (!offset)
		shfs_lookups_note(shfs_req_fs(req), shfs_req_tid(req), d->node, NULL,
		                  SHFS_FOUND_NAMES, NULL);
	pthread_mutex_lock(&d->lock);
	n = read_entries(req, d, data, size, offset, plus);
	pthread_mutex_unlock(&d->lock);
	if (n < 0)
		shfs_req_fail(req, (int)n);
	else
		fuse_reply_buf(req, data, (size_t)n);
}

static void op_readdir(fuse_req_t req, fuse_ino_t id, size_t size, off_t offset,
                       struct fuse_file_info *fi)
{
	reply_entries(req, size, offset, fi, false);
}

static void op_readdirplus(fuse_req_t req, fuse_ino_t id, size_t size, off_t offset,
                           struct fuse_file_info *fi)
{
	reply_entries(req, size, offset, fi, true);
}

void shfs_ops_add_dir(struct fuse_lowlevel_ops *ops)
{
	ops->opendir = op_opendir;
	ops->releasedir = op_releasedir;
	ops->fsyncdir = op_fsyncdir;
	ops->readdir = op_readdir;
	ops->readdirplus = op_readdirplus;
}
