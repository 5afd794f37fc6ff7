/* SPDX-License-Identifier: MIT */
/* `shfs note`: give a note or tags to a command or to a version of a file. */
#include "query/base/cmd.h"
#include "query/history/notes.h"
#include "query/history/version-spec.h"
#include "query/note/note-journal.h"
#include "query/table/table.h"

#include "common/proc.h"
#include "common/quote.h"
#include "common/secrets.h"
#include "query/base/time.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define TAGS_MAX 64

static struct {
	bool remove, json;
	const char *tags[TAGS_MAX];
	size_t n_tags;
} opts;

/* A note is about this: a command, or a version. */
struct target {
	char *command; /* its id; NULL: a version */
	int64_t command_id;
	struct shfs_version version;
	/* the tree of the version's file, and its path there */
	char *host, *boot_id;
	const char *path;
};

static void target_clear(struct target *t)
{
	free(t->command);
	shfs_version_clear(&t->version);
	free(t->host);
	free(t->boot_id);
}

/* --- finding it --- */

static int find_command(struct shfs_index *index, const char *operand, struct target *t)
{
	_cleanup_command_ struct shfs_command_row c = { 0 };
	int64_t id;
	int r = shfs_command_find(index, operand, &id);

	if (r > 0)
		r = shfs_command_load(index, id, &c);
	if (r > 0) {
		t->command = TAKE_PTR(c.id);
		t->command_id = id;
	}
	return r;
}

/* A boot that recorded the tree of the file names that on each host. */
static int find_tree(struct shfs_index *index, struct shfs_store *store, struct target *t)
{
	const char *path = t->version.path, *slash = strchr(path, '/');
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_buf_ struct shfs_buf tree = { 0 };
	char boot_id[37];
	int r;

	t->path = slash;
	if (slash == path) {
		r = shfs_proc_boot_id(boot_id);
		t->host = strdup(store->host);
		t->boot_id = r ? NULL : strdup(boot_id);
	} else {
		shfs_buf_add(&tree, path, (size_t)(slash - path));
		shfs_buf_add(&tree, "", 1);
		r = tree.failed
		            ? -ENOMEM
		            : shfs_rows_open_str(index,
		                                 "SELECT host, boot_id FROM v_producer"
		                                 " WHERE substr(root, 1, length(?1) + 1)"
		                                 " = ?1 || '/' LIMIT 1",
		                                 tree.data, &rows);
		if (!r)
			r = shfs_rows_next(rows);
		if (!r)
			return -ENOENT;
		t->host = r > 0 ? strdup(shfs_rows_text(rows, 0)) : NULL;
		t->boot_id = r > 0 ? strdup(shfs_rows_text(rows, 1)) : NULL;
	}
	return r < 0 ? r : t->host && t->boot_id ? 0 : -ENOMEM;
}

/* COMMAND or FILE@N; a file of such a name is one. An exit code. */
static int find_target(struct shfs_context *ctx, struct shfs_index *index,
                       const char *operand, struct target *t)
{
	int r = shfs_command_is_id(operand) && access(operand, F_OK)
	                ? find_command(index, operand, t)
	                : 0;
	int code;

	if (r == -ENOTUNIQ)
		return SHFS_EXIT_NOT_FOUND;
	if (r)
		return r < 0 ? shfs_fail_index(index, r) : 0;
	code = shfs_version_spec_find(index, operand, &t->version);
	if (code)
		return code;
	r = find_tree(index, shfs_context_opened(ctx), t);
	return r ? shfs_fail_index(index, r) : 0;
}

/* --- writing --- */

/* The time of the latest record of such a note, replaced or removed ones too: a new one
 * must be later, whatever the clock says. */
