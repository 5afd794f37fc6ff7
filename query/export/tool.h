/* SPDX-License-Identifier: MIT */
/*
 * tool.h - one step as a tool of its own, for runners that give each tool an empty
 * directory and files as arguments (CWL, Nextflow). Files have the names f0, f1, …, each
 * version by itself. The script of a tool puts them below w, where its command finds
 * them, and takes the results from there. So only scripts have the original names, and
 * one path may have several contents. What a command leaves outside of the project for
 * others is handed on as o0, o1, …: directories that hold the file, or nothing where it
 * was removed again.
 */
#pragma once

#include "query/export/export.h"

#define SHFS_TOOL_RESULTS "results" /* the directory of the targets */

/* Adds the name of the step: source_3, command_4f2a91c03be81d22. */
void shfs_tool_id(struct shfs_buf *out, const struct shfs_step *step);

/* Adds the name of something that the step makes, for a step that has to come after it:
 * the step's name, the separator, the file's. */
void shfs_tool_any_output(struct shfs_buf *out, const struct shfs_handed *handed,
                          const struct shfs_step *step, const char *separator);

/* Is the step a source that the crate contains? Then it is no tool. */
bool shfs_tool_is_in_crate(const struct shfs_export *x, const struct shfs_step *step);

/* Checks the names that a runner would see: 0; SHFS_EXIT_REFUSED after a message. */
_must_check_ int shfs_tool_check_names(const struct shfs_export *x, const char *runner);

/* Adds a script for bash. Its arguments are the inputs of the step, then what it gets
 * from outside (x->handed); each line ends the tool if it fails. */
void shfs_tool_script(struct shfs_buf *out, const struct shfs_export *x,
                      const struct shfs_step *step);

/* Adds commands that put the files, given as arguments, into their places below top. */
void shfs_tool_placing(struct shfs_buf *out, const struct shfs_files *files,
                       const char *top);
