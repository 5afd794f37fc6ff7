/* SPDX-License-Identifier: MIT */
/* Tests of store/index/version.c. */
#include "tests/unit/indexkit.h"

/* The versions of all files: path, number, size (the length of the text), source, origin,
 * "carried". */
#define VERSIONS                                                                         \
	"SELECT replace(v.path, '" KIT_ROOT "/', '') || '@' || v.n || ' ' || v.size ||"  \
	" ' ' || v.source || coalesce(' ' || replace(o.path, '" KIT_ROOT "/', '') ||"    \
	" '@' || o.n, '') || CASE v.carried WHEN 1 THEN ' carried' ELSE '' END"          \
	" FROM v_version v LEFT JOIN v_version o ON o.version_id = v.origin_version_id"  \
	" ORDER BY v.path, v.n"

/* What each access saw and made. */
#define LINKS                                                                            \
	"SELECT a.op || ' ' || coalesce(v.n, '-') || ' ' || coalesce(w.n, '-')"          \
	" FROM v_access a LEFT JOIN v_version v ON v.version_id = a.seen_version_id"     \
	" LEFT JOIN v_version w ON w.version_id = a.made_version_id ORDER BY a.seq_key"

#define PRESENT                                                                          \
	"SELECT replace(path, '" KIT_ROOT "/', '') || ' ' || present FROM v_file"        \
	" ORDER BY path"

static uint64_t start(struct kit *k)
{
	kit_open(k);
	kit_mount(k);
	return kit_process(k, 501, 2000, 500, 1000);
}

static void check_versions(struct kit *k, const char *expected)
{
	kit_ingest(k);
	assert_string_equal(kit_ask(k, 1, VERSIONS), expected);
}

static void check_rebuild(struct kit *k)
{
	_cleanup_free_ char *before = kit_dump(k), *after = NULL;

	assert_ok(shfs_index_rebuild(k->store, NULL, NULL));
	after = kit_dump(k);
	assert_string_equal(before, after);
}

static void test_numbers(void **state)
{
	struct kit k;
	uint64_t p = start(&k);

	kit_write(&k, p, "f", 2010, kit_content(&k, "1", 2010));
	kit_write(&k, p, "f", 2020, kit_content(&k, "22", 2020));
	kit_write(&k, p, "f", 2030, kit_content(&k, "22", 2030)); /* nothing new */
	kit_write(&k, p, "f", 2040,
	          kit_content(&k, "1", 2040)); /* back again: a version */
	check_versions(&k, "f@1 1 written\nf@2 2 written\nf@3 1 written");
	assert_string_equal(kit_ask(&k, 1, LINKS),
	                    "open - 1\nopen - 2\nopen - 2\nopen - 3");
	check_rebuild(&k);
	kit_close(&k);
}

static void test_found(void **state)
{
	struct kit k;
	uint64_t p = start(&k);

	kit_read(&k, p, "old", 2010, kit_print(&k, "1", 1000));
	kit_read(&k, p, "old", 2015, kit_print(&k, "1", 1000));
	kit_preimage(&k, p, "old", 2020, kit_content(&k, "1", 1000)); /* now archived */
	kit_write(&k, p, "old", 2030, kit_content(&k, "22", 2030));
	kit_preimage(&k, p, "new", 2040,
	             kit_content(&k, "333", 99999)); /* of the future */
	check_versions(&k, "new@1 3 found\nold@1 1 found\nold@2 2 written");
	assert_string_equal(kit_ask(&k, 2,
	                            "SELECT object IS NULL, access_id IS NULL"
	                            " FROM v_version WHERE n = 1 AND path LIKE '%old'"),
	                    "0|1");
	assert_int_equal(strtoll(kit_ask(&k, 1,
	                                 "SELECT time_ns FROM v_version WHERE n = 1"
	                                 " AND path LIKE '%old'"),
	                         NULL, 10),
	                 kit_time(&k, 1000).real_ns);
	assert_int_equal(strtoll(kit_ask(&k, 1,
	                                 "SELECT time_ns FROM v_version"
	                                 " WHERE path LIKE '%new'"),
	                         NULL, 10),
	                 kit_time(&k, 2040).real_ns);
	check_rebuild(&k);
	kit_close(&k);
}

/* A reader that opened before a writer has its record after it. */
static void test_late_read(void **state)
{
	struct kit k;
	uint64_t p = start(&k);

	kit_write(&k, p, "f", 2010, kit_content(&k, "1", 2010));
	kit_write(&k, p, "f", 2020, kit_content(&k, "22", 2020));
	kit_read(&k, p, "f", 2015, kit_content(&k, "1", 2010));
	kit_read(&k, p, "f", 2016, kit_print(&k, "1", 2010));
	/* the same content as a preimage is what the file holds now: it came back */
	kit_preimage(&k, p, "f", 2030, kit_content(&k, "1", 2025));
	check_versions(&k, "f@1 1 written\nf@2 2 written\nf@3 1 found");
	assert_string_equal(kit_ask(&k, 1, LINKS),
	                    "open - 1\nopen - 2\nopen 1 -\nopen 1 -");
	kit_close(&k);
}

/* A writer's record has the content at its close, which another may have made since: it
 * says more than the time of its own write does. What was seen before that is no news. */
