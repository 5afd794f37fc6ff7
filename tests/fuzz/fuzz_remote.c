/* SPDX-License-Identifier: MIT */
/*
 * What a remote says: a head ('h'), a list ('l'), the contents of a pack ('c'); and a
 * manifest as a file here ('m'); a label ('e') and a key ('k'). What can be read is the
 * same when it is written and read again. Heads and manifests get the sum that they need.
 */
#include "tests/fuzz/fuzz.h"

#include "query/remote/contents.h"
#include "query/remote/encryption/encrypted.h"
#include "query/remote/manifest.h"

#include <errno.h>
#include <string.h>

static void check_files(const struct manifest *m)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct remote_file *f = &m->files[i];
		enum file_kind kind = file_kind_of(f->name);
		const char *path = file_path(f->name, kind);
		uint64_t bytes = 0;

		FUZZ_ASSERT(kind != FILE_INVALID && !strstr(f->name, "/."));
		FUZZ_ASSERT(!path || (*path != '/' && *path != '.' && *path));
		FUZZ_ASSERT(!i || strcmp(m->files[i - 1].name, f->name) < 0);
		FUZZ_ASSERT(manifest_find(m, f->name) == f);
		for (size_t j = 0; j < f->n; j++)
			bytes += f->pieces[j].bytes;
		FUZZ_ASSERT(bytes == f->bytes);
	}
}

static void add_sum(struct shfs_buf *b)
{
	char sum[SHFS_SHA256_SIZE];

	shfs_sha256_of(b->data ?: "", b->len, sum);
	shfs_buf_printf(b, "sum %s\n", sum);
	FUZZ_ASSERT(!b->failed);
}

static void check_head(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct shfs_buf text = { 0 }, again = { 0 }, third = { 0 };
	_cleanup_manifest_ struct manifest m = { 0 }, n = { 0 };

	shfs_buf_add(&text, data, size);
	add_sum(&text);
	if (head_parse(text.data, text.len, &m))
		return;
	FUZZ_ASSERT(store_id_is_valid(m.head.store_id) && m.head.generation);
	head_print(&m, &again);
	FUZZ_ASSERT(!head_parse(again.data, again.len, &n));
	head_print(&n, &third);
	FUZZ_ASSERT(again.len == third.len && !memcmp(again.data, third.data, again.len));
}

static void check_list(const uint8_t *data, size_t size)
{
	_cleanup_manifest_ struct manifest m = { 0 }, n = { 0 };

	if (list_parse((const char *)data, size, &m))
		return;
	check_files(&m);
	for (size_t next = 0; next < m.n;) {
		_cleanup_buf_ struct shfs_buf text = { 0 };

		list_print(&m, &next, &text);
		FUZZ_ASSERT(!list_parse(text.data, text.len, &n));
	}
	FUZZ_ASSERT(m.n == n.n);
	for (size_t i = 0; i < m.n; i++)
		FUZZ_ASSERT(!strcmp(m.files[i].name, n.files[i].name) &&
		            remote_file_equal(&m.files[i], &n.files[i]));
}

static void check_manifest(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct shfs_buf text = { 0 }, again = { 0 }, third = { 0 };
	_cleanup_manifest_ struct manifest m = { 0 }, n = { 0 };

	shfs_buf_add(&text, data, size);
	add_sum(&text);
	if (manifest_parse(text.data, text.len, &m))
		return;
	check_files(&m);
	manifest_print(&m, &again);
	FUZZ_ASSERT(!manifest_parse(again.data, again.len, &n));
	manifest_print(&n, &third);
	FUZZ_ASSERT(again.len == third.len && !memcmp(again.data, third.data, again.len));
}

static void check_contents(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	_cleanup_contents_ struct contents c = { 0 }, again = { 0 };

	if (contents_parse(data, size, &c))
		return;
	for (size_t i = 0; i < c.n; i++)
		FUZZ_ASSERT(contents_find(&c, &c.list[i].id));
	contents_print(&c, &text);
	FUZZ_ASSERT(!contents_parse(text.data, text.len, &again) && again.n == c.n);
}

/* No label fits a key but one that was made with it. */
static void check_label(const uint8_t *data, size_t size)
{
	static const char zeros[] = "shfs-key-1:00000000000000000000000000000000"
				    "00000000000000000000000000000000";
	_cleanup_buf_ struct shfs_buf text = { 0 };
	_cleanup_key_ struct remote_key *key = NULL;
	char made[LABEL_MAX];
	int r;

	FUZZ_ASSERT(!remote_key_parse(zeros, strlen(zeros), &key));
	FUZZ_ASSERT(!label_make(key, made) && !label_check(key, made));
	shfs_buf_add(&text, data, size);
	FUZZ_ASSERT(!text.failed);
	r = label_check(key, text.data ?: "");
	FUZZ_ASSERT(r == -EBADMSG || r == -EPROTONOSUPPORT || r == -EKEYREJECTED);
}

static void check_key(const uint8_t *data, size_t size)
{
	_cleanup_key_ struct remote_key *key = NULL;
	int r = remote_key_parse((const char *)data, size, &key);

	FUZZ_ASSERT(r == (key ? 0 : -EINVAL));
}

void fuzz_remote(const uint8_t *data, size_t size)
{
	if (!size)
		return;
	switch (*data) {
	case 'h':
		return check_head(data + 1, size - 1);
	case 'l':
		return check_list(data + 1, size - 1);
	case 'm':
		return check_manifest(data + 1, size - 1);
	case 'c':
		return check_contents(data + 1, size - 1);
	case 'e':
		return check_label(data + 1, size - 1);
	case 'k':
		return check_key(data + 1, size - 1);
	default:
		return;
	}
}
