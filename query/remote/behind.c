/* SPDX-License-Identifier: MIT */
#include "query/remote/behind.h"

#include "query/base/model.h"
#include "query/base/time.h"
#include "query/remote/elsewhere.h"
#include "query/remote/own.h"

#include "common/clock.h"
#include "common/io.h"
#include "common/quote.h"
#include "store/journal/journal.h"
#include "store/objects/inventory.h"
#include "store/objects/packs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LAST      "last"
#define FAILED    "failed"
#define AUTOMATIC "remote/automatic"
#define WHY_MAX   2000

void behind_clear(struct behind *behind)
{
	free(behind->name);
	free(behind->why);
	*behind = (struct behind){ 0 };
}

/* --- notes --- */

static int write_time(int dirfd, const char *file, int64_t ns, const char *behind)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };

	shfs_buf_printf(&text, "%" PRId64 "%s%.*s\n", ns, *behind ? " " : "",
	                (int)MIN(strcspn(behind, "\n"), (size_t)WHY_MAX), behind);
	return text.failed ? -ENOMEM
	                   : shfs_write_file_at(dirfd, file, 0600, text.data, text.len);
}

/* Reads such a file; 0: there is none. why: malloc'ed; or NULL. */
static int read_time(int dirfd, const char *file, int64_t *ns, char **why)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r = shfs_read_file_at(dirfd, file, WHY_MAX + 100, &text);
	char *end;

	*ns = 0;
	if (r)
		return r == -ENOENT ? 0 : r;
	*ns = strtoll(text.data ?: "", &end, 10);
	if (!text.data || *ns < 0)
		*ns = 0;
	else if (why)
		*why = strndup(end + (*end == ' '), strcspn(end + (*end == ' '), "\n"));
	return why && *ns && !*why ? -ENOMEM : 0;
}

int behind_note_pushed(const struct place *place, int64_t begun_ns)
{
	int r = write_time(place->dirfd, LAST, begun_ns, "");

	return r ? r : place_remove_file(place, FAILED);
}

int behind_note_failed(const struct place *place, int64_t ns, const char *why)
{
	return write_time(place->dirfd, FAILED, ns, why);
}

int behind_note_automatic(struct shfs_store *store)
{
	_cleanup_close_ int dirfd =
		openat(store->dirfd, "remote",
	               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dirfd < 0)
		return errno == ENOENT ? 0 : -errno;
	return write_time(dirfd, "automatic", shfs_clock_ns(CLOCK_REALTIME), "");
}

int64_t behind_automatic_ns(struct shfs_store *store)
{
	int64_t ns;

	return read_time(store->dirfd, AUTOMATIC, &ns, NULL) ? 0 : ns;
}

/* --- what is not there --- */

struct walk {
	const struct place *place;
	struct behind *behind;
	struct manifest pushed, away; /* away: it stays there (elsewhere.h) */
	struct own *own;
	const char *directory; /* of loose objects */
};

