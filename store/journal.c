/* SPDX-License-Identifier: MIT */
#include "store/journal.h"

#include "common/io.h"
#include "common/proc.h"
#include "store/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <xxhash.h>
#include <zstd.h>

#define ROTATE_BYTES (16 << 20)
#define SEAL_LEVEL   3

struct shfs_journal {
	struct shfs_store *store; /* borrowed */
	char *kind, *root;
	uint64_t rotate_bytes;
	char boot_id[37];
	char instance[33]; /* hex */
	struct shfs_proc_stat self;
	uint64_t pid_namespace;
	uint32_t pid_max, segment;
	int fd;
	uint64_t size; /* of the current segment: all of it whole records */
	uint64_t seq;  /* last one written */
	bool torn;     /* behind size there is what a failed append left */
};

static void segment_name(const struct shfs_journal *j, uint32_t n, char *out, size_t size)
{
	snprintf(out, size, "%s-%.8s-%.8s-%06" PRIu32 ".seg", j->kind, j->boot_id,
	         j->instance, n);
}

static void add_frame(struct shfs_buf *b, const struct shfs_record *rec,
                      struct shfs_time time, const struct shfs_buf *payload)
{
	size_t start = b->len;

	shfs_buf_u32(b, SHFS_FRAME_MAGIC);
	shfs_buf_u32(b, payload->len);
	shfs_buf_u16(b, rec->type);
	shfs_buf_u16(b, 0);
	shfs_buf_u64(b, rec->seq);
	shfs_buf_u64(b, time.real_ns);
	shfs_buf_u64(b, time.boot_ns);
	shfs_buf_add(b, payload->data, payload->len);
	if (!b->failed)
		shfs_buf_u64(b, XXH3_64bits(b->data + start, b->len - start));
}

static int encode(struct shfs_buf *b, const struct shfs_record *rec)
{
	_cleanup_buf_ struct shfs_buf payload = { 0 };
	int r = shfs_record_encode(rec, &payload);

	if (r)
		return r;
	if (payload.len > SHFS_PAYLOAD_MAX)
		return -EMSGSIZE;
	add_frame(b, rec, rec->time.real_ns ? rec->time : shfs_time_now(), &payload);
	return b->failed ? -ENOMEM : 0;
}

/* The bytes of the whole frames among the first len of b, and their number. */
static size_t whole_frames(const struct shfs_buf *b, size_t len, size_t *n)
{
	const unsigned char *p = (const unsigned char *)b->data, *end = p + len;

	for (*n = 0;; ++*n) {
		struct shfs_cursor at = { p, end, false };
		uint32_t magic = shfs_cursor_u32(&at), payload = shfs_cursor_u32(&at);

		if (magic != SHFS_FRAME_MAGIC ||
		    (size_t)(end - p) < SHFS_FRAME_HEAD + payload + SHFS_FRAME_TAIL)
			return len - (size_t)(end - p);
		p += SHFS_FRAME_HEAD + payload + SHFS_FRAME_TAIL;
	}
}

/*
 * Appends frames. What a failed write left is cut back to whole ones; these stay, as a
 * reader may have taken them. *n: how many there are of b's.
 */
static int append_frames(struct shfs_journal *j, const struct shfs_buf *b, size_t *n)
{
	struct stat st;
	size_t len = b->len;
	int r;

	*n = 0;
	if (j->torn && ftruncate(j->fd, j->size))
		return -errno;
	r = shfs_write_all(j->fd, b->data, b->len);
	if (r)
		len = fstat(j->fd, &st) ? 0 : MIN((uint64_t)st.st_size - j->size, b->len);
	j->size += whole_frames(b, len, n);
	j->torn = r && ftruncate(j->fd, j->size);
	return r;
}

static int start_segment(struct shfs_journal *j)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_record rec = {
		.type = SHFS_REC_PRODUCER,
		.seq = j->seq,
		.producer = {
			.version = SHFS_RECORD_VERSION,
			.host = shfs_bytes_str(j->store->host),
			.boot_id = shfs_bytes_str(j->boot_id),
			.kind = shfs_bytes_str(j->kind),
			.instance = shfs_bytes_str(j->instance),
			.root = shfs_bytes_str(j->root),
			.software = shfs_bytes_str("shfs " SHFS_VERSION),
			.pid_namespace = j->pid_namespace,
			.pid = j->self.pid,
			.uid = geteuid(),
			.start_ticks = j->self.start_ticks,
			.segment = j->segment,
			.pid_max = j->pid_max,
		},
	};
	char name[256];
	int r;

	segment_name(j, j->segment, name, sizeof(name));
	j->fd = openat(j->store->journal_fd, name,
	               O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC,
	               0600);
	if (j->fd < 0)
		return -errno;
	j->size = 0;
	shfs_buf_add(&b, SHFS_SEGMENT_MAGIC, SHFS_SEGMENT_MAGIC_LEN);
	r = encode(&b, &rec);
	if (!r)
		r = shfs_write_all(j->fd, b.data, b.len);
	if (!r)
		j->size = b.len;
	if (!r && (fsync(j->fd) || fsync(j->store->journal_fd)))
		r = -errno;
	if (r) {
		shfs_closep(&j->fd);
		j->fd = -1;
		unlinkat(j->store->journal_fd, name, 0);
	}
	return r;
}

