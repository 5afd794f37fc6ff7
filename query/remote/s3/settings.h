/* SPDX-License-Identifier: MIT */
/*
 * settings.h - where a bucket is, and who asks for it: from the URL of the remote, and
 * from the environment and the files that other programs for S3 use.
 *
 *     s3://BUCKET[/PREFIX][?endpoint=URL&region=NAME&path-style=yes|no]
 *
 * The URL comes first, then AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_REGION and
 * AWS_DEFAULT_REGION, then the profile (AWS_PROFILE) of ~/.aws/credentials and
 * ~/.aws/config. A URL has no secrets: one that seems to have some is refused.
 */
#pragma once

#include "common/buf.h"

#define S3_SCHEME "s3://"

struct s3_settings {
	char *bucket;
	char *prefix;   /* "": none; else it ends in "/" */
	char *endpoint; /* http or https, a host, maybe a port; no "/" at its end */
	char *region;
	char *key, *secret, *token; /* token: NULL if there is none */
	char *ca_file;              /* NULL: those of the system */
	char *path_style;           /* "yes", "no", NULL: as the endpoint wants it */
};

void s3_settings_clear(struct s3_settings *s);
#define _cleanup_s3_settings_ _cleanup_(s3_settings_clear)

/* Reads a URL alone. -EINVAL. */
_must_check_ int s3_settings_parse_url(const char *url, struct s3_settings *out);

/* Reads the URL, and adds what it does not say. An error without a text of its own has
 * one in why. */
_must_check_ int s3_settings_find(const char *url, struct shfs_buf *why,
                                  struct s3_settings *out);

/* Appends the URL that all names of the bucket begin with: ends in "/". */
void s3_settings_base(const struct s3_settings *s, struct shfs_buf *out);
