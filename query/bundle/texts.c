/* SPDX-License-Identifier: MIT */
/* The texts beside the root of a bundle: run.sh, SHA256SUMS, README.md. */
#include "query/bundle/bundle.h"
#include "query/bundle/packages.h"

#include "common/quote.h"

#include <errno.h>
#include <string.h>

/* As sha256sum escapes names: "\n", "\r" and "\\", and then a backslash begins the
 * line. */
static void add_sum(struct shfs_buf *out, const char *sha256, const char *name)
{
	if (strpbrk(name, "\\\n\r"))
		shfs_buf_char(out, '\\');
	shfs_buf_printf(out, "%s  ", sha256);
	for (; *name; name++)
		if (*name == '\n')
			shfs_buf_str(out, "\\n");
		else if (*name == '\r')
			shfs_buf_str(out, "\\r");
		else if (*name == '\\')
			shfs_buf_str(out, "\\\\");
		else
			shfs_buf_char(out, *name);
	shfs_buf_char(out, '\n');
}

void bundle_add_sums(const struct bundle *b, struct shfs_buf *out)
{
	for (size_t i = 0; i < b->n_results; i++)
		if (*b->results[i].sha256)
			add_sum(out, b->results[i].sha256,
			        b->results[i].file->version.path + 1);
}

/* --- run.sh --- */

static const char run_head[] =
	"#!/bin/sh\n"
	"# Made by shfs " SHFS_VERSION
	": runs the commands of this bundle again, where nothing\n"
	"# else is, and compares what comes out. usage: run.sh [DIR]\n"
	"# DIR must not exist: it becomes a copy of root/. By bwrap, else by unshare;\n"
	"# BUNDLE_BY=bwrap or BUNDLE_BY=unshare says which.\n"
	"set -u\n"
	"here=$(cd -- \"$(dirname -- \"$0\")\" && pwd -P) || exit 1\n"
	"work=${1:-$here/run}\n"
	"by=${BUNDLE_BY:-$(command -v bwrap >/dev/null 2>&1 && echo bwrap || echo "
	"unshare)}\n"
	"\n"
	"die()\n"
	"{\n"
	"\techo \"run.sh: $*\" >&2\n"
	"\texit 1\n"
	"}\n"
	"\n"
	"[ ! -e \"$work\" ] || die \"$work exists: remove it, or name another "
	"directory\"\n"
	"mkdir -p -- \"$work\" || exit 1\n"
	"cp -a -- \"$here/root/.\" \"$work/\" || die \"cannot copy root/ to $work\"\n"
	"work=$(cd -- \"$work\" && pwd -P) || exit 1\n"
	"mkdir -p -- \"$work/proc\" \"$work/dev\" || exit 1\n"
	"\n"
	"by_bwrap()\n"
	"{\n"
	"\tbwrap --unshare-all --die-with-parent --clearenv --uid \"$1\" --gid \"$1\" "
	"\\\n"
	"\t\t--bind \"$work\" / --proc /proc --dev /dev --chdir / \\\n"
	"\t\t/bin/sh /.bundle/steps.sh\n"
	"}\n"
	"\n"
	"by_unshare()\n"
	"{\n"
	"\t# shellcheck disable=SC2016 # expanded inside\n"
	"\tunshare --user --map-root-user --mount --pid --net --ipc --uts --fork "
	"--kill-child sh -c '\n"
	"\t\tfor node in null zero full random urandom tty; do\n"
	"\t\t\t: >\"$1/dev/$node\" && mount --bind \"/dev/$node\" \"$1/dev/$node\" || "
	"exit 1\n"
	"\t\tdone\n"
	"\t\tmkdir -p \"$1/dev/shm\" && ln -sf /proc/self/fd \"$1/dev/fd\" &&\n"
	"\t\t\tmount -t proc proc \"$1/proc\" || exit 1\n"
	"\t\texec env -i \"$(command -v chroot || echo /usr/sbin/chroot)\" \"$1\" "
	"/bin/sh "
	"/.bundle/steps.sh\n"
	"\t' sh \"$work\"\n"
	"}\n"
	"\n"
	"status=0\n"
	"case $by in\n"
	"bwrap) by_bwrap ";

static const char run_tail[] =
	" || status=$? ;;\n"
	"unshare) by_unshare || status=$? ;;\n"
	"*) die \"BUNDLE_BY is bwrap or unshare\" ;;\n"
	"esac\n"
	"[ $status = 0 ] || echo \"run.sh: it did not run as it did then\" >&2\n"
	"if [ -s \"$here/SHA256SUMS\" ]; then\n"
	"\t(cd -- \"$work\" && sha256sum -c \"$here/SHA256SUMS\") || status=1\n"
	"fi\n"
	"exit $status\n";

