/* SPDX-License-Identifier: MIT */
#include "query/remote/cmd/pulled.h"

#include "query/base/cmd.h"
#include "query/base/model.h"

#include "recording/sandbox.h"

#include <inttypes.h>

int pulled_take(struct pull *pull)
{
	int r = shfs_sandbox_enter(SHFS_SANDBOX_LOCKS);

	return r ? r : pull_take(pull);
}

void pulled_warn(const struct pull_stats *s, const char *command)
{
	if (s->damaged)
		shfs_warn("%" PRIu64 " piece%s damaged or missing there, and left out",
		          s->damaged, s->damaged == 1 ? " is" : "s are");
	if (s->missing)
		shfs_warn("%" PRIu64 " content%s neither there nor here", s->missing,
		          s->missing == 1 ? " is" : "s are");
	if (!s->not_removed)
		return;
	shfs_warn("contents that were forgotten where they were recorded are still here");
	shfs_hint("something uses the store: shfs gc removes them, or the next %s",
	          command);
}

void pulled_show(struct shfs_buf *out, const struct pull_stats *s, bool dry_run)
{
	shfs_buf_printf(out, ": %" PRIu64 " file%s of the journal, ", s->files,
	                shfs_plural(s->files));
	if (!dry_run)
		shfs_buf_printf(out, "%" PRIu64 " content%s, ", s->objects,
		                shfs_plural(s->objects));
	shfs_show_size(out, s->bytes);
	if (s->away)
		shfs_buf_printf(out, "; %" PRIu64 " content%s there", s->away,
		                s->away == 1 ? " stays" : "s stay");
	shfs_buf_char(out, '\n');
	if (*s->tree)
		shfs_buf_printf(out, "  the files of %s are %s:/... here\n", s->tree,
		                s->tree);
	if (s->forgotten)
		shfs_buf_str(out, "  what was forgotten there since is forgotten here\n");
}

int pulled_json(struct shfs_json *json, const struct pull_stats *s)
{
	shfs_json_int(json, "files", (int64_t)s->files);
	shfs_json_int(json, "objects", (int64_t)s->objects);
	shfs_json_int(json, "bytes", (int64_t)s->bytes);
	shfs_json_int(json, "away", (int64_t)s->away);
	shfs_json_int(json, "missing", (int64_t)s->missing);
	shfs_json_int(json, "damaged", (int64_t)s->damaged);
	shfs_json_bool(json, "forgotten", s->forgotten);
	if (*s->tree)
		shfs_json_str(json, "tree", s->tree);
	else
		shfs_json_null(json, "tree");
	return shfs_json_end(json) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}
