/* SPDX-License-Identifier: MIT */
#include "common/script.h"

#include "common/path.h"
#include "common/program.h"

#include <stdlib.h>
#include <string.h>

/* Is the program an interpreter, by its name: python3.11, perl, node, bash? */
static bool is_interpreter(const char *name)
{
	static const char *const names[] = { "python", "pypy",   "perl", "ruby",
		                             "node",   "nodejs", "sh",   "bash",
		                             "dash",   "zsh",    "ksh",  "fish" };

	return shfs_program_is_one_of(name, strcspn(name, "-.0123456789"), names,
	                              ARRAY_SIZE(names));
}

/* Returns the first argument that is no option; "" if an option takes its place: what
 * follows -c, -e or -m is no file. */
static const char *first_operand(const char *argv, size_t len)
{
	size_t at = strlen(argv) + 1;

	for (; at < len && argv[at] == '-'; at += strlen(argv + at) + 1)
		if (strchr("cem", argv[at + 1]) && argv[at + 1] && !argv[at + 2])
			return "";
	return at < len ? argv + at : "";
}

char *shfs_script_of(struct shfs_bytes exe, struct shfs_bytes argv, struct shfs_bytes cwd)
{
	const char *slash = memrchr(exe.data ?: "", '/', exe.len);
	_cleanup_free_ char *name = NULL, *words = NULL, *joined = NULL;
	const char *script;
	_cleanup_buf_ struct shfs_buf dir = { 0 };

	if (!slash || !argv.len)
		return NULL;
	name = strndup(slash + 1, (size_t)(exe.data + exe.len - slash - 1));
	words = calloc(1, argv.len + 1);
	if (!name || !words || !is_interpreter(name))
		return NULL;
	memcpy(words, argv.data, argv.len);
	script = first_operand(words, argv.len);
	if (!strchr(script, '/') || (*script != '/' && (!cwd.len || *cwd.data != '/')))
		return NULL;
	shfs_buf_add(&dir, cwd.data, cwd.len);
	joined = *script == '/' ? strdup(script)
	         : dir.failed   ? NULL
	                        : shfs_path_join(dir.data, script);
	return joined ? shfs_path_absolute(joined) : NULL;
}
