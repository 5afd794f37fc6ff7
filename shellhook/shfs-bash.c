/* SPDX-License-Identifier: MIT */
/*
 * shfs-bash.c - the hook of bash as a loadable builtin: no fork, no trap, no history.
 *
 *   PS0='${SHFS_PRE-}'
 *
 * SHFS_PRE is a dynamic variable: bash expands PS0 once before each line it executes, and
 * its value, always empty, writes the B1 record.
 *
 *   _shfs_hook start DIR ALERT HOST BOOT PIDNS TTY
 *
 * begins the session in DIR (again: only if DIR is another one).
 *
 *   _shfs_hook finish
 *
 * is the first of PROMPT_COMMAND: it writes the F1 record if a command ran, before other
 * prompt commands take time, and shows the alert. Where it was taken out, the record is
 * written when the next line is read.
 *
 * Both are put in place at each prompt, behind all prompt commands, so others that
 * install themselves at the first prompt find what they left. Nothing of ours is the last
 * of PROMPT_COMMAND: hooks by the DEBUG trap (bash-preexec) would take it for what was
 * typed.
 *
 * Records are those of store/hooklog.h. What is typed is read where bash reads it: its
 * history has other newlines, and not every line.
 *
 * It is built against the headers of one bash and loaded only into versions that are
 * known to agree with them (shfs.bash). It shares no code with the rest: a shell is not
 * the place for more.
 */
#include "shellhook/bash-held.h"

#include <config.h>

#include <builtins.h>
#include <shell.h>

#include <arrayfunc.h>
#include <common.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

/* What bash exports and its installed headers leave out: input.h, bashhist.h, parser.h
 * and readline. */
enum stream_type { STREAM_NONE, STREAM_READLINE, STREAM_FILE };
struct input {
	enum stream_type type;
	char *name;
	void *location;
	int (*getter)(void);
	int (*ungetter)(int);
};
extern struct input bash_input;
extern int (*rl_startup_hook)(void), (*rl_pre_input_hook)(void);
extern char *rl_line_buffer;
extern int current_command_line_count, current_command_number;
extern int current_command_first_line_saved;
extern volatile int last_command_exit_value;
extern int remember_on_history, command_oriented_history, history_control;
extern int history_expansion, promptvars;
extern char *ps0_prompt; /* what PS0 was at the last prompt */
extern char history_expansion_char, history_subst_char;
char *last_history_line(void);
#define HISTORY_IGNORES_DUPS 2 /* in history_control */

#define PS0_WORD "${SHFS_PRE-}"
#define FINISH   "_shfs_hook finish"

struct text {
	char *data;
	size_t len, cap;
	bool failed;
};

static struct {
	pid_t pid; /* of the shell; 0: not started. A subshell has another one. */
	char *log, *alert, *state, *host, *boot, *pidns,
		*tty; /* state: alert's directory */
	bool greeted; /* this shell's S1 is in the log */
	uint64_t seq, number;
	bool open;        /* the last command has its begin and no end yet */
	int last_command; /* bash's number of it */
	int told;         /* the last trouble that was told of: errno */
	bool told_promptvars, told_ps0;
	bool was_first;           /* in PROMPT_COMMAND */
	char shown[4096];         /* the alerts that were shown */
	char id[64];              /* of the session, as the marker has it */
	struct text begun;        /* what the B1 of the last command says */
	struct text record;       /* kept for its memory */
	bool settled;             /* the shell stands where $PWD says */
	struct timespec no_alert; /* the directory's time when there was none */
} hook;

static struct held held_log, held_state, held_loadavg, held_mounts;

/* The lines of the command that is being read, as typed. */
static struct {
	struct text typed;
	bool inside; /* a line has begun and not ended */
	bool late;   /* attached while bash was reading the first character of a line */
	int (*getter)(void);
	int (*ungetter)(int);
	int (*startup)(void);
	int (*pre_input)(void);
} reader;

/* --- text --- */

