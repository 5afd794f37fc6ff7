/* SPDX-License-Identifier: MIT */
#include "store/care/import.h"

#include "common/io.h"
#include "common/proc.h"
#include "store/care/forget-plan.h"
#include "store/care/forget.h"
#include "store/care/learn.h"
#include "store/index-dir.h"
#include "store/index/internal.h"
#include "store/journal/archived.h"
#include "store/journal/hooklog.h"
#include "store/journal/journal.h"
#include "store/journal/rewrite.h"
#include "store/objects/away.h"
#include "store/objects/collect.h"
#include "store/objects/lease.h"
#include "store/objects/object.h"
#include "store/objects/pruned.h"
#include "store/trees.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BATCH_MAX   256
#define BATCH_BYTES (16u << 20)
#define LEVEL       3 /* of zstd */
#define LOG_MAX     INT32_MAX
#define BOOTS_MAX   10000
#define LOG_SUFFIX  ".new"

/* A file that is staged, by shfs_rewrite_save or stage_log: it lies beside the one that
 * it is to replace. */
struct staged {
	char *host, *name;
	bool hook_log, known; /* known: it has nothing new */
	bool alive;           /* its recording had not ended */
	bool replaces;        /* the hook log here */
	bool has_archived;    /* archived is set */
	struct archived archived;
};

/* A boot that recorded files of the archive. */
struct boot {
	char host[65], id[64];
};

struct shfs_import {
	struct shfs_store *store;
	struct lease_gate gate; /* held until the journal names the put objects */
	bool dry_run;
	bool has_pruned, has_alive;
	bool alone; /* the store is locked: nobody records into it */
	bool trees_changed;
	bool replaces, leaves_index, learns_nothing;
	struct staged *files;
	size_t n_files, cap_files;
	struct boot *boots;
	size_t n_boots, cap_boots, n_placed;
	struct shfs_trees *listed; /* the archive's list; NULL: it has none */
	struct shfs_trees *trees;  /* of the store */
	struct shfs_objects came, named, pruned;
	struct learning learning;
	struct shfs_put *puts[BATCH_MAX];
	struct shfs_object_id put_ids[BATCH_MAX]; /* their names in the archive */
	size_t n_puts, put_bytes;
	struct shfs_import_stats stats;
};

/* --- begin and end --- */

int shfs_import_new(struct shfs_store *store, bool dry_run, struct shfs_import **out)
{
	struct shfs_import *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return -ENOMEM;
	m->store = m->learning.store = store;
	m->dry_run = dry_run;
	r = lease_gate_shut(store, &m->gate);
	if (!r)
		r = shfs_store_share(store, 0);
	if (!r)
		r = shfs_forget_pending(store) ? -EBUSY : forget_plan_clear(store);
	if (!r)
		r = pruned_look(store);
	/* before there are files of other hosts, which are no records of an earlier
	 * version */
	if (!r)
		r = shfs_trees_load(store, &m->trees);
	if (r) {
		shfs_import_free(m);
		return r;
	}
	*out = m;
	return 0;
}

static void staged_name(const struct staged *f, char out[static 300])
{
	snprintf(out, 300, "%s%s", f->name,
	         f->hook_log ? LOG_SUFFIX : SHFS_REWRITE_SUFFIX);
}

static void unstage(struct shfs_import *m, const struct staged *f)
{
	_cleanup_close_ int dirfd = forget_open_host(m->store, f->host);
	char name[300];

	staged_name(f, name);
	if (dirfd >= 0)
		unlinkat(dirfd, name, 0);
}

void shfs_import_free(struct shfs_import *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->n_files; i++) {
		unstage(m, &m->files[i]);
		free(m->files[i].host);
		free(m->files[i].name);
	}
	for (size_t i = 0; i < m->n_puts; i++)
		shfs_put_free(m->puts[i]);
	free(m->boots);
	learning_clear(&m->learning);
	shfs_trees_free(m->listed);
	shfs_trees_free(m->trees);
	free(m->files);
	shfs_objects_free(&m->came);
	shfs_objects_free(&m->named);
	shfs_objects_free(&m->pruned);
	lease_gate_close(&m->gate);
	free(m);
}

