/* SPDX-License-Identifier: MIT */
#include "fusefs/operations/invented.h"

#include "common/clock.h"
#include "common/fnv.h"
#include "common/hash.h"
#include "common/io.h"
#include "common/program.h"
#include "store/capture/log.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <utlist.h>

#define DIRECTORY   ".shfs"
#define LINKS_MAX   4096
#define WAITING_MAX 16 /* fewer than the transport has spare threads */
#define WAIT_S      15 /* for the keeper */
#define SLEEPS_MS   1000
#define NAP_NS      100000
#define IS_ASKED    (1u << KEEPER_ASKED | 1u << KEEPER_LATE)

/* A link that the kernel knows. */
struct invented_link {
	UT_hash_handle hh;
	uint64_t id;
	uint64_t lookups; /* that the kernel has */
	char *text;
};

/* A request that waits for the keeper, or for an interrupt, whichever comes first. */
struct reader {
	struct reader *prev, *next;
	fuse_req_t req;
	char *text;
	_Atomic enum { READER_NEW, READER_WAITS, READER_ENDED } state;
};

struct shfs_invented {
	char *place;
	bool with_names;
	int keeper, timer;
	int events; /* an epoll fd of both */
	int64_t since_ns;

	pthread_mutex_t lock; /* guards the rest; locks of libfuse are taken with it */
	struct invented_link *links; /* looked up first the first */
	enum {
		KEEPER_QUIET, /* shfs-browse does not run */
		KEEPER_ASKED,
		KEEPER_UP,
		KEEPER_LATE, /* asked, and has not answered in time */
		KEEPER_GONE,
	} state;
	struct reader *readers;
	unsigned n_readers;
};

/* --- names --- */

/* Is it a unit of time, as the beginning of text? */
static bool begins_with_unit(const char *text)
{
	static const char *const units[] = {
		"s",      "sec",  "secs",   "second",  "seconds", "m",
		"min",    "mins", "minute", "minutes", "h",       "hr",
		"hrs",    "hour", "hours",  "d",       "day",     "days",
		"w",      "wk",   "week",   "weeks",   "mo",      "month",
		"months", "y",    "yr",     "year",    "years",
	};
	size_t len = 0;

	while (isalpha((unsigned char)text[len]))
		len++;
	return shfs_program_is_one_of(text, len, units, ARRAY_SIZE(units));
}

/* May the text, up to the brace, be a time (query/base/time.h)? What is not one leads
 * nowhere; but what another program means otherwise, as git does by a number, is not to
 * be taken for one. */
static bool may_be_time(const char *text)
{
	static const char *const words[] = {
		"now*", "today*", "yesterday*", "last *", "a *",  "an *", "sun*",
		"mon*", "tue*",   "wed*",       "thu*",   "fri*", "sat*",
	};
	size_t digits, len = strcspn(text, "}");

	if (*text == '@')
		return isdigit((unsigned char)text[1]);
	digits = strspn(text, "0123456789");
	if (!digits)
		return shfs_program_is_one_of(text, len, words, ARRAY_SIZE(words));
	text += digits;
	return strchr("-:", *text) || begins_with_unit(text + strspn(text, " "));
}

/* The "@{" of NAME@{WHEN}; NULL: it is no such name. */
static const char *find_time(const char *name)
{
	size_t len = strlen(name);
	const char *at = NULL;

	if (len < 5 || name[len - 1] != '}')
		return NULL;
	for (const char *p = strstr(name, "@{"); p; p = strstr(p + 1, "@{"))
		at = p;
	if (!at || at == name || strchr(at, '}') != name + len - 1 ||
	    !may_be_time(at + 2))
		return NULL;
	return at == name + 2 && !memcmp(name, "..", 2) ? NULL : at;
}

static bool is_directory(const struct shfs_node *parent, const char *name)
{
	return parent->id == SHFS_NODE_ROOT && !strcmp(name, DIRECTORY);
}

/* Is it a name that this file invents? */
static bool is_form(const struct shfs_invented *inv, const struct shfs_node *parent,
                    const char *name)
{
	if (!inv || parent->hidden)
		return false;
	return is_directory(parent, name) || (inv->with_names && find_time(name));
}

