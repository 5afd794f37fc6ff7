/* SPDX-License-Identifier: MIT */
#include "query/base/mounts.h"
#include "query/base/model.h"

#include "common/clock.h"
#include "common/debug.h"
#include "common/io.h"
#include "common/path.h"
#include "common/quote.h"
#include "common/recorders.h"
#include "store/journal/journal.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <libmount.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#define ASK_NS      (5 * SHFS_NSEC_PER_SEC)
#define PATIENT_NS  (15 * SHFS_NSEC_PER_SEC)
#define ANSWER_MAX  65536
#define GUARDIAN_NS (SHFS_NSEC_PER_SEC / 2)
#define NAP_NS      20000000
#define ASKS_MAX    4 /* of one mount, while its processes die */

/* --- the list --- */

static void mount_status_clear(struct shfs_mount_status *status)
{
	free(status->root);
	free(status->store);
	free(status->backend);
	free(status->backend_reason);
	free(status->transport);
	free(status->transport_reason);
	free(status->browse);
	*status = (struct shfs_mount_status){ 0 };
}

void shfs_mounts_clear(struct shfs_mounts *mounts)
{
	for (size_t i = 0; i < mounts->n; i++) {
		free(mounts->list[i].dir);
		free(mounts->list[i].source);
		mount_status_clear(&mounts->list[i].status);
	}
	free(mounts->list);
	*mounts = (struct shfs_mounts){ 0 };
}

static int read_table(struct libmnt_table **out)
{
	errno = 0;
	*out = mnt_new_table_from_file("/proc/self/mountinfo");
	if (*out)
		return 0;
	return errno ? -errno : -EIO;
}

static bool is_shfs(struct libmnt_fs *fs)
{
	const char *type = mnt_fs_get_fstype(fs);

	return type && !strcmp(type, "fuse.shfs");
}

static bool is_browse(struct libmnt_fs *fs)
{
	const char *type = mnt_fs_get_fstype(fs);

	return type && !strcmp(type, "fuse.shfs-browse");
}

/* Is it a whole mount, not a part that was bound elsewhere? */
static bool is_whole_mount(struct libmnt_fs *fs)
{
	const char *root = mnt_fs_get_root(fs);

	return root && !strcmp(root, "/");
}

static int add_mount(struct shfs_mounts *mounts, struct libmnt_fs *fs)
{
	struct shfs_mount *grown =
		reallocarray(mounts->list, mounts->n + 1, sizeof(*grown));
	const char *source = mnt_fs_get_source(fs);
	char *dir = strdup(mnt_fs_get_target(fs)), *owner;

	if (grown)
		mounts->list = grown;
	if (!grown || !dir) {
		free(dir);
		return -ENOMEM;
	}
	grown[mounts->n++] = (struct shfs_mount){
		.dir = dir,
		.source = source ? strdup(source) : NULL,
		.mount_id = mnt_fs_get_id(fs),
		.parent_id = mnt_fs_get_parent_id(fs),
		.dev = mnt_fs_get_devno(fs),
		.owner = mnt_fs_get_option(fs, "user_id", &owner, NULL)
		                 ? (uid_t)-1
		                 : (uid_t)strtoul(owner, NULL, 10),
		.browse = is_browse(fs),
		.error = is_browse(fs) ? -EOPNOTSUPP : -ENODATA,
	};
	return 0;
}

static int read_mountinfo(enum shfs_mounts_flags flags, struct shfs_mounts *mounts)
{
	struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_table *table = NULL;
	struct libmnt_fs *fs;
	int r = iter ? read_table(&table) : -ENOMEM;

	while (!r && !mnt_table_next_fs(table, iter, &fs))
		if (flags & SHFS_MOUNTS_ALL ||
		    ((is_shfs(fs) || (flags & SHFS_MOUNTS_BROWSE && is_browse(fs))) &&
		     is_whole_mount(fs)))
			r = add_mount(mounts, fs);
	mnt_free_iter(iter);
	mnt_unref_table(table);
	return r;
}

