/* SPDX-License-Identifier: MIT */
#include "query/graph/compare.h"

#include "common/path.h"
#include "common/quote.h"
#include "query/graph/internal.h"
#include "query/history/software.h"

#include <errno.h>
#include <string.h>

#define MOVES_MAX 1000 /* steps from a content to its writer */

struct stage_node {
	struct shfs_stage s;
	int64_t command_id[2];
	size_t number; /* in the order of discovery */
	struct shfs_difference **last;
	struct shfs_difference *left; /* results outside, as they were read later */
	struct stage_node *queued;
	UT_hash_handle hh;
};

struct shfs_comparison {
	struct shfs_index *index;
	struct shfs_graph *graph; /* only for its questions to the index */
	struct stage_node *stages, *queue, **queue_end;
	struct shfs_stage *first;
};

const char *shfs_difference_word(enum shfs_difference_kind kind)
{
	static const char *const words[] = {
		[SHFS_DIFFERENT_TEXT] = "text",
		[SHFS_DIFFERENT_CWD] = "cwd",
		[SHFS_DIFFERENT_SHELL] = "shell",
		[SHFS_DIFFERENT_PROGRAM] = "program",
		[SHFS_DIFFERENT_SOFTWARE] = "software",
		[SHFS_DIFFERENT_INPUT] = "input",
		[SHFS_DIFFERENT_ENVIRONMENT] = "environment",
		[SHFS_DIFFERENT_STATUS] = "status",
		[SHFS_DIFFERENT_RESULT] = "result",
		[SHFS_DIFFERENT_ARGUMENTS] = "arguments",
	};

	return words[kind];
}

static void differences_free(struct shfs_difference *d)
{
	for (struct shfs_difference *next; d; d = next) {
		next = d->next;
		for (int i = 0; i < 2; i++) {
			shfs_version_clear(&d->version[i]);
			free(d->name[i]);
		}
		free(d);
	}
}

void shfs_comparison_free(struct shfs_comparison *c)
{
	struct stage_node *node, *next;

	if (!c)
		return;
	HASH_ITER (hh, c->stages, node, next) {
		HASH_DEL(c->stages, node);
		differences_free(node->s.differences);
		differences_free(node->left);
		for (int i = 0; i < 2; i++)
			shfs_entry_clear(&node->s.entry[i]);
		free(node);
	}
	shfs_graph_free(c->graph);
	free(c);
}

static struct shfs_difference *add_difference(struct stage_node *node,
                                              enum shfs_difference_kind kind)
{
	struct shfs_difference *d = calloc(1, sizeof(*d));

	if (d) {
		d->kind = kind;
		*node->last = d;
		node->last = &d->next;
	}
	return d;
}

/* --- stages --- */

static int load_stage(struct shfs_comparison *c, struct stage_node *node)
{
	int r = 1;

	for (int i = 0; i < 2 && r > 0; i++)
		r = shfs_entry_load(c->index, false, node->command_id[i], 0,
		                    &node->s.entry[i]);
	return r > 0 ? 0 : r ? r : -ENOENT;
}

/* Adds a stage, once for each two commands. */
static int add_stage(struct shfs_comparison *c, int64_t first, int64_t second,
                     struct stage_node **out)
{
	int64_t ids[2] = { first, second };
	struct stage_node *node;

	HASH_FIND(hh, c->stages, ids, sizeof(ids), *out);
	if (*out)
		return 0;
	node = calloc(1, sizeof(*node));
	if (!node)
		return -ENOMEM;
	memcpy(node->command_id, ids, sizeof(ids));
	node->number = HASH_COUNT(c->stages);
	node->last = &node->s.differences;
	HASH_ADD(hh, c->stages, command_id, sizeof(ids), node);
	if (!node->hh.tbl) {
		free(node);
		return -ENOMEM;
	}
	*c->queue_end = node;
	c->queue_end = &node->queued;
	*out = node;
	return load_stage(c, node);
}

/* Do both commands begin with the same word? */
static bool is_same_word(const char *a, const char *b)
{
	size_t len = strcspn(a, " \t\n;|&<>");

	return !strncmp(a, b, len) && (!b[len] || strchr(" \t\n;|&<>", b[len]));
}