static int latest_ns(struct shfs_index *index, const struct target *t, const char *tag,
                     int64_t *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(
		index,
		"SELECT max(time_ns) FROM v_note_record WHERE command = ?1"
		" AND path = ?2 AND version_ns = ?3 AND tag = ?4",
		t->command ?: "", &rows);

	if (!r)
		r = shfs_rows_bind_str(rows, 2, t->command ? "" : t->version.path);
	if (!r)
		r = shfs_rows_bind_int(rows, 3, t->command ? 0 : t->version.time_ns);
	if (!r)
		r = shfs_rows_bind_str(rows, 4, tag);
	if (!r)
		r = shfs_rows_next(rows);
	*out = r > 0 && !shfs_rows_is_null(rows, 0) ? shfs_rows_int(rows, 0) : INT64_MIN;
	return MIN(r, 0);
}

static int make_record(struct shfs_index *index, const struct target *t, const char *tag,
                       const char *text, struct shfs_rec_note *out)
{
	int64_t before;
	int r = latest_ns(index, t, tag, &before);

	*out = (struct shfs_rec_note){
		.removed = opts.remove,
		.time_ns = MAX(shfs_time_now().real_ns,
		               before < INT64_MAX ? before + 1 : before),
		.command = shfs_bytes_str(t->command),
		.host = shfs_bytes_str(t->host),
		.boot_id = shfs_bytes_str(t->boot_id),
		.path = shfs_bytes_str(t->path),
		.version_ns = t->version.time_ns,
		.tag = shfs_bytes_str(tag),
		.text = shfs_bytes_str(text),
	};
	return r;
}

/* Is there such a note or tag, to remove it? */
static bool is_there(const struct shfs_notes *notes, const char *tag)
{
	for (size_t i = 0; i < notes->n_tags; i++)
		if (!strcmp(notes->tags[i], tag))
			return true;
	return !*tag && notes->text;
}

static int load_notes(struct shfs_index *index, const struct target *t,
                      struct shfs_notes *out)
{
	struct shfs_command_row command = { .command_id = t->command_id,
		                            .id = t->command,
		                            .noted = true };

	return t->command ? shfs_notes_of_command(index, &command, out)
	                  : shfs_notes_of_version(index, &t->version, out);
}

static int check_removals(struct shfs_index *index, const struct target *t,
                          const char *const *tags, size_t n)
{
	_cleanup_notes_ struct shfs_notes notes = { 0 };
	int r = load_notes(index, t, &notes);

	if (r)
		return shfs_fail_index(index, r);
	for (size_t i = 0; i < n; i++) {
		_cleanup_buf_ struct shfs_buf shown = { 0 };

		if (is_there(&notes, tags[i]))
			continue;
		shfs_quote_display(&shown, tags[i], strlen(tags[i]));
		shfs_error(*tags[i] ? "it has no tag %s" : "it has no note%s",
		           shown.data ? shown.data : "");
		return SHFS_EXIT_NOT_FOUND;
	}
	return 0;
}

static int write_notes(struct shfs_context *ctx, struct shfs_index *index,
                       const struct target *t, const char *const *tags, size_t n,
                       const char *text)
{
	struct shfs_rec_note records[TAGS_MAX + 1];
	int r = 0;

	for (size_t i = 0; i < n && !r; i++)
		r = make_record(index, t, tags[i], *tags[i] || opts.remove ? "" : text,
		                &records[i]);
	if (r)
		return shfs_fail_index(index, r);
	r = note_journal_add(shfs_context_opened(ctx), records, n);
	if (!r)
		return SHFS_EXIT_OK;
	shfs_error("cannot write into the journal: %s",
	           r == -EBUSY ? "the store is in use by shfs forget" : strerror(-r));
	return r == -EBUSY ? SHFS_EXIT_REFUSED : SHFS_EXIT_FAILURE;
}

