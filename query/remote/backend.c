/* SPDX-License-Identifier: MIT */
#include "query/remote/backend.h"

#include "common/clock.h"
#include "common/path.h"
#include "query/remote/faults.h"
#include "query/remote/s3/settings.h"
#include "query/remote/ssh/url.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define FILE_SCHEME "file://"

static const struct shfs_backend *const kinds[] = {
	&shfs_backend_s3, &shfs_backend_ssh,
	&shfs_backend_directory, /* last of all: it has no scheme */
};

/* --- URLs --- */

static const struct shfs_backend *kind_of(const char *url)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (!strncmp(url, kinds[i]->scheme, strlen(kinds[i]->scheme)))
			return kinds[i];
	return NULL;
}

static int check_ssh_url(const char *text)
{
	_cleanup_ssh_url_ struct ssh_url url = { 0 };

	return ssh_url_parse(text, &url);
}

static int check_s3_url(const char *url)
{
	_cleanup_s3_settings_ struct s3_settings settings = { 0 };

	return s3_settings_parse_url(url, &settings);
}

int shfs_remote_url(const char *url, char **out)
{
	const struct shfs_backend *kind = kind_of(url);
	const char *scheme = strstr(url, "://"), *c;
	int r;

	for (c = url; *c; c++) /* it goes into a line */
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return -EINVAL;
	if (!strncmp(url, FILE_SCHEME, strlen(FILE_SCHEME))) {
		url += strlen(FILE_SCHEME);
		if (*url != '/')
			return -EINVAL;
		scheme = NULL;
	}
	if (!*url)
		return -EINVAL;
	if (ssh_url_is_short(url))
		return ssh_url_of_short(url, out);
	r = kind == &shfs_backend_ssh  ? check_ssh_url(url)
	    : kind == &shfs_backend_s3 ? check_s3_url(url)
	                               : 0;
	if (r)
		return r;
	/* a path may have "://" in it, but not as a scheme has */
	if (scheme && !*kind->scheme && !memchr(url, '/', (size_t)(scheme - url)))
		return -EPROTONOSUPPORT;
	*out = *kind->scheme ? strdup(url) : shfs_path_absolute(url);
	return *out ? 0 : -ENOMEM;
}

/* --- open and close --- */

int shfs_remote_open(const char *url, struct shfs_buf *why, struct shfs_remote **out)
{
	const struct shfs_backend *kind = kind_of(url);
	struct shfs_buf unused = { 0 };
	struct shfs_remote *remote;
	int r = kind->open(url, why ?: &unused, &remote);

	shfs_buf_free(&unused);
	if (!r)
		r = remote_faults_wrap(remote, &remote);
	if (!r)
		*out = remote;
	return r;
}

void shfs_remote_close(struct shfs_remote *remote)
{
	if (!remote)
		return;
	shfs_buf_free(&remote->why);
	remote->kind->close(remote);
}

const char *shfs_remote_why(const struct shfs_remote *remote)
{
	return remote->why.len ? remote->why.data : "";
}

/* --- requests --- */

static void begin_request(struct shfs_remote *remote)
{
	remote->why.len = 0;
	remote->requests++;
}

/* Waits until as much time has passed as the bytes take at the rate. */
static void pay(struct shfs_remote *remote, uint64_t bytes)
{
	int64_t now = shfs_clock_ns(CLOCK_MONOTONIC), left;
	struct timespec wait;

	if (!remote->rate)
		return;
	remote->ready_ns = MAX(remote->ready_ns, now) +
	                   (int64_t)((double)bytes / (double)remote->rate *
	                             (double)SHFS_NSEC_PER_SEC);
	left = remote->ready_ns - now;
	wait = (struct timespec){ left / SHFS_NSEC_PER_SEC, left % SHFS_NSEC_PER_SEC };
	while (nanosleep(&wait, &wait) && errno == EINTR)
		;
}

int shfs_remote_list(struct shfs_remote *remote, const char *dir, shfs_remote_fn fn,
                     void *arg)
{
	begin_request(remote);
	return remote->kind->list(remote, dir, fn, arg);
}

int shfs_remote_get(struct shfs_remote *remote, const char *name, uint64_t offset,
                    size_t len, struct shfs_buf *out)
{
	size_t before = out->len;
	int r;

	begin_request(remote);
	if (len > SHFS_REMOTE_GET_MAX)
		return -EFBIG;
	r = remote->kind->get(remote, name, offset, len, out);
	if (!r && (out->failed || out->len - before > len))
		r = out->failed ? -ENOMEM : -EBADMSG;
	if (!r) {
		remote->got_bytes += out->len - before;
		pay(remote, out->len - before);
	}
	return r;
}

int shfs_remote_put(struct shfs_remote *remote, const char *name, const void *data,
                    size_t len)
{
	int r;

	begin_request(remote);
	r = remote->kind->put(remote, name, data, len);
	if (!r) {
		remote->sent_bytes += len;
		pay(remote, len);
	}
	return r;
}

int shfs_remote_stat(struct shfs_remote *remote, const char *name, uint64_t *bytes)
{
	begin_request(remote);
	return remote->kind->stat(remote, name, bytes);
}

int shfs_remote_remove(struct shfs_remote *remote, const char *name)
{
	begin_request(remote);
	return remote->kind->remove(remote, name);
}

int shfs_remote_sweep(struct shfs_remote *remote, const char *dir)
{
	begin_request(remote);
	return remote->kind->sweep ? remote->kind->sweep(remote, dir) : 0;
}

void shfs_remote_name_blob(const struct shfs_remote *remote, const char *store_id,
                           const char *sha, char out[static SHFS_SHA256_SIZE])
{
	if (remote->kind->name_blob)
		remote->kind->name_blob(remote, store_id, sha, out);
	else
		memcpy(out, sha, SHFS_SHA256_SIZE);
}