/* --- objects --- */

int shfs_import_commit(struct shfs_import *m)
{
	int r = m->n_puts && !m->dry_run
	                ? shfs_object_commit(m->store, m->puts, m->n_puts)
	                : 0;

	for (size_t i = 0; i < m->n_puts; i++) {
		struct shfs_object_id id = shfs_put_id(m->puts[i]);
		uint64_t bytes = shfs_put_stored_bytes(m->puts[i]);

		if (!r && !m->dry_run && shfs_object_compare(&id, &m->put_ids[i]))
			r = -EEXIST;
		m->stats.objects_known += !bytes && !m->dry_run;
		m->stats.bytes += bytes;
		shfs_put_free(m->puts[i]);
	}
	m->n_puts = m->put_bytes = 0;
	return r;
}

int shfs_import_object(struct shfs_import *m, const char *name, const void *data,
                       size_t len, const struct shfs_object_id *before)
{
	struct shfs_object_id id, is;
	struct shfs_put *put;
	int r = shfs_object_parse(name, &id);

	if (!r)
		r = shfs_object_put(m->store, data, len, LEVEL, before, &put);
	if (r)
		return r;
	is = shfs_put_id(put);
	m->put_ids[m->n_puts] = id;
	m->puts[m->n_puts++] = put;
	m->put_bytes += len;
	m->stats.objects++;
	if (memcmp(is.hash, id.hash, sizeof(id.hash)))
		return -EBADMSG;
	r = learning_object(&m->learning, &id, data, len);
	if (!r)
		r = shfs_objects_add(&m->came, &id);
	if (!r && (m->n_puts == BATCH_MAX || m->put_bytes >= BATCH_BYTES))
		r = shfs_import_commit(m);
	return r;
}

/* Does the store have this object? Its bytes are not read. */
static bool is_object_there(struct shfs_import *m, const struct shfs_object_id *id)
{
	_cleanup_buf_ struct shfs_buf none = { 0 };
	int r = shfs_object_read(m->store, id, 0, &none);

	return !r || r == -EFBIG;
}

int shfs_import_pruned(struct shfs_import *m, const void *data, size_t len)
{
	if (m->has_pruned)
		return -EEXIST;
	m->has_pruned = true;
	shfs_objects_sort(&m->named);
	return pruned_parse(data, len, &m->named, &m->pruned);
}

/* Counts the missing objects that the archive names. Those that the archive has as pruned
 * are not lost: m->pruned becomes the ones that are new here. */
static int count_missing_objects(struct shfs_import *m)
{
	struct shfs_objects pruned = { 0 };
	int r = 0;

	shfs_objects_sort(&m->came);
	shfs_objects_sort(&m->named);
	for (size_t i = 0; i < m->named.n && !r; i++) {
		const struct shfs_object_id *id = &m->named.ids[i];

		if (shfs_objects_has(&m->came, id) || is_object_there(m, id) ||
		    shfs_object_is_pruned(m->store, id) > 0 ||
		    shfs_object_is_away(m->store, id) > 0)
			continue;
		if (shfs_objects_has(&m->pruned, id))
			r = shfs_objects_add(&pruned, id);
		else
			m->stats.missing++;
	}
	shfs_objects_free(&m->pruned);
	m->pruned = pruned;
	return r;
}

/* --- trees --- */

int shfs_import_trees(struct shfs_import *m, const char *text, size_t len)
{
	return m->listed ? -EEXIST : shfs_trees_parse(text, len, &m->listed);
}

