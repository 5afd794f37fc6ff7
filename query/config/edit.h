/* SPDX-License-Identifier: MIT */
/*
 * edit.h - changes one key in the text of a configuration file. All other bytes stay:
 * comments, blanks, keys that are not known, lines that are wrong.
 *
 * The parser (common/config.h) is the judge: what comes out is read again, and must have
 * the values that were wanted, and the others as before.
 */
#pragma once

#include "common/buf.h"
#include "common/config.h"

enum config_change {
	CONFIG_SET,   /* the one value */
	CONFIG_ADD,   /* one more value, of a key that adds */
	CONFIG_UNSET, /* no value; of several the one that is named */
};

/*
 * Appends the changed text to out. value: NULL with CONFIG_UNSET: all of them.
 * -ENOENT: CONFIG_UNSET, and no such value stands there. -EEXIST: CONFIG_SET of a key
 * that adds, and several stand there. -EILSEQ: the value cannot stand in such a file (a
 * line break, a blank at an end, " ;", or too long); or a line that continues the removed
 * one would mean something else. -ENOMEM.
 */
_must_check_ int config_edit(const struct shfs_buf *text,
                             const struct shfs_config_key *key, enum config_change change,
                             const char *value, struct shfs_buf *out);
