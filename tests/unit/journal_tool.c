/* SPDX-License-Identifier: MIT */
/*
 * journal_tool - the objects that the journal names, for tests/cases/powercut.py.
 *
 *   journal_tool STORE
 *
 * A line for each: the segment, the offset behind the record, the object, and "whole" or
 * what is wrong with it.
 */
#include "store/journal/journal.h"
#include "store/objects/object.h"

#include <string.h>

static void show(struct shfs_store *store, const struct shfs_journal_file *file,
                 uint64_t offset, const struct shfs_content *content)
{
	_cleanup_buf_ struct shfs_buf bytes = { 0 };
	char name[44];
	int r;

	if (!(content->flags & SHFS_CONTENT_OBJECT))
		return;
	shfs_object_name(&content->object, name);
	r = shfs_object_read(store, &content->object, content->size, &bytes);
	printf("%s %llu %s %s\n", file->name, (unsigned long long)offset, name,
	       r                            ? strerrorname_np(-r)
	       : bytes.len == content->size ? "whole"
	                                    : "EILSEQ");
}

static int visit(const struct shfs_journal_file *file, void *store)
{
	struct shfs_segment *segment;
	struct shfs_record rec;
	int r = shfs_segment_open(file->dirfd, file->name, 0, &segment);

	if (r) { /* torn where it begins */
		fprintf(stderr, "%s: %s\n", file->name, strerror(-r));
		return 0;
	}
	while ((r = shfs_segment_next(segment, &rec)) > 0) {
		uint64_t offset = shfs_segment_offset(segment);

		if (rec.type == SHFS_REC_ACCESS) {
			show(store, file, offset, &rec.access.seen);
			show(store, file, offset, &rec.access.made);
		} else if (rec.type == SHFS_REC_PATHOP) {
			show(store, file, offset, &rec.pathop.content);
			show(store, file, offset, &rec.pathop.victim);
		} else if (rec.type == SHFS_REC_PREIMAGE) {
			show(store, file, offset, &rec.preimage.content);
		}
	}
	shfs_segment_close(segment);
	return r;
}

int main(int argc, char **argv)
{
	_cleanup_store_ struct shfs_store *store = NULL;
	int r;

	if (argc != 2) {
		fprintf(stderr, "usage: journal_tool STORE\n");
		return 2;
	}
	r = shfs_store_open(argv[1], 0, &store);
	if (!r)
		r = shfs_journal_walk(store, SHFS_JOURNAL_SEGMENTS, visit, store);
	if (r)
		fprintf(stderr, "%s: %s\n", argv[1], strerror(-r));
	return r ? 1 : 0;
}