/* Hex digits and dashes, as the kernel writes it. */
static bool is_boot_id(struct shfs_bytes id)
{
	for (size_t i = 0; i < id.len; i++)
		if (!isxdigit((unsigned char)id.data[i]) && id.data[i] != '-')
			return false;
	return id.len && id.len < sizeof(((struct boot *)0)->id);
}

/* Notes the boot that recorded a file. */
static int note_boot(struct shfs_import *m, const char *host, struct shfs_bytes id)
{
	struct boot boot = { 0 };

	if (!is_boot_id(id))
		return -EBADMSG;
	strcpy(boot.host, host); /* shfs_journal_is_host */
	memcpy(boot.id, id.data, id.len);
	for (size_t i = 0; i < m->n_boots; i++)
		if (!memcmp(&m->boots[i], &boot, sizeof(boot)))
			return 0;
	if (m->n_boots == BOOTS_MAX)
		return -EFBIG;
	if (!MAKE_ROOM(m->boots, m->n_boots, m->cap_boots))
		return -ENOMEM;
	m->boots[m->n_boots++] = boot;
	return 0;
}

/* Is the file of the boot? Its name has the first digits, behind the kind. */
static int is_of_boot(const struct shfs_journal_file *file, void *arg)
{
	const struct boot *boot = arg;
	const char *dash = strchr(file->name, '-');

	return dash && !strcmp(file->host, boot->host) &&
	       !strncmp(dash + 1, boot->id, SHFS_JOURNAL_BOOT_DIGITS);
}

/* Is it the one that runs? Then the machine is this one, even if it has no id. 1, 0, or a
 * negative errno. */
static int is_this_boot(const struct shfs_store *store, const struct boot *boot)
{
	char id[37];
	int r = strcmp(boot->host, store->host) ? 0 : shfs_proc_boot_id(id) ?: 1;

	return r > 0 ? !strcmp(boot->id, id) : r;
}

/* Decides whose tree a boot is of. What the journal has of it is of this one. */
static int place_boot(struct shfs_import *m, struct boot *boot)
{
	struct shfs_bytes id = shfs_bytes_str(boot->id),
			  host = shfs_bytes_str(boot->host);
	struct shfs_tree_identity by_host = { .store = "-",
		                              .machine = "-",
		                              .home = (char *)"" };
	const struct shfs_tree_identity *identity = &by_host;
	const char *name = shfs_trees_of_boot(m->trees, host, id);
	int r;

	if (!name) {
		r = is_this_boot(m->store, boot);
		if (r)
			return MIN(r, 0);
		strcpy(by_host.host, boot->host);
		if (m->listed)
			identity = shfs_trees_identity(m->listed, host, id);
		if (!identity)
			return -EBADMSG;
		r = shfs_journal_walk(m->store, SHFS_JOURNAL_ALL, is_of_boot, boot);
		if (r)
			return MIN(r, 0);
		r = shfs_trees_add(m->trees, identity, &name);
		if (!r && name)
			r = shfs_trees_add_boot(m->trees, boot->host, boot->id, name);
		m->trees_changed |= !r && name;
		if (r || !name)
			return r;
	}
	if (!*m->stats.tree)
		snprintf(m->stats.tree, sizeof(m->stats.tree), "%s", name);
	m->stats.several_trees |= strcmp(m->stats.tree, name) != 0;
	return 0;
}

int shfs_import_place(struct shfs_import *m, const struct shfs_trees **trees)
{
	int r = 0;

	for (; m->n_placed < m->n_boots && !r; m->n_placed++)
		r = place_boot(m, &m->boots[m->n_placed]);
	if (!r && trees)
		*trees = m->trees;
	return r;
}

int shfs_import_map(struct shfs_import *m, const char *tree, const char *from,
                    const char *to, bool unmap)
{
	int r = shfs_import_place(m, NULL);

	if (!r)
		r = unmap ? shfs_trees_unmap(m->trees, tree, from, to)
		          : shfs_trees_map(m->trees, tree, from, to);
	m->trees_changed |= !r;
	return r;
}

