/* SPDX-License-Identifier: MIT */
/*
 * W3C PROV, as PROV-JSON and as PROV-O in Turtle. A version is an entity, a command (or a
 * process that belongs to none) an activity, the user its agent.
 *
 * A derivation is stated only where one content certainly came from another: by a rename
 * or link, or by a command that had read the file and changed it. In other cases only the
 * uses are known, not which input went into which result.
 */
#include "query/export/export.h"

#include "common/quote.h"
#include "query/base/time.h"
#include "query/history/ended.h"

#include <errno.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#define NAMESPACE "urn:shfs:"

struct activity {
	const struct shfs_entry *entry;
	int64_t begin_ns;
	int64_t end_ns; /* of a background job: when its last result was made */
	const struct activity *informs; /* the last activity that is linked as informed
	                                 * by this one */
	struct shfs_ended ended;        /* of a process */
	UT_hash_handle hh;
};

struct prov {
	struct shfs_export *x;
	struct activity *activities;
	const struct shfs_step **reader; /* for each file: the last reader */
	struct shfs_buf agent;
	struct shfs_json json;
	size_t n_relations;
};

/* --- names: after the namespace in Turtle, and as qualified names of PROV-JSON --- */

static void add_version_uri(struct shfs_buf *out, const struct shfs_version *version)
{
	shfs_buf_str(out, "version:");
	shfs_quote_uri(out, version->path, strlen(version->path));
	shfs_buf_printf(out, "@%lld", (long long)version->n);
}

static void add_activity(struct shfs_buf *out, const struct shfs_entry *entry)
{
	const struct shfs_process_row *p = &entry->process;

	if (!entry->is_process) {
		shfs_buf_printf(out, "command:%s", entry->command.id);
		return;
	}
	shfs_buf_str(out, "process:");
	shfs_quote_uri(out, p->host ?: "", strlen(p->host ?: ""));
	shfs_buf_printf(out, "/%lld/%lld", (long long)p->pid, (long long)p->start_ticks);
}

static void add_agent(struct shfs_buf *out)
{
	const struct passwd *user = getpwuid(getuid());

	shfs_buf_str(out, "user:");
	if (user)
		shfs_quote_uri(out, user->pw_name, strlen(user->pw_name));
	else
		shfs_buf_printf(out, "%u", getuid());
}

/* Adds the name of the activity: a text that may contain any bytes. */
static void add_activity_label(struct shfs_buf *out, const struct shfs_entry *entry)
{
	if (entry->is_process)
		shfs_show_process(out, &entry->process, SIZE_MAX);
	else if (entry->command.hidden || !entry->command.text)
		shfs_buf_str(out, "a command whose text was not kept");
	else
		shfs_buf_add(out, entry->command.text, entry->command.text_len);
}

/* --- statements --- */

/* Was it written? If it was renamed, say, its time is not that of its content. */
static bool is_written_version(const struct shfs_workflow_file *file)
{
	return !strcmp(file->version.source, "written");
}

static struct activity *find_activity(struct prov *p, const struct shfs_entry *entry)
{
	struct activity *a;

	HASH_FIND_PTR(p->activities, &entry, a);
	return a;
}

/* made_ns: when a result was made, or 0. Extends the activity to include it: the first
 * sight of a process may come later, and the end of a command with a job earlier. */
static int note_activity(struct prov *p, const struct shfs_entry *entry, int64_t made_ns)
{
	struct activity *a = find_activity(p, entry);
	int r;

	if (!a) {
		a = calloc(1, sizeof(*a));
		if (!a)
			return -ENOMEM;
		a->entry = entry;
		a->begin_ns = entry->is_process ? entry->process.first_ns
		                                : entry->command.begin_ns;
		a->end_ns = entry->is_process ? INT64_MIN : entry->command.end_ns;
		HASH_ADD_PTR(p->activities, entry, a);
		if (!a->hh.tbl) {
			free(a);
			return -ENOMEM;
		}
		r = entry->is_process
		            ? shfs_ended_load(p->x->wf->index, entry->process.process_id,
		                              &a->ended)
		            : 0;
		if (r)
			return r;
	}
	if (!made_ns)
		return 0;
	a->begin_ns = MIN(a->begin_ns, made_ns);
	a->end_ns = MAX(a->end_ns, made_ns);
	return 0;
}

