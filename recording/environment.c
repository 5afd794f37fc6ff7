/* SPDX-License-Identifier: MIT */
#include "recording/environment.h"

#include "common/config.h"
#include "common/proc.h"
#include "store/journal/origin.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLES_MAX 512

static const char built_in[] =
	/* where programs and their parts are looked for */
	"PATH HOME LD_LIBRARY_PATH LD_PRELOAD MODULEPATH LOADEDMODULES PKG_CONFIG_PATH"
	" CMAKE_PREFIX_PATH CLASSPATH JAVA_HOME GOPATH GOROOT PERL5LIB PERL5OPT RUBYLIB"
	" RUBYOPT GEM_HOME GEM_PATH NODE_PATH NODE_OPTIONS R_HOME R_LIBS* R_PROFILE*"
	" R_ENVIRON* JULIA_PROJECT JULIA_LOAD_PATH JULIA_DEPOT_PATH PYTHONPATH PYTHONHOME"
	" PYTHONSTARTUP PYTHONUSERBASE PYTHONNOUSERSITE VIRTUAL_ENV CONDA_PREFIX"
	" CONDA_DEFAULT_ENV"
	/* language, time, chance */
	" LANG LANGUAGE LC_* TZ PYTHONHASHSEED PYTHONUTF8 PERL_HASH_SEED"
	" SOURCE_DATE_EPOCH POSIXLY_CORRECT BASH_ENV"
	/* how many threads, and on what */
	" OMP_* GOMP_* KMP_* MKL_* OPENBLAS_* BLIS_* NUMEXPR_* JULIA_NUM_THREADS CUDA_*"
	" ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES"
	/* compilers */
	" CC CXX FC F77 CFLAGS CXXFLAGS CPPFLAGS FFLAGS FCFLAGS LDFLAGS GOFLAGS"
	" RUSTFLAGS";

static int compare_variables(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* LC_SHFS says where a process comes from (docs/ssh.md), and changes nothing that it
 * does.
 */
static bool is_origin(const char *name, size_t len)
{
	return len == strlen(SHFS_ORIGIN_VARIABLE) &&
	       !memcmp(name, SHFS_ORIGIN_VARIABLE, len);
}

/* Lists the selected variables; each is ended by a NUL in text. */
static size_t list_variables(const struct shfs_buf *text, const char *patterns,
                             const char *list[static VARIABLES_MAX])
{
	size_t n = 0;

	for (const char *at = text->data, *end = at + text->len;
	     at < end && n < VARIABLES_MAX; at += strlen(at) + 1) {
		size_t len = strcspn(at, "=");

		if (len && at[len] && !is_origin(at, len) &&
		    shfs_config_list_has(patterns, at, len,
		                         shfs_config_list_has(built_in, at, len, false)))
			list[n++] = at;
	}
	return n;
}

int shfs_environment_select(struct shfs_bytes environ, const char *patterns,
                            struct shfs_buf *out)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	const char *list[VARIABLES_MAX];
	size_t n, begin = out->len;

	shfs_buf_add(&text, environ.data, environ.len);
	shfs_buf_u8(&text, 0);
	if (text.failed)
		return -ENOMEM;
	n = list_variables(&text, patterns, list);
	qsort(list, n, sizeof(*list), compare_variables);
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(list[i]);

		if (out->len - begin + len >= SHFS_ENVIRONMENT_MAX) {
			shfs_buf_add(out, list[i], strcspn(list[i], "=") + 1);
			shfs_buf_str(out, SHFS_ENVIRONMENT_CUT);
		} else {
			shfs_buf_add(out, list[i], len);
		}
		shfs_buf_u8(out, 0);
	}
	if (!n)
		shfs_buf_u8(out, 0);
	return out->failed ? -ENOMEM : 0;
}

