/* SPDX-License-Identifier: MIT */
#include "query/export/archive.h"

#include "query/base/model.h"
#include "query/base/mounts.h"
#include "query/base/progress.h"
#include "query/export/libarchive.h"
#include "query/export/raw.h"

#include "common/ids.h"
#include "common/io.h"
#include "common/path.h"
#include "common/quote.h"
#include "store/care/forget.h"
#include "store/care/import.h"
#include "store/journal/hooklog.h"
#include "store/journal/journal.h"
#include "store/journal/runtime.h"
#include "store/objects/object.h"
#include "store/objects/pruned.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- the part to export --- */

struct part {
	struct shfs_forget *forget;
	struct shfs_index *index; /* of the whole store */
	int n;
	char **paths;                               /* absolute */
	struct shfs_ids files, commands, processes; /* to be exported */
};

static int find_files_of_paths(struct part *p)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(p->index, "SELECT file_id, path FROM v_path", &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		r = 0;
		for (int i = 0; i < p->n && !r; i++)
			if (shfs_path_is_below(shfs_rows_text(rows, 1), p->paths[i])) {
				r = shfs_ids_add(&p->files, shfs_rows_int(rows, 0));
				break;
			}
	}
	shfs_ids_sort(&p->files);
	return r;
}

/* Adds files that share a history with the files of the set: a rename or link gave one
 * the content of the other. 1: some were added. */
static int find_relatives(struct part *p)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	size_t n = p->files.n;
	int r = shfs_rows_open(p->index,
	                       "SELECT file_id, origin_version_id >> 32 FROM v_version"
	                       " WHERE origin_version_id IS NOT NULL",
	                       &rows);
	_cleanup_ids_ struct shfs_ids more = { 0 };

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		int64_t file = shfs_rows_int(rows, 0), origin = shfs_rows_int(rows, 1);
		bool has = shfs_ids_has(&p->files, file);

		r = has == shfs_ids_has(&p->files, origin)
		            ? 0
		            : shfs_ids_add(&more, has ? origin : file);
	}
	for (size_t i = 0; i < more.n && !r; i++)
		r = shfs_ids_add(&p->files, more.ids[i]);
	shfs_ids_sort(&p->files);
	return r ? r : p->files.n > n;
}

static int find_users(struct part *p)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(
		p->index,
		"SELECT command_id, process_id FROM v_access WHERE file_id = ?1"
		" UNION SELECT command_id, process_id FROM v_access"
		" WHERE file2_id = ?1",
		&rows);

	for (size_t i = 0; i < p->files.n && !r; i++) {
		shfs_rows_reset(rows);
		r = shfs_rows_bind_int(rows, 1, p->files.ids[i]);
		while (!r && (r = shfs_rows_next(rows)) > 0) {
			r = shfs_ids_add(&p->commands, shfs_rows_int(rows, 0));
			if (!r)
				r = shfs_ids_add(&p->processes, shfs_rows_int(rows, 1));
		}
	}
	shfs_ids_sort(&p->commands);
	shfs_ids_sort(&p->processes);
	return r;
}

static int forget_unchosen(struct part *p, const char *sql, const struct shfs_ids *stay,
                           enum shfs_forget_kind kind)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(p->index, sql, &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = shfs_ids_has(stay, shfs_rows_int(rows, 0))
		            ? 0
		            : shfs_forget_add(p->forget, kind, shfs_rows_int(rows, 0));
	return r;
}

/* These notes are about what is not in the index, as the past of a third store. */
#define STRAY_NOTES                                                                      \
	"SELECT n.note_id FROM v_note_record n"                                          \
	" WHERE NOT EXISTS (SELECT 1 FROM v_command c WHERE c.id = n.command)"           \
	" AND" SHFS_SQL_FILE_ID("n.path") "IS NULL"

static int choose_archived_part(struct part *p)
{
	int r = find_files_of_paths(p);

	while (!r && (r = find_relatives(p)) > 0)
		r = 0;
	if (!r)
		r = find_users(p);
	if (!r)
		r = forget_unchosen(p, "SELECT file_id FROM v_path", &p->files,
		                    SHFS_FORGET_FILE);
	if (!r)
		r = forget_unchosen(p, "SELECT command_id FROM v_command", &p->commands,
		                    SHFS_FORGET_COMMAND);
	if (!r)
		r = forget_unchosen(p,
		                    "SELECT process_id FROM v_loose_process"
		                    " WHERE session_id IS NULL AND n_accesses > 0",
		                    &p->processes, SHFS_FORGET_PROCESS);
	if (!r)
		r = forget_unchosen(p, STRAY_NOTES, &(struct shfs_ids){ 0 },
		                    SHFS_FORGET_NOTE);
	return r;
}

