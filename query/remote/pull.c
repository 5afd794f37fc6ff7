/* SPDX-License-Identifier: MIT */
#include "query/remote/pull.h"

#include "common/io.h"
#include "query/remote/heads.h"
#include "query/remote/pull-internal.h"
#include "recording/sandbox.h"
#include "store/objects/away.h"
#include "store/objects/content.h"
#include "store/objects/object.h"
#include "store/objects/pruned.h"
#include "store/trees.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

void pull_free(struct pull *pull)
{
	if (!pull)
		return;
	for (size_t i = 0; i < pull->n; i++) {
		manifest_clear(&pull->list[i].known);
		manifest_clear(&pull->list[i].now);
		manifest_clear(&pull->list[i].away);
		shfs_closep(&pull->list[i].lists);
		free(pull->list[i].left_out);
		for (size_t j = 0; j < pull->list[i].n_packs; j++)
			free(pull->list[i].packs[j].pieces);
		free(pull->list[i].packs);
	}
	free(pull->list);
	free(pull);
}

const struct pull_stats *pull_stats(const struct pull *pull)
{
	return &pull->stats;
}

const char *pull_host(const struct pull *pull)
{
	return pull->host;
}

/* --- where it is fetched to --- */

char *incoming_path(const struct pull *pull, const struct pulled_store *o)
{
	char *path;

	if (asprintf(&path, "remote/%s/incoming/%s", pull->place->name, o->store_id) < 0)
		return NULL;
	return path;
}

