/* SPDX-License-Identifier: MIT */
/* fanotify: the program that each process runs. */
#include "kmod-fast-path/drivers/fanotify-internal.h"

#include "common/clock.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/fanotify.h>

/* Marks the file systems of the usual program directories, which may be others than the
 * root's. */
void fan_programs_mark(struct shfs_driver *d)
{
	static const char *const mounts[] = { "/usr/bin", "/usr/local/bin" };

	for (size_t i = 0; i < ARRAY_SIZE(mounts); i++) {
		struct statfs fs;

		/* the server of a FUSE mount may never answer */
		if (statfs(mounts[i], &fs) || fs.f_type == FUSE_SUPER_MAGIC)
			continue;
		/* if this fails, programs from there may stay unknown */
		(void)fanotify_mark(d->closes_fd, FAN_MARK_ADD | FAN_MARK_FILESYSTEM,
		                    FAN_OPEN_EXEC, AT_FDCWD, mounts[i]);
	}
}

void fan_programs_note(struct shfs_driver *d, uint32_t pid, char *path)
{
	struct fan_program *program = &d->programs[d->n_programs++ % FAN_PROGRAMS];

	free(program->path);
	*program = (struct fan_program){
		.pid = pid,
		.path = path,
		.opened_ns = (uint64_t)shfs_clock_ns(CLOCK_BOOTTIME),
	};
}

/* The dynamic linker: the kernel opens it with each program that needs libraries.
 * ld-linux-*.so.2, ld-musl-*.so.1, ld-2.31.so */
static bool is_linker(const char *path)
{
	const char *name = strrchr(path, '/');

	return name && !strncmp(name, "/ld", 3) && strstr(name, ".so");
}

const char *fan_programs_find(const struct shfs_driver *d, uint32_t pid,
                              uint64_t start_ns)
{
	const char *linker = NULL;

	for (size_t n = 1; n <= MIN(d->n_programs, (size_t)FAN_PROGRAMS); n++) {
		const struct fan_program *program =
			&d->programs[(d->n_programs - n) % FAN_PROGRAMS];

		if (program->pid != pid || !program->path ||
		    program->opened_ns < start_ns)
			continue;
		if (!is_linker(program->path))
			return program->path;
		linker = program->path;
	}
	return linker;
}

void fan_programs_free(struct shfs_driver *d)
{
	for (size_t i = 0; i < FAN_PROGRAMS; i++)
		free(d->programs[i].path);
}
