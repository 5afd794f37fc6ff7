/* SPDX-License-Identifier: MIT */
#include "query/history/version-spec.h"

#include "common/clock.h"
#include "common/quote.h"
#include "query/base/time.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* --- taking it apart --- */

/* The "@{" of "FILE@{text}": the last one belongs to the brace at the end. */
static const char *find_braces(const char *operand, size_t len)
{
	const char *found = NULL;

	if (!len || operand[len - 1] != '}')
		return NULL;
	for (const char *p = strstr(operand, "@{"); p; p = strstr(p + 1, "@{"))
		found = p;
	return found;
}

/* The "@" of "FILE@12". */
static const char *find_number(const char *operand, size_t len)
{
	const char *p = operand + len;

	while (p > operand && isdigit((unsigned char)p[-1]))
		p--;
	return *p && p > operand && p[-1] == '@' ? p - 1 : NULL;
}

static uint64_t parse_version_number(const char *digits)
{
	uint64_t n = 0;

	for (; *digits; digits++)
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, *digits - '0', &n))
			return UINT64_MAX;
	return n;
}

int shfs_version_spec_parse(const char *operand, struct shfs_version_spec *out)
{
	size_t len = strlen(operand);
	const char *braces = find_braces(operand, len);
	const char *at = braces ? braces : find_number(operand, len);
	struct shfs_version_spec spec = { .kind = SHFS_SPEC_LATEST };

	if (!len || at == operand || (braces && braces + 3 == operand + len))
		return -EINVAL;
	if (braces) {
		spec.kind = SHFS_SPEC_BRACES;
		spec.text = strndup(at + 2, operand + len - 1 - (at + 2));
		if (!spec.text)
			return -ENOMEM;
	} else if (at) {
		spec.kind = SHFS_SPEC_NUMBER;
		spec.n = parse_version_number(at + 1);
	}
	spec.path = strndup(operand, at ? (size_t)(at - operand) : len);
	if (!spec.path) {
		shfs_version_spec_clear(&spec);
		return -ENOMEM;
	}
	*out = spec;
	return 0;
}

bool shfs_version_spec_is_cut(const char *operand)
{
	const char *brace = strstr(operand, "@{");

	return brace && !strchr(brace, '}');
}

void shfs_version_spec_clear(struct shfs_version_spec *spec)
{
	free(spec->path);
	free(spec->text);
	memset(spec, 0, sizeof(*spec));
}

/* --- finding it --- */

/* Finds a version of path by a condition with ?1 for the path, ?2 and ?3 for other
 * values: 1, 0 or a negative errno. */
static int one_version(struct shfs_index *index, const char *condition, const char *path,
                       int64_t a, int64_t b, struct shfs_version *out)
{
	_cleanup_buf_ struct shfs_buf sql = { 0 };
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r;

	shfs_buf_printf(&sql,
	                "SELECT" SHFS_VERSION_COLUMNS "FROM v_version"
	                " WHERE " SHFS_SQL_FILE("?1") "AND %s ORDER BY n DESC LIMIT 1",
	                condition);
	if (sql.failed)
		return -ENOMEM;
	r = shfs_rows_open_str(index, sql.data, path, &rows);
	if (!r)
		r = shfs_rows_bind_int(rows, 2, a);
	if (!r)
		r = shfs_rows_bind_int(rows, 3, b);
	if (!r)
		r = shfs_rows_next(rows);
	return r > 0 ? shfs_version_from_row(rows, out) : r;
}

static void say_range(const struct shfs_version *latest)
{
	_cleanup_buf_ struct shfs_buf name = { 0 };

	shfs_show_path(&name, latest->path);
	if (latest->n == 1)
		shfs_error("%s has only version 1", name.data);
	else
		shfs_error("%s has versions 1 to %lld", name.data, (long long)latest->n);
}

static int find_version_by_number(struct shfs_index *index, const char *path, uint64_t n,
                                  struct shfs_version *out)
{
	_cleanup_version_ struct shfs_version latest = { 0 };
	int r = n > INT64_MAX ? 0
	                      : one_version(index, "n = ?2 AND ?3 = 0", path, n, 0, out);

	if (r < 0)
		return shfs_fail_index(index, r);
	if (r)
		return 0;
	r = shfs_version_latest(index, path, &latest);
	if (r < 0)
		return shfs_fail_index(index, r);
	if (!r)
		return shfs_fail_unseen(index, path);
	say_range(&latest);
	return SHFS_EXIT_NOT_FOUND;
}

/* Clocks may jump, but numbers rise: finds the last version before the first that is
 * later. */
#define AT_TIME                                                                          \
	"?3 = 0 AND n < coalesce((SELECT min(w.n) FROM v_version w WHERE "               \
	"w." SHFS_SQL_FILE("?1") "AND w.time_ns > ?2), n + 1)"

