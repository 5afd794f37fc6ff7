/* SPDX-License-Identifier: MIT */
/*
 * Commands that a program runs for somebody: "bash -c TEXT" of a coding agent, of cron,
 * of a notebook, and jobs of a cluster. Each is a row of the table command, in a session
 * of the program that runs it, its invoker (docs/index.md, Whose an access is).
 */
#include "store/index/internal.h"

#include "common/program.h"
#include "common/quote.h"
#include "common/redact.h"
#include "store/journal/origin.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- arguments --- */

/* The words of a process's arguments. */
struct words {
	struct shfs_buf text;
	char **list; /* ends with NULL */
	size_t n;
};

static void words_free(struct words *w)
{
	free(w->list);
	shfs_buf_free(&w->text);
}
#define _cleanup_words_ _cleanup_(words_free)

static int split_words(struct shfs_bytes argv, struct words *out)
{
	size_t at = 0;

	shfs_buf_add(&out->text, argv.data, argv.len);
	shfs_buf_u8(&out->text, 0);
	out->list = calloc(argv.len + 2, sizeof(*out->list));
	if (out->text.failed || !out->list)
		return -ENOMEM;
	for (; at < argv.len; at += strlen(out->text.data + at) + 1)
		out->list[out->n++] = out->text.data + at;
	return 0;
}

/* Returns the name of a program: "bash" of "-bash" and of "/bin/bash". */
static const char *base_name(const char *word)
{
	const char *slash = strrchr(word, '/');

	return slash ? slash + 1 : word + (*word == '-');
}

static bool is_python(const char *name)
{
	return !strncmp(name, "python", strlen("python"));
}

/* A program that was told what to do by -c TEXT, or a shell that was told nothing. */
struct told {
	const char *text;   /* NULL: none */
	bool alone;         /* no option and no argument changes what it means */
	bool is_bare_shell; /* reads what it does from its input */
};

/* Does the option of a shell take the next word? */
static bool takes_word(const char *option)
{
	return !strcmp(option, "--rcfile") || !strcmp(option, "--init-file") ||
	       !strcmp(option, "-o") || !strcmp(option, "+o") || !strcmp(option, "-O") ||
	       !strcmp(option, "+O");
}

static void read_shell_words(char *const *words, size_t n, struct told *out)
{
	bool has_c = false;
	size_t i = 1;

	out->alone = true;
	for (; i < n && (*words[i] == '-' || *words[i] == '+') && words[i][1]; i++) {
		const char *option = words[i];

		if (!strcmp(option, "--")) {
			i++;
			break;
		}
		if (option[1] != '-' && strchr(option, 'c') && *option == '-')
			has_c = true;
		if (option[1] == '-'
		            ? strcmp(option, "--login") && strcmp(option, "--norc") &&
		                      strcmp(option, "--noprofile")
		            : strspn(option + 1, "cli") < strlen(option + 1))
			out->alone = false;
		i += takes_word(option);
	}
	if (has_c && i < n) {
		out->text = words[i];
		out->alone = out->alone && i + 1 == n;
	}
	out->is_bare_shell = !has_c && i >= n;
}

/* Reads the arguments of a shell, or of Python. */
static void read_told(const struct words *w, const char *exe, struct told *out)
{
	const char *name = w->n ? base_name(w->list[0]) : "";

	*out = (struct told){ 0 };
	if (shfs_program_is_shell(name) || shfs_program_is_shell(base_name(exe)))
		read_shell_words(w->list, w->n, out);
	else if (is_python(name) && w->n >= 3 && !strcmp(w->list[1], "-c"))
		out->text = w->list[2];
}

/* --- which program it is --- */

/* Looks for an invoker among the directories and the name of a script:
 * ".../@google/gemini-cli/dist/index.js". *name is borrowed from it. */
static const char *kind_of_script(const char *path, struct shfs_bytes *name)
{
	const char *kind = NULL;

	while (!kind && *path) {
		size_t len = strcspn(path, "/"), dot = len;
		const char *end = memrchr(path, '.', len);

		if (end > path)
			dot = end - path;
		*name = (struct shfs_bytes){ path, dot };
		kind = shfs_program_invoker_kind(path, dot);
		if (!kind && len > dot) {
			name->len = len; /* Runner.Worker */
			kind = shfs_program_invoker_kind(path, len);
		}
		path += len + (path[len] == '/');
	}
	return kind;
}