/* Takes secrets out of a text, as out of a command's. 1: there were some; -ENOMEM. */
static int redact_text(struct shfs_redactor *redactor, struct shfs_buf *text)
{
	_cleanup_free_ char *clean = NULL;
	size_t len = 0;
	int r;

	shfs_buf_reserve(text, 1);
	if (text->failed)
		return -ENOMEM;
	text->data[text->len] = '\0';
	r = shfs_redact(redactor, text->data, text->len, false, &clean, &len);
	if (r <= 0)
		return r;
	text->len = 0;
	shfs_buf_add(text, clean, len + 1);
	text->len = len;
	return text->failed ? -ENOMEM : 1;
}

/* A tag that is a secret is refused: nothing of it would be left. */
static int refuse_secret_tags(struct shfs_redactor *redactor)
{
	for (size_t i = 0; i < opts.n_tags; i++) {
		_cleanup_buf_ struct shfs_buf tag = { 0 };
		int r;

		shfs_buf_str(&tag, opts.tags[i]);
		r = redact_text(redactor, &tag);
		if (r < 0)
			return r;
		if (r) {
			shfs_error("a tag looks like a secret");
			return SHFS_EXIT_USAGE;
		}
	}
	return 0;
}

/* An exit code. */
static int keep_no_secret(struct shfs_context *ctx, struct shfs_buf *text)
{
	struct shfs_redactor *redactor = NULL;
	int code = 0, r;
	const struct shfs_config *config = shfs_context_config(ctx, &code);

	if (!config)
		return code;
	r = shfs_secrets_redactor(config, &redactor);
	if (!r && !opts.remove)
		r = code = refuse_secret_tags(redactor);
	if (!r)
		r = redact_text(redactor, text);
	shfs_redactor_free(redactor);
	if (r < 0) {
		shfs_no_memory();
		return SHFS_EXIT_FAILURE;
	}
	if (r && !code)
		shfs_warn("a secret was taken out of the note");
	return code;
}

static int change_notes(struct shfs_context *ctx, struct shfs_index *index,
                        const struct target *t, int argc, char **argv)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	const char *tags[TAGS_MAX + 1];
	size_t n = 0;
	int code;

	for (int i = 0; i < argc; i++)
		shfs_buf_printf(&text, "%s%s", i ? " " : "", argv[i]);
	code = keep_no_secret(ctx, &text);
	if (code)
		return code;
	if (text.len > SHFS_NOTE_TEXT_MAX) {
		shfs_error("a note has at most %d bytes", SHFS_NOTE_TEXT_MAX);
		return SHFS_EXIT_USAGE;
	}
	for (; n < opts.n_tags; n++)
		tags[n] = opts.tags[n];
	if (argc || (opts.remove && !n))
		tags[n++] = "";
	if (opts.remove)
		code = check_removals(index, t, tags, n);
	return code ? code : write_notes(ctx, index, t, tags, n, text.data);
}

/* --- listing --- */

struct list {
	struct shfs_context *ctx;
	struct shfs_index *index;
	struct shfs_table *table; /* with --output */
	struct shfs_buf out;
	struct shfs_json json;
	size_t n;
};

enum { COMMAND, PATH, N, TIME, TAGS, NOTE };

static const struct shfs_column columns[] = {
	[COMMAND] = { "command", "the id of the command that has it" },
	[PATH] = { "path", "of the file whose version has it" },
	[N] = { "n", "the number of that version", SHFS_COLUMN_NUMBER },
	[TIME] = { "time", "when it was given" },
	[TAGS] = { "tags", "words that begin with #" },
	[NOTE] = { "note", "the text, in one line" },
	{ NULL },
};

struct note_row {
	struct shfs_index *index;
	const char *command, *path;
	int64_t n;
	const struct shfs_notes *notes;
};

