/* SPDX-License-Identifier: MIT */
#include "query/remote/push/push.h"

#include "common/clock.h"
#include "common/io.h"
#include "query/remote/elsewhere.h"
#include "query/remote/heads.h"
#include "query/remote/own.h"
#include "query/remote/push/forgotten.h"
#include "query/remote/push/upload.h"
#include "store/care/forget.h"
#include "store/journal/journal.h"
#include "store/objects/inventory.h"
#include "store/objects/lease.h"
#include "store/trees.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HEADS_KEPT 4  /* old ones: so nobody takes their numbers */
#define TRIES      10 /* to read the store while segments are sealed */

struct push {
	struct upload u; /* first */
	struct shfs_index *index;
	struct own *own;
	struct shfs_trees *trees;
	struct lease_gate gate; /* no object is moved meanwhile */
	bool gated, shared;
	struct heads heads;
	struct blobs garbage; /* what may be on the remote, and may not be needed */
	char unfinished_head[SHFS_SHA256_SIZE];
	struct shfs_objects there; /* objects that are only on the remote */
	struct shfs_objects bases; /* of deltas there, and not among them */
};

static void push_clear(struct push *p)
{
	upload_clear(&p->u);
	own_free(p->own);
	shfs_trees_free(p->trees);
	if (p->gated)
		lease_gate_close(&p->gate);
	if (p->shared)
		shfs_store_unshare(p->u.store);
	heads_free(&p->heads);
	blobs_clear(&p->garbage);
	shfs_objects_free(&p->there);
	shfs_objects_free(&p->bases);
}

/* --- what is on the remote --- */

static int take_noted_line(struct push *p, const char *line)
{
	if (!strncmp(line, "blob ", 5) && sha256_is_valid(line + 5))
		return blobs_add(&p->garbage, line + 5) ? 0 : -ENOMEM;
	if (!strncmp(line, "head ", 5) && sha256_is_valid(line + 5))
		memcpy(p->unfinished_head, line + 5, sizeof(p->unfinished_head));
	return 0;
}

/* Reads what an earlier push has noted that did not come to its end, and what a check has
 * found. */
static int read_notes(struct push *p)
{
	_cleanup_buf_ struct shfs_buf noted = { 0 }, bad = { 0 };
	char *rest = NULL;
	int r = place_read_lines(p->u.place, "unfinished", &noted);

	if (!r)
		r = place_read_lines(p->u.place, "bad", &bad);
	p->u.looks = noted.len;
	for (char *line = noted.len ? strtok_r(noted.data, "\n", &rest) : NULL;
	     line && !r; line = strtok_r(NULL, "\n", &rest))
		r = take_noted_line(p, line);
	for (char *line = bad.len ? strtok_r(bad.data, "\n", &rest) : NULL; line && !r;
	     line = strtok_r(NULL, "\n", &rest))
		if (!strcmp(line, "head"))
			p->u.looks = true; /* so a new one is put */
		else if (sha256_is_valid(line) && !blobs_add(&p->u.bad, line))
			r = -ENOMEM;
	return r;
}

/* The remote has a newer head than this store knows: is it the end of a push that was
 * killed? */
static int take_newer_head(struct push *p, uint64_t generation)
{
	_cleanup_manifest_ struct manifest m = { 0 };
	char sha[SHFS_SHA256_SIZE];
	int r = head_fetch(p->u.remote, p->u.now.head.store_id, generation, sha, &m);

	if (r)
		return r;
	if (strcmp(sha, p->unfinished_head) != 0)
		return -ESTALE;
	r = blobs_add_all(&p->garbage, &p->u.old);
	if (!r)
		r = head_fetch_lists(p->u.remote, &p->u.old, &m, NULL);
	if (r)
		return r;
	manifest_clear(&p->u.old);
	p->u.old = m;
	m = (struct manifest){ 0 };
	return 0;
}

/* The remote has an older head than this store has pushed, or none. */
static int look_for_head(struct push *p)
{
	const struct remote_head head = p->u.old.head;
	char name[REMOTE_NAME_SIZE];
	uint64_t bytes;
	int r;

	head_name(p->u.now.head.store_id, head.generation, name);
	r = shfs_remote_stat(p->u.remote, name, &bytes);
	if (r != -ENOENT) /* the listing came late */
		return r;
	if (p->u.away.n) /* what was only there is lost: the user decides */
		return -EOWNERDEAD;
	/* nothing is believed to be there */
	p->u.stats.was_lost = true;
	p->u.looks = true;
	r = blobs_add_all(&p->garbage, &p->u.old);
	manifest_clear(&p->u.old);
	p->u.old.head = head;
	return r;
}

