/* SPDX-License-Identifier: MIT */
/* Attributes processes to commands. */
#include "store/index/internal.h"

#include "common/debug.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TICK_NS         SHFS_TICK_NS
#define AGREE_NS        SHFS_CLOCKS_AGREE_NS
#define EXACT_NS        1000000 /* error of the sharpened time at worst, */
#define LIKELY_NS       100000  /* and mostly */
#define DEPTH_MAX       SHFS_WAY_MAX
#define PIDS_PER_SECOND 100000 /* most that are handed out */
#define FEW_PIDS        64     /* few: less than this part of all pids */
#define SEEN_BEFORE     4096   /* processes */

/* --- times --- */

/* Gets real time minus boot time from the records nearest to boot_ns: 1; 0: no record. */
static int clock_offset(struct shfs_index *index, int64_t boot_id, int64_t boot_ns,
                        int64_t *out)
{
	int64_t slot = boot_ns >> 32;

	return shfs_sql_int(
		index, out,
		"SELECT offset_ns FROM ("
		" SELECT * FROM (SELECT slot, offset_ns FROM clock WHERE boot_id = ?1"
		"  AND slot <= ?2 ORDER BY slot DESC LIMIT 1)"
		" UNION ALL"
		" SELECT * FROM (SELECT slot, offset_ns FROM clock WHERE boot_id = ?1"
		"  AND slot > ?2 ORDER BY slot LIMIT 1))"
		" ORDER BY abs(slot - ?2), slot LIMIT 1",
		shfs_arg_int(boot_id), shfs_arg_int(slot));
}

/* --- boundaries of commands --- */

/* The begin or end of a command: a boot time between lo and hi, hardly before likely, and
 * the last pid handed out before it. */
struct boundary {
	int64_t lo, hi, likely;
	uint32_t last_pid;
	bool begin;
};

struct command {
	int64_t id, session_id;
	int64_t begin_ns, begin_boot, begin_resolution, end_ns, end_boot, end_resolution;
	uint32_t begin_pid, end_pid;
	bool ended;
};
#define COMMAND_COLUMNS                                                                  \
	"c.command_id, c.session_id, c.begin_ns, c.begin_boot_ns, "                      \
	"c.begin_resolution_ns,"                                                         \
	" c.begin_pid, c.end_ns, c.end_boot_ns, c.end_resolution_ns, c.end_pid"

static struct command command_row(sqlite3_stmt *stmt)
{
	return (struct command){
		.id = sqlite3_column_int64(stmt, 0),
		.session_id = sqlite3_column_int64(stmt, 1),
		.begin_ns = sqlite3_column_int64(stmt, 2),
		.begin_boot = sqlite3_column_int64(stmt, 3),
		.begin_resolution = sqlite3_column_int64(stmt, 4),
		.begin_pid = sqlite3_column_int64(stmt, 5),
		.end_ns = sqlite3_column_int64(stmt, 6),
		.end_boot = sqlite3_column_int64(stmt, 7),
		.end_resolution = sqlite3_column_int64(stmt, 8),
		.end_pid = sqlite3_column_int64(stmt, 9),
		.ended = sqlite3_column_type(stmt, 7) != SQLITE_NULL,
	};
}

/* Makes a coarse boot time exact by the real time, unless the two disagree (the clock was
 * set). */
static int sharpen(struct shfs_index *index, int64_t boot_id, int64_t real_ns,
                   int64_t resolution, struct boundary *b)
{
	int64_t offset = 0, exact;
	int r;

	if (resolution <= 1)
		return 0;
	r = clock_offset(index, boot_id, b->lo, &offset);
	if (r < 0)
		return r;
	exact = real_ns - offset;
	if (r && exact >= b->lo - AGREE_NS && exact <= b->lo + AGREE_NS) {
		b->lo = exact - EXACT_NS;
		b->hi = exact + EXACT_NS;
		b->likely = exact - LIKELY_NS;
	} else {
		b->hi = b->lo + resolution;
	}
	return 0;
}

static int begin_of_command(struct shfs_index *index, int64_t boot_id,
                            const struct command *c, struct boundary *b)
{
	*b = (struct boundary){ c->begin_boot, c->begin_boot, c->begin_boot, c->begin_pid,
		                true };
	return sharpen(index, boot_id, c->begin_ns, c->begin_resolution, b);
}

