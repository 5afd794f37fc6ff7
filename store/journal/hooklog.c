/* SPDX-License-Identifier: MIT */
#include "store/journal/hooklog.h"

#include "common/io.h"
#include "store/journal/origin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#define HOOKLOG_MAX_BYTES (1u << 30)
#define FIELDS_MAX        16
#define BLANK             "\x1eX1" /* then a NUL, blanks and LF */
#define TAG_BYTES         sizeof("S1")

struct shfs_hooklog {
	struct shfs_buf text;
	uint64_t base; /* offset in the file of the first byte of text */
	size_t pos;    /* offset in text of the end of the last whole record */
	size_t begin;  /* offset in text of the begin of that record */
	uint64_t damaged;
};

static int hooklog_new(struct shfs_hooklog **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

int shfs_hooklog_from_memory(const void *data, size_t len, struct shfs_hooklog **out)
{
	struct shfs_hooklog *log;
	int r = hooklog_new(&log);

	if (r)
		return r;
	shfs_buf_add(&log->text, data, len);
	if (log->text.failed) {
		shfs_hooklog_close(log);
		return -ENOMEM;
	}
	*out = log;
	return 0;
}

int shfs_hooklog_open(int dirfd, const char *name, uint64_t offset,
                      struct shfs_hooklog **out)
{
	_cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct shfs_hooklog *log;
	int r;

	if (fd < 0)
		return -errno;
	if (lseek(fd, offset, SEEK_SET) < 0)
		return -errno;
	r = hooklog_new(&log);
	if (r)
		return r;
	r = shfs_read_fd(fd, HOOKLOG_MAX_BYTES, &log->text);
	if (r) {
		shfs_hooklog_close(log);
		return r;
	}
	log->base = offset;
	*out = log;
	return 0;
}

void shfs_hooklog_close(struct shfs_hooklog *log)
{
	if (!log)
		return;
	shfs_buf_free(&log->text);
	free(log);
}

uint64_t shfs_hooklog_offset(const struct shfs_hooklog *log)
{
	return log->base + log->pos;
}

uint64_t shfs_hooklog_begin(const struct shfs_hooklog *log)
{
	return log->base + log->begin;
}

uint64_t shfs_hooklog_damaged(const struct shfs_hooklog *log)
{
	return log->damaged;
}

static int parse_uint(struct shfs_bytes f, uint64_t *out)
{
	uint64_t v = 0;

	if (!f.len || f.len > 20)
		return -EBADMSG;
	for (size_t i = 0; i < f.len; i++) {
		if (f.data[i] < '0' || f.data[i] > '9' ||
		    __builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(f.data[i] - '0'), &v))
			return -EBADMSG;
	}
	*out = v;
	return 0;
}

static int parse_u32(struct shfs_bytes f, uint32_t *out)
{
	uint64_t v;

	if (parse_uint(f, &v) || v > UINT32_MAX)
		return -EBADMSG;
	*out = v;
	return 0;
}

/* Seconds with up to nine decimals behind '.' or ',' (as the locale has it), in
 * nanoseconds. */
static int parse_seconds(struct shfs_bytes f, uint64_t *ns, int *decimals)
{
	size_t dot = 0, n;
	uint64_t sec, part = 0;

	while (dot < f.len && f.data[dot] != '.' && f.data[dot] != ',')
		dot++;
	n = dot < f.len ? f.len - dot - 1 : 0;
	if (n > 9 || parse_uint((struct shfs_bytes){ f.data, dot }, &sec) ||
	    (n && parse_uint((struct shfs_bytes){ f.data + dot + 1, n }, &part)) ||
	    sec > INT64_MAX / SHFS_NSEC_PER_SEC - 1)
		return -EBADMSG;
	for (size_t i = n; i < 9; i++)
		part *= 10;
	*ns = sec * SHFS_NSEC_PER_SEC + part;
	*decimals = n;
	return 0;
}

static int parse_times(const struct shfs_bytes *real, struct shfs_record *rec)
{
	uint64_t ns;
	int decimals;

	if (parse_seconds(real[0], &ns, &decimals))
		return -EBADMSG;
	rec->time.real_ns = ns;
	if (parse_seconds(real[1], &rec->time.boot_ns, &decimals))
		return -EBADMSG;
	rec->boot_resolution_ns = decimals == 9 ? 1 : 10000000;
	return 0;
}

