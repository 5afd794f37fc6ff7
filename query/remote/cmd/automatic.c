/* SPDX-License-Identifier: MIT */
#include "query/remote/cmd/automatic.h"

#include "query/base/cmd.h"
#include "query/base/unit.h"
#include "query/remote/behind.h"
#include "query/remote/cmd/messages.h"

#include "common/clock.h"
#include "common/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DAY_NS   (24 * 3600 * SHFS_NSEC_PER_SEC)
#define IDLE_NS  (600 * SHFS_NSEC_PER_SEC) /* for so long nothing was recorded */
#define SAID_MAX (64u << 10)
#define TIMER    "shfs-push.timer"

/* --- one push, by another process, whose messages are kept --- */

static void become_push(struct shfs_context *ctx, const char *name, int said)
{
	const char *argv[10];
	int i = 0, null = open("/dev/null", O_RDWR | O_CLOEXEC);

	argv[i++] = "shfs";
	argv[i++] = "push";
	argv[i++] = "--store";
	argv[i++] = shfs_context_store_path(ctx);
	if (ctx->config_option) {
		argv[i++] = "--config";
		argv[i++] = ctx->config_option;
	}
	argv[i++] = "--";
	argv[i++] = name;
	argv[i] = NULL;
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(said, STDERR_FILENO);
	execv("/proc/self/exe", (char *const *)argv);
	_exit(SHFS_EXIT_FAILURE);
}

/* Returns its exit code, or -errno. */
static int run_push_to(struct shfs_context *ctx, const char *name, struct shfs_buf *said)
{
	int fds[2], status, r;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	fflush(NULL);
	pid = fork();
	if (!pid)
		become_push(ctx, name, fds[1]);
	close(fds[1]);
	r = pid < 0 ? -errno : shfs_read_fd(fds[0], SAID_MAX, said);
	close(fds[0]);
	if (pid < 0)
		return r;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : SHFS_EXIT_FAILURE;
}

/* --- which are due --- */

/* How long nothing has to be recorded. A test need not wait, in the developer build. */
static int64_t idle_ns(void)
{
#ifdef SHFS_ASSERTS
	const char *ms = getenv("SHFS_PUSH_IDLE_MS");

	if (ms)
		return strtoll(ms, NULL, 10) * 1000000;
#endif
	return IDLE_NS;
}

static bool is_due(const struct shfs_config *config, const struct behind *behind)
{
	int64_t now = shfs_clock_ns(CLOCK_REALTIME);
	int64_t ago = now - behind->pushed_ns;

	/* the clock may have been set back */
	if (!behind->pushed_ns || ago < 0 || ago >= DAY_NS)
		return true;
	return config->push == SHFS_PUSH_ON_IDLE && behind->changed_ns &&
	       now - behind->changed_ns >= idle_ns();
}

struct automatic {
	struct shfs_context *ctx;
	struct shfs_store *store;
	const struct shfs_config *config;
	int code;
};

/* Notes what went wrong, and says it unless it was said. */
static int tell(struct automatic *a, const struct place *place,
                const struct behind *behind, const struct shfs_buf *said)
{
	const char *why = said->len ? said->data : "it ended unexpectedly";
	size_t len;

	if (!strncmp(why, "shfs: ", 6))
		why += 6;
	len = strcspn(why, "\n");
	if (behind->failed_ns && strlen(behind->why) == len &&
	    !strncmp(behind->why, why, len))
		return 0; /* the time at which it began stays */
	shfs_error("%s: %.*s", place->name, (int)len, why);
	a->code = SHFS_EXIT_FAILURE;
	return behind_note_failed(place, shfs_clock_ns(CLOCK_REALTIME), why);
}

static int push_if_due(void *arg, const char *name)
{
	struct automatic *a = arg;
	_cleanup_place_ struct place place = { .dirfd = -1 };
	_cleanup_behind_ struct behind behind = { 0 };
	_cleanup_buf_ struct shfs_buf said = { 0 };
	int r = place_open(a->store, name, &place), lock;

	if (!r)
		r = behind_find(NULL, &place, &behind);
	if (r || !is_due(a->config, &behind))
		return r;
	lock = place_lock(a->store);
	if (lock == -EBUSY) /* somebody pushes or pulls by hand: there is a next time */
		return 0;
	if (lock < 0)
		return lock;
	close(lock);
	r = run_push_to(a->ctx, name, &said);
	return r > 0 ? tell(a, &place, &behind, &said) : r;
}

int push_automatically(struct shfs_context *ctx, struct shfs_store *store,
                       const char *name)
{
	struct automatic a = { .ctx = ctx, .store = store };
	int code = SHFS_EXIT_OK, r;

	a.config = shfs_context_config(ctx, &code);
	if (!a.config)
		return code;
	if (a.config->push == SHFS_PUSH_OFF)
		return SHFS_EXIT_OK;
	r = behind_note_automatic(store);
	if (!r)
		r = name ? push_if_due(&a, name) : place_each(store, push_if_due, &a);
	if (!r)
		return a.code;
	shfs_error("cannot push by itself: %s", strerror(-r));
	return SHFS_EXIT_FAILURE;
}

/* --- the timer --- */

void push_enable_timer(const struct shfs_config *config)
{
	enum shfs_unit_state state;

	if (config->push == SHFS_PUSH_OFF)
		return;
	state = shfs_unit_enable(TIMER, true);
	if (state == SHFS_UNIT_NO_SYSTEMD)
		shfs_warn("[remote] push needs the user's systemd, which does not run "
		          "here: have cron run shfs push --automatic every 15 minutes");
	else if (state == SHFS_UNIT_REFUSED)
		shfs_warn("nothing pushes by itself: systemctl --user enable --now " TIMER
		          " failed");
}
