/* SPDX-License-Identifier: MIT */
/* `shfs run`: one command of a script, of cron or of a program, recorded as if typed. */
#include "query/base/cmd.h"
#include "query/base/foreground.h"
#include "query/rerun/as-typed.h"

#include "common/redact.h"
#include "common/secrets.h"

#include <string.h>

/* A command runs also where it cannot be recorded. */
static int run_run(struct shfs_context *ctx, int argc, char **argv)
{
	struct shfs_hook_log log = { .fd = -1 };
	const struct shfs_config *config;
	int code, r;

	config = shfs_context_config(ctx, &code);
	if (!config || shfs_secrets_redactor(config, &log.redactor) ||
	    !shfs_context_store(ctx, true, &code)) {
		shfs_warn("the command is run, and not recorded");
	} else {
		r = shfs_hook_log_open(&log, shfs_context_store_path(ctx), "run");
		if (r)
			shfs_warn("the command is run, and not recorded: %s",
			          strerror(-r));
	}
	code = shfs_foreground_end(shfs_run_as_typed(&log, argv, NULL, NULL));
	shfs_redactor_free(log.redactor);
	return code;
}

const struct shfs_command shfs_cmd_run = {
	.name = "run",
	.args = "[--] COMMAND [ARG…]",
	.summary = "Run a command and record it, where no shell with the hook does",
	.description =
		"For scripts, cron and CI. What it reads and writes below a mount is "
		"tied "
		"to it\nin history, as if it had been typed. Ends as the command does.",
	.operands = { 1, -1 },
	.rest = true,
	.run = run_run,
};
