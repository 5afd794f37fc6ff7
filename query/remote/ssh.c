/* SPDX-License-Identifier: MIT */
/*
 * A remote that is a directory on another host, by sftp through the system's ssh: nothing
 * of shfs runs there.
 *
 * It has the layout, the permissions and the puts of a remote that is a directory here
 * (directory.c): a blob is written under a name that begins with ".put-", synced, and
 * then linked to its name. A connection that is lost is made again, some times.
 */
#include "query/remote/backend.h"

#include "query/base/time.h"
#include "query/remote/ssh/program.h"
#include "query/remote/ssh/sftp.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#define TEMP_PREFIX ".put-"
#define DEPTH_MAX   8          /* of directories */
#define GROUP       32         /* directories that are listed at once */
#define NAMES_MAX   (4u << 20) /* a server may go on for ever */
#define ATTEMPTS    5          /* at a request whose connection is lost */
#define WAIT_MS     2000       /* before the third, then twice as long each time */
#define NOT_THERE   0700       /* permissions of a directory that is made */

struct ssh {
	struct shfs_remote remote;
	struct ssh_url url;
	char *root;
	struct ssh_program program;
	struct sftp *sftp; /* NULL: there is no connection */
	int mode;          /* of directories; -1: not known yet */
};

static struct ssh *of(struct shfs_remote *remote)
{
	return container_of(remote, struct ssh, remote);
}

/* --- the connection --- */

static int disconnect(struct ssh *s)
{
	sftp_free(TAKE_PTR(s->sftp));
	return ssh_program_end(&s->program);
}

static int take_root(void *arg, struct shfs_bytes name, const struct sftp_attrs *attrs)
{
	struct ssh *s = arg;

	free(s->root);
	s->root = memchr(name.data, 0, name.len) ? NULL : strndup(name.data, name.len);
	return s->root ? 0 : -EPROTO;
}

/* Where "~user" is, the server knows. */
static int find_root(struct ssh *s)
{
	uint32_t id;

	if (s->root)
		return 0;
	if (*s->url.path != '~') {
		s->root = strdup(s->url.path);
		return s->root ? 0 : -ENOMEM;
	}
	if (!sftp_extensions(s->sftp)->expand_path) {
		shfs_buf_str(&s->remote.why, "the server does not tell where ~ is");
		return -EOPNOTSUPP;
	}
	id = sftp_ask_about(s->sftp, "expand-path@openssh.com", s->url.path);
	return sftp_answer_names(s->sftp, id, take_root, s);
}

/* Says what can be known of a connection that did not come about. */
static void explain(struct ssh *s, int status)
{
	struct shfs_buf *why = &s->remote.why;

	why->len = 0;
	if (status == 127 || status == 126)
		shfs_buf_str(why, "ssh cannot be run");
	else if (status)
		shfs_buf_str(why,
		             "ssh cannot reach it, or there is no sftp: see the message "
		             "of ssh above");
	else
		shfs_buf_str(why, "the other side ended before it spoke sftp");
}

static int connect_once(struct ssh *s)
{
	int r, status;

	if (s->sftp)
		return 0;
	r = ssh_program_start(&s->url, "sftp", true, &s->program);
	if (r == -EINVAL)
		shfs_buf_str(&s->remote.why, "SHFS_SSH_COMMAND is no command");
	if (!r)
		r = sftp_new(s->program.fd, &s->remote.why, &s->sftp);
	if (!r)
		r = find_root(s);
	if (!r)
		return 0;
	status = disconnect(s);
	if (r == -ENOLINK)
		explain(s, status);
	return r;
}

/* Waits before try i (from 0 on): the first time the connection is made again at once. */
static void wait_before(unsigned i)
{
	unsigned ms = i > 1 ? shfs_wait_ms("SHFS_SSH_WAIT_MS", WAIT_MS) << (i - 2) : 0;
	struct timespec left = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };

	while (ms && nanosleep(&left, &left) && errno == EINTR)
		;
}

/* One try at a request. */
typedef int (*attempt_fn)(struct ssh *s, void *arg);

