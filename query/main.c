/* SPDX-License-Identifier: MIT */
/* shfs, the command line: finds the command, reads its options, runs it. */
#include "query/base/context.h"
#include "query/base/model.h"
#include "query/history/version-spec.h"
#include "query/remote/demand/demand.h"
#include "query/table/table.h"
#include "query/team/ask.h"

#include "common/buf.h"
#include "common/debug.h"
#include "common/quote.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <locale.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>

#define OPTIONS_MAX  48
#define COMMANDS_MAX 48

/* In the order of the help. */
const struct shfs_command *const shfs_commands[] = {
	&shfs_cmd_mount,
	&shfs_cmd_umount,
	&shfs_cmd_enable,
	&shfs_cmd_disable,
	&shfs_cmd_init,
	&shfs_cmd_record,
	&shfs_cmd_run,
	&shfs_cmd_history,
	&shfs_cmd_search,
	&shfs_cmd_note,
	&shfs_cmd_show,
	&shfs_cmd_log,
	&shfs_cmd_why,
	&shfs_cmd_impact,
	&shfs_cmd_stale,
	&shfs_cmd_rerun,
	&shfs_cmd_compare,
	&shfs_cmd_stats,
	&shfs_cmd_map,
	&shfs_cmd_web,
	&shfs_cmd_export,
	&shfs_cmd_import,
	&shfs_cmd_remote,
	&shfs_cmd_push,
	&shfs_cmd_pull,
	&shfs_cmd_clone,
	&shfs_cmd_fetch,
	&shfs_cmd_publish,
	&shfs_cmd_browse,
	&shfs_cmd_cat,
	&shfs_cmd_diff,
	&shfs_cmd_restore,
	&shfs_cmd_undelete,
	&shfs_cmd_undo,
	&shfs_cmd_try,
	&shfs_cmd_status,
	&shfs_cmd_doctor,
	&shfs_cmd_config,
	&shfs_cmd_bugreport,
	&shfs_cmd_check,
	&shfs_cmd_repair,
	&shfs_cmd_prune,
	&shfs_cmd_gc,
	&shfs_cmd_forget,
	&shfs_cmd_reindex,
	&shfs_cmd_help,
	/* hidden */
	&shfs_cmd_ingest,
	&shfs_cmd_sync,
	&shfs_cmd_select,
	&shfs_cmd_serve,
	&shfs_cmd_complete,
	&shfs_cmd_prompt,
	NULL,
};

const struct shfs_option shfs_common_options[] = {
	{ "store", 0, "DIR", "use this store ($SHFS_STORE)" },
	{ "config", 0, "FILE", "use this configuration file" },
	{ "color", 0, "WHEN", "auto, always or never" },
	{ "no-pager", 0, NULL, "write to the terminal directly" },
	{ "debug", 0, "AREAS", "tell what is decided ($SHFS_DEBUG)" },
	{ "help", 'h', NULL, "explain the command" },
	{ "version", 'V', NULL, "print the version" },
	{ 0 },
};

const struct shfs_command *shfs_command_by_name(const char *name)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	const char *names[COMMANDS_MAX], *meant;
	size_t n = 0;

	for (const struct shfs_command *const *c = shfs_commands; *c; c++) {
		if (!strcmp((*c)->name, name))
			return *c;
		if (!(*c)->hidden)
			names[n++] = (*c)->name;
	}
	shfs_quote_display(&shown, name, strlen(name));
	shfs_error("no such command: %s", shown.data);
	meant = shfs_suggest(name, names, n);
	if (meant)
		shfs_hint("did you mean \"shfs %s\"?", meant);
	else
		shfs_hint("shfs help lists the commands");
	return NULL;
}

/* Sets the configuration file. A file that is named must exist; the default one need
 * not. */
static int config_option(struct shfs_context *ctx, const char *value)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	ctx->config_option = value;
	if (!access(value, R_OK))
		return 0;
	shfs_quote_display(&shown, value, strlen(value));
	shfs_error("%s: %s", shown.data, strerror(errno));
	return SHFS_EXIT_USAGE;
}

/* Chooses debug areas, also for processes that this one starts. */
static int choose_debug(const char *of, const char *areas)
{
	if (shfs_debug_choose(areas)) {
		shfs_error("%s is a list of areas, with commas", of);
		shfs_hint("areas: %s", shfs_debug_areas());
		return SHFS_EXIT_USAGE;
	}
	if (areas && setenv("SHFS_DEBUG", areas, true)) {
		shfs_no_memory();
		return SHFS_EXIT_FAILURE;
	}
	return 0;
}

