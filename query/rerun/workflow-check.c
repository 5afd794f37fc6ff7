/* SPDX-License-Identifier: MIT */
/* Can the commands of a workflow be run again, and elsewhere; and where are their
 * sources? */
#include "query/rerun/workflow.h"

#include "common/path.h"
#include "common/program.h"

#include <errno.h>
#include <string.h>

#define BLANKS     " \t\n"
#define SEPARATORS "\n;|&()`"

/* --- commands that can be run again --- */

static bool is_prefix_assignment(const char *word, size_t len)
{
	return memchr(word, '=', len) && *word != '=';
}

/* Does text begin with a command that waits for a person, or restores contents? */
static bool begins_not_again(const char *text)
{
	static const char *const before[] = { "sudo", "command", "exec", "time", "env" };
	const char *word;
	size_t len;

	for (;; text = word + len) {
		word = text + strspn(text, " \t{");
		len = strcspn(word, BLANKS SEPARATORS);
		if (!len ||
		    (!is_prefix_assignment(word, len) &&
		     !shfs_program_is_one_of(word, len, before, ARRAY_SIZE(before))))
			break;
	}
	for (const char *slash; (slash = memchr(word, '/', len)); word = slash + 1)
		len -= slash + 1 - word;
	return shfs_program_is_editor(word, len) ||
	       shfs_program_keeps_contents(word, len);
}

/* Quotes are ignored: a quoted text that looks like such a command makes a source,
 * too. */
static bool text_runs_again(const char *text)
{
	for (const char *p = text;; p++) {
		if (begins_not_again(p))
			return false;
		p = strpbrk(p, SEPARATORS);
		if (!p)
			return true;
	}
}

bool shfs_command_runs_again(const struct shfs_command_row *command,
                             const struct shfs_definitions *definitions)
{
	if (command->hidden || command->redacted || !command->text ||
	    !text_runs_again(command->text))
		return false;
	for (size_t i = 0; i < definitions->n; i++)
		if (!text_runs_again(definitions->list[i].body))
			return false;
	return true;
}

/* --- where they can be run --- */

static bool continues_name(char c)
{
	return c && (strchr("_-.", c) || (c >= '0' && c <= '9') ||
	             (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c & 0x80);
}

static bool mentions(const char *text, const char *start, const char *path)
{
	_cleanup_buf_ struct shfs_buf sought = { 0 };

	shfs_buf_printf(&sought, "%s%s", start, path);
	for (const char *p = text; !sought.failed && (p = strstr(p, sought.data)); p++)
		if (!continues_name(p[sought.len]))
			return true;
	return false;
}

bool shfs_text_names_path(const char *text, const char *root)
{
	const char *home = getenv("HOME"), *below;

	if (strlen(root) > 1 && mentions(text, "", root))
		return true;
	below = home && *home == '/' ? shfs_path_relative(root, home) : NULL;
	if (!below)
		return false;
	if (!*below)
		return strstr(text, "~/") || strstr(text, "$HOME") ||
		       strstr(text, "${HOME}");
	below -= below[-1] == '/';
	return mentions(text, "~", below) || mentions(text, "$HOME", below) ||
	       mentions(text, "${HOME}", below) || mentions(text, "\"$HOME\"", below);
}

/* Adds the target of a "cd", as far as it is known: the word without its quotes. */
static void add_cd_target(struct shfs_buf *out, const char *word)
{
	static const char *const homes[] = { "~", "$HOME", "${HOME}" };
	const char *home = getenv("HOME") ?: "";
	size_t len;

	word += strspn(word, " \t");
	if (!strncmp(word, "-- ", 3))
		word += 3 + strspn(word + 3, " \t");
	len = strcspn(word, BLANKS SEPARATORS);
	if (!len)
		shfs_buf_str(out, home);
	word += strspn(word, "\"'");
	for (size_t i = 0; i < ARRAY_SIZE(homes); i++) {
		size_t n = strlen(homes[i]);

		if (strncmp(word, homes[i], n) != 0 || continues_name(word[n]))
			continue;
		shfs_buf_str(out, home);
		word += n;
		break;
	}
	for (; *word && !strchr(BLANKS SEPARATORS, *word); word++)
		if (!strchr("\"'\\", *word))
			shfs_buf_char(out, *word);
	while (out->len > 1 && out->data[out->len - 1] == '/')
		out->data[--out->len] = 0;
}

/* Does the text go to a directory above root, and name files from there? */
static bool goes_above(const char *text, const char *root)
{
	for (const char *p = text;; p++) {
		_cleanup_buf_ struct shfs_buf target = { 0 };

		p += strspn(p, " \t{");
		if (p[0] == 'c' && p[1] == 'd' &&
		    (!p[2] || strchr(BLANKS SEPARATORS, p[2])))
			add_cd_target(&target, p + 2);
		if (target.len && *target.data == '/' &&
		    shfs_path_is_below(root, target.data))
			return true;
		p = strpbrk(p, SEPARATORS);
		if (!p)
			return false;
	}
}

static int check_step(struct shfs_workflow *wf, const struct shfs_step *step)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	const char *text = step->script.text.data ?: "";

	for (size_t i = 0; i < wf->roots.n; i++) {
		if (!shfs_text_names_path(text, wf->roots.list[i]) &&
		    !goes_above(text, wf->roots.list[i]))
			continue;
		shfs_step_show(&shown, wf, step);
		shfs_error("%s names files by their absolute paths: run elsewhere, it "
		           "would use those",
		           shown.data ?: "");
		return SHFS_EXIT_REFUSED;
	}
	return 0;
}

