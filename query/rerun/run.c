/* SPDX-License-Identifier: MIT */
/* Runs the steps that rerun.c has checked. */
#include "query/rerun/rerun.h"

#include "common/clock.h"
#include "common/io.h"
#include "common/path.h"
#include "common/secrets.h"
#include "query/base/mounts.h"
#include "query/rerun/links.h"
#include "query/rerun/put-back.h"
#include "query/rerun/runner.h"
#include "query/restore/restore-journal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

struct run {
	struct shfs_rerun *rr;
	const struct shfs_rerun_watcher *watcher;
	struct shfs_runner runner;
	const char *shell; /* of the runner; NULL: none is running */
	struct shfs_restorer *restorer;
	struct shfs_restore_journal
		*journal;          /* if forced and no mount records; else NULL */
	struct shfs_before before; /* of the step that runs in place */
	struct shfs_before_place place;
	bool noted; /* before is, in place */
};

/* --- is it needed, and can it be run --- */

static bool is_input_changed(const struct shfs_rerun *rr,
                             const struct shfs_rerun_step *step,
                             const struct shfs_stale_input *input)
{
	const char *path = input->file->path;
	struct shfs_rerun_step *maker = shfs_rerun_maker(rr, path, step);
	struct shfs_rerun_result *result =
		maker ? shfs_rerun_result_of(maker, path) : NULL;

	if (input->changed || !input->file->present)
		return true;
	if (!maker)
		return input->file->run && input->file->run->stale;
	return maker->state == SHFS_RERUN_RAN && result &&
	       result->outcome != SHFS_RERUN_SAME;
}

static bool is_step_needed(const struct shfs_rerun *rr,
                           const struct shfs_rerun_step *step)
{
	if (!step->stale)
		return true;
	for (const struct shfs_stale_run *run = step->stale; run; run = run->next_job) {
		if (run->needed || run->failed)
			return true;
		for (size_t i = 0; i < run->n_inputs; i++)
			if (is_input_changed(rr, step, &run->inputs[i]))
				return true;
	}
	for (size_t i = 0; i < step->n_results; i++) {
		struct shfs_rerun_step *other =
			shfs_rerun_maker(rr, step->results[i].use->path, step);

		if (other && other->state == SHFS_RERUN_RAN) /* it has overwritten this
		                                              * result */
			return true;
	}
	return false;
}

/* --- in place: files that did not exist then --- */

/* Saves a content that would be lost, as far as rules and limits allow. */
static int save(struct run *run, const struct shfs_rerun_result *result)
{
	const char *path = result->use->path, *name = strrchr(path, '/') + 1;
	_cleanup_free_ char *dir = strndup(path, name - path);
	_cleanup_close_ int dirfd = -1, fd = -1;
	int r;

	if (!run->journal || result->before.flags & SHFS_CONTENT_OBJECT)
		return 0;
	dirfd = dir ? open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	fd = dirfd < 0 ? -1 : openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	r = shfs_restore_journal_enter(run->journal, dirfd);
	return r > 0 ? shfs_restore_journal_before(run->journal, name, fd) : r;
}

/* Adds files that did not exist then, and directories that it made, the innermost
 * first. */
static int clear_place(struct run *run, const struct shfs_rerun_step *step,
                       struct shfs_buf *away)
{
	const struct shfs_uses *uses = &step->entry.uses;
	int r = 0;

	for (size_t i = 0; i < step->n_results && !r; i++) {
		const struct shfs_use *use = step->results[i].use;

		r = save(run, &step->results[i]);
		if (use->born)
			shfs_buf_add(away, use->path, strlen(use->path) + 1);
	}
	for (size_t i = uses->n; i--;)
		if (uses->list[i].kind == SHFS_USE_MADE && uses->list[i].directory) {
			shfs_buf_str(away, uses->list[i].path);
			shfs_buf_add(away, "/", 2);
		}
	return r;
}

/* --- in place: what was there --- */

