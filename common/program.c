/* SPDX-License-Identifier: MIT */
#include "common/program.h"

#include "common/util.h"

#include <fnmatch.h>
#include <string.h>

#define NAME_MAX_BYTES 32 /* longer than all names in the lists */

/* Can the name match by its first and last bytes? It spares fnmatch, which makes wide
 * characters of both, for most names. */
static bool may_match(const char *pattern, const char *name, size_t len)
{
	size_t n = strlen(pattern);

	return !n || ((*pattern == *name || strchr("*?[\\", *pattern)) &&
	              ((len && pattern[n - 1] == name[len - 1]) ||
	               strchr("*?]", pattern[n - 1])));
}

bool shfs_name_is_one_of(const char *name, const char *const *patterns, size_t n)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < n; i++)
		if (may_match(patterns[i], name, len) && !fnmatch(patterns[i], name, 0))
			return true;
	return false;
}

bool shfs_program_is_one_of(const char *name, size_t len, const char *const *patterns,
                            size_t n)
{
	char text[NAME_MAX_BYTES];

	if (len >= sizeof(text))
		return false;
	memcpy(text, name, len);
	text[len] = '\0';
	return shfs_name_is_one_of(text, patterns, n);
}

bool shfs_program_is_editor(const char *name, size_t len)
{
	static const char *const editors[] = {
		"vi",     "view", "vim*",   "gvim",   "nvim*",    "nano",  "pico",
		"emacs*", "ed",   "jed",    "ne",     "joe",      "micro", "hx",
		"helix",  "kak",  "mate",   "mcedit", "mousepad", "code",  "codium",
		"gedit",  "kate", "kwrite", "subl",
	};

	return shfs_program_is_one_of(name, len, editors, ARRAY_SIZE(editors));
}

bool shfs_program_keeps_contents(const char *name, size_t len)
{
	static const char *const keepers[] = { "git", "git-*",  "hg",  "svn",
		                               "jj",  "fossil", "shfs" };

	return shfs_program_is_one_of(name, len, keepers, ARRAY_SIZE(keepers));
}

bool shfs_program_is_build_tool(const char *name, size_t len)
{
	static const char *const tools[] = { "make", "gmake", "bmake", "ninja", "samu" };

	return shfs_program_is_one_of(name, len, tools, ARRAY_SIZE(tools));
}

bool shfs_program_is_launcher(const char *name, size_t len)
{
	static const char *const launchers[] = { "sh",    "bash", "dash",    "zsh*",
		                                 "ksh*",  "mksh", "fish",    "ash",
		                                 "xargs", "find", "busybox", "time" };

	return shfs_program_is_one_of(name, len, launchers, ARRAY_SIZE(launchers));
}

bool shfs_program_scans(const char *name, size_t len)
{
	static const char *const scanners[] = {
		/* indexes */
		"updatedb*", "tracker-miner-*", "tracker-extract*", "localsearch*",
		"baloo_file*", "recollindex",
		/* backups, synchronisation, viruses */
		"restic", "borg", "kopia", "bup", "syncthing", "dropbox", "nextcloud*",
		"onedrive", "insync", "clamscan", "clamd", "clamdscan",
		/* what shows the past, by the files as they are */
		"shfs-browse",
		/* servers of editors */
		"clangd*", "ccls", "gopls", "rust-analyzer", "texlab", "digestif",
		"lua-language-server", "zls"
	};

	return shfs_program_is_one_of(name, len, scanners, ARRAY_SIZE(scanners));
}

