/* SPDX-License-Identifier: MIT */
#include "recording/outside.h"

#include "common/clock.h"
#include "common/operand.h"
#include "common/path.h"
#include "common/proc.h"
#include "store/capture/capture.h"
#include "store/objects/object.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define FILES_MAX 64 /* of one process */
#define LINKS_MAX 8  /* that are followed from one name */
#define TICK_NS   (SHFS_NSEC_PER_SEC / 100)

int shfs_outside_view_new(const char *root, int root_fd, const struct shfs_config *config,
                          struct shfs_outside_view **out)
{
	struct shfs_outside_view *view = calloc(1, sizeof(*view));
	int r;

	if (!view)
		return -ENOMEM;
	view->root = strdup(root);
	view->whole_max = config->fingerprint_bytes;
	shfs_local_init(&view->local, view->root ?: root, root_fd);
	r = view->root ? shfs_rules_new(config, NULL, &view->rules) : -ENOMEM;
	if (r) {
		shfs_outside_view_free(view);
		return r;
	}
	*out = view;
	return 0;
}

void shfs_outside_view_free(struct shfs_outside_view *view)
{
	if (!view)
		return;
	shfs_local_clear(&view->local);
	shfs_rules_free(view->rules);
	free(view->root);
	free(view);
}

void shfs_outside_clear(struct shfs_outside *files)
{
	for (size_t i = 0; i < files->n; i++)
		free(files->list[i].path);
	free(files->list);
	*files = (struct shfs_outside){ 0 };
}

/* A process that is looked at. */
struct look {
	struct shfs_outside_view *view;
	const struct shfs_outside_process *process;
	int64_t began_ns; /* real time at which its job had surely begun; 0: not asked yet
	                   */
	struct shfs_outside *out;
};

/* --- the process --- */

/* Gets when the process's job began: its group's leader, or if that is gone the process
 * itself. */
static uint64_t find_job_begin(const struct shfs_proc_stat *stat)
{
	_cleanup_close_ int leaderfd = stat->pgid ? shfs_proc_open(stat->pgid) : -ESRCH;
	struct shfs_proc_stat leader;

	if (leaderfd >= 0 && !shfs_proc_read_stat(leaderfd, &leader))
		return MIN(stat->start_ticks, leader.start_ticks);
	return stat->start_ticks;
}

/* Returns the real time of the end of a tick. */
static int64_t end_of_tick(uint64_t ticks)
{
	struct shfs_time now = shfs_time_now();

	return now.real_ns - (int64_t)now.boot_ns + (int64_t)(ticks + 1) * TICK_NS;
}

/* Is the process the same user's, and do paths mean for it what they mean here? */
static bool is_alike(int procfd)
{
	struct stat st;

	return !fstat(procfd, &st) && st.st_uid == geteuid() &&
	       shfs_proc_shares_root(procfd) > 0;
}

/* --- its files --- */

static bool was_changed(struct look *l, const struct stat *st)
{
	int64_t changed_ns =
		MAX(shfs_timespec_ns(st->st_mtim), shfs_timespec_ns(st->st_ctim));

	return changed_ns >= l->began_ns;
}

/* Opens a regular file, nothing else: the open of a pipe or a device can be felt. */
static int open_regular(struct shfs_outside_view *view, const char *path, struct stat *st,
                        char **real)
{
	_cleanup_close_ int fd = shfs_local_open(&view->local, path, real);
	char name[32];
	int r;

	if (fd < 0 || fstat(fd, st) || !S_ISREG(st->st_mode))
		return -1;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	r = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOATIME);
	return r >= 0 || errno != EPERM /* not the owner */
	               ? r
	               : open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

void shfs_named_take(struct shfs_named *named, int fd, const struct stat *st,
                     bool is_secret, uint64_t whole_max)
{
	struct shfs_content *out = &named->content;

	*out = (struct shfs_content){
		.flags = SHFS_CONTENT_KNOWN,
		.mode = st->st_mode,
		.size = st->st_size,
		.mtime_ns = shfs_timespec_ns(st->st_mtim),
		.ctime_ns = shfs_timespec_ns(st->st_ctim),
	};
	if (is_secret)
		out->flags |= SHFS_CONTENT_SKIP_RULE;
	else if (shfs_object_fingerprint(fd, whole_max, out))
		out->flags |= SHFS_CONTENT_SKIP_ERROR;
}

static bool is_listed(const struct shfs_outside *files, const char *path)
{
	for (size_t i = 0; i < files->n; i++)
		if (!strcmp(files->list[i].path, path))
			return true;
	return false;
}

/* Follows the first link on the way from the root to path: the path that it leads to,
 * for the caller; NULL: there is no link. */
