/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/recorder/recorder.h"

#include "common/debug.h"
#include "common/path.h"
#include "kmod-fast-path/recorder/interpreter.h"
#include "kmod-fast-path/recorder/paths.h"
#include "kmod-fast-path/recorder/writers.h"
#include "store/capture/log.h"
#include "store/capture/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

/* An event, ready to be recorded. Paths end with a NUL. */
struct happening {
	const struct shfs_event *event;
	char path[SHFS_EVENT_PATH_MAX + 1], path2[SHFS_EVENT_PATH_MAX + 1];
	struct shfs_event_file file; /* the event's, with corrections */
	bool moved_on; /* what the file held under this name cannot be read any more */
	bool is_sure;  /* file is the one that the name led to at the event */
	int content_fd;
	struct shfs_time time;
	uint64_t process;
};

/* Are the times of events late? fanotify has none: they are those at which its queue was
 * read, or soon after the ctime. */
static bool is_driver_late(const struct shfs_recorder *r)
{
	return !strcmp(r->driver, "fanotify");
}

/* Does the driver look up a file's size and times after its close? They may not be those
 * that the close left. */
static bool looks_late(const struct shfs_recorder *r)
{
	return is_driver_late(r) || !strcmp(r->driver, "bpf-tracepoints");
}

int shfs_recorder_begin(struct shfs_recorder *r)
{
	const struct shfs_capture_options options = {
		.config = &r->config,
		.kind = "watch",
		.root = r->root,
		.spool = r->spool,
	};
	const char *hidden = shfs_path_relative(r->store->path, r->root);
	int error;

	if (hidden) {
		r->hidden = strdup(hidden);
		if (!r->hidden)
			return -ENOMEM;
	}
	r->paths = shfs_paths_new();
	if (!r->paths)
		return -ENOMEM;
	shfs_project_rules_init(&r->rules, &r->config, r->root_fd);
	if (r->scope)
		shfs_scope_begin(r->scope, &r->rules, r->root);
	error = shfs_capture_open(r->store, &options, &r->capture);
	if (!error)
		error = shfs_contents_new(r->capture, &r->config, &r->rules, r->root_fd,
		                          looks_late(r), &r->contents);
	if (!error)
		error = shfs_processes_new(r->capture, &r->config, r->root, r->root_fd,
		                           r->scope ? r->scope->above : 0, &r->processes);
	return error;
}

void shfs_recorder_end(struct shfs_recorder *r)
{
	struct shfs_open_file *open, *next;

	HASH_ITER (hh, r->open, open, next)
		shfs_open_file_free(&r->open, open);
	if (r->scope)
		shfs_scope_end(r->scope);
	shfs_paths_free(TAKE_PTR(r->paths));
	shfs_contents_free(TAKE_PTR(r->contents));
	shfs_processes_free(TAKE_PTR(r->processes));
	shfs_capture_close(TAKE_PTR(r->capture));
	shfs_project_rules_free(&r->rules);
	free(TAKE_PTR(r->hidden));
}

/* --- what is common to all events --- */

/* The time of the event. If times are not exact, the order of the events is trusted more.
 */
static struct shfs_time event_time(struct shfs_recorder *r,
                                   const struct shfs_event *event)
{
	struct shfs_time now = shfs_time_now();
	uint64_t boot_ns = event->time_ns;

	if (is_driver_late(r))
		boot_ns = r->last_ns = MAX(boot_ns, r->last_ns);
	return (struct shfs_time){
		.real_ns = now.real_ns - (int64_t)(now.boot_ns - boot_ns),
		.boot_ns = boot_ns,
	};
}

static bool is_in_store(const struct shfs_recorder *r, const char *path)
{
	size_t len = r->hidden ? strlen(r->hidden) : 0;

	return r->hidden && !strncmp(path, r->hidden, len) &&
	       (!path[len] || path[len] == '/');
}

/* Is nothing recorded of an event of these paths? A path that is excepted counts as one
 * outside of the root, from which a file may be renamed. */
static bool leaves_out(const struct shfs_recorder *r, struct happening *h)
{
	bool has_two =
		h->event->type == SHFS_EVENT_RENAME || h->event->type == SHFS_EVENT_LINK;
	bool first = r->scope && shfs_scope_excepts(r->scope, r->root, h->path),
	     second = r->scope && has_two &&
	              shfs_scope_excepts(r->scope, r->root, h->path2);

	if (first)
		h->path[0] = '\0';
	if (second)
		h->path2[0] = '\0';
	return has_two ? (first || second) && !*h->path && !*h->path2 : first;
}

