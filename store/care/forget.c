/* SPDX-License-Identifier: MIT */
/* Finds the records to forget: those that the chosen rows of the index were made of. */
#include "store/care/forget-choose.h"

#include "common/io.h"
#include "store/journal/hooklog.h"
#include "store/journal/journal.h"
#include "store/journal/rewrite.h"
#include "store/objects/collect.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* --- records --- */

enum verdict {
	KEEP,
	CHANGE,
	DROP,
	RESCUE, /* make it a PREIMAGE of the file's content, which no other record has */
};

struct key {
	int64_t value;
	UT_hash_handle hh;
};

/* Adds a key; 1: it is new. */
static int key_add(struct key **set, int64_t value)
{
	struct key *key;

	HASH_FIND(hh, *set, &value, sizeof(value), key);
	if (key)
		return 0;
	key = calloc(1, sizeof(*key));
	if (!key)
		return -ENOMEM;
	key->value = value;
	HASH_ADD(hh, *set, value, sizeof(value), key);
	if (key->hh.tbl)
		return 1;
	free(key);
	return -ENOMEM;
}

static void keys_free(struct key **set)
{
	struct key *key, *next;

	HASH_ITER (hh, *set, key, next) {
		HASH_DEL(*set, key);
		free(key);
	}
}

/* A segment while it is read. */
struct reading {
	struct shfs_forget *f;
	struct shfs_buf root;
	struct shfs_buf path, path2; /* of the record */
	int64_t row;                 /* made of the record */
	struct shfs_buf names;       /* that stay, of a LOOKUP */
	struct key *rescued;         /* keys of contents at their paths */
	bool failed;                 /* no memory */
};

static bool is_path_op(const struct shfs_record *rec)
{
	return rec->type == SHFS_REC_PATHOP && rec->pathop.op >= SHFS_OP_RENAME &&
	       rec->pathop.op <= SHFS_OP_LINK;
}

void forget_read_paths(const struct shfs_record *rec, struct shfs_bytes root,
                       struct shfs_buf *path, struct shfs_buf *path2)
{
	path->len = path2->len = 0;
	if (rec->type == SHFS_REC_ACCESS)
		shfs_buf_set_path(path, root, rec->access.path);
	else if (rec->type == SHFS_REC_PREIMAGE)
		shfs_buf_set_path(path, root, rec->preimage.path);
	else if (rec->type == SHFS_REC_PATHOP)
		shfs_buf_set_path(path, root, rec->pathop.path);
	if (is_path_op(rec))
		shfs_buf_set_path(path2, root, rec->pathop.path2);
}

static bool content_goes(const struct reading *s, const struct shfs_content *c)
{
	const struct shfs_ids *gone = &s->f->contents;

	return c->flags & SHFS_CONTENT_KNOWN &&
	       ((c->flags & SHFS_CONTENT_OBJECT &&
	         shfs_ids_has(&s->f->gone, forget_key_of_object(&c->object))) ||
	        shfs_ids_has(gone,
	                     forget_key_of_content(forget_path_bytes(&s->path), c)) ||
	        (s->path2.len &&
	         shfs_ids_has(gone,
	                      forget_key_of_content(forget_path_bytes(&s->path2), c))));
}

static bool path_goes(const struct reading *s)
{
	return shfs_ids_has(&s->f->paths,
	                    forget_key_of_path(forget_path_bytes(&s->path))) ||
	       (s->path2.len &&
	        shfs_ids_has(&s->f->paths,
	                     forget_key_of_path(forget_path_bytes(&s->path2))));
}

static size_t object_place(const struct shfs_forget *f, const struct shfs_content *c)
{
	return c->flags & SHFS_CONTENT_OBJECT ? shfs_objects_find(&f->objects, &c->object)
	                                      : SIZE_MAX;
}

/* Gets the content that a file held before the record's change, and its path. */
static const struct shfs_content *held_before(const struct reading *s,
                                              const struct shfs_record *rec,
                                              struct shfs_bytes *path)
{
	const struct shfs_rec_pathop *op = &rec->pathop;
	const struct shfs_content *c = NULL;

