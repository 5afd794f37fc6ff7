/* SPDX-License-Identifier: MIT */
/* Which package has a program, by the package managers' own files. */
#include "tests/unit/storekit.h"

#include "common/io.h"
#include "common/path.h"
#include "common/script.h"
#include "recording/package.h"

#include <time.h>
#include <unistd.h>

static const char *root;
static char *dpkg;
static struct shfs_store *store; /* NULL: nothing is kept */

/* Makes a file below root, with its directories. */
static void put(const char *name, const char *text)
{
	_cleanup_free_ char *path = shfs_path_join(root, name);
	_cleanup_free_ char *dir = strndup(path, strrchr(path, '/') - path);

	assert_int_equal(shfs_mkdir_p_at(AT_FDCWD, dir, 0700), 0);
	assert_int_equal(shfs_write_file_at(AT_FDCWD, path, 0600, text, strlen(text)), 0);
}

/* path: below root, or "/" and the path. expected: "MANAGER NAME VERSION", or "". */
static void package_is(const char *path, const char *expected)
{
	const struct shfs_reach by_path = {
		.root = root, .root_fd = -1, .dpkg = dpkg, .store = store
	};
	struct shfs_reach by_fd = by_path;
	_cleanup_close_ int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	by_fd.root_fd = fd;
	for (int i = 0; i < 2; i++) {
		struct shfs_package p = { .path = *path == '/'
			                                  ? strdup(path)
			                                  : shfs_path_join(root, path) };
		char found[200] = "";

		shfs_packages_find(i ? &by_fd : &by_path, &p, 1);
		if (p.manager)
			snprintf(found, sizeof(found), "%s %s %s", p.manager, p.name,
			         p.version);
		assert_string_equal(found, expected);
		shfs_package_clear(&p);
	}
}

static int set_up(void **state)
{
	root = shfs_unit_tmpdir();
	dpkg = shfs_path_join(root, "dpkg");
	return 0;
}

static int tear_down(void **state)
{
	free(dpkg);
	return 0;
}

static void of_dpkg(void **state)
{
	put("dpkg/info/coreutils.list", "/.\n/bin\n/bin/cat\n/usr/bin/sort\n");
	put("dpkg/info/libc6:amd64.list", "/.\n/usr/lib/x/ld.so\n");
	put("dpkg/info/old.list", "/.\n/usr/bin/sorted\n");
	put("dpkg/status", "Package: coreutils-more\nVersion: 0\n\n"
	                   "Package: coreutils\nStatus: install ok installed\n"
	                   "Architecture: amd64\nVersion: 9.1-1\nDepends: Version: 3\n\n"
	                   "Package: libc6\nArchitecture: i386\nVersion: 1\n\n"
	                   "Package: libc6\nArchitecture: amd64\nVersion: 2.36-9\n");
	package_is("/usr/bin/sort", "dpkg coreutils 9.1-1");
	package_is("/usr/bin/cat", "dpkg coreutils 9.1-1"); /* installed as /bin/cat */
	package_is("/usr/lib/x/ld.so", "dpkg libc6 2.36-9");
	package_is("/usr/bin/sorted", ""); /* it has no status */
	package_is("/usr/bin/sor", "");
	package_is("/usr/local/bin/sort", "");
	put("dpkg/info/local.list", "/usr/local/bin/sort\n/home/u/sort\n");
	package_is("/home/u/sort", "");
}

static void diverted(void **state)
{
	put("dpkg/info/aa.list", "/.\n/usr/bin/pg\n");
	put("dpkg/info/pg.list", "/.\n/usr/bin/pg\n");
	put("dpkg/info/zz.list", "/.\n/bin/pg\n");
	put("dpkg/diversions", "/usr/share/x\n/usr/share/y\nother\n"
	                       "/usr/bin/pg\n/usr/bin/pg.real\npg\n"
	                       "/usr/bin/tool\n/usr/bin/tool.distrib\n:\n");
	put("dpkg/info/tool.list", "/.\n/usr/bin/tool\n");
	put("dpkg/status", "Package: pg\nVersion: 15\n\nPackage: aa\nVersion: 1\n\n"
	                   "Package: tool\nVersion: 3\n\nPackage: zz\nVersion: 1\n\n");
	package_is("/usr/bin/pg", "dpkg pg 15");
	package_is("/usr/bin/tool.distrib", "dpkg tool 3");
	put("dpkg/info/zz.list", "/.\n");
	package_is("/usr/bin/pg.real", "dpkg aa 1");
}