/* The caller may see the link: it is the user who mounted, and no program that must not
 * go there. shfs-browse does not find itself in the project; clients of a server of NFS
 * have no way to where the links lead; to git NAME@{WHEN} is a revision, and a name that
 * is there but in no list a riddle; shfs itself understands NAME@{WHEN}. */
static bool may_see(fuse_req_t req, bool is_directory)
{
	static const char *const none[] = { "shfs-browse", "shfs-refresh", "nfsd", "git",
		                            "git-*" },
				 *const no_times[] = { "shfs" };
	_cleanup_buf_ struct shfs_buf comm = { 0 };
	char path[40];
	size_t len;

	if (fuse_req_ctx(req)->uid != geteuid())
		return false;
	snprintf(path, sizeof(path), "/proc/%u/comm", shfs_req_tid(req));
	if (!shfs_req_tid(req) || shfs_read_file_at(AT_FDCWD, path, 64, &comm) ||
	    !comm.len)
		return true;
	len = strcspn(comm.data, "\n");
	if (shfs_program_is_one_of(comm.data, len, none, ARRAY_SIZE(none)))
		return false;
	return is_directory ||
	       !shfs_program_is_one_of(comm.data, len, no_times, ARRAY_SIZE(no_times));
}

/* Gets the number of the system call that the caller is in, and its first arguments.
 * False: we may not know (Yama). */
static bool read_call(fuse_req_t req, unsigned long *call, unsigned long args[static 3])
{
	char path[40];
	int n;

	if (!shfs_req_tid(req))
		return false;
	snprintf(path, sizeof(path), "/proc/%u/syscall", shfs_req_tid(req));
	/* "running": it has sent the request, and does not wait for the reply yet */
	for (n = 0; n < SLEEPS_MS * 1000000; n += NAP_NS) {
		_cleanup_buf_ struct shfs_buf text = { 0 };

		if (shfs_read_file_at(AT_FDCWD, path, 256, &text) || !text.len)
			return false;
		if (strncmp(text.data, "running", strlen("running")) != 0)
			return sscanf(text.data, "%lu %lx %lx %lx", call, &args[0],
			              &args[1], &args[2]) == 4;
		nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
	}
	return false;
}

/* Does the caller make a name? The kernel looks up first whether the name is free, and
 * does not say why. A caller of which we may not know is told that it exists. */
static bool is_making(fuse_req_t req)
{
	static const long makers[] = {
		SYS_mkdirat,  SYS_mknodat, SYS_symlinkat, SYS_linkat,  SYS_renameat2,
#ifdef SYS_renameat
		SYS_renameat,
#endif
#ifdef SYS_creat /* the calls of older architectures */
		SYS_creat,    SYS_mkdir,   SYS_mknod,     SYS_symlink, SYS_link,
		SYS_rename,
#endif
	};
	unsigned long call, args[3], flags = 0;

	if (!read_call(req, &call, args))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(makers); i++)
		if ((long)call == makers[i])
			return true;
	if (call == SYS_openat)
		flags = args[2];
#ifdef SYS_open
	if (call == SYS_open)
		flags = args[1];
#endif
	return flags & O_CREAT;
}

/* Where NAME@{WHEN} leads, for the caller; NULL: NAME is not there, or no memory. */
static char *text_of_time(struct shfs_fs *fs, struct shfs_node *parent, const char *name)
{
	const char *at = find_time(name);
	_cleanup_free_ char *now = at ? strndup(name, (size_t)(at - name)) : NULL;
	_cleanup_buf_ struct shfs_buf text = { 0 };
	struct statx stx;

	if (!now || shfs_node_stat_child(fs->tree, parent, now, &stx))
		return NULL;
	shfs_buf_printf(&text, "%s/at/%.*s/", fs->invented->place,
	                (int)(strlen(at) - strlen("@{}")), at + 2);
	shfs_tree_lock_read(fs->tree);
	shfs_node_path(parent, now, &text);
	shfs_tree_unlock(fs->tree);
	return text.failed || text.len >= PATH_MAX ? NULL : shfs_buf_take(&text);
}