	*path = rec->type == SHFS_REC_ACCESS ? rec->access.path : op->path;
	if (rec->type == SHFS_REC_ACCESS && rec->access.flags & SHFS_ACCESS_READ) {
		c = &rec->access.seen;
	} else if (rec->type == SHFS_REC_PATHOP &&
	           op->victim.flags & SHFS_CONTENT_OBJECT) {
		c = &op->victim;
		if (op->op != SHFS_OP_UNLINK)
			*path = op->path2;
	} else if (is_path_op(rec)) {
		c = &op->content;
	}
	return c && c->flags & SHFS_CONTENT_OBJECT && !content_goes(s, c) ? c : NULL;
}

/* Drops or rescues a record to forget. known: the records that stay have been read. */
static enum verdict drop_or_rescue_record(struct reading *s, struct shfs_record *rec,
                                          bool known)
{
	struct shfs_content content;
	struct shfs_bytes path;
	const struct shfs_content *c;
	int64_t key;
	int fresh;

	c = path_goes(s) ? NULL : held_before(s, rec, &path);
	if (!c || !known)
		return DROP;
	content = *c;
	content.flags &= ~SHFS_CONTENT_LINKED; /* its inode may be reused */
	shfs_buf_set_path(&s->path, forget_path_bytes(&s->root), path);
	key = forget_key_of_content(forget_path_bytes(&s->path), &content);
	if (shfs_ids_has(&s->f->known, key))
		return DROP;
	fresh = key_add(&s->rescued, key);
	s->failed |= fresh < 0;
	if (fresh <= 0)
		return DROP;
	rec->type = SHFS_REC_PREIMAGE;
	rec->preimage = (struct shfs_rec_preimage){ .path = path, .content = content };
	return RESCUE;
}

/* Takes the names of forgotten files out of a LOOKUP. */
static enum verdict judge_lookup(struct reading *s, struct shfs_record *rec)
{
	struct shfs_bytes *list = &rec->lookup.list;
	const unsigned char *data = (const unsigned char *)list->data;
	struct shfs_cursor in = { data, data + list->len, false };
	_cleanup_buf_ struct shfs_buf was = { 0 }, stays = { 0 };
	struct shfs_lookup lookup;
	bool changes = false;

	if (s->row && shfs_ids_has(&s->f->processes, s->row))
		return DROP;
	s->names.len = s->path2.len = 0;
	while (shfs_lookup_next(&in, &was, &lookup)) {
		shfs_buf_set_path(&s->path, forget_path_bytes(&s->root), lookup.path);
		if (path_goes(s))
			changes = true;
		else
			shfs_lookup_add(&s->names, &stays, &lookup);
	}
	s->failed |= was.failed || s->names.failed;
	if (!changes)
		return KEEP;
	*list = (struct shfs_bytes){ s->names.data, s->names.len };
	return list->len ? CHANGE : DROP;
}

static enum verdict judge_record(struct reading *s, struct shfs_record *rec, bool known)
{
	struct shfs_content *contents[3];
	enum verdict v = KEEP;

	if (rec->type == SHFS_REC_PROCESS || rec->type == SHFS_REC_EXIT)
		return s->row && shfs_ids_has(&s->f->processes, s->row) ? DROP : KEEP;
	if (rec->type == SHFS_REC_PROGRAM)
		return s->row && shfs_ids_has(&s->f->programs, s->row) ? DROP : KEEP;
	if (rec->type == SHFS_REC_NOTE)
		return s->row && shfs_ids_has(&s->f->notes, s->row) ? DROP : KEEP;
	if (rec->type == SHFS_REC_LOOKUP)
		return judge_lookup(s, rec);
	forget_read_paths(rec, forget_path_bytes(&s->root), &s->path, &s->path2);
	if (rec->type == SHFS_REC_PREIMAGE)
		return path_goes(s) || content_goes(s, &rec->preimage.content) ? DROP
		                                                               : KEEP;
	if (rec->type != SHFS_REC_ACCESS && rec->type != SHFS_REC_PATHOP)
		return KEEP;
	if (s->row && shfs_ids_has(&s->f->accesses, s->row))
		return drop_or_rescue_record(s, rec, known);
	shfs_record_contents(rec, contents);
	for (int i = 0; contents[i]; i++)
		if (content_goes(s, contents[i])) {
			*contents[i] = (struct shfs_content){ 0 };
			v = CHANGE;
		}
	return v;
}

