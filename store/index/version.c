/* SPDX-License-Identifier: MIT */
/* Numbers the versions of files, in the order in which their bytes were made. */
#include "store/index/internal.h"

#include "store/objects/object.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* Has the producer seen which file is at this path, and lost no record since? */
static bool is_path_known(const struct shfs_ingest *ing, const struct shfs_file *f)
{
	return f->known.by == ing->producer.id && f->known.seq > ing->producer.lost_seq;
}

/* Has the producer also seen that the file holds the latest version? */
static bool is_content_known(const struct shfs_ingest *ing, const struct shfs_file *f)
{
	return is_path_known(ing, f) && !f->known.named;
}

/* --- contents --- */

/* Can the content be a version? That of a link is its text. */
static bool is_content(const struct shfs_content *c)
{
	return (c->flags & SHFS_CONTENT_KNOWN) && !(c->flags & SHFS_CONTENT_SKIP_TYPE) &&
	       (!(c->mode & S_IFMT) || S_ISREG(c->mode) || S_ISLNK(c->mode));
}

/* --- what a producer knows of a file --- */

/* Notes that the producer has seen, or made, this content here. */
static void know(struct shfs_ingest *ing, struct shfs_file *f,
                 const struct shfs_content *c)
{
	struct shfs_sighting *k = &f->known;

	f->moved_id = 0;
	/* A late record may have an earlier ctime. */
	if (!shfs_file_is_same_by_times(f, c) && c->ctime_ns > k->ctime_last_ns) {
		k->ctime_first_ns = k->ctime_last_ns = c->ctime_ns;
		k->mtime_ns = c->mtime_ns;
		k->touched = false;
		shfs_file_changed(ing, f);
	}
	if (!is_content_known(ing, f)) {
		k->by = ing->producer.id;
		k->seq = ing->producer.last_seq;
		k->named = false;
		shfs_file_changed(ing, f);
	}
}

/* Notes that the producer has seen this file get a name, whatever it holds. */
static void know_name(struct shfs_ingest *ing, struct shfs_file *f)
{
	if (is_content_known(ing, f))
		return;
	f->known.by = ing->producer.id;
	f->known.seq = ing->producer.last_seq;
	f->known.named = true;
	shfs_file_changed(ing, f);
}

/* --- files with several names --- */

/* Is g another path of the same file? */
static bool is_other_name(const struct shfs_file *f, const struct shfs_file *g)
{
	return g && g != f && g->present;
}

int shfs_version_linked(struct shfs_ingest *ing, struct shfs_file *f, uint64_t dev,
                        uint64_t ino)
{
	int r;

	if (f->dev == dev && f->ino == ino)
		return 0;
	r = shfs_inode_leave(ing, f);
	if (r)
		return r;
	f->dev = dev;
	f->ino = ino;
	shfs_file_changed(ing, f);
	return ino ? shfs_inode_of(ing, f) : 0;
}

static struct shfs_arg object_arg(const struct shfs_content *c, uint8_t buf[static 20])
{
	if (!(c->flags & SHFS_CONTENT_OBJECT))
		return shfs_arg_id(0);
	return shfs_arg_blob((struct shfs_bytes){ (const char *)buf,
	                                          shfs_object_pack(&c->object, buf) });
}

static struct shfs_arg version_data_arg(const struct shfs_version_fact *version,
                                        uint8_t buf[static SHFS_VERSION_PACKED])
{
	return shfs_arg_blob((struct shfs_bytes){ (const char *)buf,
	                                          shfs_version_pack(version, buf) });
}

static int version_write(struct shfs_ingest *ing, int64_t file_id, int64_t n,
                         const struct shfs_version_fact *version)
{
	uint8_t object[20], data[SHFS_VERSION_PACKED];

	return shfs_sql_run(ing->index,
	                    "UPDATE version SET data = ?, object = ?"
	                    " WHERE file_id = ? AND n = ?",
	                    version_data_arg(version, data),
	                    object_arg(&version->content, object), shfs_arg_int(file_id),
	                    shfs_arg_int(n));
}

/* Updates the row of the latest version. */
static int version_update(struct shfs_ingest *ing, const struct shfs_file *f)
{
	struct shfs_version_fact latest = {
		.content = f->content,
		.source = f->source & ~(SHFS_SOURCE_CARRIED | SHFS_SOURCE_AGAIN),
		.carried = f->source & SHFS_SOURCE_CARRIED,
		.again = f->source & SHFS_SOURCE_AGAIN,
		.access_id = f->maker_id,
		.time_ns = f->time_ns,
	};

	return version_write(ing, f->id, f->versions, &latest);
}

