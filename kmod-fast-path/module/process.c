// SPDX-License-Identifier: GPL-2.0-only
/* fork, exec and exit; the process of each event. */
#include <linux/binfmts.h>
#include <linux/kdev_t.h>
#include <linux/mm_types.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/tracepoint.h>
#include <linux/tty.h>
#include <linux/uaccess.h>

#include "shfs.h"

void shfs_fill_process(const struct shfs_subscription *sub,
		       struct shfs_event_process *process, struct task_struct *task)
{
	struct task_struct *parent = rcu_dereference(task->real_parent);
	struct pid_namespace *ns = sub->pid_ns;

	if (likely(ns == &init_pid_ns)) {
		process->pid = task->tgid;
		process->tid = task->pid;
		process->ppid = parent->tgid;
		process->pgid = pid_nr(task_pgrp(task));
		process->sid = pid_nr(task_session(task));
	} else {
		process->pid = task_tgid_nr_ns(task, ns);
		process->tid = task_pid_nr_ns(task, ns);
		process->ppid = task_tgid_nr_ns(parent, ns);
		process->pgid = task_pgrp_nr_ns(task, ns);
		process->sid = task_session_nr_ns(task, ns);
	}
	process->start_ns = task->group_leader->start_boottime;
	process->tty = 0;
	process->uid = from_kuid_munged(sub->user_ns, task_uid(task));
	process->reserved = 0;
}

static u32 tty_of_current(void)
{
	struct tty_struct *tty = get_current_tty();
	u32 dev = 0;

	if (tty) {
		dev = new_encode_dev(tty_devnum(tty));
		tty_kref_put(tty);
	}
	return dev;
}

static void on_fork(void *data, struct task_struct *parent, struct task_struct *child)
{
	struct shfs_subscription *sub;
	struct shfs_event *event;
	struct shfs_ring *ring;

	if (!shfs_watched() || child->tgid == parent->tgid ||
	    (parent->flags & PF_KTHREAD))
		return;
	shfs_enter();
	shfs_for_each_subscription(sub) {
		if (!shfs_is_of(sub, current_cred()))
			continue;
		ring = shfs_ring_here(sub);
		shfs_event_begin(ring);
		event = shfs_event_make(sub, ring, SHFS_EVENT_FORK, 0, 0);
		if (event) {
			shfs_fill_process(sub, &event->process, current);
			event->process.tty = tty_of_current();
			event->child.pid = task_tgid_nr_ns(child, sub->pid_ns);
			event->child.reserved = 0;
			event->child.start_ns = child->start_boottime;
		}
		shfs_event_end(sub, ring, event);
	}
	shfs_leave();
}

/*
 * The arguments were just written: bytes that are not in memory were changed
 * since.
 */
static u32 copy_arguments(const struct mm_struct *mm, char *to)
{
	unsigned long start = mm->arg_start, end = mm->arg_end;
	u32 len = min_t(unsigned long, end - start, SHFS_EVENT_ARGV_MAX);

	if (copy_from_user_nofault(to, (const void __user *)start, len))
		return 0;
	/* the NUL of the last one separates nothing */
	return len && !to[len - 1] ? len - 1 : len;
}

/*
 * Looks for the marker: returns SHFS_EVENT_HIDDEN, SHFS_EVENT_SHOWN or 0. It is
 * read here because a program that ends at once takes its environment with it.
 */
static u32 environment_says(const struct mm_struct *mm)
{
	unsigned long at = mm->env_start;
	unsigned long end = min(mm->env_end, at + SHFS_EVENT_ENVIRON_MAX);
	struct shfs_event_window window = {};
	u8 piece[128];
	u32 said = 0;

	while (at < end && !said) {
		size_t len = min_t(unsigned long, end - at, sizeof(piece));

		if (copy_from_user_nofault(piece, (const void __user *)at, len))
			return 0;
		for (size_t i = 0; i < len && !said; i++)
			said = shfs_event_window_add(&window, piece[i]);
		at += len;
	}
	return said;
}

static void report_exec(struct shfs_subscription *sub, const struct linux_binprm *bprm)
{
	struct shfs_ring *ring = shfs_ring_here(sub);
	u32 len = min_t(size_t, strlen(bprm->filename), SHFS_EVENT_PATH_MAX);
	u32 len2 = copy_arguments(current->mm, ring->text);
	struct shfs_event *event;

	shfs_event_begin(ring);
	event = shfs_event_make(sub, ring, SHFS_EVENT_EXEC, len, len2);
	if (event) {
		event->flags |= environment_says(current->mm);
		if (len2 == SHFS_EVENT_ARGV_MAX)
			event->flags |= SHFS_EVENT_CUT;
		shfs_fill_process(sub, &event->process, current);
		event->process.tty = tty_of_current();
		shfs_fill_file(sub, &event->file, file_inode(bprm->file),
			       bprm->file->f_path.dentry, 0);
		shfs_copy(event->text, bprm->filename, len);
		shfs_copy(event->text + len, ring->text, len2);
	}
	shfs_event_end(sub, ring, event);
}

