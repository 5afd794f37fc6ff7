/* SPDX-License-Identifier: MIT */
/* `shfs export`: write the commands behind files as a script or a workflow. */
#include "query/export/export.h"
#include "query/base/whole-file.h"
#include "query/bundle/bundle.h"
#include "query/export/archive.h"
#include "query/history/version-spec.h"

#include "common/quote.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static struct {
	const char *output;
	bool force, with_data, verify;
} opts;

static const struct shfs_export_format *const formats[] = {
	&shfs_export_sh,
	&shfs_export_make,
	&shfs_export_snakemake,
	&shfs_export_cwl,
	&shfs_export_nextflow,
	&shfs_export_dot,
	&shfs_export_json,
	&shfs_export_jsonl,
	&shfs_export_csv,
	&shfs_export_prov,
	&shfs_export_prov_o,
	&shfs_export_ro_crate,
	&shfs_export_workflow_crate,
	&shfs_export_bundle,
	&shfs_export_oci,
	&shfs_export_dockerfile,
};

static const struct shfs_export_format *find_format(const char *name)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 }, known = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		if (!strcmp(formats[i]->name, name))
			return formats[i];
		shfs_buf_printf(&known, "%s, ", formats[i]->name);
	}
	shfs_quote_display(&shown, name, strlen(name));
	shfs_error("no such format: %s", shown.data ?: "");
	shfs_hint("the formats are %star", known.data ?: "");
	return NULL;
}

static int open_export_output(struct shfs_export *x)
{
	return shfs_output_option(opts.output, opts.force, 0666, &x->file);
}

/* Closes the output; main checks standard output. */
static int close_export_output(struct shfs_export *x)
{
	bool failed;

	if (!x->file || x->file == stdout)
		return 0;
	errno = 0;
	failed = ferror(x->file);
	if (!fclose(x->file) && !failed)
		return 0;
	shfs_error("cannot write the output: %s", strerror(errno ?: EIO));
	return SHFS_EXIT_FAILURE;
}

static int write_text(struct shfs_export *x, const struct shfs_export_format *format)
{
	int r = format->runs || format->directory ? 0 : open_export_output(x);

	if (!r)
		r = format->write(x);
	if (!r && x->out.failed)
		r = -ENOMEM;
	if (!r && !x->file)
		r = open_export_output(x);
	if (!r && x->out.len)
		fwrite(x->out.data, 1, x->out.len, x->file);
	return r;
}

/* Looks at what is to be written: a warning for all that it may not do. *doubts: there
 * was one. */
static int look_at_workflow(struct shfs_export *x,
                            const struct shfs_export_format *format, bool *doubts)
{
	int r = format->runs ? shfs_workflow_check(x->wf) : 0;

	if (!r && (format->runs || opts.verify))
		r = shfs_export_say_outside(x->wf, opts.verify, doubts);
	if (!r && (format->runs || format->directory))
		r = shfs_workflow_find_unarchived(x->wf);
	if (!r && opts.with_data)
		r = shfs_export_take_along(x, format->directory);
	if (!r && (format->runs || format->directory))
		*doubts |= shfs_export_say_unarchived(x->wf, format->directory);
	if (r || !format->runs)
		return r;
	shfs_workflow_look_at_contents(x->wf, x->objects);
	r = shfs_export_doubts(x->wf, format->in_place);
	*doubts |= r > 0;
	return MIN(r, 0);
}

static int export_closed(struct shfs_export *x, const struct shfs_export_format *format)
{
	int r = shfs_workflow_find_unarchived(x->wf);

	return r ? r : format->write(x);
}

static int export(struct shfs_export *x, const struct shfs_export_format *format)
{
	bool doubts = false;
	int code, r;

	if (format->closed)
		return export_closed(x, format);
	r = look_at_workflow(x, format, &doubts);
	if (!r)
		r = write_text(x, format);
	code = close_export_output(x);
	if (!r && !code && opts.verify)
		r = shfs_export_verify(x, format);
	return r ? r : code ? code : doubts ? SHFS_EXIT_NOT_FOUND : 0;
}

