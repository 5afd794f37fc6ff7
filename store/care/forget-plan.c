/* SPDX-License-Identifier: MIT */
/*
 * Writes and carries out the plan: a file "forget" in the store, of lines.
 *
 *     segment HOST NAME            replace it by NAME.zst.new
 *     blank HOST OFFSET LEN NAME   overwrite a record of a hook log
 *     object ID                    remove it, if no record names it
 *
 * Each step can be done again.
 */
#include "store/care/forget-plan.h"
#include "store/care/forget.h"

#include "common/io.h"
#include "common/path.h"
#include "store/index-dir.h"
#include "store/index/internal.h"
#include "store/journal/hooklog.h"
#include "store/journal/journal.h"
#include "store/journal/rewrite.h"
#include "store/objects/away.h"
#include "store/objects/collect.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define PLAN_NAME "forget"
#define PLAN_HEAD "shfs forget 1\n"
#define PLAN_MAX  (1u << 30)
#define WAIT_MS   15000 /* for producers to renew their leases */

/* --- writing it --- */

void forget_plan_segment(struct shfs_buf *plan, const char *host, const char *name)
{
	shfs_buf_printf(plan, "segment %s %s\n", host, name);
}

void forget_plan_blank(struct shfs_buf *plan, const char *host, const char *name,
                       uint64_t offset, uint64_t len)
{
	shfs_buf_printf(plan, "blank %s %" PRIu64 " %" PRIu64 " %s\n", host, offset, len,
	                name);
}

void forget_plan_object(struct shfs_buf *plan, const struct shfs_object_id *id)
{
	char name[44];

	shfs_object_name(id, name);
	shfs_buf_printf(plan, "object %s\n", name);
}

/* --- the journal --- */

