/* SPDX-License-Identifier: MIT */
/* `shfs compare`: show where two runs began to differ, and what followed. */
#include "query/graph/compare.h"
#include "query/base/cmd.h"
#include "query/base/time.h"
#include "query/graph/show.h"
#include "query/history/diff.h"
#include "query/history/version-spec.h"

#include "common/io.h"
#include "common/quote.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* exit statuses of diff(1) and shfs diff */
enum { DIFFERENT = 1, TROUBLE = 2 };

#define SHOWN_MAX 5 /* contents of a stage that are shown; others are only named */

static bool json;

struct compare {
	struct shfs_index *index;
	struct shfs_store *store;
	const struct shfs_style *style;
	struct shfs_diff_options diff;
	struct shfs_comparison *comparison;
	struct shfs_buf out;
};

static bool has_no_difference(struct shfs_comparison *comparison)
{
	for (struct shfs_stage *s = shfs_comparison_stages(comparison); s; s = s->next)
		if (s->differences)
			return false;
	return true;
}

/* --- text: what differs, in full --- */

/* Runs diff, which writes to standard output itself. */
static int run_diff(struct compare *c, const struct shfs_diff_side side[2])
{
	int r;

	if (!shfs_show_flush(&c->out))
		return -EIO;
	r = shfs_diff_run(side, &c->diff);
	return r == DIFFERENT || !r ? 0 : -EPROTO;
}

static int show_contents(struct compare *c, const struct shfs_difference *d)
{
	struct shfs_diff_side side[2] = { { .fd = -1 }, { .fd = -1 } };
	int r = 0;

	for (int i = 0; i < 2 && !r; i++)
		r = shfs_diff_version(c->store, &d->version[i], &side[i]);
	r = r ? -EPROTO : run_diff(c, side);
	shfs_diff_side_clear(&side[0]);
	shfs_diff_side_clear(&side[1]);
	return r;
}

static int text_side(struct compare *c, const struct shfs_command_row *command,
                     struct shfs_diff_side *side)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r;

	shfs_buf_str(&side->label, "command ");
	r = shfs_show_id(c->index, &side->label, command->id);
	shfs_buf_char(&side->label, '\t');
	shfs_time_show(&side->label, command->begin_ns);
	shfs_quote_text(&text, command->hidden ? "(text not recorded)" : command->text,
	                command->hidden ? strlen("(text not recorded)")
	                                : command->text_len);
	shfs_buf_char(&text, '\n');
	side->fd = memfd_create("shfs-compare", MFD_CLOEXEC);
	if (r || side->fd < 0 || text.failed)
		return r ? r : text.failed ? -ENOMEM : -errno;
	r = shfs_write_all(side->fd, text.data, text.len);
	return r ? r : lseek(side->fd, 0, SEEK_SET) ? -errno : 0;
}

static int show_texts(struct compare *c, const struct shfs_stage *stage)
{
	struct shfs_diff_side side[2] = { { .fd = -1 }, { .fd = -1 } };
	int r = 0;

	for (int i = 0; i < 2 && !r; i++)
		r = text_side(c, &stage->entry[i].command, &side[i]);
	if (!r)
		r = run_diff(c, side);
	shfs_diff_side_clear(&side[0]);
	shfs_diff_side_clear(&side[1]);
	return r;
}

static void show_difference_line(struct compare *c, int side, const char *what,
                                 const char *text)
{
	shfs_buf_printf(&c->out, "%c %s%s%s", side ? '+' : '-', c->style->dim, what,
	                c->style->off);
	shfs_quote_display(&c->out, text, strlen(text));
	shfs_buf_char(&c->out, '\n');
}

static void show_lines(struct compare *c, const char *what, const char *a, const char *b)
{
	if (a)
		show_difference_line(c, 0, what, a);
	if (b)
		show_difference_line(c, 1, what, b);
}

/* Shows the values of a variable of the environment. */
static void show_variables(struct compare *c, const struct shfs_difference *d)
{
	const char *set = d->name[0] ?: d->name[1];
	_cleanup_free_ char *unset = NULL;

	if (asprintf(&unset, "%.*s, which was not set", (int)strcspn(set, "="), set) < 0)
		unset = NULL;
	for (int side = 0; side < 2; side++)
		show_difference_line(c, side, "with ", d->name[side] ?: unset ?: "");
}

