/* SPDX-License-Identifier: MIT */
/*
 * The form "dockerfile": a directory with a Dockerfile, which installs the packages that
 * the files of the machine are of, and root/ with all that no package has: the inputs,
 * the steps, programs that were built here.
 */
#include "query/bundle/bundle.h"
#include "query/bundle/packages.h"

#include "common/io.h"
#include "common/path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define OS_RELEASE_MAX 65536

/* The value in /etc/os-release, without its quotes; "" if there is none. */
static void find_release(const char *text, const char *key, struct shfs_buf *out)
{
	const char *at = strstr(text, key);

	if (!at)
		return;
	at += strlen(key);
	at += strspn(at, "\"'");
	shfs_buf_add(out, at, strcspn(at, "\"'\n"));
}

static bool is_word(const char *word)
{
	return *word && !word[strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789.-")];
}

/* The image that the packages are of: "debian:12". */
static int find_base(struct shfs_buf *out)
{
	_cleanup_buf_ struct shfs_buf text = { 0 }, id = { 0 }, version = { 0 };

	shfs_buf_char(&text, '\n');
	if (!shfs_read_file_at(AT_FDCWD, "/etc/os-release", OS_RELEASE_MAX, &text)) {
		find_release(text.data, "\nID=", &id);
		find_release(text.data, "\nVERSION_ID=", &version);
	}
	if (!id.data || !version.data || !is_word(id.data) || !is_word(version.data) ||
	    (strcmp(id.data, "debian") != 0 && strcmp(id.data, "ubuntu") != 0)) {
		shfs_error("dockerfile knows packages of Debian and Ubuntu alone");
		shfs_hint("shfs export oci writes an image with all files");
		return SHFS_EXIT_UNAVAILABLE;
	}
	shfs_buf_printf(out, "%s:%s", id.data, version.data);
	return out->failed ? -ENOMEM : 0;
}

static bool leads_to_directory(const struct shfs_closure_file *link)
{
	struct stat st;

	return stat(link->path, &st) || S_ISDIR(st.st_mode);
}

/* Does root/ have it? What a package has comes with the package; but what lies in /etc
 * may have been changed. */
static bool is_to_copy(const struct bundle_packages *packages,
                       const struct shfs_closure_file *file)
{
	if (!file->system || shfs_path_is_below(file->path, "/usr/local") ||
	    shfs_path_is_below(file->path, "/opt"))
		return true;
	if (file->kind == SHFS_CLOSURE_DIRECTORY ||
	    !strcmp(file->path, "/etc/ld.so.cache"))
		return false; /* the image has its own */
	if (file->kind == SHFS_CLOSURE_LINK && leads_to_directory(file))
		return false; /* /bin and the like */
	if (file->guessed && strncmp(file->target, "/etc/alternatives/", 18) != 0)
		return false;
	return shfs_path_is_below(file->path, "/etc") ||
	       !bundle_packages_own(packages, file->path);
}

/* The same, with the directories of what is copied: of those that are sorted, what is in
 * one follows it. */
static bool is_needed(void *arg, const struct shfs_closure_file *file)
{
	size_t len = strlen(file->path);

	if (is_to_copy(arg, file))
		return true;
	if (file->kind != SHFS_CLOSURE_DIRECTORY)
		return false;
	for (const struct shfs_closure_file *f = file->hh.next;
	     f && !strncmp(f->path, file->path, len); f = f->hh.next)
		if (f->path[len] == '/' && is_to_copy(arg, f))
			return true;
	return false;
}

static void add_dockerfile(const struct bundle_packages *packages, const char *base,
                           struct shfs_buf *out)
{
	shfs_buf_printf(out,
	                "# Made by shfs " SHFS_VERSION ".\n"
	                "# Where a mirror has these versions no more: "
	                "snapshot.debian.org has them.\n"
	                "FROM %s\n",
	                base);
	for (size_t i = 0; i < packages->names.n; i++)
		shfs_buf_printf(out, "%s %s",
		                i ? " \\\n   "
		                  : "RUN apt-get update && apt-get install -y "
		                    "--no-install-recommends --allow-downgrades \\\n   ",
		                packages->names.list[i]);
	shfs_buf_str(out, packages->names.n ? " && \\\n    rm -rf /var/lib/apt/lists/*\n"
	                                    : "");
	shfs_buf_str(out, "COPY root/ /\n"
	                  "WORKDIR /\n"
	                  "ENTRYPOINT [\"/bin/sh\", \"/.bundle/steps.sh\"]\n");
}

static const char how_to_build[] =
	"    docker build -t again . && docker run --network none again\n"
	"\n"
	"(or podman) installs the packages in their versions, copies `root/`, which has "
	"all "
	"else,\nruns the commands, and says of each result whether it came out the "
	"same.\n";

static int write_context(const struct bundle *b, struct bundle_packages *packages,
                         const char *base, struct shfs_sink *sink)
{
	_cleanup_buf_ struct shfs_buf dockerfile = { 0 }, readme = { 0 };
	int r = bundle_add_readme(b, how_to_build, &readme);

	add_dockerfile(packages, base, &dockerfile);
	if (!r)
		r = shfs_sink_text(sink, "Dockerfile", 0644, &dockerfile)
		            ?: shfs_sink_text(sink, "README.md", 0644, &readme)
		            ?: shfs_sink_directory(sink, "root", 0755);
	if (r)
		return bundle_fail(b, r);
	r = bundle_write_root(b, sink, "root/", BUNDLE_ALL, is_needed, packages);
	if (r)
		return r;
	r = shfs_sink_finish(sink);
	return r ? bundle_fail(b, r) : 0;
}

static int write_directory(const struct bundle *b, const char *base)
{
	_cleanup_bundle_directory_ struct bundle_directory d = { -1, -1, NULL, NULL };
	_cleanup_packages_ struct bundle_packages packages = { 0 };
	_cleanup_(shfs_sink_clear) struct shfs_sink sink = { 0 };
	int r = bundle_packages_find(b->closure, &packages);

	if (r)
		return r;
	r = bundle_directory_begin(b, &d);
	if (r)
		return r;
	shfs_sink_begin_directory(&sink, d.fd, b->mtime_ns);
	r = write_context(b, &packages, base, &sink);
	return r ? r : bundle_directory_finish(b, &d);
}

static int write_dockerfile(struct shfs_export *x)
{
	_cleanup_bundle_ struct bundle b = { 0 };
	_cleanup_buf_ struct shfs_buf base = { 0 };
	bool incomplete = false;
	int r = find_base(&base);

	if (!r)
		r = bundle_plan(x, true, &b, &incomplete);
	if (!r)
		r = write_directory(&b, base.data);
	return r ? r : incomplete ? SHFS_EXIT_NOT_FOUND : 0;
}

const struct shfs_export_format shfs_export_dockerfile = {
	.name = "dockerfile",
	.runs = true,
	.in_place = true,
	.closed = true,
	.write = write_dockerfile,
};
