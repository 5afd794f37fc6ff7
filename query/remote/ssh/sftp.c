/* SPDX-License-Identifier: MIT */
#include "query/remote/ssh/sftp.h"

#include "common/quote.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define VERSION          3
#define USUAL_BYTES      (32u << 10)  /* that every server takes at once */
#define BYTES_MAX        (128u << 10) /* that are read or written at once */
#define EARLY_MAX        512          /* answers that came ahead of others */
#define SILENCE_MS       300000       /* then nobody is there any more */
#define TEXT_SHOWN       60
#define NOT_A_REQUEST_ID 0

/* An answer that came before it was asked for. */
struct early {
	struct early *next;
	struct sftp_reply reply;
	unsigned char body[];
};

struct sftp {
	int fd, error; /* error: all further ones have it */
	uint32_t last_id, outstanding;
	struct shfs_buf out, in; /* bytes to send from sent on; that came */
	size_t sent, used;       /* bytes of in that belong to answers before */
	struct early *early;
	unsigned n_early;
	struct shfs_buf *why;
	bool greeted;
	struct sftp_extensions extensions;
	size_t read_max, write_max;
};

const struct sftp_extensions *sftp_extensions(const struct sftp *s)
{
	return &s->extensions;
}

size_t sftp_read_max(const struct sftp *s)
{
	return s->read_max;
}

size_t sftp_write_max(const struct sftp *s)
{
	return s->write_max;
}

/* --- bytes --- */

static void say(struct sftp *s, const char *text)
{
	s->why->len = 0;
	shfs_buf_str(s->why, text);
}

/* All further requests fail. */
static int fail(struct sftp *s, int error, const char *text)
{
	if (!s->error) {
		s->error = error;
		say(s, text);
	}
	return s->error;
}

/* What came is no SFTP. */
static int fail_text(struct sftp *s, const char *data, size_t len)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };

	if (!sftp_is_text(data, len))
		return fail(s, -EPROTO, "what answers there does not speak sftp");
	shfs_buf_str(&text,
	             "a program writes text there ahead of sftp, perhaps the "
	             "shell's ~/.bashrc, which must be silent where nobody types: ");
	len = MIN(len, (size_t)TEXT_SHOWN);
	for (size_t i = 0; i < len; i++) {
		if (data[i] == '\n' && i)
			break;
		shfs_buf_char(&text, data[i]);
	}
	return fail(s, -EPROTO, text.failed ? "text" : text.data);
}

