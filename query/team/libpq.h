/* SPDX-License-Identifier: MIT */
/* libpq.h - libpq, loaded when a database is opened first (query/base/library.h). */
#pragma once

#include "query/base/library.h"

#include <libpq-fe.h>

#define LIBPQ_FUNCTIONS(F)                                                               \
	F(PQclear)                                                                       \
	F(PQconnectdbParams)                                                             \
	F(PQconninfoFree)                                                                \
	F(PQconninfoParse)                                                               \
	F(PQerrorMessage)                                                                \
	F(PQexec)                                                                        \
	F(PQexecParams)                                                                  \
	F(PQfinish)                                                                      \
	F(PQfreemem)                                                                     \
	F(PQgetCopyData)                                                                 \
	F(PQgetResult)                                                                   \
	F(PQgetisnull)                                                                   \
	F(PQgetvalue)                                                                    \
	F(PQnfields)                                                                     \
	F(PQntuples)                                                                     \
	F(PQparameterStatus)                                                             \
	F(PQputCopyData)                                                                 \
	F(PQputCopyEnd)                                                                  \
	F(PQresultStatus)                                                                \
	F(PQsetNoticeReceiver)                                                           \
	F(PQstatus)

/* Its functions, by their own names. NULL before libpq_load. */
extern struct libpq {
	LIBPQ_FUNCTIONS(SHFS_LIBRARY_MEMBER)
} libpq;

/* Loads it, for the rest of the process. Before a sandbox is entered. Not thread-safe. An
 * exit code, after a message. */
_must_check_ int libpq_load(void);
