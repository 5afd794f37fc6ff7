/* SPDX-License-Identifier: MIT */
/* The bytes of config.ini: all values stay in their ranges, an error has its line. */
#include "tests/fuzz/fuzz.h"

#include "common/config.h"
#include "common/io.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static void check(const struct shfs_config *cfg)
{
	FUZZ_ASSERT(cfg->wait_ms <= 600000);
	FUZZ_ASSERT(cfg->compression >= 1 && cfg->compression <= 19);
	FUZZ_ASSERT(cfg->ignore && cfg->archive_read && cfg->color);
	fuzz_touch((struct shfs_bytes){ cfg->ignore, strlen(cfg->ignore) });
	FUZZ_ASSERT(!strcmp(cfg->color, "auto") || !strcmp(cfg->color, "always") ||
	            !strcmp(cfg->color, "never"));
}

void fuzz_config(const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = memfd_create("config", MFD_CLOEXEC);
	struct shfs_config cfg;
	char *message = NULL, path[40];
	int r;

	FUZZ_ASSERT(fd >= 0 && shfs_write_all(fd, data, size) == 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	FUZZ_ASSERT(shfs_config_init(&cfg) == 0);
	r = shfs_config_read(&cfg, path, &message);
	FUZZ_ASSERT(r == 0 || r == -EINVAL || r == -EFBIG);
	FUZZ_ASSERT(!r == !message);
	if (r == -EINVAL) {
		FUZZ_ASSERT(!strncmp(message, path, strlen(path)));
		FUZZ_ASSERT(message[strlen(path)] == ':');
		FUZZ_ASSERT(strtol(message + strlen(path) + 1, NULL, 10) > 0);
	}
	check(&cfg);
	free(message);
	shfs_config_free(&cfg);
}
