/* SPDX-License-Identifier: MIT */
#include "query/past/past.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A write to a file that had no name any more when it ended. */
struct shfs_past_nameless {
	const char *path;
	int64_t begin_ns, end_ns, directory_mtime_ns;
	bool created; /* its open has made the file */
};

#define FILE_ALL                                                                         \
	(SHFS_PAST_CONTENT | SHFS_PAST_MODE | SHFS_PAST_OWNER | SHFS_PAST_TIME |         \
	 SHFS_PAST_XATTRS)
#define ACL "system.posix_acl_"

struct shfs_past_file *shfs_past_real(struct shfs_past_file *f)
{
	while (f && f->same)
		f = f->same;
	return f;
}

/* --- files --- */

static struct shfs_past_file *new_file(struct shfs_past *p)
{
	struct shfs_past_file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->next = p->files;
	p->files = f;
	return f;
}

/* Notes the number of a file. Another one with that number is the same. */
static int number_file(struct shfs_past *p, struct shfs_past_file *f, uint64_t dev,
                       uint64_t ino)
{
	struct shfs_past_file *other;
	uint64_t key[2] = { dev, ino };

	if (!ino || f->key[1])
		return 0;
	HASH_FIND(hh, p->numbers, key, sizeof(key), other);
	if (other)
		return shfs_past_unite(p, other, f);
	memcpy(f->key, key, sizeof(key));
	HASH_ADD(hh, p->numbers, key, sizeof(f->key), f);
	return f->hh.tbl ? 0 : -ENOMEM;
}

static void unnumber_file(struct shfs_past *p, struct shfs_past_file *f)
{
	if (f->key[1])
		HASH_DEL(p->numbers, f);
	f->key[1] = 0;
}

/* The file that lost a name: one that is known by its number, or a new one. */
static struct shfs_past_file *file_of_number(struct shfs_past *p,
                                             const struct shfs_former *former)
{
	struct shfs_past_file *f = NULL;
	uint64_t key[2] = { former->dev, former->ino };

	if (former->flags & SHFS_FORMER_STATUS && former->ino)
		HASH_FIND(hh, p->numbers, key, sizeof(key), f);
	return shfs_past_real(f) ?: new_file(p);
}

static int set_text(char **to, struct shfs_bytes text)
{
	free(*to);
	*to = strndup(text.data, text.len);
	return *to ? 0 : -ENOMEM;
}

static int set_xattr(struct shfs_past_file *f, struct shfs_bytes name,
                     const struct shfs_bytes *value, int64_t seq)
{
	struct shfs_past_xattr *x = NULL;
	char *copy = value ? malloc(value->len + 1) : NULL;

	for (size_t i = 0; i < f->n_xattrs && !x; i++)
		if (strlen(f->xattrs[i].name) == name.len &&
		    !memcmp(f->xattrs[i].name, name.data, name.len))
			x = &f->xattrs[i];
	if (!x) {
		x = reallocarray(f->xattrs, f->n_xattrs + 1, sizeof(*x));
		if (x) {
			f->xattrs = x;
			x += f->n_xattrs;
			*x = (struct shfs_past_xattr){ strndup(name.data, name.len) };
		}
	}
	if (!x || !x->name || (value && !copy)) {
		free(copy);
		return -ENOMEM;
	}
	if (x == f->xattrs + f->n_xattrs)
		f->n_xattrs++;
	free(x->value);
	x->value = copy;
	x->len = value ? value->len : 0;
	x->seq = seq;
	if (copy)
		memcpy(copy, value->data, value->len);
	return 0;
}

const struct shfs_past_xattr *shfs_past_find_xattr(const struct shfs_past_file *f,
                                                   const char *name)
{
	for (size_t i = 0; i < f->n_xattrs; i++)
		if (!strcmp(f->xattrs[i].name, name))
			return &f->xattrs[i];
	return NULL;
}

int shfs_past_no_xattr(struct shfs_past_file *f, const char *name)
{
	return set_xattr(f, shfs_bytes_str(name), NULL, 0);
}

