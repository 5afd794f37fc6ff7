/* SPDX-License-Identifier: MIT */
/* The second half of a pull: takes over what was fetched, in the sandbox. */
#include "query/remote/pull-internal.h"

#include "common/io.h"
#include "store/care/garbage.h"
#include "store/care/import.h"
#include "store/index/index.h"
#include "store/journal/runtime.h"
#include "store/objects/collect.h"
#include "store/objects/content.h"
#include "store/objects/inventory.h"
#include "store/objects/loose.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHOLE_BYTES (16u << 20) /* a larger content is read by way of a file */
#define BATCH_MAX   64
#define LEVEL       1 /* of zstd, for copies that are soon removed */
#define TEXT_MAX    (1u << 30)
#define WAIT_MS     15000 /* for producers, when objects are removed */

struct taking {
	struct pull *pull;
	struct pulled_store *o;
	struct shfs_store *store;  /* of its own: puts go to packs of pulls */
	struct shfs_store *mirror; /* what was fetched, as a store */
	struct shfs_import *import;
	struct shfs_trees *listed; /* the store's list */
	int incoming;
	struct shfs_buf added; /* files, as lines "\nHOST/NAME\n" */
};

static void taking_clear(struct taking *t)
{
	shfs_import_free(t->import);
	shfs_trees_free(t->listed);
	shfs_store_close(t->mirror);
	shfs_store_close(t->store);
	shfs_closep(&t->incoming);
	shfs_buf_free(&t->added);
}

/* --- objects --- */

static int import_bytes(struct taking *t, const struct shfs_object_id *id,
                        const void *data, size_t len, const struct shfs_object_id *base)
{
	char name[44];
	int r;

	shfs_object_name(id, name);
	r = shfs_import_object(t->import, name, data, len, base);
	t->pull->stats.objects += !r;
	return r;
}

/* Imports a large object by way of a file, which is mapped. */
static int import_large(struct taking *t, const struct shfs_object_id *id)
{
	_cleanup_close_ int fd =
		openat(t->incoming, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	struct stat st;
	void *data;
	int r;

	if (fd < 0)
		fd = memfd_create("shfs-object", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = shfs_object_copy(t->mirror, id, fd);
	if (!r && fstat(fd, &st))
		r = -errno;
	if (r)
		return r;
	data = st.st_size ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)
	                  : (void *)"";
	if (data == MAP_FAILED)
		return -errno;
	r = import_bytes(t, id, data, (size_t)st.st_size, NULL);
	if (st.st_size)
		munmap(data, (size_t)st.st_size);
	return r;
}

static int import_object(struct taking *t, const struct shfs_object_id *id,
                         const struct shfs_object_id *base)
{
	_cleanup_buf_ struct shfs_buf bytes = { 0 };
	int r = shfs_object_read(t->mirror, id, WHOLE_BYTES, &bytes);

	if (r == -EFBIG)
		r = import_large(t, id);
	else if (!r)
		r = import_bytes(t, id, bytes.data ?: "", bytes.len, base);
	/* what is damaged or lacks its base is missed when the journal names it */
	return r == -ENOENT || r == -ENODATA || r == -EBADMSG ? 0 : r;
}

/* --- packs --- */

struct pack_taking {
	struct taking *t;
	const struct fetched_pack *pack;
	size_t n_pieces;
	struct contents contents; /* that are to be taken, by offset */
	bool whole;               /* all pieces of the object were fetched */
};

static void look_at_piece(void *arg, size_t piece)
{
	struct pack_taking *p = arg;

	p->whole &= p->pack->pieces[piece];
}

static int compare_offsets(const void *a, const void *b)
{
	const struct packed_object *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

/* Keeps the objects that were fetched and are not here, in the order of the pack. */
static int choose_objects(struct pack_taking *p)
{
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < p->contents.n && r >= 0; i++) {
		const struct packed_object object = p->contents.list[i];

		p->whole = true;
		each_piece_of(&object, p->n_pieces, look_at_piece, p);
		if (!p->whole)
			continue;
		r = object_is_wanted(p->t->store, p->t->o,
		                     &p->t->o->now.files[p->pack->file], &object.id);
		if (r > 0)
			p->contents.list[n++] = object;
	}
	p->contents.n = n;
	if (n)
		qsort(p->contents.list, n, sizeof(*p->contents.list), compare_offsets);
	return MIN(r, 0);
}

static int commit_copies(struct shfs_store *to, struct shfs_put **puts, size_t *n)
{
	int r = *n ? shfs_object_commit(to, puts, *n) : 0;

	for (size_t i = 0; i < *n; i++)
		shfs_put_free(puts[i]);
	*n = 0;
	return r;
}

/* Copies bases that are here, and not in what was fetched, to it. */
static int copy_bases(struct pack_taking *p)
{
	struct shfs_put *puts[BATCH_MAX];
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < p->contents.n && !r; i++) {
		const struct packed_object *object = &p->contents.list[i];
		_cleanup_buf_ struct shfs_buf bytes = { 0 };

		if (!object->has_base || !content_look(p->t->mirror, &object->base))
			continue;
		if (content_look(p->t->store, &object->base) ||
		    shfs_object_read(p->t->store, &object->base, DELTA_LEN_MAX, &bytes))
			continue;
		r = shfs_object_put(p->t->mirror, bytes.data ?: "", bytes.len, LEVEL,
		                    NULL, &puts[n]);
		n += !r;
		if (n == BATCH_MAX)
			r = commit_copies(p->t->mirror, puts, &n);
	}
	return commit_copies(p->t->mirror, puts, &n) ?: r;
}

