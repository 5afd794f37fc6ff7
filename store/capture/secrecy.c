/* SPDX-License-Identifier: MIT */
/*
 * Keeps secrets out of the store: private keys, and contents of files with secret names.
 * The latter are not archived under another name either, and an object that was archived
 * before the file got its secret name is removed.
 *
 * Secret contents are remembered in memory only: a hash on the disk would reveal a short
 * secret. A content that was archived before a file with a secret name held it is shared.
 * It may be a template that was copied: it stays. Or a program wrote it under other names
 * first: it is removed if the last of these names is gone within a minute.
 *
 * A thread of its own removes objects, as shfs prune does. Their ids are in state/purge
 * until they are removed.
 */
#include "store/capture/capture-internal.h"

#include "common/io.h"
#include "store/capture/log.h"
#include "store/objects/collect.h"
#include "store/objects/object-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#define SECRETS_MAX  65536
#define HOLDERS_MAX  16384
#define BYTES_MIN    5 /* shorter contents ("{}", an empty line) are in many files */
#define TEMPORARY_NS (60 * SHFS_NSEC_PER_SEC) /* most that a temporary file exists */
#define WAIT_MS      2000                     /* for producers */
#define PURGE_NAME   "purge"
#define PURGE_MAX    (16u << 20)
#define KEY_HEAD     4096 /* bytes in which the first line of a private key is */
#define KEY_LINE     64   /* bytes of that line */

struct capture_secret {
	uint8_t hash[16];
	bool shared; /* not secret as long as another file has it */
	UT_hash_handle hh;
};

/* Counts the files with ordinary names that hold a content which is new in the store. */
struct capture_holders {
	uint8_t hash[16];
	unsigned n;
	bool is_object;   /* the content of one of them was committed */
	int64_t since_ns; /* CLOCK_MONOTONIC */
	UT_hash_handle hh;
};

static bool begins_with(const char *line, size_t len, const char *what)
{
	return len >= strlen(what) && !memcmp(line, what, strlen(what));
}

static bool begins_key(const char *line, size_t len)
{
	static const char key[] = "PRIVATE KEY";

	return begins_with(line, len, "PuTTY-User-Key-File-") ||
	       begins_with(line, len, "AGE-SECRET-KEY-1") ||
	       begins_with(line, len, "shfs-key-1:") ||
	       (begins_with(line, len, "-----BEGIN ") &&
	        memmem(line, len, key, sizeof(key) - 1));
}

bool shfs_is_private_key(const char *data, size_t len)
{
	const char *end = data + len, *line = data;

	while (line < end && line - data < KEY_HEAD) {
		const char *lf = memchr(line, '\n', (size_t)(end - line));
		size_t n = (size_t)((lf ? lf : end) - line);

		if (begins_key(line, MIN(n, (size_t)KEY_LINE)))
			return true;
		line = lf ? lf + 1 : end;
	}
	return false;
}

/* --- secret contents; with the lock held --- */

static struct capture_holders *find_holders(const struct shfs_capture *c,
                                            const uint8_t hash[16])
{
	struct capture_holders *holders;

	HASH_FIND(hh, c->holders, hash, sizeof(holders->hash), holders);
	return holders;
}

static void drop_holders(struct shfs_capture *c, struct capture_holders *holders)
{
	HASH_DEL(c->holders, holders);
	free(holders);
}

static bool is_past(const struct capture_holders *holders)
{
	return capture_now() - holders->since_ns >= TEMPORARY_NS;
}

/* Adds holders. Old ones are dropped to bound memory: their contents stay in the store.
 */
static struct capture_holders *new_holders(struct shfs_capture *c, const uint8_t hash[16])
{
	struct capture_holders *holders;

	while (c->holders &&
	       (is_past(c->holders) || HASH_COUNT(c->holders) >= HOLDERS_MAX))
		drop_holders(c, c->holders);
	holders = calloc(1, sizeof(*holders));
	if (!holders)
		return NULL;
	memcpy(holders->hash, hash, sizeof(holders->hash));
	holders->since_ns = capture_now();
	HASH_ADD(hh, c->holders, hash, sizeof(holders->hash), holders);
	if (holders->hh.tbl)
		return holders;
	free(holders);
	return NULL;
}

static void end_holding(struct shfs_snapshot *s)
{
	struct capture_holders *holders =
		s->holds ? find_holders(s->capture, s->put.hash) : NULL;

	s->holds = false;
	if (holders)
		holders->n--;
}

