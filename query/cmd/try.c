/* SPDX-License-Identifier: MIT */
/* `shfs try`: a command on a private layer over the project; what it did is kept later,
 * or dropped. */
#include "query/base/child.h"
#include "query/base/context.h"
#include "query/base/foreground.h"
#include "query/base/json.h"
#include "query/base/model.h"
#include "query/base/mounts.h"
#include "query/base/projects.h"
#include "query/base/time.h"
#include "query/history/diff.h"
#include "query/table/table.h"
#include "query/try/changes.h"
#include "query/try/inside.h"
#include "query/try/keep.h"

#include "common/path.h"
#include "common/quote.h"
#include "common/redact.h"
#include "common/secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/wait.h>

#define TEXT_WIDTH 60
#define ARCHIVE    "record.tar.zst"

static struct {
	const char *verb; /* NULL: run a command */
	bool net, no_net, dry_run, brief, partly, json;
	int64_t number; /* --in; 0: none */
} opts;

/* --- which project, and which layer --- */

/* The project around the working directory: what is mounted there, else what was once,
 * else the directory itself. Allocated; NULL: after a message. */
static char *find_project(struct shfs_context *ctx)
{
	_cleanup_projects_ struct shfs_projects projects = { 0 };
	_cleanup_mounts_ struct shfs_mounts mounts = { 0 };
	_cleanup_free_ char *cwd = realpath(".", NULL);
	const struct shfs_mount *mount = NULL;
	const struct shfs_project *project = NULL;
	char *found;

	if (cwd && !shfs_mounts_list(0, NULL, &mounts))
		mount = shfs_mounts_around(&mounts, cwd);
	if (cwd && !mount && !shfs_projects_read(shfs_context_store_path(ctx), &projects))
		project = shfs_projects_around(&projects, cwd);
	found = mount     ? strdup(mount->dir)
	        : project ? strdup(project->dir)
	                  : TAKE_PTR(cwd);
	if (!found)
		shfs_no_memory();
	return found;
}

static int fail_layer(int64_t n, int r)
{
	if (r == -ENOENT)
		shfs_error("there is no try %" PRId64, n);
	else if (r == -EBADMSG)
		shfs_error("try %" PRId64 " is damaged: its note cannot be read", n);
	else
		shfs_error("try %" PRId64 ": %s", n, strerror(-r));
	if (r == -ENOENT)
		shfs_hint("shfs try list shows them");
	return r == -ENOENT ? SHFS_EXIT_NOT_FOUND : SHFS_EXIT_FAILURE;
}

/* Opens the newest layer of the project. */
static int open_newest(const struct shfs_store *store, const char *project,
                       struct shfs_layer *out)
{
	_cleanup_free_ int64_t *numbers = NULL;
	size_t n;
	int r = shfs_layers_list(store, &numbers, &n);

	while (!r && n--) {
		r = shfs_layer_open(store, numbers[n], out);
		if (!r && !strcmp(out->project, project))
			return 0;
		shfs_layer_close(out);
		if (r == -EBADMSG || r == -ENOENT)
			r = 0;
	}
	*out = (struct shfs_layer){ .dirfd = -1, .lock_fd = -1 };
	if (r)
		shfs_error("cannot list what was tried: %s", strerror(-r));
	else
		shfs_error("nothing was tried in this project, or all of it is kept or "
		           "dropped");
	return r ? SHFS_EXIT_FAILURE : SHFS_EXIT_NOT_FOUND;
}

static bool is_number(const char *word)
{
	return *word && strlen(word) < 18 && !word[strspn(word, "0123456789")];
}

/* Opens the layer that the first operand or --in names, else the newest one of the
 * project. *used: how many operands named it. */
static int open_layer(struct shfs_context *ctx, const struct shfs_store *store, int argc,
                      char **argv, int *used, struct shfs_layer *out)
{
	_cleanup_free_ char *project = NULL;
	int64_t n = opts.number;
	int r;

	*out = (struct shfs_layer){ .dirfd = -1, .lock_fd = -1 };
	*used = !n && argc && is_number(argv[0]);
	if (*used)
		n = strtoll(argv[0], NULL, 10);
	if (n || *used) {
		r = shfs_layer_open(store, n, out);
		return r ? fail_layer(n, r) : 0;
	}
	project = find_project(ctx);
	return project ? open_newest(store, project, out) : SHFS_EXIT_FAILURE;
}

