/* SPDX-License-Identifier: MIT */
#include "query/note/note-journal.h"

#include "store/journal/journal.h"

#include <errno.h>
#include <stdlib.h>

#define WAIT_MS 10000 /* for a forget */

/* The root of the producer is of no use: nothing is recorded in the store. */
static int write_segment(struct shfs_store *store, const struct shfs_rec_note *notes,
                         size_t n)
{
	const struct shfs_journal_options options = { .kind = "note",
		                                      .root = store->path };
	struct shfs_journal *journal = NULL;
	int r = shfs_journal_open(store, &options, &journal);

	for (size_t i = 0; i < n && !r; i++) {
		const struct shfs_record rec = {
			.type = SHFS_REC_NOTE,
			.seq = i + 1,
			.time = shfs_time_now(),
			.boot_resolution_ns = 1,
			.note = notes[i],
		}, *one = &rec;
		size_t appended;

		r = shfs_journal_append(journal, &one, 1, &appended);
	}
	if (!r)
		return shfs_journal_close(journal);
	shfs_journal_free(journal);
	return r;
}

int note_journal_add(struct shfs_store *store, const struct shfs_rec_note *notes,
                     size_t n)
{
	int r = shfs_store_share(store, WAIT_MS);

	if (r)
		return r;
	r = write_segment(store, notes, n);
	shfs_store_unshare(store);
	return r;
}
