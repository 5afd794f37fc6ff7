/* SPDX-License-Identifier: MIT */
/* `shfs web`: the page of the map on this host, as it is now, until it is ended. */
#include "query/web/web.h"

#include "query/base/model.h"
#include "recording/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/random.h>

#define PORT 8765 /* if it is free */

#define FIRST_MS 10000 /* for what is not in the index yet */

static struct {
	const char *port;
	bool no_browser;
} opts;

static int make_token(struct shfs_web *web)
{
	unsigned char random[SHFS_WEB_TOKEN / 2];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(web->token + 2 * i, 3, "%02x", random[i]);
	if (getrandom(&web->number, sizeof(web->number), 0) != sizeof(web->number))
		return -EIO;
	return 0;
}

/* Opens it in the user's browser, if there is a desktop. */
static void open_browser(const char *url)
{
	const char *argv[] = { "xdg-open", url, NULL };
	posix_spawn_file_actions_t actions;
	pid_t pid;

	if (opts.no_browser || (!getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY")) ||
	    posix_spawn_file_actions_init(&actions))
		return;
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
	/* the address is printed, whatever becomes of this */
	(void)!posix_spawnp(&pid, argv[0], &actions, NULL, (char **)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
}

static void say_ready(const struct shfs_web *web)
{
	_cleanup_buf_ struct shfs_buf url = { 0 };

	shfs_buf_printf(&url, "http://127.0.0.1:%u/?token=%s", web->port, web->token);
	printf("%s\n", url.data ?: "");
	fflush(stdout);
	fprintf(stderr, "Open this address in a browser; ^C ends it.\n");
	if (url.data && !url.failed)
		open_browser(url.data);
}

/* The socket at the port that was asked for; or else at any. */
static int listen_web(struct shfs_web *web, int *code)
{
	int64_t port = PORT;
	char *end;
	int fd;

	*code = SHFS_EXIT_OK;
	if (opts.port) {
		port = strtol(opts.port, &end, 10);
		if (*end || *opts.port < '0' || *opts.port > '9' || port > UINT16_MAX) {
			shfs_error("--port: not a number from 0 to 65535");
			*code = SHFS_EXIT_USAGE;
			return -1;
		}
	}
	fd = shfs_web_listen(web, (uint16_t)port);
	if (fd == -EADDRINUSE && !opts.port)
		fd = shfs_web_listen(web, 0);
	if (fd >= 0)
		return fd;
	shfs_error("cannot listen on port %" PRId64 ": %s", port, strerror(-fd));
	if (fd == -EADDRINUSE)
		shfs_hint("without --port, another one is taken");
	*code = SHFS_EXIT_FAILURE;
	return -1;
}

static int serve_web(struct shfs_web *web)
{
	_cleanup_close_ int signals = shfs_daemon_signals();
	int code, socket, r = signals < 0 ? signals : make_token(web);

	socket = r ? -1 : listen_web(web, &code);
	if (!r && socket < 0)
		return code;
	r = r ?: shfs_web_serve(web, socket, signals, say_ready);
	if (!r)
		return SHFS_EXIT_OK;
	shfs_error("cannot serve: %s", strerror(-r));
	return SHFS_EXIT_FAILURE;
}

static int check_project(struct shfs_web *web)
{
	int r = web->project ? shfs_path_is_known(web->index, web->project) : 1;

	if (r < 0)
		return shfs_fail_index(web->index, r);
	return r ? 0 : shfs_fail_unseen(web->index, web->project);
}

/* ^C is for the server: a process beside it ends when its pipe does. */
static void ignore_interrupt(void *closure)
{
	signal(SIGINT, SIG_IGN);
}

/* Starts the processes beside the server, before an index is open here: SQLite's locks
 * are those of one process. */
static int start_others(struct shfs_web *web, const struct shfs_config *config)
{
	const struct shfs_refresher_duties duties = { .begin = ignore_interrupt };
	int r = shfs_refresher_start(&web->refresh, web->store->path, &duties);
	const int closes[] = { web->refresh.ask, web->refresh.answer };
	const struct shfs_web_reader reader = { .store_path = web->store->path,
		                                .project = web->project,
		                                .config = config,
		                                .closes = closes,
		                                .n_closes = ARRAY_SIZE(closes) };

	r = r ?: shfs_web_worker_start(&web->worker, &reader);
	if (!r) /* what takes longer is there when the page is loaded anew */
		(void)!shfs_refresher_ask(&web->refresh, true, FIRST_MS);
	return r;
}

static int run_web(struct shfs_context *ctx, struct shfs_store *store, int argc,
                   char **argv)
{
	_cleanup_free_ char *project = argv[0] ? shfs_operand_path(argv[0]) : NULL;
	struct shfs_web web = { .store = store, .project = project, .watch = -1 };
	int code = shfs_web_load(), r = argv[0] && !project ? -ENOMEM : 0;
	const struct shfs_config *config = code ? NULL : shfs_context_config(ctx, &code);

	if (code)
		return code;
	r = r ?: start_others(&web, config);
	r = r ?: shfs_index_open(store, SHFS_INDEX_READ, &web.index);
	if (r == -ESTALE || r == -ENOENT) {
		shfs_error("there is no index of this version of shfs, and none can be "
		           "made there");
		shfs_hint("shfs map -o FILE makes the page as a file, without one");
		return SHFS_EXIT_FAILURE;
	}
	if (r) {
		shfs_error("cannot use the index: %s", strerror(-r));
		return SHFS_EXIT_FAILURE;
	}
	code = check_project(&web) ?: serve_web(&web);
	shfs_index_close(web.index);
	shfs_web_worker_end(&web.worker);
	return code;
}

#ifdef SHFS_HAVE_MAP
static int check_web(struct shfs_context *ctx, int argc)
{
	return 0;
}
#else
static int check_web(struct shfs_context *ctx, int argc)
{
	shfs_error("this shfs was built without the page of the map");
	shfs_hint("install nodejs and npm, then run ./dev install again");
	return SHFS_EXIT_UNAVAILABLE;
}
#endif

const struct shfs_command shfs_cmd_web = {
	.name = "web",
	.args = "[PROJECT]",
	.summary = "Show results, files and commands in a browser, as they are now",
	.description = "Serves a page on this host alone, at an address with a token, until "
		       "^C. It\n"
		       "shows results and the steps that made them, versions, and commands "
		       "over\n"
		       "time; nothing can be changed by it.",
	.options = {
	{ "port", 'p', "N", "listen on this port (default 8765, or a free one)",
	  .text = &opts.port },
	{ "no-browser", 0, NULL, "open no browser: only print the address",
	  .flag = &opts.no_browser },
	},
	.operands = { 0, 1 },
	.check = check_web,
	.run_on_store = run_web,
};
