/* SPDX-License-Identifier: MIT */
/* Runs an export in an empty directory, and compares what it makes. */
#include "query/export/export.h"

#include "common/io.h"
#include "common/path.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGS_MAX 8
#define PIECE    65536

static const char file_word[] = "FILE", top_word[] = "TOP";

static const struct program {
	const char *format, *argv[ARGS_MAX];
	const char *results; /* the directory of the results, below the one it runs in */
} programs[] = {
	{ "sh", { "bash", file_word, top_word }, "" },
	{ "make", { "make", "-s", "-f", file_word }, "" },
	{ "snakemake", { "snakemake", "-q", "-c1", "-s", file_word }, "" },
	{ "cwl",
	  { "cwltool", "--quiet", "--preserve-entire-environment", "--outdir", top_word,
	    file_word },
	  "results/" },
	{ "nextflow",
	  { "nextflow", "-q", "run", file_word, "--outdir", top_word },
	  "results/" },
	{ "workflow-crate",
	  { "cwltool", "--quiet", "--preserve-entire-environment", "--outdir", top_word,
	    file_word },
	  "results/" },
};

struct verification {
	struct shfs_export *x;
	const struct program *program;
	char *top;            /* a new directory, which holds the next one */
	struct shfs_buf run;  /* the directory in which the export runs */
	struct shfs_buf file; /* the export */
};

static const struct program *find_program(const struct shfs_export_format *format)
{
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
		if (!strcmp(programs[i].format, format->name))
			return &programs[i];
	return NULL;
}

bool shfs_export_can_verify(const struct shfs_export_format *format)
{
	return find_program(format) != NULL;
}

/* --- the directory --- */

static int make_top(struct verification *v)
{
	const char *tmp = getenv("TMPDIR");

	if (asprintf(&v->top, "%s/shfs-verify.XXXXXX",
	             tmp && *tmp == '/' ? tmp : "/tmp") < 0) {
		v->top = NULL;
		return -ENOMEM;
	}
	if (!mkdtemp(v->top)) {
		int error = errno;

		free(v->top);
		v->top = NULL;
		return -error;
	}
	shfs_buf_printf(&v->run, "%s/run", v->top);
	return v->run.failed ? -ENOMEM : mkdir(v->run.data, 0777) ? -errno : 0;
}

void shfs_export_remove(const char *top)
{
	char *paths[] = { (char *)top, NULL };
	FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_XDEV | FTS_NOCHDIR, NULL);
	FTSENT *entry;

	while (fts && (entry = fts_read(fts))) {
		if (entry->fts_info == FTS_D)
			(void)!chmod(entry->fts_accpath, 0700);
		else
			(void)!remove(entry->fts_accpath);
	}
	if (fts)
		fts_close(fts);
}

static void verification_clear(struct verification *v)
{
	if (v->top)
		shfs_export_remove(v->top);
	free(v->top);
	shfs_buf_free(&v->run);
	shfs_buf_free(&v->file);
}

