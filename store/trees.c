/* SPDX-License-Identifier: MIT */
#include "store/trees.h"

#include "common/io.h"
#include "common/path.h"
#include "common/proc.h"
#include "store/objects/object.h"
#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAME      "trees"
#define BYTES_MAX (64 << 20)
#define WORDS     4
#define UNKNOWN   "-"

enum kind { TREE, BOOT, HOST, MAP, FROM };

static const struct {
	const char *word;
	size_t words; /* that follow */
} kinds[] = {
	[TREE] = { "tree", 4 }, [BOOT] = { "boot", 3 }, [HOST] = { "host", 2 },
	[MAP] = { "map", 3 },   [FROM] = { "from", 3 },
};

struct line {
	enum kind kind;
	char *words[WORDS];
};

struct shfs_trees {
	struct line *lines;
	size_t n, cap;
	struct shfs_tree_identity *identities; /* of an archive: one for each line */
};

/* --- lines --- */

static void line_clear(struct line *l)
{
	for (size_t i = 0; i < WORDS; i++)
		free(l->words[i]);
}

void shfs_trees_free(struct shfs_trees *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n; i++)
		line_clear(&t->lines[i]);
	free(t->lines);
	free(t->identities);
	free(t);
}

static void trees_freep(struct shfs_trees **t)
{
	shfs_trees_free(*t);
}
#define _cleanup_trees_ _cleanup_(trees_freep)

static int add_line(struct shfs_trees *t, enum kind kind, const char *const *words)
{
	struct line *l = MAKE_ROOM(t->lines, t->n, t->cap) ? &t->lines[t->n] : NULL;

	if (!l)
		return -ENOMEM;
	*l = (struct line){ .kind = kind };
	t->n++;
	for (size_t i = 0; i < kinds[kind].words; i++)
		if (!(l->words[i] = strdup(words[i])))
			return -ENOMEM;
	return 0;
}

static void put_word(struct shfs_buf *out, const char *word)
{
	for (; *word; word++) {
		unsigned char c = (unsigned char)*word;

		if (c <= ' ' || c == '%' || c == 0x7f)
			shfs_buf_printf(out, "%%%02x", c);
		else
			shfs_buf_char(out, *word);
	}
}

static void put_line(struct shfs_buf *out, const struct line *l)
{
	shfs_buf_str(out, kinds[l->kind].word);
	for (size_t i = 0; i < kinds[l->kind].words; i++) {
		shfs_buf_char(out, ' ');
		put_word(out, l->words[i]);
	}
	shfs_buf_char(out, '\n');
}

/* Decodes a word in place. False: it is damaged. */
static bool decode_word(char *word)
{
	char *to = word;

	for (const char *p = word; *p; p++) {
		unsigned c = (unsigned char)*p;

		if (c == '%') {
			if (sscanf(p + 1, "%2x", &c) != 1 || !p[2] || !c)
				return false;
			p += 2;
		}
		*to++ = (char)c;
	}
	*to = '\0';
	return true;
}

static int parse_line(struct shfs_trees *t, char *text)
{
	const char *words[WORDS + 1];
	char *word = strsep(&text, " ");
	size_t n = 0, kind = 0;

	for (char *w; (w = strsep(&text, " ")); n++) {
		if (n == WORDS || !decode_word(w))
			return -EBADMSG;
		words[n] = w;
	}
	while (kind < ARRAY_SIZE(kinds) && strcmp(kinds[kind].word, word) != 0)
		kind++;
	if (kind == ARRAY_SIZE(kinds) || n != kinds[kind].words)
		return -EBADMSG;
	return add_line(t, kind, words);
}

/* skip: damaged lines are left out. */
static int parse_text(struct shfs_trees *t, char *text, bool skip)
{
	char *line;
	int r = 0;

	while (!r && (line = strsep(&text, "\n"))) {
		if (*line)
			r = parse_line(t, line);
		if (skip && r == -EBADMSG)
			r = 0;
	}
	return r;
}

/* --- this machine --- */

void shfs_tree_identity_clear(struct shfs_tree_identity *id)
{
	free(id->home);
	*id = (struct shfs_tree_identity){ 0 };
}

