/* SPDX-License-Identifier: MIT */
#include "query/export/raw.h"

#include "common/clock.h"
#include "common/io.h"
#include "query/base/model.h"
#include "store/objects/content.h"
#include "store/objects/objects.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define BYTES_MAX (UINT64_C(4) << 30) /* that an import takes as one entry */

/* A fingerprint as the index has it. */
struct print {
	struct print_key {
		uint64_t size;
		int64_t mtime_ns;
		uint32_t phash, whole;
	} key;
	int64_t last_file;
	bool is_twice; /* a path has several versions with it */
	UT_hash_handle hh;
};

/* A file that is taken along. */
struct raw_file {
	char *path;
	struct shfs_content content; /* as in the records: with its whole phash */
	const struct print *print;
	int64_t n; /* of the version */
	UT_hash_handle hh, by_object;
};

struct shfs_raw {
	struct raw_file *files;
	struct raw_file *objects; /* one file for each */
	struct print *prints;
	bool take_along;
	size_t n_left; /* versions that are not taken along */
	struct shfs_buf first;
};

/* --- a file --- */

static bool is_as_recorded(const struct stat *st, const struct shfs_content *c)
{
	return S_ISREG(st->st_mode) && (uint64_t)st->st_size == c->size &&
	       shfs_timespec_ns(st->st_mtim) == c->mtime_ns;
}

static int hash_file(int fd, struct shfs_object_id *out)
{
	_cleanup_free_ char *piece = malloc(1 << 16);
	struct object_hash *hash = object_hash_new();
	ssize_t n = -ENOMEM;
	off_t at = 0;

	while (piece && hash && (n = shfs_pread_full(fd, piece, 1 << 16, at)) > 0) {
		object_hash_add(hash, piece, (size_t)n);
		at += n;
	}
	*out = (struct shfs_object_id){ 0 };
	object_hash_end(hash, out->hash);
	return n < 0 ? (int)n : 0;
}

/* Opens the file, if it is as recorded. A negative errno; -ESTALE: it is not. */
static int open_raw(const char *path, const struct shfs_content *c)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && is_as_recorded(&st, c))
		return fd;
	close(fd);
	return -ESTALE;
}

/* Looks at the file: completes what the index has of the content, with its object. 0;
 * -ESTALE: it is another content, by its fingerprint, size or time. */
static int look_at_raw(const char *path, struct shfs_content *c)
{
	_cleanup_close_ int fd = open_raw(path, c);
	uint32_t kept = shfs_phash_kept(c->phash);
	struct stat st;
	int r = fd < 0 ? fd
	               : shfs_object_fingerprint(fd, shfs_object_whole_max(c->flags), c);

	if (!r && shfs_phash_kept(c->phash) != kept)
		r = -ESTALE;
	if (!r)
		r = hash_file(fd, &c->object);
	if (!r && (fstat(fd, &st) || !is_as_recorded(&st, c)))
		r = -ESTALE;
	return r;
}

/* --- all of them --- */

/* Secrets have no fingerprint. What version control keeps has a copy of its own. */
static bool is_raw(const struct shfs_version *v)
{
	const uint32_t is = SHFS_CONTENT_KNOWN | SHFS_CONTENT_PHASH;

	return (v->flags & is) == is && S_ISREG(v->mode) &&
	       !(v->flags & (SHFS_CONTENT_NAMED | SHFS_CONTENT_INCOMPLETE)) &&
	       !shfs_path_bookkeeping(v->path);
}

static void leave_out(struct shfs_raw *raw, const char *path, int64_t n)
{
	if (!raw->n_left++)
		shfs_show_version(&raw->first, path, n);
}

static struct print *find_print(const struct shfs_raw *raw, const struct shfs_version *v,
                                struct print_key *key)
{
	struct print *print;

	memset(key, 0, sizeof(*key));
	key->size = v->size;
	key->mtime_ns = v->mtime_ns;
	key->phash = shfs_phash_kept(v->phash);
	key->whole = v->flags & SHFS_CONTENT_WHOLE;
	HASH_FIND(hh, raw->prints, key, sizeof(*key), print);
	return print;
}

