/* SPDX-License-Identifier: MIT */
/*
 * Solid frames, at random beside a model that has all contents: batches of small
 * contents, some of them twice, alike, not to be compressed, or with one hash; removals,
 * damage and cuts. SHFS_TEST_SEEDS has the seeds.
 */
#include "tests/unit/solidkit.h"

#include "store/objects/collect.h"
#include "store/objects/content.h"
#include "store/objects/inventory.h"
#include "store/objects/object-internal.h"
#include "store/objects/objects.h"
#include "store/objects/packs-internal.h"

#define CONTENTS  2000
#define LEN_MAX   9000
#define BATCH_MAX 300

struct known {
	struct shfs_object_id id;
	char *data;
	size_t len;
	bool gone;
	uint64_t secret; /* begins the content */
};

struct model {
	struct shfs_store *store;
	struct known known[CONTENTS];
	size_t n;
	uint64_t random;
};

static size_t below(struct model *m, size_t n)
{
	m->random = m->random * 6364136223846793005 + 1442695040888963407;
	return (size_t)(m->random >> 33) % n;
}

/* A content of its own, but one in ten is an earlier one, if that was not removed, and
 * one in ten is much alike one of a moment ago. */
static void make_content(struct model *m, struct known *k)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	size_t len = below(m, 20) ? below(m, LEN_MAX) : below(m, 70000);

	const struct known *old =
		m->n && !below(m, 10) ? &m->known[below(m, m->n)] : NULL;
	const struct known *like =
		m->n && !below(m, 10)
			? &m->known[m->n - 1 - below(m, MIN(m->n, (size_t)50))]
			: NULL;

	if (old && !old->gone) {
		k->data = malloc(old->len + 1);
		memcpy(k->data, old->data, old->len);
		k->len = old->len;
		k->secret = old->secret;
		return;
	}
	k->secret = (uint64_t)below(m, 1u << 30) << 32 | below(m, 1u << 30) | 1u << 31;
	if (like && like->len > 200) {
		shfs_buf_printf(&b, "%016llx\n", (unsigned long long)k->secret);
		shfs_buf_add(&b, like->data + 17, like->len - 17);
	} else if (below(m, 6)) { /* text that has much in common with others */
		shfs_buf_printf(&b, "%016llx\n", (unsigned long long)k->secret);
		while (b.len < len)
			shfs_buf_printf(&b, "#define NAME_%zu %zu /* of many */\n",
			                below(m, 300), below(m, 99999));
	} else if (below(m, 4)) {
		kit_noise(&b, len + 9, k->secret);
	} else {
		shfs_buf_printf(&b, "%llx", (unsigned long long)k->secret >> 29);
	}
	k->len = b.len;
	k->data = malloc(b.len + 1);
	memcpy(k->data, b.data ? b.data : "", b.len);
}

static void commit_some(struct model *m, size_t n)
{
	struct shfs_put *puts[BATCH_MAX];
	size_t first = m->n;

	n = MIN(n, (size_t)CONTENTS - m->n);
	for (size_t i = 0; i < n; i++) {
		struct known *k = &m->known[m->n];

		make_content(m, k);
		m->n++;
		assert_ok(shfs_object_put(m->store, k->data, k->len, 3, NULL, &puts[i]));
	}
	assert_ok(shfs_object_commit(m->store, puts, n));
	for (size_t i = 0; i < n; i++) {
		m->known[first + i].id = shfs_put_id(puts[i]);
		shfs_put_free(puts[i]);
	}
	assert_int_equal(m->store->n_waiting, 0);
}

/* Contents that are twice in the model go together. */
static bool is_gone(const struct model *m, const struct shfs_object_id *id)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->known[i].gone && shfs_object_equal(&m->known[i].id, id))
			return true;
	return false;
}

/* Reads each content. Returns how many are lost; those that are not are right. */
static size_t read_all(struct model *m, struct shfs_store *store)
{
	size_t lost = 0;

	for (size_t i = 0; i < m->n; i++) {
		_cleanup_buf_ struct shfs_buf out = { 0 };
		const struct known *k = &m->known[i];
		int r = shfs_object_read(store, &k->id, 100000, &out);

		if (k->gone) {
			assert_int_equal(r, -ENOENT);
			continue;
		}
		if (r) {
			assert_true(r == -ENOENT || r == -EBADMSG);
			lost++;
			continue;
		}
		assert_int_equal(out.len, k->len);
		assert_memory_equal(out.data ? out.data : "", k->data, k->len);
	}
	return lost;
}