static int import_objects(struct pack_taking *p)
{
	int r = choose_objects(p);

	if (!r)
		r = copy_bases(p);
	for (size_t i = 0; i < p->contents.n && !r; i++) {
		const struct packed_object *object = &p->contents.list[i];

		r = import_object(p->t, &object->id,
		                  object->has_base ? &object->base : NULL);
	}
	return r ? r : shfs_import_commit(p->t->import);
}

static int import_pack(struct taking *t, const struct fetched_pack *pack)
{
	const struct remote_file *file = &t->o->now.files[pack->file];
	const char *name = strrchr(file->name, '/') + 1;
	struct pack_taking p = { .t = t, .pack = pack, .n_pieces = file->n };
	char path[64];
	int r;

	incoming_pack(name, path);
	r = pack->unknown
	            ? contents_of_pack(t->mirror->objects_fd, path + strlen("objects/"),
	                               file->bytes, &p.contents)
	            : incoming_contents(t->o, t->incoming, file, &p.contents);
	if (!r)
		r = import_objects(&p);
	contents_free(&p.contents);
	/* now it takes no more room than it must; bases that were pruned or forgotten
	 * here were not taken, and are needed yet */
	if (!r && !pack->bases && unlinkat(t->incoming, path, 0) && errno != ENOENT)
		r = -errno;
	return r;
}

static int import_loose(struct taking *t)
{
	int r = 0;

	for (size_t i = 0; i < t->o->now.n && !r; i++) {
		const struct remote_file *file = &t->o->now.files[i];
		struct shfs_object_id id;

		if (file_kind_of(file->name) != FILE_LOOSE || t->o->left_out[i] ||
		    faccessat(t->incoming, file->name, F_OK, AT_SYMLINK_NOFOLLOW) ||
		    file_loose_id(file->name, &id))
			continue;
		r = object_is_wanted(t->store, t->o, file, &id);
		if (r > 0)
			r = import_object(t, &id, NULL);
		if (!r)
			r = shfs_import_commit(t->import);
		if (!r && unlinkat(t->incoming, file->name, 0))
			r = -errno;
	}
	return r;
}

static int import_all_objects(struct taking *t)
{
	int r = packs_refresh(t->store);

	if (!r)
		r = packs_refresh(t->mirror);
	/* the last ones were found as bases of the others */
	for (size_t i = t->o->n_packs; i-- > 0 && !r;)
		r = import_pack(t, &t->o->packs[i]);
	return r ? r : import_loose(t);
}

/* --- the journal --- */

/* Did the store that pushed it record it itself? */
static bool is_first_hand(const struct taking *t, const char *host, const char *name)
{
	const char *dash = strchr(name, '-');
	struct shfs_bytes boot = { dash ? dash + 1 : "", dash ? 8 : 0 };
	const char *tree = shfs_trees_of_file(t->listed, host, name);
	const struct shfs_tree_identity *identity;

	if (!tree)
		return true;
	identity = shfs_trees_identity(t->listed, shfs_bytes_str(host), boot);
	return identity && !strcmp(identity->store, t->o->store_id);
}