static int prepare_prov(struct prov *p)
{
	const struct shfs_workflow *wf = p->x->wf;
	int r = 0;

	add_agent(&p->agent);
	p->reader = calloc(MAX(wf->files.n, (size_t)1), sizeof(struct shfs_step *));
	if (!p->reader)
		return -ENOMEM;
	for (size_t i = 0; i < wf->n_steps && !r; i++)
		if (!wf->steps[i]->source)
			r = note_activity(p, wf->steps[i]->entry, 0);
	for (size_t i = 0; i < wf->files.n && !r; i++) {
		const struct shfs_workflow_file *file = wf->files.list[i];
		const struct shfs_entry *entry = shfs_export_maker(file);

		if (entry)
			r = note_activity(p, entry,
			                  is_written_version(file) ? file->version.time_ns
			                                           : 0);
	}
	return r;
}

static void clear(struct prov *p)
{
	struct activity *a, *next;

	HASH_ITER (hh, p->activities, a, next) {
		HASH_DEL(p->activities, a);
		free(a);
	}
	free(p->reader);
	shfs_buf_free(&p->agent);
}

static bool has_known_end(const struct activity *a)
{
	return !a->entry->is_process && a->entry->command.ended;
}

/* The version that a result certainly comes from: the same content under another name, or
 * the version of the same file that the step had read. */
static const struct shfs_workflow_file *
find_prov_origin(const struct prov *p, const struct shfs_workflow_file *file,
                 bool *revision)
{
	const struct shfs_version *v = &file->version;
	const struct shfs_workflow_file *before = NULL;

	for (int64_t i = 1; i < v->n && !before; i++)
		before = shfs_workflow_file_of(p->x->wf, v->version_id - i);
	*revision = before && p->reader[before->id] == file->step;
	if (*revision)
		return before;
	return v->origin_version_id
	               ? shfs_workflow_file_of(p->x->wf, v->origin_version_id)
	               : NULL;
}

static void note_reader(struct prov *p, const struct shfs_step *step)
{
	for (size_t i = 0; i < step->inputs.n; i++)
		p->reader[step->inputs.list[i]->id] = step;
}

/* The maker of what the step used, if this is the first such thing of the step that this
 * maker is known to have made. */
static const struct shfs_entry *informant(struct prov *p, const struct shfs_step *step,
                                          const struct shfs_entry *entry)
{
	const struct activity *self = find_activity(p, step->entry);
	struct activity *a = entry ? find_activity(p, entry) : NULL;

	if (!a || a == self || a->informs == self)
		return NULL;
	a->informs = self;
	return entry;
}

/* --- PROV-JSON --- */

static void add_typed(struct shfs_json *json, const char *key, const char *value,
                      const char *type)
{
	shfs_json_object(json, key);
	shfs_json_str(json, "$", value);
	shfs_json_str(json, "type", type);
	shfs_json_object_end(json);
}

static void add_uri(struct shfs_json *json, const char *path)
{
	_cleanup_buf_ struct shfs_buf uri = { 0 };

	shfs_export_file_uri(&uri, path);
	add_typed(json, "prov:location", uri.data ?: "", "xsd:anyURI");
	json->out.failed |= uri.failed;
}

static void begin_element(struct prov *p, struct shfs_buf *id)
{
	p->json.out.failed |= id->failed;
	shfs_json_object(&p->json, id->data ?: "");
	shfs_buf_free(id);
}

static void end_element(struct prov *p)
{
	shfs_json_object_end(&p->json);
	shfs_export_flush(p->x, &p->json.out);
}

static void add_entity(struct prov *p, const struct shfs_workflow_file *file)
{
	struct shfs_buf id = { 0 }, label = { 0 };
	char object[44];

	add_version_uri(&id, &file->version);
	begin_element(p, &id);
	shfs_export_label(&label, file);
	shfs_export_member(&p->json, "prov:label", &label);
	add_uri(&p->json, file->version.path);
	shfs_json_int(&p->json, "shfs:size", file->version.size);
	if (shfs_export_is_archived(file)) {
		shfs_object_name(&file->version.object, object);
		shfs_json_str(&p->json, "shfs:object", object);
	}
	end_element(p);
}