static void reopen(struct model *m)
{
	struct shfs_store *again = open_again(m->store);

	shfs_store_close(m->store);
	m->store = again;
}

/* --- what the packs hold --- */

struct stored {
	struct model *m;
	unsigned solids;
	bool unpack;
};

static void assert_no_secret(const struct model *m, const char *bytes, size_t len)
{
	char secret[20];

	for (size_t i = 0; i < m->n; i++) {
		if (!m->known[i].gone)
			continue;
		snprintf(secret, sizeof(secret), "%016llx\n",
		         (unsigned long long)m->known[i].secret);
		assert_null(memmem(bytes, len, secret, 17));
	}
}

static int look_at_frame(void *arg, const struct frame *f, const unsigned char *bytes,
                         uint64_t offset)
{
	struct stored *s = arg;
	struct solid *solid;
	unsigned char *copy;

	s->solids += f->kind == FRAME_SOLID;
	if (f->kind == FRAME_RAW)
		assert_no_secret(s->m, (const char *)bytes, frame_bytes(f));
	if (f->kind != FRAME_SOLID || !s->unpack)
		return 0;
	copy = malloc(frame_bytes(f));
	memcpy(copy, bytes, frame_bytes(f));
	solid = solid_new(copy, frame_bytes(f));
	assert_non_null(solid);
	for (unsigned i = 0; i < solid_count(solid); i++) {
		struct frame member = solid_member(solid, i);
		char *data;

		assert_ok(solid_content(solid, s->m->store->codecs, &member, &data));
		assert_no_secret(s->m, data, member.size);
		free(data);
	}
	/* nothing lies between the contents */
	assert_int_equal(solid_member(solid, solid_count(solid) - 1).at +
	                         solid_member(solid, solid_count(solid) - 1).size,
	                 f->size);
	solid_unref(solid);
	return 0;
}

/* Returns how many solid frames there are. With unpack: what is gone is not in them. */
static unsigned look_at_packs(struct model *m, bool unpack)
{
	struct stored s = { .m = m, .unpack = unpack };
	struct kit_packs p = kit_packs(m->store);
	uint64_t end;

	for (unsigned i = 0; i < p.n; i++) {
		_cleanup_close_ int fd =
			openat(m->store->objects_fd, p.names[i], O_RDONLY);

		assert_ok(pack_scan_frames(fd, 0, look_at_frame, &s, &end));
	}
	kit_packs_free(&p);
	return s.solids;
}

static int add_bytes(void *arg, const struct shfs_stored *object)
{
	*(uint64_t *)arg += object->stored;
	return 0;
}

/* The parts of all contents are about the packs. */
static void assert_bytes_add_up(struct model *m)
{
	struct kit_packs p = kit_packs(m->store);
	uint64_t sum = 0, size = 0;

	assert_ok(shfs_inventory(m->store, add_bytes, &sum));
	for (unsigned i = 0; i < p.n; i++) {
		struct stat st;

		assert_ok(fstatat(m->store->objects_fd, p.names[i], &st, 0));
		size += (uint64_t)st.st_size;
	}
	kit_packs_free(&p);
	assert_in_range(sum, size - size / 50 - 1000, size);
}

/* --- --- */

static struct model *model_new(uint64_t seed)
{
	struct model *m = calloc(1, sizeof(*m));

	m->random = seed * 0x9e3779b97f4a7c15 + 1;
	m->store = kit_store();
	return m;
}

static void model_free(struct model *m)
{
	shfs_store_close(m->store);
	for (size_t i = 0; i < m->n; i++)
		free(m->known[i].data);
	free(m);
}

static uint64_t full_before;

static int begin_test(void **state)
{
	full_before = packs_full_bytes;
	return 0;
}

static int end_test(void **state)
{
	packs_full_bytes = full_before;
	shfs_object_hash = shfs_object_hash_xxh3;
	return 0;
}

/* Calls fn for each seed. */
static void each_seed(void (*fn)(uint64_t seed))
{
	const char *text = getenv("SHFS_TEST_SEEDS");
	char *end;

	for (text = text && *text ? text : "1 2 3"; *text; text = end) {
		fn(strtoull(text, &end, 10));
		if (end == text)
			break;
	}
}

/* --- put and read --- */

