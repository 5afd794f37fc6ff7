/* SPDX-License-Identifier: MIT */
/*
 * clocks.h - how far the clocks of hosts are from each other, as far as the record shows:
 * a session that a command of another host began (docs/ssh.md) runs while that command
 * runs. If it does not by the clocks of both hosts, they differ.
 *
 * Two hosts may each have begun sessions on the other one, and each of these sets a least
 * and a most for what their clocks differ by. If 0 is between these, the clocks are taken
 * as right; else the middle counts. As NTP does it (RFC 5905, 8), without its statistics.
 */
#pragma once

#include "store/index/index.h"

struct shfs_query;

struct shfs_clocks {
	struct shfs_clock {
		char *host;
		int64_t add_ns; /* to its times, so that they are those of this host */
	} * list;               /* of those that are not right */
	size_t n;
};

/* Finds how clocks differ from that of this host; those of hosts that nothing ties to it
 * count as right. Negative: errno. The caller clears out. */
_must_check_ int shfs_clocks_load(struct shfs_index *index, struct shfs_clocks *out);
void shfs_clocks_clear(struct shfs_clocks *clocks);
#define _cleanup_clocks_ _cleanup_(shfs_clocks_clear)

/* Returns what must be added to the times of a host; 0 if its clock is right. */
int64_t shfs_clocks_add(const struct shfs_clocks *clocks, const char *host);

/* Adds to the statement a time as this host's clock would say it. expr: the time in SQL;
 * column: that of its host. */
void shfs_clocks_query(const struct shfs_clocks *clocks, struct shfs_query *query,
                       const char *expr, const char *column);