/* Returns the kind of an invoker, which its own name tells, or that of the script that it
 * runs; NULL: the program is none. *name is borrowed. */
static const char *kind_of_program(const struct words *w, const char *exe,
                                   struct shfs_bytes *name)
{
	const char *names[] = { w->n ? base_name(w->list[0]) : "", base_name(exe) };
	bool interprets = false;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		/* "sshd: ben [priv]" */
		size_t len = strcspn(names[i], ": ");
		const char *kind = shfs_program_invoker_kind(names[i], len);

		*name = (struct shfs_bytes){ names[i], len };
		if (kind && !strcmp(kind, "cron") && *names[i] == 'C')
			*name = shfs_bytes_str(len == strlen("CRON") ? "cron" : "crond");
		if (kind)
			return kind;
		interprets |= shfs_program_is_interpreter(names[i], len);
	}
	for (size_t i = 1; interprets && i < w->n; i++) {
		if (!strcmp(w->list[i], "-c") || !strcmp(w->list[i], "-e"))
			break;
		if (*w->list[i] != '-')
			return kind_of_script(w->list[i], name);
	}
	return NULL;
}

/* The name of the script or the program, for one that is in no list. */
static struct shfs_bytes plain_name(const struct words *w, const char *exe)
{
	const char *name = w->n ? base_name(w->list[0]) : base_name(exe);

	bool interprets = shfs_program_is_interpreter(name, strlen(name));

	for (size_t i = 1; interprets && i < w->n; i++) {
		if (!strcmp(w->list[i], "-c") || !strcmp(w->list[i], "-e"))
			break;
		if (*w->list[i] != '-')
			return shfs_bytes_str(base_name(w->list[i]));
	}
	return (struct shfs_bytes){ name, strcspn(name, ": ") };
}

int shfs_invoker_role(const struct shfs_rec_process *p, unsigned *role)
{
	_cleanup_words_ struct words w = { 0 };
	_cleanup_buf_ struct shfs_buf exe = { 0 };
	struct shfs_bytes name;
	struct told told;
	int r = split_words(p->argv, &w);

	*role = 0;
	shfs_buf_add(&exe, p->exe.data, p->exe.len);
	shfs_buf_u8(&exe, 0);
	if (r || exe.failed)
		return -ENOMEM;
	read_told(&w, exe.data, &told);
	if (kind_of_program(&w, exe.data, &name))
		*role |= SHFS_ROLE_INVOKER;
	if (told.text)
		*role |= SHFS_ROLE_TOLD;
	if (told.is_bare_shell)
		*role |= SHFS_ROLE_BARE_SHELL;
	return 0;
}

/* --- the text of a command --- */

/* Appends a quoted word of a shell, at *at, without its quotes; *at moves behind it. */
static bool unquote_word(const char **at, struct shfs_buf *out)
{
	const char *p = *at;

	while (*p && *p != ' ')
		switch (*p) {
		case '\'':
			for (p++; *p && *p != '\''; p++)
				shfs_buf_char(out, *p);
			if (!*p++)
				return false;
			break;
		case '"':
			for (p++; *p && *p != '"'; p++) {
				if (*p == '$' || *p == '`')
					return false;
				if (*p == '\\' && p[1] && strchr("\"\\$`", p[1]))
					p++;
				shfs_buf_char(out, *p);
			}
			if (!*p++)
				return false;
			break;
		case '\\':
			if (!*++p)
				return false;
			shfs_buf_char(out, *p++);
			break;
		default:
			if (strchr("$`;&|<>()", *p))
				return false;
			shfs_buf_char(out, *p++);
		}
	*at = p;
	return true;
}

static bool begins_with(const char *text, const char *begin)
{
	return !strncmp(text, begin, strlen(begin));
}

/*
 * Agents wrap what they were asked to run: "source snapshot.sh && eval 'pytest -q' <
 * /dev/null
 * && pwd -P >| /tmp/cwd", "{ pytest -q; }; __code=$?; pgrep ...". Appends what is inside
 * of a wrapping that is known; false: the text is none.
 */
