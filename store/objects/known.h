/* SPDX-License-Identifier: MIT */
/*
 * known.h - which objects hold what this process has stored, or compared byte by byte:
 * the same content again need not be read and compared again. Bounded; thread-safe.
 *
 * An object's name is a hash that somebody may have made two contents for. So beside it
 * stands another, of a seed that nobody else knows.
 */
#pragma once

#include "common/record.h"

#include <stdbool.h>

struct known;

struct known *known_new(void); /* NULL: no memory, or no random numbers */
void known_free(struct known *known);

/* The second hash of a content. */
uint64_t known_check(const struct known *known, const void *data, size_t len);

/* The object was durable, and has the content with this check. */
void known_add(struct known *known, const struct shfs_object_id *id, uint64_t check);
bool known_has(struct known *known, const struct shfs_object_id *id, uint64_t check);

/* A collection may have taken away what some of them are deltas of. */
void known_forget(struct known *known);