static int add_recorder(struct shfs_mounts *mounts, const struct shfs_recorder_name *name)
{
	_cleanup_buf_ struct shfs_buf root = { 0 };
	struct shfs_mount *grown;
	int r = shfs_recorders_answer(name, "root", &root);

	if (r == -EAGAIN) /* it hangs */
		shfs_buf_printf(&root, "(inode %ju of device %u:%u)",
		                (uintmax_t)name->ino, major(name->dev), minor(name->dev));
	else if (r) /* it has ended since */
		return 0;
	grown = reallocarray(mounts->list, mounts->n + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	mounts->list = grown;
	grown[mounts->n++] = (struct shfs_mount){
		.dir = shfs_buf_take(&root),
		.mount_id = -1 - (int)((name->ino ^ name->dev) & INT_MAX >> 1),
		.dev = name->dev,
		.ino = name->ino,
		.owner = geteuid(),
		.error = -ENODATA,
	};
	return 0;
}

static int read_recorders(struct shfs_mounts *mounts)
{
	_cleanup_free_ struct shfs_recorder_name *names = NULL;
	size_t n = 0;
	int r = shfs_recorders_list(&names, &n);

	for (size_t i = 0; !r && i < n; i++)
		r = add_recorder(mounts, &names[i]);
	return r == -ENOENT ? 0 : r;
}

int shfs_mounts_serve(dev_t dev)
{
	struct libmnt_table *table;
	struct libmnt_fs *fs;
	int r = read_table(&table);

	if (r)
		return r;
	fs = mnt_table_find_devno(table, dev, MNT_ITER_FORWARD);
	r = fs && is_shfs(fs);
	mnt_unref_table(table);
	return r;
}

char *shfs_mounts_over(const char *path)
{
	struct libmnt_table *table;
	struct libmnt_fs *fs;
	char *dir = NULL;
	struct stat st;

	if (stat(path, &st) || read_table(&table))
		return NULL;
	fs = mnt_table_find_devno(table, st.st_dev, MNT_ITER_BACKWARD);
	if (fs && is_shfs(fs))
		dir = strdup(mnt_fs_get_target(fs));
	mnt_unref_table(table);
	return dir;
}

int shfs_mounts_recorder(const char *path)
{
	_cleanup_mounts_ struct shfs_mounts recorders = { 0 };
	int r = read_recorders(&recorders);

	for (size_t i = 0; !r && i < recorders.n; i++)
		if (shfs_path_is_below(path, recorders.list[i].dir))
			return 1;
	return r;
}

const struct shfs_mount *shfs_mounts_at(const struct shfs_mounts *mounts,
                                        const char *path)
{
	for (size_t i = mounts->n; i--;)
		if (!strcmp(mounts->list[i].dir, path))
			return &mounts->list[i];
	return NULL;
}

const struct shfs_mount *shfs_mounts_around(const struct shfs_mounts *mounts,
                                            const char *path)
{
	const struct shfs_mount *inner = NULL;

	for (size_t i = 0; i < mounts->n; i++) {
		const struct shfs_mount *m = &mounts->list[i];

		if (shfs_path_is_below(path, m->dir) &&
		    (!inner || strlen(m->dir) >= strlen(inner->dir)))
			inner = m;
	}
	return inner;
}

const struct shfs_mount *shfs_mounts_find(const struct shfs_mounts *all, int id)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->list[i].mount_id == id)
			return &all->list[i];
	return NULL;
}

/* The first mount on the way to path that is mounted on this one; NULL: there is none. */
static const struct shfs_mount *next_on_the_way(const struct shfs_mounts *all,
                                                const struct shfs_mount *at,
                                                const char *path)
{
	const struct shfs_mount *next = NULL;

	for (size_t i = 0; i < all->n; i++) {
		const struct shfs_mount *m = &all->list[i];

		if (m->parent_id == at->mount_id && m != at &&
		    shfs_path_is_below(path, m->dir) &&
		    (!next || strlen(m->dir) < strlen(next->dir)))
			next = m;
	}
	return next;
}