/* Is the time that an effect did away with that of a write that had begun before, though
 * its end was recorded later? Then the time before is what the write did away with. */
static bool is_time_of_write(const struct shfs_past_file *f, const struct shfs_effect *e)
{
	return f->written_ns && e->op && e->begin_ns >= f->written_ns &&
	       e->former.mtime_ns > f->written_ns - SHFS_FILE_TIME_LAG_NS;
}

static void note_seqs(struct shfs_past_file *f, uint32_t changed, int64_t seq)
{
	for (; changed; changed &= changed - 1)
		f->seqs[SHFS_PAST_BIT(changed)] = seq;
}

/* Sets what an effect did away with, as far as it is known. */
static void take_status(struct shfs_past_file *f, const struct shfs_effect *e,
                        uint32_t changed)
{
	const struct shfs_former *former = &e->former;
	uint32_t known = 0;

	if (former->flags & (SHFS_FORMER_STATUS | SHFS_FORMER_TIME)) {
		known = SHFS_PAST_MODE | SHFS_PAST_TIME;
		f->mode = former->mode;
		f->mtime_ns =
			is_time_of_write(f, e) ? f->written_mtime_ns : former->mtime_ns;
	}
	if (former->flags & SHFS_FORMER_STATUS) {
		known |= SHFS_PAST_OWNER;
		f->uid = former->uid;
		f->gid = former->gid;
		f->links = former->links;
		f->rdev = former->rdev;
	}
	if (former->flags & (SHFS_FORMER_STATUS | SHFS_FORMER_NUMBER)) {
		f->dev = former->dev;
		f->ino = former->ino;
	}
	f->known = (f->known &
	            ~(changed & (SHFS_PAST_MODE | SHFS_PAST_OWNER | SHFS_PAST_TIME))) |
	           known;
	f->changed |= changed;
	note_seqs(f, changed | known, e->seq);
}

static int take_all_xattrs(struct shfs_past_file *f, const struct shfs_former *former,
                           int64_t seq)
{
	struct shfs_cursor list = { (const unsigned char *)former->xattrs.data,
		                    (const unsigned char *)former->xattrs.data +
		                            former->xattrs.len,
		                    false };
	struct shfs_bytes name, value;
	int r = 0;

	if (!(former->flags & SHFS_FORMER_XATTRS))
		return 0;
	f->all_xattrs = true;
	f->all_xattrs_seq = seq;
	f->known |= SHFS_PAST_XATTRS;
	while (!r && shfs_xattr_next(&list, &name, &value))
		r = set_xattr(f, name, &value, seq);
	return r;
}

static void note_seq(struct shfs_past_file *f, const struct shfs_effect *e)
{
	f->first_seq = e->seq;
	if (f->last_seq)
		return;
	f->last_seq = e->seq;
	f->last_ns = MAX(f->last_ns, e->end_ns);
	f->touched_file_id = e->op == SHFS_OP_RENAME || e->op == SHFS_OP_LINK
	                             ? e->file2_id
	                             : e->file_id;
}

/* --- names --- */

int shfs_past_set_then(struct shfs_past_entry *entry, struct shfs_past_file *file)
{
	struct shfs_past_file *old = entry->then;

	if (old == file)
		return 0;
	if (file && !MAKE_ROOM(file->then, file->n_then, file->cap_then))
		return -ENOMEM;
	for (size_t i = 0; old && i < old->n_then; i++)
		if (old->then[i] == entry)
			old->then[i--] = old->then[--old->n_then];
	entry->then = file;
	if (file)
		file->then[file->n_then++] = entry;
	return 0;
}