/* S1 seq pid start_ticks boot_id pidns real boot host shell tty cwd seq */
static int parse_session(const struct shfs_bytes *f, struct shfs_record *rec)
{
	struct shfs_rec_session *s = &rec->session;

	if (parse_u32(f[2], &s->pid) || parse_uint(f[3], &s->start_ticks) ||
	    parse_uint(f[5], &s->pid_namespace) || parse_times(f + 6, rec))
		return -EBADMSG;
	s->boot_id = f[4];
	s->host = f[8];
	s->shell = f[9];
	s->tty = f[10];
	s->cwd = f[11];
	return 0;
}

/* B1 seq number real boot lastpid hidden cwd text seq; B2: redacted */
static int parse_begin(const struct shfs_bytes *f, struct shfs_record *rec)
{
	struct shfs_rec_begin *b = &rec->begin;

	if (parse_uint(f[2], &b->number) || parse_times(f + 3, rec) ||
	    parse_u32(f[5], &b->last_pid) || parse_u32(f[6], &b->hidden) || b->hidden > 1)
		return -EBADMSG;
	b->redacted = f[0].data[1] == '2';
	b->cwd = f[7];
	b->text = f[8];
	return 0;
}

/* F1 seq number real boot lastpid status seq; F2: status user system maxrss seq */
static int parse_finish(const struct shfs_bytes *f, struct shfs_record *rec)
{
	struct shfs_rec_finish *e = &rec->finish;
	struct shfs_bytes status = f[6];
	bool negative = status.len && *status.data == '-';
	uint32_t v;

	if (negative) {
		status.data++;
		status.len--;
	}
	if (parse_uint(f[2], &e->number) || parse_times(f + 3, rec) ||
	    parse_u32(f[5], &e->last_pid) || parse_u32(status, &v) || v > INT32_MAX)
		return -EBADMSG;
	e->status = negative ? -(int32_t)v : (int32_t)v;
	e->has_usage = f[0].data[1] == '2';
	return e->has_usage && (parse_uint(f[7], &e->user_us) ||
	                        parse_uint(f[8], &e->system_us) ||
	                        parse_uint(f[9], &e->max_rss_kib))
	               ? -EBADMSG
	               : 0;
}

/* D1 seq kind kept name body seq */
static int parse_definition(const struct shfs_bytes *f, struct shfs_record *rec)
{
	struct shfs_rec_definition *d = &rec->definition;

	if (f[2].len != 1 || parse_u32(f[3], &d->kept) ||
	    d->kept > SHFS_DEFINITION_LEFT_OUT)
		return -EBADMSG;
	d->kind = *f[2].data;
	d->name = f[4];
	d->body = f[5];
	return 0;
}

bool shfs_hooklog_next_use(struct shfs_bytes *list, uint64_t *seq)
{
	const char *blank = memchr(list->data, ' ', list->len);
	struct shfs_bytes number = { list->data,
		                     blank ? (size_t)(blank - list->data) : list->len };
	size_t taken = number.len + (blank != NULL);

	if (parse_uint(number, seq))
		return false;
	list->data += taken;
	list->len -= taken;
	return true;
}

/* U1 seq number more list seq */
static int parse_uses(const struct shfs_bytes *f, struct shfs_record *rec)
{
	struct shfs_rec_uses *u = &rec->uses;
	struct shfs_bytes list = f[4];
	uint64_t seq;

	if (parse_uint(f[2], &u->number) || parse_u32(f[3], &u->more) || u->more > 1)
		return -EBADMSG;
	u->list = f[4];
	while (list.len)
		if (!shfs_hooklog_next_use(&list, &seq))
			return -EBADMSG;
	return 0;
}

/* O1 seq value seq */
static int parse_origin(const struct shfs_bytes *f, struct shfs_record *rec)
{
	struct shfs_origin origin;

	rec->origin.value = f[2];
	return shfs_origin_parse(f[2], &origin);
}

/* The records: how many fields each has between RS and LF, with the tag and both sequence
 * numbers, and what parses them. */
static const struct {
	char tag[4];
	enum shfs_record_type type;
	int fields;
	int (*parse)(const struct shfs_bytes *f, struct shfs_record *rec);
} layouts[] = {
	{ "S1", SHFS_REC_SESSION, 12, parse_session },
	{ "B1", SHFS_REC_BEGIN, 9, parse_begin },
	{ "B2", SHFS_REC_BEGIN, 9, parse_begin },
	{ "F1", SHFS_REC_FINISH, 7, parse_finish },
	{ "F2", SHFS_REC_FINISH, 10, parse_finish },
	{ "D1", SHFS_REC_DEFINITION, 6, parse_definition },
	{ "U1", SHFS_REC_USES, 5, parse_uses },
	{ "O1", SHFS_REC_ORIGIN, 3, parse_origin },
};

