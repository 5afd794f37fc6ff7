/* SPDX-License-Identifier: MIT */
/* `shfs import`: import an archive of shfs export tar, of this store or of another. */
#include "query/base/cmd.h"
#include "query/base/json.h"
#include "query/base/model.h"
#include "query/base/progress.h"
#include "query/export/libarchive.h"

#include "common/io.h"
#include "common/path.h"
#include "common/quote.h"
#include "recording/sandbox.h"
#include "store/care/import.h"
#include "store/journal/runtime.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* An archive of shfs has no larger entries. */
#define ENTRY_MAX (UINT64_C(4) << 30)

static struct {
	bool dry_run, json;
	struct map {
		const char *text; /* "hostb:~/p=DIR" */
		bool unmap;
	} * maps;
	size_t n_maps;
} opts;

struct job {
	struct archive *tar;
	struct shfs_import *import;
	const char *name;    /* of the archive */
	uint64_t size_bytes; /* of the archive; 0: not known */
	bool has_format;
	FILE *file; /* the bytes of a large entry; mapped */
	const char *data;
	size_t len;
};

static int refuse_import(struct job *j, const char *entry, const char *why)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_quote_display(&shown, j->name, strlen(j->name));
	if (entry) {
		shfs_buf_str(&shown, ": ");
		shfs_quote_display(&shown, entry, strlen(entry));
	}
	shfs_error("%s: %s", shown.data ?: "", why);
	return SHFS_EXIT_FAILURE;
}

static int explain_import_failure(struct job *j, const char *entry, int error)
{
	switch (error) {
	case -EINVAL:
		return refuse_import(j, entry, "this is no archive of shfs export tar");
	case -EBADMSG:
		return refuse_import(
			j, entry,
			"it is damaged; nothing of the archive is in the journal");
	case -EPROTONOSUPPORT:
		return refuse_import(j, entry, "another version of shfs made it");
	case -EEXIST:
		return refuse_import(
			j, entry,
			"it is in the archive twice, or collides with another content");
	case -EBUSY:
		refuse_import(
			j, entry,
			"something records into the store, or removes something from it");
		shfs_hint("shfs umount first; or complete an interrupted shfs forget "
		          "with --resume");
		return SHFS_EXIT_REFUSED;
	case -ENOTRECOVERABLE:
		return shfs_fail_pruned();
	case -EILSEQ:
		return refuse_import(j, entry,
		                     "it differs from the hook log of that name here");
	default:
		return refuse_import(j, entry, strerror(-error));
	}
}

/* --- entries --- */

static int explain_tar_failure(struct job *j, const char *entry)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	const char *why = libarchive.archive_error_string(j->tar) ?: "it cannot be read";

	/* the message may contain names as they are */
	shfs_quote_display(&shown, why, strlen(why));
	return refuse_import(j, entry, shown.data ?: "");
}

static void say_progress(const struct job *j)
{
	if (j->size_bytes)
		shfs_progress_bytes((uint64_t)libarchive.archive_filter_bytes(j->tar, -1),
		                    j->size_bytes);
}

/* Writes an entry to the file. A sparse file has holes; those of shfs have none. */
static int spool(struct job *j, const char *path)
{
	const void *piece;
	size_t len;
	la_int64_t at;
	int r;

	j->len = 0;
	if (ftruncate(fileno(j->file), 0) || lseek(fileno(j->file), 0, SEEK_SET))
		return explain_import_failure(j, path, -errno);
	while ((r = libarchive.archive_read_data_block(j->tar, &piece, &len, &at)) ==
	       ARCHIVE_OK) {
		if ((uint64_t)at != j->len || len > ENTRY_MAX - j->len)
			return explain_import_failure(j, path, -EFBIG);
		r = shfs_write_all(fileno(j->file), piece, len);
		if (r)
			return explain_import_failure(j, path, r);
		j->len += len;
		say_progress(j);
	}
	return r == ARCHIVE_EOF ? 0 : explain_tar_failure(j, path);
}

static int read_data(struct job *j, struct archive_entry *entry, const char *path)
{
	int r = spool(j, path);

	if (r)
		return r;
	if ((int64_t)j->len != libarchive.archive_entry_size(entry))
		return explain_import_failure(j, path, -EBADMSG);
	j->data = "";
	if (j->len)
		j->data = mmap(NULL, j->len, PROT_READ, MAP_PRIVATE, fileno(j->file), 0);
	return j->data == MAP_FAILED ? explain_import_failure(j, path, -errno) : 0;
}

