/* SPDX-License-Identifier: MIT */
/* Random work, taken in piece by piece; what many pieces hold, asked for at once. */
#include "tests/unit/indexkit.h"

/* A line of a hook log. */
struct late {
	unsigned shell;
	bool end;
	unsigned number;
	double ms;
	uint32_t last_pid;
};

struct work {
	struct kit *k;
	unsigned seed;
	double ms;
	uint64_t process[4];
	double start_ms[3];
	unsigned number[3];
	bool running[3];
	bool told[3];         /* the shell's log has begun */
	struct late late[16]; /* what it does not say yet */
	unsigned n_late;
	struct inode {
		unsigned text, mode, links;
		double mtime_ms, ctime_ms;
	} inodes[3];
	struct inode *names[8]; /* NULL: nothing is there */
};

static unsigned draw(struct work *w, unsigned below)
{
	return rand_r(&w->seed) % below;
}

static void use_shell(struct work *w, unsigned i)
{
	kit_use_shell(w->k, 500 + i, w->start_ms[i]);
}

/* The logs come late, each with all that happened since it came last. */
static void logs_come(struct work *w)
{
	for (unsigned i = 0; i < 3; i++) {
		use_shell(w, i);
		for (unsigned k = 0; k < w->n_late; k++) {
			const struct late *l = &w->late[k];

			if (l->shell != i)
				continue;
			if (!w->told[i])
				kit_shell(w->k, 500 + i, w->start_ms[i],
				          w->start_ms[i] + 50);
			w->told[i] = true;
			if (l->end)
				kit_end(w->k, l->number, l->ms, l->last_pid, 0);
			else
				kit_begin(w->k, l->number, l->ms, l->last_pid, "work");
		}
	}
	w->n_late = 0;
}

/* A command of a shell begins, or ends. */
static void shell_step(struct work *w)
{
	unsigned i = draw(w, 3);
	bool end = w->running[i] && draw(w, 2);

	if (w->n_late == ARRAY_SIZE(w->late))
		logs_come(w);
	w->number[i] += !end;
	w->running[i] = !end;
	w->late[w->n_late++] =
		(struct late){ i, end, w->number[i], w->ms, 1000 + draw(w, 3000) };
	if (!draw(w, 3))
		logs_come(w);
}

static void process_step(struct work *w)
{
	unsigned shell = draw(w, 3), i = draw(w, 4);
	bool own = draw(w, 4) == 0;

	w->process[i] = own ? kit_process(w->k, 500 + shell, w->start_ms[shell], 1, 10,
	                                  .sid = 500 + shell, .seen_ms = w->ms)
	                    : kit_process(w->k, 1000 + draw(w, 3000), w->ms, 500 + shell,
	                                  w->start_ms[shell], .sid = 500 + shell);
}

static void file_step(struct work *w)
{
	uint64_t process = w->process[draw(w, 4)];
	char name[32], other[32], text[32];
	struct shfs_content c;

	snprintf(name, sizeof(name), "d%u/f%u", draw(w, 3), draw(w, 6));
	snprintf(other, sizeof(other), "d%u/f%u", draw(w, 3), draw(w, 6));
	snprintf(text, sizeof(text), "%u", draw(w, 9));
	c = kit_content(w->k, text, w->ms);
	switch (draw(w, 9)) {
	case 0:
		kit_rename(w->k, process, name, other, w->ms);
		break;
	case 1:
		kit_pathop(w->k, process, SHFS_OP_UNLINK, name, NULL, w->ms, NULL, &c,
		           false);
		break;
	case 2:
		kit_pathop(w->k, process, SHFS_OP_RENAME, draw(w, 2) ? "d1" : "d2", "d0",
		           w->ms, NULL, NULL, true);
		break;
	case 3:
		c.flags |= SHFS_CONTENT_INCOMPLETE;
		kit_preimage(w->k, process, name, w->ms, c);
		break;
	case 4:
		kit_pathop(w->k, process, SHFS_OP_CHMOD, name, NULL, w->ms, &c, NULL,
		           false);
		break;
	case 5:
		kit_read(w->k, process, name, w->ms, kit_print(w->k, text, w->ms));
		break;
	case 6:
		kit_read(w->k, process, name, w->ms, c);
		break;
	default:
		kit_write(w->k, process, name, w->ms, c);
	}
}

/* --- files with several names --- */

static const char *name_of(unsigned i)
{
	static const char *const names[] = { "n/0", "n/1", "n/2", "n/3",
		                             "m/0", "m/1", "m/2", "m/3" };

	return names[i];
}

/* What is found at one of its names now. */
static struct shfs_content held(struct work *w, const struct inode *inode)
{
	char text[32];
	struct shfs_content c;