static void show_statuses(struct compare *c, const struct shfs_stage *stage)
{
	for (int i = 0; i < 2; i++) {
		const struct shfs_command_row *command = &stage->entry[i].command;
		char text[32] = "not known";

		if (command->has_status)
			snprintf(text, sizeof(text), "%lld", (long long)command->status);
		show_difference_line(c, i, "exit status ", text);
	}
}

static void show_version(struct compare *c, int side, const char *what,
                         const struct shfs_version *v)
{
	if (!v->path)
		return;
	shfs_buf_printf(&c->out, "%c %s%s%s", side ? '+' : '-', c->style->dim, what,
	                c->style->off);
	shfs_show_version(&c->out, v->path, v->n);
	if (!(v->flags & SHFS_CONTENT_OBJECT))
		shfs_buf_printf(&c->out, "  %snot archived: %s%s", c->style->dim,
		                shfs_version_why_not_archived(v->flags) ?: "unknown",
		                c->style->off);
	shfs_buf_char(&c->out, '\n');
}

static int show_file_difference(struct compare *c, const struct shfs_difference *d,
                                size_t *shown)
{
	const char *what = d->kind == SHFS_DIFFERENT_INPUT ? "read " : "made ";
	const struct shfs_version *a = &d->version[0], *b = &d->version[1];

	if (a->path && b->path && (a->flags & b->flags & SHFS_CONTENT_OBJECT) &&
	    ++*shown <= SHOWN_MAX)
		return show_contents(c, d);
	show_version(c, 0, what, a);
	show_version(c, 1, what, b);
	return 0;
}

static int show_difference(struct compare *c, const struct shfs_stage *stage,
                           const struct shfs_difference *d, size_t *shown)
{
	switch (d->kind) {
	case SHFS_DIFFERENT_TEXT:
		return show_texts(c, stage);
	case SHFS_DIFFERENT_CWD:
		show_lines(c, "in ", stage->entry[0].command.cwd,
		           stage->entry[1].command.cwd);
		return 0;
	case SHFS_DIFFERENT_SHELL:
		show_lines(c, "by ", d->name[0], d->name[1]);
		return 0;
	case SHFS_DIFFERENT_PROGRAM:
		show_lines(c, "executed ", d->name[0], d->name[1]);
		return 0;
	case SHFS_DIFFERENT_SOFTWARE:
		show_lines(c, "used ", d->name[0], d->name[1]);
		return 0;
	case SHFS_DIFFERENT_ENVIRONMENT:
		show_variables(c, d);
		return 0;
	case SHFS_DIFFERENT_ARGUMENTS:
		show_lines(c, "called ", d->name[0], d->name[1]);
		return 0;
	case SHFS_DIFFERENT_STATUS:
		show_statuses(c, stage);
		return 0;
	default:
		return show_file_difference(c, d, shown);
	}
}

/* --- text: the stages --- */

static int show_command(struct compare *c, const struct shfs_entry *entry, char sign)
{
	int r;

	shfs_buf_printf(&c->out, "%c ", sign);
	r = shfs_entry_show_head(c->index, c->style, entry, shfs_show_columns() - 2,
	                         &c->out);
	shfs_buf_printf(&c->out, "\n           %s", c->style->dim);
	shfs_time_show(&c->out, entry->command.begin_ns);
	shfs_buf_str(&c->out, "  in ");
	shfs_show_directory(&c->out, entry->command.cwd);
	shfs_buf_printf(&c->out, "%s\n", c->style->off);
	return r;
}

/* Shows one line for each: "out.csv@1 out.csv@2". */
static void show_names(struct compare *c, const struct shfs_difference *d)
{
	shfs_buf_printf(&c->out, "  %s%-7s%s", c->style->dim,
	                shfs_difference_word(d->kind), c->style->off);
	for (int i = 0; i < 2; i++) {
		shfs_buf_str(&c->out, i ? "  " : "");
		if (d->version[i].path)
			shfs_show_version(&c->out, d->version[i].path, d->version[i].n);
		else
			shfs_buf_char(&c->out, '-');
	}
	shfs_buf_char(&c->out, '\n');
}

static int show_stage(struct compare *c, const struct shfs_stage *stage)
{
	size_t shown = 0;
	int r = 0;

	for (const struct shfs_difference *d = stage->differences; d && !r; d = d->next)
		if (!d->explained)
			r = show_difference(c, stage, d, &shown);
	return r;
}