static void test_seen_before_another_wrote(void **state)
{
	struct kit k;
	uint64_t p = start(&k);

	kit_write(&k, p, "f", 2010, kit_content(&k, "1", 2010));
	kit_write(&k, p, "f", 2020, kit_content(&k, "22", 2040));
	kit_read(&k, p, "f", 2045, kit_content(&k, "1", 2010));
	check_versions(&k, "f@1 1 written\nf@2 2 written");
	assert_string_equal(kit_ask(&k, 1, LINKS), "open - 1\nopen - 2\nopen 1 -");
	kit_close(&k);
}

/* One that ends after another file was renamed over its path saw what had that name. */
static void test_late_read_of_a_name(void **state)
{
	struct kit k;
	uint64_t p = start(&k);
	struct shfs_content early = kit_content(&k, "22", 2011),
			    made = kit_content(&k, "4444", 2050),
			    unknown = kit_content(&k, "55555", 2017),
			    large = kit_print(&k, "too large", 2012), touched = large;

	kit_write(&k, p, "out", 2010, kit_content(&k, "1", 2010));
	kit_write(&k, p, "draft", 2011, early);
	kit_write(&k, p, "draft", 2020, kit_content(&k, "333", 2020));
	kit_rename(&k, p, "draft", "out", 2030);
	kit_access(&k, p, "out", 2015, 2040, SHFS_ACCESS_READ, &early, NULL);
	/* one access has one path */
	kit_access(&k, p, "out", 2016, 2050, SHFS_ACCESS_READ | SHFS_ACCESS_WRITTEN,
	           &early, &made);
	/* of no version that is known, and older than the last change */
	kit_access(&k, p, "out", 2017, 2060, SHFS_ACCESS_READ, &unknown, NULL);
	check_versions(&k, "draft@1 2 written\ndraft@2 3 written\nout@1 1 written\n"
	                   "out@2 3 renamed draft@2\nout@3 4 written");
	assert_string_equal(kit_ask(&k, 1, LINKS " LIMIT 3 OFFSET 4"),
	                    "open 1 -\nopen - 3\nopen - -");
	assert_string_equal(kit_ask(&k, 1,
	                            "SELECT name FROM v_access a JOIN v_path USING"
	                            " (file_id) WHERE is_read ORDER BY seq_key"),
	                    "draft\nout\nout");
	/* what was not archived is known by its times, which were set meanwhile */
	kit_write(&k, p, "big", 2012, large);
	touched.mtime_ns = touched.ctime_ns = kit_time(&k, 2070).real_ns;
	kit_pathop(&k, p, SHFS_OP_UTIMES, "big", NULL, 2070, &touched, NULL, false);
	kit_write(&k, p, "big", 2090, kit_print(&k, "larger than it", 2090));
	kit_access(&k, p, "big", 2065, 2095, SHFS_ACCESS_READ, &large, NULL);
	kit_access(&k, p, "big", 2075, 2095, SHFS_ACCESS_READ, &touched, NULL);
	kit_ingest(&k);
	assert_string_equal(kit_ask(&k, 1, LINKS " LIMIT 5 OFFSET 10"),
	                    "open 1 -\nopen 1 -");
	check_rebuild(&k);
	kit_close(&k);
}

/* What came back beneath is what the file holds now, also where it was so before. */
static void test_came_back_beneath(void **state)
{
	struct kit k;
	uint64_t p = start(&k);

	kit_write(&k, p, "f", 2010, kit_content(&k, "1", 2010));
	kit_write(&k, p, "f", 2020, kit_content(&k, "22", 2020));
	kit_read(&k, p, "f", 2030, kit_content(&k, "1", 2025));
	check_versions(&k, "f@1 1 written\nf@2 2 written\nf@3 1 found");
	/* told by another producer, which may be of another host with another clock */
	kit_umount(&k);
	kit_mount(&k);
	p = kit_process(&k, 501, 2000, 500, 1000);
	kit_read(&k, p, "f", 2040, kit_content(&k, "22", 2020));
	check_versions(&k, "f@1 1 written\nf@2 2 written\nf@3 1 found");
	kit_read(&k, p, "f", 2050, kit_content(&k, "22", 2045));
	check_versions(&k, "f@1 1 written\nf@2 2 written\nf@3 1 found\nf@4 2 found");
	kit_close(&k);
}

/* Without objects, size, mtime and hash decide. */
static void test_fingerprints(void **state)
{
	struct kit k;
	uint64_t p = start(&k);

	kit_read(&k, p, "f", 2010, kit_print(&k, "aa", 1000));
	kit_read(&k, p, "f", 2020, kit_print(&k, "aa", 1001));   /* another mtime */
	kit_read(&k, p, "f", 2030, kit_print(&k, "bb", 1001));   /* another hash */
	kit_read(&k, p, "f", 2040, kit_content(&k, "bb", 1001)); /* and now archived */
	check_versions(&k, "f@1 2 found\nf@2 2 found\nf@3 2 found");
	assert_string_equal(kit_ask(&k, 1,
	                            "SELECT object IS NOT NULL FROM v_version"
	                            " ORDER BY n"),
	                    "0\n0\n1");
	kit_close(&k);
}

