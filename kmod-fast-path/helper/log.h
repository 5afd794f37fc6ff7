/* SPDX-License-Identifier: MIT */
/*
 * log.h - lines on standard error, which go to root's log. Each user can cause only some
 * lines a minute there; further lines are counted.
 */
#pragma once

#include "common/util.h"

#include <stdbool.h>
#include <sys/types.h>

#define SHFS_HELPER_LOG_MAX 60 /* lines about one user in a period of */
#define SHFS_HELPER_LOG_MS  60000

void shfs_helper_log(const char *fmt, ...) _printf_(1, 2);

/* From now on, processes that are forked count their lines about users together with this
 * one. Without this call nothing is counted. */
void shfs_helper_log_share(void);

/* Logs a line that a user has caused, unless there are too many. */
void shfs_helper_log_of(uid_t uid, const char *fmt, ...) _printf_(2, 3);

/* Logs how many lines were left out in periods that are over, or (all) until now. true:
 * there are more to be logged. */
bool shfs_helper_log_left_out(bool all);