static int attributes(struct shfs_ingest *ing, struct shfs_file *f,
                      const struct shfs_content *now)
{
	struct shfs_content *c = &f->content;

	if (!f->versions || now->size != c->size)
		return 0;
	if (now->mode == c->mode && now->mtime_ns == c->mtime_ns)
		return 0;
	c->mode = now->mode;
	c->mtime_ns = now->mtime_ns;
	shfs_file_changed(ing, f);
	return version_update(ing, f);
}

int shfs_version_change(struct shfs_ingest *ing, struct shfs_file *f,
                        const struct shfs_inode_change *change)
{
	struct shfs_sighting *k = &f->known;

	k->ctime_last_ns = MAX(k->ctime_last_ns, change->ctime_ns);
	k->touched |= change->times;
	shfs_file_changed(ing, f);
	return change->now ? attributes(ing, f, change->now) : 0;
}

/* Applies the change to all names of the file that are known to hold its content. */
static int change_names(struct shfs_ingest *ing, struct shfs_file *f,
                        const struct shfs_inode_change *change)
{
	int r = shfs_inode_settle(ing, f);

	if (!r && is_content_known(ing, f))
		r = shfs_version_change(ing, f, change);
	return r ? r : shfs_inode_note(ing, f, change);
}

int shfs_version_metadata(struct shfs_ingest *ing, struct shfs_file *f, int64_t ctime_ns,
                          bool times)
{
	return change_names(ing, f,
	                    &(struct shfs_inode_change){ .ctime_ns = ctime_ns,
	                                                 .times = times });
}

int shfs_version_attributes(struct shfs_ingest *ing, struct shfs_file *f,
                            const struct shfs_content *now)
{
	if (!(now->flags & SHFS_CONTENT_KNOWN) || !shfs_is_complete(now))
		return 0;
	return change_names(ing, f,
	                    &(struct shfs_inode_change){ .ctime_ns = INT64_MIN,
	                                                 .now = now });
}

void shfs_version_unknown(struct shfs_ingest *ing, struct shfs_file *f)
{
	if (f->known.by)
		shfs_file_changed(ing, f);
	f->known.by = 0;
	f->known.named = false;
}

/* Counts the object of a content, before the version with it is inserted. */
static int count_object(struct shfs_ingest *ing, const struct shfs_content *c)
{
	uint8_t buf[20];
	struct shfs_bytes object = { (const char *)buf,
		                     shfs_object_pack(&c->object, buf) };
	int64_t one;
	int r = shfs_seen_object(ing, object);

	if (r > 0)
		r = shfs_sql_int(ing->index, &one,
		                 "SELECT 1 FROM version WHERE"
		                 " substr(object, 1, 3) = substr(?1, 1, 3)"
		                 " AND object = ?1 LIMIT 1",
		                 shfs_arg_blob(object));
	ing->totals.objects += !r;
	return MIN(r, 0);
}

/* Notes the object of a content that had none. */
static int learn_object(struct shfs_ingest *ing, struct shfs_content *known, bool carried,
                        const struct shfs_content *c)
{
	int r = count_object(ing, c);

	if (!r && !carried)
		r = shfs_left_out_add(ing, known->flags, -1);
	known->flags = c->flags;
	known->object = c->object;
	known->phash = c->phash;
	return r;
}

/* Finds the cached file whose latest version this is; NULL: none. */
static int latest_of(struct shfs_ingest *ing, int64_t version_id, struct shfs_file **out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_files_flush(ing);

	if (!r)
		r = shfs_sql_get(ing->index, &stmt,
		                 "SELECT d.path || '/' || f.name FROM file f"
		                 " JOIN directory d USING (directory_id)"
		                 " WHERE f.file_id = ?",
		                 shfs_arg_int(version_id >> 32));
	if (r > 0)
		r = shfs_file_get(ing,
		                  (struct shfs_bytes){
					  (const char *)sqlite3_column_text(stmt, 0),
					  (size_t)sqlite3_column_bytes(stmt, 0) },
		                  out);
	if (!r && *out && shfs_file_latest(*out) != version_id)
		*out = NULL;
	return r;
}

/* Completes the content of the version that this one came from; *id becomes that version,
 * or 0. */
