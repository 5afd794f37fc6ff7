/* SPDX-License-Identifier: MIT */
/*
 * url.h - where a remote on another host is: ssh://[user@]host[:port]/path, and
 * [user@]host:path as scp has it.
 */
#pragma once

#include "common/buf.h"

#define SSH_SCHEME "ssh://"

struct ssh_url {
	char *host;    /* with "user@" */
	char *path;    /* absolute; or it begins at home, or with "~user" */
	unsigned port; /* 0: what ssh takes */
};

void ssh_url_clear(struct ssh_url *url);
#define _cleanup_ssh_url_ _cleanup_(ssh_url_clear)

/* Is it [user@]host:path? As git has it: what has a slash ahead of the colon is a path
 * here. */
bool ssh_url_is_short(const char *text);

/* Makes a URL with a scheme of [user@]host:path: *out, malloc'ed. -EINVAL. */
_must_check_ int ssh_url_of_short(const char *text, char **out);

/* Takes a URL apart. -EINVAL: it is none; also if ssh would take its host for an option.
 */
_must_check_ int ssh_url_parse(const char *text, struct ssh_url *out);
