/* SPDX-License-Identifier: MIT */
/*
 * links.h - the symbolic links that a step goes through, for a scratch copy.
 *
 * A link that led to a file is recorded with what it said (fusefs/watch/links.h): of this
 * only a hash is kept, so the text is looked up in the links that were made there, or
 * read where it lies. A step that runs on what is there now gets its links as they are
 * now, with the files to which they lead now. Links on the way of what the step's words
 * name are taken from where they lie: a link that leads outside is not recorded.
 */
#pragma once

#include "query/rerun/rerun.h"

struct shfs_rerun_link {
	char *path;
	char *text; /* for the copy: what leads into the base leads into that */
};

struct shfs_rerun_links {
	struct shfs_rerun_link *list; /* below the base; none that the step makes */
	size_t n, cap;
	char **files; /* to which they lead now, if that may be another than then */
	size_t n_files, files_cap;
	char *unknown; /* a link of which the text then is not known; NULL: none */
};

_must_check_ int shfs_rerun_links_find(const struct shfs_rerun *rerun,
                                       const struct shfs_rerun_step *step,
                                       struct shfs_rerun_links *out);
void shfs_rerun_links_clear(struct shfs_rerun_links *links);
#define _cleanup_rerun_links_ _cleanup_(shfs_rerun_links_clear)
