/* SPDX-License-Identifier: MIT */
/*
 * frame.h - the numbers that a segment's writer and reader share. docs/journal.md shows
 * the layout.
 *
 *     segment: magic (8 bytes), then frames
 *     frame:   u32 magic, u32 payload length, payload: a batch of records (record.h),
 *              u64 XXH3-64 of all of it before
 */
#pragma once

#define SHFS_SEGMENT_MAGIC     "shfsseg\2" /* the last byte is the format's number */
#define SHFS_SEGMENT_MAGIC_LEN 8
#define SHFS_FRAME_MAGIC       0x42464853u /* "SHFB" */
#define SHFS_FRAME_HEAD        8           /* bytes before the payload */
#define SHFS_FRAME_TAIL        8
#define SHFS_PAYLOAD_MAX       (16u << 20)
#define SHFS_BATCH_BYTES                                                                 \
	(64u << 10) /* a batch that has reached this size takes no more */
#define SHFS_SEGMENT_MAX (1u << 30)
