/* SPDX-License-Identifier: MIT */
#include "query/bundle/closure.h"

#include "common/clock.h"
#include "common/io.h"
#include "common/path.h"
#include "store/capture/rules.h"
#include "store/capture/secrecy.h"
#include "store/objects/object.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>

#define LINKS_MAX 40 /* on one way, as the kernel's */
/* Each installation of a package makes it anew, of what lies there. */
#define LINKER_CACHE "/etc/ld.so.cache"
#define HEAD_MAX     4096 /* in which a private key begins */

/* A path of a set. */
struct shfs_closure_path {
	UT_hash_handle hh;
	char path[];
};

int closure_note_path(struct shfs_closure_path **set, const char *path)
{
	struct shfs_closure_path *p;
	size_t size = strlen(path) + 1;

	HASH_FIND_STR(*set, path, p);
	if (p)
		return 0;
	p = calloc(1, sizeof(*p) + size);
	if (!p)
		return -ENOMEM;
	memcpy(p->path, path, size);
	HASH_ADD_STR(*set, path, p);
	if (p->hh.tbl)
		return 1;
	free(p);
	return -ENOMEM;
}

bool closure_has_path(struct shfs_closure_path *set, const char *path)
{
	struct shfs_closure_path *p;

	HASH_FIND_STR(set, path, p);
	return p;
}

void closure_free_paths(struct shfs_closure_path **set)
{
	struct shfs_closure_path *p, *next;

	HASH_ITER (hh, *set, p, next) {
		HASH_DEL(*set, p);
		free(p);
	}
}

bool shfs_closure_is_made(const struct shfs_closure *c, const char *path)
{
	_cleanup_free_ char *dir = strdup(path);
	char *slash;

	for (; dir && *dir; *slash = 0) {
		if (closure_has_path(c->written, dir))
			return true;
		slash = strrchr(dir, '/');
		if (!slash)
			break;
	}
	return false;
}

/* --- what is there --- */

struct shfs_closure_file *shfs_closure_find(const struct shfs_closure *c,
                                            const char *path)
{
	struct shfs_closure_file *file;

	HASH_FIND_STR(c->files, path, file);
	return file;
}

static void closure_file_free(struct shfs_closure_file *file)
{
	free(file->path);
	free(file->target);
	free(file->lies_at);
	free(file);
}

/* Is the file one of the machine, not of a project? An image has a layer for those. */
static bool is_of_system(const char *path)
{
	static const char *const trees[] = { "/bin", "/etc",  "/lib", "/lib32", "/lib64",
		                             "/opt", "/sbin", "/usr", "/var" };

	for (size_t i = 0; i < ARRAY_SIZE(trees); i++)
		if (shfs_path_is_below(path, trees[i]))
			return true;
	return false;
}

/* Takes ownership of what file points to. */
static int add_file(struct shfs_closure *c, struct shfs_closure_file *file)
{
	struct shfs_closure_file *f = malloc(sizeof(*f));

	if (!f || !file->path) {
		free(file->path);
		free(file->target);
		free(file->lies_at);
		free(f);
		return -ENOMEM;
	}
	*f = *file;
	f->system = is_of_system(f->path);
	HASH_ADD_KEYPTR(hh, c->files, f->path, strlen(f->path), f);
	if (f->hh.tbl)
		return 0;
	closure_file_free(f);
	return -ENOMEM;
}

int closure_add_missing(struct shfs_closure *c, const char *path, const char *why)
{
	int r = closure_note_path(&c->known_missing, path);

	if (r <= 0)
		return r;
	if (!MAKE_ROOM(c->missing, c->n_missing, c->cap_missing))
		return -ENOMEM;
	c->missing[c->n_missing].why = why;
	c->missing[c->n_missing].path = strdup(path);
	return c->missing[c->n_missing++].path ? 0 : -ENOMEM;
}

/* --- directories and links --- */

bool closure_is_of_kernel(const char *path)
{
	static const char *const trees[] = { "/dev", "/proc", "/run", "/sys" };

	for (size_t i = 0; i < ARRAY_SIZE(trees); i++)
		if (shfs_path_is_below(path, trees[i]))
			return true;
	return false;
}

int shfs_closure_add_directory(struct shfs_closure *c, const char *path)
{
	if (!*path || !strcmp(path, "/") || closure_is_of_kernel(path) ||
	    shfs_closure_find(c, path))
		return 0;
	return add_file(c,
	                &(struct shfs_closure_file){
				.path = strdup(path),
				.kind = SHFS_CLOSURE_DIRECTORY,
				.mode = !strcmp(path, "/tmp") || !strcmp(path, "/var/tmp")
	                                        ? 01777
	                                        : 0755 });
}

