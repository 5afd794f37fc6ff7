/* SPDX-License-Identifier: MIT */
#include "store/care/repair.h"

#include "common/clock.h"
#include "common/io.h"
#include "store/care/index-check.h"
#include "store/index-dir.h"
#include "store/journal/frame.h"
#include "store/journal/journal.h"
#include "store/journal/rewrite.h"
#include "store/objects/collect.h"
#include "store/objects/object.h"
#include "store/objects/pruned.h"
#include "store/trees.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define CHUNK_BYTES  4096u
#define BEGIN_BYTES  (64u << 10)  /* longest PRODUCER record */
#define SEALED_HEAD  ((size_t)32) /* of zstd: the frame and its first block */
#define HEALED_BYTES 4096u        /* bytes in which a flipped bit is looked for */

struct repair {
	struct shfs_store *store;
	struct shfs_repair *out;
	struct check_known known;
	char **packs; /* to write anew */
	size_t n_packs;
};

/* --- setting aside --- */

static int make_place(struct repair *rp, const char *file, uint64_t offset, bool part,
                      char **out)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };
	_cleanup_free_ char *dir = NULL;
	int r;

	shfs_buf_printf(&path, "%s/%s", rp->out->aside, file);
	if (part)
		shfs_buf_printf(&path, "@%" PRIu64, offset);
	if (path.failed)
		return -ENOMEM;
	dir = strndup(path.data, (size_t)(strrchr(path.data, '/') - path.data));
	if (!dir)
		return -ENOMEM;
	r = shfs_mkdir_p_at(rp->store->dirfd, dir, 0700);
	if (r)
		return r;
	rp->out->any = true;
	*out = shfs_buf_take(&path);
	return *out ? 0 : -ENOMEM;
}

/* Copies bytes; those that cannot be read become zeros. */
static int copy_readable_bytes(int from, int to, uint64_t offset, uint64_t len)
{
	char chunk[CHUNK_BYTES];

	for (uint64_t done = 0; done < len;) {
		size_t want = (size_t)MIN(len - done, (uint64_t)CHUNK_BYTES);
		ssize_t n = shfs_pread_full(from, chunk, want, (off_t)(offset + done));
		int r;

		if (n < 0 && n != -EIO)
			return (int)n;
		if (!n)
			break;
		if (n < 0) {
			memset(chunk, 0, want);
			n = (ssize_t)want;
		}
		r = shfs_write_all(to, chunk, (size_t)n);
		if (r)
			return r;
		done += (uint64_t)n;
	}
	return fdatasync(to) ? -errno : 0;
}

/* Copies bytes of a file aside; bytes 0: all of it. A missing file, or one that is not
 * regular, has nothing to copy. */