/* Finds the command that wrote the content, before all renames and links. *command_id 0:
 * none. */
static int find_writing_command(struct shfs_comparison *c,
                                const struct shfs_version *version, int64_t *command_id)
{
	int64_t origin = version->origin_version_id;
	bool moved = strcmp(version->source, "written") != 0;
	int r = 1;

	*command_id = version->command_id;
	for (int steps = 0; moved && origin && r > 0 && steps < MOVES_MAX; steps++) {
		_cleanup_version_ struct shfs_version v = { 0 };

		r = shfs_version_load(c->index, origin, &v);
		if (r <= 0)
			break;
		*command_id = v.command_id;
		origin = v.origin_version_id;
		moved = strcmp(v.source, "written") != 0;
	}
	return MIN(r, 0);
}

/* Adds two commands that may have done the same as a stage: 1; 0 if they are none; or a
 * negative errno. */
static int follow_commands(struct shfs_comparison *c, int64_t first, int64_t second,
                           struct stage_node **out)
{
	_cleanup_command_ struct shfs_command_row a = { 0 }, b = { 0 };
	int r;

	if (!first || !second || first == second)
		return 0;
	r = shfs_command_load(c->index, first, &a);
	if (r > 0)
		r = shfs_command_load(c->index, second, &b);
	if (r <= 0 || a.hidden || b.hidden || !is_same_word(a.text, b.text))
		return MIN(r, 0);
	return add_stage(c, first, second, out) ?: 1;
}

/* --- by way of files outside --- */

struct way {
	const char *path;
	int64_t left_by; /* the command; 0: not known */
};

static int note_leaver(const char *path, struct maker_key by, int64_t process_id,
                       const struct graph_read *only, void *arg)
{
	struct way *way = arg;

	if (strcmp(path, way->path) != 0)
		return 0;
	way->left_by = by.id;
	return 1;
}

/* Adds what the commands of a stage have left outside to its results. */
static int add_left(struct stage_node *node, const struct shfs_difference *input)
{
	struct shfs_difference *d;

	for (d = node->left; d; d = d->next)
		if (!strcmp(d->version[0].path, input->version[0].path))
			return 0;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->kind = SHFS_DIFFERENT_RESULT;
	d->next = node->left;
	node->left = d;
	for (int i = 0; i < 2; i++) {
		d->version[i] = input->version[i];
		d->version[i].path = strdup(input->version[i].path);
	}
	return d->version[0].path && d->version[1].path ? 0 : -ENOMEM;
}

/* Adds the commands that left two contents of a file outside as a stage: as below. */
static int follow_ways(struct shfs_comparison *c, const struct stage_node *node,
                       const struct shfs_difference *d)
{
	struct way ways[2] = { { d->version[0].path }, { d->version[1].path } };
	struct stage_node *stage;
	int r = shfs_graph_is_outside(c->graph, d->version[0].path);

	for (int i = 0; i < 2 && r > 0; i++) {
		const struct maker_key key = { node->command_id[i] };

		r = shfs_graph_taken(c->graph, key, note_leaver, &ways[i]);
		r = r < 0 ? r : 1;
	}
	if (r > 0)
		r = follow_commands(c, ways[0].left_by, ways[1].left_by, &stage);
	return r > 0 ? add_left(stage, d) ?: 1 : r;
}

/* Adds the makers of two contents that both commands of a stage read as a stage: 1; 0 if
 * they are none; or a negative errno. */
static int follow_difference(struct shfs_comparison *c, const struct stage_node *node,
                             const struct shfs_difference *d)
{
	struct stage_node *stage;
	int64_t first, second;
	int r = find_writing_command(c, &d->version[0], &first)
	                ?: find_writing_command(c, &d->version[1], &second);

	if (!r)
		r = follow_commands(c, first, second, &stage);
	return r || first || second ? r : follow_ways(c, node, d);
}

/* --- files --- */

/* A version by its name: relative to the working directory of its command, so that the
 * same work in another directory compares. */
struct item {
	const char *name;
	char *source; /* path of a Python module's source, if a compiled file was read;
	               * or NULL */
	int64_t version_id;
};

struct items {
	struct item *list;
	size_t n;
};

static int compare_items(const void *a, const void *b)
{
	return strcmp(((const struct item *)a)->name, ((const struct item *)b)->name);
}