/* Compares a file with what was pushed. */
static int look_at_file(struct walk *w, const char *name, int dirfd, const char *path)
{
	const struct remote_file *old = manifest_find(&w->pushed, name);
	struct stat st;
	int64_t changed_ns;

	if (fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : -errno; /* it was sealed, or collected */
	changed_ns = shfs_timespec_ns(st.st_ctim);
	if (old && old->state.ino == st.st_ino && old->state.ctime_ns == changed_ns &&
	    old->bytes == (uint64_t)st.st_size)
		return 0;
	w->behind->changed_ns = MAX(w->behind->changed_ns, changed_ns);
	/* what is appended to a file is what is new in it */
	w->behind->bytes +=
		(uint64_t)st.st_size - (old && old->state.ino == st.st_ino
	                                        ? MIN(old->bytes, (uint64_t)st.st_size)
	                                        : 0);
	return 0;
}

static int look_at_journal(const struct shfs_journal_file *f, void *arg)
{
	struct walk *w = arg;
	_cleanup_buf_ struct shfs_buf name = { 0 };

	if (!own_has_file(w->own, f->host, f->name))
		return 0;
	shfs_buf_printf(&name, "journal/%s/%s%s", f->host, f->name,
	                f->sealed ? ".zst" : "");
	if (name.failed)
		return -ENOMEM;
	return look_at_file(w, name.data, f->dirfd, strrchr(name.data, '/') + 1);
}

static int look_at_pack(void *arg, const char *pack)
{
	struct walk *w = arg;
	_cleanup_buf_ struct shfs_buf name = { 0 };

	if (shfs_pack_is_pulled(pack))
		return 0;
	shfs_buf_printf(&name, "objects/packs/%s", pack);
	return name.failed
	               ? -ENOMEM
	               : look_at_file(w, name.data, w->place->store->dirfd, name.data);
}

static int look_at_loose(void *arg, const char *file)
{
	struct walk *w = arg;
	_cleanup_buf_ struct shfs_buf name = { 0 };
	struct shfs_object_id id;

	shfs_buf_printf(&name, "objects/%s/%s", w->directory, file);
	if (name.failed)
		return -ENOMEM;
	if (file_loose_id(name.data, &id) || own_was_pulled(w->own, name.data) ||
	    manifest_find(&w->away, name.data))
		return 0;
	return look_at_file(w, name.data, w->place->store->dirfd, name.data);
}

static int look_at_directory(void *arg, const char *name)
{
	struct walk *w = arg;
	_cleanup_close_ int fd = -1;

	if (strlen(name) != 2 || strspn(name, "0123456789abcdef") != 2)
		return 0;
	fd = openat(w->place->store->objects_fd, name,
	            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	w->directory = name;
	return fd < 0 ? 0 : inventory_names(fd, NULL, look_at_loose, w);
}

static int look_at_files(struct walk *w)
{
	struct shfs_store *store = w->place->store;
	_cleanup_close_ int packs =
		openat(store->objects_fd, "packs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = shfs_journal_walk(store, SHFS_JOURNAL_ALL, look_at_journal, w);

	if (!r && packs >= 0)
		r = inventory_names(packs, ".pack", look_at_pack, w);
	return r ? r : inventory_names(store->objects_fd, NULL, look_at_directory, w);
}

static int count_commands(struct shfs_index *index, const char *host,
                          struct behind *behind)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(index,
	                           "SELECT count(*) FROM v_command WHERE host = ?1"
	                           " AND begin_ns >= ?2",
	                           host, &rows);

	if (!r)
		r = shfs_rows_bind_int(rows, 2, behind->pushed_ns);
	if (!r && (r = shfs_rows_next(rows)) > 0)
		behind->commands = (uint64_t)shfs_rows_int(rows, 0);
	return MIN(r, 0);
}

static int fill_in(struct walk *w, struct shfs_index *index)
{
	struct behind *behind = w->behind;
	int r = place_read(w->place, "pushed", &w->pushed);

	if (r == -ENOENT || r == -EBADMSG || r == -EPROTONOSUPPORT)
		r = 0; /* the next push looks for itself what is there */
	if (!r)
		r = read_time(w->place->dirfd, LAST, &behind->pushed_ns, NULL);
	if (!r && !behind->pushed_ns)
		behind->pushed_ns = w->pushed.head.time_ns;
	if (!r)
		r = read_time(w->place->dirfd, FAILED, &behind->failed_ns, &behind->why);
	if (!r && w->pushed.head.generation)
		r = elsewhere_read(w->place, w->pushed.head.store_id, &w->away);
	if (!r)
		r = own_find_files(w->place->store, &w->own);
	if (!r)
		r = look_at_files(w);
	return r || !index || !behind->changed_ns
	               ? r
	               : count_commands(index, w->place->store->host, behind);
}

int behind_find(struct shfs_index *index, const struct place *place, struct behind *out)
{
	_cleanup_behind_ struct behind behind = { .name = strdup(place->name) };
	struct walk w = { .place = place, .behind = &behind };
	int r = behind.name ? fill_in(&w, index) : -ENOMEM;

	manifest_clear(&w.pushed);
	manifest_clear(&w.away);
	own_free(w.own);
	if (r)
		return r;
	*out = behind;
	behind = (struct behind){ 0 };
	return 0;
}

/* --- how it is told --- */

void behind_show(struct shfs_buf *out, const struct behind *behind)
{
	if (!behind->changed_ns && !behind->pushed_ns) {
		shfs_buf_str(out, "lacks nothing, as nothing is recorded");
	} else if (!behind->changed_ns) {
		shfs_buf_str(out, "has all of it");
	} else {
		shfs_buf_printf(out, "lacks %" PRIu64 " command%s, ", behind->commands,
		                shfs_plural(behind->commands));
		shfs_show_size(out, behind->bytes);
	}
	if (behind->pushed_ns) {
		shfs_buf_str(out, "; pushed ");
		shfs_time_show(out, behind->pushed_ns);
	} else {
		shfs_buf_str(out, "; not pushed yet");
	}
	if (!behind->failed_ns)
		return;
	shfs_buf_str(out, "\n         since ");
	shfs_time_show(out, behind->failed_ns);
	shfs_buf_str(out, " it fails by itself: ");
	shfs_quote_display(out, behind->why, strlen(behind->why));
}

void behind_json(struct shfs_json *json, const struct behind *behind)
{
	shfs_json_object(json, NULL);
	shfs_json_str(json, "name", behind->name);
	if (behind->pushed_ns)
		shfs_json_time(json, "pushed", behind->pushed_ns);
	else
		shfs_json_null(json, "pushed");
	shfs_json_int(json, "commands", (int64_t)behind->commands);
	shfs_json_int(json, "bytes", (int64_t)behind->bytes);
	if (behind->failed_ns) {
		shfs_json_time(json, "failed", behind->failed_ns);
		shfs_json_str(json, "why", behind->why);
	} else {
		shfs_json_null(json, "failed");
		shfs_json_null(json, "why");
	}
	shfs_json_object_end(json);
}
