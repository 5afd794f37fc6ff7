/* SPDX-License-Identifier: MIT */
/* packet.c and connection.c: what a recorder believes, and what it does not. */
#include "tests/unit/unit.h"

#include "kmod-fast-path/protocol/packet.h"
#include "kmod-fast-path/recorder/connection.h"
#include "kmod-fast-path/recorder/receiver.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* --- a helper that says what we want --- */

struct fixture {
	struct shfs_connection *c;
	int helper;   /* its end */
	int first_fd; /* that was free before */
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int pair[2];

	f->first_fd = shfs_unit_free_fd();
	shfs_unit_socketpair(pair);
	f->helper = pair[0];
	f->c = shfs_connection_adopt(pair[1]);
	*state = f;
	return 0;
}

/* Nothing may stay open. */
static int teardown(void **state)
{
	struct fixture *f = *state;

	shfs_connection_close(f->c);
	close(f->helper);
	assert_int_equal(shfs_unit_free_fd(), f->first_fd);
	free(f);
	return 0;
}

static void add_event(struct shfs_buf *b, uint16_t type, uint32_t flags, const char *text)
{
	size_t len = strlen(text);
	struct shfs_event e = {
		.size = (uint32_t)((sizeof(e) + len + 7) & ~(size_t)7),
		.type = type,
		.flags = flags,
		.text_len = (uint16_t)len,
	};

	shfs_buf_add(b, &e, sizeof(e));
	shfs_buf_add(b, text, len);
	shfs_buf_add(b, "\0\0\0\0\0\0\0", e.size - sizeof(e) - len);
}

static void begin(struct shfs_buf *b, enum shfs_packet_type type, int error)
{
	struct shfs_packet p;

	shfs_packet_fill(&p, type, error, "some", NULL);
	shfs_buf_add(b, &p, sizeof(p));
}

static void say(const struct fixture *f, const struct shfs_buf *b, size_t n_fds)
{
	int fds[16] = { 0 };

	assert_int_equal(shfs_packet_send(f->helper, b->data, b->len, fds, n_fds), 0);
}

static int next(const struct fixture *f, struct shfs_told *told)
{
	return shfs_connection_next(f->c, told);
}

/* --- what is told --- */

static void events_and_contents_in_order(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 }, synced = { 0 };
	struct fixture *f = *state;
	struct shfs_told told;
	static const char *const texts[] = { "a", "bb", "ccccccccc", "" };
	static const bool pinned[] = { true, false, true, false };

	assert_int_equal(next(f, &told), 0);
	begin(&b, SHFS_PACKET_EVENTS, 0);
	for (size_t i = 0; i < 4; i++)
		add_event(&b, SHFS_EVENT_CLOSE, pinned[i] ? SHFS_EVENT_PINNED : 0,
		          texts[i]);
	say(f, &b, 2);
	begin(&synced, SHFS_PACKET_SYNCED, 0);
	((struct shfs_packet *)synced.data)->cookie = 77;
	say(f, &synced, 0);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(next(f, &told), SHFS_TOLD_EVENT);
		assert_int_equal(told.event->text_len, strlen(texts[i]));
		assert_memory_equal(told.event->text, texts[i], strlen(texts[i]));
		assert_int_equal(told.content_fd >= 0, pinned[i]);
		if (pinned[i]) {
			assert_int_equal(fcntl(told.content_fd, F_GETFD), FD_CLOEXEC);
			close(told.content_fd);
		}
	}
	assert_int_equal(next(f, &told), SHFS_TOLD_SYNCED);
	assert_int_equal(told.cookie, 77);
	assert_int_equal(next(f, &told), 0);
}

/* The fds of what is not taken are given back: teardown looks. */
static void closed_in_the_middle(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct fixture *f = *state;
	struct shfs_told told;

	begin(&b, SHFS_PACKET_EVENTS, 0);
	for (int i = 0; i < 5; i++)
		add_event(&b, SHFS_EVENT_CLOSE, SHFS_EVENT_PINNED, "x");
	say(f, &b, 5);
	say(f, &b, 5);
	assert_int_equal(next(f, &told), SHFS_TOLD_EVENT);
	close(told.content_fd);
}

