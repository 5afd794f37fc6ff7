/* SPDX-License-Identifier: MIT */
#include "query/remote/demand/demand.h"

#include "common/io.h"
#include "common/quote.h"
#include "query/base/progress.h"
#include "query/remote/cmd/messages.h"
#include "query/remote/cmd/unlock.h"
#include "query/remote/elsewhere.h"
#include "query/remote/heads.h"
#include "query/remote/peer/host.h"
#include "query/remote/pull.h"
#include "query/remote/ssh/program.h"
#include "store/objects/away.h"
#include "store/objects/content.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_MS 30000 /* for a push or pull that is at work */
#define IDLE_MS 2000  /* then a host is not kept from its own work any longer */
#define WHAT    "fetch contents from"

/* --- the process that reads --- */

/* The process that reads asks for this content. */
struct question {
	struct shfs_object_id id;
	bool paged; /* a pager has the terminal: nobody else may use it */
};

static struct {
	pthread_mutex_t lock;
	int fd;
	pid_t pid;
	bool terminal; /* standard output was one at the beginning: if not now, there is
	                * a pager */
	bool said;     /* that the other process has ended */
} asking = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };

static int ask(struct shfs_store *store, const struct shfs_object_id *id)
{
	struct question question;
	ssize_t n;
	int r = 0;

	memset(&question, 0, sizeof(question));
	question.id = *id;
	question.paged = asking.terminal && !isatty(STDOUT_FILENO);
	pthread_mutex_lock(&asking.lock);
	/* if that one was killed, this one is not to die by SIGPIPE */
	n = send(asking.fd, &question, sizeof(question), MSG_NOSIGNAL);
	if (n == (ssize_t)sizeof(question))
		do
			n = read(asking.fd, &r, sizeof(r));
		while (n < 0 && errno == EINTR);
	else
		n = -1;
	if (n != (ssize_t)sizeof(r)) {
		r = -EPIPE;
		if (!asking.said)
			shfs_error("cannot fetch contents: the process that fetches them "
			           "has ended");
		asking.said = true;
	}
	pthread_mutex_unlock(&asking.lock);
	return r;
}

/* --- the process that fetches --- */

/* A remote, or a host that was fetched from. */
struct source {
	struct place place;
	char *host, *program;       /* of a host (host.h), else NULL */
	struct shfs_remote *remote; /* NULL: there is no connection */
	bool failed;                /* it is not asked again */
	bool said;                  /* what is wrong with it */
	bool tried;                 /* for the content that is wanted */
};

struct supplier {
	struct shfs_store *store;
	struct source *list;
	size_t n, cap;
	struct shfs_objects wanted; /* one object */
	struct source *at;
	uint64_t rate; /* bytes per second; 0: any number */
	bool begun;    /* the sources are listed */
	bool brought;
	bool said;         /* something of what keeps contents from coming */
	bool said_in_vain; /* that no source had one */
	bool paged;        /* as in the question */
};

static void disconnect(struct source *source)
{
	shfs_remote_close(TAKE_PTR(source->remote));
}

static void source_clear(struct source *source)
{
	disconnect(source);
	free(source->host);
	free(source->program);
	place_close(&source->place);
}

static void warn_of_place(void *arg, const char *name, int error)
{
	struct supplier *s = arg;

	s->said = true;
	shfs_warn("cannot " WHAT " %s: what is known of it here cannot be read: %s", name,
	          strerror(-error));
}

static int add_source(void *arg, const struct place *place)
{
	struct supplier *s = arg;
	struct source source = { .place.dirfd = -1 };
	int r;

	if (place_name_is_valid(place->name))
		r = place_open(s->store, place->name, &source.place);
	else
		r = host_read(place, &source.host, &source.program)
		            ?: place_open_unnamed(s->store, place->url, &source.place);
	if (!r && !MAKE_ROOM(s->list, s->n, s->cap))
		r = -ENOMEM;
	if (!r) {
		s->list[s->n++] = source;
		return 0;
	}
	source_clear(&source);
	if (r != -ENOENT) /* else contents came with the records */
		warn_of_place(s, place->name, r);
	return 0;
}

/* The command of shfs that brings the record of a source. */
static const char *verb_of(const struct source *source)
{
	return source->host ? "fetch" : "pull";
}

static const char *name_of(const struct source *source)
{
	return source->host ?: source->place.name;
}

/* Says once what went wrong. why: of a host. What moved, or is damaged, may be one
 * content of many; after other errors the source is not asked again. */
static int fail(struct source *source, int error, const char *why)
{
	shfs_progress_end();
	source->failed = error != -ENODATA && error != -EBADMSG;
	if (source->said)
		return error;
	source->said = true;
	if (error == -ENODATA) {
		shfs_error("cannot " WHAT " %s: they lie elsewhere there by now",
		           name_of(source));
		shfs_hint("shfs %s --metadata %s looks where; then try again",
		          verb_of(source), name_of(source));
	} else if (source->host) {
		_cleanup_buf_ struct shfs_buf shown = { 0 };

		why = *why ? why : strerror(-error);
		shfs_quote_display(&shown, why, strlen(why));
		shfs_error("cannot " WHAT " %s: %s", source->host, shown.data ?: "");
	} else {
		(void)!remote_fail(WHAT, &source->place, source->remote, error);
	}
	return error;
}