static int end_of_command(struct shfs_index *index, int64_t boot_id,
                          const struct command *c, struct boundary *b)
{
	*b = (struct boundary){ c->end_boot, c->end_boot, c->end_boot, c->end_pid,
		                false };
	return sharpen(index, boot_id, c->end_ns, c->end_resolution, b);
}

/* --- tasks --- */

struct task {
	int64_t id, boot_id, mark_id, origin_id;
	uint64_t pid_namespace, start_ticks, parent_start_ticks;
	uint32_t pid, ppid, pgid, sid, pid_max;
	unsigned role; /* enum shfs_role */
};
#define TASK_COLUMNS                                                                     \
	"t.task_id, t.boot_id, t.pid_namespace, t.pid, t.start_ticks, t.ppid,"           \
	" t.parent_start_ticks, t.pgid, t.sid, b.pid_max, t.mark_id, t.role,"            \
	" t.origin_id"

static struct task task_row(sqlite3_stmt *stmt)
{
	struct task t = {
		.id = sqlite3_column_int64(stmt, 0),
		.boot_id = sqlite3_column_int64(stmt, 1),
		.pid_namespace = shfs_namespace_column(sqlite3_column_int64(stmt, 2)),
		.pid = sqlite3_column_int64(stmt, 3),
		.start_ticks = sqlite3_column_int64(stmt, 4),
		.ppid = sqlite3_column_int64(stmt, 5),
		.sid = sqlite3_column_int64(stmt, 8),
		.pid_max = sqlite3_column_int64(stmt, 9),
		.mark_id = sqlite3_column_int64(stmt, 10),
		.role = sqlite3_column_int64(stmt, 11),
		.origin_id = sqlite3_column_int64(stmt, 12),
	};

	t.pgid = t.pid + sqlite3_column_int64(stmt, 7);
	if (sqlite3_column_type(stmt, 6) != SQLITE_NULL)
		t.parent_start_ticks =
			t.start_ticks - (uint64_t)sqlite3_column_int64(stmt, 6);
	return t;
}

static int task_load(struct shfs_index *index, int64_t task_id, struct task *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(
		index, &stmt,
		"SELECT " TASK_COLUMNS
		" FROM task t JOIN boot b USING (boot_id) WHERE t.task_id = ?",
		shfs_arg_int(task_id));

	if (r > 0)
		*out = task_row(stmt);
	return r;
}

static int task_parent(struct shfs_index *index, const struct task *t, struct task *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(
		index, &stmt,
		"SELECT " TASK_COLUMNS
		" FROM task t JOIN boot b USING (boot_id) WHERE t.boot_id = ?"
		" AND t.pid = ? AND t.start_ticks = ? AND t.pid_namespace = ?",
		shfs_arg_int(t->boot_id), shfs_arg_int(t->ppid),
		shfs_arg_int(t->parent_start_ticks),
		shfs_arg_int(shfs_namespace_column(t->pid_namespace)));

	if (r > 0)
		*out = task_row(stmt);
	return r;
}

/* Finds the session whose shell is this process. A hook may not know its pid namespace.
 */
static int session_of(struct shfs_index *index, const struct task *t, uint32_t pid,
                      uint64_t start_ticks, int64_t *out)
{
	return shfs_sql_int(index, out,
	                    "SELECT session_id FROM session WHERE boot_id = ? AND pid = ?"
	                    " AND start_ticks = ? AND pid_namespace IN (0, ?)"
	                    " AND invoker = ''",
	                    shfs_arg_int(t->boot_id), shfs_arg_int(pid),
	                    shfs_arg_int(start_ticks), shfs_arg_int(t->pid_namespace));
}

/* --- which command was current --- */

enum current {
	BEFORE_FIRST, /* no command had begun */
	COMMAND,
	PROMPT, /* a command had ended, the next one had not begun */
};

static uint32_t circle(const struct task *t)
{
	return t->pid_max ? t->pid_max : 4194304;
}

/*
 * Was pid handed out after last_pid? Pids wrap around: the shorter way counts.
 */
static bool pid_after(const struct task *t, uint32_t pid, uint32_t last_pid)
{
	uint32_t max = circle(t);
	uint32_t distance = (pid % max + max - last_pid % max) % max;

	return distance >= 1 && distance <= max / 2;
}

