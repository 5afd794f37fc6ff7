/* SPDX-License-Identifier: MIT */
#include "query/remote/encryption/encrypted.h"

#include "query/remote/names.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define FIRST_LINE REMOTE_ENCRYPTED "1\n"
#define ID_BYTES   16
#define HASH_BYTES 32
#define CONTEXT    "shfs-rem" /* of crypto_kdf, 8 bytes */

#define NONCE_BYTES crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG_BYTES   crypto_aead_xchacha20poly1305_ietf_ABYTES
#define MORE_BYTES  (NONCE_BYTES + TAG_BYTES) /* that the bytes of a name have there */

/* The purposes of derived keys: the numbers are of the format. */
enum purpose {
	FOR_BLOBS = 1,
	FOR_HEADS = 2,
	FOR_NAMES = 3,
	FOR_LABEL = 4,
	PURPOSES,
};

/* In memory that is wiped when it is freed. */
struct keys {
	unsigned char of[PURPOSES][KEY_BYTES];
};

struct encrypted {
	struct shfs_remote remote;
	struct shfs_remote *inner;
	struct keys *keys;
	char label[LABEL_MAX];
};

static struct encrypted *of(struct shfs_remote *remote)
{
	return container_of(remote, struct encrypted, remote);
}

/* --- keys --- */

/* Derives the keys of one remote: two remotes of one key share none. NULL: no memory. */
static struct keys *derive_keys(const struct remote_key *key,
                                const unsigned char id[static ID_BYTES])
{
	struct keys *keys = sodium_init() < 0 ? NULL : sodium_malloc(sizeof(*keys));
	unsigned char *own = keys ? keys->of[0] : NULL; /* the key of this remote */

	if (!keys)
		return NULL;
	crypto_generichash(own, KEY_BYTES, id, ID_BYTES, key->bytes, KEY_BYTES);
	for (uint64_t i = 1; i < PURPOSES; i++)
		crypto_kdf_derive_from_key(keys->of[i], KEY_BYTES, i, CONTEXT, own);
	sodium_memzero(own, KEY_BYTES);
	return keys;
}

static void keys_freep(struct keys **keys)
{
	sodium_free(*keys);
}
#define _cleanup_keys_ _cleanup_(keys_freep)

/* --- the label --- */

bool label_is_encrypted(const char *label)
{
	return !strncmp(label, REMOTE_ENCRYPTED, strlen(REMOTE_ENCRYPTED));
}

/* Prints the label of a remote of that number and these keys. */
static void print_label(const unsigned char id[static ID_BYTES], const struct keys *keys,
                        char out[static LABEL_MAX])
{
	unsigned char hash[HASH_BYTES];
	char hex[2 * HASH_BYTES + 1];
	size_t len;

	sodium_bin2hex(hex, sizeof(hex), id, ID_BYTES);
	len = (size_t)snprintf(out, LABEL_MAX, FIRST_LINE "id %s\n", hex);
	crypto_generichash(hash, sizeof(hash), (const unsigned char *)out, len,
	                   keys->of[FOR_LABEL], KEY_BYTES);
	sodium_bin2hex(hex, sizeof(hex), hash, sizeof(hash));
	snprintf(out + len, LABEL_MAX - len, "check %s\n", hex);
}

int label_make(const struct remote_key *key, char out[static LABEL_MAX])
{
	unsigned char id[ID_BYTES];
	_cleanup_keys_ struct keys *keys = NULL;

	randombytes_buf(id, sizeof(id));
	keys = derive_keys(key, id);
	if (!keys)
		return -ENOMEM;
	print_label(id, keys, out);
	return 0;
}

/* Reads the number of the remote. */
static int parse_label(const char *label, unsigned char id[static ID_BYTES])
{
	const size_t first = strlen(FIRST_LINE);
	size_t n;

	if (!label_is_encrypted(label))
		return -EBADMSG;
	if (strncmp(label, FIRST_LINE, first) != 0)
		return -EPROTONOSUPPORT;
	if (strncmp(label + first, "id ", 3) != 0 ||
	    strlen(label + first + 3) < 2 * ID_BYTES)
		return -EBADMSG;
	return sodium_hex2bin(id, ID_BYTES, label + first + 3, 2 * ID_BYTES, NULL, &n,
	                      NULL) ||
	                       n != ID_BYTES
	               ? -EBADMSG
	               : 0;
}