/* ssh could not ask for a password or about a key, as a pager has the terminal. */
static void hint_pull(const struct source *source)
{
	if (!strncmp(source->place.url, "ssh://", 6) ||
	    ssh_url_is_short(source->place.url))
		shfs_hint("ssh asks nothing while a pager runs: shfs %s %s asks, and "
		          "so does --no-pager",
		          verb_of(source), name_of(source));
}

static int connect_to_host(struct source *source)
{
	_cleanup_ssh_url_ struct ssh_url url = { 0 };
	_cleanup_buf_ struct shfs_buf why = { 0 };
	int r = host_parse(source->host, &url);

	if (!r)
		r = host_open(&url, source->program, &why, &source->remote);
	shfs_buf_u8(&why, 0);
	return r ? fail(source, r, why.failed ? "" : why.data) : 0;
}

static int connect_to(struct source *source, uint64_t rate, bool paged)
{
	int r;

	if (source->remote)
		return 0;
	if (source->host ? connect_to_host(source)
	                 : remote_connect(WHAT, &source->place, NULL, &source->remote)) {
		source->failed = source->said = true;
		if (paged)
			hint_pull(source);
		return -ENOLINK;
	}
	source->remote->rate = rate;
	r = remote_look(source->remote);
	if (!r)
		return 0;
	r = fail(source, r, shfs_remote_why(source->remote));
	source->failed = true;
	if (paged)
		hint_pull(source);
	return r;
}

/* May these files have the object? They may if a list cannot be read. */
static bool may_have(int lists, const struct manifest *files,
                     const struct shfs_object_id *id)
{
	bool found = false;

	for (size_t i = 0; i < files->n && !found; i++) {
		const struct remote_file *file = &files->files[i];
		_cleanup_contents_ struct contents contents = { 0 };
		struct shfs_object_id loose;

		if (file_kind_of(file->name) == FILE_PACK)
			found = elsewhere_contents(lists, files, file, &contents) ||
			        contents_find(&contents, id);
		else if (file_kind_of(file->name) == FILE_LOOSE &&
		         !file_loose_id(file->name, &loose))
			found = shfs_object_equal(&loose, id);
	}
	return found;
}

static int is_here(struct supplier *s)
{
	int r = packs_relearn(s->store);

	return r ? r : content_look(s->store, &s->wanted.ids[0]) == 0;
}

/* Fetches the content from the source. A connection to a host that was lost, or whose
 * store has changed a name meanwhile, is made again, once: it may have been silent for
 * long, and others made theirs anew by themselves. */
static int bring_from(struct supplier *s, const char *store_id,
                      const struct manifest *files)
{
	struct source *source = s->at;
	int r = -ENOLINK;

	for (int i = 0; i < 2 && (r == -ENOLINK || r == -EAGAIN); i++) {
		if (i)
			disconnect(source);
		if (connect_to(source, s->rate, s->paged))
			return -ENOLINK;
		if (!s->paged)
			shfs_progress_begin("fetching contents");
		r = pull_bring(&source->place, source->remote, store_id, files,
		               &s->wanted, shfs_progress_bytes);
		shfs_progress_end();
		if (!source->host)
			break;
	}
	return r ? fail(source, r, shfs_remote_why(source->remote)) : 0;
}

static int bring_of_store(void *arg, const char *store_id, const struct manifest *files)
{
	struct supplier *s = arg;
	_cleanup_close_ int lists = elsewhere_lists(&s->at->place, store_id);
	int r;

	if (lists < 0 || s->brought || !may_have(lists, files, &s->wanted.ids[0]))
		return MIN(lists, 0);
	s->at->tried = true;
	if (s->at->failed || bring_from(s, store_id, files))
		return 0;
	r = is_here(s);
	s->brought = r > 0;
	if (r < 0)
		(void)fail(s->at, r, "");
	return 0;
}

/* Asks one source after the other. What is wrong with one does not keep others from being
 * asked. */
static int bring(struct supplier *s)
{
	int r = is_here(s); /* another process may have brought it */

	s->brought = r > 0;
	for (size_t i = 0; i < s->n && r >= 0 && !s->brought; i++) {
		int damage;

		s->at = &s->list[i];
		damage = elsewhere_each(&s->at->place, bring_of_store, s);
		if (damage && !s->at->said)
			warn_of_place(s, name_of(s->at), damage);
		s->at->said |= damage != 0;
	}
	return r < 0 ? r : s->brought ? 0 : -ENOENT;
}