const struct shfs_mount *shfs_mounts_lead(const struct shfs_mounts *all, const char *path)
{
	const struct shfs_mount *at = NULL, *next = NULL;

	for (size_t i = 0; i < all->n && !next; i++)
		if (!strcmp(all->list[i].dir, "/") &&
		    !shfs_mounts_find(all, all->list[i].parent_id))
			next = &all->list[i];
	for (size_t steps = 0; next && steps <= all->n; steps++) {
		at = next;
		next = next_on_the_way(all, at, path);
	}
	return at;
}

/* --- the status of a daemon --- */

static uint64_t parse_status_number(const char *text)
{
	return strtoull(text, NULL, 10);
}

/* Parses the number of an error; a daemon sends nothing where all is well. */
static int parse_error(const char *text)
{
	char *end;
	long n = labs(strtol(text, &end, 10));

	if (!*text)
		return 0;
	return *end || n > 4095 ? EIO : (int)n;
}

/* Undoes the daemon's escapes of newline and backslash. */
static void unescape_status(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (*text == '\\' && text[1])
			*to++ = *++text == 'n' ? '\n' : *text;
		else
			*to++ = *text;
	}
	*to = '\0';
}

static int parse_pair(struct shfs_mount_status *s, const char *key, char *value)
{
	const struct {
		const char *key;
		char **text;
		uint64_t *number;
	} keys[] = {
		{ "root", &s->root, NULL },
		{ "store", &s->store, NULL },
		{ "backend", &s->backend, NULL },
		{ "backend_reason", &s->backend_reason, NULL },
		{ "transport", &s->transport, NULL },
		{ "transport_reason", &s->transport_reason, NULL },
		{ "browse", &s->browse, NULL },
		{ "records", NULL, &s->records },
		{ "lost", NULL, &s->lost },
		{ "queued", NULL, &s->queued },
		{ "objects", NULL, &s->objects },
		{ "object_bytes", NULL, &s->object_bytes },
		{ "stored_bytes", NULL, &s->stored_bytes },
		{ "memory_bytes", NULL, &s->memory_bytes },
		{ "skipped", NULL, &s->skipped },
		{ "incomplete", NULL, &s->incomplete },
		{ "restarts", NULL, &s->restarts },
	};

	if (!strcmp(key, "pid"))
		s->pid = (pid_t)parse_status_number(value);
	else if (!strcmp(key, "since"))
		s->since_ns = (int64_t)parse_status_number(value);
	else if (!strcmp(key, "restarted"))
		s->restarted_ns = (int64_t)parse_status_number(value);
	else if (!strcmp(key, "error"))
		s->error = parse_error(value);
	else if (!strcmp(key, "rules_error"))
		s->rules_error = parse_error(value);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcmp(key, keys[i].key) != 0)
			continue;
		if (keys[i].number)
			*keys[i].number = parse_status_number(value);
		if (keys[i].number || *keys[i].text)
			continue;
		unescape_status(value);
		*keys[i].text = strdup(value);
		if (!*keys[i].text)
			return -ENOMEM;
	}
	return 0;
}

/* Parses lines key=value; text is cut up. Unknown keys are ignored. */
static int parse_status(char *text, struct shfs_mount_status *out)
{
	char *line;
	int r = 0;

	while (!r && (line = strsep(&text, "\n"))) {
		char *value = strchr(line, '=');

		if (!value)
			continue;
		*value++ = '\0';
		r = parse_pair(out, line, value);
	}
	return r;
}

/* --- asking: in a child, which may hang forever --- */

struct answer {
	int error;      /* of asking for the status: a negative errno; 0 */
	int sync_error; /* 1: not asked to, or it has another store */
	char segment[SHFS_SEGMENT_NAME_MAX]; /* the one that was begun; or empty */
					     /* the text of the status follows */
};

/* The request to mounts and recorders that record into a store. */
struct wish {
	const char *store, *word; /* "sync" or "seal" */
};

struct question {
	pid_t pid;
	int fd; /* -1: answered, or given up */
	struct shfs_buf answer;
};

/* Is it the same store, maybe by another path? */
static bool is_same_store(const char *a, const char *b)
{
	struct stat st_a, st_b;

	return !strcmp(a, b) ||
	       (!stat(a, &st_a) && !stat(b, &st_b) && st_a.st_dev == st_b.st_dev &&
	        st_a.st_ino == st_b.st_ino);
}

