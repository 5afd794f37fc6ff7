/* SPDX-License-Identifier: MIT */
#include "query/restore/restore-journal.h"

#include "common/io.h"
#include "common/path.h"
#include "common/proc.h"
#include "query/base/mounts.h"
#include "store/capture/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <semaphore.h>
#include <string.h>

#define SYNC_SECONDS  30
#define ANCESTORS_MAX 64
#define ARGV_MAX      65536

struct shfs_restore_journal {
	struct shfs_store *store; /* borrowed, as the next two */
	struct shfs_index *index;
	const struct shfs_config *config;
	struct shfs_capture *capture; /* of root; NULL: not begun */
	struct shfs_rules *rules;
	char *root;
	char *directory;  /* the last one that was entered */
	uint64_t process; /* the PROCESS record of this process */
};

int shfs_restore_journal_new(struct shfs_store *store, struct shfs_index *index,
                             const struct shfs_config *config,
                             struct shfs_restore_journal **out)
{
	struct shfs_restore_journal *j = calloc(1, sizeof(*j));

	if (!j)
		return -ENOMEM;
	j->store = store;
	j->index = index;
	j->config = config;
	*out = j;
	return 0;
}

static void end_root(struct shfs_restore_journal *j)
{
	shfs_capture_close(TAKE_PTR(j->capture));
	shfs_rules_free(TAKE_PTR(j->rules));
	free(TAKE_PTR(j->root));
}

void shfs_restore_journal_free(struct shfs_restore_journal *j)
{
	if (!j)
		return;
	end_root(j);
	free(j->directory);
	free(j);
}

/* --- this process --- */

static void proc_text(int procfd, const char *link, struct shfs_buf *out)
{
	int r = link ? shfs_proc_link(procfd, link, out)
	             : shfs_proc_cmdline(procfd, ARGV_MAX, out);

	/* other users' processes cannot be read */
	if (r < 0)
		out->len = 0;
}

/* Emits the processes from the topmost down to pid, each after its parent. Returns the
 * sequence number of pid's record, 0 if lost. */
static uint64_t emit_process(struct shfs_capture *capture, uint32_t pid, unsigned depth,
                             uint64_t *start_ticks)
{
	_cleanup_close_ int fd = shfs_proc_open(pid);
	_cleanup_buf_ struct shfs_buf exe = { 0 }, cwd = { 0 }, argv = { 0 },
				      streams = { 0 };
	struct shfs_record rec = { .type = SHFS_REC_PROCESS };
	struct shfs_proc_stat stat;
	struct stat owner;
	uint64_t parent_ticks = 0;

	if (fd < 0 || shfs_proc_read_stat(fd, &stat) || fstat(fd, &owner))
		return 0;
	if (stat.ppid && depth < ANCESTORS_MAX)
		emit_process(capture, stat.ppid, depth + 1, &parent_ticks);
	proc_text(fd, "exe", &exe);
	proc_text(fd, "cwd", &cwd);
	proc_text(fd, NULL, &argv);
	(void)!shfs_proc_streams(fd, &streams);
	*start_ticks = stat.start_ticks;
	rec.process = (struct shfs_rec_process){
		.pid = stat.pid,
		.ppid = stat.ppid,
		.pgid = stat.pgid,
		.sid = stat.sid,
		.uid = owner.st_uid,
		.tty_nr = stat.tty_nr,
		.start_ticks = stat.start_ticks,
		.parent_start_ticks = parent_ticks,
		.exe = { exe.data ? exe.data : "", exe.len },
		.cwd = { cwd.data ? cwd.data : "", cwd.len },
		.argv = { argv.data ? argv.data : "", argv.len },
		.streams = { streams.data ? streams.data : "", streams.len },
	};
	return shfs_capture_emit(capture, &rec,
	                         (struct shfs_snapshot *const[2]){ NULL, NULL });
}

/* --- projects --- */

static char *path_of_directory(int dirfd)
{
	char link[64], path[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", dirfd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n <= 0 || path[0] != '/')
		return NULL;
	path[n] = '\0';
	return strdup(path);
}

/* Finds the innermost project that contains path: 1 and *root, or 0. */
static int find_root(struct shfs_index *index, const char *path, char **root)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_free_ char *best = NULL;
	int r = shfs_rows_open(index, "SELECT DISTINCT root FROM v_producer", &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		const char *one = shfs_rows_text(rows, 0);

		r = 0;
		if (!shfs_path_is_below(path, one) ||
		    (best && strlen(best) >= strlen(one)))
			continue;
		free(best);
		best = strdup(one);
		if (!best)
			return -ENOMEM;
	}
	if (r < 0 || !best)
		return r;
	*root = TAKE_PTR(best);
	return 1;
}

static int load_rules(struct shfs_restore_journal *j)
{
	_cleanup_free_ char *path = shfs_path_join(j->root, ".shfsignore");
	_cleanup_buf_ struct shfs_buf text = { 0 };

	if (!path)
		return -ENOMEM;
	if (shfs_read_file_at(AT_FDCWD, path, 1 << 20, &text))
		text.len = 0;
	return shfs_rules_new(j->config, text.len ? text.data : NULL, &j->rules);
}

static int begin_root(struct shfs_restore_journal *j, char *root)
{
	struct shfs_capture_options options = {
		.config = j->config, .kind = "restore", .root = root, .threads = 1
	};
	uint64_t ticks;
	int r;

	end_root(j);
	j->root = root;
	r = load_rules(j);
	if (!r)
		r = shfs_capture_open(j->store, &options, &j->capture);
	if (r)
		return r;
	j->process = emit_process(j->capture, getpid(), 0, &ticks);
	return 0;
}