static bool is_here(const struct taking *t, const char *host, const char *name)
{
	char path[300];
	size_t len = strlen(name) - (shfs_ends_with(name, ".zst") ? 4 : 0);
	struct stat st;

	snprintf(path, sizeof(path), "journal/%s/%.*s", host, (int)len, name);
	if (!fstatat(t->store->dirfd, path, &st, AT_SYMLINK_NOFOLLOW))
		return true;
	strcat(path, ".zst");
	return !fstatat(t->store->dirfd, path, &st, AT_SYMLINK_NOFOLLOW);
}

/* Was a file of that name pulled from there before? A sealed one may not have been. */
static bool is_known(const struct taking *t, const char *file)
{
	char other[FILE_NAME_MAX + 8];
	size_t len = strlen(file);

	if (manifest_find(&t->o->known, file))
		return true;
	if (!shfs_ends_with(file, ".zst"))
		return false;
	snprintf(other, sizeof(other), "%.*s", (int)(len - 4), file);
	return manifest_find(&t->o->known, other);
}

/* Is the file to be taken? Not if it is here, and this machine recorded it, or a third
 * one, which pushes it itself. */
static bool is_to_take(const struct taking *t, const struct shfs_trees *here,
                       const char *file)
{
	const char *name;
	char host[65];

	file_split_journal(file, host, &name);
	if (t->o->is_own || !is_here(t, host, name))
		return true;
	return (is_known(t, file) || shfs_trees_of_file(here, host, name)) &&
	       is_first_hand(t, host, name);
}

static int map_file(struct taking *t, const char *path, void **data, size_t *len)
{
	_cleanup_close_ int fd =
		openat(t->incoming, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	*len = (size_t)st.st_size;
	*data = (void *)"";
	if (*len)
		*data = mmap(NULL, *len, PROT_READ, MAP_PRIVATE, fd, 0);
	return *data == MAP_FAILED ? -errno : 0;
}

static void note_added(struct taking *t, const char *host, const char *name)
{
	size_t len = strlen(name) - (shfs_ends_with(name, ".zst") ? 4 : 0);

	shfs_buf_printf(&t->added, "\n%s/%.*s\n", host, (int)len, name);
}

static int import_journal_file(struct taking *t, const struct remote_file *file)
{
	char host[65];
	const char *name;
	void *data = NULL;
	size_t len = 0;
	int r;

	file_split_journal(file->name, host, &name);
	r = map_file(t, file->name, &data, &len);
	if (r)
		return r;
	shfs_import_replace(t->import, t->o->replaces && is_first_hand(t, host, name));
	r = shfs_import_file(t->import, host, name, data, len);
	if (len)
		munmap(data, len);
	if (!r)
		note_added(t, host, name);
	/* a segment may have been pushed when it had no record yet; and a sealed one has
	 * taken the place of another of its name */
	if (r == -EEXIST || (r == -EBADMSG && !len))
		r = 0;
	return r ? r : t->added.failed ? -ENOMEM : 0;
}

static int import_journal(struct taking *t)
{
	_cleanup_trees_ struct shfs_trees *here = NULL;
	int r = shfs_trees_load(t->store, &here);

	for (size_t i = 0; i < t->o->now.n && !r; i++) {
		const struct remote_file *file = &t->o->now.files[i];
		enum file_kind kind = file_kind_of(file->name);

		if ((kind != FILE_SEGMENT && kind != FILE_HOOK_LOG) ||
		    !is_new_file(t->o, file))
			continue;
		if (!t->o->left_out[i])
			t->o->left_out[i] = !is_to_take(t, here, file->name);
		if (!t->o->left_out[i])
			r = import_journal_file(t, file);
	}
	return r;
}

/* --- lists --- */

static int read_list(struct taking *t, const char *name, struct shfs_buf *out)
{
	int r = shfs_read_file_at(t->incoming, name, TEXT_MAX, out);

	return r == -ENOENT ? 0 : r;
}

static int import_trees(struct taking *t)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r = read_list(t, "made/trees", &text);

	if (!r)
		r = shfs_trees_parse(text.data ?: "", text.len, &t->listed);
	return r ? r : shfs_import_trees(t->import, text.data, text.len);
}