/* Finds what is on the remote: u->old, u->there. */
static int find_old(struct push *p)
{
	const char *store_id = p->u.now.head.store_id;
	char next[REMOTE_NAME_SIZE];
	uint64_t newest, bytes;
	int r = place_read(p->u.place, "pushed", &p->u.old);

	if (!r && strcmp(p->u.old.head.store_id, store_id) != 0)
		manifest_clear(&p->u.old);
	if (r == -ENOENT || r == -EBADMSG || r == -EPROTONOSUPPORT)
		r = 0;
	if (!r)
		r = heads_find(p->u.remote, &p->heads);
	if (r)
		return r;
	newest = heads_newest(&p->heads, store_id);
	head_name(store_id, newest + 1, next);
	if (newest == p->u.old.head.generation && *p->unfinished_head &&
	    !shfs_remote_stat(p->u.remote, next, &bytes))
		newest++; /* it was put, and the listing comes late */
	if (newest > p->u.old.head.generation)
		r = take_newer_head(p, newest);
	else if (newest < p->u.old.head.generation)
		r = look_for_head(p);
	if (!r)
		r = blobs_add_all(&p->u.there, &p->u.old);
	if (!r)
		r = blobs_add_all(&p->garbage, &p->u.old);
	for (struct blob *b = p->u.bad.set; b; b = b->hh.next)
		blobs_drop(&p->u.there, b->name);
	p->u.now.head.generation = p->u.old.head.generation + 1;
	return r ? r
	         : place_rewrites(p->u.store, p->u.old.head.rewrites,
	                          &p->u.now.head.rewrites);
}

/* --- what the store has --- */