static int origin_learns(struct shfs_ingest *ing, int64_t *id,
                         const struct shfs_content *c)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	struct shfs_version_fact origin;
	struct shfs_file *f = NULL;
	int r = shfs_sql_get(
		ing->index, &stmt,
		"SELECT o.file_id << 32 | o.n, o.data, o.object FROM version v"
		" JOIN version o ON o.file_id = v.origin_version_id >> 32"
		"  AND o.n = v.origin_version_id & 0xffffffff"
		" WHERE v.file_id = ? AND v.n = ? AND o.object IS NULL",
		shfs_arg_int(*id >> 32), shfs_arg_int((uint32_t)*id));

	*id = 0;
	if (r > 0)
		r = shfs_version_columns(stmt, 1, &origin) ?: 1;
	if (r <= 0 || !shfs_is_complete(&origin.content) ||
	    origin.content.size != c->size ||
	    !shfs_content_hashed_alike(origin.content.flags, c->flags) ||
	    !shfs_same_phash(&origin.content, c))
		return MIN(r, 0);
	*id = sqlite3_column_int64(stmt, 0);
	/* First, as it may write the row: noted changes are applied. */
	r = latest_of(ing, *id, &f);
	if (!r)
		r = learn_object(ing, f ? &f->content : &origin.content,
		                 f ? f->source & SHFS_SOURCE_CARRIED : origin.carried, c);
	if (r)
		return r;
	return f ? version_update(ing, f)
	         : version_write(ing, *id >> 32, (uint32_t)*id, &origin);
}

/* Notes that access_id made the latest version again. */
static int note_made_again(struct shfs_ingest *ing, struct shfs_file *f,
                           int64_t access_id)
{
	if (f->maker_id == access_id || f->source & SHFS_SOURCE_AGAIN)
		return 0;
	f->source |= SHFS_SOURCE_AGAIN;
	return version_update(ing, f);
}

/* The content was seen again: completes its version, and those that it came from by a
 * rename or a link. */
static int complete_version(struct shfs_ingest *ing, struct shfs_file *f,
                            const struct shfs_content *c)
{
	int64_t id = shfs_file_latest(f);
	int r;

	know(ing, f, c);
	if ((f->content.flags & SHFS_CONTENT_OBJECT) || !(c->flags & SHFS_CONTENT_OBJECT))
		return 0;
	r = learn_object(ing, &f->content, f->source & SHFS_SOURCE_CARRIED, c);
	if (!r)
		r = version_update(ing, f);
	while (!r && id)
		r = origin_learns(ing, &id, c);
	return r;
}

/* A file that has the same bytes anew may be another one: its mode and time count from
 * now on. */
static int take_status(struct shfs_ingest *ing, struct shfs_file *f,
                       const struct shfs_content *c)
{
	return !(c->flags & SHFS_CONTENT_KNOWN) || (f->content.mode ^ c->mode) & S_IFMT
	               ? 0
	               : attributes(ing, f, c);
}

struct maker {
	enum shfs_version_source source;
	int64_t origin_version_id, access_id, time_ns;
};

static int insert_version(struct shfs_ingest *ing, const struct shfs_file *f,
                          const struct shfs_content *c, const struct maker *by)
{
	struct shfs_version_fact version = {
		.content = *c,
		.source = by->source,
		.access_id = by->access_id,
		.time_ns = by->time_ns,
	};
	uint8_t object[20], data[SHFS_VERSION_PACKED];

	return shfs_sql_run(ing->index,
	                    "INSERT INTO version (file_id, n, data, object,"
	                    " origin_version_id) VALUES (?, ?, ?, ?, ?)",
	                    shfs_arg_int(f->id), shfs_arg_int(f->versions + 1),
	                    version_data_arg(&version, data), object_arg(c, object),
	                    shfs_arg_id(by->origin_version_id));
}

static int append_version(struct shfs_ingest *ing, struct shfs_file *f,
                          const struct shfs_content *c, const struct maker *by)
{
	int r = c->flags & SHFS_CONTENT_OBJECT ? count_object(ing, c)
	                                       : shfs_left_out_add(ing, c->flags, 1);

	if (!r)
		r = insert_version(ing, f, c, by);
	if (r)
		return r;
	ing->totals.files += !f->versions;
	ing->totals.versions++;
	f->versions++;
	f->source = by->source;
	f->maker_id = by->access_id;
	f->content = *c;
	f->moved_id = 0;
	f->time_ns = by->time_ns;
	f->known = (struct shfs_sighting){ .mtime_ns = c->mtime_ns,
		                           .ctime_first_ns = c->ctime_ns,
		                           .ctime_last_ns = c->ctime_ns,
		                           .by = ing->producer.id,
		                           .seq = ing->producer.last_seq };
	f->last_ns = MAX(f->last_ns, by->time_ns);
	shfs_file_changed(ing, f);
	ing->stats.versions++;
	return 0;
}

