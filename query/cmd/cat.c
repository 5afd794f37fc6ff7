/* SPDX-License-Identifier: MIT */
/* `shfs cat`: print a version of a file, byte for byte. */
#include "query/base/cmd.h"
#include "query/history/version-spec.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* Reads the object once before copying it: its hash is known only at the end, when
 * standard output already has the bytes. */
static int copy_checked(struct shfs_store *store, const struct shfs_object_id *id)
{
	_cleanup_close_ int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	int r;

	if (null < 0)
		return -errno;
	r = shfs_object_copy(store, id, null);
	return r ? r : shfs_object_copy(store, id, STDOUT_FILENO);
}

static int cat_version(struct shfs_store *store, const struct shfs_version *version)
{
	_cleanup_buf_ struct shfs_buf name = { 0 };
	int r;

	shfs_show_version(&name, version->path, version->n);
	if (!(version->flags & SHFS_CONTENT_OBJECT)) {
		shfs_error("%s is not archived: %s", name.data,
		           shfs_version_why_not_archived(version->flags));
		return SHFS_EXIT_FAILURE;
	}
	if (version->flags & SHFS_CONTENT_INCOMPLETE)
		shfs_warn("%s is incomplete: it changed while it was captured",
		          name.data);
	r = copy_checked(store, &version->object);
	if (!r)
		return SHFS_EXIT_OK;
	name.len = 0;
	shfs_show_content_error(&name, version, r);
	shfs_error("%s", name.data);
	return SHFS_EXIT_FAILURE;
}

static int run_cat(struct shfs_context *ctx, struct shfs_index *index, int argc,
                   char **argv)
{
	int code, worst = SHFS_EXIT_OK;

	for (int i = 0; i < argc; i++) {
		_cleanup_version_ struct shfs_version version = { 0 };

		code = shfs_version_spec_find(index, argv[i], &version);
		if (!code)
			code = cat_version(shfs_context_opened(ctx), &version);
		if (code && !worst)
			worst = code;
	}
	return worst;
}

const struct shfs_command shfs_cmd_cat = {
	.name = "cat",
	.args = "FILE[@N]…",
	.summary = "Print a version of a file, byte for byte",
	.description = "Without @N, the latest version that the journal knows.\n"
		       "Also FILE@{2 hours ago} and FILE@{COMMAND}.",
	.on_demand = true,
	.operands = { 1, -1 },
	.alone = true,
	.run_on_index = run_cat,
};