static void the_end_is_told_as_what_it_was(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct fixture *f = *state;
	struct shfs_told told;

	begin(&b, SHFS_PACKET_SYNCED, -ESHUTDOWN);
	say(f, &b, 0);
	assert_int_equal(next(f, &told), -ESHUTDOWN);
	shutdown(f->helper, SHUT_RDWR);
	assert_int_equal(next(f, &told), -ECONNRESET);
}

/* A side that ends without having read all that it was sent: what it said still comes. */
static void last_words_come(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 }, events = { 0 };
	struct fixture *f = *state;
	struct shfs_told told;

	begin(&events, SHFS_PACKET_EVENTS, 0);
	add_event(&events, SHFS_EVENT_CLOSE, 0, "x");
	say(f, &events, 0);
	begin(&b, SHFS_PACKET_SYNCED, -EIO);
	say(f, &b, 0);
	assert_int_equal(shfs_connection_sync(f->c, 1), 0);
	close(f->helper);
	f->helper = dup(0);
	assert_int_equal(next(f, &told), SHFS_TOLD_EVENT);
	assert_int_equal(next(f, &told), -EIO);
	assert_int_equal(next(f, &told), -ECONNRESET);
}

/* A process that may not have so many files: the events come, some without a content. */
static void contents_beyond_the_limit_are_missing(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct fixture *f = *state;
	struct rlimit was, few;
	struct shfs_told told;
	int with = 0, n = 0;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	begin(&b, SHFS_PACKET_EVENTS, 0);
	for (int i = 0; i < 10; i++)
		add_event(&b, SHFS_EVENT_CLOSE, SHFS_EVENT_PINNED, "x");
	say(f, &b, 10);
	few = (struct rlimit){ (rlim_t)shfs_unit_free_fd() + 4, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	while (next(f, &told) == SHFS_TOLD_EVENT) {
		n++;
		if (told.content_fd >= 0) {
			with++;
			close(told.content_fd);
		}
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(n, 10);
	assert_int_equal(with, 4);
}

static void expect(const struct fixture *f, const struct shfs_buf *b, size_t n_fds,
                   int error)
{
	struct shfs_told told;

	say(f, b, n_fds);
	assert_int_equal(next(f, &told), error);
}

static void what_cannot_be_is_refused(void **state)
{
	struct fixture *f = *state;

	for (size_t n = 0; n < 6; n++) { /* 2 are pinned */
		_cleanup_buf_ struct shfs_buf b = { 0 };

		begin(&b, SHFS_PACKET_EVENTS, 0);
		add_event(&b, SHFS_EVENT_CLOSE, SHFS_EVENT_PINNED, "x");
		add_event(&b, SHFS_EVENT_CLOSE, SHFS_EVENT_PINNED, "y");
		if (n != 2)
			expect(f, &b, n, -EBADMSG);
	}
	for (int type = 0; type < 10; type++) {
		_cleanup_buf_ struct shfs_buf b = { 0 };

		begin(&b, (enum shfs_packet_type)type, 0);
		if (type != SHFS_PACKET_SYNCED && type != SHFS_PACKET_EVENTS)
			expect(f, &b, 0, -EBADMSG);
	}
	for (uint32_t size = 0; size < 200; size++) { /* 160 it is */
		_cleanup_buf_ struct shfs_buf b = { 0 };
		struct shfs_event *e;

		begin(&b, SHFS_PACKET_EVENTS, 0);
		add_event(&b, SHFS_EVENT_CLOSE, 0, "12345678");
		e = (void *)(b.data + sizeof(struct shfs_packet));
		e->size = size;
		if (size != 160)
			expect(f, &b, 0, -EBADMSG);
		e->size = 160;
		e->text_len = 9;
		expect(f, &b, 0, -EBADMSG);
		e->text_len = e->text2_len = UINT16_MAX;
		expect(f, &b, 0, -EBADMSG);
	}
}

static void another_version_is_told_apart(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };

	begin(&b, SHFS_PACKET_EVENTS, 0);
	((struct shfs_packet *)b.data)->version = SHFS_EVENT_VERSION + 1;
	expect(*state, &b, 0, -EPROTONOSUPPORT);
	b.len = 2; /* also where its packets are others */
	expect(*state, &b, 0, -EPROTONOSUPPORT);
}

/* --- the order --- */

static void a_refusal_says_why(void **state)
{
	_cleanup_buf_ struct shfs_buf why = { 0 };
	struct fixture *f = *state;
	struct shfs_packet_in *in = malloc(sizeof(*in));
	struct shfs_packet p;

	shfs_packet_fill(&p, SHFS_PACKET_READY, -ENOENT, NULL, "there is no such thing");
	assert_int_equal(shfs_packet_send(f->helper, &p, sizeof(p), NULL, 0), 0);
	assert_int_equal(shfs_connection_subscribe(f->c, 0, "this", &why), -ENOENT);
	assert_string_equal(why.data, "there is no such thing");
	assert_int_equal(shfs_packet_receive(f->helper, in), 1);
	assert_int_equal(in->packet.type, SHFS_PACKET_WATCH);
	assert_string_equal(in->packet.driver, "this");
	assert_int_equal(in->n_fds, 1);
	shfs_packet_close_fds(in, 0);
	free(in);
}

static void an_order_without_an_answer(void **state)
{
	_cleanup_buf_ struct shfs_buf why = { 0 };
	struct fixture *f = *state;

	shutdown(f->helper, SHUT_RDWR);
	assert_int_equal(shfs_connection_subscribe(f->c, 0, NULL, &why), -ECONNRESET);
	assert_string_equal(why.data, "the helper ended without an answer");
}

/* --- packets --- */

static void strings_are_cut(void **state)
{
	char text[1000];
	struct shfs_packet p;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	shfs_packet_fill(&p, SHFS_PACKET_READY, 0, text, text);
	assert_int_equal(strlen(p.driver), sizeof(p.driver) - 1);
	assert_int_equal(strlen(p.why), sizeof(p.why) - 1);
	assert_int_equal(shfs_packet_check(&p, sizeof(p)), 0);
}

static void packets_that_are_too_much(void **state)
{
	struct fixture *f = *state;
	struct shfs_packet_in *in = malloc(sizeof(*in));
	char *data = calloc(1, SHFS_PACKET_MAX + 8);
	int fds[SHFS_PACKET_FDS_MAX + 1] = { 0 };

	assert_int_equal(shfs_packet_send(f->helper, data, 8, fds, ARRAY_SIZE(fds)),
	                 -EINVAL);
	assert_int_equal(shfs_packet_send(f->helper, data, 8, fds, SHFS_PACKET_FDS_MAX),
	                 0);
	shfs_connection_close(f->c);
	f->c = NULL;
	/* the other way round: from the helper's end to itself */
	int pair[2];
	shfs_unit_socketpair(pair);
	assert_int_equal(shfs_packet_receive(pair[1], in), 0);
	assert_int_equal(shfs_packet_send(pair[0], data, SHFS_PACKET_MAX, fds, 200), 0);
	assert_int_equal(shfs_packet_receive(pair[1], in), 1);
	assert_int_equal(in->n_fds, 200);
	shfs_packet_close_fds(in, 0);
	assert_int_equal(shfs_packet_send(pair[0], data, SHFS_PACKET_MAX + 8, fds, 3), 0);
	assert_int_equal(shfs_packet_receive(pair[1], in), -EBADMSG);
	assert_int_equal(in->n_fds, 0);
	close(pair[0]);
	assert_int_equal(shfs_packet_receive(pair[1], in), -ECONNRESET);
	assert_int_equal(shfs_packet_send(pair[1], data, 8, NULL, 0), -EPIPE);
	close(pair[1]);
	free(data);
	free(in);
}

/* --- what is taken ahead --- */

/* As soon as there is room. false: nobody takes it. */
static bool send_soon(const struct fixture *f, const struct shfs_buf *b, size_t n_fds)
{
	struct pollfd fd = { f->helper, POLLOUT };
	int stdin_fd = 0, r;

	while ((r = shfs_packet_send(f->helper, b->data, b->len, &stdin_fd, n_fds)) ==
	       -EAGAIN)
		if (poll(&fd, 1, 2000) <= 0)
			return false;
	assert_int_equal(r, 0);
	return true;
}

/* Packets until nobody takes any more, or so many. How many. */
static unsigned send_many(const struct fixture *f, unsigned most, size_t bytes)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	unsigned n = 0;

	begin(&b, SHFS_PACKET_EVENTS, 0);
	while (b.len + 1000 < bytes)
		add_event(&b, SHFS_EVENT_CLOSE, 0, "a file");
	add_event(&b, SHFS_EVENT_CLOSE, SHFS_EVENT_PINNED, "the last one");
	while (n < most && send_soon(f, &b, 1))
		n++;
	return n;
}

