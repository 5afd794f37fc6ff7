/* SPDX-License-Identifier: MIT */
#include "query/undo/others.h"

#include "common/clock.h"

#include <errno.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/xattr.h>

static bool is_selected(const struct shfs_undo_plan *p, int64_t command_id,
                        int64_t process_id)
{
	return shfs_ids_has(p->selected, p->by_process ? process_id : command_id);
}

static uint32_t change_of(const char *op)
{
	if (!strcmp(op, "open") || !strcmp(op, "truncate"))
		return SHFS_PAST_CONTENT | SHFS_PAST_TIME;
	if (!strcmp(op, "chmod"))
		return SHFS_PAST_MODE;
	if (!strcmp(op, "chown"))
		return SHFS_PAST_OWNER | SHFS_PAST_MODE;
	if (!strcmp(op, "utimes"))
		return SHFS_PAST_TIME;
	if (!strcmp(op, "xattr"))
		return SHFS_PAST_XATTRS;
	return SHFS_PAST_ENTRIES; /* a name */
}

/* The first change by others tells, by what it did away with, what the commands left. */
static void note_left(struct shfs_undo_file *u, struct shfs_rows *rows)
{
	struct shfs_former former;

	if (u->others & (SHFS_PAST_MODE | SHFS_PAST_OWNER | SHFS_PAST_TIME) ||
	    shfs_rows_is_null(rows, 4) ||
	    shfs_former_unpack(shfs_rows_text(rows, 4), shfs_rows_bytes(rows, 4),
	                       &former) ||
	    !(former.flags & SHFS_FORMER_STATUS))
		return;
	u->left_known = true;
	u->left_mode = former.mode;
	u->left_uid = former.uid;
	u->left_gid = former.gid;
	u->left_mtime_ns = former.mtime_ns;
}

/* The value that an extended attribute had when others changed it first. */
static int note_left_xattr(struct shfs_undo_file *u, struct shfs_rows *rows)
{
	const char *data = shfs_rows_text(rows, 4), *name = shfs_rows_text(rows, 5);
	struct shfs_past_xattr *x;
	struct shfs_former former;
	struct shfs_bytes first, value;
	struct shfs_cursor list;

	for (size_t i = 0; i < u->n_left_xattrs; i++)
		if (!strcmp(u->left_xattrs[i].name, name))
			return 0;
	if (shfs_rows_is_null(rows, 4) ||
	    shfs_former_unpack(data, shfs_rows_bytes(rows, 4), &former) ||
	    !(former.flags & SHFS_FORMER_XATTRS)) {
		u->xattrs_lost = true;
		return 0;
	}
	x = reallocarray(u->left_xattrs, u->n_left_xattrs + 1, sizeof(*x));
	if (!x)
		return -ENOMEM;
	u->left_xattrs = x;
	x += u->n_left_xattrs;
	*x = (struct shfs_past_xattr){ .name = strdup(name) };
	if (!x->name)
		return -ENOMEM;
	u->n_left_xattrs++;
	list = (struct shfs_cursor){ (const unsigned char *)former.xattrs.data,
		                     (const unsigned char *)former.xattrs.data +
		                             former.xattrs.len,
		                     false };
	if (!former.xattrs.len || !shfs_xattr_next(&list, &first, &value))
		return 0;
	x->value = malloc(value.len + 1);
	if (!x->value)
		return -ENOMEM;
	memcpy(x->value, value.data, value.len);
	x->len = value.len;
	return 0;
}

/* Has the file the extended attributes that the commands left? */
static bool has_left_xattrs(const struct shfs_undo_file *u)
{
	_cleanup_free_ char *now = malloc(XATTR_SIZE_MAX);
	bool same = now && !u->xattrs_lost;

	for (size_t i = 0; i < u->n_left_xattrs && same; i++) {
		const struct shfs_past_xattr *x = &u->left_xattrs[i];
		ssize_t n = lgetxattr(u->path, x->name, now, XATTR_SIZE_MAX);

		same = x->value ? n == (ssize_t)x->len && !memcmp(now, x->value, x->len)
		                : n < 0 && errno != EACCES;
	}
	return same;
}

int shfs_undo_find_others(struct shfs_undo_plan *p, int64_t file_id, int64_t first_seq,
                          int64_t last_seq, struct shfs_undo_file *u, bool *between)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r;

	*between = false;
	if (p->all)
		return 0;
	r = shfs_rows_open_ints(
		p->index,
		"SELECT op, command_id, process_id, seq_key, (SELECT f.data FROM "
		"v_former f"
		" WHERE f.access_id = v_access.access_id), path2 FROM v_access"
		" WHERE file_id = ?1 AND seq_key > ?2 AND (is_written OR is_open = 0)"
		" UNION ALL SELECT op, command_id, process_id, seq_key, NULL, NULL"
		" FROM v_access WHERE file2_id = ?1 AND seq_key > ?2 ORDER BY 4",
		SHFS_INTS(file_id, first_seq), &rows);
	while (!r && (r = shfs_rows_next(rows)) > 0) {
		uint32_t change = change_of(shfs_rows_text(rows, 0));

		r = 0;
		if (is_selected(p, shfs_rows_int(rows, 1), shfs_rows_int(rows, 2)))
			continue;
		if (change & (SHFS_PAST_MODE | SHFS_PAST_OWNER | SHFS_PAST_TIME))
			note_left(u, rows);
		if (change == SHFS_PAST_XATTRS)
			r = note_left_xattr(u, rows);
		u->others |= change;
		u->other_command_id = shfs_rows_int(rows, 1);
		u->other_process_id = shfs_rows_int(rows, 2);
		*between |= shfs_rows_int(rows, 3) < last_seq &&
		            change & (SHFS_PAST_CONTENT | SHFS_PAST_ENTRIES);
	}
	return r;
}

uint32_t shfs_undo_by_others(const struct shfs_undo_file *u)
{
	const struct stat *st = &u->st;
	uint32_t others = u->others;

	if (u->left.version_id && u->left.mode == st->st_mode)
		others &= ~(uint32_t)SHFS_PAST_MODE;
	if (u->left.version_id && u->left.mtime_ns == shfs_timespec_ns(st->st_mtim))
		others &= ~(uint32_t)SHFS_PAST_TIME;
	if (others & SHFS_PAST_XATTRS && has_left_xattrs(u))
		others &= ~(uint32_t)SHFS_PAST_XATTRS;
	if (!u->left_known)
		return others;
	if (u->left_mode == st->st_mode)
		others &= ~(uint32_t)SHFS_PAST_MODE;
	if (u->left_uid == st->st_uid && u->left_gid == st->st_gid)
		others &= ~(uint32_t)SHFS_PAST_OWNER;
	if (u->left_mtime_ns == shfs_timespec_ns(st->st_mtim))
		others &= ~(uint32_t)SHFS_PAST_TIME;
	return others;
}
