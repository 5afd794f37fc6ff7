/* SPDX-License-Identifier: MIT */
#include "query/history/gap.h"

#include "common/proc.h"
#include "common/quote.h"
#include "query/base/model.h"
#include "query/base/time.h"

#include <errno.h>
#include <string.h>

static int gaps_add(struct shfs_gaps *gaps, struct shfs_rows *rows)
{
	struct shfs_gap *list = reallocarray(gaps->list, gaps->n + 1, sizeof(*list)),
			*one;

	if (!list)
		return -ENOMEM;
	gaps->list = list;
	one = &list[gaps->n++];
	*one = (struct shfs_gap){ .host = strdup(shfs_rows_text(rows, 0)),
		                  .root = strdup(shfs_rows_text(rows, 1)),
		                  .begin_ns = shfs_rows_int(rows, 2),
		                  .end_ns = shfs_rows_int(rows, 3) };
	return one->host && one->root ? 0 : -ENOMEM;
}

int shfs_gaps_load(struct shfs_index *index, struct shfs_gaps *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_gaps_ struct shfs_gaps gaps = { 0 };
	int r = shfs_rows_open(index,
	                       "SELECT host, root, begin_ns, end_ns FROM v_gap"
	                       " ORDER BY begin_ns DESC",
	                       &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = gaps_add(&gaps, rows);
	if (r)
		return r;
	*out = gaps;
	gaps = (struct shfs_gaps){ 0 };
	return 0;
}

void shfs_gaps_clear(struct shfs_gaps *gaps)
{
	for (size_t i = 0; i < gaps->n; i++) {
		free(gaps->list[i].host);
		free(gaps->list[i].root);
	}
	free(gaps->list);
	*gaps = (struct shfs_gaps){ 0 };
}

void shfs_gap_show(struct shfs_buf *out, const struct shfs_gap *gap)
{
	char here[65];

	shfs_buf_str(out, "the recording of ");
	shfs_show_directory(out, gap->root);
	shfs_proc_host(here);
	if (strcmp(gap->host, here) != 0) {
		shfs_buf_str(out, " on ");
		shfs_quote_display(out, gap->host, strlen(gap->host));
	}
	shfs_buf_str(out, " ended unexpectedly after ");
	shfs_time_show(out, gap->begin_ns);
}

void shfs_gap_json(struct shfs_json *json, const struct shfs_gap *gap)
{
	shfs_json_object(json, NULL);
	shfs_json_str(json, "host", gap->host);
	shfs_json_str(json, "root", gap->root);
	shfs_json_time(json, "begin", gap->begin_ns);
	if (gap->end_ns)
		shfs_json_time(json, "end", gap->end_ns);
	else
		shfs_json_null(json, "end");
	shfs_json_object_end(json);
}