static void add_activity_json(struct prov *p, const struct activity *a)
{
	const struct shfs_command_row *command = &a->entry->command;
	struct shfs_buf id = { 0 }, label = { 0 };

	add_activity(&id, a->entry);
	begin_element(p, &id);
	shfs_json_time(&p->json, "prov:startTime", a->begin_ns);
	if (has_known_end(a))
		shfs_json_time(&p->json, "prov:endTime", a->end_ns);
	add_activity_label(&label, a->entry);
	shfs_export_member(&p->json, "prov:label", &label);
	if (!a->entry->is_process) {
		add_uri(&p->json, command->cwd);
		if (command->has_status)
			shfs_json_int(&p->json, "shfs:exit_status", command->status);
	} else if (a->ended.known) {
		shfs_json_int(&p->json, "shfs:exit_status", a->ended.status);
		shfs_json_int(&p->json, "shfs:user_us", a->ended.user_us);
		shfs_json_int(&p->json, "shfs:system_us", a->ended.system_us);
		shfs_json_int(&p->json, "shfs:max_rss_kib", a->ended.max_rss_kib);
	}
	end_element(p);
}

static void begin_relation(struct prov *p)
{
	struct shfs_buf id = { 0 };

	shfs_buf_printf(&id, "_:r%zu", ++p->n_relations);
	begin_element(p, &id);
}

static void add_prov_reference(struct prov *p, const char *key,
                               const struct shfs_version *version,
                               const struct shfs_entry *entry)
{
	_cleanup_buf_ struct shfs_buf id = { 0 };

	if (version)
		add_version_uri(&id, version);
	else
		add_activity(&id, entry);
	shfs_json_str(&p->json, key, id.data ?: "");
	p->json.out.failed |= id.failed;
}

static void add_used(struct prov *p, const struct shfs_step *step)
{
	for (size_t i = 0; i < step->inputs.n; i++) {
		begin_relation(p);
		add_prov_reference(p, "prov:activity", NULL, step->entry);
		add_prov_reference(p, "prov:entity", &step->inputs.list[i]->version,
		                   NULL);
		end_element(p);
	}
}

static void add_generation(struct prov *p, const struct shfs_workflow_file *file)
{
	const struct shfs_entry *entry = shfs_export_maker(file);

	if (!entry)
		return;
	begin_relation(p);
	add_prov_reference(p, "prov:entity", &file->version, NULL);
	add_prov_reference(p, "prov:activity", NULL, entry);
	if (is_written_version(file))
		shfs_json_time(&p->json, "prov:time", file->version.time_ns);
	end_element(p);
}

static void add_derivations(struct prov *p, const struct shfs_step *step)
{
	note_reader(p, step);
	for (size_t i = 0; i < step->outputs.n; i++) {
		const struct shfs_workflow_file *file = step->outputs.list[i], *origin;
		bool revision;

		origin = find_prov_origin(p, file, &revision);
		if (!origin)
			continue;
		begin_relation(p);
		add_prov_reference(p, "prov:generatedEntity", &file->version, NULL);
		add_prov_reference(p, "prov:usedEntity", &origin->version, NULL);
		if (revision)
			add_typed(&p->json, "prov:type", "prov:Revision",
			          "prov:QUALIFIED_NAME");
		end_element(p);
	}
}

static void add_communication(struct prov *p, const struct shfs_step *step,
                              const struct shfs_entry *maker)
{
	const struct shfs_entry *entry = informant(p, step, maker);

	if (!entry)
		return;
	begin_relation(p);
	add_prov_reference(p, "prov:informed", NULL, step->entry);
	add_prov_reference(p, "prov:informant", NULL, entry);
	end_element(p);
}

static void add_communications(struct prov *p, const struct shfs_step *step)
{
	for (size_t i = 0; i < step->inputs.n; i++)
		add_communication(p, step, shfs_export_maker(step->inputs.list[i]));
	for (size_t i = 0; i < step->n_by_way; i++)
		if (step->by_way[i].left_by)
			add_communication(p, step, step->by_way[i].left_by->entry);
}