int shfs_tree_identity_here(struct shfs_tree_identity *out)
{
	_cleanup_buf_ struct shfs_buf id = { 0 };
	const char *home = getenv("HOME");

	*out = (struct shfs_tree_identity){ .machine = UNKNOWN };
	shfs_proc_host(out->host);
	/* the id itself is for this machine alone: what goes into archives is made of it
	 */
	if (!shfs_read_file_at(AT_FDCWD, "/etc/machine-id", 256, &id) && id.len)
		snprintf(out->machine, sizeof(out->machine), "%016" PRIx64,
		         shfs_object_hash64(id.data, id.len));
	out->home = strdup(home && *home == '/' ? home : "");
	return out->home ? 0 : -ENOMEM;
}

/* Is it the same tree? Of an archive by an earlier version only the host is known. */
static bool is_same_identity(const struct shfs_tree_identity *a, const char *machine,
                             const char *host)
{
	return !strcmp(a->host, host) &&
	       (!strcmp(a->machine, machine) || !strcmp(a->machine, UNKNOWN) ||
	        !strcmp(machine, UNKNOWN));
}

/* --- the file --- */

int shfs_trees_init(int store_dirfd)
{
	return shfs_write_file_at(store_dirfd, NAME, 0600, "", 0);
}

/* Of a store of an earlier version: each host but this one is a tree. On a network file
 * system the hosts share the store, and so the home. */
static int take_hosts(struct shfs_store *store, struct shfs_trees *t)
{
	int fd = openat(store->dirfd, "journal", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	int r = 0;

	if (!d) {
		r = errno == ENOENT ? 0 : -errno;
		if (fd >= 0)
			close(fd);
		return r;
	}
	while (!r && (e = shfs_readdir(d, &r))) {
		struct shfs_tree_identity id = { .machine = UNKNOWN, .home = (char *)"" };
		const char *name = NULL;

		if (e->d_name[0] == '.' || strlen(e->d_name) >= sizeof(id.host) ||
		    !strcmp(e->d_name, store->host))
			continue;
		strcpy(id.host, e->d_name);
		r = shfs_trees_add(t, &id, &name);
		if (!r && name)
			r = add_line(t, HOST, (const char *[]){ e->d_name, name });
	}
	closedir(d);
	return r;
}

static int read_trees(struct shfs_store *store, bool skip, struct shfs_trees **out)
{
	_cleanup_trees_ struct shfs_trees *t = calloc(1, sizeof(*t));
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r = t ? shfs_read_file_at(store->dirfd, NAME, BYTES_MAX, &text) : -ENOMEM;

	if (r == -ENOENT)
		r = shfs_store_is_on_network(store->path) ? 0 : take_hosts(store, t);
	else if (!r && text.len)
		r = memchr(text.data, '\0', text.len) && !skip
		            ? -EBADMSG
		            : parse_text(t, text.data, skip);
	if (!r)
		*out = TAKE_PTR(t);
	return r;
}

int shfs_trees_load(struct shfs_store *store, struct shfs_trees **out)
{
	return read_trees(store, false, out);
}

int shfs_trees_mend(struct shfs_store *store)
{
	_cleanup_trees_ struct shfs_trees *t = NULL;
	int r = read_trees(store, true, &t);

	return r ? r : shfs_trees_save(store, t);
}

int shfs_trees_save(struct shfs_store *store, const struct shfs_trees *t)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };

	for (size_t i = 0; i < t->n; i++)
		put_line(&text, &t->lines[i]);
	return text.failed ? -ENOMEM
	                   : shfs_write_file_at(store->dirfd, NAME, 0600, text.data ?: "",
	                                        text.len);
}

/* --- questions --- */

static bool is_word(const char *word, struct shfs_bytes text)
{
	return strlen(word) == text.len && !memcmp(word, text.data, text.len);
}

const char *shfs_trees_of_boot(const struct shfs_trees *t, struct shfs_bytes host,
                               struct shfs_bytes boot)
{
	const char *of_host = NULL;