/* Writes whose the files are, before any of them is in the journal. */
static int save_trees(struct shfs_import *m)
{
	int r = shfs_import_place(m, NULL);

	return r || !m->trees_changed || m->dry_run ? r
	                                            : shfs_trees_save(m->store, m->trees);
}

/* --- segments --- */

/* Two segments with the same name and instance, by one writer. */
struct merge {
	struct shfs_import *import;
	struct shfs_segment *here, *there;
	struct shfs_record ours, theirs;
	int has_ours, has_theirs; /* 1; 0: no more */
	uint64_t last_seq;        /* of the other segment */
	bool brings;              /* it has something that is not here */
	struct shfs_rewrite *out;
};

static int next_ours(struct merge *m)
{
	return m->has_ours = m->here ? shfs_segment_next(m->here, &m->ours) : 0;
}

static int next_theirs(struct merge *m)
{
	m->has_theirs = shfs_segment_next(m->there, &m->theirs);
	if (m->has_theirs > 0)
		m->last_seq = MAX(m->last_seq, m->theirs.seq);
	return m->has_theirs > 0 ? shfs_objects_add_of(&m->import->named, &m->theirs)
	                         : m->has_theirs;
}

/* Has a more than b? A PREIMAGE that replaced a forgotten record has less than that. */
static bool tells_more(const struct shfs_record *a, const struct shfs_record *b)
{
	return a->type != SHFS_REC_PREIMAGE && b->type == SHFS_REC_PREIMAGE;
}

static int64_t compare_records(const struct shfs_record *a, const struct shfs_record *b)
{
	if (a->type == SHFS_REC_PRODUCER || b->type == SHFS_REC_PRODUCER)
		return (b->type == SHFS_REC_PRODUCER) - (a->type == SHFS_REC_PRODUCER);
	return (a->seq > b->seq) - (a->seq < b->seq);
}

static int merge_step(struct merge *m)
{
	int64_t first = !m->has_ours     ? 1
	                : !m->has_theirs ? -1
	                                 : compare_records(&m->ours, &m->theirs);
	bool theirs = first > 0 || (!first && tells_more(&m->theirs, &m->ours));
	struct shfs_record *rec = theirs ? &m->theirs : &m->ours;
	int r = first || theirs || m->import->learns_nothing
	                ? 0
	                : learning_record(&m->import->learning,
	                                  shfs_segment_producer(m->here), &m->ours,
	                                  &m->theirs);

	if (r < 0)
		return r;
	m->brings |= theirs || r;
	if (rec->type == SHFS_REC_PRODUCER)
		rec->producer.version = SHFS_RECORD_VERSION;
	r = shfs_rewrite_add(m->out, rec);
	if (!r && first <= 0)
		r = next_ours(m);
	if (r >= 0 && first >= 0)
		r = next_theirs(m);
	return MIN(r, 0);
}

static int merge_all(struct merge *m)
{
	int r = next_ours(m);

	if (r >= 0)
		r = next_theirs(m);
	while (r >= 0 && (m->has_ours > 0 || m->has_theirs > 0))
		r = merge_step(m);
	return r >= 0 && shfs_segment_damaged(m->there) ? -EBADMSG : MIN(r, 0);
}

static bool is_same_instance(const struct merge *m)
{
	const struct shfs_rec_producer *a = shfs_segment_producer(m->here),
				       *b = shfs_segment_producer(m->there);

	return a->instance.len == b->instance.len &&
	       !memcmp(a->instance.data, b->instance.data, a->instance.len) &&
	       a->segment == b->segment;
}

/* Stages the merged segment. A segment here must not grow while it is replaced, so the
 * store is locked. */
