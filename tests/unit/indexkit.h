/* SPDX-License-Identifier: MIT */
/*
 * indexkit.h - synthetic journals for the tests of the index: a store in a directory of
 * its own, segments through shfs_journal_*, hook logs as text, answers of the views as
 * text.
 *
 * Times are given in milliseconds since boot; real time is boot time plus a constant.
 */
#pragma once

#include "tests/unit/unit.h"

#include "common/io.h"
#include "common/proc.h"
#include "store/index/index.h"
#include "store/journal/journal.h"
#include "store/objects/object.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#define KIT_ROOT "/home/u/project"

struct kit {
	struct shfs_store *store;
	struct shfs_journal *journal;
	uint64_t seq;
	int64_t offset_ns; /* real minus boot */
	char boot_id[37];
	uint32_t pid_max;
	/* the current shell's log */
	char log[96];
	unsigned log_seq;
	bool coarse;  /* its boot times have two decimals */
	uint64_t ino; /* of the file that records tell of */
	struct shfs_buf answer;
};

#define assert_ok(r) assert_int_equal((r), 0)

static struct shfs_time kit_time(const struct kit *k, double ms)
{
	uint64_t boot = ms * 1000000;

	return (struct shfs_time){ boot + k->offset_ns, boot };
}

static _unused_ void kit_open(struct kit *k)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_buf_ struct shfs_buf text = { 0 };
	struct shfs_time now = shfs_time_now();

	*k = (struct kit){ .offset_ns = now.real_ns - (int64_t)now.boot_ns, .ino = 2 };
	assert_true(asprintf(&path, "%s/store", shfs_unit_tmpdir()) > 0);
	assert_ok(shfs_store_open(path, SHFS_STORE_CREATE, &k->store));
	assert_ok(shfs_proc_boot_id(k->boot_id));
	assert_ok(shfs_read_file_at(AT_FDCWD, "/proc/sys/kernel/pid_max", 64, &text));
	k->pid_max = strtoul(text.data, NULL, 10);
}

static _unused_ void kit_close(struct kit *k)
{
	shfs_journal_close(k->journal);
	shfs_store_close(k->store);
	shfs_buf_free(&k->answer);
}

static _unused_ void kit_mount_at(struct kit *k, const char *root, uint64_t rotate_bytes)
{
	struct shfs_journal_options o = { .kind = "fuse",
		                          .root = root,
		                          .rotate_bytes = rotate_bytes };

	assert_ok(shfs_journal_open(k->store, &o, &k->journal));
	k->seq = 0;
}

static _unused_ void kit_mount(struct kit *k)
{
	kit_mount_at(k, KIT_ROOT, 0);
}

static _unused_ void kit_umount(struct kit *k)
{
	assert_ok(shfs_journal_close(TAKE_PTR(k->journal)));
}

/* --- records --- */

static uint64_t kit_append(struct kit *k, struct shfs_record *rec)
{
	const struct shfs_record *one = rec;

	rec->seq = ++k->seq;
	rec->boot_resolution_ns = 1;
	assert_ok(shfs_journal_append(k->journal, &one, 1, &(size_t){ 0 }));
	return rec->seq;
}

struct kit_process {
	uint32_t pid;
	double start_ms;
	uint32_t ppid;
	double parent_ms;
	uint32_t pgid, sid;
	const char *exe, *cwd, *marker;
	double seen_ms; /* 0: just after its start */
	uint32_t uid;
};

static uint64_t kit_ticks(double ms)
{
	return ms / 10;
}

static _unused_ uint64_t kit_add_process(struct kit *k, const struct kit_process *p)
{
	struct shfs_record rec = {
		.type = SHFS_REC_PROCESS,
		.time = kit_time(k, p->seen_ms ? p->seen_ms : p->start_ms + 1),
		.process = {
			.pid = p->pid,
			.ppid = p->ppid,
			.pgid = p->pgid ? p->pgid : p->pid,
			.sid = p->sid,
			.uid = p->uid,
			.start_ticks = kit_ticks(p->start_ms),
			.parent_start_ticks = kit_ticks(p->parent_ms),
			.exe = shfs_bytes_str(p->exe ? p->exe : "/bin/true"),
			.cwd = shfs_bytes_str(p->cwd ? p->cwd : KIT_ROOT),
			.argv = { "a\0b", 3 },
			.marker = shfs_bytes_str(p->marker),
		},
	};

	return kit_append(k, &rec);
}
#define kit_process(k, ...) kit_add_process(k, &(struct kit_process){ __VA_ARGS__ })

