/* SPDX-License-Identifier: MIT */
#include "query/cmd.h"
#include "query/time.h"
#include "query/version-spec.h"

#include "common/quote.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* As diff(1) has them; other troubles have the codes of every command, from 3 on. */
enum { SAME = 0, DIFFERENT = 1, TROUBLE = 2 };

static struct {
	const char *context; /* lines, NULL: diff's default */
	bool brief;
} opts;

/* One of the two: what diff reads, and what it is called. */
struct side {
	int fd;
	struct shfs_buf label;
};

static void side_clear(struct side *s)
{
	shfs_closep(&s->fd);
	shfs_buf_free(&s->label);
}

static void label(struct side *s, const char *path, int64_t n, int64_t time_ns)
{
	shfs_show_version(&s->label, path, n);
	shfs_buf_char(&s->label, '\t');
	shfs_time_show(&s->label, time_ns);
}

static int open_version(struct shfs_store *store, const struct shfs_version *version,
                        struct side *s)
{
	int r;

	label(s, version->path, version->n, version->time_ns);
	if (!(version->flags & SHFS_CONTENT_OBJECT)) {
		_cleanup_buf_ struct shfs_buf name = { 0 };

		shfs_show_version(&name, version->path, version->n);
		shfs_error("%s is not archived: %s", name.data,
		           shfs_version_why_not_archived(version->flags));
		return TROUBLE;
	}
	s->fd = memfd_create("shfs-diff", MFD_CLOEXEC);
	r = s->fd < 0 ? -errno
	              : shfs_object_copy(store, &version->object, s->fd);
	if (!r && lseek(s->fd, 0, SEEK_SET))
		r = -errno;
	if (!r)
		return 0;
	shfs_error("cannot read an archived content: %s",
	           r == -EBADMSG ? "it is damaged" : strerror(-r));
	return TROUBLE;
}

/* The file as it is now. */
static int open_now(const char *path, struct side *s)
{
	_cleanup_buf_ struct shfs_buf name = { 0 };
	struct stat st;

	shfs_show_path(&name, path);
	s->fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (s->fd < 0 || fstat(s->fd, &st)) {
		if (errno == ENOENT) {
			shfs_error("%s does not exist now", name.data);
			shfs_hint("compare two versions, or bring it back: shfs undelete");
		} else {
			shfs_error("cannot read %s: %s", name.data, strerror(errno));
		}
		return TROUBLE;
	}
	if (!S_ISREG(st.st_mode)) {
		shfs_error("%s is not a regular file now", name.data);
		return TROUBLE;
	}
	label(s, path, 0, shfs_timespec_ns(st.st_mtim));
	return 0;
}

/* diff -u, reading the two fds, which become 3 and 4 in it. */
static int run_diff(const struct side side[2], bool color)
{
	_cleanup_buf_ struct shfs_buf context = { 0 };
	posix_spawn_file_actions_t actions;
	char *argv[12] = { "diff", color ? "--color=always" : "--color=never" };
	int n = 2, fds[2], status, r;
	pid_t pid;

	shfs_buf_printf(&context, "--unified=%s", opts.context ? opts.context : "3");
	argv[n++] = opts.brief ? "--brief" : context.data;
	for (int i = 0; i < 2; i++) {
		argv[n++] = "--label";
		argv[n++] = side[i].label.data;
	}
	argv[n++] = "/dev/fd/3";
	argv[n++] = "/dev/fd/4";
	if (context.failed || side[0].label.failed || side[1].label.failed)
		return -ENOMEM;
	/* Above 4, so that the one does not overwrite the other. */
	for (int i = 0; i < 2; i++)
		fds[i] = fcntl(side[i].fd, F_DUPFD_CLOEXEC, 5);
	r = fds[0] < 0 || fds[1] < 0 ? errno : posix_spawn_file_actions_init(&actions);
	if (r)
		return -r;
	for (int i = 0; i < 2 && !r; i++)
		r = posix_spawn_file_actions_adddup2(&actions, fds[i], 3 + i);
	if (!r)
		r = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[0]);
	close(fds[1]);
	if (r)
		return -r;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	/* Whoever ends the pager has seen enough. */
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE)
		return DIFFERENT;
	return WIFEXITED(status) ? WEXITSTATUS(status) : TROUBLE;
}