	snprintf(text, sizeof(text), "%u", inode->text);
	c = draw(w, 2) ? kit_content(w->k, text, inode->mtime_ms)
	               : kit_print(w->k, text, inode->mtime_ms);
	c.ctime_ns = kit_time(w->k, inode->ctime_ms).real_ns;
	c.mode = inode->mode;
	if (inode->links > 1)
		c.flags |= SHFS_CONTENT_LINKED;
	if (!draw(w, 20))
		c.flags |= SHFS_CONTENT_INCOMPLETE;
	return c;
}

/* A change of a name: of its content nothing need be told. */
static void change_name(struct work *w, enum shfs_pathop op, unsigned from, unsigned to)
{
	struct inode *inode = w->names[from];
	struct shfs_content c = held(w, inode);
	bool told = draw(w, 4), two = op != SHFS_OP_UNLINK;

	if (op != SHFS_OP_LINK)
		w->names[from] = NULL;
	if (two)
		w->names[to] = inode;
	inode->links += op == SHFS_OP_LINK;
	inode->links -= op == SHFS_OP_UNLINK;
	inode->ctime_ms = w->ms;
	kit_inode_op(w->k, w->process[0], op, name_of(from), two ? name_of(to) : NULL,
	             w->ms, told && two ? &c : NULL, told && !two ? &c : NULL);
}

static void change_attributes(struct work *w, unsigned i)
{
	struct inode *inode = w->names[i];
	bool times = draw(w, 2);
	struct shfs_content c;

	inode->ctime_ms = w->ms;
	if (times)
		inode->mtime_ms = 1000 + draw(w, 3);
	else
		inode->mode = draw(w, 2) ? 0100644 : 0100600;
	c = held(w, inode);
	kit_inode_op(w->k, w->process[0], times ? SHFS_OP_UTIMES : SHFS_OP_CHMOD,
	             name_of(i), NULL, w->ms, &c, NULL);
}

static void change_content(struct work *w, unsigned i)
{
	struct inode *inode = w->names[i];

	inode->text = draw(w, 12);
	inode->mtime_ms = inode->ctime_ms = w->ms;
	kit_write(w->k, w->process[0], name_of(i), w->ms, held(w, inode));
}

static void create(struct work *w, unsigned i)
{
	struct inode *inode = &w->inodes[draw(w, ARRAY_SIZE(w->inodes))];

	if (inode->links)
		return;
	*inode = (struct inode){ .mode = 0100644, .links = 1 };
	w->names[i] = inode;
	w->k->ino = 100 + (inode - w->inodes);
	change_content(w, i);
}

/* A late reader saw it as it was. */
static void read_name(struct work *w, unsigned i)
{
	double begin_ms = w->ms - draw(w, 2) * draw(w, 500);
	struct shfs_content c = held(w, w->names[i]);

	kit_access(w->k, w->process[1], name_of(i), begin_ms, w->ms, SHFS_ACCESS_READ, &c,
	           NULL);
}

static void lose(struct work *w)
{
	struct shfs_record rec = { .type = SHFS_REC_LOST,
		                   .time = kit_time(w->k, w->ms),
		                   .lost = { .count = 1 } };

	kit_append(w->k, &rec);
}

static void name_step(struct work *w)
{
	unsigned i = draw(w, ARRAY_SIZE(w->names)), to = draw(w, ARRAY_SIZE(w->names));
	struct inode *inode = w->names[i];
	unsigned what = draw(w, 20);

	if (!inode) {
		create(w, i);
		return;
	}
	w->k->ino = 100 + (inode - w->inodes);
	if (what < 6 && !w->names[to])
		change_name(w, SHFS_OP_LINK, i, to);
	else if (what < 8 && !w->names[to])
		change_name(w, SHFS_OP_RENAME, i, to);
	else if (what < 9)
		change_name(w, SHFS_OP_UNLINK, i, 0);
	else if (what < 12)
		change_attributes(w, i);
	else if (what < 14)
		change_content(w, i);
	else if (what < 15)
		kit_preimage(w->k, w->process[0], name_of(i), w->ms, held(w, inode));
	else if (what < 16 && !draw(w, 8))
		lose(w);
	else
		read_name(w, i);
}

/* All of it, or a little, as there is no time for more. */
static void take_in(struct work *w)
{
	_cleanup_index_ struct shfs_index *index = NULL;
	unsigned times = draw(w, 8);
	uint64_t left_bytes;

	if (times < 4)
		kit_ingest(w->k);
	assert_ok(shfs_index_open(w->k->store, SHFS_INDEX_WRITE, &index));
	for (; times >= 4; times--) {
		int r = shfs_index_ingest_within(index, NULL, 0, &left_bytes);

		assert_in_range(r, 0, 1);
		assert_true(r || !left_bytes);
	}
}

