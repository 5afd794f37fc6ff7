/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * usage.h - what a process has used by its end: for shared.h, which includes it behind
 * what it needs.
 */
#ifndef SHFS_BPF_USAGE_H
#define SHFS_BPF_USAGE_H

#define THREADS_MAX 65536 /* of a process, that end at the same time */

/* A walk over the threads of a process that are not gone yet. */
struct usage {
	u64 thread, head; /* nodes of their list */
	u64 user_ns, system_ns, run_ns;
};

static long add_thread(u32 i, void *arg)
{
	struct usage *usage = arg;
	struct task_struct *task = (void *)usage->thread -
	                           bpf_core_field_offset(struct task_struct, thread_node);

	if (!usage->thread || usage->thread == usage->head)
		return 1;
	usage->user_ns += BPF_CORE_READ(task, utime);
	usage->system_ns += BPF_CORE_READ(task, stime);
	usage->run_ns += BPF_CORE_READ(task, se.sum_exec_runtime);
	usage->thread = (u64)BPF_CORE_READ(task, thread_node.next);
	return 0;
}

/* Adds what the process has used. The kernel adds up what threads used that are gone; the
 * last one is not yet, nor is the first one if others outlived it, nor those that end
 * right now. */
static __always_inline void add_usage(struct shfs_bpf_record *record,
                                      struct task_struct *task)
{
	struct signal_struct *signal = task->signal;
	struct usage usage = {
		.thread = (u64)BPF_CORE_READ(signal, thread_head.next),
		.head = pointer_value(signal) +
		        bpf_core_field_offset(struct signal_struct, thread_head),
		.user_ns = signal->utime,
		.system_ns = signal->stime,
		.run_ns = signal->sum_sched_runtime,
	};

	bpf_loop(THREADS_MAX, add_thread, &usage, 0);
	record->flags |= SHFS_EVENT_USAGE;
	record->mtime_ns = usage.user_ns;
	record->ctime_ns = usage.system_ns;
	record->id = usage.run_ns;
	record->bytes = signal->maxrss;
	record->mode = signal->flags & SIGNAL_GROUP_EXIT ? signal->group_exit_code
	                                                 : task->group_leader->exit_code;
}

#endif