static bool unwrap_text(const char *text, struct shfs_buf *out)
{
	static const char eval[] = "eval ", code[] = "; }; __code=$?; ";
	const char *at = begins_with(text, eval) ? text : strstr(text, "&& eval "), *end;

	if (at) {
		at = strstr(at, eval) + strlen(eval);
		if (!unquote_word(&at, out)) {
			out->len = 0;
			return false;
		}
		if (begins_with(at, " \\< /dev/null") || begins_with(at, " < /dev/null"))
			at = strstr(at, "/dev/null") + strlen("/dev/null");
		if (*at && !begins_with(at, " && pwd -P >| "))
			out->len = 0;
		return out->len > 0;
	}
	end = begins_with(text, "{ ") ? strstr(text, code) : NULL;
	if (end)
		shfs_buf_add(out, text + 2, end - text - 2);
	return out->len > 0;
}

/* One program of the first process of a command, as far as it tells what the command was.
 */
struct command_text {
	struct shfs_buf text;
	char shell[16]; /* that the text is for */
	struct shfs_buf cwd;
	int64_t begin_ns;
	int rank; /* 0: TEXT of -c; 1: another program; 2: none has arguments */
};

static void command_text_clear(struct command_text *t)
{
	shfs_buf_free(&t->text);
	shfs_buf_free(&t->cwd);
}

static int make_text(const struct words *w, const char *exe, const struct told *told,
                     struct shfs_buf *out, char shell[static 16])
{
	const char *name = base_name(w->list[0]);

	snprintf(shell, 16, "bash");
	if (told->text && told->alone && !is_python(name)) {
		snprintf(shell, 16, "%.15s",
		         shfs_program_is_shell(name) ? name : base_name(exe));
		if (!unwrap_text(told->text, out))
			shfs_buf_str(out, told->text);
	} else {
		shfs_quote_command(out, w->list);
	}
	return out->failed ? -ENOMEM : 0;
}

/* Takes a program, if it tells more than the one that was taken before. */
static int take_program(sqlite3_stmt *stmt, struct command_text *t)
{
	_cleanup_words_ struct words w = { 0 };
	const char *exe = (const char *)sqlite3_column_text(stmt, 0) ?: "";
	struct shfs_bytes argv = shfs_bytes_column(stmt, 1);
	struct told told;
	int rank, r = split_words(argv, &w);

	if (r)
		return r;
	read_told(&w, exe, &told);
	rank = !w.n ? 2 : told.text ? 0 : 1;
	if (rank >= t->rank)
		return 0;
	t->rank = rank;
	t->text.len = t->cwd.len = 0;
	shfs_buf_add(&t->cwd, sqlite3_column_text(stmt, 2),
	             sqlite3_column_bytes(stmt, 2));
	return make_text(&w, exe, &told, &t->text, t->shell);
}

/*
 * Reads what the command was whose first process is task_id: 1; 0: its arguments are not
 * known, or they are those of the process that forked it, parent_id, as it has executed
 * nothing of its own.
 */
static int read_command_text(struct shfs_index *index, int64_t task_id, int64_t parent_id,
                             struct command_text *t)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(
		index, &stmt,
		"SELECT (SELECT text FROM string_text_of WHERE string_id = p.exe_id),"
		" (SELECT text FROM string_text_of WHERE string_id = p.argv_id),"
		" (SELECT text FROM string_text_of WHERE string_id = p.cwd_id), "
		"p.first_ns"
		" FROM process p WHERE (p.process_id = ?1 OR p.task_id = ?1)"
		" AND NOT EXISTS (SELECT 1 FROM process o WHERE (o.process_id = ?2 OR"
		" o.task_id = ?2) AND o.exe_id = p.exe_id AND o.argv_id = p.argv_id)"
		" ORDER BY p.first_ns, p.process_id",
		shfs_arg_int(task_id), shfs_arg_int(parent_id));

	*t = (struct command_text){ .rank = 2, .begin_ns = INT64_MAX };
	for (; r > 0; r = shfs_sql_next(index, stmt)) {
		t->begin_ns = MIN(t->begin_ns, sqlite3_column_int64(stmt, 3));
		r = take_program(stmt, t);
		if (r)
			return r;
	}
	return r ? r : t->rank < 2 && t->text.len > 0;
}