static int find_version_by_time(struct shfs_index *index, const char *path,
                                int64_t time_ns, struct shfs_version *out)
{
	_cleanup_version_ struct shfs_version first = { 0 };
	_cleanup_buf_ struct shfs_buf name = { 0 }, when = { 0 };
	int r = one_version(index, AT_TIME, path, time_ns, 0, out);

	if (!r)
		r = one_version(index, "n = ?2 AND ?3 = 0", path, 1, 0, &first);
	else if (r > 0)
		return 0;
	if (r < 0)
		return shfs_fail_index(index, r);
	if (!r)
		return shfs_fail_unseen(index, path);
	shfs_show_path(&name, path);
	shfs_time_show(&when, first.time_ns);
	shfs_error("%s was first seen %s", name.data, when.data);
	return SHFS_EXIT_NOT_FOUND;
}

/* The version that the command left at the path (renames included), else the last that it
 * read. */
static int by_command(struct shfs_index *index, const char *path, int64_t command_id,
                      struct shfs_version *out)
{
	_cleanup_buf_ struct shfs_buf name = { 0 };
	int r = one_version(index,
	                    "?3 = 0 AND (command_id = ?2 OR version_id IN (SELECT"
	                    " made_version_id FROM v_access WHERE command_id = ?2))",
	                    path, command_id, 0, out);

	if (!r)
		r = one_version(index,
		                "?3 = 0 AND version_id IN (SELECT seen_version_id"
		                " FROM v_access WHERE command_id = ?2)",
		                path, command_id, 0, out);
	if (r < 0)
		return shfs_fail_index(index, r);
	if (r)
		return 0;
	shfs_show_path(&name, path);
	shfs_error("that command neither wrote nor read %s", name.data);
	return SHFS_EXIT_NOT_FOUND;
}

/* text is the id of a command, if there is such a command, else a time: *command says
 * which. Returns an exit code. */
static int read_moment(struct shfs_index *index, const char *text, bool *command,
                       int64_t *value)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	int r = shfs_command_find(index, text, value);

	*command = r > 0;
	if (r == -ENOTUNIQ)
		return SHFS_EXIT_NOT_FOUND;
	if (r < 0)
		return shfs_fail_index(index, r);
	if (r || !shfs_time_parse(text, value))
		return 0;
	shfs_quote_display(&shown, text, strlen(text));
	if (shfs_command_is_id(text)) {
		shfs_error("no command's id begins with %s", shown.data);
		return SHFS_EXIT_NOT_FOUND;
	}
	shfs_error("@{%s}: neither a time nor the id of a command", shown.data);
	shfs_hint("try @{2 hours ago}, @{yesterday}, @{2024-05-17 14:00}");
	return SHFS_EXIT_USAGE;
}

static int by_text(struct shfs_index *index, const char *path, const char *text,
                   struct shfs_version *out)
{
	bool command;
	int64_t value;
	int code = read_moment(index, text, &command, &value);

	if (code)
		return code;
	return command ? by_command(index, path, value, out)
	               : find_version_by_time(index, path, value, out);
}

/* A file that the command wrote may have been closed after its end was noted. */
#define CLOSED_AFTER_NS 1000000000

static int find_end(struct shfs_index *index, const struct shfs_command_row *command,
                    int64_t *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(
		index,
		"SELECT max(end_ns) FROM v_access WHERE command_id = ?1"
		" AND begin_ns <= ?2 AND end_ns <= ?3",
		SHFS_INTS(command->command_id, command->end_ns,
	                  command->end_ns + CLOSED_AFTER_NS),
		&rows);

	if (!r)
		r = shfs_rows_next(rows);
	if (r > 0)
		*out = MAX(command->end_ns, shfs_rows_int(rows, 0)) + 1;
	return MIN(r, 0);
}

int shfs_moment_find(struct shfs_index *index, const char *text, bool before,
                     int64_t *time_ns)
{
	_cleanup_command_ struct shfs_command_row row = { 0 };
	bool command;
	int64_t value;
	int code = read_moment(index, text, &command, &value), r;

	if (!code)
		*time_ns = value;
	if (code || !command)
		return code;
	r = shfs_command_load(index, value, &row);
	if (r <= 0)
		return shfs_fail_index(index, r ? r : -EIO);
	*time_ns = before ? row.begin_ns : shfs_time_now().real_ns;
	r = !before && row.ended ? find_end(index, &row, time_ns) : 0;
	return r ? shfs_fail_index(index, r) : 0;
}