/* The version that was renamed or linked. */
static int set_origin_item(struct shfs_index *index, const struct shfs_use *use,
                           struct item *out)
{
	_cleanup_version_ struct shfs_version v = { 0 };
	int r = shfs_version_load(index, use->made_id, &v);

	*out = (struct item){ .name = use->from,
		              .version_id = r > 0 ? v.origin_version_id : 0 };
	return MIN(r, 0);
}

/* The source of a Python module that was already compiled when the command began. */
static int set_source_item(struct shfs_comparison *c, const struct shfs_entry *entry,
                           const struct shfs_use *use, struct item *out)
{
	int64_t version_id;
	int r = use->read_id
	                ? shfs_graph_compiled_from(c->graph, use->read_id >> 32,
	                                           use->path, entry->command.begin_ns,
	                                           &version_id)
	                : 0;

	if (r > 0)
		r = shfs_facts_path(c->graph->facts, version_id >> 32, &out->source);
	if (r <= 0)
		return r;
	out->name = out->source;
	out->version_id = version_id;
	return 0;
}

static int set_item_of_use(struct shfs_comparison *c, const struct shfs_entry *entry,
                           const struct shfs_use *use, bool made, struct item *out)
{
	bool moved = use->kind == SHFS_USE_RENAMED || use->kind == SHFS_USE_LINKED;

	*out = (struct item){ .name = use->path };
	if (!made && use->bookkeeping)
		return set_source_item(c, entry, use, out);
	if (use->directory || use->bookkeeping)
		return 0;
	if (!made && moved && use->from && use->made_id)
		return set_origin_item(c->index, use, out);
	if (!made)
		out->version_id = use->read_id;
	else if (use->kind != SHFS_USE_READ && use->kind != SHFS_USE_REMOVED)
		out->version_id = use->made_id;
	return 0;
}

static void items_free(struct items *items)
{
	for (size_t i = 0; i < items->n; i++)
		free(items->list[i].source);
	free(items->list);
}

/* Drops the second entry of a module whose source was also read directly. */
static void drop_repeated_items(struct items *items)
{
	size_t n = 0;

	for (size_t i = 0; i < items->n; i++)
		if (n && !strcmp(items->list[n - 1].name, items->list[i].name))
			free(items->list[i].source);
		else
			items->list[n++] = items->list[i];
	items->n = n;
}

/* Lists what a command read, or what it left. */
static int list_items(struct shfs_comparison *c, const struct shfs_entry *entry,
                      bool made, struct items *out)
{
	int r = 0;

	out->list = calloc(entry->uses.n + 1, sizeof(*out->list));
	if (!out->list)
		return -ENOMEM;
	for (size_t i = 0; i < entry->uses.n && !r; i++) {
		struct item *item = &out->list[out->n];

		r = set_item_of_use(c, entry, &entry->uses.list[i], made, item);
		item->name =
			shfs_path_relative(item->name, entry->command.cwd) ?: item->name;
		out->n += item->version_id != 0;
	}
	qsort(out->list, out->n, sizeof(*out->list), compare_items);
	drop_repeated_items(out);
	return r;
}

/* Contents that have only a fingerprint are equal if the fingerprint is. */
static bool is_same_version_content(const struct shfs_version *a,
                                    const struct shfs_version *b)
{
	if (a->version_id == b->version_id)
		return true;
	if ((a->flags & SHFS_CONTENT_NAMED) && (b->flags & SHFS_CONTENT_NAMED))
		return !memcmp(&a->object, &b->object, sizeof(a->object));
	return shfs_content_hashed_alike(a->flags, b->flags) && a->phash == b->phash &&
	       a->size == b->size &&
	       (a->mtime_ns == b->mtime_ns || a->flags & SHFS_CONTENT_WHOLE);
}

/* Is the file a program of which it is said already that it differs? */
static bool is_told_program(const struct stage_node *node, const struct shfs_version *v)
{
	size_t len = v->path ? strlen(v->path) : 0;

	for (const struct shfs_difference *d = node->s.differences; d && len; d = d->next)
		if (d->kind == SHFS_DIFFERENT_SOFTWARE &&
		    !strncmp(d->name[0], v->path, len) && d->name[0][len] == ' ')
			return true;
	return false;
}

