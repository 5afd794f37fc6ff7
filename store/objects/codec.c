/* SPDX-License-Identifier: MIT */
#include "store/objects/codec.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <utlist.h>
#include <zstd.h>

#define PIECE_BYTES (128 << 10)
#define LONG_BYTES  (1u << 20) /* a larger base is also searched for distant matches */
#define KEPT_MAX    2          /* contexts; as many as there are archivers */
#define KEPT_BYTES  (8u << 20) /* a context that has grown larger is not kept */

static const unsigned char magic[CODEC_MAGIC_BYTES] = { 0x28, 0xb5, 0x2f, 0xfd };

struct codec {
	struct codec *next;
	size_t bytes; /* of the context, while it is free */
	ZSTD_CCtx *to;
	ZSTD_DCtx *from;
};

struct codecs {
	pthread_mutex_t lock;
	struct codec *free;
	unsigned n_free;
	size_t bytes; /* of all free contexts */
};

struct codecs *codecs_new(void)
{
	struct codecs *c = calloc(1, sizeof(*c));

	if (c)
		pthread_mutex_init(&c->lock, NULL);
	return c;
}

static void codec_free(struct codec *codec)
{
	if (!codec)
		return;
	ZSTD_freeCCtx(codec->to);
	ZSTD_freeDCtx(codec->from);
	free(codec);
}

void codecs_free(struct codecs *c)
{
	struct codec *codec, *next;

	if (!c)
		return;
	LL_FOREACH_SAFE (c->free, codec, next)
		codec_free(codec);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static struct codec *codec_take(struct codecs *c)
{
	struct codec *codec;

	pthread_mutex_lock(&c->lock);
	codec = c->free;
	if (codec) {
		shfs_assert(c->n_free && c->bytes >= codec->bytes);
		LL_DELETE(c->free, codec);
		c->n_free--;
		c->bytes -= codec->bytes;
	}
	pthread_mutex_unlock(&c->lock);
	if (codec)
		return codec;
	codec = calloc(1, sizeof(*codec));
	if (!codec)
		return NULL;
	codec->to = ZSTD_createCCtx();
	codec->from = ZSTD_createDCtx();
	if (codec->to && codec->from)
		return codec;
	codec_free(codec);
	return NULL;
}

static void codec_give(struct codecs *c, struct codec *codec)
{
	bool kept;

	codec->bytes = ZSTD_sizeof_CCtx(codec->to) + ZSTD_sizeof_DCtx(codec->from);
	pthread_mutex_lock(&c->lock);
	kept = c->n_free < KEPT_MAX && codec->bytes <= KEPT_BYTES;
	if (kept) {
		LL_PREPEND(c->free, codec);
		c->n_free++;
		c->bytes += codec->bytes;
	}
	pthread_mutex_unlock(&c->lock);
	if (!kept)
		codec_free(codec);
}

size_t codecs_bytes(struct codecs *c)
{
	size_t bytes;

	pthread_mutex_lock(&c->lock);
	bytes = c->bytes;
	pthread_mutex_unlock(&c->lock);
	return bytes;
}

static int log2_of(size_t n)
{
	int log = 10;

	while (log < 31 && (size_t)1 << log < n)
		log++;
	return log;
}

/* Makes the window large enough for the base and the content. */
static void set_parameters(ZSTD_CCtx *to, size_t len, int level, const void *base,
                           size_t base_len)
{
	ZSTD_CCtx_reset(to, ZSTD_reset_session_and_parameters);
	ZSTD_CCtx_setParameter(to, ZSTD_c_compressionLevel, level);
	ZSTD_CCtx_setParameter(to, ZSTD_c_contentSizeFlag, 0);
	if (!base)
		return;
	ZSTD_CCtx_setParameter(to, ZSTD_c_windowLog, log2_of(base_len + len + 1));
	if (base_len > LONG_BYTES)
		ZSTD_CCtx_setParameter(to, ZSTD_c_enableLongDistanceMatching, 1);
	ZSTD_CCtx_refPrefix(to, base, base_len);
}

int codec_compress(struct codecs *codecs, const void *data, size_t len, int level,
                   const void *base, size_t base_len, size_t head, size_t max,
                   struct coded *out)
{
	size_t before = head - CODEC_MAGIC_BYTES, cap, n;
	struct coded c = { .head = head };
	unsigned char *fitting;
	struct codec *codec;

	cap = MIN(ZSTD_compressBound(len), max + CODEC_MAGIC_BYTES);
	c.bytes = malloc(before + cap);
	codec = c.bytes ? codec_take(codecs) : NULL;
	if (!codec) {
		coded_free(&c);
		return -ENOMEM;
	}
	set_parameters(codec->to, len, level, base, base_len);
	n = ZSTD_compress2(codec->to, c.bytes + before, cap, data, len);
	codec_give(codecs, codec);
	if (ZSTD_isError(n) || n < CODEC_MAGIC_BYTES || n - CODEC_MAGIC_BYTES >= max) {
		coded_free(&c);
		return 1;
	}
	c.len = n - CODEC_MAGIC_BYTES;
	fitting = realloc(c.bytes, before + n);
	if (fitting)
		c.bytes = fitting;
	*out = c;
	return 0;
}

int codec_decompress(struct codecs *codecs, unsigned char *stored, size_t len,
                     const void *base, size_t base_len, void *out, size_t size)
{
	struct codec *codec = codec_take(codecs);
	size_t n;

	if (!codec)
		return -ENOMEM;
	memcpy(stored - CODEC_MAGIC_BYTES, magic, CODEC_MAGIC_BYTES);
	ZSTD_DCtx_reset(codec->from, ZSTD_reset_session_and_parameters);
	if (base)
		ZSTD_DCtx_refPrefix(codec->from, base, base_len);
	n = ZSTD_decompressDCtx(codec->from, out, size, stored - CODEC_MAGIC_BYTES,
	                        len + CODEC_MAGIC_BYTES);
	codec_give(codecs, codec);
	return ZSTD_isError(n) || n != size ? -EBADMSG : 0;
}

int codec_each_piece(unsigned char *stored, size_t len, uint64_t size, codec_piece_fn fn,
                     void *arg)
{
	_cleanup_free_ char *part = malloc(PIECE_BYTES);
	ZSTD_DStream *ds = ZSTD_createDStream();
	ZSTD_inBuffer src = { stored - CODEC_MAGIC_BYTES, len + CODEC_MAGIC_BYTES, 0 };
	uint64_t done = 0;
	size_t left = 1;
	int r = part && ds ? 0 : -ENOMEM;

	memcpy(stored - CODEC_MAGIC_BYTES, magic, CODEC_MAGIC_BYTES);
	while (!r && left) {
		ZSTD_outBuffer dst = { part, PIECE_BYTES, 0 };

		left = ZSTD_decompressStream(ds, &dst, &src);
		if (ZSTD_isError(left) || dst.pos > size - done ||
		    (left && !dst.pos && src.pos == src.size))
			r = -EBADMSG;
		else if (dst.pos)
			r = fn(arg, part, dst.pos);
		done += dst.pos;
	}
	if (!r && (done != size || src.pos != src.size))
		r = -EBADMSG;
	ZSTD_freeDStream(ds);
	return r;
}
