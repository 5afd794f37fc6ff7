/* SPDX-License-Identifier: MIT */
/* secrecy.h - which contents are secret by what they are. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Does the content begin as a private key does (of ssh, TLS, PuTTY, age)? The first 4 KiB
 * suffice. */
bool shfs_is_private_key(const char *data, size_t len);
