/* SPDX-License-Identifier: MIT */
#include "query/base/hook.h"

#include "common/proc.h"
#include "store/journal/runtime.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#define ANCESTORS_MAX 256

/* The two directories where shells of this host may write hook logs: a shell keeps to the
 * one that was right when it started. */
struct places {
	int fds[2];
};

static void places_close(struct places *p)
{
	shfs_closep(&p->fds[0]);
	shfs_closep(&p->fds[1]);
}

static struct places places_open(const char *store_path)
{
	_cleanup_free_ char *runtime = shfs_runtime_hook_dir(store_path);
	_cleanup_free_ char *path = NULL;
	char host[65];
	struct places p = { { -1, -1 } };
	int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;

	shfs_proc_host(host);
	if (asprintf(&path, "%s/journal/%s", store_path, host) < 0)
		path = NULL;
	p.fds[0] = path ? open(path, flags) : -1;
	p.fds[1] = runtime ? open(runtime, flags) : -1;
	return p;
}

static bool has_hook_log(const struct places *p, const char *boot_id,
                         const struct shfs_proc_stat *shell)
{
	char name[80];

	snprintf(name, sizeof(name), "shell-%.8s-%" PRIu32 "-%" PRIu64 ".log", boot_id,
	         shell->pid, shell->start_ticks);
	for (int i = 0; i < 2; i++)
		if (p->fds[i] >= 0 && !faccessat(p->fds[i], name, F_OK, 0))
			return true;
	return false;
}

pid_t shfs_hook_of_ancestor(const char *store_path)
{
	_cleanup_(places_close) struct places places = places_open(store_path);
	uint32_t pid = (uint32_t)getppid();
	char boot_id[37];

	if (shfs_proc_boot_id(boot_id))
		return 0;
	for (int i = 0; pid && i < ANCESTORS_MAX; i++) {
		_cleanup_close_ int procfd = shfs_proc_open(pid);
		struct shfs_proc_stat stat;

		if (procfd < 0 || shfs_proc_read_stat(procfd, &stat))
			return 0;
		if (has_hook_log(&places, boot_id, &stat))
			return (pid_t)pid;
		pid = stat.ppid;
	}
	return 0;
}

const char *shfs_hook_shell(void)
{
	const char *shell = getenv("SHELL"), *slash = shell ? strrchr(shell, '/') : NULL;

	shell = slash ? slash + 1 : "bash";
	if (!strcmp(shell, "zsh"))
		return "zsh";
	return !strcmp(shell, "fish") ? "fish" : "bash";
}

const char *shfs_hook_line(const char *shell)
{
	if (!strcmp(shell, "fish"))
		return "shfs init fish | source";
	return !strcmp(shell, "zsh") ? "eval \"$(shfs init zsh)\""
	                             : "eval \"$(shfs init bash)\"";
}

const char *shfs_hook_rc_line(const char *shell)
{
	if (!strcmp(shell, "fish"))
		return "type -q shfs; and shfs init fish | source";
	return !strcmp(shell, "zsh")
	               ? "command -v shfs >/dev/null && eval \"$(shfs init zsh)\""
	               : "command -v shfs >/dev/null && eval \"$(shfs init bash)\"";
}