/* Adds a file that may be taken along. */
static int add_raw(struct shfs_raw *raw, const struct shfs_version *v)
{
	struct print_key key;
	struct print *print = find_print(raw, v, &key);
	struct raw_file *file;

	HASH_FIND_STR(raw->files, v->path, file);
	if (file)
		return 0;
	if (!print) {
		print = calloc(1, sizeof(*print));
		if (!print)
			return -ENOMEM;
		print->key = key;
		HASH_ADD(hh, raw->prints, key, sizeof(print->key), print);
		if (!print->hh.tbl) {
			free(print);
			return -ENOMEM;
		}
	}
	file = calloc(1, sizeof(*file));
	if (!file || !(file->path = strdup(v->path))) {
		free(file);
		return -ENOMEM;
	}
	file->print = print;
	file->n = v->n;
	file->content = (struct shfs_content){ .flags = v->flags,
		                               .size = v->size,
		                               .mtime_ns = v->mtime_ns,
		                               .phash = v->phash };
	HASH_ADD_KEYPTR(hh, raw->files, file->path, strlen(file->path), file);
	if (file->hh.tbl)
		return 0;
	free(file->path);
	free(file);
	return -ENOMEM;
}

static int find_one(struct shfs_raw *raw, const struct shfs_version *v)
{
	if (raw->take_along && v->size <= BYTES_MAX && shfs_version_lies_at(v, v->path))
		return add_raw(raw, v);
	if (!v->carried)
		leave_out(raw, v->path, v->n);
	return 0;
}

static int note_twice(struct shfs_raw *raw, const struct shfs_version *v)
{
	struct print_key key;
	struct print *print = find_print(raw, v, &key);

	if (!print)
		return 0;
	print->is_twice |= print->last_file == v->file_id;
	print->last_file = v->file_id;
	return 0;
}

static int each_version(struct shfs_raw *raw, struct shfs_index *index,
                        const struct shfs_ids *files,
                        int (*fn)(struct shfs_raw *raw, const struct shfs_version *v))
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(index,
	                       "SELECT" SHFS_VERSION_COLUMNS
	                       "FROM v_version WHERE object IS NULL ORDER BY file_id",
	                       &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		_cleanup_version_ struct shfs_version v = { 0 };

		r = 0;
		if (files && !shfs_ids_has(files, shfs_rows_int(rows, 1)))
			continue;
		r = shfs_version_from_row(rows, &v);
		r = r > 0 && is_raw(&v) ? fn(raw, &v) : MIN(r, 0);
	}
	return r;
}

/* Does a path that has the fingerprint have the object, too? Then these are versions that
 * are told apart only as long as the bytes of one are not known. */
static int is_archived_too(struct shfs_index *index, const struct raw_file *file)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	char name[44];
	int r;

	shfs_object_name(&file->content.object, name);
	r = shfs_rows_open_str(index,
	                       "SELECT 1 FROM v_version AS o JOIN v_version AS f"
	                       " ON f.file_id = o.file_id"
	                       " WHERE o.object_key = object_key(?1) AND o.object = ?1"
	                       " AND f.object IS NULL AND f.size = ?2"
	                       " AND f.mtime_ns = ?3 AND f.phash = ?4 LIMIT 1",
	                       name, &rows);
	if (!r)
		r = shfs_rows_bind_int(rows, 2, (int64_t)file->content.size);
	if (!r)
		r = shfs_rows_bind_int(rows, 3, file->content.mtime_ns);
	if (!r)
		r = shfs_rows_bind_int(rows, 4, file->print->key.phash);
	return r ? r : shfs_rows_next(rows);
}

static void raw_file_free(struct raw_file *file)
{
	free(file->path);
	free(file);
}

/* Takes the file, or leaves it out. */
static int take_raw(struct shfs_raw *raw, struct shfs_index *index, struct raw_file *file)
{
	struct shfs_content *c = &file->content;
	int r = file->print->is_twice ? -ESTALE : look_at_raw(file->path, c);
	struct raw_file *same;

	if (r == -ENOMEM)
		return r;
	if (!r)
		r = is_archived_too(index, file);
	if (r) {
		leave_out(raw, file->path, file->n);
		HASH_DEL(raw->files, file);
		raw_file_free(file);
		return 0;
	}
	HASH_FIND(by_object, raw->objects, &c->object, sizeof(c->object), same);
	if (same)
		return 0;
	HASH_ADD(by_object, raw->objects, content.object, sizeof(c->object), file);
	return file->by_object.tbl ? 0 : -ENOMEM;
}