static void text_add(struct text *t, const char *data, size_t len)
{
	if (t->cap - t->len < len) {
		size_t cap = (t->len + len) * 2 + 256;
		char *larger = t->failed ? NULL : realloc(t->data, cap);

		if (!larger) {
			t->failed = true;
			return;
		}
		t->data = larger;
		t->cap = cap;
	}
	memcpy(t->data + t->len, data, len);
	t->len += len;
}

static void text_clear(struct text *t)
{
	if (t->cap > 65536 || t->failed) {
		free(t->data);
		*t = (struct text){ 0 };
	}
	t->len = 0;
}

/* A field of a record. */
static void add_field(struct text *t, const char *s)
{
	text_add(t, s, strlen(s) + 1);
}

static void add_number(struct text *t, uint64_t n)
{
	char s[24];

	snprintf(s, sizeof(s), "%" PRIu64, n);
	add_field(t, s);
}

static void add_clock(struct text *t, clockid_t id)
{
	struct timespec ts;
	char s[40];

	clock_gettime(id, &ts);
	snprintf(s, sizeof(s), "%lld.%09ld", (long long)ts.tv_sec, ts.tv_nsec);
	add_field(t, s);
}

static void add_times(struct text *t)
{
	add_clock(t, CLOCK_REALTIME);
	add_clock(t, CLOCK_BOOTTIME);
}

/* --- what /proc and the shell know --- */

static ssize_t read_file(const char *path, char *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = read(fd, out, size - 1);
	close(fd);
	out[n > 0 ? n : 0] = '\0';
	return n;
}

/* Field 22 of /proc/self/stat; the name in field 2 may hold blanks and parentheses. */
static uint64_t start_ticks(void)
{
	char stat[1024], *p = NULL;

	if (read_file("/proc/self/stat", stat, sizeof(stat)) > 0)
		p = strrchr(stat, ')');
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p, NULL, 10) : 0;
}

/* The last field of /proc/loadavg. */
static void add_last_pid(struct text *t)
{
	int fd = use_proc(&held_loadavg, "/proc/loadavg");
	char loadavg[128], *last = NULL;
	ssize_t n = fd < 0 ? -1 : pread(fd, loadavg, sizeof(loadavg) - 1, 0);

	if (n > 0) {
		loadavg[n] = '\0';
		last = strrchr(loadavg, ' ');
	}
	add_number(t, last ? strtoull(last, NULL, 10) : 0);
	use_end(&held_loadavg, fd);
}

static void add_cwd(struct text *t)
{
	char *cwd = getcwd(NULL, 0);
	const char *pwd = get_string_value("PWD");

	add_field(t, cwd && *cwd == '/' ? cwd : pwd ? pwd : "");
	free(cwd);
}

static bool is_disabled(void)
{
	const char *value = get_string_value("SHFS_DISABLE");

	return value && *value;
}

/* --- the marker, which programs find in their environment --- */

static void export_variable(const char *name, char *value)
{
	SHELL_VAR *v = find_variable(name);

	if (v && readonly_p(v))
		return;
	v = bind_global_variable(name, value, 0);
	if (!v)
		return;
	VSETATTR(v, att_exported);
	array_needs_making = 1;
}

/* 0: at the prompt. */
static void mark_command(uint64_t number)
{
	char s[24];

	snprintf(s, sizeof(s), "%" PRIu64, number);
	export_variable("SHFS_COMMAND", s);
}

/* Numbers go on where this shell was executed by itself (exec bash). */
static void mark_session(void)
{
	const char *before = get_string_value("SHFS_SESSION");
	const char *number = get_string_value("SHFS_COMMAND");
	const char *unit = get_string_value("INVOCATION_ID");
	size_t len;
	char s[256];

	snprintf(hook.id, sizeof(hook.id), "%.8s-%ld-%" PRIu64, hook.boot, (long)hook.pid,
	         start_ticks());
	len = strlen(hook.id);
	if (!hook.number && before && number && !strncmp(before, hook.id, len) &&
	    (!before[len] || before[len] == '-'))
		hook.number = strtoull(number, NULL, 10);
	snprintf(s, sizeof(s), "%s%s%.128s", hook.id, unit && *unit ? "-" : "",
	         unit ? unit : "");
	export_variable("SHFS_SESSION", s);
	mark_command(0);
}

