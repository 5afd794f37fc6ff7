/* SPDX-License-Identifier: MIT */
/* Checks packs and loose objects: a few threads take file after file. */
#include "store/care/check-objects.h"

#include "common/clock.h"
#include "common/io.h"
#include "store/objects/collect.h"
#include "store/objects/object-internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#define THREADS_MAX 4
#define SAVE_NS     SHFS_NSEC_PER_SEC
#define CHAIN_MAX   128

int found_add(struct found_list *l, const struct found *f)
{
	if (!MAKE_ROOM(l->list, l->n, l->cap))
		return -ENOMEM;
	l->list[l->n++] = *f;
	return 0;
}

void _printf_(7, 8)
	check_unit_flaw(struct scan *s, const struct unit *unit, enum shfs_flaw_kind kind,
                        uint64_t offset, uint64_t bytes,
                        const struct shfs_object_id *object, const char *text, ...)
{
	_cleanup_free_ char *said = NULL;
	struct shfs_flaw *f;
	va_list ap;
	int n;

	va_start(ap, text);
	n = vasprintf(&said, text, ap);
	va_end(ap);
	pthread_mutex_lock(&s->lock);
	f = check_flaw(s->run, kind, offset, bytes, "objects/%s", unit->name);
	check_say(f, "%s", n < 0 ? "" : said);
	if (f && object) {
		f->has_object = true;
		f->object = *object;
		if (shfs_objects_has(&s->run->known.objects, object))
			f->harmless = true;
	}
	pthread_mutex_unlock(&s->lock);
}

/* --- loose objects --- */

int check_hash_piece(void *arg, const void *data, size_t len)
{
	object_hash_add(arg, data, len);
	return 0;
}

static int read_loose(struct scan *s, int fd, const struct shfs_object_id *id,
                      uint64_t size)
{
	struct object_hash *h = object_hash_new();
	uint8_t hash[16];
	int r = h ? loose_each_piece(fd, check_hash_piece, h) : -ENOMEM;

	object_hash_end(h, hash);
	if (!r && memcmp(hash, id->hash, sizeof(hash)))
		r = -EBADMSG;
	pthread_mutex_lock(&s->lock);
	s->run->out->content_bytes += r ? 0 : size;
	pthread_mutex_unlock(&s->lock);
	return r;
}

bool check_is_ours(int r)
{
	return r == -ENOMEM || r == -EMFILE || r == -ENFILE || r == -EINTR;
}

static int check_loose(struct reader *rd, struct unit *unit)
{
	struct found found = { 0 };
	char name[64];
	uint64_t size = 0;
	int fd, r;

	snprintf(name, sizeof(name), "%.2s%s", unit->name, unit->name + 3);
	if (shfs_object_parse(name, &found.id)) {
		check_unit_flaw(rd->scan, unit, SHFS_FLAW_UNCHECKED, 0, 0, NULL,
		                "it is not an object");
		return 0;
	}
	fd = loose_open(rd->scan->run->store, &found.id, &size);
	if (fd == -ENOENT)
		return 0;
	r = fd < 0 ? fd : unit->read ? read_loose(rd->scan, fd, &found.id, size) : 0;
	shfs_closep(&fd);
	if (check_is_ours(r))
		return r;
	if (r) {
		check_unit_flaw(rd->scan, unit, SHFS_FLAW_CONTENT, 0, 0, &found.id, "%s",
		                r == -EBADMSG ? "it is not the content of its name"
		                              : strerror(-r));
		return 1;
	}
	pthread_mutex_lock(&rd->scan->lock);
	r = found_add(&rd->scan->found, &found);
	rd->scan->run->out->loose++;
	pthread_mutex_unlock(&rd->scan->lock);
	return r;
}

/* --- all files --- */

