/* SPDX-License-Identifier: MIT */
/*
 * turns.h - when writers of one open file take turns, though no system call says so: the
 * commands of a shell that write through its descriptor (exec 3>>log), and the lines that
 * the shell executes itself (echo >&3). Each turn is a writer of its own. For a mount
 * fusefs/watch/writers.c decides, without one kmod-fast-path/recorder/writers.c: they
 * know different things of a writer, and have these times in common.
 */
#pragma once

#include "common/util.h"

/* The shortest time between two lines that are typed, in ns. */
#define SHFS_TURN_TYPED_NS (SHFS_NSEC_PER_SEC / 5)

/* The shortest time between two lines that are pasted, in ns. */
#define SHFS_TURN_PASTED_NS 30000
