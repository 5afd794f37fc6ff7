/* SPDX-License-Identifier: MIT */
#include "fusefs/takeover/again.h"

#include "common/clock.h"

#include <inttypes.h>
#include <stdio.h>

#define RECENT_NS (60 * SHFS_NSEC_PER_SEC)

bool shfs_again_count(struct shfs_again *again, int64_t now_ns)
{
	/* the count begins anew also if the clock was set back */
	if (now_ns - again->recent_ns >= RECENT_NS || now_ns < again->recent_ns) {
		again->recent_ns = now_ns;
		again->recent = 0;
	}
	again->count++;
	again->last_ns = now_ns;
	return ++again->recent <= SHFS_AGAIN_MAX;
}

void shfs_again_write(const struct shfs_again *again,
                      char text[static SHFS_AGAIN_TEXT_MAX])
{
	snprintf(text, SHFS_AGAIN_TEXT_MAX, "%u,%" PRId64 ",%u,%" PRId64, again->count,
	         again->last_ns, again->recent, again->recent_ns);
}

bool shfs_again_read(struct shfs_again *again, const char *text)
{
	char rest;

	return sscanf(text, "%u,%" SCNd64 ",%u,%" SCNd64 "%c", &again->count,
	              &again->last_ns, &again->recent, &again->recent_ns, &rest) == 4;
}