/* A file outside is judged by size and mtime; a link by its text. */
static void test_named(void **state)
{
	struct shfs_content c, link = { .flags = SHFS_CONTENT_KNOWN | SHFS_CONTENT_PHASH,
		                        .mode = 0120777,
		                        .size = 3,
		                        .phash = 7 };
	struct kit k;
	uint64_t p = start(&k);
	uint32_t flags = SHFS_ACCESS_READ | SHFS_ACCESS_NAMED;

	c = kit_print(&k, "1", 1000);
	kit_access(&k, p, "/data/x", 2010, 2010, flags, &c, NULL);
	c.ctime_ns += 500; /* another mode */
	kit_access(&k, p, "/data/x", 2020, 2020, flags, &c, NULL);
	c = kit_print(&k, "2", 2025);
	kit_access(&k, p, "/data/x", 2030, 2030, flags, &c, NULL);
	link.mtime_ns = link.ctime_ns = kit_time(&k, 1000).real_ns;
	kit_access(&k, p, "link", 2040, 2040, flags, &link, NULL);
	link.mtime_ns = link.ctime_ns = kit_time(&k, 2045).real_ns;
	link.phash = 8;
	kit_access(&k, p, "link", 2050, 2050, flags, &link, NULL);
	c = kit_print(&k, "2", 2025);
	c.flags |= SHFS_CONTENT_WHOLE; /* it says nothing beside one of samples */
	c.phash++;
	kit_access(&k, p, "/data/x", 2052, 2052, flags, &c, NULL);
	/* none of these is right */
	kit_access(&k, p, "/data/y", 2060, 2060, SHFS_ACCESS_READ, &c, NULL);
	kit_access(&k, p, "/data/y", 2060, 2060, flags | SHFS_ACCESS_WRITTEN, &c, &c);
	kit_access(&k, p, "/data/../y", 2060, 2060, flags, &c, NULL);
	kit_access(&k, p, "/", 2060, 2060, flags, &c, NULL);
	check_versions(&k, "/data/x@1 1 found\n/data/x@2 1 found\n"
	                   "link@1 3 found\nlink@2 3 found");
	assert_string_equal(kit_ask(&k, 1, "SELECT group_concat(seen_n) FROM v_access"),
	                    "1,1,2,1,2,2");
	check_rebuild(&k);
	kit_close(&k);
}

/* touch(1) is no new content, nor is the same content written again. */
static void test_touched(void **state)
{
	struct kit k;
	uint64_t p = start(&k);

	kit_read(&k, p, "f", 2010, kit_print(&k, "aa", 1000));
	kit_pathop(&k, p, SHFS_OP_UTIMES, "f", NULL, 2020, NULL, NULL, false);
	kit_read(&k, p, "f", 2030, kit_print(&k, "aa", 2020));
	kit_read(&k, p, "f", 2040, kit_print(&k, "aa", 2020));
	kit_write(&k, p, "g", 2050, kit_content(&k, "bb", 2050));
	kit_write(&k, p, "g", 2060, kit_content(&k, "bb", 2060));
	kit_read(&k, p, "g", 2070, kit_print(&k, "bb", 2060));
	kit_pathop(&k, p, SHFS_OP_UTIMES, "g", NULL, 2080, NULL, NULL, false);
	kit_read(&k, p, "g", 2090, kit_print(&k, "cc", 2080)); /* but this is one */
	check_versions(&k, "f@1 2 found\ng@1 2 written\ng@2 2 found");
	check_rebuild(&k);
	kit_close(&k);
}

/* --- without objects, only what is proven to be unchanged is the same --- */

/* A fingerprint of another time, of a file that looks the same but for its ctime. */
static struct shfs_content later(const struct kit *k, struct shfs_content c,
                                 double ctime_ms)
{
	c.ctime_ns = kit_time(k, ctime_ms).real_ns;
	return c;
}

static uint64_t remount(struct kit *k)
{
	kit_umount(k);
	kit_mount(k);
	return kit_process(k, 501, 2000, 500, 1000);
}

static void utimes(struct kit *k, uint64_t p, const char *path, double ms, double mtime)
{
	struct shfs_content after = later(k, kit_print(k, "", mtime), ms);

	kit_pathop(k, p, SHFS_OP_UTIMES, path, NULL, ms, &after, NULL, false);
}

/* A byte that no fingerprint has was changed beneath, and the mtime set back: what was
 * read must not become what is there now. */
static void test_changed_unseen(void **state)
{
	struct kit k;
	uint64_t p = start(&k);

	kit_read(&k, p, "f", 2010, kit_print(&k, "aa", 1000));
	p = remount(&k);
	kit_preimage(&k, p, "f", 2100, later(&k, kit_content(&k, "aa", 1000), 2050));
	check_versions(&k, "f@1 2 found\nf@2 2 found");
	assert_string_equal(kit_ask(&k, 1,
	                            "SELECT object IS NOT NULL FROM v_version"
	                            " ORDER BY n"),
	                    "0\n1");
	check_rebuild(&k);
	kit_close(&k);
}

static void test_unchanged_over_mounts(void **state)
{
	struct kit k;
	uint64_t p = start(&k);

	kit_read(&k, p, "f", 2010, kit_print(&k, "aa", 1000));
	kit_write(&k, p, "g", 2020, kit_content(&k, "bb", 2020));
	for (int i = 1; i <= 3; i++) {
		p = remount(&k);
		kit_read(&k, p, "f", 2100 * i, kit_print(&k, "aa", 1000));
		kit_read(&k, p, "g", 2100 * i, kit_print(&k, "bb", 2020));
	}
	kit_preimage(&k, p, "f", 9000, kit_content(&k, "aa", 1000));
	check_versions(&k, "f@1 2 found\ng@1 2 written");
	check_rebuild(&k);
	kit_close(&k);
}