void bundle_add_run(const struct bundle *b, struct shfs_buf *out)
{
	shfs_buf_str(out, run_head);
	shfs_buf_printf(out, "%lld", (long long)b->uid);
	shfs_buf_str(out, run_tail);
}

/* --- README.md --- */

/* Text of users in Markdown: as code, with as many backticks around it as it takes. */
static void add_code(struct shfs_buf *out, const char *text)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	size_t longest = 0;

	shfs_quote_display(&shown, text, strlen(text));
	for (const char *p = shown.data ?: ""; *p;) {
		size_t n = strspn(p, "`");

		longest = MAX(longest, n);
		p += n ? n : 1;
	}
	for (size_t i = 0; i <= longest; i++)
		shfs_buf_char(out, '`');
	shfs_buf_str(out, longest ? " " : "");
	shfs_buf_str(out, shown.data ?: "");
	shfs_buf_str(out, longest ? " " : "");
	for (size_t i = 0; i <= longest; i++)
		shfs_buf_char(out, '`');
	out->failed |= shown.failed;
}

static void add_commands(const struct bundle *b, struct shfs_buf *out)
{
	shfs_buf_str(out, "\n## Commands\n\n");
	for (size_t i = 0, n = 0; i < b->x->wf->n_steps; i++) {
		const struct shfs_step *step = b->x->wf->steps[i];

		if (step->source)
			continue;
		shfs_buf_printf(out, "%zu. ", ++n);
		add_code(out, step->entry->command.text ?: "");
		shfs_buf_str(out, "  \n   ");
		shfs_export_when(out, step);
		shfs_buf_char(out, '\n');
	}
}

static void add_results(const struct bundle *b, struct shfs_buf *out)
{
	shfs_buf_str(out, "\n## Results\n\n");
	for (size_t i = 0; i < b->n_results; i++) {
		const struct bundle_result *result = &b->results[i];

		shfs_buf_str(out, "* ");
		add_code(out, result->file->version.path);
		shfs_buf_printf(out,
		                *result->sha256 ? ", SHA-256 %s\n"
		                                : ": nothing to compare it with%s\n",
		                result->sha256);
	}
	if (!b->n_results)
		shfs_buf_str(out, "None: what the commands print is all.\n");
}

static int add_software(const struct bundle *b, struct shfs_buf *out)
{
	_cleanup_packages_ struct bundle_packages packages = { 0 };
	const struct shfs_workflow *wf = b->x->wf;
	int r = bundle_packages_find(b->closure, &packages);

	shfs_buf_str(out, "\n## Packages and environment\n\n");
	for (size_t i = 0; i < packages.names.n; i++)
		shfs_buf_printf(out, "* %s\n", packages.names.list[i]);
	for (size_t i = 0; i < wf->n_steps && !r; i++) {
		_cleanup_software_ struct shfs_software software = { 0 };

		if (wf->steps[i]->source)
			continue;
		r = shfs_export_software(b->x, wf->steps[i]->entry, &software);
		if (software.n_variables)
			shfs_buf_printf(out,
			                "\nThe environment of %s, as far as it was "
			                "recorded:\n\n",
			                wf->steps[i]->entry->command.id);
		for (size_t k = 0; k < software.n_variables; k++) {
			shfs_buf_str(out, "* ");
			add_code(out, software.variables[k]);
			shfs_buf_char(out, '\n');
		}
	}
	return r;
}

static void add_missing(const struct bundle *b, struct shfs_buf *out)
{
	const struct shfs_closure *c = b->closure;

	if (!c->n_missing && !c->in_part.n)
		return;
	shfs_buf_str(out, "\n## What is missing\n\n");
	for (size_t i = 0; i < c->n_missing; i++) {
		shfs_buf_str(out, "* ");
		add_code(out, c->missing[i].path);
		shfs_buf_printf(out, " %s\n", c->missing[i].why);
	}
	for (size_t i = 0; i < c->in_part.n; i++)
		shfs_buf_printf(
			out,
			"* of %s, what it used outside of the recorded projects, but "
			"for programs and their libraries: it was not recorded\n",
			c->in_part.list[i]);
}

int bundle_add_readme(const struct bundle *b, const char *how, struct shfs_buf *out)
{
	int r;

	shfs_buf_str(out,
	             "# Commands, and all that they need\n\n"
	             "Made by shfs " SHFS_VERSION " from its record of these commands: "
	             "their programs,\nlibraries and inputs as they were, to make the "
	             "results again.\n\n");
	shfs_buf_str(out, how);
	add_commands(b, out);
	add_results(b, out);
	r = add_software(b, out);
	add_missing(b, out);
	return r ? r : out->failed ? -ENOMEM : 0;
}