/*
 * Was t forked after b? Its start time is known to a tick. Beyond one tick on either side
 * the time decides, within it the pid. Without a pid, a boundary in the tick of the start
 * counts so that t is inside the command.
 */
static bool forked_after(const struct task *t, const struct boundary *b)
{
	int64_t start = shfs_ticks_ns(t->start_ticks);

	if (b->hi < start - TICK_NS)
		return true;
	if (b->lo >= start + 2 * TICK_NS)
		return false;
	if (b->last_pid)
		return pid_after(t, t->pid, b->last_pid);
	return b->begin ? b->lo < start + TICK_NS : b->hi < start;
}

/* Selects the commands of a session that began before boot_ns, the latest first. */
static int commands_before(struct shfs_index *index, int64_t session_id, int64_t boot_ns,
                           sqlite3_stmt **out)
{
	return shfs_sql_get(index, out,
	                    "SELECT " COMMAND_COLUMNS " FROM command c"
	                    " WHERE c.session_id = ? AND c.begin_boot_ns <= ?"
	                    " ORDER BY c.begin_boot_ns DESC, c.command_id DESC",
	                    shfs_arg_int(session_id), shfs_arg_int(boot_ns + AGREE_NS));
}

/* Finds the current command of the session when t was forked; returns an enum current. */
static int current_at_fork(struct shfs_index *index, int64_t session_id,
                           const struct task *t, int64_t *command_id)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	struct boundary b;
	int r = commands_before(index, session_id,
	                        shfs_ticks_ns(t->start_ticks) + 2 * TICK_NS, &stmt);

	for (; r > 0; r = shfs_sql_next(index, stmt)) {
		struct command c = command_row(stmt);

		r = begin_of_command(index, t->boot_id, &c, &b);
		if (r)
			return r;
		if (!forked_after(t, &b))
			continue;
		if (c.ended) {
			r = end_of_command(index, t->boot_id, &c, &b);
			if (r)
				return r;
			if (forked_after(t, &b))
				return PROMPT;
		}
		*command_id = c.id;
		return COMMAND;
	}
	return r ? r : BEFORE_FIRST;
}

/* Did the command run at boot_ns, or up to late_ns earlier? *over: it had ended by then.
 */
static int ran_at(struct shfs_index *index, int64_t boot_id, const struct command *c,
                  int64_t boot_ns, int64_t late_ns, bool *over)
{
	struct boundary b;
	int r = begin_of_command(index, boot_id, c, &b);

	*over = false;
	if (r || boot_ns < b.likely)
		return r;
	if (!c->ended)
		return 1;
	r = end_of_command(index, boot_id, c, &b);
	*over = !r && boot_ns - late_ns > b.hi;
	return r ? r : !*over;
}

/*
 * Finds the current command of the session when the shell itself did something at
 * boot_ns. Pasted lines follow one another within a millisecond, but the shell does
 * nothing before a command has begun. late_ns: it may have been up to so much earlier; if
 * more than one command ran in that time, it is not known which.
 */
static int current_at(struct shfs_index *index, int64_t session_id, int64_t boot_id,
                      int64_t boot_ns, int64_t late_ns, int64_t *command_id)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	bool over = false;
	int r = commands_before(index, session_id, boot_ns, &stmt), ran;

	for (; r > 0 && !over; r = shfs_sql_next(index, stmt)) {
		struct command c = command_row(stmt);

		ran = ran_at(index, boot_id, &c, boot_ns, late_ns, &over);
		if (ran < 0)
			return ran;
		if (*command_id && !c.ended)
			break; /* the command was over when the next one began */
		if (ran && *command_id) {
			*command_id = 0;
			return PROMPT;
		}
		if (ran)
			*command_id = c.id;
		if (ran && !late_ns)
			return COMMAND;
	}
	if (r < 0)
		return r;
	return *command_id ? COMMAND : over ? PROMPT : BEFORE_FIRST;
}

/* --- climbing --- */

static struct shfs_way_step step_of(const struct task *t)
{
	return (struct shfs_way_step){
		.task_id = t->id,
		.boot_id = t->boot_id,
		.mark_id = t->mark_id,
		.origin_id = t->origin_id,
		.pid_namespace = t->pid_namespace,
		.start_ticks = t->start_ticks,
		.parent_start_ticks = t->parent_start_ticks,
		.pid = t->pid,
		.ppid = t->ppid,
		.sid = t->sid,
		.role = t->role,
	};
}