/* Tries again if the connection is lost. */
static int attempt(struct ssh *s, attempt_fn fn, void *arg)
{
	int r = 0;

	for (unsigned i = 0; i < ATTEMPTS; i++) {
		wait_before(i);
		r = connect_once(s);
		if (!r)
			r = fn(s, arg);
		if (r == -ENOLINK || r == -EPROTO)
			disconnect(s);
		if (r != -ENOLINK)
			return r;
	}
	return r;
}

static void close_ssh(struct shfs_remote *remote)
{
	struct ssh *s = of(remote);

	disconnect(s);
	ssh_url_clear(&s->url);
	free(s->root);
	free(s);
}

static int open_ssh(const char *url, struct shfs_buf *why, struct shfs_remote **out)
{
	struct ssh *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	*s = (struct ssh){ .remote.kind = &shfs_backend_ssh,
		           .program.fd = -1,
		           .mode = -1 };
	r = ssh_url_parse(url, &s->url);
	if (!r)
		r = connect_once(s);
	if (!r) {
		*out = &s->remote;
		return 0;
	}
	if (s->remote.why.len)
		shfs_buf_add(why, s->remote.why.data, s->remote.why.len);
	shfs_buf_free(&s->remote.why);
	close_ssh(&s->remote);
	return r;
}

/* --- paths --- */

/* Of a name on the remote; "": of its root. */
static char *path_of(const struct ssh *s, const char *name)
{
	char *path;

	if (!*name)
		return strdup(s->root);
	return asprintf(&path, "%s/%s", s->root, name) < 0 ? NULL : path;
}

/* Of the directory that the path is in. */
static char *parent_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	while (slash && slash > path && slash[-1] == '/')
		slash--;
	if (!slash)
		return strdup(".");
	return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

static bool is_regular(const struct sftp_attrs *attrs)
{
	return !attrs->has_mode || S_ISREG(attrs->mode);
}

/* --- directories --- */

/* What is new or gone in a directory becomes durable, as far as the server can do that:
 * OpenSSH's opens a directory, too. temp, if not NULL, is removed first. */
static int sync_directory(struct ssh *s, const char *path, const char *temp)
{
	bool syncs = sftp_extensions(s->sftp)->fsync;
	uint32_t remove = temp ? sftp_ask_path(s->sftp, SFTP_REMOVE, temp) : 0;
	uint32_t open = syncs ? sftp_ask_open(s->sftp, path, SFTP_OPEN_READ, -1) : 0;
	int r = temp ? sftp_answer(s->sftp, remove) : 0;
	struct sftp_handle handle;
	uint32_t sync, close;

	if (!syncs || sftp_answer_handle(s->sftp, open, &handle))
		return r;
	sync = sftp_ask_fsync(s->sftp, &handle);
	close = sftp_ask_handle(s->sftp, SFTP_CLOSE, &handle);
	(void)!sftp_answer(s->sftp, sync);
	(void)!sftp_answer(s->sftp, close);
	return r;
}

/* The permissions of the remote's directory are those of all that is in it. */
static int find_mode(struct ssh *s)
{
	struct sftp_attrs attrs;
	int r;

	if (s->mode >= 0)
		return 0;
	r = sftp_answer_attrs(s->sftp, sftp_ask_path(s->sftp, SFTP_STAT, s->root),
	                      &attrs);
	if (!r)
		s->mode = attrs.has_mode ? (int)(attrs.mode & 02777) : NOT_THERE;
	return r;
}

static int check_directory(struct ssh *s, const char *path)
{
	struct sftp_attrs attrs;
	int r = sftp_answer_attrs(s->sftp, sftp_ask_path(s->sftp, SFTP_STAT, path),
	                          &attrs);

	return r ? r : !attrs.has_mode || S_ISDIR(attrs.mode) ? 0 : -ENOTDIR;
}

