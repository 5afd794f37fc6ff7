/* SPDX-License-Identifier: MIT */
#include "fusefs/watch/links.h"

#include "common/clock.h"
#include "common/path.h"
#include "fusefs/watch/internal.h"
#include "recording/outside.h"
#include "store/objects/object.h"

#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#define SLOTS     256 /* threads, by the number modulo this */
#define LINKS_MAX 4   /* of one thread */

struct link {
	struct shfs_named named;
	char *leads_to; /* relative to the root */
	uint64_t told;  /* the process for which it was recorded; 0: none yet */
};

struct shfs_links {
	pthread_mutex_t lock;
	struct slot {
		_Atomic uint32_t tid; /* 0: no link was read */
		struct link list[LINKS_MAX];
		unsigned n; /* the last one is the newest */
	} slots[SLOTS];
};

struct shfs_links *shfs_links_new(void)
{
	struct shfs_links *links = calloc(1, sizeof(*links));

	if (links)
		pthread_mutex_init(&links->lock, NULL);
	return links;
}

static void link_clear(struct link *link)
{
	free(link->named.path);
	free(link->leads_to);
	*link = (struct link){ 0 };
}

static void slot_clear(struct slot *slot)
{
	while (slot->n)
		link_clear(&slot->list[--slot->n]);
}

void shfs_links_free(struct shfs_links *links)
{
	for (size_t i = 0; links && i < SLOTS; i++)
		slot_clear(&links->slots[i]);
	if (links)
		pthread_mutex_destroy(&links->lock);
	free(links);
}

/* --- reading a link --- */

/* Where the link at path (relative to the root) leads, relative to the root, for the
 * caller; NULL: outside. */
static char *find_target(const char *root, const char *path, const char *text)
{
	_cleanup_free_ char *link = shfs_path_join(root, path);
	char *slash = link ? strrchr(link, '/') : NULL;
	_cleanup_free_ char *joined = NULL, *target = NULL;
	const char *below;

	if (slash)
		*slash = '\0';
	joined = link ? shfs_path_join(link, text) : NULL;
	target = joined ? shfs_path_absolute(joined) : NULL;
	below = target ? shfs_path_relative(target, root) : NULL;
	return below ? strdup(below) : NULL;
}

static bool read_link_of(struct shfs_fs *fs, struct shfs_node *node, int fd,
                         const char *text, uint32_t tid, struct link *out)
{
	struct shfs_name *name;
	bool has_name;
	_cleanup_buf_ struct shfs_buf path = { 0 };
	size_t len = strlen(text);
	struct stat st;

	name = shfs_node_name(fs->tree, node, tid);
	shfs_tree_lock_read(fs->tree);
	has_name = shfs_node_path_by(node, name, &path);
	shfs_tree_unlock(fs->tree);
	shfs_name_unref(name);
	if (!has_name || path.failed || fstat(fd, &st))
		return false;
	*out = (struct link){
		.leads_to = find_target(fs->root, path.data ?: "", text),
		.named = {
			.dev = node->dev,
			.ino = node->ino,
			.content = {
				.flags = SHFS_CONTENT_KNOWN | SHFS_CONTENT_PHASH,
				.mode = st.st_mode,
				.size = len,
				.mtime_ns = shfs_timespec_ns(st.st_mtim),
				.ctime_ns = shfs_timespec_ns(st.st_ctim),
				.phash = shfs_object_hash64(text, len),
			},
		},
	};
	out->named.path = out->leads_to ? shfs_buf_take(&path) : NULL;
	if (out->named.path)
		return true;
	link_clear(out);
	return false;
}

static bool is_same_path(const struct link *a, const struct link *b)
{
	return !strcmp(a->named.path, b->named.path);
}

/* Takes ownership of link. */
static void keep_link(struct slot *slot, struct link *link)
{
	unsigned at = 0;

	while (at < slot->n && !is_same_path(&slot->list[at], link))
		at++;
	if (at < slot->n && slot->list[at].named.ino == link->named.ino &&
	    slot->list[at].named.content.ctime_ns == link->named.content.ctime_ns)
		link->told = slot->list[at].told;
	if (at == slot->n && slot->n == LINKS_MAX)
		at = 0; /* the oldest goes */
	if (at < slot->n) {
		link_clear(&slot->list[at]);
		slot->n--;
		memmove(&slot->list[at], &slot->list[at + 1],
		        (slot->n - at) * sizeof(*slot->list));
	}
	slot->list[slot->n++] = *link;
}

void shfs_links_note_read(struct shfs_fs *fs, struct shfs_node *node, int fd,
                          const char *text, uint32_t tid)
{
	struct slot *slot = &fs->links->slots[tid % SLOTS];
	struct link link;

	if (!tid || !read_link_of(fs, node, fd, text, tid, &link))
		return;
	pthread_mutex_lock(&fs->links->lock);
	if (slot->tid != tid)
		slot_clear(slot);
	slot->tid = tid;
	keep_link(slot, &link);
	pthread_mutex_unlock(&fs->links->lock);
}

/* --- going through it --- */

/* Goes back from where the thread arrived: the newest link first. A link to a directory
 * leads to all that is below that. */
static void emit_way_to(struct shfs_fs *fs, const struct shfs_handle *handle,
                        struct slot *slot, const char *path)
{
	_cleanup_free_ char *at = strdup(path);

	for (unsigned i = slot->n; at && i--;) {
		struct link *link = &slot->list[i];
		const char *rest =
			*link->leads_to ? shfs_path_relative(at, link->leads_to) : at;
		char *before;

		if (!rest)
			continue;
		if (link->told != handle->opener)
			shfs_named_emit(&link->named, fs->capture, handle->opener,
			                handle->begin);
		link->told = handle->opener;
		before = *rest ? shfs_path_join(link->named.path, rest)
		               : strdup(link->named.path);
		free(at);
		at = before;
	}
}

void shfs_links_emit_way(struct shfs_fs *fs, const struct shfs_handle *handle,
                         uint32_t tid)
{
	struct slot *slot = &fs->links->slots[tid % SLOTS];
	_cleanup_buf_ struct shfs_buf path = { 0 };
	bool has_name;

	if (!tid || slot->tid != tid || !handle->opener)
		return;
	shfs_tree_lock_read(fs->tree);
	has_name = shfs_node_path_by(handle->node, handle->name, &path);
	shfs_tree_unlock(fs->tree);
	if (!has_name || path.failed)
		return;
	pthread_mutex_lock(&fs->links->lock);
	if (slot->tid == tid)
		emit_way_to(fs, handle, slot, path.data ?: "");
	pthread_mutex_unlock(&fs->links->lock);
}