/* Writes the export to its file; a crate is there already. */
static int put_export(struct verification *v, bool crate)
{
	_cleanup_close_ int fd = -1;

	if (crate) {
		_cleanup_free_ char *path = shfs_path_absolute(v->x->path);

		shfs_buf_printf(&v->file, "%s/workflow.cwl", path ?: "");
		return !path || v->file.failed ? -ENOMEM : 0;
	}
	shfs_buf_printf(&v->file, "%s/export", v->top);
	if (v->file.failed)
		return -ENOMEM;
	fd = open(v->file.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	return fd < 0 ? -errno : shfs_write_all(fd, v->x->out.data, v->x->out.len);
}

/* --- running it --- */

static int spawn(const struct verification *v, pid_t *pid)
{
	const char *argv[ARGS_MAX + 1] = { NULL };
	posix_spawn_file_actions_t actions;
	int r;

	for (size_t i = 0; i < ARGS_MAX && v->program->argv[i]; i++) {
		argv[i] = v->program->argv[i];
		if (argv[i] == file_word)
			argv[i] = v->file.data;
		else if (argv[i] == top_word)
			argv[i] = v->run.data;
	}
	r = posix_spawn_file_actions_init(&actions);
	if (r)
		return -r;
	r = posix_spawn_file_actions_addchdir_np(&actions, v->run.data);
	if (!r)
		r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
		                                     O_RDONLY, 0);
	if (!r)
		r = posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO,
		                                     STDOUT_FILENO);
	if (!r)
		r = posix_spawnp(pid, argv[0], &actions, NULL, (char **)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

/* 0, or an exit code after a message. */
static int run_export_again(const struct verification *v)
{
	const char *program = v->program->argv[0];
	int status, r;
	pid_t pid;

	r = spawn(v, &pid);
	if (r) {
		shfs_error("cannot verify: %s: %s", program, strerror(-r));
		return SHFS_EXIT_FAILURE;
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	shfs_error("run in an empty directory, it failed: %s ended with %d", program,
	           WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	return SHFS_EXIT_FAILURE;
}

/* --- comparing --- */

/* Opens the bytes of the version: the archived ones, or those where it lies. */
static int open_wanted(const struct verification *v,
                       const struct shfs_workflow_file *target, FILE **out)
{
	int r;

	if (!shfs_export_is_archived(target)) {
		*out = target->lies_at ? fopen(target->lies_at, "re") : NULL;
		return *out ? 0 : -ENODATA;
	}
	*out = tmpfile();
	if (!*out)
		return -errno;
	r = shfs_object_copy(v->x->objects, &target->version.object, fileno(*out));
	if (r) {
		fclose(*out);
		return r;
	}
	rewind(*out);
	return 0;
}

/* Do both have the same bytes? */
static bool is_equal(FILE *a, FILE *b)
{
	char left[PIECE], right[PIECE];
	size_t n;

	do {
		n = fread(left, 1, sizeof(left), a);
		if (fread(right, 1, sizeof(right), b) != n || memcmp(left, right, n) != 0)
			return false;
	} while (n);
	return !ferror(a) && !ferror(b);
}

/* Compares the target: a text for a person. */
static const char *compare_target(const struct verification *v,
                                  const struct shfs_workflow_file *target, bool *same)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };
	FILE *found, *wanted;
	struct stat st;
	int r;

	*same = false;
	shfs_buf_printf(&path, "%s/%s%s", v->run.data, v->program->results, target->name);
	if (path.failed || lstat(path.data, &st))
		return "is not made";
	found = S_ISREG(st.st_mode) ? fopen(path.data, "re") : NULL;
	if (!found)
		return "is no file that can be read";
	r = open_wanted(v, target, &wanted);
	if (!r) {
		*same = is_equal(found, wanted);
		fclose(wanted);
	}
	fclose(found);
	if (r)
		return "cannot be compared: it is not archived";
	return *same ? "comes out the same" : "comes out with other bytes";
}

static int compare_targets(const struct verification *v)
{
	int code = 0;

	for (size_t i = 0; i < v->x->wf->targets.n; i++) {
		const struct shfs_workflow_file *target = v->x->wf->targets.list[i];
		_cleanup_buf_ struct shfs_buf shown = { 0 };
		const char *how;
		bool same;

		how = compare_target(v, target, &same);
		shfs_show_version(&shown, target->version.path, target->version.n);
		if (same) {
			fprintf(v->x->file == stdout ? stderr : stdout, "%s %s\n",
			        shown.data ?: "", how);
			continue;
		}
		shfs_error("%s %s", shown.data ?: "", how);
		code = SHFS_EXIT_FAILURE;
	}
	return code;
}

int shfs_export_verify(struct shfs_export *x, const struct shfs_export_format *format)
{
	struct verification v = { .x = x, .program = find_program(format) };
	int r = make_top(&v);

	if (!r)
		r = put_export(&v, format->directory);
	if (r) {
		shfs_error("cannot make a directory to verify in: %s", strerror(-r));
		r = SHFS_EXIT_FAILURE;
	}
	if (!r)
		r = run_export_again(&v);
	if (!r)
		r = compare_targets(&v);
	verification_clear(&v);
	return r;
}