static int lock_layer(struct shfs_layer *layer)
{
	int r = shfs_layer_lock(layer);

	if (!r)
		return 0;
	if (r != -EBUSY)
		return fail_layer(layer->n, r);
	shfs_error("try %" PRId64 " still runs: %s", layer->n, layer->command);
	return SHFS_EXIT_REFUSED;
}

/* --- what was changed --- */

struct counts {
	size_t made, changed, removed;
};

static struct counts count_changes(const struct shfs_changes *changes)
{
	struct counts c = { 0 };

	for (size_t i = 0; i < changes->n; i++) {
		const struct shfs_change *one = &changes->list[i];

		if (one->kind == SHFS_CHANGE_MADE)
			c.made++;
		else if (one->kind == SHFS_CHANGE_REMOVED)
			c.removed++;
		else
			c.changed++;
	}
	return c;
}

static void show_counts(struct shfs_buf *out, const struct shfs_changes *changes)
{
	struct counts c = count_changes(changes);

	shfs_buf_printf(out, "%zu made, %zu changed, %zu removed", c.made, c.changed,
	                c.removed);
	if (changes->conflicts)
		shfs_buf_printf(out, ", %zu of them changed by others meanwhile",
		                changes->conflicts);
}

static int find_changes(const struct shfs_layer *layer, struct shfs_changes *out)
{
	int r = shfs_changes_find(layer, out);

	if (!r)
		return 0;
	shfs_error("cannot tell what try %" PRId64 " has changed: %s", layer->n,
	           strerror(-r));
	return SHFS_EXIT_FAILURE;
}

/* As find_changes(), at these paths alone; paths is empty: all. */
static int find_selected(const struct shfs_layer *layer, int argc, char **argv,
                         struct shfs_changes *out)
{
	_cleanup_free_ char **paths = calloc((size_t)argc + 1, sizeof(*paths));
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	const char *without = NULL;
	int code = paths ? find_changes(layer, out) : SHFS_EXIT_FAILURE;
	bool found = true;

	for (int i = 0; i < argc && !code; i++) {
		paths[i] = shfs_path_absolute(argv[i]);
		if (!paths[i]) {
			shfs_no_memory();
			code = SHFS_EXIT_FAILURE;
		}
	}
	if (!code)
		found = shfs_changes_select(out, layer, paths, (size_t)argc, &without);
	if (!found && without) {
		shfs_show_path(&shown, without);
		shfs_error("try %" PRId64 " has changed nothing at %s", layer->n,
		           shown.data);
	}
	for (int i = 0; i < argc && paths; i++)
		free(paths[i]);
	return code ? code : found ? 0 : SHFS_EXIT_NOT_FOUND;
}

static const char *kind_name(enum shfs_change_kind kind)
{
	static const char *const names[] = {
		[SHFS_CHANGE_MADE] = "made",
		[SHFS_CHANGE_CHANGED] = "changed",
		[SHFS_CHANGE_ATTRIBUTES] = "attributes",
		[SHFS_CHANGE_REMOVED] = "removed",
	};

	return names[kind];
}

/* The path of the change as the user would write it, a directory with a slash. */
static void show_change_path(struct shfs_buf *out, const struct shfs_layer *layer,
                             const struct shfs_change *change)
{
	_cleanup_free_ char *path = shfs_path_join(layer->project, change->path);
	const struct stat *st = change->now.st_mode ? &change->now : &change->then;

	shfs_show_path(out, path ? path : change->path);
	if (S_ISDIR(st->st_mode) && out->len && out->data[out->len - 1] != '/')
		shfs_buf_char(out, '/');
}

static void show_change(struct shfs_buf *out, const struct shfs_layer *layer,
                        const struct shfs_change *change)
{
	static const char *const words[] = {
		[SHFS_CHANGE_MADE] = "made      ",
		[SHFS_CHANGE_CHANGED] = "changed   ",
		[SHFS_CHANGE_ATTRIBUTES] = "attributes",
		[SHFS_CHANGE_REMOVED] = "removed   ",
	};

	shfs_buf_printf(out, "  %s  ", words[change->kind]);
	show_change_path(out, layer, change);
	if (change->kind == SHFS_CHANGE_ATTRIBUTES &&
	    change->now.st_mode != change->then.st_mode)
		shfs_buf_printf(out, "  mode %o %s %o", change->then.st_mode & 07777,
		                shfs_sign("→"), change->now.st_mode & 07777);
	if (change->conflict)
		shfs_buf_printf(out, "  (%s by others)", change->conflict);
	shfs_buf_char(out, '\n');
}

