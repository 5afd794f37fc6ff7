/* SPDX-License-Identifier: MIT */
/*
 * 'h' or 'c' for the side that receives (helper, recorder), how many fds come with it,
 * and a packet: it goes through a socket. What is whole is read to its last byte, and no
 * fd stays open.
 */
#include "tests/fuzz/fuzz.h"

#include "kmod-fast-path/protocol/packet.h"
#include "kmod-fast-path/recorder/connection.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FDS_MAX 3

static void touch(const struct shfs_event *e)
{
	static volatile uint64_t sum _unused_;

	FUZZ_ASSERT((uintptr_t)e % 8 == 0);
	sum += e->sequence + e->file.pin;
	fuzz_touch((struct shfs_bytes){ e->text, (size_t)e->text_len + e->text2_len });
}

/* As helper-watch.c takes it. */
static void as_helper(int socket)
{
	struct shfs_packet_in *in = malloc(sizeof(*in));
	int r = in ? shfs_packet_receive(socket, in) : 0;
	size_t at = 0;

	FUZZ_ASSERT(in);
	if (r > 0) {
		r = shfs_packet_check(in->data, in->len);
		FUZZ_ASSERT(r == 0 || r == -EBADMSG || r == -EPROTONOSUPPORT);
		if (!r && in->packet.type == SHFS_PACKET_EVENTS)
			for (const struct shfs_event *e;
			     (e = shfs_packet_next_event(in->data, in->len, &at));)
				touch(e);
		if (!r) {
			FUZZ_ASSERT(strnlen(in->packet.driver, 32) < 32);
			FUZZ_ASSERT(in->packet.type != SHFS_PACKET_EVENTS ||
			            at == in->len ||
			            (!at && in->len == sizeof(in->packet)));
		}
		shfs_packet_close_fds(in, 0);
	}
	free(in);
	close(socket);
}

static void as_recorder(int socket)
{
	struct shfs_connection *c = shfs_connection_adopt(socket);
	struct shfs_told told;
	int r;

	FUZZ_ASSERT(c);
	while ((r = shfs_connection_next(c, &told)) > 0) {
		if (r != SHFS_TOLD_EVENT)
			continue;
		touch(told.event);
		FUZZ_ASSERT(told.content_fd < 0 || told.event->flags & SHFS_EVENT_PINNED);
		/* the rest of them is given back by close */
		if (told.content_fd >= 0)
			close(told.content_fd);
		if (told.event->sequence == 1)
			break;
	}
	shfs_connection_close(c);
}

void fuzz_packet(const uint8_t *data, size_t size)
{
	int pair[2], first, last;
	int fds[FDS_MAX] = { 2, 2, 2 };

	if (size < 3 || (data[0] != 'h' && data[0] != 'c'))
		return;
	first = dup(2);
	close(first);
	FUZZ_ASSERT(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
	(void)!shfs_packet_send(pair[0], data + 2, size - 2, fds,
	                        data[1] % (FDS_MAX + 1));
	close(pair[0]);
	if (data[0] == 'h')
		as_helper(pair[1]);
	else
		as_recorder(pair[1]);
	last = dup(2);
	close(last);
	FUZZ_ASSERT(first == last);
}
