/* SPDX-License-Identifier: MIT */
/* Writes what accesses did away with (struct shfs_former), for those who put it back. */
#include "store/index/internal.h"

#include <errno.h>

int shfs_former_add(struct shfs_ingest *ing, int64_t access_id, int64_t n,
                    const struct shfs_former *former)
{
	_cleanup_buf_ struct shfs_buf data = { 0 };

	if (!n && !former->flags)
		return 0;
	shfs_former_pack(former, &data);
	if (data.failed)
		return -ENOMEM;
	return shfs_sql_run(ing->index,
	                    "INSERT INTO former (access_id, n, data) VALUES (?, ?, ?)",
	                    shfs_arg_int(access_id), shfs_arg_int(n),
	                    shfs_arg_blob((struct shfs_bytes){ data.data, data.len }));
}

/* The mtime that the file had last: the producer knows it, or utimes has set it since. */
static int64_t last_mtime(const struct shfs_file *f)
{
	const struct shfs_sighting *k = &f->known;

	return k->touched || !k->ctime_last_ns || k->named ? f->content.mtime_ns
	                                                   : k->mtime_ns;
}

int64_t shfs_former_of_file(const struct shfs_file *f, struct shfs_former *out)
{
	if (!f->versions || !f->present)
		return 0;
	out->flags |= SHFS_FORMER_TIME;
	out->mode = f->content.mode;
	out->mtime_ns = last_mtime(f);
	return f->versions;
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