static void json_changes(struct shfs_json *json, const struct shfs_layer *layer,
                         const struct shfs_changes *changes)
{
	shfs_json_array(json, "changes");
	for (size_t i = 0; i < changes->n; i++) {
		const struct shfs_change *one = &changes->list[i];
		_cleanup_free_ char *path = shfs_path_join(layer->project, one->path);

		shfs_json_object(json, NULL);
		shfs_json_str(json, "path", path ? path : one->path);
		shfs_json_str(json, "change", kind_name(one->kind));
		if (one->conflict)
			shfs_json_str(json, "conflict", one->conflict);
		else
			shfs_json_null(json, "conflict");
		shfs_json_object_end(json);
	}
	shfs_json_array_end(json);
}

static void json_layer(struct shfs_json *json, struct shfs_layer *layer,
                       const struct shfs_changes *changes)
{
	shfs_json_int(json, "try", layer->n);
	shfs_json_str(json, "project", layer->project);
	shfs_json_str(json, "command", layer->command);
	shfs_json_time(json, "began", layer->began_ns);
	if (layer->ended_ns) {
		shfs_json_time(json, "ended", layer->ended_ns);
		shfs_json_int(json, "status", layer->status);
	} else {
		shfs_json_null(json, "ended");
		shfs_json_null(json, "status");
	}
	shfs_json_bool(json, "running", shfs_layer_runs(layer));
	json_changes(json, layer, changes);
}

/* --- try COMMAND --- */

/* As a line of a shell, without secrets; allocated. */
static char *command_text(struct shfs_context *ctx, int argc, char **argv)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	struct shfs_redactor *redactor = NULL;
	const struct shfs_config *config;
	char *redacted = NULL;
	size_t len;
	int code, r = -ENOMEM;

	if (argc)
		shfs_quote_command(&text, argv);
	else
		shfs_buf_str(&text, "(a shell)");
	config = shfs_context_config(ctx, &code);
	if (!text.failed && config && !shfs_secrets_redactor(config, &redactor))
		r = shfs_redact(redactor, text.data, text.len, false, &redacted, &len);
	shfs_redactor_free(redactor);
	return r < 0 ? NULL : r ? redacted : shfs_buf_take(&text);
}

/* Can a layer lie over the project? */
static int check_project(const char *store_path, const char *project)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_show_directory(&shown, project);
	if (shfs_path_is_below(store_path, project)) {
		shfs_error("a layer over %s would cover the store itself", shown.data);
		shfs_hint("try it in a project below, or with another store: --store");
		return SHFS_EXIT_REFUSED;
	}
	return 0;
}

static int say_result(struct shfs_layer *layer)
{
	_cleanup_changes_ struct shfs_changes changes = { 0 };
	_cleanup_buf_ struct shfs_buf out = { 0 };
	int code = find_changes(layer, &changes);

	if (code)
		return code;
	if (!changes.n) {
		fprintf(stderr, "shfs: nothing of the project was changed\n");
		return shfs_layer_remove(layer) ? SHFS_EXIT_FAILURE : 0;
	}
	show_counts(&out, &changes);
	fprintf(stderr,
	        "shfs: try %" PRId64 ": %s\n"
	        "  shfs try diff shows it, shfs try keep or drop ends it\n",
	        layer->n, out.data ? out.data : "");
	return 0;
}

static int run_in(struct shfs_context *ctx, struct shfs_layer *layer, char **argv,
                  bool new)
{
	struct shfs_inside inside = {
		.layer = layer,
		.config = ctx->config_option,
		.argv = *argv ? argv : NULL,
		.no_net = opts.no_net,
	};
	int status = 0, code = shfs_inside_run(&inside, &status);

	if (code) {
		if (new &&shfs_layer_remove(layer))
			shfs_warn("what was made for it stays: %s", layer->path);
		return code;
	}
	code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	if (shfs_layer_end(layer, code))
		shfs_warn("its end cannot be noted");
	say_result(layer);
	return shfs_foreground_end(status);
}

