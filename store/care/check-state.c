/* SPDX-License-Identifier: MIT */
/*
 * Reads and writes two small files below state/, of lines:
 *
 *     check    full NS FLAWS       the last check that has read all data
 *              now NS PART PARTS   a check that was interrupted (0 0: of all data)
 *              at NAME             the last file that it has read
 *              bad NAME            a file in which it has found a flaw
 *     damage   object ID           lost, as a repair has reported
 *              log FILE OFFSET BYTES
 */
#include "store/care/index-check.h"

#include "common/io.h"
#include "store/objects/collect.h"
#include "store/objects/object.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define STATE_NAME "check"
#define KNOWN_NAME "damage"
#define FILE_MAX   (1u << 30)

static int list_add(char ***list, size_t *n, const char *text)
{
	char **grown = reallocarray(*list, *n + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	*list = grown;
	grown[*n] = strdup(text);
	return grown[*n] && ++*n ? 0 : -ENOMEM;
}

static void free_strings(char **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(list[i]);
	free(list);
}

/* Calls fn for each line; a missing file has none. */
static int each_line(struct shfs_store *store, const char *name,
                     int (*fn)(void *arg, char *line), void *arg)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	char *rest = NULL;
	int r = shfs_read_file_at(store->state_fd, name, FILE_MAX, &text);

	if (r)
		return r == -ENOENT ? 0 : r;
	for (char *line = strtok_r(text.data, "\n", &rest); line && !r;
	     line = strtok_r(NULL, "\n", &rest))
		r = fn(arg, line);
	return r;
}

/* --- how far the data was read --- */

void check_state_free(struct check_state *s)
{
	free(s->position);
	free_strings(s->bad, s->n_bad);
	*s = (struct check_state){ 0 };
}

int check_state_add_bad(struct check_state *s, const char *name)
{
	return check_state_is_bad(s, name) ? 0 : list_add(&s->bad, &s->n_bad, name);
}

bool check_state_is_bad(const struct check_state *s, const char *name)
{
	for (size_t i = 0; i < s->n_bad; i++)
		if (!strcmp(s->bad[i], name))
			return true;
	return false;
}

static int state_line(void *arg, char *line)
{
	struct check_state *s = arg;

	if (sscanf(line, "full %" SCNd64 " %" SCNu64, &s->history.full_ns,
	           &s->history.full_flaws) == 2 ||
	    sscanf(line, "now %" SCNd64 " %u %u", &s->history.begun_ns, &s->part,
	           &s->parts) == 3)
		return 0;
	if (!strncmp(line, "at ", 3)) {
		free(s->position);
		s->position = strdup(line + 3);
		return s->position ? 0 : -ENOMEM;
	}
	return strncmp(line, "bad ", 4) ? 0 : check_state_add_bad(s, line + 4);
}

int check_state_load(struct shfs_store *store, struct check_state *out)
{
	int r = each_line(store, STATE_NAME, state_line, out);

	if (r)
		check_state_free(out);
	return r;
}

int check_state_save(struct shfs_store *store, const struct check_state *s)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	int r;

	if (s->history.full_ns)
		shfs_buf_printf(&b, "full %" PRId64 " %" PRIu64 "\n", s->history.full_ns,
		                s->history.full_flaws);
	if (s->history.begun_ns)
		shfs_buf_printf(&b, "now %" PRId64 " %u %u\n", s->history.begun_ns,
		                s->part, s->parts);
	if (s->position)
		shfs_buf_printf(&b, "at %s\n", s->position);
	for (size_t i = 0; i < s->n_bad; i++)
		shfs_buf_printf(&b, "bad %s\n", s->bad[i]);
	r = b.failed ? -ENOMEM
	             : shfs_write_file_at(store->state_fd, STATE_NAME, 0600,
	                                  b.data ? b.data : "", b.len);
	/* the check goes on all the same; if it is interrupted, the next one begins anew
	 */
	return shfs_takes_nothing(r) ? 0 : r;
}

int shfs_check_history(struct shfs_store *store, struct shfs_check_history *out)
{
	struct check_state s = { 0 };
	int r = check_state_load(store, &s);

	*out = s.history;
	check_state_free(&s);
	return r;
}

/* --- losses that were reported --- */

void check_known_free(struct check_known *k)
{
	free(k->objects.ids);
	free_strings(k->logs, k->n_logs);
	*k = (struct check_known){ 0 };
}

static int known_line(void *arg, char *line)
{
	struct check_known *k = arg;
	struct shfs_object_id id;

	if (!strncmp(line, "object ", 7) && !shfs_object_parse(line + 7, &id))
		return shfs_objects_add(&k->objects, &id);
	return strncmp(line, "log ", 4) ? 0 : list_add(&k->logs, &k->n_logs, line + 4);
}

int check_known_load(struct shfs_store *store, struct check_known *out)
{
	int r = each_line(store, KNOWN_NAME, known_line, out);

	shfs_objects_sort(&out->objects);
	if (r)
		check_known_free(out);
	return r;
}

int check_known_save(struct shfs_store *store, const struct check_known *k)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	char name[44];

	for (size_t i = 0; i < k->objects.n; i++) {
		shfs_object_name(&k->objects.ids[i], name);
		shfs_buf_printf(&b, "object %s\n", name);
	}
	for (size_t i = 0; i < k->n_logs; i++)
		shfs_buf_printf(&b, "log %s\n", k->logs[i]);
	return b.failed ? -ENOMEM
	                : shfs_write_file_at(store->state_fd, KNOWN_NAME, 0600,
	                                     b.data ? b.data : "", b.len);
}