static int copy_from(struct repair *rp, int dirfd, const char *file, uint64_t offset,
                     uint64_t bytes)
{
	_cleanup_close_ int from =
		openat(dirfd, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	_cleanup_close_ int to = -1;
	_cleanup_free_ char *place = NULL;
	struct stat st;
	int r;

	if (from < 0)
		return errno == ENOENT || errno == ELOOP ? 0 : -errno;
	if (fstat(from, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return 0;
	r = make_place(rp, file, offset, bytes, &place);
	if (r)
		return r;
	to = openat(rp->store->dirfd, place,
	            O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return -errno;
	return copy_readable_bytes(from, to, offset,
	                           bytes ? bytes : (uint64_t)st.st_size);
}

static int copy_aside(struct repair *rp, const char *file, uint64_t offset,
                      uint64_t bytes)
{
	return copy_from(rp, rp->store->dirfd, file, offset, bytes);
}

static int copy_index(struct repair *rp, const char *file)
{
	return copy_from(rp, rp->store->index_fd, file, 0, 0);
}

static int move_file_aside(struct repair *rp, const char *file)
{
	_cleanup_free_ char *place = NULL;
	int r = make_place(rp, file, 0, false, &place);

	if (r)
		return r;
	return renameat(rp->store->dirfd, file, rp->store->dirfd, place) &&
	                       errno != ENOENT
	               ? -errno
	               : 0;
}

/* --- segments --- */

static int copy_records(struct shfs_segment *s, int dirfd, const char *name)
{
	struct shfs_rewrite *w = NULL;
	struct shfs_record rec;
	int r = shfs_rewrite_new(&w);

	while (!r && (r = shfs_segment_next(s, &rec)) > 0)
		r = shfs_rewrite_add(w, &rec);
	if (!r || r == -EIO)
		r = shfs_rewrite_save(w, dirfd, name);
	shfs_rewrite_free(w);
	return r;
}

/* Is the first frame of the segment valid? */
static bool begins_right(const unsigned char *p, size_t n)
{
	uint64_t len = SHFS_FRAME_HEAD;
	struct shfs_cursor c = { p + 12, p + n, false };

	if (n < 32 || memcmp(p + 8, "SHFB", 4))
		return false;
	len += shfs_cursor_u32(&c);
	if (len > MIN(n - 16, (size_t)BEGIN_BYTES))
		return false;
	c.p = p + 8 + len;
	return shfs_object_hash64(p + 8, len) == shfs_cursor_u64(&c);
}

/* Heals a segment of format 2 whose magic, or one bit of its first frame, is damaged. */
static int heal_begin(struct shfs_buf *b, struct shfs_segment **out)
{
	unsigned char *p = (unsigned char *)b->data;

	if (b->len < 32)
		return -EBADMSG;
	memcpy(p, SHFS_SEGMENT_MAGIC, SHFS_SEGMENT_MAGIC_LEN);
	for (size_t bit = 64; !begins_right(p, b->len); bit++) {
		if (bit > 64)
			p[(bit - 1) / 8] ^= (unsigned char)(1 << (bit - 1) % 8);
		if (bit == MIN(b->len, (size_t)HEALED_BYTES) * 8)
			return -EBADMSG;
		p[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
	return shfs_segment_from_memory(b->data, b->len, out);
}

/* Heals a sealed segment of which one bit of the head is damaged. */
static int heal_sealed(struct shfs_buf *b, struct shfs_segment **out)
{
	int r = -EBADMSG;

	for (size_t bit = 0; r == -EBADMSG && bit < MIN(b->len, SEALED_HEAD) * 8; bit++) {
		b->data[bit / 8] ^= (char)(1 << bit % 8);
		r = shfs_segment_from_sealed(b->data, b->len, out);
		b->data[bit / 8] ^= (char)(1 << bit % 8);
	}
	return r;
}

/* Opens a damaged segment. 1: nothing of it can be read; -EPROTONOSUPPORT: it is whole,
 * and another version made it. */
static int open_segment(int dirfd, const char *name, bool sealed,
                        struct shfs_segment **out)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	char file[304];
	int r = shfs_segment_open(dirfd, name, 0, out);

	if (r != -EBADMSG && r != -EPROTONOSUPPORT)
		return r == -ENOMEM || !r ? r : 1;
	snprintf(file, sizeof(file), "%s%s", name, sealed ? ".zst" : "");
	r = shfs_read_file_at(dirfd, file, SHFS_SEGMENT_MAX, &b);
	if (!r && shfs_segment_is_of_another_version(b.data, b.len, sealed))
		return -EPROTONOSUPPORT;
	if (!r)
		r = sealed ? heal_sealed(&b, out) : heal_begin(&b, out);
	return r && r != -ENOMEM ? 1 : r;
}

/* Opens the directory of a segment, and gets its name without .zst. */
static int open_segment_directory(struct repair *rp, const char *file,
                                  char name[static 300])
{
	const char *slash = strrchr(file, '/');
	_cleanup_free_ char *dir = strndup(file, (size_t)(slash - file));
	int fd;

	if (!dir)
		return -ENOMEM;
	snprintf(name, 300, "%s", slash + 1);
	if (shfs_ends_with(name, ".zst"))
		name[strlen(name) - 4] = '\0';
	fd = openat(rp->store->dirfd, dir,
	            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int mend_segment(struct repair *rp, const char *file)
{
	struct shfs_segment *s = NULL;
	char name[300];
	_cleanup_close_ int dirfd = open_segment_directory(rp, file, name);
	int r = dirfd < 0 ? dirfd
	                  : open_segment(dirfd, name, shfs_ends_with(file, ".zst"), &s);

	if (r == -EPROTONOSUPPORT) /* the next check reports it again */
		return 0;
	if (r == 1) {
		rp->out->unreadable++;
		return move_file_aside(rp, file);
	}
	if (!r)
		r = copy_records(s, dirfd, name);
	shfs_segment_close(s);
	if (!r)
		r = copy_aside(rp, file, 0, 0);
	if (!r && syncfs(rp->store->dirfd))
		r = -errno;
	rp->out->segments += !r;
	return r ? r : shfs_rewrite_install(dirfd, name);
}

/* Notes the damage of a hook log, which is not changed, as its shell may write to it. */
static int note_log(struct repair *rp, const struct shfs_flaw *f)
{
	struct check_known *k = &rp->known;
	char **grown = reallocarray(k->logs, k->n_logs + 1, sizeof(*grown));
	_cleanup_buf_ struct shfs_buf line = { 0 };

	if (!grown)
		return -ENOMEM;
	k->logs = grown;
	shfs_buf_printf(&line, "%s %" PRIu64 " %" PRIu64, f->file, f->offset, f->bytes);
	grown[k->n_logs] = shfs_buf_take(&line);
	return grown[k->n_logs] && ++k->n_logs ? 0 : -ENOMEM;
}

/* --- packs --- */

/* Keeps all contents of a pack but the wrong ones. */
static bool keeps(void *arg, const char *pack, uint64_t offset,
                  const struct shfs_object_id *id)
{
	const struct repair *rp = arg;

	for (size_t i = 0; i < rp->out->found.n_flaws; i++) {
		const struct shfs_flaw *f = &rp->out->found.flaws[i];

		if (f->kind == SHFS_FLAW_CONTENT && f->offset == offset &&
		    shfs_object_equal(&f->object, id) && shfs_ends_with(f->file, pack))
			return false;
	}
	return true;
}

/* Notes a pack to be written anew; file: the pack, or its index. */
static int note_pack(struct repair *rp, const char *file)
{
	const char *name = strrchr(file, '/') + 1;
	char **grown = reallocarray(rp->packs, rp->n_packs + 1, sizeof(*grown));
	_cleanup_buf_ struct shfs_buf b = { 0 };

	if (!grown)
		return -ENOMEM;
	rp->packs = grown;
	shfs_buf_printf(&b, "%.*s.pack", (int)(strrchr(name, '.') - name), name);
	if (b.failed)
		return -ENOMEM;
	for (size_t i = 0; i < rp->n_packs; i++)
		if (!strcmp(rp->packs[i], b.data))
			return 0;
	rp->packs[rp->n_packs++] = shfs_buf_take(&b);
	return 0;
}

static int mend_packs(struct repair *rp)
{
	if (!rp->n_packs)
		return 0;
	if (syncfs(rp->store->dirfd))
		return -errno;
	rp->out->packs = rp->n_packs;
	return shfs_packs_salvage(rp->store, rp->packs, rp->n_packs, keeps, rp);
}

/* --- flaw by flaw --- */

static int mend_mode(struct repair *rp, const char *file)
{
	_cleanup_close_ int fd = openat(rp->store->dirfd, file,
	                                O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return 0; /* the next check reports it */
	rp->out->modes += !fchmod(fd, st.st_mode & 0700);
	return 0;
}

static bool is_first(const struct repair *rp, size_t i)
{
	const struct shfs_flaw *flaws = rp->out->found.flaws;

	for (size_t k = 0; k < i; k++)
		if (!flaws[k].harmless && flaws[k].kind != SHFS_FLAW_MODE &&
		    !strcmp(flaws[k].file, flaws[i].file))
			return false;
	return true;
}

static int mend(struct repair *rp, size_t i)
{
	const struct shfs_flaw *f = &rp->out->found.flaws[i];
	bool packed = !strncmp(f->file, "objects/packs/", 14);
	int r = 0;

	switch (f->kind) {
	case SHFS_FLAW_MODE:
		return mend_mode(rp, f->file);
	case SHFS_FLAW_RECORD:
	case SHFS_FLAW_SEGMENT:
		if (shfs_ends_with(f->file, ".log"))
			return f->bytes ? copy_aside(rp, f->file, f->offset, f->bytes)
			                          ?: note_log(rp, f)
			                : 0;
		return is_first(rp, i) ? mend_segment(rp, f->file) : 0;
	case SHFS_FLAW_FRAME:
	case SHFS_FLAW_LOOKUP:
	case SHFS_FLAW_CONTENT:
		if (packed && !f->bytes && f->kind == SHFS_FLAW_FRAME)
			return move_file_aside(rp, f->file); /* it is no file */
		if (!packed) {
			rp->out->loose++;
			/* also if it can be read now: the check has found it damaged */
			if (f->has_object)
				r = shfs_objects_add(&rp->known.objects, &f->object);
			return r ? r : move_file_aside(rp, f->file);
		}
		if (f->kind != SHFS_FLAW_LOOKUP)
			r = copy_aside(rp, f->file, f->offset, f->bytes);
		return r ? r : note_pack(rp, f->file);
	case SHFS_FLAW_PRUNED:
		return copy_aside(rp, f->file, 0, 0) ?: pruned_mend(rp->store);
	case SHFS_FLAW_TREES:
		return copy_aside(rp, f->file, 0, 0) ?: shfs_trees_mend(rp->store);
	case SHFS_FLAW_MISSING:
		return shfs_objects_add(&rp->known.objects, &f->object);
	default:
		return 0;
	}
}

static bool is_flawed(const struct shfs_check *c, enum shfs_flaw_kind kind)
{
	for (size_t i = 0; i < c->n_flaws; i++)
		if (c->flaws[i].kind == kind && !c->flaws[i].harmless)
			return true;
	return false;
}

static int mend_index(struct repair *rp, const char *hook_dir)
{
	struct shfs_check *c = &rp->out->found;
	bool journal = is_flawed(c, SHFS_FLAW_RECORD) || is_flawed(c, SHFS_FLAW_SEGMENT);
	int r = 0;

	if (!journal && !is_flawed(c, SHFS_FLAW_INDEX))
		return 0;
	/* The index may have what the journal has lost. */
	r = copy_index(rp, "index.db");
	if (!r)
		r = copy_index(rp, "index.db-wal");
	if (!r && journal)
		r = index_dir_announce(rp->store);
	if (!r)
		r = shfs_index_rebuild(rp->store, hook_dir, NULL);
	rp->out->indexed = !r;
	return r;
}

/* Notes the losses, those of earlier repairs that are still lost included; later checks
 * report them as known. */
static int note_known(struct repair *rp)
{
	const struct shfs_check *c = &rp->out->found;
	int r = 0;

	for (size_t i = 0; i < c->n_flaws && !r; i++) {
		const struct shfs_flaw *f = &c->flaws[i];

		if (!f->harmless)
			continue;
		if (f->kind == SHFS_FLAW_MISSING)
			r = shfs_objects_add(&rp->known.objects, &f->object);
		else if (f->kind == SHFS_FLAW_RECORD)
			r = note_log(rp, f);
	}
	shfs_objects_sort(&rp->known.objects);
	return r ? r : check_known_save(rp->store, &rp->known);
}

/* Refuses to repair files that we may not read: they need not be damaged. */
static int check_readable(const struct repair *rp)
{
	for (size_t i = 0; i < rp->out->found.n_flaws; i++) {
		const struct shfs_flaw *f = &rp->out->found.flaws[i];
		_cleanup_close_ int fd =
			openat(rp->store->dirfd, f->file,
		               O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

		if (fd < 0 && (errno == EACCES || errno == EPERM))
			return -EACCES;
	}
	return 0;
}

static int mend_all(struct repair *rp, const char *hook_dir)
{
	int r = check_readable(rp);

	for (size_t i = 0; i < rp->out->found.n_flaws && !r; i++)
		if (!rp->out->found.flaws[i].harmless)
			r = mend(rp, i);
	if (!r)
		r = mend_packs(rp);
	if (!r)
		r = mend_index(rp, hook_dir);
	return r ? r : note_known(rp);
}

/* Notes that the flaws of the last check are mended. */
static int note_mended(struct shfs_store *store)
{
	struct check_state s = { 0 };
	int r = check_state_load(store, &s);

	s.history.full_flaws = 0;
	if (!r)
		r = check_state_save(store, &s);
	check_state_free(&s);
	return r;
}

static int name_aside(struct shfs_repair *out)
{
	time_t now = time(NULL);
	struct tm tm;
	char text[sizeof(REPAIR_ASIDE) + 32];

	if (!gmtime_r(&now, &tm) ||
	    !strftime(text, sizeof(text), REPAIR_ASIDE "/%Y%m%dT%H%M%SZ", &tm))
		return -EINVAL;
	out->aside = strdup(text);
	return out->aside ? 0 : -ENOMEM;
}

int shfs_repair_run(struct shfs_store *store, const char *hook_dir,
                    const struct shfs_check_options *options, bool dry_run,
                    struct shfs_repair *out)
{
	struct repair rp = { .store = store, .out = out };
	struct shfs_check_options all = { .read_data = true,
		                          .restart = true,
		                          .alone = !dry_run,
		                          .progress = options->progress,
		                          .arg = options->arg };
	int r = dry_run ? 0 : shfs_store_exclude(store);

	*out = (struct shfs_repair){ 0 };
	if (!r)
		r = name_aside(out);
	if (!r)
		r = shfs_check_run(store, hook_dir, &all, &out->found);
	if (!r && !dry_run)
		r = mend_all(&rp, hook_dir);
	if (!r && !dry_run)
		r = note_mended(store);
	for (size_t i = 0; i < rp.n_packs; i++)
		free(rp.packs[i]);
	free(rp.packs);
	check_known_free(&rp.known);
	return r;
}

void shfs_repair_free(struct shfs_repair *rp)
{
	shfs_check_free(&rp->found);
	free(rp->aside);
}
