/* SPDX-License-Identifier: MIT */
/* Which file a name led to: from events of names to records. */
#include "tests/unit/kmod-fast-path/recorder/recorderkit.h"

static void tell_names(struct scene *s, enum shfs_event_type type, const char *from,
                       const char *to, const char *looked_up, uint32_t flags)
{
	union event e;

	fill(s, &e, type, PID, from, to);
	if (looked_up)
		fill_file(s, &e, looked_up);
	e.event.flags = flags;
	tell(s, &e);
}

static ino_t make_known(struct scene *s, const char *path, uint64_t seed)
{
	struct stat st;

	write_now(s, path, 5000, seed);
	tell_close(s, path, PID, SHFS_EVENT_WRITABLE | SHFS_EVENT_WRITTEN);
	assert_ok(fstatat(s->r.root_fd, path, &st, 0));
	return st.st_ino;
}

static void rename_now(struct scene *s, const char *from, const char *to)
{
	assert_ok(renameat(s->r.root_fd, from, s->r.root_fd, to));
}

/* An editor saves in this way: its close is of a file whose first name is gone. */
static void a_close_goes_to_the_name_that_is_left(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	union event e;

	scene_begin(&s);
	write_now(&s, "tmp", 5000, 1);
	tell_write(&s, "tmp", PID);
	assert_ok(linkat(s.r.root_fd, "tmp", s.r.root_fd, "dest", 0));
	tell_names(&s, SHFS_EVENT_LINK, "tmp", "dest", "dest", 0);
	fill_close(&s, &e, PID, "tmp", SHFS_EVENT_WRITABLE | SHFS_EVENT_WRITTEN);
	assert_ok(unlinkat(s.r.root_fd, "tmp", 0));
	tell_names(&s, SHFS_EVENT_UNLINK, "tmp", "", NULL, 0);
	tell(&s, &e);
	j = scene_journal(&s);
	kit_assert_object(&s.kit, &kit_find(j, "dest")->access.made, 5000, 1);
	scene_end(&s);
}

/* A file has the inode of one that was removed, and has lost its own name untold. */
static void a_reused_inode_is_another_file(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	union event e;

	scene_begin(&s);
	write_now(&s, "f", 5000, 1);
	for (uint32_t generation = 1; generation <= 2; generation++) {
		fill_close(&s, &e, PID, "f", SHFS_EVENT_WRITABLE | SHFS_EVENT_WRITTEN);
		e.event.file.generation = generation;
		if (generation == 1) {
			tell(&s, &e);
			tell_names(&s, SHFS_EVENT_UNLINK, "f", "", "f", 0);
			continue;
		}
		e.event.file.nlink = 0;
		e.event.text[0] = 'g';
		tell(&s, &e);
	}
	j = scene_journal(&s);
	assert_non_null(kit_find(j, "f"));
	assert_non_null(kit_find(j, "g"));
	scene_end(&s);
}

/* By the time that somebody looks, the name may lead to another file. */
static void what_has_moved_on_is_not_what_is_there(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	const struct shfs_record *rec;
	ino_t first;

	scene_begin(&s);
	late_scene(&s, "bpf-tracepoints");
	first = make_known(&s, "a", 1);
	make_known(&s, "b", 2);
	rename_now(&s, "a", "c");
	rename_now(&s, "b", "c");
	tell_names(&s, SHFS_EVENT_RENAME, "a", "c", "c", SHFS_EVENT_INEXACT);
	j = scene_journal(&s);
	rec = &j->recs[j->n - 1];
	assert_int_equal(rec->type, SHFS_REC_PATHOP);
	assert_int_equal(rec->pathop.ino, first);
	assert_false(rec->pathop.content.flags & SHFS_CONTENT_KNOWN);
	scene_end(&s);
}

/* A file with another name by now, and written to since: which one was linked is known
 * only if a later event shows it. */
static void a_link_that_a_later_event_confirms(void **state)
{
	for (int confirmed = 0; confirmed < 2; confirmed++) {
		struct scene s;
		_cleanup_free_ struct kit_journal *j = NULL;
		const struct shfs_record *rec;
		union event e;
		struct stat st;

		scene_begin(&s);
		late_scene(&s, "bpf-tracepoints");
		write_now(&s, "a", 5000, 1);
		assert_ok(linkat(s.r.root_fd, "a", s.r.root_fd, "b", 0));
		rename_now(&s, "a", "c");
		assert_ok(fstatat(s.r.root_fd, "b", &st, 0));
		fill(&s, &e, SHFS_EVENT_LINK, PID, "a", "b");
		fill_file(&s, &e, "b");
		e.event.time_ns -= 1000000000;
		e.event.flags =
			SHFS_EVENT_INEXACT | (confirmed ? SHFS_EVENT_CONFIRMED : 0);
		tell(&s, &e);
		j = scene_journal(&s);
		rec = &j->recs[j->n - 1];
		assert_int_equal(rec->type, SHFS_REC_PATHOP);
		assert_int_equal(rec->pathop.ino, confirmed ? st.st_ino : 0);
		scene_end(&s);
	}
}

