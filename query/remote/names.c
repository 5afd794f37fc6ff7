/* SPDX-License-Identifier: MIT */
#include "query/remote/names.h"

#include "store/journal/journal.h"
#include "store/objects/object.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HEX "0123456789abcdef"

static bool is_hex(const char *text, size_t n)
{
	return strspn(text, HEX) == n && !text[n];
}

bool store_id_is_valid(const char *store_id)
{
	return is_hex(store_id, STORE_ID_SIZE - 1);
}

bool sha256_is_valid(const char *sha)
{
	return is_hex(sha, SHFS_SHA256_SIZE - 1);
}

/* --- on the remote --- */

void head_name(const char *store_id, uint64_t generation,
               char out[static REMOTE_NAME_SIZE])
{
	snprintf(out, REMOTE_NAME_SIZE, REMOTE_HEADS "/%s-%08" PRIu64, store_id,
	         generation);
}

bool head_parse_name(const char *name, char store_id[static STORE_ID_SIZE],
                     uint64_t *generation)
{
	const size_t at = strlen(REMOTE_HEADS "/");
	char again[REMOTE_NAME_SIZE], found[STORE_ID_SIZE];
	uint64_t n;

	if (strncmp(name, REMOTE_HEADS "/", at) ||
	    strnlen(name + at, STORE_ID_SIZE) < STORE_ID_SIZE ||
	    name[at + STORE_ID_SIZE - 1] != '-')
		return false;
	snprintf(found, sizeof(found), "%s", name + at);
	n = strtoull(name + at + STORE_ID_SIZE, NULL, 10);
	head_name(found, n, again);
	if (!store_id_is_valid(found) || strcmp(again, name) != 0 || n >= INT64_MAX)
		return false;
	memcpy(store_id, found, STORE_ID_SIZE);
	*generation = n;
	return true;
}

void blob_name(const char *store_id, const char *blob, char out[static REMOTE_NAME_SIZE])
{
	snprintf(out, REMOTE_NAME_SIZE, REMOTE_DATA "/%s/%.2s/%s", store_id, blob, blob);
}

const char *blob_parse_name(const char *store_id, const char *name)
{
	const char *slash = strrchr(name, '/');
	char again[REMOTE_NAME_SIZE];

	if (!slash || !sha256_is_valid(slash + 1))
		return NULL;
	blob_name(store_id, slash + 1, again);
	return strcmp(again, name) ? NULL : slash + 1;
}

/* --- files of a store --- */

/* The rest of a name behind a prefix; NULL: it does not begin with that. */
static const char *behind(const char *name, const char *prefix)
{
	size_t len = strlen(prefix);

	return strncmp(name, prefix, len) ? NULL : name + len;
}

static bool is_component(const char *name, size_t max)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < len; i++)
		if ((unsigned char)name[i] <= ' ' || name[i] == '/' || name[i] == 0x7f)
			return false;
	return len && len <= max && *name != '.';
}

static enum file_kind kind_of_journal(const char *rest)
{
	const char *slash = strchr(rest, '/');
	char host[65];

	if (!slash || slash - rest >= (ptrdiff_t)sizeof(host))
		return FILE_INVALID;
	snprintf(host, sizeof(host), "%.*s", (int)(slash - rest), rest);
	if (!shfs_journal_is_host(host) || !is_component(slash + 1, 200))
		return FILE_INVALID;
	if (shfs_ends_with(slash, ".seg") || shfs_ends_with(slash, ".seg.zst"))
		return FILE_SEGMENT;
	return shfs_ends_with(slash, ".log") ? FILE_HOOK_LOG : FILE_INVALID;
}

static bool is_pack(const char *name)
{
	return is_component(name, 127) && shfs_ends_with(name, ".pack");
}

enum file_kind file_kind_of(const char *name)
{
	static const char *const files[] = { "format", "trees", "pruned", "projects",
		                             "archived" };
	struct shfs_object_id id;
	const char *rest;

	if ((rest = behind(name, "store/"))) {
		for (size_t i = 0; i < ARRAY_SIZE(files); i++)
			if (!strcmp(rest, files[i]))
				return FILE_STORE;
		return FILE_INVALID;
	}
	if ((rest = behind(name, "journal/")))
		return kind_of_journal(rest);
	if ((rest = behind(name, "objects/packs/")))
		return is_pack(rest) ? FILE_PACK : FILE_INVALID;
	if (behind(name, "objects/"))
		return file_loose_id(name, &id) ? FILE_INVALID : FILE_LOOSE;
	if ((rest = behind(name, "made/contents/")))
		return is_pack(rest) ? FILE_CONTENTS : FILE_INVALID;
	if (!strcmp(name, "made/trees"))
		return FILE_TREES;
	return strcmp(name, "made/alive") ? FILE_INVALID : FILE_ALIVE;
}

void file_split_journal(const char *file, char host[static 65], const char **name)
{
	const char *rest = behind(file, "journal/"), *slash = strchr(rest, '/');

	snprintf(host, 65, "%.*s", (int)(slash - rest), rest);
	*name = slash + 1;
}

const char *file_path(const char *name, enum file_kind kind)
{
	switch (kind) {
	case FILE_STORE:
		return strcmp(name, "store/archived") ? behind(name, "store/")
		                                      : "state/archived";
	case FILE_SEGMENT:
	case FILE_HOOK_LOG:
	case FILE_PACK:
	case FILE_LOOSE:
		return name;
	default:
		return NULL;
	}
}

int file_loose_id(const char *name, struct shfs_object_id *id)
{
	const char *rest = behind(name, "objects/");
	char digits[44];

	if (!rest || strlen(rest) < 4 || strlen(rest) > sizeof(digits) || rest[2] != '/')
		return -EINVAL;
	snprintf(digits, sizeof(digits), "%.2s%s", rest, rest + 3);
	return shfs_object_parse(digits, id);
}
