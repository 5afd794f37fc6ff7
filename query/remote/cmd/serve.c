/* SPDX-License-Identifier: MIT */
/* `shfs serve`: give this store to the shfs that runs this here, by ssh. Hidden. */
#include "query/remote/peer/serve.h"
#include "query/base/cmd.h"
#include "query/remote/cmd/messages.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

static int fail_serve(int error)
{
	switch (error) {
	case -EBUSY:
		shfs_error("a prune, gc, forget, repair or import is at work in this "
		           "store");
		shfs_hint("try again when it has ended");
		return SHFS_EXIT_REFUSED;
	case -EINPROGRESS:
		shfs_error("an earlier shfs forget is not complete yet");
		shfs_hint("shfs forget --resume completes it");
		return SHFS_EXIT_REFUSED;
	case -EPIPE: /* who asked is gone */
		return SHFS_EXIT_FAILURE;
	default:
		shfs_error("cannot give this store to others: %s", strerror(-error));
		return SHFS_EXIT_FAILURE;
	}
}

static int run_serve(struct shfs_context *ctx, struct shfs_index *index, int argc,
                     char **argv)
{
	struct shfs_store *store = shfs_context_opened(ctx);
	_cleanup_place_ struct place place = { .dirfd = -1 };
	_cleanup_close_ int lock = -1;
	int code, r;

	if (isatty(STDIN_FILENO) || isatty(STDOUT_FILENO)) {
		shfs_error("shfs fetch runs this on another host");
		return SHFS_EXIT_USAGE;
	}
	code = remote_lock(store, &lock);
	if (code)
		return code;
	signal(SIGPIPE, SIG_IGN);
	r = place_open_unnamed(store, NULL, &place);
	if (!r)
		r = serve_run(index, &place, STDIN_FILENO, STDOUT_FILENO);
	return r ? fail_serve(r) : SHFS_EXIT_OK;
}

const struct shfs_command shfs_cmd_serve = {
	.name = "serve",
	.args = "",
	.summary = "Give this store to shfs fetch on another host",
	.description = "Answers on standard output what is asked on standard input.",
	.hidden = true,
	.alone = true,
	.run_on_index = run_serve,
};