/* Replaces what is kept, but for its first line. */
static void keep(const char *text)
{
	_cleanup_buf_ struct shfs_buf kept = { 0 };

	kit_read(store->state_fd, SHFS_STORE_PACKAGES, &kept);
	kept.len = (size_t)(strchr(kept.data, '\n') + 1 - kept.data);
	shfs_buf_str(&kept, text);
	assert_ok(shfs_write_file_at(store->state_fd, SHFS_STORE_PACKAGES, 0600,
	                             kept.data, kept.len));
}

static bool is_kept(const char *line)
{
	_cleanup_buf_ struct shfs_buf kept = { 0 };

	return !shfs_read_file_at(store->state_fd, SHFS_STORE_PACKAGES, 1 << 20, &kept) &&
	       strstr(kept.data, line);
}

/* Until what was changed last is believed to stay as it is. */
static void settle(void)
{
	nanosleep(&(struct timespec){ 2, 100000000 }, NULL);
}

/* The lists are read once, until dpkg changes any of its files. */
static void kept(void **state)
{
	store = kit_store();
	put("dpkg/info/made.list", "/.\n/usr/bin/made\n/usr/bin/with\ttab\n");
	put("dpkg/status", "Package: made\nVersion: 1\n\n");
	package_is("/usr/bin/made", "dpkg made 1");
	assert_false(is_kept("made")); /* dpkg may be at work */
	settle();
	package_is("/usr/bin/made", "dpkg made 1");
	package_is("/usr/bin/with\ttab", "dpkg made 1");
	package_is("/usr/bin/none", "");
	assert_true(is_kept("\n/usr/bin/made\tmade\t1\n"));
	assert_false(is_kept("tab") || is_kept("none"));
	keep("/usr/bin/made\tmade\t2\n");
	package_is("/usr/bin/made", "dpkg made 2");
	keep("/usr/bin/made\tmade\t\n");
	package_is("/usr/bin/made", "dpkg made 1");
	keep("/usr/bin/made\tmade");
	package_is("/usr/bin/made", "dpkg made 1");
	keep("/usr/bin/made\tmade\t2\n");
	put("dpkg/diversions", "");
	package_is("/usr/bin/made", "dpkg made 1");
	settle();
	package_is("/usr/bin/made", "dpkg made 1");
	keep("/usr/bin/made\tmade\t2\n");
	put("dpkg/info/another.list", "");
	package_is("/usr/bin/made", "dpkg made 1");
	shfs_store_close(TAKE_PTR(store));
}

static void of_conda(void **state)
{
	put("conda/conda-meta/history", "\"bin/samtools\"");
	put("conda/conda-meta/htslib-1.17-h81da01d_2.json",
	    "{\"files\": [\"bin/tabix\"]}");
	put("conda/conda-meta/samtools-1.17-hd87286a_1.json",
	    "{\"files\": [\"bin/samtools\", \"lib/python3.9/x/bin/tool\"]}");
	put("conda/conda-meta/broken.json", "{\"files\": [\"bin/broken\"]}");
	package_is("conda/bin/samtools", "conda samtools 1.17");
	package_is("conda/lib/python3.9/x/bin/tool", "conda samtools 1.17");
	package_is("conda/bin/samtool", "");
	package_is("conda/bin/broken", "");
	package_is("bin/samtools", "");
}

static void of_python(void **state)
{
	put("v/pyvenv.cfg", "home = /usr/bin\n");
	put("v/lib/python3.11/site-packages/snakemake-7.32.dist-info/RECORD",
	    "../../../bin/snakemake,sha256=x,23\nsnakemake/__init__.py,,\n");
	put("v/lib/python3.11/site-packages/snakemake-7.32.dist-info/METADATA",
	    "Metadata-Version: 2.1\nName: snakemake\nVersion: 7.32.4\n\n"
	    "Name: description\n");
	put("u/lib/python3.11/dist-packages/my_tool-1.dist-info/RECORD",
	    "a,,\n../../../bin/my-tool,,\n");
	put("u/lib/python3.11/dist-packages/my_tool-1.dist-info/METADATA",
	    "Name: my-tool\nVersion: 1\n");
	package_is("v/bin/snakemake", "venv snakemake 7.32.4");
	package_is("v/bin/snake", "");
	package_is("v/lib/snakemake", "");
	package_is("u/bin/my-tool", "pip my-tool 1");
	/* of packages that conda did not install in its own prefix */
	put("u/conda-meta/python-3.11.0-0.json", "{\"files\": [\"bin/python3.11\"]}");
	package_is("u/bin/my-tool", "pip my-tool 1");
	package_is("u/bin/python3.11", "conda python 3.11.0");
}