static int try_again(struct shfs_context *ctx, const struct shfs_store *store,
                     char **argv)
{
	_cleanup_layer_ struct shfs_layer layer = { .dirfd = -1, .lock_fd = -1 };
	int r = shfs_layer_open(store, opts.number, &layer), code;

	if (r)
		return fail_layer(opts.number, r);
	code = lock_layer(&layer);
	if (code)
		return code;
	r = shfs_layer_begin(&layer);
	return r ? fail_layer(layer.n, r) : run_in(ctx, &layer, argv, false);
}

static int try_command(struct shfs_context *ctx, const struct shfs_store *store, int argc,
                       char **argv)
{
	_cleanup_layer_ struct shfs_layer layer = { .dirfd = -1, .lock_fd = -1 };
	_cleanup_free_ char *project = NULL, *text = NULL;
	int r, code;

	if (opts.number)
		return try_again(ctx, store, argv);
	project = find_project(ctx);
	if (!project)
		return SHFS_EXIT_FAILURE;
	code = check_project(shfs_context_store_path(ctx), project);
	if (code)
		return code;
	text = command_text(ctx, argc, argv);
	r = text ? shfs_layer_new(store, project, text, &layer) : -ENOMEM;
	if (r) {
		shfs_error("cannot make a layer: %s", strerror(-r));
		return SHFS_EXIT_FAILURE;
	}
	return run_in(ctx, &layer, argv, true);
}

/* --- try list --- */

enum { N, COMMAND, PROJECT, BEGAN, ENDED, STATUS, RUNNING, MADE, CHANGED, REMOVED, LOST };

static const struct shfs_column columns[] = {
	[N] = { "try", "its number", SHFS_COLUMN_NUMBER },
	[COMMAND] = { "command", "that was tried" },
	[PROJECT] = { "project", "the directory below the layer" },
	[BEGAN] = { "began", "when it began" },
	[ENDED] = { "ended", "when it ended" },
	[STATUS] = { "status", "its exit status", SHFS_COLUMN_NUMBER },
	[RUNNING] = { "running", "yes or no" },
	[MADE] = { "made", "how many files it made", SHFS_COLUMN_NUMBER },
	[CHANGED] = { "changed", "how many it changed", SHFS_COLUMN_NUMBER },
	[REMOVED] = { "removed", "how many it removed", SHFS_COLUMN_NUMBER },
	[LOST] = { "conflicts", "how many of them others have changed meanwhile",
	           SHFS_COLUMN_NUMBER },
	{ NULL },
};

struct try_row {
	struct shfs_layer *layer;
	const struct shfs_changes *changes;
};

static int try_cell(void *arg, int column, struct shfs_buf *out)
{
	const struct try_row *row = arg;
	struct shfs_layer *layer = row->layer;
	struct counts counts = count_changes(row->changes);

	switch (column) {
	case N:
		shfs_buf_int(out, layer->n);
		break;
	case COMMAND:
		shfs_quote_display(out, layer->command, strlen(layer->command));
		break;
	case PROJECT:
		shfs_quote_display(out, layer->project, strlen(layer->project));
		break;
	case BEGAN:
		shfs_time_show(out, layer->began_ns);
		break;
	case ENDED:
		if (layer->ended_ns)
			shfs_time_show(out, layer->ended_ns);
		break;
	case STATUS:
		if (layer->ended_ns)
			shfs_buf_int(out, layer->status);
		break;
	case RUNNING:
		shfs_buf_str(out, shfs_layer_runs(layer) ? "yes" : "no");
		break;
	case MADE:
		shfs_buf_int(out, (int64_t)counts.made);
		break;
	case CHANGED:
		shfs_buf_int(out, (int64_t)counts.changed);
		break;
	case REMOVED:
		shfs_buf_int(out, (int64_t)counts.removed);
		break;
	case LOST:
		shfs_buf_int(out, (int64_t)row->changes->conflicts);
		break;
	}
	return 0;
}

static bool list_text(struct shfs_layer *layer, const struct shfs_changes *changes)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	shfs_buf_printf(&out, "%" PRId64 "  ", layer->n);
	shfs_show_first_line(&out, layer->command, strlen(layer->command), TEXT_WIDTH);
	shfs_buf_str(&out, "\n   ");
	shfs_time_show(&out, layer->began_ns);
	shfs_buf_str(&out, "  ");
	shfs_show_directory(&out, layer->project);
	if (shfs_layer_runs(layer))
		shfs_buf_str(&out, "  runs");
	else if (!layer->ended_ns)
		shfs_buf_str(&out, "  was killed");
	else if (layer->status)
		shfs_buf_printf(&out, "  failed (%d)", layer->status);
	shfs_buf_str(&out, "\n   ");
	show_counts(&out, changes);
	shfs_buf_char(&out, '\n');
	return shfs_show_flush(&out);
}