/* --- segments --- */

/* Called for each record with its verdict; rec is as it will be, was as it is. */
typedef int (*record_fn)(struct reading *s, size_t file, struct shfs_record *rec,
                         enum verdict verdict, const struct shfs_record *was, void *arg);

static void set_root(struct reading *s, const char *host,
                     const struct shfs_rec_producer *p)
{
	shfs_tree_path(&s->root,
	               shfs_trees_of_boot(s->f->trees, shfs_bytes_str(host), p->boot_id),
	               p->root);
}

static int judge_segment(struct shfs_forget *f, size_t file, bool known, record_fn fn,
                         void *arg)
{
	const struct shfs_trace_file *t = &f->trace.list[file];
	_cleanup_close_ int dirfd = forget_open_host(f->store, t->host);
	bool young = forget_is_young(&f->hold, t->name);
	struct reading s = { .f = f };
	struct shfs_segment *segment;
	struct shfs_record rec;
	int r = dirfd < 0 ? dirfd : forget_open_segment(dirfd, t->name, &segment);

	if (r)
		return MIN(r, 0);
	set_root(&s, t->host, shfs_segment_producer(segment));
	for (size_t i = 0; (r = shfs_segment_next(segment, &rec)) > 0; i++) {
		struct shfs_record was = rec;
		enum verdict v;

		s.row = i < t->rows.n ? t->rows.ids[i] : 0;
		v = young ? KEEP : judge_record(&s, &rec, known);
		if (young)
			forget_read_paths(&rec, forget_path_bytes(&s.root), &s.path,
			                  &s.path2);
		r = s.path.failed || s.path2.failed || s.root.failed || s.failed
		            ? -ENOMEM
		            : fn(&s, file, &rec, v, &was, arg);
		if (r)
			break;
	}
	shfs_segment_close(segment);
	shfs_buf_free(&s.root);
	shfs_buf_free(&s.path);
	shfs_buf_free(&s.path2);
	shfs_buf_free(&s.names);
	keys_free(&s.rescued);
	return r;
}

/* Reads all segments; changed: only those that change. */
static int read_files(struct shfs_forget *f, bool changed, bool known, record_fn fn,
                      void *arg)
{
	int r = 0;

	for (size_t i = 0; i < f->trace.n && !r; i++)
		if (!f->trace.list[i].hook_log && (!changed || f->changed[i]))
			r = judge_segment(f, i, known, fn, arg);
	return r;
}

/* Step 1 finds the segments that change, and the objects that may be removed. */
static int find_changes(struct reading *s, size_t file, struct shfs_record *rec,
                        enum verdict verdict, const struct shfs_record *was, void *arg)
{
	struct shfs_record copy = *was;

	if (verdict == KEEP)
		return 0;
	s->f->changed[file] = true;
	return shfs_objects_add_of(&s->f->objects, &copy);
}

/* Step 2 finds which of these objects the records that stay name, and at which paths. */
static int find_remaining_names(struct reading *s, size_t file, struct shfs_record *rec,
                                enum verdict verdict, const struct shfs_record *was,
                                void *arg)
{
	struct shfs_content *contents[3];
	int r = 0;

	if (verdict == DROP)
		return 0;
	shfs_record_contents(rec, contents);
	for (int i = 0; contents[i] && !r; i++) {
		size_t place = object_place(s->f, contents[i]);

		if (place == SIZE_MAX)
			continue;
		s->f->named[place] = true;
		r = shfs_ids_add(&s->f->known,
		                 forget_key_of_content(forget_path_bytes(&s->path),
		                                       contents[i]));
		if (!r && s->path2.len)
			r = shfs_ids_add(&s->f->known,
			                 forget_key_of_content(forget_path_bytes(
								       &s->path2),
			                                       contents[i]));
	}
	return r;
}

/* Step 3 finds the objects of rescued records, in the segments that change. */
static int find_rescued(struct reading *s, size_t file, struct shfs_record *rec,
                        enum verdict verdict, const struct shfs_record *was, void *arg)
{
	size_t place =
		verdict == RESCUE ? object_place(s->f, &rec->preimage.content) : SIZE_MAX;

