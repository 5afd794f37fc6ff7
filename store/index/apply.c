/* SPDX-License-Identifier: MIT */
/* Makes rows of the index of a record of a segment. */
#include "store/index/internal.h"

#include "store/objects/object.h"

#include <errno.h>
#include <string.h>

#define PID_MAX_LIMIT 4194304 /* of the kernel */

/* --- the clock --- */

/*
 * Notes the difference of real time and boot time in a record. The real time is read
 * first, so if the writer was held up in between the difference is too small: the largest
 * one of a slot is the best. Written at once: later records are attributed by it.
 */
static int clock_note(struct shfs_ingest *ing, int64_t boot_id, struct shfs_time t)
{
	int64_t slot = t.boot_ns >> 32, offset = t.real_ns - (int64_t)t.boot_ns;

	if (!t.real_ns || !t.boot_ns)
		return 0;
	if (ing->clock_boot_id == boot_id && ing->clock_slot == slot &&
	    ing->clock_offset_ns >= offset)
		return 0;
	ing->clock_boot_id = boot_id;
	ing->clock_slot = slot;
	ing->clock_offset_ns = offset;
	return shfs_sql_run(ing->index,
	                    "INSERT INTO clock (boot_id, slot, offset_ns)"
	                    " VALUES (?, ?, ?) ON CONFLICT DO UPDATE"
	                    " SET offset_ns = max(offset_ns, excluded.offset_ns)",
	                    shfs_arg_int(boot_id), shfs_arg_int(slot),
	                    shfs_arg_int(offset));
}

/* --- accesses --- */

/* An access in the making, and its owner. */
struct use {
	struct shfs_access access;
	struct shfs_process process;
	struct shfs_owner owner;
	uint64_t moment_boot_ns;
};

static void count_content(struct shfs_access *a, const struct shfs_content *c)
{
	a->cut += !!(c->flags & SHFS_CONTENT_SKIPPED & ~SHFS_CONTENT_SKIP_TYPE);
	a->torn += !!(c->flags & SHFS_CONTENT_INCOMPLETE);
}

/* Rounds up to microseconds, so that an event after a moment does not come before it. */
static int64_t us_up(int64_t ns)
{
	return ns / 1000 + (ns % 1000 > 0);
}

static int access_insert(struct shfs_ingest *ing, struct use *u, int64_t begin_ns,
                         int64_t end_ns)
{
	struct shfs_access *a = &u->access;
	int r;

	ing->row = a->access_id;
	a->seq = ++ing->totals.seq;
	a->begin_us = begin_ns / 1000;
	a->end_us = us_up(MAX(begin_ns, end_ns));
	a->moment_us = us_up(shfs_sane_ns(u->moment_boot_ns));
	r = shfs_chunk_add(ing, u->process.process_id, a);
	if (!r)
		r = shfs_file_use_add(ing, (struct shfs_file_use){
						   a->file_id, a->access_id, a->op != 0,
						   a->made_n != 0 });
	if (!r && a->file2_id && a->file2_id != a->file_id)
		r = shfs_file_use_add(ing,
		                      (struct shfs_file_use){ a->file2_id, a->access_id,
		                                              true, a->made_n != 0 });
	if (!r && u->process.owner.shell)
		r = shfs_owner_set_of_shell_access(ing->index, a->access_id, &u->owner);
	ing->stats.accesses += a->op != SHFS_OP_PREIMAGE;
	ing->totals.accesses += a->op != SHFS_OP_PREIMAGE;
	return r;
}

/* Finds the process of an access, its owner, and the access's id. */
static int find_owner(struct shfs_ingest *ing, uint64_t process_seq, struct use *u)
{
	int r = shfs_process_find(ing, process_seq, &u->process);

	if (r > 0)
		r = shfs_process_owner(ing, &u->process, u->moment_boot_ns,
		                       shfs_late_ns(u->access.flags), &u->owner);
	return r < 0 ? r
	             : shfs_chunk_next_id(ing, u->process.process_id,
	                                  &u->access.access_id);
}

/* --- paths --- */

bool shfs_is_plausible_path(struct shfs_bytes p)
{
	size_t start = 0;

	if (p.len > SHFS_RECORD_PATH_MAX)
		return false;
	for (size_t i = 0; p.len && i <= p.len; i++) {
		const char *part = p.data + start;

		if (i < p.len && !p.data[i])
			return false;
		if (i < p.len && p.data[i] != '/')
			continue;
		if (i == start || (i - start == 1 && part[0] == '.') ||
		    (i - start == 2 && part[0] == '.' && part[1] == '.'))
			return false;
		start = i + 1;
	}
	return true;
}