static int common_option(struct shfs_context *ctx, const struct shfs_command *command,
                         const struct shfs_option *opt, const char *value)
{
	if (!strcmp(opt->name, "store"))
		ctx->store_option = value;
	else if (!strcmp(opt->name, "config"))
		return config_option(ctx, value);
	else if (!strcmp(opt->name, "no-pager"))
		ctx->no_pager = true;
	else if (!strcmp(opt->name, "debug"))
		return choose_debug("--debug", value);
	else if (strcmp(value, "auto") && strcmp(value, "always") &&
	         strcmp(value, "never")) {
		shfs_error("--color is auto, always or never");
		return SHFS_EXIT_USAGE;
	} else {
		ctx->color_option = value;
	}
	return 0;
}

/* Puts the value where the table says, or hands it to the command. */
static int own_option(const struct shfs_command *command, const struct shfs_option *opt,
                      const char *value)
{
	if (opt->count)
		return shfs_count_option(opt, value, opt->count);
	if (opt->time_ns)
		return shfs_time_option(opt, value, opt->time_ns);
	if (opt->flag)
		*opt->flag = true;
	else if (opt->text)
		*opt->text = value;
	else
		return command->option(opt, value);
	return 0;
}

/* The options of a command and the common ones, as getopt wants them. */
struct parser {
	const struct shfs_option *options[OPTIONS_MAX];
	struct option longs[OPTIONS_MAX + 1];
	char shorts[2 * OPTIONS_MAX + 4];
	size_t n, n_own; /* n_own: of the command; the common ones follow */
};

static void parser_add(struct parser *p, const struct shfs_option *options)
{
	for (; options->name && p->n < OPTIONS_MAX; options++) {
		p->options[p->n] = options;
		p->longs[p->n++] = (struct option){
			.name = options->name,
			.has_arg = !options->arg          ? no_argument
			           : *options->arg == '[' ? optional_argument
			                                  : required_argument,
		};
		if (options->letter) {
			char s[3] = { options->letter, options->arg ? ':' : 0 };

			strcat(p->shorts, s);
		}
	}
}

static void parser_init(struct parser *p, const struct shfs_command *command,
                        bool in_order)
{
	*p = (struct parser){ 0 };
	strcpy(p->shorts, in_order ? "+:" : ":");
	if (command)
		parser_add(p, command->options);
	p->n_own = p->n;
	parser_add(p, shfs_common_options);
}

static void unknown_option(const struct parser *p, const struct shfs_command *command,
                           const char *word)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	const char *names[OPTIONS_MAX], *meant = NULL;
	size_t len = strcspn(word, "=");

	shfs_quote_display(&shown, word, len);
	shfs_error("no such option: %s", shown.data);
	if (len > 2) {
		_cleanup_free_ char *name = strndup(word + 2, len - 2);

		for (size_t i = 0; i < p->n; i++)
			names[i] = p->options[i]->name;
		meant = name ? shfs_suggest(name, names, p->n) : NULL;
	}
	if (meant)
		shfs_hint("did you mean --%s?", meant);
	else
		shfs_hint("shfs help%s%s lists the options", command ? " " : "",
		          command ? command->name : "");
}

/* Does the name in word, up to a "=", begin the names of several options? */
static bool is_ambiguous(const struct parser *p, const char *word)
{
	size_t len = strcspn(word, "="), n = 0;

	for (size_t i = 0; i < p->n; i++) {
		if (strncmp(p->options[i]->name, word, len) != 0)
			continue;
		if (!p->options[i]->name[len])
			return false;
		n++;
	}
	return n > 1;
}

/* Reports what getopt rejected in a word that begins with "--". */
static void bad_long_option(const struct parser *p, const struct shfs_command *command,
                            const char *word)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	size_t len = strcspn(word, "=");

	shfs_quote_display(&shown, word, len);
	if (is_ambiguous(p, word + 2)) {
		shfs_buf_str(&shown, " is short for several options:");
		for (size_t i = 0; i < p->n; i++)
			if (!strncmp(p->options[i]->name, word + 2, len - 2))
				shfs_buf_printf(&shown, " --%s", p->options[i]->name);
		shfs_error("%s", shown.data);
		return;
	}
	for (size_t i = 0; i < p->n; i++) {
		if (word[len] && !strncmp(p->options[i]->name, word + 2, len - 2)) {
			shfs_error("option --%s takes no value", p->options[i]->name);
			return;
		}
	}
	unknown_option(p, command, word);
}

