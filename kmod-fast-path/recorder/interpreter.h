/* SPDX-License-Identifier: MIT */
/*
 * interpreter.h - the loader that the kernel starts for a program that is linked
 * dynamically. The kernel opens it itself: no system call of the process names it.
 */
#pragma once

/* The path of the loader of the program behind fd, as the program names it, allocated.
 * NULL: it names none, or is no program of this machine. */
char *shfs_interpreter_of(int fd);
