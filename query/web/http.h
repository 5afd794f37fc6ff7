/* SPDX-License-Identifier: MIT */
/*
 * http.h - libmicrohttpd, loaded when it is needed first: with it come the libraries of
 * TLS, which each start of shfs would pay for.
 */
#pragma once

#include <microhttpd.h>

#define SHFS_MHD_FUNCTIONS(X)                                                            \
	X(MHD_start_daemon)                                                              \
	X(MHD_stop_daemon)                                                               \
	X(MHD_get_fdset)                                                                 \
	X(MHD_get_timeout)                                                               \
	X(MHD_run_from_select)                                                           \
	X(MHD_queue_response)                                                            \
	X(MHD_create_response_from_buffer)                                               \
	X(MHD_add_response_header)                                                       \
	X(MHD_destroy_response)                                                          \
	X(MHD_lookup_connection_value)

struct shfs_mhd {
#define SHFS_MHD_POINTER(name) __typeof__(name) *name;
	SHFS_MHD_FUNCTIONS(SHFS_MHD_POINTER)
#undef SHFS_MHD_POINTER
};

extern struct shfs_mhd shfs_mhd;
