/* SPDX-License-Identifier: MIT */
#include "query/screen/screen.h"

#include "common/io.h"
#include "query/base/child.h"
#include "query/base/context.h"

#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <term.h>
#include <termios.h>
#include <wchar.h>

#define REST_MS 25 /* to wait for the rest of a character */
#define TAB     8
/* These turn off each mode of the mouse that curses may have turned on. */
#define NO_MOUSE "\033[?1000l\033[?1006l"

/* Signals that are waited for like keys, and blocked otherwise. */
static const int waited[] = {
	SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH
};
static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };

struct shfs_screen {
	WINDOW *keys; /* input only: reading from it draws nothing */
	FILE *in, *out;
	bool color, job;
	int pointer_row, pointer_column;
	sigset_t before; /* signals that were blocked before */
	struct sigaction actions[ARRAY_SIZE(waited)], crash_actions[ARRAY_SIZE(crashes)];
};

/* State for handlers: none of it changes while the screen is open. */
static struct {
	struct shfs_screen *screen; /* NULL: closed */
	int tty, said, stderr_fd;
	struct termios termios;
	char leave[256];
	size_t leave_len;
} now = { .tty = -1, .said = -1, .stderr_fd = -1 };

static volatile sig_atomic_t caught[NSIG];

static void catch_signal(int sig)
{
	caught[sig] = 1;
}

/* --- leaving the screen, whatever happens --- */

/* Prints what was written to standard error meanwhile. Safe in a handler. */
static void restore_stderr(void)
{
	char part[512];
	off_t at = 0;
	ssize_t n;

	if (now.stderr_fd < 0)
		return;
	dup2(now.stderr_fd, STDERR_FILENO);
	for (; (n = pread(now.said, part, sizeof(part), at)) > 0; at += n)
		(void)!write(STDERR_FILENO, part, n);
	close(now.stderr_fd);
	close(now.said);
	now.stderr_fd = now.said = -1;
}

/* Restores the terminal without curses, which may be what has crashed. */
static void on_crash(int sig)
{
	struct shfs_screen *s = now.screen;

	(void)!write(now.tty, now.leave, now.leave_len);
	tcsetattr(now.tty, TCSANOW, &now.termios);
	restore_stderr();
	for (size_t i = 0; i < ARRAY_SIZE(crashes); i++)
		sigaction(crashes[i], &s->crash_actions[i], NULL);
	raise(sig);
}

static void on_exit_close(void)
{
	shfs_screen_close(now.screen);
}

/* Gets a sequence that leaves a mode; no terminal in use needs pauses in it. */
static void remember_leave(const char *name)
{
	const char *text = tigetstr((char *)name);

	if (!text || text == (char *)-1)
		return;
	while (*text && now.leave_len < sizeof(now.leave)) {
		const char *end =
			text[0] == '$' && text[1] == '<' ? strchr(text, '>') : NULL;

		if (end)
			text = end + 1;
		else
			now.leave[now.leave_len++] = *text++;
	}
}

static void catch_signals(struct shfs_screen *s)
{
	struct sigaction action = { .sa_handler = catch_signal };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(waited); i++) {
		int sig = waited[i];

		caught[sig] = 0;
		sigaction(sig, NULL, &s->actions[i]);
		if (sig == SIGTSTP && !s->job)
			signal(sig, SIG_IGN);
		else if (s->actions[i].sa_handler != SIG_IGN)
			sigaction(sig, &action, NULL);
		sigaddset(&set, sig);
	}
	sigprocmask(SIG_BLOCK, &set, &s->before);
	action.sa_handler = on_crash;
	for (size_t i = 0; i < ARRAY_SIZE(crashes); i++)
		sigaction(crashes[i], &action, &s->crash_actions[i]);
}

static void release_signals(struct shfs_screen *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(crashes); i++)
		sigaction(crashes[i], &s->crash_actions[i], NULL);
	for (size_t i = 0; i < ARRAY_SIZE(waited); i++)
		sigaction(waited[i], &s->actions[i], NULL);
	sigprocmask(SIG_SETMASK, &s->before, NULL);
}

/* --- open and close --- */

