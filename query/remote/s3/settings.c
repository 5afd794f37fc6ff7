/* SPDX-License-Identifier: MIT */
#include "query/remote/s3/settings.h"

#include "common/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FILE_MAX    (1u << 20)
#define LETTERS     "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
#define BUCKET_MAX  255 /* characters, of old buckets; new ones have 63 */
#define PREFIX_MAX  512
#define AMAZON_HOST ".amazonaws.com"

void s3_settings_clear(struct s3_settings *s)
{
	free(s->bucket);
	free(s->prefix);
	free(s->endpoint);
	free(s->region);
	free(s->key);
	free(s->secret);
	free(s->token);
	free(s->ca_file);
	free(s->path_style);
	*s = (struct s3_settings){ 0 };
}

/* --- the URL --- */

static bool is_of(const char *text, const char *characters)
{
	return text[strspn(text, characters)] == '\0';
}

/* Replaces each %XX in place. */
static bool decode(char *text)
{
	char *to = text, *end;

	for (char *from = text; *from; from++, to++) {
		char digits[3] = { 0 };

		*to = *from;
		if (*from != '%')
			continue;
		strncpy(digits, from + 1, 2);
		*to = (char)strtoul(digits, &end, 16);
		if (end != digits + 2 || !*to)
			return false;
		from += 2;
	}
	*to = '\0';
	return true;
}

static bool endpoint_is_valid(const char *text)
{
	size_t scheme = !strncasecmp(text, "https://", 8)  ? 8
	                : !strncasecmp(text, "http://", 7) ? 7
	                                                   : 0;

	return scheme && text[scheme] && is_of(text + scheme, LETTERS ".-_:[]");
}

/* Takes an endpoint, with or without its scheme. */
static int take_endpoint(const char *text, char **out)
{
	_cleanup_free_ char *whole = NULL;
	size_t len;

	if (asprintf(&whole, "%s%s", strstr(text, "://") ? "" : "https://", text) < 0)
		return -ENOMEM;
	len = strlen(whole);
	if (len && whole[len - 1] == '/')
		whole[len - 1] = '\0';
	if (!endpoint_is_valid(whole))
		return -EINVAL;
	free(*out);
	*out = TAKE_PTR(whole);
	return 0;
}

static int take_text(const char *text, char **out)
{
	char *copy = strdup(text);

	if (!copy)
		return -ENOMEM;
	free(*out);
	*out = copy;
	return 0;
}

static int take_path_style(const char *value, char **out)
{
	static const char *const words[] = { "yes", "true", "1", "no", "false", "0" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (!strcmp(value, words[i]))
			return take_text(i < 3 ? "yes" : "no", out);
	return -EINVAL;
}

static int take_option(char *word, struct s3_settings *s)
{
	char *value = strchr(word, '=');

	if (!value)
		return -EINVAL;
	*value++ = '\0';
	if (!decode(value))
		return -EINVAL;
	if (!strcmp(word, "endpoint"))
		return take_endpoint(value, &s->endpoint);
	if (!strcmp(word, "region"))
		return *value && is_of(value, LETTERS "-_") ? take_text(value, &s->region)
		                                            : -EINVAL;
	if (strcmp(word, "path-style") != 0)
		return -EINVAL;
	return take_path_style(value, &s->path_style);
}

/* Takes a path without the slashes at its ends. */
static int take_prefix(const char *path, struct s3_settings *s)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };
	_cleanup_free_ char *copy = strdup(path);
	char *rest = NULL;

	if (!copy)
		return -ENOMEM;
	if (!is_of(path, LETTERS "-_.~/") || strlen(path) > PREFIX_MAX)
		return -EINVAL;
	for (char *part = strtok_r(copy, "/", &rest); part;
	     part = strtok_r(NULL, "/", &rest)) {
		if (!strcmp(part, ".") || !strcmp(part, ".."))
			return -EINVAL;
		shfs_buf_printf(&out, "%s/", part);
	}
	if (out.failed)
		return -ENOMEM;
	return take_text(out.data ?: "", &s->prefix);
}