/* Adds the projects that the step works in: recorded now or, if forced, before. */
static int add_roots(struct run *run, const struct shfs_rerun_step *step)
{
	_cleanup_mounts_ struct shfs_mounts mounts = { 0 };
	const struct shfs_uses *uses = &step->entry.uses;
	const struct shfs_mount *mount;
	int r = shfs_mounts_list(0, NULL, &mounts);

	mount = r ? NULL : shfs_mounts_around(&mounts, step->entry.command.cwd);
	if (mount)
		r = shfs_before_add_root(&run->before, mount->dir);
	for (size_t i = 0; i < uses->n && !r; i++) {
		const struct shfs_use *use = &uses->list[i];
		_cleanup_version_ struct shfs_version v = { 0 };
		_cleanup_free_ char *root = NULL;

		if (use->kind == SHFS_USE_READ)
			continue;
		mount = shfs_mounts_around(&mounts, use->path);
		if (mount)
			r = shfs_before_add_root(&run->before, mount->dir);
		if (mount || r || !use->made_id)
			continue;
		r = shfs_version_load(run->rr->index, use->made_id, &v);
		if (r > 0)
			r = shfs_version_root(run->rr->index, &v, &root);
		if (r > 0)
			r = shfs_before_add_root(&run->before, root);
	}
	return MIN(r, 0);
}

/* Copies a file that the step is known to change, if the store does not have it. */
static int keep_known(struct run *run, const char *path)
{
	struct shfs_before_file *f = shfs_before_find(&run->before, path);
	_cleanup_version_ struct shfs_version version = { 0 };
	int r;

	if (!f)
		shfs_buf_add(&run->before.born, path, strlen(path) + 1);
	if (!f || f->known)
		return 0;
	f->known = true;
	if (!S_ISREG(f->mode))
		return 0;
	r = shfs_put_back_version(run->rr->index, f, run->before.begin_ns, &version);
	if (r > 0 && version.mtime_ns != f->mtime_ns)
		r = shfs_rerun_compare(run->rr, path, &version);
	if (!r)
		r = shfs_before_set_aside(&run->place, &run->before, f);
	return MIN(r, 0);
}

static int keep_all_known(struct run *run, const struct shfs_rerun_step *step)
{
	const struct shfs_uses *uses = &step->entry.uses;
	int r = 0;

	for (size_t i = 0; i < uses->n && !r; i++) {
		const struct shfs_use *use = &uses->list[i];

		if (use->kind == SHFS_USE_READ)
			continue;
		r = keep_known(run, use->path);
		if (!r && use->from && use->kind == SHFS_USE_RENAMED)
			r = keep_known(run, use->from);
	}
	for (size_t i = 0; i < uses->n_temporary && !r; i++)
		r = keep_known(run, uses->temporary[i].path);
	return r;
}

/* The exit status of its recorded run, or 0 if that failed. */
static int expected_status(const struct shfs_rerun_step *step)
{
	const struct shfs_command_row *c = &step->entry.command;

	return c->has_status && !(step->stale && step->stale->failed) ? (int)c->status
	                                                              : 0;
}

/* Notes in the store how the project is before the step. */
static int note_before(struct run *run, const struct shfs_rerun_step *step)
{
	struct shfs_before *before = &run->before;
	int r;

	shfs_before_clear(before);
	before->begin_ns = shfs_clock_ns(CLOCK_REALTIME);
	before->expected = expected_status(step);
	before->number = run->runner.number + 1;
	before->session = *run->runner.session ? strdup(run->runner.session) : NULL;
	r = *run->runner.session && !before->session ? -ENOMEM : add_roots(run, step);
	if (!r)
		r = shfs_before_look(before, run->rr->store);
	if (!r)
		r = keep_all_known(run, step);
	if (!r)
		r = shfs_before_save(&run->place, before);
	run->noted = !r;
	if (r)
		shfs_error("cannot keep what is there before the command");
	return r;
}

/* Checks results again: much time may have passed. 1 after a message. */
static int check_still(struct run *run, const struct shfs_rerun_step *step)
{
	for (size_t i = 0; i < step->n_results && !run->rr->options.force; i++) {
		const struct shfs_rerun_result *result = &step->results[i];
		const char *path = result->use->path;
		_cleanup_buf_ struct shfs_buf shown = { 0 };

		if (access(path, F_OK) || shfs_rerun_maker(run->rr, path, step))
			continue;
		if (result->before.path &&
		    shfs_rerun_compare(run->rr, path, &result->before) > 0)
			continue;
		shfs_show_path(&shown, path);
		shfs_error("%s was changed meanwhile", shown.data ?: "");
		return 1;
	}
	return 0;
}

