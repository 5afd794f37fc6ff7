/* SPDX-License-Identifier: MIT */
/* fnv.h - FNV-1a, a hash of short texts (Fowler, Noll and Vo; 64 bits). Not for what a
 * user may choose to collide. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SHFS_FNV_BEGIN UINT64_C(0xcbf29ce484222325)

/* Goes on from hash, which is SHFS_FNV_BEGIN for the first bytes. */
static inline uint64_t shfs_fnv(uint64_t hash, const char *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (unsigned char)data[i]) * UINT64_C(0x100000001b3);
	return hash;
}
