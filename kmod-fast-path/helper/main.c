/* SPDX-License-Identifier: MIT */
/* shfs-helper: learns as root from the kernel what happens to a user's files. */
#include "kmod-fast-path/helper/helper.h"

int main(int argc, char **argv)
{
	return shfs_helper_main(argc, argv, shfs_drivers);
}