static int get_file_below(struct shfs_ingest *ing, struct shfs_bytes rel,
                          struct shfs_buf *buf, struct shfs_file **out)
{
	const struct shfs_buf *root = &ing->producer.root;

	shfs_buf_set_path(buf, (struct shfs_bytes){ root->data, root->len }, rel);
	if (buf->failed)
		return -ENOMEM;
	return shfs_file_get(ing, (struct shfs_bytes){ buf->data, buf->len }, out);
}

static int get_file_at(struct shfs_ingest *ing, struct shfs_bytes rel,
                       struct shfs_buf *buf, struct shfs_file **out)
{
	return shfs_is_plausible_path(rel) ? get_file_below(ing, rel, buf, out)
	                                   : SHFS_DROPPED;
}

#define NAMED_ALONE (uint32_t)(SHFS_ACCESS_READ | SHFS_ACCESS_NAMED)

/* Gets the file of an access; only one outside of the root has an absolute path. */
static int get_accessed_file(struct shfs_ingest *ing, const struct shfs_rec_access *in,
                             struct shfs_file **out)
{
	struct shfs_bytes path = in->path;

	if (!(in->flags & SHFS_ACCESS_NAMED) || !path.len || path.data[0] != '/')
		return get_file_at(ing, path, &ing->path, out);
	if (in->flags & ~NAMED_ALONE || path.len < 2 ||
	    !shfs_is_plausible_path((struct shfs_bytes){ path.data + 1, path.len - 1 }))
		return SHFS_DROPPED;
	return get_file_below(ing, path, &ing->path, out);
}

/* --- the records of a segment --- */

/* Marks the path as present, unless the use began before the path was removed. */
static void mark_present(struct shfs_ingest *ing, struct shfs_file *f, int64_t begin_ns)
{
	if (f->present || begin_ns <= f->last_ns)
		return;
	f->present = true;
	shfs_file_changed(ing, f);
}

/* Notes that a new file is at the path; the one before it may still be written to. */
static void note_created(struct shfs_ingest *ing, const struct shfs_rec_access *in,
                         struct shfs_file *f)
{
	int64_t begin_ns = shfs_sane_time(in->begin).real_ns;

	if (!(in->flags & SHFS_ACCESS_CREATED) || (!f->versions && !f->last_ns) ||
	    begin_ns <= f->since_ns)
		return;
	f->since_ns = begin_ns;
	shfs_file_changed(ing, f);
}

/* Notes the names of a file. now: the content was looked at when the record was made, or
 * it has not changed since; so it shows whether there are other names still, unless a
 * name came or went meanwhile. */
static int note_links(struct shfs_ingest *ing, struct shfs_file *f,
                      const struct shfs_content *c, bool now, uint64_t dev, uint64_t ino)
{
	bool same = f->ino == ino && f->dev == dev;

	if (c->flags & SHFS_CONTENT_LINKED)
		return shfs_version_linked(ing, f, dev, ino);
	if (same && !(now && c->flags & SHFS_CONTENT_KNOWN &&
	              c->ctime_ns >= f->known.ctime_last_ns))
		return 0;
	return shfs_version_linked(ing, f, 0, 0);
}

#define FLAWED (SHFS_CONTENT_SKIPPED | SHFS_CONTENT_INCOMPLETE)

/* Has the file lost its path to another one (which may be gone, too)? Then its content is
 * no later state of that path. */
static bool is_replaced(const struct shfs_rec_access *in, const struct shfs_file *f)
{
	return in->flags & SHFS_ACCESS_NAMELESS &&
	       (f->present || in->flags & SHFS_ACCESS_REPLACED ||
	        shfs_sane_time(in->begin).real_ns < f->since_ns);
}

/*
 * Sets the version that the access saw: that of the file's name when it was opened, which
 * may be another path by now. As an access has one path, one that also wrote does not get
 * a version of another path.
 */
static int apply_seen(struct shfs_ingest *ing, const struct shfs_rec_access *in,
                      struct shfs_file *f, struct shfs_access *a)
{
	int64_t begin_ns = is_replaced(in, f) ? 0 : shfs_sane_time(in->begin).real_ns;
	struct shfs_content seen = in->seen;
	struct shfs_sight sight;
	int r;

