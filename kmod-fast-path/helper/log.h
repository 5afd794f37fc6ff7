/* SPDX-License-Identifier: MIT */
/*
 * log.h - lines on standard error, which is root's log. What users do there costs
 * root no more than some lines a minute each; the rest is counted.
 */
#pragma once

#include "common/util.h"

#include <stdbool.h>
#include <sys/types.h>

#define SHFS_HELPER_LOG_MAX 60 /* lines about one user in a time of */
#define SHFS_HELPER_LOG_MS  60000

void shfs_helper_log(const char *fmt, ...) _printf_(1, 2);

/* What processes that are forked from now on log of users counts with ours. Without it,
 * nothing is counted. */
void shfs_helper_log_share(void);

/* A line that a user has caused, unless there are too many. */
void shfs_helper_log_of(uid_t uid, const char *fmt, ...) _printf_(2, 3);

/* Tells how many lines were left out in times that are over, or (all) until now. true:
 * there are more to be told. */
bool shfs_helper_log_left_out(bool all);
