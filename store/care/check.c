/* SPDX-License-Identifier: MIT */
#include "store/care/check.h"

#include "common/clock.h"
#include "common/io.h"
#include "store/care/index-check.h"
#include "store/journal/hooklog.h"
#include "store/journal/journal.h"
#include "store/objects/away.h"
#include "store/objects/object.h"
#include "store/objects/pruned.h"
#include "store/trees.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define LOOK_AGAIN_MS 50
#define SHARE_MS      10000

/* --- flaws --- */

static const char *const names[] = {
	[SHFS_FLAW_RECORD] = "record",       [SHFS_FLAW_SEGMENT] = "segment",
	[SHFS_FLAW_FRAME] = "frame",         [SHFS_FLAW_LOOKUP] = "lookup",
	[SHFS_FLAW_CONTENT] = "content",     [SHFS_FLAW_MISSING] = "missing",
	[SHFS_FLAW_PRUNED] = "pruned",       [SHFS_FLAW_AWAY] = "away",
	[SHFS_FLAW_TREES] = "trees",         [SHFS_FLAW_INDEX] = "index",
	[SHFS_FLAW_MODE] = "mode",           [SHFS_FLAW_TORN] = "torn",
	[SHFS_FLAW_UNCHECKED] = "unchecked",
};

const char *shfs_flaw_name(enum shfs_flaw_kind kind)
{
	return names[kind];
}

struct shfs_flaw *check_flaw(struct check_run *run, enum shfs_flaw_kind kind,
                             uint64_t offset, uint64_t bytes, const char *file, ...)
{
	struct shfs_check *c = run->out;
	struct shfs_flaw f = {
		.kind = kind,
		.harmless = kind == SHFS_FLAW_TORN || kind == SHFS_FLAW_UNCHECKED,
		.offset = offset,
		.bytes = bytes,
	};
	va_list ap;

	if (c->n_flaws == c->cap_flaws) {
		size_t cap = MAX(c->cap_flaws * 2, (size_t)16);
		struct shfs_flaw *list = reallocarray(c->flaws, cap, sizeof(*list));

		if (!list) {
			c->failed = true;
			return NULL;
		}
		c->flaws = list;
		c->cap_flaws = cap;
	}
	va_start(ap, file);
	if (vasprintf(&f.file, file, ap) < 0)
		f.file = NULL;
	va_end(ap);
	if (!f.file) {
		c->failed = true;
		return NULL;
	}
	c->flaws[c->n_flaws] = f;
	return &c->flaws[c->n_flaws++];
}

void check_say(struct shfs_flaw *f, const char *text, ...)
{
	va_list ap;

	if (!f)
		return;
	va_start(ap, text);
	if (vasprintf(&f->text, text, ap) < 0)
		f->text = NULL;
	va_end(ap);
}

void shfs_check_free(struct shfs_check *c)
{
	for (size_t i = 0; i < c->n_flaws; i++) {
		free(c->flaws[i].file);
		free(c->flaws[i].text);
	}
	for (size_t i = 0; i < c->n_losses; i++)
		free(c->losses[i].path);
	free(c->flaws);
	free(c->losses);
	*c = (struct shfs_check){ 0 };
}

/* --- permissions --- */

static int check_modes(struct check_run *run)
{
	char *paths[] = { run->store->path, NULL };
	size_t skip = strlen(run->store->path);
	FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_XDEV | FTS_NOCHDIR, NULL);
	FTSENT *e;

	if (!fts)
		return -errno;
	while ((e = fts_read(fts))) {
		const struct stat *st = e->fts_statp;
		bool looked = e->fts_info == FTS_F || e->fts_info == FTS_D;

		if (!looked || (!(st->st_mode & 077) && st->st_uid == geteuid()))
			continue;
		check_say(check_flaw(run, SHFS_FLAW_MODE, 0, 0, "%s",
		                     e->fts_path[skip] ? e->fts_path + skip + 1 : "."),
		          st->st_mode & 077
		                  ? "its mode is %04o: other users can access it"
		                  : "it belongs to another user (mode %04o)",
		          st->st_mode & 07777);
	}
	fts_close(fts);
	return 0;
}

/* --- the journal --- */

struct reading {
	struct check_run *run;
	const struct shfs_journal_file *file;
	uint64_t size;
};

static struct shfs_flaw *flaw_at(const struct reading *r, enum shfs_flaw_kind kind,
                                 uint64_t offset, uint64_t bytes)
{
	return check_flaw(r->run, kind, offset, bytes, "journal/%s/%s%s", r->file->host,
	                  r->file->name, r->file->sealed ? ".zst" : "");
}