/* Did g, another name of a file that held `before` (NULL: unknown), hold that, too? Not
 * if another file got that name meanwhile. */
static bool is_still_same(const struct shfs_ingest *ing, const struct shfs_file *g,
                          const struct shfs_content *before)
{
	if (!before || g->known.named)
		return is_path_known(ing, g);
	return shfs_file_holds(g, before);
}

/* Gives the other names of f, which held `before` as f did, its new content c. before
 * NULL: it is not known what f held, only that it is the file of the other names. */
static int others_follow(struct shfs_ingest *ing, struct shfs_file *f,
                         const struct shfs_content *before, const struct shfs_content *c,
                         struct maker by)
{
	struct shfs_file *const *names;
	size_t n = 0;
	int r = c->flags & SHFS_CONTENT_LINKED ? shfs_inode_names(ing, f, &names, &n) : 0;

	by.source = SHFS_SOURCE_LINKED;
	by.origin_version_id = shfs_file_latest(f);
	for (size_t i = 0; i < n && !r; i++) {
		struct shfs_file *g = names[i];

		if (!is_other_name(f, g))
			continue;
		r = shfs_inode_settle(ing, g);
		if (!r && is_still_same(ing, g, before))
			r = shfs_file_holds(g, &f->content)
			            ? complete_version(ing, g, &f->content)
			            : append_version(ing, g, &f->content, &by);
	}
	return r;
}

/* --- contents that were found, made or seen --- */

/* Numbers a content that no recorded access made; or one made by another name of the
 * file.
 */
static int found(struct shfs_ingest *ing, struct shfs_file *f,
                 const struct shfs_content *c, int64_t real_ns)
{
	bool plausible = c->mtime_ns > 0 && c->mtime_ns <= real_ns;
	struct shfs_file *const *names;
	struct maker by = {
		.source = SHFS_SOURCE_FOUND,
		.time_ns = plausible ? c->mtime_ns : real_ns,
	};
	size_t i = 0;
	int r = c->flags & SHFS_CONTENT_LINKED ? shfs_inode_names(ing, f, &names, &i) : 0;

	while (!r && i-- > 0) {
		if (!is_other_name(f, names[i]))
			continue;
		r = shfs_inode_settle(ing, names[i]);
		if (r || !shfs_file_holds(names[i], c))
			continue;
		by.source = SHFS_SOURCE_LINKED;
		by.origin_version_id = shfs_file_latest(names[i]);
		break;
	}
	return r ? r : append_version(ing, f, c, &by);
}

int shfs_version_now(struct shfs_ingest *ing, struct shfs_file *f,
                     const struct shfs_content *c, int64_t real_ns, int64_t *out)
{
	struct shfs_content before = f->content;
	int r;

	*out = 0;
	if (!is_content(c))
		return 0;
	r = shfs_file_holds(f, c) ? complete_version(ing, f, c)
	                          : found(ing, f, c, real_ns);
	*out = f->versions;
	if (!r && !shfs_same_capture(&before, &f->content))
		r = others_follow(ing, f, &before, c,
		                  (struct maker){ .time_ns = real_ns });
	return r;
}

int shfs_version_same(struct shfs_ingest *ing, struct shfs_file *f,
                      const struct shfs_content *c)
{
	return is_content(c) && shfs_file_holds(f, c) ? complete_version(ing, f, c) : 0;
}

/*
 * Finds the latest of the file's versions with this content. Without an object, the times
 * decide: equal ctimes mean one content, and a later ctime must come with the same mtime
 * (recorded changes of the mtime are in the version).
 */