static void init_curses(struct shfs_screen *s)
{
	static const short colors[] = { COLOR_RED,  COLOR_GREEN,   COLOR_YELLOW,
		                        COLOR_BLUE, COLOR_MAGENTA, COLOR_CYAN };

	raw();
	noecho();
	nonl();
	set_escdelay(REST_MS);
	s->keys = newpad(1, 1);
	keypad(s->keys, TRUE);
	s->color = s->color && has_colors() && start_color() == OK &&
	           use_default_colors() == OK;
	for (size_t i = 0; s->color && i < ARRAY_SIZE(colors); i++)
		init_pair(i + 1, colors[i], -1);
	mouseinterval(0); /* a press is a click at once */
	if (mousemask(BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED, NULL)) {
		now.leave_len = strlen(NO_MOUSE);
		memcpy(now.leave, NO_MOUSE, now.leave_len);
	}
	remember_leave("sgr0");
	remember_leave("rmkx");
	remember_leave("cnorm");
	remember_leave("rmcup");
}

static void free_screen(struct shfs_screen *s)
{
	if (s->in)
		fclose(s->in);
	if (s->out)
		fclose(s->out);
	free(s);
}

static int open_terminal(struct shfs_screen *s)
{
	int fd = open("/dev/tty", O_RDWR | O_CLOEXEC);
	int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);

	s->in = fd < 0 ? NULL : fdopen(fd, "r");
	s->out = copy < 0 ? NULL : fdopen(copy, "w");
	if (s->in && s->out && !tcgetattr(fd, &now.termios)) {
		now.tty = fd;
		return 0;
	}
	shfs_error("there is no terminal for a screen");
	return SHFS_EXIT_UNAVAILABLE;
}

/* Can curses use this terminal? newterm may leave something behind if it fails. */
static bool can_show(const char *term, int fd)
{
	int error;
	bool can;

	if (!term || !*term || setupterm(term, fd, &error) == ERR)
		return false;
	can = tigetstr("cup") && tigetstr("clear");
	del_curterm(cur_term);
	return can;
}

static int open_curses(struct shfs_screen *s)
{
	use_env(FALSE);
	use_tioctl(TRUE);
	if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0) /* shfs prints UTF-8 only */
		setlocale(LC_CTYPE, "C.UTF-8");
	if (can_show(getenv("TERM"), now.tty) && newterm(NULL, s->out, s->in))
		return 0;
	shfs_error("this terminal cannot show a screen ($TERM)");
	return SHFS_EXIT_UNAVAILABLE;
}

int shfs_screen_open(bool color, bool job, struct shfs_screen **out)
{
	static bool registered;
	struct shfs_screen *s = calloc(1, sizeof(*s));
	int code;

	if (!s)
		return SHFS_EXIT_FAILURE;
	/* in $(...) ^Z would stop it while the shell waits for it */
	*s = (struct shfs_screen){ .color = color, .job = job && getpgrp() == getpid() };
	code = open_terminal(s);
	if (code) {
		free_screen(s);
		return code;
	}
	now.leave_len = 0;
	catch_signals(s); /* before curses does */
	code = open_curses(s);
	if (code) {
		release_signals(s);
		free_screen(s);
		return code;
	}
	fflush(stderr);
	now.stderr_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	now.said = memfd_create("shfs-said", MFD_CLOEXEC);
	if (now.stderr_fd >= 0 && now.said >= 0)
		dup2(now.said, STDERR_FILENO);
	now.screen = s;
	init_curses(s);
	if (!registered)
		atexit(on_exit_close);
	registered = true;
	*out = s;
	return 0;
}

void shfs_screen_close(struct shfs_screen *s)
{
	if (!s)
		return;
	endwin();
	now.screen = NULL;
	release_signals(s);
	restore_stderr();
	delwin(s->keys);
	free_screen(s); /* curses keeps its own: delscreen would lose some of it */
}

int shfs_screen_rows(const struct shfs_screen *s)
{
	return LINES;
}

int shfs_screen_columns(const struct shfs_screen *s)
{
	return COLS;
}

/* --- signals, in order --- */

static int resize(void)
{
	struct winsize size;

	if (!ioctl(now.tty, TIOCGWINSZ, &size) && size.ws_row && size.ws_col)
		resize_term(size.ws_row, size.ws_col);
	clearok(curscr, TRUE);
	return SHFS_KEY_RESIZED;
}