static bool is_stored(struct scene *s, uint64_t seed)
{
	_cleanup_buf_ struct shfs_buf data = { 0 };
	struct shfs_object_id id;

	kit_noise(&data, 5000, seed);
	return shfs_object_find(s->kit.store, data.data, data.len, &id) == 1;
}

/* A file has got a secret name, but it was not seen which file that was: what was
 * archived of it goes. */
static void a_secret_name_that_was_not_seen(void **state)
{
	_cleanup_free_ struct kit_journal *j = NULL;
	struct scene s;

	scene_begin(&s);
	late_scene(&s, "bpf-tracepoints");
	make_known(&s, "t", 1);
	kit_until(is_stored(&s, 1));
	rename_now(&s, "t", ".env");
	rename_now(&s, ".env", "gone");
	tell_names(&s, SHFS_EVENT_RENAME, "t", ".env", NULL, SHFS_EVENT_INEXACT);
	kit_until(!is_stored(&s, 1));
	j = scene_journal(&s);
	scene_end(&s);
}

/* A truncated file has another name, and has lost the one that is told before anybody
 * looks: what the other name leads to has changed, too. */
static void what_has_moved_on_may_have_another_name(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	const struct shfs_record *rec;

	scene_begin(&s);
	late_scene(&s, "bpf-tracepoints");
	make_known(&s, "a", 1);
	assert_ok(linkat(s.r.root_fd, "a", s.r.root_fd, "b", 0));
	tell_names(&s, SHFS_EVENT_LINK, "a", "b", "b", 0);
	rename_now(&s, "a", "c");
	make_known(&s, "other", 2);
	rename_now(&s, "other", "a");
	tell_names(&s, SHFS_EVENT_TRUNCATE, "a", "", "a", SHFS_EVENT_INEXACT);
	j = scene_journal(&s);
	rec = &j->recs[j->n - 1];
	assert_int_equal(rec->pathop.op, SHFS_OP_TRUNCATE);
	assert_int_equal(rec->pathop.content.flags &
	                         (SHFS_CONTENT_LINKED | SHFS_CONTENT_INCOMPLETE |
	                          SHFS_CONTENT_OBJECT),
	                 SHFS_CONTENT_LINKED | SHFS_CONTENT_INCOMPLETE);
	scene_end(&s);
}

/* A file of which nothing was recorded: it may be the one that was renamed, unless it has
 * changed since. */
static void changed_since_it_may_be_another(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	const struct shfs_record *rec;
	union event e;

	scene_begin(&s);
	late_scene(&s, "bpf-tracepoints");
	write_now(&s, "b", 5000, 1);
	tell_names(&s, SHFS_EVENT_RENAME, "a", "b", "b", SHFS_EVENT_INEXACT);
	fill(&s, &e, SHFS_EVENT_RENAME, PID, "c", "b");
	fill_file(&s, &e, "b");
	e.event.flags = SHFS_EVENT_INEXACT;
	happens_now(&e);
	tell(&s, &e);
	j = scene_journal(&s);
	rec = &j->recs[j->n - 2];
	assert_int_equal(rec[0].pathop.op, SHFS_OP_RENAME);
	assert_false(rec[0].pathop.content.flags & SHFS_CONTENT_KNOWN);
	kit_assert_object(&s.kit, &rec[1].pathop.content, 5000, 1);
	scene_end(&s);
}

/* So it may be what was truncated, or got another mode. */
static void changed_since_another_may_be_meant(void **state)
{
	static const enum shfs_event_type types[] = { SHFS_EVENT_TRUNCATE,
		                                      SHFS_EVENT_CHANGE };

	for (unsigned i = 0; i < 2 * ARRAY_SIZE(types); i++) {
		struct scene s;
		_cleanup_free_ struct kit_journal *j = NULL;
		const struct shfs_record *rec;
		bool later = i % 2;
		union event e;

		scene_begin(&s);
		late_scene(&s, "bpf-tracepoints");
		write_now(&s, "a", 5000, 1);
		fill(&s, &e, types[i / 2], PID, "a", "");
		fill_file(&s, &e, "a");
		e.event.flags = SHFS_EVENT_INEXACT;
		happens_now(&e);
		if (later)
			e.event.time_ns -= 1000000000;
		tell(&s, &e);
		j = scene_journal(&s);
		rec = &j->recs[j->n - 1];
		assert_int_equal(rec->type, SHFS_REC_PATHOP);
		if (later)
			assert_int_equal(rec->pathop.ino, 0);
		else
			assert_int_not_equal(rec->pathop.ino, 0);
		if (later)
			assert_false(rec->pathop.content.flags & SHFS_CONTENT_OBJECT);
		else
			kit_assert_object(&s.kit, &rec->pathop.content, 5000, 1);
		scene_end(&s);
	}
}