/* The names that a version got by renames and links, and those that these got. */
#define NAMES_OF                                                                         \
	"WITH RECURSIVE later (id) AS (SELECT ?1"                                        \
	" UNION SELECT version_id FROM later JOIN v_version"                             \
	" ON origin_version_id = id LIMIT 1000)"                                         \
	" SELECT path FROM later JOIN v_version ON" SHFS_SQL_VERSION("id")

static int find_where_it_lies(struct shfs_workflow *wf, struct shfs_workflow_file *file)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r;

	if (shfs_version_lies_at(&file->version, file->version.path)) {
		file->lies_at = strdup(file->version.path);
		return file->lies_at ? 0 : -ENOMEM;
	}
	r = shfs_rows_open_ints(wf->index, NAMES_OF, SHFS_INTS(file->version.version_id),
	                        &rows);
	while (!r && !file->lies_at && (r = shfs_rows_next(rows)) > 0) {
		const char *path = shfs_rows_text(rows, 0);

		r = 0;
		if (!shfs_version_lies_at(&file->version, path))
			continue;
		file->lies_at = strdup(path);
		r = file->lies_at ? 0 : -ENOMEM;
	}
	return MIN(r, 0);
}

int shfs_workflow_check(struct shfs_workflow *wf)
{
	int r = 0;

	for (size_t i = 0; i < wf->n_steps && !r; i++)
		if (wf->steps[i]->entry)
			r = check_step(wf, wf->steps[i]);
	return r;
}

int shfs_workflow_find_unarchived(struct shfs_workflow *wf)
{
	int r = 0;

	for (size_t i = 0; i < wf->files.n && !r; i++)
		if (!(wf->files.list[i]->version.flags & SHFS_CONTENT_OBJECT))
			r = find_where_it_lies(wf, wf->files.list[i]);
	return r;
}

#define LOOK_AT_MAX 65536 /* bytes of a file */

void shfs_workflow_look_at_contents(struct shfs_workflow *wf, struct shfs_store *store)
{
	for (size_t i = 0; i < wf->files.n; i++) {
		const struct shfs_version *v = &wf->files.list[i]->version;
		_cleanup_buf_ struct shfs_buf text = { 0 }, shown = { 0 };
		bool found = false;

		if (!wf->files.list[i]->needed || !(v->flags & SHFS_CONTENT_OBJECT) ||
		    v->size > LOOK_AT_MAX ||
		    shfs_object_read(store, &v->object, LOOK_AT_MAX, &text))
			continue;
		for (size_t k = 0; k < wf->roots.n && text.len && !found; k++)
			found = shfs_text_names_path(text.data, wf->roots.list[k]);
		if (!found)
			continue;
		shfs_show_version(&shown, v->path, v->n);
		shfs_warn("%s names files by their absolute paths: run elsewhere, a "
		          "command that reads it may use those",
		          shown.data ?: "");
	}
}
