/* SPDX-License-Identifier: MIT */
#include "query/remote/heads.h"

#include <errno.h>
#include <string.h>

#define HEADS_MAX (1u << 20)

void heads_free(struct heads *heads)
{
	free(heads->list);
	free(heads->old);
	*heads = (struct heads){ 0 };
}

/* --- the remote --- */

static int note_any(void *arg, const char *name, uint64_t bytes)
{
	return -ENOTEMPTY;
}

int remote_look(struct shfs_remote *remote)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r = shfs_remote_get(remote, REMOTE_FORMAT_NAME, 0, 64, &text);

	if (r == -ENOENT)
		return shfs_remote_list(remote, "", note_any, NULL) ?: -ENOENT;
	if (r)
		return r;
	if (!strcmp(text.data ?: "", REMOTE_FORMAT))
		return 0;
	if (!strncmp(text.data ?: "", REMOTE_ENCRYPTED, strlen(REMOTE_ENCRYPTED)))
		return -ENOKEY;
	return strncmp(text.data ?: "", "shfs remote ", 12) ? -ENOTEMPTY
	                                                    : -EPROTONOSUPPORT;
}

int remote_make(struct shfs_remote *remote)
{
	int r = shfs_remote_put(remote, REMOTE_FORMAT_NAME, REMOTE_FORMAT,
	                        strlen(REMOTE_FORMAT));

	return r == -EEXIST ? 0 : r;
}

/* --- heads --- */

static int add_ref(struct head_ref **list, size_t *n, size_t *cap,
                   const struct head_ref *ref)
{
	if (*n >= HEADS_MAX)
		return -EFBIG;
	if (!MAKE_ROOM(*list, *n, *cap))
		return -ENOMEM;
	(*list)[(*n)++] = *ref;
	return 0;
}

static int note_head(void *arg, const char *name, uint64_t bytes)
{
	struct heads *heads = arg;
	struct head_ref ref;

	if (!head_parse_name(name, ref.store_id, &ref.generation))
		return 0;
	for (size_t i = 0; i < heads->n; i++) {
		struct head_ref *other = &heads->list[i], less = ref;

		if (strcmp(other->store_id, ref.store_id) != 0)
			continue;
		if (ref.generation > other->generation) {
			less = *other;
			*other = ref;
		}
		return add_ref(&heads->old, &heads->n_old, &heads->cap_old, &less);
	}
	return add_ref(&heads->list, &heads->n, &heads->cap, &ref);
}

static int compare_store_ids(const void *a, const void *b)
{
	return strcmp(((const struct head_ref *)a)->store_id,
	              ((const struct head_ref *)b)->store_id);
}

int heads_find(struct shfs_remote *remote, struct heads *out)
{
	_cleanup_heads_ struct heads heads = { 0 };
	int r = shfs_remote_list(remote, REMOTE_HEADS, note_head, &heads);

	if (r)
		return r;
	if (heads.n)
		qsort(heads.list, heads.n, sizeof(*heads.list), compare_store_ids);
	*out = heads;
	heads = (struct heads){ 0 };
	return 0;
}

uint64_t heads_newest(const struct heads *heads, const char *store_id)
{
	for (size_t i = 0; i < heads->n; i++)
		if (!strcmp(heads->list[i].store_id, store_id))
			return heads->list[i].generation;
	return 0;
}

int head_fetch(struct shfs_remote *remote, const char *store_id, uint64_t generation,
               char *sha, struct manifest *out)
{
	_cleanup_manifest_ struct manifest m = { 0 };
	_cleanup_buf_ struct shfs_buf text = { 0 };
	char name[REMOTE_NAME_SIZE];
	int r;

	head_name(store_id, generation, name);
	r = shfs_remote_get(remote, name, 0, HEAD_MAX, &text);
	if (!r)
		r = head_parse(text.data ?: "", text.len, &m);
	if (!r && (strcmp(m.head.store_id, store_id) || m.head.generation != generation))
		r = -EBADMSG;
	if (r)
		return r;
	if (sha)
		shfs_sha256_of(text.data, text.len, sha);
	*out = m;
	m = (struct manifest){ 0 };
	return 0;
}

int blob_fetch(struct shfs_remote *remote, const char *store_id, const char *blob,
               uint32_t at, uint32_t bytes, const char *sha, struct shfs_buf *out)
{
	char name[REMOTE_NAME_SIZE], got[SHFS_SHA256_SIZE];
	size_t before = out->len;
	int r;

	blob_name(store_id, blob, name);
	r = shfs_remote_get(remote, name, at, bytes, out);
	if (r)
		return r;
	if (out->len - before != bytes)
		return -EBADMSG;
	shfs_sha256_of(out->data + before, bytes, got);
	return strcmp(got, sha) ? -EBADMSG : 0;
}

/* --- lists --- */

/* The texts of lists that are here. */
struct known_list {
	char sha[SHFS_SHA256_SIZE];
	struct shfs_buf text;
};

struct known_lists {
	struct known_list *list;
	size_t n, cap;
};

static void known_lists_clear(struct known_lists *k)
{
	for (size_t i = 0; i < k->n; i++)
		shfs_buf_free(&k->list[i].text);
	free(k->list);
}

/* Prints the lists anew that both have. */
static int find_known_lists(const struct manifest *known, const struct manifest *m,
                            struct known_lists *out)
{
	for (size_t next = 0; known && next < known->n;) {
		_cleanup_buf_ struct shfs_buf text = { 0 };
		struct known_list *k;
		size_t i = 0;

		list_print(known, &next, &text);
		if (text.failed || !MAKE_ROOM(out->list, out->n, out->cap))
			return -ENOMEM;
		k = &out->list[out->n];
		shfs_sha256_of(text.data, text.len, k->sha);
		while (i < m->n_lists && strcmp(m->lists[i].sha, k->sha) != 0)
			i++;
		if (i == m->n_lists)
			continue;
		k->text = text;
		text = (struct shfs_buf){ 0 };
		out->n++;
	}
	return 0;
}

static int fetch_list(struct shfs_remote *remote, const struct known_lists *here,
                      const struct list_ref *list, struct manifest *m)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r;

	for (size_t i = 0; i < here->n; i++)
		if (!strcmp(here->list[i].sha, list->sha))
			return list_parse(here->list[i].text.data, here->list[i].text.len,
			                  m);
	r = blob_fetch(remote, m->head.store_id, list->blob, 0, list->bytes, list->sha,
	               &text);
	return r ? r : list_parse(text.data ?: "", text.len, m);
}

int head_fetch_lists(struct shfs_remote *remote, const struct manifest *known,
                     struct manifest *m, uint64_t *damaged)
{
	_cleanup_(known_lists_clear) struct known_lists here = { 0 };
	int r = find_known_lists(known, m, &here);

	for (size_t i = 0; i < m->n_lists && !r; i++) {
		r = fetch_list(remote, &here, &m->lists[i], m);
		if (damaged && (r == -EBADMSG || r == -ENOENT)) {
			++*damaged;
			r = 0;
		}
	}
	return r == -ENOENT ? -ENODATA : r;
}
