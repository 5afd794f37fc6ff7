/* SPDX-License-Identifier: MIT */
/*
 * proc.h - reads /proc: of a process and of this machine.
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
	uint32_t cpu;      /* on which it ran last */
	bool waiting;      /* it waits for an event, in the kernel */
	bool forked;       /* it has executed nothing since its fork */
	bool ending;       /* it is exiting */
	uint64_t image[6]; /* addresses of code, stack, heap and arguments; zeros: we may
	                      not read them */
	char comm[64];     /* from the kernel, up to 15 bytes (longer for kernel threads)
	                    */
};

/* Opens /proc/PID (a thread's id works too). The fd stays bound to this process: once it
 * has ended, look-ups fail with ESRCH, also if its pid is reused. */
_must_check_ int shfs_proc_open(uint32_t pid);

/* Reads stat through such an fd. -ESRCH once the process is gone. */
_must_check_ int shfs_proc_read_stat(int procfd, struct shfs_proc_stat *out);

/* For callers that read often: shfs_proc_open_stat opens stat of thread tid alone;
 * shfs_proc_reread_stat reads its present state from that fd. */
_must_check_ int shfs_proc_open_stat(int procfd, uint32_t tid);
_must_check_ int shfs_proc_reread_stat(int statfd, struct shfs_proc_stat *out);

/* Parses the text of a stat file: comm may hold blanks and parentheses. -EBADMSG if
 * malformed. */
_must_check_ int shfs_proc_parse_stat(const char *text, struct shfs_proc_stat *out);

/*
 * Do two stats of a process show that it has executed nothing in between? Each exec
 * places the image at random addresses. So an exec is missed only if that is switched off
 * (setarch -R) and program, arguments and environment are as long as before; or if we may
 * not read the addresses and comm stays the same.
 */
bool shfs_proc_same_program(const struct shfs_proc_stat *a,
                            const struct shfs_proc_stat *b);

/* Returns how many bytes the process of this thread has passed to write(2) and the like;
 * -errno. Waits while that process is in an exec. */
_must_check_ int64_t shfs_proc_bytes_written(uint32_t tid);

/*
 * A mark shows cheaply that a thread is still the same and has executed nothing since. It
 * holds the thread's task; and for the first thread of a process, which keeps its id when
 * any thread executes a program, also the memory map. -EOPNOTSUPP if that is not certain:
 * a forked process may share the map of its parent (vfork), and the map then outlives its
 * exec. (The same is possible with clone(2) and only CLONE_VM: if the process executes a
 * program before such a child ends, that is missed.)
 */
struct shfs_proc_mark {
	int pidfd, mapfd;
};
_must_check_ int shfs_proc_mark(int procfd, const struct shfs_proc_stat *stat,
                                bool is_first, struct shfs_proc_mark *out);
void shfs_proc_unmark(struct shfs_proc_mark *mark);
bool shfs_proc_is_marked(const struct shfs_proc_mark *mark);

/*
 * Gets the process of a thread (Tgid of /proc/TID/status), or a negative errno.
 */
_must_check_ int shfs_proc_thread_group(int procfd, uint32_t *tgid);

/*
 * Append to out: the cmdline (arguments separated by NUL, none behind the last), cut at
 * max_bytes; the target of a link, exe or cwd.
 *
 * The kernel answers all else here at once; cmdline waits for the process's memory map,
 * which a page fault may hold until a file system has answered.
 */
_must_check_ int shfs_proc_cmdline(int procfd, size_t max_bytes, struct shfs_buf *out);
_must_check_ int shfs_proc_link(int procfd, const char *name, struct shfs_buf *out);

/* Do paths mean for the process what they mean here: is its root the same, in the same
 * namespace of mounts? 1; 0; an error: it has ended, or may not be seen. */
_must_check_ int shfs_proc_shares_root(int procfd);

/* Appends what the standard streams are (struct shfs_rec_process); a closed one is empty.
 * An error: they may not be seen, and nothing was appended. */
_must_check_ int shfs_proc_streams(int procfd, struct shfs_buf *out);

/* Appends the environment of the process, as it was when the process executed its
 * program: variables, each ended by a NUL; at most 1 MiB. Waits as cmdline does. */
_must_check_ int shfs_proc_environ(int procfd, struct shfs_buf *out);

/*
 * Appends the command that the environment of the process names, as it was when the
 * process executed its program (docs/shellhook.md, The marker); nothing if there is no
 * valid marker. Waits as cmdline does. *hidden: does the environment say that the command
 * is hidden? Set as in shfs_environ_hidden.
 */
_must_check_ int shfs_proc_marker(int procfd, struct shfs_buf *out, int *hidden);
/* Appends the command that an environment (variables, each ended by a NUL) names. */
void shfs_environ_marker(struct shfs_bytes environ, struct shfs_buf *out);
/* Returns a marker without the command that it names: its marks (docs/shellhook.md, The
 * marker), borrowed. */
struct shfs_bytes shfs_marker_marks(struct shfs_bytes marker);
/* Returns the value of a variable in an environment, borrowed; its data are NULL if there
 * is none. */
struct shfs_bytes shfs_environ_variable(struct shfs_bytes environ, const char *name);
/* Does the environment say that the command is hidden? 1; 0; SHFS_HIDDEN_UNSAID: it is as
 * for the parent process. */
#define SHFS_HIDDEN_UNSAID (-1)
int shfs_environ_hidden(struct shfs_bytes environ);

/* Reads /proc/sys/kernel/random/boot_id: 36 characters and a NUL. */
_must_check_ int shfs_proc_boot_id(char out[static 37]);

/* Gets the inode number of this process's pid namespace: pids of two namespaces do not
 * compare. */
_must_check_ int shfs_proc_pid_namespace(uint64_t *out);

/* Is /proc that of this process's pid namespace? Otherwise its pids are other processes.
 */
bool shfs_proc_is_ours(void);

/* Gets this machine's name, made safe as a file name; never empty. */
void shfs_proc_host(char out[static 65]);

/* Removes a limit of this process (RLIMIT_*), or raises it as far as allowed. True: it is
 * removed. */
bool shfs_proc_raise_limit(int resource);

/* Returns the number of descriptors that this process may have divided by parts, but no
 * more than most. */
size_t shfs_proc_share_of_fds(unsigned parts, size_t most);

/* Returns getpid(), mostly without asking the kernel. Right in a child, too, however it
 * was forked, unless that shares this process's memory. */
pid_t shfs_pid(void);