/* A linked file has changed since: its content is unknown, and both names tell which. */
static void a_link_is_known_by_both_names(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	const struct shfs_record *rec;
	struct stat st;

	scene_begin(&s);
	late_scene(&s, "bpf-tracepoints");
	write_now(&s, "a", 5000, 1);
	assert_ok(linkat(s.r.root_fd, "a", s.r.root_fd, "b", 0));
	assert_ok(fstatat(s.r.root_fd, "a", &st, 0));
	tell_names(&s, SHFS_EVENT_LINK, "a", "b", "a", SHFS_EVENT_INEXACT);
	j = scene_journal(&s);
	rec = &j->recs[j->n - 1];
	assert_int_equal(rec->pathop.op, SHFS_OP_LINK);
	assert_int_equal(rec->pathop.ino, st.st_ino);
	assert_false(rec->pathop.content.flags & SHFS_CONTENT_KNOWN);
	scene_end(&s);
}

static void a_link_has_not_written_an_old_file(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	unsigned n_made = 0;

	scene_begin(&s);
	s.r.since_ns = shfs_clock_ns(CLOCK_REALTIME) - 3600 * 1000000000LL;
	write_now(&s, "old", 5000, 1);
	set_mtime(&s, "old");
	write_now(&s, "new", 5000, 2);
	tell_names(&s, SHFS_EVENT_LINK, "", "old", "old", 0);
	tell_names(&s, SHFS_EVENT_LINK, "", "new", "new", 0);
	j = scene_journal(&s);
	for (unsigned i = 0; i < j->n; i++)
		n_made += j->recs[i].type == SHFS_REC_PATHOP &&
		          j->recs[i].pathop.op == SHFS_OP_MKNOD;
	assert_int_equal(n_made, 1);
	assert_int_equal(kit_find(j, "old")->type, SHFS_REC_PREIMAGE);
	kit_assert_object(&s.kit, &kit_find(j, "old")->preimage.content, 5000, 1);
	assert_int_equal(kit_find(j, "new")->type, SHFS_REC_ACCESS);
	kit_assert_object(&s.kit, &kit_find(j, "new")->access.made, 5000, 2);
	scene_end(&s);
}

/* from and to were exchanged just now; other is the file that has from since, or 0. */
static void fill_exchange(struct scene *s, union event *e, const char *from,
                          const char *to, uint64_t other)
{
	fill(s, e, SHFS_EVENT_RENAME, PID, from, to);
	fill_file(s, e, to);
	e->event.flags = SHFS_EVENT_EXCHANGED;
	e->event.file.id = other;
	happens_now(e);
}

static void an_exchange_tells_of_both(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	const struct shfs_record *rec;

	scene_begin(&s);
	make_known(&s, "a", 1);
	make_known(&s, "b", 2);
	assert_ok(renameat2(s.r.root_fd, "a", s.r.root_fd, "b", RENAME_EXCHANGE));
	tell_names(&s, SHFS_EVENT_RENAME, "a", "b", "b", SHFS_EVENT_EXCHANGED);
	j = scene_journal(&s);
	rec = &j->recs[j->n - 1];
	assert_int_equal(rec->pathop.op, SHFS_OP_EXCHANGE);
	kit_assert_object(&s.kit, &rec->pathop.content, 5000, 1);
	kit_assert_object(&s.kit, &rec->pathop.victim, 5000, 2);
	scene_end(&s);
}

/* Its other file was never recorded, and only the later event says which one it was. */
static void an_exchange_tells_of_no_unknown_file(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	const struct shfs_record *rec;
	struct stat st;
	union event e;

	scene_begin(&s);
	make_known(&s, "a", 1);
	write_now(&s, "b", 5000, 2);
	assert_ok(renameat2(s.r.root_fd, "a", s.r.root_fd, "b", RENAME_EXCHANGE));
	tell_names(&s, SHFS_EVENT_RENAME, "a", "b", "b", SHFS_EVENT_EXCHANGED);
	assert_ok(renameat2(s.r.root_fd, "a", s.r.root_fd, "c", RENAME_NOREPLACE));
	make_known(&s, "d", 3);
	assert_ok(renameat2(s.r.root_fd, "d", s.r.root_fd, "c", RENAME_EXCHANGE));
	assert_ok(fstatat(s.r.root_fd, "d", &st, 0));
	fill_exchange(&s, &e, "d", "c", st.st_ino);
	tell(&s, &e);
	j = scene_journal(&s);
	for (unsigned i = 0; i < j->n; i++) {
		rec = &j->recs[i];
		if (rec->type != SHFS_REC_PATHOP)
			continue;
		kit_assert_object(&s.kit, &rec->pathop.content, 5000,
		                  i + 1 < j->n ? 1 : 3);
		if (i + 1 < j->n)
			assert_false(rec->pathop.victim.flags & SHFS_CONTENT_KNOWN);
		else
			kit_assert_object(&s.kit, &rec->pathop.victim, 5000, 2);
	}
	scene_end(&s);
}