/* The table entry of the option that getopt found, or NULL after a message. */
static const struct shfs_option *parser_found(const struct parser *p,
                                              const struct shfs_command *command,
                                              int found, int index, char **argv)
{
	char letter[3] = { '-', (char)optopt };
	/* for a long option optopt is 0, and getopt has stepped past the word */
	const char *word = optopt ? letter : argv[optind - 1];

	if (!found)
		return p->options[index];
	for (size_t i = 0; i < p->n; i++)
		if (p->options[i]->letter == found)
			return p->options[i];
	if (found == ':')
		shfs_error("option %s wants a value", word);
	else if (optopt)
		unknown_option(p, command, word);
	else
		bad_long_option(p, command, word);
	return NULL;
}

static int show_help(struct shfs_context *ctx, const struct shfs_command *command)
{
	char *args[] = { command ? (char *)command->name : NULL, NULL };

	return shfs_cmd_help.run(ctx, command ? 1 : 0, args);
}

/*
 * Parses the options before the command (command NULL), or those of a command. Returns -1
 * to go on with the operands from optind, or an exit code.
 */
static int parse_options(struct shfs_context *ctx, const struct shfs_command *command,
                         bool in_order, int argc, char **argv)
{
	struct parser p;
	int found, index = 0, code;

	parser_init(&p, command, in_order);
	opterr = 0;
	optind = 0;
	for (;;) {
		const struct shfs_option *opt;

		optopt = 0;
		found = getopt_long(argc, argv, p.shorts, p.longs, &index);
		if (found < 0)
			return -1;
		opt = parser_found(&p, command, found, index, argv);
		if (!opt)
			return SHFS_EXIT_USAGE;
		if (opt >= shfs_common_options &&
		    opt < shfs_common_options + ARRAY_SIZE(shfs_common_options)) {
			if (!strcmp(opt->name, "help"))
				return show_help(ctx, command);
			if (!strcmp(opt->name, "version")) {
				puts("shfs " SHFS_VERSION);
				return SHFS_EXIT_OK;
			}
			code = common_option(ctx, command, opt, optarg);
		} else {
			code = own_option(command, opt, optarg);
		}
		if (code)
			return code;
	}
}

/* Is the word one of the command's verbs? Then it is taken. */
static bool take_verb(const struct shfs_command *command, const char *word)
{
	for (const char *const *verb = command->verbs; verb && *verb; verb++)
		if (!strcmp(*verb, word)) {
			*command->verb = *verb;
			return true;
		}
	return false;
}

/* As parse_options(), of a command line from its command on: *argc and *argv become the
 * operands. */
static int parse_command_options(struct shfs_context *ctx,
                                 const struct shfs_command *command, int *argc,
                                 char ***argv)
{
	/* first: else getopt moves a "--" behind the verb in front of it */
	bool has_verb = *argc > 1 && take_verb(command, (*argv)[1]);
	int code;

	*argc -= has_verb;
	*argv += has_verb;
	code = parse_options(ctx, command, command->rest && !has_verb, *argc, *argv);
	*argc -= optind;
	*argv += optind;
	if (code >= 0 || has_verb || !*argc || !strcmp((*argv)[-1], "--") ||
	    !take_verb(command, (*argv)[0]))
		return code;
	code = parse_options(ctx, command, false, *argc, *argv);
	*argc -= optind;
	*argv += optind;
	return code;
}

static bool is_spec_cut(int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (shfs_version_spec_is_cut(argv[i]))
			return true;
	return false;
}

static void hint_usage(const struct shfs_command *command)
{
	_cleanup_buf_ struct shfs_buf args = { 0 };

	shfs_show_signs(&args, command->args);
	shfs_hint("usage: shfs %s%s%s", command->name, args.len ? " " : "",
	          args.len ? args.data : "");
}

