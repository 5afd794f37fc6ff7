/* SPDX-License-Identifier: MIT */
#include "query/care/secret.h"

#include "common/path.h"
#include "common/secrets.h"
#include "store/capture/rules.h"

#include <string.h>

struct finder {
	struct shfs_index *index;
	struct shfs_redactor *redactor;
	struct shfs_rules *rules;
	void (*found)(void *arg, const struct shfs_secret *secret);
	void *arg;
	void (*progress)(uint64_t done, uint64_t all); /* NULL: nobody waits to see it */
	uint64_t done, all;                            /* bytes of text */
};

/* The bytes of all that the functions below look at. */
static const char measure[] =
	"SELECT (SELECT coalesce(sum(length(CAST(text AS BLOB))), 0) FROM v_command)"
	" + (SELECT coalesce(sum(length(CAST(d.definition AS BLOB))), 0)"
	" FROM v_definition d JOIN v_command c USING (command_id))"
	" + (SELECT coalesce(sum(length(CAST(argv AS BLOB))), 0) FROM v_process)"
	" + (SELECT coalesce(sum(length(CAST(environment AS BLOB))), 0) FROM v_process)"
	" + (SELECT coalesce(sum(length(CAST(path AS BLOB))), 0) FROM v_file)";

static int measure_texts(struct finder *f)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(f->index, measure, &rows);

	if (!r)
		r = shfs_rows_next(rows);
	f->all = r > 0 ? (uint64_t)shfs_rows_int(rows, 0) : 0;
	return MIN(r, 0);
}

static void count_looked_at(struct finder *f, size_t bytes)
{
	f->done += bytes;
	if (f->progress)
		f->progress(f->done, f->all);
}

/* Is there a secret in the text of this column? Or a negative errno. */
static int has_secret(struct finder *f, struct shfs_rows *rows, int column,
                      bool separated)
{
	_cleanup_free_ char *redacted = NULL;
	size_t len;

	return shfs_redact(f->redactor, shfs_rows_text(rows, column),
	                   shfs_rows_bytes(rows, column), separated, &redacted, &len);
}

static int find_commands(struct finder *f)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(f->index,
	                       "SELECT text, id FROM v_command ORDER BY begin_ns", &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		count_looked_at(f, shfs_rows_bytes(rows, 0));
		r = has_secret(f, rows, 0, false);
		if (r > 0)
			f->found(f->arg, &(struct shfs_secret){
						 .command = shfs_rows_text(rows, 1) });
		r = MIN(r, 0);
	}
	return r;
}

/* Finds secrets in aliases and functions that commands used, and in the arguments and
 * environments of processes, where the commands have none themselves. */
static int find_parts(struct finder *f)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(
		f->index,
		"SELECT d.definition, NULL, c.id, c.text, c.command_id AS command_id"
		" FROM v_definition d JOIN v_command c USING (command_id)"
		" WHERE d.definition IS NOT NULL"
		" UNION ALL SELECT p.argv, p.environment, c.id, c.text, c.command_id"
		" FROM v_process p LEFT JOIN v_command c USING (command_id)"
		" ORDER BY command_id",
		&rows);
	char last[17] = "";

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		const char *id = shfs_rows_text(rows, 2);

		r = 0;
		count_looked_at(f, shfs_rows_bytes(rows, 0) + shfs_rows_bytes(rows, 1));
		if (*id && !strcmp(id, last))
			continue;
		r = has_secret(f, rows, 0, true) ?: has_secret(f, rows, 1, true);
		if (r > 0 && *id) {
			snprintf(last, sizeof(last), "%s", id);
			r = has_secret(f, rows, 3, false);
			r = r < 0 ? r : !r;
		}
		if (r > 0)
			f->found(f->arg,
			         &(struct shfs_secret){ .command = *id ? id : NULL });
		r = MIN(r, 0);
	}
	return r;
}

static bool is_secret_path(struct finder *f, const char *path, const char *root)
{
	const char *below = shfs_path_relative(path, root);

	return below && *below && shfs_rules_is_secret(f->rules, below, false);
}

/* Condition on a version: its content is in the store. */
#define IS_HERE(v) " " v ".object IS NOT NULL AND NOT " v ".flags >> 30 & 1"

/* Other paths at which contents of the file ?1 are archived: earlier and later names of
 * its versions (renames, links), and versions of equal content (of 5 bytes or more). */
#define KIN                                                                              \
	"WITH RECURSIVE kin(id) AS (SELECT version_id FROM v_version WHERE file_id = ?1" \
	" UNION SELECT v.origin_version_id FROM kin JOIN v_version v"                    \
	" ON v.file_id = kin.id >> 32 AND v.n = kin.id & 4294967295"                     \
	" WHERE v.origin_version_id IS NOT NULL"                                         \
	" UNION SELECT v.version_id FROM kin JOIN v_version v"                           \
	" ON v.origin_version_id = kin.id"                                               \
	" UNION SELECT w.version_id FROM kin JOIN v_version v"                           \
	" ON v.file_id = kin.id >> 32 AND v.n = kin.id & 4294967295"                     \
	" JOIN v_version w ON w.object_key = v.object_key AND w.object = v.object"       \
	" WHERE v.size >= 5)"                                                            \
	" SELECT DISTINCT p.path, p.root FROM kin JOIN v_version v"                      \
	" ON v.file_id = kin.id >> 32 AND v.n = kin.id & 4294967295"                     \
	" JOIN v_file p ON p.file_id = v.file_id"                                        \
	" WHERE v.file_id <> ?1 AND" IS_HERE("v") " ORDER BY p.path"

static int find_kin(struct finder *f, int64_t file_id, const char *of)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(f->index, KIN, SHFS_INTS(file_id), &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		const char *path = shfs_rows_text(rows, 0);

		r = 0;
		if (!is_secret_path(f, path, shfs_rows_text(rows, 1)))
			f->found(f->arg, &(struct shfs_secret){ .path = path, .of = of });
	}
	return r;
}

static int find_secret_files(struct finder *f)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(f->index,
	                       "SELECT path, root, file_id, EXISTS (SELECT 1"
	                       " FROM v_version v WHERE v.file_id = f.file_id"
	                       " AND" IS_HERE("v") ") FROM v_file f",
	                       &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		const char *path = shfs_rows_text(rows, 0);

		r = 0;
		count_looked_at(f, shfs_rows_bytes(rows, 0));
		if (!is_secret_path(f, path, shfs_rows_text(rows, 1)))
			continue;
		if (shfs_rows_int(rows, 3))
			f->found(f->arg, &(struct shfs_secret){ .path = path });
		r = find_kin(f, shfs_rows_int(rows, 2), path);
	}
	return r;
}

int shfs_secrets_find(struct shfs_index *index, const struct shfs_config *config,
                      void (*found)(void *arg, const struct shfs_secret *secret),
                      void *arg, void (*progress)(uint64_t done, uint64_t all))
{
	struct finder f = {
		.index = index, .found = found, .arg = arg, .progress = progress
	};
	int r = shfs_secrets_redactor(config, &f.redactor);

	if (!r)
		r = shfs_rules_new(config, NULL, &f.rules);
	if (!r && progress)
		r = measure_texts(&f);
	if (!r)
		r = find_commands(&f);
	if (!r)
		r = find_parts(&f);
	if (!r)
		r = find_secret_files(&f);
	shfs_redactor_free(f.redactor);
	shfs_rules_free(f.rules);
	return r;
}