static int find_spec(struct shfs_index *index, const struct shfs_version_spec *spec,
                     const char *path, struct shfs_version *out)
{
	int r;

	switch (spec->kind) {
	case SHFS_SPEC_NUMBER:
		return find_version_by_number(index, path, spec->n, out);
	case SHFS_SPEC_BRACES:
		return by_text(index, path, spec->text, out);
	default:
		r = shfs_version_latest(index, path, out);
		if (r < 0)
			return shfs_fail_index(index, r);
		return r ? 0 : shfs_fail_unseen(index, path);
	}
}

int shfs_version_spec_find(struct shfs_index *index, const char *operand,
                           struct shfs_version *out)
{
	_cleanup_version_spec_ struct shfs_version_spec spec = { 0 };
	_cleanup_free_ char *path = NULL, *whole = NULL;
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	int r = shfs_version_spec_parse(operand, &spec);

	if (r == -EINVAL) {
		shfs_quote_display(&shown, operand, strlen(operand));
		shfs_error("%s: not FILE, FILE@N, FILE@{TIME} or FILE@{COMMAND}",
		           shown.data ? shown.data : "");
		return SHFS_EXIT_USAGE;
	}
	if (!r)
		r = shfs_operand_file(index, spec.path, &path);
	if (!r && spec.kind != SHFS_SPEC_LATEST) {
		r = shfs_operand_file(index, operand, &whole);
		if (r > 0) {
			spec.kind = SHFS_SPEC_LATEST;
			return find_spec(index, &spec, whole, out);
		}
	}
	if (r < 0)
		return shfs_fail_index(index, r);
	if (!r && !path)
		return SHFS_EXIT_FAILURE;
	r = find_spec(index, &spec, path, out);
	if (r && shfs_version_spec_is_cut(operand))
		shfs_hint(SHFS_SPEC_QUOTED);
	return r;
}

/* --- directories --- */

int shfs_directory_spec_read(struct shfs_index *index, const char *operand, char **path,
                             char **when)
{
	_cleanup_version_spec_ struct shfs_version_spec spec = { 0 };
	_cleanup_free_ char *whole = NULL, *file = NULL;
	struct stat st;
	int r = shfs_version_spec_parse(operand, &spec);

	if (r || spec.kind != SHFS_SPEC_BRACES)
		return r == -EINVAL ? 0 : r;
	r = shfs_operand_file(index, operand, &whole);
	if (r)
		return MIN(r, 0);
	file = shfs_operand_path(spec.path);
	if (!file)
		return -ENOMEM;
	if (!shfs_path_is_here(file))
		return 0;
	if (lstat(file, &st)) {
		/* it is gone: files that lay in it tell that it was a directory */
		r = shfs_file_is_recorded(index, file);
		if (!r)
			r = shfs_path_is_known(index, file) > 0 ? 0 : 1;
		if (r)
			return MIN(r, 0);
	} else if (!S_ISDIR(st.st_mode)) {
		return 0;
	}
	*path = TAKE_PTR(file);
	*when = TAKE_PTR(spec.text);
	return 1;
}

/* --- commands --- */

/* Finds the command that made a version, or its process. */
static int find_maker(struct shfs_index *index, const char *operand, bool *is_process,
                      int64_t *id)
{
	_cleanup_version_ struct shfs_version v = { 0 };
	_cleanup_buf_ struct shfs_buf name = { 0 };
	int code = shfs_version_spec_find(index, operand, &v);

	if (code)
		return code;
	*is_process = !v.command_id;
	*id = v.command_id ? v.command_id : v.process_id;
	if (*id)
		return 0;
	shfs_show_version(&name, v.path, v.n);
	shfs_error("%s was not made by a recorded command: %s",
	           name.data ? name.data : "",
	           v.n == 1 ? "it existed before" : "it changed while nothing watched");
	return SHFS_EXIT_NOT_FOUND;
}

int shfs_command_spec_find(struct shfs_index *index, const char *operand,
                           bool *is_process, int64_t *id)
{
	_cleanup_free_ char *path = NULL;
	int r = shfs_command_find(index, operand, id);

	*is_process = false;
	if (r == -ENOTUNIQ)
		return SHFS_EXIT_NOT_FOUND;
	if (r)
		return r < 0 ? shfs_fail_index(index, r) : 0;
	if (!operand[strspn(operand, "0123456789abcdefABCDEF")]) {
		r = shfs_operand_file(index, operand, &path);
		if (r < 0)
			return shfs_fail_index(index, r);
		if (!r && shfs_fail_if_empty(index))
			return SHFS_EXIT_NOT_FOUND;
		if (!r) {
			shfs_error("no command's id begins with %s", operand);
			if (strlen(operand) < 4)
				shfs_hint("4 digits or more are needed");
			return SHFS_EXIT_NOT_FOUND;
		}
	}
	return find_maker(index, operand, is_process, id);
}
