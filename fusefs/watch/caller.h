/* SPDX-License-Identifier: MIT */
/*
 * caller.h - who sends a request: a thread's id, made the record of its process.
 *
 * The kernel tells the id of the calling thread, and the caller is blocked in its request
 * meanwhile, so /proc is true. Each process is recorded once, after its ancestors, and
 * again when it has executed another program, or the same one again. What is known is
 * checked at each use, by marks that never mean another thread or another program
 * (proc.h), or where there can be none through an fd of its stat: a reused id is a new
 * one.
 *
 * A caller's other threads may hold its memory map until we answer them. So what is read
 * here of /proc is only what does not wait for that map; arguments are argv.h's. Where
 * they could not be read within a moment, the record has none.
 *
 * Where /proc is that of another pid namespace than ours, nobody is known.
 *
 * Thread-safe. Nothing of /proc is read with the lock held.
 */
#pragma once

#include "store/capture/capture.h"

struct shfs_callers;

/* Starts the threads of argv.h (so: after a fork into the background). */
_must_check_ int shfs_callers_new(struct shfs_capture *capture,
                                  struct shfs_callers **out);
void shfs_callers_free(struct shfs_callers *callers);

/* The sequence number of the PROCESS record; 0 where the kernel did not tell (a caller in
 * another pid namespace), or it is gone. */
uint64_t shfs_caller_process(struct shfs_callers *callers, uint32_t tid);

/* The same, and which job of a shell it belongs to. */
struct shfs_job {
	uint32_t group;     /* of processes; 0 with process 0 */
	bool leads_group;   /* may be a shell that somebody types into, */
	bool leads_session; /* and that of a terminal, most likely */
	bool is_shell;      /* of the name of its program */
	bool is_forked;     /* and has executed none yet: it may at any time */
};
uint64_t shfs_caller_job(struct shfs_callers *callers, uint32_t tid,
                         struct shfs_job *job);

/* Is it one of which all is known, without a look at /proc? */
bool shfs_caller_is_at_hand(struct shfs_callers *callers, uint32_t tid);

/*
 * The same of one who closes, whose process may be about to execute a program: all that
 * /proc tells of it then waits for that, and that waits for us. false: so it is, maybe.
 */
struct shfs_closer {
	uint64_t process;
	struct shfs_job job;
	bool may_have_written; /* since changed_ns, as shfs_caller_may_have_written */
};
bool shfs_caller_closes(struct shfs_callers *callers, uint32_t tid, int64_t changed_ns,
                        struct shfs_closer *out);

/* tid, if that is the thread that it was at that time (CLOCK_BOOTTIME); or 0. */
uint32_t shfs_caller_still(uint32_t tid, uint64_t boot_ns);

/* Might the process of tid have written to what it closes now, changed last at changed_ns
 * (CLOCK_REALTIME)? Not what was changed last before it came into being, and not if it
 * has written nothing at all. */
bool shfs_caller_may_have_written(uint32_t tid, int64_t changed_ns);
