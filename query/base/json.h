/* SPDX-License-Identifier: MIT */
/*
 * json.h - the one writer behind every --json, and the version of its format.
 *
 * A document is an object: {"shfs": "history", "version": 1, ...}. The members are
 * documented in docs/json.md. Members and elements of the outermost level are on lines of
 * their own; deeper ones follow on the same line. In an array, key is NULL.
 */
#pragma once

#include "common/buf.h"

/* Raised where a program that reads the older output would misunderstand the newer. New
 * members alone do not raise it. */
#define SHFS_JSON_VERSION 1

struct shfs_json {
	struct shfs_buf out;
	int depth;
	bool more; /* this level has a member already */
};

/* Each document that begins from now on says that the index lacks a part of the
 * journal. */
void shfs_json_say_incomplete(void);

/* Begins a document of this kind ("history"). json starts as {0}. */
void shfs_json_begin(struct shfs_json *json, const char *kind);
/* Ends the document and writes it to standard output. False: no memory, or the write
 * failed. */
_must_check_ bool shfs_json_end(struct shfs_json *json);
/* Ends the document in json->out, which the caller then owns; false is out.failed. */
void shfs_json_close(struct shfs_json *json);
/* Appends a document of one line, an object, to json->out. */
void shfs_json_line(struct shfs_json *json);
void shfs_json_line_end(struct shfs_json *json);
/* Writes out what there is so far. */
_must_check_ bool shfs_json_flush(struct shfs_json *json);
void shfs_json_free(struct shfs_json *json);
#define _cleanup_json_ _cleanup_(shfs_json_free)

void shfs_json_object(struct shfs_json *json, const char *key);
void shfs_json_object_end(struct shfs_json *json);
void shfs_json_array(struct shfs_json *json, const char *key);
void shfs_json_array_end(struct shfs_json *json);

/* text NULL: null. */
void shfs_json_str(struct shfs_json *json, const char *key, const char *text);
void shfs_json_text(struct shfs_json *json, const char *key, const char *text,
                    size_t len);
void shfs_json_int(struct shfs_json *json, const char *key, int64_t value);
void shfs_json_bool(struct shfs_json *json, const char *key, bool value);
void shfs_json_null(struct shfs_json *json, const char *key);
/* "2026-11-21T17:04:05.123456789Z" */
void shfs_json_time(struct shfs_json *json, const char *key, int64_t ns);
