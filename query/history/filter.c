/* SPDX-License-Identifier: MIT */
/* The items of a filter: what must hold, as it was asked for. */
#include "query/history/filter-item.h"

#include "common/path.h"
#include "query/base/model.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

static int append_filter_item(struct shfs_filter *f, struct shfs_filter_item item)
{
	if (!MAKE_ROOM(f->items, f->n, f->cap))
		return -ENOMEM;
	f->items[f->n++] = item;
	return 0;
}

static int add_item(struct shfs_filter *f, struct shfs_filter_item item)
{
	item.group = f->n_or;
	return append_filter_item(f, item);
}

int shfs_filter_or(struct shfs_filter *f)
{
	for (size_t i = 0; i < f->n; i++) {
		if (f->items[i].group != f->n_or)
			continue;
		f->n_or++;
		return 0;
	}
	return -EINVAL;
}

int shfs_filter_add_int(struct shfs_filter *f, enum shfs_filter_kind kind, int64_t value)
{
	return add_item(f, (struct shfs_filter_item){ .kind = kind, .value = value });
}

/* A pattern with a slash is relative to the working directory, whose own path is no
 * pattern; one without a slash matches the last component of a path. */
static char *whole_pattern(const char *text)
{
	_cleanup_free_ char *here = NULL;
	struct shfs_buf out = { 0 };

	if (text[0] == '/' || !strchr(text, '/'))
		return strdup(text);
	here = shfs_operand_path(".");
	if (!here)
		return NULL;
	for (const char *p = strcmp(here, "/") ? here : ""; *p; p++) {
		if (strchr("*?[", *p))
			shfs_buf_printf(&out, "[%c]", *p);
		else
			shfs_buf_char(&out, *p);
	}
	while (!strncmp(text, "./", 2))
		text += 2;
	shfs_buf_char(&out, '/');
	shfs_buf_str(&out, text);
	return shfs_buf_take(&out);
}

static char *id_prefix(const char *text)
{
	char *low;

	if (!shfs_command_is_id(text))
		return errno = EINVAL, NULL;
	low = strdup(text);
	for (char *p = low; p && *p; p++)
		*p = tolower((unsigned char)*p);
	return low;
}

int shfs_filter_add(struct shfs_filter *f, enum shfs_filter_kind kind, const char *text)
{
	struct shfs_filter_item item = { .kind = kind };
	int r;

	errno = ENOMEM;
	switch (kind) {
	case SHFS_FILTER_CWD:
	case SHFS_FILTER_PATH:
		item.text = shfs_operand_path(text);
		break;
	case SHFS_FILTER_READ:
	case SHFS_FILTER_WROTE:
		item.pattern = strpbrk(text, "*?["); /* of GLOB */
		item.text = item.pattern ? whole_pattern(text) : shfs_operand_path(text);
		break;
	case SHFS_FILTER_NAME:
		item.pattern = true;
		item.text = strchr(text, '/') ? (errno = EINVAL, NULL) : strdup(text);
		break;
	case SHFS_FILTER_SESSION:
	case SHFS_FILTER_COMMAND:
	case SHFS_FILTER_WITHIN:
		item.text = id_prefix(text);
		break;
	default:
		item.text = strdup(text);
	}
	if (!item.text) /* no memory, or no directory that is "." */
		return errno == EINVAL ? -EINVAL : -ENOMEM;
	/* paths below "/" begin with "/", not with "//" */
	if (!strcmp(item.text, "/"))
		item.text[0] = '\0';
	r = add_item(f, item);
	if (r)
		free(item.text);
	return r;
}

const struct shfs_filter_item *item_last(const struct shfs_filter *f,
                                         enum shfs_filter_kind kind)
{
	for (size_t i = f->n; i-- > 0;)
		if (f->items[i].kind == kind)
			return &f->items[i];
	return NULL;
}