/* A content that was archived; its text stands for all of it. */
static _unused_ struct shfs_content kit_content(const struct kit *k, const char *text,
                                                double mtime_ms)
{
	struct shfs_content c = {
		.flags = SHFS_CONTENT_KNOWN | SHFS_CONTENT_OBJECT | SHFS_CONTENT_PHASH,
		.mode = 0100644,
		.size = strlen(text),
		.mtime_ns = kit_time(k, mtime_ms).real_ns,
		.ctime_ns = kit_time(k, mtime_ms).real_ns,
		.phash = shfs_object_hash64(text, strlen(text)),
	};
	uint64_t h = c.phash;

	memcpy(c.object.hash, &h, sizeof(h));
	return c;
}

/* The same, not archived. */
static _unused_ struct shfs_content kit_print(const struct kit *k, const char *text,
                                              double mtime_ms)
{
	struct shfs_content c = kit_content(k, text, mtime_ms);

	c.flags &= ~SHFS_CONTENT_OBJECT;
	c.object = (struct shfs_object_id){ 0 };
	return c;
}

static _unused_ void kit_access(struct kit *k, uint64_t process, const char *path,
                                double begin_ms, double last_ms, uint32_t flags,
                                const struct shfs_content *seen,
                                const struct shfs_content *made)
{
	struct shfs_record rec = {
		.type = SHFS_REC_ACCESS,
		.time = kit_time(k, last_ms + 1),
		.access = {
			.process = process,
			.flags = flags,
			.begin = kit_time(k, begin_ms),
			.last = kit_time(k, last_ms),
			.path = shfs_bytes_str(path),
			.dev = 1,
			.ino = k->ino,
		},
	};

	if (seen)
		rec.access.seen = *seen;
	if (made)
		rec.access.made = *made;
	kit_append(k, &rec);
}

static _unused_ void kit_read(struct kit *k, uint64_t process, const char *path,
                              double ms, struct shfs_content seen)
{
	kit_access(k, process, path, ms, ms, SHFS_ACCESS_READ, &seen, NULL);
}

static _unused_ void kit_write(struct kit *k, uint64_t process, const char *path,
                               double ms, struct shfs_content made)
{
	kit_access(k, process, path, ms, ms, SHFS_ACCESS_WRITTEN, NULL, &made);
}

/* what: the fields that are not given beside it. */
static _unused_ void kit_pathop_of(struct kit *k, uint64_t process, enum shfs_pathop op,
                                   const char *path, const char *path2, double ms,
                                   const struct shfs_content *content,
                                   const struct shfs_content *victim,
                                   struct shfs_rec_pathop what)
{
	struct shfs_record rec = { .type = SHFS_REC_PATHOP,
		                   .time = kit_time(k, ms),
		                   .pathop = what };

	rec.pathop.process = process;
	rec.pathop.op = op;
	rec.pathop.path = shfs_bytes_str(path);
	rec.pathop.path2 = shfs_bytes_str(path2);
	if (content)
		rec.pathop.content = *content;
	if (victim)
		rec.pathop.victim = *victim;
	kit_append(k, &rec);
}

static _unused_ void kit_pathop(struct kit *k, uint64_t process, enum shfs_pathop op,
                                const char *path, const char *path2, double ms,
                                const struct shfs_content *content,
                                const struct shfs_content *victim, bool directory)
{
	kit_pathop_of(k, process, op, path, path2, ms, content, victim,
	              (struct shfs_rec_pathop){ .directory = directory });
}

/* Of a file that has several names, or will. */
static _unused_ void kit_inode_op(struct kit *k, uint64_t process, enum shfs_pathop op,
                                  const char *path, const char *path2, double ms,
                                  const struct shfs_content *content,
                                  const struct shfs_content *victim)
{
	kit_pathop_of(k, process, op, path, path2, ms, content, victim,
	              (struct shfs_rec_pathop){ .dev = 1, .ino = k->ino });
}

static _unused_ void kit_rename(struct kit *k, uint64_t process, const char *from,
                                const char *to, double ms)
{
	kit_pathop(k, process, SHFS_OP_RENAME, from, to, ms, NULL, NULL, false);
}

static _unused_ void kit_preimage(struct kit *k, uint64_t process, const char *path,
                                  double ms, struct shfs_content content)
{
	struct shfs_record rec = {
		.type = SHFS_REC_PREIMAGE,
		.time = kit_time(k, ms),
		.preimage = { .process = process,
		              .path = shfs_bytes_str(path),
		              .content = content },
	};

	kit_append(k, &rec);
}

/* --- hook logs --- */

static void kit_log(struct kit *k, const struct shfs_buf *record)
{
	_cleanup_close_ int fd = openat(k->store->journal_fd, k->log,
	                                O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_false(record->failed);
	assert_ok(shfs_write_all(fd, record->data, record->len));
}

static void kit_field(struct shfs_buf *b, const char *text)
{
	shfs_buf_add(b, text, strlen(text) + 1);
}

static void kit_number(struct shfs_buf *b, uint64_t n)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, n);
	kit_field(b, text);
}

