/* SPDX-License-Identifier: MIT */
#include "store/capture/spool.h"

#include "store/capture/capture-internal.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define SLOT 64 /* bytes; entries begin at multiples of it */

struct entry {
	size_t size;
	bool is_end; /* no record: the next entry is at the begin of the memory */
	bool has[2];
	struct shfs_record rec; /* its strings are in text: both map it at one address */
	char text[];
};

/* Offsets count all bytes that were ever written. The entries between tail and head are
 * whole at any moment. */
struct shfs_spool {
	struct shfs_journal_identity identity;
	atomic_uint_least64_t head, tail;
	atomic_uint_least64_t done;                  /* a sequence number */
	atomic_uint_least64_t n_missed, last_missed; /* records; a sequence number */
	_Alignas(SLOT) char bytes[SHFS_SPOOL_BYTES];
};

struct shfs_spool *shfs_spool_new(void)
{
	void *memory = mmap(NULL, sizeof(struct shfs_spool), PROT_READ | PROT_WRITE,
	                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

void shfs_spool_free(struct shfs_spool *spool)
{
	if (spool)
		munmap(spool, sizeof(*spool));
}

struct shfs_journal_identity *shfs_spool_identity(struct shfs_spool *spool)
{
	return &spool->identity;
}

static struct entry *entry_at(struct shfs_spool *spool, uint64_t offset)
{
	return (void *)(spool->bytes + offset % SHFS_SPOOL_BYTES);
}

/* --- the producer --- */

/* Drops entries that are done. An empty ring begins at its start again, so that few of
 * its pages are ever used. */
static void drop_done(struct shfs_spool *spool)
{
	uint64_t tail = spool->tail, head = spool->head;

	while (tail < head) {
		const struct entry *e = entry_at(spool, tail);

		if (!e->is_end && e->rec.seq > spool->done)
			break;
		tail += e->size;
	}
	if (tail == head && tail % SHFS_SPOOL_BYTES) {
		tail += SHFS_SPOOL_BYTES - tail % SHFS_SPOOL_BYTES;
		atomic_store(&spool->tail, tail);
		atomic_store(&spool->head, tail);
	} else {
		atomic_store(&spool->tail, tail);
	}
}

/* Finds room for so many contiguous bytes. NULL: there is none. */
static struct entry *find_room(struct shfs_spool *spool, size_t size)
{
	uint64_t head = spool->head;
	size_t free = SHFS_SPOOL_BYTES - (size_t)(head - spool->tail);
	size_t left = SHFS_SPOOL_BYTES - (size_t)(head % SHFS_SPOOL_BYTES);
	struct entry *e = entry_at(spool, head);

	if (left >= size)
		return free >= size ? e : NULL;
	if (free < left + size)
		return NULL;
	e->size = left;
	e->is_end = true;
	atomic_store(&spool->head, head + left);
	return entry_at(spool, head + left);
}

void shfs_spool_add(struct shfs_spool *spool, const struct shfs_record *rec,
                    const bool has[static 2])
{
	struct shfs_record copy = *rec;
	size_t size = sizeof(struct entry) + SLOT - 1;
	struct shfs_bytes *strings[CAPTURE_STRINGS_MAX];
	int n = capture_record_strings(&copy, strings);
	struct entry *e;

	for (int i = 0; i < n; i++)
		size += strings[i]->len;
	size -= size % SLOT;
	drop_done(spool);
	e = find_room(spool, size);
	if (!e) {
		if (spool->done >= spool->last_missed)
			atomic_store(&spool->n_missed, 0);
		atomic_fetch_add(&spool->n_missed, 1);
		atomic_store(&spool->last_missed, rec->seq);
		return;
	}
	capture_move_strings(strings, n, e->text);
	e->size = size;
	e->is_end = false;
	e->has[0] = has[0];
	e->has[1] = has[1];
	e->rec = copy;
	atomic_fetch_add(&spool->head, size);
}

void shfs_spool_done(struct shfs_spool *spool, uint64_t seq)
{
	atomic_store(&spool->done, seq);
}

/* --- its guardian --- */

static void forget_contents(struct entry *e)
{
	static const struct shfs_content unknown = { .flags = SHFS_CONTENT_SKIP_ERROR };
	struct shfs_content *contents[2];

	capture_record_contents(&e->rec, contents);
	for (int i = 0; i < 2; i++)
		if (contents[i] && e->has[i])
			*contents[i] = unknown;
}

/* Collects the records behind seq; malloc'ed. */
static const struct shfs_record **records_behind(struct shfs_spool *spool, uint64_t seq,
                                                 size_t *n)
{
	const struct shfs_record **records =
		calloc(SHFS_SPOOL_BYTES / sizeof(struct entry) + 1, sizeof(*records));
	struct entry *e;

	*n = 0;
	for (uint64_t at = spool->tail; records && at < spool->head; at += e->size) {
		e = entry_at(spool, at);
		if (e->is_end || e->rec.seq <= seq)
			continue;
		forget_contents(e);
		records[(*n)++] = &e->rec;
	}
	return records;
}

static int append_lost(struct shfs_journal *j, uint64_t seq, uint64_t count)
{
	struct shfs_record rec = {
		.type = SHFS_REC_LOST,
		.seq = seq,
		.time = shfs_time_now(),
		.boot_resolution_ns = 1,
		.lost = { .count = count, .error = ENOBUFS },
	};
	const struct shfs_record *records = &rec;
	size_t appended;

	return shfs_journal_append(j, &records, 1, &appended);
}

int shfs_spool_rescue(struct shfs_spool *spool, struct shfs_store *store,
                      const char *root)
{
	_cleanup_free_ const struct shfs_record **records = NULL;
	uint64_t last, missed = 0;
	struct shfs_journal *j;
	size_t n, appended;
	int r;

	if (!spool->identity.kind[0])
		return 0;
	/* a batch may have been written but not noted as done */
	last = MAX(spool->done, shfs_journal_last_seq(store, &spool->identity));
	if (spool->last_missed > last)
		missed = spool->n_missed;
	records = records_behind(spool, last, &n);
	if (!records)
		return -ENOMEM;
	if (!n && !missed)
		return 0;
	r = shfs_journal_resume(store, root, &spool->identity, last, &j);
	if (r)
		return r;
	r = shfs_journal_append(j, records, n, &appended);
	if (!r && missed)
		r = append_lost(j,
		                MAX(n ? records[n - 1]->seq : last,
		                    (uint64_t)spool->last_missed) +
		                        1,
		                missed);
	if (!r)
		r = shfs_journal_sync(j);
	shfs_journal_free(j);
	return r;
}
