/* SPDX-License-Identifier: MIT */
/*
 * RO-Crate 1.1: a directory with contents and a description of them. As a Process Run
 * Crate it describes the commands that were run; as a Workflow Run Crate it also has a
 * workflow in CWL, which makes the results again from the sources in the crate.
 *
 * The latest version of each path is below files/; earlier ones are earlier/PATH@N.
 */
#include "query/export/export.h"

#include "common/clock.h"
#include "common/io.h"
#include "common/quote.h"
#include "query/base/time.h"
#include "query/base/trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define METADATA   "ro-crate-metadata.json"
#define WORKFLOW   "workflow.cwl"
#define CWL        "https://w3id.org/workflowhub/workflow-ro-crate#cwl"
#define TEXT_WIDTH 60

static const struct profile {
	const char *uri, *name, *version;
	bool workflow; /* of a crate with one */
} profiles[] = {
	{ "https://w3id.org/ro/wfrun/process/0.5", "Process Run Crate", "0.5", false },
	{ "https://w3id.org/ro/wfrun/workflow/0.5", "Workflow Run Crate", "0.5", true },
	{ "https://w3id.org/workflowhub/workflow-ro-crate/1.0", "Workflow RO-Crate",
	  "1.0", true },
};

/* --- contents --- */

static bool is_source(const struct shfs_workflow_file *file)
{
	return file->step && file->step->source;
}

static int compare_crate_files(const void *a, const void *b)
{
	struct shfs_workflow_file *const *s = a, *const *t = b;
	int64_t m = (*s)->version.n, n = (*t)->version.n;

	return strcmp((*s)->name, (*t)->name) ?: (m > n) - (m < n);
}

static int compare_name(const void *name, const void *file)
{
	return strcmp(name, (*(struct shfs_workflow_file *const *)file)->name);
}

/* Marks the files whose path is a directory of another file. */
static int mark_replaced(struct shfs_export *x, struct shfs_workflow_file **sorted)
{
	size_t n = x->wf->files.n;

	for (size_t i = 0; i < n; i++) {
		_cleanup_free_ char *name = strdup(sorted[i]->name);
		char *slash = name;

		while (slash && (slash = strchr(slash, '/'))) {
			struct shfs_workflow_file **found;

			*slash = 0;
			found = bsearch(name, sorted, n, sizeof(*sorted), compare_name);
			for (;
			     found && found < sorted + n && !strcmp((*found)->name, name);
			     found++)
				x->earlier[(*found)->id] = true;
			*slash++ = '/';
		}
		if (!name)
			return -ENOMEM;
	}
	return 0;
}

/* Sets x->earlier, by the ids of files. */
static int find_earlier(struct shfs_export *x)
{
	const struct shfs_files *files = &x->wf->files;
	_cleanup_free_ struct shfs_workflow_file **sorted =
		calloc(MAX(files->n, (size_t)1), sizeof(*sorted));

	x->earlier = calloc(MAX(files->n, (size_t)1), sizeof(*x->earlier));
	if (!sorted || !x->earlier)
		return -ENOMEM;
	memcpy(sorted, files->list, files->n * sizeof(*sorted));
	qsort(sorted, files->n, sizeof(*sorted), compare_crate_files);
	for (size_t i = 0; i + 1 < files->n; i++)
		x->earlier[sorted[i]->id] = !strcmp(sorted[i]->name, sorted[i + 1]->name);
	return mark_replaced(x, sorted);
}

static void add_crate_path(struct shfs_buf *out, const struct shfs_export *x,
                           const struct shfs_workflow_file *file)
{
	if (x->earlier[file->id])
		shfs_buf_printf(out, "earlier/%s@%lld", file->name,
		                (long long)file->version.n);
	else
		shfs_buf_printf(out, "files/%s", file->name);
}

void shfs_crate_uri(struct shfs_buf *out, const struct shfs_export *x,
                    const struct shfs_workflow_file *file)
{
	_cleanup_buf_ struct shfs_buf place = { 0 };

	if (!shfs_export_has_content(file)) {
		shfs_export_file_uri(out, file->version.path);
		return;
	}
	add_crate_path(&place, x, file);
	shfs_quote_uri(out, place.data ?: "", place.len);
	out->failed |= place.failed;
}

static int report_crate_error(int error, const char *what)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_quote_display(&shown, what, strlen(what));
	shfs_error("%s: %s", shown.data ?: "", strerror(-error));
	return SHFS_EXIT_FAILURE;
}

