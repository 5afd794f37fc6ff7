/* SPDX-License-Identifier: MIT */
/*
 * What shfs import takes in, and an index made of it. An input is entries of a kind (1
 * byte), a length (2) and data: 'H' and 'N' name the host and the file that follow, 'S'
 * is a segment (as fuzz_segment builds it), 'L' a hook log or a file as it is, 'O' an
 * object of that content, 'X' one of another, 'P' a list of what was pruned as it
 * is, 'Q' one of these ids, 'A' names of segments whose recording went on, 'T' a list of
 * trees. Taken in twice, it brings nothing new.
 */
#include "tests/fuzz/fuzz.h"

#include "store/care/import.h"
#include "store/index/index.h"
#include "store/objects/object-internal.h"
#include "store/objects/object.h"
#include "store/objects/pruned.h"

#include <errno.h>
#include <ftw.h>
#include <string.h>

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static const char *const questions[] = {
	"SELECT * FROM v_session",  "SELECT * FROM v_command", "SELECT * FROM v_process",
	"SELECT * FROM v_file",     "SELECT * FROM v_version", "SELECT * FROM v_access",
	"SELECT * FROM v_producer", "SELECT * FROM v_gap",     "SELECT * FROM v_stats",
};

void fuzz_ask_all(struct shfs_index *index)
{
	for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
		_cleanup_rows_ struct shfs_rows *rows = NULL;
		int n = 0;

		if (shfs_rows_open(index, questions[i], &rows))
			continue;
		while (shfs_rows_next(rows) == 1 && n++ < 1000)
			for (int col = 0; col < shfs_rows_columns(rows); col++)
				fuzz_touch((struct shfs_bytes){
					shfs_rows_text(rows, col),
					shfs_rows_bytes(rows, col) });
	}
}

static int take_object(struct shfs_import *m, char kind, struct shfs_bytes content)
{
	struct shfs_object_id id = { 0 };
	char name[44];

	if (kind == 'O')
		shfs_object_hash(content.data, content.len, id.hash);
	shfs_object_name(&id, name);
	return shfs_import_object(m, name, content.data, content.len, NULL);
}

/* data: ids, as a list has them. */
static int take_pruned(struct shfs_import *m, struct shfs_bytes data)
{
	struct shfs_cursor c = { (const unsigned char *)data.data,
		                 (const unsigned char *)data.data + data.len, false };
	_cleanup_objects_ struct shfs_objects objects = { 0 };
	_cleanup_buf_ struct shfs_buf list = { 0 };

	for (struct shfs_object_id id = { 0 }; c.p < c.end && !c.failed;) {
		shfs_cursor_copy(&c, id.hash, sizeof(id.hash));
		id.nth = shfs_cursor_u32(&c);
		if (!c.failed)
			FUZZ_ASSERT(!shfs_objects_add(&objects, &id));
	}
	shfs_objects_sort(&objects);
	pruned_print(&objects, &list);
	return shfs_import_pruned(m, list.data, list.len);
}

struct names {
	char host[80], file[220];
};

static int take_entry(struct shfs_import *m, struct names *names, char kind,
                      struct shfs_bytes d)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };

	switch (kind) {
	case 'H':
		snprintf(names->host, sizeof(names->host), "%.*s", (int)d.len, d.data);
		return 0;
	case 'N':
		snprintf(names->file, sizeof(names->file), "%.*s", (int)d.len, d.data);
		return 0;
	case 'S':
		fuzz_build_segment((const uint8_t *)d.data, d.len, &b);
		return shfs_import_file(m, names->host, names->file, b.data, b.len);
	case 'L':
		return shfs_import_file(m, names->host, names->file, d.data, d.len);
	case 'O':
	case 'X':
		return take_object(m, kind, d);
	case 'A':
		return shfs_import_alive(m, d.data, d.len);
	case 'T':
		return shfs_import_trees(m, d.data, d.len);
	case 'P':
		return shfs_import_pruned(m, d.data, d.len);
	case 'Q':
		return take_pruned(m, d);
	default:
		return 0;
	}
}

static int take_all(struct shfs_store *store, const uint8_t *data, size_t size,
                    struct shfs_import_stats *stats)
{
	struct shfs_cursor c = { data, data + size, false };
	struct names names = { "host", "a.seg" };
	struct shfs_import *m;
	int r = shfs_import_new(store, false, &m);

	FUZZ_ASSERT(r == 0);
	while (c.p < c.end && !r) {
		char kind = (char)shfs_cursor_u8(&c);
		size_t len = shfs_cursor_u16(&c);

		if (c.failed)
			break;
		len = MIN(len, (size_t)(c.end - c.p));
		r = take_entry(m, &names, kind,
		               (struct shfs_bytes){ (const char *)c.p, len });
		c.p += len;
	}
	if (!r)
		r = shfs_import_finish(m, NULL, stats);
	shfs_import_free(m);
	return r;
}

static void check(struct shfs_store *store, const uint8_t *data, size_t size)
{
	_cleanup_index_ struct shfs_index *index = NULL;
	struct shfs_import_stats stats, again;

	if (take_all(store, data, size, &stats))
		return;
	FUZZ_ASSERT(take_all(store, data, size, &again) == 0);
	FUZZ_ASSERT(again.files == again.files_known);
	FUZZ_ASSERT(again.objects == again.objects_known);
	FUZZ_ASSERT(again.missing == stats.missing);
	if (stats.files == stats.files_known)
		return;
	FUZZ_ASSERT(shfs_index_open(store, SHFS_INDEX_READ, &index) == 0);
	fuzz_ask_all(index);
}

void fuzz_import(const uint8_t *data, size_t size)
{
	struct shfs_store *store;
	char dir[64];

	snprintf(dir, sizeof(dir), "%s/shfs-fuzz-XXXXXX",
	         access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	FUZZ_ASSERT(mkdtemp(dir));
	FUZZ_ASSERT(shfs_store_open(dir, SHFS_STORE_CREATE, &store) == 0);
	check(store, data, size);
	shfs_store_close(store);
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
