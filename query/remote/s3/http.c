/* SPDX-License-Identifier: MIT */
#include "query/remote/s3/http.h"

#include "query/base/sha256.h"
#include "query/base/time.h"
#include "query/remote/s3/libs.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>

#define TRIES_MAX       10
#define CONNECTS_MAX    6 /* where nobody answers at all */
#define WAIT_FIRST_MS   100
#define WAIT_MAX_MS     10000
#define CONNECT_SECONDS 20L
#define STALL_SECONDS   60L         /* without a byte */
#define ERROR_MAX       (64u << 10) /* bytes of an answer that says what is wrong */

struct s3_http {
	CURL *curl;
	const struct s3_settings *settings;
	struct shfs_buf base;
	char text[CURL_ERROR_SIZE];
	bool has_asked;
};

/* What arrives of one try. */
struct arriving {
	struct s3_http *http;
	struct shfs_buf *out; /* NULL: nothing is wanted */
	size_t room, error_room;
	bool is_too_much;
	struct shfs_buf error;
};

int s3_http_new(const struct s3_settings *settings, struct s3_http **out)
{
	struct s3_http *http = calloc(1, sizeof(*http));

	if (!http)
		return -ENOMEM;
	http->settings = settings;
	s3_settings_base(settings, &http->base);
	http->curl = s3_libs.curl_easy_init();
	if (!http->curl || http->base.failed) {
		s3_http_free(http);
		return -ENOMEM;
	}
	*out = http;
	return 0;
}

void s3_http_free(struct s3_http *http)
{
	if (!http)
		return;
	if (http->curl)
		s3_libs.curl_easy_cleanup(http->curl);
	shfs_buf_free(&http->base);
	free(http);
}

void s3_http_escape(struct s3_http *http, const char *value, struct shfs_buf *out)
{
	char *escaped = s3_libs.curl_easy_escape(http->curl, value, (int)strlen(value));

	shfs_buf_str(out, escaped ?: "");
	out->failed |= !escaped;
	s3_libs.curl_free(escaped);
}

/* --- one try --- */

static size_t receive(char *data, size_t size, size_t n, void *arg)
{
	struct arriving *a = arg;
	struct shfs_buf *to;
	size_t *room;
	long status = 0;

	s3_libs.curl_easy_getinfo(a->http->curl, CURLINFO_RESPONSE_CODE, &status);
	n *= size;
	to = status < 300 ? a->out : &a->error;
	room = status < 300 ? &a->room : &a->error_room;
	if (n > *room) {
		a->is_too_much = true;
		return 0;
	}
	*room -= n;
	if (to)
		shfs_buf_add(to, data, n);
	return to && to->failed ? 0 : n;
}

static bool add_header(struct curl_slist **list, const char *name, const char *value)
{
	_cleanup_buf_ struct shfs_buf line = { 0 };
	struct curl_slist *longer = NULL;

	shfs_buf_printf(&line, "%s: %s", name, value);
	if (!line.failed)
		longer = s3_libs.curl_slist_append(*list, line.data);
	if (longer)
		*list = longer;
	return longer;
}

/* libcurl signs these headers. That of Debian 12 would also sign one that is to be left
 * out ("Expect:"), and does not send it: so none is. */
static struct curl_slist *make_headers(const struct s3_http *http,
                                       const struct s3_request *request)
{
	struct curl_slist *list = NULL;
	char sha[SHFS_SHA256_SIZE];
	bool ok;

	shfs_sha256_of(request->data ?: "", request->len, sha);
	ok = add_header(&list, "x-amz-content-sha256", sha);
	if (ok && request->data)
		ok = add_header(&list, "Content-Type", "application/octet-stream");
	if (ok && request->if_absent)
		ok = add_header(&list, "If-None-Match", "*");
	if (ok && http->settings->token)
		ok = add_header(&list, "x-amz-security-token", http->settings->token);
	if (ok)
		return list;
	s3_libs.curl_slist_free_all(list);
	return NULL;
}

#define SET(option, value)                                                               \
	do {                                                                             \
		CURLcode code_ = s3_libs.curl_easy_setopt(http->curl, option, value);    \
		if (code_)                                                               \
			return code_;                                                    \
	} while (0)