/* Makes the workflow, with its steps in order. */
static int make_workflow(struct shfs_export *x, const struct shfs_export_format *format,
                         struct shfs_index *index, const struct shfs_version *targets,
                         size_t n)
{
	bool by_name = format->by_name && !x->by_order;
	int r = shfs_workflow_new(index, targets, n, by_name, &x->wf);

	if (!r)
		r = shfs_workflow_order(x->wf, format->runs && !by_name);
	if (!r && format->in_place)
		r = shfs_workflow_follow(x->wf);
	if (r || !by_name || (!x->wf->by_order && format->by_name(x->wf)))
		return r;
	shfs_workflow_free(x->wf);
	x->wf = NULL;
	x->by_order = true;
	return make_workflow(x, format, index, targets, n);
}

/* The same for a command that was named. */
static int make_workflow_of_command(struct shfs_export *x, struct shfs_index *index,
                                    int64_t command_id)
{
	int r = shfs_workflow_new_of_command(index, command_id, &x->wf);

	x->of_command = true;
	if (!r)
		r = shfs_workflow_order(x->wf, true);
	return r ? r : shfs_workflow_follow(x->wf);
}

/* Is the operand a command, and no file: 1, and *id is set; 0; or a negative errno.
 * -ENOTUNIQ after a message. */
static int find_command(struct shfs_index *index, const struct shfs_export_format *format,
                        int n, char **operands, int64_t *id)
{
	_cleanup_free_ char *path = NULL;
	int r;

	if (!format->closed || n != 1 || !shfs_command_is_id(operands[0]))
		return 0;
	path = shfs_operand_path(operands[0]);
	r = path ? shfs_file_is_recorded(index, path) : -ENOMEM;
	return r ? MIN(r, 0) : shfs_command_find(index, operands[0], id);
}

static int prepare_export(struct shfs_context *ctx, struct shfs_export *x,
                          const struct shfs_export_format *format)
{
	int code = 0;

	x->path = opts.output;
	if (!x->path && format->directory) {
		shfs_error("%s writes a directory: name it with -o DIR", format->name);
		return SHFS_EXIT_USAGE;
	}
	x->force = opts.force;
	x->config = shfs_context_config(ctx, &code);
	if (!x->config)
		return code;
	if (opts.with_data && !format->directory && !format->closed &&
	    (!format->runs || !x->path || shfs_is_descriptor(x->path) ||
	     !strcmp(x->path, "-"))) {
		shfs_error(format->runs ? "--with-data puts data beside the output: name "
		                          "it with -o FILE"
		                        : "%s takes no data along",
		           format->name);
		return SHFS_EXIT_USAGE;
	}
	if (opts.verify && format->closed) {
		shfs_error("%s compares the results itself when it is run", format->name);
		return SHFS_EXIT_USAGE;
	}
	if (opts.verify && !shfs_export_can_verify(format)) {
		shfs_error("%s is not made to be run: nothing can be verified",
		           format->name);
		return SHFS_EXIT_USAGE;
	}
	if (format->runs || format->directory)
		x->objects = shfs_context_store(ctx, false, &code);
	return code;
}

/* Writes the tar to something that is no regular file: a pipe, /dev/null. */
static int stream_tar(struct shfs_context *ctx, int n, char **paths)
{
	struct shfs_export x = { 0 };
	int code = open_export_output(&x), closed;
	bool written;

	if (code)
		return code;
	code = shfs_archive_write(ctx, n, paths, opts.with_data, fileno(x.file),
	                          &written);
	closed = close_export_output(&x);
	return code ?: closed;
}

/* Exports not the commands behind files, but everything in the store about them. */
static int export_tar(struct shfs_context *ctx, int n, char **paths)
{
	_cleanup_(shfs_whole_file_close) struct shfs_whole_file file = { .fd = -1,
		                                                         .dirfd = -1 };
	bool written;
	int code, r;

	if (!opts.output && isatty(STDOUT_FILENO)) {
		shfs_error(
			"an archive cannot go to the terminal: name a file with -o FILE");
		return SHFS_EXIT_USAGE;
	}
	r = opts.output && strcmp(opts.output, "-") != 0 &&
	                    !shfs_is_descriptor(opts.output)
	            ? shfs_whole_file_begin(&file, opts.output, opts.force, 0600)
	            : -ENOTSUP;
	if (r == -ENOTSUP)
		return stream_tar(ctx, n, paths);
	if (r)
		return shfs_fail_output(opts.output, -r);
	code = shfs_archive_write(ctx, n, paths, opts.with_data, file.fd, &written);
	r = written ? shfs_whole_file_finish(&file) : 0;
	return r ? shfs_fail_output(opts.output, -r) : code;
}

