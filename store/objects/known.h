/* SPDX-License-Identifier: MIT */
/*
 * known.h - remembers objects whose content this process has stored, or compared byte by
 * byte, so that the same content is not read and compared again. Bounded; thread-safe.
 *
 * An object is named by a hash, for which an attacker may have made two contents. So a
 * second hash is remembered, with a seed that is secret.
 */
#pragma once

#include "common/record.h"

#include <stdbool.h>

struct known;

struct known *known_new(void); /* NULL: no memory, or no random numbers */
void known_free(struct known *known);

/* Returns the second hash of a content. */
uint64_t known_check(const struct known *known, const void *data, size_t len);

/* Remembers a durable object and the second hash of its content. */
void known_add(struct known *known, const struct shfs_object_id *id, uint64_t check);
bool known_has(struct known *known, const struct shfs_object_id *id, uint64_t check);

/* Forgets all objects: a collection may have removed the bases of some. */
void known_forget(struct known *known);
