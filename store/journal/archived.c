/* SPDX-License-Identifier: MIT */
#include "store/journal/archived.h"

#include "common/io.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define NAME      "archived" /* in state/: a line "<seq> <instance> <host>" for each */
#define BYTES_MAX (64 << 20)

int archived_set(struct archived *a, const char *host, struct shfs_bytes instance,
                 uint64_t seq)
{
	if (strlen(host) >= sizeof(a->host) || !instance.len ||
	    instance.len > ARCHIVED_INSTANCE_MAX)
		return -EINVAL;
	for (size_t i = 0; i < instance.len; i++)
		if (!strchr("0123456789abcdef", instance.data[i]) || !instance.data[i])
			return -EINVAL;
	strcpy(a->host, host);
	memcpy(a->instance, instance.data, instance.len);
	a->instance[instance.len] = '\0';
	a->seq = seq;
	return 0;
}

static bool is_same_archived(const struct archived *a, const struct archived *b)
{
	return !strcmp(a->instance, b->instance) && !strcmp(a->host, b->host);
}

static int read_archived_file(struct shfs_store *store, struct shfs_buf *text)
{
	int r = shfs_read_file_at(store->state_fd, NAME, BYTES_MAX, text);

	return r == -ENOENT ? 0 : r;
}

/* Takes the next valid line from *rest and skips others. Returns false at the end. */
static bool next(char **rest, struct archived *out)
{
	char *line;

	while ((line = strsep(rest, "\n")))
		if (sscanf(line, "%" SCNu64 " %64[0-9a-f] %64s", &out->seq, out->instance,
		           out->host) == 3)
			return true;
	return false;
}

static void print(struct shfs_buf *out, const struct archived *a)
{
	shfs_buf_printf(out, "%" PRIu64 " %s %s\n", a->seq, a->instance, a->host);
}

int archived_add(struct shfs_store *store, const struct archived *list, size_t n)
{
	_cleanup_buf_ struct shfs_buf before = { 0 }, text = { 0 };
	char *rest;
	int r = n ? read_archived_file(store, &before) : 0;

	if (!n || r)
		return r;
	for (size_t i = 0; i < n; i++)
		print(&text, &list[i]);
	rest = before.data;
	for (struct archived a; rest && next(&rest, &a);) {
		bool is_new = false;

		for (size_t i = 0; i < n && !is_new; i++)
			is_new = is_same_archived(&a, &list[i]) && a.seq <= list[i].seq;
		if (!is_new)
			print(&text, &a);
	}
	return text.failed ? -ENOMEM
	                   : shfs_write_file_at(store->state_fd, NAME, 0600, text.data,
	                                        text.len);
}

int archived_has(struct shfs_store *store, const struct archived *a)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r = read_archived_file(store, &text);
	char *rest = text.data;

	for (struct archived b; !r && rest && next(&rest, &b);)
		r = is_same_archived(a, &b) && b.seq >= a->seq;
	return r;
}