int s3_settings_parse_url(const char *url, struct s3_settings *out)
{
	_cleanup_s3_settings_ struct s3_settings s = { 0 };
	_cleanup_free_ char *copy = strdup(url);
	char *bucket, *options, *path, *rest = NULL;
	int r;

	if (!copy)
		return -ENOMEM;
	if (strncmp(copy, S3_SCHEME, strlen(S3_SCHEME)) != 0)
		return -EINVAL;
	bucket = copy + strlen(S3_SCHEME);
	options = strchr(bucket, '?');
	if (options)
		*options++ = '\0';
	path = strchr(bucket, '/');
	if (path)
		*path++ = '\0';
	if (!*bucket || *bucket == '.' || *bucket == '-' || strlen(bucket) > BUCKET_MAX ||
	    !is_of(bucket, LETTERS "-_."))
		return -EINVAL;
	r = take_text(bucket, &s.bucket);
	if (!r)
		r = take_prefix(path ?: "", &s);
	for (char *word = options ? strtok_r(options, "&", &rest) : NULL; word && !r;
	     word = strtok_r(NULL, "&", &rest))
		r = take_option(word, &s);
	if (r)
		return r;
	*out = s;
	s = (struct s3_settings){ 0 };
	return 0;
}

/* --- the files of profiles --- */

/* A file of profiles. inih would cut long lines, and a session token is one. */
struct profiles {
	char *rest;
	const char *wanted; /* the profile */
	bool is_in;         /* the lines that follow are of it */
};

static char *strip(char *text)
{
	size_t len;

	text += strspn(text, " \t");
	len = strlen(text);
	while (len && strchr(" \t\r", text[len - 1]))
		text[--len] = '\0';
	return text;
}

/* [NAME], [profile NAME] */
static bool is_section(char *line, const char *name)
{
	char *end = strchr(line, ']');

	if (end)
		*end = '\0';
	line = strip(line + 1);
	if (!strncmp(line, "profile", 7) && (line[7] == ' ' || line[7] == '\t'))
		line = strip(line + 7);
	return !strcmp(line, name);
}

/* The next setting of the profile; lines that are indented belong to another one. */
static bool next_setting(struct profiles *p, char **key, char **value)
{
	char *line;

	while ((line = strsep(&p->rest, "\n"))) {
		if (*line == '[') {
			p->is_in = is_section(line, p->wanted);
			continue;
		}
		*value = strchr(line, '=');
		if (!p->is_in || !*value || strchr("#; \t", *line))
			continue;
		**value = '\0';
		*key = strip(line);
		*value = strip(*value + 1);
		return true;
	}
	return false;
}

/* What both keys are. One place has both, or neither counts. */
struct credentials {
	char *key, *secret, *token;
};

static void credentials_clear(struct credentials *c)
{
	free(c->key);
	free(c->secret);
	free(c->token);
}

static int take_setting(struct s3_settings *s, struct credentials *c, const char *key,
                        const char *value)
{
	if (!strcmp(key, "aws_access_key_id"))
		return take_text(value, &c->key);
	if (!strcmp(key, "aws_secret_access_key"))
		return take_text(value, &c->secret);
	if (!strcmp(key, "aws_session_token"))
		return take_text(value, &c->token);
	if (!strcmp(key, "region") && !s->region)
		return take_text(value, &s->region);
	if (!strcmp(key, "endpoint_url") && !s->endpoint)
		return take_endpoint(value, &s->endpoint);
	if (!strcmp(key, "ca_bundle") && !s->ca_file)
		return take_text(value, &s->ca_file);
	return 0;
}

static void take_credentials(struct s3_settings *s, struct credentials *c)
{
	if (s->key || !c->key || !*c->key || !c->secret || !*c->secret)
		return;
	s->key = TAKE_PTR(c->key);
	s->secret = TAKE_PTR(c->secret);
	s->token = TAKE_PTR(c->token);
}

