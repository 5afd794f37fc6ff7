/* SPDX-License-Identifier: MIT */
/*
 * journal.h - append-only segments of checksummed records; one writer each.
 *
 *     journal/<host>/<kind>-<boot>-<instance>-<n>.seg       being written
 *     journal/<host>/<kind>-<boot>-<instance>-<n>.seg.zst   sealed: the same bytes,
 * compressed
 *
 * <boot> and <instance> are the first 8 hex digits of each. The layout is in
 * docs/journal.md: a frame holds a batch of records and one checksum.
 *
 * A reader may read while the writer appends: it stops at a frame that is not whole yet.
 * Damage in the middle is skipped to the next valid frame, and counted.
 */
#pragma once

#include "common/record.h"
#include "store/store.h"

#include <stdbool.h>

#define SHFS_JOURNAL_BOOT_DIGITS 8 /* of a boot in the name of a file */

/* --- writing: one thread at a time --- */

struct shfs_journal;

/* Identifies an instance, and the segment that it writes. */
struct shfs_journal_identity {
	char kind[16];
	char boot_id[37];
	char instance[33]; /* hex */
	uint64_t start_ticks, pid_namespace;
	uint32_t pid, pid_max, segment;
};

struct shfs_journal_options {
	const char *kind;                   /* "fuse" */
	const char *root;                   /* absolute path of the project */
	uint64_t rotate_bytes;              /* size of a full segment; 0: 16 MiB */
	struct shfs_journal_identity *told; /* kept up to date; or NULL */
};

/* Starts a new instance: makes its first segment with a PRODUCER record. */
_must_check_ int shfs_journal_open(struct shfs_store *store,
                                   const struct shfs_journal_options *options,
                                   struct shfs_journal **out);

/* Continues the instance of a process that has died, in a new segment. seq: the last
 * sequence number in the instance's other segments. */
_must_check_ int shfs_journal_resume(struct shfs_store *store, const char *root,
                                     const struct shfs_journal_identity *identity,
                                     uint64_t seq, struct shfs_journal **out);

/* Frees the journal, without END or sync. NULL is fine. */
void shfs_journal_free(struct shfs_journal *journal);

/* Returns the last sequence number in the segment that the instance writes; 0: none. */
uint64_t shfs_journal_last_seq(const struct shfs_store *store,
                               const struct shfs_journal_identity *identity);

/* Appends END, syncs, seals. NULL is fine. */
int shfs_journal_close(struct shfs_journal *journal);

/*
 * Appends n records with the sequence numbers they carry (which must rise), in one
 * segment. Not durable before shfs_journal_sync. On an error the first *appended records
 * are in the segment, which is sound: a write that failed (-ENOSPC, -EIO) leaves nothing;
 * a record that cannot be packed (-EINVAL, -EMSGSIZE) leaves the records before it.
 */
_must_check_ int shfs_journal_append(struct shfs_journal *journal,
                                     const struct shfs_record *const *records, size_t n,
                                     size_t *appended);
_must_check_ int shfs_journal_sync(struct shfs_journal *journal);

/* Makes all records durable and begins a new segment: nothing is added to earlier ones
 * any more. On an error the journal goes on in the present segment. */
_must_check_ int shfs_journal_rotate(struct shfs_journal *journal);

/* Gets the name of the present segment. */
#define SHFS_SEGMENT_NAME_MAX 256
void shfs_journal_segment(const struct shfs_journal *journal,
                          char out[static SHFS_SEGMENT_NAME_MAX]);

/* Compresses the bytes of a segment into a file of that name and suffix, durable before
 * it is visible. */
_must_check_ int shfs_segment_seal(int dirfd, const char *name, const char *suffix,
                                   const struct shfs_buf *bytes);

/* --- reading --- */

struct shfs_segment;

/*
 * Opens the segment name below dirfd, sealed or not, from byte offset of its uncompressed
 * bytes (0, or one that shfs_segment_offset returned). -EBADMSG: not a segment;
 * -EPROTONOSUPPORT: a format that this version does not know.
 */
_must_check_ int shfs_segment_open(int dirfd, const char *name, uint64_t offset,
                                   struct shfs_segment **out);
void shfs_segment_close(struct shfs_segment *segment);

/*
 * Returns 1 and the next record in *rec (its strings are valid until the next call), or 0
 * at the end. Records of a type that this version does not know are skipped. The PRODUCER
 * record comes first when reading from 0; shfs_segment_producer gives it at any offset.
 */
_must_check_ int shfs_segment_next(struct shfs_segment *segment, struct shfs_record *rec);
const struct shfs_rec_producer *shfs_segment_producer(const struct shfs_segment *segment);
/* Returns the offset of the end of the last record read, which may be in the middle of a
 * batch. */
uint64_t shfs_segment_offset(const struct shfs_segment *segment);
uint64_t
shfs_segment_damaged(const struct shfs_segment *segment); /* bytes skipped so far */

/* Has fn called for each range of bytes that is skipped as damage. */
void shfs_segment_on_damage(struct shfs_segment *segment,
                            void (*fn)(void *arg, uint64_t from, uint64_t to), void *arg);

/* Says what is behind the last record, once all records were read: a write that was cut
 * short (or is going on), or damage. A sealed segment that ends too early is damaged. */
enum shfs_tail { SHFS_TAIL_NONE, SHFS_TAIL_TORN, SHFS_TAIL_DAMAGED };
_must_check_ int shfs_segment_tail(struct shfs_segment *segment, uint64_t *bytes);

/* Reads records out of memory as a segment's file would hold them (fuzzing, tests). */
_must_check_ int shfs_segment_from_memory(const void *data, size_t len,
                                          struct shfs_segment **out);
/* Is it a segment whose records another version of shfs wrote, rather than a damaged one?
 * Its first frame is right. Its format may be that of another version, too. */
bool shfs_segment_is_of_another_version(const void *data, size_t len, bool sealed);
/* Reads records out of the memory of a sealed segment. -EBADMSG: it is not whole. */
_must_check_ int shfs_segment_from_sealed(const void *data, size_t len,
                                          struct shfs_segment **out);

/* May the directory of a host have that name? */
bool shfs_journal_is_host(const char *host);

/*
 * Calls visit for each segment or hook log (its name ends in ".log"), or both, of each
 * host, in byte order of host and name; a sealed segment is visited once, by its name
 * without ".zst". size_bytes is the size of the file: a sealed segment holds more. Stops
 * when visit returns non-zero, and returns that.
 */
enum shfs_journal_kinds {
	SHFS_JOURNAL_SEGMENTS = 1 << 0,
	SHFS_JOURNAL_HOOK_LOGS = 1 << 1,
	SHFS_JOURNAL_ALL = SHFS_JOURNAL_SEGMENTS | SHFS_JOURNAL_HOOK_LOGS,
};

struct shfs_journal_file {
	const char *host, *name;
	int dirfd; /* borrowed */
	bool hook_log, sealed;
	uint64_t size_bytes;
};
int shfs_journal_walk(struct shfs_store *store, enum shfs_journal_kinds kinds,
                      int (*visit)(const struct shfs_journal_file *file, void *arg),
                      void *arg);