static void show_consequences(struct compare *c, const struct shfs_stage *stage)
{
	size_t n = 0;

	for (const struct shfs_difference *d = stage->differences; d; d = d->next)
		if (d->explained && d->kind != SHFS_DIFFERENT_STATUS &&
		    ++n <= SHFS_TREE_LISTED)
			show_names(c, d);
	if (n > SHFS_TREE_LISTED)
		shfs_buf_printf(&c->out, "  %s+ %zu more%s\n", c->style->dim,
		                n - SHFS_TREE_LISTED, c->style->off);
}

/* Shows the ids and texts of both commands. */
static int show_later(struct compare *c, const struct shfs_stage *stage)
{
	int r;

	shfs_buf_printf(&c->out, "\n%s", c->style->id);
	r = shfs_show_id(c->index, &c->out, stage->entry[0].command.id);
	shfs_buf_printf(&c->out, "%s  ", c->style->off);
	if (!r)
		r = shfs_entry_show_head(c->index, c->style, &stage->entry[1],
		                         shfs_show_columns() - 9, &c->out);
	shfs_buf_char(&c->out, '\n');
	return r ? r : show_stage(c, stage);
}

static const char *first_words(const struct shfs_stage *stage)
{
	switch (stage->differences->kind) {
	case SHFS_DIFFERENT_TEXT:
		return "the command";
	case SHFS_DIFFERENT_CWD:
		return "where it was run";
	case SHFS_DIFFERENT_SHELL:
		return "the shell";
	case SHFS_DIFFERENT_PROGRAM:
		return "the programs";
	case SHFS_DIFFERENT_SOFTWARE:
		return "the software";
	case SHFS_DIFFERENT_ENVIRONMENT:
		return "the environment";
	case SHFS_DIFFERENT_ARGUMENTS:
		return "the arguments";
	case SHFS_DIFFERENT_INPUT:
		return "what it read";
	default:
		return "the results, of the same input: the command depends on something "
		       "else";
	}
}

static int show_comparison(struct compare *c)
{
	struct shfs_stage *stage = shfs_comparison_stages(c->comparison);
	int r;

	while (!stage->n_unexplained && stage->next)
		stage = stage->next;
	r = show_command(c, &stage->entry[0], '-')
	            ?: show_command(c, &stage->entry[1], '+');
	if (!stage->differences) {
		shfs_buf_printf(&c->out, "\n%sthe same%s\n", c->style->dim,
		                c->style->off);
		return r;
	}
	shfs_buf_printf(&c->out, "\n%sEarliest difference: %s%s\n", c->style->bold,
	                first_words(stage), c->style->off);
	if (!r)
		r = show_stage(c, stage);
	shfs_buf_printf(&c->out, "\n%sWhat followed%s\n", c->style->bold, c->style->off);
	show_consequences(c, stage);
	for (stage = stage->next; stage && !r; stage = stage->next) {
		r = show_later(c, stage);
		show_consequences(c, stage);
	}
	return r;
}

/* --- JSON --- */

static void json_side(struct shfs_json *j, const struct shfs_stage *stage,
                      const struct shfs_difference *d, int side)
{
	const struct shfs_command_row *command = &stage->entry[side].command;
	const char *key = side ? "second" : "first";

	switch (d->kind) {
	case SHFS_DIFFERENT_TEXT:
		if (command->hidden)
			shfs_json_null(j, key);
		else
			shfs_json_text(j, key, command->text, command->text_len);
		break;
	case SHFS_DIFFERENT_CWD:
		shfs_json_str(j, key, command->cwd);
		break;
	case SHFS_DIFFERENT_STATUS:
		if (command->has_status)
			shfs_json_int(j, key, command->status);
		else
			shfs_json_null(j, key);
		break;
	case SHFS_DIFFERENT_INPUT:
	case SHFS_DIFFERENT_RESULT:
		if (d->version[side].path)
			shfs_json_version_name(j, key, &d->version[side]);
		else
			shfs_json_null(j, key);
		break;
	default:
		shfs_json_str(j, key, d->name[side]);
	}
}