/* Adds a file that differs; a or b is NULL if the file is missing on that side. */
static int add_different_file(struct shfs_comparison *c, struct stage_node *node,
                              enum shfs_difference_kind kind, const struct item *a,
                              const struct item *b)
{
	const struct item *items[2] = { a, b };
	struct shfs_difference *d;
	struct shfs_version v[2] = { 0 };
	int r = 1;

	if (a && b && a->version_id == b->version_id)
		return 0;
	for (int i = 0; i < 2 && r > 0; i++)
		if (items[i])
			r = shfs_version_load(c->index, items[i]->version_id, &v[i]);
	d = r > 0 && !(a && b && is_same_version_content(&v[0], &v[1])) &&
	                    !is_told_program(node, &v[0])
	            ? add_difference(node, kind)
	            : NULL;
	if (!d) {
		shfs_version_clear(&v[0]);
		shfs_version_clear(&v[1]);
		return MIN(r, 0);
	}
	memcpy(d->version, v, sizeof(v));
	if (kind == SHFS_DIFFERENT_INPUT && a && b) {
		r = follow_difference(c, node, d);
		d->explained = r > 0;
	}
	return MIN(r, 0);
}

static int compare_used_files(struct shfs_comparison *c, struct stage_node *node,
                              enum shfs_difference_kind kind)
{
	struct items items[2] = { 0 };
	size_t i = 0, k = 0;
	int r = 0;

	for (int side = 0; side < 2 && !r; side++)
		r = list_items(c, &node->s.entry[side], kind == SHFS_DIFFERENT_RESULT,
		               &items[side]);
	while (!r && (i < items[0].n || k < items[1].n)) {
		const struct item *a = i < items[0].n ? &items[0].list[i] : NULL;
		const struct item *b = k < items[1].n ? &items[1].list[k] : NULL;
		int order = !a ? 1 : !b ? -1 : compare_items(a, b);

		i += order <= 0;
		k += order >= 0;
		r = add_different_file(c, node, kind, order <= 0 ? a : NULL,
		                       order >= 0 ? b : NULL);
	}
	items_free(&items[0]);
	items_free(&items[1]);
	return r;
}

/* --- the rest of a command --- */

static int compare_texts(struct stage_node *node)
{
	const struct shfs_command_row *a = &node->s.entry[0].command;
	const struct shfs_command_row *b = &node->s.entry[1].command;
	bool same = a->hidden == b->hidden && a->text_len == b->text_len &&
	            !memcmp(a->text, b->text, a->text_len);

	if (!same && !add_difference(node, SHFS_DIFFERENT_TEXT))
		return -ENOMEM;
	if (strcmp(a->cwd, b->cwd) != 0 && !add_difference(node, SHFS_DIFFERENT_CWD))
		return -ENOMEM;
	return 0;
}

static int compare_statuses(struct stage_node *node)
{
	const struct shfs_command_row *a = &node->s.entry[0].command;
	const struct shfs_command_row *b = &node->s.entry[1].command;
	bool same = a->has_status == b->has_status && a->status == b->status;

	return same || add_difference(node, SHFS_DIFFERENT_STATUS) ? 0 : -ENOMEM;
}

static int compare_shells(struct shfs_comparison *c, struct stage_node *node)
{
	_cleanup_free_ char *a = NULL, *b = NULL;
	struct shfs_difference *d;
	const struct shfs_entry *entry = node->s.entry;
	int r = shfs_command_shell(c->index, &entry[0].command, "", &a)
	                ?: shfs_command_shell(c->index, &entry[1].command, "", &b);

	if (r || !strcmp(a, b))
		return r;
	d = add_difference(node, SHFS_DIFFERENT_SHELL);
	if (!d)
		return -ENOMEM;
	d->name[0] = TAKE_PTR(a);
	d->name[1] = TAKE_PTR(b);
	return 0;
}

/* The exe or argv of programs that only one of the two commands executed. The shell that
 * runs everything does not count: rerun uses another one than the user. */
#define ALONE(column)                                                                    \
	"SELECT DISTINCT " column " FROM v_process WHERE command_id = ?1 AND NOT shell"  \
	" AND exe <> '' AND exe NOT GLOB '*/bash' AND exe NOT GLOB '*/zsh'"              \
	" AND exe NOT GLOB '*/fish' AND " column " NOT IN (SELECT " column               \
	" FROM v_process WHERE command_id = ?2) ORDER BY " column