/* "HOST/NAME" */
static int import_file(struct job *j, const char *path)
{
	const char *slash = strchr(path, '/');
	_cleanup_free_ char *host = slash ? strndup(path, (size_t)(slash - path)) : NULL;

	if (!host)
		return slash ? -ENOMEM : -EINVAL;
	return shfs_import_file(j->import, host, slash + 1, j->data, j->len);
}

static int take_format(struct job *j)
{
	if (j->has_format || j->len < 2 || j->data[j->len - 1] != '\n')
		return -EINVAL;
	j->has_format = true;
	return j->len == strlen(SHFS_ARCHIVE_FORMAT) &&
	                       !memcmp(j->data, SHFS_ARCHIVE_FORMAT, j->len)
	               ? 0
	               : -EPROTONOSUPPORT;
}

/* The part of path after prefix; NULL: it does not begin with that. */
static const char *path_after_prefix(const char *path, const char *prefix)
{
	size_t len = strlen(prefix);

	return strncmp(path, prefix, len) ? NULL : path + len;
}

static int take_data(struct job *j, const char *path)
{
	const char *rest;

	if (!strcmp(path, "shfs/format"))
		return take_format(j);
	if (!j->has_format)
		return -EINVAL;
	if ((rest = path_after_prefix(path, "shfs/journal/")))
		return import_file(j, rest);
	if ((rest = path_after_prefix(path, "shfs/objects/")))
		return shfs_import_object(j->import, rest, j->data, j->len, NULL);
	if (!strcmp(path, "shfs/alive"))
		return shfs_import_alive(j->import, j->data, j->len);
	if (!strcmp(path, "shfs/trees"))
		return shfs_import_trees(j->import, j->data, j->len);
	if (!strcmp(path, "shfs/pruned"))
		return shfs_import_pruned(j->import, j->data, j->len);
	return -EINVAL;
}

static int take_entry(struct job *j, struct archive_entry *entry)
{
	const char *path = libarchive.archive_entry_pathname(entry);
	int r;

	if (!path || libarchive.archive_entry_filetype(entry) != AE_IFREG ||
	    libarchive.archive_entry_hardlink(entry) ||
	    libarchive.archive_entry_is_encrypted(entry))
		return explain_import_failure(j, path, -EINVAL);
	r = read_data(j, entry, path);
	if (r)
		return r;
	r = take_data(j, path);
	if (j->len)
		munmap((void *)j->data, j->len);
	return r ? explain_import_failure(j, path, r) : 0;
}

static int open_tar(struct job *j)
{
	bool is_stdin = !strcmp(j->name, "-");

	j->file = tmpfile();
	j->tar = j->file ? libarchive.archive_read_new() : NULL;
	if (!j->tar)
		return explain_import_failure(j, NULL, j->file ? -ENOMEM : -errno);
	if (!is_stdin && access(j->name, R_OK))
		return refuse_import(j, NULL, strerror(errno));
	libarchive.archive_read_support_format_tar(j->tar);
	libarchive.archive_read_support_filter_zstd(j->tar);
	libarchive.archive_read_support_filter_gzip(j->tar);
	libarchive.archive_read_support_filter_xz(j->tar);
	if (is_stdin ? libarchive.archive_read_open_fd(j->tar, STDIN_FILENO, 1 << 16)
	             : libarchive.archive_read_open_filename(j->tar, j->name, 1 << 16))
		return explain_tar_failure(j, NULL);
	return 0;
}

#define BLOCK 512 /* of tar */

static int import_entries(struct job *j)
{
	struct archive_entry *entry;
	int code = open_tar(j), r;
	la_int64_t end = 0; /* end of the last entry, without the padding of its block */

	while (!code &&
	       (r = libarchive.archive_read_next_header(j->tar, &entry)) != ARCHIVE_EOF) {
		code = r == ARCHIVE_OK ? take_entry(j, entry)
		                       : explain_tar_failure(j, NULL);
		end = libarchive.archive_filter_bytes(j->tar, 0);
		say_progress(j);
	}
	if (!code && !j->has_format)
		code = explain_import_failure(j, NULL, -EINVAL);
	/* libarchive does not notice if the zero blocks at the end are missing */
	if (!code && libarchive.archive_filter_bytes(j->tar, 0) - end < BLOCK)
		code = refuse_import(j, NULL, "it ends too early");
	libarchive.archive_read_free(j->tar);
	if (j->file)
		fclose(j->file);
	return code;
}