static int send_some(struct sftp *s)
{
	ssize_t n = send(s->fd, s->out.data + s->sent, s->out.len - s->sent,
	                 MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return errno == EPIPE || errno == ECONNRESET ? -ENOLINK : -errno;
	s->sent += n > 0 ? (size_t)n : 0;
	if (s->sent == s->out.len)
		s->sent = s->out.len = 0;
	return 0;
}

static int receive_some(struct sftp *s)
{
	ssize_t n;

	if (s->used) {
		memmove(s->in.data, s->in.data + s->used, s->in.len - s->used);
		s->in.len -= s->used;
		s->used = 0;
	}
	shfs_buf_reserve(&s->in, SFTP_PACKET_MAX);
	if (s->in.failed)
		return -ENOMEM;
	n = recv(s->fd, s->in.data + s->in.len, SFTP_PACKET_MAX, MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0
		       : errno == ECONNRESET             ? -ENOLINK
		                                         : -errno;
	s->in.len += (size_t)n;
	return n ? 0 : -ENOLINK;
}

/* Moves bytes, until some have come. */
static int move_bytes(struct sftp *s)
{
	struct pollfd p = { .fd = s->fd };
	int n, r = 0;

	if (s->out.failed)
		return fail(s, -ENOMEM, "");
	p.events = (short)(POLLIN | (s->sent < s->out.len ? POLLOUT : 0));
	/* before the first answer ssh may ask the user something */
	n = poll(&p, 1, s->greeted ? SILENCE_MS : -1);
	if (n < 0)
		return errno == EINTR ? 0 : fail(s, -errno, "");
	if (!n)
		return fail(s, -ENOLINK, "nothing has come for 300 seconds");
	if (p.revents & POLLOUT)
		r = send_some(s);
	/* what it said before it went is read first */
	if (p.revents & (POLLIN | POLLHUP | POLLERR))
		r = receive_some(s);
	return r ? fail(s, r, "the connection was lost") : 0;
}

/* --- answers --- */

static int keep_early(struct sftp *s, const struct sftp_reply *reply)
{
	size_t len = (size_t)(reply->body.end - reply->body.p);
	struct early *e;

	if (s->n_early >= EARLY_MAX || s->n_early >= s->outstanding)
		return fail(s, -EPROTO, "it answers what was not asked");
	e = malloc(sizeof(*e) + len);
	if (!e)
		return fail(s, -ENOMEM, "");
	memcpy(e->body, reply->body.p, len);
	e->reply = *reply;
	e->reply.body = (struct shfs_cursor){ e->body, e->body + len, false };
	e->next = s->early;
	s->early = e;
	s->n_early++;
	return 0;
}

static struct early *take_early(struct sftp *s, uint32_t id)
{
	for (struct early **e = &s->early; *e; e = &(*e)->next)
		if ((*e)->reply.id == id) {
			struct early *found = *e;

			*e = found->next;
			s->n_early--;
			return found;
		}
	return NULL;
}

/* Takes the next packet; waits for it. It is valid until the next call. */
static int next_packet(struct sftp *s, struct sftp_reply *out)
{
	while (!s->error) {
		const char *data = s->in.data ? s->in.data + s->used : "";
		ssize_t n = sftp_take_packet(data, s->in.len - s->used, out);

		if (n > 0) {
			s->used += (size_t)n;
			return 0;
		}
		if (n < 0)
			return s->greeted ? fail(s, -EPROTO, "it sends no sftp any more")
			                  : fail_text(s, data, s->in.len - s->used);
		if (move_bytes(s) && !s->greeted && s->in.len)
			/* it wrote less than a packet has, and went */
			return s->error = 0, fail_text(s, s->in.data, s->in.len);
	}
	return s->error;
}

/* Waits for the answer to that request. *kept, if one is set, is freed by the caller. */
static int wait_for(struct sftp *s, uint32_t id, struct sftp_reply *out,
                    struct early **kept)
{
	int r = s->error;

	*kept = r ? NULL : take_early(s, id);
	if (*kept)
		*out = (*kept)->reply;
	else
		while (!r && !(r = next_packet(s, out)) && out->id != id)
			r = keep_early(s, out);
	s->outstanding -= !r;
	return r;
}

/* --- requests --- */

static uint32_t begin_ask(struct sftp *s, enum sftp_type type, size_t *begin)
{
	if (s->sent > SFTP_FLIGHT_BYTES) { /* what was sent needs no room */
		memmove(s->out.data, s->out.data + s->sent, s->out.len - s->sent);
		s->out.len -= s->sent;
		s->sent = 0;
	}
	*begin = sftp_begin_packet(&s->out, type);
	if (++s->last_id == NOT_A_REQUEST_ID)
		++s->last_id;
	sftp_put_u32(&s->out, s->last_id);
	s->outstanding++;
	return s->last_id;
}

static void put_text(struct sftp *s, const char *text)
{
	sftp_put_bytes(&s->out, text, strlen(text));
}

static void put_handle(struct sftp *s, const struct sftp_handle *handle)
{
	sftp_put_bytes(&s->out, handle->data, handle->len);
}

/* Asks with texts alone; b and c may be NULL. */
static uint32_t ask_texts(struct sftp *s, enum sftp_type type, const char *a,
                          const char *b, const char *c)
{
	size_t begin;
	uint32_t id = begin_ask(s, type, &begin);

	put_text(s, a);
	if (b)
		put_text(s, b);
	if (c)
		put_text(s, c);
	sftp_end_packet(&s->out, begin);
	return id;
}

uint32_t sftp_ask_path(struct sftp *s, enum sftp_type type, const char *path)
{
	return ask_texts(s, type, path, NULL, NULL);
}

uint32_t sftp_ask_mode(struct sftp *s, enum sftp_type type, const char *path, int mode)
{
	size_t begin;
	uint32_t id = begin_ask(s, type, &begin);

	put_text(s, path);
	sftp_put_mode(&s->out, mode);
	sftp_end_packet(&s->out, begin);
	return id;
}

uint32_t sftp_ask_open(struct sftp *s, const char *path, unsigned flags, int mode)
{
	size_t begin;
	uint32_t id = begin_ask(s, SFTP_OPEN, &begin);

	put_text(s, path);
	sftp_put_u32(&s->out, flags);
	sftp_put_mode(&s->out, mode);
	sftp_end_packet(&s->out, begin);
	return id;
}

uint32_t sftp_ask_handle(struct sftp *s, enum sftp_type type,
                         const struct sftp_handle *handle)
{
	size_t begin;
	uint32_t id = begin_ask(s, type, &begin);

	put_handle(s, handle);
	sftp_end_packet(&s->out, begin);
	return id;
}

uint32_t sftp_ask_read(struct sftp *s, const struct sftp_handle *handle, uint64_t offset,
                       size_t len)
{
	size_t begin;
	uint32_t id = begin_ask(s, SFTP_READ, &begin);

	put_handle(s, handle);
	sftp_put_u64(&s->out, offset);
	sftp_put_u32(&s->out, (uint32_t)len);
	sftp_end_packet(&s->out, begin);
	return id;
}

uint32_t sftp_ask_write(struct sftp *s, const struct sftp_handle *handle, uint64_t offset,
                        const void *data, size_t len)
{
	size_t begin;
	uint32_t id = begin_ask(s, SFTP_WRITE, &begin);

	put_handle(s, handle);
	sftp_put_u64(&s->out, offset);
	sftp_put_bytes(&s->out, data, len);
	sftp_end_packet(&s->out, begin);
	return id;
}

uint32_t sftp_ask_fsetstat(struct sftp *s, const struct sftp_handle *handle, int mode)
{
	size_t begin;
	uint32_t id = begin_ask(s, SFTP_FSETSTAT, &begin);

	put_handle(s, handle);
	sftp_put_mode(&s->out, mode);
	sftp_end_packet(&s->out, begin);
	return id;
}

uint32_t sftp_ask_rename(struct sftp *s, const char *from, const char *to)
{
	return ask_texts(s, SFTP_RENAME, from, to, NULL);
}

uint32_t sftp_ask_hardlink(struct sftp *s, const char *from, const char *to)
{
	return ask_texts(s, SFTP_EXTENDED, "hardlink@openssh.com", from, to);
}

uint32_t sftp_ask_fsync(struct sftp *s, const struct sftp_handle *handle)
{
	size_t begin;
	uint32_t id = begin_ask(s, SFTP_EXTENDED, &begin);

	put_text(s, "fsync@openssh.com");
	put_handle(s, handle);
	sftp_end_packet(&s->out, begin);
	return id;
}

uint32_t sftp_ask_about(struct sftp *s, const char *extension, const char *path)
{
	return ask_texts(s, SFTP_EXTENDED, extension, path, NULL);
}

/* --- what the answers say --- */

static int read_error(struct sftp *s, struct sftp_reply *reply)
{
	static const int errors[] = {
		[SFTP_EOF] = -ENODATA,
		[SFTP_NO_SUCH_FILE] = -ENOENT,
		[SFTP_PERMISSION_DENIED] = -EACCES,
		[SFTP_NO_CONNECTION] = -ENOLINK,
		[SFTP_CONNECTION_LOST] = -ENOLINK,
		[SFTP_OP_UNSUPPORTED] = -EOPNOTSUPP,
	};
	struct shfs_bytes message;
	uint32_t status;

	if (sftp_read_status(reply, &status, &message))
		return fail(s, -EPROTO, "it answers something else than was asked");
	if (status == SFTP_OK)
		return 0;
	if (status < ARRAY_SIZE(errors) && errors[status])
		return errors[status];
	s->why->len = 0;
	/* OpenSSH says nothing but "Failure" */
	if (!(message.len == 7 && !memcmp(message.data, "Failure", 7)))
		shfs_buf_add(s->why, message.data, MIN(message.len, (size_t)200));
	return -EIO;
}

int sftp_answer(struct sftp *s, uint32_t id)
{
	_cleanup_free_ struct early *kept = NULL;
	struct sftp_reply reply;
	int r = wait_for(s, id, &reply, &kept);

	return r ? r : read_error(s, &reply);
}

typedef int (*read_fn)(struct sftp_reply *reply, void *out);

/* A status is an error here; else fn reads it. */
static int answer_by(struct sftp *s, uint32_t id, read_fn fn, void *out)
{
	_cleanup_free_ struct early *kept = NULL;
	struct sftp_reply reply;
	int r = wait_for(s, id, &reply, &kept);

	if (r)
		return r;
	if (reply.type == SFTP_STATUS) {
		r = read_error(s, &reply);
		return r ? r : fail(s, -EPROTO, "it says yes, and no more");
	}
	r = fn(&reply, out);
	return r == -EPROTO ? fail(s, r, "its answer is damaged") : r;
}

static int read_handle(struct sftp_reply *reply, void *out)
{
	return sftp_read_handle(reply, out);
}

int sftp_answer_handle(struct sftp *s, uint32_t id, struct sftp_handle *out)
{
	return answer_by(s, id, read_handle, out);
}

static int read_attrs(struct sftp_reply *reply, void *out)
{
	return sftp_read_attrs(reply, out);
}

int sftp_answer_attrs(struct sftp *s, uint32_t id, struct sftp_attrs *out)
{
	return answer_by(s, id, read_attrs, out);
}

struct data_wish {
	size_t max;
	struct shfs_buf *out;
};

static int read_data(struct sftp_reply *reply, void *arg)
{
	const struct data_wish *wish = arg;
	struct shfs_bytes bytes;
	int r = sftp_read_data(reply, &bytes);

	if (r || bytes.len > wish->max)
		return -EPROTO;
	shfs_buf_add(wish->out, bytes.data, bytes.len);
	return wish->out->failed ? -ENOMEM : 0;
}

int sftp_answer_data(struct sftp *s, uint32_t id, size_t max, struct shfs_buf *out)
{
	struct data_wish wish = { max, out };

	return answer_by(s, id, read_data, &wish);
}

struct names_wish {
	sftp_name_fn fn;
	void *arg;
};

static int read_names(struct sftp_reply *reply, void *arg)
{
	const struct names_wish *wish = arg;

	return sftp_read_names(reply, wish->fn, wish->arg);
}

int sftp_answer_names(struct sftp *s, uint32_t id, sftp_name_fn fn, void *arg)
{
	struct names_wish wish = { fn, arg };

	return answer_by(s, id, read_names, &wish);
}

struct free_wish {
	uint64_t *blocks, *files;
};

static int read_free(struct sftp_reply *reply, void *arg)
{
	const struct free_wish *wish = arg;

	return sftp_read_free(reply, wish->blocks, wish->files);
}

int sftp_answer_free(struct sftp *s, uint32_t id, uint64_t *blocks, uint64_t *files)
{
	struct free_wish wish = { blocks, files };

	return answer_by(s, id, read_free, &wish);
}

int sftp_do_path(struct sftp *s, enum sftp_type type, const char *path)
{
	return sftp_answer(s, sftp_ask_path(s, type, path));
}

void sftp_close(struct sftp *s, const struct sftp_handle *handle)
{
	(void)!sftp_answer(s, sftp_ask_handle(s, SFTP_CLOSE, handle));
}

/* --- begin and end --- */

static int greet(struct sftp *s)
{
	size_t begin = sftp_begin_packet(&s->out, SFTP_INIT);
	struct sftp_reply reply;
	int r;

	sftp_put_u32(&s->out, VERSION);
	sftp_end_packet(&s->out, begin);
	r = next_packet(s, &reply);
	if (r)
		return r;
	s->greeted = true;
	if (reply.type != SFTP_VERSION || sftp_read_extensions(&reply, &s->extensions))
		return fail(s, -EPROTO, "what answers there does not speak sftp");
	return reply.id >= VERSION ? 0
	                           : fail(s, -EPROTO, "it speaks an old version of sftp");
}

static int read_limits(struct sftp_reply *reply, void *out)
{
	return sftp_read_limits(reply, out);
}

static size_t bounded(uint64_t told)
{
	return told ? (size_t)MIN(told, (uint64_t)BYTES_MAX) : USUAL_BYTES;
}

static int ask_limits(struct sftp *s)
{
	struct sftp_limits limits = { 0 };
	size_t begin;
	uint32_t id;
	int r;

	s->read_max = s->write_max = USUAL_BYTES;
	if (!s->extensions.limits)
		return 0;
	id = begin_ask(s, SFTP_EXTENDED, &begin);
	put_text(s, "limits@openssh.com");
	sftp_end_packet(&s->out, begin);
	r = answer_by(s, id, read_limits, &limits);
	if (r)
		return s->error;
	s->read_max = bounded(limits.read);
	s->write_max = bounded(limits.write);
	return 0;
}

int sftp_new(int fd, struct shfs_buf *why, struct sftp **out)
{
	struct sftp *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->fd = fd;
	s->why = why;
	r = greet(s);
	if (!r)
		r = ask_limits(s);
	if (r)
		sftp_free(s);
	else
		*out = s;
	return r;
}

void sftp_free(struct sftp *s)
{
	if (!s)
		return;
	while (s->early) {
		struct early *e = s->early;

		s->early = e->next;
		free(e);
	}
	shfs_buf_free(&s->out);
	shfs_buf_free(&s->in);
	free(s);
}
