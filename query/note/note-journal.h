/* SPDX-License-Identifier: MIT */
/* note-journal.h - writes notes into the journal, as a producer of kind "note". */
#pragma once

#include "common/record.h"
#include "store/store.h"

/* Writes the notes in a segment of their own; they are durable when it returns. -EBUSY: a
 * forget, which excludes producers, is at work. */
_must_check_ int note_journal_add(struct shfs_store *store,
                                  const struct shfs_rec_note *notes, size_t n);
