/* SPDX-License-Identifier: MIT */
/* What is recorded of names where there is no memory: it is counted as lost. */
#include "fusefs/operations/operations.h"

#include "tests/unit/unit.h"

#include <errno.h>
#include <string.h>

static unsigned paths, fails_at, emitted, lost;

void __wrap_shfs_node_path(const struct shfs_node *node, const char *name,
                           struct shfs_buf *out);
void __wrap_shfs_node_path(const struct shfs_node *node, const char *name,
                           struct shfs_buf *out)
{
	shfs_buf_add(out, name, strlen(name));
	out->failed = ++paths == fails_at;
}

uint64_t __wrap_shfs_capture_emit(struct shfs_capture *c, struct shfs_record *rec,
                                  struct shfs_snapshot *const content[2]);
uint64_t __wrap_shfs_capture_emit(struct shfs_capture *c, struct shfs_record *rec,
                                  struct shfs_snapshot *const content[2])
{
	return ++emitted;
}

void __wrap_shfs_capture_lose(struct shfs_capture *c, int error);
void __wrap_shfs_capture_lose(struct shfs_capture *c, int error)
{
	assert_int_equal(error, -ENOMEM);
	lost++;
}

static void no_memory_for_a_path(void **state)
{
	struct shfs_rec_pathop op = { .op = SHFS_OP_RENAME };
	struct shfs_node node = { 0 };
	struct shfs_fs fs = { 0 };

	for (fails_at = 0; fails_at <= 2; fails_at++) {
		paths = emitted = lost = 0;
		shfs_emit_pathop2(&fs, 1, &op, &node, "a", &node, "b", NULL);
		assert_int_equal(emitted, !fails_at);
		assert_int_equal(lost, fails_at > 0);
	}
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_memory_for_a_path),
	};

	return shfs_unit_main(tests, argc, argv);
}