/* The text of the link that the caller sees by this name; NULL: none. */
static char *text_for(fuse_req_t req, struct shfs_node *parent, const char *name)
{
	struct shfs_fs *fs = shfs_req_fs(req);
	bool directory = is_directory(parent, name);

	if (!may_see(req, directory) || is_making(req))
		return NULL;
	return directory ? strdup(fs->invented->place) : text_of_time(fs, parent, name);
}

bool shfs_invented_is_seen(fuse_req_t req, struct shfs_node *parent, const char *name)
{
	_cleanup_free_ char *text = NULL;

	if (is_form(shfs_req_fs(req)->invented, parent, name))
		text = text_for(req, parent, name);
	return text;
}

/* --- links --- */

static uint64_t id_of(const char *text)
{
	return shfs_fnv(SHFS_FNV_BEGIN, text, strlen(text)) | SHFS_NODE_INVENTED;
}

static void fill_status(const struct shfs_invented *inv, const struct invented_link *link,
                        struct statx *out)
{
	struct timespec t = shfs_ns_timespec(inv->since_ns);
	struct statx_timestamp time = { .tv_sec = t.tv_sec,
		                        .tv_nsec = (uint32_t)t.tv_nsec };

	*out = (struct statx){
		.stx_mask = STATX_BASIC_STATS,
		.stx_blksize = 4096,
		.stx_nlink = 1,
		.stx_uid = geteuid(),
		.stx_gid = getegid(),
		.stx_mode = S_IFLNK | 0777,
		.stx_ino = link->id,
		.stx_size = strlen(link->text),
		.stx_atime = time,
		.stx_ctime = time,
		.stx_mtime = time,
	};
}

/* Lock held. */
static struct invented_link *find_link(struct shfs_invented *inv, uint64_t id)
{
	struct invented_link *link;

	HASH_FIND(hh, inv->links, &id, sizeof(id), link);
	return link;
}

/* Lock held. */
static void free_link(struct shfs_invented *inv, struct invented_link *link)
{
	HASH_DEL(inv->links, link);
	free(link->text);
	free(link);
}

/* Lock held. Counts a lookup of the link with this text (taken). NULL: another one has
 * its number, or no memory. */
static struct invented_link *enter_link(struct shfs_invented *inv, char *text)
{
	_cleanup_free_ char *owned = text;
	struct invented_link *link = find_link(inv, id_of(text));

	if (link && strcmp(link->text, text) != 0)
		return NULL;
	if (!link) {
		link = calloc(1, sizeof(*link));
		if (!link)
			return NULL;
		link->id = id_of(text);
		HASH_ADD(hh, inv->links, id, sizeof(link->id), link);
		if (!link->hh.tbl) {
			free(link);
			return NULL;
		}
		link->text = TAKE_PTR(owned);
		/* told ESTALE for the oldest, the kernel looks it up again */
		if (HASH_COUNT(inv->links) > LINKS_MAX)
			free_link(inv, inv->links);
	} else if (HASH_COUNT(inv->links) > 1) {
		SHFS_HASH_MOVE_LAST(inv->links, id, sizeof(link->id), link);
	}
	link->lookups++;
	return link;
}

bool shfs_invented_lookup(fuse_req_t req, struct shfs_node *parent, const char *name)
{
	struct shfs_invented *inv = shfs_req_fs(req)->invented;
	/* all of this is asked anew each time: who asks, and what there is below */
	struct fuse_entry_param entry = { .entry_timeout = 0 };
	struct invented_link *link = NULL;
	struct statx stx;
	char *text;

	if (!is_form(inv, parent, name))
		return false;
	text = text_for(req, parent, name);
	pthread_mutex_lock(&inv->lock);
	if (text)
		link = enter_link(inv, text);
	if (link) {
		fill_status(inv, link, &stx);
		shfs_stat_from_statx(&stx, &entry.attr);
		entry.ino = link->id;
		entry.attr_timeout = SHFS_TIMEOUT_LONG;
	}
	pthread_mutex_unlock(&inv->lock);
	if (fuse_reply_entry(req, &entry) && entry.ino)
		shfs_invented_forget(shfs_req_fs(req), entry.ino, 1);
	return true;
}

void shfs_invented_forget(struct shfs_fs *fs, uint64_t id, uint64_t n)
{
	struct shfs_invented *inv = fs->invented;
	struct invented_link *link;

	if (!inv)
		return;
	pthread_mutex_lock(&inv->lock);
	link = find_link(inv, id);
	if (link) {
		link->lookups -= MIN(n, link->lookups);
		if (!link->lookups)
			free_link(inv, link);
	}
	pthread_mutex_unlock(&inv->lock);
}

