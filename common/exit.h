/* SPDX-License-Identifier: MIT */
/* exit.h - exit codes of shfs and of the programs that record; documented in shfs(1). */
#pragma once

enum shfs_exit {
	SHFS_EXIT_OK = 0,
	SHFS_EXIT_FAILURE = 1,   /* something went wrong: input/output, memory, damage */
	SHFS_EXIT_USAGE = 2,     /* unknown command or option, bad argument */
	SHFS_EXIT_NOT_FOUND = 3, /* no such file, version or command in the journal */
	SHFS_EXIT_REFUSED = 4, /* something would be lost, or is busy: see the message */
	SHFS_EXIT_UNAVAILABLE = 5, /* this machine lacks a feature: see shfs doctor */
	SHFS_EXIT_NO_STORE = 6,    /* there is no store yet, or it cannot be used */
};
