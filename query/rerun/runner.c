/* SPDX-License-Identifier: MIT */
#include "query/rerun/runner.h"

#include "common/clock.h"
#include "common/io.h"
#include "common/proc.h"
#include "common/redact.h"
#include "query/history/definitions.h"
#include "query/rerun/before.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define NOT_FOUND 127 /* as in shells */

/* --- signals --- */

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
static volatile sig_atomic_t caught, n_caught;

static void count_signal(int sig)
{
	caught = sig;
	n_caught++;
}

void shfs_runner_catch(void)
{
	struct sigaction action = { .sa_handler =
		                            count_signal }; /* without SA_RESTART:
	                                                     * calls are interrupted */

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &action, NULL);
}

int shfs_runner_signal(void)
{
	return caught;
}

/* --- the runner --- */

static void exec_shell(const char *shell, char *text)
{
	static char eval[] = "eval \"$1\"; s=$?; wait; exit \"$s\"", sh[] = "shfs";
	static char fish_eval[] = "eval $argv[1]; set s $status; wait; exit $s";
	static char c[] = "-c", fc[] = "-fc", no_config[] = "--no-config";
	static char bash[] = "bash", zsh[] = "zsh", fish[] = "fish";

	if (!strcmp(shell, "fish"))
		execvp(fish, (char *[]){ fish, no_config, c, fish_eval, text, NULL });
	else if (!strcmp(shell, "zsh"))
		execvp(zsh, (char *[]){ zsh, fc, eval, sh, text, NULL });
	else
		execvp(bash, (char *[]){ bash, c, eval, sh, text, NULL });
	dprintf(STDERR_FILENO, "shfs: cannot run %s: %s\n", shell, strerror(errno));
	_exit(NOT_FOUND);
}

static void become_shell(const struct shfs_hook_log *log, const char *shell, char *text)
{
	_cleanup_free_ char *cwd = getcwd(NULL, 0);

	if (log)
		shfs_hook_log_mark(log);
	if (cwd)
		setenv("PWD", cwd, 1);
	unsetenv("OLDPWD");
	unsetenv("BASH_ENV");
	unsetenv("CDPATH");
	unsetenv("ENV");
	signal(SIGXFSZ, SIG_DFL);
	exec_shell(shell, text);
}

struct job {
	const char *text;
	char *script;
	const char *uses; /* definitions: kind, name and NUL, body and NUL */
	size_t uses_len;
};

static int run_shell_text(struct shfs_hook_log *log, const char *shell,
                          const struct job *job)
{
	struct rusage usage = { 0 };
	int status = 0;
	pid_t pid;

	shfs_hook_log_begin(log, job->text);
	shfs_hook_log_uses(log, job->uses, job->uses_len);
	pid = fork();
	if (!pid)
		become_shell(log, shell, job->script);
	while (pid > 0 && wait4(pid, &status, 0, &usage) < 0 && errno == EINTR)
		;
	status = pid < 0               ? NOT_FOUND
	         : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
	                               : WEXITSTATUS(status);
	shfs_hook_log_finish(log, status, &usage);
	return status;
}

bool shfs_runner_has_program(const char *name)
{
	const char *path = getenv("PATH") ?: "";

	for (size_t len; *path; path += len + (path[len] != 0)) {
		_cleanup_buf_ struct shfs_buf file = { 0 };

		len = strcspn(path, ":");
		shfs_buf_add(&file, path, len);
		shfs_buf_printf(&file, "/%s", name);
		if (!file.failed && !access(file.data, X_OK))
			return true;
	}
	return false;
}

static int ask_shell(const char *shell, char *question)
{
	int status = 0, null;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		null = open("/dev/null", O_RDWR | O_CLOEXEC);
		for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
			dup2(null, fd);
		become_shell(NULL, shell, question);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return pid < 0 ? -errno : WIFEXITED(status) && !WEXITSTATUS(status);
}

int shfs_runner_knows(const char *shell, const char *name, size_t len)
{
	_cleanup_buf_ struct shfs_buf question = { 0 };

	shfs_buf_printf(&question, "type %.*s", (int)len, name);
	if (question.failed)
		return -ENOMEM;
	return shfs_runner_has_program(question.data + strlen("type "))
	               ? 1
	               : ask_shell(shell, question.data);
}

static bool read_all(int fd, void *data, size_t len)
{
	ssize_t n = 0;

	for (size_t done = 0; done < len; done += n) {
		n = read(fd, (char *)data + done, len - done);
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n <= 0)
			return false;
	}
	return true;
}

static int send_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			return -errno;
		data += MAX(n, 0);
		len -= MAX(n, 0);
	}
	return 0;
}

/* --- files that are removed for a run --- */

/* Removes a file, or with a slash at its end a directory: if that is not empty it stays,
 * and the command will complain if need be. */
static int take_path_away(char *path)
{
	size_t len = strlen(path);

	if (path[len - 1] != '/')
		return unlink(path) && errno != ENOENT ? -errno : 0;
	(void)!rmdir(path);
	return 0;
}

/* --- one command --- */

struct request {
	/* lengths of the texts that follow, with NULs */
	size_t cwd_len, text_len, script_len, uses_len, away_len;
};

static int serve_request(struct shfs_hook_log *log, const struct shfs_runner_options *o,
                         const struct request *request, char *bytes)
{
	char *text = bytes + request->cwd_len, *script = text + request->text_len;
	char *uses = script + request->script_len, *paths = uses + request->uses_len;
	const struct job job = { text, script, uses, request->uses_len };
	int r = chdir(bytes) ? -errno : 0;

	for (char *path = paths; path < paths + request->away_len && !r;
	     path += strlen(path) + 1)
		r = take_path_away(path);
	if (r)
		return r;
	r = run_shell_text(log, o->shell, &job);
	if (o->end_fd >= 0)
		(void)!shfs_before_note_end(o->end_fd, r);
	return r;
}

