/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/recorder/processes.h"

#include "common/config.h"
#include "common/io.h"
#include "common/path.h"
#include "common/proc.h"
#include "recording/environment.h"
#include "recording/outside.h"
#include "recording/software.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <uthash.h>

#define KNOWN_MAX     65536
#define EVICT_TRY     64 /* of the oldest, to find one that has ended */
#define DEPTH_MAX     64
#define STAGES_TRY    64 /* of the youngest, to find the other stages of a pipeline */
#define SUBSHELLS_MAX 4
#define TICK_NS       (SHFS_NSEC_PER_SEC / 100) /* of start_ticks */

/* The environment of a program, and of those that it executed with the same one. */
struct environment {
	unsigned refs;
	struct shfs_buf text;
};

/* The program that a process runs, and its forks with it. */
struct program {
	unsigned refs;
	struct shfs_buf exe, cwd, argv, marker;
	struct environment *environment; /* a reference; NULL: not known */
	int hidden;                      /* as in shfs_environ_hidden */
};

struct key {
	uint64_t start_ticks;
	uint64_t pid;
};

struct process {
	struct key key, parent; /* parent.pid 0: unknown; start_ticks 0: likewise */
	uint32_t pgid, sid, tty, uid;
	struct program *program; /* a reference */
	bool forked;             /* it has executed nothing since its fork */
	bool ended;
	bool below;              /* it descends from the process above */
	uint64_t since_ns;       /* when it executed this program; 0: not seen */
	uint64_t seq;            /* of its record with this program; 0: none */
	uint64_t last_seq;       /* of its last record, with any program; 0: none */
	struct shfs_buf streams; /* with this program; empty: not seen */
	struct exit {
		bool known; /* and not recorded yet */
		uint64_t time_ns;
		struct shfs_event_exit usage;
	} exit;
	UT_hash_handle hh;
};

struct shfs_processes {
	struct shfs_capture *capture;
	const struct shfs_config *config;
	struct shfs_software *software; /* NULL: it is not recorded */
	struct shfs_outside_view *outside;
	char *ours[3]; /* programs of shfs that read the files of others to record them */
	uint64_t since_ticks;  /* when the recording began */
	struct key above;      /* of interest is what descends from it; pid 0: all */
	struct process *known; /* the longest unused first */
};

static int find_above(struct shfs_processes *p, pid_t pid)
{
	_cleanup_close_ int procfd = shfs_proc_open((uint32_t)pid);
	struct shfs_proc_stat stat;

	if (procfd < 0 || shfs_proc_read_stat(procfd, &stat))
		return -ESRCH;
	p->above = (struct key){ stat.start_ticks, (uint64_t)pid };
	p->since_ticks = shfs_time_now().boot_ns / TICK_NS;
	return 0;
}

int shfs_processes_new(struct shfs_capture *capture, const struct shfs_config *config,
                       const char *root, int root_fd, pid_t above,
                       struct shfs_processes **out)
{
	const struct shfs_reach reach = { .root = root, .root_fd = -1 };
	struct shfs_processes *p = calloc(1, sizeof(*p));
	int r = p ? 0 : -ENOMEM;

	if (!r && config->software)
		r = shfs_software_new(capture, &reach, &p->software);
	if (!r)
		r = shfs_outside_view_new(root, root_fd, config, &p->outside);
	if (!r && above)
		r = find_above(p, above);
	if (r) {
		shfs_processes_free(p);
		return r;
	}
	p->capture = capture;
	p->config = config;
	p->ours[0] = shfs_path_installed("sbin", "shfs-helper");
	p->ours[1] = realpath("/proc/self/exe", NULL);
	/* below the process above may be mounts, which record themselves */
	p->ours[2] = above ? shfs_path_installed("libexec", "shfs-fuse") : NULL;
	*out = p;
	return 0;
}

/* --- programs --- */

static void environment_unref(struct environment *e)
{
	shfs_assert(!e || e->refs);
	if (!e || --e->refs)
		return;
	shfs_buf_free(&e->text);
	free(e);
}

static struct program *program_new(void)
{
	struct program *program = calloc(1, sizeof(*program));

	if (!program)
		return NULL;
	program->refs = 1;
	program->hidden = SHFS_HIDDEN_UNSAID;
	return program;
}

static struct program *program_ref(struct program *program)
{
	if (program)
		program->refs++;
	return program;
}

