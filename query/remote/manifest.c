/* SPDX-License-Identifier: MIT */
#include "query/remote/manifest.h"

#include "common/clock.h"
#include "store/journal/journal.h"
#include "store/objects/object.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define HEAD_LINE     "shfs head "
#define LIST_LINE     "shfs list "
#define MANIFEST_LINE "shfs manifest "
#define VERSION       "1"
#define LIST_OF       256          /* files of a list, about */
#define LIST_BYTES    (256u << 10) /* a list that has so many ends */
#define FILES_MAX     (1u << 26)

void manifest_clear(struct manifest *m)
{
	for (size_t i = 0; i < m->n; i++) {
		free(m->files[i].name);
		free(m->files[i].pieces);
	}
	free(m->files);
	free(m->lists);
	*m = (struct manifest){ 0 };
}

struct remote_file *manifest_add(struct manifest *m, const char *name, uint64_t bytes)
{
	struct remote_file *file;

	if (!MAKE_ROOM(m->files, m->n, m->cap))
		return NULL;
	file = &m->files[m->n];
	*file = (struct remote_file){ .name = strdup(name), .bytes = bytes };
	m->n += file->name != NULL;
	return file->name ? file : NULL;
}

int manifest_add_piece(struct remote_file *file, const struct piece *piece)
{
	if (!MAKE_ROOM(file->pieces, file->n, file->cap))
		return -ENOMEM;
	file->pieces[file->n++] = *piece;
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct remote_file *)a)->name,
	              ((const struct remote_file *)b)->name);
}

void manifest_sort(struct manifest *m)
{
	if (m->n)
		qsort(m->files, m->n, sizeof(*m->files), compare_names);
}

struct remote_file *manifest_find(const struct manifest *m, const char *name)
{
	const struct remote_file key = { .name = (char *)name };

	return m->n ? bsearch(&key, m->files, m->n, sizeof(key), compare_names) : NULL;
}

struct file_state file_state_of(const struct stat *st)
{
	return (struct file_state){ (uint64_t)st->st_size, st->st_ino,
		                    shfs_timespec_ns(st->st_mtim),
		                    shfs_timespec_ns(st->st_ctim) };
}

bool remote_file_equal(const struct remote_file *a, const struct remote_file *b)
{
	if (a->bytes != b->bytes || a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->pieces[i].sha, b->pieces[i].sha) != 0)
			return false;
	return true;
}

int remote_file_copy_pieces(struct remote_file *to, const struct remote_file *from)
{
	int r = 0;

	to->n = 0;
	for (size_t i = 0; i < from->n && !r; i++)
		r = manifest_add_piece(to, &from->pieces[i]);
	return r;
}

struct remote_file *manifest_add_copy(struct manifest *m, const struct remote_file *from)
{
	struct remote_file *file = manifest_add(m, from->name, from->bytes);

	return file && !remote_file_copy_pieces(file, from) ? file : NULL;
}

/* --- lines --- */

/* Words of a line, without blanks in them. */
struct line {
	char *words[6];
	size_t n;
};

/* Cuts the next line off *text. False: there is none. */
static bool next_line(char **text, struct line *out)
{
	char *line = *text, *end = strchr(line, '\n'), *rest = NULL;

	if (!end)
		return false;
	*end = '\0';
	*text = end + 1;
	out->n = 0;
	for (char *word = strtok_r(line, " ", &rest); word && out->n < 6;
	     word = strtok_r(NULL, " ", &rest))
		out->words[out->n++] = word;
	return true;
}

static bool is_line(const struct line *l, const char *word, size_t n)
{
	return l->n == n && !strcmp(l->words[0], word);
}

static bool number(const char *word, uint64_t max, uint64_t *out)
{
	size_t len = strspn(word, "0123456789");
	uint64_t n;

	errno = 0;
	n = len && len <= 20 && !word[len] ? strtoull(word, NULL, 10) : UINT64_MAX;
	if (errno || n > max)
		return false;
	*out = n;
	return true;
}

static bool take_sha(const char *word, char out[static SHFS_SHA256_SIZE])
{
	if (!sha256_is_valid(word))
		return false;
	memcpy(out, word, SHFS_SHA256_SIZE);
	return true;
}

/* Does the text begin with such a line? Returns what follows: *rest. */
static int check_first_line(char *text, const char *what, char **rest)
{
	size_t len = strlen(what);
	char *end = strchr(text, '\n');

	if (strncmp(text, what, len) != 0 || !end)
		return -EBADMSG;
	*end = '\0';
	*rest = end + 1;
	return strcmp(text + len, VERSION) ? -EPROTONOSUPPORT : 0;
}

/* A copy that may be cut; NULL: no memory, or (*r) it has a NUL or no last line. */
static char *copy_text(const char *text, size_t len, int *r)
{
	char *copy = NULL;

	*r = -EBADMSG;
	if (!len || memchr(text, '\0', len) || text[len - 1] != '\n')
		return NULL;
	copy = strndup(text, len);
	*r = copy ? 0 : -ENOMEM;
	return copy;
}

