/* SPDX-License-Identifier: MIT */
/*
 * path.h - paths of the store, the configuration and installed files, and work on paths.
 *
 * All results are malloc'ed strings that the caller frees; NULL means no memory, unless
 * said so.
 */
#pragma once

#include "common/util.h"

#include <stdbool.h>

/* Returns the path of the store: override if non-NULL, else $SHFS_STORE, else
 * $XDG_DATA_HOME/shfs, else
 * ~/.local/share/shfs (home from $HOME, else the password database). Made absolute, not
 * resolved; it need not exist. */
char *shfs_path_store(const char *override);

/* Returns $XDG_CONFIG_HOME/shfs/config.ini, else ~/.config/shfs/config.ini. */
char *shfs_path_config(void);

/* Returns $XDG_CACHE_HOME/shfs, else ~/.cache/shfs. */
char *shfs_path_cache(void);

/* Returns $XDG_RUNTIME_DIR/shfs, else /run/user/UID/shfs; NULL if neither directory
 * exists. A directory that is not this user's, or that others may write to, is ignored
 * (su keeps the variable). */
char *shfs_path_runtime(void);

/* Returns path made absolute, without access to the file system: the cwd is put before it
 * if needed (from $PWD if that is the cwd, so that links in it stay); ".", ".." and
 * doubled slashes are removed. */
char *shfs_path_absolute(const char *path);

/* Does the absolute path belong to the system: a device, what the kernel shows, a
 * program, a library? */
bool shfs_path_is_system(const char *path);
/* Is it such a file, or one that programs read to find their way in the system: the cache
 * of the linker, locales, time zones, names of users and hosts? The length of the path of
 * the tree that it belongs to ("/usr/lib"); 0: it is none. */
size_t shfs_path_setting(const char *path);

/* Joins dir and name with one slash. If name is absolute: a copy of name. */
char *shfs_path_join(const char *dir, const char *name);

/* Is path the directory dir, or below it? Both are absolute and normalised. */
bool shfs_path_is_below(const char *path, const char *dir);

/* Returns path without dir and the slash ("" for dir itself), borrowed from path; NULL:
 * it is not below dir. */
const char *shfs_path_relative(const char *path, const char *dir);

/*
 * Returns a file of this installation: kind "libexec" or "lib", then a name ("shfs-fuse",
 * "shfs-bash.so", "shfs.bash"). Looks beside the running program (so that a tree can be
 * moved, or run from the build), then in the configured directory. NULL, errno ENOENT: it
 * is in neither.
 */
char *shfs_path_installed(const char *kind, const char *name);
