/* SPDX-License-Identifier: MIT */
/* libs.h - libcurl and expat, loaded when a bucket is opened first
 * (query/base/library.h).
 */
#pragma once

#include "query/base/library.h"

#define CURL_DISABLE_TYPECHECK /* it would replace calls by a member's name */
#include <curl/curl.h>
#include <expat.h>

#define S3_CURL_FUNCTIONS(F)                                                             \
	F(curl_easy_cleanup)                                                             \
	F(curl_easy_escape)                                                              \
	F(curl_easy_getinfo)                                                             \
	F(curl_easy_init)                                                                \
	F(curl_easy_reset)                                                               \
	F(curl_easy_setopt)                                                              \
	F(curl_easy_perform)                                                             \
	F(curl_easy_strerror)                                                            \
	F(curl_free)                                                                     \
	F(curl_global_init)                                                              \
	F(curl_slist_append)                                                             \
	F(curl_slist_free_all)

#define S3_EXPAT_FUNCTIONS(F)                                                            \
	F(XML_ParserCreate)                                                              \
	F(XML_ParserFree)                                                                \
	F(XML_Parse)                                                                     \
	F(XML_SetCharacterDataHandler)                                                   \
	F(XML_SetElementHandler)                                                         \
	F(XML_SetStartDoctypeDeclHandler)                                                \
	F(XML_SetUserData)                                                               \
	F(XML_StopParser)

/* Their functions, by their own names. NULL before s3_libs_load. */
extern struct s3_libs {
	S3_CURL_FUNCTIONS(SHFS_LIBRARY_MEMBER)
	S3_EXPAT_FUNCTIONS(SHFS_LIBRARY_MEMBER)
} s3_libs;

/* Loads them, for the rest of the process. Before a sandbox is entered. Not thread-safe.
 * -ENOPKG: why names the package of Debian. */
_must_check_ int s3_libs_load(struct shfs_buf *why);
