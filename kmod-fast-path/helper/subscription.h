/* SPDX-License-Identifier: MIT */
/*
 * subscription.h - one connection of the helper, from the order to the end. It has a
 * process of its own: no user's data is within reach of another's, a file system that
 * hangs holds up only its own user, and everything is given back whatever happens.
 */
#pragma once

#include "kmod-fast-path/drivers/driver.h"

/*
 * Serves a connection until the recorder, the driver or a signal (SIGTERM, SIGINT) ends
 * it; the signals are blocked. Returns the exit status. shfs_privilege_begin was called
 * before.
 */
int shfs_subscription_serve(int socket, const struct shfs_driver_ops *const *drivers);

/* Sends READY with the error, once, as far as that can be done without waiting. */
void shfs_helper_refuse(int socket, int error, const char *why);