/* Adds it to the table or to the document, or shows it. An exit code. */
static int list_layer(const struct shfs_store *store, int64_t n, struct shfs_table *table,
                      struct shfs_json *json)
{
	_cleanup_layer_ struct shfs_layer layer = { .dirfd = -1, .lock_fd = -1 };
	_cleanup_changes_ struct shfs_changes changes = { 0 };
	int r = shfs_layer_open(store, n, &layer), code;

	if (r)
		return r == -ENOENT ? 0 : fail_layer(n, r);
	code = find_changes(&layer, &changes);
	if (code)
		return code;
	if (table &&
	    shfs_table_add(table, try_cell, &(struct try_row){ &layer, &changes }))
		return shfs_no_memory(), SHFS_EXIT_FAILURE;
	if (table)
		return 0;
	if (!opts.json)
		return list_text(&layer, &changes) ? 0 : SHFS_EXIT_FAILURE;
	shfs_json_object(json, NULL);
	json_layer(json, &layer, &changes);
	shfs_json_object_end(json);
	return 0;
}

static int list_layers(struct shfs_context *ctx, const struct shfs_store *store)
{
	_cleanup_json_ struct shfs_json json = { 0 };
	_cleanup_table_ struct shfs_table *table = NULL;
	_cleanup_free_ int64_t *numbers = NULL;
	size_t n;
	int r = shfs_layers_list(store, &numbers, &n), worst = 0;

	if (!r && shfs_output_columns)
		r = shfs_table_open(&shfs_cmd_try, &table);
	if (r) {
		shfs_error("cannot list what was tried: %s", strerror(-r));
		return SHFS_EXIT_FAILURE;
	}
	shfs_json_begin(&json, "try");
	shfs_json_array(&json, "tries");
	for (size_t i = 0; i < n; i++) {
		int code = list_layer(store, numbers[i], table, &json);

		worst = worst ? worst : code;
	}
	shfs_json_array_end(&json);
	if (opts.json && !shfs_json_end(&json))
		return SHFS_EXIT_FAILURE;
	if (!n && !opts.json && !table)
		puts("nothing is being tried; shfs try COMMAND begins");
	if (table && shfs_table_print(ctx, table, false))
		worst = worst ? worst : SHFS_EXIT_FAILURE;
	return worst;
}

/* --- try diff --- */