/* Ends by the signal, as if it had not been caught: so the shell learns how it ended. */
static void end_by_signal(struct shfs_screen *s, int sig)
{
	sigset_t set;

	shfs_screen_close(s);
	signal(sig, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, sig);
	raise(sig);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* Stops the process until SIGCONT continues it. */
static int stop(pid_t whom)
{
	struct sigaction stops = { .sa_handler = SIG_DFL }, ours;
	sigset_t set;

	endwin();
	sigaction(SIGTSTP, &stops, &ours);
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	kill(whom, SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigaction(SIGTSTP, &ours, NULL);
	reset_prog_mode();
	return resize();
}

static int take_signal(struct shfs_screen *s)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (caught[ends[i]])
			end_by_signal(s, ends[i]);
	if (caught[SIGTSTP]) {
		caught[SIGTSTP] = 0;
		return stop(getpid());
	}
	if (caught[SIGCONT]) {
		caught[SIGCONT] = 0;
		reset_prog_mode();
		return resize();
	}
	if (caught[SIGWINCH]) {
		caught[SIGWINCH] = 0;
		return resize();
	}
	return SHFS_KEY_NONE;
}

/* --- keys --- */

static int named_key(wint_t c)
{
	static const struct {
		int curses, key;
	} names[] = {
		{ KEY_UP, SHFS_KEY_UP },          { KEY_DOWN, SHFS_KEY_DOWN },
		{ KEY_LEFT, SHFS_KEY_LEFT },      { KEY_RIGHT, SHFS_KEY_RIGHT },
		{ KEY_PPAGE, SHFS_KEY_PAGE_UP },  { KEY_NPAGE, SHFS_KEY_PAGE_DOWN },
		{ KEY_HOME, SHFS_KEY_HOME },      { KEY_END, SHFS_KEY_END },
		{ KEY_DC, SHFS_KEY_DELETE },      { KEY_SR, SHFS_KEY_SHIFT_UP },
		{ KEY_SF, SHFS_KEY_SHIFT_DOWN },  { KEY_ENTER, '\r' },
		{ KEY_BACKSPACE, 0x7f },          { KEY_RESIZE, SHFS_KEY_RESIZED },
		{ KEY_BTAB, SHFS_KEY_SHIFT_TAB }, { KEY_F(1), SHFS_KEY_HELP },
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if ((int)c == names[i].curses)
			return names[i].key;
	return SHFS_KEY_NONE;
}

/* What the mouse did, as a key. */
static int mouse_key(struct shfs_screen *s)
{
	MEVENT event;

	if (getmouse(&event) != OK)
		return SHFS_KEY_NONE;
	s->pointer_row = event.y;
	s->pointer_column = event.x;
	return event.bstate & BUTTON1_PRESSED   ? SHFS_KEY_CLICK
	       : event.bstate & BUTTON4_PRESSED ? SHFS_KEY_WHEEL_UP
	       : event.bstate & BUTTON5_PRESSED ? SHFS_KEY_WHEEL_DOWN
	                                        : SHFS_KEY_NONE;
}

void shfs_screen_pointer(const struct shfs_screen *s, int *row, int *column)
{
	*row = s->pointer_row;
	*column = s->pointer_column;
}

/* Reads a key that is there, or returns NONE. */
static int read_key(struct shfs_screen *s, bool readable)
{
	wint_t c, next;
	int r;

	wtimeout(s->keys, readable ? REST_MS : 0);
	r = wget_wch(s->keys, &c);
	if (r == ERR)
		return SHFS_KEY_NONE;
	if (r == KEY_CODE_YES)
		return c == KEY_MOUSE ? mouse_key(s) : named_key(c);
	if (c == '\b')
		return 0x7f;
	if (c != 27)
		return (int)c;
	/* curses has waited for more: a key with Alt */
	wtimeout(s->keys, 0);
	r = wget_wch(s->keys, &next);
	return r == OK ? SHFS_KEY_ALT | (int)next : 27;
}

static bool is_readable(void)
{
	int bytes = 0;

	return !ioctl(now.tty, FIONREAD, &bytes) && bytes > 0;
}

int shfs_screen_key(struct shfs_screen *s, int timeout_ms)
{
	struct timespec timeout = { timeout_ms / 1000, timeout_ms % 1000 * 1000000L };
	struct pollfd fd = { .fd = now.tty, .events = POLLIN };
	int key, n;

	for (;;) {
		key = take_signal(s);
		if (!key)
			key = read_key(s, is_readable());
		if (key == SHFS_KEY_CTRL('Z')) {
			if (s->job)
				return stop(0);
			continue;
		}
		if (key)
			return key;
		n = ppoll(&fd, 1, timeout_ms < 0 ? NULL : &timeout, &s->before);
		if (!n)
			return SHFS_KEY_NONE;
		if (n > 0 && (!(fd.revents & POLLIN) || !is_readable()))
			return SHFS_KEY_GONE;
	}
}

bool shfs_screen_wait(struct shfs_screen *s, int fd)
{
	struct pollfd fds[2] = { { .fd = fd, .events = POLLIN },
		                 { .fd = now.tty, .events = POLLIN } };
	int n = ppoll(fds, 2, NULL, &s->before);

	return n > 0 && !fds[1].revents;
}

/* --- other programs on the terminal --- */

void shfs_screen_leave(struct shfs_screen *s)
{
	struct termios termios;

	if (isendwin())
		reset_shell_mode();
	else
		endwin();
	/* the line editor of a shell that called may have left it raw */
	if (tcgetattr(now.tty, &termios))
		return;
	termios.c_iflag |= ICRNL;
	termios.c_oflag |= OPOST | ONLCR;
	termios.c_lflag |= ICANON | ECHO | ISIG | IEXTEN;
	tcsetattr(now.tty, TCSADRAIN, &termios);
}

/* Becomes the program, in the child: on the terminal, with signals as they were. */
static void exec_on_terminal(const struct shfs_screen *s, struct shfs_context *ctx,
                             const char *const *words)
{
	static const int ends[] = { SIGINT, SIGQUIT };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		signal(ends[i], SIG_DFL);
	sigprocmask(SIG_SETMASK, &s->before, NULL);
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		dup2(now.tty, fd);
	_exit(shfs_context_exec(ctx, words));
}

int shfs_screen_run(struct shfs_screen *s, struct shfs_context *ctx,
                    const char *const *words)
{
	/* what is typed there is not for this program; pending signals are dropped */
	static const int typed[] = { SIGINT, SIGQUIT, SIGTSTP };
	struct sigaction ignored = { .sa_handler = SIG_IGN }, before[ARRAY_SIZE(typed)];
	int status;
	pid_t pid;

	for (size_t i = 0; i < ARRAY_SIZE(typed); i++)
		sigaction(typed[i], &ignored, &before[i]);
	pid = fork();
	if (pid == 0)
		exec_on_terminal(s, ctx, words);
	status = pid < 0 ? SHFS_EXIT_FAILURE : shfs_child_wait(pid);
	for (size_t i = 0; i < ARRAY_SIZE(typed); i++)
		sigaction(typed[i], &before[i], NULL);
	return status;
}

int shfs_screen_ask(struct shfs_screen *s, const char *question)
{
	int key;

	reset_prog_mode(); /* before the question: its answer is a key, and no line */
	tcflush(now.tty, TCIFLUSH);
	(void)!write(now.tty, question, strlen(question));
	do
		key = shfs_screen_key(s, -1);
	while (key == SHFS_KEY_RESIZED);
	(void)!write(now.tty, "\r\n", 2);
	return key;
}

void shfs_screen_return(struct shfs_screen *s)
{
	reset_prog_mode();
	resize();
}

/* --- the clipboard --- */

static void add_base64(struct shfs_buf *out, const char *text, size_t len)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
		"0123456789+/";

	for (size_t i = 0; i < len; i += 3) {
		uint32_t bits = 0;

		for (size_t k = 0; k < 3; k++)
			bits = bits << 8 | (i + k < len ? (unsigned char)text[i + k] : 0);
		for (size_t k = 0; k < 4; k++)
			shfs_buf_char(out, i + k > len
			                           ? '='
			                           : digits[bits >> (18 - 6 * k) & 63]);
	}
}

int shfs_screen_copy(struct shfs_screen *s, const char *text, size_t len)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	shfs_buf_str(&out, "\033]52;c;");
	add_base64(&out, text, len);
	shfs_buf_char(&out, '\a');
	if (out.failed)
		return -ENOMEM;
	refresh(); /* nothing of curses stays behind it */
	return shfs_write_all(now.tty, out.data, out.len);
}