/* --- sessions of invokers --- */

/* Appends "agent claude": what the process is that runs commands. kind: if its name tells
 * none. */
static int name_invoker(struct shfs_index *index, int64_t task_id, const char *kind,
                        struct shfs_buf *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	_cleanup_buf_ struct shfs_buf plain = { 0 };
	int r = shfs_sql_get(
		index, &stmt,
		"SELECT (SELECT text FROM string_text_of WHERE string_id = exe_id),"
		" (SELECT text FROM string_text_of WHERE string_id = argv_id)"
		" FROM process WHERE process_id = ?1 OR task_id = ?1"
		" ORDER BY first_ns DESC, process_id DESC",
		shfs_arg_int(task_id));

	for (; r > 0; r = shfs_sql_next(index, stmt)) {
		_cleanup_words_ struct words w = { 0 };
		const char *exe = (const char *)sqlite3_column_text(stmt, 0) ?: "";
		struct shfs_bytes argv = shfs_bytes_column(stmt, 1), name;
		const char *known;

		if (split_words(argv, &w))
			return -ENOMEM;
		known = kind_of_program(&w, exe, &name);
		if (known) {
			shfs_buf_printf(out, "%s %.*s", known, (int)name.len, name.data);
			return out->failed ? -ENOMEM : 0;
		}
		name = plain_name(&w, exe);
		if (!plain.len && name.len)
			shfs_buf_printf(&plain, "%s %.*s", kind, (int)name.len,
			                name.data);
	}
	shfs_buf_add(out, plain.data, plain.len);
	return r ? r : out->failed || plain.failed ? -ENOMEM : 0;
}

/* The program that runs commands, or the job that they are part of. */
struct invoker {
	struct shfs_buf name;
	uint32_t pid;         /* 0 for a job */
	uint64_t start_ticks; /* of a job: a hash of its name */
	int64_t task_id;      /* 0: it was not recorded */
	int64_t caller_id;    /* the command that submitted the job; 0 */
	int64_t origin_id;    /* of the command's first process; 0 */
};

/* Takes the first mark behind those that the parent has: "agent claude" of " job slurm 12
 * agent claude". */
static void take_mark(const char *marks, const char *above, struct shfs_buf *out)
{
	static const char *const kinds[] = { " job ", " agent " };
	size_t len = strlen(above);

	if (!strncmp(marks, above, len))
		marks += len;
	len = strlen(marks);
	for (size_t i = 0; i < ARRAY_SIZE(kinds) && len; i++) {
		const char *next = strstr(marks + 1, kinds[i]);

		len = next ? MIN(len, (size_t)(next - marks)) : len;
	}
	shfs_buf_add(out, marks + (len > 0), len ? len - 1 : 0);
}

static int text_of_string(struct shfs_index *index, int64_t string_id,
                          struct shfs_buf *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(index, &stmt,
	                     "SELECT text FROM string_text_of WHERE string_id = ?",
	                     shfs_arg_int(string_id));

	if (r > 0)
		shfs_buf_add(out, sqlite3_column_text(stmt, 0),
		             sqlite3_column_bytes(stmt, 0));
	shfs_buf_u8(out, 0);
	out->len -= !out->failed;
	return r < 0 ? r : out->failed ? -ENOMEM : 0;
}

/* Makes the public id of a session or a command of an invoker: no shell's has this `more`
 * behind it. */
static int make_id(struct shfs_index *index, int64_t boot_id, uint32_t pid,
                   uint64_t start_ticks, uint64_t more, char out[static 17])
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(index, &stmt,
	                     "SELECT host, boot FROM boot WHERE boot_id = ?",
	                     shfs_arg_int(boot_id));

	if (r <= 0)
		return r ? r : -EBADMSG;
	return shfs_public_id(shfs_bytes_column(stmt, 0), shfs_bytes_column(stmt, 1), pid,
	                      start_ticks, &more, 1, out);
}

static bool is_job(const struct invoker *invoker)
{
	return invoker->name.len && begins_with(invoker->name.data, "job ");
}