/* git checkout, unpacking: the same bytes for all we know, but written anew. */
static void test_written_beneath(void **state)
{
	struct kit k;
	uint64_t p = start(&k);

	kit_write(&k, p, "f", 2010, kit_content(&k, "aa", 2010));
	p = remount(&k);
	kit_read(&k, p, "f", 2100, kit_print(&k, "aa", 2050));
	/* its bytes tell: nothing is lost by the doubt */
	kit_preimage(&k, p, "f", 2110, kit_content(&k, "aa", 2050));
	check_versions(&k, "f@1 2 written\nf@2 2 found");
	assert_string_equal(kit_ask(&k, 1,
	                            "SELECT count(DISTINCT object) FROM v_version"),
	                    "1");
	kit_close(&k);
}

/* What a mount changes of a file that it has seen sets the ctime, and says so. */
static void test_attributes(void **state)
{
	static const enum shfs_pathop ops[] = { SHFS_OP_CHMOD, SHFS_OP_CHOWN,
		                                SHFS_OP_XATTR };
	struct kit k;
	uint64_t p = start(&k);

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		struct shfs_content c = kit_print(&k, "aa", 1000), after;
		char name[2] = { 'a' + i };

		kit_read(&k, p, name, 2010, c);
		after = later(&k, c, 2020);
		kit_pathop(&k, p, ops[i], name, NULL, 2020,
		           ops[i] == SHFS_OP_XATTR ? NULL : &after, NULL, false);
		after = later(&k, c, 2030);
		kit_pathop(&k, p, ops[i], name, NULL, 2030,
		           ops[i] == SHFS_OP_XATTR ? NULL : &after, NULL, false);
		kit_read(&k, p, name, 2040, c); /* known from before */
		kit_read(&k, p, name, 2040, later(&k, c, 2020));
		kit_read(&k, p, name, 2040, later(&k, c, 2030));
	}
	kit_read(&k, p, "t", 2010, kit_print(&k, "tt", 1000));
	utimes(&k, p, "t", 2020, 500);
	kit_read(&k, p, "t", 2030, kit_print(&k, "tt", 1000));
	kit_read(&k, p, "t", 2030, later(&k, kit_print(&k, "tt", 500), 2020));
	utimes(&k, p, "t", 2040, 600);
	p = remount(&k);
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		char name[2] = { 'a' + i };

		kit_read(&k, p, name, 2100, later(&k, kit_print(&k, "aa", 1000), 2030));
	}
	kit_read(&k, p, "t", 2100, later(&k, kit_print(&k, "tt", 600), 2040));
	check_versions(&k, "a@1 2 found\nb@1 2 found\nc@1 2 found\nt@1 2 found");
	check_rebuild(&k);
	kit_close(&k);
}

/* But not of a file that this mount has not seen: it may have changed before. */
static void test_attributes_of_the_unseen(void **state)
{
	struct shfs_content c;
	struct kit k;
	uint64_t p = start(&k);

	c = kit_print(&k, "aa", 1000);
	kit_read(&k, p, "f", 2010, c);
	p = remount(&k);
	c = later(&k, c, 2110);
	kit_pathop(&k, p, SHFS_OP_CHMOD, "f", NULL, 2110, &c, NULL, false);
	kit_read(&k, p, "f", 2120, c);
	check_versions(&k, "f@1 2 found\nf@2 2 found");
	kit_close(&k);
}

/* Nor where records were lost, or between the beginning of a change and its end. */
static void test_attributes_after_a_gap(void **state)
{
	struct shfs_record lost = { .type = SHFS_REC_LOST, .lost = { .count = 1 } };
	struct shfs_content c, after;
	struct kit k;
	uint64_t p = start(&k);

	c = kit_print(&k, "aa", 1000);
	after = later(&k, c, 2020);
	kit_read(&k, p, "f", 2010, c);
	kit_append(&k, &lost);
	kit_pathop(&k, p, SHFS_OP_CHMOD, "f", NULL, 2020, &after, NULL, false);
	kit_read(&k, p, "f", 2030, after);
	kit_preimage(&k, p, "g", 2040, c);
	kit_pathop(&k, p, SHFS_OP_CHMOD, "g", NULL, 2050, &after, NULL, false);
	kit_read(&k, p, "g", 2060, after);
	check_versions(&k, "f@1 2 found\nf@2 2 found\ng@1 2 found\ng@2 2 found");
	check_rebuild(&k);
	kit_close(&k);
}

/* A rename and a link set the ctime of the file too. */
static void test_names_and_ctime(void **state)
{
	struct shfs_content c;
	struct kit k;
	uint64_t p = start(&k);

	c = kit_print(&k, "aa", 1000);
	kit_pathop(&k, p, SHFS_OP_RENAME, "a", "b", 2020, &c, NULL, false);
	kit_read(&k, p, "l", 2010, c);
	kit_pathop(&k, p, SHFS_OP_LINK, "l", "m", 2020, &c, NULL, false);
	p = remount(&k);
	c = later(&k, c, 2020);
	kit_read(&k, p, "b", 2100, c);
	kit_read(&k, p, "l", 2100, c);
	kit_read(&k, p, "m", 2100, c);
	check_versions(&k, "a@1 2 found\nb@1 2 found a@1 carried\n"
	                   "l@1 2 found\nm@1 2 linked l@1");
	check_rebuild(&k);
	kit_close(&k);
}