	/* a file outside is not watched: a chmod or a new name is no new version */
	if (in->flags & SHFS_ACCESS_NAMED && f->versions &&
	    shfs_content_is_unchanged(&f->content, &seen)) {
		seen.mtime_ns = f->content.mtime_ns;
		seen.ctime_ns = f->content.ctime_ns;
	}
	r = shfs_version_seen(ing, f, &seen, begin_ns, &sight);

	if (r || (shfs_access_is_written(a) && sight.file_id != f->id))
		return r;
	a->file_id = sight.file_id;
	a->seen_n = sight.n;
	/* for an earlier version this is not known here */
	a->flawed = sight.n && (sight.file_id != f->id || sight.n != f->versions ||
	                        f->content.flags & FLAWED);
	return 0;
}

/* Notes what the file was before it was written; of a new one its directory alone. */
static int note_former(struct shfs_ingest *ing, const struct shfs_rec_access *in,
                       const struct shfs_file *f, int64_t access_id)
{
	struct shfs_former former = { 0 };
	int64_t held = 0;
	int r = 0;

	if (in->directory_mtime_ns) {
		former.flags = SHFS_FORMER_DIRECTORY;
		former.directory_mtime_ns = in->directory_mtime_ns;
	} else if (!(in->flags & SHFS_ACCESS_NAMELESS)) {
		r = shfs_former_of_file(ing, f, &former, &held);
	}
	/* it may be changed by another of its names as well */
	if (in->ino && (in->seen.flags | in->made.flags) & SHFS_CONTENT_LINKED) {
		former.flags |= SHFS_FORMER_NUMBER;
		former.dev = in->dev;
		former.ino = in->ino;
	}
	return r ? r : shfs_former_add(ing, access_id, held, &former);
}

/* Sets the versions that the access saw and left, and notes the file's names. */
static int apply_contents(struct shfs_ingest *ing, const struct shfs_rec_access *in,
                          int64_t told_ns, struct shfs_file *f, struct shfs_access *a)
{
	struct shfs_time begin = shfs_sane_time(in->begin),
			 last = shfs_sane_time(in->last);
	bool written = shfs_access_is_written(a);
	bool nameless = in->flags & SHFS_ACCESS_NAMELESS;
	int64_t last_ns = f->last_ns;
	int r = 0;

	if (!nameless) {
		note_created(ing, in, f);
		mark_present(ing, f, begin.real_ns);
		r = note_links(ing, f, written ? &in->made : &in->seen, written, in->dev,
		               in->ino);
	} else if (!f->last_ns) {
		f->present = false; /* the file never had a name */
		shfs_file_changed(ing, f);
	}
	if (!r && in->flags & SHFS_ACCESS_READ) {
		count_content(a, &in->seen);
		r = apply_seen(ing, in, f, a);
	}
	if (!r && written) {
		count_content(a, &in->made);
		r = note_former(ing, in, f, a->access_id);
	}
	/* a later content of a file that was replaced was never at this path */
	if (!r && written && !is_replaced(in, f))
		r = shfs_version_made(ing, f, &in->made, a->access_id, last.real_ns,
		                      &a->made_n);
	if (nameless)
		f->last_ns = last_ns; /* the path belongs to another file by then */
	else if (a->made_n)           /* others may have written after this access */
		f->last_ns = MAX(f->last_ns, MIN(in->made.ctime_ns, told_ns));
	if (f->last_ns != last_ns)
		shfs_file_changed(ing, f);
	return r;
}

static int apply_access(struct shfs_ingest *ing, const struct shfs_record *rec)
{
	const struct shfs_rec_access *in = &rec->access;
	struct shfs_time begin = shfs_sane_time(in->begin),
			 last = shfs_sane_time(in->last);
	struct use u = { .access.flags = in->flags };
	struct shfs_file *f;
	int r = get_accessed_file(ing, in, &f);

	u.moment_boot_ns =
		shfs_access_is_written(&u.access) ? last.boot_ns : begin.boot_ns;
	if (!r)
		r = find_owner(ing, in->process, &u);
	if (r)
		return r;
	u.access.file_id = f->id;
	r = apply_contents(ing, in, shfs_sane_time(rec->time).real_ns, f, &u.access);
	return r ? r : access_insert(ing, &u, begin.real_ns, rec->time.real_ns);
}

