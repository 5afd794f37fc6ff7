/* SPDX-License-Identifier: MIT */
/* Whether a program has computed what it wrote; copies and what a person typed are no
 * results. */
#include "query/graph/stale-internal.h"

#include "common/program.h"
#include "query/history/shell-text.h"

#include <string.h>

static void classify(struct program *program)
{
	static const char *const notebooks[] = { "jupyter*", "rstudio*", "rsession*" };
	static const char *const interpreters[] = { "python*", "pypy*",   "R",
		                                    "julia*",  "octave*", "ghci*",
		                                    "ipython*" };
	const char *name = basename(program->exe);
	size_t len = strlen(name);

	program->classified = true;
	program->interactive =
		shfs_program_is_editor(name, len) ||
		shfs_program_keeps_contents(name, len) ||
		shfs_program_is_one_of(name, len, notebooks, ARRAY_SIZE(notebooks));
	program->interpreter =
		shfs_program_is_one_of(name, len, interpreters, ARRAY_SIZE(interpreters));
}

/* Did a person work in it? An interpreter without a script or input counts, too. */
static bool is_interactive_program(const struct program *program, const char *argv,
                                   size_t len, const struct shfs_command_row *c)
{
	bool alone = strnlen(argv, len) + 1 >= len;

	if (program->interpreter)
		return (alone && !strpbrk(c->text, "<|")) ||
		       memmem(argv, len, "ipykernel", strlen("ipykernel"));
	return !memmem(argv, len, "-batch", strlen("-batch"));
}

static int look_for_copier(const struct shfs_word *word, void *arg)
{
	struct shfs_bytes name = shfs_word_base(word->text, word->len);

	return shfs_program_is_copier(name.data, name.len);
}

/* Is the parent of the process the shell that the command was typed into? */
static int is_of_shell(struct shfs_index *index, int64_t process_id)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(
		index,
		"SELECT 1 FROM v_process p JOIN v_session s USING (session_id)"
		" WHERE p.process_id = ?1 AND p.ppid = s.pid",
		SHFS_INTS(process_id), &rows);

	return r ? r : shfs_rows_next(rows);
}

static bool may_copy(const char *exe)
{
	static const char *const many[] = { "busybox*", "toybox*", "coreutils" };
	const char *name = basename(exe);
	size_t len = strlen(name);

	return shfs_program_is_copier(name, len) ||
	       shfs_program_is_one_of(name, len, many, ARRAY_SIZE(many));
}

int shfs_stale_is_copy(struct shfs_index *index, int64_t process_id,
                       const struct shfs_command_row *command)
{
	_cleanup_process_ struct shfs_process_row process = { 0 };
	const char *name;
	int r = process_id ? shfs_process_load(index, process_id, &process) : 0;

	if (r <= 0 || !may_copy(process.exe))
		return MIN(r, 0);
	name = basename(process.exe);
	if (!shfs_program_is_copier(name, strlen(name))) /* busybox, run as cp */
		name = basename(process.argv ?: "");
	if (!shfs_program_is_copier(name, strlen(name)) &&
	    strlen(process.argv ?: "") + 1 < process.argv_len) /* or as "busybox cp" */
		name = process.argv + strlen(process.argv) + 1;
	if (!shfs_program_is_copier(name, strlen(name)))
		return 0;
	return command->text && shfs_text_words(command->text, look_for_copier, NULL)
	               ? 1
	               : is_of_shell(index, process_id);
}

static int judge_process(struct shfs_stale *s, int64_t process_id,
                         const struct shfs_command_row *command)
{
	_cleanup_buf_ struct shfs_buf argv = { 0 };
	struct program *program;
	int r = shfs_graph_program(s->graph, process_id, &program);

	if (r > 0 && may_copy(program->exe)) {
		r = shfs_stale_is_copy(s->graph->index, process_id, command);
		r = r < 0 ? r : !r;
	}
	if (r <= 0)
		return r;
	if (!program->classified)
		classify(program);
	if (!program->interactive && !program->interpreter)
		return 1;
	r = shfs_facts_argv(s->graph->facts, process_id, &argv);
	return r > 0 ? !is_interactive_program(program, argv.data, argv.len, command) : r;
}

/* It keeps the last answer: many files in a row are of one process. */
int shfs_stale_is_computed(struct shfs_stale *s, int64_t process_id,
                           const struct shfs_command_row *command)
{
	int r = process_id == s->judged ? s->computes
	                                : judge_process(s, process_id, command);

	if (r >= 0) {
		s->judged = process_id;
		s->computes = r;
	}
	return r;
}
