/* SPDX-License-Identifier: MIT */
/*
 * The server of `shfs web`: the socket, the filter, and who may ask. Only requests to the
 * names of this host that know the token are answered: a page of another site, whose name
 * may have been bound to 127.0.0.1, has neither.
 */
#include "query/web/waiting.h"

#include "recording/sandbox.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

#define CONNECTIONS_MAX 160
#define IDLE_S          60

/* --- who may ask --- */

/* Compares in a time that says nothing about where they differ. */
static bool is_token(const struct shfs_web *web, const char *given, size_t len)
{
	unsigned char other = len != SHFS_WEB_TOKEN;

	for (size_t i = 0; i < SHFS_WEB_TOKEN; i++)
		other |= (unsigned char)(web->token[i] ^ (i < len ? given[i] : 0));
	return !other;
}

/* Is there a cookie with the token? Cookies are those of all ports: so the name of ours
 * has the port. */
static bool has_cookie(const struct shfs_web *web, const char *cookies)
{
	char name[24];
	size_t len = (size_t)snprintf(name, sizeof(name), "shfs-%u=", web->port);

	while (cookies && *cookies) {
		cookies += strspn(cookies, "; ");
		if (!strncmp(cookies, name, len) &&
		    is_token(web, cookies + len, strcspn(cookies + len, "; ")))
			return true;
		cookies += strcspn(cookies, ";");
	}
	return false;
}

static const char *header(struct MHD_Connection *c, const char *name)
{
	return shfs_mhd.MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

/* Is it a name of this host that cannot be another site's? */
static bool is_host(const struct shfs_web *web, const char *host)
{
	char number[32], name[32];

	snprintf(number, sizeof(number), "127.0.0.1:%u", web->port);
	snprintf(name, sizeof(name), "localhost:%u", web->port);
	return host && (!strcmp(host, number) || !strcasecmp(host, name));
}

static bool may_ask(const struct shfs_web *web, struct MHD_Connection *c,
                    const char *token)
{
	const char *given = header(c, "Authorization"),
		   *site = header(c, "Sec-Fetch-Site");

	if (token && is_token(web, token, strlen(token)))
		return true;
	if (given && !strncmp(given, "token ", 6))
		return is_token(web, given + 6, strlen(given + 6));
	if (site && (!strcmp(site, "cross-site") || !strcmp(site, "same-site")))
		return false;
	return has_cookie(web, header(c, "Cookie"));
}

/* --- answers --- */

static const char *parameter(void *c, const char *name)
{
	return shfs_mhd.MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, name);
}

static int answer_request(struct shfs_web *web, struct shfs_web_request *request,
                          const char *url, const char *method,
                          struct shfs_web_later *later)
{
	struct MHD_Connection *c = request->connection;
	struct shfs_web_answer *a = &request->answer;
	const char *token = parameter(c, "token");

	if (!is_host(web, header(c, "Host"))) {
		shfs_web_say(a, 403, "This is not the name of this server.\n");
	} else if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
		shfs_web_say(a, 405, "Nothing can be changed here.\n");
	} else if (!may_ask(web, c, token)) {
		shfs_web_say(a, 403,
		             "Open the address that shfs web has printed: it has a "
		             "token.\n");
	} else {
		request->wants_cookie = token;
		return shfs_web_answer(web, url, parameter, c, a, later);
	}
	return 0;
}

static const char *const headers[][2] = {
	{ "X-Content-Type-Options", "nosniff" },
	{ "X-Frame-Options", "DENY" },
	{ "Referrer-Policy", "no-referrer" },
	{ "Cache-Control", "no-store" },
	{ "Cross-Origin-Resource-Policy", "same-origin" },
	{ "Cross-Origin-Opener-Policy", "same-origin" },
};

/* Gives the answer to the connection; the body becomes the library's. */
static enum MHD_Result give_answer(struct shfs_web *web, struct MHD_Connection *c,
                                   struct shfs_web_answer *a, bool cookie)
{
	struct MHD_Response *response = shfs_mhd.MHD_create_response_from_buffer(
		a->body.len, (void *)(a->body.data ?: ""),
		a->body.data ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
	enum MHD_Result ok = response ? MHD_YES : MHD_NO;
	char text[96];

	if (!response)
		return MHD_NO;
	a->body = (struct shfs_buf){ 0 };
	for (size_t i = 0; i < ARRAY_SIZE(headers) && ok; i++)
		ok = shfs_mhd.MHD_add_response_header(response, headers[i][0],
		                                      headers[i][1]);
	if (ok)
		ok = shfs_mhd.MHD_add_response_header(response, "Content-Type", a->type);
	if (ok)
		ok = shfs_mhd.MHD_add_response_header(response, "Content-Security-Policy",
		                                      a->csp);
	snprintf(text, sizeof(text), "shfs-%u=%s; HttpOnly; SameSite=Strict; Path=/",
	         web->port, web->token);
	if (ok && cookie)
		ok = shfs_mhd.MHD_add_response_header(response, "Set-Cookie", text);
	if (ok)
		ok = shfs_mhd.MHD_queue_response(c, a->status, response);
	shfs_mhd.MHD_destroy_response(response);
	return ok;
}

static enum MHD_Result take_request(void *closure, struct MHD_Connection *c,
                                    const char *url, const char *method,
                                    const char *version, const char *upload,
                                    size_t *upload_len, void **state)
{
	struct shfs_web_request *request = *state;
	struct shfs_web_later later = { SHFS_WEB_NOW };
	struct shfs_web *web = closure;

	if (!request) { /* the head alone has come */
		*state = request = calloc(1, sizeof(*request));
		if (request)
			request->connection = c;
		return request ? MHD_YES : MHD_NO;
	}
	if (*upload_len) { /* of a method that is refused */
		*upload_len = 0;
		return MHD_YES;
	}
	if (!request->is_answered && (answer_request(web, request, url, method, &later) ||
	                              request->answer.body.failed))
		shfs_web_say(&request->answer, 500, "This could not be answered.\n");
	if (later.when && shfs_web_wait(web, request, &later, parameter(c, "seen")))
		return MHD_YES;
	if (later.when)
		shfs_web_say(&request->answer, 503, "Too many are waiting.\n");
	return give_answer(web, c, &request->answer, request->wants_cookie);
}

static void end_request(void *closure, struct MHD_Connection *c, void **state,
                        enum MHD_RequestTerminationCode why)
{
	struct shfs_web_request *request = *state;