const char *shfs_program_invoker_kind(const char *name, size_t len)
{
	static const char *const agents[] = {
		"claude",    "claude-code",  "codex", "gemini",    "gemini-cli",
		"opencode",  "aider",        "goose", "goosed",    "qwen",
		"qwen-code", "copilot",      "crush", "amp",       "cline",
		"kiro-cli",  "auggie",       "droid", "openhands", "sweagent",
		"plandex",   "cursor-agent",
	};
	static const char *const notebooks[] = { "ipykernel", "ipykernel_launcher",
		                                 "ipython*", "xpython", "jupyter*" };
	static const char *const servers[] = { "sshd", "sshd-session", "dropbear" };
	/* in capitals: the process that runs a line */
	static const char *const timers[] = { "cron",    "CRON",  "crond", "CROND",
		                              "anacron", "fcron", "atd" };
	static const char *const ci[] = {
		"Runner.Worker",   "gitlab-runner",  "act_runner",       "forgejo-runner",
		"buildkite-agent", "circleci-agent", "woodpecker-agent",
	};

#define IS_ONE_OF(list) shfs_program_is_one_of(name, len, list, ARRAY_SIZE(list))
	return IS_ONE_OF(agents)      ? "agent"
	       : IS_ONE_OF(notebooks) ? "notebook"
	       : IS_ONE_OF(servers)   ? "ssh"
	       : IS_ONE_OF(timers)    ? "cron"
	       : IS_ONE_OF(ci)        ? "ci"
	                              : NULL;
}

bool shfs_program_is_interpreter(const char *name, size_t len)
{
	static const char *const interpreters[] = { "python*", "node",  "nodejs", "bun",
		                                    "deno",    "ruby*", "perl*",  "R",
		                                    "Rscript", "java" };

	return shfs_program_is_one_of(name, len, interpreters,
	                              ARRAY_SIZE(interpreters)) ||
	       shfs_program_is_launcher(name, len);
}

bool shfs_program_is_shell(const char *name)
{
	static const char *const shells[] = { "sh",  "bash", "dash",   "zsh",
		                              "ksh", "fish", "busybox" };

	return shfs_program_is_one_of(name, strlen(name), shells, ARRAY_SIZE(shells));
}

bool shfs_program_is_driver(const char *name, size_t len)
{
	static const char *const drivers[] = {
		"cc",   "c++",         "c89",       "c99",     "*gcc",     "*gcc-[0-9]*",
		"*g++", "*g++-[0-9]*", "*gfortran", "clang*",  "collect2", "rustc",
		"nvcc", "mpicc",       "mpicxx",    "mpifort", "ccache"
	};

	return shfs_program_is_one_of(name, len, drivers, ARRAY_SIZE(drivers));
}

bool shfs_program_is_file_tool(const char *name, size_t len)
{
	static const char *const tools[] = {
		"mv",    "cp",    "ln",    "rm",    "rmdir",
		"mkdir", "touch", "chmod", "chown", "install"
	};

	return shfs_program_is_one_of(name, len, tools, ARRAY_SIZE(tools));
}

bool shfs_program_unpacks(const char *name, size_t len)
{
	static const char *const programs[] = {
		"tar",    "bsdtar",  "cpio", "zip",   "unzip", "7z*",    "gzip",
		"gunzip", "zcat",    "pigz", "bzip2", "bzcat", "xz",     "xzcat",
		"zstd",   "zstdcat", "git",  "git-*", "hg",    "svn",    "jj",
		"curl",   "wget",    "sftp", "lftp",  "aws",   "gsutil", "rclone",
		"dvc",    "restic",  "borg"
	};

	return shfs_program_is_one_of(name, len, programs, ARRAY_SIZE(programs));
}

bool shfs_program_is_copier(const char *name, size_t len)
{
	static const char *const copiers[] = { "cp",      "mv",  "ln",   "rsync",
		                               "install", "scp", "sftp", "sftp-server" };

	return shfs_program_is_one_of(name, len, copiers, ARRAY_SIZE(copiers));
}

bool shfs_program_is_r(const char *path, size_t len)
{
	static const char end[] = "/bin/exec/R";
	size_t end_len = strlen(end);

	return len > end_len && !memcmp(path + len - end_len, end, end_len);
}
