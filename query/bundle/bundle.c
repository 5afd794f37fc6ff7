/* SPDX-License-Identifier: MIT */
#include "query/bundle/bundle.h"

#include "common/clock.h"
#include "common/io.h"
#include "common/path.h"
#include "common/quote.h"
#include "query/base/trusted.h"
#include "query/base/whole-file.h"
#include "query/export/libarchive.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define SHOWN_MAX 20 /* missing files that are named one by one */

/* --- the plan --- */

static bool is_command(const struct shfs_step *step)
{
	return !step->source;
}

/* Adds the directories that the step needs, unless a step before has made them. */
static int add_directories(struct bundle *b, const struct shfs_step *step)
{
	int r = 0;

	for (size_t i = 0; i < step->dirs.n && !r; i++) {
		_cleanup_free_ char *path =
			*step->dirs.list[i]
				? shfs_path_join(b->x->wf->base, step->dirs.list[i])
				: strdup(b->x->wf->base);
		_cleanup_free_ char *place = NULL;

		if (!path)
			return -ENOMEM;
		if (shfs_closure_is_made(b->closure, path))
			continue;
		r = closure_walk(b->closure, path, &place);
		if (!r)
			r = shfs_closure_add_directory(b->closure, place);
	}
	return r;
}

static int plan_steps(struct bundle *b)
{
	const struct shfs_workflow *wf = b->x->wf;
	bool began = false;
	int r = 0;

	bundle_begin_steps(b);
	for (size_t i = 0; i < wf->n_steps && !r; i++) {
		const struct shfs_step *step = wf->steps[i];

		if (is_command(step)) {
			began = true;
			b->mtime_ns = MAX(b->mtime_ns, step->entry->command.begin_ns);
			r = bundle_add_step(b, step);
			if (!r)
				r = shfs_closure_add_step(b->closure, step);
		} else if (began) {
			r = bundle_add_take(b, step);
		} else {
			r = shfs_closure_add_version(b->closure, &step->source->version,
			                             step->source->version.path,
			                             step->source->lies_at);
		}
		if (!r)
			r = add_directories(b, step);
	}
	bundle_end_steps(b);
	b->mtime_ns -= b->mtime_ns % SHFS_NSEC_PER_SEC;
	if (r || began)
		return r;
	shfs_error(
		"no command that can be run again made it: there is nothing to bundle");
	return SHFS_EXIT_REFUSED;
}

static int add_tools(struct bundle *b)
{
	const char *const tools[] = { "/bin/sh", b->needs_cp ? "cp" : NULL,
		                      b->needs_rm ? "rm" : NULL,
		                      b->checks_inside ? "sha256sum" : NULL };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(tools) && !r; i++) {
		if (!tools[i])
			continue;
		r = shfs_closure_add_program(b->closure, tools[i]);
		if (r != -ENOENT)
			continue;
		shfs_error("there is no %s here, which the bundle needs", tools[i]);
		return SHFS_EXIT_UNAVAILABLE;
	}
	return r;
}

static int hash_result(struct bundle *b, struct bundle_result *result)
{
	const struct shfs_workflow_file *file = result->file;
	_cleanup_close_ int fd = -1;
	int r = shfs_closure_open_version(b->closure, &file->version, file->lies_at, &fd);

	return r ? r : shfs_sha256_fd(fd, result->sha256);
}

/* Hashes what the commands left then: run.sh compares with that what they leave again. */
static int hash_results(struct bundle *b, bool *incomplete)
{
	const struct shfs_files *targets = &b->x->wf->targets;

	b->results = calloc(targets->n + 1, sizeof(*b->results));
	for (size_t i = 0; b->results && i < targets->n; i++) {
		_cleanup_buf_ struct shfs_buf shown = { 0 };
		struct bundle_result *result = &b->results[b->n_results++];
		int r;

		result->file = targets->list[i];
		r = hash_result(b, result);
		if (r == -ENOMEM)
			return r;
		/* a cache in the home: nobody asked for that */
		if (r == -EPERM && b->x->of_command)
			b->n_results--;
		if (!r || (r == -EPERM && b->x->of_command))
			continue;
		*incomplete = true;
		shfs_show_version(&shown, result->file->version.path,
		                  result->file->version.n);
		shfs_warn("what comes out as %s cannot be compared: %s", shown.data ?: "",
		          r == -EPERM ? "it is secret"
		          : r == -ESTALE
		                  ? "it is not archived, and does not lie there any "
		                    "more"
		                  : strerror(-r));
	}
	return b->results ? 0 : -ENOMEM;
}

