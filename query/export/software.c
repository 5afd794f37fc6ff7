/* SPDX-License-Identifier: MIT */
/* The software and the environment of commands in exports: each package is described
 * once. */
#include "query/export/export.h"

#include "common/hash.h"
#include "common/quote.h"

#include <errno.h>
#include <string.h>

struct shfs_export_package {
	UT_hash_handle hh;
	char id[];
};

int shfs_export_software(struct shfs_export *x, const struct shfs_entry *entry,
                         struct shfs_software *out)
{
	return shfs_software_load(x->wf->index, entry->is_process,
	                          entry->is_process ? entry->process.process_id
	                                            : entry->command.command_id,
	                          out);
}

static void add_package_id(struct shfs_buf *out, const struct shfs_used_program *program)
{
	const char *const parts[] = { program->manager, program->package,
		                      program->version };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		shfs_buf_str(out, i ? "/" : "");
		shfs_quote_uri(out, parts[i], strlen(parts[i]));
	}
}

/* Is the package new? 1, and it is noted; 0. */
static int note_package(struct shfs_export_package **known, const char *id)
{
	struct shfs_export_package *p;
	size_t size = strlen(id) + 1;

	HASH_FIND_STR(*known, id, p);
	if (p)
		return 0;
	p = calloc(1, sizeof(*p) + size);
	if (!p)
		return -ENOMEM;
	memcpy(p->id, id, size);
	HASH_ADD_STR(*known, id, p);
	if (p->hh.tbl)
		return 1;
	free(p);
	return -ENOMEM;
}

int shfs_export_each_package(struct shfs_export *x, struct shfs_export_packages *packages,
                             const struct shfs_entry *entry)
{
	_cleanup_software_ struct shfs_software s = { 0 };
	int r = shfs_export_software(x, entry, &s);

	for (size_t i = 0; i < s.n_programs && r >= 0; i++) {
		_cleanup_buf_ struct shfs_buf id = { 0 };

		if (!*s.programs[i].manager)
			continue;
		shfs_buf_str(&id, packages->prefix);
		add_package_id(&id, &s.programs[i]);
		r = id.failed ? -ENOMEM : note_package(&packages->known, id.data);
		if (r > 0)
			packages->fn(packages->arg, id.data, &s.programs[i], entry);
	}
	return MIN(r, 0);
}

void shfs_export_packages_free(struct shfs_export_packages *packages)
{
	struct shfs_export_package *p, *next;

	HASH_ITER (hh, packages->known, p, next) {
		HASH_DEL(packages->known, p);
		free(p);
	}
}

/* --- comments of scripts --- */

static void add_package_comment(void *arg, const char *id,
                                const struct shfs_used_program *program,
                                const struct shfs_entry *entry)
{
	struct shfs_buf *comment = arg;

	shfs_buf_str(comment, comment->len ? "\n#\t" : "# It was made with\n#\t");
	shfs_used_program_show(comment, program, false);
}

int shfs_export_software_comment(struct shfs_export *x)
{
	_cleanup_buf_ struct shfs_buf comment = { 0 };
	struct shfs_export_packages packages = { "", add_package_comment, &comment,
		                                 NULL };
	int r = 0;

	for (size_t i = 0; i < x->wf->n_steps && !r; i++)
		if (!x->wf->steps[i]->source)
			r = shfs_export_each_package(x, &packages,
			                             x->wf->steps[i]->entry);
	shfs_export_packages_free(&packages);
	if (comment.len)
		shfs_buf_printf(&x->out, "%s\n", comment.data);
	return r ? r : comment.failed ? -ENOMEM : 0;
}
