/* SPDX-License-Identifier: MIT */
#include "query/remote/faults.h"

#ifdef SHFS_ASSERTS

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Numbers begin with 1; 0: never. */
struct faults {
	struct shfs_remote remote;
	struct shfs_remote *inner;
	uint64_t kill, kill_after, fail, fail_from, flip, cut, gone, full, slow;
	bool flip_all, late, is_full;
	uint64_t n, n_gets, bytes;
};

static struct faults *of(struct shfs_remote *remote)
{
	return container_of(remote, struct faults, remote);
}

static int begin(struct faults *f)
{
	f->n++;
	if (f->n == f->kill)
		raise(SIGKILL);
	nanosleep(&(struct timespec){ (time_t)(f->slow / 1000),
	                              (long)(f->slow % 1000) * 1000000 },
	          NULL);
	return f->n == f->fail || (f->fail_from && f->n >= f->fail_from) ? -EIO : 0;
}

static int end(struct faults *f, int r)
{
	if (f->n == f->kill_after)
		raise(SIGKILL);
	f->remote.why.len = 0;
	if (f->inner->why.len)
		shfs_buf_add(&f->remote.why, f->inner->why.data, f->inner->why.len);
	return r;
}

static void close_faults(struct shfs_remote *remote)
{
	struct faults *f = of(remote);

	shfs_remote_close(f->inner);
	free(f);
}

/* --- listing --- */

struct listing {
	shfs_remote_fn fn;
	void *arg;
	bool hides; /* the greatest name */
	char *greatest;
	uint64_t bytes;
};

static int list_name(void *arg, const char *name, uint64_t bytes)
{
	struct listing *l = arg;
	char *before = l->greatest;
	uint64_t bytes_before = l->bytes;
	int r = 0;

	if (!l->hides)
		return l->fn(l->arg, name, bytes);
	if (before && strcmp(name, before) < 0)
		return l->fn(l->arg, name, bytes);
	l->greatest = strdup(name);
	l->bytes = bytes;
	if (before)
		r = l->fn(l->arg, before, bytes_before);
	free(before);
	return r;
}

static int list_with_faults(struct shfs_remote *remote, const char *dir,
                            shfs_remote_fn fn, void *arg)
{
	struct faults *f = of(remote);
	struct listing l = { .fn = fn,
		             .arg = arg,
		             .hides = f->late && !strncmp(dir, "heads", 5) };
	int r = begin(f) ?: shfs_remote_list(f->inner, dir, list_name, &l);

	free(l.greatest);
	return end(f, r);
}

/* --- the rest --- */

static int get_with_faults(struct shfs_remote *remote, const char *name, uint64_t offset,
                           size_t len, struct shfs_buf *out)
{
	struct faults *f = of(remote);
	size_t before = out->len;
	int r = begin(f);

	f->n_gets++;
	if (!r)
		r = f->n_gets == f->gone
		            ? -ENOENT
		            : shfs_remote_get(f->inner, name, offset, len, out);
	if (!r && out->len > before && (f->flip_all || f->n_gets == f->flip))
		out->data[before + (out->len - before) / 2] ^= 0x10;
	if (!r && out->len > before && f->n_gets == f->cut)
		out->data[--out->len] = '\0';
	return end(f, r);
}

static int put_with_faults(struct shfs_remote *remote, const char *name, const void *data,
                           size_t len)
{
	struct faults *f = of(remote);
	int r = begin(f);

	if (!r && f->is_full && f->bytes + len > f->full)
		r = -ENOSPC;
	if (!r)
		r = shfs_remote_put(f->inner, name, data, len);
	f->bytes += r ? 0 : len;
	return end(f, r);
}

static int stat_with_faults(struct shfs_remote *remote, const char *name, uint64_t *bytes)
{
	struct faults *f = of(remote);

	return end(f, begin(f) ?: shfs_remote_stat(f->inner, name, bytes));
}

static int remove_with_faults(struct shfs_remote *remote, const char *name)
{
	struct faults *f = of(remote);

	return end(f, begin(f) ?: shfs_remote_remove(f->inner, name));
}

static int sweep_with_faults(struct shfs_remote *remote, const char *dir)
{
	struct faults *f = of(remote);

	return end(f, begin(f) ?: shfs_remote_sweep(f->inner, dir));
}

static const struct shfs_backend faulty = {
	.scheme = "",
	.close = close_faults,
	.list = list_with_faults,
	.get = get_with_faults,
	.put = put_with_faults,
	.stat = stat_with_faults,
	.remove = remove_with_faults,
	.sweep = sweep_with_faults,
};

static void choose(struct faults *f, const char *word)
{
	const struct {
		const char *name;
		uint64_t *value;
	} numbers[] = {
		{ "kill", &f->kill }, { "kill-after", &f->kill_after },
		{ "fail", &f->fail }, { "fail-from", &f->fail_from },
		{ "flip", &f->flip }, { "cut", &f->cut },
		{ "gone", &f->gone }, { "full", &f->full },
		{ "slow", &f->slow },
	};
	size_t len = strcspn(word, "=");

	f->late |= !strcmp(word, "late");
	f->flip_all |= !strcmp(word, "flip-all");
	f->is_full |= !strncmp(word, "full=", 5);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (len == strlen(numbers[i].name) &&
		    !strncmp(word, numbers[i].name, len) && word[len])
			*numbers[i].value = strtoull(word + len + 1, NULL, 10);
}

int remote_faults_wrap(struct shfs_remote *remote, struct shfs_remote **out)
{
	const char *list = getenv("SHFS_REMOTE_FAULTS");
	_cleanup_free_ char *copy = list ? strdup(list) : NULL;
	struct faults *f = copy ? calloc(1, sizeof(*f)) : NULL;
	char *rest = NULL;

	*out = remote;
	if (!f)
		return 0;
	f->remote.kind = &faulty;
	f->inner = remote;
	for (char *word = strtok_r(copy, ",", &rest); word;
	     word = strtok_r(NULL, ",", &rest))
		choose(f, word);
	*out = &f->remote;
	return 0;
}

#else

int remote_faults_wrap(struct shfs_remote *remote, struct shfs_remote **out)
{
	*out = remote;
	return 0;
}

#endif
