/* SPDX-License-Identifier: MIT */
/* The directory that a workflow's run stands for, and the names of files in it. */
#include "query/rerun/workflow.h"

#include "common/path.h"

#include <errno.h>
#include <string.h>

void shfs_base_widen(char *base, const char *path)
{
	while (!shfs_path_is_below(path, base)) {
		char *slash = strrchr(base, '/');

		slash[slash == base] = 0;
	}
}

static int add_project_root(struct shfs_workflow *wf, const struct shfs_version *version)
{
	char *root;
	int r;

	for (size_t i = 0; i < wf->roots.n; i++)
		if (shfs_path_is_below(version->path, wf->roots.list[i]))
			return 0;
	r = shfs_version_root(wf->index, version, &root);
	if (r <= 0)
		return r;
	r = shfs_workflow_add_name(&wf->roots, root);
	free(root);
	return r;
}

/* Finds the project of the first target, or a directory that contains all files. */
static int find_workflow_base(struct shfs_workflow *wf)
{
	const struct shfs_version *first =
		wf->targets.n ? &wf->targets.list[0]->version : NULL;
	int r = 0;

	for (size_t i = 0; i < wf->files.n && !r; i++)
		r = add_project_root(wf, &wf->files.list[i]->version);
	if (r)
		return r;
	for (size_t i = 0; i < wf->roots.n; i++)
		if (!wf->base && first &&
		    shfs_path_is_below(first->path, wf->roots.list[i]))
			wf->base = strdup(wf->roots.list[i]);
	if (!wf->base)
		wf->base =
			first ? strndup(first->path,
		                        MAX(strrchr(first->path, '/') - first->path, 1))
			      : strdup(wf->steps[0]->entry->command.cwd);
	if (!wf->base)
		return -ENOMEM;
	for (size_t i = 0; i < wf->files.n; i++)
		shfs_base_widen(wf->base, wf->files.list[i]->version.path);
	for (size_t i = 0; i < wf->n_steps; i++) {
		if (wf->steps[i]->entry)
			shfs_base_widen(wf->base, wf->steps[i]->entry->command.cwd);
		for (size_t k = 0; k < wf->steps[i]->dirs.n; k++)
			shfs_base_widen(wf->base, wf->steps[i]->dirs.list[k]);
	}
	return 0;
}

static int shorten(struct shfs_workflow *wf, char **path)
{
	char *relative = strdup(shfs_path_relative(*path, wf->base) ?: "");

	free(*path);
	*path = relative;
	return relative ? 0 : -ENOMEM;
}

static int name_all(struct shfs_workflow *wf)
{
	int r = 0;

	for (size_t i = 0; i < wf->files.n; i++) {
		struct shfs_workflow_file *file = wf->files.list[i];

		file->name = shfs_path_relative(file->version.path, wf->base);
	}
	for (size_t i = 0; i < wf->n_steps && !r; i++) {
		struct shfs_step *step = wf->steps[i];

		for (size_t k = 0; k < step->dirs.n && !r; k++)
			r = shorten(wf, &step->dirs.list[k]);
		if (step->entry && !r) {
			step->cwd = strdup(step->entry->command.cwd);
			r = step->cwd ? shorten(wf, &step->cwd) : -ENOMEM;
		}
	}
	return r;
}

int shfs_workflow_find_base(struct shfs_workflow *wf)
{
	int r = find_workflow_base(wf);

	return r ? r : name_all(wf);
}