/* Makes a directory and those above that are missing. depth: how many more. */
static int make_directory(struct ssh *s, const char *path, int mode, unsigned depth)
{
	_cleanup_free_ char *above = parent_of(path);
	int r;

	if (!above)
		return -ENOMEM;
	r = sftp_answer(s->sftp, sftp_ask_mode(s->sftp, SFTP_MKDIR, path, NOT_THERE));
	if (r == -ENOENT && depth && strcmp(above, path) != 0) {
		bool below = strlen(above) > strlen(s->root);

		r = make_directory(s, above, below ? mode : NOT_THERE, depth - 1);
		if (!r)
			r = sftp_answer(s->sftp, sftp_ask_mode(s->sftp, SFTP_MKDIR, path,
			                                       NOT_THERE));
	}
	if (r == -EIO || r == -EACCES) { /* maybe it is there */
		int other = check_directory(s, path);

		return other == -ENOENT ? r : other;
	}
	if (r)
		return r;
	/* an error means that there are no permissions */
	if (mode != NOT_THERE)
		(void)!sftp_answer(s->sftp,
		                   sftp_ask_mode(s->sftp, SFTP_SETSTAT, path, mode));
	return sync_directory(s, above, NULL);
}

/* Makes the directory of a name, and the remote's own. */
static int make_parents(struct ssh *s, const char *dir)
{
	int r = find_mode(s);

	if (r == -ENOENT)
		r = make_directory(s, s->root, NOT_THERE, 64);
	if (!r)
		r = find_mode(s);
	return r || !strcmp(dir, s->root) ? r
	                                  : make_directory(s, dir, s->mode, DEPTH_MAX);
}

/* --- gets --- */

struct get {
	const char *path;
	uint64_t offset;
	size_t len;
	struct shfs_buf *out;
};

/* Reads what an answer left out: a server may give less than was asked for. */
static int read_rest(struct ssh *s, const struct sftp_handle *handle, uint64_t offset,
                     size_t len, struct shfs_buf *out)
{
	int r = 0;

	while (len && !r) {
		size_t before = out->len;

		r = sftp_answer_data(s->sftp, sftp_ask_read(s->sftp, handle, offset, len),
		                     len, out);
		if (!r && out->len == before)
			r = -EPROTO;
		offset += out->len - before;
		len -= out->len - before;
	}
	return r;
}

struct flight {
	uint32_t *ids;
	size_t n, asked, answered; /* requests: all, sent, answered */
};

/* Reads len bytes, many requests at once. Stops at the end of the file. */
static int read_flight(struct ssh *s, const struct sftp_handle *handle,
                       const struct get *get, size_t len)
{
	size_t each = sftp_read_max(s->sftp), at_once = SFTP_FLIGHT_BYTES / each;
	struct flight f = { .n = (len + each - 1) / each };
	struct shfs_buf unused = { 0 };
	int r = 0;

	f.ids = calloc(f.n ?: 1, sizeof(*f.ids));
	if (!f.ids)
		return -ENOMEM;
	/* each that was asked is answered, also after an error */
	while (f.answered < f.n && (!r || f.answered < f.asked)) {
		size_t done = f.answered * each, want = MIN(each, len - done);
		size_t before = get->out->len;

		while (!r && f.asked < f.n && f.asked - f.answered < at_once) {
			size_t at = f.asked * each;

			f.ids[f.asked++] =
				sftp_ask_read(s->sftp, handle, get->offset + at,
			                      MIN(each, len - at));
		}
		if (r) {
			(void)!sftp_answer_data(s->sftp, f.ids[f.answered++], want,
			                        &unused);
			unused.len = 0;
			continue;
		}
		r = sftp_answer_data(s->sftp, f.ids[f.answered++], want, get->out);
		before = get->out->len - before;
		if (!r && before < want)
			r = read_rest(s, handle, get->offset + done + before,
			              want - before, get->out);
	}
	free(f.ids);
	shfs_buf_free(&unused);
	return r == -ENODATA ? 0 : r;
}

