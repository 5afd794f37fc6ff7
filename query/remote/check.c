/* SPDX-License-Identifier: MIT */
#include "query/remote/check.h"

#include "query/remote/blobs.h"
#include "query/remote/heads.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct checking {
	struct shfs_remote *remote;
	struct remote_check *check;
	struct manifest now; /* of the store that is looked at */
	struct blobs needed; /* kept: it was listed */
	uint64_t done_bytes, all_bytes;
};

static int report(struct checking *c, enum remote_problem_kind kind, const char *blob,
                  const char *file)
{
	const struct remote_problem problem = {
		.kind = kind,
		.store_id = c->now.head.store_id,
		.host = c->now.head.host,
		.blob = blob,
		.file = file,
	};

	return c->check->problem(c->check->arg, &problem);
}

/* --- lists --- */

/* Is it an error of the blob, and not of the way there? */
static bool is_of_blob(int error)
{
	return error == -ENOENT || error == -EBADMSG;
}

static int report_list(struct checking *c, const char *blob, int error)
{
	struct blob *needed = blobs_add(&c->needed, blob);

	if (!needed)
		return -ENOMEM;
	needed->total = 1; /* reported */
	return report(c, error == -ENOENT ? REMOTE_MISSING : REMOTE_DAMAGED, blob, NULL);
}

static int read_lists(struct checking *c)
{
	int r = 0;

	for (size_t i = 0; i < c->now.n_lists && !r; i++) {
		const struct list_ref *list = &c->now.lists[i];
		_cleanup_buf_ struct shfs_buf text = { 0 };

		r = blob_fetch(c->remote, c->now.head.store_id, list->blob, 0,
		               list->bytes, list->sha, &text);
		if (!r)
			r = list_parse(text.data ?: "", text.len, &c->now);
		if (is_of_blob(r))
			r = report_list(c, list->blob, r);
	}
	return r;
}

/* --- which blobs there are --- */

/* A file that has bytes in the blob; NULL: none, it is a list. */
static const char *file_of_blob(const struct manifest *m, const char *blob)
{
	for (size_t i = 0; i < m->n; i++)
		for (size_t j = 0; j < m->files[i].n; j++)
			if (!strcmp(m->files[i].pieces[j].blob, blob))
				return m->files[i].name;
	return NULL;
}

static int look_at_blob(void *arg, const char *name, uint64_t bytes)
{
	struct checking *c = arg;
	const char *blob = blob_parse_name(c->now.head.store_id, name);
	struct blob *needed = blob ? blobs_find(&c->needed, blob) : NULL;

	if (!needed) {
		c->check->unneeded += blob != NULL;
		return 0;
	}
	needed->kept = 1;
	c->check->blobs++;
	c->check->bytes += bytes;
	if (needed->bytes == bytes || needed->total)
		return 0;
	needed->total = 1;
	return report(c, REMOTE_LENGTH, blob, file_of_blob(&c->now, blob));
}

/* A blob that was not listed may be there all the same: a listing may be late. */
static int look_for_blob(struct checking *c, struct blob *blob)
{
	char name[REMOTE_NAME_SIZE];
	uint64_t bytes;
	int r;

	blob_name(c->now.head.store_id, blob->name, name);
	r = shfs_remote_stat(c->remote, name, &bytes);
	if (!r)
		return look_at_blob(c, name, bytes);
	if (r != -ENOENT || blob->total)
		return r == -ENOENT ? 0 : r;
	blob->total = 1;
	return report(c, REMOTE_MISSING, blob->name, file_of_blob(&c->now, blob->name));
}

static int look_at_blobs(struct checking *c)
{
	char dir[REMOTE_NAME_SIZE];
	int r = blobs_add_all(&c->needed, &c->now);

	snprintf(dir, sizeof(dir), REMOTE_DATA "/%s", c->now.head.store_id);
	if (!r)
		r = shfs_remote_list(c->remote, dir, look_at_blob, c);
	for (struct blob *b = c->needed.set; b && !r; b = b->hh.next)
		if (!b->kept)
			r = look_for_blob(c, b);
	return r;
}

