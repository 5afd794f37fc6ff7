/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/helper/queue.h"

#include "common/buf.h"
#include "common/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>

struct shfs_queue_packet {
	struct shfs_queue_packet *next;
	struct shfs_buf data;
	bool is_events;
	size_t n_fds;
	int *fds; /* room for SHFS_PACKET_FDS_MAX once there is one */
};

static void packet_free(struct shfs_queue_packet *p)
{
	for (size_t i = 0; i < p->n_fds; i++)
		close(p->fds[i]);
	free(p->fds);
	shfs_buf_free(&p->data);
	free(p);
}

/* Appends a new packet with this header. */
static struct shfs_queue_packet *append_packet(struct shfs_queue *q,
                                               const struct shfs_packet *h)
{
	struct shfs_queue_packet *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	shfs_buf_add(&p->data, h, sizeof(*h));
	if (p->data.failed) {
		packet_free(p);
		return NULL;
	}
	p->is_events = h->type == SHFS_PACKET_EVENTS;
	if (q->last)
		q->last->next = p;
	else
		q->first = p;
	q->last = p;
	q->bytes += p->data.len;
	q->n_control += !p->is_events;
	return p;
}

/* The last packet, if it has room for the event, or a new one. */
static struct shfs_queue_packet *room_for(struct shfs_queue *q, size_t size, bool with_fd)
{
	struct shfs_queue_packet *last = q->last;
	struct shfs_packet header;

	if (last && last->is_events && last->data.len + size <= SHFS_PACKET_MAX &&
	    (!with_fd || last->n_fds < SHFS_PACKET_FDS_MAX))
		return last;
	shfs_packet_fill(&header, SHFS_PACKET_EVENTS, 0, NULL, NULL);
	return append_packet(q, &header);
}

/* Adds the event, and the fd, which the packet owns then. */
static int add_event_to_packet(struct shfs_queue *q, const struct shfs_event *event,
                               int fd)
{
	struct shfs_queue_packet *p = room_for(q, event->size, fd >= 0);

	if (p && fd >= 0 && !p->fds)
		p->fds = calloc(SHFS_PACKET_FDS_MAX, sizeof(int));
	if (!p || (fd >= 0 && !p->fds))
		return -ENOMEM;
	shfs_buf_add(&p->data, event, event->size);
	if (p->data.failed) {
		p->data.failed = false; /* the earlier contents are intact */
		return -ENOMEM;
	}
	q->bytes += event->size;
	if (fd >= 0) {
		p->fds[p->n_fds++] = fd;
		q->n_fds++;
	}
	return 0;
}

/* Reports the loss before the next event that finds room, so that it is in its place. */
static int queue_loss(struct shfs_queue *q)
{
	struct shfs_event lost = {
		.size = sizeof(lost),
		.type = SHFS_EVENT_LOST,
		.time_ns = (uint64_t)shfs_clock_ns(CLOCK_BOOTTIME),
		.lost = { q->lost },
	};
	int r = q->lost ? add_event_to_packet(q, &lost, -1) : 0;

	if (!r)
		q->lost = 0;
	return r;
}

static void count_lost_events(struct shfs_queue *q, uint64_t n)
{
	q->lost += n;
	q->n_lost += n;
}

static int add_unpinned(struct shfs_queue *q, const struct shfs_event *event)
{
	_cleanup_free_ struct shfs_event *copy = malloc(event->size);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, event, event->size);
	copy->flags &= ~(__u32)SHFS_EVENT_PINNED;
	return add_event_to_packet(q, copy, -1);
}

void shfs_queue_event(struct shfs_queue *q, const struct shfs_event *event,
                      int content_fd)
{
	bool pinned = event->flags & SHFS_EVENT_PINNED;
	_cleanup_close_ int fd = -1;
	/* after a loss, wait until there is room for many events */
	size_t most = q->lost ? SHFS_HELPER_QUEUE_MAX / 2 : SHFS_HELPER_QUEUE_MAX;

	if (q->bytes + event->size > most || queue_loss(q)) {
		count_lost_events(q, 1);
		return;
	}
	if (pinned && content_fd >= 0 && q->n_fds < SHFS_QUEUE_FDS_MAX)
		fd = fcntl(content_fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0 && pinned) {
		q->n_unpinned++;
		if (add_unpinned(q, event))
			count_lost_events(q, 1);
	} else if (add_event_to_packet(q, event, fd)) {
		count_lost_events(q, 1);
	} else {
		fd = -1;
	}
}

int shfs_queue_control(struct shfs_queue *q, const struct shfs_packet *p)
{
	int r = queue_loss(q);

	if (!r && !append_packet(q, p))
		r = -ENOMEM;
	return r;
}

/* May the descriptors of p be sent now? */
static bool may_fly(struct shfs_queue *q, const struct shfs_queue_packet *p, int socket)
{
	int unread = 1;

	if (q->in_flight + p->n_fds <= SHFS_QUEUE_FLIGHT_MAX)
		return true;
	if (ioctl(socket, SIOCOUTQ, &unread) || unread)
		return false;
	q->in_flight = 0;
	return true;
}

/* Sends events without their descriptors: too many descriptors that root has sent, to any
 * user, are not received yet. Waiting would depend on other users. */
static int send_unpinned(struct shfs_queue *q, struct shfs_queue_packet *p, int socket)
{
	for (size_t at = sizeof(struct shfs_packet); at < p->data.len;) {
		struct shfs_event *event = (void *)(p->data.data + at);

		event->flags &= ~(__u32)SHFS_EVENT_PINNED;
		at += event->size;
	}
	for (size_t i = 0; i < p->n_fds; i++)
		close(p->fds[i]);
	q->n_unpinned += p->n_fds;
	q->n_fds -= p->n_fds;
	p->n_fds = 0;
	return shfs_packet_send(socket, p->data.data, p->data.len, NULL, 0);
}

int shfs_queue_send(struct shfs_queue *q, int socket)
{
	struct shfs_queue_packet *p;
	int r;

	if (q->lost && q->bytes <= SHFS_HELPER_QUEUE_MAX / 2)
		(void)!queue_loss(q);
	while ((p = q->first)) {
		if (p->n_fds && !may_fly(q, p, socket))
			return -EBUSY;
		r = shfs_packet_send(socket, p->data.data, p->data.len, p->fds, p->n_fds);
		if (r == -ETOOMANYREFS)
			r = send_unpinned(q, p, socket);
		if (r)
			return r;
		q->in_flight += p->n_fds;
		q->n_fds -= p->n_fds;
		q->bytes -= p->data.len;
		q->n_control -= !p->is_events;
		q->n_sent++;
		q->first = p->next;
		if (!q->first)
			q->last = NULL;
		packet_free(p);
	}
	return 0;
}

void shfs_queue_free(struct shfs_queue *q)
{
	struct shfs_queue_packet *p;

	while ((p = q->first)) {
		q->first = p->next;
		packet_free(p);
	}
	*q = (struct shfs_queue){ 0 };
}