/* Both clocks, as a shell writes them. */
static void kit_clocks(struct kit *k, struct shfs_buf *b, double ms)
{
	struct shfs_time t = kit_time(k, ms);
	char text[48];

	snprintf(text, sizeof(text), "%lld.%06lld", t.real_ns / SHFS_NSEC_PER_SEC,
	         t.real_ns % SHFS_NSEC_PER_SEC / 1000);
	kit_field(b, text);
	if (k->coarse)
		snprintf(text, sizeof(text), "%" PRIu64 ".%02" PRIu64,
		         t.boot_ns / 1000000000, t.boot_ns % 1000000000 / 10000000);
	else
		snprintf(text, sizeof(text), "%" PRIu64 ".%09" PRIu64,
		         t.boot_ns / 1000000000, t.boot_ns % 1000000000);
	kit_field(b, text);
}

static void kit_record(struct kit *k, struct shfs_buf *b)
{
	kit_number(b, k->log_seq);
	shfs_buf_char(b, '\n');
	kit_log(k, b);
}

static void kit_tag(struct kit *k, struct shfs_buf *b, const char *tag)
{
	shfs_buf_char(b, '\x1e');
	kit_field(b, tag);
	kit_number(b, ++k->log_seq);
}

/* Names the log that kit_begin and kit_end write to. */
static _unused_ void kit_use_shell(struct kit *k, uint32_t pid, double start_ms)
{
	snprintf(k->log, sizeof(k->log), "shell-%.8s-%u-%" PRIu64 ".log", k->boot_id, pid,
	         kit_ticks(start_ms));
}

static _unused_ void kit_shell(struct kit *k, uint32_t pid, double start_ms,
                               double now_ms)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };

	kit_use_shell(k, pid, start_ms);
	kit_tag(k, &b, "S1");
	kit_number(&b, pid);
	kit_number(&b, kit_ticks(start_ms));
	kit_field(&b, k->boot_id);
	kit_number(&b, 0);
	kit_clocks(k, &b, now_ms);
	kit_field(&b, k->store->host);
	kit_field(&b, "bash");
	kit_field(&b, "/dev/pts/1");
	kit_field(&b, KIT_ROOT);
	kit_record(k, &b);
}

static _unused_ void kit_begin(struct kit *k, unsigned number, double ms,
                               uint32_t last_pid, const char *text)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };

	kit_tag(k, &b, "B1");
	kit_number(&b, number);
	kit_clocks(k, &b, ms);
	kit_number(&b, last_pid);
	kit_number(&b, 0);
	kit_field(&b, KIT_ROOT);
	kit_field(&b, text);
	kit_record(k, &b);
}

static _unused_ void kit_end(struct kit *k, unsigned number, double ms, uint32_t last_pid,
                             int status)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };

	kit_tag(k, &b, "F1");
	kit_number(&b, number);
	kit_clocks(k, &b, ms);
	kit_number(&b, last_pid);
	kit_number(&b, status);
	kit_record(k, &b);
}

/* --- answers --- */

static _unused_ struct shfs_ingest_stats kit_ingest(struct kit *k)
{
	_cleanup_index_ struct shfs_index *index = NULL;
	struct shfs_ingest_stats stats = { 0 };

	assert_ok(shfs_index_open(k->store, SHFS_INDEX_WRITE, &index));
	assert_ok(shfs_index_ingest(index, NULL, &stats));
	return stats;
}

/* Nothing more happens: it is asked. */
static _unused_ int kit_finish(struct kit *k, struct shfs_index **index)
{
	kit_umount(k);
	kit_ingest(k);
	return shfs_index_open(k->store, SHFS_INDEX_READ, index);
}

static void kit_add_row(struct kit *k, struct shfs_rows *rows, int columns)
{
	if (k->answer.len)
		shfs_buf_char(&k->answer, '\n');
	for (int i = 0; i < columns; i++) {
		if (i)
			shfs_buf_char(&k->answer, '|');
		if (shfs_rows_is_null(rows, i))
			shfs_buf_str(&k->answer, "NULL");
		shfs_buf_add(&k->answer, shfs_rows_text(rows, i),
		             shfs_rows_bytes(rows, i));
	}
}

static const char *kit_ask_index(struct kit *k, struct shfs_index *index, int columns,
                                 const char *sql)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(index, sql, &rows);

	if (r)
		fail_msg("%s: %s", sql, shfs_index_error(index));
	k->answer.len = 0;
	while ((r = shfs_rows_next(rows)) > 0)
		kit_add_row(k, rows, columns);
	if (r)
		fail_msg("%s: %s", sql, shfs_index_error(index));
	shfs_buf_add(&k->answer, "", 0);
	assert_false(k->answer.failed);
	return k->answer.data;
}