static void program_unref(struct program *program)
{
	shfs_assert(!program || program->refs);
	if (!program || --program->refs)
		return;
	shfs_buf_free(&program->exe);
	shfs_buf_free(&program->cwd);
	shfs_buf_free(&program->argv);
	shfs_buf_free(&program->marker);
	environment_unref(program->environment);
	free(program);
}

/* Copies from, if to is empty. */
static void inherit_text(struct shfs_buf *to, const struct shfs_buf *from)
{
	if (!to->len && from->len)
		shfs_buf_add(to, from->data, from->len);
}

static bool buf_equals(const struct shfs_buf *buf, const char *text)
{
	return buf->len == strlen(text) && !memcmp(buf->data, text, buf->len);
}

/* A descriptor of /proc/PID, if that still is this very process. */
static int open_process(const struct key *key, struct shfs_proc_stat *stat)
{
	int procfd = shfs_proc_open((uint32_t)key->pid);

	if (procfd >= 0 && (shfs_proc_read_stat(procfd, stat) ||
	                    (key->start_ticks && stat->start_ticks != key->start_ticks)))
		shfs_closep(&procfd);
	else if (procfd >= 0)
		return procfd;
	return -ESRCH;
}

/* Reads what the environment of a process says; it is mostly that of the program before,
 * which may be NULL. */
static void read_environment(struct shfs_processes *p, int procfd,
                             const struct program *before, struct program *program)
{
	struct environment *same = before ? before->environment : NULL;
	struct environment *e = calloc(1, sizeof(*e));

	if (!e)
		return;
	e->refs = 1;
	if (shfs_environment_read(procfd, p->config->environment, &program->marker,
	                          &program->hidden, &e->text)) {
		environment_unref(e);
		return;
	}
	if (same && same->text.len == e->text.len &&
	    !memcmp(same->text.data, e->text.data, e->text.len)) {
		environment_unref(e);
		e = same;
		e->refs++;
	}
	program->environment = e;
}

/* --- the table --- */

static void drop_process(struct shfs_processes *p, struct process *process)
{
	HASH_DEL(p->known, process);
	program_unref(process->program);
	shfs_buf_free(&process->streams);
	free(process);
}

void shfs_processes_free(struct shfs_processes *p)
{
	struct process *process, *next;

	if (!p)
		return;
	HASH_ITER (hh, p->known, process, next)
		drop_process(p, process);
	shfs_software_free(p->software);
	shfs_outside_view_free(p->outside);
	for (size_t i = 0; i < ARRAY_SIZE(p->ours); i++)
		free(p->ours[i]);
	free(p);
}

static void evict_process(struct shfs_processes *p)
{
	struct process *oldest = p->known;

	if (HASH_COUNT(p->known) < KNOWN_MAX)
		return;
	for (int i = 0; i < EVICT_TRY && oldest && !oldest->ended; i++)
		oldest = oldest->hh.next;
	drop_process(p, oldest ? oldest : p->known);
}

/* pid 0 is no process. */
static struct process *find_remembered_process(struct shfs_processes *p,
                                               const struct key *key)
{
	struct process *process;

	HASH_FIND(hh, p->known, key, sizeof(*key), process);
	if (process && process->hh.next) {
		HASH_DEL(p->known, process);
		HASH_ADD(hh, p->known, key, sizeof(process->key), process);
	}
	return process;
}

static struct process *remember_process(struct shfs_processes *p, const struct key *key)
{
	struct process *process = calloc(1, sizeof(*process));

	if (!process)
		return NULL;
	evict_process(p);
	process->key = *key;
	HASH_ADD(hh, p->known, key, sizeof(process->key), process);
	return process;
}

static struct process *find_parent(struct shfs_processes *p, struct process *process);

static bool is_above(const struct shfs_processes *p, const struct process *process)
{
	return p->above.pid && process->key.pid == p->above.pid &&
	       process->key.start_ticks == p->above.start_ticks;
}

/* Does the child of this process, which may be NULL, descend from the one above? */
static bool has_below(const struct shfs_processes *p, const struct process *parent)
{
	return parent && (parent->below || is_above(p, parent));
}

/* Adds a process of which no event came, as /proc describes it now. NULL: it is gone. The
 * process above is the one that gets the orphans of those below, so /proc leads there. */
static struct process *read_process(struct shfs_processes *p, struct key key)
{
	struct shfs_proc_stat stat;
	_cleanup_close_ int procfd = open_process(&key, &stat);
	struct process *process;
	struct stat st;