int shfs_invented_stat(struct shfs_fs *fs, uint64_t id, struct statx *out)
{
	struct shfs_invented *inv = fs->invented;
	struct invented_link *link;

	if (!inv)
		return -ESTALE;
	pthread_mutex_lock(&inv->lock);
	link = find_link(inv, id);
	if (link)
		fill_status(inv, link, out);
	pthread_mutex_unlock(&inv->lock);
	return link ? 0 : -ESTALE;
}

/* --- reading them --- */

/* Takes ownership of the text. */
static void reply_text(fuse_req_t req, char *text, int error)
{
	if (error)
		shfs_req_fail(req, error);
	else
		fuse_reply_readlink(req, text);
	free(text);
}

/* Changes the state from `from` to `to`. False: another thread was first. */
static bool reader_step(struct reader *reader, int from, int to)
{
	return atomic_compare_exchange_strong(&reader->state, &from, to);
}

static void reader_interrupted(fuse_req_t req, void *arg)
{
	struct reader *reader = arg;

	/* while it is READER_NEW, libfuse has the request locked: no reply here */
	if (!reader_step(reader, READER_NEW, READER_ENDED) &&
	    reader_step(reader, READER_WAITS, READER_ENDED))
		shfs_req_fail(req, -EINTR);
}

/* Answers all that wait. */
static void answer_readers(struct shfs_invented *inv, int error)
{
	struct reader *list, *reader, *next;

	pthread_mutex_lock(&inv->lock);
	list = TAKE_PTR(inv->readers);
	inv->n_readers = 0;
	pthread_mutex_unlock(&inv->lock);
	DL_FOREACH_SAFE (list, reader, next) {
		if (reader_step(reader, READER_WAITS, READER_ENDED)) {
			/* from here on no interrupt uses the reader */
			fuse_req_interrupt_func(reader->req, NULL, NULL);
			reply_text(reader->req, TAKE_PTR(reader->text), error);
		}
		free(reader->text);
		free(reader);
	}
}

static void set_deadline(struct shfs_invented *inv, time_t seconds)
{
	struct itimerspec when = { .it_value.tv_sec = seconds };

	timerfd_settime(inv->timer, 0, &when, NULL);
}

/* Lock held. Takes ownership of the text. Returns 0; or an error to be replied, and the
 * text is still the caller's. */
static int put_aside(struct shfs_invented *inv, fuse_req_t req, char *text)
{
	struct reader *reader;

	if (inv->n_readers >= WAITING_MAX)
		return -EAGAIN;
	reader = calloc(1, sizeof(*reader));
	if (!reader)
		return -ENOMEM;
	reader->req = req;
	reader->text = text;
	fuse_req_interrupt_func(req, reader_interrupted, reader);
	if (!reader_step(reader, READER_NEW, READER_WAITS)) {
		fuse_req_interrupt_func(req, NULL, NULL);
		free(reader);
		return -EINTR;
	}
	DL_APPEND(inv->readers, reader);
	inv->n_readers++;
	return 0;
}

/* Lock held. Asks the keeper, if that is to be done. 0: it is asked; 1: shfs-browse runs.
 */