	if (place != SIZE_MAX)
		s->f->named[place] = true;
	return 0;
}

static int write_record(struct reading *s, size_t file, struct shfs_record *rec,
                        enum verdict verdict, const struct shfs_record *was, void *arg)
{
	if (rec->type == SHFS_REC_PRODUCER)
		rec->producer.version = SHFS_RECORD_VERSION;
	return verdict == DROP ? 0 : shfs_rewrite_add(arg, rec);
}

static int read_journal(struct shfs_forget *f)
{
	size_t n = 0;
	int r;

	f->changed = calloc(f->trace.n + 1, sizeof(*f->changed));
	if (!f->changed)
		return -ENOMEM;
	r = read_files(f, false, false, find_changes, NULL);
	shfs_objects_sort(&f->objects);
	f->named = calloc(f->objects.n + 1, sizeof(*f->named));
	if (!f->named)
		return -ENOMEM;
	if (!r && f->objects.n)
		r = read_files(f, false, false, find_remaining_names, NULL);
	shfs_ids_sort(&f->known);
	if (!r && f->objects.n)
		r = read_files(f, true, true, find_rescued, NULL);
	for (size_t i = 0; i < f->objects.n; i++)
		if (!f->named[i])
			f->objects.ids[n++] = f->objects.ids[i];
	f->objects.n = n;
	return r;
}

/* May a producer still append to the segment? 1; 0; or a negative errno. */
static int may_segment_grow(struct shfs_forget *f, const struct shfs_trace_file *t)
{
	_cleanup_close_ int dirfd = forget_open_host(f->store, t->host);
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	char sealed[300];

	if (dirfd < 0)
		return dirfd;
	snprintf(sealed, sizeof(sealed), "%s.zst", t->name);
	if (!faccessat(dirfd, sealed, F_OK, AT_SYMLINK_NOFOLLOW) ||
	    forget_is_followed(&f->hold, t->name))
		return 0;
	return shfs_sql_get(
		f->index, &stmt,
		"SELECT 1 FROM segment_position s JOIN producer p"
		" ON p.producer_id = s.owner_id WHERE s.host = ? AND s.name = ?"
		" AND p.end_ns IS NULL AND p.dead = 0",
		shfs_arg_text(shfs_bytes_str(t->host)),
		shfs_arg_text(shfs_bytes_str(t->name)));
}

static int find_being_written(struct shfs_forget *f)
{
	int r = 0;

	for (size_t i = 0; i < f->trace.n && !r && f->hold.held && !f->hold.alone; i++)
		if (f->changed[i])
			r = may_segment_grow(f, &f->trace.list[i]);
	return r > 0 ? -EINPROGRESS : r;
}

int shfs_forget_measure(struct shfs_forget *f, struct shfs_forget_stats *out)
{
	struct shfs_forget_stats stats = { 0 };
	int r = forget_complete(f);

	if (!r)
		r = read_journal(f);
	if (!r)
		r = find_being_written(f);
	if (!r)
		r = shfs_objects_measure(f->store, f->objects.ids, f->objects.n,
		                         &stats.bytes);
	stats.commands = f->commands.n;
	stats.processes = f->n_loose;
	stats.elsewhere = f->same.n;
	stats.accesses = f->accesses.n;
	stats.versions = f->versions.n;
	stats.notes = f->notes.n;
	stats.objects = f->objects.n;
	if (!r)
		*out = stats;
	return r;
}

/* --- doing it --- */

struct damage {
	struct shfs_store *store;
	char file[400];
};

static void tell_damage(void *arg, uint64_t from, uint64_t to)
{
	const struct damage *d = arg;

	d->store->on_dropped(d->store, d->file, from, to);
}

/* Reports the damage of a segment that is written anew, which is dropped. */
static int tell_dropped(struct shfs_store *store, int dirfd,
                        const struct shfs_trace_file *t)
{
	struct damage d = { .store = store };
	struct shfs_segment *segment;
	struct shfs_record rec;
	uint64_t at, bytes;
	int r = store->on_dropped ? forget_open_segment(dirfd, t->name, &segment) : 1;

	if (r)
		return MIN(r, 0);
	snprintf(d.file, sizeof(d.file), "journal/%s/%s", t->host, t->name);
	shfs_segment_on_damage(segment, tell_damage, &d);
	while ((r = shfs_segment_next(segment, &rec)) > 0)
		;
	at = shfs_segment_offset(segment);
	if (!r && shfs_segment_tail(segment, &bytes) == SHFS_TAIL_DAMAGED)
		tell_damage(&d, at, at + bytes);
	shfs_segment_close(segment);
	return r;
}