bool shfs_mounts_record(const struct shfs_mounts *mounts, const char *dir)
{
	const struct shfs_mount *found = shfs_mounts_around(mounts, dir);
	struct stat st;

	return found && found->owner == geteuid() &&
	       (!stat(dir, &st) || errno != ENOTCONN);
}

bool shfs_mount_is_of_store(const struct shfs_mount *mount, const char *store_path)
{
	return !mount->error && mount->status.store &&
	       is_same_store(mount->status.store, store_path);
}

/* Sends a word: to a mount through an attribute of its root, to a recorder through its
 * socket. */
static ssize_t ask_once(const struct shfs_mount *mount, const char *word, char *text,
                        size_t size)
{
	const struct shfs_recorder_name name = { mount->dev, mount->ino };
	char attribute[32];
	ssize_t n;
	int fd;

	if (!shfs_mount_is_recorder(mount)) {
		snprintf(attribute, sizeof(attribute), "user.shfs.%s", word);
		n = getxattr(mount->dir, attribute, text, size);
		return n < 0 ? -errno : n;
	}
	fd = shfs_recorders_ask(&name, word);
	if (fd < 0)
		return fd == -ECONNREFUSED ? -ENOTCONN : fd;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){ 0 },
	           sizeof(struct timeval));
	n = recv(fd, text, size, 0);
	n = n < 0 ? -errno : !n ? -ECONNRESET : n;
	close(fd);
	return n;
}

/* Is it the answer of a process that died just then, and may have been replaced? */
static bool is_cut_off(ssize_t answer)
{
	switch (-answer) {
	case ECONNABORTED:
	case ECANCELED:
	case EINTR:
	case EIO: /* while it took the question */
	case ECONNRESET:
	case EPIPE:
		return true;
	default:
		return false;
	}
}

/* Sends a word until it is answered by a process that lives on. -ENOTCONN: there is
 * none. */
static ssize_t ask_for(const struct shfs_mount *mount, const char *word, char *text,
                       size_t size)
{
	for (int i = 0; i < ASKS_MAX; i++) {
		ssize_t n = ask_once(mount, word, text, size);

		if (!is_cut_off(n))
			return n;
	}
	return -ENOTCONN;
}

static int ask_sync(const struct shfs_mount *mount, const char *word,
                    char segment[static SHFS_SEGMENT_NAME_MAX])
{
	char text[SHFS_SEGMENT_NAME_MAX] = "";
	ssize_t n = ask_for(mount, word, text, sizeof(text) - 1);

	if (n < 0)
		return (int)n;
	if (!strcmp(text, "ok"))
		return 0;
	if (!shfs_ends_with(text, ".seg"))
		return atoi(text) ? -abs(atoi(text)) : -EIO;
	strcpy(segment, text);
	return 0;
}

/* Runs in the child. wish: also waits until everything is durable, if it records into
 * that store. */
static void ask_one_mount(int out, const struct shfs_mount *mount,
                          const struct wish *wish)
{
	static char text[ANSWER_MAX];
	struct answer answer = { .sync_error = 1 };
	ssize_t n = ask_for(mount, "status", text, sizeof(text) - 1);

	if (n < 0) {
		answer.error = (int)n;
		n = 0;
	} else if (wish) {
		struct shfs_mount_status status = { 0 };
		_cleanup_free_ char *copy = strndup(text, (size_t)n);

		if (copy && !parse_status(copy, &status) && status.store &&
		    is_same_store(status.store, wish->store))
			answer.sync_error = ask_sync(mount, wish->word, answer.segment);
		mount_status_clear(&status);
	}
	if (!shfs_write_all(out, &answer, sizeof(answer)) &&
	    shfs_write_all(out, text, (size_t)n))
		_exit(1);
}

/* The child may never end, so it must hold nothing of the parent: no pipe whose reader
 * waits for its end, no lock, no working directory. */
static void question_child(int out, pid_t parent, const struct shfs_mount *mount,
                           const struct wish *wish)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "shfs-question"); /* in ps */
	if (getppid() != parent || dup2(out, 0) < 0 || chdir("/"))
		_exit(1);
	close_range(1, ~0U, 0);
	ask_one_mount(0, mount, wish);
	_exit(0);
}

