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

void shfs_export_package_id(struct shfs_buf *out, const struct shfs_used_program *program)
{
	const char *const parts[] = { program->manager, program->package,
		                      program->version };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		shfs_buf_str(out, i ? "/" : "");
		shfs_quote_uri(out, parts[i], strlen(parts[i]));
	}
}

int shfs_export_package_is_new(struct shfs_export_package **known, const char *id)
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

void shfs_export_packages_free(struct shfs_export_package **known)
{
	struct shfs_export_package *p, *next;

	HASH_ITER (hh, *known, p, next) {
		HASH_DEL(*known, p);
		free(p);
	}
}

/* --- comments of scripts --- */

int shfs_export_software_comment(struct shfs_export *x)
{
	struct shfs_export_package *known = NULL;
	int r = 0;

	for (size_t i = 0; i < x->wf->n_steps && r >= 0; i++) {
		_cleanup_software_ struct shfs_software s = { 0 };

		if (x->wf->steps[i]->source)
			continue;
		r = shfs_export_software(x, x->wf->steps[i]->entry, &s);
		for (size_t k = 0; k < s.n_programs && r >= 0; k++) {
			_cleanup_buf_ struct shfs_buf shown = { 0 };

			if (!*s.programs[k].manager)
				continue;
			shfs_used_program_show(&shown, &s.programs[k], false);
			r = shown.failed ? -ENOMEM
			                 : shfs_export_package_is_new(&known, shown.data);
			if (r <= 0)
				continue;
			shfs_buf_printf(&x->out, "%s%s",
			                HASH_COUNT(known) == 1 ? "# It was made with\n#\t"
			                                       : "\n#\t",
			                shown.data);
		}
	}
	if (known)
		shfs_buf_char(&x->out, '\n');
	shfs_export_packages_free(&known);
	return MIN(r, 0);
}
