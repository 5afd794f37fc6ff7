/* SPDX-License-Identifier: MIT */
/*
 * proc.h - what /proc says of a process and of this machine.
 *
 * A process is named by (pid, start_ticks): start_ticks is field 22 of /proc/PID/stat, in
 * clock ticks (1/100 s) since boot, so a reused pid is another process.
 */
#pragma once

#include "common/buf.h"

struct shfs_proc_stat {
	uint32_t pid, ppid, pgid, sid;
	uint32_t tty_nr;
	uint32_t n_threads;
	uint64_t start_ticks;
	bool waiting;      /* for an event, in the kernel */
	bool forked;       /* has executed nothing since its fork */
	bool ending;       /* it is in its exit */
	uint64_t image[6]; /* where code, stack, heap and arguments begin or end; zeros
	                      where we may not know */
	char comm[64];     /* as the kernel tells it, up to 15 bytes (longer for kernel
	                      threads) */
};

/* Opens /proc/PID (a thread's id works too). The fd keeps meaning this very process: once
 * it has ended, look-ups through it fail with ESRCH, also when its pid is used again. */
_must_check_ int shfs_proc_open(uint32_t pid);

/* Reads stat through such an fd. -ESRCH once the process is gone. */
_must_check_ int shfs_proc_read_stat(int procfd, struct shfs_proc_stat *out);

/* For who asks often: opens stat of thread tid alone through its fd; what is read from it
 * is always as of now. */
_must_check_ int shfs_proc_open_stat(int procfd, uint32_t tid);
_must_check_ int shfs_proc_reread_stat(int statfd, struct shfs_proc_stat *out);

/* Parses the text of a stat file: comm may hold blanks and parentheses. -EBADMSG if
 * malformed. */
_must_check_ int shfs_proc_parse_stat(const char *text, struct shfs_proc_stat *out);

/*
 * Of two looks at one process: had it executed nothing in between? Each exec places the
 * image anew, at random. So an exec is missed only where that is switched off (setarch
 * -R) and program, arguments and environment are as long as before; and where we may not
 * know the image, if comm stays the same.
 */
bool shfs_proc_same_program(const struct shfs_proc_stat *a,
                            const struct shfs_proc_stat *b);

/* Bytes that the process of this thread has given to write(2) and its like; -errno. Waits
 * for an exec of that process to get on. */
_must_check_ int64_t shfs_proc_bytes_written(uint32_t tid);

/*
 * By which it is cheaply seen that a thread is the one that it was and has executed
 * nothing since: its task, and for the first thread of a process, which keeps its id when
 * any of them executes a program, its memory map. -EOPNOTSUPP where that is not certain:
 * a forked process may share the map of its parent, and who executes a program leaves it
 * as it was. (So may others that a process makes by clone(2) with CLONE_VM alone; if it
 * executes a program before those end, that is missed.)
 */
struct shfs_proc_mark {
	int pidfd, mapfd;
};
_must_check_ int shfs_proc_mark(int procfd, const struct shfs_proc_stat *stat,
                                bool is_first, struct shfs_proc_mark *out);
void shfs_proc_unmark(struct shfs_proc_mark *mark);
bool shfs_proc_is_marked(const struct shfs_proc_mark *mark);

/*
 * The process that thread tid belongs to (Tgid of /proc/TID/status), or a negative errno.
 */
_must_check_ int shfs_proc_thread_group(int procfd, uint32_t *tgid);

/*
 * cmdline (arguments separated by NUL, none behind the last), cut at max_bytes; exe and
 * cwd are the targets of the links. Each appends to out.
 *
 * All else here is told by the kernel at once; cmdline waits for the process's memory
 * map, which a page fault may hold until a file system has answered.
 */
_must_check_ int shfs_proc_cmdline(int procfd, size_t max_bytes, struct shfs_buf *out);
_must_check_ int shfs_proc_link(int procfd, const char *name, struct shfs_buf *out);

/*
 * Appends the command that the environment of the process names, as it was when it
 * executed its program (docs/shellhook.md, The marker); nothing where it names none that
 * is to be believed. Waits as cmdline does. hidden: does the environment say that the
 * line which it was run by stays out of the journal? Set as in shfs_environ_hidden.
 */
_must_check_ int shfs_proc_marker(int procfd, struct shfs_buf *out, int *hidden);
/* The same in an environment: variables, each ended by a NUL. */
void shfs_environ_marker(struct shfs_bytes environ, struct shfs_buf *out);
/* 1: yes; 0: no; SHFS_HIDDEN_UNSAID: it is as for the parent. */
#define SHFS_HIDDEN_UNSAID (-1)
int shfs_environ_hidden(struct shfs_bytes environ);

/* 36 characters and a NUL: /proc/sys/kernel/random/boot_id. */
_must_check_ int shfs_proc_boot_id(char out[static 37]);

/* Inode number of this process's pid namespace: pids of two namespaces do not compare. */
_must_check_ int shfs_proc_pid_namespace(uint64_t *out);

/* Is /proc that of this process's pid namespace? Else its numbers are other processes. */
bool shfs_proc_is_ours(void);

/* This machine's name, made safe as a file name; never empty. */
void shfs_proc_host(char out[static 65]);

/* Takes the limit off this process (RLIMIT_*), or raises it as far as it may. True: there
 * is none any more. */
bool shfs_proc_raise_limit(int resource);

/* One part in so many of the descriptors that this process may have, but no more than
 * most. */
size_t shfs_proc_share_of_fds(unsigned parts, size_t most);