static void random_work(struct kit *k, unsigned seed, int steps)
{
	struct work w = { k, .seed = seed, .ms = 5000, .start_ms = { 1000, 2000, 3000 } };

	for (int i = 0; i < steps; i++) {
		unsigned what = draw(&w, 20);

		w.ms += 1 + draw(&w, 200);
		if (what < 3)
			shell_step(&w);
		else if (what < 5)
			process_step(&w);
		else if (what == 5)
			take_in(&w);
		else if (what == 6 && !draw(&w, 4)) {
			kit_umount(k);
			kit_mount_at(k, KIT_ROOT, 3000);
			memset(w.process, 0, sizeof(w.process));
		} else if (what < 14) {
			name_step(&w);
			k->ino = 2;
		} else {
			file_step(&w);
		}
	}
	logs_come(&w);
}

static char *rebuilt(struct kit *k, unsigned batch)
{
	shfs_ingest_batch = batch;
	assert_ok(shfs_index_rebuild(k->store, NULL, NULL));
	return kit_dump(k);
}

/* Taken in as it came, in transactions of one record, of some, or at once: the same rows.
 */
static void test_random_pieces(void **state)
{
	const char *more = getenv("SHFS_TEST_SEED");
	unsigned first = more ? strtoul(more, NULL, 10) : 1;

	for (unsigned seed = first; seed < first + 6; seed++) {
		_cleanup_free_ char *pieces = NULL, *single = NULL, *whole = NULL;
		struct kit k;

		shfs_ingest_batch = 1 + seed * 7 % 20;
		kit_open(&k);
		kit_mount_at(&k, KIT_ROOT, 3000);
		random_work(&k, seed, 400);
		kit_umount(&k);
		kit_ingest(&k);
		pieces = kit_dump(&k);
		single = rebuilt(&k, 1);
		whole = rebuilt(&k, 200000);
		assert_string_equal(single, whole);
		assert_string_equal(pieces, whole);
		kit_close(&k);
	}
}

/* Of many files at once: the same accesses as by looking at all of them. */
static void check_files_at_once(struct kit *k, const char *which)
{
	_cleanup_free_ char *quick = NULL;
	char sql[400];
	const char *columns = "SELECT count(*), total(access_id), total(seq_key),"
			      " total(file_id), count(file2_id) FROM v_access";

	snprintf(sql, sizeof(sql),
	         "%s WHERE file_id IN (SELECT file_id FROM v_path WHERE %s)", columns,
	         which);
	quick = strdup(kit_ask(k, 5, sql));
	snprintf(sql, sizeof(sql),
	         "%s WHERE +file_id IN (SELECT file_id FROM v_path WHERE %s)", columns,
	         which);
	assert_string_equal(quick, kit_ask(k, 5, sql));
}

static void test_files_at_once(void **state)
{
	static const char *const sets[] = {
		"1",
		"0",
		"file_id % 7 = 3",
		"file_id % 1000 = 999",
		"file_id BETWEEN 600 AND 700",
		"file_id = 1 OR file_id > 2400",
		"file_id BETWEEN 10 AND 20 OR file_id % 900 = 1",
	};
	double ms = 5000;
	struct kit k;

	kit_open(&k);
	kit_mount(&k);
	for (unsigned round = 1; round <= 3; round++) {
		for (unsigned i = 0; i < 2500; i++) {
			char name[32], other[32];

			snprintf(name, sizeof(name), "d%u/f%u", i / 50, i);
			snprintf(other, sizeof(other), "d%u/g%u", i / 50, i);
			if (i % round)
				continue;
			kit_read(&k, 0, name, ms++, kit_content(&k, "1", 1000));
			if (i % 20 == 0)
				kit_rename(&k, 0, name, other, ms++);
		}
		/* one file that fills pages */
		for (unsigned i = 0; i < 2000 && round == 2; i++)
			kit_read(&k, 0, "d1/f60", ms++, kit_content(&k, "1", 1000));
		kit_ingest(&k);
	}
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++)
		check_files_at_once(&k, sets[i]);
	assert_string_not_equal(kit_ask(&k, 1,
	                                "SELECT count(*) FROM v_access WHERE"
	                                " file_id IN (SELECT file_id FROM v_path"
	                                "  WHERE file_id BETWEEN 50 AND 70)"),
	                        "0");
	kit_close(&k);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_random_pieces),
	cmocka_unit_test(test_files_at_once),
};

int main(int argc, char **argv)
{
	return shfs_unit_main(tests, argc, argv);
}