/* --- the log --- */

/* Once for each kind of trouble, however long it lasts. */
static void trouble(int error)
{
	if (hook.told == error)
		return;
	hook.told = error;
	fprintf(stderr, "shfs: the commands of this shell are not recorded: %s: %s\n",
	        hook.log, strerror(error));
}

/* A write beyond `ulimit -f` is an error, too, and not the end of the shell. */
static bool write_all(int fd, const char *data, size_t len)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, before;
	ssize_t n = 0;

	sigaction(SIGXFSZ, &ignore, &before);
	while (len && ((n = write(fd, data, len)) > 0 || (n < 0 && errno == EINTR))) {
		data += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	sigaction(SIGXFSZ, &before, NULL);
	if (!n)
		errno = EIO;
	return !len;
}

static uint64_t record_begin(struct text *t, const char *tag)
{
	text_clear(t);
	text_add(t, "\x1e", 1);
	add_field(t, tag);
	add_number(t, ++hook.seq);
	return hook.seq;
}

/* One write, but where the disk is full: then readers skip the half of a record. */
static bool record_write(struct text *t, uint64_t seq, int fd)
{
	add_number(t, seq);
	text_add(t, "\n", 1);
	errno = ENOMEM;
	if (!t->failed && write_all(fd, t->data, t->len))
		return true;
	trouble(errno);
	return false;
}

static bool write_session(int fd)
{
	struct text *t = &hook.record;
	uint64_t seq = record_begin(t, "S1");

	fchmod(fd, 0600); /* whatever the umask was */
	add_number(t, hook.pid);
	add_number(t, start_ticks());
	add_field(t, hook.boot);
	add_field(t, hook.pidns);
	add_times(t);
	add_field(t, hook.host);
	add_field(t, "bash");
	add_field(t, hook.tty);
	add_cwd(t);
	return record_write(t, seq, fd);
}

static bool write_begun(int fd)
{
	struct text *t = &hook.record;
	uint64_t seq = record_begin(t, "B1");

	text_add(t, hook.begun.data, hook.begun.len);
	t->failed |= hook.begun.failed;
	return record_write(t, seq, fd);
}

/* A log that is new, or was taken away meanwhile, begins with the session, and goes on
 * with the command that runs. */
static int log_begin(void)
{
	int fd = open(hook.log,
	              O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY,
	              0600);
	struct stat st;

	if (fd < 0) {
		trouble(errno);
		return -1;
	}
	if (!hook.greeted || fstat(fd, &st) || !st.st_size) {
		hook.greeted = write_session(fd);
		if (!hook.greeted || (hook.open && !write_begun(fd))) {
			close(fd);
			return -1;
		}
	}
	return may_hold(fd) ? hold(&held_log, fd) : fd;
}

/* -1: there was trouble. Then log_close. One that was removed since the last prompt is
 * noticed at the end of a command, and begun again. */
static int log_open(bool at_end)
{
	struct stat st;

	if (held_log.fd && !at_end)
		return held_log.fd;
	if (is_held(&held_log, &st) && st.st_nlink && st.st_size)
		return held_log.fd;
	let_go(&held_log);
	return log_begin();
}

static void log_close(int fd)
{
	use_end(&held_log, fd);
}

/* What is held may have been closed, or moved away with the store. */
static void check_held(void)
{
	struct stat st;

	is_held(&held_loadavg, &st);
	is_held(&held_mounts, &st);
	check_name(&held_log, hook.log);
	check_name(&held_state, hook.state);
}