/* Who sends waits for a thread alone, and nothing is lost, nor in another order. */
static void taken_ahead(void **state)
{
	enum { PACKETS = 100 };
	_cleanup_buf_ struct shfs_buf synced = { 0 };
	struct fixture *f = *state;
	struct pollfd ready;
	struct shfs_told told;
	unsigned pinned = 0;
	int r;

	assert_int_equal(shfs_connection_receive_ahead(f->c), 0);
	assert_int_equal(next(f, &told), 0);
	assert_int_equal(send_many(f, PACKETS, SHFS_PACKET_MAX), PACKETS);
	begin(&synced, SHFS_PACKET_SYNCED, 0);
	assert_true(send_soon(f, &synced, 0));
	shutdown(f->helper, SHUT_RDWR);
	ready = (struct pollfd){ shfs_connection_fd(f->c), POLLIN };
	for (;;) {
		assert_int_equal(poll(&ready, 1, 10000), 1);
		r = next(f, &told);
		if (r == SHFS_TOLD_SYNCED || r < 0)
			break;
		if (r == SHFS_TOLD_EVENT && told.content_fd >= 0) {
			pinned++;
			close(told.content_fd);
		}
	}
	assert_int_equal(r, SHFS_TOLD_SYNCED);
	assert_int_equal(pinned, PACKETS);
	while (!(r = next(f, &told)))
		assert_int_equal(poll(&ready, 1, 10000), 1);
	assert_int_equal(r, -ECONNRESET);
}