/* --- in a scratch copy: files that existed then --- */

/* Opens the place of a directory in the copy, and makes what is missing of it. No link is
 * followed, as the copy may have links that lead elsewhere. A negative errno. */
static int enter_place(const struct run *run, const char *dir)
{
	_cleanup_free_ char *below = strdup(shfs_path_relative(dir, run->rr->base) ?: "");
	const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
	int fd = below ? open(run->rr->options.top, flags) : -ENOMEM;
	char *save = NULL;

	if (fd == -1)
		return -errno;
	for (char *part = below ? strtok_r(below, "/", &save) : NULL; part && fd >= 0;
	     part = strtok_r(NULL, "/", &save)) {
		int next = mkdirat(fd, part, 0777) && errno != EEXIST
		                   ? -1
		                   : openat(fd, part, flags | O_NOFOLLOW);

		next = next < 0 ? -errno : next;
		close(fd);
		fd = next;
	}
	return fd;
}

/* Opens the place of the directory of path; *name is borrowed from path. */
static int enter_parent(const struct run *run, const char *path, const char **name)
{
	_cleanup_free_ char *dir = strndup(path, strrchr(path, '/') - path);

	*name = strrchr(path, '/') + 1;
	return dir ? enter_place(run, dir) : -ENOMEM;
}

static int fail_place(const char *path, int error)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_show_path(&shown, path);
	shfs_error("cannot make %s in the copy: %s", shown.data ?: "",
	           error == -ELOOP || error == -ENOTDIR
	                   ? "it is behind a symbolic link, or a file"
	                   : strerror(-error));
	return 1;
}

static int make_dir(struct run *run, const struct shfs_uses *uses, const char *path,
                    bool parent)
{
	_cleanup_free_ char *dir = strdup(path);
	int fd;

	if (!dir)
		return -ENOMEM;
	if (parent)
		*strrchr(dir, '/') = '\0';
	if (!shfs_path_is_below(dir, run->rr->base) || shfs_uses_make_dir(uses, dir))
		return 0;
	fd = enter_place(run, dir);
	if (fd < 0)
		return fail_place(dir, fd);
	close(fd);
	return 0;
}

static int make_dirs(struct run *run, const struct shfs_rerun_step *step)
{
	const struct shfs_uses *uses = &step->entry.uses;
	int r = make_dir(run, uses, step->entry.command.cwd, false);

	for (size_t i = 0; i < uses->n && !r; i++)
		if (uses->list[i].kind != SHFS_USE_READ)
			r = make_dir(run, uses, uses->list[i].path, true);
	for (size_t i = 0; i < uses->n_temporary && !r; i++)
		r = make_dir(run, uses, uses->temporary[i].path, true);
	return r;
}

/* Copies a file that is not archived but still exists: 0, 1 after a message. */
static int copy_unarchived_file(struct run *run, const char *path,
                                const struct shfs_version *v)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
		                     shfs_ns_timespec(v->mtime_ns) };
	_cleanup_close_ int dirfd = -1, from = -1, to = -1;
	const char *name;

	dirfd = enter_parent(run, path, &name);
	if (dirfd < 0)
		return fail_place(path, dirfd);
	errno = 0;
	from = open(v->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	to = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
	            v->mode & 0777);
	if (from >= 0 && to >= 0 && !shfs_copy_fd(from, to) && !futimens(to, times) &&
	    shfs_version_lies_at(v, v->path))
		return 0;
	shfs_show_path(&shown, v->path);
	shfs_error("cannot copy %s: %s", shown.data ?: "",
	           errno ? strerror(errno) : "it was changed");
	return 1;
}

static int put_input_version(struct run *run, const char *path,
                             const struct shfs_version *v)
{
	struct shfs_restore_target target = { run->rr->options.top,
		                              shfs_path_relative(path, run->rr->base) };
	_cleanup_buf_ struct shfs_buf message = { 0 };

	if (!(v->flags & SHFS_CONTENT_OBJECT))
		return copy_unarchived_file(run, path, v);
	if (!shfs_restore(run->restorer, v, &target, &message))
		return 0;
	shfs_error("%s", message.data ?: "");
	return 1;
}