static void write_finish(int status)
{
	struct text *t = &hook.record;
	int fd = log_open(true);
	char s[16];
	uint64_t seq;

	hook.open = false;
	mark_command(0);
	if (fd < 0)
		return;
	seq = record_begin(t, "F1");
	add_number(t, hook.number);
	add_times(t);
	add_last_pid(t);
	snprintf(s, sizeof(s), "%d", status);
	add_field(t, s);
	record_write(t, seq, fd);
	log_close(fd);
}

static void write_begin(const char *text, bool hidden)
{
	struct text *t = &hook.begun;
	int fd = log_open(false);

	if (fd < 0)
		return;
	text_clear(t);
	add_number(t, ++hook.number);
	add_times(t);
	add_last_pid(t);
	add_field(t, hidden ? "1" : "0");
	add_cwd(t);
	add_field(t, hidden ? "" : text);
	hook.open = write_begun(fd);
	log_close(fd);
}

/* --- what is typed --- */

static int read_char(void)
{
	int c;

	if (!reader.inside && !current_command_line_count) {
		text_clear(&reader.typed);
		/* no prompt command has told: lines pasted at once, or ours was taken out
		 */
		if (hook.open && !executing && hook.pid == getpid())
			write_finish(last_command_exit_value);
	}
	c = reader.getter();
	if (reader.late && rl_line_buffer && *rl_line_buffer)
		text_add(&reader.typed, rl_line_buffer, 1);
	reader.late = false;
	if (c > 0) {
		char byte = (char)c;

		text_add(&reader.typed, &byte, 1);
	}
	reader.inside = c > 0 && c != '\n';
	return c;
}

/* Bash looks one character ahead behind a backslash in a here-document. */
static int unread_char(int c)
{
	if (c > 0 && reader.typed.len)
		reader.typed.len--;
	return reader.ungetter(c);
}

/* With line editing, on_readline comes before each line; without it, there is no moment
 * but those of the command before and of this one. */
static bool is_edited(void)
{
	return bash_input.type == STREAM_READLINE;
}

/* Only where bash reads from the terminal; while a file or a string is read, its input is
 * on a stack where it cannot be reached. */
static bool reader_attach(void)
{
	if (bash_input.getter == read_char ||
	    (bash_input.type != STREAM_READLINE && bash_input.type != STREAM_FILE))
		return false;
	reader.getter = bash_input.getter;
	reader.ungetter = bash_input.ungetter;
	bash_input.getter = read_char;
	bash_input.ungetter = unread_char;
	return true;
}

/* --- our places --- */

static void say_once(bool *told, const char *what)
{
	if (!*told)
		fprintf(stderr, "shfs: nothing is recorded%s\n", what);
	*told = true;
}

/* Puts our word last into PS0, so that nothing else of it belongs to the command; takes
 * it out where it would be shown itself. */
static void arm_ps0(void)
{
	const char *old = get_string_value("PS0"), *hit;
	struct text t = { 0 };
	SHELL_VAR *var;

	old = old ? old : "";
	hit = promptvars ? strstr(old, PS0_WORD) : NULL;
	if (hit && !hit[strlen(PS0_WORD)])
		return; /* as nearly always */
	var = find_variable("PS0");
	for (const char *p = old; (hit = strstr(p, PS0_WORD)); p = old) {
		text_add(&t, old, hit - old);
		old = hit + strlen(PS0_WORD);
	}
	text_add(&t, old, strlen(old));
	if (promptvars)
		text_add(&t, PS0_WORD, strlen(PS0_WORD));
	else
		say_once(&hook.told_promptvars,
		         " while the shell option promptvars is off");
	text_add(&t, "", 1);
	old = get_string_value("PS0");
	if (t.failed || !strcmp(old ? old : "", t.data))
		;
	else if (var && readonly_p(var))
		say_once(&hook.told_ps0, ": PS0 is read-only");
	else if (bind_variable("PS0", t.data, 0))
		ps0_prompt = get_string_value("PS0");
	free(t.data);
}