/* --- maps --- */

static int set_import_option(const struct shfs_option *opt, const char *value)
{
	const char *colon = value + strcspn(value, ":/="), *equals = strchr(value, '=');
	struct map *more;

	if (*colon != ':' || colon == value || !equals || !equals[1] ||
	    (colon[1] != '/' && colon[1] != '~'))
		return shfs_bad_value(opt, value, "TREE:DIR=DIR, as hostb:~/p=~/q");
	more = reallocarray(opts.maps, opts.n_maps + 1, sizeof(*opts.maps));
	if (!more)
		return shfs_no_memory(), SHFS_EXIT_FAILURE;
	opts.maps = more;
	opts.maps[opts.n_maps++] = (struct map){ value, !strcmp(opt->name, "unmap") };
	return 0;
}

/* The directory on the other machine: "~" as its home. NULL: no memory, or (errno ENOENT)
 * its home is not known. */
static char *map_directory(const char *dir, size_t len, const char *home)
{
	_cleanup_free_ char *copy = strndup(dir, len), *whole = NULL;

	if (copy && copy[0] == '~' && (!copy[1] || copy[1] == '/')) {
		if (!*home)
			return errno = ENOENT, NULL;
		whole = shfs_path_join(home, copy + 1 + strspn(copy + 1, "/"));
	}
	errno = ENOMEM;
	return copy ? shfs_path_absolute(whole ?: copy) : NULL;
}

/* The directory here, as operands have it: links on the way are followed. */
static char *map_directory_here(const char *dir)
{
	_cleanup_free_ char *path =
		map_directory(dir, strlen(dir), getenv("HOME") ?: "/");

	return path ? shfs_operand_path(path) : NULL;
}

static int add_map(struct shfs_import *import, const struct map *map)
{
	const char *colon = strchr(map->text, ':'), *equals = strchr(map->text, '=');
	_cleanup_free_ char *tree = strndup(map->text, colon - map->text), *from = NULL,
			    *to = NULL;
	const struct shfs_trees *trees;
	const char *there;
	int r = tree ? shfs_import_place(import, &trees) : -ENOMEM;

	if (r)
		return r;
	there = shfs_trees_home(trees, tree, strlen(tree));
	if (!there)
		return -ENOENT;
	from = map_directory(colon + 1, equals - colon - 1, there);
	to = from ? map_directory_here(equals + 1) : NULL;
	return to ? shfs_import_map(import, tree, from, to, map->unmap) : -errno;
}

static int add_maps(struct job *j)
{
	for (size_t i = 0; i < opts.n_maps; i++) {
		int r = add_map(j->import, &opts.maps[i]);

		if (r == -ENOENT) {
			shfs_error("--%s %s: there is no such %s",
			           opts.maps[i].unmap ? "unmap" : "map",
			           opts.maps[i].text,
			           opts.maps[i].unmap
			                   ? "map"
			                   : "machine, or its home is not known");
			return SHFS_EXIT_NOT_FOUND;
		}
		if (r)
			return explain_import_failure(j, NULL, r);
	}
	return 0;
}

/* --- output --- */

static int json_import(const struct shfs_import_stats *s)
{
	struct shfs_json json = { 0 };

	shfs_json_begin(&json, "import");
	shfs_json_bool(&json, "done", !opts.dry_run);
	shfs_json_int(&json, "files", (int64_t)s->files);
	shfs_json_int(&json, "files_known", (int64_t)s->files_known);
	shfs_json_int(&json, "objects", (int64_t)s->objects);
	shfs_json_int(&json, "objects_known", (int64_t)s->objects_known);
	shfs_json_int(&json, "bytes", (int64_t)s->bytes);
	shfs_json_int(&json, "alive", (int64_t)s->alive);
	shfs_json_int(&json, "missing", (int64_t)s->missing);
	shfs_json_int(&json, "completed", (int64_t)s->completed);
	if (*s->tree)
		shfs_json_str(&json, "tree", s->tree);
	else
		shfs_json_null(&json, "tree");
	return shfs_json_end(&json) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}