int shfs_raw_find(struct shfs_index *index, const struct shfs_ids *files, bool take_along,
                  struct shfs_raw **out)
{
	struct shfs_raw *raw = calloc(1, sizeof(*raw));
	struct raw_file *file, *next;
	int r = -ENOMEM;

	if (raw) {
		raw->take_along = take_along;
		r = each_version(raw, index, files, find_one);
	}
	if (!r && raw->files)
		r = each_version(raw, index, NULL, note_twice);
	if (!r)
		HASH_ITER (hh, raw->files, file, next)
			if ((r = take_raw(raw, index, file)))
				break;
	if (r)
		shfs_raw_free(raw);
	else
		*out = raw;
	return r;
}

void shfs_raw_free(struct shfs_raw *raw)
{
	struct raw_file *file, *next;
	struct print *print, *next_print;

	if (!raw)
		return;
	HASH_CLEAR(by_object, raw->objects);
	HASH_ITER (hh, raw->files, file, next) {
		HASH_DEL(raw->files, file);
		raw_file_free(file);
	}
	HASH_ITER (hh, raw->prints, print, next_print) {
		HASH_DEL(raw->prints, print);
		free(print);
	}
	shfs_buf_free(&raw->first);
	free(raw);
}

/* --- in the archive --- */

static bool give_of(const struct shfs_raw *raw, struct shfs_bytes path,
                    struct shfs_content *c)
{
	struct raw_file *file = NULL;

	if (path.len)
		HASH_FIND(hh, raw->files, path.data, path.len, file);
	if (!file || !shfs_content_fingerprinted_alike(c, &file->content))
		return false;
	shfs_content_give_object(c, &file->content.object);
	return true;
}

void shfs_raw_give(const struct shfs_raw *raw, struct shfs_bytes path,
                   struct shfs_bytes path2, struct shfs_content *c)
{
	if ((c->flags & (SHFS_CONTENT_KNOWN | SHFS_CONTENT_OBJECT |
	                 SHFS_CONTENT_INCOMPLETE)) == SHFS_CONTENT_KNOWN &&
	    !give_of(raw, path, c))
		give_of(raw, path2, c);
}

static int copy_raw(const struct raw_file *file, int to)
{
	_cleanup_close_ int from = open_raw(file->path, &file->content);
	struct shfs_object_id id;
	struct stat st;
	int r = from < 0 ? from : shfs_copy_fd(from, to) ?: hash_file(to, &id);

	if (!r && (shfs_object_compare(&id, &file->content.object) || fstat(from, &st) ||
	           !is_as_recorded(&st, &file->content)))
		r = -ESTALE;
	return r ? r : 1;
}

int shfs_raw_copy(const struct shfs_raw *raw, const struct shfs_object_id *id, int fd)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	const struct raw_file *file;
	int r;

	HASH_FIND(by_object, raw->objects, id, sizeof(*id), file);
	r = file ? copy_raw(file, fd) : 0;
	if (r >= 0)
		return r;
	shfs_show_path(&shown, file->path);
	shfs_error("cannot take %s along: %s", shown.data ?: "",
	           r == -ESTALE ? "it was changed" : strerror(-r));
	return -ECANCELED;
}

void shfs_raw_warn(const struct shfs_raw *raw)
{
	const bool one = raw->n_left == 1;
	const char *more = "--with-data takes along what lies there unchanged";

	if (raw->take_along)
		more = one ? "it does not lie there unchanged, is too large, or its path "
		             "had it twice"
		           : "they do not lie there unchanged, are too large, or their "
		             "paths had them twice";
	if (one)
		shfs_warn("%s is not archived, and only its fingerprint is in the "
		          "archive: %s",
		          raw->first.data ?: "", more);
	else if (raw->n_left)
		shfs_warn("%zu contents, as %s, are not archived, and only their "
		          "fingerprints are in the archive: %s",
		          raw->n_left, raw->first.data ?: "", more);
}
