/* SPDX-License-Identifier: MIT */
#include "query/remote/peer/serve.h"

#include "common/io.h"
#include "query/remote/heads.h"
#include "query/remote/push/push.h"
#include "query/remote/push/upload.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- where a push puts: nowhere --- */

struct nowhere {
	struct shfs_remote remote;
	const struct remote_head *head; /* of the last one; generation 0: there is none */
};

static int list_nowhere(struct shfs_remote *remote, const char *dir, shfs_remote_fn fn,
                        void *arg)
{
	const struct nowhere *n = container_of(remote, struct nowhere, remote);
	char name[REMOTE_NAME_SIZE];

	if (!n->head->generation || strcmp(dir, REMOTE_HEADS) != 0)
		return 0;
	head_name(n->head->store_id, n->head->generation, name);
	return fn(arg, name, 0);
}

static int get_nowhere(struct shfs_remote *remote, const char *name, uint64_t offset,
                       size_t len, struct shfs_buf *out)
{
	if (strcmp(name, REMOTE_FORMAT_NAME) != 0)
		return -ENOENT;
	shfs_buf_str(out, REMOTE_FORMAT);
	return 0;
}

static int put_nowhere(struct shfs_remote *remote, const char *name, const void *data,
                       size_t len)
{
	return 0;
}

static int stat_nowhere(struct shfs_remote *remote, const char *name, uint64_t *bytes)
{
	return -ENOENT;
}

static int remove_nowhere(struct shfs_remote *remote, const char *name)
{
	return 0;
}

static const struct shfs_backend kind_nowhere = {
	.scheme = "",
	.list = list_nowhere,
	.get = get_nowhere,
	.put = put_nowhere,
	.stat = stat_nowhere,
	.remove = remove_nowhere,
};

/* --- what is served --- */

/* A piece, and where its bytes are in the store. */
struct place_of_piece {
	const struct piece *piece;
	const struct remote_file *file;
	uint64_t at; /* in the file */
};

struct text {
	char name[REMOTE_NAME_SIZE];
	struct shfs_buf bytes;
};

struct serving {
	struct upload *u;
	int in, out;
	struct place_of_piece *pieces; /* by blob, and by the place there */
	size_t n;
	struct text *texts; /* the head and the lists */
	size_t n_texts, cap_texts;
	char line[SERVE_LINE_MAX];
	size_t n_line;
	struct shfs_buf answer, bytes;
};

static void serving_clear(struct serving *s)
{
	for (size_t i = 0; i < s->n_texts; i++)
		shfs_buf_free(&s->texts[i].bytes);
	free(s->texts);
	free(s->pieces);
	shfs_buf_free(&s->answer);
	shfs_buf_free(&s->bytes);
}

static int compare_pieces(const void *a, const void *b)
{
	const struct place_of_piece *x = a, *y = b;
	int order = strcmp(x->piece->blob, y->piece->blob);

	return order ? order
	             : (x->piece->at > y->piece->at) - (x->piece->at < y->piece->at);
}

static int find_pieces(struct serving *s)
{
	const struct manifest *m = &s->u->now;
	size_t n = 0;

	for (size_t i = 0; i < m->n; i++)
		n += m->files[i].n;
	s->pieces = calloc(n + 1, sizeof(*s->pieces));
	if (!s->pieces)
		return -ENOMEM;
	for (size_t i = 0; i < m->n; i++) {
		uint64_t at = 0;

		for (size_t j = 0; j < m->files[i].n; j++) {
			const struct piece *piece = &m->files[i].pieces[j];

			s->pieces[s->n++] =
				(struct place_of_piece){ piece, &m->files[i], at };
			at += piece->bytes;
		}
	}
	qsort(s->pieces, s->n, sizeof(*s->pieces), compare_pieces);
	return 0;
}

static struct text *add_text(struct serving *s)
{
	if (!MAKE_ROOM(s->texts, s->n_texts, s->cap_texts))
		return NULL;
	s->texts[s->n_texts] = (struct text){ 0 };
	return &s->texts[s->n_texts++];
}

/* The head, then the lists, as put_all has put them. */
static int make_texts(struct serving *s)
{
	const struct manifest *m = &s->u->now;
	struct text *text = add_text(s);

	if (!text)
		return -ENOMEM;
	head_name(m->head.store_id, m->head.generation, text->name);
	head_print(m, &text->bytes);
	if (text->bytes.failed)
		return -ENOMEM;
	for (size_t next = 0; next < m->n;) {
		char sha[SHFS_SHA256_SIZE];

		text = add_text(s);
		if (!text)
			return -ENOMEM;
		list_print(m, &next, &text->bytes);
		if (text->bytes.failed)
			return -ENOMEM;
		shfs_sha256_of(text->bytes.data, text->bytes.len, sha);
		blob_name(m->head.store_id, sha, text->name);
	}
	return 0;
}

/* --- requests --- */