	if (procfd < 0)
		return NULL;
	key.start_ticks = stat.start_ticks;
	process = find_remembered_process(p, &key);
	if (process)
		return process;
	process = remember_process(p, &key);
	if (!process)
		return NULL;
	process->parent.pid = stat.ppid;
	process->pgid = stat.pgid;
	process->sid = stat.sid;
	process->tty = stat.tty_nr;
	process->uid = fstat(procfd, &st) ? 0 : st.st_uid;
	process->forked = stat.forked;
	if (p->above.pid && key.start_ticks >= p->since_ticks)
		process->below = has_below(p, find_parent(p, process));
	process->program = program_new();
	if (!process->program)
		return process;
	(void)!shfs_proc_link(procfd, "exe", &process->program->exe);
	(void)!shfs_proc_link(procfd, "cwd", &process->program->cwd);
	(void)!shfs_proc_cmdline(procfd, SHFS_ARGV_READ, &process->program->argv);
	read_environment(p, procfd, NULL, process->program);
	return process;
}

static struct key key_of(const struct shfs_event_process *who)
{
	return (struct key){ .start_ticks = who->start_ns / TICK_NS, .pid = who->pid };
}

/* The process of an event, updated with what the event says of its job. NULL: unknown. */
static struct process *update_process(struct shfs_processes *p,
                                      const struct shfs_event_process *who)
{
	struct key key = key_of(who);
	struct process *process =
		who->pid && who->start_ns ? find_remembered_process(p, &key) : NULL;

	if (!process && who->pid)
		process = read_process(p, key);
	if (!process && who->pid && who->start_ns)
		process = remember_process(p, &key);
	if (!process)
		return NULL;
	process->pgid = who->pgid ? who->pgid : process->pgid;
	process->sid = who->sid ? who->sid : process->sid;
	process->tty = who->tty ? who->tty : process->tty;
	process->uid = who->start_ns ? who->uid : process->uid;
	if (!process->parent.pid)
		process->parent.pid = who->ppid;
	return process;
}

/* --- events --- */

static void note_fork(struct shfs_processes *p, const struct shfs_event *event)
{
	struct process *parent = update_process(p, &event->process), *child;
	struct key key = { event->child.start_ns / TICK_NS, event->child.pid };

	if (!parent || !key.pid)
		return;
	child = find_remembered_process(p, &key);
	if (child) {
		child->below |= has_below(p, parent);
		return;
	}
	child = remember_process(p, &key);
	if (!child)
		return;
	child->below = has_below(p, parent);
	child->parent = parent->key;
	child->pgid = parent->pgid;
	child->sid = parent->sid;
	child->tty = parent->tty;
	child->uid = parent->uid;
	child->program = program_ref(parent->program);
	child->forked = true;
}

/* Adds the arguments; where they are cut, without the last word: it may be half a secret,
 * which would not be recognised. */
static void add_arguments(struct shfs_buf *out, const struct shfs_event *event)
{
	const char *argv = event->text + event->text_len;
	size_t len = event->text2_len;
	bool cut = event->flags & SHFS_EVENT_CUT || len == SHFS_EVENT_ARGV_MAX;

	while (cut && len && argv[len - 1] && !strchr(" \t\n", argv[len - 1]))
		len--;
	shfs_buf_add(out, argv, len);
	if (cut)
		shfs_buf_add(out, SHFS_ARGV_CUT, sizeof(SHFS_ARGV_CUT) - 1);
}

/* Notes an exec. /proc comes first, but it may be of a later program already, or gone:
 * the event has the arguments and whether they are hidden. */
static void note_exec(struct shfs_processes *p, const struct shfs_event *event)
{
	struct process *process = update_process(p, &event->process);
	struct program *program = process ? program_new() : NULL, *before;
	struct shfs_proc_stat stat;
	_cleanup_close_ int procfd = -1;

	if (!program)
		return;
	before = process->program;
	procfd = open_process(&process->key, &stat);
	if (procfd >= 0) {
		(void)!shfs_proc_link(procfd, "exe", &program->exe);
		(void)!shfs_proc_link(procfd, "cwd", &program->cwd);
		read_environment(p, procfd, before, program);
		process->streams.len = 0;
		(void)!shfs_proc_streams(procfd, &process->streams);
	} else if (before) {
		inherit_text(&program->marker, &before->marker);
	}
	if (!program->exe.len)
		shfs_buf_add(&program->exe, event->text, event->text_len);
	if (before)
		inherit_text(&program->cwd, &before->cwd);
	if (event->flags & (SHFS_EVENT_HIDDEN | SHFS_EVENT_SHOWN))
		program->hidden = !!(event->flags & SHFS_EVENT_HIDDEN);
	if (before && program->hidden == SHFS_HIDDEN_UNSAID && before->hidden > 0)
		program->hidden = 1;
	if (event->text2_len)
		add_arguments(&program->argv, event);
	else if (procfd >= 0)
		(void)!shfs_proc_cmdline(procfd, SHFS_ARGV_READ, &program->argv);
	program_unref(before);
	process->program = program;
	process->forked = false;
	process->since_ns = event->time_ns;
	process->seq = 0;
}