static uint32_t read_pid_max(void)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };

	if (shfs_read_file_at(AT_FDCWD, "/proc/sys/kernel/pid_max", 32, &text))
		return 32768;
	return strtoul(text.data, NULL, 10);
}

static int identify(struct shfs_journal *j)
{
	_cleanup_close_ int procfd = shfs_proc_open(getpid());
	unsigned char random[16];
	int r;

	if (procfd < 0)
		return procfd;
	if ((r = shfs_proc_read_stat(procfd, &j->self)) ||
	    (r = shfs_proc_boot_id(j->boot_id)) ||
	    (r = shfs_proc_pid_namespace(&j->pid_namespace)))
		return r;
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(j->instance + 2 * i, 3, "%02x", random[i]);
	j->pid_max = read_pid_max();
	return 0;
}

static void journal_free(struct shfs_journal *j)
{
	if (!j)
		return;
	shfs_closep(&j->fd);
	free(j->kind);
	free(j->root);
	free(j);
}

int shfs_journal_open(struct shfs_store *store,
                      const struct shfs_journal_options *options,
                      struct shfs_journal **out)
{
	struct shfs_journal *j = calloc(1, sizeof(*j));
	int r = -ENOMEM;

	if (!j)
		return r;
	j->fd = -1;
	j->store = store;
	j->kind = strdup(options->kind);
	j->root = strdup(options->root);
	j->rotate_bytes = options->rotate_bytes ? options->rotate_bytes : ROTATE_BYTES;
	if (j->kind && j->root)
		r = identify(j);
	if (!r)
		r = start_segment(j);
	if (r) {
		journal_free(j);
		return r;
	}
	*out = j;
	return 0;
}

/* Compresses bytes into name.zst, durable before it is visible. */
static int write_sealed(int dirfd, const char *name, const struct shfs_buf *b)
{
	size_t cap = ZSTD_compressBound(b->len), n;
	_cleanup_free_ void *packed = malloc(cap);
	char sealed[260];

	if (!packed)
		return -ENOMEM;
	n = ZSTD_compress(packed, cap, b->data, b->len, SEAL_LEVEL);
	if (ZSTD_isError(n))
		return -EIO;
	snprintf(sealed, sizeof(sealed), "%s.zst", name);
	return shfs_write_file_at(dirfd, sealed, 0600, packed, n);
}

/* Sealing only saves space: whatever fails, the segment as it was written stays. */
static void seal(struct shfs_journal *j, uint32_t n)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	char name[256];

	segment_name(j, n, name, sizeof(name));
	if (shfs_read_file_at(j->store->journal_fd, name, SHFS_SEGMENT_MAX, &b) ||
	    write_sealed(j->store->journal_fd, name, &b))
		return;
	unlinkat(j->store->journal_fd, name, 0);
}

static int rotate(struct shfs_journal *j)
{
	uint64_t old_size = j->size;
	int old = j->fd, r;

	if (fdatasync(old))
		return -errno;
	j->segment++;
	r = start_segment(j);
	if (r) { /* no room for a new one: go on in the old one */
		j->segment--;
		j->fd = old;
		j->size = old_size;
		return 0;
	}
	close(old);
	seal(j, j->segment - 1);
	return 0;
}

int shfs_journal_append(struct shfs_journal *j, const struct shfs_record *const *records,
                        size_t n, size_t *appended)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	size_t done;
	int r;

	*appended = 0;
	for (size_t i = 0; i < n; i++)
		if ((r = encode(&b, records[i])))
			return r;
	if (j->size >= j->rotate_bytes && (r = rotate(j)))
		return r;
	r = append_frames(j, &b, &done);
	if (done)
		j->seq = records[done - 1]->seq;
	*appended = done;
	return r;
}

int shfs_journal_sync(struct shfs_journal *j)
{
	return fdatasync(j->fd) ? -errno : 0;
}

int shfs_journal_close(struct shfs_journal *j)
{
	struct shfs_record end = { .type = SHFS_REC_END };
	const struct shfs_record *records[] = { &end };
	size_t appended;
	int r;

	if (!j)
		return 0;
	end.seq = j->seq + 1;
	end.time = shfs_time_now();
	r = shfs_journal_append(j, records, 1, &appended);
	if (!r)
		r = shfs_journal_sync(j);
	if (!r)
		seal(j, j->segment);
	journal_free(j);
	return r;
}