static struct shfs_bytes string_bytes(const char *text)
{
	return (struct shfs_bytes){ text, strlen(text) };
}

static void held_clear(struct shfs_held *held)
{
	shfs_snapshot_unref(held->snapshot);
}

static void copy_text(char *to, const char *from, size_t len)
{
	len = MIN(len, (size_t)SHFS_EVENT_PATH_MAX);
	memcpy(to, from, len);
	to[len] = '\0';
}

/* --- which file it is --- */

static struct shfs_paths_file paths_file_of(const struct shfs_event_file *file)
{
	return (struct shfs_paths_file){ file->dev, file->ino };
}

static bool name_leads_to(const struct shfs_recorder *r, const char *path, uint64_t ino)
{
	struct stat st;

	return !fstatat(r->root_fd, path, &st, AT_SYMLINK_NOFOLLOW) && st.st_ino == ino;
}

/* The last name of an open file that has none any more; NULL: it has a name, or that is
 * unknown. */
static const struct shfs_paths_lost *last_name(const struct shfs_recorder *r,
                                               const struct happening *h)
{
	const struct shfs_paths_lost *lost =
		h->file.nlink ? NULL : shfs_paths_lost(r->paths, paths_file_of(&h->file));
	bool is_other = lost && lost->generation && h->file.generation &&
	                lost->generation != h->file.generation;

	return is_other ? NULL : lost;
}

static void note_file_path(struct shfs_recorder *r, const char *path,
                           const struct shfs_event_file *file)
{
	shfs_paths_set(r->paths, path, paths_file_of(file), file->generation);
}

static bool name_exists(const struct shfs_recorder *r, const char *path)
{
	struct stat st;

	return !fstatat(r->root_fd, path, &st, AT_SYMLINK_NOFOLLOW);
}

/* Corrects the name of an open file. The event has the name that it was opened by, which
 * may be gone since: then the file's present name or, without one, its last is taken. */
static void correct_name(const struct shfs_recorder *r, struct happening *h)
{
	const struct shfs_paths_lost *lost = last_name(r, h);
	const char *other =
		lost ? lost->path
		     : shfs_paths_other(r->paths, paths_file_of(&h->file), h->path);

	if (!other || !strcmp(other, h->path) ||
	    (!lost && (!h->file.nlink || name_leads_to(r, h->path, h->file.ino))))
		return;
	shfs_debug(RECORDER, "%s: file %" PRIu64 " is called %s now", h->path,
	           (uint64_t)h->file.ino, other);
	snprintf(h->path, sizeof(h->path), "%s", other);
}

/* Has the file a single name, and is that remembered as another than the event's? */
static bool has_another_name(const struct shfs_recorder *r, const struct happening *h,
                             const struct shfs_event_file *file)
{
	return file->nlink == 1 &&
	       shfs_paths_other(r->paths, paths_file_of(file), h->path);
}

/* How far two clocks of the kernel may be apart. */
#define CLOCKS_APART_NS 1000000

/* Has something happened since the event to a file that has a name of it now? Then it may
 * be another file, which has got the name later. */
static bool is_changed_since(const struct happening *h, int64_t ctime_ns)
{
	return ctime_ns > h->time.real_ns + CLOCKS_APART_NS;
}

/* A file that was looked up by a name of the event: may another one have had that? */
static bool may_be_later_file(const struct shfs_recorder *r, const struct happening *h,
                              const struct shfs_event_file *file)
{
	return has_another_name(r, h, file) || is_changed_since(h, file->ctime_ns);
}

/* Do both names of a link lead to the file of the event still, or did they when a later
 * event came? */
static bool is_confirmed(const struct shfs_recorder *r, const struct happening *h)
{
	return h->event->flags & SHFS_EVENT_CONFIRMED ||
	       (h->event->type == SHFS_EVENT_LINK &&
	        name_leads_to(r, h->path, h->file.ino) &&
	        name_leads_to(r, h->path2, h->file.ino));
}

/* Corrects the file of an event whose driver looked it up by its name later: another file
 * may have got the name by then, or what it held has changed. */