/* Too large to be kept, written, and its times set back before the close. */
static void test_written_and_set_back(void **state)
{
	struct shfs_content c;
	struct kit k;
	uint64_t p = start(&k);

	c = kit_print(&k, "aa", 1000);
	kit_write(&k, p, "f", 2010, c);
	utimes(&k, p, "f", 2020, 1000);
	kit_write(&k, p, "f", 2030, later(&k, c, 2020));
	kit_write(&k, p, "f", 2030, later(&k, c, 2020)); /* a second writer */
	kit_write(&k, p, "f", 2040, later(&k, c, 2040));
	check_versions(&k, "f@1 2 written\nf@2 2 written\nf@3 2 written");
	kit_close(&k);
}

/* Another file took the name, of which nothing is known. */
static void test_another_file(void **state)
{
	struct shfs_content c, other;
	struct kit k;
	uint64_t p = start(&k);

	c = kit_print(&k, "aa", 1000);
	other = later(&k, c, 2030);
	kit_read(&k, p, "f", 2010, c);
	kit_rename(&k, p, "unknown", "f", 2020);
	kit_pathop(&k, p, SHFS_OP_CHMOD, "f", NULL, 2030, &other, NULL, false);
	kit_read(&k, p, "f", 2040, other);
	check_versions(&k, "f@1 2 found\nf@2 2 found");
	kit_close(&k);
}

/* Nobody knows what an incomplete content was: two are never the same version, unless it
 * is one capture in the records of two writers. */
static void test_incomplete(void **state)
{
	struct kit k;
	uint64_t p = start(&k);
	struct shfs_content torn = kit_content(&k, "torn", 2010);

	torn.flags |= SHFS_CONTENT_INCOMPLETE;
	kit_write(&k, p, "f", 2010, torn);
	kit_write(&k, p, "f", 2010, torn);
	torn.ctime_ns++;
	kit_write(&k, p, "f", 2020, torn);
	torn.flags &= ~SHFS_CONTENT_INCOMPLETE;
	kit_write(&k, p, "f", 2030, torn);
	check_versions(&k, "f@1 4 written\nf@2 4 written\nf@3 4 written");
	kit_close(&k);
}

static void test_not_regular(void **state)
{
	struct kit k;
	uint64_t p = start(&k);
	struct shfs_content c = kit_print(&k, "", 2010);

	c.mode = 0010644;
	kit_read(&k, p, "fifo", 2010, c);
	c.mode = 0100644;
	c.flags |= SHFS_CONTENT_SKIP_TYPE;
	kit_read(&k, p, "device", 2010, c);
	check_versions(&k, "");
	assert_string_equal(kit_ask(&k, 1, "SELECT accesses FROM v_stats"), "2");
	kit_close(&k);
}

/* mv a b: b is new, so it has a's past; a is gone, and its number goes on. */
static void test_move(void **state)
{
	struct kit k;
	uint64_t p = start(&k);

	kit_write(&k, p, "a", 2010, kit_content(&k, "1", 2010));
	kit_write(&k, p, "a", 2020, kit_content(&k, "22", 2020));
	kit_rename(&k, p, "a", "b", 2030);
	check_versions(&k, "a@1 1 written\na@2 2 written\n"
	                   "b@1 1 written a@1 carried\nb@2 2 written a@2 carried");
	assert_string_equal(kit_ask(&k, 1, PRESENT), "a 0\nb 1");
	assert_string_equal(kit_ask(&k, 1, LINKS), "open - 1\nopen - 2\nrename 2 2");
	/* the makers are those of a */
	assert_string_equal(kit_ask(&k, 1,
	                            "SELECT count(*) FROM v_version b JOIN v_version a ON"
	                            " a.version_id = b.origin_version_id"
	                            " AND a.access_id = b.access_id"),
	                    "2");
	kit_write(&k, p, "a", 2040, kit_content(&k, "333", 2040));
	kit_write(&k, p, "b", 2050, kit_content(&k, "4444", 2050));
	check_versions(&k, "a@1 1 written\na@2 2 written\na@3 3 written\n"
	                   "b@1 1 written a@1 carried\nb@2 2 written a@2 carried\n"
	                   "b@3 4 written");
	assert_string_equal(kit_ask(&k, 1, PRESENT), "a 1\nb 1");
	assert_string_equal(kit_ask(&k, 1, "SELECT versions FROM v_stats"), "4");
	check_rebuild(&k);
	kit_close(&k);
}