static int add_with_state(struct push *p, const char *name, int dirfd, const char *path)
{
	struct remote_file *file;
	struct stat st;

	if (fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? -EAGAIN : -errno;
	if (!S_ISREG(st.st_mode) || file_kind_of(name) == FILE_INVALID)
		return 0;
	file = manifest_add(&p->u.now, name, (uint64_t)st.st_size);
	if (!file)
		return -ENOMEM;
	file->state = file_state_of(&st);
	p->u.all_bytes += file->bytes;
	return 0;
}

static int add_journal_file(const struct shfs_journal_file *f, void *arg)
{
	struct push *p = arg;
	_cleanup_buf_ struct shfs_buf name = { 0 };

	if (!own_has_file(p->own, f->host, f->name))
		return 0;
	shfs_buf_printf(&name, "journal/%s/%s%s", f->host, f->name,
	                f->sealed ? ".zst" : "");
	if (name.failed)
		return -ENOMEM;
	return add_with_state(p, name.data, f->dirfd, strrchr(name.data, '/') + 1);
}

static int add_pack(void *arg, const char *pack)
{
	struct push *p = arg;
	_cleanup_buf_ struct shfs_buf name = { 0 }, contents = { 0 };
	int r = own_has_pack(p->own, pack);

	if (r <= 0)
		return r;
	shfs_buf_printf(&name, "objects/packs/%s", pack);
	shfs_buf_printf(&contents, "made/contents/%s", pack);
	if (name.failed || contents.failed)
		return -ENOMEM;
	r = add_with_state(p, name.data, p->u.store->dirfd, name.data);
	if (r)
		return r;
	return manifest_add(&p->u.now, contents.data, 0) ? 0 : -ENOMEM;
}

static int add_loose(void *arg, const char *path)
{
	struct push *p = arg;
	_cleanup_buf_ struct shfs_buf name = { 0 };
	struct shfs_object_id id;

	shfs_buf_printf(&name, "objects/%s", path);
	if (name.failed)
		return -ENOMEM;
	if (manifest_find(&p->u.away, name.data)) /* it was brought, and stays there */
		return 0;
	if (file_loose_id(name.data, &id) || !own_has_loose(p->own, &id))
		return 0;
	return add_with_state(p, name.data, p->u.store->dirfd, name.data);
}

struct loose_directory {
	struct push *push;
	const char *name;
};

static int add_loose_below(void *arg, const char *name)
{
	const struct loose_directory *d = arg;
	char path[300];

	snprintf(path, sizeof(path), "%s/%s", d->name, name);
	return add_loose(d->push, path);
}

static int add_loose_directory(void *arg, const char *name)
{
	struct push *p = arg;
	struct loose_directory d = { p, name };
	_cleanup_close_ int fd = -1;

	if (strlen(name) != 2 || strspn(name, "0123456789abcdef") != 2)
		return 0;
	fd = openat(p->u.store->objects_fd, name,
	            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : inventory_names(fd, NULL, add_loose_below, &d);
}

static int add_objects(struct push *p)
{
	_cleanup_close_ int packs = openat(p->u.store->objects_fd, "packs",
	                                   O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = packs < 0 ? 0 : inventory_names(packs, ".pack", add_pack, p);

	return r ? r
	         : inventory_names(p->u.store->objects_fd, NULL, add_loose_directory, p);
}

/* Adds what is only on the remote, and stays there as it is. */
static int add_away(struct push *p)
{
	int r = 0;

	for (size_t i = 0; i < p->u.away.n && !r; i++) {
		const struct remote_file *old =
			manifest_find(&p->u.old, p->u.away.files[i].name);
		struct remote_file *file;

		if (!old || !remote_file_equal(old, &p->u.away.files[i]))
			return -EOWNERDEAD;
		file = manifest_add_copy(&p->u.now, old);
		r = file ? 0 : -ENOMEM;
		if (file)
			file->stays = true;
	}
	return r;
}

static int add_store_files(struct push *p)
{
	static const char *const names[] = { "store/format", "store/trees",
		                             "store/pruned", "store/projects",
		                             "store/archived" };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names) && !r; i++) {
		r = add_with_state(p, names[i], p->u.store->dirfd,
		                   file_path(names[i], FILE_STORE));
		if (r == -EAGAIN) /* there is none */
			r = 0;
	}
	return r;
}

static int add_made_file(struct push *p, const char *name, const struct shfs_buf *bytes)
{
	p->u.all_bytes += bytes->len;
	return bytes->failed || !manifest_add(&p->u.now, name, bytes->len) ? -ENOMEM : 0;
}

static bool is_pushed_boot(const char *host, const char *boot, void *arg)
{
	return true;
}

static int make_trees(struct push *p)
{
	struct shfs_buf *out = &p->u.made_trees;
	int r;

	out->len = 0;
	r = shfs_trees_print(p->trees, is_pushed_boot, NULL, out);
	return r ? r : add_made_file(p, "made/trees", out);
}

/* --- recordings that go on --- */

/* What tells the recordings that have not ended, as lines "\nHOST BOOT PID KIND ROOT\n".
 */
static int find_alive(struct push *p, struct shfs_buf *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(p->index,
	                       "SELECT host || ' ' || boot_id || ' ' || pid || ' ' ||"
	                       " kind || ' ' || root FROM v_producer"
	                       " WHERE end_ns IS NULL AND dead <> 1",
	                       &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		shfs_buf_printf(out, "\n%s\n", shfs_rows_text(rows, 0));
		r = 0;
	}
	return r ? r : out->failed ? -ENOMEM : 0;
}

static bool is_alive(const struct shfs_buf *alive, const char *host,
                     const struct shfs_rec_producer *producer)
{
	_cleanup_buf_ struct shfs_buf line = { 0 };

	shfs_buf_printf(&line, "\n%s ", host);
	shfs_buf_add(&line, producer->boot_id.data, producer->boot_id.len);
	shfs_buf_printf(&line, " %" PRIu64 " ", (uint64_t)producer->pid);
	shfs_buf_add(&line, producer->kind.data, producer->kind.len);
	shfs_buf_char(&line, ' ');
	shfs_buf_add(&line, producer->root.data, producer->root.len);
	shfs_buf_char(&line, '\n');
	return !line.failed && alive->len &&
	       memmem(alive->data, alive->len, line.data, line.len);
}

struct aliveness {
	struct push *push;
	struct shfs_buf alive;
};

static int note_alive(const struct shfs_journal_file *f, void *arg)
{
	struct aliveness *a = arg;
	struct shfs_segment *segment;

	if (f->sealed || !own_has_file(a->push->own, f->host, f->name) ||
	    shfs_segment_open(f->dirfd, f->name, 0, &segment))
		return 0;
	if (is_alive(&a->alive, f->host, shfs_segment_producer(segment)))
		shfs_buf_printf(&a->push->u.made_alive, "%s/%s\n", f->host, f->name);
	shfs_segment_close(segment);
	return 0;
}

static int make_alive(struct push *p)
{
	struct aliveness a = { .push = p };
	int r;

	p->u.made_alive.len = 0;
	r = find_alive(p, &a.alive);
	if (!r && a.alive.len)
		r = shfs_journal_walk(p->u.store, SHFS_JOURNAL_SEGMENTS, note_alive, &a);
	shfs_buf_free(&a.alive);
	return r || !p->u.made_alive.len
	               ? r
	               : add_made_file(p, "made/alive", &p->u.made_alive);
}

/* --- the push --- */

/* Lists all files. The journal comes first: what it names by then is in the packs. */
static int list_files(struct push *p)
{
	struct remote_head head = p->u.now.head;
	int r;

	manifest_clear(&p->u.now);
	p->u.now.head = head;
	p->u.all_bytes = p->u.done_bytes = 0;
	r = make_alive(p);
	if (!r)
		r = shfs_journal_walk(p->u.store, SHFS_JOURNAL_ALL, add_journal_file, p);
	if (!r)
		r = add_objects(p);
	if (!r)
		r = add_away(p);
	if (!r)
		r = add_store_files(p);
	if (!r)
		r = make_trees(p);
	manifest_sort(&p->u.now);
	return r;
}

static int put_lists(struct push *p)
{
	struct manifest *m = &p->u.now;
	int r = 0;

	for (size_t next = 0; next < m->n && !r;) {
		_cleanup_buf_ struct shfs_buf text = { 0 };
		struct list_ref list = { 0 };

		list_print(m, &next, &text);
		if (text.failed || !MAKE_ROOM(m->lists, m->n_lists, m->cap_lists))
			return -ENOMEM;
		if (text.len > LIST_MAX)
			return -EFBIG;
		list.bytes = (uint32_t)text.len;
		shfs_sha256_of(text.data, text.len, list.sha);
		r = upload_blob(&p->u, text.data, text.len, list.sha, list.blob);
		m->lists[m->n_lists++] = list;
	}
	return r;
}

/* Does the remote have all of it already? */
static bool is_known(const struct push *p)
{
	const struct manifest *old = &p->u.old, *now = &p->u.now;

	if (old->n_lists != now->n_lists || old->head.rewrites != now->head.rewrites ||
	    p->u.bad.set || p->u.looks)
		return false;
	for (size_t i = 0; i < now->n_lists; i++)
		if (strcmp(old->lists[i].sha, now->lists[i].sha) != 0)
			return false;
	return true;
}

static int put_head(struct push *p)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	char name[REMOTE_NAME_SIZE], line[SHFS_SHA256_SIZE + 8] = "head ";
	int r;

	head_print(&p->u.now, &text);
	if (text.failed)
		return -ENOMEM;
	if (text.len > HEAD_MAX)
		return -EFBIG;
	shfs_sha256_of(text.data, text.len, line + 5);
	r = place_add_line(p->u.place, "unfinished", line);
	head_name(p->u.now.head.store_id, p->u.now.head.generation, name);
	if (!r)
		r = shfs_remote_put(p->u.remote, name, text.data, text.len);
	return r == -EEXIST ? -ESTALE : r;
}

