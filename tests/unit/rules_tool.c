/* SPDX-License-Identifier: MIT */
/*
 * rules_tool - what the rules say of paths, for tests/cases/test_rules.py.
 *
 *   rules_tool IGNORE_FILE < paths
 *
 * Each path ends in NUL; a slash at its end says that it is a directory. Those that the
 * rules ignore are printed, each with a NUL.
 */
#include "common/io.h"
#include "store/capture/rules.h"

#include <fcntl.h>
#include <string.h>

#define RULES_TOOL_MAX (64 << 20)

int main(int argc, char **argv)
{
	_cleanup_buf_ struct shfs_buf patterns = { 0 }, paths = { 0 };
	struct shfs_config config = { .ignore = (char[]){ "" },
		                      .archive_read = (char[]){ "" } };
	struct shfs_rules *rules;

	if (argc != 2 ||
	    shfs_read_file_at(AT_FDCWD, argv[1], RULES_TOOL_MAX, &patterns) < 0 ||
	    shfs_read_fd(STDIN_FILENO, RULES_TOOL_MAX, &paths) < 0) {
		fprintf(stderr, "usage: rules_tool IGNORE_FILE < paths\n");
		return 2;
	}
	if (shfs_rules_new(&config, patterns.data, &rules) < 0)
		return 1;
	for (char *path = paths.data; path && path < paths.data + paths.len;) {
		size_t len = strlen(path);
		bool directory = len && path[len - 1] == '/';

		path[len - directory] = '\0';
		if (shfs_rules_match(rules, path, directory) == SHFS_RULE_IGNORE)
			printf("%s%c", path, '\0');
		path += len + 1;
	}
	shfs_rules_free(rules);
	return 0;
}