/* sed -i, and how editors save: a temporary file is renamed over the old one. */
static void test_save_by_rename(void **state)
{
	struct kit k;
	uint64_t p = start(&k);
	struct shfs_content old = kit_content(&k, "1", 1000),
			    new = kit_content(&k, "22", 2010);

	kit_write(&k, p, "sedXY", 2010, new);
	kit_pathop(&k, p, SHFS_OP_RENAME, "sedXY", "conf", 2020, &new, &old, false);
	check_versions(&k, "conf@1 1 found\nconf@2 2 renamed sedXY@1\nsedXY@1 2 written");
	assert_string_equal(kit_ask(&k, 1, PRESENT), "conf 1\nsedXY 0");
	/* the same content saved so again is no new version */
	new.mtime_ns++;
	kit_write(&k, p, "sedZZ", 2030, new);
	kit_pathop(&k, p, SHFS_OP_RENAME, "sedZZ", "conf", 2040, &new, NULL, false);
	check_versions(&k, "conf@1 1 found\nconf@2 2 renamed sedXY@1\nsedXY@1 2 written\n"
	                   "sedZZ@1 2 written");
	assert_string_equal(kit_ask(&k, 1, LINKS),
	                    "open - 1\nrename 1 2\nopen - 1\nrename 1 2");
	kit_close(&k);
}

/* vim with a backup: the file is renamed away, and written anew. */
static void test_backup_rename(void **state)
{
	struct kit k;
	uint64_t p = start(&k);

	for (int i = 0; i < 3; i++) {
		static const char *const texts[] = { "1", "22", "333" };
		double t = 2000 + 100 * i;
		struct shfs_content now = kit_content(&k, i ? texts[i - 1] : "", t - 90);

		kit_pathop(&k, p, SHFS_OP_RENAME, "conf", "conf~", t, &now, NULL, false);
		kit_write(&k, p, "conf", t + 10, kit_content(&k, texts[i], t + 10));
		kit_pathop(&k, p, SHFS_OP_UNLINK, "conf~", NULL, t + 20, NULL, &now,
		           false);
	}
	check_versions(&k, "conf@1 0 found\nconf@2 1 written\nconf@3 2 written\n"
	                   "conf@4 3 written\n"
	                   "conf~@1 0 found conf@1 carried\nconf~@2 1 renamed conf@2\n"
	                   "conf~@3 2 renamed conf@3");
	assert_string_equal(kit_ask(&k, 1, PRESENT), "conf 1\nconf~ 0");
	check_rebuild(&k);
	kit_close(&k);
}

/* What was only recognised as it was moved, and stored as that was removed. */
static void test_stored_by_another_name(void **state)
{
	static const char *const stored =
		"SELECT replace(path, '" KIT_ROOT "/', '') || ' ' || (object IS NOT NULL)"
		" FROM v_version ORDER BY path, n";
	struct kit k;
	uint64_t p = start(&k);
	struct shfs_content c = kit_content(&k, "1", 1000), seen = c;

	seen.flags &= ~SHFS_CONTENT_OBJECT;
	kit_pathop(&k, p, SHFS_OP_RENAME, "a", "b", 2000, &seen, NULL, false);
	kit_pathop(&k, p, SHFS_OP_RENAME, "b", "c", 2010, &seen, NULL, false);
	kit_write(&k, p, "a", 2020, kit_content(&k, "22", 2020));
	kit_ingest(&k);
	assert_string_equal(kit_ask(&k, 1, stored), "a 0\na 1\nb 0\nc 0");
	kit_pathop(&k, p, SHFS_OP_UNLINK, "c", NULL, 2030, NULL, &c, false);
	kit_ingest(&k);
	assert_string_equal(kit_ask(&k, 1, stored), "a 1\na 1\nb 1\nc 1");
	check_rebuild(&k);
	kit_close(&k);
}

static void test_unlink(void **state)
{
	struct kit k;
	uint64_t p = start(&k);
	struct shfs_content c = kit_content(&k, "1", 1000);

	kit_pathop(&k, p, SHFS_OP_UNLINK, "f", NULL, 2010, NULL, &c, false);
	/* a use that began before and ended after does not bring it back */
	kit_access(&k, p, "f", 2005, 2020, SHFS_ACCESS_READ, &c, NULL);
	check_versions(&k, "f@1 1 found");
	assert_string_equal(kit_ask(&k, 1, PRESENT), "f 0");
	assert_string_equal(kit_ask(&k, 1, LINKS), "unlink 1 -\nopen 1 -");
	kit_write(&k, p, "f", 2030, kit_content(&k, "22", 2030));
	check_versions(&k, "f@1 1 found\nf@2 2 written");
	assert_string_equal(kit_ask(&k, 1, PRESENT), "f 1");
	kit_close(&k);
}

static void test_link(void **state)
{
	struct kit k;
	uint64_t p = start(&k);
	struct shfs_content c = kit_content(&k, "22", 2020);
	const struct shfs_content changing = { .flags = SHFS_CONTENT_CHANGING };

	kit_write(&k, p, "a", 2010, kit_content(&k, "1", 2010));
	kit_write(&k, p, "a", 2020, c);
	kit_pathop(&k, p, SHFS_OP_LINK, "a", "b", 2030, &c, NULL, false);
	kit_pathop(&k, p, SHFS_OP_LINK, "a", "c", 2040, &changing, NULL, false);
	check_versions(&k, "a@1 1 written\na@2 2 written\nb@1 2 linked a@2");
	assert_string_equal(kit_ask(&k, 1, PRESENT), "a 1\nb 1");
	assert_string_equal(kit_ask(&k, 1, LINKS " LIMIT 2 OFFSET 2"),
	                    "link 2 1\nlink - -");
	kit_close(&k);
}