static int question_begin(struct question *q, const struct shfs_mount *mount,
                          const struct wish *wish)
{
	pid_t parent = getpid();
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	fflush(NULL);
	q->pid = fork();
	if (!q->pid)
		question_child(fds[1], parent, mount, wish);
	close(fds[1]);
	if (q->pid < 0) {
		int error = errno;

		close(fds[0]);
		return -error;
	}
	q->fd = fds[0];
	return 0;
}

static void question_read(struct question *q)
{
	char chunk[4096];
	ssize_t n = read(q->fd, chunk, sizeof(chunk));

	if (n > 0)
		shfs_buf_add(&q->answer, chunk, (size_t)n);
	else if (n == 0 || errno != EINTR)
		close(TAKE_FD(q->fd));
}

/* Waits until until_ns; a question that is not answered by then keeps its fd. */
static void questions_wait(struct question *questions, size_t n, int64_t until_ns)
{
	struct pollfd polls[n ? n : 1];

	for (;;) {
		int64_t left = until_ns - shfs_clock_ns(CLOCK_MONOTONIC);
		bool open = false;

		for (size_t i = 0; i < n; i++) {
			polls[i] = (struct pollfd){ questions[i].fd, POLLIN, 0 };
			open = open || questions[i].fd >= 0;
		}
		if (!open || left <= 0)
			return;
		if (poll(polls, n, (int)(left / 1000000) + 1) < 0 && errno != EINTR)
			return;
		for (size_t i = 0; i < n; i++)
			if (questions[i].fd >= 0 && polls[i].revents)
				question_read(&questions[i]);
	}
}

/* Takes the answer; never waits for a child that did not answer. segments: of
 * shfs_mounts_seal, or NULL. */
static int question_end(struct question *q, struct shfs_mount *mount,
                        struct shfs_buf *segments)
{
	struct answer answer = { .error = -EIO, .sync_error = 1 };
	bool answered = q->fd < 0;

	if (!answered) {
		kill(q->pid, SIGKILL);
		close(TAKE_FD(q->fd));
	}
	while (waitpid(q->pid, NULL, answered ? 0 : WNOHANG) < 0 && errno == EINTR)
		;
	if (!answered)
		answer.error = -ETIMEDOUT;
	else if (q->answer.len >= sizeof(answer))
		memcpy(&answer, q->answer.data, sizeof(answer));
	mount->error = answer.error;
	if (!mount->error)
		mount->error =
			parse_status(q->answer.data + sizeof(answer), &mount->status);
	shfs_buf_free(&q->answer);
	if (segments && *answer.segment)
		shfs_buf_add(segments, answer.segment, strlen(answer.segment) + 1);
	return answer.sync_error;
}

/* The source that mounts of this store have; "no store" if there is no store. Empty if it
 * is unknown: on a file system that others serve, a daemon may have seen other
 * numbers. */
static void source_of_store(const char *store_path, char out[SHFS_STORE_SOURCE_MAX])
{
	int r = -EREMOTE;

	if (store_path && !shfs_store_may_hang(store_path))
		r = shfs_store_source(AT_FDCWD, store_path, out);
	if (r)
		strcpy(out, r == -ENOENT ? "no store" : "");
}

/* Does the recorder record into another store? It has no source, so only its answer says
 * that. */
static bool records_elsewhere(const struct shfs_mount *m, const char *store_path)
{
	return !m->error && shfs_mount_is_recorder(m) && store_path &&
	       !shfs_mount_is_of_store(m, store_path);
}

/* Why the mount is not asked, or 0. */
static int not_to_ask(const struct shfs_mount *m, const char *source)
{
	if (m->owner != geteuid())
		return -EACCES;
	if (*source && m->source && !strncmp(m->source, "shfs:", 5) &&
	    strcmp(m->source, source) != 0)
		return -EXDEV;
	return m->browse ? -EOPNOTSUPP : 0;
}