static int show_import(const struct shfs_import_stats *s)
{
	_cleanup_buf_ struct shfs_buf size = { 0 };

	if (opts.json)
		return json_import(s);
	shfs_show_size(&size, s->bytes);
	if (opts.dry_run)
		printf("would be imported: %" PRIu64 " of %" PRIu64
		       " files of the journal, %" PRIu64 " contents\n",
		       s->files - s->files_known, s->files, s->objects);
	else
		printf("imported: %" PRIu64 " of %" PRIu64
		       " files of the journal, %" PRIu64 " of %" PRIu64
		       " contents (%s)%s\n",
		       s->files - s->files_known, s->files, s->objects - s->objects_known,
		       s->objects, size.data ?: "",
		       s->files_known || s->objects_known ? "; the others were there"
		                                          : "");
	if (s->completed)
		printf("  %" PRIu64 " content%s had only a fingerprint here\n",
		       s->completed, s->completed == 1 ? " of these" : "s of these");
	if (*s->tree)
		printf("  the files of %s are %s:/... here%s\n", s->tree, s->tree,
		       s->several_trees ? "; so are those of other machines" : "");
	if (s->alive)
		printf("  when the archive was made, %" PRIu64 " recording%s on: what "
		       "came later is not in it\n",
		       s->alive, s->alive == 1 ? " went" : "s went");
	if (s->missing)
		shfs_warn("%" PRIu64 " content%s neither in the archive nor in the store",
		          s->missing, s->missing == 1 ? " is" : "s are");
	return SHFS_EXIT_OK;
}

/* --- the command --- */

static int run_import(struct shfs_context *ctx, int argc, char **argv)
{
	struct job j = { .name = argc ? argv[0] : "import" };
	struct shfs_import_stats stats;
	struct stat st;
	int code = SHFS_EXIT_OK, r;
	struct shfs_store *store = shfs_context_store(ctx, true, &code);
	_cleanup_free_ char *hook_dir = NULL;

	if (!store)
		return code;
	r = shfs_import_new(store, opts.dry_run, &j.import);
	if (r)
		return explain_import_failure(&j, NULL, r);
	code = argc ? shfs_libarchive_load() : 0;
	if (argc &&
	    !(strcmp(j.name, "-") ? stat(j.name, &st) : fstat(STDIN_FILENO, &st)) &&
	    S_ISREG(st.st_mode))
		j.size_bytes = (uint64_t)st.st_size;
	/* a stranger may have made the archive */
	r = shfs_sandbox_enter(SHFS_SANDBOX_LOCKS);
	shfs_progress_begin("reading the archive");
	if (!code && r)
		code = explain_import_failure(&j, NULL, r);
	if (!code && argc)
		code = import_entries(&j);
	if (!code)
		code = add_maps(&j);
	shfs_progress_bytes(0, 0); /* what comes now has no size */
	hook_dir = shfs_runtime_hook_dir(store->path);
	if (!code && (r = shfs_import_finish(j.import, hook_dir, &stats)))
		code = explain_import_failure(&j, NULL, r);
	shfs_progress_end();
	shfs_import_free(j.import);
	free(opts.maps);
	return code || !argc ? code : show_import(&stats);
}

static int check_import(struct shfs_context *ctx, int argc)
{
	if (argc || opts.n_maps)
		return 0;
	shfs_error("shfs import wants an argument");
	shfs_hint("usage: shfs import [OPTIONS] ARCHIVE");
	return SHFS_EXIT_USAGE;
}

const struct shfs_command shfs_cmd_import = {
	.name = "import",
	.args = "[ARCHIVE]",
	.summary = "Import an archive that shfs export tar wrote",
	.description =
		"Everything is checked first. What the store already has stays as it "
		"is;\n"
		"what was forgotten here and is in the archive comes back. - means\n"
		"standard input.\n"
		"\n"
		"What another machine recorded stays apart: its files are named\n"
		"hostb:~/p/x. With --map, a directory here stands for one there.",
	.options = {
	{ "dry-run", 'n', NULL, "only check the archive, and show what it would add",
	  .flag = &opts.dry_run },
	{ "map", 0, "TREE:DIR=DIR", "a project there is this one here (hostb:~/p=~/q)" },
	{ "unmap", 0, "TREE:DIR=DIR", "take that back" },
	{ "json", 0, NULL, "for programs: see docs/json.md", .flag = &opts.json },
	},
	.operands = { 0, 1 },
	.option = set_import_option,
	.check = check_import,
	.run = run_import,
};