/* Makes the public id of the session of an invoker. sshd may run commands of several
 * origins, by one connection: each has a session of its own. */
static int make_session_id(struct shfs_index *index, const struct shfs_way_step *root,
                           const struct invoker *invoker, char out[static 17])
{
	_cleanup_buf_ struct shfs_buf origin = { 0 };
	int r = text_of_string(index, invoker->origin_id, &origin);

	return r ? r
	         : make_id(index, root->boot_id, invoker->pid, invoker->start_ticks,
	                   origin.len && !is_job(invoker)
	                           ? shfs_object_hash64(origin.data, origin.len)
	                           : 1,
	                   out);
}

/* Gets the session of an invoker, and makes it if there is none. */
static int get_session(struct shfs_index *index, const struct shfs_way_step *root,
                       const struct invoker *invoker, int64_t *out)
{
	char id[17];
	int r = make_session_id(index, root, invoker, id);

	if (!r)
		r = shfs_sql_int(index, out,
		                 "SELECT session_id FROM session WHERE id = ?",
		                 shfs_arg_text(shfs_bytes_str(id)));
	if (r)
		return MIN(r, 0);
	r = shfs_sql_run(
		index,
		"INSERT INTO session (id, boot_id, pid_namespace, pid, start_ticks,"
		" shell, tty, cwd, begin_ns, end_ns, invoker, task_id, caller_id,"
		" origin_id) VALUES (?, ?, ?, ?, ?, '', '', '', 0, 0, ?, ?, ?, ?)",
		shfs_arg_text(shfs_bytes_str(id)), shfs_arg_int(root->boot_id),
		shfs_arg_int((int64_t)root->pid_namespace), shfs_arg_int(invoker->pid),
		shfs_arg_int((int64_t)invoker->start_ticks),
		shfs_arg_text(
			(struct shfs_bytes){ invoker->name.data, invoker->name.len }),
		shfs_arg_id(invoker->task_id), shfs_arg_id(invoker->caller_id),
		shfs_arg_id(invoker->origin_id));
	*out = sqlite3_last_insert_rowid(index->db);
	return r;
}

/* --- commands of invokers --- */

static int find_command(struct shfs_index *index, int64_t task_id, struct shfs_owner *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(
		index, &stmt,
		"SELECT session_id, command_id FROM command WHERE task_id = ?",
		shfs_arg_int(task_id));

	if (r > 0)
		*out = (struct shfs_owner){ sqlite3_column_int64(stmt, 0),
			                    sqlite3_column_int64(stmt, 1) };
	return r;
}

static int insert_command(struct shfs_index *index, const struct shfs_way_step *root,
                          int64_t session_id, const struct command_text *t,
                          struct shfs_owner *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	char id[17];
	int r = make_id(index, root->boot_id, root->pid, root->start_ticks, 2, id);

	if (!r)
		r = shfs_sql_run(
			index,
			"INSERT INTO command (id, session_id, number, text, hidden,"
			" redacted, cwd, begin_ns, begin_boot_ns, begin_resolution_ns, "
			"begin_pid,"
			" shell, task_id) VALUES (?1, ?2, 0, ?3, 0,"
			" instr(?3, '" SHFS_REDACTED
			"') > 0, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
			" ON CONFLICT DO NOTHING",
			shfs_arg_text(shfs_bytes_str(id)), shfs_arg_int(session_id),
			shfs_arg_text((struct shfs_bytes){ t->text.data, t->text.len }),
			shfs_arg_text((struct shfs_bytes){ t->cwd.data, t->cwd.len }),
			shfs_arg_int(t->begin_ns),
			shfs_arg_int(shfs_ticks_ns(root->start_ticks)),
			shfs_arg_int(SHFS_TICK_NS), shfs_arg_int(root->pid),
			shfs_arg_text(shfs_bytes_str(t->shell)),
			shfs_arg_int(root->task_id));
	if (r)
		return r;
	/* one of a process with the same number, begun in the same tick, was there */
	r = shfs_sql_get(index, &stmt,
	                 "SELECT session_id, command_id FROM command WHERE id = ?",
	                 shfs_arg_text(shfs_bytes_str(id)));
	if (r > 0)
		*out = (struct shfs_owner){ sqlite3_column_int64(stmt, 0),
			                    sqlite3_column_int64(stmt, 1) };
	return MIN(r, 0);
}