static int compare(struct shfs_context *ctx, const struct side side[2])
{
	int r;

	shfs_context_pager(ctx);
	fflush(stdout);
	r = run_diff(side, shfs_context_color(ctx));
	if (r == -ENOENT) {
		shfs_error("there is no diff(1); install the package diffutils");
		return SHFS_EXIT_UNAVAILABLE;
	}
	if (r < 0)
		shfs_error("cannot run diff: %s", strerror(-r));
	return r < 0 ? TROUBLE : r;
}

/* The latest archived one where nothing says which. */
static int find_first(struct shfs_index *index, const char *operand,
                      struct shfs_version *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r, code = shfs_version_spec_find(index, operand, out);
	struct shfs_version_spec spec;

	if (code || (out->flags & SHFS_CONTENT_OBJECT) ||
	    shfs_version_spec_parse(operand, &spec))
		return code;
	code = spec.kind == SHFS_SPEC_LATEST;
	shfs_version_spec_clear(&spec);
	if (!code)
		return 0;
	r = shfs_rows_open(index,
	                   "SELECT" SHFS_VERSION_COLUMNS
	                   "FROM v_version WHERE path = ?1 AND object IS NOT NULL"
	                   " ORDER BY n DESC LIMIT 1",
	                   &rows);
	if (!r)
		r = shfs_rows_bind_str(rows, 1, out->path);
	if (!r)
		r = shfs_rows_next(rows);
	if (r > 0) {
		shfs_version_clear(out);
		r = shfs_version_from_row(rows, out);
	}
	return r < 0 ? shfs_fail_index(index, r) : 0;
}

static int run(struct shfs_context *ctx, int argc, char **argv)
{
	_cleanup_version_ struct shfs_version first = { 0 }, second = { 0 };
	struct side side[2] = { { .fd = -1 }, { .fd = -1 } };
	int code = SHFS_EXIT_OK;
	struct shfs_index *index = shfs_context_index(ctx, &code);
	struct shfs_store *store = index ? shfs_context_store(ctx, false, &code) : NULL;

	/* 1 would say that they differ. */
	if (!store)
		return code == SHFS_EXIT_FAILURE ? TROUBLE : code;
	code = find_first(index, argv[0], &first);
	if (!code && argc > 1)
		code = shfs_version_spec_find(index, argv[1], &second);
	if (code == SHFS_EXIT_FAILURE)
		code = TROUBLE;
	if (!code)
		code = open_version(store, &first, &side[0]);
	if (!code)
		code = argc > 1 ? open_version(store, &second, &side[1])
		                : open_now(first.path, &side[1]);
	if (!code)
		code = compare(ctx, side);
	side_clear(&side[0]);
	side_clear(&side[1]);
	return code;
}

static int option(struct shfs_context *ctx, const struct shfs_option *opt,
                  const char *value)
{
	if (opt->letter == 'q') {
		opts.brief = true;
		return 0;
	}
	if (!*value || strlen(value) > 6 || value[strspn(value, "0123456789")]) {
		shfs_error("--unified wants a number of lines");
		return SHFS_EXIT_USAGE;
	}
	opts.context = value;
	return 0;
}

static const struct shfs_option options[] = {
	{ "unified", 'U', "N", "show N lines around each change (default 3)" },
	{ "brief", 'q', NULL, "only say whether they differ" },
	{ 0 },
};

const struct shfs_command shfs_cmd_diff = {
	.name = "diff",
	.args = "FILE[@N] [FILE@M]",
	.summary = "Compare two versions of a file, or one with the file as it is now",
	.description = "Without @N, the latest version that is archived.\n"
		       "Exit status: 0 the same, 1 different, 2 trouble; 3 no such version.",
	.options = options,
	.min_args = 1,
	.max_args = 2,
	.option = option,
	.run = run,
};