static int copy_content(const struct shfs_export *x, const struct shfs_version *version,
                        int fd)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
		                     shfs_ns_timespec(version->mtime_ns) };
	int r = shfs_object_copy(x->objects, &version->object, fd);

	if (!r && (fchmod(fd, version->mode & 0777) || futimens(fd, times)))
		r = -errno;
	return r;
}

static int copy_into_crate(const struct shfs_export *x,
                           const struct shfs_workflow_file *file)
{
	_cleanup_buf_ struct shfs_buf place = { 0 }, shown = { 0 };
	_cleanup_close_ int fd = -1;
	int r;

	if (!shfs_export_has_content(file))
		return 0; /* the message was printed */
	add_crate_path(&place, x, file);
	if (place.failed)
		return -ENOMEM;
	fd = shfs_export_create(x->directory, place.data);
	if (fd < 0)
		return report_crate_error(fd, place.data);
	if (file->along)
		return shfs_export_copy_along(file, fd);
	r = copy_content(x, &file->version, fd);
	if (!r)
		return 0;
	shfs_show_content_error(&shown, &file->version, r);
	shfs_error("%s", shown.data ?: "");
	return SHFS_EXIT_FAILURE;
}

static int write_workflow(struct shfs_export *x)
{
	_cleanup_close_ int fd = shfs_export_create(x->directory, (char[]){ WORKFLOW });
	int r;

	if (fd < 0)
		return report_crate_error(fd, WORKFLOW);
	r = shfs_write_all(fd, x->out.data, x->out.len);
	shfs_buf_free(&x->out);
	return r ? report_crate_error(r, WORKFLOW) : 0;
}

static int fill_crate(struct shfs_export *x)
{
	int fd, r = x->workflow ? write_workflow(x) : 0;

	for (size_t i = 0; i < x->wf->files.n && !r; i++)
		r = copy_into_crate(x, x->wf->files.list[i]);
	if (r)
		return r;
	fd = shfs_export_create(x->directory, (char[]){ METADATA });
	if (fd < 0)
		return report_crate_error(fd, METADATA);
	x->file = fdopen(fd, "w");
	if (!x->file)
		close(fd);
	return x->file ? 0 : -ENOMEM;
}

/* --- the description: an object for each thing; others refer to its id --- */

static void add_thing_reference(struct shfs_json *json, const char *key, const char *id)
{
	shfs_json_object(json, key);
	shfs_json_str(json, "@id", id);
	shfs_json_object_end(json);
}

static void refer_to_file(struct shfs_json *json, const struct shfs_export *x,
                          const struct shfs_workflow_file *file)
{
	struct shfs_buf id = { 0 };

	shfs_json_object(json, NULL);
	shfs_crate_uri(&id, x, file);
	shfs_export_member(json, "@id", &id);
	shfs_json_object_end(json);
}

static void refer_to_files(struct shfs_json *json, const char *key,
                           const struct shfs_export *x, const struct shfs_files *files)
{
	if (!files->n)
		return;
	shfs_json_array(json, key);
	for (size_t i = 0; i < files->n; i++)
		refer_to_file(json, x, files->list[i]);
	shfs_json_array_end(json);
}

static void refer_to_step(struct shfs_json *json, const struct shfs_step *step)
{
	char id[32];

	snprintf(id, sizeof(id), "#command-%s", step->entry->command.id);
	add_thing_reference(json, NULL, id);
}

static void refer_to_port(struct shfs_json *json, const char *key,
                          const struct shfs_workflow_file *file)
{
	char id[32];

	snprintf(id, sizeof(id), "#f%zu", file->id);
	add_thing_reference(json, key, id);
}

static void begin_thing(struct shfs_json *json, const char *id, const char *type)
{
	shfs_json_object(json, NULL);
	shfs_json_str(json, "@id", id);
	shfs_json_str(json, "@type", type);
}

static void end_thing(struct shfs_export *x, struct shfs_json *json)
{
	shfs_json_object_end(json);
	shfs_export_flush(x, &json->out);
}

/* Adds a time as the profiles want it: with milliseconds, and the offset in digits. */
static void add_crate_time(struct shfs_json *json, const char *key, int64_t ns)
{
	struct shfs_buf text = { 0 };

	shfs_time_show_utc(&text, ns);
	if (!text.failed)
		text.len -= strlen("000000Z");
	shfs_buf_str(&text, "+00:00");
	shfs_export_member(json, key, &text);
}

