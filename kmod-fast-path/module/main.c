// SPDX-License-Identifier: GPL-2.0-only
/* shfs.ko: reports to a reader what happens below a directory, see device.h. */
#include <linux/miscdevice.h>
#include <linux/module.h>

#include "shfs.h"

int shfs_ftrace_on(struct shfs_ftrace *ftrace, ftrace_func_t func)
{
	int r;

	ftrace->ops.func = func;
	ftrace->ops.flags = SHFS_FTRACE_FLAGS;
	r = ftrace_set_filter(&ftrace->ops, (unsigned char *)ftrace->name,
			      strlen(ftrace->name), 0);
	if (!r)
		r = register_ftrace_function(&ftrace->ops);
	ftrace->on = !r;
	return r;
}

void shfs_ftrace_off(struct shfs_ftrace *ftrace)
{
	if (ftrace->on)
		unregister_ftrace_function(&ftrace->ops);
	ftrace->on = false;
	/* like ftrace_free_filter, which 5.10 does not export */
	ftrace_set_filter(&ftrace->ops, NULL, 0, 1);
}

static struct miscdevice misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "shfs",
	.mode = 0600,
	.fops = &shfs_device,
};

static void unhook(void)
{
	shfs_file_unhook();
	shfs_process_unhook();
	shfs_name_unhook();
}

static int __init shfs_init(void)
{
	int r;

	BUILD_BUG_ON(SHFS_DEVICE_HEADER_BYTES % PAGE_SIZE);
	r = shfs_name_hook();
	if (!r)
		r = shfs_process_hook();
	if (!r)
		r = shfs_file_hook();
	if (!r)
		r = misc_register(&misc);
	if (r)
		unhook();
	return r;
}

static void __exit shfs_exit(void)
{
	misc_deregister(&misc);
	unhook();
	/* waits for the writers that call_rcu() frees */
	rcu_barrier();
}

module_init(shfs_init);
module_exit(shfs_exit);

MODULE_DESCRIPTION("Tells what happens to files below a directory, and by whom");
MODULE_LICENSE("GPL");