/* Derives the keys, and compares the label with what they say that it is. */
static int open_label(const struct remote_key *key, const char *label, struct keys **out)
{
	_cleanup_keys_ struct keys *keys = NULL;
	unsigned char id[ID_BYTES];
	char again[LABEL_MAX];
	int r = parse_label(label, id);

	if (r)
		return r;
	keys = derive_keys(key, id);
	if (!keys)
		return -ENOMEM;
	print_label(id, keys, again);
	if (strcmp(again, label) != 0)
		return -EKEYREJECTED;
	*out = TAKE_PTR(keys);
	return 0;
}

int label_check(const struct remote_key *key, const char *label)
{
	_cleanup_keys_ struct keys *keys = NULL;

	return open_label(key, label, &keys);
}

/* --- requests --- */

/* Ends a request: what the other side said of it is said here. */
static int end(struct encrypted *e, int r)
{
	e->remote.why.len = 0;
	if (e->inner->why.len)
		shfs_buf_add(&e->remote.why, e->inner->why.data, e->inner->why.len);
	return r;
}

static bool is_label(const char *name)
{
	return !strcmp(name, REMOTE_FORMAT_NAME);
}

static const unsigned char *key_for(const struct encrypted *e, const char *name)
{
	const size_t len = strlen(REMOTE_HEADS "/");

	return e->keys->of[strncmp(name, REMOTE_HEADS "/", len) ? FOR_BLOBS : FOR_HEADS];
}

/* Gets the label, as that of a remote that is not encrypted. */
static int get_label(struct encrypted *e, struct shfs_buf *out)
{
	_cleanup_buf_ struct shfs_buf label = { 0 };
	int r = shfs_remote_get(e->inner, REMOTE_FORMAT_NAME, 0, LABEL_MAX, &label);
	const char *text;

	if (r)
		return r;
	text = label.data ?: "";
	if (!strcmp(text, e->label))
		shfs_buf_str(out, REMOTE_FORMAT);
	else if (!strncmp(text, FIRST_LINE, strlen(FIRST_LINE)) ||
	         !strcmp(text, REMOTE_FORMAT))
		return -EKEYREVOKED;
	else if (label_is_encrypted(text))
		return -EPROTONOSUPPORT;
	else
		shfs_buf_str(out, text); /* of something else, or newer */
	return 0;
}

/* Decrypts all that lies under the name, in its place. */
static int decrypt(const struct encrypted *e, const char *name, struct shfs_buf *bytes)
{
	unsigned char *nonce = (unsigned char *)bytes->data;
	unsigned long long len;

	if (bytes->len < MORE_BYTES ||
	    crypto_aead_xchacha20poly1305_ietf_decrypt(
		    nonce + NONCE_BYTES, &len, NULL, nonce + NONCE_BYTES,
		    bytes->len - NONCE_BYTES, (const unsigned char *)name, strlen(name),
		    nonce, key_for(e, name)))
		return -EBADMSG;
	bytes->len = NONCE_BYTES + (size_t)len;
	return 0;
}

static int get_decrypted(struct shfs_remote *remote, const char *name, uint64_t offset,
                         size_t len, struct shfs_buf *out)
{
	struct encrypted *e = of(remote);
	_cleanup_buf_ struct shfs_buf bytes = { 0 };
	size_t plain;
	int r;

	if (is_label(name))
		return end(e, get_label(e, out));
	/* a part of it cannot be told from a part that was made up */
	r = end(e, shfs_remote_get(e->inner, name, 0, SHFS_REMOTE_GET_MAX, &bytes));
	if (!r)
		r = decrypt(e, name, &bytes);
	if (r)
		return r;
	plain = bytes.len - NONCE_BYTES;
	if (offset < plain)
		shfs_buf_add(out, bytes.data + NONCE_BYTES + offset,
		             MIN(len, plain - (size_t)offset));
	return 0;
}