/* Makes a link, unless an earlier step has left something there. */
static int put_link(struct run *run, const struct shfs_rerun_link *link)
{
	const char *name;
	_cleanup_close_ int dirfd = enter_parent(run, link->path, &name);

	if (dirfd < 0)
		return fail_place(link->path, dirfd);
	return symlinkat(link->text, dirfd, name) && errno != EEXIST
	               ? fail_place(link->path, -errno)
	               : 0;
}

/* Gives the copy a file to which a link leads now, unless it is there. */
static int put_file_of_link(struct run *run, const struct shfs_rerun_step *step,
                            const char *path)
{
	_cleanup_version_ struct shfs_version v = { 0 };
	_cleanup_free_ char *place = shfs_rerun_place(run->rr, path);
	struct stat st;
	int r;

	if (!place)
		return -ENOMEM;
	if (!lstat(place, &st) || shfs_rerun_maker(run->rr, path, step))
		return 0;
	r = shfs_version_latest(run->rr->index, path, &v);
	if (r < 0 || (r && v.flags & SHFS_CONTENT_OBJECT && S_ISREG(v.mode)))
		return r < 0 ? r : put_input_version(run, path, &v);
	shfs_version_clear(&v);
	v = (struct shfs_version){ .path = strdup(path) };
	if (!v.path)
		return -ENOMEM;
	if (lstat(path, &st) || !S_ISREG(st.st_mode))
		return 0;
	v.mode = st.st_mode;
	v.size = (uint64_t)st.st_size;
	v.mtime_ns = shfs_timespec_ns(st.st_mtim);
	return copy_unarchived_file(run, path, &v);
}

static int put_links(struct run *run, const struct shfs_rerun_step *step)
{
	_cleanup_rerun_links_ struct shfs_rerun_links links = { 0 };
	int r = shfs_rerun_links_find(run->rr, step, &links);

	for (size_t i = 0; i < links.n && !r; i++)
		r = put_link(run, &links.list[i]);
	for (size_t i = 0; i < links.n_files && !r; i++)
		r = put_file_of_link(run, step, links.files[i]);
	return r;
}

/* Gives the copy another file in the place of one: 0, 1 after a message. */
static int put_other(struct run *run, const char *path, const char *other)
{
	_cleanup_close_ int dirfd = -1, from = -1, to = -1;
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	const char *name;
	struct stat st;

	dirfd = enter_parent(run, path, &name);
	if (dirfd < 0)
		return fail_place(path, dirfd);
	unlinkat(dirfd, name, 0);
	from = open(other, O_RDONLY | O_CLOEXEC);
	if (from >= 0 && !fstat(from, &st))
		to = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		            st.st_mode & 0777);
	if (to >= 0 && !shfs_copy_fd(from, to))
		return 0;
	shfs_show_path(&shown, other);
	shfs_error("cannot copy %s: %s", shown.data ?: "", strerror(errno));
	return 1;
}

static int put_needs(struct run *run, const struct shfs_rerun_step *step)
{
	const struct shfs_uses *uses = &step->entry.uses;
	int r = make_dirs(run, step);

	for (size_t i = 0; i < uses->n && !r; i++) {
		_cleanup_version_ struct shfs_version v = { 0 };
		struct shfs_rerun_step *maker;
		struct shfs_rerun_need need;
		bool needed =
			shfs_rerun_need(run->rr, step, &uses->list[i], &need, &maker);
		const char *other =
			need.version_id && need.path
				? shfs_deviations_other(run->rr->options.deviations,
		                                        need.path)
				: NULL;

		if (other)
			r = put_other(run, need.path, other);
		if (other || !needed)
			continue;
		r = shfs_rerun_load_need(run->rr, step, &need, &v);
		if (r > 0)
			r = put_input_version(run, need.path, &v);
	}
	return r ? r : put_links(run, step);
}

/* --- step by step --- */