int shfs_task_parent(struct shfs_index *index, int64_t task_id, struct shfs_way_step *out)
{
	struct task t, parent;
	int r = task_load(index, task_id, &t);

	if (r > 0)
		r = task_parent(index, &t, &parent);
	if (r > 0)
		*out = step_of(&parent);
	return r;
}

/*
 * Climbs from p up to a registered shell; the process just below the shell decides.
 * Before its first command (in its rc files) a shell itself belongs to a command of its
 * parents. 1: *owner is final; 0: the way up ends at *top, which has no recorded parent.
 */
static int climb(struct shfs_index *index, const struct task *p, struct task *top,
                 struct shfs_way *way, struct shfs_owner *owner)
{
	int r = 1;

	*top = *p;
	way->n = 0;
	way->at_shell = false;
	for (int depth = 0; depth < DEPTH_MAX && r > 0; depth++) {
		int64_t session_id = 0, command_id = 0;
		struct task parent;

		way->steps[way->n++] = step_of(top);
		if (!top->ppid || !top->parent_start_ticks ||
		    top->parent_start_ticks > top->start_ticks)
			break;
		r = session_of(index, top, top->ppid, top->parent_start_ticks,
		               &session_id);
		if (r < 0)
			return r;
		if (r) {
			r = current_at_fork(index, session_id, top, &command_id);
			if (r < 0)
				return r;
			if (!owner->session_id || r == COMMAND)
				owner->session_id = session_id;
			owner->command_id = command_id;
			way->at_shell = r != BEFORE_FIRST;
			if (way->at_shell)
				return 1;
		}
		r = task_parent(index, top, &parent);
		if (r > 0)
			*top = parent;
	}
	return r < 0 ? r : owner->session_id != 0;
}

/* --- the process group, if the way up is broken --- */

/*
 * Was the pid handed out during the command, if pids did not wrap around in it? -1:
 * unknown.
 */
static int within(const struct task *t, uint32_t pid, uint32_t begin, uint32_t end)
{
	uint32_t max = circle(t);
	uint32_t length, distance;

	if (!begin || !end)
		return -1;
	length = (end % max + max - begin % max) % max;
	distance = (pid % max + max - begin % max) % max;
	return distance >= 1 && distance <= length;
}

/* Can pids have wrapped around in that time? Then they decide nothing. */
static bool may_go_round(const struct task *t, int64_t begin_ns, int64_t end_ns)
{
	return end_ns - begin_ns >= circle(t) * (SHFS_NSEC_PER_SEC / PIDS_PER_SECOND);
}

/* Counts the commands that may have made t's group: those that fit by their pids, long
 * ones, in which pids may have wrapped around, and unknown ones. */
struct makers {
	int fit, long_ones, unknown;
	bool may_be_another; /* pids may have wrapped around in the one that fits */
	struct command only; /* the last one that fits, */
	uint32_t end_pid;    /* and its last pid */
};

/* Counts one more command. Without an end of its own it ends where the next begins, or at
 * t. */
static void count_possible_maker(const struct task *t, const struct command *c,
                                 const struct command *next, struct makers *m)
{
	bool followed = next && next->session_id == c->session_id;
	uint32_t end = c->ended ? c->end_pid : followed ? next->begin_pid : t->pid;
	int64_t end_ns = c->ended   ? c->end_boot
	                 : followed ? next->begin_boot
	                            : shfs_ticks_ns(t->start_ticks);
	bool is_long = may_go_round(t, c->begin_boot, end_ns);

	switch (within(t, t->pgid, c->begin_pid, end)) {
	case 0:
		m->long_ones += is_long;
		return;
	case 1:
		m->fit++;
		m->may_be_another = is_long;
		m->only = *c;
		m->end_pid = end;
		return;
	default:
		m->unknown++;
	}
}

/* Was one of the last processes that were forked before the command in this group? */
static int was_there_before(struct shfs_index *index, const struct task *t,
                            const struct command *c)
{
	int64_t found;

	return shfs_sql_int(index, &found,
	                    "SELECT 1 FROM (SELECT pid, pgid FROM task WHERE boot_id = ?1"
	                    "  AND start_ticks < ?2 ORDER BY start_ticks DESC LIMIT ?3)"
	                    " WHERE pid + pgid = ?4 LIMIT 1",
	                    shfs_arg_int(t->boot_id),
	                    shfs_arg_int(c->begin_boot / TICK_NS - 1),
	                    shfs_arg_int(SEEN_BEFORE), shfs_arg_int(t->pgid));
}