/* Appends a value where it can be a name or a number: nothing else tells of it. */
static bool add_name(struct shfs_buf *out, const char *kind, struct shfs_bytes value)
{
	if (!value.len || value.len > 64)
		return false;
	for (size_t i = 0; i < value.len; i++)
		if (!isalnum((unsigned char)value.data[i]) &&
		    !strchr("._-[]", value.data[i]))
			return false;
	shfs_buf_printf(out, " %s %.*s", kind, (int)value.len, value.data);
	return true;
}

/* A job of a cluster: its number, and that of the task in an array of jobs. */
static void mark_job(struct shfs_bytes environ, struct shfs_buf *out)
{
	static const struct {
		const char *kind, *id, *array, *task;
		const char *with; /* id means something else without this one */
	} schedulers[] = {
		{ "job slurm", "SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID",
		  "SLURM_ARRAY_TASK_ID", NULL },
		{ "job pbs", "PBS_JOBID", NULL, NULL, NULL },
		{ "job lsf", "LSB_JOBID", NULL, "LSB_JOBINDEX", NULL },
		{ "job sge", "JOB_ID", NULL, "SGE_TASK_ID", "SGE_ROOT" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(schedulers); i++) {
		struct shfs_bytes id = shfs_environ_variable(environ, schedulers[i].id),
				  array, task = { NULL, 0 };

		if (!id.data ||
		    (schedulers[i].with &&
		     !shfs_environ_variable(environ, schedulers[i].with).data))
			continue;
		if (schedulers[i].task)
			task = shfs_environ_variable(environ, schedulers[i].task);
		if (schedulers[i].array) {
			array = shfs_environ_variable(environ, schedulers[i].array);
			id = array.data && task.data ? array : id;
		}
		if (!add_name(out, schedulers[i].kind, id))
			continue;
		if (task.len && task.len < 12 &&
		    strspn(task.data, "0123456789") == task.len && *task.data != '0')
			shfs_buf_printf(out, "_%.*s", (int)task.len, task.data);
		return;
	}
}

/* A coding agent says so in the environment of what it runs. AI_AGENT is for those that
 * are not in the list. */
static void mark_agent(struct shfs_bytes environ, struct shfs_buf *out)
{
	static const struct {
		const char *variable, *name;
	} agents[] = {
		{ "CLAUDECODE", "claude" },     { "CODEX_SANDBOX", "codex" },
		{ "CODEX_THREAD_ID", "codex" }, { "GEMINI_CLI", "gemini" },
		{ "OPENCODE", "opencode" },     { "CURSOR_AGENT", "cursor-agent" },
		{ "QWEN_CODE", "qwen" },        { "CLINE_ACTIVE", "cline" },
		{ "AUGMENT_AGENT", "auggie" },  { "GOOSE_TERMINAL", "goose" },
		{ "COPILOT_CLI", "copilot" },   { "AMP_CURRENT_THREAD_ID", "amp" },
	};
	struct shfs_bytes value = shfs_environ_variable(environ, "AI_AGENT");

	const char *at = value.len ? memchr(value.data, '@', value.len) : NULL;

	if (at) /* my-agent@1.2 */
		value.len = (size_t)(at - value.data);
	if (add_name(out, "agent", value))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(agents); i++)
		if (shfs_environ_variable(environ, agents[i].variable).len) {
			shfs_buf_printf(out, " agent %s", agents[i].name);
			return;
		}
}

void shfs_environment_marks(struct shfs_bytes environ, struct shfs_buf *out)
{
	mark_job(environ, out);
	mark_agent(environ, out);
}

int shfs_environment_read(int procfd, const char *patterns, struct shfs_buf *marker,
                          int *hidden, struct shfs_buf *selected)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	struct shfs_bytes environ;
	int r = shfs_proc_environ(procfd, &text);

	*hidden = SHFS_HIDDEN_UNSAID;
	if (r)
		return r;
	environ = (struct shfs_bytes){ text.data, text.len };
	*hidden = shfs_environ_hidden(environ);
	shfs_environ_marker(environ, marker);
	shfs_origin_add(environ, marker);
	shfs_environment_marks(environ, marker);
	return shfs_environment_select(environ, patterns, selected);
}