static int note_cell(void *arg, int column, struct shfs_buf *out)
{
	const struct note_row *row = arg;
	const struct shfs_notes *notes = row->notes;

	switch (column) {
	case COMMAND:
		return *row->command ? shfs_show_id(row->index, out, row->command) : 0;
	case PATH:
		if (!*row->command)
			shfs_quote_display(out, row->path, strlen(row->path));
		break;
	case N:
		if (row->n)
			shfs_buf_int(out, row->n);
		break;
	case TIME:
		shfs_time_show(out, notes->time_ns);
		break;
	case TAGS:
		for (size_t i = 0; i < notes->n_tags; i++) {
			shfs_buf_str(out, i ? " #" : "#");
			shfs_quote_display(out, notes->tags[i], strlen(notes->tags[i]));
		}
		break;
	case NOTE:
		if (notes->text)
			shfs_quote_display(out, notes->text, strlen(notes->text));
		break;
	}
	return 0;
}

static int put_target(struct list *l, const char *command, const char *path, int64_t n,
                      const struct shfs_notes *notes)
{
	const struct shfs_style *style = shfs_style_of(l->ctx);
	int r = 0;

	if (opts.json) {
		shfs_json_object(&l->json, NULL);
		shfs_json_str(&l->json, "command", *command ? command : NULL);
		shfs_json_str(&l->json, "path", *command ? NULL : path);
		if (n)
			shfs_json_int(&l->json, "n", n);
		else
			shfs_json_null(&l->json, "n");
		shfs_json_time(&l->json, "time", notes->time_ns);
		shfs_notes_json(&l->json, notes);
		shfs_json_object_end(&l->json);
		return shfs_json_flush(&l->json) ? 0 : -EIO;
	}
	if (l->table)
		return shfs_table_add(l->table, note_cell,
		                      &(struct note_row){ l->index, command, path, n,
		                                          notes });
	shfs_buf_str(&l->out, style->id);
	if (*command)
		r = shfs_show_id(l->index, &l->out, command);
	else
		shfs_show_version(&l->out, path, n);
	shfs_buf_printf(&l->out, "%s  ", style->off);
	shfs_time_show(&l->out, notes->time_ns);
	shfs_buf_char(&l->out, '\n');
	shfs_notes_show_all(&l->out, style, notes, "    ");
	return r ? r : shfs_show_flush(&l->out) ? 0 : -EIO;
}

/* The latest first. */
#define TARGETS                                                                          \
	"SELECT command, path, version_ns, max(time_ns) AS last FROM v_note"             \
	" GROUP BY command, path, version_ns ORDER BY last DESC, command, path, "        \
	"version_ns"
#define NOTES                                                                            \
	"SELECT tag, text, time_ns FROM v_note WHERE command = ?1 AND path = ?2"         \
	" AND version_ns = ?3 ORDER BY tag"

static int put_row(struct list *l, struct shfs_rows *row)
{
	const char *command = shfs_rows_text(row, 0), *path = shfs_rows_text(row, 1);
	_cleanup_notes_ struct shfs_notes notes = { 0 };
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int64_t n = 0;
	int r = shfs_rows_open_str(l->index, NOTES, command, &rows);

	if (!r)
		r = shfs_rows_bind_str(rows, 2, path);
	if (!r)
		r = shfs_rows_bind_int(rows, 3, shfs_rows_int(row, 2));
	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = shfs_notes_add(&notes, shfs_rows_text(rows, 0),
		                   shfs_rows_text(rows, 1), shfs_rows_int(rows, 2));
	for (size_t i = 0; i < opts.n_tags && !r; i++)
		if (!is_there(&notes, opts.tags[i]))
			return 0;
	if (!r && !*command)
		r = shfs_notes_find_version(l->index, path, shfs_rows_int(row, 2), &n);
	if (!r)
		r = put_target(l, command, path, n, &notes);
	l->n++;
	return r;
}

static int put_rows(struct list *l)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(l->index, TARGETS, &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = put_row(l, rows);
	return r;
}

static int put_one(struct list *l, const struct target *t)
{
	_cleanup_notes_ struct shfs_notes notes = { 0 };
	int r = load_notes(l->index, t, &notes);

	if (r || !shfs_notes_any(&notes))
		return r;
	l->n++;
	return put_target(l, t->command ?: "", t->version.path ?: "", t->version.n,
	                  &notes);
}

