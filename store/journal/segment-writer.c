/* SPDX-License-Identifier: MIT */
/* The writing half of journal.h: one writer of each segment. */
#include "store/journal/journal.h"

#include "common/debug.h"
#include "common/io.h"
#include "common/proc.h"
#include "store/journal/frame.h"
#include "store/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <xxhash.h>
#include <zstd.h>

#define ROTATE_BYTES (16 << 20)
#define SEAL_LEVEL   11 /* a second for a full segment, 4 us for a record */
#define SEAL_WINDOW  24 /* log2: all of a segment */

struct shfs_journal {
	struct shfs_store *store; /* borrowed */
	char *root;
	uint64_t rotate_bytes;
	struct shfs_journal_identity id, *told;
	int fd;
	uint64_t size; /* bytes of the current segment that are whole frames */
	uint64_t seq;  /* of the last record written */
	bool torn;     /* a failed append has left bytes behind size */
	struct shfs_record_context context;
	struct shfs_buf frame; /* the frame that is being made */
};

static void put_length(struct shfs_buf *frame, uint32_t len)
{
	shfs_assert(frame->len >= SHFS_FRAME_HEAD && len <= SHFS_PAYLOAD_MAX);
	for (int i = 0; i < 4; i++)
		frame->data[4 + i] = (char)(len >> 8 * i);
}

static void segment_name(const struct shfs_journal_identity *id, uint32_t n, char *out,
                         size_t size)
{
	snprintf(out, size, "%s-%.8s-%.8s-%06" PRIu32 ".seg", id->kind, id->boot_id,
	         id->instance, n);
}

/*
 * Makes a frame of the first records, at least of one; *n is how many. A record that
 * cannot be packed ends the frame; if it is the first, its error is returned.
 */
static int make_frame(struct shfs_journal *j, const struct shfs_record *const *records,
                      size_t max, size_t *n)
{
	struct shfs_buf *b = &j->frame;
	size_t len = SHFS_FRAME_HEAD;
	int r = 0;

	shfs_assert(max);
	shfs_record_context_reset(&j->context);
	b->len = 0;
	shfs_buf_u32(b, SHFS_FRAME_MAGIC);
	shfs_buf_u32(b, 0);
	for (*n = 0; *n < max && len < SHFS_FRAME_HEAD + SHFS_BATCH_BYTES; ++*n) {
		r = shfs_record_pack(&j->context, records[*n], b);
		if (!r && b->len > SHFS_FRAME_HEAD + SHFS_PAYLOAD_MAX)
			r = -EMSGSIZE;
		if (r)
			break;
		len = b->len;
	}
	if (r == -ENOMEM) { /* the next frame may find memory */
		shfs_record_context_free(&j->context);
		j->context = (struct shfs_record_context){ 0 };
		shfs_buf_free(b);
		*n = 0;
	}
	if (!*n)
		return r;
	shfs_assert(*n <= max && len <= b->len);
	b->len = len;
	put_length(b, len - SHFS_FRAME_HEAD);
	shfs_buf_u64(b, XXH3_64bits(b->data, b->len));
	return b->failed ? -ENOMEM : 0;
}

/*
 * Appends the frame. The bytes of a failed write are cut off again: a frame's checksum
 * comes last, so no reader has taken any of them.
 */
static int append_frame(struct shfs_journal *j)
{
	int r;

	shfs_assert(j->fd >= 0 && j->frame.len > SHFS_FRAME_HEAD + SHFS_FRAME_TAIL);
	shfs_assert(j->size >= SHFS_SEGMENT_MAGIC_LEN);
	r = shfs_write_all(j->fd, j->frame.data, j->frame.len);
	if (!r) {
		j->size += j->frame.len;
		return 0;
	}
	j->torn = ftruncate(j->fd, j->size);
	shfs_debug(JOURNAL,
	           "segment %" PRIu32 ": not written, cut back to %" PRIu64 " bytes: %s",
	           j->id.segment, j->size, strerrordesc_np(-r));
	return r;
}