/* The operands as absolute paths. An exit code. */
static int find_operand_paths(struct part *p, int n, char **operands)
{
	p->paths = calloc((size_t)n + 1, sizeof(*p->paths));
	for (int i = 0; i < n && p->paths; i++) {
		int r;

		p->paths[p->n++] = shfs_operand_path(operands[i]);
		r = p->paths[i] ? shfs_path_is_known(p->index, p->paths[i]) : -ENOMEM;
		if (r < 0)
			return shfs_fail_index(p->index, r);
		if (!r)
			return shfs_fail_unseen(p->index, p->paths[i]);
	}
	return p->paths ? 0 : shfs_fail_index(p->index, -ENOMEM);
}

static void part_clear(struct part *p)
{
	for (int i = 0; i < p->n; i++)
		free(p->paths[i]);
	free(p->paths);
	shfs_ids_free(&p->files);
	shfs_ids_free(&p->commands);
	shfs_ids_free(&p->processes);
	shfs_forget_close(p->forget);
}

/* --- the archive --- */

struct sized {
	struct shfs_object_id id;
	uint64_t size_bytes;
};

struct out {
	struct shfs_store *store;
	struct shfs_raw *raw;
	struct archive *tar;
	int object; /* a temporary file for one object at a time */
	/* if the progress is shown: sizes of contents, as records have them, and how many
	 * bytes of contents were written of how many */
	struct sized *sized;
	size_t n_sized, cap_sized;
	bool counts;
	uint64_t done, all;
	uint64_t missing, damaged;
	struct shfs_objects pruned; /* tombstones for objects of the exported journal */
	struct shfs_buf alive;      /* segments of recordings that go on, one in each
	                             * line */
	struct shfs_buf boots; /* those that recorded the files: lines of the host and
	                        * the boot */
};

/* A negative errno; libarchive's own numbers, which are no errnos, become EIO. */
static int tar_errno(struct out *o)
{
	int error = libarchive.archive_errno(o->tar);

	return error > 0 ? -error : -EIO;
}

static int begin_entry(struct out *o, const char *path, int64_t size)
{
	struct archive_entry *entry = libarchive.archive_entry_new();
	int r;

	if (!entry)
		return -ENOMEM;
	libarchive.archive_entry_set_pathname(entry, path);
	libarchive.archive_entry_set_filetype(entry, AE_IFREG);
	libarchive.archive_entry_set_perm(entry, 0600);
	libarchive.archive_entry_set_size(entry, size);
	r = libarchive.archive_write_header(o->tar, entry) == ARCHIVE_OK ? 0
	                                                                 : tar_errno(o);
	libarchive.archive_entry_free(entry);
	return r;
}

static int write_data(struct out *o, const void *data, size_t len)
{
	return libarchive.archive_write_data(o->tar, data, len) == (ssize_t)len
	               ? 0
	               : tar_errno(o);
}

static void note_boot(struct out *o, const char *host, struct shfs_bytes boot)
{
	shfs_buf_printf(&o->boots, "\n%s ", host);
	shfs_buf_add(&o->boots, boot.data, boot.len);
	shfs_buf_char(&o->boots, '\n');
}

/* Notes which boots recorded a file, as its records say. */
static void note_boots(struct out *o, const char *host, const char *name,
                       const struct shfs_buf *bytes)
{
	struct shfs_segment *segment;
	struct shfs_hooklog *log;
	struct shfs_record rec;

	if (!shfs_ends_with(name, ".log")) {
		if (shfs_segment_from_memory(bytes->data, bytes->len, &segment))
			return;
		note_boot(o, host, shfs_segment_producer(segment)->boot_id);
		shfs_segment_close(segment);
		return;
	}
	if (shfs_hooklog_from_memory(bytes->data, bytes->len, &log))
		return;
	while (shfs_hooklog_next(log, &rec) > 0)
		if (rec.type == SHFS_REC_SESSION)
			note_boot(o, host, rec.session.boot_id);
	shfs_hooklog_close(log);
}