int shfs_past_get_entry(struct shfs_past *p, struct shfs_past_file *dir, const char *name,
                        size_t len, struct shfs_past_entry **out, bool *fresh)
{
	size_t key_len = sizeof(dir) + len;
	struct shfs_past_entry *e = calloc(1, sizeof(*e) + key_len + 1), *found;

	if (!e)
		return -ENOMEM;
	e->key_len = key_len;
	memcpy(e->key, &dir, sizeof(dir));
	memcpy(e->key + sizeof(dir), name, len);
	HASH_FIND(hh, p->table, e->key, key_len, found);
	*fresh = !found;
	*out = found ?: e;
	if (found) {
		free(e);
		return 0;
	}
	e->name = e->key + sizeof(dir);
	e->directory = dir;
	HASH_ADD_KEYPTR(hh, p->table, e->key, key_len, e);
	if (!e->hh.tbl) {
		free(e);
		return -ENOMEM;
	}
	if (p->last)
		p->last->next = e;
	else
		p->entries = e;
	p->last = e;
	return 0;
}

/* A file that nothing was known of: it is there now, as it was. */
static int place_known(struct shfs_past *p, struct shfs_past_entry *entry, bool left)
{
	struct shfs_past_file *f = new_file(p);

	if (!f)
		return -ENOMEM;
	if (left) {
		entry->left = f;
		f->left = entry;
	}
	return shfs_past_set_then(entry, f);
}

/* Finds the entry of a path, as it was at this point of the walk. */
static int find_entry(struct shfs_past *p, const char *path, struct shfs_past_entry **out,
                      bool *fresh)
{
	struct shfs_past_file *dir = p->root;
	int r = 0;

	while (*path == '/')
		path++;
	for (;;) {
		size_t len = strcspn(path, "/");

		r = shfs_past_get_entry(p, dir, path, len, out, fresh);
		if (r || !path[len])
			return r;
		if (!(*out)->then) {
			(*out)->doubt |= !*fresh;
			r = place_known(p, *out, *fresh);
		}
		if (r)
			return r;
		dir = shfs_past_real((*out)->then);
		dir->mode = (dir->mode & ~(uint32_t)S_IFMT) | S_IFDIR;
		path += len + 1;
	}
}

static void note_entry(struct shfs_past_entry *entry, const struct shfs_effect *e,
                       int64_t file_id)
{
	entry->first_seq = e->seq;
	if (!entry->last_seq) {
		entry->last_seq = e->seq;
		entry->file_id = file_id;
	}
}

/* The entry of a path at which there was a file behind the effect. */
static int find_there(struct shfs_past *p, const char *path, const struct shfs_effect *e,
                      int64_t file_id, struct shfs_past_entry **out)
{
	bool fresh;
	int r = find_entry(p, path, out, &fresh);

	if (!r && !(*out)->then) {
		(*out)->doubt |= !fresh;
		r = place_known(p, *out, fresh);
	}
	if (r)
		return r;
	note_entry(*out, e, file_id);
	note_seq(shfs_past_real((*out)->then), e);
	return 0;
}

/* The entry of a path at which there was nothing behind it. */
static int find_gone(struct shfs_past *p, const char *path, const struct shfs_effect *e,
                     int64_t file_id, struct shfs_past_entry **out)
{
	bool fresh;
	int r = find_entry(p, path, out, &fresh);

	if (r)
		return r;
	note_entry(*out, e, file_id);
	(*out)->doubt |= (*out)->then != NULL;
	return 0;
}

/* Its directory had another time before. */
static void touch_directory(struct shfs_past_entry *entry, int64_t now_ns,
                            int64_t mtime_ns)
{
	struct shfs_past_file *dir = shfs_past_real(entry->directory);

	dir->changed |= SHFS_PAST_ENTRIES | SHFS_PAST_TIME;
	dir->last_ns = MAX(dir->last_ns, now_ns);
	dir->known &= ~(uint32_t)SHFS_PAST_TIME;
	if (!mtime_ns)
		return;
	dir->known |= SHFS_PAST_TIME;
	dir->mtime_ns = mtime_ns;
}

/* --- births --- */

static int take_births(struct shfs_past *p, int64_t after_ns)
{
	for (size_t i = 0; i < p->n_born; i++) {
		struct shfs_past_file *f = shfs_past_real(p->born[i]);

		if (f->born_ns <= after_ns)
			continue;
		p->born[i--] = p->born[--p->n_born];
		unnumber_file(p, f);
		while (f->n_then) {
			struct shfs_past_entry *entry = f->then[0];
			int r = shfs_past_set_then(entry, NULL);

			if (r)
				return r;
			touch_directory(entry, f->born_ns, f->born_directory_mtime_ns);
		}
	}
	return 0;
}