static bool has_profile(const struct shfs_export *x, const struct profile *profile)
{
	return x->workflow || !profile->workflow;
}

static void add_descriptor(struct shfs_export *x, struct shfs_json *json)
{
	begin_thing(json, METADATA, "CreativeWork");
	shfs_json_array(json, "conformsTo");
	add_thing_reference(json, NULL, "https://w3id.org/ro/crate/1.1");
	if (x->workflow)
		add_thing_reference(json, NULL, profiles[2].uri);
	shfs_json_array_end(json);
	add_thing_reference(json, "about", "./");
	end_thing(x, json);
}

static void add_parts(struct shfs_export *x, struct shfs_json *json)
{
	shfs_json_array(json, "hasPart");
	if (x->workflow)
		add_thing_reference(json, NULL, WORKFLOW);
	for (size_t i = 0; i < x->wf->files.n; i++)
		refer_to_file(json, x, x->wf->files.list[i]);
	shfs_json_array_end(json);
	shfs_json_array(json, "mentions");
	if (x->workflow) {
		add_thing_reference(json, NULL, "#run");
		add_thing_reference(json, NULL, "#collection");
	}
	for (size_t i = 0; i < x->wf->n_steps; i++)
		if (!x->wf->steps[i]->source)
			refer_to_step(json, x->wf->steps[i]);
	shfs_json_array_end(json);
}

static void add_root_dataset(struct shfs_export *x, struct shfs_json *json)
{
	struct shfs_buf name = { 0 }, about = { 0 };

	begin_thing(json, "./", "Dataset");
	shfs_export_names(&name, &x->wf->targets);
	shfs_buf_printf(&about, "%s, and what the commands behind it read and wrote",
	                name.data ?: "");
	shfs_export_member(json, "name", &name);
	shfs_export_member(json, "description", &about);
	add_crate_time(json, "datePublished", shfs_time_now().real_ns);
	add_thing_reference(json, "license", "#licence");
	shfs_json_array(json, "conformsTo");
	for (size_t i = 0; i < ARRAY_SIZE(profiles); i++)
		if (has_profile(x, &profiles[i]))
			add_thing_reference(json, NULL, profiles[i].uri);
	shfs_json_array_end(json);
	if (x->workflow)
		add_thing_reference(json, "mainEntity", WORKFLOW);
	add_parts(x, json);
	end_thing(x, json);
}

static void add_context(struct shfs_export *x, struct shfs_json *json)
{
	const struct passwd *user = getpwuid(getuid());

	for (size_t i = 0; i < ARRAY_SIZE(profiles); i++) {
		if (!has_profile(x, &profiles[i]))
			continue;
		begin_thing(json, profiles[i].uri, "CreativeWork");
		shfs_json_str(json, "name", profiles[i].name);
		shfs_json_str(json, "version", profiles[i].version);
		end_thing(x, json);
	}
	begin_thing(json, "#licence", "CreativeWork");
	shfs_json_str(json, "name", "Not stated");
	shfs_json_str(json, "description", "Nobody said under which licence this is.");
	end_thing(x, json);
	begin_thing(json, "#user", "Person");
	shfs_json_str(json, "name", user ? user->pw_name : "unknown");
	end_thing(x, json);
}

static void add_crate_file(struct shfs_export *x, struct shfs_json *json,
                           const struct shfs_workflow_file *file)
{
	const struct shfs_version *v = &file->version;
	struct shfs_buf id = { 0 }, name = { 0 }, note = { 0 };
	char size[24];

	shfs_crate_uri(&id, x, file);
	begin_thing(json, id.data ?: "", "File");
	json->out.failed |= id.failed;
	shfs_buf_free(&id);
	shfs_export_label(&name, file);
	shfs_export_member(json, "name", &name);
	snprintf(size, sizeof(size), "%llu", (unsigned long long)v->size);
	shfs_json_str(json, "contentSize", size);
	add_crate_time(json, "dateModified", v->mtime_ns);
	if (!shfs_export_has_content(file))
		shfs_buf_printf(&note, "not in the crate: %s",
		                shfs_version_why_not_archived(v->flags));
	else
		shfs_export_left_by(&note, file);
	if (note.len)
		shfs_export_member(json, "description", &note);
	shfs_buf_free(&note);
	if (x->workflow && is_source(file))
		refer_to_port(json, "exampleOfWork", file);
	end_thing(x, json);
}

