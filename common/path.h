/* SPDX-License-Identifier: MIT */
/*
 * path.h - where things live, and plain work on path strings.
 *
 * All results are malloc'ed strings that the caller frees; NULL means no memory, unless
 * said so.
 */
#pragma once

#include "common/util.h"

#include <stdbool.h>

/* The store: override if non-NULL, else $SHFS_STORE, else $XDG_DATA_HOME/shfs, else
 * ~/.local/share/shfs (home from $HOME, else the password database). Made absolute, not
 * resolved; it need not exist. */
char *shfs_path_store(const char *override);

/* $XDG_CONFIG_HOME/shfs/config.ini, else ~/.config/shfs/config.ini. */
char *shfs_path_config(void);

/* $XDG_CACHE_HOME/shfs, else ~/.cache/shfs. */
char *shfs_path_cache(void);

/* $XDG_RUNTIME_DIR/shfs, else /run/user/UID/shfs; NULL where neither directory is there.
 * One that is not this user's, or that others may write to (su keeps the variable), does
 * not count. */
char *shfs_path_runtime(void);

/* Absolute form of path without touching the file system: cwd put before it where needed
 * (from $PWD if that is the cwd, so that links the user sees stay), "." and ".." and
 * doubled slashes taken out. */
char *shfs_path_absolute(const char *path);

/* dir + "/" + name with one slash. name absolute: a copy of name. */
char *shfs_path_join(const char *dir, const char *name);

/* Is path the directory dir, or below it? Both absolute and normal. "/" holds all. */
bool shfs_path_is_below(const char *path, const char *dir);

/* path without dir and the slash ("" for dir itself), borrowed from path; NULL if not
 * below. */
const char *shfs_path_relative(const char *path, const char *dir);

/*
 * A file of this installation: kind "libexec" or "lib", then a name
 * ("shfs-fuse", "shfs-bash.so", "shfs.bash"). Looked for beside the running program (so a
 * tree can be moved or run from the build), then where it was configured to be installed.
 * NULL, errno ENOENT, if it is in neither.
 */
char *shfs_path_installed(const char *kind, const char *name);
