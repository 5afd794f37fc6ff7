/* SPDX-License-Identifier: MIT */
#include "query/care/holders.h"

#include "common/io.h"
#include "common/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libmount.h>
#include <string.h>
#include <sys/sysmacros.h>

#define MAPS_MAX (64 << 20)

static inline void closedirp(DIR **d)
{
	if (*d)
		closedir(*d);
}

void shfs_holders_clear(struct shfs_holders *holders)
{
	for (size_t i = 0; i < holders->n; i++)
		free(holders->list[i].file);
	free(holders->list);
	*holders = (struct shfs_holders){ 0 };
}

/* The mount of an fd, from its file in fdinfo/. only_path: it cannot read or write; or
 * NULL. */
static int read_mount_id(int dirfd, const char *name, bool *only_path)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	const char *line;

	if (shfs_read_file_at(dirfd, name, 1 << 20, &text))
		return -1;
	line = strstr(text.data, "flags:");
	if (only_path)
		*only_path = line && strtoul(line + strlen("flags:"), NULL, 8) & O_PATH;
	line = strstr(text.data, "\nmnt_id:");
	return line ? atoi(line + strlen("\nmnt_id:")) : -1;
}

/* Follows a link of /proc with O_PATH: this does not call the file system behind it. */
static bool link_is_inside(int procfd, const char *name, const struct shfs_mount *mount)
{
	_cleanup_close_ int fd = openat(procfd, name, O_PATH | O_CLOEXEC);
	char info[48];

	if (fd < 0)
		return false;
	snprintf(info, sizeof(info), "/proc/self/fdinfo/%d", fd);
	return read_mount_id(AT_FDCWD, info, NULL) == mount->mount_id;
}

static int note_held_file(struct shfs_holder *h, const char *path, size_t len)
{
	h->n_files++;
	if (!h->file)
		h->file = strndup(path, len);
	return h->file ? 0 : -ENOMEM;
}

static int note_held_link(struct shfs_holder *h, int procfd, const char *name)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };

	if (shfs_proc_link(procfd, name, &path))
		return 0;
	return note_held_file(h, path.data, path.len);
}

static int look_at_fds(int procfd, const struct shfs_mount *mount, struct shfs_holder *h)
{
	int dirfd = openat(procfd, "fdinfo", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(closedirp) DIR *dir = dirfd < 0 ? NULL : fdopendir(dirfd);
	struct dirent *entry;
	int r = 0;

	if (!dir && dirfd >= 0)
		close(dirfd);
	while (!r && dir && (entry = readdir(dir))) {
		char name[sizeof(entry->d_name) + 4];
		bool only_path;

		if (entry->d_name[0] == '.' ||
		    read_mount_id(dirfd, entry->d_name, &only_path) != mount->mount_id)
			continue;
		if (only_path) { /* such as the daemon of a mount around this one has */
			h->stands = true;
			continue;
		}
		snprintf(name, sizeof(name), "fd/%s", entry->d_name);
		r = note_held_link(h, procfd, name);
	}
	return r;
}

/* Reads the mappings, which stay when their fd is closed: address mode offset major:minor
 * inode path */
static int look_at_maps(int procfd, const struct shfs_mount *mount, struct shfs_holder *h)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	char *rest, *line;
	int r = 0;

	if (shfs_read_file_at(procfd, "maps", MAPS_MAX, &text))
		return 0;
	rest = text.data;
	while (!r && (line = strsep(&rest, "\n"))) {
		unsigned major, minor;
		int path = 0;

		if (sscanf(line, "%*s %*s %*s %x:%x %*u %n", &major, &minor, &path) ==
		            2 &&
		    path && makedev(major, minor) == mount->dev &&
		    (!h->file || strcmp(h->file, line + path) != 0))
			r = note_held_file(h, line + path, strlen(line + path));
	}
	return r;
}

static int add_holder(struct shfs_holders *holders, struct shfs_holder *h)
{
	struct shfs_holder *grown =
		reallocarray(holders->list, holders->n + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	holders->list = grown;
	grown[holders->n++] = *h;
	h->file = NULL;
	return 0;
}

static int look_at_process(pid_t pid, const struct shfs_mount *mount,
                           struct shfs_holders *holders)
{
	_cleanup_close_ int procfd = shfs_proc_open((uint32_t)pid);
	struct shfs_holder h = { .pid = pid };
	struct shfs_proc_stat stat;
	int r;

	if (procfd < 0 || shfs_proc_read_stat(procfd, &stat))
		return 0; /* it has ended */
	memcpy(h.comm, stat.comm, sizeof(h.comm));
	r = look_at_fds(procfd, mount, &h);
	h.stands = h.stands || link_is_inside(procfd, "cwd", mount) ||
	           link_is_inside(procfd, "root", mount);
	if (!r)
		r = look_at_maps(procfd, mount, &h);
	if (!r && (h.stands || h.n_files))
		r = add_holder(holders, &h);
	free(h.file);
	return r;
}

/* Calls look for each process but this one. */
static int for_each_process(const struct shfs_mount *mount, struct shfs_holders *out,
                            int (*look)(pid_t pid, const struct shfs_mount *mount,
                                        struct shfs_holders *holders))
{
	_cleanup_(closedirp) DIR *dir = opendir("/proc");
	_cleanup_holders_ struct shfs_holders holders = { 0 };
	struct dirent *entry;
	int r = 0;

	if (!dir)
		return -errno;
	while (!r && (entry = readdir(dir))) {
		pid_t pid = atoi(entry->d_name);

		if (pid > 0 && pid != getpid())
			r = look(pid, mount, &holders);
	}
	if (r)
		return r;
	*out = holders;
	holders = (struct shfs_holders){ 0 };
	return 0;
}

int shfs_holders_find(const struct shfs_mount *mount, struct shfs_holders *out)
{
	return for_each_process(mount, out, look_at_process);
}

static int look_at_table(pid_t pid, const struct shfs_mount *mount,
                         struct shfs_holders *holders)
{
	_cleanup_close_ int procfd = shfs_proc_open((uint32_t)pid);
	struct shfs_holder h = { .pid = pid };
	struct libmnt_table *table;
	struct shfs_proc_stat stat;
	char path[40];
	bool has_it;

	snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int)pid);
	if (procfd < 0 || shfs_proc_read_stat(procfd, &stat))
		return 0; /* it has ended */
	table = mnt_new_table_from_file(path);
	has_it = table && mnt_table_find_devno(table, mount->dev, MNT_ITER_FORWARD);
	mnt_unref_table(table);
	memcpy(h.comm, stat.comm, sizeof(h.comm));
	return has_it ? add_holder(holders, &h) : 0;
}

int shfs_holders_elsewhere(const struct shfs_mount *mount, struct shfs_holders *out)
{
	return for_each_process(mount, out, look_at_table);
}
