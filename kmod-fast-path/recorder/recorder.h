/* SPDX-License-Identifier: MIT */
/*
 * recorder.h - from the kernel's events to the journal: the same records as those of a
 * mount (fusefs/), made after the fact. docs/fast-path.md says what differs.
 *
 * One thread, besides that of the baseline (baseline.h).
 */
#pragma once

#include "common/config.h"
#include "common/event.h"
#include "kmod-fast-path/recorder/contents.h"
#include "kmod-fast-path/recorder/processes.h"
#include "kmod-fast-path/recorder/scope.h"

struct shfs_paths;
struct shfs_open_file;

struct shfs_recorder {
	struct shfs_store *store;
	struct shfs_config config;
	struct shfs_capture *capture;
	struct shfs_spool *spool;
	struct shfs_project_rules rules;
	struct shfs_contents *contents;
	struct shfs_processes *processes;
	struct shfs_paths *paths;
	struct shfs_open_file *open; /* files that a process writes through */
	char *root;                  /* the absolute path of the directory when the
	                              * recording began */
	int root_fd;                 /* O_RDONLY */
	const char *driver;          /* its name */
	char *hidden;                /* the store's path below the root; NULL */
	struct shfs_scope *scope;    /* borrowed; NULL: all below the root is recorded */
	int64_t since_ns;            /* CLOCK_REALTIME */
	uint64_t last_ns;            /* of the last event; CLOCK_BOOTTIME */
	uint64_t lost; /* events that the kernel or the helper had no room for */
};

/* Begins; the caller has set root, root_fd, store and driver. -errno. */
_must_check_ int shfs_recorder_begin(struct shfs_recorder *recorder);
void shfs_recorder_end(struct shfs_recorder *recorder);

/* Records what the command has left in files that a process above it has open still: its
 * standard output. */
void shfs_recorder_settle(struct shfs_recorder *recorder);

/* As shfs_event_sink. */
void shfs_recorder_event(void *recorder, const struct shfs_event *event, int content_fd);