static int check_operands(const struct shfs_command *command, int argc, char **argv)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	if (argc < command->operands.min) {
		shfs_error("shfs %s wants %s", command->name,
		           argc ? "more arguments" : "an argument");
		hint_usage(command);
		return SHFS_EXIT_USAGE;
	}
	if (command->operands.max >= 0 && argc > command->operands.max) {
		const char *extra = argv[command->operands.max];

		shfs_quote_display(&shown, extra, strlen(extra));
		shfs_error("one argument too many: %s", shown.data);
		if (is_spec_cut(argc, argv))
			shfs_hint(SHFS_SPEC_QUOTED);
		hint_usage(command);
		return SHFS_EXIT_USAGE;
	}
	return 0;
}

static int run_on_store(struct shfs_context *ctx, const struct shfs_command *command,
                        int argc, char **argv)
{
	int code = SHFS_EXIT_OK;
	struct shfs_store *store = shfs_context_store(ctx, false, &code);

	return store ? command->run_on_store(ctx, store, argc, argv) : code;
}

static int run_on_index(struct shfs_context *ctx, const struct shfs_command *command,
                        int argc, char **argv)
{
	int r, code = SHFS_EXIT_OK;
	struct shfs_index *index = shfs_context_index(ctx, &code);

	if (!index)
		return code == SHFS_EXIT_FAILURE && command->trouble ? command->trouble
		                                                     : code;
	r = command->run_on_index(ctx, index, argc, argv);
	if (r == -EIO)
		return SHFS_EXIT_FAILURE; /* check_output says that the output failed */
	return r < 0 ? shfs_fail_index(index, r) : r;
}

static int run_command(struct shfs_context *ctx, const struct shfs_command *command,
                       int argc, char **argv)
{
	if (command->run_on_index)
		return run_on_index(ctx, command, argc, argv);
	if (command->run_on_store)
		return run_on_store(ctx, command, argc, argv);
	return command->run(ctx, argc, argv);
}

static int run_command_line(struct shfs_context *ctx, int argc, char **argv)
{
	const struct shfs_command *command;
	int code = parse_options(ctx, NULL, true, argc, argv);

	if (code >= 0)
		return code;
	argc -= optind;
	argv += optind;
	if (!argc) {
		_cleanup_buf_ struct shfs_buf help = { 0 };

		shfs_help_overview(&help);
		fputs(help.data ? help.data : "", stderr);
		return SHFS_EXIT_USAGE;
	}
	command = shfs_command_by_name(argv[0]);
	if (!command)
		return SHFS_EXIT_USAGE;
	code = parse_command_options(ctx, command, &argc, &argv);
	if (code >= 0)
		return code;
	code = check_operands(command, argc, argv);
	if (code)
		return code;
	code = shfs_output_columns ? shfs_table_check(command) : 0;
	if (code)
		return code;
	ctx->at_once = command->at_once;
	code = shfs_db_url ? team_ask(ctx, shfs_db_url) : 0;
	if (code)
		return code;
	if (command->on_demand)
		demand_begin(ctx);
	if (command->alone)
		shfs_context_alone(ctx);
	code = command->check ? command->check(ctx, argc) : 0;
	return code ? code : run_command(ctx, command, argc, argv);
}

/* Opens standard descriptors that are closed: else a file of shfs could get their
 * numbers. They are opened the wrong way round, so that reading and writing still
 * fail. */
static void open_standard_fds(void)
{
	static const int modes[] = { O_WRONLY, O_RDONLY, O_RDONLY };

	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) < 0)
			_exit(SHFS_EXIT_FAILURE);
}

/* Checks standard output. The errno of an earlier failed write is not known any more. */
static int check_output(int code)
{
	errno = 0;
	if (!fflush(stdout) && !ferror(stdout))
		return code;
	clearerr(stdout);
	if (code)
		return code;
	if (errno)
		shfs_error("cannot write the output: %s", strerror(errno));
	else
		shfs_error("cannot write the output");
	return SHFS_EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	struct shfs_context ctx;
	int code;

	shfs_context_begin(&ctx);
	shfs_context_one_question();
	open_standard_fds();
	signal(SIGXFSZ, SIG_IGN); /* an index beyond ulimit -f is an error, not the end */
	setlocale(LC_ALL, "");
	code = choose_debug("SHFS_DEBUG", NULL);
	if (!code)
		code = run_command_line(&ctx, argc, argv);
	code = check_output(code);
	demand_end();
	shfs_context_clear(&ctx);
	return code;
}