/* Of the recordings that go on, those whose segments were added. */
static int import_alive(struct taking *t)
{
	_cleanup_buf_ struct shfs_buf text = { 0 }, lines = { 0 };
	char *rest = NULL;
	int r = read_list(t, "made/alive", &text);

	if (r || !text.len)
		return r;
	for (char *line = strtok_r(text.data, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		_cleanup_buf_ struct shfs_buf added = { 0 };

		shfs_buf_printf(&added, "\n%s\n", line);
		if (!added.failed && t->added.len && strstr(t->added.data, added.data))
			shfs_buf_printf(&lines, "%s\n", line);
	}
	return lines.len ? shfs_import_alive(t->import, lines.data, lines.len) : 0;
}

static int import_pruned(struct taking *t)
{
	_cleanup_buf_ struct shfs_buf list = { 0 };
	int r = read_list(t, "made/pruned", &list);

	return r || !list.len ? r : shfs_import_pruned(t->import, list.data, list.len);
}

/* --- a store --- */

static int open_stores(struct taking *t)
{
	_cleanup_free_ char *below = incoming_path(t->pull, t->o), *path = NULL;
	const char *store = t->pull->place->store->path;
	int r;

	if (!below || asprintf(&path, "%s/%s", store, below) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	r = t->incoming = incoming_open(t->pull, t->o);
	if (r >= 0)
		r = shfs_store_open(path, SHFS_STORE_CREATE, &t->mirror);
	if (!r)
		r = shfs_store_open(store, SHFS_STORE_CREATE, &t->store);
	if (!r)
		t->store->pulls = !t->o->is_own || t->o->on_demand;
	return r;
}

/* Drops the files that were left out: they do not count as pulled. */
static void drop_left_out(struct pulled_store *o)
{
	size_t n = 0;

	for (size_t i = 0; i < o->now.n; i++) {
		if (o->left_out[i]) {
			free(o->now.files[i].name);
			free(o->now.files[i].pieces);
			continue;
		}
		o->now.files[n++] = o->now.files[i];
	}
	o->now.n = n;
}

static int note_taken(struct taking *t)
{
	char file[STORE_ID_SIZE + 20];
	int r;

	drop_left_out(t->o);

	snprintf(file, sizeof(file), "pulled/%s", t->o->store_id);
	r = place_write(t->pull->place, t->o->is_own ? "pushed" : file, &t->o->now);
	snprintf(file, sizeof(file), "incoming/%s", t->o->store_id);
	return r ? r : place_remove_file(t->pull->place, file);
}

/* --- contents that stay there --- */

/* Does the file stay there? With all contents, only what is damaged there does. */
static bool stays_there(const struct taking *t, size_t i)
{
	const struct remote_file *file = &t->o->now.files[i];
	_cleanup_buf_ struct shfs_buf pack = { 0 };
	const struct remote_file *of = file;

	if (t->pull->options.metadata)
		return is_new_file(t->o, file);
	if (file_kind_of(file->name) == FILE_CONTENTS) {
		shfs_buf_printf(&pack, "objects/packs/%s", strrchr(file->name, '/') + 1);
		of = pack.failed ? NULL : manifest_find(&t->o->now, pack.data);
	}
	return of && t->o->left_out[of - t->o->now.files] &&
	       manifest_find(&t->o->away, file->name);
}

/* Notes which contents stay there, before a record names them. */
static int note_elsewhere(struct taking *t)
{
	_cleanup_manifest_ struct manifest away = { 0 };
	_cleanup_objects_ struct shfs_objects objects = { 0 };
	const bool metadata = t->pull->options.metadata;
	int r = 0;

	if (!metadata && !t->o->away.n)
		return 0;
	away.head = t->o->now.head;
	for (size_t i = 0; i < t->o->now.n && !r; i++)
		if (elsewhere_may_stay(file_kind_of(t->o->now.files[i].name)) &&
		    stays_there(t, i) && !manifest_add_copy(&away, &t->o->now.files[i]))
			r = -ENOMEM;
	manifest_sort(&away);
	if (!r && metadata)
		r = elsewhere_objects(t->incoming, &away, &objects);
	shfs_objects_sort(&objects);
	t->pull->stats.away += objects.n;
	return r ? r
	         : elsewhere_change(t->pull->place, t->o->store_id, &away,
	                            metadata ? t->incoming : -1);
}

int take_objects(struct pull *pull, struct pulled_store *o)
{
	_cleanup_(
		taking_clear) struct taking t = { .pull = pull, .o = o, .incoming = -1 };
	int r = open_stores(&t);

	if (!r)
		r = shfs_import_new(t.store, false, &t.import);
	return r ? r : import_all_objects(&t);
}

static int take_store(struct pull *pull, struct pulled_store *o)
{
	_cleanup_(
		taking_clear) struct taking t = { .pull = pull, .o = o, .incoming = -1 };
	struct shfs_import_stats stats;
	int r = open_stores(&t);

	pull->host = o->now.head.host;
	if (!r)
		r = shfs_import_new(t.store, false, &t.import);
	if (r)
		return r;
	shfs_import_leave_index(t.import);
	if (pull->options.metadata)
		shfs_import_learn_nothing(t.import);
	r = import_trees(&t);
	if (!r)
		r = import_all_objects(&t);
	if (!r)
		r = note_elsewhere(&t);
	if (!r)
		r = import_journal(&t);
	if (!r)
		r = import_alive(&t);
	if (!r)
		r = import_pruned(&t);
	if (!r)
		r = shfs_import_finish(t.import, NULL, &stats);
	if (r)
		return r;
	pull->stats.missing += stats.missing;
	if (*stats.tree && !*pull->stats.tree)
		snprintf(pull->stats.tree, sizeof(pull->stats.tree), "%s", stats.tree);
	pull->stats.forgotten |= o->replaces;
	return note_taken(&t);
}

/* --- all --- */

/* Removes the contents of what was forgotten elsewhere. */
static int remove_forgotten(struct shfs_store *store)
{
	struct shfs_garbage garbage = { store, false };
	uint64_t objects, bytes;
	const struct shfs_collect how = { .pick = shfs_garbage_pick,
		                          .arg = &garbage,
		                          .wait_ms = WAIT_MS,
		                          .objects = &objects,
		                          .bytes = &bytes };

	return shfs_collect(store, &how);
}

static int make_index(struct pull *pull)
{
	struct shfs_store *store = pull->place->store;
	_cleanup_free_ char *hook_dir = shfs_runtime_hook_dir(store->path);
	int r = shfs_index_rebuild(store, hook_dir, NULL);

	return r ? r : pull->stats.forgotten ? shfs_index_clean(store) : 0;
}

/* What is to be done once files were taken, also if this process is killed: lines of the
 * file "unsettled". */
static int read_unsettled(struct pull *pull, bool *index)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r = place_read_lines(pull->place, "unsettled", &text);

	*index = text.len;
	pull->stats.forgotten |= text.len && strstr(text.data, "objects\n");
	return r;
}

static int note_unsettled(struct pull *pull)
{
	bool replaces = false;
	int r = place_add_line(pull->place, "unsettled", "index");

	for (size_t i = 0; i < pull->n; i++)
		replaces |= pull->list[i].replaces;
	return r || !replaces ? r : place_add_line(pull->place, "unsettled", "objects");
}

static int settle(struct pull *pull)
{
	int r = make_index(pull);

	if (r)
		return r;
	if (pull->stats.forgotten)
		pull->stats.not_removed = remove_forgotten(pull->place->store) != 0;
	return pull->stats.not_removed ? 0 : place_remove_file(pull->place, "unsettled");
}

int pull_take(struct pull *pull)
{
	bool is_unsettled;
	int r = read_unsettled(pull, &is_unsettled), settled;

	if (!r && pull->n)
		r = note_unsettled(pull);
	for (size_t i = 0; i < pull->n && !r; i++)
		r = take_store(pull, &pull->list[i]);
	/* what was taken is in the journal, also if another store's is damaged */
	settled = pull->n || is_unsettled ? settle(pull) : 0;
	if (!r)
		pull->host = NULL;
	return r ? r : settled;
}