static void say_missing(const struct bundle *b)
{
	const struct shfs_closure *c = b->closure;

	for (size_t i = 0; i < MIN(c->n_missing, (size_t)SHOWN_MAX); i++) {
		_cleanup_buf_ struct shfs_buf shown = { 0 };

		shfs_show_path(&shown, c->missing[i].path);
		shfs_warn("%s %s", shown.data ?: "", c->missing[i].why);
	}
	if (c->n_missing > SHOWN_MAX)
		shfs_warn("and %zu further files are missing; README.md has them all",
		          c->n_missing - SHOWN_MAX);
	for (size_t i = 0; i < c->in_part.n; i++)
		shfs_warn("of %s only the files of its projects were recorded: what else "
		          "it "
		          "used is missing, but for programs and their libraries",
		          c->in_part.list[i]);
	if (c->in_part.n)
		shfs_hint("shfs record COMMAND records all files that a command uses");
}

static int check_here(const struct shfs_workflow *wf)
{
	for (size_t i = 0; i < wf->n_steps; i++)
		if (is_command(wf->steps[i]) &&
		    !shfs_path_is_here(wf->steps[i]->entry->command.cwd)) {
			shfs_error("%s ran on another machine: only that one has its "
			           "programs",
			           wf->steps[i]->entry->command.id);
			return SHFS_EXIT_REFUSED;
		}
	return 0;
}

int bundle_plan(struct shfs_export *x, bool checks_inside, struct bundle *b,
                bool *incomplete)
{
	int r = check_here(x->wf);

	*b = (struct bundle){ .x = x, .checks_inside = checks_inside };
	if (!x->path || !strcmp(x->path, "-") || shfs_is_descriptor(x->path)) {
		shfs_error("it needs a name: -o NAME");
		return SHFS_EXIT_USAGE;
	}
	if (!r)
		r = shfs_libarchive_load();
	if (!r)
		r = shfs_closure_new(x->wf, x->objects, x->config, &b->closure);
	if (!r)
		r = plan_steps(b);
	if (!r)
		r = add_tools(b);
	if (!r)
		r = shfs_closure_finish(b->closure);
	if (!r)
		r = hash_results(b, incomplete);
	if (r)
		return r;
	say_missing(b);
	*incomplete |= b->closure->n_missing || b->closure->in_part.n;
	return 0;
}

void bundle_clear(struct bundle *b)
{
	shfs_closure_free(b->closure);
	shfs_buf_free(&b->steps);
	free(b->results);
}

/* --- writing --- */

int bundle_fail(const struct bundle *b, int error)
{
	return shfs_fail_output(b->x->path, -error);
}

/* error: of reading the content, or of writing it. */
static int fail_content(const struct bundle *b, const struct shfs_closure_file *file,
                        int error)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	if (error != -ESTALE && error != -EBADMSG && error != -ENOENT &&
	    error != -ENODATA && error != -EREMOTE)
		return bundle_fail(b, error);
	shfs_show_path(&shown, file->path);
	shfs_error("cannot take %s along: %s", shown.data ?: "",
	           error == -ESTALE    ? "it was changed just now"
	           : error == -EBADMSG ? "its content is damaged in the store"
	           : error == -EREMOTE ? "its content is only on a remote"
	                               : "its content is not in the store any more");
	return SHFS_EXIT_FAILURE;
}

static int write_content(const struct bundle *b, struct shfs_sink *sink, const char *name,
                         const struct shfs_closure_file *file)
{
	_cleanup_close_ int fd = -1;
	int r = shfs_closure_open(b->closure, file, &fd);

	if (!r)
		r = shfs_sink_file(sink, name, file->mode | 0400, file->mtime_ns,
		                   file->size, fd);
	return r ? r : shfs_closure_check(file, fd);
}