static int write_segments(struct shfs_forget *f, struct shfs_buf *plan)
{
	int r = 0;

	for (size_t i = 0; i < f->trace.n && !r; i++) {
		const struct shfs_trace_file *t = &f->trace.list[i];
		_cleanup_close_ int dirfd = -1;
		struct shfs_rewrite *w = NULL;

		if (!f->changed[i])
			continue;
		dirfd = forget_open_host(f->store, t->host);
		r = dirfd < 0 ? dirfd : tell_dropped(f->store, dirfd, t);
		if (!r)
			r = shfs_rewrite_new(&w);
		if (!r)
			r = judge_segment(f, i, true, write_record, w);
		if (!r)
			r = shfs_rewrite_save(w, dirfd, t->name);
		shfs_rewrite_free(w);
		forget_plan_segment(plan, t->host, t->name);
	}
	return r;
}

/* The definitions of a hook log: they stay while a command that stays uses them. */
struct log_definition {
	uint64_t seq, offset, len;
	bool stays;
	struct log_definition *next;
	UT_hash_handle hh; /* by seq; of several the last one */
};

struct log_definitions {
	struct log_definition *list, *by_seq;
};

static int add_log_definition(struct log_definitions *all, const struct shfs_hooklog *log,
                              uint64_t seq)
{
	struct log_definition *d = calloc(1, sizeof(*d)), *before;

	if (!d)
		return -ENOMEM;
	d->seq = seq;
	d->offset = shfs_hooklog_begin(log);
	d->len = shfs_hooklog_offset(log) - d->offset;
	d->next = all->list;
	all->list = d;
	HASH_REPLACE(hh, all->by_seq, seq, sizeof(d->seq), d, before);
	return d->hh.tbl ? 0 : -ENOMEM;
}

static void keep_log_definitions(struct log_definitions *all, struct shfs_bytes list)
{
	struct log_definition *d;
	uint64_t seq;

	while (shfs_hooklog_next_use(&list, &seq)) {
		HASH_FIND(hh, all->by_seq, &seq, sizeof(seq), d);
		if (d)
			d->stays = true;
	}
}

static void free_log_definitions(struct log_definitions *all)
{
	HASH_CLEAR(hh, all->by_seq);
	for (struct log_definition *d = all->list, *next; d; d = next) {
		next = d->next;
		free(d);
	}
}

/* Finds the commands to forget in a hook log: their records, and definitions that no
 * other command uses. */
static int find_blanks(struct shfs_forget *f, const struct shfs_trace_file *t,
                       struct shfs_hooklog *log,
                       void (*fn)(const struct shfs_trace_file *t, uint64_t offset,
                                  uint64_t len, struct shfs_buf *out),
                       struct shfs_buf *out)
{
	struct log_definitions definitions = { 0 };
	struct shfs_record rec;
	uint64_t number = 0;
	bool goes = false;
	int r;

	for (size_t i = 0; (r = shfs_hooklog_next(log, &rec)) > 0; i++) {
		bool own = false;

		switch (rec.type) {
		case SHFS_REC_BEGIN:
			goes = i < t->rows.n &&
			       shfs_ids_has(&f->commands, t->rows.ids[i]);
			number = rec.begin.number;
			own = true;
			break;
		case SHFS_REC_FINISH:
			own = rec.finish.number == number;
			break;
		case SHFS_REC_USES:
			own = rec.uses.number == number;
			if (!own || !goes)
				keep_log_definitions(&definitions, rec.uses.list);
			break;
		case SHFS_REC_DEFINITION:
			r = add_log_definition(&definitions, log, rec.seq);
			break;
		default:
			break;
		}
		if (r < 0)
			break;
		if (goes && own)
			fn(t, shfs_hooklog_begin(log),
			   shfs_hooklog_offset(log) - shfs_hooklog_begin(log), out);
	}
	for (struct log_definition *d = definitions.list; d && r >= 0; d = d->next)
		if (!d->stays)
			fn(t, d->offset, d->len, out);
	free_log_definitions(&definitions);
	return r;
}