static void correct_file(const struct shfs_recorder *r, struct happening *h)
{
	struct shfs_paths_file was = shfs_paths_find(r->paths, h->path);

	if (was.ino ? was.ino == h->file.ino && was.dev == h->file.dev
	            : !may_be_later_file(r, h, &h->file))
		return;
	h->moved_on = true;
	if (!was.ino && is_confirmed(r, h))
		return;
	shfs_debug(RECORDER, "%s: was file %" PRIu64 ", another has the name by now",
	           h->path, was.ino);
	h->file = (struct shfs_event_file){
		.dev = was.dev,
		.ino = was.ino,
		.mode = S_IFREG,
		/* what is done to it holds for its other names, too */
		.nlink = MAX(shfs_paths_count(r->paths, was), 1u),
	};
}

static void correct_event(const struct shfs_recorder *r, struct happening *h)
{
	switch (h->event->type) {
	case SHFS_EVENT_CLOSE:
	case SHFS_EVENT_WRITE:
		correct_name(r, h);
		break;
	case SHFS_EVENT_RENAME:
	case SHFS_EVENT_LINK:
	case SHFS_EVENT_TRUNCATE:
	case SHFS_EVENT_CHANGE:
		if (h->event->flags & SHFS_EVENT_INEXACT && *h->path)
			correct_file(r, h);
		break;
	default:
		break;
	}
}

/* Is the event's file the one that its name led to? If it was looked up later, only if an
 * earlier event has told which file the name leads to, or two names agree. */
static bool is_sure(const struct shfs_recorder *r, const struct happening *h)
{
	return !(h->event->flags & SHFS_EVENT_INEXACT) ||
	       shfs_paths_find(r->paths, h->path).ino || is_confirmed(r, h);
}

static void note_moved(struct shfs_recorder *r, const struct happening *h)
{
	bool directory = S_ISDIR(h->file.mode);

	if (h->event->flags & SHFS_EVENT_EXCHANGED)
		shfs_paths_exchanged(r->paths, h->path, h->path2);
	else if (*h->path2)
		shfs_paths_moved(r->paths, h->path, h->path2, directory);
	else
		shfs_paths_gone(r->paths, h->path, directory);
	if (h->is_sure && *h->path2)
		note_file_path(r, h->path2, &h->file);
}

static void note_linked(struct shfs_recorder *r, const struct happening *h)
{
	shfs_paths_gone(r->paths, h->path2, false);
	if (h->is_sure && *h->path)
		note_file_path(r, h->path, &h->file);
	if (h->is_sure)
		note_file_path(r, h->path2, &h->file);
}

/* The moment before the change of a name. Its event may be late: the ctime counts. */
static struct shfs_time time_before(const struct happening *h)
{
	struct shfs_time time = h->time;
	int64_t late_ns = h->file.ctime_ns ? time.real_ns - h->file.ctime_ns : 0;

	late_ns = MAX(late_ns, 0) + 1;
	time.real_ns -= late_ns;
	time.boot_ns -= (uint64_t)late_ns;
	return time;
}

/* Notes what the names lead to after the event. */
static void note_names(struct shfs_recorder *r, const struct happening *h)
{
	shfs_paths_at(r->paths, time_before(h));
	switch (h->event->type) {
	case SHFS_EVENT_CLOSE:
	case SHFS_EVENT_WRITE:
		/* the name of a script is looked up */
		if (h->file.nlink && !(h->event->flags & SHFS_EVENT_EXECUTED))
			note_file_path(r, h->path, &h->file);
		break;
	case SHFS_EVENT_RENAME:
		note_moved(r, h);
		break;
	case SHFS_EVENT_LINK:
		note_linked(r, h);
		break;
	case SHFS_EVENT_UNLINK:
		if (h->is_sure)
			note_file_path(r, h->path, &h->file);
		shfs_paths_gone(r->paths, h->path, S_ISDIR(h->file.mode));
		break;
	default:
		break;
	}
}

/* --- accesses --- */

/*
 * The begin of an access. If the file has no name any more, it was opened while it had
 * one: so an access of which only its end or first write is known began before the name
 * was lost.
 */
static struct shfs_time access_begin(const struct shfs_recorder *r,
                                     const struct happening *h,
                                     const struct shfs_writer *writer)
{
	const struct shfs_paths_lost *lost = last_name(r, h);

	return lost && lost->time.real_ns < writer->begin.real_ns ? lost->time
	                                                          : writer->begin;
}