static int unit_add(struct scan *s, const char *dir, const char *name, bool pack)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };
	struct unit u = { .pack = pack };
	struct stat st;

	if (!MAKE_ROOM(s->units, s->n, s->cap))
		return -ENOMEM;
	shfs_buf_printf(&path, "%s/%s", dir, name);
	if (path.failed)
		return -ENOMEM;
	if (fstatat(s->run->store->objects_fd, path.data, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : -errno;
	u.bytes = (uint64_t)st.st_size;
	u.name = shfs_buf_take(&path);
	s->units[s->n++] = u;
	return u.name ? 0 : -ENOMEM;
}

static bool is_odd(const char *name)
{
	for (; *name; name++)
		if ((unsigned char)*name <= ' ' || *name == 0x7f)
			return true;
	return false;
}

static int scan_add_directory(struct scan *s, const char *dir, const char *suffix)
{
	int fd = openat(s->run->store->objects_fd, dir,
	                O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	int r = 0;

	if (!d) {
		shfs_closep(&fd);
		return errno == ENOENT ? 0 : -errno;
	}
	while (!r && (e = shfs_readdir(d, &r))) {
		size_t len = strlen(e->d_name), m = strlen(suffix);

		if (e->d_name[0] == '.' || len <= m || len > 120 ||
		    strcmp(e->d_name + len - m, suffix) || is_odd(e->d_name))
			continue;
		r = unit_add(s, dir, e->d_name, *suffix);
	}
	closedir(d);
	return r;
}

static int compare_units(const void *a, const void *b)
{
	const struct unit *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static uint64_t part_of(const struct unit *u, unsigned parts)
{
	return shfs_object_hash64(u->name, strlen(u->name)) % parts + 1;
}

/* Chooses the files to read: those of the wanted part, from where an earlier check was
 * interrupted. */
static void choose_units(struct scan *s)
{
	const struct shfs_check_options *o = s->run->options;
	const struct check_state *state = &s->run->state;

	for (size_t i = 0; i < s->n; i++) {
		struct unit *u = &s->units[i];

		u->read = o->read_data && (!o->parts || part_of(u, o->parts) == o->part);
		if (state->position && strcmp(u->name, state->position) <= 0 &&
		    !check_state_is_bad(state, u->name))
			u->read = false;
		if (u->read)
			s->run->out->total_bytes += u->bytes;
	}
}

static int list_units(struct scan *s)
{
	int r = scan_add_directory(s, "packs", ".pack");

	for (int i = 0; i < 256 && !r; i++) {
		char dir[3];

		snprintf(dir, sizeof(dir), "%02x", i);
		r = scan_add_directory(s, dir, "");
	}
	if (s->n)
		qsort(s->units, s->n, sizeof(*s->units), compare_units);
	choose_units(s);
	return r;
}

/* --- at work --- */

/* Lock held. Notes that a file was read. */
static int unit_done(struct scan *s, struct unit *u, bool flawed)
{
	struct check_run *run = s->run;
	int64_t now = shfs_clock_ns(CLOCK_MONOTONIC);
	int r = 0;

	u->done = true;
	while (s->settled < s->n && s->units[s->settled].done)
		s->settled++;
	if (u->read) {
		run->out->read_bytes += u->bytes;
		if (run->options->progress)
			run->options->progress(run->options->arg, run->out->read_bytes,
			                       run->out->total_bytes);
	}
	if (!run->options->read_data)
		return 0;
	if (flawed)
		r = check_state_add_bad(&run->state, u->name);
	if (r || now < s->saved_ns + SAVE_NS || !s->settled)
		return r;
	s->saved_ns = now;
	free(run->state.position);
	run->state.position = strdup(s->units[s->settled - 1].name);
	return check_state_save(run->store, &run->state);
}

static void *check_units(void *arg)
{
	struct scan *s = arg;
	struct reader rd = { .scan = s,
		             .window = malloc(CHECK_WINDOW_BYTES),
		             .frame = malloc(FRAME_MAX) };

	pthread_mutex_lock(&s->lock);
	if (!rd.window || !rd.frame)
		s->error = -ENOMEM;
	while (!s->error && s->next < s->n) {
		struct unit *u = &s->units[s->next++];
		int r;

		pthread_mutex_unlock(&s->lock);
		r = u->pack ? check_pack(&rd, u) : check_loose(&rd, u);
		pthread_mutex_lock(&s->lock);
		if (r >= 0)
			r = unit_done(s, u, r);
		if (r && !s->error)
			s->error = r;
	}
	pthread_mutex_unlock(&s->lock);
	free(rd.window);
	free(rd.frame);
	return NULL;
}

static void work_together(struct scan *s)
{
	pthread_t threads[THREADS_MAX];
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	size_t n = 0, want = MIN((size_t)MAX(processors, 1L), s->n);

	if (!s->run->options->read_data)
		want = 1;
	while (n + 1 < MIN(want, (size_t)THREADS_MAX) &&
	       !pthread_create(&threads[n], NULL, check_units, s))
		n++;
	check_units(s);
	while (n)
		pthread_join(threads[--n], NULL);
}

/* --- existing contents --- */

static int compare_found(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	return shfs_object_compare(&x->id, &y->id);
}

static bool is_good(struct found_list *l, const struct shfs_object_id *id, int depth)
{
	struct found key = { .id = *id };
	struct found *f =
		l->n ? bsearch(&key, l->list, l->n, sizeof(key), compare_found) : NULL;

	if (!f || depth > CHAIN_MAX)
		return false;
	while (f > l->list && !compare_found(f - 1, &key))
		f--;
	for (; f < l->list + l->n && !compare_found(f, &key); f++) {
		if (f->state == UNKNOWN) {
			f->state = ASKED;
			f->state = !f->delta || is_good(l, &f->base, depth + 1) ? GOOD
			                                                        : LOST;
		}
		if (f->state == GOOD)
			return true;
	}
	return false;
}

static int list_there(struct scan *s)
{
	struct found_list *l = &s->found;
	int r = 0;

	if (l->n)
		qsort(l->list, l->n, sizeof(*l->list), compare_found);
	for (size_t i = 0; i < l->n && !r; i++)
		if (is_good(l, &l->list[i].id, 0))
			r = shfs_objects_add(&s->run->there, &l->list[i].id);
	shfs_objects_sort(&s->run->there);
	s->run->out->objects = s->run->there.n;
	return r;
}

int check_objects(struct check_run *run)
{
	struct scan s = { .run = run };
	int r = packs_refresh(run->store);

	if (r && r != -EIO)
		return r;
	pthread_mutex_init(&s.large, NULL);
	pthread_mutex_init(&s.lock, NULL);
	s.packs_fd = openat(run->store->objects_fd, "packs",
	                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = list_units(&s);
	if (!r)
		work_together(&s);
	r = r ? r : s.error;
	if (!r)
		r = list_there(&s);
	for (size_t i = 0; i < s.n; i++)
		free(s.units[i].name);
	free(s.units);
	free(s.found.list);
	shfs_closep(&s.packs_fd);
	pthread_mutex_destroy(&s.lock);
	pthread_mutex_destroy(&s.large);
	return r;
}
