/* SPDX-License-Identifier: MIT */
/*
 * `shfs map`: one HTML file, with the page that map/ makes and the data that
 * docs/map.md describes.
 */
#include "query/base/model.h"
#include "query/map/data.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#ifdef SHFS_HAVE_MAP
#include "map-page.h"
#endif

/* Documented in docs/map.md and in shfs-map(1). */
#define COMMANDS_MAX 20000

static struct shfs_filter filter = { .limit = COMMANDS_MAX };
static struct {
	const char *output;
	bool force, no_contents;
} opts;

#ifdef SHFS_HAVE_MAP
static int put_page(struct shfs_map *m, struct shfs_rows *rows)
{
	int r = shfs_map_put(m, shfs_map_head, sizeof(shfs_map_head) - 1);

	if (!r)
		r = shfs_map_add(m, rows);
	if (!r)
		r = shfs_map_put_json(m, &m->json);
	if (!r)
		r = shfs_map_put(m, shfs_map_middle, sizeof(shfs_map_middle) - 1);
	if (!r)
		r = shfs_map_put_json(m, &m->contents);
	if (!r)
		r = shfs_map_put(m, shfs_map_tail, sizeof(shfs_map_tail) - 1);
	return r ?: fflush(m->file) ? -EIO : 0;
}

static int check_map_options(struct shfs_context *ctx, int argc)
{
	return 0;
}
#else
static int put_page(struct shfs_map *m, struct shfs_rows *rows)
{
	return shfs_map_add(m, rows);
}

static int check_map_options(struct shfs_context *ctx, int argc)
{
	shfs_error("this shfs was built without the page of the map");
	shfs_hint("install nodejs and npm, then run ./dev install again");
	return SHFS_EXIT_UNAVAILABLE;
}
#endif

/* Opens the output, with mode 0600: only the user may read it. */
static int open_map_output(FILE **file)
{
	if (!opts.output && isatty(STDOUT_FILENO)) {
		shfs_error("the map is a page for a browser, not for a terminal");
		shfs_hint("write it to a file: shfs map -o map.html");
		return SHFS_EXIT_USAGE;
	}
	return shfs_output_option(opts.output, opts.force, 0600, file);
}

/* Closes the output; an incomplete page is removed. */
static int close_map_output(struct shfs_map *m, int error)
{
	struct stat st;
	bool regular = !fstat(fileno(m->file), &st) && S_ISREG(st.st_mode);

	if (m->file == stdout)
		return error;
	if (fclose(m->file) && !error)
		error = -EIO;
	if (error && regular)
		unlink(opts.output);
	return error;
}

static int write_map(struct shfs_map *m, struct shfs_rows *rows)
{
	int saved, r, code = open_map_output(&m->file);

	if (code)
		return code;
	r = put_page(m, rows);
	saved = errno;
	r = close_map_output(m, r);
	if (!r)
		return SHFS_EXIT_OK;
	if (r != -EIO)
		return shfs_fail_index(m->index, r);
	if (m->file != stdout) /* else main does */
		shfs_error("cannot write the output: %s", strerror(saved ?: EIO));
	return SHFS_EXIT_FAILURE;
}

static int open_map_rows(struct shfs_map *m, int argc, char **argv,
                         struct shfs_rows **rows)
{
	_cleanup_query_ struct shfs_query query = { 0 };
	int r = 0;

	for (int i = 0; i < argc && !r; i++)
		r = shfs_filter_add(&filter, SHFS_FILTER_PATH, argv[i]);
	if (filter.limit < INT64_MAX)
		filter.limit++; /* to know whether there are more */
	if (!r)
		r = shfs_filter_measure(&filter, m->index);
	if (!r)
		r = shfs_filter_query(&filter, &query);
	return r ?: shfs_query_open(&query, m->index, rows);
}

static int run_map(struct shfs_context *ctx, struct shfs_index *index, int argc,
                   char **argv)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	struct shfs_map m = { .index = index,
		              .store = shfs_context_opened(ctx),
		              .filter = &filter,
		              .no_contents = opts.no_contents };
	int r, code = shfs_filter_resolve(&filter, ctx, index)
	                      ?: shfs_fail_if_unknown(index, argc, argv);

	r = code ? 0 : open_map_rows(&m, argc, argv, &rows);
	if (r)
		code = shfs_fail_index(index, r);
	if (!code)
		code = write_map(&m, rows);
	shfs_map_free(&m);
	shfs_filter_free(&filter);
	return code;
}

static int set_map_option(const struct shfs_option *opt, const char *value)
{
	return shfs_filter_option(&filter, opt, value);
}

const struct shfs_command shfs_cmd_map = {
	.name = "map",
	.args = "[PATH…]",
	.summary = "Write an HTML page that shows commands and files over time",
	.description =
		"One HTML file that needs no network: sessions and their commands, the\n"
		"files that they used, versions with their diffs, the graph of a file.\n"
		"Select commands as for shfs history. The page holds contents of files:\n"
		"keep it as private as they are.",
	.options = {
	{ "output", 'o', "FILE", "write to this file", .text = &opts.output },
	{ "force", 'f', NULL, "overwrite the file if it exists", .flag = &opts.force },
	{ "no-contents", 0, NULL, "embed no contents of files",
	  .flag = &opts.no_contents },
	SHFS_FILTER_OPTIONS,
	SHFS_FILTER_OR,
	{ "limit", 'n', "N", "at most the latest N (default 20,000)",
	  .count = &filter.limit },
	{ "all", 'a', NULL,
	  "also commands that touched no files, programs that no shell ran, files of "
	  ".git",
	  .flag = &filter.all },
	},
	.operands = { 0, -1 },
	.option = set_map_option,
	.at_once = true,
	.check = check_map_options,
	.run_on_index = run_map,
};
