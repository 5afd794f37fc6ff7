/* SPDX-License-Identifier: MIT */
#include "query/history/software.h"

#include "common/ids.h"
#include "common/program.h"
#include "common/quote.h"
#include "common/script.h"
#include "query/base/time.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

struct loading {
	struct shfs_index *index;
	struct shfs_software *out;
	size_t programs_cap, variables_cap;
	bool is_process;
	int64_t id;
};

void shfs_software_clear(struct shfs_software *s)
{
	for (size_t i = 0; i < s->n_programs; i++) {
		free(s->programs[i].path);
		free(s->programs[i].manager);
		free(s->programs[i].package);
		free(s->programs[i].version);
	}
	for (size_t i = 0; i < s->n_variables; i++)
		free(s->variables[i]);
	free(s->programs);
	free(s->variables);
	*s = (struct shfs_software){ 0 };
}

/* --- programs --- */

#define PROGRAM_COLUMNS " path, manager, package, version, size, mtime_ns, phash "

/* Adds the program of a row of v_program, if its path is not there yet. */
static int add_program(struct loading *l, struct shfs_rows *rows)
{
	struct shfs_software *s = l->out;
	const char *path = shfs_rows_text(rows, 0);
	struct shfs_used_program *p;

	for (size_t i = 0; i < s->n_programs; i++)
		if (!strcmp(s->programs[i].path, path))
			return 0;
	if (!MAKE_ROOM(s->programs, s->n_programs, l->programs_cap))
		return -ENOMEM;
	p = &s->programs[s->n_programs++];
	*p = (struct shfs_used_program){
		.path = strdup(path),
		.manager = strdup(shfs_rows_text(rows, 1)),
		.package = strdup(shfs_rows_text(rows, 2)),
		.version = strdup(shfs_rows_text(rows, 3)),
		.size = shfs_rows_int(rows, 4),
		.mtime_ns = shfs_rows_int(rows, 5),
		.phash = (uint64_t)shfs_rows_int(rows, 6),
	};
	return p->path && p->manager && p->package && p->version ? 0 : -ENOMEM;
}

static int add_program_of_id(struct loading *l, int64_t program_id)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(l->index,
	                            "SELECT" PROGRAM_COLUMNS
	                            "FROM v_program WHERE program_id = ?1",
	                            SHFS_INTS(program_id), &rows);

	if (!r)
		r = shfs_rows_next(rows);
	return r > 0 ? add_program(l, rows) : r;
}

/* Adds the script, as it was at that time on the host of the process. */
static int add_script(struct loading *l, const char *path, const char *host,
                      int64_t first_ns)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(l->index,
	                       "SELECT" PROGRAM_COLUMNS "FROM v_program WHERE path = ?1"
	                       " AND host = ?2 AND since_ns <= ?3"
	                       " ORDER BY since_ns DESC LIMIT 1",
	                       &rows);

	if (!r)
		r = shfs_rows_bind_str(rows, 1, path);
	if (!r)
		r = shfs_rows_bind_str(rows, 2, host);
	if (!r)
		r = shfs_rows_bind_int(rows, 3, first_ns);
	if (!r)
		r = shfs_rows_next(rows);
	return r > 0 ? add_program(l, rows) : r;
}

/* Returns the path without the name of the tree in front ("hostb:/home/…"). */
static const char *path_on_its_machine(const char *path)
{
	const char *colon = *path == '/' ? NULL : strchr(path, ':');

	return colon ? colon + 1 : path;
}

/* --- the environment --- */

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_variables(struct loading *l, const char *text, size_t len)
{
	struct shfs_software *s = l->out;

	s->has_environment |= len > 0;
	for (size_t at = 0; at < len; at += strnlen(text + at, len - at) + 1) {
		if (!text[at])
			continue;
		if (!MAKE_ROOM(s->variables, s->n_variables, l->variables_cap))
			return -ENOMEM;
		s->variables[s->n_variables] = strndup(text + at, len - at);
		if (!s->variables[s->n_variables++])
			return -ENOMEM;
	}
	return 0;
}

/* Sorts the variables; each is kept once. */
static void sort_variables(struct shfs_software *s)
{
	size_t n = 0;

	if (s->n_variables)
		qsort(s->variables, s->n_variables, sizeof(*s->variables),
		      compare_strings);
	for (size_t i = 0; i < s->n_variables; i++) {
		if (n && !strcmp(s->variables[n - 1], s->variables[i]))
			free(s->variables[i]);
		else
			s->variables[n++] = s->variables[i];
	}
	s->n_variables = n;
}

/* The shell's process and its forks have the shell's arguments. */
#define NOT_THE_SHELL                                                                    \
	" AND NOT shell AND argv NOT IN (SELECT argv FROM v_loose_process s"             \
	" WHERE s.shell AND s.session_id = p.session_id)"

static int load_environments(struct loading *l)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(
		l->index,
		l->is_process ? "SELECT environment FROM v_process WHERE process_id = ?1"
			      : "SELECT DISTINCT environment FROM v_process p"
				" WHERE command_id = ?1" NOT_THE_SHELL,
		SHFS_INTS(l->id), &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = add_variables(l, shfs_rows_text(rows, 0), shfs_rows_bytes(rows, 0));
	if (!r)
		sort_variables(l->out);
	return r;
}

/* --- all --- */

