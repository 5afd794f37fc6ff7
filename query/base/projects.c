/* SPDX-License-Identifier: MIT */
/* The directories that are recorded, or were once: the file "projects" of a store. */
#include "query/base/projects.h"

#include "common/io.h"
#include "common/path.h"
#include "store/store.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME         "projects"
#define BYTES_MAX    (4 << 20)
#define LOCK_WAIT_MS 5000

static const char *const state_names[] = {
	[SHFS_PROJECT_KNOWN] = "known",
	[SHFS_PROJECT_ENABLED] = "enabled",
	[SHFS_PROJECT_QUIET] = "quiet",
};

const char *shfs_project_state_name(enum shfs_project_state state)
{
	return state_names[state];
}

void shfs_projects_clear(struct shfs_projects *projects)
{
	for (size_t i = 0; i < projects->n; i++)
		free(projects->list[i].dir);
	free(projects->list);
	*projects = (struct shfs_projects){ 0 };
}

/* Adds the project that a line tells of; a line that is not understood is skipped. */
static int add_line(struct shfs_projects *projects, const char *line, size_t len)
{
	struct shfs_project project, *grown;

	for (size_t i = 0; i < ARRAY_SIZE(state_names); i++) {
		size_t n = strlen(state_names[i]);

		if (len < n + 2 || strncmp(line, state_names[i], n) != 0 ||
		    line[n] != ' ' || line[n + 1] != '/')
			continue;
		project.state = (enum shfs_project_state)i;
		project.dir = strndup(line + n + 1, len - n - 1);
		grown = reallocarray(projects->list, projects->n + 1, sizeof(*grown));
		if (grown)
			projects->list = grown;
		if (!grown || !project.dir) {
			free(project.dir);
			return -ENOMEM;
		}
		projects->list[projects->n++] = project;
		return 0;
	}
	return 0;
}

static int read_text(int dirfd, struct shfs_buf *text)
{
	int r = shfs_read_file_at(dirfd, NAME, BYTES_MAX, text);

	return r == -ENOENT ? 0 : r;
}

int shfs_projects_read(const char *store_path, struct shfs_projects *out)
{
	_cleanup_close_ int dirfd = open(store_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r;

	if (dirfd < 0)
		return errno == ENOENT ? 0 : -errno;
	r = read_text(dirfd, &text);
	for (size_t at = 0, len; !r && at < text.len; at += len + 1) {
		len = strcspn(text.data + at, "\n");
		r = add_line(out, text.data + at, len);
	}
	return r;
}

const struct shfs_project *shfs_projects_at(const struct shfs_projects *projects,
                                            const char *dir)
{
	for (size_t i = 0; i < projects->n; i++)
		if (!strcmp(projects->list[i].dir, dir))
			return &projects->list[i];
	return NULL;
}

const struct shfs_project *shfs_projects_around(const struct shfs_projects *projects,
                                                const char *dir)
{
	const struct shfs_project *best = NULL;

	for (size_t i = 0; i < projects->n; i++) {
		const struct shfs_project *one = &projects->list[i];

		if (shfs_path_is_below(dir, one->dir) &&
		    (!best || strlen(one->dir) > strlen(best->dir)))
			best = one;
	}
	return best;
}

/* Adds the lines of text to out, with another state of dir; *had: there was one. */
static void copy_lines(const struct shfs_buf *text, const char *dir, const char *state,
                       struct shfs_buf *out, bool *had)
{
	for (size_t at = 0, len; at < text->len; at += len + 1) {
		const char *line = text->data + at, *path;

		len = strcspn(line, "\n");
		path = memchr(line, ' ', len);
		if (path && !strncmp(path + 1, dir, line + len - path - 1) &&
		    !dir[line + len - path - 1]) {
			*had = true;
			shfs_buf_printf(out, "%s %s\n", state, dir);
		} else {
			shfs_buf_add(out, line, len);
			shfs_buf_char(out, '\n');
		}
	}
}

static int update(const char *store_path, const char *dir, const char *state,
                  bool only_if_new)
{
	_cleanup_close_ int dirfd = open(store_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int lockfd = -1;
	_cleanup_buf_ struct shfs_buf text = { 0 }, out = { 0 };
	bool had = false;
	int r;

	if (*dir != '/' || strchr(dir, '\n'))
		return -EINVAL;
	if (dirfd < 0)
		return -errno;
	/* a lock of the file system may hang where that is served */
	lockfd = shfs_store_lock(store_path, "projects", LOCK_WAIT_MS);
	if (lockfd < 0)
		return lockfd;
	r = read_text(dirfd, &text);
	if (r)
		return r;
	copy_lines(&text, dir, state, &out, &had);
	if (had && only_if_new)
		return 0;
	if (!had)
		shfs_buf_printf(&out, "%s %s\n", state, dir);
	if (out.failed)
		return -ENOMEM;
	return shfs_write_file_at(dirfd, NAME, 0600, out.data, out.len);
}

int shfs_projects_set(const char *store_path, const char *dir,
                      enum shfs_project_state state)
{
	return update(store_path, dir, state_names[state], false);
}

int shfs_projects_note(const char *store_path, const char *dir)
{
	return update(store_path, dir, state_names[SHFS_PROJECT_KNOWN], true);
}