static void remove_element(ARRAY *a, arrayind_t index)
{
	ARRAY_ELEMENT *e = array_remove(a, index);

	if (e)
		array_dispose_element(e);
}

/* Ours is taken out wherever it is. What is first now was so already, if it is there
 * again: somebody has set it anew, as a startup file does that is read again. */
static void remove_former(ARRAY *a)
{
	const char *first = array_reference(a, 0);
	bool again = false;
	ARRAY_ELEMENT *e, *next;

	for (e = element_forw(a->head); e != a->head; e = next) {
		next = element_forw(e);
		if (!strcmp(element_value(e), FINISH))
			remove_element(a, element_index(e));
		else if (first && element_index(e) && !strcmp(element_value(e), first))
			again = true;
	}
	if (again && hook.was_first)
		remove_element(a, 0);
}

static void take_first_place(void)
{
	char name[] = "PROMPT_COMMAND", finish[] = FINISH;
	SHELL_VAR *var = find_variable(name);
	const char *first = get_string_value(name);

	if (first && !strcmp(first, FINISH))
		return;
	if (!var)
		var = make_new_array_variable(name);
	if (!var || readonly_p(var) || assoc_p(var) || nameref_p(var) ||
	    var->dynamic_value)
		return;
	if (!array_p(var))
		var = convert_var_to_array(var);
	remove_former(array_cell(var));
	array_rshift(array_cell(var), 1, finish);
	VUNSETATTR(var, att_invisible);
	hook.was_first = true;
}

/* Readline calls it when it begins to read a line. */
static int on_readline(void)
{
	if (hook.pid == getpid() && !executing) {
		reader.inside = false;
		reader.late = reader_attach();
		arm_ps0();
		take_first_place();
	}
	return reader.startup ? reader.startup() : 0;
}

/* And when it has shown the prompt: nobody waits now. */
static int on_prompt(void)
{
	if (hook.pid == getpid() && !executing)
		check_held();
	return reader.pre_input ? reader.pre_input() : 0;
}

/* May bash have replaced "!!" or its like in the line? Then history has what was run. */
static bool may_be_expanded(const char *typed)
{
	char chars[] = { history_expansion_char, history_subst_char, '\0' };

	return remember_on_history && history_expansion && *chars &&
	       strpbrk(typed, chars);
}

/* Is the last entry of the history this command? One that only repeats the last is not
 * saved again. */
static bool is_in_history(void)
{
	if (!remember_on_history)
		return false;
	return current_command_first_line_saved ||
	       ((history_control & HISTORY_IGNORES_DUPS) &&
	        !get_string_value("HISTIGNORE"));
}

/* Borrowed until the next line is read. Empty only if it cannot be known. */
static const char *command_text(void)
{
	char *typed = reader.typed.data;
	const char *saved = is_in_history() ? last_history_line() : NULL;

	if (!reader.typed.len || reader.typed.failed)
		return saved ? saved : "";
	if (typed[reader.typed.len - 1] == '\n')
		reader.typed.len--;
	text_add(&reader.typed, "", 1);
	reader.typed.len--;
	if (reader.typed.failed)
		return "";
	typed = reader.typed.data;
	if (*typed == ' ' || *typed == '\t' || !saved || !may_be_expanded(typed) ||
	    (!command_oriented_history && strchr(typed, '\n')))
		return typed;
	return saved;
}

/* The user keeps it out of the history: by a blank in front of it, or by HISTIGNORE. For
 * the latter, bash knows: a line that it did not save, and that is not there already. */
static bool is_kept_out(const char *text)
{
	const char *ignore = get_string_value("HISTIGNORE"), *last;

	if (*text == ' ' || *text == '\t')
		return true;
	if (!ignore || !*ignore || !remember_on_history ||
	    current_command_first_line_saved)
		return false;
	last = last_history_line();
	return !last || strcmp(last, text) != 0;
}

/* --- the mount --- */

static bool is_fuse(const char *path)
{
	struct statfs fs;

	return !statfs(path, &fs) && fs.f_type == FUSE_SUPER_MAGIC;
}