/* Reads the profile in the file that a variable names, or in this one below HOME. */
static int read_profile(struct s3_settings *s, const char *variable, const char *name)
{
	_cleanup_(credentials_clear) struct credentials c = { 0 };
	_cleanup_buf_ struct shfs_buf path = { 0 }, text = { 0 };
	const char *given = getenv(variable), *home = getenv("HOME"),
		   *profile = getenv("AWS_PROFILE");
	struct profiles p = { .wanted = profile && *profile ? profile : "default" };
	char *key, *value;
	int r;

	shfs_buf_printf(&path, "%s%s%s", given && *given ? given : home ?: "",
	                given && *given ? "" : "/.aws/", given && *given ? "" : name);
	if (path.failed)
		return -ENOMEM;
	r = shfs_read_file_at(AT_FDCWD, path.data, FILE_MAX, &text);
	if (r)
		return r == -ENOENT || r == -ENOTDIR ? 0 : r;
	p.rest = text.data;
	while (!r && next_setting(&p, &key, &value))
		r = take_setting(s, &c, key, value);
	if (!r)
		take_credentials(s, &c);
	if (text.data)
		explicit_bzero(text.data, text.len);
	return r;
}

/* --- the environment --- */

static const char *variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

static int read_environment(struct s3_settings *s)
{
	const char *key = variable("AWS_ACCESS_KEY_ID"),
		   *secret = variable("AWS_SECRET_ACCESS_KEY"),
		   *token = variable("AWS_SESSION_TOKEN"),
		   *endpoint = variable("AWS_ENDPOINT_URL_S3")
	                               ?: variable("AWS_ENDPOINT_URL"),
		   *region = variable("AWS_REGION") ?: variable("AWS_DEFAULT_REGION"),
		   *ca_file = variable("AWS_CA_BUNDLE");
	int r = 0;

	if (key && secret) {
		r = take_text(key, &s->key) ?: take_text(secret, &s->secret);
		if (!r && token)
			r = take_text(token, &s->token);
	}
	if (!r && endpoint && !s->endpoint)
		r = take_endpoint(endpoint, &s->endpoint);
	if (!r && region && !s->region)
		r = take_text(region, &s->region);
	if (!r && ca_file)
		r = take_text(ca_file, &s->ca_file);
	return r;
}

/* --- all of it --- */

static int complete(struct s3_settings *s)
{
	int r = s->region && is_of(s->region, LETTERS "-_")
	                ? 0
	                : take_text("us-east-1", &s->region);

	if (!r && !s->endpoint &&
	    asprintf(&s->endpoint, "https://s3.%s" AMAZON_HOST, s->region) < 0)
		return s->endpoint = NULL, -ENOMEM;
	return r;
}

int s3_settings_find(const char *url, struct shfs_buf *why, struct s3_settings *out)
{
	_cleanup_s3_settings_ struct s3_settings s = { 0 };
	int r = s3_settings_parse_url(url, &s);

	if (r)
		return r;
	r = read_environment(&s);
	if (!r)
		r = read_profile(&s, "AWS_SHARED_CREDENTIALS_FILE", "credentials");
	if (!r)
		r = read_profile(&s, "AWS_CONFIG_FILE", "config");
	if (r == -EINVAL)
		shfs_buf_str(why,
		             "the endpoint (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or "
		             "endpoint_url of the profile) is not as "
		             "https://HOST[:PORT]");
	else if (r)
		shfs_buf_printf(why, "cannot read ~/.aws: %s", strerror(-r));
	if (!r)
		r = complete(&s);
	if (!r && !s.key) {
		shfs_buf_str(why, "there are no keys: set AWS_ACCESS_KEY_ID and "
		                  "AWS_SECRET_ACCESS_KEY, or have them in a profile of "
		                  "~/.aws/credentials (AWS_PROFILE)");
		r = -EACCES;
	}
	if (r)
		return r;
	*out = s;
	s = (struct s3_settings){ 0 };
	return 0;
}

/* Hosts of other stores often have no name for each bucket; and no certificate is for a
 * name with dots before the host's. */
static bool wants_path(const struct s3_settings *s)
{
	if (s->path_style)
		return !strcmp(s->path_style, "yes");
	return !shfs_ends_with(s->endpoint, AMAZON_HOST) ||
	       !is_of(s->bucket, "abcdefghijklmnopqrstuvwxyz0123456789-");
}

void s3_settings_base(const struct s3_settings *s, struct shfs_buf *out)
{
	const char *host = strstr(s->endpoint, "://") + 3;

	if (wants_path(s))
		shfs_buf_printf(out, "%s/%s/", s->endpoint, s->bucket);
	else
		shfs_buf_printf(out, "%.*s%s.%s/", (int)(host - s->endpoint), s->endpoint,
		                s->bucket, host);
}