/* --- actions --- */

static void add_status(struct shfs_json *json, const struct shfs_command_row *command)
{
	char text[40];

	if (!command->has_status)
		return;
	shfs_json_str(json, "actionStatus",
	              command->status ? "http://schema.org/FailedActionStatus"
	                              : "http://schema.org/CompletedActionStatus");
	if (!command->status)
		return;
	snprintf(text, sizeof(text), "exit status %lld", (long long)command->status);
	shfs_json_str(json, "error", text);
}

static void describe_package(void *arg, const char *id,
                             const struct shfs_used_program *program,
                             const struct shfs_entry *entry)
{
	struct shfs_json *json = arg;

	begin_thing(json, id, "SoftwareApplication");
	shfs_export_utf8(json, "name", program->package, strlen(program->package));
	shfs_export_utf8(json, "version", program->version, strlen(program->version));
	shfs_export_utf8(json, "applicationCategory", program->manager,
	                 strlen(program->manager));
	shfs_json_object_end(json);
}

static void refer_to_package(void *arg, const char *id,
                             const struct shfs_used_program *program,
                             const struct shfs_entry *entry)
{
	add_thing_reference(arg, NULL, id);
}

/* Adds each package once. */
static int add_packages(struct shfs_export *x, struct shfs_json *json)
{
	struct shfs_export_packages packages = { "#software/", describe_package, json,
		                                 NULL };
	int r = 0;

	for (size_t i = 0; i < x->wf->n_steps && !r; i++)
		if (!x->wf->steps[i]->source)
			r = shfs_export_each_package(x, &packages,
			                             x->wf->steps[i]->entry);
	shfs_export_packages_free(&packages);
	return r;
}

static int refer_to_software(struct shfs_export *x, struct shfs_json *json,
                             const struct shfs_step *step)
{
	struct shfs_export_packages packages = { "#software/", refer_to_package, json,
		                                 NULL };
	int r;

	shfs_json_array(json, "softwareRequirements");
	r = shfs_export_each_package(x, &packages, step->entry);
	shfs_json_array_end(json);
	shfs_export_packages_free(&packages);
	return r;
}

static void add_variable_id(struct shfs_buf *out, const char *variable)
{
	shfs_buf_str(out, "#environment/");
	shfs_quote_uri(out, variable, strlen(variable));
}

/* Adds references to the variables of the environment that were recorded. */
static int refer_to_environment(struct shfs_export *x, struct shfs_json *json,
                                const struct shfs_step *step)
{
	_cleanup_software_ struct shfs_software software = { 0 };
	int r = shfs_export_software(x, step->entry, &software);

	if (r || !software.n_variables)
		return r;
	shfs_json_array(json, "environment");
	for (size_t i = 0; i < software.n_variables; i++) {
		_cleanup_buf_ struct shfs_buf id = { 0 };

		add_variable_id(&id, software.variables[i]);
		add_thing_reference(json, NULL, id.data ?: "");
	}
	shfs_json_array_end(json);
	return 0;
}

static void describe_variable(struct shfs_export *x, struct shfs_json *json,
                              const char *variable)
{
	size_t len = strcspn(variable, "=");
	const char *value = variable + len + (variable[len] == '=');
	_cleanup_buf_ struct shfs_buf id = { 0 };

	add_variable_id(&id, variable);
	begin_thing(json, id.data ?: "", "PropertyValue");
	shfs_export_utf8(json, "name", variable, len);
	shfs_export_utf8(json, "value", value, strlen(value));
	end_thing(x, json);
}

/* Adds each variable once, with each value that it had. */
static int add_environment(struct shfs_export *x, struct shfs_json *json)
{
	_cleanup_names_ struct shfs_names all = { 0 };
	int r = 0;

	for (size_t i = 0; i < x->wf->n_steps && !r; i++) {
		_cleanup_software_ struct shfs_software software = { 0 };

		if (x->wf->steps[i]->source)
			continue;
		r = shfs_export_software(x, x->wf->steps[i]->entry, &software);
		for (size_t k = 0; k < software.n_variables && !r; k++)
			r = shfs_workflow_add_name(&all, software.variables[k]);
	}
	for (size_t i = 0; i < all.n && !r; i++)
		describe_variable(x, json, all.list[i]);
	return r;
}