const struct shfs_filter_item *group_last(const struct shfs_filter *f,
                                          enum shfs_filter_kind kind, int group)
{
	for (size_t i = f->n; i-- > 0;)
		if (f->items[i].kind == kind && item_is_in(&f->items[i], group))
			return &f->items[i];
	return NULL;
}

static int resolve_content(struct shfs_filter_item *item, struct shfs_context *ctx,
                           struct shfs_index *index)
{
	struct shfs_content content[2];
	char object[44];
	int code = shfs_filter_content(ctx, index, item->text, content);

	if (code)
		return code;
	item->resolved = true;
	item->by_phash = !(content[0].flags & SHFS_CONTENT_OBJECT);
	for (int i = 0; i < 2; i++) {
		item->size = MAX(item->size, content[i].size);
		item->phash[i] = content[i].flags & SHFS_CONTENT_PHASH
		                         ? (int64_t)shfs_phash_kept(content[i].phash)
		                         : -1;
	}
	if (item->by_phash)
		return 0;
	shfs_object_name(&content[0].object, object);
	free(item->text);
	item->text = strdup(object);
	return item->text ? 0 : shfs_fail_index(index, -ENOMEM);
}

/* Conditions on versions that no item of the group says how they are used: any way. */
static int use_versions(struct shfs_filter *f, int group)
{
	struct shfs_filter_item used = { .kind = SHFS_FILTER_USED, .group = group };

	return !group_is_of_versions(f, group) ||
	                       group_last(f, SHFS_FILTER_READ, group) ||
	                       group_last(f, SHFS_FILTER_WROTE, group)
	               ? 0
	               : append_filter_item(f, used);
}

static bool is_last_group_empty(const struct shfs_filter *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->items[i].group == f->n_or)
			return false;
	return f->n_or > 0;
}

int shfs_filter_resolve(struct shfs_filter *f, struct shfs_context *ctx,
                        struct shfs_index *index)
{
	int code = 0, r = 0;

	if (is_last_group_empty(f)) {
		shfs_error("--or stands between conditions");
		return SHFS_EXIT_USAGE;
	}
	for (size_t i = 0; i < f->n && !code; i++)
		if (f->items[i].kind == SHFS_FILTER_CONTENT && !f->items[i].resolved)
			code = resolve_content(&f->items[i], ctx, index);
	for (int group = 0; group <= f->n_or && !code && !r; group++)
		r = use_versions(f, group);
	return r ? shfs_fail_index(index, r) : code;
}

/* Is the item a condition that a lost access could meet? *near: 1, the recording has its
 * path, or -1, it has not, as far as the items before did not either. */
static bool fits_gap(const struct shfs_filter_item *item, const char *root,
                     const char *host, int64_t begin_ns, int *near)
{
	switch (item->kind) {
	case SHFS_FILTER_SINCE:
		return begin_ns >= item->value;
	case SHFS_FILTER_UNTIL:
		return begin_ns < item->value;
	case SHFS_FILTER_HOST:
		return !strcmp(host, item->text);
	case SHFS_FILTER_PATH:
	case SHFS_FILTER_READ:
	case SHFS_FILTER_WROTE:
		if (item->pattern || shfs_path_is_below(item->text, root) ||
		    shfs_path_is_below(root, item->text))
			*near = 1;
		else if (!*near)
			*near = -1;
		return true;
	default:
		return false;
	}
}

bool shfs_filter_fits_gap(const struct shfs_filter *f, const char *root, const char *host,
                          int64_t begin_ns)
{
	for (int group = 0; group <= f->n_or; group++) {
		bool fits = true;
		int near = 0;

		for (size_t i = 0; i < f->n && fits; i++)
			fits = !item_is_in(&f->items[i], group) ||
			       fits_gap(&f->items[i], root, host, begin_ns, &near);
		if (fits && near >= 0)
			return true;
	}
	return false;
}

const char *shfs_filter_text(const struct shfs_filter *f, enum shfs_filter_kind kind)
{
	const struct shfs_filter_item *item = item_last(f, kind);

	return item ? item->text : NULL;
}

