/* SPDX-License-Identifier: MIT */
/* object-internal.h - for the tests: a hash that collides at will. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The hash that names contents: XXH3-128 in canonical form. Tests replace it by one that
 * collides. */
void shfs_object_hash_xxh3(const void *data, size_t len, uint8_t out[16]);
extern void (*shfs_object_hash)(const void *data, size_t len, uint8_t out[16]);