static void json_stage(struct shfs_json *j, const struct shfs_stage *stage)
{
	shfs_json_object(j, NULL);
	shfs_json_array(j, "commands");
	for (int i = 0; i < 2; i++) {
		shfs_json_object(j, NULL);
		shfs_entry_json_head(j, &stage->entry[i]);
		shfs_json_object_end(j);
	}
	shfs_json_array_end(j);
	shfs_json_array(j, "differences");
	for (const struct shfs_difference *d = stage->differences; d; d = d->next) {
		shfs_json_object(j, NULL);
		shfs_json_str(j, "what", shfs_difference_word(d->kind));
		shfs_json_bool(j, "explained", d->explained);
		for (int side = 0; side < 2; side++)
			json_side(j, stage, d, side);
		shfs_json_object_end(j);
	}
	shfs_json_array_end(j);
	shfs_json_object_end(j);
}

static int json_comparison(struct compare *c)
{
	_cleanup_json_ struct shfs_json j = { 0 };
	bool ok = true;

	shfs_json_begin(&j, "compare");
	shfs_json_bool(&j, "same", has_no_difference(c->comparison));
	shfs_json_array(&j, "stages");
	for (struct shfs_stage *s = shfs_comparison_stages(c->comparison); s && ok;
	     s = s->next) {
		json_stage(&j, s);
		ok = shfs_json_flush(&j);
	}
	shfs_json_array_end(&j);
	return ok && shfs_json_end(&j) ? 0 : -EIO;
}

/* --- the command --- */

static int fail_one(struct shfs_index *index, int64_t id)
{
	_cleanup_command_ struct shfs_command_row command = { 0 };
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	if (shfs_command_load(index, id, &command) > 0)
		shfs_command_show(&shown, index, &command);
	shfs_error("both are the same run: %s", shown.data ?: "");
	shfs_hint("shfs diff compares two versions of a file");
	return TROUBLE;
}

static int find_both(struct shfs_index *index, char **operands, int64_t ids[2])
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	for (int i = 0; i < 2; i++) {
		bool is_process;
		int code =
			shfs_command_spec_find(index, operands[i], &is_process, &ids[i]);

		if (code)
			return code == SHFS_EXIT_FAILURE ? TROUBLE : code;
		if (!is_process)
			continue;
		shfs_quote_display(&shown, operands[i], strlen(operands[i]));
		shfs_error("%s was made by a process without a command",
		           shown.data ?: "");
		shfs_hint("shfs diff compares the contents alone");
		return SHFS_EXIT_NOT_FOUND;
	}
	return ids[0] == ids[1] ? fail_one(index, ids[0]) : 0;
}

static int answer_compare(struct shfs_context *ctx, struct compare *c)
{
	int r;

	if (json) {
		r = json_comparison(c);
	} else {
		shfs_context_pager(ctx);
		c->style = shfs_style_of(ctx);
		c->diff.color = shfs_context_color(ctx);
		r = show_comparison(c);
		if (!r && !shfs_show_flush(&c->out))
			r = -EIO;
	}
	if (r == -EIO || r == -EPROTO) /* it was said, or main says it */
		return TROUBLE;
	if (r)
		return shfs_fail_index(c->index, r) ? TROUBLE : 0;
	return has_no_difference(c->comparison) ? 0 : DIFFERENT;
}

static int run_compare(struct shfs_context *ctx, struct shfs_index *index, int argc,
                       char **argv)
{
	struct compare c = { .index = index, .store = shfs_context_opened(ctx) };
	int64_t ids[2];
	int r, code = find_both(index, argv, ids);

	if (code)
		return code;
	r = shfs_compare(index, ids, &c.comparison);
	code = r ? shfs_fail_index(index, r), TROUBLE : answer_compare(ctx, &c);
	shfs_comparison_free(c.comparison);
	shfs_buf_free(&c.out);
	return code;
}

const struct shfs_command shfs_cmd_compare = {
	.name = "compare",
	.args = "COMMAND|FILE[@N] COMMAND|FILE[@M]",
	.summary = "Show where two runs began to differ, and what followed",
	.description =
		"Compares two commands (FILE@N stands for the one that made this "
		"version),\n"
		"and the commands that made their inputs, up the chain.\n"
		"Exit status: 0 the same, 1 different, 2 trouble; 3 no such command.",
	.options = {
	{ "json", 0, NULL, "for programs: see docs/json.md", .flag = &json },
	},
	.on_demand = true,
	.operands = { 2, 2 },
	.at_once = true,
	.trouble = TROUBLE,
	.run_on_index = run_compare,
};
