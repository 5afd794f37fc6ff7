/* SPDX-License-Identifier: MIT */
/* Replays the corpus of each fuzz target: each file as it is, and a short one cut at up
 * to PLACES lengths and with the byte there changed; what fuzzers made of them (grown/),
 * as it is. */
#include "tests/unit/unit.h"

#include "common/io.h"
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#define CHANGED_MAX 2000 /* bytes of a file that is also changed */

typedef void (*target_fn)(const uint8_t *data, size_t size);

/* The bytes are cut out, so that a sanitizer sees a read behind them. */
static void run(target_fn target, const char *data, size_t size)
{
	uint8_t *exact = malloc(size ? size : 1);

	assert_non_null(exact);
	memcpy(exact, data, size);
	target(exact, size);
	free(exact);
}

static void run_changed(target_fn target, struct shfs_buf *b, size_t places)
{
	size_t step = 1 + b->len / places;

	run(target, b->data, b->len);
	for (size_t i = 0; i < b->len; i += step) {
		char was = b->data[i];

		run(target, b->data, i);
		b->data[i] = (char)~was;
		run(target, b->data, b->len);
		b->data[i] = (char)(was ^ 1 << i % 8);
		run(target, b->data, b->len);
		b->data[i] = was;
	}
}

/* places: 0: as they are. Returns how many there are. */
static unsigned replay_dir(target_fn target, const char *path, size_t places)
{
	DIR *d = opendir(path);
	struct dirent *e;
	unsigned n = 0;

	while (d && (e = readdir(d))) {
		_cleanup_buf_ struct shfs_buf b = { 0 };

		if (e->d_name[0] == '.' || e->d_type == DT_DIR)
			continue;
		assert_int_equal(shfs_read_file_at(dirfd(d), e->d_name, 1 << 20, &b), 0);
		if (places && b.len <= CHANGED_MAX)
			run_changed(target, &b, places);
		else
			run(target, b.data, b.len);
		n++;
	}
	if (d)
		closedir(d);
	return n;
}

static void replay(target_fn target, const char *name, size_t places)
{
	_cleanup_free_ char *path = NULL, *grown = NULL;

	assert_true(asprintf(&path, "%s/%s", FUZZ_CORPUS, name) > 0);
	assert_true(asprintf(&grown, "%s/grown", path) > 0);
	assert_true(replay_dir(target, path, places) > 0);
	replay_dir(target, grown, 0);
}

static void config(void **state)
{
	replay(fuzz_config, "config", 300);
}

static void hooklog(void **state)
{
	replay(fuzz_hooklog, "hooklog", 300);
}

/* each is a store of its own, and an index */
static void import(void **state)
{
	replay(fuzz_import, "import", 3);
}

/* what is damaged is looked at again, after a while */
static void index_damaged(void **state)
{
	replay(fuzz_index, "index", 2);
}

static void needs(void **state)
{
	(void)state;
	replay(fuzz_needs, "needs", 60);
}

static void object(void **state)
{
	replay(fuzz_object, "object", 300);
}

/* a store each: at fewer places but by `./dev test --all` */
static void pack(void **state)
{
	replay(fuzz_pack, "pack", getenv("SHFS_TEST_FAULTS") ? 30 : 10);
}

static void packet(void **state)
{
	replay(fuzz_packet, "packet", 300);
}

static void record(void **state)
{
	replay(fuzz_record, "record", 300);
}

static void redact(void **state)
{
	replay(fuzz_redact, "redact", 100);
}

static void remote(void **state)
{
	replay(fuzz_remote, "remote", 300);
}

static void rules(void **state)
{
	replay(fuzz_rules, "rules", 300);
}

static void s3(void **state)
{
	replay(fuzz_s3, "s3", 300);
}

static void segment(void **state)
{
	replay(fuzz_segment, "segment", 300);
}

static void sftp(void **state)
{
	(void)state;
	replay(fuzz_sftp, "sftp", 300);
}

static void times(void **state)
{
	replay(fuzz_time, "time", 300);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(config), cmocka_unit_test(hooklog),
		cmocka_unit_test(import), cmocka_unit_test(index_damaged),
		cmocka_unit_test(needs),  cmocka_unit_test(object),
		cmocka_unit_test(pack),   cmocka_unit_test(packet),
		cmocka_unit_test(record), cmocka_unit_test(redact),
		cmocka_unit_test(remote), cmocka_unit_test(rules),
		cmocka_unit_test(s3),     cmocka_unit_test(segment),
		cmocka_unit_test(sftp),   cmocka_unit_test(times),
	};

	return shfs_unit_main(tests, argc, argv);
}