void capture_note_holder(struct shfs_snapshot *s, struct shfs_snapshot *before)
{
	struct capture_holders *holders = find_holders(s->capture, s->put.hash);
	bool held =
		before && before->holds && !shfs_object_compare(&before->put, &s->put);

	if (s->secret)
		return;
	if (before && !before->is_put) {
		before->overtaken = true;
		before->overtaker = s->put;
	}
	/* a file counts once, as its latest snapshot */
	s->overtaken = s->overtaken && !shfs_object_compare(&s->overtaker, &s->put);
	if (s->overtaken) {
		if (held)
			end_holding(before);
		return;
	}
	if (held) {
		s->holds = true;
		before->holds = false;
		if (s->gone) /* the file has gone before its content was put */
			end_holding(s);
		return;
	}
	if (!holders && !s->was_there)
		holders = new_holders(s->capture, s->put.hash);
	s->holds = holders && !s->gone; /* the file may have gone before */
	if (s->holds)
		holders->n++;
}

/* Were all files that held the content temporary? */
static bool was_temporary(const struct shfs_capture *c, const uint8_t hash[16])
{
	const struct capture_holders *holders = find_holders(c, hash);

	return holders && !holders->n && !is_past(holders);
}

static struct capture_secret *find_secret(const struct shfs_capture *c,
                                          const uint8_t hash[16])
{
	struct capture_secret *secret;

	HASH_FIND(hh, c->secrets, hash, sizeof(secret->hash), secret);
	return secret;
}

static void note_secret_hash(struct shfs_capture *c, const uint8_t hash[16], bool shared)
{
	struct capture_secret *secret = find_secret(c, hash);

	if (secret) {
		secret->shared = secret->shared && shared;
		return;
	}
	if (HASH_COUNT(c->secrets) >= SECRETS_MAX) {
		secret = c->secrets; /* the oldest */
		HASH_DEL(c->secrets, secret);
		free(secret);
	}
	secret = calloc(1, sizeof(*secret));
	if (!secret)
		return;
	memcpy(secret->hash, hash, sizeof(secret->hash));
	secret->shared = shared;
	HASH_ADD(hh, c->secrets, hash, sizeof(secret->hash), secret);
	if (!secret->hh.tbl)
		free(secret);
}

static bool is_unshared_secret(const struct shfs_capture *c, const uint8_t hash[16])
{
	const struct capture_secret *secret = find_secret(c, hash);

	return secret && !secret->shared;
}

/* Notes a content as secret if the snapshot's file has a secret name, or was temporary
 * and another file with a secret name has the content. id is its object, or about to be.
 */
static void note_if_secret(struct shfs_snapshot *s, const struct shfs_object_id *id,
                           uint64_t size)
{
	struct shfs_capture *c = s->capture;
	const struct capture_secret *secret = find_secret(c, id->hash);

	if (size < BYTES_MIN)
		return;
	if (s->secret)
		note_secret_hash(c, id->hash, s->was_there);
	else if ((s->gone || s->overtaken) && secret && was_temporary(c, id->hash))
		note_secret_hash(c, id->hash, false);
}

static void purge_later(struct shfs_capture *c, const struct shfs_object_id *id)
{
	if (shfs_objects_add(&c->purge, id))
		shfs_log("cannot remove a secret from the store: no memory");
	pthread_cond_signal(&c->purging);
}

bool capture_is_secret(const struct shfs_snapshot *s)
{
	return s->secret || (s->content.flags & SHFS_CONTENT_OBJECT &&
	                     is_unshared_secret(s->capture, s->content.object.hash));
}

/* Is there an object of the content that was put? was_there: the put found one; another
 * file may have brought it since. */
static bool may_be_object(const struct shfs_snapshot *s, const uint8_t hash[16],
                          bool was_there)
{
	const struct capture_holders *holders = find_holders(s->capture, hash);

	return was_there || (holders ? holders->is_object : !s->secret);
}

bool capture_must_drop(struct shfs_snapshot *s, const struct shfs_object_id *id,
                       uint64_t size, bool was_there)
{
	bool listed;

	note_if_secret(s, id, size);
	listed = is_unshared_secret(s->capture, id->hash);
	if (listed && may_be_object(s, id->hash, was_there))
		purge_later(s->capture, id);
	return s->secret || listed;
}

void capture_note_object(struct shfs_snapshot *s, const struct shfs_object_id *id,
                         uint64_t size)
{
	struct capture_holders *holders = find_holders(s->capture, id->hash);

	if (holders)
		holders->is_object = true;
	note_if_secret(s, id, size);
	if (is_unshared_secret(s->capture, id->hash))
		purge_later(s->capture, id);
	if (capture_is_secret(s))
		capture_let_go(s);
}

static void note_content(struct shfs_snapshot *s)
{
	if (s->content.flags & SHFS_CONTENT_OBJECT)
		capture_note_object(s, &s->content.object, s->content.size);
}

