/* SPDX-License-Identifier: MIT */
/*
 * time.h - points in time as people write and read them, in the local time zone.
 *
 *     now, today, yesterday           the last two: as the day began
 *     friday, last friday             the latest Friday before today, as it began
 *     2 hours ago, 3d, 1h 30min       s, min (m), h, d, w, month, y; days and longer by
 *                                     the calendar; "last week", "a week ago"
 *     2026-11-21, 2026-11-21 18:04    also 18:04:05, .5, "T" for the blank, and behind
 *     yesterday 14:00, 14:00          it a zone: Z, +02:00
 *     @1795284245.5                   seconds since 1970
 */
#pragma once

#include "common/buf.h"

/* 0, or -EINVAL. */
_must_check_ int shfs_time_parse(const char *text, int64_t *ns);

/* The same, with another now. */
_must_check_ int shfs_time_parse_at(const char *text, int64_t now_ns, int64_t *ns);

/* 2026-11-21 18:04:05 */
void shfs_time_show(struct shfs_buf *out, int64_t ns);

/* 2 hours ago */
void shfs_time_show_relative(struct shfs_buf *out, int64_t ns);
void shfs_time_show_relative_at(struct shfs_buf *out, int64_t ns, int64_t now_ns);

/* 0.04 s, 12 s, 3 min 20 s, 2 h 05 min, 3 d 4 h */
void shfs_time_show_duration(struct shfs_buf *out, int64_t ns);

/* 2026-11-21T17:04:05.123456789Z, for programs: RFC 3339, in UTC */
void shfs_time_show_utc(struct shfs_buf *out, int64_t ns);

/* How long to wait before a try, in ms: usual, or in the developer build what the
 * variable says, as tests do not want to wait. */
unsigned shfs_wait_ms(const char *variable, unsigned usual);