static int add_action(struct shfs_export *x, struct shfs_json *json,
                      const struct shfs_step *step)
{
	int r;
	const struct shfs_command_row *command = &step->entry->command;
	struct shfs_buf name = { 0 };
	char id[32];

	snprintf(id, sizeof(id), "#command-%s", command->id);
	begin_thing(json, id, "CreateAction");
	shfs_show_first_line(&name, command->text, command->text_len, TEXT_WIDTH);
	shfs_export_member(json, "name", &name);
	shfs_export_utf8(json, "description", command->text, command->text_len);
	add_crate_time(json, "startTime", command->begin_ns);
	if (command->ended)
		add_crate_time(json, "endTime", command->end_ns);
	shfs_buf_printf(&name, "#%s", step->script.shell);
	add_thing_reference(json, "instrument", name.data ?: "");
	shfs_buf_free(&name);
	add_thing_reference(json, "agent", "#user");
	add_status(json, command);
	r = refer_to_software(x, json, step);
	if (!r)
		r = refer_to_environment(x, json, step);
	refer_to_files(json, "object", x, &step->inputs);
	refer_to_files(json, "result", x, &step->outputs);
	end_thing(x, json);
	return r;
}

/* Adds each shell once. */
static void add_shells(struct shfs_export *x, struct shfs_json *json)
{
	static const char *const shells[] = { "bash", "zsh", "fish" };

	for (size_t i = 0; i < ARRAY_SIZE(shells); i++) {
		char id[8];
		bool used = false;

		for (size_t k = 0; k < x->wf->n_steps && !used; k++)
			used = x->wf->steps[k]->script.shell &&
			       !strcmp(x->wf->steps[k]->script.shell, shells[i]);
		if (!used)
			continue;
		snprintf(id, sizeof(id), "#%s", shells[i]);
		begin_thing(json, id, "SoftwareApplication");
		shfs_json_str(json, "name", shells[i]);
		end_thing(x, json);
	}
}

/* --- the workflow --- */

static void add_port(struct shfs_export *x, struct shfs_json *json, const char *id,
                     const char *type)
{
	begin_thing(json, id, "FormalParameter");
	shfs_json_str(json, "name", id + 1);
	shfs_json_str(json, "additionalType", type);
	add_thing_reference(
		json, "conformsTo",
		"https://bioschemas.org/profiles/FormalParameter/1.0-RELEASE");
	end_thing(x, json);
}

static void add_ports(struct shfs_export *x, struct shfs_json *json)
{
	char id[32];

	for (size_t i = 0; i < x->wf->files.n; i++) {
		if (!is_source(x->wf->files.list[i]))
			continue;
		snprintf(id, sizeof(id), "#f%zu", i);
		add_port(x, json, id, "File");
	}
	add_port(x, json, "#results", "Collection");
	begin_thing(json, "#collection", "Collection");
	shfs_json_str(json, "name", "results");
	add_thing_reference(json, "exampleOfWork", "#results");
	refer_to_files(json, "hasPart", x, &x->wf->targets);
	end_thing(x, json);
}

static void add_main(struct shfs_export *x, struct shfs_json *json)
{
	begin_thing(json, CWL, "ComputerLanguage");
	shfs_json_str(json, "name", "Common Workflow Language");
	shfs_json_str(json, "alternateName", "CWL");
	shfs_json_str(json, "version", "v1.2");
	add_thing_reference(json, "identifier", "https://w3id.org/cwl/v1.2/");
	add_thing_reference(json, "url", "https://www.commonwl.org/");
	end_thing(x, json);
	shfs_json_object(json, NULL);
	shfs_json_str(json, "@id", WORKFLOW);
	shfs_json_array(json, "@type");
	shfs_json_str(json, NULL, "File");
	shfs_json_str(json, NULL, "SoftwareSourceCode");
	shfs_json_str(json, NULL, "ComputationalWorkflow");
	shfs_json_array_end(json);
	shfs_json_str(json, "name", WORKFLOW);
	shfs_json_str(json, "description", "written by shfs " SHFS_VERSION);
	add_thing_reference(json, "conformsTo",
	                    "https://bioschemas.org/profiles/ComputationalWorkflow/"
	                    "1.0-RELEASE");
	add_thing_reference(json, "programmingLanguage", CWL);
	add_thing_reference(json, "license", "#licence");
	shfs_json_array(json, "input");
	for (size_t i = 0; i < x->wf->files.n; i++)
		if (is_source(x->wf->files.list[i]))
			refer_to_port(json, NULL, x->wf->files.list[i]);
	shfs_json_array_end(json);
	add_thing_reference(json, "output", "#results");
	end_thing(x, json);
}