static void put_at_random(uint64_t seed)
{
	struct model *m = model_new(seed);

	packs_full_bytes =
		below(m, 2) ? full_before : 200000; /* several packs, with indexes */
	while (m->n < CONTENTS) {
		commit_some(m, 1 + below(m, below(m, 2) ? 20 : BATCH_MAX));
		if (!below(m, 8))
			reopen(m);
		if (!below(m, 8))
			assert_int_equal(read_all(m, m->store), 0);
	}
	assert_true(look_at_packs(m, true) > 3);
	assert_bytes_add_up(m);
	reopen(m);
	assert_int_equal(read_all(m, m->store), 0);
	for (int i = 0; i < 20; i++) {
		struct known *k = &m->known[below(m, m->n)];

		assert_holds(m->store, &k->id, k->data, k->len);
	}
	model_free(m);
}

static void batches(void **state)
{
	each_seed(put_at_random);
}

/* --- remove --- */

static void remove_at_random(uint64_t seed)
{
	struct model *m = model_new(seed);

	for (int round = 0; round < 4; round++) {
		struct shfs_object_id ids[CONTENTS];
		size_t n = 0, one_in = 2 + below(m, 20);
		struct shfs_store *reader;

		for (size_t i = 0; i < 2; i++)
			commit_some(m, 100 + below(m, 150));
		reader = open_again(m->store);
		assert_int_equal(read_all(m, reader), 0);
		for (size_t i = 0; i < m->n; i++)
			if (!m->known[i].gone && !below(m, one_in)) {
				ids[n++] = m->known[i].id;
				m->known[i].gone = true;
			}
		for (size_t i = 0; i < m->n; i++)
			m->known[i].gone = is_gone(m, &m->known[i].id);
		reopen(m); /* who removes is another process */
		assert_ok(shfs_objects_remove(m->store, ids, n));
		reopen(m);
		assert_int_equal(read_all(m, m->store), 0);
		assert_int_equal(read_all(m, reader), 0); /* it knew the old packs */
		look_at_packs(m, true);
		assert_bytes_add_up(m);
		shfs_store_close(reader);
	}
	model_free(m);
}

static void removals(void **state)
{
	each_seed(remove_at_random);
}

/* --- damage --- */

struct offsets {
	uint64_t at[CONTENTS];
	size_t len[CONTENTS];
	unsigned members[CONTENTS];
	size_t n;
};

static int add_solid(void *arg, const struct frame *f, const unsigned char *bytes,
                     uint64_t offset)
{
	struct offsets *o = arg;

	if (f->kind != FRAME_SOLID)
		return 0;
	o->members[o->n] = f->n_members;
	o->len[o->n] = frame_bytes(f);
	o->at[o->n++] = offset;
	return 0;
}

static bool keep_all(void *arg, const char *pack, uint64_t offset,
                     const struct shfs_object_id *id)
{
	return true;
}

/* A byte of a solid frame is another one: its contents are lost and no other one, before
 * and after the pack is written anew; and they come back when they are put again. */
static void damage_at_random(uint64_t seed)
{
	struct model *m = model_new(seed);
	struct offsets *o = calloc(1, sizeof(*o));
	_cleanup_free_ char *pack = NULL;
	unsigned char byte;
	uint64_t end;
	size_t lost, which;
	char *name;
	int fd;

	for (int i = 0; i < 5; i++)
		commit_some(m, 120);
	pack = kit_pack(m->store);
	fd = openat(m->store->objects_fd, pack, O_RDWR);
	assert_ok(pack_scan_frames(fd, 0, add_solid, o, &end));
	assert_true(o->n >= 3);
	which = below(m, o->n);
	end = o->at[which] + below(m, o->len[which]);
	assert_int_equal(pread(fd, &byte, 1, (off_t)end), 1);
	byte ^= (unsigned char)(1 << below(m, 8));
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)end), 1);
	close(fd);
	reopen(m);
	lost = read_all(m, m->store);
	/* some contents were put several times */
	assert_in_range(lost, o->members[which], o->members[which] * 3);

	name = strchr(pack, '/') + 1;
	assert_ok(shfs_packs_salvage(m->store, &name, 1, keep_all, NULL));
	reopen(m);
	assert_int_equal(read_all(m, m->store), lost);
	for (size_t i = 0; i < m->n; i++)
		put_one(m->store, m->known[i].data, m->known[i].len, 3);
	assert_int_equal(read_all(m, m->store), 0);
	free(o);
	model_free(m);
}