static int put_encrypted(struct shfs_remote *remote, const char *name, const void *data,
                         size_t len)
{
	struct encrypted *e = of(remote);
	_cleanup_buf_ struct shfs_buf bytes = { 0 };
	unsigned char *nonce;

	if (is_label(name))
		return end(e,
		           shfs_remote_put(e->inner, name, e->label, strlen(e->label)));
	shfs_buf_reserve(&bytes, len + MORE_BYTES);
	if (bytes.failed)
		return -ENOMEM;
	/* 24 bytes by chance never come again */
	nonce = (unsigned char *)bytes.data;
	randombytes_buf(nonce, NONCE_BYTES);
	crypto_aead_xchacha20poly1305_ietf_encrypt(nonce + NONCE_BYTES, NULL, data, len,
	                                           (const unsigned char *)name,
	                                           strlen(name), NULL, nonce,
	                                           key_for(e, name));
	return end(e, shfs_remote_put(e->inner, name, nonce, len + MORE_BYTES));
}

/* How many bytes were put. 0 of those that are too few: nothing that is put has none. */
static uint64_t plain_bytes(const char *name, uint64_t bytes)
{
	if (is_label(name))
		return bytes;
	return bytes < MORE_BYTES ? 0 : bytes - MORE_BYTES;
}

static int stat_encrypted(struct shfs_remote *remote, const char *name, uint64_t *bytes)
{
	struct encrypted *e = of(remote);
	int r = end(e, shfs_remote_stat(e->inner, name, bytes));

	if (!r)
		*bytes = plain_bytes(name, *bytes);
	return r;
}

static int remove_encrypted(struct shfs_remote *remote, const char *name)
{
	struct encrypted *e = of(remote);

	return end(e, shfs_remote_remove(e->inner, name));
}

struct listing {
	shfs_remote_fn fn;
	void *arg;
};

static int list_name(void *arg, const char *name, uint64_t bytes)
{
	const struct listing *l = arg;

	return l->fn(l->arg, name, plain_bytes(name, bytes));
}

static int list_encrypted(struct shfs_remote *remote, const char *dir, shfs_remote_fn fn,
                          void *arg)
{
	struct encrypted *e = of(remote);
	struct listing l = { fn, arg };

	return end(e, shfs_remote_list(e->inner, dir, list_name, &l));
}

static int sweep_encrypted(struct shfs_remote *remote, const char *dir)
{
	struct encrypted *e = of(remote);

	return end(e, shfs_remote_sweep(e->inner, dir));
}

/* The name tells only those who have the key what is in the blob; and in two stores the
 * same bytes have two names. */
static void name_blob(const struct shfs_remote *remote, const char *store_id,
                      const char *sha, char out[static SHFS_SHA256_SIZE])
{
	const struct encrypted *e = container_of(remote, struct encrypted, remote);
	unsigned char hash[HASH_BYTES];
	char text[STORE_ID_SIZE + SHFS_SHA256_SIZE];
	int len = snprintf(text, sizeof(text), "%s/%s", store_id, sha);

	crypto_generichash(hash, sizeof(hash), (const unsigned char *)text, (size_t)len,
	                   e->keys->of[FOR_NAMES], KEY_BYTES);
	sodium_bin2hex(out, SHFS_SHA256_SIZE, hash, sizeof(hash));
}

static void close_encrypted(struct shfs_remote *remote)
{
	struct encrypted *e = of(remote);

	shfs_remote_close(e->inner);
	sodium_free(e->keys);
	free(e);
}

static const struct shfs_backend encrypted = {
	.scheme = "",
	.close = close_encrypted,
	.list = list_encrypted,
	.get = get_decrypted,
	.put = put_encrypted,
	.stat = stat_encrypted,
	.remove = remove_encrypted,
	.sweep = sweep_encrypted,
	.name_blob = name_blob,
};

int remote_encrypt(struct shfs_remote *inner, const struct remote_key *key,
                   const char *label, struct shfs_remote **out)
{
	struct encrypted *e = calloc(1, sizeof(*e));
	int r = e ? open_label(key, label, &e->keys) : -ENOMEM;

	if (r) {
		free(e);
		return r;
	}
	e->remote.kind = &encrypted;
	e->inner = inner;
	snprintf(e->label, sizeof(e->label), "%s", label);
	*out = &e->remote;
	return 0;
}