static char *follow_link(struct shfs_outside_view *view, const char *path)
{
	const char *way = shfs_path_relative(path, view->root);
	char target[PATH_MAX];

	for (size_t len = strcspn(way, "/"); *way; len += strcspn(way + len, "/")) {
		_cleanup_free_ char *part = strndup(way, len), *dir = NULL, *leads = NULL;
		char *slash = part ? strrchr(part, '/') : NULL;
		ssize_t n = part ? readlinkat(view->local.root_fd, part, target,
		                              sizeof(target) - 1)
		                 : -1;

		if (n > 0) {
			target[n] = '\0';
			if (slash)
				*slash = '\0';
			dir = shfs_path_join(view->root, slash ? part : "");
			leads = dir ? shfs_path_join(dir, target) : NULL;
			free(TAKE_PTR(part));
			part = leads ? shfs_path_join(leads, way + len + !!way[len])
			             : NULL;
			return part ? shfs_path_absolute(part) : NULL;
		}
		if (!way[len])
			return NULL;
		len++;
	}
	return NULL;
}

/* Takes ownership of path. Gives the path outside that it is or leads to; NULL. */
static char *find_outside(struct shfs_outside_view *view, char *path)
{
	for (int links = 0; path && shfs_path_is_below(path, view->root); links++) {
		char *next = links < LINKS_MAX ? follow_link(view, path) : NULL;

		free(path);
		path = next;
	}
	return path;
}

/* Takes ownership of path. */
static void look_at_file(struct look *l, char *path)
{
	_cleanup_free_ char *owned = find_outside(l->view, path), *real = NULL;
	const struct shfs_rules *rules = l->view->rules;
	_cleanup_close_ int fd = -1;
	struct shfs_named named;
	struct stat st;

	path = owned;
	if (!path || l->out->n == FILES_MAX || shfs_path_is_system(path) ||
	    is_listed(l->out, path))
		return;
	if (!l->began_ns)
		l->began_ns = is_alike(l->process->procfd)
		                      ? end_of_tick(l->process->job_ticks)
		                      : INT64_MIN;
	fd = l->began_ns == INT64_MIN ? -1 : open_regular(l->view, path, &st, &real);
	if (fd < 0 || was_changed(l, &st) || shfs_path_is_system(real) ||
	    shfs_path_is_below(real, l->view->root))
		return;
	named = (struct shfs_named){ .dev = st.st_dev, .ino = st.st_ino };
	shfs_named_take(&named, fd, &st,
	                shfs_rules_is_secret(rules, path + 1, false) ||
	                        shfs_rules_is_secret(rules, real + 1, false),
	                l->view->whole_max);
	if (!MAKE_ROOM(l->out->list, l->out->n, l->out->cap))
		return;
	named.path = TAKE_PTR(owned);
	l->out->list[l->out->n++] = named;
}

static int look_at_operand(const char *operand, bool is_output, void *arg)
{
	struct look *l = arg;
	_cleanup_free_ char *joined = NULL;

	if (is_output || (*operand != '/' && !*l->process->cwd))
		return 0;
	joined = shfs_path_join(l->process->cwd, operand);
	if (joined)
		look_at_file(l, shfs_path_absolute(joined));
	return l->out->n == FILES_MAX;
}

void shfs_outside_look_at(struct shfs_outside_view *view,
                          const struct shfs_outside_process *process,
                          struct shfs_outside *out)
{
	struct look l = { .view = view, .process = process, .out = out };

	if (process->argv.len)
		shfs_operands_each(process->exe, process->argv.data, process->argv.len,
		                   look_at_operand, &l);
	if (*process->input == '/')
		look_at_file(&l, strdup(process->input));
}

void shfs_outside_look(struct shfs_outside_view *view, int procfd,
                       const struct shfs_proc_stat *stat, const struct shfs_buf *argv,
                       struct shfs_outside *out)
{
	_cleanup_buf_ struct shfs_buf exe = { 0 }, cwd = { 0 }, input = { 0 };

	if (stat->pid == stat->sid && stat->tty_nr)
		return; /* the shell of a terminal: its words are no command's */
	(void)!shfs_proc_link(procfd, "exe", &exe);
	(void)!shfs_proc_link(procfd, "cwd", &cwd);
	(void)!shfs_proc_link(procfd, "fd/0", &input);
	shfs_outside_look_at(view,
	                     &(struct shfs_outside_process){
				     .procfd = procfd,
				     .exe = exe.data ?: "",
				     .cwd = cwd.data ?: "",
				     .input = input.data ?: "",
				     .argv = { argv->data, stat->forked ? 0 : argv->len },
				     .job_ticks = find_job_begin(stat),
			     },
	                     out);
}

void shfs_named_emit(const struct shfs_named *named, struct shfs_capture *capture,
                     uint64_t process, struct shfs_time time)
{
	struct shfs_record rec = {
		.type = SHFS_REC_ACCESS,
		.access = {
			.process = process,
			.flags = SHFS_ACCESS_READ | SHFS_ACCESS_NAMED,
			.begin = time,
			.last = time,
			.path = shfs_bytes_str(named->path),
			.dev = named->dev,
			.ino = named->ino,
			.seen = named->content,
		},
	};

	shfs_capture_emit(capture, &rec, NULL);
}

void shfs_outside_emit(const struct shfs_outside *files, struct shfs_capture *capture,
                       uint64_t process, struct shfs_time time)
{
	for (size_t i = 0; i < files->n; i++)
		shfs_named_emit(&files->list[i], capture, process, time);
}