/* A workflow runs on one machine, by the paths of one. */
static int check_same_tree(const struct shfs_version *targets, int n)
{
	for (int i = 1; i < n; i++)
		if (!shfs_path_is_same_tree(targets[0].path, targets[i].path)) {
			shfs_error("files of several machines cannot be exported "
			           "together");
			return SHFS_EXIT_REFUSED;
		}
	return 0;
}

static int run_export(struct shfs_context *ctx, int argc, char **argv)
{
	const struct shfs_export_format *format =
		strcmp(argv[0], "tar") ? find_format(argv[0]) : NULL;
	struct shfs_export x = { .store = shfs_context_store_path(ctx) };
	struct shfs_version *targets;
	struct shfs_index *index;
	int64_t command_id = 0;
	int r, n = argc - 1, code = SHFS_EXIT_USAGE;

	if (!opts.verify)
		shfs_context_alone(ctx);
	if (!strcmp(argv[0], "tar"))
		return export_tar(ctx, n, argv + 1);
	if (format && !n) {
		shfs_error("export what? Name a file");
		return code;
	}
	if (!format || !(index = shfs_context_index(ctx, &code)))
		return code;
	code = prepare_export(ctx, &x, format);
	if (code)
		return code;
	r = find_command(index, format, n, argv + 1, &command_id);
	if (r < 0)
		return r == -ENOTUNIQ ? SHFS_EXIT_NOT_FOUND : shfs_fail_index(index, r);
	targets = calloc(n, sizeof(*targets));
	if (!targets)
		return shfs_fail_index(index, -ENOMEM);
	for (int i = 0; i < n && !code && !command_id; i++)
		code = shfs_version_spec_find(index, argv[i + 1], &targets[i]);
	if (!code && !command_id)
		code = check_same_tree(targets, n);
	r = code         ? 0
	    : command_id ? make_workflow_of_command(&x, index, command_id)
	                 : make_workflow(&x, format, index, targets, n);
	if (!code && !r)
		r = export(&x, format);
	if (r)
		code = r > 0 ? r : shfs_fail_index(index, r);
	shfs_workflow_free(x.wf);
	free(x.data);
	shfs_buf_free(&x.out);
	for (int i = 0; i < n; i++)
		shfs_version_clear(&targets[i]);
	free(targets);
	return code;
}

const struct shfs_command shfs_cmd_export = {
	.name = "export",
	.args = "FORMAT [FILE[@N]|COMMAND]…",
	.summary = "Write the commands behind files as a script or a workflow",
	.description =
		"FORMAT is sh (a script), make (a Makefile), snakemake (a Snakefile), cwl\n"
		"or nextflow (a workflow), to make the files again in an empty directory;\n"
		"dot, json, jsonl, csv, prov, prov-o: the graph; ro-crate,\n"
		"workflow-crate: a directory with all contents. A file that no "
		"repeatable\n"
		"command made is taken from the store. bundle (a directory, or a tar),\n"
		"oci (an image) and dockerfile carry all that the commands need, to run\n"
		"where nothing else is; they also take one COMMAND. tar writes no\n"
		"commands, but an archive for shfs import, of the whole store or of what\n"
		"it has of the files at or below each FILE.",
	.options = {
	{ "output", 'o', "FILE", "write to this file, or directory",
	  .text = &opts.output },
	{ "with-data", 0, NULL,
	  "take along what is only fingerprinted, from where it lies",
	  .flag = &opts.with_data },
	{ "verify", 0, NULL,
	  "run it in an empty directory, and say whether the bytes are the same",
	  .flag = &opts.verify },
	{ "force", 'f', NULL, "overwrite the output if it exists", .flag = &opts.force },
	},
	.on_demand = true,
	.operands = { 1, -1 },
	.run = run_export,
};
