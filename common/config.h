/* SPDX-License-Identifier: MIT */
/*
 * config.h - the settings of config.ini, and their defaults.
 *
 * Only the programs' main files read them, and pass the values on. docs/config.md and
 * shfs-config(5) list every key.
 */
#pragma once

#include "common/util.h"

#include <stdbool.h>
#include <stddef.h>

/* How a mount talks to the kernel. */
enum shfs_transport_kind {
	SHFS_TRANSPORT_AUTO,
	SHFS_TRANSPORT_DEV,
	SHFS_TRANSPORT_URING,
};

/* A mount shows this of the past. */
enum shfs_browse_kind {
	SHFS_BROWSE_OFF,
	SHFS_BROWSE_DIRECTORY, /* .shfs */
	SHFS_BROWSE_ON,        /* also NAME@{WHEN} */
};

/* When a store is pushed by itself. */
enum shfs_push_kind {
	SHFS_PUSH_OFF,
	SHFS_PUSH_DAILY,
	SHFS_PUSH_ON_IDLE, /* when nothing was recorded for a while */
};

struct shfs_config {
	uint64_t fingerprint_bytes; /* [archive] fingerprint: made of the whole of files
	                               up to this size; default 0 */
	uint64_t
		archive_max_bytes; /* [archive] max-size: written files; default 16 MiB */
	uint64_t read_max_bytes; /* [archive] max-read-size: read scripts, config; default
	                            1 MiB */
	uint64_t other_users_bytes; /* [archive] other-users: of each of them a day;
	                               default 1 GiB */
	uint32_t wait_ms; /* [archive] wait: longest wait of a change for a capture; 2000
	                   */
	uint32_t compression; /* [archive] compression: zstd level; default 3 */
	/* [archive] ignore, archive-read: patterns separated by newlines, as in
	 * .gitignore. They are added behind the built-in ones. Never NULL. */
	char *ignore;
	char *archive_read;
	bool private_keys;    /* [archive] private-keys: archive them; no */
	uint32_t known_files; /* [mount] known-files: most remembered; 250000 */
	enum shfs_transport_kind transport; /* [mount] transport: auto, dev, uring */
	bool passthrough;             /* [mount] passthrough: auto (if possible), off */
	enum shfs_browse_kind browse; /* [mount] browse: on, directory, off */
	uint64_t
		store_max_bytes; /* [store] max-size: older contents are pruned; 0: any */
	enum shfs_push_kind push; /* [remote] push: off, daily, on-idle */
	uint64_t demand_rate;     /* [remote] demand-rate: bytes per second; 0: any */
	char *pager;              /* [query] pager; NULL: unset */
	char *color;              /* [query] color: auto, always, never; never NULL */
	bool redact;              /* [secrets] redact: yes */
	bool software;            /* [record] software: yes */
	bool origin;              /* [hook] origin: yes */
	char *environment;  /* [record] environment: patterns of variables, behind the
	                       built-in ones; separated by newlines; never NULL */
	char *ignore_reads; /* [record] ignore-reads: programs, likewise; never NULL */
	char *secrets;      /* [secrets] patterns: separated by newlines; never NULL */
};

/* A recording that runs takes up a new value with one of these. */
enum shfs_config_reader {
	SHFS_CONFIG_COMMANDS, /* nothing: each command of shfs reads it */
	SHFS_CONFIG_MOUNTS,   /* a new mount */
	SHFS_CONFIG_SHELLS,   /* a new shell */
	SHFS_CONFIG_BOTH,
	SHFS_CONFIG_INGEST, /* the background ingest, at its next round */
};