static int get_once(struct ssh *s, void *arg)
{
	const struct get *get = arg;
	size_t before = get->out->len, len = get->len;
	uint32_t stat = sftp_ask_path(s->sftp, SFTP_LSTAT, get->path);
	uint32_t open = sftp_ask_open(s->sftp, get->path, SFTP_OPEN_READ, -1);
	struct sftp_handle handle;
	struct sftp_attrs attrs;
	int r = sftp_answer_attrs(s->sftp, stat, &attrs);
	int opened = sftp_answer_handle(s->sftp, open, &handle);

	if (!r && !is_regular(&attrs))
		r = -EBADMSG;
	if (!r)
		r = opened;
	if (!r && attrs.has_bytes)
		len = (size_t)MIN((uint64_t)len,
		                  attrs.bytes - MIN(get->offset, attrs.bytes));
	if (!r)
		r = read_flight(s, &handle, get, len);
	if (!opened)
		sftp_close(s->sftp, &handle);
	if (r) /* another try begins anew */
		get->out->len = before;
	return r;
}

static int get_blob(struct shfs_remote *remote, const char *name, uint64_t offset,
                    size_t len, struct shfs_buf *out)
{
	_cleanup_free_ char *path = path_of(of(remote), name);
	struct get get = { path, offset, len, out };

	return path ? attempt(of(remote), get_once, &get) : -ENOMEM;
}

struct stat_wish {
	const char *path;
	uint64_t bytes;
};

static int stat_once(struct ssh *s, void *arg)
{
	struct stat_wish *wish = arg;
	struct sftp_attrs attrs;
	int r = sftp_answer_attrs(s->sftp, sftp_ask_path(s->sftp, SFTP_LSTAT, wish->path),
	                          &attrs);

	if (!r && (!is_regular(&attrs) || !attrs.has_bytes))
		r = -EBADMSG;
	if (!r)
		wish->bytes = attrs.bytes;
	return r;
}

static int stat_blob(struct shfs_remote *remote, const char *name, uint64_t *bytes)
{
	_cleanup_free_ char *path = path_of(of(remote), name);
	struct stat_wish wish = { .path = path };
	int r = path ? attempt(of(remote), stat_once, &wish) : -ENOMEM;

	if (!r)
		*bytes = wish.bytes;
	return r;
}

/* --- puts --- */

struct put {
	char *path, *dir, *temp;
	const void *data;
	size_t len;
	bool began;    /* temp may be there */
	bool in_doubt; /* a connection was lost when the name may have been given */
	bool had_dir;
};

