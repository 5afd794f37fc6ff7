/* SPDX-License-Identifier: MIT */
/*
 * A remote that is a bucket of an object store which speaks S3, or what begins with a
 * prefix there.
 *
 * A put has "If-None-Match: *": so the store gives a name once. Some stores ignore it,
 * and two copies of a shfs store could replace each other's heads: so before the first
 * put of a process an object that is there is put once more, with the bytes that it has,
 * which must be refused.
 */
#include "query/remote/backend.h"
#include "query/remote/s3/http.h"
#include "query/remote/s3/libs.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define PAGE_MAX    (16u << 20) /* bytes of 1,000 names and what comes with them */
#define WITNESS_MAX 4096        /* bytes of an object that is put once more */

struct s3 {
	struct shfs_remote remote;
	struct s3_settings settings;
	struct s3_http *http;
	bool refuses; /* a put of a name that is there was refused */
	/* an object that is there: a name, "": none is known, and all its bytes */
	struct shfs_buf witness, witness_bytes;
};

static struct s3 *of(struct shfs_remote *remote)
{
	return container_of(remote, struct s3, remote);
}

static void close_s3(struct shfs_remote *remote)
{
	struct s3 *s = of(remote);

	s3_http_free(s->http);
	s3_settings_clear(&s->settings);
	shfs_buf_free(&s->witness);
	shfs_buf_free(&s->witness_bytes);
	free(s);
}

static int open_s3(const char *url, struct shfs_buf *why, struct shfs_remote **out)
{
	struct s3 *s = calloc(1, sizeof(*s));
	int r = s ? 0 : -ENOMEM;

	if (r)
		return r;
	s->remote.kind = &shfs_backend_s3;
	r = s3_libs_load(why);
	if (!r)
		r = s3_settings_find(url, why, &s->settings);
	if (!r)
		r = s3_http_new(&s->settings, &s->http);
	if (r) {
		close_s3(&s->remote);
		return r;
	}
	*out = &s->remote;
	return 0;
}

/* --- errors --- */

/* The errors of a server: its code, what is done with it, and what is said of it. */
static const struct {
	const char *code;
	int error;
	const char *text;
} meanings[] = {
	{ "NoSuchKey", -ENOENT, "" },
	{ "NoSuchBucket", -ENXIO, "there is no bucket of this name" },
	{ "InvalidAccessKeyId", -EACCES, "the server does not know the access key" },
	{ "SignatureDoesNotMatch", -EACCES,
	  "the secret key is not that of the access key" },
	{ "ExpiredToken", -EACCES, "the session token has expired" },
	{ "InvalidToken", -EACCES, "the session token is not valid" },
	{ "AccessDenied", -EACCES,
	  "the keys may not do that (reading, listing, putting and removing are "
	  "needed)" },
	{ "RequestTimeTooSkewed", -EACCES,
	  "the clock of this machine differs too much from the server's" },
	{ "PermanentRedirect", -EREMCHG,
	  "the bucket is in another region, or behind another "
	  "endpoint" },
	{ "AuthorizationHeaderMalformed", -EREMCHG, "the bucket is in another region" },
	{ "IllegalLocationConstraintException", -EREMCHG,
	  "the bucket is in another region" },
	{ "QuotaExceeded", -EDQUOT, "" },
	{ "XMinioStorageFull", -ENOSPC, "" },
	{ "NotImplemented", -EOPNOTSUPP, "the server cannot do what is needed" },
};

/* Explains a status whose answer says nothing more: a HEAD has no answer. */
static int error_of_status(long status)
{
	switch (status) {
	case 301:
	case 307:
		return -EREMCHG;
	case 401:
	case 403:
		return -EACCES;
	case 404:
		return -ENOENT;
	case 412:
		return -EEXIST;
	case 507:
		return -ENOSPC;
	default:
		return -EIO;
	}
}

static int fail(struct s3 *s, const struct s3_reply *reply)
{
	struct shfs_buf *why = &s->remote.why;
	const struct s3_error *e = &reply->error;

	why->len = 0;
	for (size_t i = 0; i < ARRAY_SIZE(meanings); i++) {
		if (strcmp(e->code, meanings[i].code) != 0)
			continue;
		shfs_buf_printf(why, "%s%s%s", meanings[i].text, *e->region ? ": " : "",
		                e->region);
		return meanings[i].error;
	}
	if (reply->status != 404 && reply->status != 412)
		shfs_buf_printf(why, "the server says %ld %s%s%s", reply->status, e->code,
		                *e->message ? ": " : "", e->message);
	return error_of_status(reply->status);
}