static struct shfs_time time_at(uint64_t boot_ns)
{
	struct shfs_time now = shfs_time_now();

	return (struct shfs_time){
		.real_ns = now.real_ns - (int64_t)(now.boot_ns - boot_ns),
		.boot_ns = boot_ns,
	};
}

/* Records what a process has used, if it has ended and has a record. */
static void emit_exit(struct shfs_processes *p, struct process *process)
{
	const struct shfs_event_exit *usage = &process->exit.usage;
	struct shfs_record rec = {
		.type = SHFS_REC_EXIT,
		.time = time_at(process->exit.time_ns),
		.exit = {
			.process = process->last_seq,
			.status = usage->status,
			.user_us = usage->user_us,
			.system_us = usage->system_us,
			.max_rss_kib = usage->max_rss_kib,
		},
	};

	if (!process->exit.known || !process->last_seq)
		return;
	process->exit.known = false;
	shfs_capture_emit(p->capture, &rec, NULL);
}

static void note_end(struct shfs_processes *p, const struct shfs_event *event)
{
	struct key key = key_of(&event->process);
	struct process *process = find_remembered_process(p, &key);

	if (!process || process->ended)
		return;
	process->ended = true;
	process->exit = (struct exit){
		.known = event->flags & SHFS_EVENT_USAGE,
		.time_ns = event->time_ns,
		.usage = event->exit,
	};
	emit_exit(p, process);
}

void shfs_processes_note(struct shfs_processes *p, const struct shfs_event *event)
{
	if (event->type == SHFS_EVENT_FORK) {
		note_fork(p, event);
	} else if (event->type == SHFS_EVENT_EXEC) {
		note_exec(p, event);
	} else if (event->type == SHFS_EVENT_EXIT) {
		note_end(p, event);
	}
}

static bool is_ours(const struct shfs_processes *p, const struct process *process)
{
	for (size_t i = 0; process && process->program && i < ARRAY_SIZE(p->ours); i++)
		if (p->ours[i] && buf_equals(&process->program->exe, p->ours[i]))
			return true;
	return false;
}

bool shfs_processes_is_shfs(struct shfs_processes *p,
                            const struct shfs_event_process *who)
{
	return who->pid == (uint32_t)getpid() || is_ours(p, update_process(p, who));
}

bool shfs_processes_is_below(struct shfs_processes *p,
                             const struct shfs_event_process *who)
{
	const struct process *process = p->above.pid ? update_process(p, who) : NULL;

	return !p->above.pid || (process && process->below);
}

void shfs_processes_look_below(struct shfs_processes *p)
{
	DIR *proc = p->above.pid ? opendir("/proc") : NULL;
	struct dirent *entry;

	while (proc && (entry = readdir(proc))) {
		const struct key key = { .pid = strtoul(entry->d_name, NULL, 10) };

		if (key.pid)
			(void)read_process(p, key);
	}
	if (proc)
		closedir(proc);
}

bool shfs_processes_any_below(struct shfs_processes *p)
{
	struct shfs_proc_stat stat;
	struct process *process, *next;

	HASH_ITER (hh, p->known, process, next) {
		_cleanup_close_ int procfd = -1;

		if (!process->below || process->ended || is_ours(p, process))
			continue;
		procfd = open_process(&process->key, &stat);
		if (procfd >= 0 && !stat.ending)
			return true;
		process->ended = true; /* its event was lost */
	}
	return false;
}

bool shfs_processes_scans(struct shfs_processes *p, const struct shfs_event_process *who)
{
	const struct process *process = update_process(p, who);
	const struct shfs_buf *exe =
		process && process->program ? &process->program->exe : NULL;

	return shfs_config_ignores_reads(p->config, exe && exe->len ? exe->data : "");
}

/* --- records --- */

static struct shfs_bytes buf_bytes(const struct shfs_buf *buf)
{
	return (struct shfs_bytes){ buf->data, buf->len };
}

