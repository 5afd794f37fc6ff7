/* SPDX-License-Identifier: MIT */
/*
 * older.c - the hook of bash as older versions have it, for test_hook_installs.py: all of
 * its places, and nothing in them. They call whoever was there before, also one that
 * calls them. It adds a dot to the file of its first argument for each command.
 */
#include <config.h>

#include <builtins.h>
#include <shell.h>

#include <arrayfunc.h>
#include <common.h>

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

struct input {
	int type;
	char *name;
	void *location;
	int (*getter)(void);
	int (*ungetter)(int);
};
extern struct input bash_input;
extern int (*rl_startup_hook)(void), (*rl_pre_input_hook)(void);
extern int current_command_number;

static char file[4096];
static int last_command, started;
static int (*getter)(void), (*ungetter)(int), (*startup)(void), (*pre_input)(void);

static int read_char(void)
{
	return getter();
}

static int unread_char(int c)
{
	return ungetter(c);
}

static void attach(void)
{
	if (bash_input.getter == read_char ||
	    (bash_input.type != 1 && bash_input.type != 2))
		return;
	getter = bash_input.getter;
	ungetter = bash_input.ungetter;
	bash_input.getter = read_char;
	bash_input.ungetter = unread_char;
}

static SHELL_VAR *value_of_prompt_command(SHELL_VAR *self)
{
	return self;
}

static int on_readline(void)
{
	if (!executing && started)
		attach();
	return startup ? startup() : 0;
}

static int on_prompt(void)
{
	char name[] = "PROMPT_COMMAND";
	SHELL_VAR *var = find_variable(name);

	if (!executing && started && var && !var->dynamic_value) {
		if (!array_p(var))
			var = convert_var_to_array(var);
		var->dynamic_value = value_of_prompt_command;
	}
	return pre_input ? pre_input() : 0;
}

static SHELL_VAR *value_of_pre(SHELL_VAR *self)
{
	int fd;

	if (executing || current_command_number == last_command || !started)
		return self;
	last_command = current_command_number;
	fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	(void)!write(fd, ".", 1);
	close(fd);
	attach();
	return self;
}

static SHELL_VAR *assign_pre(SHELL_VAR *self, char *value, arrayind_t index, char *key)
{
	return self;
}

int _shfs_hook_builtin(WORD_LIST *list)
{
	char none[] = "", word[] = "${SHFS_PRE-}";
	SHELL_VAR *pre = bind_global_variable("SHFS_PRE", none, 0);

	pre->dynamic_value = value_of_pre;
	pre->assign_func = assign_pre;
	if (!strstr(get_string_value("PS0") ?: "", word))
		bind_variable("PS0", word, ASS_APPEND);
	snprintf(file, sizeof(file), "%s/older", list->next->word->word);
	started = 1;
	return EXECUTION_SUCCESS;
}

int _shfs_hook_builtin_load(char *name)
{
	if (rl_startup_hook != on_readline) {
		startup = rl_startup_hook;
		rl_startup_hook = on_readline;
	}
	if (rl_pre_input_hook != on_prompt) {
		pre_input = rl_pre_input_hook;
		rl_pre_input_hook = on_prompt;
	}
	return 1;
}

void _shfs_hook_builtin_unload(char *name)
{
	started = 0;
}

static char doc[] = "";
static char *const long_doc[] = { doc, NULL };

struct builtin _shfs_hook_struct = {
	.name = (char[]){ "_shfs_hook" },
	.function = _shfs_hook_builtin,
	.flags = BUILTIN_ENABLED,
	.long_doc = long_doc,
	.short_doc = doc,
};