static int judge_results(struct run *run, struct shfs_rerun_step *step)
{
	bool is_there = true;

	for (size_t i = 0; i < step->n_results; i++) {
		struct shfs_rerun_result *result = &step->results[i];
		_cleanup_free_ char *place = shfs_rerun_place(run->rr, result->use->path);
		int r;

		if (!place)
			return -ENOMEM;
		r = result->before.path
		            ? shfs_rerun_compare(run->rr, place, &result->before)
		    : access(place, F_OK) ? -errno
		                          : 0;
		if (access(place, F_OK)) {
			result->outcome = SHFS_RERUN_NOT_MADE;
			is_there = false;
		} else if (!result->before.path) {
			result->outcome = SHFS_RERUN_NEW;
		} else {
			result->outcome = r > 0    ? SHFS_RERUN_SAME
			                  : r == 0 ? SHFS_RERUN_DIFFERENT
			                           : SHFS_RERUN_UNCOMPARED;
		}
	}
	if (!is_there)
		step->state = SHFS_RERUN_FAILED;
	return 0;
}

/* Starts the runner of this shell. */
static int get_runner(struct run *run, const char *shell)
{
	struct shfs_runner_options options = {
		.shell = shell,
		.store_path = getenv("SHFS_DISABLE") || (run->rr->options.top &&
		                                         !run->rr->options.recorded)
		                      ? NULL
		                      : run->rr->options.store_path,
		.to_stderr = run->rr->options.to_stderr,
		.end_fd = run->place.dirfd,
	};
	int r;

	if (run->shell && !strcmp(run->shell, shell))
		return 0;
	shfs_runner_end(&run->runner);
	run->shell = NULL;
	r = shfs_secrets_redactor(run->rr->config, &options.redactor);
	if (r)
		return r;
	r = shfs_runner_begin(&options, &run->runner);
	shfs_redactor_free(options.redactor);
	if (!r)
		run->shell = shell;
	return r;
}

static int prepare_step(struct run *run, const struct shfs_rerun_step *step,
                        struct shfs_buf *away)
{
	int r = get_runner(run, step->script.shell);

	if (!r && run->rr->options.top)
		r = put_needs(run, step);
	else if (!r)
		r = check_still(run, step) ?: clear_place(run, step, away) ?: note_before(run, step);
	return r ? r : shfs_runner_signal() ? -EINTR : 0;
}

/* Puts back what a failed command has changed. */
static int put_back_step(struct run *run, struct shfs_rerun_step *step)
{
	struct shfs_put_back how = { run->rr->index, run->rr->store, run->restorer,
		                     &run->place, false };
	int r = shfs_put_back(&how, &run->before);

	for (size_t i = 0; i < step->n_results && r >= 0; i++) {
		struct shfs_rerun_result *result = &step->results[i];
		const struct shfs_before_file *f =
			shfs_before_find(&run->before, result->use->path);

		if (f && !f->left)
			result->outcome = SHFS_RERUN_SAME;
		else if (!f && access(result->use->path, F_OK))
			result->outcome = SHFS_RERUN_NOT_MADE;
	}
	if (r > 0)
		shfs_hint("shfs rerun tries again to put it back");
	return r;
}

/* Ends what note_before began: 0; 1: not all could be put back; or a negative errno. */
static int end_step_in_place(struct run *run, struct shfs_rerun_step *step)
{
	int r = 0;

	if (!run->noted)
		return 0;
	run->noted = false;
	if (step->state == SHFS_RERUN_FAILED)
		r = put_back_step(run, step);
	return r ? r : shfs_before_drop(&run->place);
}

static int run_step_text(struct run *run, struct shfs_rerun_step *step)
{
	const struct shfs_command_row *c = &step->entry.command;
	_cleanup_free_ char *cwd = shfs_rerun_place(run->rr, c->cwd);
	struct shfs_runner_command command = {
		.text = c->text,
		.script = step->script.text.data ?: "",
		.definitions = &step->script.definitions,
		.cwd = cwd,
	};
	int r = cwd ? prepare_step(run, step, &command.away) : -ENOMEM;

	if (!r)
		r = shfs_runner_run(&run->runner, &command, &step->status);
	shfs_buf_free(&command.away);
	if (!step->session && *run->runner.session) {
		step->session = strdup(run->runner.session);
		step->number = run->runner.number;
	}
	if (r == -EINTR || r > 0)
		step->state = SHFS_RERUN_FAILED;
	if (r == -EINTR && judge_results(run, step))
		return -ENOMEM;
	if (r)
		return MIN(r, 0);
	step->state = !step->status || step->status == expected_status(step)
	                      ? SHFS_RERUN_RAN
	                      : SHFS_RERUN_FAILED;
	return judge_results(run, step);
}