/* Names all sources that were tried; or says that none of them lists the content. */
static void say_what_was_tried(const struct supplier *s)
{
	_cleanup_buf_ struct shfs_buf names = { 0 };

	for (size_t i = 0; i < s->n; i++)
		if (s->list[i].tried) {
			const char *name = name_of(&s->list[i]);

			shfs_buf_str(&names, names.len ? ", " : "");
			shfs_quote_display(&names, name, strlen(name));
		}
	if (names.len)
		shfs_error("cannot fetch contents: none came from %s", names.data);
	else
		shfs_error("cannot fetch contents: no remote has them where they were");
}

static void hint_where(const struct supplier *s, bool tried)
{
	bool hinted = false;

	for (size_t i = 0; i < s->n; i++)
		if (!tried || s->list[i].tried) {
			shfs_hint("shfs %s --metadata %s looks where they are by now",
			          verb_of(&s->list[i]), name_of(&s->list[i]));
			hinted = true;
		}
	if (!hinted)
		shfs_hint("shfs pull --metadata looks where they are by now");
}

/* Says once that nothing came: if several sources were tried, or nothing was said of why.
 */
static void say_nothing_came(struct supplier *s, int error)
{
	bool said = s->said;
	size_t n_tried = 0;

	for (size_t i = 0; i < s->n; i++) {
		said |= s->list[i].said;
		n_tried += s->list[i].tried;
	}
	if (s->said_in_vain || (said && n_tried < 2))
		return;
	s->said_in_vain = true;
	if (error == -ENOENT)
		say_what_was_tried(s);
	else
		shfs_error("cannot fetch contents: %s", strerror(-error));
	if (!said)
		hint_where(s, n_tried);
}

/* Lists the sources when the first content is wanted. */
static int begin(struct supplier *s)
{
	for (size_t i = 0; i < s->n; i++)
		s->list[i].tried = false;
	if (s->begun)
		return 0;
	s->begun = true;
	return place_each_source(s->store, add_source, warn_of_place, s);
}

static int supply(struct supplier *s, const struct shfs_object_id *id)
{
	_cleanup_close_ int lock = -1;
	int r;

	s->wanted.n = 0;
	r = shfs_objects_add(&s->wanted, id) ?: begin(s);
	if (!r)
		r = lock = shfs_store_lock(s->store->path, "remote", WAIT_MS);
	if (r == -EADDRINUSE && !s->said_in_vain) {
		s->said_in_vain = true;
		shfs_error("cannot fetch contents: another push or pull of this store is "
		           "at work");
		shfs_hint("try again when it has ended");
	}
	if (r >= 0) {
		shfs_soften_errors(true); /* another source may have it */
		r = bring(s);
		shfs_soften_errors(false);
	}
	if (r)
		say_nothing_came(s, r);
	return r;
}

/* While it is connected, a host can neither push nor prune (peer/serve.h). */
static void leave_hosts(struct supplier *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->list[i].host)
			disconnect(&s->list[i]);
}

/* Waits for the next question. False: there are no more. */
static bool hear(struct supplier *s, int fd, struct question *out)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int timeout = IDLE_MS, r;

	while ((r = poll(&p, 1, timeout)) <= 0) {
		if (r && errno != EINTR)
			return false;
		if (r)
			continue;
		leave_hosts(s);
		timeout = -1;
	}
	return read(fd, out, sizeof(*out)) == (ssize_t)sizeof(*out);
}

/* Standard input and output are those of the command alone. */
static void leave_standard_fds(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
}

static _Noreturn void serve(const char *path, uint64_t rate, int fd)
{
	struct supplier s = { .rate = rate };
	struct question question;
	int r;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* ^C is for a program that the command runs, which may go on afterwards */
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	leave_standard_fds();
	r = shfs_store_open(path, 0, &s.store);
	if (r)
		shfs_error("cannot fetch contents: %s", strerror(-r));
	while (!r && hear(&s, fd, &question)) {
		int answer;

		s.paged = question.paged;
		ssh_ask_nothing(s.paged);
		answer = supply(&s, &question.id);

		if (send(fd, &answer, sizeof(answer), MSG_NOSIGNAL) !=
		    (ssize_t)sizeof(answer))
			break;
	}
	for (size_t i = 0; i < s.n; i++)
		source_clear(&s.list[i]);
	_exit(0);
}

void demand_end(void)
{
	if (asking.fd < 0)
		return;
	shfs_object_supply_by(NULL);
	/* a child, such as one that waits to be the pager, may have a copy */
	shutdown(asking.fd, SHUT_RDWR);
	shfs_closep(&asking.fd);
	asking.fd = -1;
	while (waitpid(asking.pid, NULL, 0) < 0 && errno == EINTR)
		;
}

void demand_begin(struct shfs_context *ctx)
{
	const char *path = shfs_context_store_path(ctx);
	const struct shfs_config *config;
	int fds[2], code;
	pid_t pid;

	if (!shfs_store_has_away(path) ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return;
	config = shfs_context_config(ctx, &code);
	pid = fork();
	if (!pid) {
		close(fds[0]);
		serve(path, config ? config->demand_rate : 0, fds[1]);
	}
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return;
	}
	asking.terminal = isatty(STDOUT_FILENO);
	asking.fd = fds[0];
	asking.pid = pid;
	shfs_object_supply_by(ask);
}
