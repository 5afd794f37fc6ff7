/* SPDX-License-Identifier: MIT */
#include "query/history/entry-columns.h"

#include "common/quote.h"
#include "query/base/time.h"

#include <string.h>

static void quote_cell(struct shfs_buf *out, const char *text)
{
	shfs_quote_display(out, text, strlen(text));
}

static int command_cell(struct shfs_index *index, const struct shfs_command_row *c,
                        enum shfs_entry_column column, struct shfs_buf *out)
{
	switch (column) {
	case SHFS_ENTRY_ID:
		return shfs_show_id(index, out, c->id);
	case SHFS_ENTRY_BEGIN:
		shfs_time_show(out, c->begin_ns);
		break;
	case SHFS_ENTRY_END:
		if (c->ended)
			shfs_time_show(out, c->end_ns);
		break;
	case SHFS_ENTRY_DURATION:
		if (c->ended)
			shfs_time_show_duration(out, c->end_ns - c->begin_ns);
		break;
	case SHFS_ENTRY_STATUS:
		if (c->has_status)
			shfs_buf_int(out, c->status);
		break;
	case SHFS_ENTRY_SESSION:
		quote_cell(out, c->session);
		break;
	case SHFS_ENTRY_HOST:
		quote_cell(out, c->host);
		break;
	case SHFS_ENTRY_CWD:
		quote_cell(out, c->cwd);
		break;
	case SHFS_ENTRY_INVOKER:
		quote_cell(out, c->invoker);
		break;
	case SHFS_ENTRY_TEXT:
		if (!c->hidden)
			shfs_quote_display(out, c->text, c->text_len);
		break;
	case SHFS_ENTRY_COLUMNS:
		break;
	}
	return 0;
}

static void process_cell(const struct shfs_process_row *p, enum shfs_entry_column column,
                         struct shfs_buf *out)
{
	switch (column) {
	case SHFS_ENTRY_BEGIN:
		shfs_time_show(out, p->first_ns);
		break;
	case SHFS_ENTRY_HOST:
		quote_cell(out, p->host);
		break;
	case SHFS_ENTRY_CWD:
		quote_cell(out, p->cwd);
		break;
	case SHFS_ENTRY_TEXT:
		shfs_show_process(out, p, SIZE_MAX / 2);
		break;
	default:
		break;
	}
}

int shfs_entry_cell(struct shfs_index *index, const struct shfs_entry *e,
                    enum shfs_entry_column column, struct shfs_buf *out)
{
	if (!e)
		return 0;
	if (!e->is_process)
		return command_cell(index, &e->command, column, out);
	process_cell(&e->process, column, out);
	return 0;
}