/* Hides the arguments of processes of a hidden command. If its environment says nothing,
 * as behind env -i, a process is as its parent. */
static void decide_hidden(struct shfs_processes *p, struct process *process)
{
	const struct process *parent;

	if (!process->program || process->program->hidden != SHFS_HIDDEN_UNSAID)
		return;
	parent =
		process->parent.pid ? find_remembered_process(p, &process->parent) : NULL;
	if (parent && parent->program && parent->program->hidden > 0)
		process->program->hidden = 1;
}

/* Sets which job and session a process is in now. That of one that has executed nothing
 * since its fork was its parent's when it was noted, and no event tells of the change. */
static void update_job(struct process *process, const struct shfs_proc_stat *stat)
{
	if (!process->forked)
		return;
	process->pgid = stat->pgid;
	process->sid = stat->sid;
	process->tty = stat->tty_nr;
}

/* A process that has executed nothing since its fork: its streams and its job are looked
 * at when it is recorded. */
static void look_at_streams(struct process *process)
{
	struct shfs_proc_stat stat;
	_cleanup_close_ int procfd = process->streams.len || process->ended
	                                     ? -1
	                                     : open_process(&process->key, &stat);

	if (procfd >= 0 && stat.forked == process->forked) {
		update_job(process, &stat);
		(void)!shfs_proc_streams(procfd, &process->streams);
	}
}

static void emit_process_record(struct shfs_processes *p, struct process *process)
{
	static const struct program none;
	const struct program *program = process->program ? process->program : &none;
	struct shfs_record rec = {
		.type = SHFS_REC_PROCESS,
		.process = {
			.pid = (uint32_t)process->key.pid,
			.ppid = (uint32_t)process->parent.pid,
			.pgid = process->pgid,
			.sid = process->sid,
			.uid = process->uid,
			.tty_nr = process->tty,
			.start_ticks = process->key.start_ticks,
			.parent_start_ticks = process->parent.start_ticks,
			.exe = buf_bytes(&program->exe),
			.cwd = buf_bytes(&program->cwd),
			.argv = buf_bytes(&program->argv),
			.marker = buf_bytes(&program->marker),
			.streams = buf_bytes(&process->streams),
		},
	};

	if (program->environment)
		rec.process.environment = buf_bytes(&program->environment->text);
	if (program->hidden > 0)
		rec.process.argv.len = rec.process.environment.len = 0;
	/* the marker that a shell was started with does not name the shell's own
	 * commands; a subshell keeps the terminal, daemons give it up */
	if (process->forked && process->tty)
		rec.process.marker = shfs_marker_marks(rec.process.marker);
	process->seq = shfs_capture_emit(p->capture, &rec, NULL);
	if (!process->seq)
		return;
	process->last_seq = process->seq;
	shfs_software_note(p->software, &rec);
	emit_exit(p, process);
}

static struct process *find_parent(struct shfs_processes *p, struct process *process)
{
	struct process *parent = NULL;

	if (process->parent.pid && process->parent.start_ticks)
		parent = find_remembered_process(p, &process->parent);
	if (!parent && process->parent.pid)
		parent = read_process(p, process->parent);
	/* the parent is gone, and a younger process has its pid */
	if (!parent || parent->key.start_ticks > process->key.start_ticks)
		return NULL;
	process->parent = parent->key;
	return parent;
}

/* Opens the process in /proc, or if it has ended the next one above that lives: the one
 * above all, if those between are not known any more. *shares: shfs_proc_shares_root of
 * it. */
static int open_living(struct shfs_processes *p, struct process *process, int *shares)
{
	_cleanup_close_ int above = -1;
	struct shfs_proc_stat stat;

	for (int depth = 0; process && depth < DEPTH_MAX; depth++) {
		_cleanup_close_ int procfd = open_process(&process->key, &stat);

		*shares = procfd < 0 ? procfd : shfs_proc_shares_root(procfd);
		if (*shares >= 0)
			return TAKE_FD(procfd);
		process = find_parent(p, process);
	}
	above = p->above.pid ? open_process(&p->above, &stat) : -ESRCH;
	*shares = above < 0 ? above : shfs_proc_shares_root(above);
	return TAKE_FD(above);
}

bool shfs_processes_sees_root(struct shfs_processes *p,
                              const struct shfs_event_process *who)
{
	struct process *process = update_process(p, who);
	int shares;
	_cleanup_close_ int procfd = open_living(p, process, &shares);

	return procfd >= 0 && shares > 0;
}

