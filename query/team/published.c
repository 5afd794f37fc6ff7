/* SPDX-License-Identifier: MIT */
#include "query/team/published.h"

#include "common/io.h"
#include "common/quote.h"

#include <errno.h>
#include <string.h>

#define FILE_NAME "state/published"
#define FILE_MAX  (1u << 20)

static int read_lines(struct shfs_store *store, struct shfs_buf *out)
{
	int r = shfs_read_file_at(store->dirfd, FILE_NAME, FILE_MAX, out);

	return r == -ENOENT ? 0 : r;
}

int published_note(struct shfs_store *store, const char *url, bool has)
{
	_cleanup_buf_ struct shfs_buf old = { 0 }, lines = { 0 };
	bool had = false;
	char *rest = NULL;
	int r = read_lines(store, &old);

	if (r)
		return r;
	for (char *line = old.len ? strtok_r(old.data, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest)) {
		bool same = !strcmp(line, url);

		had |= same;
		if (!same || has)
			shfs_buf_printf(&lines, "%s\n", line);
	}
	if (had == has)
		return 0;
	if (has)
		shfs_buf_printf(&lines, "%s\n", url);
	if (lines.failed)
		return -ENOMEM;
	return shfs_write_file_at(store->dirfd, FILE_NAME, 0600, lines.data ?: "",
	                          lines.len);
}

int published_list(struct shfs_store *store, struct shfs_buf *out)
{
	_cleanup_buf_ struct shfs_buf lines = { 0 };
	char *rest = NULL;
	int r = read_lines(store, &lines);

	if (r)
		return r;
	for (char *line = lines.len ? strtok_r(lines.data, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest)) {
		shfs_buf_str(out, out->len ? ", " : "");
		shfs_quote_display(out, line, strlen(line));
	}
	return out->failed ? -ENOMEM : 0;
}
