/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/recorder/own-mounts.h"

#include "common/io.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/sysmacros.h>

#define TABLE_MAX (4u << 20)

void shfs_own_mounts_clear(struct shfs_own_mounts *m)
{
	shfs_closep(&m->table_fd);
	shfs_buf_free(&m->dirs);
	shfs_buf_free(&m->devs);
}

/* Adds a path of the table, in which blanks and the like are octal (proc(5)). */
static void add_dir(struct shfs_own_mounts *m, const char *text)
{
	unsigned byte;

	for (; *text && *text != ' '; text++) {
		if (*text == '\\' && sscanf(text + 1, "%3o", &byte) == 1) {
			shfs_buf_char(&m->dirs, (char)byte);
			text += 3;
		} else {
			shfs_buf_char(&m->dirs, *text);
		}
	}
	shfs_buf_char(&m->dirs, '\0');
}

/* Takes a line of the table: ids, device, root, directory, options, " - ", type. */
static void take_line(struct shfs_own_mounts *m, const char *line)
{
	const char *type = strstr(line, " - ");
	unsigned major, minor;
	uint64_t dev;
	int at = 0;

	if (!type || strncmp(type + 3, "fuse.shfs ", 10) != 0 ||
	    sscanf(line, "%*u %*u %u:%u %*s %n", &major, &minor, &at) != 2 || !at)
		return;
	dev = makedev(major, minor);
	shfs_buf_add(&m->devs, &dev, sizeof(dev));
	add_dir(m, line + at);
}

static void read_table(struct shfs_own_mounts *m)
{
	_cleanup_buf_ struct shfs_buf table = { 0 };
	char *rest, *line;

	m->dirs.len = m->devs.len = 0;
	if (shfs_read_file_at(AT_FDCWD, "/proc/self/mountinfo", TABLE_MAX, &table))
		return;
	shfs_buf_char(&table, '\0');
	rest = table.failed ? NULL : table.data;
	while ((line = strsep(&rest, "\n")))
		take_line(m, line);
}

/* The kernel reports a change of the table as an urgent event of its file. */
static void notice_changes(struct shfs_own_mounts *m)
{
	struct pollfd p = { .fd = m->table_fd, .events = POLLPRI };

	if (m->table_fd < 0)
		m->table_fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	else if (poll(&p, 1, 0) <= 0)
		return;
	read_table(m);
}

bool shfs_own_mounts_hold(struct shfs_own_mounts *m, const char *path, uint64_t dev)
{
	const char *dir;

	notice_changes(m);
	if (m->dirs.failed || m->devs.failed)
		return false;
	dir = m->dirs.data;
	for (size_t i = 0; i < m->devs.len / sizeof(dev); i++) {
		size_t len = strlen(dir);
		uint64_t one;

		memcpy(&one, m->devs.data + i * sizeof(one), sizeof(one));
		if ((dev && one == dev) || (!strncmp(path, dir + 1, len - 1) &&
		                            (!path[len - 1] || path[len - 1] == '/')))
			return true;
		dir += len + 1;
	}
	return false;
}