static void for_steps(struct prov *p, const char *section,
                      void (*add)(struct prov *p, const struct shfs_step *step))
{
	shfs_json_object(&p->json, section);
	for (size_t i = 0; i < p->x->wf->n_steps; i++)
		if (!p->x->wf->steps[i]->source)
			add(p, p->x->wf->steps[i]);
	shfs_json_object_end(&p->json);
}

static void for_files(struct prov *p, const char *section,
                      void (*add)(struct prov *p, const struct shfs_workflow_file *file))
{
	shfs_json_object(&p->json, section);
	for (size_t i = 0; i < p->x->wf->files.n; i++)
		add(p, p->x->wf->files.list[i]);
	shfs_json_object_end(&p->json);
}

static void add_prefixes(struct shfs_json *json)
{
	static const char *const prefixes[] = { "version", "command", "process", "user",
		                                "software" };

	shfs_json_object(json, "prefix");
	shfs_json_str(json, "shfs", NAMESPACE);
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		_cleanup_buf_ struct shfs_buf uri = { 0 };

		shfs_buf_printf(&uri, NAMESPACE "%s:", prefixes[i]);
		shfs_json_str(json, prefixes[i], uri.data ?: "");
	}
	shfs_json_object_end(json);
}

/* Calls fn for each package of each activity; once: only for the first activity. */
static int all_packages(struct prov *p, bool once, shfs_export_package_fn fn)
{
	struct shfs_export_packages packages = { "software:", fn, p, NULL };
	struct activity *a, *next;
	int r = 0;

	HASH_ITER (hh, p->activities, a, next) {
		r = r ? r : shfs_export_each_package(p->x, &packages, a->entry);
		if (!once)
			shfs_export_packages_free(&packages);
	}
	shfs_export_packages_free(&packages);
	return r;
}

static void add_software_agent(void *arg, const char *name,
                               const struct shfs_used_program *program,
                               const struct shfs_entry *entry)
{
	struct prov *p = arg;
	struct shfs_buf label = { 0 };

	shfs_json_object(&p->json, name);
	add_typed(&p->json, "prov:type", "prov:SoftwareAgent", "prov:QUALIFIED_NAME");
	shfs_used_program_show(&label, program, false);
	shfs_export_member(&p->json, "prov:label", &label);
	shfs_export_utf8(&p->json, "shfs:package", program->package,
	                 strlen(program->package));
	shfs_export_utf8(&p->json, "shfs:version", program->version,
	                 strlen(program->version));
	shfs_json_object_end(&p->json);
}

static void add_software_association(void *arg, const char *name,
                                     const struct shfs_used_program *program,
                                     const struct shfs_entry *entry)
{
	struct prov *p = arg;

	begin_relation(p);
	add_prov_reference(p, "prov:activity", NULL, entry);
	shfs_json_str(&p->json, "prov:agent", name);
	end_element(p);
}

static int add_agents(struct prov *p)
{
	struct activity *a, *next;
	int r;

	shfs_json_object(&p->json, "agent");
	shfs_json_object(&p->json, p->agent.data ?: "");
	add_typed(&p->json, "prov:type", "prov:Person", "prov:QUALIFIED_NAME");
	shfs_json_object_end(&p->json);
	r = all_packages(p, true, add_software_agent);
	shfs_json_object_end(&p->json);
	shfs_json_object(&p->json, "wasAssociatedWith");
	HASH_ITER (hh, p->activities, a, next) {
		begin_relation(p);
		add_prov_reference(p, "prov:activity", NULL, a->entry);
		shfs_json_str(&p->json, "prov:agent", p->agent.data ?: "");
		end_element(p);
	}
	if (!r)
		r = all_packages(p, false, add_software_association);
	shfs_json_object_end(&p->json);
	return r;
}

