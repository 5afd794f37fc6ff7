/* SPDX-License-Identifier: MIT */
/*
 * hook.h - what the compiled hooks have in common: the session, its log, the marker, the
 * alert and the mount. shfs-bash.c and shfs-zsh.c are each linked with hook.c.
 *
 * A prompt waits for this, in a shell whose caches have gone cold: what is touched here,
 * code or kernel, costs ten times what it costs in a loop. So nothing is asked twice,
 * what can wait is done when the prompt is there (hook_at_prompt), and printf is not
 * called.
 *
 * It shares no code with the rest but common/redact.c: a shell is not the place for more.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The shell's own names are in the same space. */
#pragma GCC visibility push(hidden)

/* --- the shell gives these --- */

extern const char shell_kind[];

/* The value of a variable, or NULL. Borrowed until the shell runs something. */
const char *shell_get(const char *name);
/* Nothing happens where it is read-only. */
void shell_export(const char *name, const char *value);
/* SHFS_COMMAND, with every command and every prompt. */
void shell_mark(const char *number);
/* Is a line being executed that was typed? */
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

/* args: DIR ALERT HOST BOOT PIDNS TTY SECRETS. Again: a new log only if DIR is another
 * one. SECRETS: patterns, as of redact.h. Goes on with the command that runs, where the
 * hook of another install has begun it. */
#define HOOK_START_ARGS 7
bool hook_start(const char *const *args);
/* Nothing is recorded until the next start, and nothing held. */
void hook_stop(void);

/* Is this the shell that was started, and not a subshell? */
bool hook_is_ours(void);
/* By SHFS_DISABLE. */
bool hook_is_disabled(void);
/* Has the last command its begin and no end yet? */
bool hook_is_running(void);

/* A command begins, with B1; B2 if secrets were taken out of text, which is not written
 * if hidden. */
void hook_begin(const char *text, bool hidden);
/* It is none that is recorded. */
void hook_forget(void);
/* It has ended, with F1. */
void hook_end(int status);
/* Before the prompt, and not if disabled. */
void hook_show_alert(void);
/* When the prompt has been shown, and nobody waits: looks after what is held. Without it,
 * all else takes longer. */
void hook_at_prompt(void);

#pragma GCC visibility pop