/* --- requests --- */

/* Sends a request about a name. An answer of an error is one. */
static int ask(struct s3 *s, struct s3_request *request, const char *name,
               struct s3_reply *reply)
{
	_cleanup_buf_ struct shfs_buf whole = { 0 };
	int r;

	shfs_buf_printf(&whole, "%s%s", s->settings.prefix, name);
	if (whole.failed)
		return -ENOMEM;
	request->name = whole.data;
	r = s3_http_perform(s->http, request, reply, &s->remote.why);
	if (!r && reply->status >= 300)
		r = fail(s, reply);
	return r;
}

static int stat_blob(struct shfs_remote *remote, const char *name, uint64_t *bytes)
{
	struct s3_request request = { .method = "HEAD" };
	struct s3_reply reply;
	int r = ask(of(remote), &request, name, &reply);

	if (!r)
		*bytes = reply.bytes;
	return r;
}

static int remove_blob(struct shfs_remote *remote, const char *name)
{
	struct s3_request request = { .method = "DELETE" };
	struct s3_reply reply;
	int r = ask(of(remote), &request, name, &reply);

	return r == -ENOENT ? 0 : r;
}

/* Notes an object that is there, if it is small. */
static void note_witness(struct s3 *s, const char *name, const void *data, size_t len)
{
	if (s->refuses || !len || len > WITNESS_MAX)
		return;
	s->witness.len = s->witness_bytes.len = 0;
	shfs_buf_str(&s->witness, name);
	shfs_buf_add(&s->witness_bytes, data, len);
	if (s->witness.failed || s->witness_bytes.failed)
		s->witness.len = 0;
}

static int get_blob(struct shfs_remote *remote, const char *name, uint64_t offset,
                    size_t len, struct shfs_buf *out)
{
	struct s3_request request = { .method = "GET", .max_bytes = len, .out = out };
	struct s3 *s = of(remote);
	struct s3_reply reply;
	size_t before = out->len;
	uint64_t bytes;
	char range[64];
	int r;

	if (!len)
		return stat_blob(remote, name, &bytes);
	snprintf(range, sizeof(range), "%" PRIu64 "-%" PRIu64, offset, offset + len - 1);
	request.range = range;
	r = ask(s, &request, name, &reply);
	if (reply.status == 416) /* it ends before the offset */
		return 0;
	if (!r && reply.status != 206 && offset) {
		out->len = before;
		shfs_buf_str(&remote->why, "the server does not know ranges");
		return -EOPNOTSUPP;
	}
	if (!r && !offset && out->len - before < len && out->data)
		note_witness(s, name, out->data + before, out->len - before);
	return r;
}

/* --- puts --- */

/* Has the name these bytes? An earlier try has put them, and its answer was lost. */
static int compare_blob(struct s3 *s, const char *name, const void *data, size_t len)
{
	_cleanup_buf_ struct shfs_buf there = { 0 };
	int r = get_blob(&s->remote, name, 0, len + 1, &there);

	if (r)
		return r == -EBADMSG ? -EEXIST : r;
	return there.len == len && (!len || !memcmp(there.data, data, len)) ? 0 : -EEXIST;
}

static int put_once(struct s3 *s, const char *name, const void *data, size_t len)
{
	struct s3_request request = {
		.method = "PUT", .data = data ?: "", .len = len, .if_absent = true
	};
	struct s3_reply reply;
	int r = ask(s, &request, name, &reply);

	return r == -EEXIST && reply.was_repeated ? compare_blob(s, name, data, len) : r;
}

/* Puts what is there once more: that must be refused. */
static int look_whether_it_refuses(struct s3 *s)
{
	struct s3_request request = { .method = "PUT",
		                      .data = s->witness_bytes.data,
		                      .len = s->witness_bytes.len,
		                      .if_absent = true };
	struct s3_reply reply;
	int r;

	if (s->refuses || !s->witness.len)
		return 0;
	r = ask(s, &request, s->witness.data, &reply);
	if (r == -EEXIST) {
		s->refuses = true;
		s->remote.why.len = 0;
		return 0;
	}
	if (r && r != -EOPNOTSUPP)
		return r;
	s->remote.why.len = 0;
	shfs_buf_str(&s->remote.why,
	             "the server replaces objects although it is asked not to "
	             "(If-None-Match), so what one machine pushes could replace what "
	             "another one has pushed");
	return -EOPNOTSUPP;
}

