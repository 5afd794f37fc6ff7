/* SPDX-License-Identifier: MIT */
#include "store/journal/rewrite.h"

#include "store/journal/frame.h"
#include "store/journal/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

struct shfs_rewrite {
	struct shfs_buf out;
	size_t frame; /* offset in out of the frame that is being made; 0: none is */
	struct shfs_record_context context;
};

int shfs_rewrite_new(struct shfs_rewrite **out)
{
	struct shfs_rewrite *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	shfs_buf_add(&w->out, SHFS_SEGMENT_MAGIC, SHFS_SEGMENT_MAGIC_LEN);
	*out = w;
	return 0;
}

void shfs_rewrite_free(struct shfs_rewrite *w)
{
	if (!w)
		return;
	shfs_buf_free(&w->out);
	shfs_record_context_free(&w->context);
	free(w);
}

static void begin_frame(struct shfs_rewrite *w)
{
	if (w->frame)
		return;
	shfs_assert(w->out.failed || w->out.len >= SHFS_SEGMENT_MAGIC_LEN);
	w->frame = w->out.len;
	shfs_record_context_reset(&w->context);
	shfs_buf_u32(&w->out, SHFS_FRAME_MAGIC);
	shfs_buf_u32(&w->out, 0);
}

static void end_frame(struct shfs_rewrite *w)
{
	char *frame = w->out.data + w->frame;
	size_t len = w->out.len - w->frame;

	if (!w->frame || w->out.failed)
		return;
	shfs_assert(len >= SHFS_FRAME_HEAD);
	for (int i = 0; i < 4; i++)
		frame[4 + i] = (char)((len - SHFS_FRAME_HEAD) >> 8 * i);
	shfs_buf_u64(&w->out, XXH3_64bits(frame, len));
	w->frame = 0;
}

int shfs_rewrite_add(struct shfs_rewrite *w, const struct shfs_record *rec)
{
	size_t payload;
	int r;

	begin_frame(w);
	r = w->out.failed ? -ENOMEM : shfs_record_pack(&w->context, rec, &w->out);
	payload = w->out.len - w->frame - SHFS_FRAME_HEAD;
	if (!r && payload > SHFS_PAYLOAD_MAX)
		r = -EMSGSIZE;
	/* The first frame has the PRODUCER alone. */
	if (payload >= SHFS_BATCH_BYTES || rec->type == SHFS_REC_PRODUCER)
		end_frame(w);
	return r ? r : w->out.failed ? -ENOMEM : 0;
}

const struct shfs_buf *shfs_rewrite_bytes(struct shfs_rewrite *w)
{
	end_frame(w);
	return w->out.failed ? NULL : &w->out;
}

int shfs_rewrite_save(struct shfs_rewrite *w, int dirfd, const char *name)
{
	const struct shfs_buf *bytes = shfs_rewrite_bytes(w);

	return bytes ? shfs_segment_seal(dirfd, name, SHFS_REWRITE_SUFFIX, bytes)
	             : -ENOMEM;
}

int shfs_rewrite_install(int dirfd, const char *name)
{
	char new[300], sealed[300];

	snprintf(new, sizeof(new), "%s" SHFS_REWRITE_SUFFIX, name);
	snprintf(sealed, sizeof(sealed), "%s.zst", name);
	if (renameat(dirfd, new, dirfd, sealed) && errno != ENOENT)
		return -errno;
	if (fsync(dirfd))
		return -errno;
	/* A segment that was not sealed before has its file under another name. */
	if (faccessat(dirfd, sealed, F_OK, AT_SYMLINK_NOFOLLOW) ||
	    (unlinkat(dirfd, name, 0) && errno != ENOENT) || fsync(dirfd))
		return -errno;
	return 0;
}
