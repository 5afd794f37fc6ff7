/* SPDX-License-Identifier: MIT */
/* SHA-256, by libmd. */
#include "query/base/sha256.h"

#include <errno.h>
#include <sha2.h>
#include <stdlib.h>
#include <unistd.h>

#define PIECE 65536

struct shfs_sha256 {
	SHA2_CTX context;
};

struct shfs_sha256 *shfs_sha256_new(void)
{
	struct shfs_sha256 *hash = malloc(sizeof(*hash));

	if (hash)
		SHA256Init(&hash->context);
	return hash;
}

void shfs_sha256_add(struct shfs_sha256 *hash, const void *data, size_t len)
{
	SHA256Update(&hash->context, data, len);
}

void shfs_sha256_end(struct shfs_sha256 *hash, char out[static SHFS_SHA256_SIZE])
{
	*out = 0;
	if (hash)
		SHA256End(&hash->context, out);
	free(hash);
}

int shfs_sha256_fd(int fd, char out[static SHFS_SHA256_SIZE])
{
	struct shfs_sha256 *hash = shfs_sha256_new();
	_cleanup_free_ char *piece = malloc(PIECE);
	ssize_t n = hash && piece ? 1 : -ENOMEM;

	while (n > 0) {
		n = read(fd, piece, PIECE);
		if (n < 0)
			n = errno == EINTR ? 1 : -errno;
		else
			shfs_sha256_add(hash, piece, (size_t)n);
	}
	shfs_sha256_end(hash, out);
	return (int)n;
}

void shfs_sha256_of(const void *data, size_t len, char out[static SHFS_SHA256_SIZE])
{
	SHA2_CTX context;

	SHA256Init(&context);
	SHA256Update(&context, data, len);
	SHA256End(&context, out);
}