int incoming_open(const struct pull *pull, const struct pulled_store *o)
{
	_cleanup_free_ char *path = incoming_path(pull, o);
	int r = path ? shfs_mkdir_p_at(pull->place->store->dirfd, path, 0700) : -ENOMEM;
	int fd;

	if (r)
		return r;
	fd = openat(pull->place->store->dirfd, path,
	            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

void incoming_pack(const char *pack, char out[static 64])
{
	snprintf(out, 64, "objects/packs/p-%016" PRIx64 ".pack",
	         shfs_object_hash64(pack, strlen(pack)));
}

/* --- which stores have something new --- */

bool is_new_file(const struct pulled_store *o, const struct remote_file *file)
{
	const struct remote_file *known = manifest_find(&o->known, file->name);

	return !known || !remote_file_equal(known, file) ||
	       manifest_find(&o->away, file->name);
}

int object_is_wanted(struct shfs_store *store, const struct pulled_store *o,
                     const struct remote_file *file, const struct shfs_object_id *id)
{
	int r = content_look(store, id);

	if (r == -ENOENT && (o->on_demand || manifest_find(&o->away, file->name)))
		return shfs_object_is_away(store, id);
	if (r != -ENOENT)
		return r == -EBADMSG ? 1 : MIN(r, 0);
	r = shfs_object_was_pruned(store, id);
	return r < 0 ? r : !r;
}

struct most_rewrites {
	const char *store_id;
	uint64_t n;
};

static int note_rewrites(void *arg, const struct manifest *m)
{
	struct most_rewrites *most = arg;

	if (!strcmp(m->head.store_id, most->store_id))
		most->n = MAX(most->n, m->head.rewrites);
	return 0;
}

static int note_rewrites_of_place(void *arg, const struct place *place)
{
	return place_each_pulled(place, note_rewrites, arg);
}

/* Reads what is known of the store. The manifest stays empty if it was not pulled. */
static int read_known(struct pull *pull, struct pulled_store *o)
{
	char file[STORE_ID_SIZE + 8] = "pushed";
	int r;

	if (!o->is_own)
		snprintf(file, sizeof(file), "pulled/%s", o->store_id);
	r = place_read(pull->place, file, &o->known);
	if (r == -ENOENT || r == -EBADMSG || r == -EPROTONOSUPPORT)
		r = 0;
	r = r ? r : elsewhere_read(pull->place, o->store_id, &o->away);
	return r == -EBADMSG ? -EUCLEAN : r;
}

static bool is_same_head(const struct remote_head *a, const struct remote_head *b)
{
	return a->generation == b->generation && a->time_ns == b->time_ns &&
	       a->rewrites == b->rewrites;
}

/* Is a list of a pack's contents damaged or missing here? */
static int lacks_lists(struct pull *pull, struct pulled_store *o)
{
	_cleanup_close_ int lists = elsewhere_lists(pull->place, o->store_id);
	int r = lists < 0 ? lists : elsewhere_lists_are_whole(lists, &o->away);

	return r < 0 ? r : !r;
}

/* Looks at a store: 1: it has something new; 0. */
static int look_at_store(struct pull *pull, struct pulled_store *o, uint64_t generation)
{
	struct most_rewrites most = { .store_id = o->store_id };
	int r = read_known(pull, o);
	/* of what is known already some is to be fetched now */
	bool again =
		pull->options.despite_damage || (o->away.n && !pull->options.metadata);

	if (!r && o->away.n && !again) {
		r = lacks_lists(pull, o);
		again = r > 0;
		r = MIN(r, 0);
	}
	/* an older one: the listing came late, or a newer head was lost */
	if (r || (generation < o->known.head.generation && !pull->options.direct) ||
	    (generation == o->known.head.generation && !pull->options.direct && !again))
		return r;
	r = head_fetch(pull->remote, o->store_id, generation, NULL, &o->now);
	if (!r)
		pull->host = o->now.head.host;
	if (!r)
		r = place_each_source(pull->place->store, note_rewrites_of_place, NULL,
		                      &most);
	if (r || (is_same_head(&o->known.head, &o->now.head) && !again))
		return r;
	if (o->now.head.rewrites < most.n) {
		pull->stats.older++;
		return 0;
	}
	o->replaces = !o->is_own && most.n && o->now.head.rewrites > most.n;
	r = head_fetch_lists(pull->remote, &o->known, &o->now,
	                     pull->options.despite_damage ? &pull->stats.damaged : NULL);
	if (!r && !(o->left_out = calloc(o->now.n + 1, sizeof(*o->left_out))))
		r = -ENOMEM;
	return r ? r : 1;
}

static int find_stores(struct pull *pull)
{
	_cleanup_heads_ struct heads heads = { 0 };
	_cleanup_trees_ struct shfs_trees *trees = NULL;
	_cleanup_(shfs_tree_identity_clear) struct shfs_tree_identity here = { 0 };
	int r = shfs_trees_load(pull->place->store, &trees);

	if (!r)
		r = shfs_trees_settle(pull->place->store, trees);
	if (!r)
		r = shfs_trees_here(trees, &here);
	if (!r)
		r = heads_find(pull->remote, &heads);
	for (size_t i = 0; i < heads.n && r >= 0; i++) {
		struct pulled_store *o;

		if (!MAKE_ROOM(pull->list, pull->n, pull->cap))
			return -ENOMEM;
		o = &pull->list[pull->n++];
		*o = (struct pulled_store){ .lists = -1 };
		memcpy(o->store_id, heads.list[i].store_id, STORE_ID_SIZE);
		o->is_own = !strcmp(o->store_id, here.store);
		r = look_at_store(pull, o, heads.list[i].generation);
		pull->stats.stores += !o->is_own;
		if (r > 0) {
			pull->stats.stores_new++;
			continue;
		}
		manifest_clear(&o->known);
		manifest_clear(&o->now);
		manifest_clear(&o->away);
		free(o->left_out);
		pull->n--;
	}
	return MIN(r, 0);
}

/* --- fetching --- */

static int fetch_to(struct pulled_store *o, struct fetcher *f, int incoming,
                    const struct remote_file *file, const char *path)
{
	int r = fetch_file(f, file, incoming, path, NULL);

	if (r > 0)
		o->left_out[file - o->now.files] = true;
	return r == -ENOENT ? -ENODATA : MIN(r, 0);
}

/* Was the list of a pack's contents fetched by an earlier pull --metadata? One that is
 * damaged or missing by now is fetched again. */
static bool has_list(const struct pull *pull, const struct pulled_store *o,
                     const struct remote_file *file)
{
	const struct remote_file *known = manifest_find(&o->away, file->name);
	_cleanup_close_ int lists = -1;

	if (!known || !remote_file_equal(known, file))
		return false;
	lists = elsewhere_lists(pull->place, o->store_id);
	return lists >= 0 && elsewhere_list_is_whole(lists, known) > 0;
}

/* Which small files are fetched, and where to. NULL: it is not. */
static const char *small_path(const struct pull *pull, const struct pulled_store *o,
                              const struct remote_file *file)
{
	switch (file_kind_of(file->name)) {
	case FILE_STORE:
		return !strcmp(file->name, "store/format")   ? "format"
		       : !strcmp(file->name, "store/pruned") ? "made/pruned"
		                                             : NULL;
	case FILE_TREES:
	case FILE_ALIVE:
		return file->name;
	case FILE_CONTENTS:
		if (pull->options.metadata && has_list(pull, o, file))
			return NULL;
		/* fallthrough */
	case FILE_SEGMENT:
	case FILE_HOOK_LOG:
	case FILE_LOOSE:
		return is_new_file(o, file) ? file->name : NULL;
	default:
		return NULL;
	}
}

/* A loose object needs no list: its name says which it is. */
int fetch_loose(struct pull *pull, struct pulled_store *o, struct fetcher *f,
                int incoming, const struct remote_file *file)
{
	struct shfs_object_id id;
	int r = file_loose_id(file->name, &id);

	if (!r)
		r = object_is_wanted(pull->place->store, o, file, &id);
	if (r <= 0)
		return r;
	if (pull->options.dry_run) {
		pull->stats.bytes += file->bytes;
		return 0;
	}
	return fetch_to(o, f, incoming, file, file->name);
}

static int fetch_files(struct pull *pull, struct pulled_store *o, struct fetcher *f,
                       int incoming)
{
	int r = 0;

	for (size_t i = 0; i < o->now.n && !r; i++) {
		const struct remote_file *file = &o->now.files[i];
		const char *path = small_path(pull, o, file);
		enum file_kind kind = file_kind_of(file->name);

		if (!path || kind == FILE_LOOSE)
			continue;
		f->all_bytes += file->bytes;
		r = fetch_to(o, f, incoming, file, path);
		pull->stats.files += kind == FILE_SEGMENT || kind == FILE_HOOK_LOG;
	}
	for (size_t i = 0; i < o->now.n && !r && !pull->options.metadata; i++)
		if (file_kind_of(o->now.files[i].name) == FILE_LOOSE &&
		    is_new_file(o, &o->now.files[i]))
			r = fetch_loose(pull, o, f, incoming, &o->now.files[i]);
	return r;
}

static int fetch_store(struct pull *pull, struct pulled_store *o)
{
	struct fetcher f = { .remote = pull->remote,
		             .store_id = o->store_id,
		             .despite_damage = pull->options.despite_damage,
		             .progress = pull->options.progress };
	_cleanup_close_ int incoming = incoming_open(pull, o);
	int r = MIN(incoming, 0);

	pull->host = o->now.head.host;
	if (!r)
		r = fetch_files(pull, o, &f, incoming);
	if (!r && !pull->options.metadata)
		r = fetch_packs(pull, o, &f, incoming);
	pull->stats.damaged += f.damaged;
	fetcher_clear(&f);
	return r;
}

int pull_fetch(struct place *place, struct shfs_remote *remote,
               const struct pull_options *options, struct pull **out)
{
	struct pull *pull = calloc(1, sizeof(*pull));
	uint64_t got;
	int r;

	if (!pull)
		return -ENOMEM;
	*out = pull;
	pull->place = place;
	pull->remote = remote;
	pull->options = *options;
	r = elsewhere_mend(place->store);
	if (!r)
		r = remote_look(remote);
	if (!r)
		r = find_stores(pull);
	got = remote->got_bytes;
	for (size_t i = 0; i < pull->n && !r; i++)
		r = fetch_store(pull, &pull->list[i]);
	if (!options->dry_run)
		pull->stats.bytes = remote->got_bytes - got;
	if (!r)
		pull->host = NULL;
	pull->remote = NULL;
	return r;
}

/* --- contents on demand --- */

/* Fetches the objects, by the lists of packs and by the names of loose ones. */
static int fetch_wanted(struct pull *pull, struct pulled_store *o,
                        const struct shfs_objects *ids)
{
	struct fetcher f = { .remote = pull->remote,
		             .store_id = o->store_id,
		             .progress = pull->options.progress };
	_cleanup_close_ int incoming = incoming_open(pull, o);
	int r = incoming < 0 ? incoming : fetch_objects(pull, o, &f, incoming, ids);

	for (size_t i = 0; i < o->now.n && !r; i++) {
		const struct remote_file *file = &o->now.files[i];
		struct shfs_object_id id;

		if (file_kind_of(file->name) == FILE_LOOSE &&
		    !file_loose_id(file->name, &id) && shfs_objects_has(ids, &id))
			r = fetch_loose(pull, o, &f, incoming, file);
	}
	fetcher_clear(&f);
	return r == -ENOENT ? -ENODATA : r;
}

/* A process of its own takes over what was fetched: it is a stranger's. */
static int take_apart(struct pull *pull, struct pulled_store *o)
{
	int status, r;
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		r = shfs_sandbox_enter(SHFS_SANDBOX_LOCKS);
		if (!r)
			r = take_objects(pull, o);
		_exit(r ? MIN(-r, 255) : 0);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (pid < 0)
		return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

/* Removes what was fetched: it was taken, or is damaged. */
static int remove_fetched(struct pull *pull, const struct pulled_store *o)
{
	char file[STORE_ID_SIZE + 12];

	snprintf(file, sizeof(file), "incoming/%s", o->store_id);
	return place_remove_file(pull->place, file);
}

static int bring_from(struct pull *pull, struct pulled_store *o,
                      const struct manifest *files, const struct shfs_objects *ids)
{
	int r = 0;

	o->now.head = files->head;
	for (size_t i = 0; i < files->n && !r; i++)
		r = manifest_add_copy(&o->now, &files->files[i]) ? 0 : -ENOMEM;
	if (!r && !(o->left_out = calloc(o->now.n + 1, sizeof(*o->left_out))))
		r = -ENOMEM;
	if (!r)
		r = MIN(o->lists = elsewhere_lists(pull->place, o->store_id), 0);
	if (!r)
		r = fetch_wanted(pull, o, ids);
	if (!r)
		r = take_apart(pull, o);
	return r && r != -EBADMSG ? r : remove_fetched(pull, o) ?: r;
}

int pull_bring(struct place *place, struct shfs_remote *remote, const char *store_id,
               const struct manifest *files, const struct shfs_objects *ids,
               void (*progress)(uint64_t done_bytes, uint64_t all_bytes))
{
	struct pull *pull = calloc(1, sizeof(*pull));
	struct pulled_store *o;
	int r;

	if (!pull)
		return -ENOMEM;
	pull->place = place;
	pull->remote = remote;
	pull->options.progress = progress;
	if (!MAKE_ROOM(pull->list, pull->n, pull->cap)) {
		pull_free(pull);
		return -ENOMEM;
	}
	o = &pull->list[pull->n++];
	*o = (struct pulled_store){ .lists = -1, .on_demand = true };
	memcpy(o->store_id, store_id, STORE_ID_SIZE);
	r = bring_from(pull, o, files, ids);
	pull_free(pull);
	return r;
}