static int make_temp(struct put *put)
{
	uint64_t number;

	free(TAKE_PTR(put->temp));
	put->began = false;
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -EIO;
	if (asprintf(&put->temp, "%s/" TEMP_PREFIX "%016" PRIx64, put->dir, number) < 0) {
		put->temp = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* Gives the file its permissions, syncs and closes it. A server does these in order. */
static int finish_temp(struct ssh *s, const struct sftp_handle *handle, bool good)
{
	bool syncs = good && sftp_extensions(s->sftp)->fsync;
	uint32_t mode = sftp_ask_fsetstat(s->sftp, handle, s->mode & 0666);
	uint32_t sync = syncs ? sftp_ask_fsync(s->sftp, handle) : 0;
	uint32_t close = sftp_ask_handle(s->sftp, SFTP_CLOSE, handle);
	int r = 0, closed;

	/* an error means that there are no permissions */
	(void)!sftp_answer(s->sftp, mode);
	if (syncs)
		r = sftp_answer(s->sftp, sync);
	closed = sftp_answer(s->sftp, close);
	return r ? r : closed;
}

/* Writes all bytes, many requests at once; then syncs and closes. */
static int write_flight(struct ssh *s, const struct put *put,
                        const struct sftp_handle *handle)
{
	size_t each = sftp_write_max(s->sftp), at_once = SFTP_FLIGHT_BYTES / each;
	struct flight f = { .n = (put->len + each - 1) / each };
	int r = 0, other;

	f.ids = calloc(f.n ?: 1, sizeof(*f.ids));
	if (!f.ids)
		return -ENOMEM;
	while (f.answered < f.n && (!r || f.answered < f.asked)) {
		while (!r && f.asked < f.n && f.asked - f.answered < at_once) {
			size_t at = f.asked * each;

			f.ids[f.asked++] = sftp_ask_write(s->sftp, handle, at,
			                                  (const char *)put->data + at,
			                                  MIN(each, put->len - at));
		}
		other = sftp_answer(s->sftp, f.ids[f.answered++]);
		r = r ? r : other;
	}
	free(f.ids);
	other = finish_temp(s, handle, !r);
	return r ? r : other;
}

static bool is_there(struct ssh *s, const char *path)
{
	struct sftp_attrs attrs;

	return !sftp_answer_attrs(s->sftp, sftp_ask_path(s->sftp, SFTP_LSTAT, path),
	                          &attrs);
}

/* Gives the file its name, if nothing has it. A link never replaces anything, and neither
 * does the rename of version 3, if the server does as it should. */
static int name_temp(struct ssh *s, struct put *put)
{
	int r = -EOPNOTSUPP;

	put->in_doubt = true;
	if (sftp_extensions(s->sftp)->hardlink)
		r = sftp_answer(s->sftp,
		                sftp_ask_hardlink(s->sftp, put->temp, put->path));
	if (!r || r == -ENOLINK || r == -EPROTO)
		return r;
	if (is_there(s, put->path))
		return -EEXIST;
	/* it has no links, or its file system has not */
	r = sftp_answer(s->sftp, sftp_ask_rename(s->sftp, put->temp, put->path));
	if (!r)
		put->began = false;
	return r == -EIO && is_there(s, put->path) ? -EEXIST : r;
}

/* A server says no more than "Failure" if its disk is full. */
static int look_for_room(struct ssh *s, int error)
{
	uint64_t blocks, files;

	if (error != -EIO || !sftp_extensions(s->sftp)->statvfs)
		return error;
	if (!sftp_answer_free(s->sftp,
	                      sftp_ask_about(s->sftp, "statvfs@openssh.com", s->root),
	                      &blocks, &files) &&
	    (!blocks || !files))
		return -ENOSPC;
	return error;
}

/* Opens the file that is to be named, unless something has the name. */
static int open_temp(struct ssh *s, struct put *put, struct sftp_handle *handle)
{
	uint32_t stat = sftp_ask_path(s->sftp, SFTP_LSTAT, put->path);
	uint32_t open =
		sftp_ask_open(s->sftp, put->temp,
	                      SFTP_OPEN_WRITE | SFTP_OPEN_CREATE | SFTP_OPEN_EXCLUSIVE,
	                      0600);
	struct sftp_attrs attrs;
	int r = sftp_answer_attrs(s->sftp, stat, &attrs);
	int opened = sftp_answer_handle(s->sftp, open, handle);

	put->began = true; /* also if no answer came */
	if (opened && opened != -ENOLINK)
		put->began = false;
	if (r == -ENOENT)
		return opened;
	if (!opened)
		sftp_close(s->sftp, handle);
	return r ? r : -EEXIST;
}

/* What has the name: did an earlier try put it, of which no answer came? */
static int compare(struct ssh *s, const struct put *put)
{
	_cleanup_buf_ struct shfs_buf bytes = { 0 };
	struct get get = { put->path, 0, put->len + 1, &bytes };
	int r = get_once(s, &get);

	if (r)
		return r;
	return bytes.len == put->len && !memcmp(bytes.data ?: "", put->data, put->len)
	               ? 0
	               : -EEXIST;
}

static int put_file(struct ssh *s, struct put *put)
{
	struct sftp_handle handle;
	int r = find_mode(s);

	if (!r)
		r = open_temp(s, put, &handle);
	if (r == -ENOENT) {
		r = make_parents(s, put->dir);
		if (!r)
			r = open_temp(s, put, &handle);
	}
	if (!r)
		r = write_flight(s, put, &handle);
	return r ? r : name_temp(s, put);
}

static int put_once(struct ssh *s, void *arg)
{
	struct put *put = arg;
	bool was_in_doubt = put->in_doubt;
	int r;

	if (put->began && sftp_do_path(s->sftp, SFTP_REMOVE, put->temp) == -ENOLINK)
		return -ENOLINK; /* what an earlier try has left */
	/* Each try has a name of its own: a server that still works on what came by the
	 * connection before must not give the name to what is half written now. */
	r = make_temp(put);
	if (!r)
		r = put_file(s, put);
	if (r == -ENOLINK || r == -EPROTO)
		return r;
	r = look_for_room(s, r);
	if (r == -EEXIST && was_in_doubt)
		r = compare(s, put);
	if (r && put->began)
		(void)!sftp_do_path(s->sftp, SFTP_REMOVE, put->temp);
	else if (!r &&
	         sync_directory(s, put->dir, put->began ? put->temp : NULL) == -ENOLINK)
		return -ENOLINK;
	return r;
}

static int put_blob(struct shfs_remote *remote, const char *name, const void *data,
                    size_t len)
{
	struct ssh *s = of(remote);
	struct put put = { .path = path_of(s, name), .data = data, .len = len };
	int r;

	put.dir = put.path ? parent_of(put.path) : NULL;
	r = put.dir ? attempt(s, put_once, &put) : -ENOMEM;
	free(put.path);
	free(put.dir);
	free(put.temp);
	return r;
}

static int remove_once(struct ssh *s, void *arg)
{
	_cleanup_free_ char *dir = parent_of(arg);
	int r = dir ? sftp_do_path(s->sftp, SFTP_REMOVE, arg) : -ENOMEM;

	if (!r)
		r = sync_directory(s, dir, NULL);
	return r == -ENOENT ? 0 : r;
}

static int remove_blob(struct shfs_remote *remote, const char *name)
{
	_cleanup_free_ char *path = path_of(of(remote), name);

	return path ? attempt(of(remote), remove_once, path) : -ENOMEM;
}

/* --- listing --- */

struct names {
	char **list;
	size_t n, cap;
};

/* What was found: names below the directory that is listed. */
struct walk {
	const char *top; /* the path of the directory */
	struct names dirs, files, temps;
	uint64_t *bytes; /* of each file */
	size_t cap_bytes;
	const char *dir; /* that is read just now */
};

static void names_clear(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->list[i]);
	free(names->list);
	*names = (struct names){ 0 };
}

static void walk_clear(struct walk *w)
{
	names_clear(&w->dirs);
	names_clear(&w->files);
	names_clear(&w->temps);
	free(w->bytes);
	w->bytes = NULL;
	w->cap_bytes = 0;
}

static int add_name(struct names *names, const char *dir, struct shfs_bytes name)
{
	char *whole;

	if (names->n >= NAMES_MAX)
		return -E2BIG;
	if (!MAKE_ROOM(names->list, names->n, names->cap) ||
	    asprintf(&whole, "%s%s%.*s", dir, *dir ? "/" : "", (int)name.len, name.data) <
	            0)
		return -ENOMEM;
	names->list[names->n++] = whole;
	return 0;
}

static unsigned depth_of(const char *name)
{
	unsigned depth = *name != '\0';

	for (; *name; name++)
		depth += *name == '/';
	return depth;
}

static int note_entry(void *arg, struct shfs_bytes name, const struct sftp_attrs *attrs)
{
	struct walk *w = arg;
	size_t prefix = strlen(TEMP_PREFIX);

	if (!name.len || name.len > 255 || memchr(name.data, '/', name.len) ||
	    memchr(name.data, 0, name.len))
		return 0;
	if (*name.data == '.')
		return name.len > prefix && !memcmp(name.data, TEMP_PREFIX, prefix)
		               ? add_name(&w->temps, w->dir, name)
		               : 0;
	if (attrs->has_mode && S_ISDIR(attrs->mode))
		return depth_of(w->dir) < DEPTH_MAX ? add_name(&w->dirs, w->dir, name)
		                                    : 0;
	if (!attrs->has_mode || !S_ISREG(attrs->mode) || !attrs->has_bytes)
		return attrs->has_mode && attrs->has_bytes ? 0 : -EOPNOTSUPP;
	if (!MAKE_ROOM(w->bytes, w->files.n, w->cap_bytes))
		return -ENOMEM;
	w->bytes[w->files.n] = attrs->bytes;
	return add_name(&w->files, w->dir, name);
}

struct listed {
	const char *name;
	struct sftp_handle handle;
	uint32_t id;
	bool open, ended;
};

static int open_group(struct ssh *s, struct walk *w, size_t first, struct listed *group,
                      size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n; i++) {
		_cleanup_free_ char *path = NULL;

		group[i] = (struct listed){ .name = w->dirs.list[first + i] };
		if (asprintf(&path, "%s%s%s", w->top, *group[i].name ? "/" : "",
		             group[i].name) < 0)
			path = NULL;
		group[i].id = sftp_ask_path(s->sftp, SFTP_OPENDIR, path ?: "");
		r = path ? r : -ENOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		int opened = sftp_answer_handle(s->sftp, group[i].id, &group[i].handle);

		group[i].open = !opened;
		group[i].ended = opened;
		if (opened && opened != -ENOENT)
			r = r ? r : opened;
	}
	return r;
}

