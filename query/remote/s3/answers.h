/* SPDX-License-Identifier: MIT */
/* answers.h - what an object store answers in XML: errors, and pages of a listing. */
#pragma once

#include "common/buf.h"

#define S3_WORD_SIZE 64

struct s3_error {
	char code[S3_WORD_SIZE]; /* "NoSuchKey"; "": not said */
	char message[256];
	char region[S3_WORD_SIZE]; /* where the bucket is, if that is what is wrong */
};

/* Reads what came with a status that is an error; of anything else nothing is known. */
void s3_error_parse(const char *data, size_t len, struct s3_error *out);

/* Called for each name, with its bytes. Non-zero ends the listing. */
typedef int (*s3_name_fn)(void *arg, const char *name, uint64_t bytes);

struct s3_page {
	const char *cut; /* what all names begin with, which the caller does not want */
	s3_name_fn fn;
	void *arg;
	/* the answers: is there more, how to get it, and the last name, as it is there */
	bool is_truncated;
	struct shfs_buf token, last;
};

void s3_page_clear(struct s3_page *page);
#define _cleanup_s3_page_ _cleanup_(s3_page_clear)

/* Reads a page, with names as in URLs (encoding-type=url), and calls fn for each; what fn
 * returns if it is not 0; -EBADMSG. */
_must_check_ int s3_page_parse(const char *data, size_t len, struct s3_page *page);