/* Was t forked while the command ran? */
static int is_forked_in(struct shfs_index *index, const struct task *t,
                        const struct command *c)
{
	struct boundary b;
	int r = begin_of_command(index, t->boot_id, c, &b);

	if (r || !forked_after(t, &b))
		return r;
	if (!c->ended)
		return 1;
	r = end_of_command(index, t->boot_id, c, &b);
	return r ? r : !forked_after(t, &b);
}

/*
 * Did the command that fits make t's group, though a long command may have handed out any
 * pid? Yes, if t was forked in the command too, the command handed out few pids, those of
 * t and of its group among them, and no process is known to have been in the group
 * before. Otherwise an older group would have one of these few numbers by chance, would
 * have done nothing lately, and would fork in just this command.
 */
static int is_made_by(struct shfs_index *index, const struct task *t,
                      const struct makers *m)
{
	const struct command *c = &m->only;
	uint32_t max = circle(t);
	uint32_t length = (m->end_pid % max + max - c->begin_pid % max) % max;
	int r;

	if (m->fit != 1 || m->unknown)
		return 0;
	if (!m->long_ones && !m->may_be_another)
		return 1;
	if (length > max / FEW_PIDS || within(t, t->pid, c->begin_pid, m->end_pid) <= 0)
		return 0;
	r = is_forked_in(index, t, c);
	if (r <= 0)
		return r;
	r = was_there_before(index, t, c);
	return r < 0 ? r : !r;
}

/*
 * Finds the owner by the process group. The first process of t's job had the pid pgid,
 * which is not handed out again while the group lives. Of all commands before t in shells
 * of t's terminal, exactly one must have handed it out: with two, or with one that is
 * unknown, nothing is decided.
 */
static int group_owner(struct shfs_index *index, const struct task *t,
                       struct shfs_owner *owner)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	struct makers makers = { 0 };
	struct command last = { 0 };
	int r;

	if (!t->pgid || !t->sid)
		return 0;
	r = shfs_sql_get(index, &stmt,
	                 "SELECT " COMMAND_COLUMNS
	                 " FROM session s JOIN command c USING (session_id)"
	                 " WHERE s.session_id IN (WITH known AS (SELECT session_id, tty"
	                 "  FROM session WHERE boot_id = ?1 AND pid = ?2 AND invoker = ''"
	                 "  UNION SELECT l.session_id, l.tty FROM task k"
	                 "  JOIN session l ON l.boot_id = k.boot_id AND l.pid = k.pid"
	                 "  AND l.start_ticks = k.start_ticks AND l.invoker = ''"
	                 "  WHERE k.boot_id = ?1 AND k.sid = ?2 AND k.shell = 1)"
	                 "  SELECT session_id FROM known UNION"
	                 "  SELECT s.session_id FROM known k JOIN session s"
	                 "  ON s.boot_id = ?1 AND (s.tty = k.tty OR s.tty = ''))"
	                 " AND s.invoker = '' AND s.pid_namespace IN (0, ?3) AND "
	                 "s.start_ticks <= ?4"
	                 " AND c.begin_boot_ns <= ?5"
	                 " ORDER BY c.session_id, c.begin_boot_ns, c.command_id",
	                 shfs_arg_int(t->boot_id), shfs_arg_int(t->sid),
	                 shfs_arg_int(t->pid_namespace), shfs_arg_int(t->start_ticks),
	                 shfs_arg_int(shfs_ticks_ns(t->start_ticks) + 2 * TICK_NS));
	for (; r > 0; r = shfs_sql_next(index, stmt)) {
		struct command c = command_row(stmt);
		struct boundary b;
		int failed = begin_of_command(index, t->boot_id, &c, &b);

		if (failed)
			return failed;
		if (!forked_after(t, &b))
			continue;
		if (last.id)
			count_possible_maker(t, &last, &c, &makers);
		last = c;
	}
	if (last.id)
		count_possible_maker(t, &last, NULL, &makers);
	r = r < 0 ? r : is_made_by(index, t, &makers);
	if (r > 0)
		*owner = (struct shfs_owner){ makers.only.session_id, makers.only.id };
	return r;
}

