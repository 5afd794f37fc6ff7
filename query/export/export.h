/* SPDX-License-Identifier: MIT */
/*
 * export.h - the commands behind some versions, in the language of other programs.
 *
 * A writer appends its text to out; or it returns a negative errno, or SHFS_EXIT_REFUSED
 * after a message that names the file or command that the language cannot express. A
 * writer that can express everything may write out parts with shfs_export_flush.
 */
#pragma once

#include "query/history/software.h"
#include "query/rerun/workflow.h"

struct shfs_handed;

struct shfs_export {
	struct shfs_workflow *wf;
	bool by_order;     /* it could know files by their names, but not these */
	const char *store; /* its path */
	struct shfs_buf out;
	FILE *file;                 /* where parts are written to */
	struct shfs_store *objects; /* for a format that runs, or is a directory */
	const struct shfs_config *config;
	const char *path; /* of the output; NULL: standard output */
	bool force;       /* it may be overwritten */
	bool of_command;  /* the targets are all that a command left */
	char *data;       /* the directory with files that are taken along, or NULL */
	const struct shfs_handed *handed; /* of CWL, while it is written */
	/* for a crate */
	int directory;
	bool workflow; /* the crate has a workflow, which takes its sources from the
	                * crate */
	bool *earlier; /* for each file: a later version has its place */
};

struct shfs_export_format {
	const char *name;
	/* Made to be run: the steps have an order, and can be run elsewhere. It may be
	 * refused, so nothing is written before the text is complete. */
	bool runs;
	bool directory; /* the output is a directory, which the writer makes */
	bool in_place;  /* all steps run in one directory: shfs_workflow_follow */
	/* It carries all that the steps need, and names what it lacks. Its writer opens
	 * the output; an operand may be a command. */
	bool closed;
	/* It knows files by their names, if it can: if these say the order of the steps
	 * (shfs_workflow_new), and this says that it has words for them. NULL: it never
	 * does. */
	bool (*by_name)(const struct shfs_workflow *wf);
	int (*write)(struct shfs_export *x);
};

extern const struct shfs_export_format shfs_export_csv, shfs_export_cwl, shfs_export_dot,
	shfs_export_json, shfs_export_jsonl, shfs_export_make, shfs_export_nextflow,
	shfs_export_prov, shfs_export_prov_o, shfs_export_ro_crate, shfs_export_sh,
	shfs_export_snakemake, shfs_export_workflow_crate;

/* Writes out the text so far, in out or another buffer. */
void shfs_export_flush(struct shfs_export *x, struct shfs_buf *text);

/* --- shared helpers --- */

/* "4f2a91c03be81d22, 2026-11-21 09:18:36, ~/study" */
void shfs_export_when(struct shfs_buf *out, const struct shfs_step *step);
/* Adds where a source comes from: "left by 4f2a91c (vim config.yaml)"; or nothing. */
void shfs_export_left_by(struct shfs_buf *out, const struct shfs_workflow_file *source);
/* Adds a file's URI, with the name of its tree (store/trees.h) as the host. */
void shfs_export_file_uri(struct shfs_buf *out, const char *path);
/* Adds "a@1 b@3", escaped; shfs_export_list puts lead before them, if there are any. */
void shfs_export_names(struct shfs_buf *out, const struct shfs_files *files);
void shfs_export_list(struct shfs_buf *out, const char *lead,
                      const struct shfs_files *files);
/* Is its content in the store? */
bool shfs_export_is_archived(const struct shfs_workflow_file *file);
/* Adds a word for a shell: where its bytes are, if it is not archived; where they were,
 * if nowhere. */
void shfs_export_place(struct shfs_buf *out, const struct shfs_workflow_file *source);
/* Adds the word, quoted for a shell. */
void shfs_export_quote(struct shfs_buf *out, const char *word);
/* Adds FILE@N with its absolute path, quoted for a shell. */
void shfs_export_spec(struct shfs_buf *out, const struct shfs_version *version);
/* Adds a time as stat -c %.9Y prints it. */
void shfs_export_seconds(struct shfs_buf *out, int64_t ns);
/* Adds "mkdir -p -- a b"; false: no directory is to be made. */
bool shfs_export_dirs(struct shfs_buf *out, const struct shfs_step *step);
/* Adds "rm -f -- a b"; false: nothing is to be removed. */
bool shfs_export_gone(struct shfs_buf *out, const struct shfs_step *step);
/* Adds one line for bash that does the step in the directory of the run. It fails if the
 * command does not end as it did, and ends when everything that it began has ended. */