	for (size_t i = 0; i < t->n; i++) {
		const struct line *l = &t->lines[i];

		if (l->kind != BOOT && l->kind != HOST)
			continue;
		if (!is_word(l->words[0], host))
			continue;
		if (l->kind == HOST)
			of_host = l->words[1];
		else if (is_word(l->words[1], boot))
			return l->words[2];
	}
	return of_host;
}

void shfs_tree_path(struct shfs_buf *out, const char *tree, struct shfs_bytes path)
{
	out->len = 0;
	if (tree && *tree)
		shfs_buf_printf(out, "%s:", tree);
	shfs_buf_add(out, path.data, path.len);
}

const char *shfs_trees_home(const struct shfs_trees *t, const char *name, size_t len)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->lines[i].kind == TREE &&
		    is_word(t->lines[i].words[0], (struct shfs_bytes){ name, len }))
			return t->lines[i].words[3];
	return NULL;
}

const char **shfs_trees_names(const struct shfs_trees *t)
{
	const char **names = calloc(t->n + 1, sizeof(*names));
	size_t n = 0;

	for (size_t i = 0; names && i < t->n; i++)
		if (t->lines[i].kind == TREE &&
		    strcmp(t->lines[i].words[0], SHFS_TREE_HERE) != 0)
			names[n++] = t->lines[i].words[0];
	return names;
}

char *shfs_trees_mapped(const struct shfs_trees *t, const char *path, size_t nth)
{
	errno = 0;
	for (size_t i = 0; i < t->n; i++) {
		const struct line *l = &t->lines[i];
		const char *rest =
			l->kind == MAP ? shfs_path_relative(path, l->words[2]) : NULL;
		char *mapped;

		if (!rest || nth--)
			continue;
		if (asprintf(&mapped, "%s:%s%s%s", l->words[0],
		             strcmp(l->words[1], "/") ? l->words[1] : "",
		             *rest ? "/" : "", rest) >= 0)
			return mapped;
		errno = ENOMEM;
		return NULL;
	}
	return NULL;
}

/* --- changes --- */

/* Makes a name of a host's that no tree has: letters, digits, ".", "_" and "-". */
static void choose_name(const struct shfs_trees *t, const char *host,
                        char out[static SHFS_TREE_NAME_MAX])
{
	size_t len;

	snprintf(out, 66, "%s", host);
	for (char *p = out; *p; p++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
		            "0123456789._-",
		            *p))
			*p = '_';
	len = strlen(out);
	for (unsigned i = 2; shfs_trees_home(t, out, strlen(out)); i++)
		snprintf(out + len, 12, ".%u", i);
}

int shfs_trees_add(struct shfs_trees *t, const struct shfs_tree_identity *id,
                   const char **name)
{
	_cleanup_(shfs_tree_identity_clear) struct shfs_tree_identity here = { 0 };
	char chosen[SHFS_TREE_NAME_MAX];
	int r = shfs_tree_identity_here(&here);

	*name = NULL;
	if (r || is_same_identity(id, here.machine, here.host))
		return r;
	for (size_t i = 0; i < t->n; i++) {
		struct line *l = &t->lines[i];

		if (l->kind != TREE || !is_same_identity(id, l->words[1], l->words[2]))
			continue;
		if (strcmp(l->words[0], SHFS_TREE_HERE) != 0)
			*name = l->words[0];
		return 0;
	}
	choose_name(t, id->host, chosen);
	r = add_line(t, TREE,
	             (const char *[]){ chosen, id->machine, id->host, id->home });
	if (!r)
		*name = t->lines[t->n - 1].words[0];
	return r;
}

int shfs_trees_add_boot(struct shfs_trees *t, const char *host, const char *boot,
                        const char *name)
{
	return add_line(t, BOOT, (const char *[]){ host, boot, name });
}

/* The tree is this one: nothing is listed as of it any more. */
static int take_tree(struct shfs_trees *t, const char *name)
{
	_cleanup_free_ char *was = strdup(name);
	size_t n = 0;

	if (!was)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++) {
		struct line *l = &t->lines[i];
		size_t at = l->kind == BOOT ? 2 : l->kind == HOST ? 1 : 0;
		bool is_of_it = !strcmp(l->words[at], was);

		if (is_of_it && l->kind == TREE) {
			free(l->words[0]);
			l->words[0] = strdup(SHFS_TREE_HERE);
			if (!l->words[0])
				return -ENOMEM;
		} else if (is_of_it) {
			line_clear(l);
			continue;
		}
		t->lines[n++] = *l;
	}
	t->n = n;
	return 0;
}

