/* SPDX-License-Identifier: MIT */
/*
 * fuzz.h - the fuzz targets. Each takes any bytes, and aborts where a promise does not
 * hold. libFuzzer runs them (./dev fuzz); tests/unit/test_fuzz.c replays corpus/ with
 * small changes in the normal build.
 */
#pragma once

#include "common/buf.h"

#include <stdio.h>
#include <stdlib.h>

void fuzz_config(const uint8_t *data, size_t size);
void fuzz_hooklog(const uint8_t *data, size_t size);
void fuzz_import(const uint8_t *data, size_t size);
void fuzz_index(const uint8_t *data, size_t size);
void fuzz_needs(const uint8_t *data, size_t size);
void fuzz_object(const uint8_t *data, size_t size);
void fuzz_pack(const uint8_t *data, size_t size);
void fuzz_packet(const uint8_t *data, size_t size);
void fuzz_record(const uint8_t *data, size_t size);
void fuzz_redact(const uint8_t *data, size_t size);
void fuzz_remote(const uint8_t *data, size_t size);
void fuzz_rules(const uint8_t *data, size_t size);
void fuzz_s3(const uint8_t *data, size_t size);
void fuzz_segment(const uint8_t *data, size_t size);
void fuzz_sftp(const uint8_t *data, size_t size);
void fuzz_time(const uint8_t *data, size_t size);

/* fuzz_segment.c's: a segment as its inputs say. */
void fuzz_build_segment(const uint8_t *data, size_t size, struct shfs_buf *out);

/* fuzz_import.c's: all that an index can be asked. */
struct shfs_index;
void fuzz_ask_all(struct shfs_index *index);

#define FUZZ_ASSERT(condition)                                                           \
	do {                                                                             \
		if (!(condition)) {                                                      \
			fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, \
			        #condition);                                             \
			abort();                                                         \
		}                                                                        \
	} while (0)

/* Reads every byte, so that a sanitizer sees one that is not there. */
static inline void fuzz_touch(struct shfs_bytes v)
{
	static volatile unsigned char sum _unused_;

	for (size_t i = 0; i < v.len; i++)
		sum += (unsigned char)v.data[i];
}
