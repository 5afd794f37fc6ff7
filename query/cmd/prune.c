/* SPDX-License-Identifier: MIT */
/* `shfs prune`: remove archived contents of old versions from the store. */
#include "query/care/prune.h"
#include "query/base/cmd.h"
#include "query/base/json.h"
#include "query/base/model.h"
#include "query/base/progress.h"

#include "common/quote.h"
#include "store/journal/runtime.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define SHOWN_MAX 20 /* versions that are listed for people */
#define WAIT_MS   15000

static struct shfs_filter files;
static struct shfs_prune_policy policy;
static struct {
	bool dry_run, json, any, alone, despite_damage;
} opts;

struct shown {
	struct shfs_buf out;
	size_t n;
};

static void show_pruned_version(void *arg, const char *path, int64_t n, uint64_t size)
{
	struct shown *s = arg;

	if (opts.json || s->n++ >= SHOWN_MAX)
		return;
	shfs_show_version(&s->out, path, n);
	shfs_buf_str(&s->out, "  ");
	shfs_show_size(&s->out, size);
	shfs_buf_char(&s->out, '\n');
}

static int json_prune(const struct shfs_prune *p)
{
	struct shfs_json json = { 0 };

	shfs_json_begin(&json, "prune");
	shfs_json_bool(&json, "done", !p->dry);
	shfs_json_int(&json, "versions", (int64_t)p->versions);
	shfs_json_int(&json, "objects", (int64_t)p->objects);
	shfs_json_int(&json, "bytes", (int64_t)p->bytes);
	shfs_json_int(&json, "store_before", (int64_t)shfs_usage_total(&p->before));
	shfs_json_int(&json, "store_after", (int64_t)shfs_usage_total(&p->after));
	return shfs_json_end(&json) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}

static int show_prune(const struct shfs_prune *p, struct shown *s)
{
	struct shfs_buf *out = &s->out;
	uint64_t before = shfs_usage_total(&p->before),
		 after = shfs_usage_total(&p->after);
	/* what a prune itself writes may be more than what it removes */
	bool smaller = !p->dry && after < before;

	if (s->n > SHOWN_MAX)
		shfs_buf_printf(out, "%s and %zu more\n", shfs_sign("…"),
		                s->n - SHOWN_MAX);
	shfs_buf_printf(out,
	                "%s: the contents of %" PRIu64 " version%s; %" PRIu64
	                " object%s, ",
	                p->dry ? "would be pruned" : "pruned", p->versions,
	                shfs_plural(p->versions), p->objects, shfs_plural(p->objects));
	shfs_show_size(out, p->bytes);
	shfs_buf_str(out, smaller ? "\nthe store took " : "\nthe store takes ");
	shfs_show_size(out, smaller || p->dry ? before : after);
	if (smaller) {
		shfs_buf_str(out, ", and takes ");
		shfs_show_size(out, after);
	}
	shfs_buf_char(out, '\n');
	return shfs_show_flush(out) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}

static int prune_versions(struct shfs_prune *p)
{
	struct shown s = { 0 };
	int r, code;

	p->show = p->dry ? show_pruned_version : NULL;
	p->arg = &s;
	shfs_progress_begin("pruning");
	r = shfs_prune_run(p);
	shfs_progress_end();
	code = r ? shfs_fail_collect(p->store, "pruned", r) : 0;
	if (!code)
		code = opts.json ? json_prune(p) : show_prune(p, &s);
	if (!code && !p->dry && p->policy.max_bytes &&
	    shfs_usage_total(&p->after) > p->policy.max_bytes) {
		shfs_warn("the store is still larger than that%s",
		          p->exhausted ? ": nothing more may be pruned" : "");
		code = SHFS_EXIT_REFUSED;
	}
	shfs_buf_free(&s.out);
	return code;
}

/* Takes the named files. */
static int take_operands(struct shfs_index *index, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		_cleanup_free_ char *path = shfs_operand_path(argv[i]);
		int r = path ? shfs_path_is_known(index, path) : -ENOMEM;

		if (!r)
			return shfs_fail_unseen(index, path);
		if (r > 0)
			r = shfs_filter_add(&files, SHFS_FILTER_PATH, argv[i]);
		if (r < 0)
			return shfs_fail_index(index, r);
	}
	return 0;
}

static int check_prune_options(struct shfs_context *ctx, int argc)
{
	if (opts.any || argc)
		return 0;
	shfs_error("prune what? Say what to keep, what is too old or too large, or name "
	           "files");
	shfs_hint("shfs help prune; --dry-run shows what would go");
	return SHFS_EXIT_USAGE;
}

