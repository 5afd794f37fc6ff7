/* SPDX-License-Identifier: MIT */
/* Waiting for room in the queue of a capture, where nobody else is held up. */
#include "tests/unit/capturekit.h"

#include "store/capture/capture-internal.h"

#define QUEUE 20

struct held {
	struct kit k;
	int fd;
	pthread_t thread;
};

/* A queue that is half full, whose first event waits. */
static void hold(struct held *h, uint32_t wait_ms, unsigned n)
{
	struct shfs_snapshot *s;

	*h = (struct held){ 0 };
	assert_ok(shfs_config_init(&h->k.config));
	h->k.config.wait_ms = wait_ms;
	kit_begin(&h->k, kit_store(), QUEUE, 0);
	h->fd = kit_file(&h->k, "slow", 100000, 1);
	kit_gate = kit_inode(h->fd);
	s = shfs_snapshot_new(h->k.capture);
	shfs_snapshot_take(s, h->fd, SHFS_DEPTH_ARCHIVE, 1 << 20, 0);
	kit_emit_preimage(&h->k, "slow", s);
	shfs_snapshot_unref(s);
	for (unsigned i = 1; i < n; i++)
		assert_true(kit_emit_preimage(&h->k, "other", NULL));
}

static void release(struct held *h)
{
	kit_gate = 0;
	close(h->fd);
	kit_end(&h->k);
}

static unsigned waiters(struct held *h)
{
	unsigned n;

	pthread_mutex_lock(&h->k.capture->lock);
	n = h->k.capture->n_waiters;
	pthread_mutex_unlock(&h->k.capture->lock);
	return n;
}

static void *throttle(void *arg)
{
	struct held *h = arg;

	shfs_capture_throttle(h->k.capture);
	return NULL;
}

static void half_full_is_room(void **state)
{
	struct held h;

	hold(&h, 1000000, QUEUE / 2);
	shfs_capture_throttle(h.k.capture); /* or it would not come back */
	release(&h);
}

/* It waits, others still emit, and it goes on once there is room. */
static void more_is_waited_for(void **state)
{
	struct held h;

	hold(&h, 1000000, QUEUE / 2 + 1);
	assert_ok(pthread_create(&h.thread, NULL, throttle, &h));
	kit_until(waiters(&h) == 1);
	assert_true(kit_emit_preimage(&h.k, "while it waits", NULL));
	assert_int_equal(waiters(&h), 1);
	kit_gate = 0;
	assert_ok(pthread_join(h.thread, NULL));
	assert_int_equal(waiters(&h), 0);
	assert_int_equal(kit_stats(&h.k).lost, 0);
	release(&h);
}

/* Not for ever, and not again while nothing is taken. */
static void a_store_that_stands_still(void **state)
{
	struct held h;

	hold(&h, 50, QUEUE / 2 + 1);
	shfs_capture_throttle(h.k.capture);
	assert_true(h.k.capture->stalled);
	h.k.capture->wait_ms = 1000000; /* it would not come back */
	shfs_capture_throttle(h.k.capture);
	release(&h);
}

/* Nobody waits for a store that fails. */
static void a_store_that_fails(void **state)
{
	struct held h;

	hold(&h, 1000000, QUEUE / 2 + 1);
	assert_ok(pthread_create(&h.thread, NULL, throttle, &h));
	kit_until(waiters(&h) == 1);
	pthread_mutex_lock(&h.k.capture->lock);
	capture_fail(h.k.capture, -ENOSPC, 0);
	pthread_mutex_unlock(&h.k.capture->lock);
	assert_ok(pthread_join(h.thread, NULL));
	release(&h);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(half_full_is_room),
		cmocka_unit_test(more_is_waited_for),
		cmocka_unit_test(a_store_that_stands_still),
		cmocka_unit_test(a_store_that_fails),
	};

	return shfs_unit_main(tests, argc, argv);
}