/* --- heads --- */

static void print_head_lines(const struct manifest *m, struct shfs_buf *out)
{
	const struct remote_head *h = &m->head;

	shfs_buf_printf(out,
	                "store %s\ngeneration %" PRIu64 "\nrewrites %" PRIu64
	                "\ntime %" PRIu64 "\nhost %s\n",
	                h->store_id, h->generation, h->rewrites, (uint64_t)h->time_ns,
	                h->host);
	for (size_t i = 0; i < m->n_lists; i++)
		shfs_buf_printf(out, "list %" PRIu32 " %s %s\n", m->lists[i].bytes,
		                m->lists[i].sha, m->lists[i].blob);
}

/* 1: it was a line of a head; 0; -EBADMSG. */
static int take_head_line(const struct line *l, struct remote_head *h)
{
	uint64_t time;

	if (is_line(l, "store", 2) && store_id_is_valid(l->words[1])) {
		memcpy(h->store_id, l->words[1], STORE_ID_SIZE);
		return 1;
	}
	if (is_line(l, "host", 2) && shfs_journal_is_host(l->words[1])) {
		snprintf(h->host, sizeof(h->host), "%s", l->words[1]);
		return 1;
	}
	if (is_line(l, "generation", 2))
		return number(l->words[1], INT64_MAX - 1, &h->generation) ? 1 : -EBADMSG;
	if (is_line(l, "rewrites", 2))
		return number(l->words[1], INT64_MAX, &h->rewrites) ? 1 : -EBADMSG;
	if (!is_line(l, "time", 2))
		return 0;
	if (!number(l->words[1], INT64_MAX, &time))
		return -EBADMSG;
	h->time_ns = (int64_t)time;
	return 1;
}

static bool has_head(const struct remote_head *h)
{
	return *h->store_id && *h->host && h->generation;
}

/* The sum of all lines before it, which is the last line. */
static void print_sum(struct shfs_buf *out)
{
	char sum[SHFS_SHA256_SIZE];

	if (out->failed)
		return;
	shfs_sha256_of(out->data, out->len, sum);
	shfs_buf_printf(out, "sum %s\n", sum);
}

/* Cuts the last line off. */
static int check_sum(char *text)
{
	size_t len = strlen(text), tail = strlen("sum \n") + SHFS_SHA256_SIZE - 1;
	char sum[SHFS_SHA256_SIZE + 8];

	if (len < tail)
		return -EBADMSG;
	snprintf(sum, sizeof(sum), "sum ");
	shfs_sha256_of(text, len - tail, sum + 4);
	strcat(sum, "\n");
	if (strcmp(text + len - tail, sum) != 0)
		return -EBADMSG;
	text[len - tail] = '\0';
	return 0;
}

void head_print(const struct manifest *m, struct shfs_buf *out)
{
	shfs_buf_str(out, HEAD_LINE VERSION "\n");
	print_head_lines(m, out);
	print_sum(out);
}

static int take_list_line(const struct line *l, struct manifest *m)
{
	struct list_ref list;
	uint64_t bytes;

	if (!is_line(l, "list", 4) || !number(l->words[1], LIST_MAX, &bytes) ||
	    !take_sha(l->words[2], list.sha) || !take_sha(l->words[3], list.blob))
		return -EBADMSG;
	list.bytes = (uint32_t)bytes;
	if (!MAKE_ROOM(m->lists, m->n_lists, m->cap_lists))
		return -ENOMEM;
	m->lists[m->n_lists++] = list;
	return 0;
}

int head_parse(const char *text, size_t len, struct manifest *out)
{
	_cleanup_manifest_ struct manifest m = { 0 };
	int r;
	_cleanup_free_ char *copy = copy_text(text, len, &r);
	char *rest;
	struct line l;

	if (!r && strncmp(copy, HEAD_LINE, strlen(HEAD_LINE)))
		r = -EBADMSG;
	/* of another version, all but the first line may be otherwise */
	if (!r && !strncmp(copy, HEAD_LINE VERSION "\n", strlen(HEAD_LINE VERSION "\n")))
		r = check_sum(copy);
	if (!r)
		r = check_first_line(copy, HEAD_LINE, &rest);
	while (!r && next_line(&rest, &l)) {
		r = take_head_line(&l, &m.head);
		if (!r)
			r = take_list_line(&l, &m);
		r = MIN(r, 0);
	}
	if (!r && (*rest || !has_head(&m.head)))
		r = -EBADMSG;
	if (r)
		return r;
	*out = m;
	m = (struct manifest){ 0 };
	return 0;
}

/* --- lists --- */

static void print_file(const struct remote_file *f, bool with_state, struct shfs_buf *out)
{
	shfs_buf_printf(out, "file %" PRIu64 " %s\n", f->bytes, f->name);
	if (with_state && f->state.ino)
		shfs_buf_printf(out,
		                "state %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
		                f->state.bytes, f->state.ino,
		                (uint64_t)MAX(f->state.mtime_ns, 0),
		                (uint64_t)MAX(f->state.ctime_ns, 0));
	for (size_t i = 0; i < f->n; i++)
		shfs_buf_printf(out, "piece %" PRIu32 " %s %s %" PRIu32 "\n",
		                f->pieces[i].bytes, f->pieces[i].sha, f->pieces[i].blob,
		                f->pieces[i].at);
}