/* Runs one command. False: no more will come. */
static bool serve_run_request(int fd, struct shfs_hook_log *log,
                              const struct shfs_runner_options *o)
{
	_cleanup_free_ char *bytes = NULL;
	struct request request;
	size_t len;
	int answer;

	if (!read_all(fd, &request, sizeof(request)))
		return false;
	len = request.cwd_len + request.text_len + request.script_len + request.uses_len +
	      request.away_len;
	bytes = malloc(len);
	if (!bytes || !read_all(fd, bytes, len))
		return false;
	answer = serve_request(log, o, &request, bytes);
	return !send_all(fd, (const char *)&answer, sizeof(answer));
}

/* The process that gave the commands was killed: so is the one that runs. */
static void end_group(int sig)
{
	(void)sig;
	kill(0, SIGTERM);
}

/* Has a signal come when the parent ends. A signal of our own: those of shfs_runner_catch
 * are caught here, too, and a program that is executed gets the default again. */
static void end_with_parent(pid_t parent)
{
	struct sigaction action = { .sa_handler = end_group };

	sigaction(SIGUSR1, &action, NULL);
	prctl(PR_SET_PDEATHSIG, SIGUSR1);
	if (getppid() != parent)
		_exit(0);
}

static void runner_child(int fd, pid_t parent, const struct shfs_runner_options *o)
{
	int null = open("/dev/null", O_RDONLY), started;
	struct shfs_hook_log log = { .fd = -1, .redactor = o->redactor };

	setsid();
	end_with_parent(parent);
	dup2(null, STDIN_FILENO);
	close(null);
	if (o->to_stderr)
		dup2(STDERR_FILENO, STDOUT_FILENO);
	started = o->store_path ? shfs_hook_log_open(&log, o->store_path, o->shell) : 0;
	if (!shfs_write_all(fd, &started, sizeof(started)) &&
	    !shfs_write_all(fd, log.name, sizeof(log.name)) && !started)
		while (serve_run_request(fd, &log, o))
			;
	_exit(0);
}

int shfs_runner_begin(const struct shfs_runner_options *o, struct shfs_runner *out)
{
	struct shfs_runner runner = { 0 };
	pid_t self = getpid();
	int fds[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return -errno;
	fflush(NULL);
	runner.pid = fork();
	if (!runner.pid) {
		close(fds[0]);
		runner_child(fds[1], self, o);
	}
	r = -errno;
	close(fds[1]);
	if (runner.pid < 0) {
		close(fds[0]);
		return r;
	}
	runner.fd = fds[0];
	if (!read_all(runner.fd, &r, sizeof(r)) ||
	    !read_all(runner.fd, runner.session, sizeof(runner.session)))
		r = -EPIPE;
	*out = runner;
	if (r)
		shfs_runner_end(out);
	return r;
}

void shfs_runner_end(struct shfs_runner *runner)
{
	if (!runner->pid)
		return;
	close(runner->fd);
	while (waitpid(runner->pid, NULL, 0) < 0 && errno == EINTR)
		;
	*runner = (struct shfs_runner){ 0 };
}

/* Waits for the answer. Only here can the signals arrive. */
static void await_answer(const struct shfs_runner *runner)
{
	struct pollfd answer = { .fd = runner->fd, .events = POLLIN };
	sig_atomic_t told = 0;
	sigset_t ours, before;

	sigemptyset(&ours);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaddset(&ours, signals[i]);
	sigprocmask(SIG_BLOCK, &ours, &before);
	do {
		if (n_caught > told) {
			/* passes it on; the second one kills */
			kill(-runner->pid, told ? SIGKILL : caught);
			told = n_caught;
		}
	} while (ppoll(&answer, 1, NULL, &before) < 0 && errno == EINTR);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

static void add_use_of(struct shfs_buf *uses, const struct shfs_definition *d)
{
	shfs_buf_char(uses, d->kind);
	shfs_buf_add(uses, d->name, strlen(d->name) + 1);
	shfs_buf_add(uses, d->body, strlen(d->body) + 1);
}

int shfs_runner_run(struct shfs_runner *runner, const struct shfs_runner_command *command,
                    int *status)
{
	_cleanup_buf_ struct shfs_buf message = { 0 };
	_cleanup_buf_ struct shfs_buf uses = { 0 };
	struct request request = { strlen(command->cwd) + 1, strlen(command->text) + 1,
		                   strlen(command->script) + 1, 0, command->away.len };
	int r;

	if (caught)
		return -EINTR;
	for (size_t i = 0; i < command->definitions->n; i++)
		add_use_of(&uses, &command->definitions->list[i]);
	request.uses_len = uses.len;
	shfs_buf_add(&message, &request, sizeof(request));
	shfs_buf_add(&message, command->cwd, request.cwd_len);
	shfs_buf_add(&message, command->text, request.text_len);
	shfs_buf_add(&message, command->script, request.script_len);
	shfs_buf_add(&message, uses.data, uses.len);
	shfs_buf_add(&message, command->away.data, command->away.len);
	fflush(NULL);
	r = message.failed || uses.failed || command->away.failed
	            ? -ENOMEM
	            : send_all(runner->fd, message.data, message.len);
	if (r)
		return r;
	runner->number++;
	await_answer(runner);
	if (!read_all(runner->fd, status, sizeof(*status)))
		return caught ? -EINTR : -EPIPE;
	return caught ? -EINTR : MIN(*status, 0);
}
