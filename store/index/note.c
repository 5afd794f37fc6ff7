/* SPDX-License-Identifier: MIT */
/* Adds notes and tags that users have given to commands and versions: all of them, also
 * those that were replaced. The view v_note has those that count. */
#include "store/index/internal.h"

#include "store/journal/journal.h"
#include "store/objects/inventory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ID_DIGITS 16              /* of a command */
#define NS_MAX    (INT64_MAX / 2) /* in 2116; a writer adds to it */

static bool is_id(struct shfs_bytes id)
{
	return id.len == ID_DIGITS &&
	       strspn(strndupa(id.data, id.len), "0123456789abcdef") == ID_DIGITS;
}

static bool is_absolute(struct shfs_bytes path)
{
	return path.len > 1 && path.data[0] == '/' &&
	       shfs_is_plausible_path((struct shfs_bytes){ path.data + 1, path.len - 1 });
}

static bool is_text(struct shfs_bytes text, size_t max)
{
	return text.len <= max && !(text.len && memchr(text.data, 0, text.len));
}

static bool is_plausible(const struct shfs_rec_note *n)
{
	bool of_command = n->command.len;

	return (of_command ? is_id(n->command) && !n->path.len : is_absolute(n->path)) &&
	       is_text(n->tag, SHFS_NOTE_TAG_MAX) &&
	       is_text(n->text, SHFS_NOTE_TEXT_MAX) && n->removed <= 1 &&
	       !(n->tag.len && n->text.len) && n->time_ns >= 0 && n->time_ns < NS_MAX;
}

/* Is the file of the journal, "KIND-BOOT-...", of that boot? */
static int is_of_boot(void *arg, const char *name)
{
	const struct shfs_bytes *boot = arg;
	const char *dash = strchr(name, '-');

	return dash && !strncmp(dash + 1, boot->data, SHFS_JOURNAL_BOOT_DIGITS);
}

/* Has a host whose records are of this machine's tree recorded anything in that boot? 1;
 * 0; -errno. */
static int has_recorded(struct shfs_store *store, const char *host,
                        struct shfs_bytes boot)
{
	_cleanup_close_ int dirfd = -1;
	char path[80];

	if (!strcmp(host, store->host))
		return 1;
	snprintf(path, sizeof(path), "journal/%s", host);
	dirfd = openat(store->dirfd, path,
	               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dirfd < 0)
		return errno == ENOENT ? 0 : -errno;
	return inventory_names(dirfd, NULL, is_of_boot, &boot);
}

/* Puts the tree before the path of a version. A boot of which there is neither a file of
 * the journal nor a line of the trees is another machine's, whose records did not come
 * here yet, or were removed: its tree is called as its host. */
static int find_path(struct shfs_ingest *ing, const struct shfs_rec_note *n,
                     struct shfs_bytes *out)
{
	const char *tree = shfs_trees_of_boot(ing->trees, n->host, n->boot_id);
	_cleanup_free_ char *host = NULL;
	int r = 1;

	if (!tree && n->path.len) {
		host = strndup(n->host.data, n->host.len);
		if (!host)
			return -ENOMEM;
		if (!shfs_journal_is_host(host) ||
		    n->boot_id.len < SHFS_JOURNAL_BOOT_DIGITS)
			return SHFS_DROPPED;
		r = has_recorded(ing->index->store, host, n->boot_id);
	}
	return r < 0 ? r : shfs_path_in_tree(ing, r ? tree : host, n->path, out);
}

int shfs_note_add(struct shfs_ingest *ing, const struct shfs_record *rec)
{
	const struct shfs_rec_note *n = &rec->note;
	struct shfs_bytes path;
	int r;

	if (!is_plausible(n))
		return SHFS_DROPPED;
	r = find_path(ing, n, &path);
	if (!r)
		r = shfs_sql_run(
			ing->index,
			"INSERT INTO note (producer_id, origin, seq, command, path,"
			" version_ns, tag, text, removed, time_ns) VALUES (?1, (SELECT"
			" CAST(instance AS TEXT) FROM producer WHERE producer_id = ?1),"
			" ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
			shfs_arg_int(ing->producer.id), shfs_arg_int(rec->seq),
			shfs_arg_text(n->command), shfs_arg_text(path),
			shfs_arg_int(n->version_ns), shfs_arg_text(n->tag),
			shfs_arg_text(n->text), shfs_arg_int(n->removed),
			shfs_arg_int(n->time_ns));
	if (!r)
		ing->row = sqlite3_last_insert_rowid(ing->index->db);
	return r;
}