static void plan_blank(const struct shfs_trace_file *t, uint64_t offset, uint64_t len,
                       struct shfs_buf *plan)
{
	forget_plan_blank(plan, t->host, t->name, offset, len);
}

static int plan_blanks(struct shfs_forget *f, const struct shfs_trace_file *t,
                       struct shfs_buf *plan)
{
	_cleanup_close_ int dirfd = forget_open_host(f->store, t->host);
	struct shfs_hooklog *log;
	int r = dirfd < 0 ? dirfd : shfs_hooklog_open(dirfd, t->name, 0, &log);

	if (r)
		return r;
	r = find_blanks(f, t, log, plan_blank, plan);
	shfs_hooklog_close(log);
	return r;
}

int shfs_forget_run(struct shfs_forget *f)
{
	_cleanup_buf_ struct shfs_buf plan = { 0 };
	int r;

	if (!f->hold.held || !f->changed)
		return -EINVAL;
	r = write_segments(f, &plan);
	for (size_t i = 0; i < f->trace.n && !r && f->commands.n; i++)
		if (f->trace.list[i].hook_log)
			r = plan_blanks(f, &f->trace.list[i], &plan);
	for (size_t i = 0; i < f->objects.n; i++)
		forget_plan_object(&plan, &f->objects.ids[i]);
	if (r)
		return r;
	/* The draft goes first: the index that is made again takes as much room. */
	shfs_draft_close(TAKE_PTR(f->draft));
	return forget_plan_run(f->store, f->hook_dir, &f->hold, &plan);
}

/* --- handing out what stays --- */

struct handing_out {
	struct shfs_rewrite *segment;
	bool has_files; /* the segment has records of files, or notes */
	const struct shfs_handed_out *to;
	struct shfs_objects objects;
};

static void hand_out_contents(struct reading *s, struct shfs_record *rec,
                              const struct shfs_handed_out *to)
{
	struct shfs_content *contents[3];

	shfs_record_contents(rec, contents);
	for (int i = 0; contents[i]; i++)
		to->content(forget_path_bytes(&s->path), forget_path_bytes(&s->path2),
		            contents[i], to->arg);
}

static int hand_out_record(struct reading *s, size_t file, struct shfs_record *rec,
                           enum verdict verdict, const struct shfs_record *was, void *arg)
{
	struct handing_out *h = arg;
	int r;

	if (h->to->content && verdict != DROP)
		hand_out_contents(s, rec, h->to);
	r = write_record(s, file, rec, verdict, was, h->segment);
	if (r || verdict == DROP)
		return r;
	h->has_files |= rec->type == SHFS_REC_ACCESS || rec->type == SHFS_REC_PREIMAGE ||
	                rec->type == SHFS_REC_PATHOP || rec->type == SHFS_REC_NOTE;
	return shfs_objects_add_of(&h->objects, rec);
}

static int hand_out_alive(struct shfs_forget *f, const struct shfs_trace_file *t,
                          const struct shfs_handed_out *to)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(
		f->index, &stmt,
		"SELECT 1 FROM segment_position s JOIN producer p"
		" ON p.producer_id = s.owner_id WHERE s.host = ? AND s.name = ?"
		" AND p.end_ns IS NULL AND p.dead <> 1",
		shfs_arg_text(shfs_bytes_str(t->host)),
		shfs_arg_text(shfs_bytes_str(t->name)));

	return r > 0 ? to->alive(t->host, t->name, to->arg) : r;
}

static int hand_out_segment(struct shfs_forget *f, size_t file, struct handing_out *h,
                            const struct shfs_handed_out *to)
{
	const struct shfs_trace_file *t = &f->trace.list[file];
	const struct shfs_buf *bytes;
	int r = shfs_rewrite_new(&h->segment);

	if (r)
		return r;
	h->has_files = false;
	r = judge_segment(f, file, true, hand_out_record, h);
	bytes = shfs_rewrite_bytes(h->segment);
	if (!r && !bytes)
		r = -ENOMEM;
	if (!r && (h->has_files || !f->changed[file])) {
		r = to->file(t->host, t->name, bytes, to->arg);
		if (!r && to->alive)
			r = hand_out_alive(f, t, to);
	}
	shfs_rewrite_free(h->segment);
	return r;
}