/* A reader of a file that was replaced makes no version of the path. */
static void test_seen_of_a_replaced_file(void **state)
{
	struct kit k;
	uint64_t p = start(&k);
	struct shfs_content c = kit_content(&k, "later", 2030);

	kit_pathop(&k, p, SHFS_OP_UNLINK, "f", NULL, 2010, NULL, NULL, false);
	kit_access(&k, p, "f", 2005, 2040,
	           SHFS_ACCESS_READ | SHFS_ACCESS_NAMELESS | SHFS_ACCESS_REPLACED, &c,
	           NULL);
	kit_write(&k, p, "f", 2050, kit_content(&k, "1", 2050));
	check_versions(&k, "f@1 1 written");
	assert_string_equal(kit_ask(&k, 1, LINKS), "unlink - -\nopen - -\nopen - 1");
	kit_close(&k);
}

/* A path lost its file and got another one: its new name has no content of the first. */
static void test_names_of_another_file(void **state)
{
	static const enum shfs_pathop ops[] = { SHFS_OP_LINK, SHFS_OP_RENAME,
		                                SHFS_OP_EXCHANGE };

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		struct kit k;
		uint64_t p = start(&k);

		kit_write(&k, p, "a", 2010, kit_content(&k, "1", 2010));
		kit_pathop(&k, p, SHFS_OP_UNLINK, "a", NULL, 2020, NULL, NULL, false);
		kit_pathop(&k, p, ops[i], "a", "b", 2030, NULL, NULL, false);
		check_versions(&k, ops[i] != SHFS_OP_LINK ? "a@1 1 written\n"
		                                            "b@1 1 written a@1 carried"
		                                          : "a@1 1 written");
		assert_string_equal(kit_ask(&k, 1,
		                            "SELECT count(*) FROM v_access WHERE"
		                            " path2 IS NOT NULL AND (seen_n OR made_n)"),
		                    "0");
		check_rebuild(&k);
		kit_close(&k);
	}
}

static void test_exchange(void **state)
{
	struct kit k;
	uint64_t p = start(&k);

	kit_write(&k, p, "a", 2010, kit_content(&k, "1", 2010));
	kit_write(&k, p, "b", 2020, kit_content(&k, "22", 2020));
	kit_pathop(&k, p, SHFS_OP_EXCHANGE, "a", "b", 2030, NULL, NULL, false);
	check_versions(&k, "a@1 1 written\na@2 2 renamed b@1\n"
	                   "b@1 2 written\nb@2 1 renamed a@1");
	assert_string_equal(kit_ask(&k, 1, PRESENT), "a 1\nb 1");
	kit_close(&k);
}

static void test_truncate(void **state)
{
	struct kit k;
	uint64_t p = start(&k);
	struct shfs_content c = kit_content(&k, "", 2020);

	kit_write(&k, p, "a", 2010, kit_content(&k, "1", 2010));
	kit_pathop(&k, p, SHFS_OP_TRUNCATE, "a", NULL, 2020, &c, NULL, false);
	check_versions(&k, "a@1 1 written\na@2 0 written");
	assert_string_equal(kit_ask(&k, 1,
	                            "SELECT is_written FROM v_access"
	                            " WHERE op = 'truncate'"),
	                    "1");
	kit_close(&k);
}

/* A directory takes all below it along, and nothing beside it: names with wildcards of
 * SQL and names that only begin alike. */
static void test_directory(void **state)
{
	struct kit k;
	uint64_t p = start(&k);

	kit_pathop(&k, p, SHFS_OP_MKDIR, "d_%", NULL, 2001, NULL, NULL, true);
	kit_write(&k, p, "d_%/x", 2010, kit_content(&k, "1", 2010));
	kit_write(&k, p, "d_%/sub/y", 2020, kit_content(&k, "22", 2020));
	kit_write(&k, p, "d_%/gone", 2020, kit_content(&k, "22", 2020));
	kit_pathop(&k, p, SHFS_OP_UNLINK, "d_%/gone", NULL, 2025, NULL, NULL, false);
	kit_write(&k, p, "dXY/z", 2030, kit_content(&k, "333", 2030));
	kit_write(&k, p, "d_%0", 2030, kit_content(&k, "333", 2030));
	kit_write(&k, p, "d_%-", 2030, kit_content(&k, "333", 2030));
	kit_pathop(&k, p, SHFS_OP_RENAME, "d_%", "e", 2040, NULL, NULL, true);
	kit_ingest(&k);
	assert_string_equal(kit_ask(&k, 1, PRESENT),
	                    "dXY/z 1\nd_%- 1\nd_%/gone 0\nd_%/sub/y 0\nd_%/x 0\nd_%0 1\n"
	                    "e/sub/y 1\ne/x 1");
	assert_string_equal(kit_ask(&k, 1, VERSIONS " LIMIT 2 OFFSET 6"),
	                    "e/sub/y@1 2 written d_%/sub/y@1 carried\n"
	                    "e/x@1 1 written d_%/x@1 carried");
	kit_pathop(&k, p, SHFS_OP_RENAME, "e", "d_%", 2050, NULL, NULL, true);
	kit_ingest(&k);
	assert_string_equal(kit_ask(&k, 1, PRESENT " LIMIT 5 OFFSET 3"),
	                    "d_%/sub/y 1\nd_%/x 1\nd_%0 1\ne/sub/y 0\ne/x 0");
	check_rebuild(&k);
	kit_close(&k);
}

