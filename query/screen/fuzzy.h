/* SPDX-License-Identifier: MIT */
/*
 * fuzzy.h - does a text match a query, and how well? The terms are those of fzf:
 *
 *     one two    all must match, in any order; "one | two": either
 *     term       its characters in this order, others may come between
 *     'term      in one piece
 *     ^term      at the beginning         term$   at the end
 *     !term      not in it, in one piece; also !^term, !term$
 *     a\ b       a blank in a term
 *
 * Case counts in a term that has an upper-case letter. Texts are any bytes.
 */
#pragma once

#include "common/util.h"

#include <stdbool.h>

struct shfs_fuzzy;

/* -ENOMEM. */
_must_check_ int shfs_fuzzy_parse(const char *query, struct shfs_fuzzy **out);
void shfs_fuzzy_free(struct shfs_fuzzy *fuzzy);

static inline void shfs_fuzzy_freep(struct shfs_fuzzy **f)
{
	shfs_fuzzy_free(*f);
}
#define _cleanup_fuzzy_ _cleanup_(shfs_fuzzy_freep)

/* Do all texts that match `query` also match `before`, which it may continue? */
bool shfs_fuzzy_narrows(const char *query, const char *before);

/* The set of characters in a text: kept with it, it saves most comparisons. */
uint64_t shfs_fuzzy_mask(const char *text, size_t len);

/* -1: no match; else the higher, the better. */
_must_check_ int shfs_fuzzy_match(const struct shfs_fuzzy *fuzzy, const char *text,
                                  size_t len, uint64_t mask);

/* Sets the bytes of marked (len of them) that match. */
void shfs_fuzzy_mark(const struct shfs_fuzzy *fuzzy, const char *text, size_t len,
                     bool *marked);
