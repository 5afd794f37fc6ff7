/* SPDX-License-Identifier: MIT */
#include "query/secret.h"

#include "common/path.h"
#include "common/secrets.h"
#include "store/rules.h"

#include <string.h>

struct finder {
	struct shfs_index *index;
	struct shfs_redactor *redactor;
	struct shfs_rules *rules, *secrets; /* all; those for secrets */
	void (*found)(void *arg, const struct shfs_secret *secret);
	void *arg;
};

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
		r = has_secret(f, rows, 0, false);
		if (r > 0)
			f->found(f->arg, &(struct shfs_secret){
						 .command = shfs_rows_text(rows, 1) });
		r = MIN(r, 0);
	}
	return r;
}

/* Those of a command that has none itself. */
static int find_processes(struct finder *f)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(f->index,
	                       "SELECT p.argv, c.id, c.text FROM v_process p"
	                       " LEFT JOIN v_command c USING (command_id)"
	                       " ORDER BY c.command_id",
	                       &rows);
	char last[17] = "";

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		const char *id = shfs_rows_text(rows, 1);

		r = *id && !strcmp(id, last) ? 0 : has_secret(f, rows, 0, true);
		if (r > 0 && *id) {
			snprintf(last, sizeof(last), "%s", id);
			r = has_secret(f, rows, 2, false);
			r = r < 0 ? r : !r;
		}
		if (r > 0)
			f->found(f->arg,
			         &(struct shfs_secret){ .command = *id ? id : NULL });
		r = MIN(r, 0);
	}
	return r;
}

static bool is_chosen(const struct shfs_rules *rules, const char *path)
{
	return shfs_rules_match(rules, path, false) == SHFS_RULE_IGNORE;
}

static int find_files(struct finder *f)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(f->index,
	                       "SELECT path, root FROM v_file f WHERE EXISTS"
	                       " (SELECT 1 FROM v_version v WHERE v.file_id = f.file_id"
	                       "  AND v.object IS NOT NULL)",
	                       &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		const char *path = shfs_rows_text(rows, 0);
		const char *below = shfs_path_relative(path, shfs_rows_text(rows, 1));

		r = 0;
		if (below && *below && is_chosen(f->secrets, below) &&
		    is_chosen(f->rules, below))
			f->found(f->arg, &(struct shfs_secret){ .path = path });
	}
	return r;
}

int shfs_secrets_find(struct shfs_index *index, const struct shfs_config *config,
                      void (*found)(void *arg, const struct shfs_secret *secret),
                      void *arg)
{
	struct finder f = { .index = index, .found = found, .arg = arg };
	int r = shfs_secrets_redactor(config, &f.redactor);

	if (!r)
		r = shfs_rules_new(config, NULL, &f.rules);
	if (!r)
		r = shfs_rules_of_secrets(&f.secrets);
	if (!r)
		r = find_commands(&f);
	if (!r)
		r = find_processes(&f);
	if (!r)
		r = find_files(&f);
	shfs_redactor_free(f.redactor);
	shfs_rules_free(f.rules);
	shfs_rules_free(f.secrets);
	return r;
}