/* Is it a file whose list ends with it? By its name alone, so that lists stay the same
 * when files before them come and go. */
static bool ends_list(const struct remote_file *f)
{
	return shfs_object_hash64(f->name, strlen(f->name)) % LIST_OF == 0;
}

void list_print(const struct manifest *m, size_t *next, struct shfs_buf *out)
{
	shfs_buf_str(out, LIST_LINE VERSION "\n");
	for (bool ended = false; *next < m->n && !ended; ++*next) {
		print_file(&m->files[*next], false, out);
		ended = ends_list(&m->files[*next]) || out->len >= LIST_BYTES;
	}
}

static int take_file(const struct line *l, struct manifest *m)
{
	uint64_t bytes;

	if (!number(l->words[1], INT64_MAX, &bytes) || m->n >= FILES_MAX ||
	    strlen(l->words[2]) > FILE_NAME_MAX || !file_kind_of(l->words[2]) ||
	    (m->n && strcmp(m->files[m->n - 1].name, l->words[2]) >= 0))
		return -EBADMSG;
	return manifest_add(m, l->words[2], bytes) ? 0 : -ENOMEM;
}

static int take_piece(const struct line *l, struct remote_file *file)
{
	struct piece piece;
	uint64_t bytes, at;

	if (!number(l->words[1], PIECE_BYTES, &bytes) || !bytes ||
	    !take_sha(l->words[2], piece.sha) || !take_sha(l->words[3], piece.blob) ||
	    !number(l->words[4], PIECE_BYTES, &at))
		return -EBADMSG;
	piece.bytes = (uint32_t)bytes;
	piece.at = (uint32_t)at;
	return manifest_add_piece(file, &piece);
}

static int take_state(const struct line *l, struct remote_file *file)
{
	uint64_t n[4];

	for (int i = 0; i < 4; i++)
		if (!number(l->words[i + 1], UINT64_MAX - 1, &n[i]))
			return -EBADMSG;
	file->state = (struct file_state){ n[0], n[1], (int64_t)n[2], (int64_t)n[3] };
	return 0;
}

/* Has the file all of its pieces, each but the last one whole? */
static bool is_complete(const struct remote_file *f)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < f->n; i++) {
		if (i + 1 < f->n && f->pieces[i].bytes != PIECE_BYTES)
			return false;
		bytes += f->pieces[i].bytes;
	}
	return bytes == f->bytes;
}

static int take_file_line(const struct line *l, struct manifest *m)
{
	struct remote_file *last = m->n ? &m->files[m->n - 1] : NULL;

	if (is_line(l, "file", 3)) {
		if (last && !is_complete(last))
			return -EBADMSG;
		return take_file(l, m);
	}
	if (is_line(l, "piece", 5) && last)
		return take_piece(l, last);
	return is_line(l, "state", 5) && last ? take_state(l, last) : -EBADMSG;
}

int list_parse(const char *text, size_t len, struct manifest *m)
{
	int r;
	_cleanup_free_ char *copy = copy_text(text, len, &r);
	char *rest;
	struct line l;

	if (!r)
		r = check_first_line(copy, LIST_LINE, &rest);
	while (!r && next_line(&rest, &l))
		r = take_file_line(&l, m);
	if (!r && m->n && !is_complete(&m->files[m->n - 1]))
		r = -EBADMSG;
	return r;
}

/* --- all of it --- */

void manifest_print(const struct manifest *m, struct shfs_buf *out)
{
	shfs_buf_str(out, MANIFEST_LINE VERSION "\n");
	print_head_lines(m, out);
	for (size_t i = 0; i < m->n; i++)
		print_file(&m->files[i], true, out);
	print_sum(out);
}

int manifest_parse(const char *text, size_t len, struct manifest *out)
{
	_cleanup_manifest_ struct manifest m = { 0 };
	int r;
	_cleanup_free_ char *copy = copy_text(text, len, &r);
	char *rest;
	struct line l;

	if (!r)
		r = check_sum(copy);
	if (!r)
		r = check_first_line(copy, MANIFEST_LINE, &rest);
	while (!r && next_line(&rest, &l)) {
		r = m.n ? 0 : take_head_line(&l, &m.head);
		if (!r && !m.n && is_line(&l, "list", 4))
			r = take_list_line(&l, &m) ?: 1;
		if (!r)
			r = take_file_line(&l, &m);
		r = MIN(r, 0);
	}
	if (!r && (!has_head(&m.head) || (m.n && !is_complete(&m.files[m.n - 1]))))
		r = -EBADMSG;
	if (r)
		return r;
	*out = m;
	m = (struct manifest){ 0 };
	return 0;
}