static void damage(void **state)
{
	each_seed(damage_at_random);
}

static bool keep_but(void *arg, const char *pack, uint64_t offset,
                     const struct shfs_object_id *id)
{
	return !shfs_object_equal(arg, id);
}

/* Of a content with a wrong hash in an intact frame only that is lost; repair drops it,
 * and the others stay. */
static void one_wrong_content(void **state)
{
	struct shfs_store *store = kit_store(), *again;
	char *name = (char *)"a-1-000000.pack";
	struct wrong_solid solid;

	put_wrong_solid(store, &solid);
	for (int i = 0; i < 3; i++) {
		_cleanup_buf_ struct shfs_buf out = { 0 };

		assert_int_equal(shfs_object_read(store, &solid.ids[i], 2000, &out),
		                 i == 1 ? -EBADMSG : 0);
	}
	again = open_again(store);
	assert_ok(shfs_packs_salvage(again, &name, 1, keep_but, &solid.ids[1]));
	for (int i = 0; i < 3; i++) {
		_cleanup_buf_ struct shfs_buf out = { 0 };

		assert_int_equal(shfs_object_read(store, &solid.ids[i], 2000, &out),
		                 i == 1 ? -ENOENT : 0);
	}
	assert_ok(shfs_objects_remove(again, &solid.ids[0], 1));
	assert_holds(again, &solid.ids[2], solid.texts[2], 1000);
	shfs_store_close(again);
	shfs_store_close(store);
}

/* The pack is cut anywhere: what was committed before is there, and goes on. */
static void cut_at_random(uint64_t seed)
{
	struct model *m = model_new(seed);
	size_t before;
	struct stat st;

	commit_some(m, 200);
	before = m->n;
	for (int i = 0; i < 15; i++) {
		_cleanup_free_ char *pack = kit_pack(m->store);
		off_t size, cut;

		assert_ok(fstatat(m->store->objects_fd, pack, &st, 0));
		size = st.st_size;
		commit_some(m, 30);
		assert_ok(fstatat(m->store->objects_fd, pack, &st, 0));
		for (size_t k = before; k < m->n; k++)
			free(m->known[k].data);
		m->n = before;
		cut = size + (off_t)below(m, (size_t)(st.st_size - size));
		{
			_cleanup_close_ int dir = openat(m->store->objects_fd, "packs",
			                                 O_RDONLY | O_DIRECTORY);
			_cleanup_close_ int fd =
				openat(m->store->objects_fd, pack, O_RDWR);
			_cleanup_free_ char *idx = index_path(strchr(pack, '/') + 1);

			reopen(m);
			unlinkat(dir, idx, 0);
			assert_int_equal(ftruncate(fd, cut), 0);
			reopen(m);
		}
		assert_int_equal(read_all(m, m->store), 0);
	}
	model_free(m);
}

static void cuts(void **state)
{
	each_seed(cut_at_random);
}

/* --- order --- */

struct order {
	struct shfs_objects seen;
	unsigned members, deltas;
};

static int look_at_base(void *arg, const struct frame *f, uint64_t offset)
{
	struct order *o = arg;
	bool seen = false;

	o->members += f->kind == FRAME_SOLID;
	if (f->kind == FRAME_DELTA) {
		for (size_t i = 0; i < o->seen.n && !seen; i++)
			seen = shfs_object_equal(&o->seen.ids[i], &f->base);
		assert_true(seen);
		o->deltas++;
	}
	return shfs_objects_add(&o->seen, &f->id);
}

/* Deltas of contents that the same commit writes lie behind them: a write that is cut
 * short leaves none without its base. */
static void deltas_lie_behind(void **state)
{
	struct shfs_store *store = kit_store();
	struct order o = { 0 };
	struct shfs_put *puts[80];
	char text[80][4000];

	for (int i = 0; i < 80; i++) {
		_cleanup_buf_ struct shfs_buf noise = { 0 };

		if (i % 2) {
			memcpy(text[i], text[i - 1], sizeof(text[i]));
			text[i][2000] ^= 1;
		} else {
			kit_noise(&noise, sizeof(text[i]) / 2, (uint64_t)i);
			for (size_t k = 0; k < sizeof(text[i]); k++)
				text[i][k] = "0123456789abcdef"[noise.data[k / 2] >>
				                                        4 * (k % 2) &
				                                15];
		}
		assert_ok(shfs_object_put(store, text[i], sizeof(text[i]), 3, NULL,
		                          &puts[i]));
	}
	assert_ok(shfs_object_commit(store, puts, 80));
	for (int i = 0; i < 80; i++) {
		struct shfs_object_id id = shfs_put_id(puts[i]);

		shfs_put_free(puts[i]);
		assert_holds(store, &id, text[i], sizeof(text[i]));
	}
	kit_each_frame(store, look_at_base, &o);
	assert_true(o.members > 20);
	assert_true(o.deltas > 20);
	shfs_objects_free(&o.seen);
	shfs_store_close(store);
}