int closure_add_link(struct shfs_closure *c, const char *path, const char *target)
{
	struct shfs_closure_file link = { .kind = SHFS_CLOSURE_LINK,
		                          .mode = 0777,
		                          .guessed = c->guessing };

	if (shfs_closure_find(c, path))
		return 0;
	link.path = strdup(path);
	link.target = strdup(target);
	if (!link.target) {
		free(link.path);
		return -ENOMEM;
	}
	return add_file(c, &link);
}

/* A path that is walked: how far it is, and what is left of it. */
struct way {
	struct shfs_buf at; /* "" is the root */
	char *rest;
	unsigned n_links;
};

static void way_clear(struct way *w)
{
	shfs_buf_free(&w->at);
	free(w->rest);
}

static void cut_way(struct way *w, size_t len)
{
	w->at.len = len;
	if (w->at.data)
		w->at.data[len] = 0;
}

/* Goes on where the link leads. */
static int follow_link(struct shfs_closure *c, struct way *w, size_t parent,
                       const char *rest)
{
	struct shfs_buf way = { 0 };
	const struct shfs_closure_file *known = shfs_closure_find(c, w->at.data);
	char target[4096];
	int r;

	if (++w->n_links > LINKS_MAX)
		return -ELOOP;
	if (known) {
		snprintf(target, sizeof(target), "%s", known->target);
	} else {
		ssize_t n = readlink(w->at.data, target, sizeof(target) - 1);

		if (n < 0)
			return -errno;
		target[n] = 0;
		r = closure_add_link(c, w->at.data, target);
		if (r)
			return r;
	}
	shfs_buf_printf(&way, "%s/%s", target, rest);
	free(w->rest);
	w->rest = shfs_buf_take(&way);
	cut_way(w, *target == '/' ? 0 : parent);
	return w->rest ? 0 : -ENOMEM;
}

/* Is it a link: as it was recorded, or as the disk has it? */
static bool is_link(const struct shfs_closure *c, const char *path)
{
	const struct shfs_closure_file *known = shfs_closure_find(c, path);
	struct stat st;

	if (known)
		return known->kind == SHFS_CLOSURE_LINK;
	return !closure_is_of_kernel(path) && !lstat(path, &st) && S_ISLNK(st.st_mode);
}

/* One component. */
static int step_on(struct shfs_closure *c, struct way *w)
{
	char *name = w->rest + strspn(w->rest, "/");
	size_t len = strcspn(name, "/"), parent = w->at.len;
	char *rest = name + len + strspn(name + len, "/");
	int r = 0;

	if (len == 2 && !memcmp(name, "..", 2)) {
		char *slash = w->at.len ? strrchr(w->at.data, '/') : NULL;

		cut_way(w, slash ? (size_t)(slash - w->at.data) : 0);
	} else if (len && (len != 1 || *name != '.')) {
		shfs_buf_char(&w->at, '/');
		shfs_buf_add(&w->at, name, len);
		if (w->at.failed)
			return -ENOMEM;
		if (is_link(c, w->at.data))
			return follow_link(c, w, parent, rest);
		if (*rest)
			r = shfs_closure_add_directory(c, w->at.data);
	}
	memmove(w->rest, rest, strlen(rest) + 1);
	return r;
}

int closure_walk(struct shfs_closure *c, const char *path, char **out)
{
	_cleanup_(way_clear) struct way w = { .rest = strdup(path) };
	int r = w.rest ? 0 : -ENOMEM;

	while (!r && *w.rest)
		r = step_on(c, &w);
	if (r)
		return r;
	if (!w.at.len)
		shfs_buf_char(&w.at, '/');
	*out = shfs_buf_take(&w.at);
	return *out ? 0 : -ENOMEM;
}

/* --- what must not be taken --- */

/* Certificates of the system have names as secrets have: *.pem. What root has put there
 * for all to read is none. */
static bool is_public(const char *path)
{
	struct stat st;

	return is_of_system(path) && !stat(path, &st) && !st.st_uid &&
	       (st.st_mode & S_IROTH);
}

static bool is_in_dot_directory(const struct shfs_closure *c, const char *path)
{
	for (size_t i = 0; i < c->homes.n; i++) {
		const char *below = shfs_path_relative(path, c->homes.list[i]);

		if (below && *below == '.' && strchr(below, '/'))
			return true;
	}
	return false;
}

