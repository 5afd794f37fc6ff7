/* SPDX-License-Identifier: MIT */
/* sha256.h - SHA-256, in hexadecimal digits, for names that nobody can forge. */
#pragma once

#include "common/util.h"

#define SHFS_SHA256_SIZE 65 /* 64 hex digits and a NUL */

struct shfs_sha256 *shfs_sha256_new(void); /* NULL: no memory */
void shfs_sha256_add(struct shfs_sha256 *hash, const void *data, size_t len);
/* Frees the hash; NULL is fine (out is then ""). */
void shfs_sha256_end(struct shfs_sha256 *hash, char out[static SHFS_SHA256_SIZE]);
/* The hash of all bytes from where fd stands to the end. */
_must_check_ int shfs_sha256_fd(int fd, char out[static SHFS_SHA256_SIZE]);
/* The hash of len bytes. */
void shfs_sha256_of(const void *data, size_t len, char out[static SHFS_SHA256_SIZE]);