static void note_damage(void *arg, uint64_t from, uint64_t to)
{
	check_say(flaw_at(arg, SHFS_FLAW_RECORD, from, to - from),
	          "these bytes are not records with a valid checksum");
}

static int name_contents(struct check_run *run, struct shfs_record *rec)
{
	int r = shfs_objects_add_of(&run->named, rec);

	/* the same objects are named again and again */
	if (!r && run->named.n == run->named.cap && run->named.n > run->out->named * 2) {
		shfs_objects_sort(&run->named);
		run->out->named = run->named.n;
	}
	return r;
}

/* Looks at the tail again: a record that was being written may be whole by now. */
static int tail_twice(struct reading *r, struct shfs_segment *s, uint64_t *bytes)
{
	int tail = shfs_segment_tail(s, bytes);
	struct stat st;

	if (tail <= 0 || r->file->sealed)
		return tail;
	nanosleep(&(struct timespec){ .tv_nsec = LOOK_AGAIN_MS * 1000000L }, NULL);
	if (fstatat(r->file->dirfd, r->file->name, &st, AT_SYMLINK_NOFOLLOW) ||
	    (uint64_t)st.st_size != r->size)
		return SHFS_TAIL_NONE; /* the segment is being written, or was sealed */
	return tail;
}

static int check_records(struct reading *r, struct shfs_segment *s)
{
	struct shfs_record rec;
	uint64_t bytes;
	int n, tail;

	shfs_segment_on_damage(s, note_damage, r);
	while ((n = shfs_segment_next(s, &rec)) > 0) {
		r->run->out->records++;
		n = name_contents(r->run, &rec);
		if (n)
			return n;
	}
	if (n == -EIO) {
		check_say(flaw_at(r, SHFS_FLAW_RECORD, shfs_segment_offset(s), 0),
		          "it cannot be read from there on: %s", strerror(EIO));
		return 0;
	}
	if (n)
		return n;
	tail = tail_twice(r, s, &bytes);
	if (tail == SHFS_TAIL_TORN)
		check_say(flaw_at(r, SHFS_FLAW_TORN, shfs_segment_offset(s), bytes),
		          "a write was cut short there");
	else if (tail == SHFS_TAIL_DAMAGED && r->file->sealed)
		check_say(flaw_at(r, SHFS_FLAW_RECORD, shfs_segment_offset(s), bytes),
		          "it cannot be unpacked to its end");
	else if (tail == SHFS_TAIL_DAMAGED)
		note_damage(r, shfs_segment_offset(s), shfs_segment_offset(s) + bytes);
	return MIN(tail, 0);
}

/* Is this segment, which cannot be opened, only the begin of one? It is being made, or
 * its producer died then. */