/* Asks the user's mounts that record into store_path (NULL: all of the user's).
 * sync_errors: asks them to sync; receives a result for each, as in struct answer; or
 * NULL. segments: asks them to seal, too, and receives the names of the new segments. */
static void ask_all(struct shfs_mounts *mounts, const char *store_path, int *sync_errors,
                    struct shfs_buf *segments, int64_t wait_ns)
{
	const struct wish wish = { store_path, segments ? "seal" : "sync" };
	char source[SHFS_STORE_SOURCE_MAX];
	int64_t until = shfs_clock_ns(CLOCK_MONOTONIC) + wait_ns;
	struct question questions[mounts->n ? mounts->n : 1];

	source_of_store(store_path, source);
	for (size_t i = 0; i < mounts->n; i++) {
		struct shfs_mount *m = &mounts->list[i];

		questions[i] = (struct question){ .fd = -1 };
		m->error = not_to_ask(m, source);
		if (!m->error)
			m->error = question_begin(&questions[i], m,
			                          sync_errors ? &wish : NULL);
	}
	questions_wait(questions, mounts->n, until);
	for (size_t i = 0; i < mounts->n; i++) {
		int sync_error = 1;

		if (questions[i].pid > 0)
			sync_error =
				question_end(&questions[i], &mounts->list[i], segments);
		if (records_elsewhere(&mounts->list[i], store_path))
			mounts->list[i].error = -EXDEV;
		shfs_debug(QUERY, "mount %s: %s", mounts->list[i].dir,
		           mounts->list[i].error == -EXDEV ? "records into another store"
		           : mounts->list[i].error
		                   ? strerrordesc_np(-mounts->list[i].error)
		                   : "answered");
		if (sync_errors)
			sync_errors[i] = sync_error;
	}
}

/* Another mount may have its number by now. */
static bool is_still_mounted(const struct shfs_mount *mount)
{
	_cleanup_mounts_ struct shfs_mounts now = { 0 };
	const struct shfs_mount *found;

	if (read_mountinfo(SHFS_MOUNTS_BROWSE, &now))
		return true;
	found = shfs_mounts_find(&now, mount->mount_id);
	return found && !strcmp(found->dir, mount->dir);
}

/* Will the dead mount go away? Its guardian may be about to remove it. */
bool shfs_mount_goes(const struct shfs_mount *mount)
{
	int64_t until = shfs_clock_ns(CLOCK_MONOTONIC) + GUARDIAN_NS;

	if (mount->error != -ENOTCONN)
		return false;
	if (shfs_mount_is_recorder(mount))
		return true;
	while (is_still_mounted(mount)) {
		if (shfs_clock_ns(CLOCK_MONOTONIC) > until)
			return false;
		nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
	}
	return true;
}

static int read_all(enum shfs_mounts_flags flags, struct shfs_mounts *out)
{
	int r = read_mountinfo(flags, out);

	return r || flags & SHFS_MOUNTS_ALL ? r : read_recorders(out);
}

/* Is it what one finds at its directory, not hidden by another mount? Asks nobody. */
static bool is_at_its_directory(const struct shfs_mount *mount)
{
	_cleanup_close_ int fd = open(mount->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct statx stx;

	return fd >= 0 &&
	       !statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &stx) &&
	       stx.stx_mask & STATX_MNT_ID && (int64_t)stx.stx_mnt_id == mount->mount_id;
}

/* Was the directory beneath asked, while the mount was away for a moment? The new one may
 * have the number of the old one. */
static bool was_away(const struct shfs_mount *mount)
{
	return mount->error == -ENODATA && !shfs_mount_is_recorder(mount) &&
	       is_at_its_directory(mount);
}

/* Has one ended since it was listed? Its guardian may have mounted it anew. */
static bool any_has_ended(const struct shfs_mounts *mounts)
{
	for (size_t i = 0; i < mounts->n; i++) {
		const struct shfs_mount *m = &mounts->list[i];

		if (shfs_mount_goes(m) ||
		    (m->error && !shfs_mount_is_recorder(m) && !is_still_mounted(m)))
			return true;
		if (was_away(m)) /* asked last: now that it is mounted, it is there */
			return true;
	}
	return false;
}