/* The other file of an exchange was never recorded: the event says which one it was. */
static void an_exchange_names_the_other_file(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	const struct shfs_record *rec;
	struct stat st;
	union event e;

	scene_begin(&s);
	late_scene(&s, "fanotify");
	for (int later = 0; later < 2; later++) {
		const char *from = later ? "c" : "a", *to = later ? "d" : "b";

		write_now(&s, from, 5000, 1);
		write_now(&s, to, 5000, 2);
		assert_ok(fstatat(s.r.root_fd, to, &st, 0));
		assert_ok(renameat2(s.r.root_fd, from, s.r.root_fd, to, RENAME_EXCHANGE));
		if (later)
			rename_now(&s, from, "gone");
		if (later)
			write_now(&s, from, 5000, 3);
		fill_exchange(&s, &e, from, to, st.st_ino);
		tell(&s, &e);
	}
	j = scene_journal(&s);
	rec = &j->recs[j->n - 1];
	kit_assert_object(&s.kit, &rec[-1].pathop.victim, 5000, 2);
	assert_false(rec->pathop.victim.flags & SHFS_CONTENT_KNOWN);
	scene_end(&s);
}

/* The names are looked up late: the first one leads to a third file by now, which is
 * known by another name, or has changed since, or the driver has seen it come. */
static void an_exchange_tells_of_no_later_file(void **state)
{
	enum { AS_IT_WAS, OTHER_NAME, CHANGED, NOT_TOLD, N_CASES };

	for (int i = AS_IT_WAS; i < N_CASES; i++) {
		struct scene s;
		_cleanup_free_ struct kit_journal *j = NULL;
		const struct shfs_record *rec;
		struct stat st;
		union event e;

		scene_begin(&s);
		late_scene(&s, "bpf-tracepoints");
		make_known(&s, "a", 1);
		write_now(&s, "b", 5000, 2);
		if (i == OTHER_NAME)
			make_known(&s, "third", 3);
		else
			write_now(&s, "third", 5000, 3);
		assert_ok(renameat2(s.r.root_fd, "a", s.r.root_fd, "b", RENAME_EXCHANGE));
		if (i != AS_IT_WAS)
			rename_now(&s, "third", "a");
		assert_ok(fstatat(s.r.root_fd, "a", &st, 0));
		fill_exchange(&s, &e, "a", "b", i == NOT_TOLD ? 0 : st.st_ino);
		e.event.flags |= SHFS_EVENT_INEXACT;
		if (i == CHANGED)
			e.event.time_ns -= 1000000000;
		tell(&s, &e);
		j = scene_journal(&s);
		rec = &j->recs[j->n - 1];
		assert_int_equal(rec->pathop.op, SHFS_OP_EXCHANGE);
		kit_assert_object(&s.kit, &rec->pathop.content, 5000, 1);
		if (i == AS_IT_WAS)
			kit_assert_object(&s.kit, &rec->pathop.victim, 5000, 2);
		else
			assert_false(rec->pathop.victim.flags & SHFS_CONTENT_KNOWN);
		scene_end(&s);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_close_goes_to_the_name_that_is_left),
		cmocka_unit_test(a_reused_inode_is_another_file),
		cmocka_unit_test(what_has_moved_on_is_not_what_is_there),
		cmocka_unit_test(a_link_that_a_later_event_confirms),
		cmocka_unit_test(a_secret_name_that_was_not_seen),
		cmocka_unit_test(what_has_moved_on_may_have_another_name),
		cmocka_unit_test(changed_since_it_may_be_another),
		cmocka_unit_test(changed_since_another_may_be_meant),
		cmocka_unit_test(a_link_is_known_by_both_names),
		cmocka_unit_test(a_link_has_not_written_an_old_file),
		cmocka_unit_test(an_exchange_tells_of_both),
		cmocka_unit_test(an_exchange_tells_of_no_unknown_file),
		cmocka_unit_test(an_exchange_tells_of_no_later_file),
		cmocka_unit_test(an_exchange_names_the_other_file),
	};

	return shfs_unit_main(tests, argc, argv);
}
