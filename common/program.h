/* SPDX-License-Identifier: MIT */
/* program.h - the kind of a program, as far as its name (without a directory) says. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Does the name match one of these (fnmatch(3))? */
bool shfs_name_is_one_of(const char *name, const char *const *patterns, size_t n);
/* Matches a name of this length likewise; one of 32 bytes or more matches none. */
bool shfs_program_is_one_of(const char *name, size_t len, const char *const *patterns,
                            size_t n);

/* Waits for a person? */
bool shfs_program_is_editor(const char *name, size_t len);
/* Restores contents that it has kept: version control, and shfs? */
bool shfs_program_keeps_contents(const char *name, size_t len);
/* Runs recipes that make one file of others, each by itself: make, ninja? */
bool shfs_program_is_build_tool(const char *name, size_t len);
/* Does it run the programs that it is told to, and passes nothing from one to another by
 * files of its own? A compiler that runs an assembler does. */
bool shfs_program_is_launcher(const char *name, size_t len);
/* Reads whole trees to index, save or check them, and not for a result: restic, updatedb,
 * clangd? */
bool shfs_program_scans(const char *name, size_t len);
/* Runs commands for somebody who decides on each: "agent" (claude, codex), "notebook",
 * "ssh", "cron", "ci"? NULL: it does not. */
const char *shfs_program_invoker_kind(const char *name, size_t len);
/* Runs the program in a file that its arguments name: python3, node? */
bool shfs_program_is_interpreter(const char *name, size_t len);
/* Reads commands: sh, bash? */
bool shfs_program_is_shell(const char *name);
/* Runs other programs for work of its own: gcc? */
bool shfs_program_is_driver(const char *name, size_t len);
/* Only moves, removes or makes names, or changes their attributes: mv, mkdir, chmod? */
bool shfs_program_is_file_tool(const char *name, size_t len);
/* Brings contents from elsewhere: tar, zcat, git, curl? */
bool shfs_program_unpacks(const char *name, size_t len);
/* Only copies or moves files: cp, rsync? */
bool shfs_program_is_copier(const char *name, size_t len);
/* Runs R code? By its path: R_HOME/bin/exec/R. */
bool shfs_program_is_r(const char *path, size_t len);