static int write_one(const struct bundle *b, struct shfs_sink *sink, const char *prefix,
                     const struct shfs_closure_file *file)
{
	_cleanup_buf_ struct shfs_buf name = { 0 };
	int r;

	shfs_buf_printf(&name, "%s%s", prefix, file->path + 1);
	if (name.failed)
		return bundle_fail(b, -ENOMEM);
	if (file->kind == SHFS_CLOSURE_FILE)
		r = write_content(b, sink, name.data, file);
	else if (file->kind == SHFS_CLOSURE_LINK)
		r = shfs_sink_link(sink, name.data, file->target);
	else
		r = shfs_sink_directory(sink, name.data, file->mode);
	return r ? fail_content(b, file, r) : 0;
}

/* /.bundle itself; what steps take is in the closure. */
static int write_own(const struct bundle *b, struct shfs_sink *sink, const char *prefix)
{
	static const char *const names[] = { ".bundle/steps.sh", ".bundle/SHA256SUMS" };
	_cleanup_buf_ struct shfs_buf sums = { 0 };
	int r = 0;

	bundle_add_sums(b, &sums);
	for (size_t i = 0; i < ARRAY_SIZE(names) && !r; i++) {
		_cleanup_buf_ struct shfs_buf name = { 0 };

		shfs_buf_printf(&name, "%s%s", prefix, names[i]);
		r = name.failed ? -ENOMEM
		                : shfs_sink_text(sink, name.data, i ? 0644 : 0755,
		                                 i ? &sums : &b->steps);
	}
	return r ? bundle_fail(b, r) : 0;
}

int bundle_write_root(const struct bundle *b, struct shfs_sink *sink, const char *prefix,
                      enum bundle_part part, bundle_filter_fn filter, void *arg)
{
	int r = 0;

	if (part != BUNDLE_SYSTEM && !shfs_closure_find(b->closure, "/.bundle")) {
		_cleanup_buf_ struct shfs_buf name = { 0 };

		shfs_buf_printf(&name, "%s.bundle", prefix);
		r = name.failed ? -ENOMEM : shfs_sink_directory(sink, name.data, 0755);
		if (r)
			return bundle_fail(b, r);
	}
	for (const struct shfs_closure_file *f = b->closure->files; f && !r;
	     f = f->hh.next)
		if ((part == BUNDLE_ALL || f->system == (part == BUNDLE_SYSTEM)) &&
		    (!filter || filter(arg, f)))
			r = write_one(b, sink, prefix, f);
	return r || part == BUNDLE_SYSTEM ? r : write_own(b, sink, prefix);
}

/* --- a directory that appears when it is complete --- */

int bundle_directory_begin(const struct bundle *b, struct bundle_directory *d)
{
	struct stat st;
	int r;

	*d = (struct bundle_directory){ -1, -1, NULL, NULL };
	if (!lstat(b->x->path, &st) && !shfs_is_empty_directory(b->x->path)) {
		_cleanup_buf_ struct shfs_buf shown = { 0 };

		shfs_quote_display(&shown, b->x->path, strlen(b->x->path));
		shfs_error("%s exists, and is no empty directory", shown.data ?: "");
		return SHFS_EXIT_REFUSED;
	}
	r = shfs_trusted_parent(b->x->path, (struct shfs_way){ 0 }, &d->parent, &d->name);
	if (!r && asprintf(&d->temporary, ".shfs-%d", (int)getpid()) < 0) {
		d->temporary = NULL;
		r = -ENOMEM;
	}
	if (!r && mkdirat(d->parent, d->temporary, 0700)) {
		r = -errno;
		free(TAKE_PTR(d->temporary));
	}
	if (!r) {
		d->fd = openat(d->parent, d->temporary,
		               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r = d->fd < 0 ? -errno : 0;
	}
	return r ? bundle_fail(b, r) : 0;
}

int bundle_directory_finish(const struct bundle *b, struct bundle_directory *d)
{
	mode_t mask = umask(0);

	umask(mask);
	if (fchmod(d->fd, 0777 & ~mask) || syncfs(d->fd) ||
	    renameat(d->parent, d->temporary, d->parent, d->name))
		return bundle_fail(b, -errno);
	free(TAKE_PTR(d->temporary));
	return 0;
}

static void remove_tree(int parent, const char *name)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "/proc/self/fd/%d/%s", parent, name) < 0)
		path = NULL;
	else
		shfs_export_remove(path);
}