/* Why the file must not be taken; NULL: it may be. */
static const char *why_not_taken(const struct shfs_closure *c, const char *path)
{
	static const char *const passwords[] = { "/etc/gshadow", "/etc/gshadow-",
		                                 "/etc/shadow", "/etc/shadow-" };

	if (closure_is_of_kernel(path))
		return "belongs to the running system, and is left out";
	for (size_t i = 0; i < ARRAY_SIZE(passwords); i++)
		if (!strcmp(path, passwords[i]))
			return "is secret, and is left out";
	if (shfs_rules_is_secret(c->rules, path + 1, false) && !is_public(path))
		return "is secret, and is left out";
	if (is_in_dot_directory(c, path))
		return "lies in a dot-directory of the home, and is left out";
	return NULL;
}

/* --- contents --- */

/* Does the file on the disk still hold it? 0; -ESTALE: no. */
static int compare_with_disk(int fd, uint64_t size, int64_t mtime_ns, uint32_t flags,
                             uint64_t phash)
{
	struct shfs_content now = { .size = size };
	struct stat st;
	int r = fstat(fd, &st) ? -errno : 0;

	if (r)
		return r;
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != size ||
	    shfs_timespec_ns(st.st_mtim) != mtime_ns)
		return -ESTALE;
	if (!(flags & SHFS_CONTENT_PHASH))
		return 0;
	r = shfs_object_fingerprint(fd, shfs_object_whole_max(flags), &now);
	return r ? r : shfs_phash_kept(now.phash ^ phash) ? -ESTALE : 0;
}

static int open_on_disk(const char *path)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static bool has_private_key(int fd)
{
	char head[HEAD_MAX];
	ssize_t n = shfs_pread_full(fd, head, sizeof(head), 0);

	return n > 0 && shfs_is_private_key(head, (size_t)n);
}

/* Why what lies there cannot be taken for the content; NULL: it can. */
static const char *why_not_there(const struct shfs_closure_file *f)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (lstat(f->lies_at, &st))
		return "is not archived, and is not there any more";
	if (!S_ISREG(st.st_mode))
		return "is no file with a content, and is left out";
	fd = open_on_disk(f->lies_at);
	if (fd < 0)
		return "cannot be read";
	if (compare_with_disk(fd, f->size, f->mtime_ns, f->flags, f->phash))
		return "is not archived, and was changed since";
	return has_private_key(fd) ? "is secret, and is left out" : NULL;
}

int closure_place(struct shfs_closure *c, const char *path, char **out)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *dir = strndup(path, (size_t)(slash - path)), *found = NULL;
	int r = dir ? closure_walk(c, dir, &found) : -ENOMEM;

	if (!r)
		r = shfs_closure_add_directory(c, found);
	if (r)
		return r;
	*out = shfs_path_join(found, slash + 1);
	return *out ? 0 : -ENOMEM;
}

static struct shfs_closure_file file_of_version(const struct shfs_version *v)
{
	return (struct shfs_closure_file){ .kind = SHFS_CLOSURE_FILE,
		                           .object = v->object,
		                           .flags = v->flags,
		                           .mode = v->mode & 0777,
		                           .size = v->size,
		                           .phash = v->phash,
		                           .mtime_ns = v->mtime_ns };
}

static bool is_on_disk(const struct shfs_closure_file *f)
{
	return !(f->flags & SHFS_CONTENT_OBJECT) && f->size;
}

int shfs_closure_add_version(struct shfs_closure *c, const struct shfs_version *v,
                             const char *at, const char *lies_at)
{
	struct shfs_closure_file f = file_of_version(v);
	const char *why = why_not_taken(c, v->path);
	int r;

	if (why)
		return closure_add_missing(c, v->path, why);
	r = closure_place(c, at, &f.path);
	if (r)
		return r;
	if (shfs_closure_find(c, f.path)) {
		free(f.path);
		return 0;
	}
	if (is_on_disk(&f)) {
		f.lies_at = strdup(lies_at ?: v->path);
		why = f.lies_at ? why_not_there(&f) : NULL;
	}
	if (!why)
		return add_file(c, &f);
	free(f.path);
	free(f.lies_at);
	return closure_add_missing(c, v->path, why);
}