void capture_hide(struct shfs_content *content)
{
	content->flags &= ~(uint32_t)(SHFS_CONTENT_OBJECT | SHFS_CONTENT_PHASH |
	                              SHFS_CONTENT_WHOLE);
	content->flags |= SHFS_CONTENT_SKIP_RULE;
	content->phash = 0;
	content->object = (struct shfs_object_id){ 0 };
}

/* --- calls of producers --- */

void shfs_snapshot_conceal(struct shfs_snapshot *s)
{
	pthread_mutex_lock(&s->capture->lock);
	if (!s->secret) {
		s->secret = true;
		end_holding(s);
		note_content(s);
	}
	pthread_mutex_unlock(&s->capture->lock);
}

void shfs_snapshot_gone(struct shfs_snapshot *s)
{
	pthread_mutex_lock(&s->capture->lock);
	s->gone = true;
	end_holding(s);
	note_content(s);
	pthread_mutex_unlock(&s->capture->lock);
}

/* Lock held. Is a job of another file about to make an object of this content? */
static bool is_in_lists(struct shfs_capture *c, const void *data, size_t len,
                        const uint8_t hash[16])
{
	const struct capture_job *job;

	DL_FOREACH (c->stores, job)
		if (job->len == len && !memcmp(job->data, data, len))
			return true;
	DL_FOREACH (c->puts, job)
		if (!memcmp(job->snapshot->put.hash, hash, 16))
			return true;
	DL_FOREACH (c->commits, job)
		if (!memcmp(job->snapshot->put.hash, hash, 16))
			return true;
	return false;
}

/* Lock held, and let go meanwhile. Is the content of another file about to become an
 * object? Puts under way are waited for. */
static bool is_under_way(struct shfs_capture *c, const void *data, size_t len,
                         const uint8_t hash[16])
{
	int64_t until = capture_now() + c->wait_ms * (SHFS_NSEC_PER_SEC / 1000);
	bool found, late = false;

	while (!(found = is_in_lists(c, data, len, hash)) && c->n_storing && !late) {
		c->n_waiters++;
		late = !capture_wait(c, &c->change, until);
		c->n_waiters--;
	}
	return found;
}

/* Lock held, and let go meanwhile. Is there an object of the content, of another file?
 * One that only temporary files had is removed. */
static bool is_object_of_other_file(struct shfs_capture *c, const void *data, size_t len,
                                    struct shfs_object_id *id)
{
	bool there;

	pthread_mutex_unlock(&c->lock);
	there = shfs_object_find(c->store, data, len, id) == 1;
	pthread_mutex_lock(&c->lock);
	if (!there || !was_temporary(c, id->hash))
		return there;
	purge_later(c, id);
	return false;
}

/* Notes the content of a file with a secret name. A content that is under way for another
 * file is judged once it is an object, by the note, which is made before the lock is let
 * go. */
static void note_secret_content(struct shfs_capture *c, const void *data, size_t len)
{
	struct shfs_object_id id;

	shfs_object_hash(data, len, id.hash);
	pthread_mutex_lock(&c->lock);
	if (!find_secret(c, id.hash))
		note_secret_hash(c, id.hash,
		                 is_under_way(c, data, len, id.hash) ||
		                         is_object_of_other_file(c, data, len, &id));
	pthread_mutex_unlock(&c->lock);
}

void shfs_snapshot_take_secret(struct shfs_snapshot *s, int fd, uint64_t max_bytes)
{
	_cleanup_free_ char *data = NULL;
	struct stat st;
	ssize_t n;

	shfs_snapshot_take(s, fd, SHFS_DEPTH_STAT, 0, SHFS_CONTENT_SKIP_RULE);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < BYTES_MIN ||
	    (uint64_t)st.st_size > max_bytes)
		return;
	data = malloc((size_t)st.st_size);
	n = data ? shfs_pread_full(fd, data, (size_t)st.st_size, 0) : -1;
	if (n >= BYTES_MIN)
		note_secret_content(s->capture, data, (size_t)n);
}

/* --- state/purge --- */

