/* SPDX-License-Identifier: MIT */
/*
 * hook.h - the common part of the compiled hooks: the session, its log, the marker, the
 * alert and the mount. shfs-bash.c and shfs-zsh.c are each linked with hook.c.
 *
 * A prompt waits for this code, in a shell whose caches have gone cold: code and system
 * calls take ten times as long as in a loop. So nothing is asked twice, what can wait is
 * done when the prompt has been shown (hook_at_prompt), and printf is not called.
 *
 * It shares only common/redact.c with the rest of shfs: a shell is not the place for
 * more.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* hidden: the names of the shell are in the same space */
#pragma GCC visibility push(hidden)

/* --- implemented for each shell --- */

extern const char shell_kind[];

/* The value of a variable, or NULL. Borrowed until the shell runs something. */
const char *shell_get(const char *name);
/* Exports a variable; does nothing if it is read-only. */
void shell_export(const char *name, const char *value);
/* Sets SHFS_COMMAND or LC_SHFS, at each command and each prompt; to at most
 * SHELL_MARK_MAX bytes. */
enum shell_mark { MARK_COMMAND, MARK_ORIGIN };
#define SHELL_MARK_MAX 160
void shell_mark(enum shell_mark mark, const char *value);
/* Is a typed line being executed? */
bool shell_is_executing(void);

/* --- text --- */

struct text {
	char *data;
	size_t len, cap;
	bool failed;
};

void text_add(struct text *t, const char *data, size_t len);
void text_clear(struct text *t);

/* --- the session --- */

/* args: DIR ALERT HOST BOOT PIDNS TTY PROGRAM STORE PROJECTS SECRETS ORIGIN. Starts the
 * hook; when called again, only another DIR begins a new log. PROJECTS: directories, one
 * in each line, of which PROGRAM is told when the shell enters them. SECRETS: patterns,
 * as in redact.h. ORIGIN: empty: LC_SHFS does not name commands. Goes on with the running
 * command if the hook of another install has begun it. */
#define HOOK_START_ARGS 11
#define HOOK_START_WORDS                                                                 \
	"DIR ALERT HOST BOOT PIDNS TTY PROGRAM STORE PROJECTS SECRETS ORIGIN"
bool hook_start(const char *const *args);
/* Stops recording until the next start, and closes the held files. */
void hook_stop(void);

/* Is this the shell that was started, not a subshell? */
bool hook_is_ours(void);
/* Is it disabled by SHFS_DISABLE? */
bool hook_is_disabled(void);
/* Does the last command have a begin and no end yet? */
bool hook_is_running(void);

/* Finds the aliases and functions that the line uses; hook_begin of it follows. */
void hook_find_uses(const char *line);
/* Begins a command, with B1; with B2 if text had secrets. If hidden the text is not
 * written. */
void hook_begin(const char *text, bool hidden);
/* The command is not recorded. */
void hook_forget(void);
/* Ends the command, with F2. */
void hook_end(int status);
/* Shows the alert, before the prompt, and runs `shfs prompt` where the shell has entered
 * one of the projects; not if disabled. */
void hook_show_alert(void);
/* Checks the held files, when the prompt has been shown and nobody waits. Without this
 * call the other functions take longer. */
void hook_at_prompt(void);

#pragma GCC visibility pop