static int stage_segment(struct merge *m, int dirfd, struct staged *f)
{
	struct shfs_import *import = m->import;
	int r = 0;

	f->known = !m->brings;
	if (f->known)
		return 0;
	if (m->here && !import->alone && !import->dry_run) {
		r = shfs_store_exclude(import->store);
		import->alone = !r;
		return r ? r : 1; /* the caller reads it again */
	}
	return shfs_rewrite_save(m->out, dirfd, f->name);
}

static int merge_segment(struct shfs_import *import, int dirfd, struct staged *f,
                         const void *data, size_t len, bool sealed)
{
	struct merge m = { .import = import };
	int r = forget_open_segment(dirfd, f->name, &m.here);

	if (r == 1) /* there is no segment here, or it cannot be read */
		m.here = NULL;
	if (r >= 0)
		r = sealed ? shfs_segment_from_sealed(data, len, &m.there)
		           : shfs_segment_from_memory(data, len, &m.there);
	if (!r && m.here && !is_same_instance(&m))
		r = -EBADMSG;
	if (!r && import->replaces) {
		shfs_segment_close(m.here);
		m.here = NULL;
	}
	if (!r)
		r = shfs_rewrite_new(&m.out);
	if (!r)
		r = merge_all(&m);
	if (!r)
		f->has_archived = !archived_set(&f->archived, f->host,
		                                shfs_segment_producer(m.there)->instance,
		                                m.last_seq);
	if (!r)
		r = note_boot(import, f->host, shfs_segment_producer(m.there)->boot_id);
	if (!r)
		r = stage_segment(&m, dirfd, f);
	shfs_segment_close(m.here);
	shfs_segment_close(m.there);
	shfs_rewrite_free(m.out);
	return r;
}

/* --- hook logs --- */

static int stage_log(struct shfs_import *m, int dirfd, struct staged *f, const void *data,
                     size_t len)
{
	struct shfs_hooklog *log;
	struct shfs_record rec;
	bool is_valid = !len; /* damage is fine beside a valid record */
	char name[300];
	int r = shfs_hooklog_from_memory(data, len, &log);

	if (r)
		return r;
	while ((r = shfs_hooklog_next(log, &rec)) > 0) {
		is_valid = true;
		r = rec.type == SHFS_REC_SESSION
		            ? note_boot(m, f->host, rec.session.boot_id)
		            : 0;
		if (r)
			break;
	}
	if (!r && !is_valid)
		r = -EBADMSG;
	shfs_hooklog_close(log);
	staged_name(f, name);
	return r ? r : shfs_write_file_at(dirfd, name, 0600, data, len);
}

/* Returns the end of the record that begins at p; NULL: there is none. */
static const char *end_of_log_record(const char *p, const char *end)
{
	const char *next =
		p < end && *p == '\x1e' ? memmem(p + 1, end - p - 1, "\n\x1e", 2) : NULL;

	if (next)
		return next + 1;
	return p < end && *p == '\x1e' && end[-1] == '\n' ? end : NULL;
}

/* Fills the blanks of a with the bytes that b has there. */
static void fill_blanks(struct shfs_buf *a, const struct shfs_buf *b)
{
	size_t len = MIN(a->len, b->len);

	for (size_t i = 0; i < len;) {
		const char *end = end_of_log_record(a->data + i, a->data + len);
		size_t n = end ? (size_t)(end - a->data) - i : 1;

		if (end && shfs_hooklog_is_blank(a->data + i, n) &&
		    b->data[i] == '\x1e' && b->data[i + n - 1] == '\n')
			memcpy(a->data + i, b->data + i, n);
		i += n;
	}
}

