/* SPDX-License-Identifier: MIT */
/* Files of which the store has a fingerprint alone: an export may take them along. */
#include "query/export/export.h"

#include "common/clock.h"
#include "common/io.h"
#include "common/path.h"
#include "query/base/trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void shfs_export_data_name(struct shfs_buf *out, const struct shfs_workflow_file *file)
{
	shfs_buf_printf(out, "%s@%lld", file->name, (long long)file->version.n);
}

int shfs_export_create(int dirfd, char *path)
{
	char *slash = strrchr(path, '/');
	int fd, r = 0;

	if (slash) {
		*slash = 0;
		r = shfs_mkdir_p_at(dirfd, path, 0777);
		*slash = '/';
	}
	if (r)
		return r;
	fd = openat(dirfd, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	            0666);
	return fd < 0 ? -errno : fd;
}

/* -ESTALE: it was changed. */
static int copy_what_lies(const struct shfs_workflow_file *file, int to)
{
	const struct shfs_version *v = &file->version;
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
		                     shfs_ns_timespec(v->mtime_ns) };
	_cleanup_close_ int from =
		open(file->lies_at, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	struct shfs_content now = { .size = v->size };
	int r = from < 0 ? -errno : shfs_copy_fd(from, to);

	if (r)
		return r;
	if (fstat(from, &st) || fchmod(to, v->mode & 0777) || futimens(to, times))
		return -errno;
	if ((uint64_t)st.st_size != v->size ||
	    shfs_timespec_ns(st.st_mtim) != v->mtime_ns)
		return -ESTALE;
	if (!(v->flags & SHFS_CONTENT_PHASH))
		return 0;
	r = shfs_object_fingerprint(from, shfs_object_whole_max(v->flags), &now);
	return r ? r : shfs_phash_kept(now.phash ^ v->phash) ? -ESTALE : 0;
}

static int say_not_copied(const struct shfs_workflow_file *file, int error)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_show_path(&shown, file->lies_at);
	shfs_error("cannot take %s along: %s", shown.data ?: "",
	           error == -ESTALE ? "it was changed" : strerror(-error));
	return SHFS_EXIT_FAILURE;
}

int shfs_export_copy_along(const struct shfs_workflow_file *file, int to)
{
	int r = copy_what_lies(file, to);

	return r ? say_not_copied(file, r) : 0;
}

static int copy_to_data(int dir, const struct shfs_workflow_file *file)
{
	_cleanup_buf_ struct shfs_buf name = { 0 };
	_cleanup_close_ int fd = -1;

	shfs_export_data_name(&name, file);
	if (name.failed)
		return -ENOMEM;
	fd = shfs_export_create(dir, name.data);
	return fd < 0 ? say_not_copied(file, fd) : shfs_export_copy_along(file, fd);
}

static bool is_to_be_taken(const struct shfs_workflow_file *file, bool sources)
{
	return file->lies_at && (!sources || file->taken);
}

/* Opens the directory of the data: a new one, or an empty one. */
static int open_data(const char *path, int *out)
{
	int r = shfs_trusted_directory(path, (struct shfs_way){ .make = true }, out);

	if (r)
		return shfs_fail_output(path, -r);
	if (shfs_is_empty_directory(path))
		return 0;
	shfs_error("%s is not empty", path);
	return SHFS_EXIT_REFUSED;
}

int shfs_export_take_along(struct shfs_export *x, bool into_crate)
{
	_cleanup_buf_ struct shfs_buf data = { 0 };
	_cleanup_close_ int dir = -1, found = -1;
	int r = 0;

	for (size_t i = 0; i < x->wf->files.n && !r; i++) {
		struct shfs_workflow_file *file = x->wf->files.list[i];

		if (!is_to_be_taken(file, !into_crate))
			continue;
		if (!into_crate && dir < 0) {
			shfs_buf_printf(&data, "%s.data", x->path);
			x->data = data.failed ? NULL : shfs_path_absolute(data.data);
			r = x->data ? open_data(x->data, &found) : -ENOMEM;
			dir = r ? -1
			        : openat(found, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			if (!r && dir < 0)
				r = shfs_fail_output(x->data, errno);
		}
		if (!r && !into_crate)
			r = copy_to_data(dir, file);
		file->along = !r;
	}
	return r;
}

/* --- what is told of them --- */

struct told {
	size_t n;
	struct shfs_buf first;
};

static void note_told(struct told *t, const struct shfs_version *version)
{
	if (!t->n++)
		shfs_show_version(&t->first, version->path, version->n);
}

/* what: "%s" of how many there are. */
static void say_told(struct told *t, const char *is, const char *are)
{
	if (t->n == 1)
		shfs_warn("%s is not archived%s", t->first.data ?: "", is);
	else if (t->n)
		shfs_warn("%zu files, as %s, are not archived%s", t->n,
		          t->first.data ?: "", are);
	shfs_buf_free(&t->first);
}

bool shfs_export_say_unarchived(struct shfs_workflow *wf, bool crate)
{
	struct told there = { 0 }, lost = { 0 };

	for (size_t i = 0; i < wf->files.n; i++) {
		const struct shfs_workflow_file *file = wf->files.list[i];

		if (shfs_export_is_archived(file) || file->along ||
		    (!crate && !file->taken))
			continue;
		note_told(file->lies_at ? &there : &lost, &file->version);
	}
	if (crate)
		say_told(
			&there,
			": the crate has only its name; --with-data takes it along",
			": the crate has only their names; --with-data takes them along");
	else
		say_told(&there,
		         ": it is copied from where it lies, if it is still the same; "
		         "--with-data takes it along",
		         ": they are copied from where they lie, if they are still the "
		         "same; --with-data takes them along");
	say_told(&lost, ", and is not there any more: this is not complete",
	         ", and are not there any more: this is not complete");
	return lost.n || (crate && there.n);
}