static int apply_preimage(struct shfs_ingest *ing, const struct shfs_record *rec)
{
	const struct shfs_rec_preimage *in = &rec->preimage;
	struct use u = {
		.access.op = SHFS_OP_PREIMAGE,
		.moment_boot_ns = rec->time.boot_ns,
	};
	struct shfs_file *f;
	int r = get_file_at(ing, in->path, &ing->path, &f);

	if (!r)
		r = note_links(ing, f, &in->content, false, in->dev, in->ino);
	if (!r)
		r = shfs_version_now(ing, f, &in->content, rec->time.real_ns,
		                     &u.access.seen_n);
	if (r)
		return r;
	shfs_version_unknown(ing, f); /* the file is about to change */
	count_content(&u.access, &in->content);
	if (!u.access.cut && !u.access.torn)
		return 0;
	u.access.file_id = f->id;
	r = find_owner(ing, in->process, &u);
	return r ? r : access_insert(ing, &u, rec->time.real_ns, 0);
}

/* Returns the ctime that the change has set: that of the record's content, else about the
 * time of the record. */
static int64_t ctime_of_op(const struct shfs_name_change *c)
{
	const struct shfs_content *after = &c->op->content;

	return after->flags & SHFS_CONTENT_KNOWN ? after->ctime_ns : c->real_ns;
}

/* Applies an operation that does not change names. */
static int apply_plain_op(struct shfs_ingest *ing, struct shfs_name_change *c)
{
	struct shfs_file *f = c->file;
	int r = 0;

	f->directory = c->op->directory && c->op->op != SHFS_OP_RMDIR;
	shfs_file_changed(ing, f);
	switch (c->op->op) {
	case SHFS_OP_TRUNCATE:
		r = shfs_former_of_file(ing, f, &c->former, &c->victim);
		if (!r)
			r = note_links(ing, f, &c->op->content, true, c->op->dev,
			               c->op->ino);
		return r ? r
		         : shfs_version_made(ing, f, &c->op->content, c->access_id,
		                             c->real_ns, &c->made);
	case SHFS_OP_MKDIR:
	case SHFS_OP_MKNOD:
		f->directory = c->op->op == SHFS_OP_MKDIR;
		f->present = true;
		f->last_ns = c->real_ns;
		shfs_version_unknown(ing, f);
		return 0;
	case SHFS_OP_RMDIR:
		f->present = false;
		f->last_ns = c->real_ns;
		return 0;
	case SHFS_OP_CHMOD:
	case SHFS_OP_CHOWN:
	case SHFS_OP_UTIMES:
	case SHFS_OP_XATTR:
		r = shfs_version_same(ing, f, &c->op->victim);
		if (!r && c->op->content.flags & SHFS_CONTENT_KNOWN)
			r = note_links(ing, f, &c->op->content, true, c->op->dev,
			               c->op->ino);
		if (!r)
			r = shfs_version_attributes(ing, f, &c->op->content);
		return r ? r
		         : shfs_version_metadata(ing, f, ctime_of_op(c),
		                                 c->op->op == SHFS_OP_UTIMES);
	case SHFS_OP_SYMLINK:
		shfs_version_unknown(ing, f);
		return 0;
	default:
		return 0;
	}
}

/* Has the removed file other names, as far as is known? 1 or 0. */
static int has_other_names(struct shfs_ingest *ing, const struct shfs_name_change *c)
{
	struct shfs_file *const *names;
	size_t n, there = 0;
	int r;

	if (c->op->victim.flags & SHFS_CONTENT_LINKED)
		return 1;
	r = shfs_inode_names(ing, c->file, &names, &n);
	for (size_t i = 0; !r && i < n; i++)
		there += names[i] && names[i]->present;
	return r ? r : there > 1;
}

static int apply_name_op(struct shfs_ingest *ing, struct shfs_name_change *c)
{
	switch (c->op->op) {
	case SHFS_OP_RENAME:
		return shfs_version_rename(ing, c);
	case SHFS_OP_EXCHANGE:
		return shfs_version_exchange(ing, c);
	case SHFS_OP_LINK:
		return shfs_version_link(ing, c);
	case SHFS_OP_UNLINK:
		return shfs_version_unlink(ing, c);
	default:
		return apply_plain_op(ing, c);
	}
}