static int start_segment(struct shfs_journal *j)
{
	struct shfs_record rec = {
		.type = SHFS_REC_PRODUCER,
		.seq = j->seq,
		.time = shfs_time_now(),
		.producer = {
			.version = SHFS_RECORD_VERSION,
			.host = shfs_bytes_str(j->store->host),
			.boot_id = shfs_bytes_str(j->id.boot_id),
			.kind = shfs_bytes_str(j->id.kind),
			.instance = shfs_bytes_str(j->id.instance),
			.root = shfs_bytes_str(j->root),
			.software = shfs_bytes_str("shfs " SHFS_VERSION),
			.pid_namespace = j->id.pid_namespace,
			.pid = j->id.pid,
			.uid = geteuid(),
			.start_ticks = j->id.start_ticks,
			.segment = j->id.segment,
			.pid_max = j->id.pid_max,
		},
	};
	const struct shfs_record *records = &rec;
	char name[256];
	size_t n;
	int r;

	segment_name(&j->id, j->id.segment, name, sizeof(name));
	j->fd = openat(j->store->journal_fd, name,
	               O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC,
	               0600);
	if (j->fd < 0)
		return -errno;
	j->size = 0;
	r = shfs_write_all(j->fd, SHFS_SEGMENT_MAGIC, SHFS_SEGMENT_MAGIC_LEN);
	if (!r)
		j->size = SHFS_SEGMENT_MAGIC_LEN;
	if (!r)
		r = make_frame(j, &records, 1, &n);
	if (!r)
		r = append_frame(j);
	if (!r && (fsync(j->fd) || fsync(j->store->journal_fd)))
		r = -errno;
	if (r) {
		shfs_debug(JOURNAL, "%s: not begun: %s", name, strerrordesc_np(-r));
		shfs_closep(&j->fd);
		j->fd = -1;
		unlinkat(j->store->journal_fd, name, 0);
		return r;
	}
	shfs_debug(JOURNAL, "%s: begun, with records from %" PRIu64 " on", name,
	           j->seq + 1);
	if (j->told)
		*j->told = j->id;
	reserve_make(j->store);
	return 0;
}

static uint32_t read_pid_max(void)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };

	if (shfs_read_file_at(AT_FDCWD, "/proc/sys/kernel/pid_max", 32, &text))
		return 32768;
	return strtoul(text.data, NULL, 10);
}

static int identify(struct shfs_journal_identity *id)
{
	_cleanup_close_ int procfd = shfs_proc_open(getpid());
	struct shfs_proc_stat self;
	unsigned char random[16];
	int r;

	if (procfd < 0)
		return procfd;
	if ((r = shfs_proc_read_stat(procfd, &self)) ||
	    (r = shfs_proc_boot_id(id->boot_id)) ||
	    (r = shfs_proc_pid_namespace(&id->pid_namespace)))
		return r;
	id->pid = self.pid;
	id->start_ticks = self.start_ticks;
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(id->instance + 2 * i, 3, "%02x", random[i]);
	id->pid_max = read_pid_max();
	return 0;
}

void shfs_journal_free(struct shfs_journal *j)
{
	if (!j)
		return;
	shfs_closep(&j->fd);
	shfs_record_context_free(&j->context);
	shfs_buf_free(&j->frame);
	free(j->root);
	free(j);
}

static struct shfs_journal *journal_new(struct shfs_store *store, const char *root,
                                        uint64_t rotate_bytes)
{
	struct shfs_journal *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->fd = -1;
	j->store = store;
	j->rotate_bytes = rotate_bytes ? rotate_bytes : ROTATE_BYTES;
	j->root = strdup(root);
	if (j->root)
		return j;
	free(j);
	return NULL;
}

int shfs_journal_open(struct shfs_store *store,
                      const struct shfs_journal_options *options,
                      struct shfs_journal **out)
{
	struct shfs_journal *j = journal_new(store, options->root, options->rotate_bytes);
	int r;

	if (!j)
		return -ENOMEM;
	j->told = options->told;
	snprintf(j->id.kind, sizeof(j->id.kind), "%s", options->kind);
	r = identify(&j->id);
	if (!r)
		r = start_segment(j);
	if (r) {
		shfs_journal_free(j);
		return r;
	}
	*out = j;
	return 0;
}

/* The dead process may have begun one more segment than its identity says. */
int shfs_journal_resume(struct shfs_store *store, const char *root,
                        const struct shfs_journal_identity *identity, uint64_t seq,
                        struct shfs_journal **out)
{
	struct shfs_journal *j = journal_new(store, root, 0);
	int r;

	if (!j)
		return -ENOMEM;
	j->id = *identity;
	j->seq = seq;
	do {
		j->id.segment++;
		r = start_segment(j);
	} while (r == -EEXIST && j->id.segment < identity->segment + 2);
	if (r) {
		shfs_journal_free(j);
		return r;
	}
	*out = j;
	return 0;
}