/* Paths of two mounts are absolute; a file says in which project it is. */
static void test_two_roots(void **state)
{
	struct kit k;
	uint64_t p = start(&k);

	kit_write(&k, p, "sub/f", 2010, kit_content(&k, "1", 2010));
	kit_umount(&k);
	kit_mount_at(&k, KIT_ROOT "/sub", 0);
	p = kit_process(&k, 501, 2000, 500, 1000);
	kit_write(&k, p, "f", 2020, kit_content(&k, "22", 2020));
	kit_write(&k, p, "g", 2030, kit_content(&k, "22", 2030));
	kit_umount(&k);
	kit_mount_at(&k, "/", 0);
	kit_write(&k, 0, "etc/motd", 2040, kit_content(&k, "22", 2030));
	check_versions(&k, "/etc/motd@1 2 written\n"
	                   "sub/f@1 1 written\nsub/f@2 2 written\nsub/g@1 2 written");
	assert_string_equal(kit_ask(&k, 2, "SELECT path, root FROM v_file ORDER BY path"),
	                    "/etc/motd|/\n" KIT_ROOT "/sub/f|" KIT_ROOT "\n" KIT_ROOT
	                    "/sub/g|" KIT_ROOT "/sub");
	kit_close(&k);
}

/* Bytes that are no text are kept as they are. */
static void test_names_are_bytes(void **state)
{
	static const char name[] = "a\nb\xff'\"; DROP TABLE file; --%_";
	struct kit k;
	uint64_t p = start(&k);

	kit_write(&k, p, name, 2010, kit_content(&k, "1", 2010));
	kit_pathop(&k, p, SHFS_OP_SYMLINK, "link", name, 2020, NULL, NULL, false);
	kit_ingest(&k);
	assert_string_equal(kit_ask(&k, 1, "SELECT substr(path, 17) FROM v_file"), name);
	assert_string_equal(kit_ask(&k, 1,
	                            "SELECT path2 FROM v_access WHERE op = 'symlink'"),
	                    name);
	kit_close(&k);
}

/* The version that a link came from learns its object, while a change that one name told
 * is not yet taken in by the other. */
static void test_learned_by_another_name(void **state)
{
	struct kit k;
	uint64_t p = start(&k);
	struct shfs_content c = kit_print(&k, "1", 2010),
			    now = kit_content(&k, "1", 2010);

	kit_write(&k, p, "f", 2010, c);
	kit_inode_op(&k, p, SHFS_OP_LINK, "f", "g", 2020, &c, NULL);
	now.flags |= SHFS_CONTENT_LINKED;
	now.ctime_ns = kit_time(&k, 2030).real_ns;
	now.mode = c.mode = 0100600;
	c.flags |= SHFS_CONTENT_LINKED;
	c.ctime_ns = now.ctime_ns;
	kit_inode_op(&k, p, SHFS_OP_CHMOD, "g", NULL, 2030, &c, NULL);
	kit_read(&k, p, "g", 2040, now);
	check_versions(&k, "f@1 1 written\ng@1 1 linked f@1");
	assert_string_equal(kit_ask(&k, 2,
	                            "SELECT mode, object IS NOT NULL FROM v_version"
	                            " ORDER BY path"),
	                    "33152|1\n33152|1");
	check_rebuild(&k);
	kit_close(&k);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_numbers),
	cmocka_unit_test(test_found),
	cmocka_unit_test(test_late_read),
	cmocka_unit_test(test_seen_before_another_wrote),
	cmocka_unit_test(test_late_read_of_a_name),
	cmocka_unit_test(test_came_back_beneath),
	cmocka_unit_test(test_fingerprints),
	cmocka_unit_test(test_named),
	cmocka_unit_test(test_touched),
	cmocka_unit_test(test_incomplete),
	cmocka_unit_test(test_not_regular),
	cmocka_unit_test(test_move),
	cmocka_unit_test(test_save_by_rename),
	cmocka_unit_test(test_backup_rename),
	cmocka_unit_test(test_stored_by_another_name),
	cmocka_unit_test(test_unlink),
	cmocka_unit_test(test_link),
	cmocka_unit_test(test_seen_of_a_replaced_file),
	cmocka_unit_test(test_names_of_another_file),
	cmocka_unit_test(test_exchange),
	cmocka_unit_test(test_truncate),
	cmocka_unit_test(test_directory),
	cmocka_unit_test(test_two_roots),
	cmocka_unit_test(test_names_are_bytes),
	cmocka_unit_test(test_changed_unseen),
	cmocka_unit_test(test_unchanged_over_mounts),
	cmocka_unit_test(test_written_beneath),
	cmocka_unit_test(test_attributes),
	cmocka_unit_test(test_attributes_of_the_unseen),
	cmocka_unit_test(test_attributes_after_a_gap),
	cmocka_unit_test(test_names_and_ctime),
	cmocka_unit_test(test_written_and_set_back),
	cmocka_unit_test(test_another_file),
	cmocka_unit_test(test_learned_by_another_name),
};

int main(int argc, char **argv)
{
	return shfs_unit_main(tests, argc, argv);
}
