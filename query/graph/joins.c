/* SPDX-License-Identifier: MIT */
/*
 * Joins by content. What copied a file may leave no read of it in the record: scp and
 * rsync from another machine, a copy by way of /tmp, a disk that was carried over. The
 * version that it left has the same bytes as another one in the store: that is its
 * origin, and the graph goes on there.
 *
 * Contents may be alike by chance: small ones, and those that many have made. These are
 * not joined; nor is what a process made that has read anything. And there must be a sign
 * that it was copied: the process copies or unpacks files, or names one outside. What seq
 * or a here-document wrote twice is no copy.
 */
#include "query/graph/internal.h"

#include "common/clock.h"
#include "common/io.h"
#include "common/program.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define FOUND_MIN   16 /* bytes of a content that was found there */
#define WRITTEN_MIN 32 /* and of one that was written */
#define MAKERS_MAX  8  /* that made the same content */
#define LOOKED_MAX  256

struct join {
	struct shfs_graph *g;
	const struct shfs_version *v;
	bool is_found;   /* v is */
	int64_t used_ns; /* of the first use of a found one; INT64_MIN: not looked up */
	size_t looked_at, makers;
	struct shfs_version_fact best; /* version_id 0: none yet */
	bool is_near;                  /* it is of the same tree as v */
};

static bool has_maker(const struct shfs_version_fact *w)
{
	return w->command_id || w->process_id;
}

static int look_for_use(const struct shfs_access *a, void *arg)
{
	struct join *j = arg;

	if (a->seen_n == j->v->n)
		j->used_ns = MIN(j->used_ns, shfs_access_begin_ns(a));
	return 0;
}

/* Was w there before v? A copy may have the time of modification of its origin, maybe in
 * whole seconds; but nothing that was in use before w was made is a copy of it. 1, 0. */
static int is_earlier(struct join *j, const struct shfs_version_fact *w)
{
	int64_t then_ns = w->content.mtime_ns, ns = j->v->mtime_ns;
	int r = 0;

	if (!j->is_found)
		return w->time_ns <= j->v->time_ns;
	if (ns % SHFS_NSEC_PER_SEC ? then_ns > ns : then_ns - ns >= SHFS_NSEC_PER_SEC)
		return 0;
	if (j->used_ns == INT64_MIN) {
		j->used_ns = INT64_MAX;
		r = shfs_facts_opens_of_file(j->g->facts, j->v->file_id, look_for_use, j);
	}
	return r ? r : w->time_ns < j->used_ns;
}

/* Made by a recorded process, and the earliest of these; of a file that was renamed, the
 * name that it got. */
static bool is_better_origin(const struct shfs_version_fact *w,
                             const struct shfs_version_fact *best)
{
	if (!best->version_id || has_maker(w) != has_maker(best))
		return !best->version_id || has_maker(w);
	if (w->time_ns != best->time_ns)
		return w->time_ns < best->time_ns;
	if (w->carried != best->carried)
		return w->carried;
	return w->version_id < best->version_id;
}

/* Is it an earlier version under another name, whose maker is that of the move? */
static bool is_moved(const struct shfs_version_fact *w)
{
	return w->origin_version_id && !w->carried;
}

/* Takes the version as the origin if it is a better one than the best so far. A version
 * of the same tree is better than each of another tree. */
static int take_better(struct join *j, const struct shfs_version_fact *w)
{
	_cleanup_free_ char *path = NULL;
	bool is_near;
	int r = shfs_facts_path(j->g->facts, w->file_id, &path);

	if (r <= 0)
		return r;
	is_near = shfs_path_is_same_tree(path, j->v->path);
	if (is_near == j->is_near ? is_better_origin(w, &j->best)
	                          : is_near || !j->best.version_id) {
		j->best = *w;
		j->is_near = is_near;
	}
	return 0;
}

static int look_for_origin(int64_t version_id, void *arg)
{
	struct join *j = arg;
	struct shfs_version_fact w;
	int r;

	if (j->looked_at++ == LOOKED_MAX)
		return 1;
	if (version_id >> 32 == j->v->file_id)
		return 0;
	r = shfs_facts_version(j->g->facts, version_id, &w);
	if (r > 0)
		r = is_moved(&w) ? 0 : is_earlier(j, &w);
	if (r <= 0)
		return r;
	/* one command may write the same to several files; and files that were there, all
	 * with the same bytes, say nothing of each other */
	if (j->v->command_id ? w.command_id == j->v->command_id
	                     : j->is_found && !has_maker(&w))
		return 0;
	j->makers += has_maker(&w) && !w.carried;
	return take_better(j, &w);
}

/* Has the maker read only what it wrote itself? */
static int has_no_inputs(struct shfs_graph *g, const struct maker_key *key,
                         const struct graph_reads *reads)
{
	for (size_t i = 0; i < reads->n; i++) {
		struct shfs_version_fact w;
		struct maker_key own;
		int r = shfs_facts_version(g->facts, reads->list[i].version_id, &w);

		if (r > 0)
			r = shfs_graph_maker_of(g,
			                        &(struct shfs_version){
							.command_id = w.command_id,
							.process_id = w.process_id },
			                        &own)
			            ?: maker_key_equal(&own, key);
		if (r <= 0)
			return r;
	}
	return 1;
}