static int earlier(struct shfs_ingest *ing, int64_t file_id, const struct shfs_content *c,
                   int64_t *out)
{
	uint8_t buf[20];

	if (c->flags & SHFS_CONTENT_INCOMPLETE)
		return 0;
	if (c->flags & SHFS_CONTENT_OBJECT)
		return shfs_sql_int(ing->index, out,
		                    "SELECT n FROM version WHERE file_id = ?"
		                    " AND object = ? AND NOT version_flags(data) & 8"
		                    " ORDER BY n DESC LIMIT 1",
		                    shfs_arg_int(file_id), object_arg(c, buf));
	return shfs_sql_int(
		ing->index, out,
		"SELECT n FROM version WHERE file_id = ?1 AND version_size(data) = ?2"
		" AND version_phash(data) = ?5 AND version_ctime_ns(data) <= ?4"
		" AND (version_ctime_ns(data) = ?4 OR version_mtime_ns(data) = ?3)"
		" AND version_flags(data) & 4 AND NOT version_flags(data) & 8"
		" AND version_flags(data) & 16 = ?6"
		" ORDER BY n DESC LIMIT 1",
		shfs_arg_int(file_id), shfs_arg_int(c->size), shfs_arg_int(c->mtime_ns),
		shfs_arg_int(c->ctime_ns), shfs_arg_int(shfs_phash_kept(c->phash)),
		shfs_arg_int(c->flags & SHFS_CONTENT_WHOLE));
}
_Static_assert(SHFS_CONTENT_PHASH == 4 && SHFS_CONTENT_INCOMPLETE == 8 &&
                       SHFS_CONTENT_WHOLE == 16,
               "the SQL above names these bits");

/* The most earlier names of a file that are searched. */
#define NAMES_MAX 64

/* Adds the paths from which a file came to this path since since_ns. */
static int origins_since(struct shfs_ingest *ing, int64_t file_id, int64_t since_ns,
                         struct shfs_ids *list)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(ing->index, &stmt,
	                     "SELECT origin_version_id >> 32 FROM version"
	                     " WHERE file_id = ? AND origin_version_id IS NOT NULL"
	                     " AND version_time_ns(data) >= ? ORDER BY n DESC",
	                     shfs_arg_int(file_id), shfs_arg_int(since_ns));

	for (; r > 0 && list->n < NAMES_MAX; r = shfs_sql_next(ing->index, stmt)) {
		int64_t id = sqlite3_column_int64(stmt, 0);
		size_t i = 0;

		while (i < list->n && list->ids[i] != id)
			i++;
		if (i == list->n && shfs_ids_add(list, id))
			return -ENOMEM;
	}
	return MIN(r, 0);
}

/* Finds the version with this content at an earlier name that the file had since
 * since_ns.
 */
static int earlier_name(struct shfs_ingest *ing, const struct shfs_file *f,
                        const struct shfs_content *c, int64_t since_ns,
                        struct shfs_sight *out)
{
	_cleanup_ids_ struct shfs_ids list = { 0 };
	int r = shfs_ids_add(&list, f->id);

	for (size_t i = 0; i < list.n && !r; i++) {
		out->file_id = list.ids[i];
		if (i)
			r = earlier(ing, out->file_id, c, &out->n);
		if (!r)
			r = origins_since(ing, list.ids[i], since_ns, &list);
	}
	if (r <= 0)
		*out = (struct shfs_sight){ .file_id = f->id };
	return MIN(r, 0);
}

/*
 * Is a content that was seen newer than the latest version? Not if the file was opened
 * before the latest version came to the path, or if it is older by the file's own time,
 * as the record of a write may say more of the file than the time of that write. The
 * file's own time decides alone where the clocks may be those of two hosts.
 */
static bool is_newer(const struct shfs_ingest *ing, const struct shfs_file *f,
                     const struct shfs_content *c, int64_t begin_ns)
{
	return begin_ns >= f->last_ns &&
	       (is_content_known(ing, f) ? c->ctime_ns >= f->content.ctime_ns
	                                 : c->ctime_ns > f->known.ctime_last_ns);
}

int shfs_version_seen(struct shfs_ingest *ing, struct shfs_file *f,
                      const struct shfs_content *c, int64_t begin_ns,
                      struct shfs_sight *out)
{
	int r;

	*out = (struct shfs_sight){ .file_id = f->id };
	if (!is_content(c))
		return 0;
	if (begin_ns &&
	    (!f->versions || shfs_file_holds(f, c) || is_newer(ing, f, c, begin_ns)))
		return shfs_version_now(ing, f, c, begin_ns, &out->n);
	r = earlier(ing, f->id, c, &out->n);
	if (r)
		return MIN(r, 0);
	if (begin_ns && begin_ns >= f->last_ns)
		return shfs_version_now(ing, f, c, begin_ns, &out->n);
	return earlier_name(ing, f, c, begin_ns, out);
}

