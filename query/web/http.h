/* SPDX-License-Identifier: MIT */
/*
 * http.h - libmicrohttpd, loaded when it is needed first (query/base/library.h).
 */
#pragma once

#include "query/base/library.h"

#include <microhttpd.h>

#define SHFS_MHD_FUNCTIONS(X)                                                            \
	X(MHD_start_daemon)                                                              \
	X(MHD_stop_daemon)                                                               \
	X(MHD_get_fdset)                                                                 \
	X(MHD_get_timeout)                                                               \
	X(MHD_run)                                                                       \
	X(MHD_run_from_select)                                                           \
	X(MHD_suspend_connection)                                                        \
	X(MHD_resume_connection)                                                         \
	X(MHD_queue_response)                                                            \
	X(MHD_create_response_from_buffer)                                               \
	X(MHD_add_response_header)                                                       \
	X(MHD_destroy_response)                                                          \
	X(MHD_lookup_connection_value)

/* Its functions, by their own names. NULL before shfs_web_load. */
extern struct shfs_mhd {
	SHFS_MHD_FUNCTIONS(SHFS_LIBRARY_MEMBER)
} shfs_mhd;