int shfs_trees_map(struct shfs_trees *t, const char *name, const char *from,
                   const char *to)
{
	const char *words[] = { name, from, to };

	if (!strcmp(name, SHFS_TREE_HERE) || !shfs_trees_home(t, name, strlen(name)))
		return -ENOENT;
	if (!strcmp(from, "/") && !strcmp(to, "/"))
		return take_tree(t, name);
	for (size_t i = 0; i < t->n; i++) {
		struct line *l = &t->lines[i];

		if (l->kind == MAP && !strcmp(l->words[0], name) &&
		    !strcmp(l->words[1], from) && !strcmp(l->words[2], to))
			return 0;
	}
	return add_line(t, MAP, words);
}

/* --- in an archive --- */

int shfs_trees_print(const struct shfs_trees *t,
                     bool (*wanted)(const char *host, const char *boot, void *arg),
                     void *arg, struct shfs_buf *out)
{
	_cleanup_(shfs_tree_identity_clear) struct shfs_tree_identity here = { 0 };
	int r = shfs_tree_identity_here(&here);

	if (r)
		return r;
	put_line(out, &(struct line){ FROM, { here.machine, here.host, here.home } });
	for (size_t i = 0; i < t->n; i++) {
		const struct line *l = &t->lines[i];
		bool is_used = false;

		for (size_t j = 0; j < t->n && !is_used; j++) {
			const struct line *boot = &t->lines[j];

			if (boot->kind == BOOT &&
			    (l == boot ||
			     (l->kind == TREE && !strcmp(l->words[0], boot->words[2]))))
				is_used = wanted(boot->words[0], boot->words[1], arg);
			else if (boot->kind == HOST && l->kind == TREE)
				is_used = !strcmp(l->words[0], boot->words[1]);
		}
		if (is_used || l->kind == HOST)
			put_line(out, l);
	}
	return out->failed ? -ENOMEM : 0;
}

static bool identity_of_words(char *const *words, struct shfs_tree_identity *out)
{
	if (strlen(words[0]) >= sizeof(out->machine) ||
	    strlen(words[1]) >= sizeof(out->host) || !*words[1])
		return false;
	strcpy(out->machine, words[0]);
	strcpy(out->host, words[1]);
	out->home = words[2]; /* of the line */
	return true;
}

int shfs_trees_parse(const char *text, size_t len, struct shfs_trees **out)
{
	_cleanup_free_ char *copy = strndup(text, len);
	_cleanup_trees_ struct shfs_trees *t = calloc(1, sizeof(*t));
	bool has_from = false;
	int r = copy && t ? 0 : -ENOMEM;

	if (!r)
		r = strlen(copy) == len ? parse_text(t, copy, false) : -EBADMSG;
	if (!r && !(t->identities = calloc(t->n + 1, sizeof(*t->identities))))
		r = -ENOMEM;
	for (size_t i = 0; i < t->n && !r; i++) {
		const struct line *l = &t->lines[i];

		has_from |= l->kind == FROM;
		if ((l->kind == FROM || l->kind == TREE) &&
		    !identity_of_words(l->words + (l->kind == TREE), &t->identities[i]))
			r = -EBADMSG;
	}
	if (!r && !has_from)
		r = -EBADMSG;
	if (!r)
		*out = TAKE_PTR(t);
	return r;
}

const struct shfs_tree_identity *shfs_trees_identity(const struct shfs_trees *t,
                                                     struct shfs_bytes host,
                                                     struct shfs_bytes boot)
{
	const char *name = shfs_trees_of_boot(t, host, boot);

	for (size_t i = 0; i < t->n; i++) {
		const struct line *l = &t->lines[i];

		if (name ? l->kind == TREE && !strcmp(l->words[0], name)
		         : l->kind == FROM)
			return &t->identities[i];
	}
	return NULL;
}