static int add_birth(struct shfs_past *p, struct shfs_past_file *f, int64_t born_ns,
                     int64_t directory_mtime_ns)
{
	if (f->born_ns)
		return 0;
	if (!MAKE_ROOM(p->born, p->n_born, p->cap_born))
		return -ENOMEM;
	p->born[p->n_born++] = f;
	f->born_ns = born_ns;
	f->born_directory_mtime_ns = directory_mtime_ns;
	return 0;
}

static int add_nameless(struct shfs_past *p, const struct shfs_effect *e)
{
	if (!MAKE_ROOM(p->nameless, p->n_nameless, p->cap_nameless))
		return -ENOMEM;
	p->nameless[p->n_nameless++] =
		(struct shfs_past_nameless){ e->path, e->begin_ns, e->end_ns,
		                             e->former.directory_mtime_ns,
		                             e->flags & SHFS_ACCESS_CREATED };
	return 0;
}

/* Was the file that lost this path made by an open that ended later, or written to? Then
 * it had another time before. */
static int take_nameless(struct shfs_past *p, struct shfs_past_file *f, const char *path,
                         int64_t gone_ns)
{
	for (size_t i = 0; i < p->n_nameless; i++) {
		struct shfs_past_nameless b = p->nameless[i];

		if (strcmp(b.path, path) || gone_ns < b.begin_ns || gone_ns > b.end_ns)
			continue;
		p->nameless[i--] = p->nameless[--p->n_nameless];
		f->known &= ~(uint32_t)SHFS_PAST_TIME;
		if (b.created)
			return add_birth(p, f, b.begin_ns, b.directory_mtime_ns);
	}
	return 0;
}

/* --- effects --- */

/* type: S_IFDIR and so on. */
static void set_type(struct shfs_past_file *f, uint32_t type)
{
	f->mode = (f->mode & ~(uint32_t)S_IFMT) | type;
}

static int undo_write(struct shfs_past *p, const struct shfs_effect *e)
{
	struct shfs_past_entry *entry;
	struct shfs_past_file *f;
	int r;

	if (e->flags & SHFS_ACCESS_NAMELESS)
		return add_nameless(p, e);
	r = find_there(p, e->path, e, e->file_id, &entry);
	if (r)
		return r;
	f = shfs_past_real(entry->then);
	if (!f->left_n && !(f->changed & SHFS_PAST_CONTENT)) {
		f->left_file_id = e->file_id;
		f->left_n = e->made_n;
	}
	f->changed |= SHFS_PAST_CONTENT;
	note_seqs(f, SHFS_PAST_CONTENT, e->seq);
	f->file_id = e->former_file_id ?: e->file_id;
	f->n = e->former_n;
	f->known &= ~(uint32_t)SHFS_PAST_CONTENT;
	if (f->n)
		f->known |= SHFS_PAST_CONTENT;
	f->writing = e->begin_ns < p->since_ns;
	if (f->writing && e->flags & SHFS_ACCESS_CREATED) {
		f->changed |= SHFS_PAST_TIME;
		f->known &= ~(uint32_t)SHFS_PAST_TIME;
	}
	if (e->flags & SHFS_ACCESS_CREATED)
		return add_birth(p, f, e->begin_ns, e->former.directory_mtime_ns);
	take_status(f, e, SHFS_PAST_TIME);
	f->written_ns = f->known & SHFS_PAST_TIME ? e->begin_ns : 0;
	f->written_mtime_ns = f->mtime_ns;
	return number_file(p, f, f->dev, f->ino);
}