static int write_file(const char *host, const char *name, const struct shfs_buf *bytes,
                      void *arg)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };
	struct out *o = arg;
	int r;

	shfs_buf_printf(&path, "shfs/journal/%s/%s", host, name);
	note_boots(o, host, name, bytes);
	r = path.failed || o->boots.failed
	            ? -ENOMEM
	            : begin_entry(o, path.data, (int64_t)bytes->len);
	return r ? r : write_data(o, bytes->data, bytes->len);
}

static int note_alive(const char *host, const char *name, void *arg)
{
	struct out *o = arg;

	shfs_buf_printf(&o->alive, "%s/%s\n", host, name);
	return o->alive.failed ? -ENOMEM : 0;
}

static int write_pieces(struct out *o)
{
	char piece[1 << 16];
	off_t at = 0;
	ssize_t n;

	while ((n = shfs_pread_full(o->object, piece, sizeof(piece), at)) > 0) {
		int r = write_data(o, piece, (size_t)n);

		if (r)
			return r;
		at += n;
		if (o->counts)
			shfs_progress_bytes(o->done += (uint64_t)n, o->all);
	}
	return (int)n;
}

static int write_object(const struct shfs_object_id *id, void *arg)
{
	char path[80] = "shfs/objects/";
	struct out *o = arg;
	int r;

	if (ftruncate(o->object, 0) || lseek(o->object, 0, SEEK_SET))
		return -errno;
	r = shfs_raw_copy(o->raw, id, o->object);
	r = r ? MIN(r, 0) : shfs_object_copy(o->store, id, o->object);
	o->missing += r == -ENOENT;
	o->damaged += r == -EBADMSG;
	if (r == -ENODATA)
		return shfs_objects_add(&o->pruned, id);
	if (r == -ENOENT || r == -EBADMSG)
		return 0;
	if (r)
		return r;
	shfs_object_name(id, path + strlen(path));
	r = begin_entry(o, path, lseek(o->object, 0, SEEK_END));
	return r ? r : write_pieces(o);
}

static void give_object(struct shfs_bytes path, struct shfs_bytes path2,
                        struct shfs_content *content, void *arg)
{
	struct out *o = arg;

	shfs_raw_give(o->raw, path, path2, content);
	if (!o->counts || !(content->flags & SHFS_CONTENT_OBJECT))
		return;
	if (MAKE_ROOM(o->sized, o->n_sized, o->cap_sized))
		o->sized[o->n_sized++] = (struct sized){ content->object, content->size };
	else
		o->counts = false;
}

static int compare_sized(const void *a, const void *b)
{
	return shfs_object_compare(&((const struct sized *)a)->id,
	                           &((const struct sized *)b)->id);
}

/* Sums up what the contents take that come now. */
static void measure_objects(const struct shfs_object_id *ids, size_t n, void *arg)
{
	struct out *o = arg;

	if (!o->counts || !o->n_sized)
		return;
	qsort(o->sized, o->n_sized, sizeof(*o->sized), compare_sized);
	for (size_t i = 0; i < n; i++) {
		struct sized key = { .id = ids[i] };
		const struct sized *found =
			bsearch(&key, o->sized, o->n_sized, sizeof(key), compare_sized);

		o->all += found ? found->size_bytes : 0;
	}
	shfs_progress_bytes(0, o->all);
}

static int write_pruned(struct out *o)
{
	_cleanup_buf_ struct shfs_buf list = { 0 };
	int r;

	if (!o->pruned.n)
		return 0;
	shfs_objects_sort(&o->pruned);
	pruned_print(&o->pruned, &list);
	r = list.failed ? -ENOMEM : begin_entry(o, "shfs/pruned", (int64_t)list.len);
	return r ? r : write_data(o, list.data, list.len);
}

static bool is_archived_boot(const char *host, const char *boot, void *arg)
{
	const struct out *o = arg;
	_cleanup_buf_ struct shfs_buf line = { 0 };

	/* of an earlier version, the list has only the first digits */
	shfs_buf_printf(&line, "\n%s %s%s", host, boot,
	                strlen(boot) == SHFS_JOURNAL_BOOT_DIGITS ? "" : "\n");
	return line.failed || (o->boots.len && strstr(o->boots.data, line.data));
}

/* Writes whose files they are. */
static int write_trees(struct out *o)
{
	_cleanup_buf_ struct shfs_buf list = { 0 };
	_cleanup_trees_ struct shfs_trees *trees = NULL;
	int r = shfs_trees_load(o->store, &trees);

	if (!r)
		r = shfs_trees_print(trees, is_archived_boot, o, &list);
	if (!r)
		r = begin_entry(o, "shfs/trees", (int64_t)list.len);
	return r ? r : write_data(o, list.data, list.len);
}