static char *join_arguments(const char *argv, size_t len)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	for (size_t i = 0; i < len;) {
		size_t n = strnlen(argv + i, len - i);

		if (i)
			shfs_buf_char(&out, ' ');
		shfs_quote_shell(&out, argv + i, n);
		i += n + 1;
	}
	return shfs_buf_take(&out);
}

static int add_unmatched(struct shfs_comparison *c, struct stage_node *node, int side,
                         enum shfs_difference_kind kind)
{
	bool program = kind == SHFS_DIFFERENT_PROGRAM;
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(c->index, program ? ALONE("exe") : ALONE("argv"),
	                            SHFS_INTS(node->command_id[side],
	                                      node->command_id[!side]),
	                            &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		struct shfs_difference *d = add_difference(node, kind);
		const char *text = shfs_rows_text(rows, 0);

		if (!d)
			return -ENOMEM;
		d->name[side] = program ? strdup(text)
		                        : join_arguments(text, shfs_rows_bytes(rows, 0));
		r = d->name[side] ? 0 : -ENOMEM;
	}
	return r;
}

/* --- software and environment --- */

/* Returns "samtools 1.17 (conda)  /opt/conda/bin/samtools". */
static char *software_text(const struct shfs_used_program *p)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	shfs_buf_str(&out, p->path);
	shfs_buf_str(&out, "  ");
	shfs_used_program_show(&out, p, !*p->manager);
	return shfs_buf_take(&out);
}

/* Is it the same program for the user, maybe at another place: of the same package, with
 * the same name? */
static bool is_same_tool(const struct shfs_used_program *a,
                         const struct shfs_used_program *b)
{
	return *a->manager && *b->manager && !strcmp(a->package, b->package) &&
	       !strcmp(basename(a->path), basename(b->path));
}

/* Finds the program that takes the place of a in the other run. */
static const struct shfs_used_program *find_counterpart(const struct shfs_used_program *a,
                                                        const struct shfs_software *other)
{
	for (size_t i = 0; i < other->n_programs; i++)
		if (!strcmp(a->path, other->programs[i].path))
			return &other->programs[i];
	for (size_t i = 0; i < other->n_programs; i++)
		if (is_same_tool(a, &other->programs[i]))
			return &other->programs[i];
	return NULL;
}

static int compare_programs(struct stage_node *node, const struct shfs_software s[2])
{
	for (size_t i = 0; i < s[0].n_programs; i++) {
		const struct shfs_used_program *a = &s[0].programs[i];
		const struct shfs_used_program *b = find_counterpart(a, &s[1]);
		struct shfs_difference *d;

		if (!b || shfs_used_program_equals(a, b))
			continue;
		d = add_difference(node, SHFS_DIFFERENT_SOFTWARE);
		if (!d)
			return -ENOMEM;
		d->name[0] = software_text(a);
		d->name[1] = software_text(b);
		if (!d->name[0] || !d->name[1])
			return -ENOMEM;
	}
	return 0;
}

/* Has the environment exactly this variable? */
static bool has_variable(const struct shfs_software *s, const char *variable)
{
	for (size_t i = 0; i < s->n_variables; i++)
		if (!strcmp(s->variables[i], variable))
			return true;
	return false;
}

/* Finds a variable of this name that the other side does not have just so. */
static const char *find_other_value(const struct shfs_software s[2], int side,
                                    const char *variable)
{
	size_t len = strcspn(variable, "=") + 1;

	for (size_t i = 0; i < s[side].n_variables; i++)
		if (!strncmp(s[side].variables[i], variable, len) &&
		    !has_variable(&s[!side], s[side].variables[i]))
			return s[side].variables[i];
	return NULL;
}

