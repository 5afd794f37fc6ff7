/* SPDX-License-Identifier: MIT */
/* shfs-helper with the fake driver, for cases/test_helper.py. */
#include "kmod-fast-path/helper/helper.h"
#include "tests/unit/driver_fake.h"

int main(int argc, char **argv)
{
	return shfs_helper_main(argc, argv, shfs_drivers_fake);
}