/* True also where it cannot be told. The first poll after a change tells of it. */
static bool have_mounts_changed(void)
{
	bool was_held = held_mounts.fd;
	struct pollfd mounts = { .events = POLLPRI };
	bool changed;

	mounts.fd = use_proc(&held_mounts, "/proc/self/mountinfo");
	changed = !was_held || mounts.fd < 0 || poll(&mounts, 1, 0) != 0;
	use_end(&held_mounts, mounts.fd);
	return changed;
}

/* A shell that stood in a project when it was mounted stands below the mount, unseen; one
 * that stood on it when it was unmounted is off it. Both go to what $PWD says, if that is
 * the same directory. */
static void follow_mount(void)
{
	const char *pwd = get_string_value("PWD");
	struct stat here, there;

	if (have_mounts_changed())
		hook.settled = false;
	if (hook.settled || !pwd || *pwd != '/')
		return;
	if (stat(".", &here)) {
		if (errno != ENOTCONN)
			return;
	} else if (stat(pwd, &there)) {
		return;
	} else if (here.st_ino == there.st_ino && here.st_dev == there.st_dev) {
		hook.settled = true;
		return;
	} else if (here.st_ino != there.st_ino || (!is_fuse(".") && !is_fuse(pwd))) {
		return;
	}
	if (chdir(pwd))
		return; /* it is no worse than before */
}

/* --- bash calls these --- */

/* The value of SHFS_PRE. Only the first look at it before a command is PS0's. */
static SHELL_VAR *value_of_pre(SHELL_VAR *self)
{
	int error = errno;

	if (executing || current_command_number == hook.last_command ||
	    getpid() != hook.pid)
		return self;
	hook.last_command = current_command_number;
	hook.open = false;
	if (!is_disabled()) {
		const char *text = command_text();

		follow_mount();
		write_begin(text, is_kept_out(text));
		mark_command(hook.number);
	}
	text_clear(&reader.typed);
	reader_attach();
	if (!is_edited())
		take_first_place();
	errno = error;
	return self;
}

static SHELL_VAR *assign_pre(SHELL_VAR *self, char *value, arrayind_t index, char *key)
{
	return self;
}

static bool was_shown(const char *line, size_t len)
{
	for (const char *p = hook.shown; *p; p += strcspn(p, "\n"), p += *p == '\n')
		if (strcspn(p, "\n") == len && !memcmp(p, line, len))
			return true;
	return false;
}

static void show_line(const char *line, size_t len)
{
	for (; len; line++, len--)
		putc((unsigned char)*line < ' ' || *line == '\x7f' ? '?' : *line, stderr);
	putc('\n', stderr);
}

/* Its directory has not changed since there was none. What has changed within the last
 * second may do so again without another time. */
static bool is_still_quiet(void)
{
	struct timespec now;
	struct stat st;
	bool quiet;
	int fd;

	if (!held_state.fd) {
		fd = open(hook.state, O_PATH | O_DIRECTORY | O_CLOEXEC);
		use_end(&held_state,
		        fd >= 0 && may_hold(fd) ? hold(&held_state, fd) : fd);
	}
	if (!is_held(&held_state, &st))
		return false;
	quiet = !memcmp(&st.st_mtim, &hook.no_alert, sizeof(st.st_mtim));
	clock_gettime(CLOCK_REALTIME, &now);
	hook.no_alert =
		st.st_mtim.tv_sec < now.tv_sec - 1 ? st.st_mtim : (struct timespec){ 0 };
	return quiet;
}

/* Each line again only if it was gone in between. */
static void show_alert(void)
{
	char text[sizeof(hook.shown)];

	if (!*hook.shown && is_still_quiet())
		return;
	if (read_file(hook.alert, text, sizeof(text)) <= 0)
		*text = '\0';
	for (const char *p = text; *p; p += *p == '\n') {
		size_t len = strcspn(p, "\n");

		if (len && !was_shown(p, len))
			show_line(p, len);
		p += len;
	}
	strcpy(hook.shown, text);
}

