/* SPDX-License-Identifier: MIT */
#include "query/care/check-show.h"

#include "query/base/cmd.h"
#include "query/base/model.h"
#include "query/base/progress.h"

#include "common/clock.h"
#include "common/quote.h"
#include "store/objects/object.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define DRAW_NS (SHFS_NSEC_PER_SEC / 10)

/* --- for people --- */

static void show_flaw(struct shfs_buf *out, const struct shfs_flaw *f)
{
	shfs_quote_display(out, f->file, strlen(f->file));
	if (f->bytes)
		shfs_buf_printf(out, ", byte %" PRIu64 " to %" PRIu64, f->offset,
		                f->offset + f->bytes - 1);
	shfs_buf_str(out, ": ");
	if (f->text)
		shfs_quote_display(out, f->text, strlen(f->text));
	if (f->harmless && f->kind != SHFS_FLAW_TORN && f->kind != SHFS_FLAW_UNCHECKED)
		shfs_buf_str(out, " (known since it was repaired)");
	shfs_buf_char(out, '\n');
}

static void show_losses(struct shfs_buf *out, const struct shfs_check *c, bool known)
{
	for (size_t i = 0; i < c->n_losses; i++) {
		const struct shfs_loss *l = &c->losses[i];

		if (l->known != known)
			continue;
		shfs_buf_str(out, known ? "lost (known before): " : "lost: ");
		shfs_show_path(out, l->path);
		shfs_buf_printf(out, "@%" PRIu64 "\n", l->n);
	}
}

void shfs_check_show(struct shfs_buf *out, const struct shfs_check *c)
{
	for (int harmless = 0; harmless < 2; harmless++) {
		for (size_t i = 0; i < c->n_flaws; i++)
			if (c->flaws[i].harmless == harmless)
				show_flaw(out, &c->flaws[i]);
		show_losses(out, c, harmless);
	}
}

static void show_checked_count(struct shfs_buf *out, uint64_t n, const char *one)
{
	shfs_buf_printf(out, "%" PRIu64 " %s%s", n, one, shfs_plural(n));
}

void shfs_check_show_counts(struct shfs_buf *out, const struct shfs_check *c)
{
	show_checked_count(out, c->segments, "segment");
	shfs_buf_str(out, " and ");
	show_checked_count(out, c->hook_logs, "hook log");
	shfs_buf_str(out, " with ");
	show_checked_count(out, c->records, "record");
	shfs_buf_str(out, "; ");
	show_checked_count(out, c->objects, "content");
	shfs_buf_str(out, " in ");
	show_checked_count(out, c->packs, "pack");
	shfs_buf_str(out, " and ");
	show_checked_count(out, c->loose, "file");
	shfs_buf_str(out, " of their own");
	if (c->read_bytes) {
		shfs_buf_str(out, "; read: ");
		shfs_show_size(out, c->read_bytes);
		shfs_buf_str(out, " stored, ");
		shfs_show_size(out, c->content_bytes);
		shfs_buf_str(out, " unpacked");
	}
	shfs_buf_char(out, '\n');
	if (c->away)
		shfs_buf_printf(out, "%" PRIu64 " content%s only on a remote\n", c->away,
		                c->away == 1 ? " is" : "s are");
}

/* --- for programs --- */

static void json_flaw(struct shfs_json *json, const struct shfs_flaw *f)
{
	char name[44];

	shfs_json_object(json, NULL);
	shfs_json_str(json, "kind", shfs_flaw_name(f->kind));
	shfs_json_bool(json, "harmless", f->harmless);
	shfs_json_str(json, "file", f->file);
	if (f->bytes) {
		shfs_json_int(json, "offset", (int64_t)f->offset);
		shfs_json_int(json, "bytes", (int64_t)f->bytes);
	}
	if (f->has_object) {
		shfs_object_name(&f->object, name);
		shfs_json_str(json, "object", name);
	}
	shfs_json_str(json, "text", f->text);
	shfs_json_object_end(json);
}

static void json_loss(struct shfs_json *json, const struct shfs_loss *l)
{
	char name[44];

	shfs_object_name(&l->object, name);
	shfs_json_object(json, NULL);
	shfs_json_str(json, "path", l->path);
	shfs_json_int(json, "n", (int64_t)l->n);
	shfs_json_str(json, "object", name);
	shfs_json_bool(json, "known", l->known);
	shfs_json_object_end(json);
}

void shfs_check_json(struct shfs_json *json, const struct shfs_check *c)
{
	shfs_json_array(json, "flaws");
	for (size_t i = 0; i < c->n_flaws; i++)
		json_flaw(json, &c->flaws[i]);
	shfs_json_array_end(json);
	shfs_json_array(json, "lost");
	for (size_t i = 0; i < c->n_losses; i++)
		json_loss(json, &c->losses[i]);
	shfs_json_array_end(json);
	shfs_json_int(json, "segments", (int64_t)c->segments);
	shfs_json_int(json, "hook_logs", (int64_t)c->hook_logs);
	shfs_json_int(json, "records", (int64_t)c->records);
	shfs_json_int(json, "packs", (int64_t)c->packs);
	shfs_json_int(json, "loose", (int64_t)c->loose);
	shfs_json_int(json, "objects", (int64_t)c->objects);
	shfs_json_int(json, "named", (int64_t)c->named);
	shfs_json_int(json, "away", (int64_t)c->away);
	shfs_json_bool(json, "index_compared", c->index_compared);
	shfs_json_int(json, "read_bytes", (int64_t)c->read_bytes);
	shfs_json_int(json, "content_bytes", (int64_t)c->content_bytes);
	if (c->resumed_ns)
		shfs_json_time(json, "resumed", c->resumed_ns);
}

/* --- the progress --- */

static int64_t begun_ns, drawn_ns;

void shfs_check_progress(void *arg, uint64_t done, uint64_t total)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int64_t now = shfs_clock_ns(CLOCK_MONOTONIC);

	if (now < drawn_ns + DRAW_NS || !total || !isatty(STDERR_FILENO))
		return;
	begun_ns = begun_ns ?: now;
	drawn_ns = now;
	shfs_progress_end(); /* this line is drawn more often */
	shfs_progress_text(&text, "checking the store",
	                   (int)((now - begun_ns) / SHFS_NSEC_PER_SEC), done, total);
	if (!text.failed)
		fprintf(stderr, "\r%s\033[K", text.data);
}

void shfs_check_progress_end(void)
{
	if (drawn_ns)
		fputs("\r\033[K", stderr);
}

/* --- */

int shfs_check_fail(int error)
{
	if (error == -EBUSY) {
		shfs_error("something is recording into the store, or removing something "
		           "from it");
		shfs_hint("shfs status lists the mounts; one that was unmounted goes on "
		          "while a shell stands in it: Enter there, or cd");
		return SHFS_EXIT_REFUSED;
	}
	shfs_error("the check could not be completed: %s", strerror(-error));
	return SHFS_EXIT_FAILURE;
}