static int note_orphan(void *arg, const char *name, uint64_t bytes)
{
	struct push *p = arg;
	const char *blob = blob_parse_name(p->u.now.head.store_id, name);

	return !blob || blobs_add(&p->garbage, blob) ? 0 : -ENOMEM;
}

/* Finds what pushes have left of which nothing is noted. */
static int find_orphans(struct push *p)
{
	char dir[REMOTE_NAME_SIZE];
	int r;

	snprintf(dir, sizeof(dir), REMOTE_DATA "/%s", p->u.now.head.store_id);
	r = shfs_remote_sweep(p->u.remote, dir);
	return r ? r : shfs_remote_list(p->u.remote, dir, note_orphan, p);
}

/* Removes what no head of this store needs any more. */
static int remove_garbage(struct push *p)
{
	_cleanup_blobs_ struct blobs needed = { 0 };
	char name[REMOTE_NAME_SIZE];
	int r = blobs_add_all(&needed, &p->u.now);

	if (!r && p->u.looks)
		r = find_orphans(p);
	for (struct blob *b = p->garbage.set; b && !r; b = b->hh.next) {
		if (blobs_find(&needed, b->name))
			continue;
		blob_name(p->u.now.head.store_id, b->name, name);
		r = shfs_remote_remove(p->u.remote, name);
		p->u.stats.removed += !r;
	}
	for (size_t i = 0; i < p->heads.n_old && !r; i++) {
		const struct head_ref *old = &p->heads.old[i];

		if (strcmp(old->store_id, p->u.now.head.store_id) != 0 ||
		    old->generation + HEADS_KEPT >= p->u.now.head.generation)
			continue;
		head_name(old->store_id, old->generation, name);
		r = shfs_remote_remove(p->u.remote, name);
	}
	return r;
}