int shfs_version_made(struct shfs_ingest *ing, struct shfs_file *f,
                      const struct shfs_content *c, int64_t access_id, int64_t real_ns,
                      int64_t *out)
{
	struct shfs_content before = f->content;
	bool is_other =
		!f->versions || f->known.named || f->moved_id; /* not f->content */
	struct maker by = {
		.source = SHFS_SOURCE_WRITTEN,
		.access_id = access_id,
		.time_ns = real_ns,
	};
	int r;

	*out = 0;
	if (!is_content(c))
		return 0;
	if (shfs_file_left_the_same(f, c)) {
		r = complete_version(ing, f, c);
		r = r ? r : note_made_again(ing, f, access_id);
		r = r ? r : take_status(ing, f, c);
	} else {
		r = append_version(ing, f, c, &by);
	}
	f->last_ns = MAX(f->last_ns, real_ns);
	shfs_file_changed(ing, f);
	*out = f->versions;
	return r ? r : others_follow(ing, f, is_other ? NULL : &before, c, by);
}

/* --- names --- */

/* A file that moves to another name: its content then, and the rest of its path below the
 * path in the record ("" for that path itself). */
struct move {
	struct shfs_file held; /* a copy; its path is not in it */
	struct shfs_buf rest;
};

struct moves {
	struct move *list;
	size_t n, cap;
};

static void moves_free(struct moves *m)
{
	for (size_t i = 0; i < m->n; i++)
		shfs_buf_free(&m->list[i].rest);
	free(m->list);
}
#define _cleanup_moves_ _cleanup_(moves_free)

static int moves_add(struct moves *m, const struct shfs_file *f, struct shfs_bytes rest)
{
	struct move *one;

	if (!MAKE_ROOM(m->list, m->n, m->cap))
		return -ENOMEM;
	one = &m->list[m->n++];
	*one = (struct move){ .held = *f };
	shfs_buf_add(&one->rest, rest.data, rest.len);
	return one->rest.failed ? -ENOMEM : 0;
}

static int take_file_off_path(struct shfs_ingest *ing, struct shfs_file *f,
                              int64_t real_ns)
{
	int r = shfs_version_linked(ing, f, 0, 0);

	f->present = false;
	f->moved_id = 0;
	f->directory = false;
	f->last_ns = MAX(f->last_ns, real_ns);
	shfs_file_changed(ing, f);
	shfs_version_unknown(ing, f);
	return r;
}

/* Adds the recorded paths below a directory: in it, or in directories from "dir/" up to
 * "dir0", as '0' is the byte after '/'. */
static int add_moves_below(struct shfs_ingest *ing, const struct shfs_file *dir,
                           struct moves *m)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	size_t len = dir->len > 1 ? dir->len : 0; /* "/" is "" */
	int r = shfs_files_flush(ing);

	if (!r)
		r = shfs_sql_get(ing->index, &stmt,
		                 "SELECT d.path || '/' || f.name AS path"
		                 " FROM directory d JOIN file f USING (directory_id)"
		                 " WHERE (d.path = ?1 OR (d.path > ?1 || '/'"
		                 "  AND d.path < ?1 || '0')) AND NOT f.state & 1"
		                 " AND f.name <> '' ORDER BY 1",
		                 shfs_arg_text((struct shfs_bytes){ dir->path, len }));
	for (; r > 0; r = shfs_sql_next(ing->index, stmt)) {
		struct shfs_bytes path = { (const char *)sqlite3_column_text(stmt, 0),
			                   sqlite3_column_bytes(stmt, 0) };
		struct shfs_file *f;

		r = shfs_file_get(ing, path, &f);
		if (!r)
			r = moves_add(m, f,
			              (struct shfs_bytes){ path.data + len,
			                                   path.len - len });
		if (r)
			return r;
	}
	return r;
}

/* Takes the file, and with tree all below it, off its path. */
static int take_tree_off_path(struct shfs_ingest *ing, struct shfs_file *f, bool tree,
                              int64_t real_ns, struct moves *m)
{
	int r = moves_add(m, f, (struct shfs_bytes){ "", 0 });

	if (!r && tree)
		r = add_moves_below(ing, f, m);
	if (!r)
		r = take_file_off_path(ing, f, real_ns);
	if (r)
		return r;
	for (size_t i = 1; i < m->n; i++) {
		_cleanup_buf_ struct shfs_buf path = { 0 };
		struct shfs_file *one;

		shfs_buf_add(&path, f->path, f->len);
		shfs_buf_add(&path, m->list[i].rest.data, m->list[i].rest.len);
		if (path.failed)
			return -ENOMEM;
		r = shfs_file_get(ing, (struct shfs_bytes){ path.data, path.len }, &one);
		if (!r)
			r = take_file_off_path(ing, one, real_ns);
		if (r)
			return r;
	}
	return 0;
}