static int write_prov(struct shfs_export *x)
{
	struct prov p = { .x = x };
	struct activity *a, *next;
	int r = prepare_prov(&p);

	if (r) {
		clear(&p);
		return r;
	}
	shfs_json_object(&p.json, NULL);
	add_prefixes(&p.json);
	for_files(&p, "entity", add_entity);
	shfs_json_object(&p.json, "activity");
	HASH_ITER (hh, p.activities, a, next)
		add_activity_json(&p, a);
	shfs_json_object_end(&p.json);
	r = add_agents(&p);
	for_steps(&p, "used", add_used);
	for_files(&p, "wasGeneratedBy", add_generation);
	for_steps(&p, "wasDerivedFrom", add_derivations);
	for_steps(&p, "wasInformedBy", add_communications);
	shfs_json_close(&p.json);
	p.json.out.failed |= p.agent.failed;
	x->out = p.json.out;
	clear(&p);
	return r;
}

/* --- PROV-O, in Turtle: all statements about a thing are in one place --- */

/* Adds "<urn:shfs:version:/a@1>" after a predicate. */
static void link_version(struct shfs_buf *out, const char *predicate,
                         const struct shfs_version *version)
{
	shfs_buf_printf(out, "%s<" NAMESPACE, predicate);
	add_version_uri(out, version);
	shfs_buf_char(out, '>');
}

static void link_activity(struct shfs_buf *out, const char *predicate,
                          const struct shfs_entry *entry)
{
	shfs_buf_printf(out, "%s<" NAMESPACE, predicate);
	add_activity(out, entry);
	shfs_buf_char(out, '>');
}

static void link_place(struct shfs_buf *out, const char *path)
{
	shfs_buf_str(out, " ;\n\tprov:atLocation <");
	shfs_export_file_uri(out, path);
	shfs_buf_char(out, '>');
}

static void add_literal(struct shfs_buf *out, struct shfs_buf *text)
{
	shfs_buf_str(out, " ;\n\trdfs:label ");
	shfs_quote_turtle(out, text->data ?: "", text->len);
	out->failed |= text->failed;
	shfs_buf_free(text);
}

static void add_prov_time(struct shfs_buf *out, const char *predicate, int64_t ns)
{
	shfs_buf_printf(out, " ;\n\tprov:%s \"", predicate);
	shfs_time_show_utc(out, ns);
	shfs_buf_str(out, "\"^^xsd:dateTime");
}

static void describe_file(struct prov *p, const struct shfs_workflow_file *file)
{
	const struct shfs_entry *entry = shfs_export_maker(file);
	const struct shfs_version *v = &file->version;
	const struct shfs_workflow_file *origin;
	struct shfs_buf *out = &p->x->out, label = { 0 };
	char object[44];
	bool revision;

	link_version(out, "\n", v);
	shfs_buf_str(out, " a prov:Entity");
	shfs_export_label(&label, file);
	add_literal(out, &label);
	link_place(out, v->path);
	shfs_buf_printf(out, " ;\n\tshfs:size %llu", (unsigned long long)v->size);
	if (shfs_export_is_archived(file)) {
		shfs_object_name(&v->object, object);
		shfs_buf_printf(out, " ;\n\tshfs:object \"%s\"", object);
	}
	if (entry) {
		link_activity(out, " ;\n\tprov:wasGeneratedBy ", entry);
		if (is_written_version(file))
			add_prov_time(out, "generatedAtTime", v->time_ns);
	}
	origin = file->made ? find_prov_origin(p, file, &revision) : NULL;
	if (origin)
		link_version(out,
		             revision ? " ;\n\tprov:wasRevisionOf "
		                      : " ;\n\tprov:wasDerivedFrom ",
		             &origin->version);
	shfs_buf_str(out, " .\n");
	shfs_export_flush(p->x, out);
}