/* Writes the bytes into the log itself, not a new file: a shell may have it open. */
static int fill_log(int dirfd, const char *name, const struct shfs_buf *all)
{
	_cleanup_close_ int fd =
		openat(dirfd, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	for (size_t done = 0; fd >= 0 && done < all->len;) {
		ssize_t n = pwrite(fd, all->data + done, all->len - done, (off_t)done);

		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return fd < 0 || fdatasync(fd) ? -errno : 0;
}

/* Merges a hook log. try: only checks whether that is possible. */
static int merge_log(int dirfd, struct staged *f, bool try)
{
	_cleanup_buf_ struct shfs_buf ours = { 0 }, theirs = { 0 }, all = { 0 };
	char name[300];
	int r = shfs_read_file_at(dirfd, f->name, LOG_MAX, &ours);

	staged_name(f, name);
	if ((r == -ENOENT || f->replaces) && try)
		return 0;
	if (r == -ENOENT || f->replaces)
		return renameat(dirfd, name, dirfd, f->name) || fsync(dirfd) ? -errno : 0;
	if (!r)
		r = shfs_read_file_at(dirfd, name, LOG_MAX, &theirs);
	if (r)
		return r;
	shfs_buf_add(&all, ours.data, ours.len);
	fill_blanks(&all, &theirs);
	fill_blanks(&theirs, &ours);
	if (theirs.len > all.len)
		shfs_buf_add(&all, theirs.data + all.len, theirs.len - all.len);
	if (all.failed)
		return -ENOMEM;
	if (memcmp(all.data, theirs.data, theirs.len))
		return -EILSEQ;
	f->known = all.len == ours.len && !memcmp(all.data, ours.data, all.len);
	return f->known || try ? 0 : fill_log(dirfd, f->name, &all);
}

/* --- files --- */

static bool is_safe_name(const char *name)
{
	return *name && *name != '.' && strlen(name) <= 200 &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	                    "0123456789-_.") == strlen(name);
}

/* Notes a file of the archive. -EEXIST: it came before. */
static int file_new(struct shfs_import *m, const char *host, const char *name,
                    struct staged **out)
{
	struct staged *f;

	for (size_t i = 0; i < m->n_files; i++)
		if (!strcmp(m->files[i].name, name) && !strcmp(m->files[i].host, host))
			return -EEXIST;
	if (!MAKE_ROOM(m->files, m->n_files, m->cap_files))
		return -ENOMEM;
	f = &m->files[m->n_files];
	*f = (struct staged){ .host = strdup(host),
		              .name = strdup(name),
		              .hook_log = shfs_ends_with(name, ".log") };
	m->n_files++;
	*out = f;
	return f->host && f->name ? 0 : -ENOMEM;
}

static int open_host(struct shfs_import *m, const char *host)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };
	int r;

	shfs_buf_printf(&path, "journal/%s", host);
	if (path.failed)
		return -ENOMEM;
	r = shfs_mkdir_p_at(m->store->dirfd, path.data, 0700);
	return r ? r : forget_open_host(m->store, host);
}

int shfs_import_file(struct shfs_import *m, const char *host, const char *name,
                     const void *data, size_t len)
{
	const bool sealed = shfs_ends_with(name, ".seg.zst");
	_cleanup_free_ char *whole = strndup(name, strlen(name) - (sealed ? 4 : 0));
	_cleanup_close_ int dirfd = -1;
	struct staged *f;
	int r;

	if (!whole)
		return -ENOMEM;
	if (!shfs_journal_is_host(host) || !is_safe_name(whole) ||
	    !(shfs_ends_with(whole, ".seg") || shfs_ends_with(whole, ".log")))
		return -EINVAL;
	r = file_new(m, host, whole, &f);
	if (r)
		return r;
	f->replaces = m->replaces;
	dirfd = open_host(m, host);
	if (dirfd < 0)
		return dirfd;
	if (f->hook_log)
		return stage_log(m, dirfd, f, data, len);
	r = merge_segment(m, dirfd, f, data, len, sealed);
	return r > 0 ? merge_segment(m, dirfd, f, data, len, sealed) : r;
}

void shfs_import_replace(struct shfs_import *m, bool replaces)
{
	m->replaces = replaces;
}

