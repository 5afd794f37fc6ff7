/* SPDX-License-Identifier: MIT */
/* The bytes of a program, of which a bundle takes what it needs: only what is there. */
#include "tests/fuzz/fuzz.h"

#include "query/bundle/closure.h"

#include "common/config.h"
#include "common/io.h"

#include <string.h>
#include <unistd.h>

static void check(const struct shfs_closure *c)
{
	for (const struct shfs_closure_file *f = c->files; f; f = f->hh.next) {
		FUZZ_ASSERT(*f->path == '/' && (!f->lies_at || *f->lies_at == '/'));
		FUZZ_ASSERT(f->kind == SHFS_CLOSURE_LINK || !access(f->path, F_OK));
	}
	for (size_t i = 0; i < c->n_missing; i++)
		FUZZ_ASSERT(*c->missing[i].path == '/' && *c->missing[i].why);
}

void fuzz_needs(const uint8_t *data, size_t size)
{
	const char *tmp = getenv("TMPDIR");
	struct shfs_closure *c = NULL;
	struct shfs_config cfg;
	_cleanup_free_ char *path = NULL;
	int fd, r;

	FUZZ_ASSERT(asprintf(&path, "%s/fuzz-needs.XXXXXX", tmp ?: "/tmp") > 0);
	fd = mkstemp(path);
	FUZZ_ASSERT(fd >= 0 && !shfs_write_all(fd, data, size) && !close(fd));
	FUZZ_ASSERT(!shfs_config_init(&cfg) && !shfs_closure_new(NULL, NULL, &cfg, &c));
	r = closure_add_needs(c, path);
	FUZZ_ASSERT(!r);
	check(c);
	shfs_closure_free(c);
	shfs_config_free(&cfg);
	unlink(path);
}