/* Lists some directories at once. Those in them are added behind. */
static int list_group(struct ssh *s, struct walk *w, size_t first, size_t n)
{
	struct listed group[GROUP];
	int r = open_group(s, w, first, group, n);
	bool more = true;

	while (more && !r) {
		more = false;
		for (size_t i = 0; i < n; i++)
			if (!group[i].ended)
				group[i].id = sftp_ask_handle(s->sftp, SFTP_READDIR,
				                              &group[i].handle);
		for (size_t i = 0; i < n; i++) {
			int read;

			if (group[i].ended)
				continue;
			w->dir = group[i].name;
			read = sftp_answer_names(s->sftp, group[i].id, note_entry, w);
			group[i].ended = read;
			more |= !read;
			if (read != -ENODATA)
				r = r ? r : read;
		}
	}
	for (size_t i = 0; i < n; i++)
		if (group[i].open)
			group[i].id =
				sftp_ask_handle(s->sftp, SFTP_CLOSE, &group[i].handle);
	for (size_t i = 0; i < n; i++)
		if (group[i].open)
			(void)!sftp_answer(s->sftp, group[i].id);
	return r;
}

static int walk_once(struct ssh *s, void *arg)
{
	struct walk *w = arg;
	int r;

	walk_clear(w);
	r = add_name(&w->dirs, "", (struct shfs_bytes){ "", 0 });
	for (size_t i = 0; i < w->dirs.n && !r;) {
		size_t n = MIN(w->dirs.n - i, (size_t)GROUP);

		r = list_group(s, w, i, n);
		i += n;
	}
	return r;
}