/* Opens the file and locks it, so that purge_done does not drop ids added meanwhile. */
static int purge_open(struct shfs_store *store)
{
	int fd = openat(store->state_fd, PURGE_NAME,
	                O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	if (!shfs_store_may_hang(store->path))
		(void)!flock(fd, LOCK_EX);
	return fd;
}

static int purge_parse(char *text, struct shfs_objects *out)
{
	int r = 0;

	for (char *line = strtok_r(text, "\n", &text); line && !r;
	     line = strtok_r(NULL, "\n", &text)) {
		struct shfs_object_id id;

		if (!shfs_object_parse(line, &id))
			r = shfs_objects_add(out, &id);
	}
	shfs_objects_sort(out);
	return r;
}

static int purge_write(int fd, const struct shfs_objects *ids)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	char name[44];

	for (size_t i = 0; i < ids->n; i++) {
		shfs_object_name(&ids->ids[i], name);
		shfs_buf_printf(&text, "\n%s\n", name);
	}
	if (text.failed)
		return -ENOMEM;
	return shfs_write_all(fd, text.data ?: "", text.len)
	               ?: fdatasync(fd) ? -errno
	                                : 0;
}

/* Drops the ids of removed objects from the file. */
static int purge_done(struct shfs_store *store, const struct shfs_objects *gone)
{
	_cleanup_close_ int fd = purge_open(store);
	_cleanup_objects_ struct shfs_objects all = { 0 };
	_cleanup_buf_ struct shfs_buf text = { 0 };
	size_t n = 0;
	int r = fd < 0 ? fd : shfs_read_fd(fd, PURGE_MAX, &text);

	if (!r)
		r = purge_parse(text.data ?: (char[]){ "" }, &all);
	for (size_t i = 0; i < all.n; i++)
		if (!shfs_objects_has(gone, &all.ids[i]))
			all.ids[n++] = all.ids[i];
	all.n = n;
	if (!r && ftruncate(fd, 0))
		r = -errno;
	return r ? r : purge_write(fd, &all);
}

int capture_purge_resume(struct shfs_capture *c)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r = shfs_read_file_at(c->store->state_fd, PURGE_NAME, PURGE_MAX, &text);

	if (r || !text.len)
		return r == -ENOENT ? 0 : r;
	return purge_parse(text.data, &c->purge);
}

/* --- removing --- */

static int pick_given_objects(void *arg, struct shfs_objects *out)
{
	const struct shfs_objects *ids = arg;
	int r = 0;

	for (size_t i = 0; i < ids->n && !r; i++)
		r = shfs_objects_add(out, &ids->ids[i]);
	return r;
}

/* Lock held, and let go meanwhile. Removes the objects in c->purge. */
static int purge(struct shfs_capture *c)
{
	_cleanup_objects_ struct shfs_objects ids = { 0 };
	uint64_t objects, bytes;
	const struct shfs_collect how = {
		.pick = pick_given_objects,
		.arg = &ids,
		.named = true,
		.shared = true,
		.wait_ms = WAIT_MS,
		.objects = &objects,
		.bytes = &bytes,
	};
	int fd, r;

	ids = c->purge;
	c->purge = (struct shfs_objects){ 0 };
	pthread_mutex_unlock(&c->lock);
	shfs_objects_sort(&ids);
	fd = purge_open(c->store);
	r = fd < 0 ? fd : purge_write(fd, &ids);
	shfs_closep(&fd);
	if (!r)
		r = shfs_collect(c->store, &how);
	if (!r && objects == ids.n)
		r = purge_done(c->store, &ids);
	else if (!r) /* a record under way has claimed one */
		r = -EBUSY;
	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; r && i < ids.n; i++)
		(void)!shfs_objects_add(&c->purge, &ids.ids[i]);
	return r;
}

void *capture_purger(void *arg)
{
	struct shfs_capture *c = arg;
	int r = 0;

	capture_thread_begin(c, "shfs-purge");
	pthread_mutex_lock(&c->lock);
	while (!c->closing) {
		if (r &&
		    r != -EBUSY) { /* tried again at the end, and by the next producer */
			shfs_log("cannot remove a secret from the store: %s",
			         strerror(-r));
			while (!c->closing)
				pthread_cond_wait(&c->purging, &c->lock);
		} else if (r) {
			r = 0;
			capture_wait(c, &c->purging, capture_now() + CAPTURE_RETRY_NS);
		} else if (c->purge.n) {
			r = purge(c);
		} else {
			pthread_cond_wait(&c->purging, &c->lock);
		}
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

void capture_purge_end(struct shfs_capture *c)
{
	struct capture_secret *secret, *next;
	int r = 0;

	pthread_mutex_lock(&c->lock);
	if (c->purge.n)
		r = purge(c);
	pthread_mutex_unlock(&c->lock);
	if (r)
		shfs_log(
			"a secret stays in the store until the next recording begins: %s",
			strerror(-r));
	while (c->holders)
		drop_holders(c, c->holders);
	HASH_ITER (hh, c->secrets, secret, next) {
		HASH_DEL(c->secrets, secret);
		free(secret);
	}
	shfs_objects_free(&c->purge);
}