void shfs_import_leave_index(struct shfs_import *m)
{
	m->leaves_index = true;
}

void shfs_import_learn_nothing(struct shfs_import *m)
{
	m->learns_nothing = true;
}

/* --- recordings that had not ended --- */

static int find_alive(struct shfs_import *m, const char *line, size_t len)
{
	for (size_t i = 0; i < m->n_files; i++) {
		struct staged *f = &m->files[i];
		size_t host = strlen(f->host);

		if (!f->hook_log && len == host + 1 + strlen(f->name) &&
		    !strncmp(line, f->host, host) && line[host] == '/' &&
		    !strncmp(line + host + 1, f->name, len - host - 1)) {
			f->alive = true;
			return 0;
		}
	}
	return -EINVAL;
}

int shfs_import_alive(struct shfs_import *m, const char *lines, size_t len)
{
	int r = m->has_alive ? -EEXIST : 0;

	m->has_alive = true;
	for (size_t at = 0; at < len && !r;) {
		const char *end = memchr(lines + at, '\n', len - at);

		if (!end)
			return -EINVAL;
		r = find_alive(m, lines + at, (size_t)(end - lines) - at);
		at = (size_t)(end - lines) + 1;
	}
	return r;
}

/* Adds the archived recordings; the last record of each is in one of its segments. */
static int add_archived(struct shfs_import *m)
{
	_cleanup_free_ struct archived *list = calloc(m->n_files + 1, sizeof(*list));
	size_t n = 0;

	for (size_t i = 0; list && i < m->n_files; i++) {
		const struct staged *f = &m->files[i];
		size_t same = 0;

		if (!f->alive || f->known || !f->has_archived)
			continue;
		while (same < n && (strcmp(list[same].instance, f->archived.instance) ||
		                    strcmp(list[same].host, f->archived.host)))
			same++;
		if (same == n)
			list[n++] = f->archived;
		list[same].seq = MAX(list[same].seq, f->archived.seq);
	}
	m->stats.alive = n;
	if (!list)
		return -ENOMEM;
	return m->dry_run ? 0 : archived_add(m->store, list, n);
}

/* --- installing --- */

static int install(struct shfs_import *m, struct staged *f, bool try)
{
	_cleanup_close_ int dirfd = -1;

	if (f->known || (try && !f->hook_log))
		return 0;
	dirfd = forget_open_host(m->store, f->host);
	if (dirfd < 0)
		return dirfd;
	return f->hook_log ? merge_log(dirfd, f, try)
	                   : shfs_rewrite_install(dirfd, f->name);
}

static int install_all(struct shfs_import *m, bool try)
{
	int r = 0;

	for (size_t i = 0; i < m->n_files && !r; i++)
		r = install(m, &m->files[i], try);
	return r;
}

int shfs_import_finish(struct shfs_import *m, const char *hook_dir,
                       struct shfs_import_stats *stats)
{
	int r = shfs_import_commit(m);

	if (!r)
		r = count_missing_objects(m);
	if (!r)
		r = learning_finish(&m->learning, &m->pruned, &m->stats.completed);
	if (!r)
		r = install_all(m, true);
	if (!r)
		r = save_trees(m);
	if (!r && !m->dry_run && m->pruned.n)
		r = pruned_add(m->store, m->pruned.ids, m->pruned.n);
	if (!r)
		r = add_archived(m);
	if (!r && !m->dry_run)
		r = install_all(m, false);
	for (size_t i = 0; i < m->n_files; i++)
		m->stats.files_known += m->files[i].known;
	m->stats.files = m->n_files;
	if (!r && !m->dry_run && !m->leaves_index &&
	    (m->trees_changed || m->stats.files_known < m->stats.files))
		r = index_dir_announce(m->store)
		            ?: shfs_index_rebuild(m->store, hook_dir, NULL);
	if (!r)
		*stats = m->stats;
	return r;
}
