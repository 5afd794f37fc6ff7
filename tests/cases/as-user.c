/* SPDX-License-Identifier: MIT */
/* Runs a program as a user, in a directory that only this user may see: as-user UID GID
 * DIRECTORY PROGRAM [ARGUMENT...]. Python could do so after a fork, which copies the page
 * tables of all that the tests have in memory, and takes ten times as long. */
#include <err.h>
#include <grp.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 5)
		errx(126, "usage: as-user UID GID DIRECTORY PROGRAM [ARGUMENT...]");
	if (setgroups(0, NULL) || setgid(atoi(argv[2])) || setuid(atoi(argv[1])))
		err(126, "cannot become %s", argv[1]);
	if (chdir(argv[3]))
		err(126, "%s", argv[3]);
	execvp(argv[4], argv + 4);
	err(127, "%s", argv[4]);
}