static void emit_access_of_writer(struct shfs_recorder *r, const struct happening *h,
                                  const struct shfs_writer *writer, uint32_t flags,
                                  const struct shfs_held *seen,
                                  const struct shfs_held *made)
{
	struct shfs_snapshot *content[2] = { seen ? seen->snapshot : NULL,
		                             made ? made->snapshot : NULL };
	struct shfs_record rec = {
		.type = SHFS_REC_ACCESS,
		.time = h->time,
		.access = {
			.process = writer->process,
			.flags = flags,
			.begin = access_begin(r, h, writer),
			.last = writer->last,
			.path = string_bytes(h->path),
			.dev = h->file.dev,
			.ino = h->file.ino,
		},
	};

	if (!h->file.nlink && name_exists(r, h->path))
		rec.access.flags |= SHFS_ACCESS_REPLACED;
	if (seen && !seen->snapshot)
		rec.access.seen = seen->value;
	if (made && !made->snapshot)
		rec.access.made = made->value;
	shfs_capture_emit(r->capture, &rec, content);
}

/* The flags of an access, from those of the event. */
static uint32_t access_flags(const struct shfs_recorder *r,
                             const struct shfs_event *event)
{
	static const struct {
		uint32_t event, access;
	} flags[] = {
		{ SHFS_EVENT_CREATED, SHFS_ACCESS_CREATED },
		{ SHFS_EVENT_TRUNCATED, SHFS_ACCESS_TRUNCATED },
		{ SHFS_EVENT_APPEND, SHFS_ACCESS_APPEND },
		{ SHFS_EVENT_MAPPED, SHFS_ACCESS_MAPPED },
		{ SHFS_EVENT_EXECUTED, SHFS_ACCESS_EXEC },
		{ SHFS_EVENT_SHARED, SHFS_ACCESS_SHARED },
	};
	uint32_t out = (event->file.nlink ? 0 : SHFS_ACCESS_NAMELESS) |
	               (is_driver_late(r) ? SHFS_ACCESS_LATE : 0);

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (event->flags & flags[i].event)
			out |= flags[i].access;
	return out;
}

/* Was the file really written? That is known from a driver that sees writes, or else from
 * what they changed. */
static bool has_written_file(struct shfs_recorder *r, const struct shfs_event *event)
{
	if (event->flags &
	    (SHFS_EVENT_WRITTEN | SHFS_EVENT_CREATED | SHFS_EVENT_TRUNCATED))
		return true;
	return event->flags & SHFS_EVENT_WRITABLE &&
	       event->flags & (SHFS_EVENT_MAPPED | SHFS_EVENT_INEXACT) &&
	       shfs_contents_is_changed(r->contents, &event->file);
}

/* Emits an access for each writer. The last writer made the content and comes first; the
 * others had a part in it. */
static void emit_writers(struct shfs_recorder *r, const struct happening *h,
                         const struct shfs_open_file *open, const struct shfs_held *made)
{
	const uint32_t of_opener = SHFS_ACCESS_CREATED | SHFS_ACCESS_TRUNCATED;
	uint32_t flags = access_flags(r, h->event) | SHFS_ACCESS_WRITTEN;

	for (unsigned i = 0; i < open->n_writers; i++)
		emit_access_of_writer(r, h,
		                      &open->writers[(open->last + i) % open->n_writers],
		                      i || open->handed_on ? flags & ~of_opener : flags,
		                      NULL, made);
}

static void record_writers(struct shfs_recorder *r, const struct happening *h,
                           const struct shfs_open_file *open)
{
	_cleanup_(held_clear) struct shfs_held made =
		shfs_contents_take(r->contents, &h->file, h->path, h->content_fd,
	                           h->time.real_ns, SHFS_CONTENTS_WRITTEN,
	                           h->event->process.uid);
	struct shfs_writer closer = { .process = h->process,
		                      .begin = h->time,
		                      .last = h->time };
	const struct shfs_open_file by_closer = { .writers = &closer, .n_writers = 1 };

	emit_writers(r, h, open ? open : &by_closer, &made);
}

static void record_reader(struct shfs_recorder *r, const struct happening *h)
{
	const struct shfs_writer reader = { .process = h->process,
		                            .begin = h->time,
		                            .last = h->time };
	_cleanup_(held_clear) struct shfs_held seen =
		shfs_contents_take(r->contents, &h->file, h->path, h->content_fd,
	                           h->time.real_ns, SHFS_CONTENTS_READ, h->file.uid);

	emit_access_of_writer(r, h, &reader, access_flags(r, h->event) | SHFS_ACCESS_READ,
	                      &seen, NULL);
}