static int undo_touch(struct shfs_past *p, const struct shfs_effect *e)
{
	struct shfs_past_entry *entry;
	struct shfs_past_file *f;
	int r = find_there(p, e->path, e, e->file_id, &entry);

	if (r)
		return r;
	f = shfs_past_real(entry->then);
	take_status(f, e,
	            e->op == SHFS_OP_CHMOD   ? SHFS_PAST_MODE
	            : e->op == SHFS_OP_CHOWN ? SHFS_PAST_MODE | SHFS_PAST_OWNER
	                                     : SHFS_PAST_TIME);
	return number_file(p, f, f->dev, f->ino);
}

static int undo_xattr(struct shfs_past *p, const struct shfs_effect *e)
{
	const struct shfs_former *former = &e->former;
	struct shfs_cursor list = { (const unsigned char *)former->xattrs.data,
		                    (const unsigned char *)former->xattrs.data +
		                            former->xattrs.len,
		                    false };
	struct shfs_bytes name = shfs_bytes_str(e->path2 ?: ""), value;
	struct shfs_past_entry *entry;
	struct shfs_past_file *f;
	int r = find_there(p, e->path, e, e->file_id, &entry);

	if (r)
		return r;
	f = shfs_past_real(entry->then);
	take_status(f, e, strncmp(e->path2 ?: "", ACL, strlen(ACL)) ? 0 : SHFS_PAST_MODE);
	f->changed |= SHFS_PAST_XATTRS;
	note_seqs(f, SHFS_PAST_XATTRS, e->seq);
	if (former->flags & SHFS_FORMER_XATTRS && name.len) {
		f->known |= SHFS_PAST_XATTRS;
		r = set_xattr(f, name,
		              shfs_xattr_next(&list, &name, &value) ? &value : NULL,
		              e->seq);
	} else {
		f->known &= ~(uint32_t)SHFS_PAST_XATTRS;
	}
	return r ? r : number_file(p, f, f->dev, f->ino);
}

/* The file that lost a name by the effect. */
static int put_victim(struct shfs_past *p, const struct shfs_effect *e,
                      struct shfs_past_entry *entry, int64_t file_id, int64_t n,
                      struct shfs_bytes text)
{
	struct shfs_past_file *f = file_of_number(p, &e->former);
	const char *path = e->op == SHFS_OP_RENAME ? e->path2 : e->path;
	uint32_t changed = f ? f->changed : 0;
	int r;

	if (!f)
		return -ENOMEM;
	note_seq(f, e);
	take_status(f, e, f->left ? 0 : FILE_ALL);
	f->changed = changed; /* all of it is to be made, if it is not left */
	r = take_all_xattrs(f, &e->former, e->seq);
	if (!r && text.len)
		r = set_text(&f->text, text);
	if (!f->left) {
		f->file_id = e->former_file_id ?: file_id;
		f->n = n;
		if (n)
			f->known |= SHFS_PAST_CONTENT;
	}
	if (e->op == SHFS_OP_RMDIR)
		set_type(f, S_IFDIR);
	if (!r)
		r = number_file(p, f, f->dev, f->ino);
	f = shfs_past_real(f);
	if (!r)
		r = shfs_past_set_then(entry, f);
	return r ? r : take_nameless(p, f, path, e->begin_ns);
}

static int undo_removal(struct shfs_past *p, const struct shfs_effect *e)
{
	struct shfs_past_entry *entry;
	bool mode_alone = e->op == SHFS_OP_RMDIR;
	int r = find_gone(p, e->path, e, e->file_id, &entry);

	if (!r)
		r = put_victim(p, e, entry, e->file_id, e->former_n ?: e->seen_n,
		               shfs_bytes_str(mode_alone ? "" : e->path2));
	if (r)
		return r;
	if (!mode_alone && e->path2) {
		set_type(entry->then, S_IFLNK);
	} else if (mode_alone && e->path2 && !(e->former.flags & SHFS_FORMER_STATUS)) {
		entry->then->mode =
			S_IFDIR | (uint32_t)(strtoul(e->path2, NULL, 8) & 07777);
		entry->then->known |= SHFS_PAST_MODE;
	}
	touch_directory(entry, e->end_ns, e->former.directory_mtime_ns);
	return 0;
}