static CURLcode set_method(struct s3_http *http, const struct s3_request *request)
{
	if (!strcmp(request->method, "HEAD")) {
		SET(CURLOPT_NOBODY, 1L);
		return CURLE_OK;
	}
	if (request->data) { /* unlike CURLOPT_UPLOAD, it can be sent again */
		SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->len);
		SET(CURLOPT_POSTFIELDS, request->data);
	}
	SET(CURLOPT_CUSTOMREQUEST, request->method);
	return CURLE_OK;
}

static CURLcode set_signature(struct s3_http *http)
{
	const struct s3_settings *s = http->settings;
	_cleanup_buf_ struct shfs_buf provider = { 0 };

	shfs_buf_printf(&provider, "aws:amz:%s:s3", s->region);
	if (provider.failed)
		return CURLE_OUT_OF_MEMORY;
	SET(CURLOPT_AWS_SIGV4, provider.data);
	SET(CURLOPT_USERNAME, s->key);
	SET(CURLOPT_PASSWORD, s->secret);
	return CURLE_OK;
}

static CURLcode set_all(struct s3_http *http, const struct s3_request *request,
                        const char *url, struct curl_slist *headers,
                        struct arriving *arriving)
{
	CURLcode code;

	SET(CURLOPT_ERRORBUFFER, http->text);
	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_PROTOCOLS_STR, "http,https");
	SET(CURLOPT_URL, url);
	SET(CURLOPT_PATH_AS_IS, 1L);
	SET(CURLOPT_USERAGENT, "shfs/" SHFS_VERSION);
	SET(CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
	SET(CURLOPT_LOW_SPEED_LIMIT, 1L);
	SET(CURLOPT_LOW_SPEED_TIME, STALL_SECONDS);
	SET(CURLOPT_HTTPHEADER, headers);
	SET(CURLOPT_WRITEFUNCTION, receive);
	SET(CURLOPT_WRITEDATA, arriving);
	SET(CURLOPT_RANGE, request->range);
	if (http->settings->ca_file)
		SET(CURLOPT_CAINFO, http->settings->ca_file);
	code = set_method(http, request);
	return code ?: set_signature(http);
}

static int make_url(const struct s3_http *http, const struct s3_request *request,
                    struct shfs_buf *url)
{
	shfs_buf_add(url, http->base.data, http->base.len);
	shfs_buf_str(url, request->name);
	if (request->query)
		shfs_buf_printf(url, "?%s", request->query);
	return url->failed ? -ENOMEM : 0;
}

static CURLcode try_once(struct s3_http *http, const struct s3_request *request,
                         struct s3_reply *reply, struct arriving *arriving)
{
	_cleanup_buf_ struct shfs_buf url = { 0 };
	struct curl_slist *headers = make_headers(http, request);
	curl_off_t bytes = 0;
	long connects = 0;
	CURLcode code;

	s3_libs.curl_easy_reset(http->curl);
	*http->text = '\0';
	code = headers && !make_url(http, request, &url)
	               ? set_all(http, request, url.data, headers, arriving)
	               : CURLE_OUT_OF_MEMORY;
	if (!code)
		code = s3_libs.curl_easy_perform(http->curl);
	s3_libs.curl_easy_getinfo(http->curl, CURLINFO_RESPONSE_CODE, &reply->status);
	if (!s3_libs.curl_easy_getinfo(http->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T,
	                               &bytes))
		reply->bytes = bytes > 0 ? (uint64_t)bytes : 0;
	/* libcurl by itself sends once more what was lost on a connection that it kept */
	s3_libs.curl_easy_getinfo(http->curl, CURLINFO_NUM_CONNECTS, &connects);
	reply->was_repeated |= connects && http->has_asked;
	http->has_asked = true;
	s3_libs.curl_slist_free_all(headers);
	if (reply->status >= 300)
		s3_error_parse(arriving->error.data ?: "", arriving->error.len,
		               &reply->error);
	return code;
}

/* --- errors --- */

/* Errors of libcurl that another try will have too. */
static const struct {
	CURLcode code;
	int error;
} lasting[] = {
	{ CURLE_OUT_OF_MEMORY, -ENOMEM },
	{ CURLE_URL_MALFORMAT, -EINVAL },
	{ CURLE_PEER_FAILED_VERIFICATION, -EACCES },
	{ CURLE_SSL_CACERT_BADFILE, -EACCES },
	{ CURLE_SSL_CONNECT_ERROR, -EPROTO },
	{ CURLE_SSL_ENGINE_NOTFOUND, -EPROTO },
	{ CURLE_WEIRD_SERVER_REPLY, -EPROTO },
	{ CURLE_UNSUPPORTED_PROTOCOL, -EPROTO },
};