int closure_add_disk(struct shfs_closure *c, const char *path, bool must)
{
	struct shfs_closure_file f = { .kind = SHFS_CLOSURE_FILE };
	_cleanup_free_ char *place = NULL;
	const char *why = why_not_taken(c, path);
	struct stat st;
	int r;

	if (why || stat(path, &st))
		return !must ? 0
		             : closure_add_missing(c, path,
		                                   why ?: "is not there any more");
	r = closure_walk(c, path, &place);
	if (r)
		return r;
	why = why_not_taken(c, place);
	if (why)
		return must ? closure_add_missing(c, path, why) : 0;
	if (shfs_closure_find(c, place))
		return 0;
	if (S_ISDIR(st.st_mode))
		return shfs_closure_add_directory(c, place) ?: 1;
	f.mode = st.st_mode & 0777;
	f.size = (uint64_t)st.st_size;
	f.mtime_ns = shfs_timespec_ns(st.st_mtim);
	f.lies_at = strdup(place);
	if (!f.lies_at)
		return -ENOMEM;
	why = why_not_there(&f);
	if (why) {
		free(f.lies_at);
		return must ? closure_add_missing(c, path, why) : 0;
	}
	f.path = TAKE_PTR(place);
	return add_file(c, &f) ?: 1;
}

int shfs_closure_open(const struct shfs_closure *c, const struct shfs_closure_file *f,
                      int *fd)
{
	_cleanup_close_ int content = -1;
	int r = 0;

	if (f->lies_at) {
		content = open_on_disk(f->lies_at);
		r = content < 0 ? content
		                : compare_with_disk(content, f->size, f->mtime_ns,
		                                    f->flags, f->phash);
	} else {
		FILE *temporary = tmpfile();

		content = temporary ? fcntl(fileno(temporary), F_DUPFD_CLOEXEC, 0) : -1;
		r = content < 0 ? -errno : 0;
		if (temporary)
			fclose(temporary);
		if (!r && f->flags & SHFS_CONTENT_OBJECT)
			r = shfs_object_copy(c->store, &f->object, content);
		if (!r && lseek(content, 0, SEEK_SET) < 0)
			r = -errno;
	}
	if (!r)
		*fd = TAKE_FD(content);
	return r;
}

int shfs_closure_open_version(const struct shfs_closure *c, const struct shfs_version *v,
                              const char *lies_at, int *fd)
{
	struct shfs_closure_file f = file_of_version(v);

	if (why_not_taken(c, v->path))
		return -EPERM;
	if (is_on_disk(&f)) {
		f.lies_at = (char *)(lies_at ?: v->path);
		if (why_not_there(&f))
			return -ESTALE;
	}
	return shfs_closure_open(c, &f, fd);
}

int shfs_closure_check(const struct shfs_closure_file *f, int fd)
{
	return f->lies_at
	               ? compare_with_disk(fd, f->size, f->mtime_ns, f->flags, f->phash)
	               : 0;
}

/* --- what steps accessed --- */

/* Adds what the step found at a path. */
static int add_found(struct shfs_closure *c, const struct shfs_use *use)
{
	_cleanup_version_ struct shfs_version v = { 0 };
	_cleanup_free_ char *place = NULL;
	const struct shfs_workflow_file *file;
	int r;

	if (!use->read_id)
		return use->kind == SHFS_USE_READ
		               ? MIN(closure_add_disk(c, use->path, true), 0)
		               : 0;
	if (!strcmp(use->path, LINKER_CACHE))
		return MIN(closure_add_disk(c, use->path, true), 0);
	file = shfs_workflow_file_of(c->wf, use->read_id);
	if (file && file->step)
		return 0; /* a step makes it, or takes it */
	r = shfs_version_load(c->wf->index, use->read_id, &v);
	if (r <= 0)
		return r;
	if (!S_ISLNK(v.mode))
		return shfs_closure_add_version(c, &v, v.path,
		                                file ? file->lies_at : NULL);
	r = closure_walk(c, v.path, &place);
	return r == -ELOOP || r == -ENOENT || r == -EINVAL ? 0 : r;
}

static int add_use(struct shfs_closure *c, const struct shfs_use *use)
{
	bool was_there = use->kind == SHFS_USE_READ || use->kind == SHFS_USE_CHANGED ||
	                 use->kind == SHFS_USE_REMOVED || use->kind == SHFS_USE_TOUCHED;

	if (use->directory || !was_there || closure_has_path(c->written, use->path))
		return 0;
	return add_found(c, use);
}

static int add_accesses(struct shfs_closure *c, const struct shfs_uses *uses)
{
	int r = 0;

	for (size_t i = 0; i < uses->n && !r; i++)
		r = add_use(c, &uses->list[i]);
	for (size_t i = 0; i < uses->n && !r; i++)
		if (uses->list[i].kind <= SHFS_USE_MADE)
			r = MIN(closure_note_path(&c->written, uses->list[i].path), 0);
	return r;
}

static bool has_used(const struct shfs_uses *uses, const char *path)
{
	for (size_t i = 0; i < uses->n; i++)
		if (!strcmp(uses->list[i].path, path))
			return true;
	for (size_t i = 0; i < uses->n_temporary; i++)
		if (!strcmp(uses->temporary[i].path, path))
			return true;
	return false;
}