void shfs_export_step(struct shfs_buf *out, const struct shfs_step *step);
/* Warns of each command that may not do elsewhere what it did: 1; 0: there is none.
 * in_place: as in struct shfs_export_format. */
_must_check_ int shfs_export_doubts(struct shfs_workflow *wf, bool in_place);
/* Warns of the files that the steps write outside of the directory in which they run.
 * Sets *elsewhere if some of them are not in a directory for temporary files. verify:
 * such steps are not to be run: SHFS_EXIT_REFUSED after a message. */
_must_check_ int shfs_export_say_outside(struct shfs_workflow *wf, bool verify,
                                         bool *elsewhere);
/* Is its content in the store, or taken along? */
bool shfs_export_has_content(const struct shfs_workflow_file *file);
/* Has files taken along that are not archived and still there: for a crate all of them;
 * else sources, into the directory PATH.data. */
_must_check_ int shfs_export_take_along(struct shfs_export *x, bool into_crate);
/* Makes a new file, and the directories above it: a descriptor, or a negative errno. */
_must_check_ int shfs_export_create(int dirfd, char *path);
/* Copies the bytes, the mode and the time of what lies there: 0, or an exit code after a
 * message. */
_must_check_ int shfs_export_copy_along(const struct shfs_workflow_file *file, int to);
/* Adds its name in PATH.data. */
void shfs_export_data_name(struct shfs_buf *out, const struct shfs_workflow_file *file);
/* Warns of the files that are not archived, with their number. Returns whether something
 * is missing because of that. */
bool shfs_export_say_unarchived(struct shfs_workflow *wf, bool crate);
/* Runs the export in an empty directory, and prints for each target whether it has the
 * same bytes. An exit code. */
_must_check_ int shfs_export_verify(struct shfs_export *x,
                                    const struct shfs_export_format *format);
/* Removes a directory with all that is in it, as far as that can be removed. */
void shfs_export_remove(const char *top);
/* Is there a program that runs this format? */
bool shfs_export_can_verify(const struct shfs_export_format *format);
/* Adds a member for programs that read only UTF-8: the text, or its escaped form. */
void shfs_export_utf8(struct shfs_json *json, const char *key, const char *text,
                      size_t len);
/* As shfs_export_utf8; frees text. */
void shfs_export_member(struct shfs_json *json, const char *key, struct shfs_buf *text);
/* The command that left or made it; NULL: none is recorded. */
const struct shfs_entry *shfs_export_maker(const struct shfs_workflow_file *file);
/* Adds "config.yaml@3". */
void shfs_export_label(struct shfs_buf *out, const struct shfs_workflow_file *file);
/* Adds the URI of the file in the crate. */
void shfs_crate_uri(struct shfs_buf *out, const struct shfs_export *x,
                    const struct shfs_workflow_file *file);
/* The first output of a step that other steps need. */
const char *shfs_export_first_output(const struct shfs_step *step);

/* --- software --- */

/* Loads what software the command used, and its environment. */
_must_check_ int shfs_export_software(struct shfs_export *x,
                                      const struct shfs_entry *entry,
                                      struct shfs_software *out);
/* Is called with the id of a package: PREFIXdpkg/coreutils/9.1-1, for a URI. */
typedef void (*shfs_export_package_fn)(void *arg, const char *id,
                                       const struct shfs_used_program *program,
                                       const struct shfs_entry *entry);
/* A walk through the packages of some commands. */
struct shfs_export_packages {
	const char *prefix;
	shfs_export_package_fn fn; /* called once for each id */
	void *arg;
	struct shfs_export_package *known; /* begins as NULL */
};
/* Walks on through the packages that the command used. */
_must_check_ int shfs_export_each_package(struct shfs_export *x,
                                          struct shfs_export_packages *packages,
                                          const struct shfs_entry *entry);
void shfs_export_packages_free(struct shfs_export_packages *packages);
/* Adds comments for a script: the packages of all steps. */
_must_check_ int shfs_export_software_comment(struct shfs_export *x);