static void blank_out(const struct shfs_trace_file *t, uint64_t offset, uint64_t len,
                      struct shfs_buf *text)
{
	shfs_hooklog_blank(text->data + offset, len);
}

static int hand_out_log(struct shfs_forget *f, const struct shfs_trace_file *t,
                        const struct shfs_handed_out *to)
{
	_cleanup_close_ int dirfd = forget_open_host(f->store, t->host);
	_cleanup_buf_ struct shfs_buf text = { 0 };
	struct shfs_hooklog *log;
	int r = dirfd < 0 ? dirfd : shfs_read_file_at(dirfd, t->name, INT32_MAX, &text);

	if (!r)
		r = shfs_hooklog_from_memory(text.data, text.len, &log);
	if (r)
		return r;
	r = find_blanks(f, t, log, blank_out, &text);
	shfs_hooklog_close(log);
	return r ? r : to->file(t->host, t->name, &text, to->arg);
}

int shfs_forget_hand_out(struct shfs_forget *f, const struct shfs_handed_out *to)
{
	struct handing_out h = { .to = to };
	int r = 0;

	for (size_t i = 0; i < f->trace.n && !r; i++)
		r = f->trace.list[i].hook_log ? hand_out_log(f, &f->trace.list[i], to)
		                              : hand_out_segment(f, i, &h, to);
	shfs_objects_sort(&h.objects);
	if (!r && to->objects)
		to->objects(h.objects.ids, h.objects.n, to->arg);
	for (size_t i = 0; i < h.objects.n && !r; i++)
		r = to->object(&h.objects.ids[i], to->arg);
	shfs_objects_free(&h.objects);
	return r;
}

/* --- begin and end --- */

void shfs_forget_everywhere(struct shfs_forget *f)
{
	f->everywhere = true;
}

const int64_t *shfs_forget_elsewhere(const struct shfs_forget *f, size_t *n)
{
	*n = f->same.n;
	return f->same.ids;
}

struct shfs_index *shfs_forget_index(struct shfs_forget *f)
{
	return f->index;
}

static void free_lists(struct shfs_forget *f)
{
	struct shfs_ids *lists[] = { &f->commands, &f->processes, &f->accesses,
		                     &f->versions, &f->files,     &f->paths,
		                     &f->contents, &f->known,     &f->same,
		                     &f->gone,     &f->programs,  &f->notes };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		shfs_ids_free(lists[i]);
}

void shfs_forget_close(struct shfs_forget *f)
{
	if (!f)
		return;
	shfs_draft_close(f->draft);
	forget_release(f->store, &f->hold);
	shfs_trace_free(&f->trace);
	shfs_trees_free(f->trees);
	free_lists(f);
	shfs_objects_free(&f->objects);
	free(f->named);
	free(f->changed);
	free(f->hook_dir);
	free(f);
}

bool shfs_forget_is_alone(const struct shfs_forget *f)
{
	return f->hold.alone;
}

int shfs_forget_open(struct shfs_store *store, const char *hook_dir,
                     const struct shfs_forget_beside *beside, struct shfs_forget **out)
{
	struct shfs_forget *f = calloc(1, sizeof(*f));
	int r = 0;

	if (!f)
		return -ENOMEM;
	f->store = store;
	if (hook_dir && !(f->hook_dir = strdup(hook_dir)))
		r = -ENOMEM;
	if (!r)
		r = forget_check_formats(store);
	if (!r && beside)
		r = forget_hold(store, beside, &f->hold);
	if (!r && beside)
		r = forget_plan_clear(store);
	if (!r)
		r = shfs_trees_load(store, &f->trees);
	if (!r)
		r = shfs_draft_open(store, hook_dir, &f->trace, NULL, &f->draft);
	if (r) {
		shfs_forget_close(f);
		return r;
	}
	f->index = shfs_draft_index(f->draft);
	*out = f;
	return 0;
}