static bool copies_or_unpacks(const char *path)
{
	const char *name = basename(path);

	return shfs_program_is_copier(name, strlen(name)) ||
	       shfs_program_unpacks(name, strlen(name));
}

/* Does a process copy or unpack that shows only its arguments, as sftp-server does? */
static int is_called_copier(struct shfs_graph *g, int64_t process_id)
{
	_cleanup_process_ struct shfs_process_row row = { 0 };
	int r = shfs_process_load(g->index, process_id, &row);

	return r > 0 ? copies_or_unpacks(row.argv) : r;
}

static int look_for_sign(const struct shfs_process_fact *p, void *arg)
{
	struct program *program;
	int r = p->outside ? 1 : shfs_graph_find_program(arg, p->program_id, &program);

	if (p->outside || r <= 0)
		return r;
	return *program->exe ? copies_or_unpacks(program->exe)
	                     : is_called_copier(arg, p->process_id);
}

/* Did the maker of v read nothing, and is there a sign that it copied? */
static int may_be_copied(struct shfs_graph *g, const struct shfs_version *v)
{
	struct graph_reads reads = { 0 };
	struct maker_key key;
	int r = shfs_graph_maker_of(g, v, &key);

	if (!r)
		r = shfs_graph_processes(g, key, false, 0, look_for_sign, g);
	if (r <= 0)
		return r;
	r = shfs_graph_reads(g, key, BY_VERSION_CONTROL, &reads);
	if (!r)
		r = has_no_inputs(g, &key, &reads);
	free(reads.list);
	return r;
}

/* --- what is not archived --- */

#define HASHED_MAX     (UINT64_C(16) << 20) /* bytes of a file that is read */
#define HASHED_ALL_MAX (UINT64_C(64) << 20) /* and of all, for one graph */

int shfs_graph_object_of_file(struct shfs_graph *g, const char *path, uint64_t size,
                              struct shfs_object_id *id)
{
	_cleanup_close_ int fd =
		open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	_cleanup_buf_ struct shfs_buf bytes = { 0 };
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) ||
	    (uint64_t)st.st_size != size || size > HASHED_MAX ||
	    g->hashed_bytes + size > HASHED_ALL_MAX)
		return 0;
	g->hashed_bytes += size;
	r = shfs_read_fd(fd, HASHED_MAX, &bytes);
	if (r || bytes.len != size)
		return r == -ENOMEM ? r : 0;
	r = shfs_index_find_object(g->index, bytes.data ?: "", bytes.len, id);
	return r == -ENOMEM ? r : r > 0;
}

/* Reads the file, if it still is as the version says: 1 and the name of the object with
 * these bytes; 0: there is none. */
static int find_object_of_file(struct shfs_graph *g, const struct shfs_version *v,
                               char name[static 44])
{
	struct shfs_object_id id;
	struct stat st;
	int r;

	if (!shfs_path_is_here(v->path) || lstat(v->path, &st) ||
	    shfs_timespec_ns(st.st_mtim) != v->mtime_ns)
		return 0;
	r = shfs_graph_object_of_file(g, v->path, v->size, &id);
	if (r > 0)
		shfs_object_name(&id, name);
	return r;
}

/* Looks among the versions with the content that the file has now. */
static int look_by_file(struct join *j)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	char name[44];
	int r = find_object_of_file(j->g, j->v, name);

	if (r <= 0)
		return r;
	r = shfs_rows_open_str(j->g->index,
	                       "SELECT version_id FROM v_version"
	                       " WHERE object_key = object_key(?1) AND object = ?1",
	                       name, &rows);
	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = look_for_origin(shfs_rows_int(rows, 0), j);
	return r;
}

int shfs_graph_joined(struct shfs_graph *g, const struct shfs_version *v,
                      int64_t *version_id)
{
	struct join j = { .g = g,
		          .v = v,
		          .is_found = !v->command_id && !v->process_id,
		          .used_ns = INT64_MIN };
	int r = 0;

	if (v->flags & SHFS_CONTENT_INCOMPLETE || (v->origin_version_id && !v->carried) ||
	    v->size < (j.is_found ? FOUND_MIN : WRITTEN_MIN))
		return 0;
	if (v->flags & SHFS_CONTENT_NAMED)
		r = shfs_facts_same(g->facts, v->version_id, look_for_origin, &j);
	else if (j.is_found)
		r = look_by_file(&j);
	if (r || !j.best.version_id || j.makers > MAKERS_MAX)
		return MIN(r, 0);
	r = j.is_found ? 1 : may_be_copied(g, v);
	if (r <= 0)
		return r;
	*version_id = j.best.version_id;
	return 1;
}