/* Then who sends has to wait; what was not taken is given back: teardown looks. */
static void taken_ahead_has_an_end(void **state)
{
	struct fixture *f = *state;
	unsigned n;

	assert_int_equal(shfs_connection_receive_ahead(f->c), 0);
	n = send_many(f, UINT_MAX, SHFS_PACKET_MAX);
	assert_in_range((uint64_t)n * SHFS_PACKET_MAX, SHFS_RECEIVER_MAX,
	                SHFS_RECEIVER_MAX + (8 << 20));
	assert_in_range(shfs_connection_bytes(f->c), SHFS_RECEIVER_MAX,
	                SHFS_RECEIVER_MAX + SHFS_PACKET_MAX);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		TEST(events_and_contents_in_order),
		TEST(closed_in_the_middle),
		TEST(the_end_is_told_as_what_it_was),
		TEST(last_words_come),
		TEST(contents_beyond_the_limit_are_missing),
		TEST(what_cannot_be_is_refused),
		TEST(another_version_is_told_apart),
		TEST(a_refusal_says_why),
		TEST(an_order_without_an_answer),
		TEST(taken_ahead),
		TEST(taken_ahead_has_an_end),
		cmocka_unit_test(strings_are_cut),
		TEST(packets_that_are_too_much),
	};

	return shfs_unit_main(tests, argc, argv);
}