/* Returns when its job began: the oldest one above it in its group. */
static uint64_t job_ticks(struct shfs_processes *p, const struct process *process)
{
	const struct process *above = process;

	for (int depth = 0; depth < DEPTH_MAX && above->parent.pid; depth++) {
		struct process *parent = find_remembered_process(p, &above->parent);

		if (!parent || parent->pgid != process->pgid)
			break;
		above = parent;
	}
	return above->key.start_ticks;
}

/* Records the files outside that the process names. */
static void emit_outside(struct shfs_processes *p, struct process *process)
{
	const struct program *program = process->program;
	struct shfs_outside files = { 0 };
	struct shfs_outside_process of;
	int shares = -ESRCH;

	if (!process->seq || !program || program->hidden > 0 ||
	    process->uid != geteuid() ||
	    (process->key.pid == process->sid && process->tty))
		return; /* the shell of a terminal: its words are no command's */
	of = (struct shfs_outside_process){
		.exe = program->exe.data ?: "",
		.cwd = program->cwd.data ?: "",
		.input = process->streams.len ? process->streams.data : "",
		.argv = { program->argv.data, process->forked || !program->argv.len
		                                      ? 0
		                                      : program->argv.len + 1 },
		.job_ticks = job_ticks(p, process),
	};
	/* it may end as it is looked at: then the next one above is */
	for (int tries = 0; shares < 0 && !files.n && tries < DEPTH_MAX; tries++) {
		_cleanup_close_ int procfd = open_living(p, process, &shares);

		if (procfd < 0)
			break;
		of.procfd = procfd;
		shfs_outside_look_at(p->outside, &of, &files);
		shares = shfs_proc_shares_root(procfd);
	}
	shfs_outside_emit(&files, p->capture, process->seq,
	                  time_at(process->since_ns
	                                  ?: process->key.start_ticks * TICK_NS));
	shfs_outside_clear(&files);
}

/* Records the process, after its ancestors. */
static void record_process(struct shfs_processes *p, struct process *process)
{
	struct process *chain[DEPTH_MAX];
	int n = 0;

	/* while they wait in the chain, they are the last to be evicted */
	for (; process && n < DEPTH_MAX && !process->seq;
	     process = find_parent(p, process))
		chain[n++] = process;
	while (n--) {
		decide_hidden(p, chain[n]);
		look_at_streams(chain[n]);
		emit_process_record(p, chain[n]);
		emit_outside(p, chain[n]);
	}
}

static bool is_in_group(struct process *process, uint32_t pgid)
{
	struct shfs_proc_stat stat;
	_cleanup_close_ int procfd = -1;

	if (process->pgid == pgid || !process->forked || process->ended)
		return process->pgid == pgid;
	procfd = open_process(&process->key, &stat);
	if (procfd >= 0)
		update_job(process, &stat);
	return process->pgid == pgid;
}

/* Is it in the pipeline of the process, or in a subshell there? */
static bool is_stage_beside(struct shfs_processes *p, struct process *other,
                            const struct process *process)
{
	for (int depth = 0; depth < SUBSHELLS_MAX; depth++) {
		if (!other || !is_in_group(other, process->pgid))
			return false;
		if (other->parent.pid == process->parent.pid)
			return true;
		other = other->parent.pid ? find_remembered_process(p, &other->parent)
		                          : NULL;
	}
	return false;
}

/* Records the other stages of the pipeline that the process reads: in "zcat ~/a.gz | sort
 * > out" only sort uses a file of the directory, but what zcat does goes into out. */
static void record_stages(struct shfs_processes *p, const struct process *process)
{
	const UT_hash_table *table = process->hh.tbl;
	struct process *young[STAGES_TRY], *next = ELMT_FROM_HH(table, table->tail);
	int n = 0;

	if (!process->streams.len || strncmp(process->streams.data, "pipe:", 5) != 0)
		return;
	for (; n < STAGES_TRY && next; next = next->hh.prev)
		young[n++] = next; /* a look-up changes the order */
	while (n--)
		if (!young[n]->seq && is_stage_beside(p, young[n], process))
			record_process(p, young[n]);
}

uint64_t shfs_processes_record(struct shfs_processes *p,
                               const struct shfs_event_process *who)
{
	struct process *process = update_process(p, who);

	if (process && !process->seq) {
		record_process(p, process);
		record_stages(p, process);
	}
	return process ? process->seq : 0;
}