/* --- drawing --- */

void shfs_screen_clear(struct shfs_screen *s)
{
	erase();
}

struct pen {
	const struct shfs_screen *screen;
	int row, column, width; /* begin and width of lines */
	bool wraps;
	int line, skipped, rows; /* rows: that are drawn; line: the current one */
	int used;                /* columns of the current line */
	attr_t attr, base;
	short pair;
	wchar_t chars[CCHARW_MAX + 1]; /* one cell; only the first has a width */
	int n_chars, cell_width;
};

static void pen_flush(struct pen *p)
{
	cchar_t cell;

	if (p->n_chars && p->line >= p->skipped && p->line - p->skipped < p->rows) {
		p->chars[p->n_chars] = L'\0';
		setcchar(&cell, p->chars, p->attr | p->base,
		         p->screen->color ? p->pair : 0, NULL);
		mvadd_wch(p->row + p->line - p->skipped,
		          p->column + p->used - p->cell_width, &cell);
	}
	p->n_chars = 0;
}

static void pen_newline(struct pen *p)
{
	pen_flush(p);
	p->line++;
	p->used = 0;
}

/* Is there room for so many columns? */
static bool pen_room(struct pen *p, int width)
{
	if (p->used + width <= p->width)
		return true;
	if (!p->wraps || width > p->width)
		return false;
	pen_newline(p);
	return true;
}

