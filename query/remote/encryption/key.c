/* SPDX-License-Identifier: MIT */
#include "query/remote/encryption/key.h"

#include "common/io.h"
#include "common/path.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#define FORMAT   "shfs-key-1:"
#define TEXT_MAX 4096 /* of what a file or a program says */
#define GROUP    8    /* digits between two dashes */

/* Allocates memory that is wiped when it is freed. NULL. */
static void *secret_new(size_t bytes)
{
	return sodium_init() < 0 ? NULL : sodium_malloc(bytes);
}

static void secret_freep(void *memory)
{
	sodium_free(*(void **)memory);
}
#define _cleanup_secret_ _cleanup_(secret_freep)

void remote_key_free(struct remote_key *key)
{
	sodium_free(key);
}

int remote_key_make(struct remote_key **out)
{
	struct remote_key *key = secret_new(sizeof(*key));

	if (!key)
		return -ENOMEM;
	randombytes_buf(key->bytes, sizeof(key->bytes));
	*out = key;
	return 0;
}

/* --- as text --- */

/* Moves over comments and blanks. */
static void skip_comments(const char **text, size_t *len)
{
	while (*len && strchr(" \t\r\n#", **text)) {
		const char *end = **text == '#' ? memchr(*text, '\n', *len) : *text + 1;
		size_t n = end ? (size_t)(end - *text) : *len;

		*text += n;
		*len -= n;
	}
}

int remote_key_parse(const char *text, size_t len, struct remote_key **out)
{
	const size_t format = strlen(FORMAT);
	_cleanup_key_ struct remote_key *key = secret_new(sizeof(*key));
	const char *end;
	size_t n;

	if (!key)
		return -ENOMEM;
	skip_comments(&text, &len);
	while (len && strchr(" \t\r\n", text[len - 1]))
		len--;
	if (len < format || memcmp(text, FORMAT, format) != 0 ||
	    sodium_hex2bin(key->bytes, sizeof(key->bytes), text + format, len - format,
	                   "-", &n, &end) ||
	    n != sizeof(key->bytes) || end != text + len)
		return -EINVAL;
	*out = TAKE_PTR(key);
	return 0;
}

/* Reads what there is, and parses it. */
static int read_key(int fd, struct remote_key **out)
{
	_cleanup_secret_ char *text = secret_new(TEXT_MAX);
	size_t len = 0;
	ssize_t n = 1;

	if (!text)
		return -ENOMEM;
	while (n && len < TEXT_MAX) {
		n = read(fd, text + len, TEXT_MAX - len);
		if (n < 0 && errno != EINTR)
			return -errno;
		len += n > 0 ? (size_t)n : 0;
	}
	return n ? -EINVAL : remote_key_parse(text, len, out);
}

/* --- where keys are kept --- */

char *remote_key_path(const char *name)
{
	_cleanup_free_ char *config = shfs_path_config();
	char *slash = config ? strrchr(config, '/') : NULL, *path;

	if (!slash ||
	    asprintf(&path, "%.*s/keys/%s.key", (int)(slash - config), config, name) < 0)
		return NULL;
	return path;
}

int remote_key_read(const char *path, struct remote_key **out)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : read_key(fd, out);
}

int remote_key_run(const char *command, struct remote_key **out)
{
	_cleanup_key_ struct remote_key *key = NULL;
	FILE *pipe = popen(command, "re");
	int r = pipe ? read_key(fileno(pipe), &key) : -errno;

	if (pipe && pclose(pipe))
		r = -ECHILD;
	if (!r)
		*out = TAKE_PTR(key);
	return r;
}

/* Writes the key as text into a file that is there. */
static int write_text(const struct remote_key *key, int fd)
{
	_cleanup_secret_ char *text = secret_new(TEXT_MAX);
	_cleanup_secret_ char *digits = secret_new(2 * KEY_BYTES + 1);
	size_t len = strlen(FORMAT);
	int r;

	if (!text || !digits)
		return -ENOMEM;
	sodium_bin2hex(digits, 2 * KEY_BYTES + 1, key->bytes, sizeof(key->bytes));
	memcpy(text, FORMAT, len);
	for (size_t i = 0; i < 2 * KEY_BYTES; i += GROUP) {
		if (i)
			text[len++] = '-';
		memcpy(text + len, digits + i, GROUP);
		len += GROUP;
	}
	text[len++] = '\n';
	r = shfs_write_all(fd, text, len);
	return r ? r : fsync(fd) ? -errno : 0;
}

int remote_key_write(const struct remote_key *key, const char *path)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *dir =
		slash ? strndup(path, (size_t)(slash - path + 1)) : strdup("./");
	_cleanup_close_ int dirfd = -1, fd = -1;
	int r = dir ? shfs_mkdir_p_at(AT_FDCWD, dir, 0700) : -ENOMEM;

	if (r)
		return r;
	path = slash ? slash + 1 : path;
	dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dirfd >= 0)
		fd = openat(dirfd, path,
		            O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = write_text(key, fd);
	if (r)
		unlinkat(dirfd, path, 0);
	return !r && fsync(dirfd) ? -errno : r;
}

/* --- at the terminal --- */

/* Reads a line byte by byte; signals are off, so ^C and ^D come as bytes. */
static int read_line(int tty, char *text, size_t *len)
{
	char c;

	*len = 0;
	while (*len < TEXT_MAX) {
		ssize_t n = read(tty, &c, 1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || c == 3 || c == 4)
			return -ECANCELED;
		if (c == '\n')
			return 0;
		text[(*len)++] = c;
	}
	return -EINVAL;
}

int remote_key_ask(const char *prompt, struct remote_key **out)
{
	_cleanup_close_ int tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
	_cleanup_secret_ char *text = secret_new(TEXT_MAX);
	struct termios before, silent;
	size_t len;
	int r;

	if (tty < 0 || tcgetattr(tty, &before))
		return -ENOTTY;
	if (!text)
		return -ENOMEM;
	silent = before;
	silent.c_lflag &= ~(tcflag_t)(ECHO | ISIG);
	r = shfs_write_all(tty, prompt, strlen(prompt));
	if (!r && tcsetattr(tty, TCSAFLUSH, &silent))
		r = -errno;
	if (!r) {
		r = read_line(tty, text, &len);
		tcsetattr(tty, TCSAFLUSH, &before);
		(void)!shfs_write_all(tty, "\n", 1);
	}
	return r ? r : remote_key_parse(text, len, out);
}
