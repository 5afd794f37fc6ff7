/* SPDX-License-Identifier: MIT */
#include "query/history/shell-history.h"

#include "common/io.h"
#include "common/path.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX (1 << 30)
#define META     '\x83'

static int add_typed(struct shfs_shell_history *history, const char *text, size_t len,
                     int64_t time_s)
{
	char *copy;

	while (len && (text[len - 1] == '\n' || text[len - 1] == ' '))
		len--;
	if (!len)
		return 0;
	copy = strndup(text, len);
	if (!copy || !MAKE_ROOM(history->list, history->n, history->cap)) {
		free(copy);
		return -ENOMEM;
	}
	history->list[history->n++] = (struct shfs_typed){ copy, time_s };
	return 0;
}

/* The digits at p, up to end; 0: there are none, or too many. */
static int64_t read_seconds(const char *p, const char **end)
{
	size_t n = strspn(p, "0123456789");

	*end = p + n;
	return n && n < 12 ? strtoll(p, NULL, 10) : 0;
}

/* "#SECONDS" */
static int64_t bash_time(const char *line)
{
	const char *end;
	int64_t time_s = *line == '#' ? read_seconds(line + 1, &end) : 0;

	return time_s && (*end == '\n' || !*end) ? time_s : 0;
}

static const char *next_line(const char *line)
{
	const char *newline = strchr(line, '\n');

	return newline ? newline + 1 : line + strlen(line);
}

static int read_bash(const char *text, struct shfs_shell_history *out)
{
	int64_t time_s = 0;
	int r = 0;

	for (const char *line = text, *next; *line && !r; line = next) {
		int64_t begun = bash_time(line);

		next = next_line(line);
		if (begun) {
			time_s = begun;
			continue;
		}
		while (time_s && *next && !bash_time(next))
			next = next_line(next);
		r = add_typed(out, line, (size_t)(next - line), time_s);
	}
	return r;
}

static int add_zsh(struct shfs_shell_history *out, const char *text, size_t len)
{
	_cleanup_buf_ struct shfs_buf plain = { 0 };
	const char *at = text, *end;
	int64_t time_s = 0;

	if (len > 2 && !strncmp(at, ": ", 2)) {
		time_s = read_seconds(at + 2 + strspn(at + 2, " "), &end);
		if (time_s && *end == ':')
			read_seconds(end + 1, &end);
		if (time_s && *end == ';')
			at = end + 1;
		else
			time_s = 0;
	} else if (len > 2 && !strncmp(at, "\\:", 2)) {
		at++; /* a command that would look as if it had a time */
	}
	for (; at < text + len; at++) {
		if (*at == META && at + 1 < text + len)
			shfs_buf_char(&plain, (char)(*++at ^ 32));
		else if (*at != '\\' || at[1] != '\n')
			shfs_buf_char(&plain, *at);
	}
	return plain.failed ? -ENOMEM
	                    : add_typed(out, plain.data ?: "", plain.len, time_s);
}

static int read_zsh(const char *text, struct shfs_shell_history *out)
{
	int r = 0;

	for (const char *line = text, *next; *line && !r; line = next) {
		next = next_line(line);
		while (*next && next - line > 1 && next[-2] == '\\')
			next = next_line(next);
		r = add_zsh(out, line, (size_t)(next - line));
	}
	return r;
}

static int add_fish(struct shfs_shell_history *out, const char *line, int64_t time_s)
{
	_cleanup_buf_ struct shfs_buf plain = { 0 };

	for (; *line && *line != '\n'; line++) {
		bool escape = *line == '\\' && (line[1] == 'n' || line[1] == '\\');

		if (escape)
			line++;
		shfs_buf_char(&plain, escape && *line == 'n' ? '\n' : *line);
	}
	return plain.failed ? -ENOMEM
	                    : add_typed(out, plain.data ?: "", plain.len, time_s);
}

static int read_fish(const char *text, struct shfs_shell_history *out)
{
	static const char cmd[] = "- cmd: ", when[] = "  when: ";
	int r = 0;

	for (const char *line = text; *line && !r; line = next_line(line)) {
		const char *below = next_line(line), *end;
		int64_t time_s = 0;

		if (strncmp(line, cmd, strlen(cmd)) != 0)
			continue;
		if (!strncmp(below, when, strlen(when)))
			time_s = read_seconds(below + strlen(when), &end);
		r = add_fish(out, line + strlen(cmd), time_s);
	}
	return r;
}

int shfs_shell_history_read(const char *shell, const char *path,
                            struct shfs_shell_history *out)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r = shfs_read_file_at(AT_FDCWD, path, FILE_MAX, &text);

	if (r)
		return r;
	for (size_t i = 0; i < text.len; i++)
		if (!text.data[i])
			text.data[i] = '?'; /* no shell writes it */
	shfs_buf_char(&text, '\0');
	if (text.failed)
		return -ENOMEM;
	return !strcmp(shell, "zsh")    ? read_zsh(text.data, out)
	       : !strcmp(shell, "fish") ? read_fish(text.data, out)
	                                : read_bash(text.data, out);
}

void shfs_shell_history_clear(struct shfs_shell_history *history)
{
	for (size_t i = 0; i < history->n; i++)
		free(history->list[i].text);
	free(history->list);
}

char *shfs_shell_history_path(const char *shell)
{
	static const struct {
		const char *shell, *variable, *name;
	} places[] = {
		{ "bash", "HOME", ".bash_history" },
		{ "zsh", "ZDOTDIR", ".zsh_history" },
		{ "zsh", "HOME", ".zsh_history" },
		{ "zsh", "HOME", ".zhistory" },
		{ "zsh", "HOME", ".histfile" },
		{ "fish", "XDG_DATA_HOME", "fish/fish_history" },
		{ "fish", "HOME", ".local/share/fish/fish_history" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		const char *dir = getenv(places[i].variable);
		char *path;

		if (strcmp(places[i].shell, shell) != 0 || !dir || *dir != '/')
			continue;
		path = shfs_path_join(dir, places[i].name);
		if (path && !access(path, F_OK))
			return path;
		free(path);
	}
	return NULL;
}