void bundle_directory_clear(struct bundle_directory *d)
{
	shfs_closep(&d->fd);
	if (d->temporary)
		remove_tree(d->parent, d->temporary);
	shfs_closep(&d->parent);
	free(d->temporary);
	free(d->name);
}

/* --- the format "bundle" --- */

static const char how_to_run[] =
	"    ./run.sh [DIR]\n"
	"\n"
	"copies `root/` to DIR (default: `run`, beside it), runs the commands there, and "
	"says\n"
	"of each result whether it came out the same. It needs a Linux kernel of the "
	"same\n"
	"architecture, a shell, `cp` and `sha256sum`, and `bwrap` (bubblewrap) or "
	"`unshare`\n"
	"(util-linux); no network, and nothing else of the machine.\n";

static int write_bundle_to(const struct bundle *b, struct shfs_sink *sink)
{
	_cleanup_buf_ struct shfs_buf readme = { 0 }, run = { 0 }, sums = { 0 };
	int r = bundle_add_readme(b, how_to_run, &readme);

	bundle_add_run(b, &run);
	bundle_add_sums(b, &sums);
	if (!r)
		r = shfs_sink_text(sink, "README.md", 0644, &readme);
	if (!r)
		r = shfs_sink_text(sink, "SHA256SUMS", 0644, &sums);
	if (!r)
		r = shfs_sink_text(sink, "run.sh", 0755, &run);
	if (!r)
		r = shfs_sink_directory(sink, "root", 0755);
	if (r)
		return bundle_fail(b, r);
	r = bundle_write_root(b, sink, "root/", BUNDLE_ALL, NULL, NULL);
	if (r)
		return r;
	r = shfs_sink_finish(sink);
	return r ? bundle_fail(b, r) : 0;
}

static int write_bundle_directory(const struct bundle *b)
{
	_cleanup_bundle_directory_ struct bundle_directory d = { -1, -1, NULL, NULL };
	_cleanup_(shfs_sink_clear) struct shfs_sink sink = { 0 };
	int r = bundle_directory_begin(b, &d);

	if (r)
		return r;
	shfs_sink_begin_directory(&sink, d.fd, b->mtime_ns);
	r = write_bundle_to(b, &sink);
	return r ? r : bundle_directory_finish(b, &d);
}

static int write_bundle_tar(const struct bundle *b, bool zstd)
{
	_cleanup_(shfs_whole_file_close) struct shfs_whole_file file = { .fd = -1,
		                                                         .dirfd = -1 };
	_cleanup_(shfs_sink_clear) struct shfs_sink sink = { 0 };
	int r = shfs_whole_file_begin(&file, b->x->path, b->x->force, 0666);

	if (!r)
		r = shfs_sink_begin_tar(&sink, file.fd, "bundle/", zstd, b->mtime_ns);
	if (r)
		return bundle_fail(b, r);
	r = write_bundle_to(b, &sink);
	if (r)
		return r;
	r = shfs_whole_file_finish(&file);
	return r ? bundle_fail(b, r) : 0;
}

static int write_bundle(struct shfs_export *x)
{
	_cleanup_bundle_ struct bundle b = { 0 };
	bool incomplete = false;
	int r = bundle_plan(x, false, &b, &incomplete);

	if (r)
		return r;
	if (shfs_ends_with(x->path, ".tar"))
		r = write_bundle_tar(&b, false);
	else if (shfs_ends_with(x->path, ".tar.zst"))
		r = write_bundle_tar(&b, true);
	else
		r = write_bundle_directory(&b);
	return r ? r : incomplete ? SHFS_EXIT_NOT_FOUND : 0;
}

const struct shfs_export_format shfs_export_bundle = {
	.name = "bundle",
	.runs = true,
	.in_place = true,
	.closed = true,
	.write = write_bundle,
};