/* All rows of a SELECT: columns joined by "|", rows by newlines. sql names how many
 * columns there are. Valid until the next question. */
static _unused_ const char *kit_ask(struct kit *k, int columns, const char *sql)
{
	_cleanup_index_ struct shfs_index *index = NULL;

	assert_ok(shfs_index_open(k->store, SHFS_INDEX_READ, &index));
	return kit_ask_index(k, index, columns, sql);
}

/* Everything that the views say, but for the integers that are valid within one index. */
static _unused_ char *kit_dump(struct kit *k)
{
	static const struct {
		int columns;
		const char *sql;
	} views[] = {
		{ 11,
		  "SELECT id, host, boot_id, pid, start_ticks, shell, tty, cwd, begin_ns,"
		  " end_ns, commands FROM v_session ORDER BY id" },
		{ 14,
		  "SELECT id, session, host, number, text, hidden, cwd, begin_ns, end_ns,"
		  " status, n_read, n_written, n_skipped, n_incomplete"
		  " FROM v_command ORDER BY id" },
		{ 13,
		  "SELECT p.host, p.pid, p.start_ticks, ppid, pgid, sid, uid, exe, p.cwd,"
		  " hex(argv), c.id, s.id, first_ns FROM v_process p"
		  " LEFT JOIN v_command c USING (command_id)"
		  " LEFT JOIN v_session s ON s.session_id = p.session_id"
		  " ORDER BY p.host, p.pid, p.start_ticks, p.exe, p.argv" },
		{ 6,
		  "SELECT path, root, versions, present, last_ns, directory FROM v_file"
		  " ORDER BY path" },
		{ 18,
		  "SELECT v.path, v.n, v.object, v.flags, v.size, v.mode, v.mtime_ns,"
		  " v.phash, v.source, o.path, o.n, p.pid, c.id, v.time_ns, v.carried,"
		  " a.op, a.path, a.begin_ns FROM v_version v"
		  " LEFT JOIN v_version o ON o.file_id = v.origin_version_id >> 32"
		  "  AND o.n = v.origin_version_id & 4294967295"
		  " LEFT JOIN v_access a ON a.access_id = v.access_id"
		  " LEFT JOIN v_process p ON p.process_id = v.process_id"
		  " LEFT JOIN v_command c ON c.command_id = v.command_id"
		  " ORDER BY v.path, v.n" },
		{ 17,
		  "SELECT a.op, a.flags, a.is_read, a.is_written, p.pid, c.id, s.id,"
		  " a.host, a.path, a.path2, a.directory, a.begin_ns, a.end_ns, v.path,"
		  " v.n, w.path, w.n FROM v_access a"
		  " LEFT JOIN v_process p USING (process_id)"
		  " LEFT JOIN v_command c ON c.command_id = a.command_id"
		  " LEFT JOIN v_session s ON s.session_id = a.session_id"
		  " LEFT JOIN v_version v ON v.file_id = a.file_id AND v.n = a.seen_n"
		  " LEFT JOIN v_version w ON w.file_id = a.made_file_id AND w.n = "
		  "a.made_n"
		  " ORDER BY a.seq_key" },
		{ 9,
		  "SELECT host, kind, root, pid, boot_id, begin_ns, end_ns, records, lost"
		  " FROM v_producer ORDER BY begin_ns" },
		{ 4, "SELECT host, root, begin_ns, end_ns FROM v_gap ORDER BY 3, 2" },
		{ 9, "SELECT * FROM v_stats" },
	};
	_cleanup_index_ struct shfs_index *index = NULL;
	_cleanup_buf_ struct shfs_buf all = { 0 };

	assert_ok(shfs_index_open(k->store, SHFS_INDEX_READ, &index));
	for (size_t i = 0; i < ARRAY_SIZE(views); i++) {
		shfs_buf_str(&all,
		             kit_ask_index(k, index, views[i].columns, views[i].sql));
		shfs_buf_str(&all, "\n--\n");
	}
	return shfs_buf_take(&all);
}

/* The command of each access, in their order: "path: text", text "-" for none. */
#define KIT_COMMANDS                                                                     \
	"SELECT a.path || ': ' || coalesce(c.text, '-') ||"                              \
	" CASE WHEN a.session_id IS NULL THEN ' (no session)' ELSE '' END"               \
	" FROM (SELECT replace(path, '" KIT_ROOT "/', '') AS path, command_id,"          \
	" session_id, seq_key FROM v_access) a"                                          \
	" LEFT JOIN v_command c USING (command_id) ORDER BY a.seq_key"
