/* SPDX-License-Identifier: MIT */
/* Help texts: `shfs help`, `shfs COMMAND --help` and a bare `shfs` print them. */
#include "query/base/context.h"

#include "common/buf.h"
#include "query/base/model.h"

#include <string.h>

#define COLUMNS 80

/* Adds text in lines of at most COLUMNS, all but the first indented. */
static void add_wrapped(struct shfs_buf *out, const char *text, int indent)
{
	int column = indent;

	while (*text) {
		_cleanup_free_ char *word = strndup(text, strcspn(text, " "));
		int width = word ? shfs_signs_width(word) : 0;

		if (column > indent && column + 1 + width > COLUMNS) {
			shfs_buf_printf(out, "\n%*s", indent, "");
			column = indent;
		} else if (column > indent) {
			shfs_buf_char(out, ' ');
			column++;
		}
		shfs_show_signs(out, word ? word : "");
		column += width;
		text += strcspn(text, " ");
		text += strspn(text, " ");
	}
	shfs_buf_char(out, '\n');
}

static void add_help_row(struct shfs_buf *out, const char *left, const char *right,
                         int width)
{
	int used = shfs_signs_width(left);

	shfs_buf_str(out, "  ");
	shfs_show_signs(out, left);
	if (used > width)
		shfs_buf_printf(out, "\n  %*s  ", width, "");
	else
		shfs_buf_printf(out, "%*s  ", width - used, "");
	add_wrapped(out, right, width + 4);
}

static void add_options(struct shfs_buf *out, const struct shfs_option *options)
{
	for (; options->name; options++) {
		_cleanup_buf_ struct shfs_buf left = { 0 };

		if (options->letter)
			shfs_buf_printf(&left, "-%c, ", options->letter);
		else
			shfs_buf_str(&left, "    ");
		shfs_buf_printf(&left, "--%s", options->name);
		if (options->arg)
			shfs_buf_printf(&left, "%s%s", *options->arg == '[' ? "" : " ",
			                options->arg);
		if (!left.failed)
			add_help_row(out, left.data, options->help, 22);
	}
}

void shfs_help_overview(struct shfs_buf *out)
{
	shfs_show_signs(out, "usage: shfs COMMAND [OPTION…] [ARGUMENT…]\n\n"
	                     "A file system that keeps a journal of your shell.\n\n");
	for (const struct shfs_command *const *c = shfs_commands; *c; c++)
		if (!(*c)->hidden)
			add_help_row(out, (*c)->name, (*c)->summary, 10);
	shfs_buf_str(out, "\nOptions of every command:\n");
	add_options(out, shfs_common_options);
	shfs_buf_str(out, "\nshfs help COMMAND tells more.\n");
}

void shfs_help_command(const struct shfs_command *command, struct shfs_buf *out)
{
	shfs_buf_printf(out, "usage: shfs %s", command->name);
	shfs_show_signs(out, command->options->name ? " [OPTION…]" : "");
	shfs_buf_str(out, *command->args ? " " : "");
	shfs_show_signs(out, command->args);
	shfs_buf_printf(out, "\n\n%s.\n", command->summary);
	if (command->description) {
		shfs_buf_char(out, '\n');
		shfs_show_signs(out, command->description);
		shfs_buf_char(out, '\n');
	}
	if (command->options->name) {
		shfs_buf_str(out, "\nOptions:\n");
		add_options(out, command->options);
	}
	if (command->columns) {
		shfs_buf_printf(out, "\nColumns of --output (usual: %s):\n",
		                command->usual_columns);
		for (const struct shfs_column *c = command->columns; c->name; c++)
			add_help_row(out, c->name, c->help, 12);
	}
	shfs_buf_str(out, "\nOptions of every command:\n");
	add_options(out, shfs_common_options);
}