static bool is_at(const struct remote_file *a, const struct remote_file *b)
{
	for (size_t i = 0; i < a->n; i++)
		if (a->pieces[i].at != b->pieces[i].at ||
		    strcmp(a->pieces[i].blob, b->pieces[i].blob) != 0)
			return false;
	return true;
}

/* Notes where what is only there lies by now: its parcels may have been made anew. */
static int note_away(struct push *p)
{
	_cleanup_manifest_ struct manifest now = { .head = p->u.now.head };
	bool moved = false;
	int r = 0;

	for (size_t i = 0; i < p->u.away.n && !r; i++) {
		const struct remote_file *was = &p->u.away.files[i],
					 *is = manifest_find(&p->u.now, was->name);

		r = is && manifest_add_copy(&now, is) ? 0 : -ENOMEM;
		moved |= !r && !is_at(was, is);
	}
	return r || !moved ? r
	                   : elsewhere_change(p->u.place, now.head.store_id, &now, -1);
}

/* The head is put: what is left may be done by the next push. */
static int finish(struct push *p)
{
	int r = note_away(p);

	if (!r)
		r = remove_garbage(p);
	if (!r)
		r = place_write(p->u.place, "pushed", &p->u.now);
	if (!r)
		r = place_remove_file(p->u.place, "bad");
	if (!r)
		r = place_remove_file(p->u.place, "unfinished");
	return r;
}

static void count_files(struct push *p)
{
	const struct manifest *now = &p->u.now;

	for (size_t i = 0; i < now->n; i++) {
		const struct remote_file *old =
			manifest_find(&p->u.old, now->files[i].name);

		/* what is made for the remote is no file of the store */
		if (!file_path(now->files[i].name, file_kind_of(now->files[i].name)))
			continue;
		p->u.stats.files++;
		p->u.stats.files_new += !old || !remote_file_equal(old, &now->files[i]);
	}
}

/* Has the store nothing that a remote could keep, and was nothing of it pushed? */
static bool is_empty(const struct push *p)
{
	if (p->u.old.head.generation || p->u.looks || p->u.options->at_end)
		return false;
	for (size_t i = 0; i < p->u.now.n; i++) {
		const char *name = p->u.now.files[i].name;
		const enum file_kind kind = file_kind_of(name);

		if (kind == FILE_SEGMENT || kind == FILE_HOOK_LOG || kind == FILE_PACK ||
		    kind == FILE_LOOSE || !strcmp(name, "store/projects"))
			return false;
	}
	return true;
}

static int put_all(struct push *p)
{
	int r = -EAGAIN;

	for (int i = 0; i < TRIES && r == -EAGAIN; i++) {
		r = list_files(p);
		if (!r && is_empty(p)) {
			p->u.stats.nothing_new = true;
			return 0;
		}
		if (!r)
			r = upload_files(&p->u);
	}
	if (!r)
		r = put_lists(p);
	if (r)
		return r;
	count_files(p);
	p->u.stats.nothing_new = is_known(p);
	if (p->u.stats.nothing_new)
		p->u.stats.generation = p->u.old.head.generation;
	if (p->u.options->dry_run)
		return 0;
	if (p->u.stats.nothing_new) {
		/* with the states of files that were read in vain */
		p->u.now.head = p->u.old.head;
		r = note_away(p);
		return r ? r : place_write(p->u.place, "pushed", &p->u.now);
	}
	p->u.stats.generation = p->u.now.head.generation;
	r = put_head(p);
	return r ? r : finish(p);
}