static int list_notes(struct shfs_context *ctx, struct shfs_index *index,
                      const struct target *t)
{
	_cleanup_table_ struct shfs_table *table = NULL;
	struct list l = { .ctx = ctx, .index = index };
	int r = shfs_output_columns ? shfs_table_open(&shfs_cmd_note, &table) : 0;

	if (r)
		return r;
	l.table = table;
	if (!table)
		shfs_context_pager(ctx);
	if (opts.json) {
		shfs_json_begin(&l.json, "note");
		shfs_json_array(&l.json, "notes");
	}
	r = t ? put_one(&l, t) : put_rows(&l);
	if (opts.json && !r) {
		shfs_json_array_end(&l.json);
		r = shfs_json_end(&l.json) ? 0 : -EIO;
	}
	if (table && !r)
		r = shfs_table_print(ctx, table, false);
	shfs_buf_free(&l.out);
	shfs_json_free(&l.json);
	if (r || l.n || opts.json)
		return r;
	shfs_error(t ? "it has no note and no tag" : "there are no such notes");
	return SHFS_EXIT_NOT_FOUND;
}

/* --- the command --- */

static int run_note(struct shfs_context *ctx, struct shfs_index *index, int argc,
                    char **argv)
{
	_cleanup_(target_clear) struct target t = { 0 };
	int code;

	if (!argc)
		return list_notes(ctx, index, NULL);
	code = find_target(ctx, index, argv[0], &t);
	if (code)
		return code;
	if (argc == 1 && !opts.n_tags && !opts.remove)
		return list_notes(ctx, index, &t);
	return change_notes(ctx, index, &t, argc - 1, argv + 1);
}

/* A tag is one word, as a shell and a search take it. */
static int add_tag(const struct shfs_option *opt, const char *value)
{
	const char *tag = value + (*value == '#');

	for (const char *p = tag; *p; p++)
		if (isspace((unsigned char)*p) || iscntrl((unsigned char)*p))
			return shfs_bad_value(opt, value, "one word");
	if (!*tag || strlen(tag) > SHFS_NOTE_TAG_MAX)
		return shfs_bad_value(opt, value, "one word");
	if (opts.n_tags == TAGS_MAX) {
		shfs_error("at most %d tags at once", TAGS_MAX);
		return SHFS_EXIT_USAGE;
	}
	opts.tags[opts.n_tags++] = tag;
	return 0;
}

static int check_note_options(struct shfs_context *ctx, int argc)
{
	if (opts.remove && argc != 1)
		shfs_error(argc ? "--delete takes no text" : "--delete what?");
	else if ((opts.json || shfs_output_columns) &&
	         (argc > 1 || (argc && (opts.n_tags || opts.remove))))
		shfs_error("--%s lists notes, and goes with no change",
		           opts.json ? "json" : "output");
	else
		return 0;
	return SHFS_EXIT_USAGE;
}

const struct shfs_command shfs_cmd_note = {
	.name = "note",
	.args = "[COMMAND|FILE[@N] [TEXT…]]",
	.summary = "Give a note or tags to a command or to a version of a file",
	.description =
		"A new TEXT takes the place of the one before. Without TEXT, --tag and\n"
		"--delete, shows what the command or version has; without operands, lists\n"
		"all, the latest first (with --tag, those that have it). search finds notes;\n"
		"history, show and log show them; pushes and archives carry them.",
	.options = {
	{ "tag", 't', "TAG", "give it this tag, one word (may be repeated)" },
	{ "delete", 'd', NULL, "take the note away, or with --tag the tags",
	  .flag = &opts.remove },
	SHFS_OUTPUT_OPTION,
	{ "json", 0, NULL, "list for programs: see docs/json.md", .flag = &opts.json },
	},
	.columns = columns,
	.usual_columns = "command,path,n,time,tags,note",
	.operands = { 0, -1 },
	.option = add_tag,
	.check = check_note_options,
	.run_on_index = run_note,
};