/* Gets the next field from *p on: the bytes up to a NUL. Returns false if no field ends
 * before end. */
static bool next_field(const char **p, const char *end, struct shfs_bytes *out)
{
	const char *nul = memchr(*p, '\0', end - *p);

	if (!nul)
		return false;
	*out = (struct shfs_bytes){ *p, nul - *p };
	*p = nul + 1;
	return true;
}

static int layout_of(struct shfs_bytes tag)
{
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		if (tag.len == strlen(layouts[i].tag) &&
		    !memcmp(tag.data, layouts[i].tag, tag.len))
			return i;
	return -1;
}

/*
 * Parses a record that starts at p. 1: it is whole and valid, and *next is its end; 0: it
 * is not whole; -EBADMSG: it is not a record.
 */
static int parse_record(const char *p, const char *end, const char **next,
                        struct shfs_record *rec)
{
	struct shfs_bytes f[FIELDS_MAX];
	int kind, n = 0, r;
	uint64_t last;

	if (p == end)
		return 0;
	if (*p++ != '\x1e')
		return -EBADMSG;
	if (!next_field(&p, p + MIN((size_t)(end - p), TAG_BYTES), &f[n++]))
		return (size_t)(end - p) < TAG_BYTES ? 0 : -EBADMSG;
	kind = layout_of(f[0]);
	if (kind < 0)
		return -EBADMSG;
	shfs_assert(layouts[kind].fields < FIELDS_MAX);
	for (; n <= layouts[kind].fields; n++)
		if (!next_field(&p, end, &f[n]))
			return 0;
	if (p == end)
		return 0;
	*rec = (struct shfs_record){ .type = layouts[kind].type };
	if (*p++ != '\n' || parse_uint(f[1], &rec->seq) || parse_uint(f[n - 1], &last) ||
	    last != rec->seq)
		return -EBADMSG;
	r = layouts[kind].parse(f, rec);
	*next = p;
	return r ? r : 1;
}

void shfs_hooklog_blank(char *record, size_t len)
{
	shfs_assert(len > sizeof(BLANK));
	memset(record, ' ', len);
	memcpy(record, BLANK, sizeof(BLANK));
	record[len - 1] = '\n';
}

/* Returns the end of the blank record that begins at p; NULL: there is none at p. */
static const char *behind_blank(const char *p, const char *end)
{
	if ((size_t)(end - p) <= sizeof(BLANK) || memcmp(p, BLANK, sizeof(BLANK)))
		return NULL;
	for (p += sizeof(BLANK); p < end && *p == ' '; p++)
		;
	return p < end && *p == '\n' ? p + 1 : NULL;
}

bool shfs_hooklog_is_blank(const char *record, size_t len)
{
	return behind_blank(record, record + len) == record + len;
}

int shfs_hooklog_next(struct shfs_hooklog *log, struct shfs_record *rec)
{
	const char *end = log->text.data + log->text.len, *next;
	const char *start = log->text.data + log->pos, *p = start;
	size_t blanks = 0; /* bytes of blank records from start on */
	bool whole = true; /* false: bytes from start on may still become a record */

	while (p && p < end) {
		bool blank = (next = behind_blank(p, end));
		int r = blank ? 1 : parse_record(p, end, &next, rec);

		shfs_assert(r != 1 || (next > p && next <= end));
		if (r == 1 && (!blank || whole)) {
			shfs_assert((size_t)(p - start) >= blanks);
			log->damaged += (size_t)(p - start) - blanks;
			log->begin = p - log->text.data;
			log->pos = next - log->text.data;
			if (!blank)
				return 1;
			start = p = next;
			blanks = 0;
			continue;
		}
		if (blank) { /* or part of a record that is not whole yet */
			blanks += (size_t)(next - p);
			p = next;
			continue;
		}
		/* A record that is not whole is still being written, or was cut off by a
		 * full disk. Only a whole record behind it shows the latter. */
		whole = whole && r;
		p = memchr(p + 1, '\x1e', end - p - 1);
	}
	return 0;
}

uint64_t shfs_hooklog_tail(const struct shfs_hooklog *log, bool *damaged)
{
	size_t n = log->text.len - log->pos;
	const char *p = log->text.data + log->pos, *next;
	struct shfs_record rec;

	shfs_assert(log->pos <= log->text.len);
	/* A record ends in LF. */
	*damaged = n && (p[n - 1] == '\n' || parse_record(p, p + n, &next, &rec) < 0);
	return n;
}