/* Fills in the new head, but for its generation. */
static int begin_head(struct push *p)
{
	_cleanup_(shfs_tree_identity_clear) struct shfs_tree_identity here = { 0 };
	struct remote_head *head = &p->u.now.head;
	int r = shfs_trees_load(p->u.store, &p->trees);

	if (!r)
		r = shfs_trees_settle(p->u.store, p->trees);
	if (!r)
		r = shfs_trees_here(p->trees, &here);
	if (r)
		return r;
	if (!store_id_is_valid(here.store))
		return -EBADMSG;
	memcpy(head->store_id, here.store, STORE_ID_SIZE);
	snprintf(head->host, sizeof(head->host), "%s", p->u.store->host);
	head->time_ns = shfs_clock_ns(CLOCK_REALTIME);
	return 0;
}

/* Finds what is only on the remote. */
static int find_away(struct push *p)
{
	const char *store_id = p->u.now.head.store_id;
	_cleanup_close_ int lists = -1;
	int r = elsewhere_read(p->u.place, store_id, &p->u.away);

	if (r || !p->u.away.n)
		return r;
	lists = elsewhere_lists(p->u.place, store_id);
	r = lists < 0 ? lists : elsewhere_objects(lists, &p->u.away, &p->there);
	shfs_objects_sort(&p->there);
	return r ? r : elsewhere_bases(lists, &p->u.away, &p->there, &p->bases);
}

static int begin(struct push *p)
{
	int r = lease_gate_shut(p->u.store, &p->gate);

	if (r)
		return r;
	p->gated = true;
	r = shfs_store_share(p->u.store, 0);
	if (r)
		return r;
	p->shared = true;
	r = shfs_forget_pending(p->u.store);
	if (r)
		return r > 0 ? -EINPROGRESS : r;
	r = remote_look(p->u.remote);
	if (!r)
		r = begin_head(p);
	if (!r)
		r = find_away(p);
	if (!r)
		r = read_notes(p);
	if (!r)
		r = find_old(p);
	if (r)
		return r;
	r = own_find(p->u.store, p->u.options->dry_run, &p->there, &p->bases, &p->own);
	if (!r)
		p->u.stats.elsewhere = own_elsewhere(p->own);
	return r;
}

/* In the developer build, a test does something meanwhile: until it closes a pipe. */
static void wait_for_test(void)
{
#ifdef SHFS_ASSERTS
	const char *pipe = getenv("SHFS_PUSH_WAITS");
	_cleanup_close_ int fd = pipe ? open(pipe, O_RDONLY | O_CLOEXEC) : -1;
	char byte;

	while (fd >= 0 && read(fd, &byte, 1) > 0)
		;
#endif
}

/* Before the gate is shut, as it may put contents into the store. */
static int remove_forgotten(struct push *p)
{
	int r = begin_head(p);

	if (!r)
		r = forgotten_remove(&p->u);
	shfs_trees_free(TAKE_PTR(p->trees));
	return r;
}

/* *again: something was forgotten or pruned meanwhile, and nothing is done yet. */
static int push_once(struct push *p, bool *again)
{
	int r = p->u.options->dry_run ? 0 : remove_forgotten(p), begun;

	wait_for_test();
	begun = begin(p);
	r = begun ?: r;
	if (!r && p->u.away.n && !p->u.options->dry_run)
		r = forgotten_any(&p->u); /* nothing can be forgotten by now */
	*again = r > 0;
	if (r)
		return MIN(r, 0);
	r = put_all(p);
	return r || !p->u.options->at_end
	               ? r
	               : p->u.options->at_end(&p->u, p->u.options->arg);
}

int push_run(struct shfs_index *index, struct place *place, struct shfs_remote *remote,
             const struct push_options *options, struct push_stats *stats)
{
	bool again = true;
	int r = 0;

	for (int i = 0; i < TRIES && again; i++) {
		_cleanup_(push_clear) struct push p = {
			.u = { .store = place->store,
			       .place = place,
			       .remote = remote,
			       .options = options },
			.index = index,
		};

		r = push_once(&p, &again);
		*stats = p.u.stats;
	}
	return again ? -EAGAIN : r;
}