static int open_side(int dirfd, const char *path, const char *label,
                     struct shfs_diff_side *side)
{
	side->fd = openat(dirfd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	shfs_buf_str(&side->label, label);
	if (side->fd >= 0 && !side->label.failed)
		return 0;
	shfs_error("%s: %s", label, strerror(side->fd < 0 ? errno : ENOMEM));
	return SHFS_EXIT_FAILURE;
}

/* Compares a file with the one in the layer. */
static int diff_file(struct shfs_context *ctx, const struct shfs_layer *layer,
                     const struct shfs_change *change)
{
	struct shfs_diff_side side[2] = { { .fd = -1 }, { .fd = -1 } };
	struct shfs_diff_options options = { .color = shfs_context_color(ctx) };
	_cleanup_free_ char *path = shfs_path_join(layer->project, change->path);
	_cleanup_buf_ struct shfs_buf shown = { 0 }, tried = { 0 }, upper = { 0 };
	int code;

	shfs_show_path(&shown, path ? path : change->path);
	shfs_buf_printf(&tried, "%s (try %" PRId64 ")", shown.data, layer->n);
	shfs_buf_printf(&upper, SHFS_LAYER_PROJECT "/upper/%s", change->path);
	if (!path || shown.failed || tried.failed || upper.failed) {
		shfs_no_memory();
		return SHFS_EXIT_FAILURE;
	}
	code = S_ISREG(change->then.st_mode)
	               ? open_side(AT_FDCWD, path, shown.data, &side[0])
	               : shfs_diff_nothing(&side[0]);
	if (!code)
		code = S_ISREG(change->now.st_mode)
		               ? open_side(layer->dirfd, upper.data, tried.data, &side[1])
		               : shfs_diff_nothing(&side[1]);
	fflush(stdout);
	if (!code)
		code = shfs_diff_run(side, &options);
	shfs_diff_side_clear(&side[0]);
	shfs_diff_side_clear(&side[1]);
	return code == 1 ? 0 : code;
}

static bool has_content(const struct shfs_change *change)
{
	return change->kind != SHFS_CHANGE_ATTRIBUTES &&
	       (S_ISREG(change->now.st_mode) || S_ISREG(change->then.st_mode)) &&
	       (S_ISREG(change->now.st_mode) || !change->now.st_mode);
}

static int diff_layer(struct shfs_context *ctx, const struct shfs_store *store, int argc,
                      char **argv)
{
	_cleanup_layer_ struct shfs_layer layer = { .dirfd = -1, .lock_fd = -1 };
	_cleanup_changes_ struct shfs_changes changes = { 0 };
	_cleanup_json_ struct shfs_json json = { 0 };
	int used, code = open_layer(ctx, store, argc, argv, &used, &layer);

	if (!code)
		code = find_selected(&layer, argc - used, argv + used, &changes);
	if (code)
		return code;
	if (opts.json) {
		shfs_json_begin(&json, "try");
		json_layer(&json, &layer, &changes);
		return shfs_json_end(&json) ? changes.n > 0 : SHFS_EXIT_FAILURE;
	}
	shfs_context_pager(ctx);
	for (size_t i = 0; i < changes.n && !code; i++) {
		_cleanup_buf_ struct shfs_buf out = { 0 };

		if (!opts.brief && has_content(&changes.list[i])) {
			code = diff_file(ctx, &layer, &changes.list[i]);
			continue;
		}
		show_change(&out, &layer, &changes.list[i]);
		code = shfs_show_flush(&out) ? 0 : SHFS_EXIT_FAILURE;
	}
	return code ? code : changes.n > 0;
}

/* --- try keep --- */

/* The messages of export and import are left out: they tell which contents an archive
 * lacks. */
static int run_shfs(const char *const *argv)
{
	pid_t pid = shfs_child_start("/proc/self/exe", argv, SHFS_CHILD_NOTHING);

	return pid < 0 ? SHFS_EXIT_FAILURE : shfs_child_wait(pid);
}

/* The paths of what is kept, each with a NUL. */
static int list_kept(const struct shfs_layer *layer, const struct shfs_changes *changes,
                     struct shfs_buf *out)
{
	for (size_t i = 0; i < changes->n; i++) {
		_cleanup_free_ char *path =
			shfs_path_join(layer->project, changes->list[i].path);

		if (!path)
			return -ENOMEM;
		if (!S_ISDIR(changes->list[i].now.st_mode))
			shfs_buf_add(out, path, strlen(path) + 1);
	}
	return out->failed ? -ENOMEM : 0;
}

/* Exports the record of the layer to archive: of these paths, or of all if there are
 * none. An exit code. */
static int export_record(const struct shfs_layer *layer, const char *archive,
                         const struct shfs_buf *paths)
{
	_cleanup_free_ char *from = shfs_path_join(layer->path, SHFS_LAYER_STORE);
	_cleanup_free_ const char **argv = NULL;
	size_t n = 0;

	for (size_t i = 0; i < paths->len; i++)
		n += !paths->data[i];
	argv = calloc(n + 8, sizeof(*argv));
	if (!from || !argv)
		return SHFS_EXIT_FAILURE;
	n = 0;
	argv[n++] = "shfs";
	argv[n++] = "export";
	argv[n++] = "tar";
	argv[n++] = "--store";
	argv[n++] = from;
	argv[n++] = "-fo";
	argv[n++] = archive;
	for (size_t i = 0; i < paths->len; i += strlen(paths->data + i) + 1)
		argv[n++] = paths->data + i;
	return run_shfs(argv);
}

/* Takes the record of what is kept from the layer into the store, before it is made in
 * the project: that is then made of contents that are known. Only with the first keep of
 * a layer: an import adds nothing to what it brought before. */
static void adopt_record(const char *store_path, const struct shfs_layer *layer,
                         const struct shfs_changes *changes, bool all)
{
	_cleanup_free_ char *archive = shfs_path_join(layer->path, ARCHIVE);
	_cleanup_buf_ struct shfs_buf paths = { 0 };
	const char *import[] = { "shfs", "import", "--store", store_path, archive, NULL };
	bool known = archive && !access(archive, F_OK);

	if (!known && archive && (all || !list_kept(layer, changes, &paths)) &&
	    !export_record(layer, archive, &paths) && !run_shfs(import))
		return;
	shfs_warn(
		known ? "a part of this try was kept before: the history tells only that "
			"the rest was kept"
		      : "what happened in the layer is not taken into the history");
}

static int take_steps(struct shfs_store *store, const struct shfs_layer *layer,
                      const struct shfs_changes *changes)
{
	_cleanup_steps_ struct shfs_steps steps = { 0 };
	_cleanup_(shfs_steps_close) struct shfs_steps_place place = { -1, -1 };
	_cleanup_buf_ struct shfs_buf message = { 0 };
	struct shfs_steps_how how = { .store = store,
		                      .place = &place,
		                      .message = &message };
	int r = shfs_steps_open(store, &place);

	if (r == -EADDRINUSE) {
		shfs_error("an undo, a restore or another try is at work");
		return SHFS_EXIT_REFUSED;
	}
	if (!r)
		r = shfs_steps_end_left(&how);
	if (r >= 0)
		r = shfs_keep_arrange(layer, changes, &steps);
	if (!r)
		r = shfs_steps_take(&how, &steps);
	if (!r)
		return 0;
	shfs_error("nothing is kept: %s", message.data ? message.data : strerror(-r));
	return SHFS_EXIT_FAILURE;
}

/* Leaves out what others have changed: true if anything is left. */
static bool leave_conflicts(struct shfs_changes *changes)
{
	size_t kept = 0;

	for (size_t i = 0; i < changes->n; i++) {
		struct shfs_change *one = &changes->list[i];
		/* what a directory held that stays, stays, too */
		bool stays = one->inside && i && !kept;

		for (size_t k = kept; one->inside && !stays && k--;)
			if (!changes->list[k].inside) {
				stays = !shfs_path_is_below(one->path,
				                            changes->list[k].path);
				break;
			}
		if (one->conflict || stays)
			free(one->path);
		else
			changes->list[kept++] = *one;
	}
	changes->n = kept;
	changes->conflicts = 0;
	return kept;
}

static int refuse_conflicts(const struct shfs_layer *layer,
                            const struct shfs_changes *changes)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	for (size_t i = 0; i < changes->n; i++)
		if (changes->list[i].conflict)
			show_change(&out, layer, &changes->list[i]);
	shfs_error("others have changed these since the try began; nothing is kept");
	fputs(out.data ? out.data : "", stderr);
	shfs_hint("keep --partly keeps the rest; shfs try diff shows both");
	return SHFS_EXIT_REFUSED;
}