static int finish(void)
{
	if (getpid() != hook.pid)
		return EXECUTION_SUCCESS;
	if (hook.open)
		write_finish(last_command_exit_value);
	if (!is_disabled())
		show_alert();
	if (!is_edited())
		arm_ps0();
	return EXECUTION_SUCCESS;
}

static bool set_text(char **to, const char *s)
{
	free(*to);
	*to = strdup(s);
	return *to != NULL;
}

static bool set_state(void)
{
	char *slash;

	if (!set_text(&hook.state, hook.alert))
		return false;
	slash = strrchr(hook.state, '/');
	if (slash)
		*slash = '\0';
	let_go(&held_state);
	return true;
}

static bool set_log(const char *dir)
{
	char *log;

	if (asprintf(&log, "%s/shell-%.8s-%ld-%" PRIu64 ".log", dir, hook.boot,
	             (long)hook.pid, start_ticks()) < 0)
		return false;
	if (!hook.log || strcmp(hook.log, log)) {
		hook.greeted = hook.open = false;
		hook.told_promptvars = hook.told_ps0 = false;
		hook.told = 0;
	}
	let_go(&held_log);
	free(hook.log);
	hook.log = log;
	return true;
}

static bool bind_pre(void)
{
	char none[] = "";
	SHELL_VAR *pre = bind_global_variable("SHFS_PRE", none, 0);

	if (!pre)
		return false;
	pre->dynamic_value = value_of_pre;
	pre->assign_func = assign_pre;
	VUNSETATTR(pre, att_exported);
	return true;
}

static int start(const char *const *args)
{
	char **const places[] = { &hook.alert, &hook.host, &hook.boot, &hook.pidns,
		                  &hook.tty };

	if (hook.pid && hook.pid != getpid())
		return EXECUTION_FAILURE;
	hook.pid = getpid();
	for (int i = 0; i < 5; i++)
		if (!set_text(places[i], args[i + 1]))
			return EXECUTION_FAILURE;
	if (!set_state() || !set_log(args[0]) || !bind_pre())
		return EXECUTION_FAILURE;
	mark_session();
	log_close(log_open(true));
	arm_ps0();
	show_alert();
	return EXECUTION_SUCCESS;
}

int _shfs_hook_builtin(WORD_LIST *list);
int _shfs_hook_builtin(WORD_LIST *list)
{
	const char *args[7];
	int n = 0;

	for (; list && n < 7; list = list->next)
		args[n++] = list->word->word;
	if (n == 1 && !strcmp(args[0], "finish"))
		return finish();
	if (n == 7 && !list && !strcmp(args[0], "start"))
		return start(args + 1);
	builtin_usage();
	return EX_USAGE;
}

int _shfs_hook_builtin_load(char *name);
int _shfs_hook_builtin_load(char *name)
{
	if (rl_startup_hook != on_readline) {
		reader.startup = rl_startup_hook;
		rl_startup_hook = on_readline;
	}
	if (rl_pre_input_hook != on_prompt) {
		reader.pre_input = rl_pre_input_hook;
		rl_pre_input_hook = on_prompt;
	}
	return 1;
}

/* Ends the recording. Bash may still hold pointers to this code, so it is linked to stay
 * in memory (-z nodelete). */
void _shfs_hook_builtin_unload(char *name);
void _shfs_hook_builtin_unload(char *name)
{
	hook.pid = 0;
}

static char doc[] = "The hook of shfs; see shfs-init(1).";
static char *const long_doc[] = { doc, NULL };

struct builtin _shfs_hook_struct = {
	.name = (char[]){ "_shfs_hook" },
	.function = _shfs_hook_builtin,
	.flags = BUILTIN_ENABLED,
	.long_doc = long_doc,
	.short_doc = "_shfs_hook start DIR ALERT HOST BOOT PIDNS TTY | finish",
};