static int list_ssh(struct shfs_remote *remote, const char *dir, shfs_remote_fn fn,
                    void *arg)
{
	_cleanup_free_ char *top = path_of(of(remote), dir);
	struct walk w = { .top = top };
	struct shfs_buf name = { 0 };
	int r = top ? attempt(of(remote), walk_once, &w) : -ENOMEM;

	/* only now: a try that failed has told nobody anything */
	for (size_t i = 0; i < w.files.n && !r; i++) {
		name.len = 0;
		shfs_buf_printf(&name, "%s%s%s", dir, *dir ? "/" : "", w.files.list[i]);
		r = name.failed ? -ENOMEM : fn(arg, name.data, w.bytes[i]);
	}
	shfs_buf_free(&name);
	walk_clear(&w);
	return r;
}

static int sweep_once(struct ssh *s, void *arg)
{
	struct walk *w = arg;
	int r = walk_once(s, w);

	for (size_t i = 0; i < w->temps.n && !r; i++) {
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, "%s/%s", w->top, w->temps.list[i]) < 0)
			return -ENOMEM;
		r = remove_once(s, path);
	}
	return r;
}

static int sweep_ssh(struct shfs_remote *remote, const char *dir)
{
	_cleanup_free_ char *top = path_of(of(remote), dir);
	struct walk w = { .top = top };
	int r = top ? attempt(of(remote), sweep_once, &w) : -ENOMEM;

	walk_clear(&w);
	return r;
}

const struct shfs_backend shfs_backend_ssh = {
	.scheme = SSH_SCHEME,
	.open = open_ssh,
	.close = close_ssh,
	.list = list_ssh,
	.get = get_blob,
	.put = put_blob,
	.stat = stat_blob,
	.remove = remove_blob,
	.sweep = sweep_ssh,
};