int forget_open_host(struct shfs_store *store, const char *host)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };
	int fd;

	shfs_buf_printf(&path, "journal/%s", host);
	if (path.failed)
		return -ENOMEM;
	fd = openat(store->dirfd, path.data,
	            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int forget_open_segment(int dirfd, const char *name, struct shfs_segment **out)
{
	int r = shfs_segment_open(dirfd, name, 0, out);

	return r == -EBADMSG || r == -ENOENT || r == -ELOOP || r == -EFBIG ? 1 : r;
}

static int check_segment_format(const struct shfs_journal_file *file, void *arg)
{
	struct shfs_segment *segment;
	int r = forget_open_segment(file->dirfd, file->name, &segment);

	if (!r)
		shfs_segment_close(segment);
	return MIN(r, 0);
}

int forget_check_formats(struct shfs_store *store)
{
	return shfs_journal_walk(store, SHFS_JOURNAL_SEGMENTS, check_segment_format,
	                         NULL);
}

/* --- beside producers --- */

/* A producer shares the store from its first object on. */
int forget_hold(struct shfs_store *store, const struct shfs_forget_beside *beside,
                struct forget_hold *hold)
{
	int r;

	*hold = (struct forget_hold){ .beside = beside };
	r = shfs_store_share(store, 0);
	if (r)
		return r;
	r = lease_gate_open(store, &hold->gate);
	if (r) {
		shfs_store_unshare(store);
		return r;
	}
	hold->held = true;
	r = beside->seal(beside->arg, &hold->young);
	if (!r && hold->young.failed)
		r = -ENOMEM;
	if (r)
		return r;
	if (hold->young.len)
		return shfs_store_may_hang(store->path) ? -EOPNOTSUPP : 0;
	hold->alone = !shfs_store_exclude(store);
	return hold->alone ? 0 : shfs_store_share(store, 0);
}

void forget_release(struct shfs_store *store, struct forget_hold *hold)
{
	if (hold->held) {
		lease_gate_close(&hold->gate);
		shfs_store_unshare(store);
	}
	shfs_buf_free(&hold->young);
	hold->held = false;
}

/* Is the segment in hold->young? of_it: or another segment of its producer? */
static bool is_among(const struct forget_hold *hold, const char *segment, bool of_it)
{
	const char *dash = strrchr(segment, '-'),
		   *end = hold->young.data + hold->young.len;
	size_t len = of_it && dash ? (size_t)(dash - segment) + 1 : strlen(segment) + 1;

	for (const char *s = hold->young.data; s < end; s += strlen(s) + 1)
		if (!strncmp(s, segment, len))
			return true;
	return false;
}

bool forget_is_young(const struct forget_hold *hold, const char *segment)
{
	return is_among(hold, segment, false);
}

bool forget_is_followed(const struct forget_hold *hold, const char *segment)
{
	return !is_among(hold, segment, false) && is_among(hold, segment, true);
}

/* --- carrying it out --- */

struct plan {
	struct shfs_store *store;
	char **lines;
	size_t n;
	struct shfs_objects objects;
	bool *named; /* for each object: the journal names it */
};

static void plan_free(struct plan *p)
{
	free(p->lines);
	shfs_objects_free(&p->objects);
	free(p->named);
}

/* Parses the lines, which stay in text, and the objects. */
static int plan_parse(struct plan *p, char *text)
{
	size_t n = 1;
	int r = 0;

	if (strncmp(text, PLAN_HEAD, strlen(PLAN_HEAD)))
		return -EPROTONOSUPPORT;
	for (const char *c = text; *c; c++)
		n += *c == '\n';
	p->lines = calloc(n, sizeof(*p->lines));
	p->named = calloc(n, sizeof(*p->named));
	if (!p->lines || !p->named)
		return -ENOMEM;
	for (char *line = strtok_r(text, "\n", &text); line && !r;
	     line = strtok_r(NULL, "\n", &text)) {
		struct shfs_object_id id;

		p->lines[p->n++] = line;
		if (!strncmp(line, "object ", 7) && !shfs_object_parse(line + 7, &id))
			r = shfs_objects_add(&p->objects, &id);
	}
	shfs_objects_sort(&p->objects);
	return r;
}

/* Cuts off the host, and returns the rest behind it. */
static char *cut_host(char *rest)
{
	char *blank = strchr(rest, ' ');

	if (!blank)
		return NULL;
	*blank = '\0';
	return blank + 1;
}

static int install_segment(struct shfs_store *store, char *host)
{
	char *name = cut_host(host);
	_cleanup_close_ int dirfd = name ? forget_open_host(store, host) : -EINVAL;

	return dirfd < 0 ? dirfd : shfs_rewrite_install(dirfd, name);
}

/* Reads the record at offset, if there still is one, maybe partly overwritten. */
static int read_record(int fd, uint64_t offset, struct shfs_buf *out)
{
	ssize_t n = shfs_pread_full(fd, out->data, out->len, (off_t)offset);

	if (n < 0)
		return (int)n;
	return n == (ssize_t)out->len && out->data[0] == '\x1e' &&
	       out->data[out->len - 1] == '\n';
}

static int overwrite(int fd, uint64_t offset, const char *bytes, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = pwrite(fd, bytes + done, len - done, (off_t)(offset + done));

		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return fdatasync(fd) ? -errno : 0;
}

/* Overwrites a record. only: if these bytes are there; NULL: in any case. */
static int blank_at(int dirfd, const char *name, uint64_t offset, size_t len,
                    const struct shfs_buf *only)
{
	_cleanup_close_ int fd =
		openat(dirfd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	_cleanup_buf_ struct shfs_buf bytes = { 0 };
	int r;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	shfs_buf_reserve(&bytes, len);
	if (bytes.failed)
		return -ENOMEM;
	bytes.len = len;
	r = read_record(fd, offset, &bytes);
	if (r <= 0 || (only && memcmp(only->data, bytes.data, len)))
		return r;
	shfs_hooklog_blank(bytes.data, len);
	return overwrite(fd, offset, bytes.data, len);
}

/* Opens the directory of hook logs, if this host may have had that name. */
static int open_hooks(const char *hook_dir, const char *host)
{
	_cleanup_free_ char *beside = strdup(hook_dir);
	char *slash = beside ? strrchr(beside, '/') : NULL;
	_cleanup_free_ char *dir = NULL;

	if (!slash)
		return -1;
	*slash = '\0';
	dir = shfs_path_join(beside, host);
	return dir ? open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
}

/* Overwrites a record first in the log, then in its copy: otherwise it would be copied
 * again. */
static int blank_record(struct shfs_store *store, const char *hook_dir, char *host)
{
	uint64_t offset, len;
	int at = 0;
	char *numbers = cut_host(host), original[300];
	_cleanup_close_ int dirfd = numbers ? forget_open_host(store, host) : -EINVAL;
	_cleanup_close_ int hooks = -1;
	_cleanup_buf_ struct shfs_buf bytes = { 0 };
	_cleanup_close_ int fd = -1;
	int r;

	if (dirfd < 0)
		return dirfd;
	if (sscanf(numbers, "%" SCNu64 " %" SCNu64 " %n", &offset, &len, &at) != 2 ||
	    len < 8 || len > PLAN_MAX)
		return -EINVAL;
	if (hook_dir)
		hooks = open_hooks(hook_dir, host);
	fd = openat(dirfd, numbers + at, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (hooks >= 0 && fd >= 0) {
		shfs_buf_reserve(&bytes, len);
		if (bytes.failed)
			return -ENOMEM;
		bytes.len = len;
		/* the log that was copied: shell-x.log, also for shell-x.1.log */
		snprintf(original, sizeof(original), "%.*s.log",
		         (int)strcspn(numbers + at, "."), numbers + at);
		r = read_record(fd, offset, &bytes);
		if (r > 0)
			r = blank_at(hooks, original, offset, len, &bytes);
		if (r < 0)
			return r;
	}
	return blank_at(dirfd, numbers + at, offset, len, NULL);
}

/* --- objects --- */

static int visit_segment(const struct shfs_journal_file *file, void *arg)
{
	struct plan *p = arg;
	struct shfs_segment *segment;
	struct shfs_record rec;
	int r = forget_open_segment(file->dirfd, file->name, &segment);

	if (r)
		return MIN(r, 0);
	while ((r = shfs_segment_next(segment, &rec)) > 0) {
		struct shfs_content *contents[3];

		shfs_record_contents(&rec, contents);
		for (int i = 0; contents[i]; i++) {
			size_t place =
				shfs_objects_find(&p->objects, &contents[i]->object);

			if (contents[i]->flags & SHFS_CONTENT_OBJECT && place != SIZE_MAX)
				p->named[place] = true;
		}
	}
	shfs_segment_close(segment);
	return r;
}

static int pick_unnamed(void *arg, struct shfs_objects *out)
{
	struct plan *p = arg;
	int r;

	memset(p->named, 0, p->objects.n * sizeof(*p->named));
	r = shfs_journal_walk(p->store, SHFS_JOURNAL_SEGMENTS, visit_segment, p);
	for (size_t i = 0; i < p->objects.n && !r; i++)
		if (!p->named[i])
			r = shfs_objects_add(out, &p->objects.ids[i]);
	return r;
}

/* Has the producers seal their segments, by which they learn what is condemned. */
static int have_producers_seal(void *arg)
{
	struct forget_hold *hold = arg;
	_cleanup_buf_ struct shfs_buf segments = { 0 };

	return hold->beside->seal(hold->beside->arg, &segments);
}

static int remove_objects(struct plan *p, struct forget_hold *hold)
{
	_cleanup_objects_ struct shfs_objects unnamed = { 0 };
	uint64_t objects, bytes;
	const struct shfs_collect how = {
		.pick = pick_unnamed,
		.arg = p,
		.forget = true,
		.tell = have_producers_seal,
		.tell_arg = hold,
		.wait_ms = WAIT_MS,
		.objects = &objects,
		.bytes = &bytes,
	};
	int r;

	if (!p->objects.n)
		return 0;
	if (!hold->alone)
		return shfs_collect_at(p->store, &hold->gate, &how);
	r = pick_unnamed(p, &unnamed);
	if (!r)
		r = away_drop(p->store, unnamed.ids, unnamed.n);
	return r ? r : shfs_objects_remove(p->store, unnamed.ids, unnamed.n);
}

/* --- all of it --- */

static int carry_out_plan(struct shfs_store *store, const char *hook_dir,
                          struct forget_hold *hold)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	_cleanup_(plan_free) struct plan p = { .store = store };
	int r = shfs_read_file_at(store->dirfd, PLAN_NAME, PLAN_MAX, &text);

	if (!r)
		r = plan_parse(&p, text.data);
	for (size_t i = 0; i < p.n && !r; i++)
		if (!strncmp(p.lines[i], "segment ", 8))
			r = install_segment(store, p.lines[i] + 8);
	for (size_t i = 0; i < p.n && !r; i++)
		if (!strncmp(p.lines[i], "blank ", 6))
			r = blank_record(store, hook_dir, p.lines[i] + 6);
	if (!r)
		r = index_dir_announce(store);
	if (!r)
		r = shfs_index_rebuild(store, hook_dir, NULL);
	if (!r)
		r = shfs_index_clean(store);
	unlinkat(store->state_fd, SHFS_STORE_PACKAGES, 0); /* it names programs */
	/* last: no row names these objects any more */
	if (!r)
		r = remove_objects(&p, hold);
	if (r)
		return r;
	return unlinkat(store->dirfd, PLAN_NAME, 0) || fsync(store->dirfd) ? -errno : 0;
}

int shfs_forget_pending(struct shfs_store *store)
{
	if (!faccessat(store->dirfd, PLAN_NAME, F_OK, AT_SYMLINK_NOFOLLOW))
		return 1;
	return errno == ENOENT ? 0 : -errno;
}

int shfs_forget_finish(struct shfs_store *store, const char *hook_dir,
                       const struct shfs_forget_beside *beside)
{
	struct forget_hold hold;
	int r = forget_hold(store, beside, &hold);

	if (!r)
		r = carry_out_plan(store, hook_dir, &hold);
	forget_release(store, &hold);
	return r;
}

/*
 * Ingests the segments that were sealed just now to their ends. Otherwise:
 *
 * 1. Ingest has read such a segment up to some offset.
 * 2. The segment is replaced by a shorter one.
 * 3. This process is killed before it has made the index again.
 * 4. Ingest goes on at the same offset of the new segment.
 */
static void ingest_sealed_segments(struct shfs_store *store, const char *hook_dir)
{
	_cleanup_index_ struct shfs_index *index = NULL;

	if (!shfs_index_open(store, SHFS_INDEX_WRITE, &index))
		(void)!shfs_index_ingest(index, hook_dir, NULL);
}

int forget_plan_run(struct shfs_store *store, const char *hook_dir,
                    struct forget_hold *hold, const struct shfs_buf *plan)
{
	_cleanup_buf_ struct shfs_buf all = { 0 };
	int r;

	if (!hold->alone)
		ingest_sealed_segments(store, hook_dir);
	shfs_buf_str(&all, PLAN_HEAD);
	shfs_buf_add(&all, plan->data, plan->len);
	if (all.failed || plan->failed)
		return -ENOMEM;
	r = shfs_write_file_at(store->dirfd, PLAN_NAME, 0600, all.data, all.len);
	return r ? r : carry_out_plan(store, hook_dir, hold);
}

/* Is this a file that was to replace another one, be it half written? An archive may have
 * brought segments and logs with such a name: these are not. */
static bool is_left_over(const char *name)
{
	return (strstr(name, ".seg" SHFS_REWRITE_SUFFIX) ||
	        strstr(name, ".log.new")) && /* of store/care/import.c */
	       !shfs_ends_with(name, ".seg") &&
	       !shfs_ends_with(name, ".seg.zst") && !shfs_ends_with(name, ".log");
}

static void clear_host(int dirfd)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!dir) {
		shfs_closep(&fd);
		return;
	}
	while ((e = readdir(dir)))
		if (is_left_over(e->d_name))
			unlinkat(dirfd, e->d_name, 0);
	closedir(dir);
}

int forget_plan_clear(struct shfs_store *store)
{
	_cleanup_close_ int journal =
		openat(store->dirfd, "journal", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int copy = journal < 0 ? -1 : fcntl(journal, F_DUPFD_CLOEXEC, 3);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;
	int r = 0;

	if (!dir) {
		shfs_closep(&copy);
		return errno == ENOENT ? 0 : -errno;
	}
	while ((e = shfs_readdir(dir, &r))) {
		_cleanup_close_ int host =
			e->d_name[0] == '.' ? -1 : forget_open_host(store, e->d_name);

		if (host >= 0)
			clear_host(host);
	}
	closedir(dir);
	return r;
}