/* Adds the programs that the command executed, if their files are not among those that it
 * accessed: then only its projects were recorded. */
static int add_programs(struct shfs_closure *c, const struct shfs_step *step,
                        const struct shfs_uses *uses)
{
	_cleanup_names_ struct shfs_names unseen = { 0 };
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	bool whole = false;
	int r = shfs_rows_open_ints(c->wf->index,
	                            "SELECT DISTINCT exe FROM v_process WHERE"
	                            " command_id = ?1 AND shell = 0 ORDER BY exe",
	                            SHFS_INTS(step->entry->command.command_id), &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		const char *exe = shfs_rows_text(rows, 0);

		r = 0;
		if (*exe != '/' || has_used(uses, exe))
			whole |= *exe == '/';
		else
			r = shfs_workflow_add_name(&unseen, exe);
	}
	if (r || whole)
		return r;
	r = shfs_workflow_add_name(&c->in_part, step->entry->command.id);
	for (size_t i = 0; i < unseen.n && !r; i++) {
		r = shfs_closure_add_program(c, unseen.list[i]);
		if (r == -ENOENT)
			r = closure_add_missing(c, unseen.list[i],
			                        "is not there any more");
	}
	return r;
}

int shfs_closure_add_step(struct shfs_closure *c, const struct shfs_step *step)
{
	_cleanup_(closure_clear_lookups) struct closure_lookups lookups = { 0 };
	_cleanup_uses_ struct shfs_uses uses = { 0 };
	int r = shfs_uses_load(c->wf->index, step->entry->command.command_id, 0, 0,
	                       &uses);

	/* the sources of paths: a further one is a line here */
	if (!r)
		r = closure_begin_lookups(c, step, &lookups);
	if (!r)
		r = add_programs(c, step, &uses);
	if (!r)
		r = add_accesses(c, &uses);
	return r ? r : closure_add_lookups(c, &lookups, &uses);
}

int shfs_closure_add_program(struct shfs_closure *c, const char *name)
{
	static const char *const dirs[] = { "/bin", "/usr/bin", "/usr/local/bin" };
	_cleanup_free_ char *path = *name == '/' ? strdup(name) : NULL;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(dirs) && !path; i++) {
		path = shfs_path_join(dirs[i], name);
		if (path && access(path, X_OK))
			free(TAKE_PTR(path));
	}
	if (!path || access(path, X_OK))
		return -ENOENT;
	r = closure_add_disk(c, path, true);
	return r < 0 ? r : closure_add_needs(c, path);
}

/* --- the whole --- */

static int compare_files(const struct shfs_closure_file *a,
                         const struct shfs_closure_file *b)
{
	return strcmp(a->path, b->path);
}

int shfs_closure_finish(struct shfs_closure *c)
{
	int r = shfs_closure_add_directory(c, "/tmp");

	if (!r && c->guesses)
		r = closure_add_links(c);
	if (!r)
		HASH_SORT(c->files, compare_files);
	return r;
}

static int find_homes(struct shfs_closure *c)
{
	const struct passwd *user = getpwuid(getuid());
	const char *home = getenv("HOME");
	int r = 0;

	if (home && *home == '/' && home[1])
		r = shfs_workflow_add_name(&c->homes, home);
	if (!r && user && *user->pw_dir == '/' && user->pw_dir[1])
		r = shfs_workflow_add_name(&c->homes, user->pw_dir);
	return r;
}

int shfs_closure_new(struct shfs_workflow *wf, struct shfs_store *store,
                     const struct shfs_config *config, struct shfs_closure **out)
{
	struct shfs_closure *c = calloc(1, sizeof(*c));
	int r = -ENOMEM;

	if (c) {
		c->wf = wf;
		c->store = store;
		r = shfs_rules_new(config, NULL, &c->rules);
	}
	if (!r)
		r = find_homes(c);
	if (r)
		shfs_closure_free(c);
	else
		*out = c;
	return r;
}

void shfs_closure_free(struct shfs_closure *c)
{
	struct shfs_closure_file *file, *next_file;

	if (!c)
		return;
	HASH_ITER (hh, c->files, file, next_file) {
		HASH_DEL(c->files, file);
		closure_file_free(file);
	}
	closure_free_paths(&c->written);
	closure_free_paths(&c->known_missing);
	for (size_t i = 0; i < c->n_missing; i++)
		free(c->missing[i].path);
	free(c->missing);
	shfs_names_clear(&c->in_part);
	shfs_names_clear(&c->homes);
	shfs_rules_free(c->rules);
	free(c);
}
