/* SPDX-License-Identifier: MIT */
#include "tests/unit/unit.h"

#include "common/util.h"

#include <errno.h>
#include <fnmatch.h>
#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#define UNIT_TMPDIRS_MAX 256

/* A forked child of a test must not take its parent's directories away. */
static struct {
	char *path;
	pid_t owner;
} unit_tmpdirs[UNIT_TMPDIRS_MAX];
static size_t unit_n_tmpdirs;
static size_t unit_n_skipped;

static int unit_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	if (remove(path) < 0)
		fprintf(stderr, "cannot remove %s: %s\n", path, strerror(errno));
	return 0;
}

static void unit_remove_tmpdirs(void)
{
	while (unit_n_tmpdirs > 0) {
		unit_n_tmpdirs--;
		if (unit_tmpdirs[unit_n_tmpdirs].owner == getpid())
			nftw(unit_tmpdirs[unit_n_tmpdirs].path, unit_remove, 16,
			     FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
		free(unit_tmpdirs[unit_n_tmpdirs].path);
	}
}

const char *shfs_unit_tmpdir(void)
{
	const char *base = getenv("TMPDIR");
	char *dir = NULL;

	if (unit_n_tmpdirs == UNIT_TMPDIRS_MAX)
		fail_msg("more than %d temporary directories", UNIT_TMPDIRS_MAX);
	if (asprintf(&dir, "%s/shfs-unit-XXXXXX", base && *base ? base : "/tmp") < 0)
		fail_msg("no memory");
	if (!mkdtemp(dir)) {
		free(dir);
		fail_msg("mkdtemp: %s", strerror(errno));
	}
	if (unit_n_tmpdirs == 0)
		atexit(unit_remove_tmpdirs);
	unit_tmpdirs[unit_n_tmpdirs].path = dir;
	unit_tmpdirs[unit_n_tmpdirs++].owner = getpid();
	return dir;
}

int shfs_unit_free_fd(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

void shfs_unit_socketpair(int pair[static 2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
}

void shfs_unit_skipped(const char *why)
{
	unit_n_skipped++;
	fprintf(stderr, "SKIP: %s\n", why);
}

static bool unit_chosen(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (fnmatch(argv[i], name, 0) == 0)
			return true;
	return argc < 2;
}

/* cmocka's own filter takes one pattern and counts what it leaves out as passed. */
static int unit_choose(const struct CMUnitTest *tests, size_t n, int argc, char **argv,
                       struct CMUnitTest *chosen, size_t *n_chosen)
{
	for (int i = 1; i < argc; i++) {
		size_t k = 0;

		while (k < n && fnmatch(argv[i], tests[k].name, 0) != 0)
			k++;
		if (k == n) {
			fprintf(stderr, "%s: no test is called %s\n", argv[0], argv[i]);
			return -ENOENT;
		}
	}
	*n_chosen = 0;
	for (size_t k = 0; k < n; k++)
		if (unit_chosen(tests[k].name, argc, argv))
			chosen[(*n_chosen)++] = tests[k];
	return 0;
}

int shfs_unit_run(const struct CMUnitTest *tests, size_t n, int argc, char **argv)
{
	_cleanup_free_ struct CMUnitTest *chosen = NULL;
	size_t n_chosen;

	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (size_t i = 0; i < n; i++)
			puts(tests[i].name);
		return 0;
	}
	chosen = calloc(n, sizeof(*chosen));
	if (!chosen || unit_choose(tests, n, argc, argv, chosen, &n_chosen) < 0)
		return 2;
	if (_cmocka_run_group_tests(argv[0], chosen, n_chosen, NULL, NULL))
		return 1;
	return unit_n_skipped == n_chosen ? 77 : 0;
}