static int undo_making(struct shfs_past *p, const struct shfs_effect *e)
{
	struct shfs_past_entry *entry;
	struct shfs_past_file *f;
	int r = find_there(p, e->path, e, e->file_id, &entry);

	if (r)
		return r;
	f = shfs_past_real(entry->then);
	if (e->op == SHFS_OP_SYMLINK && e->path2)
		r = set_text(&f->left_text, shfs_bytes_str(e->path2));
	if (e->op == SHFS_OP_MKDIR)
		set_type(f, S_IFDIR);
	unnumber_file(p, f);
	f->born_ns = e->begin_ns;
	touch_directory(entry, e->end_ns, e->former.directory_mtime_ns);
	return r ? r : shfs_past_set_then(entry, NULL);
}

static bool has_victim(const struct shfs_effect *e)
{
	return e->former.flags & (SHFS_FORMER_STATUS | SHFS_FORMER_TIME) || e->former_n;
}

static int undo_rename(struct shfs_past *p, const struct shfs_effect *e)
{
	struct shfs_past_entry *from, *to;
	struct shfs_past_file *f;
	int r = find_there(p, e->path2, e, e->file2_id, &to);

	if (!r)
		r = find_gone(p, e->path, e, e->file_id, &from);
	if (r)
		return r;
	f = shfs_past_real(to->then);
	if (e->directory)
		set_type(f, S_IFDIR);
	touch_directory(to, e->end_ns, e->former.directory2_mtime_ns);
	touch_directory(from, e->end_ns, e->former.directory_mtime_ns);
	r = shfs_past_set_then(from, f);
	if (!r)
		r = has_victim(e) ? put_victim(p, e, to, e->file2_id, e->former_n,
		                               e->former.text)
		                  : shfs_past_set_then(to, NULL);
	return r;
}

static int undo_exchange(struct shfs_past *p, const struct shfs_effect *e)
{
	struct shfs_past_entry *a, *b;
	struct shfs_past_file *f, *g;
	int r = find_there(p, e->path, e, e->file_id, &a);

	if (!r)
		r = find_there(p, e->path2, e, e->file2_id, &b);
	if (r)
		return r;
	f = shfs_past_real(a->then);
	g = shfs_past_real(b->then);
	touch_directory(b, e->end_ns, e->former.directory2_mtime_ns);
	touch_directory(a, e->end_ns, e->former.directory_mtime_ns);
	r = shfs_past_set_then(a, NULL);
	if (!r)
		r = shfs_past_set_then(b, f);
	return r ? r : shfs_past_set_then(a, g);
}

/* Takes the extended attributes of g whose changes came first. */
static int unite_xattrs(struct shfs_past_file *f, const struct shfs_past_file *g)
{
	int r = 0;

	for (size_t i = 0; i < g->n_xattrs && !r; i++) {
		const struct shfs_past_xattr *x = &g->xattrs[i],
					     *y = shfs_past_find_xattr(f, x->name);
		struct shfs_bytes value = { x->value, x->len };

		if (y ? x->seq < y->seq : !f->all_xattrs || x->seq < f->all_xattrs_seq)
			r = set_xattr(f, shfs_bytes_str(x->name),
			              x->value ? &value : NULL, x->seq);
	}
	for (size_t i = 0; i < f->n_xattrs && !r && g->all_xattrs && !f->all_xattrs; i++)
		if (f->xattrs[i].seq > g->all_xattrs_seq &&
		    !shfs_past_find_xattr(g, f->xattrs[i].name))
			r = set_xattr(f, shfs_bytes_str(f->xattrs[i].name), NULL,
			              g->all_xattrs_seq);
	if (g->all_xattrs && !f->all_xattrs)
		f->all_xattrs_seq = g->all_xattrs_seq;
	f->all_xattrs |= g->all_xattrs;
	return r;
}

/* The attributes of which g has an earlier change than f, or f has none. */
static uint32_t changed_earlier(const struct shfs_past_file *f,
                                const struct shfs_past_file *g)
{
	uint32_t earlier = 0;

	for (uint32_t rest = g->changed; rest; rest &= rest - 1) {
		int i = SHFS_PAST_BIT(rest);

		if (!(f->changed & 1U << i) || g->seqs[i] < f->seqs[i])
			earlier |= 1U << i;
	}
	return earlier;
}