	if (!request)
		return;
	shfs_buf_free(&request->answer.body);
	free(request);
	*state = NULL;
}

/* --- the socket, and its life --- */

int shfs_web_listen(struct shfs_web *web, uint16_t port)
{
	struct sockaddr_in name = { .sin_family = AF_INET,
		                    .sin_port = htons(port),
		                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), error;
	socklen_t len = sizeof(name);

	if (fd < 0)
		return -errno;
	if (!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) &&
	    !bind(fd, (struct sockaddr *)&name, len) && !listen(fd, SOMAXCONN) &&
	    !getsockname(fd, (struct sockaddr *)&name, &len)) {
		web->port = ntohs(name.sin_port);
		return fd;
	}
	error = errno;
	close(fd);
	return -error;
}

static int enter_filters(struct shfs_web *web)
{
	int writable[] = { STDOUT_FILENO, STDERR_FILENO, web->refresh.ask,
		           web->worker.ask };
	int r = shfs_sandbox_enter(SHFS_SANDBOX_ACCEPT);

#ifdef __SANITIZE_ADDRESS__ /* it could not open a file for its report */
	__sanitizer_set_report_fd((void *)(uintptr_t)STDERR_FILENO);
#endif
	return r ?: shfs_sandbox_forbid_changes_of_files(writable, ARRAY_SIZE(writable));
}

/* How long nothing need be done. NULL: until something comes. */
static struct timeval *time_to_wait(struct MHD_Daemon *daemon, int64_t wait_ms,
                                    struct timeval *out)
{
	MHD_UNSIGNED_LONG_LONG ms;

	if (shfs_mhd.MHD_get_timeout(daemon, &ms) &&
	    (wait_ms < 0 || ms < (uint64_t)wait_ms))
		wait_ms = (int64_t)ms;
	out->tv_sec = (time_t)(wait_ms / 1000);
	out->tv_usec = (suseconds_t)(wait_ms % 1000 * 1000);
	return wait_ms < 0 ? NULL : out;
}

static int run_daemon(struct shfs_web *web, struct MHD_Daemon *daemon, int signals)
{
	for (;;) {
		fd_set in, out, other;
		int last = signals, r;
		int64_t wait_ms = -1;
		struct timeval wait;

		FD_ZERO(&in);
		FD_ZERO(&out);
		FD_ZERO(&other);
		FD_SET(signals, &in);
		if (!(shfs_mhd.MHD_get_fdset)(daemon, &in, &out, &other,
		                              &last) /* no macro */)
			return -EIO;
		shfs_web_waiting_add(web, &in, &last, &wait_ms);
		r = select(last + 1, &in, &out, &other,
		           time_to_wait(daemon, wait_ms, &wait));
		if (r < 0 && errno != EINTR)
			return -errno;
		if (r < 0)
			continue;
		if (FD_ISSET(signals, &in))
			return 0;
		shfs_web_waiting_run(web, &in);
		shfs_mhd.MHD_run_from_select(daemon, &in, &out, &other);
	}
}

int shfs_web_serve(struct shfs_web *web, int socket, int signals,
                   void (*ready)(const struct shfs_web *web))
{
	struct MHD_Daemon *daemon =
		shfs_mhd.MHD_start_daemon(MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
	                                  take_request, web, MHD_OPTION_NOTIFY_COMPLETED,
	                                  end_request, NULL, MHD_OPTION_LISTEN_SOCKET,
	                                  socket, MHD_OPTION_CONNECTION_LIMIT,
	                                  CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
	                                  IDLE_S, MHD_OPTION_END);
	int r;

	if (!daemon) {
		close(socket);
		return -EIO;
	}
	shfs_web_watch(web);
	ready(web);
	signal(SIGPIPE, SIG_IGN); /* a process beside this one may have died */
	r = enter_filters(web);
	if (!r)
		r = run_daemon(web, daemon, signals);
	shfs_web_waiting_end(web);
	shfs_mhd.MHD_run(daemon);         /* what is suspended cannot be stopped */
	shfs_mhd.MHD_stop_daemon(daemon); /* this closes the socket */
	return r;
}
