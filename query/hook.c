/* SPDX-License-Identifier: MIT */
#include "query/hook.h"

#include "common/proc.h"
#include "store/store.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#define ANCESTORS_MAX 256

static bool has_log(int dirfd, const char *boot_id, const struct shfs_proc_stat *shell)
{
	char name[80];

	snprintf(name, sizeof(name), "shell-%.8s-%" PRIu32 "-%" PRIu64 ".log", boot_id,
	         shell->pid, shell->start_ticks);
	return !faccessat(dirfd, name, F_OK, 0);
}

pid_t shfs_hook_of_ancestor(const char *store_path)
{
	_cleanup_free_ char *dir = shfs_store_hook_dir(store_path);
	_cleanup_close_ int dirfd =
		dir ? open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	uint32_t pid = (uint32_t)getppid();
	char boot_id[37];

	if (dirfd < 0 || shfs_proc_boot_id(boot_id))
		return 0;
	for (int i = 0; pid && i < ANCESTORS_MAX; i++) {
		_cleanup_close_ int procfd = shfs_proc_open(pid);
		struct shfs_proc_stat stat;

		if (procfd < 0 || shfs_proc_read_stat(procfd, &stat))
			return 0;
		if (has_log(dirfd, boot_id, &stat))
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