static int wake_keeper(struct shfs_invented *inv)
{
	char wake = SHFS_KEEPER_WAKE;

	switch (inv->state) {
	case KEEPER_UP:
		return 1;
	case KEEPER_ASKED:
		return 0;
	case KEEPER_QUIET:
		if (send(inv->keeper, &wake, 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
			return -ENOENT;
		inv->state = KEEPER_ASKED;
		set_deadline(inv, WAIT_S);
		return 0;
	default:
		return -ENOENT;
	}
}

void shfs_invented_read(fuse_req_t req, uint64_t id)
{
	struct shfs_invented *inv = shfs_req_fs(req)->invented;
	struct invented_link *link;
	char *text = NULL;
	int r = -ESTALE;

	if (!inv) {
		shfs_req_fail(req, r);
		return;
	}
	pthread_mutex_lock(&inv->lock);
	link = find_link(inv, id);
	if (link) {
		text = strdup(link->text);
		r = text ? wake_keeper(inv) : -ENOMEM;
	}
	if (!r) {
		r = put_aside(inv, req, text);
		if (!r)
			req = NULL;
	}
	pthread_mutex_unlock(&inv->lock);
	if (req)
		reply_text(req, text, MIN(r, 0));
}

/* --- the keeper --- */

/* Sets the state, if it is one of those in `from` (bits), and answers all that wait.
 * False: it is another one. */
static bool set_state(struct shfs_invented *inv, unsigned from, int state)
{
	bool is_one;

	pthread_mutex_lock(&inv->lock);
	is_one = from & (1u << inv->state);
	if (is_one) {
		inv->state = state;
		set_deadline(inv, 0);
	}
	pthread_mutex_unlock(&inv->lock);
	if (is_one)
		answer_readers(inv, state == KEEPER_UP ? 0 : -ENOENT);
	return is_one;
}

static void take_answer(struct shfs_invented *inv, const char *answer, size_t len)
{
	switch (*answer) {
	case SHFS_KEEPER_UP:
		set_state(inv, IS_ASKED, KEEPER_UP);
		break;
	case SHFS_KEEPER_DOWN:
		if (set_state(inv, IS_ASKED, KEEPER_QUIET))
			shfs_log("the past is not shown in %s: %.*s", inv->place,
			         (int)len - 1, answer + 1);
		break;
	default:
		set_state(inv, 1u << KEEPER_UP, KEEPER_QUIET);
	}
}

void shfs_invented_attend(struct shfs_invented *inv)
{
	char answer[SHFS_KEEPER_SAID];
	uint64_t expired;
	ssize_t n;

	while ((n = recv(inv->keeper, answer, sizeof(answer), MSG_DONTWAIT)) > 0)
		take_answer(inv, answer, (size_t)n);
	if (!n || (errno != EAGAIN && errno != EINTR)) {
		epoll_ctl(inv->events, EPOLL_CTL_DEL, inv->keeper, NULL);
		set_state(inv, ~0u, KEEPER_GONE);
	}
	if (read(inv->timer, &expired, sizeof(expired)) == sizeof(expired) &&
	    set_state(inv, 1u << KEEPER_ASKED, KEEPER_LATE))
		shfs_log("the past is not shown in %s: shfs-browse does not start",
		         inv->place);
}

int shfs_invented_fd(const struct shfs_invented *inv)
{
	return inv ? inv->events : -1;
}

const char *shfs_invented_place(const struct shfs_invented *inv)
{
	return inv->place;
}

int shfs_invented_new(const char *place, int keeper, bool with_names,
                      struct shfs_invented **out)
{
	struct shfs_invented *inv = calloc(1, sizeof(*inv));
	struct epoll_event readable = { .events = EPOLLIN };

	if (!inv) {
		close(keeper);
		return -ENOMEM;
	}
	*inv = (struct shfs_invented){
		.place = strdup(place),
		.with_names = with_names,
		.keeper = keeper,
		.timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK),
		.events = epoll_create1(EPOLL_CLOEXEC),
		.since_ns = shfs_clock_ns(CLOCK_REALTIME),
	};
	pthread_mutex_init(&inv->lock, NULL);
	if (!inv->place || inv->timer < 0 || inv->events < 0 ||
	    epoll_ctl(inv->events, EPOLL_CTL_ADD, keeper, &readable) ||
	    epoll_ctl(inv->events, EPOLL_CTL_ADD, inv->timer, &readable)) {
		shfs_invented_free(inv);
		return -ENOMEM;
	}
	*out = inv;
	return 0;
}

void shfs_invented_stop(struct shfs_invented *inv)
{
	if (inv)
		set_state(inv, ~0u, KEEPER_GONE);
}

void shfs_invented_free(struct shfs_invented *inv)
{
	struct invented_link *link, *next;

	if (!inv)
		return;
	HASH_ITER (hh, inv->links, link, next)
		free_link(inv, link);
	shfs_closep(&inv->keeper);
	shfs_closep(&inv->timer);
	shfs_closep(&inv->events);
	pthread_mutex_destroy(&inv->lock);
	free(inv->place);
	free(inv);
}