static int put_blob(struct shfs_remote *remote, const char *name, const void *data,
                    size_t len)
{
	struct s3 *s = of(remote);
	int r = look_whether_it_refuses(s);

	if (!r)
		r = put_once(s, name, data, len);
	if (r)
		return r;
	note_witness(s, name, data, len);
	return look_whether_it_refuses(s);
}

/* --- listing --- */

/* Where the next page begins. */
struct place_of_page {
	struct shfs_buf token, last;
};

static void place_clear(struct place_of_page *p)
{
	shfs_buf_free(&p->token);
	shfs_buf_free(&p->last);
}

/* The keys of a query are signed in byte order, which libcurl leaves to the caller. */
static int make_query(struct s3 *s, const char *prefix, const struct place_of_page *at,
                      struct shfs_buf *out)
{
	out->len = 0;
	if (at->token.len) {
		shfs_buf_str(out, "continuation-token=");
		s3_http_escape(s->http, at->token.data, out);
		shfs_buf_char(out, '&');
	}
	shfs_buf_str(out, "encoding-type=url&list-type=2&prefix=");
	s3_http_escape(s->http, prefix, out);
	if (!at->token.len && at->last.len) {
		shfs_buf_str(out, "&start-after=");
		s3_http_escape(s->http, at->last.data, out);
	}
	return out->failed ? -ENOMEM : 0;
}

static int get_page(struct s3 *s, const char *prefix, const struct place_of_page *at,
                    struct shfs_buf *out, struct s3_reply *reply)
{
	_cleanup_buf_ struct shfs_buf query = { 0 };
	struct s3_request request = {
		.method = "GET", .name = "", .max_bytes = PAGE_MAX, .out = out
	};
	int r = make_query(s, prefix, at, &query);

	request.query = query.data;
	if (!r)
		r = s3_http_perform(s->http, &request, reply, &s->remote.why);
	return r ? r : reply->status >= 300 ? fail(s, reply) : 0;
}

/* Gets a page. Where the token of the page before has expired, it goes on by the last
 * name. */
static int get_next_page(struct s3 *s, const char *prefix, struct place_of_page *at,
                         struct shfs_buf *out)
{
	struct s3_reply reply = { 0 };
	int r;

	out->len = 0;
	r = get_page(s, prefix, at, out, &reply);
	if (!r || reply.status != 400 || !at->token.len)
		return r;
	at->token.len = 0;
	out->len = 0;
	return get_page(s, prefix, at, out, &reply);
}

/* Where the page after this one begins. */
static int go_on(struct place_of_page *at, const struct s3_page *page)
{
	/* a server must not make us ask for the same page forever */
	if (at->last.len &&
	    (!page->last.len || strcmp(page->last.data, at->last.data) <= 0))
		return -EBADMSG;
	at->token.len = at->last.len = 0;
	if (page->token.len)
		shfs_buf_str(&at->token, page->token.data);
	if (page->last.len)
		shfs_buf_str(&at->last, page->last.data);
	if (at->token.failed || at->last.failed)
		return -ENOMEM;
	return at->last.len ? 0 : -EBADMSG;
}

static int list_below(struct s3 *s, const char *prefix, struct s3_page *page)
{
	_cleanup_(place_clear) struct place_of_page at = { 0 };
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r;

	do {
		r = get_next_page(s, prefix, &at, &text);
		if (!r)
			r = s3_page_parse(text.data ?: "", text.len, page);
		if (!r && page->is_truncated)
			r = go_on(&at, page);
	} while (!r && page->is_truncated);
	return r;
}

static int list_names(struct shfs_remote *remote, const char *dir, shfs_remote_fn fn,
                      void *arg)
{
	struct s3 *s = of(remote);
	_cleanup_s3_page_ struct s3_page page = { .cut = s->settings.prefix,
		                                  .fn = fn,
		                                  .arg = arg };
	_cleanup_buf_ struct shfs_buf prefix = { 0 };

	shfs_buf_printf(&prefix, "%s%s%s", s->settings.prefix, dir, *dir ? "/" : "");
	return prefix.failed ? -ENOMEM : list_below(s, prefix.data, &page);
}

const struct shfs_backend shfs_backend_s3 = {
	.scheme = S3_SCHEME,
	.open = open_s3,
	.close = close_s3,
	.list = list_names,
	.get = get_blob,
	.put = put_blob,
	.stat = stat_blob,
	.remove = remove_blob,
};