/* The parser of a key's value. */
enum shfs_config_kind {
	SHFS_CONFIG_SIZE,     /* uint64_t; with a word for a value that is no size */
	SHFS_CONFIG_NUMBER,   /* uint32_t, within limits */
	SHFS_CONFIG_FLAG,     /* bool: the second of two words */
	SHFS_CONFIG_CHOICE,   /* an enum: its words in its order */
	SHFS_CONFIG_WORD,     /* char *: one of the words */
	SHFS_CONFIG_TEXT,     /* char * */
	SHFS_CONFIG_LINES,    /* char *: each value is a line */
	SHFS_CONFIG_NAMES,    /* likewise, of names */
	SHFS_CONFIG_PATTERNS, /* likewise, of patterns of secrets */
};

/* A key. The table makes the defaults, the parser, `shfs config` and completions. */
struct shfs_config_key {
	const char *section, *name;
	const char *values;  /* "SIZE", "no|yes": words, or in capitals what it is */
	const char *initial; /* the default; NULL: none */
	const char *summary; /* one line, no full stop */
	enum shfs_config_reader reader;
	enum shfs_config_kind kind;
	size_t offset; /* in struct shfs_config */
	/* A NUMBER lies between these; the word of a SIZE stands for most. */
	uint64_t least, most;
	const char *others; /* of NAMES: characters beside letters, digits and `_` */
};

/* Ends with a NULL name. */
extern const struct shfs_config_key shfs_config_keys[];

/* NULL: there is no such key. */
const struct shfs_config_key *shfs_config_find(const char *section, const char *name);

/* Does a key that is given again add one more value? */
static inline bool shfs_config_adds(const struct shfs_config_key *key)
{
	return key->kind >= SHFS_CONFIG_LINES;
}

/* Sets the value of a key, or adds one. -EINVAL: it is no value of this key. */
_must_check_ int shfs_config_set(struct shfs_config *cfg,
                                 const struct shfs_config_key *key, const char *value);

/* A value that stands in a configuration file. */
struct shfs_config_line {
	int line; /* from 1 */
	const char *section, *name, *value;
};

/* Calls each() for each value of a configuration file's text, known or not, in the order
 * of lines; malformed lines are passed over. What each() returns below 0 ends it, and is
 * returned. -ENOMEM. */
_must_check_ int
shfs_config_each(const char *text, size_t len,
                 int (*each)(void *arg, const struct shfs_config_line *line), void *arg);

/* Fills in the defaults. -ENOMEM. */
_must_check_ int shfs_config_init(struct shfs_config *cfg);
void shfs_config_free(struct shfs_config *cfg);

/*
 * Reads an INI file, which overrides the present values. A missing file is fine. Sizes
 * take K, M, G (powers of 1024). On an unknown key or a bad value: -EINVAL, and *message
 * is a malloc'ed line "FILE:LINE: what is wrong", safe to show (also for errors of
 * reading). cfg keeps the values read so far and stays usable.
 */
_must_check_ int shfs_config_read(struct shfs_config *cfg, const char *path,
                                  char **message);

/* Returns the size above which we assume that no content was archived: max-size may have
 * been higher before. */
static inline uint64_t shfs_config_archived_max(const struct shfs_config *cfg)
{
	return MAX(cfg->archive_max_bytes, 256ULL << 20);
}

/* Parses the name of a transport. -EINVAL. */
_must_check_ int shfs_config_parse_transport(const char *text,
                                             enum shfs_transport_kind *out);

/* Are the reads of a program (a path, or "") not recorded: by [record] ignore-reads, and
 * by shfs_program_scans? */
bool shfs_config_ignores_reads(const struct shfs_config *cfg, const char *exe);

/* Parses a size such as "16M": digits, then K, M, G, T or nothing. -EINVAL, -ERANGE. */
_must_check_ int shfs_config_parse_size(const char *text, uint64_t *bytes);

/*
 * Is the name in a list of the configuration: NAME, NAME* (all that begin so), and with
 * `!` in front those that are not meant, with blanks or newlines between them? The last
 * one that matches decides; otherwise: the answer if none does.
 */
bool shfs_config_list_has(const char *list, const char *name, size_t len, bool otherwise);
