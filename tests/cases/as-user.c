/* SPDX-License-Identifier: MIT */
/* Runs a program as a user, in a directory that only this user may see: as-user FD UID
 * GID DIRECTORY PROGRAM [ARGUMENT...]. FD is closed when the program runs. Python could
 * do so after a fork, which copies the page tables of all that the tests have in memory,
 * and takes ten times as long. */
#include <err.h>
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 6)
		errx(126, "usage: as-user FD UID GID DIRECTORY PROGRAM [ARGUMENT...]");
	if (fcntl(atoi(argv[1]), F_SETFD, FD_CLOEXEC))
		err(126, "descriptor %s", argv[1]);
	if (setgroups(0, NULL) || setgid(atoi(argv[3])) || setuid(atoi(argv[2])))
		err(126, "cannot become %s", argv[2]);
	if (chdir(argv[4]))
		err(126, "%s", argv[4]);
	execvp(argv[5], argv + 5);
	err(127, "%s", argv[5]);
}