/* Is path2 a text (such as the target of a link, a name of an attribute), not a path? */
static bool is_path2_text(const struct shfs_rec_pathop *op)
{
	return op->op == SHFS_OP_SYMLINK || op->op == SHFS_OP_XATTR ||
	       ((op->op == SHFS_OP_UNLINK || op->op == SHFS_OP_RMDIR) && op->path2.len);
}

static int apply_pathop(struct shfs_ingest *ing, const struct shfs_record *rec)
{
	const struct shfs_rec_pathop *in = &rec->pathop;
	bool two = in->op >= SHFS_OP_RENAME && in->op <= SHFS_OP_LINK;
	struct use u = {
		.access.op = in->op,
		.access.directory = in->directory,
		.moment_boot_ns = rec->time.boot_ns,
	};
	struct shfs_access *a = &u.access;
	struct shfs_name_change c = {
		.op = in,
		.real_ns = rec->time.real_ns,
	};
	int r;

	if (in->op < SHFS_OP_RENAME || in->op > SHFS_OP_XATTR || in->directory > 1 ||
	    (two && !shfs_is_plausible_path(in->path2)) ||
	    (!two && in->path2.len > SHFS_RECORD_PATH_MAX))
		return SHFS_DROPPED;
	r = get_file_at(ing, in->path, &ing->path, &c.file);
	if (!r && two)
		r = get_file_at(ing, in->path2, &ing->path2, &c.file2);
	if (!r)
		r = find_owner(ing, in->process, &u);
	c.access_id = a->access_id;
	if (!r && in->op == SHFS_OP_UNLINK) {
		r = has_other_names(ing, &c);
		a->flags = r > 0 ? SHFS_ACCESS_LINKED : 0;
	}
	shfs_former_of_record(in, &c.former);
	if (r >= 0)
		r = apply_name_op(ing, &c);
	if (!r)
		r = shfs_former_add(ing, a->access_id,
		                    in->op == SHFS_OP_UNLINK && c.seen ? c.seen
		                                                       : c.victim,
		                    &c.former);
	if (!r && is_path2_text(in))
		r = shfs_string_id(ing, in->path2, &a->text_id);
	if (r)
		return r;
	a->file_id = c.file->id;
	a->file2_id = c.file2 ? c.file2->id : 0;
	a->seen_n = c.seen;
	a->flawed = c.seen != 0;
	a->made_n = c.made;
	if (in->op <= SHFS_OP_UNLINK || in->op == SHFS_OP_TRUNCATE) {
		count_content(a, &in->content);
		count_content(a, &in->victim);
	}
	return access_insert(ing, &u, rec->time.real_ns, 0);
}

int shfs_boot_get(struct shfs_ingest *ing, struct shfs_bytes host, struct shfs_bytes boot,
                  int64_t *out)
{
	const char *tree = shfs_trees_of_boot(ing->trees, host, boot) ?: "";
	int r = shfs_sql_int(ing->index, out,
	                     "SELECT boot_id FROM boot WHERE host = ? AND boot = ?",
	                     shfs_arg_text(host), shfs_arg_text(boot));

	if (r)
		return MIN(r, 0);
	r = shfs_sql_run(ing->index,
	                 "INSERT INTO boot (host, boot, tree) VALUES (?, ?, ?)",
	                 shfs_arg_text(host), shfs_arg_text(boot),
	                 shfs_arg_text(shfs_bytes_str(tree)));
	*out = sqlite3_last_insert_rowid(ing->index->db);
	return r;
}

int shfs_path_in_tree(struct shfs_ingest *ing, const char *tree, struct shfs_bytes path,
                      struct shfs_bytes *out)
{
	*out = path;
	if (!tree || !*tree || !path.len || path.data[0] != '/')
		return 0;
	shfs_tree_path(&ing->in_tree, tree, path);
	*out = (struct shfs_bytes){ ing->in_tree.data, ing->in_tree.len };
	return ing->in_tree.failed ? -ENOMEM : 0;
}

