/* SPDX-License-Identifier: MIT */
/*
 * caller.h - finds the process that sends a request: from a thread's id to the record of
 * its process.
 *
 * The kernel gives the id of the calling thread, which is blocked in its request
 * meanwhile, so /proc is valid. Each process is recorded once, after its ancestors, and
 * again after each exec. An entry is checked at each use, by a mark that never fits
 * another thread or program (proc.h), or if there can be none by an fd of its stat: so a
 * reused id is a new thread.
 *
 * A caller's other threads may hold its memory map until we answer them. So only files of
 * /proc are read here that do not wait for that map; argv.h reads the arguments. If they
 * cannot be read within a moment, the record has none.
 *
 * To read the stat of a process that closes its files in an exec waits until the exec has
 * gone on. So no lock is held meanwhile that a FLUSH may need; a FLUSH reads nothing of
 * its caller (shfs_caller_closes); and only some threads read at once, so that others are
 * left for the FLUSH that the process in the exec waits for.
 *
 * If /proc is that of another pid namespace than ours, callers are unknown.
 *
 * Thread-safe. Nothing of /proc is read with the lock held.
 */
#pragma once

#include "recording/software.h"
#include "store/capture/capture.h"

struct shfs_callers;

/* Starts the threads of argv.h and software.h (so after a fork into the background).
 * config and what reach names are borrowed. */
_must_check_ int shfs_callers_new(struct shfs_capture *capture,
                                  const struct shfs_config *config,
                                  const struct shfs_reach *reach,
                                  struct shfs_callers **out);
/* Ends what emits records without being asked; before the capture is closed. NULL is
 * fine. */
void shfs_callers_end(struct shfs_callers *callers);
void shfs_callers_free(struct shfs_callers *callers); /* NULL is fine */

/* Waits until the software of the processes so far has been recorded, for a tenth of a
 * second at most. */
void shfs_callers_settle(struct shfs_callers *callers);

/* Returns the sequence number of the caller's PROCESS record; 0: it is in another pid
 * namespace, or gone. */
uint64_t shfs_caller_process(struct shfs_callers *callers, uint32_t tid);

/* The job of a shell to which a process belongs. */
struct shfs_job {
	uint32_t group;     /* of processes; 0 with process 0 */
	bool leads_group;   /* it may be an interactive shell, */
	bool leads_session; /* most likely that of a terminal */
	bool is_shell;      /* by the name of its program */
	bool scans;         /* its reads are not recorded: see [record] ignore-reads */
	bool is_forked;     /* it has executed nothing since, but may do so at any time */
};
uint64_t shfs_caller_job(struct shfs_callers *callers, uint32_t tid,
                         struct shfs_job *job);

/* As shfs_caller_process; 0 also if /proc would have to be read for that. */
uint64_t shfs_caller_at_hand(struct shfs_callers *callers, uint32_t tid);

/*
 * A process that closes a file. It may be in an exec: reading its /proc then waits for
 * the exec, which waits for our answer. shfs_caller_closes returns false if that may be
 * so.
 */
struct shfs_closer {
	uint64_t process;
	struct shfs_job job;
	bool may_have_written; /* since changed_ns, as shfs_caller_may_have_written */
};
bool shfs_caller_closes(struct shfs_callers *callers, uint32_t tid, int64_t changed_ns,
                        struct shfs_closer *out);

/* Returns tid, if that is still the thread that it was at boot_ns (CLOCK_BOOTTIME); or 0.
 */
uint32_t shfs_caller_still(uint32_t tid, uint64_t boot_ns);

/* May the process of tid have written to the file that it closes now, which was last
 * changed at changed_ns (CLOCK_REALTIME)? Not if the process is younger than that, or has
 * written nothing at all. */
bool shfs_caller_may_have_written(uint32_t tid, int64_t changed_ns);
