/* SPDX-License-Identifier: MIT */
/*
 * http.h - requests to an object store: signed (AWS Signature Version 4, by libcurl), and
 * sent again if what failed may pass.
 */
#pragma once

#include "query/remote/s3/answers.h"
#include "query/remote/s3/settings.h"

struct s3_http; /* one connection, which is kept */

struct s3_request {
	const char *method;
	const char *name;  /* below the bucket; of letters that a URL need not encode */
	const char *query; /* encoded, in byte order of the keys; or NULL */
	const void *data;  /* of a PUT */
	size_t len;
	const char *range;    /* "0-99" or NULL */
	bool if_absent;       /* a PUT that must not replace anything */
	size_t max_bytes;     /* of the answer */
	struct shfs_buf *out; /* gets the body, if all went well; or NULL */
};

struct s3_reply {
	long status;           /* of HTTP; 0: there was no answer */
	struct s3_error error; /* if the status is one */
	uint64_t bytes;        /* what Content-Length said */
	bool was_repeated;     /* an earlier try may have done it, unheard */
};

/* Keeps the settings, which must stay. */
_must_check_ int s3_http_new(const struct s3_settings *settings, struct s3_http **out);
void s3_http_free(struct s3_http *http);

/*
 * Sends a request. 0: there is an answer with a status below 500, which may be an error.
 * Else an errno, with its text in why. Connections that break, timeouts, 429, 500, 502,
 * 503 and the like are tried again, ever more slowly, for about half a minute.
 */
_must_check_ int s3_http_perform(struct s3_http *http, const struct s3_request *request,
                                 struct s3_reply *reply, struct shfs_buf *why);

/* Appends a value as the query of a URL has it. */
void s3_http_escape(struct s3_http *http, const char *value, struct shfs_buf *out);
