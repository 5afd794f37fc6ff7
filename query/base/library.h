/* SPDX-License-Identifier: MIT */
/*
 * library.h - libraries that few commands need, loaded when they are needed first. They
 * bring many others (TLS, Kerberos, ICU), and each command would wait for them.
 *
 * A user of one lists its functions, F(name) for each, and has a struct of pointers
 * with the same names:
 *
 *   extern struct mhd { FUNCTIONS(SHFS_LIBRARY_MEMBER) } mhd;
 *   static const struct shfs_library_function functions[] = { FUNCTIONS(FUNCTION) };
 */
#pragma once

#include "common/buf.h"

#define SHFS_LIBRARY_MEMBER(name) __typeof__(name) *name;

struct shfs_library_function {
	const char *name;
	void **to;
};

/* Loads a library, for the rest of the process, and finds its functions; all pointers are
 * NULL otherwise. Before a sandbox is entered. Not thread-safe. *why then is a text of
 * the linker, which is valid until the next call. -ENOPKG. */
_must_check_ int shfs_library_load(const char *file,
                                   const struct shfs_library_function *functions,
                                   size_t n, const char **why);