static int do_step(struct run *run, struct shfs_rerun_step *step)
{
	int r = 0, back = 0;

	if (step->state == SHFS_RERUN_REFUSED)
		return 0;
	if (shfs_rerun_lacks_input(run->rr, step)) {
		step->state = SHFS_RERUN_LEFT_OUT;
	} else if (!is_step_needed(run->rr, step)) {
		step->state = SHFS_RERUN_UNNEEDED;
	} else {
		run->watcher->begin(run->watcher->arg, step);
		r = run_step_text(run, step);
		if (r < 0)
			step->state = SHFS_RERUN_FAILED;
		back = end_step_in_place(run, step);
	}
	if (!r || r == -EINTR)
		run->watcher->end(run->watcher->arg, step);
	return r ? r : back > 0 ? -EIO : back;
}

static int prepare_rerun(struct run *run)
{
	struct shfs_rerun *rr = run->rr;
	struct shfs_restore_options options = { .force = true };
	int r = shfs_restorer_new(rr->store, rr->index, rr->config, options,
	                          &run->restorer);

	if (!r && rr->options.force && !rr->options.top)
		r = shfs_restore_journal_new(rr->store, rr->index, rr->config,
		                             &run->journal);
	return !r && !rr->options.top ? shfs_before_open(rr->store, &run->place) : r;
}

/* Puts back what the killed command of one earlier rerun left: 1; 0: it ended well. */
static int put_back_left(const struct shfs_rerun *rr, struct shfs_restorer *restorer,
                         const struct shfs_before_place *place, bool dry)
{
	struct shfs_put_back how = { rr->index, rr->store, restorer, place, true };
	_cleanup_before_ struct shfs_before before = { 0 };
	bool ended = true;
	int r = shfs_before_load(place, &before, &ended);

	if (r < 0 || dry)
		return r < 0 ? r : r && !ended;
	if (!ended) {
		shfs_warn("an earlier rerun was killed: what its command changed is put "
		          "back");
		r = shfs_put_back(&how, &before);
		if (r)
			return r < 0 ? r : -EIO;
	}
	r = shfs_before_drop(place);
	return r ? r : !ended;
}

int shfs_rerun_put_back_left(struct shfs_rerun *rr, bool dry, char **path)
{
	_cleanup_restorer_ struct shfs_restorer *restorer = NULL;
	struct shfs_restore_options options = { .force = true };
	int r = shfs_restorer_new(rr->store, rr->index, rr->config, options, &restorer);
	int found = 0;

	*path = NULL;
	while (!r) {
		struct shfs_before_place place;
		int closed;

		r = shfs_before_open_left(rr->store, &place);
		if (r <= 0)
			break;
		r = put_back_left(rr, restorer, &place, dry);
		closed = shfs_before_close(rr->store, &place);
		found |= r > 0;
		r = r < 0 ? r : dry ? 0 : closed;
		if (r)
			*path = shfs_before_path(rr->store, &place);
		if (dry) /* one says it all */
			break;
	}
	return r < 0 ? r : found;
}

int shfs_rerun_run(struct shfs_rerun *rr, const struct shfs_rerun_watcher *watcher)
{
	struct run run = { .rr = rr, .watcher = watcher, .place = { -1, -1, "" } };
	bool failed = false;
	int r = prepare_rerun(&run);

	shfs_runner_catch();
	for (size_t i = 0; i < rr->n && !r; i++) {
		r = do_step(&run, &rr->steps[i]);
		if (rr->steps[i].state == SHFS_RERUN_FAILED && !r) {
			failed = true;
			if (!rr->options.keep_going)
				break;
		}
	}
	shfs_runner_end(&run.runner);
	shfs_before_clear(&run.before);
	(void)!shfs_before_close(rr->store, &run.place); /* what failed is in it */
	shfs_restorer_free(run.restorer);
	shfs_restore_journal_free(run.journal);
	return r ? r : failed;
}