static void on_exec(void *data, struct task_struct *task, pid_t old_pid,
		    struct linux_binprm *bprm)
{
	struct shfs_subscription *sub;

	if (!shfs_watched())
		return;
	shfs_enter();
	shfs_for_each_subscription(sub)
		if (shfs_is_of(sub, current_cred()))
			report_exec(sub, bprm);
	shfs_leave();
}

/*
 * Adds up what the process has used: the kernel keeps that of threads that
 * are gone, and of each that is not. How long they ran is shared out by what ticks have
 * counted, as getrusage(2) does it.
 */
static void fill_usage(struct shfs_event *event)
{
	const struct signal_struct *signal = current->signal;
	u64 user = signal->utime, system = signal->stime;
	u64 run = signal->sum_sched_runtime, part = 0;
	const struct task_struct *thread;

	rcu_read_lock();
	for_each_thread(current, thread)
	{
		user += thread->utime;
		system += thread->stime;
		run += thread->se.sum_exec_runtime;
	}
	rcu_read_unlock();
	if (system)
		part = mul_u64_u64_div_u64(run, system, user + system);
	event->flags |= SHFS_EVENT_USAGE;
	event->exit.status = signal->flags & SIGNAL_GROUP_EXIT
				     ? signal->group_exit_code
				     : current->group_leader->exit_code;
	event->exit.reserved = 0;
	event->exit.system_us = div_u64(part, NSEC_PER_USEC);
	event->exit.user_us = div_u64(run - part, NSEC_PER_USEC);
	event->exit.max_rss_kib = (u64)signal->maxrss << (PAGE_SHIFT - 10);
}

/*
 * Runs after the last close of the process, before its parent learns of the
 * end.
 */
static void notrace on_exit(unsigned long ip, unsigned long parent_ip,
			    struct ftrace_ops *op, struct ftrace_regs *regs)
{
	struct shfs_subscription *sub;
	struct shfs_event *event;
	struct shfs_ring *ring;

	if (!shfs_watched() || atomic_read(&current->signal->live) ||
	    (current->flags & PF_KTHREAD))
		return;
	shfs_enter();
	shfs_for_each_subscription(sub) {
		if (!shfs_is_of(sub, current_cred()))
			continue;
		ring = shfs_ring_here(sub);
		shfs_event_begin(ring);
		event = shfs_event_make(sub, ring, SHFS_EVENT_EXIT, 0, 0);
		if (event) {
			shfs_fill_process(sub, &event->process, current);
			fill_usage(event);
		}
		shfs_event_end(sub, ring, event);
	}
	shfs_leave();
}

static struct {
	const char *name;
	void *func;
	struct tracepoint *tracepoint;
	bool on;
} points[] = {
	{.name = "sched_process_fork", .func = on_fork},
	{.name = "sched_process_exec", .func = on_exec},
};

/*
 * The first of these that the kernel has is used. All of them run after the
 * closes, and before the parent learns of the end.
 */
static struct shfs_ftrace exits[] = {
	{.name = "cgroup_exit"},
	{.name = "cgroup_task_exit"},
	{.name = "sched_autogroup_exit_task"},
};

static void find_point(struct tracepoint *tracepoint, void *data)
{
	for (int i = 0; i < ARRAY_SIZE(points); i++)
		if (!strcmp(tracepoint->name, points[i].name))
			points[i].tracepoint = tracepoint;
}

static int hook_points(void)
{
	int i, r;

	for_each_kernel_tracepoint(find_point, NULL);
	for (i = 0; i < ARRAY_SIZE(points); i++) {
		r = points[i].tracepoint ? tracepoint_probe_register(points[i].tracepoint,
								     points[i].func, NULL)
					 : -ENOENT;
		if (r) {
			pr_err("no tracepoint %s: %d\n", points[i].name, r);
			return r;
		}
		points[i].on = true;
	}
	return 0;
}

int shfs_process_hook(void)
{
	int i, r = hook_points();

	if (r)
		return r;
	for (i = 0; i < ARRAY_SIZE(exits); i++) {
		r = shfs_ftrace_on(&exits[i], on_exit);
		if (!r)
			return 0;
	}
	pr_err("this kernel does not let see the end of a process: %d\n", r);
	return r;
}

void shfs_process_unhook(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(exits); i++)
		shfs_ftrace_off(&exits[i]);
	for (i = 0; i < ARRAY_SIZE(points); i++)
		if (points[i].on)
			tracepoint_probe_unregister(points[i].tracepoint, points[i].func,
						    NULL);
	tracepoint_synchronize_unregister();
}