int shfs_mounts_list(enum shfs_mounts_flags flags, const char *store_path,
                     struct shfs_mounts *out)
{
	int64_t until = shfs_clock_ns(CLOCK_MONOTONIC) + ASK_NS;
	struct shfs_mounts mounts = { 0 };
	bool again;
	int r;

	do {
		shfs_mounts_clear(&mounts);
		r = read_all(flags, &mounts);
		if (!r && flags & SHFS_MOUNTS_ASK)
			ask_all(&mounts, store_path, NULL, NULL, ASK_NS);
		again = !r && flags & SHFS_MOUNTS_ASK && any_has_ended(&mounts);
	} while (again && shfs_clock_ns(CLOCK_MONOTONIC) < until);
	if (r)
		shfs_mounts_clear(&mounts);
	else
		*out = mounts;
	return r;
}

void shfs_mount_ask(struct shfs_mount *mount)
{
	mount_status_clear(&mount->status);
	mount->status = (struct shfs_mount_status){ 0 };
	ask_all(&(struct shfs_mounts){ .list = mount, .n = 1 }, NULL, NULL, NULL, ASK_NS);
}

/* --- syncing --- */

static int warn_unsynced(const struct shfs_mount *mount, int sync_error)
{
	_cleanup_buf_ struct shfs_buf dir = { 0 };

	shfs_show_directory(&dir, mount->dir);
	if (mount->error == -ETIMEDOUT)
		shfs_warn("the mount %s does not answer: its latest records are missing",
		          dir.data);
	else if (mount->error == -ENOTCONN)
		shfs_warn("the mount %s is dead; shfs umount removes it", dir.data);
	else if (!mount->error && sync_error < 0)
		shfs_warn("the mount %s lost records (%s); see shfs status", dir.data,
		          strerror(-sync_error));
	else
		return 0;
	return 1;
}

int shfs_mounts_sync(const char *store_path, bool patient)
{
	_cleanup_mounts_ struct shfs_mounts mounts = { 0 };
	int r = shfs_mounts_list(0, NULL, &mounts), failed = 0;

	if (r) {
		shfs_warn("cannot look for mounts: %s", strerror(-r));
		return 1;
	}
	int sync_errors[mounts.n ? mounts.n : 1];

	ask_all(&mounts, store_path, sync_errors, NULL, patient ? PATIENT_NS : ASK_NS);
	for (size_t i = 0; i < mounts.n; i++)
		if (!shfs_mount_goes(&mounts.list[i]))
			failed += warn_unsynced(&mounts.list[i], sync_errors[i]);
	return failed;
}

void shfs_mounts_let_go(const char *store_path)
{
	_cleanup_mounts_ struct shfs_mounts mounts = { 0 };

	if (shfs_mounts_list(0, NULL, &mounts))
		return;
	int sync_errors[mounts.n ? mounts.n : 1];

	ask_all(&mounts, store_path, sync_errors, NULL, ASK_NS);
}

/* Should it have sealed, and did not? */
static bool is_unsealed(const struct shfs_mount *mount, int sync_error)
{
	if (mount->error == -EACCES || mount->error == -EXDEV ||
	    mount->error == -ENOTCONN)
		return false;
	return mount->error || sync_error < 0;
}

int shfs_mounts_seal(const char *store_path, struct shfs_buf *segments, char **busy)
{
	_cleanup_mounts_ struct shfs_mounts mounts = { 0 };
	int r = shfs_mounts_list(0, NULL, &mounts);

	if (r)
		return r;
	int sync_errors[mounts.n ? mounts.n : 1];

	ask_all(&mounts, store_path, sync_errors, segments, PATIENT_NS);
	for (size_t i = 0; i < mounts.n; i++) {
		if (!is_unsealed(&mounts.list[i], sync_errors[i]))
			continue;
		if (sync_errors[i] < 0 && shfs_takes_nothing(sync_errors[i]))
			return sync_errors[i];
		*busy = strdup(mounts.list[i].dir);
		return *busy ? -EBUSY : -ENOMEM;
	}
	return segments->failed ? -ENOMEM : 0;
}