static int keep_changes(struct shfs_context *ctx, struct shfs_store *store,
                        struct shfs_layer *layer, struct shfs_changes *changes, bool all)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };
	int code;

	show_counts(&out, changes);
	if (opts.dry_run) {
		printf("try %" PRId64 " would be kept: %s\n", layer->n, out.data);
		out.len = 0;
		for (size_t i = 0; i < changes->n; i++)
			show_change(&out, layer, &changes->list[i]);
		return shfs_show_flush(&out) ? 0 : SHFS_EXIT_FAILURE;
	}
	adopt_record(shfs_context_store_path(ctx), layer, changes, all);
	code = take_steps(store, layer, changes);
	if (code)
		return code;
	printf("try %" PRId64 " is kept: %s\n", layer->n, out.data);
	if (all && shfs_layer_remove(layer))
		shfs_warn("what is left of the layer stays: %s", layer->path);
	if (!all)
		printf("  the rest of it waits: shfs try diff %" PRId64 "\n", layer->n);
	return 0;
}

static int keep_layer(struct shfs_context *ctx, struct shfs_store *store, int argc,
                      char **argv)
{
	_cleanup_layer_ struct shfs_layer layer = { .dirfd = -1, .lock_fd = -1 };
	_cleanup_changes_ struct shfs_changes changes = { 0 };
	int used, code = open_layer(ctx, store, argc, argv, &used, &layer);
	bool all;

	if (!code)
		code = lock_layer(&layer);
	if (!code)
		code = find_selected(&layer, argc - used, argv + used, &changes);
	if (code)
		return code;
	all = argc == used && !changes.conflicts;
	if (changes.conflicts && !opts.partly)
		return refuse_conflicts(&layer, &changes);
	if (changes.conflicts && !leave_conflicts(&changes)) {
		shfs_error("all of it was changed by others meanwhile");
		return SHFS_EXIT_REFUSED;
	}
	if (!changes.n) {
		shfs_error("try %" PRId64 " has changed nothing that is not so already",
		           layer.n);
		return SHFS_EXIT_NOT_FOUND;
	}
	return keep_changes(ctx, store, &layer, &changes, all);
}

