/* SPDX-License-Identifier: MIT */
/* unit.h - the units of shfs in the user's systemd. */
#pragma once

#include <stdbool.h>

enum shfs_unit_state {
	SHFS_UNIT_ENABLED,
	SHFS_UNIT_NO_SYSTEMD, /* none runs for this user */
	SHFS_UNIT_REFUSED,    /* systemctl has said why on standard error */
};

/* Has it started at each login; now: also at once. */
enum shfs_unit_state shfs_unit_enable(const char *unit, bool now);