static int run_prune(struct shfs_context *ctx, struct shfs_index *index, int argc,
                     char **argv)
{
	struct shfs_prune p = {
		.index = index,
		.store = shfs_context_opened(ctx),
		.dry = opts.dry_run,
		.alone = opts.alone,
		.despite_damage = opts.despite_damage,
		.wait_ms = WAIT_MS,
	};
	_cleanup_free_ char *hook_dir = NULL;
	int code;

	p.hook_dir = hook_dir = shfs_runtime_hook_dir(p.store->path);
	code = take_operands(index, argc, argv);
	if (!code)
		code = shfs_filter_resolve(&files, ctx, index);
	p.policy = policy;
	p.policy.files = files.n ? &files : NULL;
	if (!code)
		code = prune_versions(&p);
	shfs_filter_free(&files);
	return code;
}

/* --- options --- */

static const char *const keeps[SHFS_KEEPS] = { "keep-hourly", "keep-daily", "keep-weekly",
	                                       "keep-monthly", "keep-yearly" };

static int take_number(const struct shfs_option *opt, const char *value, int64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoll(value, &end, 10);
	if (!errno && *value >= '0' && *value <= '9' && !*end && *out > 0)
		return 0;
	shfs_error("--%s wants a number from 1 on", opt->name);
	return SHFS_EXIT_USAGE;
}

static int take_size(const struct shfs_option *opt, const char *value, uint64_t *out)
{
	if (!shfs_config_parse_size(value, out) && *out)
		return 0;
	shfs_error("--%s wants a size, such as 500M or 20G", opt->name);
	return SHFS_EXIT_USAGE;
}

static int set_prune_option(const struct shfs_option *opt, const char *value)
{
	const char *name = opt->name;

	opts.any = true;
	for (int i = 0; i < SHFS_KEEPS; i++)
		if (!strcmp(name, keeps[i]))
			return take_number(opt, value, &policy.keep[i]);
	if (!strcmp(name, "keep-last"))
		return take_number(opt, value, &policy.keep_last);
	if (!strcmp(name, "keep-within"))
		return shfs_time_option(opt, value, &policy.keep_since_ns);
	if (!strcmp(name, "older-than"))
		return shfs_time_option(opt, value, &policy.older_ns);
	if (!strcmp(name, "larger-than"))
		return take_size(opt, value, &policy.larger);
	if (!strcmp(name, "max-size"))
		return take_size(opt, value, &policy.max_bytes);
	return shfs_filter_option(&files, opt, value);
}

const struct shfs_command shfs_cmd_prune = {
	.name = "prune",
	.args = "[PATH…]",
	.summary = "Remove archived contents of old versions from the store",
	.description =
		"History still lists these versions; their contents are gone. A version\n"
		"goes if no --keep-… keeps it, and it matches all other options. The "
		"newest\n"
		"version of a file that exists always stays. With PATH, only versions "
		"of\n"
		"files at or below it go. Mounts go on recording meanwhile.",
	.alone = true,
	.options = {
	{ "keep-last", 0, "N", "keep the last N versions of each file" },
	{ "keep-within", 0, "TIME",
	  "keep versions made since then (30d, \"2 weeks ago\")" },
	{ "keep-hourly", 0, "N",
	  "keep the newest version of each of the last N hours that have one" },
	{ "keep-daily", 0, "N", "the same for days" },
	{ "keep-weekly", 0, "N", "the same for weeks" },
	{ "keep-monthly", 0, "N", "the same for months" },
	{ "keep-yearly", 0, "N", "the same for years" },
	{ "older-than", 0, "TIME", "prune only versions made before this" },
	{ "larger-than", 0, "SIZE", "prune only contents of this size or larger" },
	{ "max-size", 0, "SIZE",
	  "prune the oldest, and only until the store has this size" },
	{ "name", 0, "PATTERN", "prune only files of this name, such as '*.csv'" },
	{ "content", 0, "FILE", "prune only the content of this file" },
	{ "size", 0, "SIZE", "prune only contents of this size: 10K, +10M, 10K..2M" },
	{ "also-newest", 0, NULL, "also the newest version of files that exist",
	  .flag = &policy.also_newest },
	{ "offline", 0, NULL, "you assert that no machine records (network file systems)",
	  .flag = &opts.alone },
	{ "despite-damage", 0, NULL, "even if a part of the journal is damaged",
	  .flag = &opts.despite_damage },
	{ "dry-run", 'n', NULL, "only show what would go, and how many bytes",
	  .flag = &opts.dry_run },
	{ "json", 0, NULL, "for programs: see docs/json.md", .flag = &opts.json },
	},
	.operands = { 0, -1 },
	.option = set_prune_option,
	.check = check_prune_options,
	.run_on_index = run_prune,
};
