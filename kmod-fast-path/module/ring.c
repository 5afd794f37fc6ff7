// SPDX-License-Identifier: GPL-2.0-only
/* the events of a subscription for its reader: one ring for each CPU. */
#include <linux/kernel.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/vmalloc.h>

#include "shfs.h"

#define RINGS_BYTES (32u << 20) /* for all CPUs */
#define RING_BYTES_MAX (8u << 20)
#define RING_BYTES_MIN (128u << 10)

void shfs_event_begin(struct shfs_ring *ring)
{
	/* busy before the time is taken: the reader waits for older events */
	smp_store_mb(ring->shared->busy, 1);
	ring->time_ns = ktime_get_boottime_ns();
}

static bool wants_reader(const struct shfs_subscription *sub,
			 const struct shfs_ring *ring)
{
	return ring->head - READ_ONCE(ring->shared->tail) > sub->ring_bytes / 8;
}

struct shfs_event *shfs_event_make(struct shfs_subscription *sub, struct shfs_ring *ring,
				   u16 type, u32 len, u32 len2)
{
	u32 size = ALIGN(sizeof(struct shfs_event) + len + len2, 8);
	u32 offset = ring->head & (sub->ring_bytes - 1);
	u32 left = sub->ring_bytes - offset, skip = left < size ? left : 0;
	/* the reader may have written any tail: never use more than is free */
	u64 used = ring->head - smp_load_acquire(&ring->shared->tail);
	struct shfs_event *event;

	ring->sequence++;
	if (used > sub->ring_bytes || size + skip > sub->ring_bytes - used) {
		WRITE_ONCE(ring->shared->lost, ++ring->lost);
		return NULL;
	}
	if (skip) {
		event = (struct shfs_event *)(ring->data + offset);
		event->size = skip;
		event->type = SHFS_DEVICE_FILLER;
		ring->head += skip;
		offset = 0;
	}
	event = (struct shfs_event *)(ring->data + offset);
	event->size = size;
	event->type = type;
	event->cpu = raw_smp_processor_id();
	event->flags = 0;
	event->text_len = len;
	event->text2_len = len2;
	event->sequence = ring->sequence;
	event->time_ns = ring->time_ns;
	return event;
}

void shfs_event_end(struct shfs_subscription *sub, struct shfs_ring *ring,
		    struct shfs_event *event)
{
	if (event) {
		ring->head += event->size;
		/* the event is whole: the reader acquires the head */
		smp_store_release(&ring->shared->head, ring->head);
	}
	/* after the head: a reader that sees busy end sees the head, too */
	smp_store_release(&ring->shared->busy, 0);
	if (event && unlikely(wants_reader(sub, ring)) &&
	    /* no barrier: a sleeping reader looks again after 10 ms */
	    waitqueue_active(&sub->wait))
		wake_up_interruptible(&sub->wait);
}

bool shfs_rings_want_reader(const struct shfs_subscription *sub)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		if (wants_reader(sub, sub->rings[cpu]))
			return true;
	return false;
}

static struct shfs_ring *make_ring(u32 bytes, int node)
{
	struct shfs_ring *ring = kzalloc_node(sizeof(*ring), GFP_KERNEL, node);

	if (!ring)
		return NULL;
	ring->shared = vmalloc_user(SHFS_DEVICE_HEADER_BYTES + bytes);
	if (!ring->shared) {
		kfree(ring);
		return NULL;
	}
	ring->data = (char *)ring->shared + SHFS_DEVICE_HEADER_BYTES;
	return ring;
}

int shfs_rings_make(struct shfs_subscription *sub)
{
	u32 bytes = rounddown_pow_of_two(RINGS_BYTES / num_possible_cpus());
	unsigned int cpu;

	sub->ring_bytes = clamp_t(u32, bytes, RING_BYTES_MIN, RING_BYTES_MAX);
	sub->rings = kcalloc(nr_cpu_ids, sizeof(*sub->rings), GFP_KERNEL);
	if (!sub->rings)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		sub->rings[cpu] = make_ring(sub->ring_bytes, cpu_to_node(cpu));
		if (!sub->rings[cpu])
			return -ENOMEM;
	}
	return 0;
}

void shfs_rings_free(struct shfs_subscription *sub)
{
	unsigned int cpu;

	if (!sub->rings)
		return;
	for_each_possible_cpu(cpu) {
		if (!sub->rings[cpu])
			continue;
		vfree(sub->rings[cpu]->shared);
		kfree(sub->rings[cpu]);
	}
	kfree(sub->rings);
}