static int error_of_curl(CURLcode code, bool *is_lasting)
{
	for (size_t i = 0; i < ARRAY_SIZE(lasting); i++)
		if (lasting[i].code == code) {
			*is_lasting = true;
			return lasting[i].error;
		}
	switch (code) {
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
		return -EHOSTUNREACH;
	case CURLE_COULDNT_CONNECT:
		return -ECONNREFUSED;
	case CURLE_OPERATION_TIMEDOUT:
		return -ETIMEDOUT;
	default:
		return -ECONNRESET;
	}
}

/* 0: this answer is the answer; else another try may get another one. */
static int error_of_status(const struct s3_reply *reply)
{
	const char *code = reply->error.code;

	if (!strcmp(code, "RequestTimeout") || !strcmp(code, "SlowDown") ||
	    reply->status == 429 || reply->status == 408)
		return -EBUSY;
	/* another put of the name was at work */
	if (!strcmp(code, "ConditionalRequestConflict") ||
	    !strcmp(code, "OperationAborted"))
		return -EIO;
	return reply->status >= 500 && reply->status != 501 && reply->status != 507 ? -EIO
	                                                                            : 0;
}

static int judge(const struct s3_http *http, CURLcode code, const struct arriving *a,
                 const struct s3_reply *reply, bool *is_lasting, struct shfs_buf *why)
{
	int r;

	why->len = 0;
	*is_lasting = false;
	if (a->is_too_much) {
		*is_lasting = true;
		shfs_buf_str(why, "the answer is longer than what was asked for");
		return -EBADMSG;
	}
	if (a->out && a->out->failed) {
		*is_lasting = true;
		return -ENOMEM;
	}
	if (code) {
		shfs_buf_str(why,
		             *http->text ? http->text : s3_libs.curl_easy_strerror(code));
		return error_of_curl(code, is_lasting);
	}
	r = error_of_status(reply);
	if (r)
		shfs_buf_printf(why, "the server says %ld %s", reply->status,
		                reply->error.code);
	return r == -EBUSY ? -EIO : r;
}

/* --- many tries --- */

/* Waits before try n (from 1 on): twice as long each time, up to half of it by chance, so
 * that not all come back at once. */
static void wait_before(unsigned n)
{
	uint64_t ms = shfs_wait_ms("SHFS_S3_WAIT_MS", WAIT_FIRST_MS);
	struct timespec left;
	uint32_t chance = 0;

	ms = MIN(ms << (n - 1), (uint64_t)WAIT_MAX_MS);
	(void)!getrandom(&chance, sizeof(chance), GRND_NONBLOCK);
	ms -= ms / 2 * (chance % 1024) / 1024;
	left = (struct timespec){ (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };
	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

int s3_http_perform(struct s3_http *http, const struct s3_request *request,
                    struct s3_reply *reply, struct shfs_buf *why)
{
	size_t before = request->out ? request->out->len : 0;
	bool is_lasting = false;
	int r = 0;

	*reply = (struct s3_reply){ 0 };
	for (unsigned n = 0; n < TRIES_MAX && !is_lasting; n++) {
		struct arriving arriving = { .http = http,
			                     .out = request->out,
			                     .room = request->out ? request->max_bytes
			                                          : ERROR_MAX,
			                     .error_room = ERROR_MAX };
		CURLcode code;

		if (n)
			wait_before(n);
		*reply = (struct s3_reply){ .was_repeated = n };
		if (request->out && request->out->data)
			request->out->data[request->out->len = before] = '\0';
		code = try_once(http, request, reply, &arriving);
		r = judge(http, code, &arriving, reply, &is_lasting, why);
		shfs_buf_free(&arriving.error);
		if (!r)
			return 0;
		is_lasting |= n + 1 >= CONNECTS_MAX &&
		              (r == -ECONNREFUSED || r == -EHOSTUNREACH);
	}
	if (request->out && request->out->data)
		request->out->data[request->out->len = before] = '\0';
	return r;
}