/* --- which process of a way up is such a command --- */

/* Is the process no command, but a part of its parent, the invoker: forked, without a
 * program of its own, or the same program? */
static int is_part_of_invoker(struct shfs_index *index, const struct shfs_way_step *step,
                              const struct shfs_way_step *invoker)
{
	_cleanup_(command_text_clear) struct command_text t;
	_cleanup_buf_ struct shfs_buf mine = { 0 }, its = { 0 };
	int r = read_command_text(index, step->task_id, invoker->task_id, &t);

	if (r <= 0)
		return r ? r : 1;
	if (!(step->role & SHFS_ROLE_INVOKER) || step->role & SHFS_ROLE_TOLD)
		return 0;
	r = name_invoker(index, step->task_id, "", &mine);
	if (!r)
		r = name_invoker(index, invoker->task_id, "", &its);
	return r ? r : mine.len == its.len && !memcmp(mine.data, its.data, its.len);
}

static int is_agent(struct shfs_index *index, int64_t task_id)
{
	_cleanup_buf_ struct shfs_buf name = { 0 };
	int r = name_invoker(index, task_id, "", &name);

	return r ? r : name.len > 6 && !memcmp(name.data, "agent ", 6);
}

/* A shell that was told nothing is a part of an agent, which types into it. Below another
 * invoker a person types into it, without a hook. */
static bool is_bare_shell(const struct shfs_way_step *step)
{
	return (step->role & SHFS_ROLE_BARE_SHELL) &&
	       !(step->role & (SHFS_ROLE_TOLD | SHFS_ROLE_INVOKER));
}

/* Is the parent that is recorded the one that started the process? One whose parent has
 * ended is given to another one, whose session it is not in. */
static bool is_own_child(const struct shfs_way_step *step,
                         const struct shfs_way_step *parent)
{
	return step->sid == step->pid || (parent && step->sid == parent->sid);
}

/* Finds the nearest process that a known invoker has started: 1. */
static int pick_by_name(struct shfs_index *index, const struct shfs_way *way,
                        size_t *root)
{
	for (size_t i = 0; i + 1 < way->n; i++) {
		size_t invoker = i + 1;
		int r;

		while (invoker + 1 < way->n && is_bare_shell(&way->steps[invoker]))
			invoker++;
		if (!(way->steps[invoker].role & SHFS_ROLE_INVOKER) ||
		    !is_own_child(&way->steps[i], &way->steps[i + 1]))
			continue;
		r = invoker == i + 1 ? !is_bare_shell(&way->steps[i])
		                     : is_agent(index, way->steps[invoker].task_id);
		if (!r)
			continue;
		if (r > 0)
			r = is_part_of_invoker(index, &way->steps[i],
			                       &way->steps[invoker]);
		if (r < 0)
			return r;
		*root = i;
		if (!r)
			return 1;
	}
	return 0;
}

/* Finds the process whose environment says first that an agent or a job runs it: 1. */
static int pick_by_mark(struct shfs_index *index, const struct shfs_way *way,
                        size_t *root)
{
	_cleanup_buf_ struct shfs_buf marks = { 0 };
	size_t first = 0, last;
	int r;

	while (first < way->n && !way->steps[first].mark_id)
		first++;
	if (first == way->n)
		return 0;
	for (size_t i = last = first; i < way->n; i++)
		if (way->steps[i].mark_id == way->steps[first].mark_id)
			last = i;
	r = text_of_string(index, way->steps[first].mark_id, &marks);
	if (r)
		return r;
	if (begins_with(marks.data, " job ")) {
		*root = last; /* also one that was left by its parent: it is of the job */
		return last + 1 < way->n || !way->at_shell;
	}
	/* the one that was typed is the agent, with the mark of its own; so is a shell
	 * that an agent types into */
	if (last + 1 == way->n && way->at_shell) {
		if (!last--)
			return 0;
	}
	while (is_bare_shell(&way->steps[last]))
		if (!last--)
			return 0;
	if (!is_own_child(&way->steps[last],
	                  last + 1 < way->n ? &way->steps[last + 1] : NULL))
		return 0;
	if (last + 1 < way->n) {
		r = is_part_of_invoker(index, &way->steps[last], &way->steps[last + 1]);
		if (r)
			return MIN(r, 0);
	}
	*root = last;
	return 1;
}