static int load_programs(struct loading *l)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(
		l->index,
		l->is_process ? "SELECT program_id FROM v_process WHERE process_id = ?1"
			      : "SELECT program_id FROM v_process p WHERE command_id = ?1"
				" AND program_id IS NOT NULL" NOT_THE_SHELL
				" GROUP BY program_id ORDER BY min(process_id)",
		SHFS_INTS(l->id), &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = add_program_of_id(l, shfs_rows_int(rows, 0));
	return r;
}

static int load_scripts(struct loading *l)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(
		l->index,
		l->is_process
			? "SELECT exe, argv, cwd, host, first_ns FROM v_process"
			  " WHERE process_id = ?1"
			: "SELECT exe, argv, cwd, host, max(first_ns) FROM v_process p"
			  " WHERE command_id = ?1" NOT_THE_SHELL
			  " GROUP BY exe, argv, cwd, host ORDER BY min(process_id)",
		SHFS_INTS(l->id), &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		const char *cwd = path_on_its_machine(shfs_rows_text(rows, 2));
		_cleanup_free_ char *script =
			shfs_script_of(shfs_bytes_str(shfs_rows_text(rows, 0)),
		                       (struct shfs_bytes){ shfs_rows_text(rows, 1),
		                                            shfs_rows_bytes(rows, 1) },
		                       shfs_bytes_str(cwd));

		r = script ? add_script(l, script, shfs_rows_text(rows, 3),
		                        shfs_rows_int(rows, 4))
		           : 0;
	}
	return r;
}

/* Adds what processes of R have loaded: a program is recorded for each that did. */
static int load_loaded(struct loading *l)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(
		l->index,
		l->is_process
			? "SELECT process_id, exe FROM v_process WHERE process_id = ?1"
			: "SELECT process_id, exe FROM v_process WHERE command_id = ?1",
		SHFS_INTS(l->id), &rows);
	_cleanup_ids_ struct shfs_ids ids = { 0 };

	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = shfs_program_is_r(shfs_rows_text(rows, 1), shfs_rows_bytes(rows, 1))
		            ? shfs_ids_add(&ids, shfs_rows_int(rows, 0))
		            : 0;
	shfs_ids_sort(&ids);
	if (r || !ids.n)
		return r;
	shfs_rows_close(TAKE_PTR(rows));
	r = shfs_rows_open(l->index,
	                   "SELECT" PROGRAM_COLUMNS ", process_id FROM v_program"
	                   " WHERE process_id <> 0",
	                   &rows);
	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = shfs_ids_has(&ids, shfs_rows_int(rows, 7)) ? add_program(l, rows) : 0;
	return r;
}

int shfs_software_load(struct shfs_index *index, bool is_process, int64_t id,
                       struct shfs_software *out)
{
	struct loading l = {
		.index = index, .out = out, .is_process = is_process, .id = id
	};
	int r;

	*out = (struct shfs_software){ 0 };
	r = load_programs(&l) ?: load_scripts(&l) ?: load_loaded(&l) ?: load_environments(&l);
	if (r)
		shfs_software_clear(out);
	return r;
}

bool shfs_used_program_equals(const struct shfs_used_program *a,
                              const struct shfs_used_program *b)
{
	if (*a->manager && *b->manager)
		return !strcmp(a->package, b->package) && !strcmp(a->version, b->version);
	return !strcmp(a->manager, b->manager) && a->size == b->size &&
	       a->phash == b->phash && a->mtime_ns == b->mtime_ns;
}

void shfs_used_program_show(struct shfs_buf *out, const struct shfs_used_program *p,
                            bool full)
{
	if (*p->manager) {
		shfs_quote_display(out, p->package, strlen(p->package));
		shfs_buf_char(out, ' ');
		shfs_quote_display(out, p->version, strlen(p->version));
		shfs_buf_str(out, " (");
		shfs_quote_display(out, p->manager, strlen(p->manager));
		shfs_buf_char(out, ')');
	} else {
		shfs_buf_str(out, "of no package");
	}
	if (!full && *p->manager)
		return;
	shfs_buf_str(out, ", ");
	shfs_show_size(out, (uint64_t)p->size);
	shfs_buf_str(out, ", changed ");
	shfs_time_show(out, p->mtime_ns);
	if (p->phash && full)
		shfs_buf_printf(out, ", %016" PRIx64, p->phash);
}

void shfs_software_json(struct shfs_json *json, const struct shfs_software *s)
{
	shfs_json_array(json, "software");
	for (size_t i = 0; i < s->n_programs; i++) {
		const struct shfs_used_program *p = &s->programs[i];
		char phash[17];

		shfs_json_object(json, NULL);
		shfs_json_str(json, "path", p->path);
		if (*p->manager) {
			shfs_json_str(json, "manager", p->manager);
			shfs_json_str(json, "package", p->package);
			shfs_json_str(json, "version", p->version);
		}
		shfs_json_int(json, "size", p->size);
		shfs_json_time(json, "mtime", p->mtime_ns);
		if (p->phash) {
			snprintf(phash, sizeof(phash), "%016" PRIx64, p->phash);
			shfs_json_str(json, "fingerprint", phash);
		}
		shfs_json_object_end(json);
	}
	shfs_json_array_end(json);
	if (!s->has_environment) {
		shfs_json_null(json, "environment");
		return;
	}
	shfs_json_array(json, "environment");
	for (size_t i = 0; i < s->n_variables; i++)
		shfs_json_str(json, NULL, s->variables[i]);
	shfs_json_array_end(json);
}