/* Takes the attributes of which g has an earlier change. */
static int take_earlier(struct shfs_past_file *f, const struct shfs_past_file *g)
{
	uint32_t more = changed_earlier(f, g);
	int r = unite_xattrs(f, g);

	if (g->changed & SHFS_PAST_CONTENT &&
	    (!(f->changed & SHFS_PAST_CONTENT) || g->last_seq > f->last_seq))
		f->left_file_id = g->left_file_id, f->left_n = g->left_n;
	if (more & SHFS_PAST_CONTENT)
		f->file_id = g->file_id, f->n = g->n;
	if (more & SHFS_PAST_MODE)
		f->mode = g->mode;
	if (more & SHFS_PAST_OWNER)
		f->uid = g->uid, f->gid = g->gid;
	if (more & SHFS_PAST_TIME) {
		f->mtime_ns = g->mtime_ns;
		f->written_ns = g->written_ns;
		f->written_mtime_ns = g->written_mtime_ns;
	}
	for (uint32_t rest = more; rest; rest &= rest - 1)
		f->seqs[SHFS_PAST_BIT(rest)] = g->seqs[SHFS_PAST_BIT(rest)];
	f->changed |= more;
	f->known = (f->known & ~more) | (g->known & more);
	return r;
}

int shfs_past_unite(struct shfs_past *p, struct shfs_past_file *f,
                    struct shfs_past_file *g)
{
	int r;

	if (f == g)
		return 0;
	r = take_earlier(f, g);
	if (r)
		return r;
	f->left = f->left ?: g->left;
	f->text = f->text ?: TAKE_PTR(g->text);
	if (g->last_seq > f->last_seq) {
		f->last_seq = g->last_seq;
		f->last_ns = g->last_ns;
		f->touched_file_id = g->touched_file_id;
	}
	unnumber_file(p, g);
	while (g->n_then && !r)
		r = shfs_past_set_then(g->then[0], f);
	g->same = f;
	return r;
}

static int undo_link(struct shfs_past *p, const struct shfs_effect *e)
{
	struct shfs_past_entry *from, *to;
	struct shfs_past_file *f;
	int r = find_there(p, e->path2, e, e->file2_id, &to);

	if (!r && !strcmp(e->path, e->path2))
		return 0;
	if (!r)
		r = find_there(p, e->path, e, e->file_id, &from);
	if (r)
		return r;
	f = shfs_past_real(from->then);
	r = shfs_past_unite(p, f, shfs_past_real(to->then));
	touch_directory(to, e->end_ns, e->former.directory2_mtime_ns);
	if (e->former.flags & SHFS_FORMER_NUMBER && !r) {
		f->dev = e->former.dev;
		f->ino = e->former.ino;
		r = number_file(p, f, f->dev, f->ino);
	}
	f->links -= f->links > 1;
	return r ? r : shfs_past_set_then(to, NULL);
}

static int undo_effect(struct shfs_past *p, const struct shfs_effect *e)
{
	switch (e->op) {
	case 0:
	case SHFS_OP_TRUNCATE:
		return undo_write(p, e);
	case SHFS_OP_RENAME:
		return e->path2 ? undo_rename(p, e) : 0;
	case SHFS_OP_EXCHANGE:
		return e->path2 ? undo_exchange(p, e) : 0;
	case SHFS_OP_LINK:
		return e->path2 ? undo_link(p, e) : 0;
	case SHFS_OP_UNLINK:
	case SHFS_OP_RMDIR:
		return undo_removal(p, e);
	case SHFS_OP_MKDIR:
	case SHFS_OP_SYMLINK:
	case SHFS_OP_MKNOD:
		return undo_making(p, e);
	case SHFS_OP_XATTR:
		return undo_xattr(p, e);
	default:
		return undo_touch(p, e);
	}
}