/* Gives a path without versions those of the file, with their numbers and makers. */
static int carry(struct shfs_ingest *ing, const struct shfs_file *from,
                 struct shfs_file *to)
{
	int r = shfs_sql_run(
		ing->index,
		"INSERT INTO version (file_id, n, data, object, origin_version_id)"
		" SELECT ?, n, version_carried(data), object, file_id << 32 | n"
		" FROM version WHERE file_id = ? ORDER BY n",
		shfs_arg_int(to->id), shfs_arg_int(from->id));

	if (r)
		return r;
	ing->totals.files += !to->versions && from->versions;
	to->versions = from->versions;
	to->content = from->content;
	to->moved_id = from->present ? 0 : -1;
	to->time_ns = from->time_ns;
	to->maker_id = from->maker_id;
	to->source = from->source | SHFS_SOURCE_CARRIED;
	return 0;
}

/* The moved_id of a file at its next path. */
static int64_t moved_id(const struct shfs_file *from, const struct shfs_file *to)
{
	int64_t held = shfs_file_held(from);

	if (from->moved_id || from->directory)
		return from->moved_id;
	return held ? shfs_version_id(from->id, held) : to->versions ? -1 : 0;
}

/* Notes that a file is now at another path, too. */
static int place_name(struct shfs_ingest *ing, const struct shfs_file *from,
                      struct shfs_file *to, const struct maker *by)
{
	int r = shfs_inode_settle(ing, to);

	if (!r)
		r = shfs_version_linked(ing, to, from->dev, from->ino);
	if (to->versions || to->last_ns)
		to->since_ns = by->time_ns;
	to->present = true;
	to->moved_id = moved_id(from, to);
	to->directory = from->directory;
	to->last_ns = MAX(to->last_ns, by->time_ns);
	shfs_file_changed(ing, to);
	shfs_version_unknown(ing, to);
	if (from->known.named)
		know_name(ing, to);
	return r;
}

/* Places a file and its content at another path. changing: its content is recorded only
 * when it is closed. */
static int place(struct shfs_ingest *ing, const struct shfs_file *from,
                 struct shfs_file *to, const struct maker *by, bool changing)
{
	int r = place_name(ing, from, to, by);

	if (r || !from->versions || from->directory)
		return r;
	changing |= from->moved_id != 0;
	if (!to->versions && by->source == SHFS_SOURCE_RENAMED && !from->moved_id)
		r = carry(ing, from, to);
	else if (!changing)
		r = !shfs_file_holds(to, &from->content)
		            ? append_version(ing, to, &from->content, by)
		            : note_made_again(ing, to, by->access_id)
		                      ?: take_status(ing, to, &from->content);
	if (changing) {
		know_name(ing, to);
	} else {
		to->known = from->known;
		to->moved_id = 0;
	}
	return r;
}

/* Places all moved files. content: that of the record, for the file itself. */
static int place_all(struct shfs_ingest *ing, const struct moves *m,
                     const struct shfs_file *dest, struct maker by,
                     const struct shfs_content *content)
{
	bool changing = content->flags & SHFS_CONTENT_CHANGING;
	int r = 0;

	for (size_t i = 0; i < m->n && !r; i++) {
		_cleanup_buf_ struct shfs_buf path = { 0 };
		struct shfs_file *to;

		shfs_buf_add(&path, dest->path, dest->len);
		shfs_buf_add(&path, m->list[i].rest.data, m->list[i].rest.len);
		if (path.failed)
			return -ENOMEM;
		r = shfs_file_get(ing, (struct shfs_bytes){ path.data, path.len }, &to);
		by.origin_version_id = shfs_file_latest(&m->list[i].held);
		if (!r)
			r = place(ing, &m->list[i].held, to, &by,
			          changing || !m->list[i].held.present);
	}
	return r;
}

static struct maker mover(const struct shfs_name_change *c)
{
	return (struct maker){ .source = SHFS_SOURCE_RENAMED,
		               .access_id = c->access_id,
		               .time_ns = c->real_ns };
}

/* Makes sure that a path has a version of its content before the change. What is at a
 * path that lost its file is another file, which only the record can tell of. */