/* Records that the kernel has read the loader of a program, where the driver sees only
 * what a process does itself. */
static void record_loader(struct shfs_recorder *r, struct happening *h)
{
	_cleanup_close_ int fd =
		openat(r->root_fd, h->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	bool sees = shfs_processes_sees_root(r->processes, &h->event->process);
	/* in a container, another loader may have the name */
	_cleanup_free_ char *loader = fd < 0 || !sees ? NULL : shfs_interpreter_of(fd);
	_cleanup_free_ char *real = loader ? realpath(loader, NULL) : NULL;
	const char *path = real ? shfs_path_relative(real, r->root) : NULL;
	struct stat st, root;

	if (!path || strlen(path) >= sizeof(h->path) || stat(real, &st) ||
	    fstat(r->root_fd, &root) || !S_ISREG(st.st_mode))
		return;
	strcpy(h->path, path);
	h->file = shfs_contents_file(&st, st.st_dev == root.st_dev ? 0 : st.st_dev);
	h->content_fd = -1;
	record_reader(r, h);
}

static void note_close(struct shfs_recorder *r, struct happening *h)
{
	struct shfs_open_file *open = shfs_open_file_find(r->open, h->event->file.id);

	if (open || has_written_file(r, h->event))
		record_writers(r, h, open);
	else if (h->event->flags & SHFS_EVENT_READABLE &&
	         !shfs_processes_scans(r->processes, &h->event->process))
		record_reader(r, h);
	if (open)
		shfs_open_file_free(&r->open, open);
	if (r->scope && h->event->flags & SHFS_EVENT_EXECUTED &&
	    !strcmp(r->driver, "bpf-tracepoints"))
		record_loader(r, h);
}

static void note_write(struct shfs_recorder *r, const struct happening *h)
{
	struct shfs_open_file *open = NULL;

	if (h->event->file.id)
		open = shfs_open_file_get(&r->open, h->event, h->path);
	if (!open)
		return;
	if (shfs_open_file_is_handed_on(open, h->event)) {
		/* another command begins to write: the file holds what those before left
		 */
		_cleanup_(held_clear) struct shfs_held made =
			shfs_contents_last(r->contents, &h->file);

		emit_writers(r, h, open, &made);
		shfs_open_file_hand_on(open);
	}
	shfs_open_file_note(open, h->event, h->process, h->time);
}

/* Takes what the process left in files that other processes may go on to write. */
static void note_exit(struct shfs_recorder *r, const struct shfs_event *event)
{
	struct shfs_open_file *open, *next;

	HASH_ITER (hh, r->open, open, next)
		if (shfs_open_file_note_exit(open, event) && open->path &&
		    !(r->scope &&
		      shfs_scope_has_stream(r->scope, r->root_fd, &open->file)))
			shfs_contents_look(r->contents, &open->file, open->path);
}

static void settle_file(struct shfs_recorder *r, const struct shfs_open_file *open)
{
	const struct shfs_writer *last = &open->writers[open->last];
	struct shfs_event event = {
		.type = SHFS_EVENT_CLOSE,
		.flags = SHFS_EVENT_WRITABLE | SHFS_EVENT_WRITTEN,
		.process = last->who,
	};
	static _Thread_local struct happening h;
	_cleanup_(held_clear) struct shfs_held made = { 0 };
	struct stat st;

	if (fstatat(r->root_fd, open->path, &st, AT_SYMLINK_NOFOLLOW) ||
	    st.st_ino != open->file.ino)
		return;
	event.file = shfs_contents_file(&st, open->file.dev);
	h.event = &event;
	h.file = event.file;
	h.time = shfs_time_now();
	h.process = last->process;
	copy_text(h.path, open->path, strlen(open->path));
	made = shfs_contents_take(r->contents, &h.file, h.path, -1, h.time.real_ns,
	                          SHFS_CONTENTS_LEFT, last->who.uid);
	emit_writers(r, &h, open, &made);
}

void shfs_recorder_settle(struct shfs_recorder *r)
{
	struct shfs_open_file *open, *next;

	HASH_ITER (hh, r->open, open, next) {
		if (!open->ended || !open->n_writers || !open->path)
			continue;
		settle_file(r, open);
		shfs_open_file_free(&r->open, open);
	}
}

/* --- names and modes --- */

static void emit_pathop(struct shfs_recorder *r, const struct happening *h,
                        enum shfs_pathop op, const char *path, const char *path2,
                        const struct shfs_held *content, const struct shfs_held *victim)
{
	struct shfs_snapshot *contents[2] = { content ? content->snapshot : NULL,
		                              victim ? victim->snapshot : NULL };
	struct shfs_record rec = {
		.type = SHFS_REC_PATHOP,
		.time = h->time,
		.pathop = {
			.process = h->process,
			.op = op,
			.directory = S_ISDIR(h->file.mode),
			.path = string_bytes(path),
			.path2 = string_bytes(path2),
			.dev = h->file.dev,
			.ino = h->file.ino,
		},
	};

	if (content && !content->snapshot)
		rec.pathop.content = content->value;
	if (victim && !victim->snapshot)
		rec.pathop.victim = victim->value;
	shfs_capture_emit(r->capture, &rec, contents);
}

static void note_gone(struct shfs_recorder *r, const struct happening *h)
{
	_cleanup_(held_clear) struct shfs_held victim = { 0 };
	bool directory = S_ISDIR(h->file.mode);
	char mode[8] = "";

	if (directory && h->file.mode & 07777)
		snprintf(mode, sizeof(mode), "%04o", h->file.mode & 07777U);
	if (S_ISREG(h->file.mode))
		victim = shfs_contents_last(r->contents, &h->file);
	shfs_contents_gone(r->contents, h->path);
	emit_pathop(r, h, directory ? SHFS_OP_RMDIR : SHFS_OP_UNLINK, h->path, mode, NULL,
	            directory ? NULL : &victim);
}

static bool is_open_of(const struct shfs_open_file *open, struct shfs_paths_file file)
{
	return open->file.ino == file.ino && open->file.dev == file.dev;
}

static bool has_open_writer(const struct shfs_recorder *r, struct shfs_paths_file file)
{
	const struct shfs_open_file *open, *next;

	HASH_ITER (hh, r->open, open, next)
		if (is_open_of(open, file))
			return true;
	return false;
}

/* The content of a file that has got another name since: it cannot be read any more. */
static struct shfs_held content_unread(const struct shfs_recorder *r,
                                       struct shfs_paths_file file)
{
	return (struct shfs_held){
		.value.flags = has_open_writer(r, file) ? SHFS_CONTENT_CHANGING : 0,
	};
}

/* Keeps a secret name from being missed where its file was looked up too late, or not at
 * all. */
static void conceal_unseen(struct shfs_recorder *r, const struct happening *h,
                           const char *path)
{
	struct shfs_paths_file known = shfs_paths_find(r->paths, path);
	const struct shfs_event_file file = { .dev = known.dev, .ino = known.ino };

	shfs_contents_conceal_unseen(r->contents, &file, h->path, path);
}

/* Takes the content of the file under its new name. */
static struct shfs_held content_at(struct shfs_recorder *r, const struct happening *h,
                                   const char *path)
{
	bool secret = shfs_project_rules_is_secret(&r->rules, h->path, false);
	struct shfs_held held = { 0 };

	if (h->moved_on || !h->file.ino)
		conceal_unseen(r, h, path);
	if (h->moved_on)
		held = content_unread(r, paths_file_of(&h->file));
	else if (S_ISREG(h->file.mode))
		held = shfs_contents_take(r->contents, &h->file, path, h->content_fd,
		                          h->time.real_ns,
		                          secret ? SHFS_CONTENTS_RENAMED_SECRET
		                                 : SHFS_CONTENTS_NAMED,
		                          h->file.uid);
	return held;
}

/* Takes the content of the other file of an exchange. Its inode number is known from
 * earlier events or from this one, or else nobody can say which file it was. */
static struct shfs_held content_exchanged(struct shfs_recorder *r,
                                          const struct happening *h)
{
	struct shfs_paths_file was = shfs_paths_find(r->paths, h->path);
	bool looked_up = !was.ino && h->event->flags & SHFS_EVENT_INEXACT;
	struct shfs_event_file file;
	struct stat st;

	if (!was.ino)
		was = (struct shfs_paths_file){ h->file.dev, h->event->file.id };
	if (fstatat(r->root_fd, h->path, &st, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISREG(st.st_mode) || st.st_ino != was.ino)
		return content_unread(r, was);
	file = shfs_contents_file(&st, h->file.dev);
	if (looked_up && may_be_later_file(r, h, &file))
		return content_unread(r, was);
	return shfs_contents_take(r->contents, &file, h->path, -1, h->time.real_ns,
	                          SHFS_CONTENTS_NAMED, st.st_uid);
}

/* Records a file that was moved or linked from outside, as one that was made here. */
static void note_come(struct shfs_recorder *r, struct happening *h)
{
	memcpy(h->path, h->path2, sizeof(h->path));
	if (S_ISREG(h->file.mode)) {
		record_writers(r, h, NULL);
		return;
	}
	emit_pathop(r, h, S_ISDIR(h->file.mode) ? SHFS_OP_MKDIR : SHFS_OP_MKNOD, h->path,
	            "", NULL, NULL);
}

/* Records the writers of a file that is renamed while it is open: they made its content.
 * fanotify reports no writes: there the process that created the file is the writer. */
static void record_unclosed(struct shfs_recorder *r, const struct happening *h,
                            const struct shfs_held *content)
{
	const struct shfs_open_file *open, *next;
	struct shfs_writer maker = { .process = h->process,
		                     .begin = h->time,
		                     .last = h->time };
	const struct shfs_open_file by_maker = { .writers = &maker, .n_writers = 1 };

	if (h->moved_on || !h->event->file.nlink)
		return;
	if (h->event->flags & SHFS_EVENT_CREATED)
		emit_writers(r, h, &by_maker, content);
	HASH_ITER (hh, r->open, open, next)
		if (is_open_of(open, paths_file_of(&h->file)) &&
		    (h->is_sure || (open->path && !strcmp(open->path, h->path))))
			emit_writers(r, h, open, content);
}

static void note_rename(struct shfs_recorder *r, struct happening *h)
{
	_cleanup_(held_clear) struct shfs_held content = { 0 }, other = { 0 };
	bool exchanged = h->event->flags & SHFS_EVENT_EXCHANGED;

	if (!*h->path2) {
		note_gone(r, h);
	} else if (!*h->path) {
		note_come(r, h);
	} else {
		content = content_at(r, h, h->path2);
		record_unclosed(r, h, &content);
		if (exchanged)
			other = content_exchanged(r, h);
		if (S_ISDIR(h->file.mode))
			shfs_contents_conceal_below(r->contents, h->path, h->path2);
		emit_pathop(r, h, exchanged ? SHFS_OP_EXCHANGE : SHFS_OP_RENAME, h->path,
		            h->path2, &content, exchanged ? &other : NULL);
	}
}

/* A further name of a file that was there before the recording, and of which no other
 * name is known: the process has made the name, and not the content. */
static void note_name_of_old(struct shfs_recorder *r, struct happening *h)
{
	_cleanup_(held_clear) struct shfs_held content = content_at(r, h, h->path2);
	struct shfs_snapshot *contents[2] = { content.snapshot, NULL };
	struct shfs_record rec = {
		.type = SHFS_REC_PREIMAGE,
		.time = h->time,
		.preimage = {
			.process = h->process,
			.path = string_bytes(h->path2),
			.content = content.value,
			.dev = h->file.dev,
			.ino = h->file.ino,
		},
	};

	emit_pathop(r, h, SHFS_OP_MKNOD, h->path2, "", NULL, NULL);
	shfs_capture_emit(r->capture, &rec, contents);
}

static void note_new_link(struct shfs_recorder *r, struct happening *h)
{
	_cleanup_(held_clear) struct shfs_held content = { 0 };

	if (!*h->path) {
		if (h->file.mtime_ns < r->since_ns)
			note_name_of_old(r, h);
		else
			note_come(r, h);
		return;
	}
	content = content_at(r, h, h->path2);
	emit_pathop(r, h, SHFS_OP_LINK, h->path, h->path2, &content, NULL);
}

static void note_truncate(struct shfs_recorder *r, const struct happening *h)
{
	_cleanup_(held_clear) struct shfs_held content =
		shfs_contents_take(r->contents, &h->file, h->path, h->content_fd,
	                           h->time.real_ns, SHFS_CONTENTS_WRITTEN,
	                           h->event->process.uid);

	emit_pathop(r, h, SHFS_OP_TRUNCATE, h->path, "", &content, NULL);
}

static void note_creation(struct shfs_recorder *r, const struct happening *h)
{
	mode_t mode = h->file.mode;

	emit_pathop(r, h,
	            S_ISDIR(mode)   ? SHFS_OP_MKDIR
	            : S_ISLNK(mode) ? SHFS_OP_SYMLINK
	                            : SHFS_OP_MKNOD,
	            h->path, h->path2, NULL, NULL);
}

/*
 * Records a change of mode, owner or times. The content is the same if no process can
 * have written to the file meanwhile. fanotify reports no writes: there it is read again.
 */
static void note_attributes(struct shfs_recorder *r, const struct happening *h)
{
	_cleanup_(held_clear) struct shfs_held content = { 0 };

	if (!h->moved_on && !is_driver_late(r) &&
	    !has_open_writer(r, paths_file_of(&h->file)))
		shfs_contents_touch(r->contents, &h->file);
	content = content_at(r, h, h->path);
	emit_pathop(r, h, SHFS_OP_CHMOD, h->path, "", &content, NULL);
}

static void note_lost_events(struct shfs_recorder *r, const struct shfs_event *event)
{
	struct shfs_record rec = {
		.type = SHFS_REC_LOST,
		.lost = { .count = event->lost.count, .error = ENOBUFS },
	};

	if (!r->lost)
		shfs_log("events were lost: there was no room for them");
	r->lost += event->lost.count;
	shfs_paths_forget(r->paths);
	shfs_processes_look_below(r->processes);
	shfs_capture_emit(r->capture, &rec, NULL);
}

/* --- all events --- */

static void note_file_event(struct shfs_recorder *r, struct happening *h)
{
	const struct shfs_event *event = h->event;

	switch (event->type) {
	case SHFS_EVENT_CLOSE:
		note_close(r, h);
		break;
	case SHFS_EVENT_WRITE:
		note_write(r, h);
		break;
	case SHFS_EVENT_RENAME:
		note_rename(r, h);
		break;
	case SHFS_EVENT_LINK:
		note_new_link(r, h);
		break;
	case SHFS_EVENT_UNLINK:
		note_gone(r, h);
		break;
	case SHFS_EVENT_TRUNCATE:
		note_truncate(r, h);
		break;
	case SHFS_EVENT_MAKE:
		note_creation(r, h);
		break;
	case SHFS_EVENT_CHANGE:
		note_attributes(r, h);
		break;
	default:
		break;
	}
}

/* Is it of a process that is recorded, and of a file that is not recorded already? The
 * last writer through a file may be another one than those before. */
static bool is_of_command(const struct shfs_recorder *r, const struct happening *h)
{
	const struct shfs_event *event = h->event;
	struct shfs_own_mounts *mounts = &r->scope->mounts;

	return (shfs_processes_is_below(r->processes, &event->process) ||
	        (event->type == SHFS_EVENT_CLOSE &&
	         shfs_open_file_find(r->open, event->file.id))) &&
	       !shfs_own_mounts_hold(mounts, h->path, event->file.dev) &&
	       !(event->type == SHFS_EVENT_RENAME &&
	         shfs_own_mounts_hold(mounts, h->path2, 0));
}

void shfs_recorder_event(void *arg, const struct shfs_event *event, int content_fd)
{
	struct shfs_recorder *r = arg;
	static _Thread_local struct happening h;

	if (event->type == SHFS_EVENT_LOST) {
		note_lost_events(r, event);
		return;
	}
	if (event->type >= SHFS_EVENT_FORK) {
		shfs_processes_note(r->processes, event);
		if (event->type == SHFS_EVENT_EXIT)
			note_exit(r, event);
		return;
	}
	copy_text(h.path, event->text, event->text_len);
	copy_text(h.path2, event->text + event->text_len, event->text2_len);
	h.event = event;
	if (is_in_store(r, h.path) || is_in_store(r, h.path2) || leaves_out(r, &h))
		return;
	h.file = event->file;
	h.time = event_time(r, event);
	h.moved_on = false;
	correct_event(r, &h);
	h.is_sure = is_sure(r, &h);
	note_names(r, &h);
	if (shfs_processes_is_shfs(r->processes, &event->process)) {
		shfs_debug(RECORDER, "%s: event %u of a process of shfs is not recorded",
		           h.path, (unsigned)event->type);
		return;
	}
	if (r->scope && !is_of_command(r, &h))
		return;
	h.content_fd = content_fd;
	h.process = shfs_processes_record(r->processes, &event->process);
	shfs_debug(RECORDER,
	           "%s: event %u, flags %#x, of process %u (record %" PRIu64
	           "), file %" PRIu64,
	           h.path, (unsigned)event->type, (unsigned)event->flags,
	           (unsigned)event->process.pid, h.process, (uint64_t)h.file.ino);
	note_file_event(r, &h);
}