static int compare_environments(struct stage_node *node, const struct shfs_software s[2])
{
	if (!s[0].has_environment || !s[1].has_environment)
		return 0;
	for (int side = 0; side < 2; side++) {
		for (size_t i = 0; i < s[side].n_variables; i++) {
			const char *variable = s[side].variables[i];
			const char *other = find_other_value(s, !side, variable);
			struct shfs_difference *d;

			if (has_variable(&s[!side], variable) || (side && other))
				continue;
			d = add_difference(node, SHFS_DIFFERENT_ENVIRONMENT);
			if (!d)
				return -ENOMEM;
			d->name[side] = strdup(variable);
			d->name[!side] = other ? strdup(other) : NULL;
			if (!d->name[side] || (other && !d->name[!side]))
				return -ENOMEM;
		}
	}
	return 0;
}

/* Compares arguments if nothing but results and the environment differs. They can explain
 * more (the value of a shell variable), but often differ without effect (names of
 * temporary files). */
static int compare_arguments(struct shfs_comparison *c, struct stage_node *node)
{
	struct shfs_difference *results = node->s.differences;
	int r = 0;

	node->s.differences = NULL;
	node->last = &node->s.differences;
	for (int side = 0; side < 2 && !r; side++)
		r = add_unmatched(c, node, side, SHFS_DIFFERENT_ARGUMENTS);
	*node->last = results;
	return r;
}

static int compare_stage(struct shfs_comparison *c, struct stage_node *node)
{
	struct shfs_difference **environment, **results, *first; /* of the results */
	struct shfs_software software[2] = { 0 };
	int r = compare_texts(node) ?: compare_shells(c, node);

	for (int side = 0; side < 2 && !r; side++)
		r = add_unmatched(c, node, side, SHFS_DIFFERENT_PROGRAM);
	for (int side = 0; side < 2 && !r; side++)
		r = shfs_software_load(c->index, false, node->command_id[side],
		                       &software[side]);
	if (!r)
		r = compare_programs(node, software);
	if (!r)
		r = compare_used_files(c, node, SHFS_DIFFERENT_INPUT);
	environment = node->last;
	if (!r)
		r = compare_environments(node, software);
	shfs_software_clear(&software[0]);
	shfs_software_clear(&software[1]);
	results = node->last;
	if (!r)
		r = compare_statuses(node)
		            ?: compare_used_files(c, node, SHFS_DIFFERENT_RESULT);
	*node->last = TAKE_PTR(node->left);
	first = *results;
	if (!r && first && environment == &node->s.differences)
		r = compare_arguments(c, node);
	/* different results follow from different inputs */
	for (struct shfs_difference *d = first; d && node->s.differences != first;
	     d = d->next)
		d->explained = true;
	for (struct shfs_difference *d = node->s.differences; d; d = d->next)
		node->s.n_unexplained += !d->explained;
	return r;
}

/* --- all --- */

static int64_t time_of_stage(const struct stage_node *node)
{
	return MAX(node->s.entry[0].command.begin_ns, node->s.entry[1].command.begin_ns);
}

/* Sorts by time: makers come before readers; the two commands that were asked about are
 * last. */
static int compare_stages(struct stage_node *a, struct stage_node *b)
{
	if (!a->number || !b->number)
		return !a->number - !b->number;
	if (time_of_stage(a) != time_of_stage(b))
		return time_of_stage(a) < time_of_stage(b) ? -1 : 1;
	return a->number > b->number ? -1 : 1;
}

int shfs_compare(struct shfs_index *index, const int64_t command_id[2],
                 struct shfs_comparison **out)
{
	static const struct shfs_graph_limits limits = { .whole = true };
	_cleanup_comparison_ struct shfs_comparison *c = calloc(1, sizeof(*c));
	struct shfs_stage **last;
	struct stage_node *asked;
	int r;

	if (!c)
		return -ENOMEM;
	c->index = index;
	c->queue_end = &c->queue;
	r = shfs_graph_new(index, &limits, &c->graph)
	            ?: add_stage(c, command_id[0], command_id[1], &asked);
	for (; c->queue && !r; c->queue = c->queue->queued)
		r = compare_stage(c, c->queue);
	if (r)
		return r;
	HASH_SORT(c->stages, compare_stages);
	last = &c->first;
	for (struct stage_node *node = c->stages; node; node = node->hh.next) {
		*last = &node->s;
		last = &node->s.next;
	}
	*out = TAKE_PTR(c);
	return 0;
}

struct shfs_stage *shfs_comparison_stages(struct shfs_comparison *c)
{
	return c->first;
}
