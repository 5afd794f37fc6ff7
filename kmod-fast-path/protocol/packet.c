/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/protocol/packet.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

_Static_assert(sizeof(struct shfs_packet) % 8 == 0, "events behind it are aligned");
_Static_assert(offsetof(struct shfs_event, text) % 8 == 0, "so is their text");

union control {
	struct cmsghdr header;
	char data[CMSG_SPACE(sizeof(int) * SHFS_PACKET_FDS_MAX)];
};

/* Takes ownership of the received fds at once, even if the packet is malformed. */
static void take_fds(struct msghdr *msg, struct shfs_packet_in *in)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = MIN(n, ARRAY_SIZE(in->fds) - in->n_fds);
		memcpy(in->fds + in->n_fds, CMSG_DATA(c), n * sizeof(int));
		in->n_fds += n;
	}
	in->fds_lost = msg->msg_flags & MSG_CTRUNC;
}

int shfs_packet_receive(int socket, struct shfs_packet_in *in)
{
	union control control;
	struct iovec iov = { in->data, sizeof(in->data) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	bool reset = false;
	ssize_t n;

	in->n_fds = 0;
	in->fds_lost = false;
	for (;;) {
		n = recvmsg(socket, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (n >= 0 || (errno != EINTR && (errno != ECONNRESET || reset)))
			break;
		/* reported once, before earlier packets, if the other side has left
		 * something unread */
		reset |= errno == ECONNRESET;
	}
	if (n < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
	take_fds(&msg, in);
	in->len = (size_t)n;
	if (n && !(msg.msg_flags & MSG_TRUNC))
		return 1;
	shfs_packet_close_fds(in, 0);
	return n ? -EBADMSG : -ECONNRESET;
}

void shfs_packet_close_fds(struct shfs_packet_in *in, size_t from)
{
	for (size_t i = from; i < in->n_fds; i++)
		close(in->fds[i]);
	in->n_fds = MIN(in->n_fds, from);
}

int shfs_packet_send(int socket, const void *data, size_t len, const int *fds,
                     size_t n_fds)
{
	union control control = { 0 };
	struct iovec iov = { (void *)data, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (n_fds > SHFS_PACKET_FDS_MAX)
		return -EINVAL;
	if (n_fds) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(&control.header), fds, sizeof(int) * n_fds);
	}
	do
		n = sendmsg(socket, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

void shfs_packet_fill(struct shfs_packet *out, enum shfs_packet_type type, int error,
                      const char *driver, const char *why)
{
	*out = (struct shfs_packet){
		.version = SHFS_EVENT_VERSION,
		.type = (__u16)type,
		.error = error,
	};
	strncpy(out->driver, driver ? driver : "", sizeof(out->driver) - 1);
	strncpy(out->why, why ? why : "", sizeof(out->why) - 1);
}

bool shfs_event_is_whole(const struct shfs_event *event, size_t room)
{
	size_t size;

	if (room < offsetof(struct shfs_event, text))
		return false;
	size = event->size;
	return size >= offsetof(struct shfs_event, text) && size % 8 == 0 &&
	       size <= MIN(room, (size_t)SHFS_EVENT_SIZE_MAX) &&
	       size - offsetof(struct shfs_event, text) >=
	               (size_t)event->text_len + event->text2_len;
}

const struct shfs_event *shfs_packet_next_event(const void *data, size_t len, size_t *at)
{
	const struct shfs_event *event;
	size_t from = *at ? *at : sizeof(struct shfs_packet);

	if (from >= len)
		return NULL;
	event = (const void *)((const char *)data + from);
	if (!shfs_event_is_whole(event, len - from))
		return NULL;
	*at = from + event->size;
	return event;
}

int shfs_packet_check(const void *data, size_t len)
{
	const struct shfs_packet *packet = data;
	size_t at = sizeof(*packet);

	if (len >= sizeof(packet->version) && packet->version != SHFS_EVENT_VERSION)
		return -EPROTONOSUPPORT;
	if (len < sizeof(*packet) ||
	    !memchr(packet->driver, '\0', sizeof(packet->driver)) ||
	    !memchr(packet->why, '\0', sizeof(packet->why)) || packet->error > 0)
		return -EBADMSG;
	switch (packet->type) {
	case SHFS_PACKET_WATCH:
	case SHFS_PACKET_READY:
	case SHFS_PACKET_SYNC:
	case SHFS_PACKET_SYNCED:
		return len == sizeof(*packet) ? 0 : -EBADMSG;
	case SHFS_PACKET_EVENTS:
		while (at < len)
			if (!shfs_packet_next_event(data, len, &at))
				return -EBADMSG;
		return 0;
	default:
		return -EBADMSG;
	}
}