/* Appends the bytes of a blob, from its begin up to an end. */
static int read_blob(struct serving *s, const char *blob, uint64_t end)
{
	struct piece key_piece = { .at = 0 };
	const struct place_of_piece key = { .piece = &key_piece };
	size_t low = 0, high = s->n;

	snprintf(key_piece.blob, sizeof(key_piece.blob), "%s", blob);
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare_pieces(&s->pieces[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == s->n || strcmp(s->pieces[low].piece->blob, blob) != 0)
		return -ENOENT;
	for (; low < s->n && !strcmp(s->pieces[low].piece->blob, blob); low++) {
		const struct place_of_piece *p = &s->pieces[low];
		int r;

		/* two files may have the same bytes */
		if (p->piece->at < s->answer.len || s->answer.len >= end)
			continue;
		if (p->piece->at > s->answer.len)
			return -EIO;
		r = upload_read(s->u, p->file, p->at, p->piece->bytes, &s->bytes);
		if (r)
			return r;
		shfs_buf_add(&s->answer, s->bytes.data, s->bytes.len);
	}
	return s->answer.failed ? -ENOMEM : 0;
}

static int read_name(struct serving *s, const char *name, uint64_t end)
{
	const char *store_id = s->u->now.head.store_id, *blob;

	if (!strcmp(name, REMOTE_FORMAT_NAME)) {
		shfs_buf_str(&s->answer, REMOTE_FORMAT);
		return 0;
	}
	for (size_t i = 0; i < s->n_texts; i++)
		if (!strcmp(name, s->texts[i].name)) {
			shfs_buf_add(&s->answer, s->texts[i].bytes.data,
			             s->texts[i].bytes.len);
			return s->answer.failed ? -ENOMEM : 0;
		}
	blob = blob_parse_name(store_id, name);
	return blob && sha256_is_valid(blob) ? read_blob(s, blob, end) : -ENOENT;
}

static int send_answer(struct serving *s, int error, uint64_t offset, size_t len)
{
	const char *name = strerrorname_np(-error);
	char head[64];
	int r;

	if (error)
		snprintf(head, sizeof(head), "no %s\n", name ?: "EIO");
	offset = MIN(offset, (uint64_t)s->answer.len);
	len = MIN(len, s->answer.len - (size_t)offset);
	if (!error)
		snprintf(head, sizeof(head), "ok %zu\n", len);
	r = shfs_write_all(s->out, head, strlen(head));
	return r || error || !len ? r
	                          : shfs_write_all(s->out, s->answer.data + offset, len);
}

static int answer_line(struct serving *s, char *line)
{
	char name[REMOTE_NAME_SIZE];
	uint64_t offset, len;
	int end = 0, r = 0;

	s->answer.len = 0;
	if (sscanf(line, "get %159s %" SCNu64 " %" SCNu64 "%n", name, &offset, &len,
	           &end) == 3 &&
	    !line[end] && len <= SHFS_REMOTE_GET_MAX && offset <= UINT32_MAX) {
		r = read_name(s, name, offset + len);
		return send_answer(s, r, offset, len);
	}
	if (sscanf(line, "list %159s%n", name, &end) == 1 && !line[end]) {
		if (!strcmp(name, REMOTE_HEADS))
			shfs_buf_printf(&s->answer, "%zu %s\n", s->texts[0].bytes.len,
			                s->texts[0].name);
		return send_answer(s, s->answer.failed ? -ENOMEM : 0, 0, s->answer.len);
	}
	return -EPROTO;
}

/* Reads what comes, and answers each whole line. 1: the input has ended. */
static int answer_some(struct serving *s)
{
	struct pollfd p = { .fd = s->in, .events = POLLIN };
	char *newline;
	ssize_t n;
	int r = poll(&p, 1, SERVE_SILENCE_MS);

	if (r <= 0)
		return r < 0 && errno == EINTR ? 0 : r ? -errno : -ETIMEDOUT;
	if (s->n_line == sizeof(s->line))
		return -EPROTO;
	n = read(s->in, s->line + s->n_line, sizeof(s->line) - s->n_line);
	if (n <= 0)
		return !n ? 1 : errno == EINTR ? 0 : -errno;
	s->n_line += (size_t)n;
	r = 0;
	while (!r && (newline = memchr(s->line, '\n', s->n_line))) {
		size_t used = (size_t)(newline - s->line) + 1;

		*newline = '\0';
		r = answer_line(s, s->line);
		memmove(s->line, s->line + used, s->n_line - used);
		s->n_line -= used;
	}
	return r;
}

static int serve(struct upload *u, void *arg)
{
	const int *fds = arg;
	_cleanup_(
		serving_clear) struct serving s = { .u = u, .in = fds[0], .out = fds[1] };
	int r = find_pieces(&s);

	if (!r)
		r = make_texts(&s);
	if (!r)
		r = shfs_write_all(s.out, SERVE_GREETING, strlen(SERVE_GREETING));
	while (!r)
		r = answer_some(&s);
	return MIN(r, 0);
}

int serve_run(struct shfs_index *index, struct place *place, int in, int out)
{
	_cleanup_manifest_ struct manifest last = { 0 };
	int fds[] = { in, out }, r = place_read(place, "pushed", &last);
	struct nowhere nowhere = { .remote.kind = &kind_nowhere, .head = &last.head };
	const struct push_options options = { .at_end = serve, .arg = fds };
	struct push_stats stats;

	if (r && r != -ENOENT) /* then all of it is listed anew */
		manifest_clear(&last);
	r = push_run(index, place, &nowhere.remote, &options, &stats);
	shfs_buf_free(&nowhere.remote.why);
	return r;
}