static void of_npm(void **state)
{
	put("n/node_modules/@a/b/package.json",
	    "{\"scripts\": {\"version\": \"no\"}, \"x\": [\"version\"],\n"
	    " \"name\": \"@a/b\", \"description\": \"\\\"version\\\": 3\",\n"
	    " \"version\": \"5.4.2\"}");
	put("n/node_modules/bad/package.json", "{\"name\": \"bad\", \"version\": \"1");
	put("n/node_modules/none/package.json", "{\"name\": [\"version\", \"2\"]}");
	package_is("n/node_modules/@a/b/bin/tsc", "npm @a/b 5.4.2");
	package_is("n/node_modules/none/bin/x", "");
	package_is("n/node_modules/missing/bin/x", "");
	package_is("n/node_modules/", "");
}

static void of_r(void **state)
{
	put("r/site/dplyr/DESCRIPTION", "Package: dplyr\nType: Package\nTitle: A\n"
	                                " Version: 3\nVersion: 1.0.10\n");
	put("r/site/no.more/DESCRIPTION", "Version: 1\nPackage: other\n");
	put("r/site/bad/DESCRIPTION", "Package: bad\nVersion: 1\x1b[31m\n");
	put("r/site/empty/DESCRIPTION", "Package: empty\nVersion:\n");
	package_is("r/site/dplyr/libs/dplyr.so", "R dplyr 1.0.10");
	package_is("r/site/dplyr/R/dplyr", "R dplyr 1.0.10");
	package_is("r/site/dplyr/doc/dplyr.R", "");
	package_is("r/site/dplyr/libs", "");
	package_is("r/site/no.more/libs/no.more.so", "");
	package_is("r/site/bad/libs/bad.so", "");
	package_is("r/site/empty/libs/empty.so", "");
	package_is("/libs/x.so", "");
	package_is("/R/x", "");
}

/* Bytes that are no text change nothing but the answer. */
static void forged(void **state)
{
	char long_name[600];

	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = 0;
	put("f/node_modules/a/package.json", "{\"name\": \"\\");
	package_is("f/node_modules/a/x", "");
	put("f/node_modules/a/package.json", "}}}}\"name\":\"a\"");
	package_is("f/node_modules/a/x", "");
	put("dpkg/diversions", "/usr/bin/x\n/usr/bin/y");
	put("dpkg/status", "");
	package_is("/usr/bin/y", "");
	put("w/lib/python3/site-packages/a.dist-info/RECORD", "../../../bin/a,");
	put("w/lib/python3/site-packages/a.dist-info/METADATA", long_name);
	package_is("w/bin/a", "");
}

#define SCRIPT(exe, argv, cwd, expected)                                                 \
	do {                                                                             \
		_cleanup_free_ char *found =                                             \
			shfs_script_of((struct shfs_bytes){ exe, strlen(exe) },          \
		                       (struct shfs_bytes){ argv, sizeof(argv) - 1 },    \
		                       (struct shfs_bytes){ cwd, strlen(cwd) });         \
		assert_string_equal(found ?: "", expected);                              \
	} while (0)

static void scripts(void **state)
{
	SCRIPT("/usr/bin/python3.11", "python3\0/v/bin/x\0a/b", "/w", "/v/bin/x");
	SCRIPT("/usr/bin/python3.11", "python3\0-u\0../bin/x", "/w/v", "/w/bin/x");
	SCRIPT("/usr/bin/perl", "perl\0-w\0./x", "/w", "/w/x");
	SCRIPT("/usr/bin/bash", "bash\0-c\0cat /etc/hosts", "/w", "");
	SCRIPT("/usr/bin/python3", "python3\0-m\0a/b", "/w", "");
	SCRIPT("/usr/bin/python3", "python3\0x.py", "/w", "");
	SCRIPT("/usr/bin/python3", "python3", "/w", "");
	SCRIPT("/usr/bin/python3", "python3\0-", "/w", "");
	SCRIPT("/usr/bin/sort", "sort\0/a/b", "/w", "");
	SCRIPT("/usr/bin/pythonic", "x\0/a/b", "/w", "");
	SCRIPT("/usr/bin/node", "node\0a/b", "", "");
	SCRIPT("", "node\0/a/b", "", "");
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(of_dpkg, set_up, tear_down),
		cmocka_unit_test_setup_teardown(diverted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(kept, set_up, tear_down),
		cmocka_unit_test_setup_teardown(of_conda, set_up, tear_down),
		cmocka_unit_test_setup_teardown(of_python, set_up, tear_down),
		cmocka_unit_test_setup_teardown(of_npm, set_up, tear_down),
		cmocka_unit_test_setup_teardown(of_r, set_up, tear_down),
		cmocka_unit_test_setup_teardown(forged, set_up, tear_down),
		cmocka_unit_test(scripts),
	};

	return shfs_unit_main(tests, argc, argv);
}