int shfs_producer_load(struct shfs_ingest *ing, int64_t producer_id)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	struct shfs_bytes root;
	int r = shfs_sql_get(ing->index, &stmt,
	                     "SELECT boot_id, pid_namespace, last_seq, lost_seq, last_ns,"
	                     " root, (SELECT b.tree FROM boot b"
	                     "  WHERE b.boot_id = p.boot_id)"
	                     " FROM producer p WHERE producer_id = ?",
	                     shfs_arg_int(producer_id));

	ing->producer.id = 0;
	if (r <= 0)
		return r;
	ing->producer.boot_id = sqlite3_column_int64(stmt, 0);
	ing->producer.pid_namespace = sqlite3_column_int64(stmt, 1);
	ing->producer.last_seq = sqlite3_column_int64(stmt, 2);
	ing->producer.records = ing->producer.lost = 0;
	ing->producer.lost_seq = sqlite3_column_int64(stmt, 3);
	ing->producer.last_ns = sqlite3_column_int64(stmt, 4);
	root.data = (const char *)sqlite3_column_text(stmt, 5);
	root.len = sqlite3_column_bytes(stmt, 5);
	ing->producer.root.len = 0;
	shfs_buf_add(&ing->producer.root, root.data, root.len);
	snprintf(ing->producer.tree, sizeof(ing->producer.tree), "%s",
	         (const char *)sqlite3_column_text(stmt, 6) ?: "");
	if (ing->producer.root.failed)
		return -ENOMEM;
	r = shfs_string_id(ing, root, &ing->producer.root_id);
	if (!r)
		ing->producer.id = producer_id;
	return r;
}

int shfs_producer_store(struct shfs_ingest *ing)
{
	int r;

	if (!ing->producer.id)
		return 0;
	r = shfs_sql_run(ing->index,
	                 "UPDATE producer SET records = records + ?, lost = lost + ?,"
	                 " last_seq = ?, lost_seq = ?, last_ns = ? WHERE producer_id = ?",
	                 shfs_arg_int(ing->producer.records),
	                 shfs_arg_int(ing->producer.lost),
	                 shfs_arg_int(ing->producer.last_seq),
	                 shfs_arg_int(ing->producer.lost_seq),
	                 shfs_arg_int(ing->producer.last_ns),
	                 shfs_arg_int(ing->producer.id));
	ing->producer.records = ing->producer.lost = 0;
	return r;
}

/* Inserts a producer. host: the name of the journal's directory, as for the hook logs
 * beside it. */
static int producer_insert(struct shfs_ingest *ing, struct shfs_bytes host,
                           const struct shfs_record *rec, int64_t *out)
{
	const struct shfs_rec_producer *p = &rec->producer;
	struct shfs_bytes root;
	int64_t boot_id = 0;
	int r = shfs_boot_get(ing, host, p->boot_id, &boot_id);

	if (!r)
		r = shfs_path_in_tree(ing,
		                      shfs_trees_of_boot(ing->trees, host, p->boot_id),
		                      p->root, &root);
	if (!r)
		r = shfs_sql_run(
			ing->index,
			"INSERT INTO producer (boot_id, instance, kind, root, software,"
			" pid_namespace, pid, start_ticks, uid, begin_ns, last_ns)"
			" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?10, ?10)"
			" ON CONFLICT DO UPDATE"
			" SET begin_ns = min(begin_ns, excluded.begin_ns)",
			shfs_arg_int(boot_id), shfs_arg_blob(p->instance),
			shfs_arg_text(p->kind), shfs_arg_text(root),
			shfs_arg_text(p->software), shfs_arg_int(p->pid_namespace),
			shfs_arg_int(p->pid), shfs_arg_int(p->start_ticks),
			shfs_arg_int(p->uid), shfs_arg_int(rec->time.real_ns));
	if (!r)
		r = shfs_sql_run(ing->index,
		                 "UPDATE boot SET pid_max = ?1 WHERE boot_id = ?2"
		                 " AND pid_max < ?1",
		                 shfs_arg_int(MIN(p->pid_max, PID_MAX_LIMIT)),
		                 shfs_arg_int(boot_id));
	if (!r)
		r = shfs_sql_int(ing->index, out,
		                 "SELECT producer_id FROM producer WHERE boot_id = ?"
		                 " AND instance = ?",
		                 shfs_arg_int(boot_id), shfs_arg_blob(p->instance));
	return MIN(r, 0);
}

static bool plausible_root(struct shfs_bytes root)
{
	return root.len && root.data[0] == '/' &&
	       shfs_is_plausible_path((struct shfs_bytes){ root.data + 1, root.len - 1 });
}