/* --- the marker, if the process was adopted --- */

static int marker_of(struct shfs_index *index, const struct task *t, char out[static 128])
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(index, &stmt,
	                     "SELECT s.text FROM task t"
	                     " JOIN string_text_of s ON s.string_id = t.marker_id"
	                     " WHERE t.task_id = ?",
	                     shfs_arg_int(t->id));

	if (r > 0)
		snprintf(out, 128, "%s",
		         (const char *)sqlite3_column_text(stmt, 0) ?: "");
	return MIN(r, 0);
}

/* Finds the command that a marker names, or the prompt before command 0. There must be
 * only one: numbers may begin again. */
static int named_owner(struct shfs_index *index, const struct task *t, const char *marker,
                       struct shfs_owner *owner)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	uint64_t start_ticks, number;
	struct shfs_owner only;
	uint32_t pid;
	char boot[9];
	int r;

	if (sscanf(marker, "%8[0-9a-f]-%" SCNu32 "-%" SCNu64 "-%" SCNu64, boot, &pid,
	           &start_ticks, &number) != 4)
		return 0;
	r = shfs_sql_get(index, &stmt,
	                 "SELECT s.session_id, c.command_id FROM boot b"
	                 " JOIN boot o ON o.host = b.host"
	                 "  AND substr(o.boot, 1, 8) = ?2"
	                 " JOIN session s ON s.boot_id = o.boot_id AND s.pid = ?3"
	                 "  AND s.start_ticks = ?4 AND s.invoker = ''"
	                 " LEFT JOIN command c ON c.session_id = s.session_id"
	                 "  AND c.number = ?5 WHERE b.boot_id = ?1",
	                 shfs_arg_int(t->boot_id), shfs_arg_text(shfs_bytes_str(boot)),
	                 shfs_arg_int(pid), shfs_arg_int(start_ticks),
	                 shfs_arg_int(number));
	if (r <= 0)
		return r;
	only = (struct shfs_owner){ sqlite3_column_int64(stmt, 0),
		                    sqlite3_column_int64(stmt, 1) };
	if (number && !only.command_id)
		return 0;
	r = shfs_sql_next(index, stmt);
	if (r)
		return MIN(r, 0);
	*owner = only;
	return 1;
}

/* Finds the owner by the marker of t, or of its nearest ancestor that has one. */
static int marker_owner(struct shfs_index *index, const struct task *t,
                        struct shfs_owner *owner)
{
	char marker[128] = "";
	struct task at = *t;
	int r = 1;

	for (int depth = 0; depth < DEPTH_MAX && r > 0; depth++) {
		struct task parent;

		r = marker_of(index, &at, marker);
		if (r)
			return r;
		if (*marker)
			return named_owner(index, &at, marker, owner);
		if (!at.ppid || at.parent_start_ticks > at.start_ticks)
			return 0;
		r = task_parent(index, &at, &parent);
		if (r > 0)
			at = parent;
	}
	return MIN(r, 0);
}

/* Finds the owner of a process without a shell above it, by group and marker. Pids are
 * reused, and any process may set a marker: if the two disagree, nothing is decided. */
static int adopted_owner(struct shfs_index *index, const struct task *t,
                         const struct task *top, struct shfs_owner *out)
{
	struct shfs_owner group = { 0 }, marker = { 0 };
	int by_group = 0, by_marker = marker_owner(index, t, &marker);

	if (by_marker < 0)
		return by_marker;
	if (top->id != t->id)
		by_group = group_owner(index, top, &group);
	if (!by_group)
		by_group = group_owner(index, t, &group);
	if (by_group < 0)
		return by_group;
	shfs_debug(COMMAND,
	           "process %" PRIu32 ": no shell above it (up to %" PRIu32
	           "); by its group command %" PRId64 ", by its marker %" PRId64,
	           t->pid, top->pid, group.command_id, marker.command_id);
	if (by_group && by_marker && group.command_id != marker.command_id)
		return 0;
	*out = by_marker ? marker : group;
	return by_group || by_marker;
}