/* Finds the outermost process that was told what to do by -c: 1. */
static int pick_told(const struct shfs_way *way, size_t *root)
{
	for (size_t i = way->n; i-- > 0;) {
		const struct shfs_way_step *step = &way->steps[i],
					   *parent = i + 1 < way->n ? step + 1 : NULL;

		if (step->role & SHFS_ROLE_TOLD && step->ppid &&
		    step->parent_start_ticks && is_own_child(step, parent)) {
			*root = i;
			return 1;
		}
	}
	return 0;
}

/* Finds the outermost process of the origin that the nearest one with an origin has: 1.
 */
static int pick_by_origin(const struct shfs_way *way, size_t *root)
{
	size_t first = 0;

	while (first < way->n && !way->steps[first].origin_id)
		first++;
	for (size_t i = first; i < way->n; i++)
		if (way->steps[i].origin_id == way->steps[first].origin_id)
			*root = i;
	return first < way->n;
}

/* Appends "remote hosta": nothing is known of what runs the commands but whence they
 * come.
 */
static int name_by_origin(struct shfs_index *index, int64_t origin_id,
                          struct shfs_buf *out)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	struct shfs_origin origin;
	int r = text_of_string(index, origin_id, &text);

	if (!r && !shfs_origin_parse((struct shfs_bytes){ text.data, text.len }, &origin))
		shfs_buf_printf(out, "remote %s", origin.host);
	return r ? r : out->failed ? -ENOMEM : 0;
}

static int describe_invoker(struct shfs_index *index, const struct shfs_way *way,
                            size_t root, struct invoker *out)
{
	_cleanup_buf_ struct shfs_buf marks = { 0 }, above = { 0 };
	const struct shfs_way_step *step = &way->steps[root],
				   *parent = root + 1 < way->n ? step + 1 : NULL;
	int r = text_of_string(index, step->mark_id, &marks);

	if (!r)
		r = text_of_string(index, parent ? parent->mark_id : 0, &above);
	if (r)
		return r;
	out->pid = step->ppid;
	out->start_ticks = step->parent_start_ticks;
	out->task_id = parent ? parent->task_id : 0;
	if (strcmp(marks.data, above.data) != 0 && marks.len)
		take_mark(marks.data, above.data, &out->name);
	out->origin_id = step->origin_id;
	if (is_job(out)) {
		out->pid = 0;
		out->start_ticks = shfs_object_hash64(out->name.data, out->name.len);
		out->task_id = step->task_id;
		return 0;
	}
	if (!parent)
		return out->name.len ? 0
		                     : name_by_origin(index, step->origin_id, &out->name);
	while (out->task_id && is_bare_shell(parent) &&
	       parent + 1 < way->steps + way->n) {
		parent++;
		out->pid = parent->pid;
		out->start_ticks = parent->start_ticks;
		out->task_id = parent->task_id;
	}
	/* an agent that has the mark itself, as where it was typed with AI_AGENT */
	if (!out->name.len && strstr(marks.data, " agent "))
		take_mark(strstr(marks.data, " agent "), "", &out->name);
	if (!out->name.len || parent->role & SHFS_ROLE_INVOKER) {
		out->name.len = 0;
		r = name_invoker(index, parent->task_id, marks.len ? "agent" : "program",
		                 &out->name);
	}
	return r ? r : out->name.failed ? -ENOMEM : 0;
}