static bool is_begun(const struct reading *r)
{
	_cleanup_close_ int fd = openat(r->file->dirfd, r->file->name,
	                                O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	unsigned char bytes[4096];
	ssize_t n = fd < 0 ? 0 : shfs_pread_full(fd, bytes, sizeof(bytes), 0);
	ssize_t i = 0;

	if (r->file->sealed || n < 0)
		return false;
	while (i < n && !bytes[i])
		i++;
	if (i == n) /* no bytes, or zeros */
		return true;
	if (n < 16)
		return !memcmp(bytes, "shfsseg\2SHFB", (size_t)MIN(n, 12));
	/* the first frame is not whole */
	if (memmem(bytes + 12, (size_t)n - 12, "SHFB", 4))
		return false;
	return !memcmp(bytes, "shfsseg\2SHFB", 12) && n < (ssize_t)sizeof(bytes) &&
	       16 + (bytes[12] | bytes[13] << 8 | bytes[14] << 16 | bytes[15] << 24) + 8 >
	               n;
}

static int check_segment(struct reading *r)
{
	struct shfs_segment *s;
	int error = shfs_segment_open(r->file->dirfd, r->file->name, 0, &s);

	if (!error) {
		r->run->out->segments++;
		error = check_records(r, s);
		shfs_segment_close(s);
		return error;
	}
	if (error == -ENOMEM)
		return error;
	if (error == -ENOENT)
		return 0;
	if (error == -EBADMSG && is_begun(r))
		check_say(flaw_at(r, SHFS_FLAW_TORN, 0, r->size),
		          "its producer died when it had just begun it");
	else
		check_say(flaw_at(r, SHFS_FLAW_SEGMENT, 0, 0), "%s",
		          error == -EBADMSG           ? "its begin is damaged"
		          : error == -EPROTONOSUPPORT ? "another version of shfs made "
		                                        "it, or its begin is damaged"
		                                      : strerror(-error));
	return 0;
}

static bool is_known_flaw(const struct check_known *k, const struct shfs_flaw *f)
{
	for (size_t i = 0; f && i < k->n_logs; i++) {
		_cleanup_buf_ struct shfs_buf b = { 0 };

		shfs_buf_printf(&b, "%s %" PRIu64 " %" PRIu64, f->file, f->offset,
		                f->bytes);
		if (!b.failed && !strcmp(b.data, k->logs[i]))
			return true;
	}
	return false;
}

static void flaw_of_log(struct reading *r, uint64_t offset, uint64_t bytes)
{
	struct shfs_flaw *f = flaw_at(r, SHFS_FLAW_RECORD, offset, bytes);

	check_say(f, "these bytes are not records of a hook");
	if (is_known_flaw(&r->run->known, f))
		f->harmless = true;
}

static int check_hook_log(struct reading *r)
{
	struct shfs_hooklog *log;
	struct shfs_record rec;
	uint64_t damaged = 0, end = 0, tail;
	bool bad;
	int n, error = shfs_hooklog_open(r->file->dirfd, r->file->name, 0, &log);

	if (error == -ENOMEM || error == -ENOENT)
		return error == -ENOENT ? 0 : error;
	if (error) {
		check_say(flaw_at(r, SHFS_FLAW_SEGMENT, 0, 0), "%s", strerror(-error));
		return 0;
	}
	r->run->out->hook_logs++;
	while ((n = shfs_hooklog_next(log, &rec)) > 0) {
		uint64_t now = shfs_hooklog_damaged(log);

		if (now > damaged)
			flaw_of_log(r, end, now - damaged);
		damaged = now;
		end = shfs_hooklog_offset(log);
		r->run->out->records++;
	}
	tail = shfs_hooklog_tail(log, &bad);
	if (bad)
		flaw_of_log(r, shfs_hooklog_offset(log), tail);
	else if (tail)
		check_say(flaw_at(r, SHFS_FLAW_TORN, shfs_hooklog_offset(log), tail),
		          "a write was cut short there");
	shfs_hooklog_close(log);
	return n;
}

static int check_journal_file(const struct shfs_journal_file *file, void *arg)
{
	struct reading r = { .run = arg, .file = file, .size = file->size_bytes };

	return file->hook_log ? check_hook_log(&r) : check_segment(&r);
}

/* --- missing objects that records name --- */

/* Reads an object by its name, as a user of the version would. */
static int read_by_name(struct check_run *run, const struct shfs_object_id *id)
{
	_cleanup_close_ int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : shfs_object_copy(run->store, id, fd);
}

/* Notes that one of the store's lists cannot be read, if that is what the error says. */
static int note_list(struct check_run *run, int error, enum shfs_flaw_kind kind,
                     const char *name, const char *what)
{
	struct shfs_flaw *f;

	if (!error || error == -ENOMEM)
		return error;
	f = check_flaw(run, kind, 0, 0, "%s", name);
	if (error == -EBADMSG)
		check_say(f, "this list of %s is damaged", what);
	else
		check_say(f, "%s", strerror(-error));
	return 0;
}

static int check_pruned(struct check_run *run)
{
	return note_list(run, pruned_load(run->store, &run->pruned), SHFS_FLAW_PRUNED,
	                 "pruned", "pruned objects");
}

/* Checks the list of what only remotes have: a pull, not a repair, makes it anew. */
static int check_away(struct check_run *run, bool *damaged)
{
	_cleanup_objects_ struct shfs_objects away = { 0 };
	int r = away_load(run->store, &away);

	*damaged = r && r != -ENOMEM;
	return note_list(run, r, SHFS_FLAW_AWAY, AWAY_NAME,
	                 "contents on remotes (shfs pull --metadata makes it anew)");
}

static int check_trees(struct check_run *run)
{
	_cleanup_trees_ struct shfs_trees *trees = NULL;

	return note_list(run, shfs_trees_load(run->store, &trees), SHFS_FLAW_TREES,
	                 "trees", "records of other machines");
}

static int find_missing_objects(struct check_run *run)
{
	bool unknown = false; /* which contents only a remote has */
	int r = check_pruned(run) ?: check_away(run, &unknown);

	shfs_objects_sort(&run->named);
	run->out->named = run->named.n;
	for (size_t i = 0; i < run->named.n && !r; i++) {
		const struct shfs_object_id *id = &run->named.ids[i];
		struct shfs_flaw *f;
		char name[44];

		if (shfs_objects_has(&run->there, id) ||
		    shfs_objects_has(&run->pruned, id))
			continue;
		r = read_by_name(run, id); /* it may have been stored meanwhile */
		if (r == -ENOENT && unknown)
			r = -EREMOTE;
		run->out->away += r == -EREMOTE;
		if (!r || r == -EREMOTE) {
			r = 0;
			continue;
		}
		if (r == -ENOMEM || r == -EMFILE)
			return r;
		shfs_object_name(id, name);
		f = check_flaw(run, SHFS_FLAW_MISSING, 0, 0, "objects");
		check_say(f,
		          r == -ENOENT ? "the content %s is missing"
		                       : "the content %s is damaged",
		          name);
		if (f) {
			f->has_object = true;
			f->object = *id;
			f->harmless = shfs_objects_has(&run->known.objects, id);
		}
		r = shfs_objects_add(&run->lost, id);
	}
	shfs_objects_sort(&run->lost);
	return r;
}

/* --- all of it --- */

static int begin_or_resume_check(struct check_run *run)
{
	const struct shfs_check_options *o = run->options;
	struct check_state *s = &run->state;
	int r = check_known_load(run->store, &run->known);

	if (!r)
		r = check_state_load(run->store, s);
	if (r || !o->read_data)
		return r;
	if (!o->restart && s->history.begun_ns && s->part == o->part &&
	    s->parts == o->parts) {
		run->out->resumed_ns = s->history.begun_ns;
		return 0;
	}
	for (size_t i = 0; i < s->n_bad; i++)
		free(s->bad[i]);
	s->n_bad = 0;
	shfs_freep(&s->position);
	s->position = NULL;
	s->history.begun_ns = shfs_clock_ns(CLOCK_REALTIME);
	s->part = o->part;
	s->parts = o->parts;
	return check_state_save(run->store, s);
}

static int finish_check(struct check_run *run)
{
	struct shfs_check *c = run->out;
	struct check_state *s = &run->state;

	c->n_harmless = 0;
	for (size_t i = 0; i < c->n_flaws; i++)
		c->n_harmless += c->flaws[i].harmless;
	if (c->failed)
		return -ENOMEM;
	if (!run->options->read_data)
		return 0;
	if (!run->options->parts) {
		s->history.full_ns = shfs_clock_ns(CLOCK_REALTIME);
		s->history.full_flaws = c->n_flaws - c->n_harmless;
	}
	s->history.begun_ns = 0;
	for (size_t i = 0; i < s->n_bad; i++)
		free(s->bad[i]);
	s->n_bad = 0;
	shfs_freep(&s->position);
	s->position = NULL;
	return check_state_save(run->store, s);
}

/* Checks the journal first: the objects that it names were there before. */
static int check_all_parts(struct check_run *run)
{
	_cleanup_index_ struct shfs_index *index = NULL;
	int r = check_modes(run);

	if (!r)
		r = check_trees(run);
	if (!r)
		r = shfs_journal_walk(run->store, SHFS_JOURNAL_ALL, check_journal_file,
		                      run);
	for (size_t i = 0; i < run->out->n_flaws; i++)
		if (run->out->flaws[i].kind <= SHFS_FLAW_SEGMENT &&
		    !run->out->flaws[i].harmless)
			run->damaged = true;
	if (!r)
		r = check_index(run, &index);
	/* The index may have rows of records that are damaged now. */
	if (!r && index && (run->options->read_data || run->damaged))
		r = check_index_against_journal(run, index);
	if (!r && index)
		r = check_named_by_index(run, index);
	if (!r)
		r = check_objects(run);
	if (!r)
		r = find_missing_objects(run);
	return r ? r : check_losses(run, index);
}

int shfs_check_run(struct shfs_store *store, const char *hook_dir,
                   const struct shfs_check_options *options, struct shfs_check *out)
{
	struct check_run run = {
		.store = store, .hook_dir = hook_dir, .options = options, .out = out
	};
	int r;

	*out = (struct shfs_check){ 0 };
	r = options->alone ? 0 : shfs_store_share(store, SHARE_MS);
	if (!r)
		r = begin_or_resume_check(&run);
	if (!r)
		r = check_all_parts(&run);
	if (!r)
		r = finish_check(&run);
	check_state_free(&run.state);
	check_known_free(&run.known);
	shfs_objects_free(&run.named);
	shfs_objects_free(&run.there);
	shfs_objects_free(&run.lost);
	shfs_objects_free(&run.pruned);
	if (r)
		shfs_check_free(out);
	return r;
}