static void describe_activity(struct prov *p, const struct activity *a)
{
	const struct shfs_command_row *command = &a->entry->command;
	struct shfs_buf *out = &p->x->out, label = { 0 };

	link_activity(out, "\n", a->entry);
	shfs_buf_str(out, " a prov:Activity");
	add_activity_label(&label, a->entry);
	add_literal(out, &label);
	add_prov_time(out, "startedAtTime", a->begin_ns);
	if (has_known_end(a))
		add_prov_time(out, "endedAtTime", a->end_ns);
	if (!a->entry->is_process) {
		link_place(out, command->cwd);
		if (command->has_status)
			shfs_buf_printf(out, " ;\n\tshfs:exit_status %lld",
			                (long long)command->status);
	} else if (a->ended.known) {
		shfs_buf_printf(out,
		                " ;\n\tshfs:exit_status %lld ;\n\tshfs:user_us %lld"
		                " ;\n\tshfs:system_us %lld ;\n\tshfs:max_rss_kib %lld",
		                (long long)a->ended.status, (long long)a->ended.user_us,
		                (long long)a->ended.system_us,
		                (long long)a->ended.max_rss_kib);
	}
	shfs_buf_printf(out, " ;\n\tprov:wasAssociatedWith <" NAMESPACE "%s> .\n",
	                p->agent.data ?: "");
}

static void describe_package(void *arg, const char *name,
                             const struct shfs_used_program *program,
                             const struct shfs_entry *entry)
{
	struct prov *p = arg;
	struct shfs_buf *out = &p->x->out, label = { 0 };

	shfs_buf_printf(out, "\n<" NAMESPACE "%s> a prov:SoftwareAgent", name);
	shfs_used_program_show(&label, program, false);
	add_literal(out, &label);
	shfs_buf_str(out, " .\n");
}

static void associate_package(void *arg, const char *name,
                              const struct shfs_used_program *program,
                              const struct shfs_entry *entry)
{
	struct prov *p = arg;

	link_activity(&p->x->out, "", entry);
	shfs_buf_printf(&p->x->out, " prov:wasAssociatedWith <" NAMESPACE "%s> .\n",
	                name);
}

static void describe_step(struct prov *p, const struct shfs_step *step)
{
	struct shfs_buf *out = &p->x->out;

	note_reader(p, step);
	for (size_t i = 0; i < step->inputs.n; i++) {
		const struct shfs_workflow_file *input = step->inputs.list[i];
		const struct shfs_entry *entry =
			informant(p, step, shfs_export_maker(input));

		link_activity(out, "", step->entry);
		link_version(out, " prov:used ", &input->version);
		if (entry)
			link_activity(out, " ; prov:wasInformedBy ", entry);
		shfs_buf_str(out, " .\n");
		shfs_export_flush(p->x, out);
	}
	for (size_t i = 0; i < step->n_by_way; i++) {
		const struct shfs_step *left_by = step->by_way[i].left_by;

		if (!left_by || !informant(p, step, left_by->entry))
			continue;
		link_activity(out, "", step->entry);
		link_activity(out, " prov:wasInformedBy ", left_by->entry);
		shfs_buf_str(out, " .\n");
	}
	for (size_t i = 0; i < step->outputs.n; i++)
		describe_file(p, step->outputs.list[i]);
}

static int write_prov_o(struct shfs_export *x)
{
	struct prov p = { .x = x };
	struct activity *a, *next;
	int r = prepare_prov(&p);

	shfs_buf_str(&x->out, "@prefix prov: <http://www.w3.org/ns/prov#> .\n"
	                      "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
	                      "@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"
	                      "@prefix shfs: <" NAMESPACE "> .\n\n");
	shfs_buf_printf(&x->out, "<" NAMESPACE "%s> a prov:Person .\n",
	                p.agent.data ?: "");
	HASH_ITER (hh, p.activities, a, next)
		describe_activity(&p, a);
	if (!r)
		r = all_packages(&p, true, describe_package);
	if (!r)
		r = all_packages(&p, false, associate_package);
	for (size_t i = 0; i < x->wf->files.n && !r; i++)
		if (!x->wf->files.list[i]->made)
			describe_file(&p, x->wf->files.list[i]);
	for (size_t i = 0; i < x->wf->n_steps && !r; i++)
		if (!x->wf->steps[i]->source)
			describe_step(&p, x->wf->steps[i]);
	x->out.failed |= p.agent.failed;
	clear(&p);
	return r;
}

const struct shfs_export_format shfs_export_prov = {
	.name = "prov",
	.write = write_prov,
};
const struct shfs_export_format shfs_export_prov_o = {
	.name = "prov-o",
	.write = write_prov_o,
};