int shfs_restore_journal_enter(struct shfs_restore_journal *j, int dirfd)
{
	_cleanup_free_ char *directory = NULL, *root = NULL;
	struct stat st;
	int r = fstat(dirfd, &st) ? -errno : shfs_mounts_serve(st.st_dev);

	if (r) /* an error, or it is on a mount of this user */
		return MIN(r, 0);
	directory = path_of_directory(dirfd);
	if (!directory)
		return -ENOMEM;
	r = shfs_mounts_recorder(directory);
	if (r)
		return MIN(r, 0);
	r = find_root(j->index, directory, &root);
	if (r <= 0)
		return r;
	if (!j->root || strcmp(j->root, root)) {
		r = begin_root(j, TAKE_PTR(root));
		if (r < 0)
			return r;
	}
	free(j->directory);
	j->directory = TAKE_PTR(directory);
	return 1;
}

/* --- changes --- */

static char *relative_path(struct shfs_restore_journal *j, const char *name)
{
	const char *below = shfs_path_relative(j->directory, j->root);

	return below && *below ? shfs_path_join(below, name) : strdup(name);
}

struct sync {
	sem_t done;
	int error;
};

static void note_sync_done(void *arg, int error)
{
	struct sync *s = arg;

	s->error = error;
	sem_post(&s->done);
}

static int sync_now(struct shfs_restore_journal *j)
{
	struct sync *s = calloc(1, sizeof(*s));
	struct timespec until;
	int r;

	if (!s)
		return -ENOMEM;
	sem_init(&s->done, 0, 0);
	r = shfs_capture_sync(j->capture, note_sync_done, s);
	if (!r) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += SYNC_SECONDS;
		while ((r = sem_timedwait(&s->done, &until)) && errno == EINTR)
			;
		/* a late answer is ignored; s stays for the thread that may still send
		 * it */
		if (r)
			return -ETIMEDOUT;
		r = s->error > 0 ? -s->error : s->error;
	}
	sem_destroy(&s->done);
	free(s);
	return r;
}

static int emit_record(struct shfs_restore_journal *j, struct shfs_record *rec,
                       struct shfs_snapshot *first, struct shfs_snapshot *second)
{
	struct shfs_snapshot *const contents[2] = { first, second };
	uint64_t seq = shfs_capture_emit(j->capture, rec, contents);

	shfs_snapshot_unref(first);
	shfs_snapshot_unref(second);
	return seq ? sync_now(j) : -EIO;
}

/* Takes the path, attributes and content of a file, as its record needs them. */
static int snapshot(struct shfs_restore_journal *j, const char *name, int fd,
                    uint64_t max_bytes, char **path, struct stat *st,
                    struct shfs_snapshot **out)
{
	bool ignore;

	*path = relative_path(j, name);
	if (!*path)
		return -ENOMEM;
	if (fstat(fd, st))
		return -errno;
	*out = shfs_snapshot_new(j->capture);
	if (!*out)
		return -ENOMEM;
	ignore = shfs_rules_match(j->rules, *path, false) == SHFS_RULE_IGNORE;
	shfs_snapshot_take(*out, fd, ignore ? SHFS_DEPTH_FINGERPRINT : SHFS_DEPTH_ARCHIVE,
	                   max_bytes, ignore ? SHFS_CONTENT_SKIP_RULE : 0);
	return 0;
}

int shfs_restore_journal_before(struct shfs_restore_journal *j, const char *name, int fd)
{
	_cleanup_free_ char *path = NULL;
	struct shfs_record rec = { .type = SHFS_REC_PREIMAGE };
	struct shfs_snapshot *content;
	struct stat st;
	int r = snapshot(j, name, fd, j->config->archive_max_bytes, &path, &st, &content);

	if (r)
		return r;
	rec.preimage = (struct shfs_rec_preimage){
		.process = j->process,
		.path = shfs_bytes_str(path),
		.dev = st.st_dev,
		.ino = st.st_ino,
	};
	return emit_record(j, &rec, content, NULL);
}

int shfs_restore_journal_made(struct shfs_restore_journal *j, const char *name, int fd,
                              bool created)
{
	_cleanup_free_ char *path = NULL;
	struct shfs_record rec = { .type = SHFS_REC_ACCESS };
	struct shfs_snapshot *made;
	struct stat st;
	/* The content is in the store: only its name is looked up. */
	int r = snapshot(j, name, fd, UINT64_MAX, &path, &st, &made);

	if (r)
		return r;
	rec.access = (struct shfs_rec_access){
		.process = j->process,
		.flags = SHFS_ACCESS_WRITTEN |
		         (created ? SHFS_ACCESS_CREATED : SHFS_ACCESS_TRUNCATED),
		.begin = shfs_time_now(),
		.path = shfs_bytes_str(path),
		.dev = st.st_dev,
		.ino = st.st_ino,
	};
	rec.access.last = rec.access.begin;
	return emit_record(j, &rec, NULL, made);
}

int shfs_restore_journal_linked(struct shfs_restore_journal *j, const char *name,
                                const char *other, int fd)
{
	_cleanup_free_ char *path = relative_path(j, name);
	const char *below = shfs_path_relative(other, j->root);
	struct shfs_record rec = { .type = SHFS_REC_PATHOP };
	struct stat st;

	if (!below || !*below) /* it is in another project */
		return shfs_restore_journal_made(j, name, fd, true);
	if (!path)
		return -ENOMEM;
	if (fstat(fd, &st))
		return -errno;
	rec.pathop = (struct shfs_rec_pathop){
		.process = j->process,
		.op = SHFS_OP_LINK,
		.path = shfs_bytes_str(below),
		.path2 = shfs_bytes_str(path),
		.dev = st.st_dev,
		.ino = st.st_ino,
	};
	return emit_record(j, &rec, NULL, NULL);
}