int shfs_past_walk(struct shfs_past *p, const struct shfs_effects *effects)
{
	int r = 0;

	p->root = new_file(p);
	if (!p->root)
		return -ENOMEM;
	for (size_t i = effects->n; i-- && !r;) {
		const struct shfs_effect *e = &effects->list[i];

		r = take_births(p, e->op ? e->begin_ns : e->end_ns);
		if (!r)
			r = undo_effect(p, e);
	}
	if (!r)
		r = take_births(p, p->since_ns - 1);
	for (struct shfs_past_entry *e = p->entries; e; e = e->next) {
		e->left = shfs_past_real(e->left);
		e->directory = shfs_past_real(e->directory);
	}
	return r;
}

static void free_xattrs(struct shfs_past_file *f)
{
	while (f->n_xattrs) {
		f->n_xattrs--;
		free(f->xattrs[f->n_xattrs].name);
		free(f->xattrs[f->n_xattrs].value);
	}
	free(TAKE_PTR(f->xattrs));
}

void shfs_past_take_xattrs(struct shfs_past_file *f, struct shfs_past_file *other)
{
	free_xattrs(f);
	f->xattrs = TAKE_PTR(other->xattrs);
	f->n_xattrs = other->n_xattrs;
	f->all_xattrs = other->all_xattrs;
	other->n_xattrs = 0;
}

static void free_file(struct shfs_past_file *f)
{
	free_xattrs(f);
	free(f->then);
	free(f->text);
	free(f->left_text);
	free(f);
}

void shfs_past_show_unknown(struct shfs_buf *out, uint32_t unknown)
{
	static const struct {
		uint32_t change;
		const char *words;
	} all[] = {
		{ SHFS_PAST_MODE, "its mode" },
		{ SHFS_PAST_OWNER, "its owner" },
		{ SHFS_PAST_TIME, "its time" },
		{ SHFS_PAST_XATTRS, "its extended attributes" },
	};
	const char *before = "not recorded: ";

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		if (!(unknown & all[i].change))
			continue;
		shfs_buf_printf(out, "%s%s", before, all[i].words);
		before = ", ";
	}
}

void shfs_past_clear(struct shfs_past *p)
{
	struct shfs_past_entry *e = p->entries, *next_entry;
	struct shfs_past_file *f = p->files, *next_file;

	HASH_CLEAR(hh, p->table);
	HASH_CLEAR(hh, p->numbers);
	for (; e; e = next_entry) {
		next_entry = e->next;
		free(e);
	}
	for (; f; f = next_file) {
		next_file = f->next;
		free_file(f);
	}
	free(p->born);
	free(p->nameless);
	*p = (struct shfs_past){ 0 };
}

/* --- paths --- */

static bool add_path_left(const struct shfs_past_file *dir, struct shfs_buf *out)
{
	const struct shfs_past_entry *entry = dir->left;

	if (!entry)
		return dir->next == NULL; /* the root is the first of all */
	if (!add_path_left(entry->directory, out))
		return false;
	shfs_buf_char(out, '/');
	shfs_buf_str(out, entry->name);
	return true;
}

bool shfs_past_path_left(const struct shfs_past_entry *entry, struct shfs_buf *out)
{
	if (!add_path_left(entry->directory, out))
		return false;
	shfs_buf_char(out, '/');
	shfs_buf_str(out, entry->name);
	return true;
}

static bool add_path_then(const struct shfs_past_file *dir, struct shfs_buf *out)
{
	if (!dir->n_then)
		return dir->next == NULL; /* the root is the first of all */
	if (!add_path_then(shfs_past_real(dir->then[0]->directory), out))
		return false;
	shfs_buf_char(out, '/');
	shfs_buf_str(out, dir->then[0]->name);
	return true;
}

bool shfs_past_path_then(const struct shfs_past_entry *entry, struct shfs_buf *out)
{
	if (!add_path_then(shfs_past_real(entry->directory), out))
		return false;
	shfs_buf_char(out, '/');
	shfs_buf_str(out, entry->name);
	return true;
}