static void add_run(struct shfs_export *x, struct shfs_json *json)
{
	int64_t begin = INT64_MAX, end = INT64_MIN;

	begin_thing(json, "#run", "CreateAction");
	shfs_json_str(json, "name", "All commands");
	shfs_json_str(json, "description",
	              "The commands of the workflow as they were run at a shell, one by "
	              "one, before it was written.");
	for (size_t i = 0; i < x->wf->n_steps; i++) {
		if (x->wf->steps[i]->source)
			continue;
		begin = MIN(begin, x->wf->steps[i]->entry->command.begin_ns);
		end = MAX(end, x->wf->steps[i]->entry->command.end_ns);
	}
	if (begin != INT64_MAX) {
		add_crate_time(json, "startTime", begin);
		add_crate_time(json, "endTime", MAX(begin, end));
	}
	add_thing_reference(json, "instrument", WORKFLOW);
	add_thing_reference(json, "agent", "#user");
	shfs_json_array(json, "object");
	for (size_t i = 0; i < x->wf->files.n; i++)
		if (is_source(x->wf->files.list[i]))
			refer_to_file(json, x, x->wf->files.list[i]);
	shfs_json_array_end(json);
	add_thing_reference(json, "result", "#collection");
	end_thing(x, json);
}

static int describe(struct shfs_export *x)
{
	struct shfs_json json = { 0 };
	int r;

	shfs_json_object(&json, NULL);
	shfs_json_array(&json, "@context");
	shfs_json_str(&json, NULL, "https://w3id.org/ro/crate/1.1/context");
	shfs_json_object(&json, NULL);
	shfs_json_str(&json, "environment",
	              "https://w3id.org/ro/terms/workflow-run#environment");
	shfs_json_object_end(&json);
	shfs_json_array_end(&json);
	shfs_json_array(&json, "@graph");
	add_descriptor(x, &json);
	add_root_dataset(x, &json);
	add_context(x, &json);
	for (size_t i = 0; i < x->wf->files.n; i++)
		add_crate_file(x, &json, x->wf->files.list[i]);
	add_shells(x, &json);
	r = add_packages(x, &json);
	if (!r)
		r = add_environment(x, &json);
	for (size_t i = 0; i < x->wf->n_steps && !r; i++)
		if (!x->wf->steps[i]->source)
			r = add_action(x, &json, x->wf->steps[i]);
	if (x->workflow) {
		add_ports(x, &json);
		add_main(x, &json);
		add_run(x, &json);
	}
	shfs_json_array_end(&json);
	shfs_json_close(&json);
	x->out = json.out;
	return r;
}

/* Makes the directory; an empty one may exist. */
static int open_crate_directory(struct shfs_export *x)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	_cleanup_close_ int found = -1;
	int r;

	r = shfs_trusted_directory(x->path, (struct shfs_way){ .make = true }, &found);
	if (r)
		return shfs_fail_output(x->path, -r);
	x->directory = openat(found, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (x->directory < 0)
		return report_crate_error(-errno, x->path);
	if (shfs_is_empty_directory(x->path))
		return 0;
	shfs_quote_display(&shown, x->path, strlen(x->path));
	shfs_error("%s is not empty", shown.data ?: "");
	return SHFS_EXIT_REFUSED;
}

static int write_whole_crate(struct shfs_export *x)
{
	int r = find_earlier(x);

	if (!r && x->workflow)
		r = shfs_export_cwl.write(x);
	if (!r)
		r = open_crate_directory(x);
	if (!r)
		r = fill_crate(x);
	if (!r)
		r = describe(x);
	return r;
}

static int write_crate(struct shfs_export *x)
{
	int r;

	x->directory = -1;
	r = write_whole_crate(x);
	shfs_closep(&x->directory);
	free(x->earlier);
	return r;
}

static int write_workflow_crate(struct shfs_export *x)
{
	x->workflow = true;
	return write_crate(x);
}

const struct shfs_export_format shfs_export_ro_crate = {
	.name = "ro-crate",
	.directory = true,
	.write = write_crate,
};
const struct shfs_export_format shfs_export_workflow_crate = {
	.name = "workflow-crate",
	.directory = true,
	.runs = true,
	.write = write_workflow_crate,
};
