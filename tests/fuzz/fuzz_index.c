/* SPDX-License-Identifier: MIT */
/*
 * The index after somebody else wrote to it. An input is changes of a kind (1 byte), a
 * length (2) and data: 'P' puts bytes into the file at a place (3 bytes), 'T' cuts it off
 * there, 'C' puts a value into a row of a table (4 bytes: which table, column, row and
 * type). Whoever asks it or writes to it gets an answer or an error.
 */
#include "tests/fuzz/fuzz.h"

#include "common/io.h"
#include "store/index/facts.h"
#include "store/index/index.h"
#include "store/journal/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sqlite3.h>
#include <string.h>

static struct shfs_store *store;
static char dir[64], path[80];
static struct shfs_buf sound; /* the file as it should be */

static int remove_one(const char *name, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(name);
}

static void remove_store(void)
{
	shfs_buf_free(&sound);
	shfs_store_close(store);
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* --- a journal with one of each --- */

static void append(struct shfs_journal *j, struct shfs_record *rec)
{
	const struct shfs_record *one = rec;
	static uint64_t seq;

	rec->seq = ++seq;
	rec->time = (struct shfs_time){ (int64_t)(1700000000000000000 + seq * 1000000),
		                        1000000000 + seq * 1000000 };
	rec->boot_resolution_ns = 1;
	FUZZ_ASSERT(shfs_journal_append(j, &one, 1, &(size_t){ 0 }) == 0);
}

static void write_journal(void)
{
	struct shfs_journal_options o = { .kind = "fuse", .root = "/p" };
	struct shfs_record process = { .type = SHFS_REC_PROCESS,
		                       .process = { .pid = 20,
		                                    .ppid = 10,
		                                    .exe = shfs_bytes_str("/bin/cp"),
		                                    .cwd = shfs_bytes_str("/p"),
		                                    .argv = { "cp\0a", 5 } } };
	struct shfs_journal *j;

	FUZZ_ASSERT(shfs_journal_open(store, &o, &j) == 0);
	append(j, &process);
	for (int i = 0; i < 40; i++) {
		char name[32] = "";
		struct shfs_content content = { .flags = SHFS_CONTENT_KNOWN |
			                                 SHFS_CONTENT_OBJECT,
			                        .size = 7,
			                        .object.hash = { (uint8_t)i } };
		struct shfs_record access = { .type = SHFS_REC_ACCESS,
			                      .access = {
						      .process = 1,
						      .flags = SHFS_ACCESS_READ,
						      .path = shfs_bytes_str(name) } };
		struct shfs_record rename = { .type = SHFS_REC_PATHOP,
			                      .pathop = { .process = 1,
			                                  .op = SHFS_OP_RENAME,
			                                  .path = shfs_bytes_str(name),
			                                  .path2 = shfs_bytes_str(
								  "/p/to") } };

		snprintf(name, sizeof(name), "/p/d%d/file", i % 7);
		access.access.path = rename.pathop.path = shfs_bytes_str(name);
		if (i % 2) {
			access.access.flags = SHFS_ACCESS_WRITTEN;
			access.access.made = content;
		} else {
			access.access.seen = content;
		}
		append(j, i % 9 == 8 ? &rename : &access);
	}
	FUZZ_ASSERT(shfs_journal_close(j) == 0);
}

static void write_log(void)
{
	static const char log[] =
		"\x1eS1\0001\00010\000100\00000000000-0000-0000-0000-"
		"000000000000\0000\000"
		"1700000000.000000\0001.000000000\000host\000bash\000/dev/pts/0\000/"
		"p\0001\0"
		"\n\x1e"
		"B1\0002\0001\0001700000000.500000\0001.100000000\0000\0000\000/p\000cp "
		"a b\000"
		"2\0\n\x1e"
		"F1\0003\0001\0001700000003.000000\0003.000000000\0000\0000\0003\0\n";

	FUZZ_ASSERT(shfs_write_file_at(store->journal_fd, "shell-00000000-10-100.log",
	                               0600, log, sizeof(log) - 1) == 0);
}

static void begin(void)
{
	struct shfs_index *index;

	snprintf(dir, sizeof(dir), "%s/shfs-fuzz-XXXXXX",
	         access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	FUZZ_ASSERT(mkdtemp(dir));
	FUZZ_ASSERT(shfs_store_open(dir, SHFS_STORE_CREATE, &store) == 0);
	atexit(remove_store);
	write_journal();
	write_log();
	FUZZ_ASSERT(shfs_index_open(store, SHFS_INDEX_WRITE, &index) == 0);
	FUZZ_ASSERT(shfs_index_ingest(index, NULL, NULL) == 0);
	shfs_index_close(index);
	FUZZ_ASSERT(shfs_read_file_at(store->dirfd, "index.db", 1 << 24, &sound) == 0);
	snprintf(path, sizeof(path), "%s/index.db", dir);
}

/* --- the changes --- */

static void put_bytes(struct shfs_cursor d)
{
	size_t at = (size_t)shfs_cursor_u8(&d) << 16 | (size_t)shfs_cursor_u16(&d);
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (!d.failed)
		(void)!pwrite(fd, d.p, (size_t)(d.end - d.p), (off_t)(at % sound.len));
}

static void cut(struct shfs_cursor d)
{
	size_t at = (size_t)shfs_cursor_u8(&d) << 16 | (size_t)shfs_cursor_u16(&d);

	if (!d.failed)
		(void)!truncate(path, (off_t)(at % sound.len));
}

/* The name of the nth row of a question; to be freed. */
static char *nth_name(sqlite3 *db, char *question, unsigned n)
{
	char **table = NULL, *name = NULL;
	int rows = 0, columns = 0;

	if (question && !sqlite3_get_table(db, question, &table, &rows, &columns, NULL) &&
	    rows)
		name = strdup(table[1 + n % (unsigned)rows]);
	sqlite3_free_table(table);
	sqlite3_free(question);
	return name;
}

static void change_row(sqlite3 *db, const uint8_t which[static 4], struct shfs_cursor d)
{
	_cleanup_free_ char *table =
		nth_name(db,
	                 sqlite3_mprintf(
				 "SELECT name FROM sqlite_schema WHERE type = 'table'"),
	                 which[0]);
	_cleanup_free_ char *column =
		nth_name(db,
	                 sqlite3_mprintf("SELECT name FROM pragma_table_info(%Q)", table),
	                 which[1]);
	char *sql =
		sqlite3_mprintf("UPDATE \"%w\" SET \"%w\" = ?1 WHERE \"%w\" IN (SELECT "
	                        "\"%w\" FROM \"%w\" LIMIT 1 OFFSET %u)",
	                        table, column, column, column, table, which[2] % 16u);
	int len = (int)(d.end - d.p);
	sqlite3_stmt *stmt = NULL;

	if (table && column && sql && !sqlite3_prepare_v2(db, sql, -1, &stmt, NULL)) {
		if (which[3] % 4 == 0)
			sqlite3_bind_int64(stmt, 1, (int64_t)shfs_cursor_u64(&d));
		else if (which[3] % 4 == 1)
			sqlite3_bind_text(stmt, 1, (const char *)d.p, len, SQLITE_STATIC);
		else if (which[3] % 4 == 2)
			sqlite3_bind_blob(stmt, 1, d.p, len, SQLITE_STATIC);
		sqlite3_step(stmt);
	}
	sqlite3_finalize(stmt);
	sqlite3_free(sql);
}

static void change(struct shfs_cursor d)
{
	uint8_t which[4];
	sqlite3 *db;

	for (size_t i = 0; i < sizeof(which); i++)
		which[i] = shfs_cursor_u8(&d);
	if (!d.failed && !sqlite3_open(path, &db)) {
		sqlite3_exec(db, "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF",
		             NULL, NULL, NULL);
		change_row(db, which, d);
	}
	if (!d.failed)
		sqlite3_close(db);
}

static void change_all(const uint8_t *data, size_t size)
{
	struct shfs_cursor c = { data, data + size, false };

	for (int n = 0; c.p < c.end && n < 8; n++) {
		char kind = (char)shfs_cursor_u8(&c);
		size_t len = shfs_cursor_u16(&c);

		if (c.failed)
			break;
		len = MIN(len, (size_t)(c.end - c.p));
		if (kind == 'P')
			put_bytes((struct shfs_cursor){ c.p, c.p + len, false });
		else if (kind == 'T')
			cut((struct shfs_cursor){ c.p, c.p + len, false });
		else
			change((struct shfs_cursor){ c.p, c.p + len, false });
		c.p += len;
	}
}

/* --- what is asked then --- */

static int count(const struct shfs_access *access, void *arg)
{
	size_t *n = arg;

	return ++*n > 1000;
}

static void walk(struct shfs_index *index, bool at_once)
{
	struct shfs_facts *facts;
	size_t n = 0;

	if (shfs_facts_new(index, &facts))
		return;
	if (at_once)
		(void)!shfs_facts_load(facts);
	for (int64_t id = 0; id < 12; id++) {
		_cleanup_free_ char *name = NULL;
		struct shfs_version_fact version;
		struct shfs_file_fact file;
		int64_t owner;

		(void)!shfs_facts_version(facts, id, &version);
		(void)!shfs_facts_path(facts, id, &name);
		(void)!shfs_facts_file(facts, id, &file);
		(void)!shfs_facts_owner(facts, id, &owner);
		(void)!shfs_facts_of_command(facts, id, count, &n);
		(void)!shfs_facts_of_nobody(facts, id, count, &n);
		(void)!shfs_facts_opens_of_file(facts, id, count, &n);
	}
	shfs_facts_free(facts);
}

static void ask(bool facts_at_once)
{
	_cleanup_index_ struct shfs_index *index = NULL;

	if (shfs_index_open(store, SHFS_INDEX_READ, &index))
		return;
	fuzz_ask_all(index);
	walk(index, facts_at_once);
}

static void add(void)
{
	_cleanup_index_ struct shfs_index *index = NULL;

	if (!shfs_index_open(store, SHFS_INDEX_WRITE, &index))
		(void)!shfs_index_ingest(index, NULL, NULL);
}

void fuzz_index(const uint8_t *data, size_t size)
{
	if (!store)
		begin();
	unlinkat(store->dirfd, "index.db-wal", 0);
	unlinkat(store->dirfd, "index.db-shm", 0);
	FUZZ_ASSERT(shfs_write_file_at(store->dirfd, "index.db", 0600, sound.data,
	                               sound.len) == 0);
	change_all(data, size);
	ask(size % 2);
	add();
}