static int settle_path(struct shfs_ingest *ing, struct shfs_file *f,
                       const struct shfs_content *c, int64_t real_ns, int64_t *n)
{
	int r = shfs_version_now(ing, f, c, real_ns, n);

	if (*n && !f->present) {
		f->present = true;
		shfs_file_changed(ing, f);
	}
	return r;
}

static int settle_both_paths(struct shfs_ingest *ing, struct shfs_name_change *c)
{
	int r = settle_path(ing, c->file, &c->op->content, c->real_ns, &c->seen);

	c->file->directory = c->op->directory;
	if (!c->seen && !c->op->directory && c->file->present && !c->file->moved_id &&
	    !(c->op->content.flags & SHFS_CONTENT_CHANGING))
		c->seen = c->file->versions;
	if (!r)
		r = settle_path(ing, c->file2, &c->op->victim, c->real_ns, &c->victim);
	if (!r && !c->victim)
		c->victim = shfs_file_held(c->file2);
	return r;
}

int shfs_version_rename(struct shfs_ingest *ing, struct shfs_name_change *c)
{
	_cleanup_moves_ struct moves moves = { 0 };
	int r;

	if (c->file == c->file2)
		return 0;
	r = settle_both_paths(ing, c);
	if (!r)
		r = take_tree_off_path(ing, c->file, c->op->directory, c->real_ns,
		                       &moves);
	if (!r)
		r = place_all(ing, &moves, c->file2, mover(c), &c->op->content);
	if (!r && !c->op->directory)
		r = shfs_version_metadata(ing, c->file2, c->real_ns, false);
	if (c->op->victim.flags) /* a file that may have no version yet */
		c->file2->since_ns = c->real_ns;
	if (!r && !c->op->directory && c->seen)
		c->made = c->file2->versions;
	return r;
}

/* The record says only of path whether it is a directory; path2 may be one, too. */
int shfs_version_exchange(struct shfs_ingest *ing, struct shfs_name_change *c)
{
	_cleanup_moves_ struct moves there = { 0 }, back = { 0 };
	int r;

	if (c->file == c->file2)
		return 0;
	r = settle_both_paths(ing, c);
	if (!r)
		r = take_tree_off_path(ing, c->file, true, c->real_ns, &there);
	if (!r)
		r = take_tree_off_path(ing, c->file2, true, c->real_ns, &back);
	if (!r)
		r = place_all(ing, &there, c->file2, mover(c), &c->op->content);
	if (!r)
		r = place_all(ing, &back, c->file, mover(c), &c->op->victim);
	if (!r)
		r = shfs_version_metadata(ing, c->file, c->real_ns, false);
	if (!r)
		r = shfs_version_metadata(ing, c->file2, c->real_ns, false);
	if (!r && !c->op->directory && c->seen)
		c->made = c->file2->versions;
	return r;
}

int shfs_version_link(struct shfs_ingest *ing, struct shfs_name_change *c)
{
	struct maker by = mover(c);
	int r = settle_both_paths(ing, c);
	bool changing = c->op->content.flags & SHFS_CONTENT_CHANGING || !c->file->present;

	if (r || c->file == c->file2)
		return r;
	by.source = SHFS_SOURCE_LINKED;
	by.origin_version_id = shfs_file_latest(c->file);
	c->file->present = !c->op->nameless;
	shfs_file_changed(ing, c->file);
	if (c->op->ino && !c->op->nameless)
		r = shfs_version_linked(ing, c->file, c->op->dev, c->op->ino);
	if (!r)
		r = shfs_version_metadata(ing, c->file, c->real_ns, false);
	/* While the file is written, its content is unknown: both paths get it at the
	 * close. */
	if (changing)
		shfs_version_unknown(ing, c->file);
	know_name(ing, c->file);
	if (!r)
		r = changing ? place_name(ing, c->file, c->file2, &by)
		             : place(ing, c->file, c->file2, &by, false);
	if (changing)
		c->seen = 0;
	if (!r && c->seen)
		c->made = c->file2->versions;
	return r;
}

int shfs_version_unlink(struct shfs_ingest *ing, struct shfs_name_change *c)
{
	int r = shfs_version_now(ing, c->file, &c->op->victim, c->real_ns, &c->seen);

	if (!c->seen && c->file->moved_id)
		c->victim = shfs_file_held(c->file);
	else if (!c->seen)
		c->seen = c->file->versions;
	if (!r)
		r = shfs_version_metadata(ing, c->file, c->real_ns, false);
	return r ? r : take_file_off_path(ing, c->file, c->real_ns);
}