static bool pen_char(struct pen *p, wchar_t c)
{
	int width = wcwidth(c);

	if (width < 0) {
		c = 0xfffd;
		width = 1;
	}
	if (!width) { /* combines with the character before */
		if (p->n_chars && p->n_chars < CCHARW_MAX)
			p->chars[p->n_chars++] = c;
		return true;
	}
	pen_flush(p);
	if (!pen_room(p, width))
		return false;
	p->chars[p->n_chars++] = c;
	p->cell_width = width;
	p->used += width;
	return true;
}

/* Applies the numbers of "ESC [ 1 ; 31 m" at text; returns its length. */
static size_t pen_style(struct pen *p, const char *text, size_t len)
{
	static const attr_t attrs[] = { [1] = A_BOLD, [2] = A_DIM, [4] = A_UNDERLINE };
	size_t i = 2;
	int number = 0;

	for (; i < len; i++) {
		if (text[i] >= '0' && text[i] <= '9') {
			number = (number * 10 + text[i] - '0') % 100;
			continue;
		}
		if (!number) {
			p->attr = 0;
			p->pair = 0;
		} else if (number < (int)ARRAY_SIZE(attrs)) {
			p->attr |= attrs[number];
		} else if (number > 30 && number < 37) {
			p->pair = number - 30;
		}
		number = 0;
		if (text[i] == 'm')
			return i + 1;
	}
	return i;
}

/* Draws text; stops at the end of a single visible line. */
static void pen_text(struct pen *p, const char *text, size_t len)
{
	for (size_t i = 0, n; i < len; i += n) {
		mbstate_t state = { 0 };
		wchar_t c = 0;

		n = 1;
		if (text[i] == '\033') {
			pen_flush(p);
			n = pen_style(p, text + i, len - i);
			continue;
		}
		if (text[i] == '\n') {
			pen_newline(p);
			continue;
		}
		if (text[i] == '\t') {
			for (int k = TAB - p->used % TAB; k > 0; k--)
				pen_char(p, L' ');
			continue;
		}
		n = mbrtowc(&c, text + i, len - i, &state);
		if (n == 0 || n > len - i) {
			n = 1;
			c = 0xfffd;
		}
		if (!pen_char(p, c))
			break;
	}
	pen_flush(p);
}

int shfs_screen_put(struct shfs_screen *s, int row, int column, int width,
                    const char *text, size_t len, enum shfs_screen_look look)
{
	struct pen p = {
		.screen = s, .row = row, .column = column, .width = width, .rows = 1
	};
	int used;

	if (row < 0 || row >= LINES || width <= 0)
		return 0;
	p.base = look == SHFS_LOOK_DIM ? A_DIM : look == SHFS_LOOK_CHOSEN ? A_REVERSE : 0;
	pen_text(&p, text, len);
	used = p.used;
	for (p.attr = p.pair = 0; look == SHFS_LOOK_CHOSEN && p.used < width;)
		pen_char(&p, L' ');
	pen_flush(&p);
	return used;
}

int shfs_screen_put_lines(struct shfs_screen *s, int row, int column, int rows, int width,
                          const char *text, size_t len, int skipped)
{
	struct pen p = { .screen = s,
		         .row = row,
		         .column = column,
		         .width = width,
		         .rows = rows,
		         .skipped = skipped,
		         .wraps = true };

	if (width <= 0 || rows <= 0)
		return 0;
	pen_text(&p, text, len);
	return p.line + (p.used > 0);
}

void shfs_screen_show(struct shfs_screen *s, int cursor_row, int cursor_column)
{
	curs_set(cursor_row >= 0);
	move(MAX(MIN(cursor_row, LINES - 1), 0), MAX(MIN(cursor_column, COLS - 1), 0));
	refresh();
}

void shfs_screen_refresh(struct shfs_screen *s)
{
	clearok(curscr, TRUE);
}