/* --- reading many --- */

/* However many are read, little of them stays in memory. */
static void memory(void **state)
{
	struct model *m = model_new(1);
	struct shfs_store *reader;
	size_t most = 0, all = 0;

	while (m->n < CONTENTS)
		commit_some(m, BATCH_MAX);
	reader = open_again(m->store);
	for (int i = 0; i < CONTENTS; i++) {
		struct known *k = &m->known[below(m, CONTENTS)];

		assert_holds(reader, &k->id, k->data, k->len);
		all += m->known[i].len;
		most = MAX(most, reader->packs->solids_bytes);
		assert_true(reader->packs->solids_bytes <= 8u << 20);
	}
	assert_true(all > 9u << 20);
	assert_true(most > 6u << 20);
	shfs_store_close(reader);
	model_free(m);
}

/* --- names --- */

static void hash_of_few(const void *data, size_t len, uint8_t out[16])
{
	memset(out, (int)(len % 5), 16);
}

/* Contents of one batch that have one hash, and some of them are equal. */
static void names(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_put *puts[80];
	char text[80][40];

	shfs_object_hash = hash_of_few;
	for (int i = 0; i < 80; i++) {
		snprintf(text[i], sizeof(text[i]), "a content, number %d%.*s", i % 50 / 2,
		         i % 3, "....");
		assert_ok(shfs_object_put(store, text[i], strlen(text[i]), 3, NULL,
		                          &puts[i]));
	}
	assert_ok(shfs_object_commit(store, puts, 80));
	for (int i = 0; i < 80; i++) {
		struct shfs_object_id id = shfs_put_id(puts[i]);

		assert_holds(store, &id, text[i], strlen(text[i]));
		for (int k = 0; k < i; k++) {
			struct shfs_object_id other = shfs_put_id(puts[k]);

			assert_int_equal(shfs_object_equal(&id, &other),
			                 !strcmp(text[i], text[k]));
		}
	}
	for (int i = 0; i < 80; i++)
		shfs_put_free(puts[i]);
	shfs_store_close(store);
}

/* --- versions --- */

/* A store of format 1 is read; a pack of it gets no solid frame, and the store's format
 * is raised with the first pack of format 2. */
static void older_stores(void **state)
{
	struct shfs_store *store = kit_store(), *again;
	_cleanup_buf_ struct shfs_buf format = { 0 };
	_cleanup_free_ char *pack = NULL;
	struct shfs_object_id id;
	struct kit_packs packs;
	unsigned char byte = 1;
	int fd;

	id = put_one(store, "of before", 9, 3);
	pack = kit_pack(store);
	fd = openat(store->objects_fd, pack, O_WRONLY);
	assert_int_equal(pwrite(fd, &byte, 1, 7), 1);
	close(fd);
	assert_ok(shfs_write_file_at(store->dirfd, "format", 0600, "1\n", 2));
	again = open_again(store);
	shfs_store_close(store);

	store = TAKE_PTR(again);
	assert_holds(store, &id, "of before", 9);
	kit_read(store->dirfd, "format", &format);
	assert_string_equal(format.data, "1\n");
	put_one(store, "of now", 6, 3);
	packs = kit_packs(store);
	assert_int_equal(packs.n, 2);
	kit_packs_free(&packs);
	kit_read(store->dirfd, "format", &format);
	assert_string_equal(format.data, "2\n");
	assert_holds(store, &id, "of before", 9);
	shfs_store_close(store);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_test, end_test)

static const struct CMUnitTest tests[] = {
	TEST(batches), TEST(removals),     TEST(damage), TEST(one_wrong_content),
	TEST(cuts),    TEST(older_stores), TEST(names),  TEST(deltas_lie_behind),
	TEST(memory),
};

int main(int argc, char **argv)
{
	return shfs_unit_main(tests, argc, argv);
}