int shfs_invoker_command(struct shfs_index *index, const struct shfs_way *way, bool told,
                         bool make, struct shfs_owner *out)
{
	_cleanup_(command_text_clear) struct command_text t = { 0 };
	struct invoker invoker = { 0 };
	size_t root = 0, by_mark = 0;
	int64_t session_id = 0;
	int r, marked;

	if (told) {
		r = pick_by_origin(way, &root) ?: pick_told(way, &root);
	} else {
		r = pick_by_name(index, way, &root);
		marked = r < 0 ? r : pick_by_mark(index, way, &by_mark);
		if (marked < 0)
			return marked;
		if (marked && (!r || by_mark < root))
			root = by_mark;
		r |= marked;
	}
	if (r <= 0)
		return r;
	r = find_command(index, way->steps[root].task_id, out);
	if (r || !make)
		return r;
	r = read_command_text(index, way->steps[root].task_id,
	                      root + 1 < way->n ? way->steps[root + 1].task_id : 0, &t);
	if (r <= 0)
		return r;
	r = describe_invoker(index, way, root, &invoker);
	if (!r && is_job(&invoker))
		r = shfs_marker_command(index, way->steps[root].task_id,
		                        &invoker.caller_id);
	if (!r)
		r = get_session(index, &way->steps[root], &invoker, &session_id);
	if (!r)
		r = insert_command(index, &way->steps[root], session_id, &t, out);
	shfs_buf_free(&invoker.name);
	return r ? r : 1;
}

int shfs_invoker_of_group(struct shfs_index *index, const struct shfs_way_step *step,
                          uint32_t pgid, struct shfs_owner *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(index, &stmt,
	                     "SELECT c.session_id, c.command_id FROM command c"
	                     " CROSS JOIN task t ON t.task_id = c.task_id"
	                     " WHERE c.begin_pid = ?1 AND c.task_id IS NOT NULL"
	                     " AND t.boot_id = ?2 AND t.pid_namespace = ?3 AND t.pgid = 0"
	                     " AND t.sid = ?4 AND t.start_ticks <= ?5"
	                     " ORDER BY t.start_ticks DESC LIMIT 1",
	                     shfs_arg_int(pgid), shfs_arg_int(step->boot_id),
	                     shfs_arg_int(shfs_namespace_column(step->pid_namespace)),
	                     shfs_arg_int(step->sid),
	                     shfs_arg_int((int64_t)step->start_ticks));

	if (r > 0)
		*out = (struct shfs_owner){ sqlite3_column_int64(stmt, 0),
			                    sqlite3_column_int64(stmt, 1) };
	return r;
}

int shfs_invoker_command_refresh(struct shfs_index *index, int64_t task_id)
{
	_cleanup_(command_text_clear) struct command_text t = { 0 };
	struct shfs_way_step parent = { 0 };
	int64_t command_id = 0;
	int r = shfs_sql_int(index, &command_id,
	                     "SELECT command_id FROM command WHERE task_id = ?",
	                     shfs_arg_int(task_id));

	if (r <= 0)
		return r;
	r = shfs_task_parent(index, task_id, &parent);
	if (r >= 0)
		r = read_command_text(index, task_id, parent.task_id, &t);
	if (r <= 0)
		return r;
	return shfs_sql_run(
		index,
		"UPDATE command SET text = ?1, shell = ?2, cwd = ?3, begin_ns = ?4,"
		" redacted = instr(?1, '" SHFS_REDACTED "') > 0 WHERE command_id = ?5",
		shfs_arg_text((struct shfs_bytes){ t.text.data, t.text.len }),
		shfs_arg_text(shfs_bytes_str(t.shell)),
		shfs_arg_text((struct shfs_bytes){ t.cwd.data, t.cwd.len }),
		shfs_arg_int(t.begin_ns), shfs_arg_int(command_id));
}

int shfs_invoker_command_drop(struct shfs_index *index, int64_t command_id)
{
	int64_t session_id = 0;
	int r = shfs_sql_int(index, &session_id,
	                     "DELETE FROM command WHERE command_id = ?1"
	                     " AND task_id IS NOT NULL AND NOT EXISTS"
	                     " (SELECT 1 FROM task t WHERE t.command_id = ?1)"
	                     " RETURNING session_id",
	                     shfs_arg_int(command_id));

	if (r <= 0)
		return r;
	return shfs_sql_run(
		index,
		"DELETE FROM session WHERE session_id = ?1 AND invoker <> ''"
		" AND NOT EXISTS (SELECT 1 FROM command WHERE session_id = ?1)",
		shfs_arg_int(session_id));
}
