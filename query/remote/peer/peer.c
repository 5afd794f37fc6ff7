/* SPDX-License-Identifier: MIT */
#include "query/remote/peer/peer.h"

#include "query/remote/faults.h"
#include "query/remote/peer/serve.h"
#include "query/remote/ssh/program.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define LIST_BYTES_MAX (1u << 20)
#define ROOM           (256u << 10)
#define TEXT_SHOWN     60

struct peer {
	struct shfs_remote remote;
	struct ssh_program program;
	struct shfs_buf in; /* bytes that came */
	size_t used;        /* and were taken */
	bool greeted;
};

static struct peer *of(struct shfs_remote *remote)
{
	return container_of(remote, struct peer, remote);
}

static int fail(struct peer *p, int error, const char *text)
{
	p->remote.why.len = 0;
	shfs_buf_str(&p->remote.why, text);
	return error;
}

/* --- bytes --- */

/* Waits for some bytes more. */
static int receive(struct peer *p)
{
	struct pollfd poll_fd = { .fd = p->program.fd, .events = POLLIN };
	ssize_t n;
	int r;

	if (p->used) {
		memmove(p->in.data, p->in.data + p->used, p->in.len - p->used);
		p->in.len -= p->used;
		p->used = 0;
	}
	shfs_buf_reserve(&p->in, ROOM);
	if (p->in.failed)
		return -ENOMEM;
	/* ahead of the greeting ssh may ask, and the store is read there */
	r = poll(&poll_fd, 1, p->greeted ? SERVE_SILENCE_MS : -1);
	if (r < 0)
		return errno == EINTR ? 0 : -errno;
	if (!r)
		return fail(p, -ENOLINK, "nothing has come for 300 seconds");
	n = recv(p->program.fd, p->in.data + p->in.len, ROOM, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return fail(p, -ENOLINK, "the connection was lost");
	p->in.len += (size_t)n;
	p->in.data[p->in.len] = '\0';
	return 0;
}

/* Takes a line, without its newline: valid until the next bytes are received. */
static int take_line(struct peer *p, char line[static SERVE_LINE_MAX])
{
	for (;;) {
		size_t len = p->in.len - p->used;
		const char *from = p->in.data ? p->in.data + p->used : "";
		const char *newline = memchr(from, '\n', MIN(len, SERVE_LINE_MAX - 1));
		int r;

		if (newline) {
			memcpy(line, from, (size_t)(newline - from));
			line[newline - from] = '\0';
			p->used += (size_t)(newline - from) + 1;
			return 0;
		}
		if (len >= SERVE_LINE_MAX - 1)
			return -EPROTO;
		r = receive(p);
		if (r)
			return r;
	}
}

static int take_bytes(struct peer *p, size_t len, struct shfs_buf *out)
{
	while (len) {
		size_t n = MIN(len, p->in.len - p->used);
		int r = 0;

		if (n)
			shfs_buf_add(out, p->in.data + p->used, n);
		else
			r = receive(p);
		if (r || out->failed)
			return r ?: -ENOMEM;
		p->used += n;
		len -= n;
	}
	return 0;
}

/* --- requests --- */

static int read_refusal(struct peer *p, const char *word)
{
	static const struct {
		const char *word;
		int error;
	} errors[] = { { "ENOENT", -ENOENT }, { "EAGAIN", -EAGAIN }, { "EIO", -EIO } };

	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		if (!strcmp(word, errors[i].word))
			return errors[i].error;
	return fail(p, -EREMOTEIO, "shfs there cannot read its store");
}

/* Asks, and appends up to max bytes of the answer. */
static int ask(struct peer *p, const char *request, size_t max, struct shfs_buf *out)
{
	char line[SERVE_LINE_MAX];
	size_t left = strlen(request), before = out->len;
	uint64_t len;
	int end = 0, r;

	while (left) {
		ssize_t n = send(p->program.fd, request, left, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			return fail(p, -ENOLINK, "the connection was lost");
		request += MAX(n, 0);
		left -= (size_t)MAX(n, 0);
	}
	r = take_line(p, line);
	if (r)
		return r == -EPROTO ? fail(p, r, "it answers something else") : r;
	if (!strncmp(line, "no ", 3))
		return read_refusal(p, line + 3);
	if (sscanf(line, "ok %" SCNu64 "%n", &len, &end) != 1 || line[end] || len > max)
		return fail(p, -EPROTO, "it answers something else");
	r = take_bytes(p, (size_t)len, out);
	if (r)
		out->len = before;
	return r;
}

static int get_from_peer(struct shfs_remote *remote, const char *name, uint64_t offset,
                         size_t len, struct shfs_buf *out)
{
	char request[SERVE_LINE_MAX];

	snprintf(request, sizeof(request), "get %s %" PRIu64 " %zu\n", name, offset, len);
	return ask(of(remote), request, len, out);
}

static int list_peer(struct shfs_remote *remote, const char *dir, shfs_remote_fn fn,
                     void *arg)
{
	_cleanup_buf_ struct shfs_buf lines = { 0 };
	char request[SERVE_LINE_MAX], *rest = NULL;
	int r;

	snprintf(request, sizeof(request), "list %s\n", dir);
	r = ask(of(remote), request, LIST_BYTES_MAX, &lines);
	for (char *line = lines.len && !r ? strtok_r(lines.data, "\n", &rest) : NULL;
	     line && !r; line = strtok_r(NULL, "\n", &rest)) {
		char *name = strchr(line, ' ');

		if (!name)
			return fail(of(remote), -EPROTO, "it answers something else");
		r = fn(arg, name + 1, strtoull(line, NULL, 10));
	}
	return r;
}

static int stat_peer(struct shfs_remote *remote, const char *name, uint64_t *bytes)
{
	return -EOPNOTSUPP;
}

static int put_to_peer(struct shfs_remote *remote, const char *name, const void *data,
                       size_t len)
{
	return -EROFS;
}

static int remove_from_peer(struct shfs_remote *remote, const char *name)
{
	return -EROFS;
}

static void close_peer(struct shfs_remote *remote)
{
	struct peer *p = of(remote);

	ssh_program_end(&p->program);
	shfs_buf_free(&p->in);
	free(p);
}

static const struct shfs_backend kind_peer = {
	.scheme = "",
	.close = close_peer,
	.list = list_peer,
	.get = get_from_peer,
	.put = put_to_peer,
	.stat = stat_peer,
	.remove = remove_from_peer,
};

/* --- begin --- */

/* It ended, and did not greet. */
static int explain(struct peer *p, int status)
{
	struct shfs_buf *why = &p->remote.why;

	why->len = 0;
	switch (status) {
	case 0:
		shfs_buf_str(why, "the other side ended before it answered");
		break;
	case 127:
		shfs_buf_str(why,
		             "there is no shfs there, or no ssh here; --program says "
		             "where shfs is");
		break;
	case 255:
		shfs_buf_str(why, "ssh cannot reach it: see the message of ssh above");
		break;
	default:
		shfs_buf_printf(
			why, "shfs there has ended with status %d: see its message above",
			status);
	}
	return -ENOLINK;
}

static int greet(struct peer *p)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	char line[SERVE_LINE_MAX];
	int r = take_line(p, line);

	if (r == -ENOLINK)
		return explain(p, ssh_program_end(&p->program));
	if (r && r != -EPROTO)
		return r;
	if (!r && !strncmp(line, SERVE_GREETING, strlen(line)) &&
	    strlen(line) + 1 == strlen(SERVE_GREETING)) {
		p->greeted = true;
		return 0;
	}
	if (!r && !strncmp(line, "shfs serve ", 11))
		return fail(p, -EPROTONOSUPPORT, "a newer shfs answers there");
	if (r)
		snprintf(line, sizeof(line), "%.*s", TEXT_SHOWN,
		         p->in.data ? p->in.data + p->used : "");
	shfs_buf_printf(&text,
	                "a program writes text there ahead of shfs, perhaps the shell's "
	                "~/.bashrc, which must be silent where nobody types: %.*s",
	                TEXT_SHOWN, line);
	return fail(p, -EPROTO, text.failed ? "text" : text.data);
}

int peer_open(const struct ssh_url *host, const char *command, struct shfs_buf *why,
              struct shfs_remote **out)
{
	struct peer *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	*p = (struct peer){ .remote.kind = &kind_peer, .program.fd = -1 };
	r = ssh_program_start(host, command, false, &p->program);
	if (r == -EINVAL)
		fail(p, r, "SHFS_SSH_COMMAND is no command");
	if (!r)
		r = greet(p);
	if (!r)
		return remote_faults_wrap(&p->remote, out);
	if (why && p->remote.why.len)
		shfs_buf_add(why, p->remote.why.data, p->remote.why.len);
	shfs_buf_free(&p->remote.why);
	close_peer(&p->remote);
	return r;
}
