/* SPDX-License-Identifier: MIT */
/* Tests of store/capture/pool.c. */
#include "tests/unit/unit.h"

#include "store/capture/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB       ((size_t)1 << 20)
#define BLOCKS    40
#define ROUNDS    3000
#define KEPT_MOST (24 * MIB)

struct block {
	char *at;
	size_t room;
	char mark;
};

/* Bytes of this program that are in memory and of no file. */
static size_t resident_bytes(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	size_t size, resident, shared;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%zu %zu %zu", &size, &resident, &shared), 3);
	fclose(f);
	return (resident - shared) * (size_t)getpagesize();
}

static struct block take_marked(struct pool *pool, size_t size, char mark)
{
	struct block b = { .mark = mark };

	b.at = pool_take(pool, size, &b.room);
	assert_non_null(b.at);
	assert_true(b.room >= size);
	memset(b.at, mark, b.room);
	return b;
}

static void give_marked(struct pool *pool, struct block *b)
{
	for (size_t i = 0; i < b->room; i += 509)
		assert_int_equal(b->at[i], b->mark);
	if (b->room)
		assert_int_equal(b->at[b->room - 1], b->mark);
	pool_give(pool, b->at, b->room);
	*b = (struct block){ 0 };
}

/* Each block is whole, and no other's, whatever was taken and given before. */
static void blocks_are_apart(void **state)
{
	struct pool *pool = pool_new();
	struct block blocks[BLOCKS] = { 0 };
	unsigned seed = 1;

	assert_non_null(pool);
	for (int i = 0; i < ROUNDS; i++) {
		struct block *b = &blocks[rand_r(&seed) % BLOCKS];
		size_t most = rand_r(&seed) % 3 ? 64 << 10 : 4 * MIB;

		if (b->at)
			give_marked(pool, b);
		else
			*b = take_marked(pool, (size_t)rand_r(&seed) % most, (char)i);
		if (i % 500 == 0)
			pool_trim(pool);
	}
	for (int i = 0; i < BLOCKS; i++)
		if (blocks[i].at)
			give_marked(pool, &blocks[i]);
	pool_free(pool);
}

static void what_is_given_is_used_again(void **state)
{
	struct pool *pool = pool_new();
	struct block b = take_marked(pool, 3 * MIB, 1);
	char *before = b.at;

	give_marked(pool, &b);
	b = take_marked(pool, 2 * MIB + 1, 2);
	assert_ptr_equal(b.at, before);
	give_marked(pool, &b);
	/* but not a large one for a small one, which would occupy all of it */
	b = take_marked(pool, 600 << 10, 3);
	assert_ptr_not_equal(b.at, before);
	give_marked(pool, &b);
	pool_free(pool);
}

static void what_is_kept_is_bounded(void **state)
{
	struct pool *pool = pool_new();
	size_t before = resident_bytes();
	struct block blocks[BLOCKS];

	for (size_t i = 0; i < BLOCKS; i++)
		blocks[i] = take_marked(pool, 5 * MIB / 2, 1);
	assert_true(resident_bytes() >= before + BLOCKS * 2 * MIB);
	for (size_t i = 0; i < BLOCKS; i++)
		give_marked(pool, &blocks[i]);
	assert_true(resident_bytes() <= before + KEPT_MOST + 2 * MIB);
	pool_trim(pool);
	assert_true(resident_bytes() <= before + 2 * MIB);
	pool_free(pool);
}

static void too_much_is_refused(void **state)
{
	struct pool *pool = pool_new();
	size_t room;

	assert_null(pool_take(pool, SIZE_MAX, &room));
	assert_null(pool_take(pool, SIZE_MAX / 2, &room));
	pool_give(pool, NULL, 0);
	pool_free(pool);
	pool_free(NULL);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(blocks_are_apart),
	cmocka_unit_test(what_is_given_is_used_again),
	cmocka_unit_test(what_is_kept_is_bounded),
	cmocka_unit_test(too_much_is_refused),
};

int main(int argc, char **argv)
{
	return shfs_unit_main(tests, argc, argv);
}