uint64_t shfs_journal_last_seq(const struct shfs_store *store,
                               const struct shfs_journal_identity *identity)
{
	struct shfs_segment *segment;
	struct shfs_record rec;
	uint64_t seq = 0;
	char name[256];

	for (uint32_t n = identity->segment; n <= identity->segment + 1; n++) {
		segment_name(identity, n, name, sizeof(name));
		if (shfs_segment_open(store->journal_fd, name, 0, &segment))
			continue;
		while (shfs_segment_next(segment, &rec) == 1)
			seq = MAX(seq, rec.seq);
		shfs_segment_close(segment);
	}
	return seq;
}

static size_t compress_segment(void *out, size_t cap, const struct shfs_buf *b)
{
	ZSTD_CCtx *ctx = ZSTD_createCCtx();
	size_t n;

	if (!ctx)
		return 0;
	ZSTD_CCtx_setParameter(ctx, ZSTD_c_compressionLevel, SEAL_LEVEL);
	ZSTD_CCtx_setParameter(ctx, ZSTD_c_windowLog, SEAL_WINDOW);
	n = ZSTD_compress2(ctx, out, cap, b->data, b->len);
	ZSTD_freeCCtx(ctx);
	return ZSTD_isError(n) ? 0 : n;
}

int shfs_segment_seal(int dirfd, const char *name, const char *suffix,
                      const struct shfs_buf *b)
{
	size_t cap = ZSTD_compressBound(b->len), n;
	_cleanup_free_ void *packed = malloc(cap);
	char sealed[300];

	if (!packed)
		return -ENOMEM;
	n = compress_segment(packed, cap, b);
	if (!n)
		return -ENOMEM;
	snprintf(sealed, sizeof(sealed), "%s%s", name, suffix);
	return shfs_write_file_at(dirfd, sealed, 0600, packed, n);
}

/* Sealing only saves space: whatever fails, the segment as it was written stays. */
static void seal_segment_file(struct shfs_journal *j, uint32_t n)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	char name[256];

	segment_name(&j->id, n, name, sizeof(name));
	if (shfs_read_file_at(j->store->journal_fd, name, SHFS_SEGMENT_MAX, &b) ||
	    shfs_segment_seal(j->store->journal_fd, name, ".zst", &b)) {
		shfs_debug(JOURNAL, "%s: stays unsealed", name);
		return;
	}
	shfs_debug(JOURNAL, "%s: sealed, %zu bytes", name, b.len);
	unlinkat(j->store->journal_fd, name, 0);
}

static int cut_torn(struct shfs_journal *j)
{
	if (j->torn && ftruncate(j->fd, j->size))
		return -errno;
	j->torn = false;
	return 0;
}

int shfs_journal_rotate(struct shfs_journal *j)
{
	uint64_t old_size = j->size;
	int old = j->fd, r = cut_torn(j);

	if (!r)
		r = shfs_journal_sync(j);
	if (r)
		return r;
	j->id.segment++;
	r = start_segment(j);
	if (r) {
		j->id.segment--;
		j->fd = old;
		j->size = old_size;
		return r;
	}
	shfs_assert(j->fd >= 0 && j->fd != old && !j->torn);
	close(old);
	seal_segment_file(j, j->id.segment - 1);
	return 0;
}

void shfs_journal_segment(const struct shfs_journal *j,
                          char out[static SHFS_SEGMENT_NAME_MAX])
{
	segment_name(&j->id, j->id.segment, out, SHFS_SEGMENT_NAME_MAX);
}

int shfs_journal_append(struct shfs_journal *j, const struct shfs_record *const *records,
                        size_t n, size_t *appended)
{
	size_t part;
	int r = 0;

	shfs_assert(j->fd >= 0);
	*appended = 0;
	r = cut_torn(j);
	if (!r && j->size >= j->rotate_bytes) {
		r = shfs_journal_sync(j);
		if (!r) /* no room for a new segment: go on in the old one */
			(void)!shfs_journal_rotate(j);
	}
	while (!r && *appended < n) {
		r = make_frame(j, records + *appended, n - *appended, &part);
		if (!r)
			r = append_frame(j);
		if (!r) {
			shfs_assert(part && part <= n - *appended);
			*appended += part;
			j->seq = records[*appended - 1]->seq;
		}
	}
	shfs_assert(r ? *appended < n || !n : *appended == n);
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
		seal_segment_file(j, j->id.segment);
	shfs_journal_free(j);
	return r;
}