void shfs_filter_cut(struct shfs_filter *f, size_t n)
{
	while (f->n > n) {
		free(f->items[--f->n].text);
		free(f->items[f->n].hits);
	}
}

void shfs_filter_put_in_all(struct shfs_filter *f, size_t n)
{
	for (size_t i = n; i < f->n; i++)
		f->items[i].every = true;
}

void shfs_filter_free(struct shfs_filter *f)
{
	shfs_filter_cut(f, 0);
	free(f->items);
	shfs_clocks_clear(&f->clocks);
	memset(f, 0, sizeof(*f));
}

/* --- what items are about --- */

bool item_is_in(const struct shfs_filter_item *item, int group)
{
	return item->group == group || item->every || item->kind == SHFS_FILTER_PATH;
}

bool item_is_of_versions(const struct shfs_filter_item *item)
{
	switch (item->kind) {
	case SHFS_FILTER_CONTENT:
	case SHFS_FILTER_SIZE_MIN:
	case SHFS_FILTER_SIZE_MAX:
	case SHFS_FILTER_MODIFIED_SINCE:
	case SHFS_FILTER_MODIFIED_UNTIL:
		return true;
	default:
		return false;
	}
}

bool shfs_filter_is_of_versions(const struct shfs_filter *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (item_is_of_versions(&f->items[i]))
			return true;
	return false;
}

bool group_is_of_versions(const struct shfs_filter *f, int group)
{
	for (size_t i = 0; i < f->n; i++)
		if (item_is_in(&f->items[i], group) && item_is_of_versions(&f->items[i]))
			return true;
	return false;
}

bool item_names_files(const struct shfs_filter_item *item)
{
	return item->kind == SHFS_FILTER_PATH || item->kind == SHFS_FILTER_READ ||
	       item->kind == SHFS_FILTER_WROTE || item->kind == SHFS_FILTER_NAME ||
	       item->kind == SHFS_FILTER_USED;
}

bool item_is_by_versions(const struct shfs_filter *f, const struct shfs_filter_item *item)
{
	return (item->kind == SHFS_FILTER_READ || item->kind == SHFS_FILTER_WROTE ||
	        item->kind == SHFS_FILTER_USED) &&
	       group_is_of_versions(f, item->group);
}

bool item_stands_alone(const struct shfs_filter *f, const struct shfs_filter_item *item)
{
	return !item_is_of_versions(item) &&
	       !(item->kind == SHFS_FILTER_NAME && group_is_of_versions(f, item->group));
}

int shfs_filter_split(struct shfs_filter *f, struct shfs_filter *files)
{
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < f->n; i++) {
		const struct shfs_filter_item item = f->items[i];

		if (!r && (item_is_of_versions(&item) || item.kind == SHFS_FILTER_NAME ||
		           item.kind == SHFS_FILTER_PATH))
			r = append_filter_item(files, item) ?: 1;
		if (r <= 0)
			f->items[n++] = item;
		r = MIN(r, 0);
	}
	f->n = n;
	return r;
}

/* Processes have no id, no status and no session. */
static bool fits_processes(const struct shfs_filter_item *item)
{
	switch (item->kind) {
	case SHFS_FILTER_COMMAND:
	case SHFS_FILTER_WITHIN:
	case SHFS_FILTER_SESSION:
	case SHFS_FILTER_STATUS:
	case SHFS_FILTER_BY:
	case SHFS_FILTER_NOT_STATUS:
		return false;
	default:
		return true;
	}
}

bool group_fits_processes(const struct shfs_filter *f, int group)
{
	for (size_t i = 0; i < f->n; i++)
		if (item_is_in(&f->items[i], group) && !fits_processes(&f->items[i]))
			return false;
	return true;
}

bool shfs_filter_fits_processes(const struct shfs_filter *f)
{
	for (int group = 0; group <= f->n_or; group++)
		if (group_fits_processes(f, group))
			return true;
	return false;
}