static int write_archive(struct out *o, struct shfs_forget *forget, int fd)
{
	struct shfs_handed_out to = { .file = write_file,
		                      .objects = measure_objects,
		                      .object = write_object,
		                      .content = give_object,
		                      .alive = note_alive,
		                      .arg = o };
	int r;

	o->tar = libarchive.archive_write_new();
	if (!o->tar)
		return -ENOMEM;
	if (libarchive.archive_write_set_format_pax_restricted(o->tar) ||
	    libarchive.archive_write_add_filter_zstd(o->tar) ||
	    libarchive.archive_write_set_bytes_in_last_block(o->tar,
	                                                     1) || /* also for a pipe */
	    libarchive.archive_write_open_fd(o->tar, fd))
		r = tar_errno(o);
	else
		r = begin_entry(o, "shfs/format", strlen(SHFS_ARCHIVE_FORMAT))
		            ?: write_data(o, SHFS_ARCHIVE_FORMAT,
		                          strlen(SHFS_ARCHIVE_FORMAT));
	if (!r)
		r = shfs_forget_hand_out(forget, &to);
	if (!r && o->alive.len)
		r = begin_entry(o, "shfs/alive", (int64_t)o->alive.len)
		            ?: write_data(o, o->alive.data, o->alive.len);
	if (!r)
		r = write_trees(o);
	if (!r)
		r = write_pruned(o);
	if (!r && libarchive.archive_write_close(o->tar))
		r = tar_errno(o);
	libarchive.archive_write_free(o->tar);
	return r;
}

static int warn_of_left_out(const struct out *o)
{
	if (o->missing)
		shfs_warn("%" PRIu64
		          " content%s not in the store any more, and not in the "
		          "archive",
		          o->missing, o->missing == 1 ? " is" : "s are");
	if (!o->damaged)
		return SHFS_EXIT_OK;
	shfs_error("%" PRIu64 " content%s damaged in the store, and not in the archive",
	           o->damaged, o->damaged == 1 ? " is" : "s are");
	return SHFS_EXIT_FAILURE;
}

static int write_part(struct shfs_store *store, const char *hook_dir, int n,
                      char **operands, bool with_data, int fd, bool *written)
{
	struct shfs_forget_stats stats;
	struct out o = { .store = store,
		         .object = -1,
		         .counts = shfs_progress_begin("writing the archive") };
	struct part p = { 0 };
	FILE *object = tmpfile();
	int code = 0, r;

	r = object ? pruned_look(store) : -errno;
	if (!r)
		r = shfs_forget_open(store, hook_dir, NULL, &p.forget);
	if (!r) {
		o.object = fileno(object);
		p.index = shfs_forget_index(p.forget);
		code = find_operand_paths(&p, n, operands);
	}
	if (!r && !code && n)
		r = choose_archived_part(&p);
	if (!r && !code)
		r = shfs_forget_measure(p.forget, &stats);
	if (!r && !code)
		r = shfs_raw_find(p.index, n ? &p.files : NULL, with_data, &o.raw);
	if (!r && !code)
		r = write_archive(&o, p.forget, fd);
	shfs_progress_end();
	if (r == -ENOTRECOVERABLE) {
		code = shfs_fail_pruned();
	} else if (r == -ECANCELED) {
		code = SHFS_EXIT_FAILURE;
	} else if (r) {
		shfs_error("cannot write the archive: %s", strerror(-r));
		code = SHFS_EXIT_FAILURE;
	}
	if (!r && !code)
		shfs_raw_warn(o.raw);
	part_clear(&p);
	shfs_raw_free(o.raw);
	shfs_objects_free(&o.pruned);
	shfs_buf_free(&o.alive);
	shfs_buf_free(&o.boots);
	free(o.sized);
	if (object)
		fclose(object);
	*written = !code;
	return code ? code : warn_of_left_out(&o);
}

int shfs_archive_write(struct shfs_context *ctx, int n, char **paths, bool with_data,
                       int fd, bool *written)
{
	_cleanup_free_ char *hook_dir = NULL;
	int code = SHFS_EXIT_OK;
	struct shfs_store *store = shfs_context_store(ctx, false, &code);

	*written = false;
	if (!store || (code = shfs_libarchive_load()))
		return code;
	shfs_mounts_sync(store->path, true);
	hook_dir = shfs_runtime_hook_dir(store->path);
	return write_part(store, hook_dir, n, paths, with_data, fd, written);
}
