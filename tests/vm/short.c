/* SPDX-License-Identifier: MIT */
/* Files that live for a moment: short DIR COUNT. Each has its number as name and content.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char name[16];

	if (argc < 3 || chdir(argv[1]))
		return 2;
	for (int i = 0; i < atoi(argv[2]); i++) {
		ssize_t len = snprintf(name, sizeof(name), "%d", i);
		int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644);

		if (fd < 0 || write(fd, name, (size_t)len) != len || close(fd) ||
		    unlink(name))
			return 1;
	}
	return 0;
}
