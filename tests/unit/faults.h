/* SPDX-License-Identifier: MIT */
/*
 * faults.h - calls of libc, zstd and SQLite by shfs's libraries that fail, one by one. A
 * site is a stack of callers. The test is linked with --wrap for each call (meson.build).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct fault {
	const char *call;
	const void *from;
	unsigned long stack; /* a hash */
	unsigned nth;        /* time that this is called from there; 1 is the first */
	bool stays;          /* all that follow from the same place fail, too */
};

/* Once, before any thread: no sync waits for a disk from now on. */
void faults_init(void);

/* What is called from begin to end: the first time of each site, of what writes the last
 * one, too; and what fails for good. Valid until the next begin. */
void faults_count_begin(void);
const struct fault *faults_count_end(size_t *n);

/* From begin to end this fails; has it? */
void faults_begin(const struct fault *fault);
bool faults_end(void);

/* On stderr: where the last one failed, as addresses of this program. */
void faults_tell(void);
