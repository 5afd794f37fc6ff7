/* SPDX-License-Identifier: MIT */
#include "query/base/unit.h"

#include "query/base/child.h"

#include "common/buf.h"

#include <stdlib.h>
#include <unistd.h>

enum shfs_unit_state shfs_unit_enable(const char *unit, bool now)
{
	const char *argv[] = {
		"systemctl",          "--user",          "--quiet", "enable",
		now ? "--now" : unit, now ? unit : NULL, NULL
	};
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	_cleanup_buf_ struct shfs_buf manager = { 0 };
	pid_t pid;

	shfs_buf_printf(&manager, "%s/systemd/private", runtime ? runtime : "");
	if (manager.failed || access(manager.data, F_OK))
		return SHFS_UNIT_NO_SYSTEMD;
	pid = shfs_child_start(*argv, argv, SHFS_CHILD_MESSAGES);
	return pid < 0 || shfs_child_wait(pid) ? SHFS_UNIT_REFUSED : SHFS_UNIT_ENABLED;
}
