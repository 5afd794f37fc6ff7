/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/recorder/receiver.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>

struct waiting {
	struct waiting *next;
	size_t len, n_fds;
	bool fds_lost;
	int *fds; /* they lie behind the data */
	char data[];
};

struct shfs_receiver {
	int socket, ready_fd, stop_fd;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t room;
	struct waiting *first, **end;
	size_t bytes, n_fds;
	int error; /* comes after the last packet */
	bool stops;
	struct shfs_packet_in in; /* used by the thread alone */
};

static void waiting_free(struct waiting *w)
{
	for (size_t i = 0; i < w->n_fds; i++)
		close(w->fds[i]);
	free(w);
}

static void raise_eventfd(int fd)
{
	(void)!write(fd, &(uint64_t){ 1 }, sizeof(uint64_t));
}

/* Copies the packet, and takes its fds. NULL: no memory. */
static struct waiting *waiting_new(const struct shfs_packet_in *in)
{
	size_t at = (in->len + sizeof(int) - 1) / sizeof(int) * sizeof(int);
	struct waiting *w =
		malloc(offsetof(struct waiting, data) + at + in->n_fds * sizeof(int));

	if (!w)
		return NULL;
	*w = (struct waiting){ .len = in->len,
		               .n_fds = in->n_fds,
		               .fds_lost = in->fds_lost,
		               .fds = (void *)(w->data + at) };
	memcpy(w->data, in->data, in->len);
	memcpy(w->fds, in->fds, in->n_fds * sizeof(int));
	return w;
}

/* --- the thread --- */

/* Keeps the packet; with the lock held. */
static void keep_packet(struct shfs_receiver *r)
{
	struct waiting *w;

	if (r->n_fds + r->in.n_fds > SHFS_RECEIVER_FDS_MAX) {
		shfs_packet_close_fds(&r->in, 0);
		r->in.n_fds = 0;
		r->in.fds_lost = true;
	}
	w = waiting_new(&r->in);
	if (!w) {
		shfs_packet_close_fds(&r->in, 0);
		r->error = -ENOMEM;
		return;
	}
	*r->end = w;
	r->end = &w->next;
	r->bytes += w->len;
	r->n_fds += w->n_fds;
}

/* Waits for a packet. false: the thread must end. */
static bool wait_for_packet(struct shfs_receiver *r)
{
	struct pollfd fds[] = { { r->socket, POLLIN }, { r->stop_fd, POLLIN } };
	bool stops;

	(void)poll(fds, ARRAY_SIZE(fds), -1);
	pthread_mutex_lock(&r->lock);
	while (!r->stops && r->bytes > SHFS_RECEIVER_MAX)
		pthread_cond_wait(&r->room, &r->lock);
	stops = r->stops;
	pthread_mutex_unlock(&r->lock);
	return !stops;
}

static void *receive_packets(void *arg)
{
	struct shfs_receiver *r = arg;
	int got = 0;

	while (got >= 0 && wait_for_packet(r)) {
		got = shfs_packet_receive(r->socket, &r->in);
		if (!got)
			continue;
		pthread_mutex_lock(&r->lock);
		if (got > 0)
			keep_packet(r);
		else
			r->error = got;
		got = r->error;
		pthread_mutex_unlock(&r->lock);
		raise_eventfd(r->ready_fd);
	}
	return NULL;
}

/* --- for the reader --- */

int shfs_receiver_new(int socket, struct shfs_receiver **out)
{
	struct shfs_receiver *r = calloc(1, sizeof(*r));
	int error = 0;

	if (!r)
		return -ENOMEM;
	r->socket = socket;
	r->end = &r->first;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->room, NULL);
	r->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->ready_fd < 0 || r->stop_fd < 0)
		error = -errno;
	if (!error)
		error = -pthread_create(&r->thread, NULL, receive_packets, r);
	if (error) {
		shfs_closep(&r->ready_fd);
		shfs_closep(&r->stop_fd);
		pthread_cond_destroy(&r->room);
		pthread_mutex_destroy(&r->lock);
		free(r);
		return error;
	}
	*out = r;
	return 0;
}

void shfs_receiver_free(struct shfs_receiver *r)
{
	struct waiting *w;

	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	r->stops = true;
	pthread_cond_signal(&r->room);
	pthread_mutex_unlock(&r->lock);
	raise_eventfd(r->stop_fd);
	pthread_join(r->thread, NULL);
	while ((w = r->first)) {
		r->first = w->next;
		waiting_free(w);
	}
	shfs_closep(&r->ready_fd);
	shfs_closep(&r->stop_fd);
	pthread_cond_destroy(&r->room);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

int shfs_receiver_fd(const struct shfs_receiver *r)
{
	return r->ready_fd;
}

/* Takes the first packet, if there is one; with the lock held. */
static struct waiting *take_first(struct shfs_receiver *r)
{
	struct waiting *w = r->first;

	if (!w)
		return NULL;
	r->first = w->next;
	if (!r->first)
		r->end = &r->first;
	r->bytes -= w->len;
	r->n_fds -= w->n_fds;
	pthread_cond_signal(&r->room);
	return w;
}

int shfs_receiver_next(struct shfs_receiver *r, struct shfs_packet_in *in)
{
	struct waiting *w;
	int error;

	pthread_mutex_lock(&r->lock);
	w = take_first(r);
	error = r->error;
	if (!w && !error) /* the next packet makes it readable again */
		(void)!read(r->ready_fd, &(uint64_t){ 0 }, sizeof(uint64_t));
	pthread_mutex_unlock(&r->lock);
	if (!w)
		return error;
	in->len = w->len;
	in->n_fds = w->n_fds;
	in->fds_lost = w->fds_lost;
	memcpy(in->data, w->data, w->len);
	memcpy(in->fds, w->fds, w->n_fds * sizeof(int));
	free(w);
	return 1;
}

uint64_t shfs_receiver_bytes(struct shfs_receiver *r)
{
	uint64_t bytes;

	pthread_mutex_lock(&r->lock);
	bytes = r->bytes;
	pthread_mutex_unlock(&r->lock);
	return bytes;
}
