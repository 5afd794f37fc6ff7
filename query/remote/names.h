/* SPDX-License-Identifier: MIT */
/*
 * names.h - the names on a remote, and the names of the files of a store that go there
 * (docs/remotes.md). None is trusted.
 */
#pragma once

#include "common/record.h"
#include "query/base/sha256.h"

#define REMOTE_FORMAT_NAME "shfs-remote"
#define REMOTE_FORMAT      "shfs remote 1\n"
#define REMOTE_ENCRYPTED   "shfs remote 1 encrypted " /* and a number (encrypted.h) */
#define REMOTE_HEADS       "heads"
#define REMOTE_DATA        "data"

#define STORE_ID_SIZE    17  /* 16 hex digits and a NUL */
#define REMOTE_NAME_SIZE 160 /* of a name on a remote, with its NUL */
#define FILE_NAME_MAX    400 /* bytes of the name of a file of a store */

bool store_id_is_valid(const char *store_id);
bool sha256_is_valid(const char *sha);

/* heads/STORE-GENERATION */
void head_name(const char *store_id, uint64_t generation,
               char out[static REMOTE_NAME_SIZE]);
/* Parses it. False: it is no such name. */
bool head_parse_name(const char *name, char store_id[static STORE_ID_SIZE],
                     uint64_t *generation);

/* data/STORE/ab/abcdef... */
void blob_name(const char *store_id, const char *blob, char out[static REMOTE_NAME_SIZE]);
/* Returns the blob in such a name of this store, borrowed; NULL. */
const char *blob_parse_name(const char *store_id, const char *name);

/* What a file of a store is, by its name. */
enum file_kind {
	FILE_INVALID,
	FILE_STORE,    /* store/format, trees, pruned, projects, archived */
	FILE_SEGMENT,  /* journal/HOST/NAME.seg, or .seg.zst */
	FILE_HOOK_LOG, /* journal/HOST/NAME.log */
	FILE_PACK,     /* objects/packs/NAME.pack */
	FILE_LOOSE,    /* objects/ab/cdef... */
	FILE_TREES,    /* made/trees: as an archive has them (store/trees.h) */
	FILE_ALIVE,    /* made/alive: recordings that had not ended */
	FILE_CONTENTS, /* made/contents/NAME.pack: which objects the pack has */
};
enum file_kind file_kind_of(const char *name);

/* Splits journal/HOST/NAME: *name is borrowed. Only of a segment or hook log. */
void file_split_journal(const char *file, char host[static 65], const char **name);
/* The path below the store; made files have none: NULL. Borrowed. */
const char *file_path(const char *name, enum file_kind kind);
/* The id of a loose object. */
_must_check_ int file_loose_id(const char *name, struct shfs_object_id *id);