/* --- their bytes --- */

struct checked_piece {
	const struct piece *piece;
	const char *file;
};

static int compare_pieces(const void *a, const void *b)
{
	const struct checked_piece *x = a, *y = b;

	return strcmp(x->piece->blob, y->piece->blob);
}

/* All pieces, those of a blob one behind the other. *out is freed by the caller. */
static int list_pieces(const struct manifest *m, struct checked_piece **out, size_t *n)
{
	size_t cap = 0;

	*out = NULL;
	*n = 0;
	for (size_t i = 0; i < m->n; i++)
		for (size_t j = 0; j < m->files[i].n; j++) {
			if (!MAKE_ROOM(*out, *n, cap))
				return -ENOMEM;
			(*out)[(*n)++] = (struct checked_piece){ &m->files[i].pieces[j],
				                                 m->files[i].name };
		}
	if (*n)
		qsort(*out, *n, sizeof(**out), compare_pieces);
	return 0;
}

static bool is_intact(const struct shfs_buf *blob, const struct piece *piece)
{
	char sha[SHFS_SHA256_SIZE];

	if (piece->at > blob->len || piece->bytes > blob->len - piece->at)
		return false;
	shfs_sha256_of(blob->data + piece->at, piece->bytes, sha);
	return !strcmp(sha, piece->sha);
}

/* Compares the n pieces of one blob. */
static int read_blob(struct checking *c, const struct checked_piece *pieces, size_t n)
{
	_cleanup_buf_ struct shfs_buf bytes = { 0 };
	const char *blob = pieces->piece->blob;
	const struct blob *needed = blobs_find(&c->needed, blob);
	char name[REMOTE_NAME_SIZE];
	int r;

	if (needed && needed->total) /* it was reported */
		return 0;
	blob_name(c->now.head.store_id, blob, name);
	r = shfs_remote_get(c->remote, name, 0, PIECE_BYTES, &bytes);
	c->done_bytes += bytes.len;
	if (c->check->progress)
		c->check->progress(c->done_bytes, c->all_bytes);
	if (r)
		return is_of_blob(r)
		               ? report(c, r == -ENOENT ? REMOTE_MISSING : REMOTE_DAMAGED,
		                        blob, pieces->file)
		               : r;
	for (size_t i = 0; i < n; i++)
		if (!is_intact(&bytes, pieces[i].piece))
			return report(c, REMOTE_DAMAGED, blob, pieces[i].file);
	return 0;
}

static int read_blobs(struct checking *c)
{
	_cleanup_free_ struct checked_piece *pieces = NULL;
	size_t n, same;
	int r = list_pieces(&c->now, &pieces, &n);

	for (struct blob *b = c->needed.set; b; b = b->hh.next)
		c->all_bytes += b->bytes;
	for (size_t i = 0; i < n && !r; i += same) {
		same = 1;
		while (i + same < n && !compare_pieces(&pieces[i], &pieces[i + same]))
			same++;
		r = read_blob(c, &pieces[i], same);
	}
	return r;
}

/* --- all --- */

static int check_store(struct checking *c, const struct head_ref *head)
{
	int r = head_fetch(c->remote, head->store_id, head->generation, NULL, &c->now);

	if (is_of_blob(r)) {
		memcpy(c->now.head.store_id, head->store_id, STORE_ID_SIZE);
		r = report(c, REMOTE_HEAD, NULL, NULL);
	} else if (!r) {
		r = read_lists(c);
		if (!r)
			r = look_at_blobs(c);
		if (!r && c->check->read_data)
			r = read_blobs(c);
	}
	manifest_clear(&c->now);
	blobs_clear(&c->needed);
	return r;
}

int remote_check_run(struct shfs_remote *remote, struct remote_check *check)
{
	struct checking c = { .remote = remote, .check = check };
	_cleanup_heads_ struct heads heads = { 0 };
	int r = remote_look(remote);

	if (!r)
		r = heads_find(remote, &heads);
	for (size_t i = 0; i < heads.n && !r; i++) {
		check->stores++;
		r = check_store(&c, &heads.list[i]);
	}
	return r;
}