/* --- try drop --- */

static int drop_layer(struct shfs_context *ctx, const struct shfs_store *store, int argc,
                      char **argv)
{
	_cleanup_layer_ struct shfs_layer layer = { .dirfd = -1, .lock_fd = -1 };
	int used, r, code = open_layer(ctx, store, argc, argv, &used, &layer);

	if (!code && argc > used) {
		shfs_error("shfs try drop takes a number alone");
		code = SHFS_EXIT_USAGE;
	}
	if (!code)
		code = lock_layer(&layer);
	if (code)
		return code;
	r = shfs_layer_remove(&layer);
	if (r)
		return fail_layer(layer.n, r);
	printf("try %" PRId64 " is dropped\n", layer.n);
	return SHFS_EXIT_OK;
}

/* --- the command --- */

static int run_try(struct shfs_context *ctx, int argc, char **argv)
{
	bool runs = !opts.verb;
	int code;
	struct shfs_store *store = shfs_context_store(ctx, runs, &code);

	if (!store)
		return code;
	if (runs)
		return try_command(ctx, store, argc, argv);
	if (!strcmp(opts.verb, "list"))
		return list_layers(ctx, store);
	if (!strcmp(opts.verb, "diff"))
		return diff_layer(ctx, store, argc, argv);
	if (!strcmp(opts.verb, "keep"))
		return keep_layer(ctx, store, argc, argv);
	return drop_layer(ctx, store, argc, argv);
}

static int check_try(struct shfs_context *ctx, int argc)
{
	const char *verb = opts.verb ? opts.verb : "";
	bool is_list = !strcmp(verb, "list"), is_diff = !strcmp(verb, "diff");
	bool is_keep = !strcmp(verb, "keep");

	if ((opts.net || opts.no_net) && *verb)
		shfs_error("--net and --no-net are for a command");
	else if (opts.net && opts.no_net)
		shfs_error("--net and --no-net exclude each other");
	else if ((opts.dry_run || opts.partly) && !is_keep)
		shfs_error("--dry-run and --partly are for keep");
	else if (opts.brief && !is_diff)
		shfs_error("--brief is for diff");
	else if (opts.json && !is_list && !is_diff)
		shfs_error("--json is for list and diff");
	else if (shfs_output_columns && !is_list)
		shfs_error("--output is for list");
	else if (is_list && argc)
		shfs_error("shfs try list takes no arguments");
	else
		return 0;
	return SHFS_EXIT_USAGE;
}

static const char *const verbs[] = { "list", "diff", "keep", "drop", NULL };

const struct shfs_command shfs_cmd_try = {
	.name = "try",
	.args = "[--] [COMMAND [ARG…]] | list | diff | keep | drop",
	.summary = "Run a command on a private layer over the project, and keep it or not",
	.description =
		"What it writes in the project, in /tmp and in caches goes to the layer; all\n"
		"else is read-only. Without COMMAND, a shell. Then:\n"
		"  list                  what is being tried\n"
		"  diff [N] [PATH…]      what it has changed; the newest one, or number N\n"
		"  keep [N] [PATH…]      make it so in the project, and in the history\n"
		"  drop [N]              forget it",
	.options = {
	{ "net", 0, NULL, "it can use the network (the default)", .flag = &opts.net },
	{ "no-net", 0, NULL, "it can use no network", .flag = &opts.no_net },
	{ "in", 0, "N", "go on in this one", .count = &opts.number },
	{ "brief", 'q', NULL, "diff: only name what was changed", .flag = &opts.brief },
	{ "dry-run", 'n', NULL, "keep: only show what would be done",
	  .flag = &opts.dry_run },
	{ "partly", 0, NULL, "keep: leave out what others have changed meanwhile",
	  .flag = &opts.partly },
	SHFS_OUTPUT_OPTION,
	{ "json", 0, NULL, "list, diff: for programs (docs/json.md)", .flag = &opts.json },
	},
	.columns = columns,
	.usual_columns = "try,began,status,made,changed,removed,command",
	.on_demand = true,
	.operands = { 0, -1 },
	.rest = true,
	.verbs = verbs,
	.verb = &opts.verb,
	.check = check_try,
	.run = run_try,
};
