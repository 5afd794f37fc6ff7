/* SPDX-License-Identifier: MIT */
/* The table of all drivers, in the order in which they are tried. */
#include "kmod-fast-path/drivers/driver.h"

#include <string.h>

extern const struct shfs_driver_ops shfs_driver_module, shfs_driver_bpf,
	shfs_driver_bpf_tracepoints, shfs_driver_fanotify;

const struct shfs_driver_ops *const shfs_drivers[] = {
	&shfs_driver_module,
	&shfs_driver_bpf,
	&shfs_driver_fanotify,
	&shfs_driver_bpf_tracepoints,
	NULL,
};

const struct shfs_driver_ops *shfs_driver_find(const char *name)
{
	for (size_t i = 0; shfs_drivers[i]; i++)
		if (!strcmp(shfs_drivers[i]->name, name))
			return shfs_drivers[i];
	return NULL;
}
