/* SPDX-License-Identifier: MIT */
/*
 * hooklog.h - reads hook logs: one file a session, written by bash, zsh or fish with
 * nothing but builtins (or by the loadable builtin of shfs), hence text.
 *
 *     <hook dir>/shell-<boot>-<pid>-<start_ticks>.log      0600; <boot>: first 8 hex
 * digits
 *
 * A record is RS (0x1e), then fields that each end in NUL, then LF. The first field is
 * the tag, the second and the last are the record's sequence number (1, 2, ... in the
 * file). A half-written record has too few fields, or its two numbers differ: then the
 * reader looks for the next RS + tag.
 *
 *   S1 seq pid start_ticks boot_id pidns real boot host shell tty cwd seq
 *   B1 seq number real boot lastpid hidden cwd text seq
 *   B2: a B1 whose text is redacted (common/redact.h)
 *   F1 seq number real boot lastpid status seq
 *   F2 seq number real boot lastpid status user system maxrss seq
 *   D1 seq kind kept name body seq       an alias or a function (common/record.h)
 *   U1 seq number more list seq          what the command uses: numbers of D1 records
 *   O1 seq value seq                     in which command of maybe another host the
 *                                        session began (store/journal/origin.h)
 *   X1, and blanks: a record that was forgotten (store/care/forget.h)
 *
 * real is seconds since 1970 with decimals as $EPOCHREALTIME has them ('.' or ',' as the
 * locale writes). boot is seconds since boot: two decimals from /proc/uptime (resolution
 * 10 ms) or nine from CLOCK_BOOTTIME. pidns, lastpid: 0 if unknown. hidden is 0 or 1. A
 * shell that is replaced (exec bash) or sources its rc again appends a further S1;
 * record numbers may then start again at 1.
 */
#pragma once

#include "common/record.h"

#include <stdbool.h>

struct shfs_hooklog;

/* Opens a hook log from offset (0, or one that shfs_hooklog_offset returned). */
_must_check_ int shfs_hooklog_open(int dirfd, const char *name, uint64_t offset,
                                   struct shfs_hooklog **out);
_must_check_ int shfs_hooklog_from_memory(const void *data, size_t len,
                                          struct shfs_hooklog **out);
void shfs_hooklog_close(struct shfs_hooklog *log);

/* Returns 1 and *rec (strings valid until the next call; type SESSION, BEGIN, FINISH,
 * DEFINITION, USES or ORIGIN), or 0 behind the last whole record. */
_must_check_ int shfs_hooklog_next(struct shfs_hooklog *log, struct shfs_record *rec);
/* Takes the next number from the list of USES: the seq of a DEFINITION, of several the
 * last one before in the file. False: that was all. */
bool shfs_hooklog_next_use(struct shfs_bytes *list, uint64_t *seq);
uint64_t shfs_hooklog_offset(const struct shfs_hooklog *log);
/* Returns where the record that was read last begins; it ends at shfs_hooklog_offset. */
uint64_t shfs_hooklog_begin(const struct shfs_hooklog *log);
uint64_t shfs_hooklog_damaged(const struct shfs_hooklog *log); /* bytes skipped */

/* Returns the number of bytes behind the last record, once all records were read.
 * *damaged: these bytes are not a record that is still being written. */
uint64_t shfs_hooklog_tail(const struct shfs_hooklog *log, bool *damaged);

/* Makes a blank of a record of len bytes (at least 5): readers skip it. */
void shfs_hooklog_blank(char *record, size_t len);
bool shfs_hooklog_is_blank(const char *record, size_t len);
