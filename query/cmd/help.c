/* SPDX-License-Identifier: MIT */
/* `shfs help`: explain a command. */
#include "query/base/context.h"

#include "common/buf.h"

#include <string.h>

static int run_help(struct shfs_context *ctx, int argc, char **argv)
{
	const struct shfs_command *command = argc ? shfs_command_by_name(argv[0]) : NULL;
	_cleanup_buf_ struct shfs_buf out = { 0 };

	if (argc && !command)
		return SHFS_EXIT_USAGE;
	if (command)
		shfs_help_command(command, &out);
	else
		shfs_help_overview(&out);
	if (out.failed)
		return SHFS_EXIT_FAILURE;
	shfs_context_pager(ctx);
	fputs(out.data, stdout);
	return SHFS_EXIT_OK;
}

const struct shfs_command shfs_cmd_help = {
	.name = "help",
	.args = "[COMMAND]",
	.summary = "Explain a command",
	.operands = { 0, 1 },
	.run = run_help,
};
