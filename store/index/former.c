/* SPDX-License-Identifier: MIT */
/* Writes what accesses did away with (struct shfs_former), for those who put it back. */
#include "store/index/internal.h"

#include <errno.h>

int shfs_former_add(struct shfs_ingest *ing, int64_t access_id, int64_t held,
                    const struct shfs_former *former)
{
	_cleanup_buf_ struct shfs_buf data = { 0 };

	if (!held && !former->flags)
		return 0;
	shfs_former_pack(former, &data);
	if (data.failed)
		return -ENOMEM;
	return shfs_sql_run(ing->index,
	                    "INSERT INTO former (access_id, n, data) VALUES (?, ?, ?)",
	                    shfs_arg_int(access_id), shfs_arg_int(held),
	                    shfs_arg_blob((struct shfs_bytes){ data.data, data.len }));
}

/* The mtime that the file had last: the producer knows it, or utimes has set it since. */
static int64_t last_mtime(const struct shfs_file *f)
{
	const struct shfs_sighting *k = &f->known;

	return k->touched || !k->ctime_last_ns || k->named ? f->content.mtime_ns
	                                                   : k->mtime_ns;
}

int shfs_former_of_file(struct shfs_ingest *ing, const struct shfs_file *f,
                        struct shfs_former *out, int64_t *held)
{
	struct shfs_version_fact moved = { 0 };
	int64_t id = shfs_file_held(f);
	int r = f->moved_id && id ? shfs_version_look(ing->index, id, &moved) : 0;

	if (r < 0)
		return r;
	*held = f->moved_id && !r ? 0 : id;
	if (!*held)
		return 0;
	out->flags |= SHFS_FORMER_TIME;
	out->mode = f->moved_id ? moved.content.mode : f->content.mode;
	out->mtime_ns = f->moved_id ? moved.content.mtime_ns : last_mtime(f);
	return 0;
}

void shfs_former_of_record(const struct shfs_rec_pathop *op, struct shfs_former *out)
{
	const struct shfs_content *victim = &op->victim;

	*out = op->former;
	out->flags &= SHFS_FORMER_STATUS | SHFS_FORMER_XATTRS | SHFS_FORMER_DIRECTORY |
	              SHFS_FORMER_DIRECTORY2 | SHFS_FORMER_TEXT;
	if (out->flags & SHFS_FORMER_STATUS)
		return;
	if (victim->flags & SHFS_CONTENT_KNOWN && op->op != SHFS_OP_EXCHANGE) {
		out->flags |= SHFS_FORMER_TIME;
		out->mode = victim->mode;
		out->mtime_ns = victim->mtime_ns;
	}
	if (op->ino) {
		out->flags |= SHFS_FORMER_NUMBER;
		out->dev = op->dev;
		out->ino = op->ino;
	}
}
