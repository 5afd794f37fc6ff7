/* SPDX-License-Identifier: MIT */
/*
 * definitions.h - what the text of a command used of its shell: aliases, functions and
 * options, as its hook noted them (docs/shellhook.md). Only with these does the text mean
 * the same elsewhere.
 */
#pragma once

#include "common/buf.h"
#include "query/base/json.h"

struct shfs_command_row;
struct shfs_index;

struct shfs_definition {
	char kind; /* enum shfs_definition_kind, or one that is not known here */
	uint32_t kept;
	const char *name, *body; /* in packed */
	size_t body_len;
	char *packed;
};

struct shfs_definitions {
	struct shfs_definition *list;
	size_t n;
	bool more; /* the command used further ones, which are not known */
};

/* Loads the definitions of a command. */
_must_check_ int shfs_definitions_load(struct shfs_index *index, int64_t command_id,
                                       struct shfs_definitions *out);
void shfs_definitions_clear(struct shfs_definitions *definitions);
#define _cleanup_definitions_ _cleanup_(shfs_definitions_clear)

/* Is the word defined by one of them? */
bool shfs_definitions_has(const struct shfs_definitions *definitions, const char *word,
                          size_t len);

/* Do the definitions not suffice to run the text? Adds why, to follow "it". */
bool shfs_definitions_lack(const struct shfs_definitions *definitions, const char *text,
                           struct shfs_buf *why);

/* A command to run again. */
struct shfs_command_script {
	char *shell; /* "bash", "zsh", "fish" */
	struct shfs_definitions definitions;
	struct shfs_buf text; /* defines these, and then does what the command did */
};

_must_check_ int shfs_command_script_load(struct shfs_index *index,
                                          const struct shfs_command_row *command,
                                          struct shfs_command_script *out);
void shfs_command_script_clear(struct shfs_command_script *script);

/* Adds a definition as the shell would show it: alias ll='ls -l'. Lines end in LF, and
 * nothing else in it needs escapes. */
void shfs_definition_show(struct shfs_buf *out, const struct shfs_definition *definition);

/* Adds the member "definitions": see docs/json.md. */
void shfs_definitions_json(struct shfs_json *json,
                           const struct shfs_definitions *definitions);
