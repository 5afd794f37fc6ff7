/* SPDX-License-Identifier: MIT */
/*
 * mountinfo.h - the text of /proc/PID/mountinfo.
 */
#pragma once

/* Replaces the \ooo escapes of a path, in place. */
static inline void unescape_mountinfo(char *s)
{
	char *to = s;

	for (; *s; s++) {
		if (*s == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] && s[3]) {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 |
			               (s[3] - '0'));
			s += 3;
		} else {
			*to++ = *s;
		}
	}
	*to = '\0';
}