static int apply_producer(struct shfs_ingest *ing, const char *host,
                          const struct shfs_record *rec)
{
	int64_t id = 0;
	int r;

	if (!plausible_root(rec->producer.root))
		return SHFS_DROPPED;
	r = shfs_producer_store(ing);
	if (!r)
		r = producer_insert(ing, shfs_bytes_str(host), rec, &id);
	if (!r)
		r = shfs_producer_load(ing, id);
	return MIN(r, 0);
}

/* Applies END. No record comes after it, so the names of processes are dropped. */
static int apply_end(struct shfs_ingest *ing, const struct shfs_record *rec)
{
	int r = shfs_sql_run(ing->index,
	                     "UPDATE producer SET end_ns = ? WHERE producer_id = ?",
	                     shfs_arg_int(rec->time.real_ns),
	                     shfs_arg_int(ing->producer.id));

	return r ? r
	         : shfs_sql_run(ing->index,
	                        "DELETE FROM process_ref WHERE producer_id = ?",
	                        shfs_arg_int(ing->producer.id));
}

/* Applies a use of a file. One that another mount of this store passed on is left out:
 * that mount has recorded it for the process that does it. */
static int apply_use(struct shfs_ingest *ing, const struct shfs_record *rec,
                     uint64_t process,
                     int (*apply)(struct shfs_ingest *, const struct shfs_record *))
{
	struct shfs_process by;
	int r = shfs_process_find(ing, process, &by);

	ing->producer.records++;
	if (r < 0 || by.records)
		return MIN(r, 0);
	return apply(ing, rec);
}

static int apply_event(struct shfs_ingest *ing, const struct shfs_record *rec)
{
	/* A segment that was cut back after a failed write may have a record twice. */
	if (rec->seq && rec->seq <= ing->producer.last_seq)
		return 0;
	ing->producer.last_seq = MAX(rec->seq, ing->producer.last_seq);
	if (rec->type != SHFS_REC_PROGRAM) /* its time is that of an earlier record */
		ing->producer.last_ns = rec->time.real_ns;
	switch (rec->type) {
	case SHFS_REC_LOST:
		ing->producer.lost_seq = rec->seq;
		ing->producer.lost += MIN(rec->lost.count, (uint64_t)UINT32_MAX);
		return 0;
	case SHFS_REC_PROCESS:
		ing->producer.records++;
		return shfs_process_add(ing, rec);
	case SHFS_REC_PROGRAM:
		ing->producer.records++;
		return shfs_program_add(ing, rec);
	case SHFS_REC_LOOKUP:
		ing->producer.records++;
		return shfs_lookups_add(ing, rec);
	case SHFS_REC_EXIT:
		ing->producer.records++;
		return shfs_exit_add(ing, rec);
	case SHFS_REC_NOTE:
		ing->producer.records++;
		return shfs_note_add(ing, rec);
	case SHFS_REC_ACCESS:
		return apply_use(ing, rec, rec->access.process, apply_access);
	case SHFS_REC_PATHOP:
		return apply_use(ing, rec, rec->pathop.process, apply_pathop);
	case SHFS_REC_PREIMAGE:
		return apply_use(ing, rec, rec->preimage.process, apply_preimage);
	default:
		return 0;
	}
}

/* Numbers of devices are those of one machine: another tree's are made different. */
static void separate_devices(const struct shfs_ingest *ing, struct shfs_record *rec)
{
	const char *tree = ing->producer.tree;
	uint64_t salt = *tree ? shfs_object_hash64(tree, strlen(tree)) : 0;

	if (rec->type == SHFS_REC_ACCESS)
		rec->access.dev ^= salt;
	else if (rec->type == SHFS_REC_PATHOP)
		rec->pathop.dev ^= salt, rec->pathop.former.dev ^= salt;
	else if (rec->type == SHFS_REC_PREIMAGE)
		rec->preimage.dev ^= salt;
}

int shfs_apply_record(struct shfs_ingest *ing, const char *host, struct shfs_record *rec)
{
	int r;

	rec->time = shfs_sane_time(rec->time);
	if (rec->type == SHFS_REC_PRODUCER)
		return apply_producer(ing, host, rec);
	if (!ing->producer.id)
		return SHFS_DROPPED;
	r = clock_note(ing, ing->producer.boot_id, rec->time);
	if (r)
		return r;
	separate_devices(ing, rec);
	return rec->type == SHFS_REC_END ? apply_end(ing, rec) : apply_event(ing, rec);
}