int shfs_marker_command(struct shfs_index *index, int64_t task_id, int64_t *command_id)
{
	struct shfs_owner owner = { 0 };
	struct task t;
	int r = task_load(index, task_id, &t);

	if (r > 0)
		r = marker_owner(index, &t, &owner);
	*command_id = r > 0 ? owner.command_id : 0;
	return MIN(r, 0);
}

/*
 * Finds the owner of a process that is no registered shell: the nearest command of a
 * invoker between it and the shell above; else what the shell ran; else, without a shell
 * above, by its group and its marker; else the outermost process of its origin, or "sh -c
 * TEXT". make: a command of an invoker that is not known yet is made.
 */
static int owner_above(struct shfs_index *index, const struct task *t, bool make,
                       struct shfs_owner *out)
{
	struct shfs_owner given = { 0 };
	struct shfs_way way;
	struct task top;
	int found = climb(index, t, &top, &way, out), r;

	r = found < 0 ? found : shfs_invoker_command(index, &way, false, make, &given);
	if (!r && found)
		return 1;
	if (!r)
		r = shfs_invoker_of_group(index, way.steps, t->pgid, &given);
	if (!r) {
		r = adopted_owner(index, t, &top, out);
		if (r)
			return r;
		r = shfs_invoker_command(index, &way, true, make, &given);
	}
	if (r > 0)
		*out = given;
	return r;
}

static int attribute(struct shfs_index *index, const struct task *t,
                     struct shfs_owner *out)
{
	struct shfs_owner owner = { 0 };
	int r = session_of(index, t, t->pid, t->start_ticks, &owner.session_id);

	owner.shell = r > 0;
	if (!r)
		r = owner_above(index, t, true, &owner);
	if (r < 0)
		return r;
	shfs_debug(COMMAND,
	           "process %" PRIu32 " (task %" PRId64 ", from %" PRIu64
	           "): session %" PRId64 ", command %" PRId64 "%s",
	           t->pid, t->id, (uint64_t)t->start_ticks, owner.session_id,
	           owner.command_id, owner.shell ? ", the shell itself" : "");
	*out = owner;
	return 0;
}

int shfs_task_owner(struct shfs_index *index, int64_t task_id, struct shfs_owner *out)
{
	struct task t;
	int r = task_load(index, task_id, &t);

	return r > 0 ? attribute(index, &t, out) : r;
}

int shfs_shell_owner(struct shfs_index *index, int64_t task_id, int64_t session_id,
                     int64_t boot_ns, int64_t late_ns, struct shfs_owner *out)
{
	struct shfs_owner owner = { 0 };
	struct shfs_way way;
	struct task t, top;
	int64_t command_id = 0;
	int r = task_load(index, task_id, &t);

	if (r <= 0)
		return r;
	r = current_at(index, session_id, t.boot_id, boot_ns, late_ns, &command_id);
	if (r == BEFORE_FIRST) {
		r = climb(index, &t, &top, &way, &owner);
		if (r >= 0)
			r = shfs_invoker_command(index, &way, false, true, &owner);
	}
	if (r < 0)
		return r;
	if (!owner.command_id)
		owner = (struct shfs_owner){ session_id, command_id, true };
	shfs_debug(COMMAND,
	           "the shell of session %" PRId64 " at %" PRId64 " ns: command %" PRId64,
	           session_id, boot_ns, owner.command_id);
	*out = owner;
	return 0;
}

int shfs_caller_here(struct shfs_index *index, int64_t session_id, int64_t *command_id)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	struct shfs_owner owner = { 0 };
	struct task t;
	int r = shfs_sql_get(index, &stmt,
	                     "SELECT s.caller_id, coalesce(s.task_id, (SELECT t.task_id"
	                     "  FROM task t WHERE t.boot_id = s.boot_id"
	                     "  AND t.pid = s.pid AND t.start_ticks = s.start_ticks)),"
	                     " s.invoker GLOB 'job *'"
	                     " FROM session s WHERE s.session_id = ?",
	                     shfs_arg_int(session_id));

	*command_id = 0;
	if (r <= 0)
		return r;
	*command_id = sqlite3_column_int64(stmt, 0);
	if (*command_id || sqlite3_column_int(stmt, 2))
		return 0;
	r = task_load(index, sqlite3_column_int64(stmt, 1), &t);
	if (r > 0)
		r = owner_above(index, &t, false, &owner);
	if (r > 0)
		*command_id = owner.command_id;
	return MIN(r, 0);
}
