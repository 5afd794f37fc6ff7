/* SPDX-License-Identifier: MIT */
/*
 * forgotten.h - what was forgotten or pruned here, of contents that are only on the
 * remote.
 *
 * Packs there of which something was forgotten or pruned here do not stay: what is left
 * of them is brought here, and pushed in other packs.
 */
#pragma once

#include "query/remote/push/upload.h"

/* Brings what is left of such packs, and notes that they do not stay. Before the gate is
 * shut. The head of u->now names the store; u->away is used, and empty in the end.
 * -ENOTRECOVERABLE: the list of what is away is damaged; -ENODATA: something did not come
 * (u->stats.not_brought). */
_must_check_ int forgotten_remove(struct upload *u);

/* Are there such packs among u->away? 1; 0; -errno. */
_must_check_ int forgotten_any(struct upload *u);
