/* SPDX-License-Identifier: MIT */
#include "store/trees.h"

#include "common/io.h"
#include "common/path.h"
#include "common/proc.h"
#include "store/journal/journal.h"
#include "store/objects/object.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define NAME      "trees"
#define BYTES_MAX (64 << 20)
#define WORDS     5
#define UNKNOWN   "-"

enum kind { STORE, TREE, BOOT, HERE, MAP, FROM };

static const struct {
	const char *word;
	size_t words; /* that follow */
} kinds[] = {
	[STORE] = { "store", 1 }, [TREE] = { "tree", 5 }, [BOOT] = { "boot", 3 },
	[HERE] = { "here", 1 },   [MAP] = { "map", 3 },   [FROM] = { "from", 4 },
};

struct line {
	enum kind kind;
	char *words[WORDS];
};

struct shfs_trees {
	struct line *lines;
	size_t n, cap;
	struct shfs_tree_identity *identities; /* of an archive: one for each line */
	bool is_missing;                       /* the store has no such file */
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

/* The first word of the first line of that kind; NULL. */
static const char *first_word(const struct shfs_trees *t, enum kind kind)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->lines[i].kind == kind)
			return t->lines[i].words[0];
	return NULL;
}

int shfs_trees_here(const struct shfs_trees *t, struct shfs_tree_identity *out)
{
	_cleanup_buf_ struct shfs_buf id = { 0 };
	const char *home = getenv("HOME");
	_cleanup_free_ char *real = home && *home == '/' ? realpath(home, NULL) : NULL;

	*out = (struct shfs_tree_identity){ .machine = UNKNOWN };
	snprintf(out->store, sizeof(out->store), "%s", first_word(t, STORE) ?: UNKNOWN);
	shfs_proc_host(out->host);
	/* the machine-id must not leave this machine: archives get a hash of it */
	if (!shfs_read_file_at(AT_FDCWD, "/etc/machine-id", 256, &id) && id.len)
		snprintf(out->machine, sizeof(out->machine), "%016" PRIx64,
		         shfs_object_hash64(id.data, id.len));
	out->home = strdup(real ?: "");
	return out->home ? 0 : -ENOMEM;
}

static bool is_known(const char *id)
{
	return strcmp(id, UNKNOWN) != 0;
}

/* Is it the same tree? Where neither store nor machine are known, the host tells. */
static bool is_same_identity(const struct shfs_tree_identity *a, const char *store,
                             const char *machine, const char *host)
{
	if (is_known(store) && !strcmp(a->store, store))
		return true;
	return !strcmp(a->machine, machine) && !strcmp(a->host, host) &&
	       (is_known(machine) || (!is_known(a->store) && !is_known(store)));
}

/* --- the file --- */

static int add_store_line(struct shfs_trees *t)
{
	uint64_t id;
	char text[17];

	if (getrandom(&id, sizeof(id), 0) != sizeof(id))
		return -EIO;
	snprintf(text, sizeof(text), "%016" PRIx64, id);
	return add_line(t, STORE, (const char *[]){ text });
}

static int write_trees(int store_dirfd, struct shfs_trees *t)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r = first_word(t, STORE) ? 0 : add_store_line(t);

	for (size_t i = 0; i < t->n; i++)
		put_line(&text, &t->lines[i]);
	if (r || text.failed)
		return r ? r : -ENOMEM;
	if (text.len > BYTES_MAX)
		return -EFBIG;
	return shfs_write_file_at(store_dirfd, NAME, 0600, text.data, text.len);
}

int shfs_trees_init(int store_dirfd)
{
	_cleanup_trees_ struct shfs_trees *t = calloc(1, sizeof(*t));

	return t ? write_trees(store_dirfd, t) : -ENOMEM;
}

struct legacy {
	struct shfs_trees *trees;
	const char *here;
};

/* Makes a tree of each other host in the journal of a store of an earlier version. */
static int take_file(const struct shfs_journal_file *file, void *arg)
{
	struct legacy *l = arg;
	struct shfs_tree_identity id = { .store = UNKNOWN,
		                         .machine = UNKNOWN,
		                         .home = (char *)"" };
	const char *dash = strchr(file->name, '-'), *name;
	char digits[SHFS_JOURNAL_BOOT_DIGITS + 1];
	struct shfs_bytes boot = { digits, SHFS_JOURNAL_BOOT_DIGITS },
			  host = { file->host, strlen(file->host) };
	int r;

	if (!dash || strlen(dash + 1) < SHFS_JOURNAL_BOOT_DIGITS ||
	    strlen(file->host) >= sizeof(id.host) || !strcmp(file->host, l->here))
		return 0;
	snprintf(digits, sizeof(digits), "%s", dash + 1);
	if (shfs_trees_of_boot(l->trees, host, boot))
		return 0;
	strcpy(id.host, file->host);
	r = shfs_trees_add(l->trees, &id, &name);
	return r || !name ? r : shfs_trees_add_boot(l->trees, file->host, digits, name);
}

/* Makes the trees of a store that has no such file. Hosts that share a store on a network
 * file system share the home too: their records are of one tree. */
static int take_legacy(struct shfs_store *store, struct shfs_trees *t)
{
	struct legacy l = { t, store->host };

	t->is_missing = true;
	return shfs_store_is_on_network(store->path)
	               ? 0
	               : shfs_journal_walk(store, SHFS_JOURNAL_ALL, take_file, &l);
}

static int read_trees(struct shfs_store *store, bool skip, struct shfs_trees **out)
{
	_cleanup_trees_ struct shfs_trees *t = calloc(1, sizeof(*t));
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r = t ? shfs_read_file_at(store->dirfd, NAME, BYTES_MAX, &text) : -ENOMEM;

	if (r == -ENOENT)
		r = take_legacy(store, t);
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

int shfs_trees_save(struct shfs_store *store, struct shfs_trees *t)
{
	int r = write_trees(store->dirfd, t);

	t->is_missing &= r != 0;
	return r;
}

int shfs_trees_settle(struct shfs_store *store, struct shfs_trees *t)
{
	return t->is_missing ? shfs_trees_save(store, t) : 0;
}

/* --- questions --- */

static bool is_word(const char *word, struct shfs_bytes text)
{
	return strlen(word) == text.len && !memcmp(word, text.data, text.len);
}

/* Is it that boot, by its id or by its first digits? */
static bool is_boot(const char *word, struct shfs_bytes boot)
{
	size_t len = strlen(word);

	if (len == SHFS_JOURNAL_BOOT_DIGITS)
		boot.len = MIN(boot.len, len);
	return is_word(word, boot);
}

/* Has this machine taken the place of the tree's? */
static bool is_taken(const struct shfs_trees *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->lines[i].kind == HERE && !strcmp(t->lines[i].words[0], name))
			return true;
	return false;
}

const char *shfs_trees_of_boot(const struct shfs_trees *t, struct shfs_bytes host,
                               struct shfs_bytes boot)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct line *l = &t->lines[i];

		if (l->kind == BOOT && is_word(l->words[0], host) &&
		    is_boot(l->words[1], boot))
			return is_taken(t, l->words[2]) ? NULL : l->words[2];
	}
	return NULL;
}

const char *shfs_trees_of_file(const struct shfs_trees *t, const char *host,
                               const char *name)
{
	const char *dash = strchr(name, '-');

	for (size_t i = 0; dash && i < t->n; i++) {
		const struct line *l = &t->lines[i];

		if (l->kind == BOOT && !strcmp(l->words[0], host) &&
		    !strncmp(l->words[1], dash + 1, SHFS_JOURNAL_BOOT_DIGITS))
			return is_taken(t, l->words[2]) ? NULL : l->words[2];
	}
	return NULL;
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
			return t->lines[i].words[4];
	return NULL;
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
	if (*out == '.' || *out == '-')
		*out = '_';
	len = strlen(out);
	for (unsigned i = 2; shfs_trees_home(t, out, strlen(out)); i++)
		snprintf(out + len, 12, ".%u", i);
}

static int set_word(struct line *l, size_t i, const char *word)
{
	char *copy = strdup(word);

	if (!copy)
		return -ENOMEM;
	free(l->words[i]);
	l->words[i] = copy;
	return 0;
}

/* The line of the tree with that identity; or one of which only the host was known, which
 * gets it. */
static int find_tree(struct shfs_trees *t, const struct shfs_tree_identity *id,
                     struct line **out)
{
	struct line *of_host = NULL;
	int r;

	*out = NULL;
	for (size_t i = 0; i < t->n && !*out; i++) {
		struct line *l = &t->lines[i];

		if (l->kind != TREE)
			continue;
		if (is_same_identity(id, l->words[1], l->words[2], l->words[3]))
			*out = l;
		else if (!is_known(l->words[1]) && !is_known(l->words[2]) &&
		         !strcmp(l->words[3], id->host) && !of_host)
			of_host = l;
	}
	if (*out || !of_host)
		return 0;
	*out = of_host;
	r = set_word(of_host, 1, id->store);
	r = r ? r : set_word(of_host, 2, id->machine);
	return r ? r : set_word(of_host, 4, id->home);
}

int shfs_trees_add(struct shfs_trees *t, const struct shfs_tree_identity *id,
                   const char **name)
{
	_cleanup_(shfs_tree_identity_clear) struct shfs_tree_identity here = { 0 };
	char chosen[SHFS_TREE_NAME_MAX];
	struct line *l;
	int r = shfs_trees_here(t, &here);

	*name = NULL;
	if (r || (is_known(id->store) && !strcmp(id->store, here.store)) ||
	    (is_known(id->machine) && !strcmp(id->machine, here.machine) &&
	     !strcmp(id->host, here.host)))
		return r;
	r = find_tree(t, id, &l);
	if (!r && !l) {
		choose_name(t, id->host, chosen);
		r = add_line(t, TREE,
		             (const char *[]){ chosen, id->store, id->machine, id->host,
		                               id->home });
		l = r ? NULL : &t->lines[t->n - 1];
	}
	if (!r && !is_taken(t, l->words[0]))
		*name = l->words[0];
	return r;
}

int shfs_trees_add_boot(struct shfs_trees *t, const char *host, const char *boot,
                        const char *name)
{
	return add_line(t, BOOT, (const char *[]){ host, boot, name });
}

/* The line of a map, or of a tree whose place was taken; NULL. */
static struct line *find_map(struct shfs_trees *t, enum kind kind,
                             const char *const *words)
{
	for (size_t i = 0; i < t->n; i++) {
		struct line *l = &t->lines[i];
		bool is_same = l->kind == kind;

		for (size_t k = 0; k < kinds[kind].words && is_same; k++)
			is_same = !strcmp(l->words[k], words[k]);
		if (is_same)
			return l;
	}
	return NULL;
}

static enum kind kind_of_map(const char *from, const char *to)
{
	return strcmp(from, "/") || strcmp(to, "/") ? MAP : HERE;
}

int shfs_trees_map(struct shfs_trees *t, const char *name, const char *from,
                   const char *to)
{
	const char *words[] = { name, from, to };
	enum kind kind = kind_of_map(from, to);

	if (!shfs_trees_home(t, name, strlen(name)))
		return -ENOENT;
	return find_map(t, kind, words) ? 0 : add_line(t, kind, words);
}

int shfs_trees_unmap(struct shfs_trees *t, const char *name, const char *from,
                     const char *to)
{
	struct line *l =
		find_map(t, kind_of_map(from, to), (const char *[]){ name, from, to });

	if (!l)
		return -ENOENT;
	line_clear(l);
	*l = t->lines[--t->n];
	return 0;
}

/* --- in an archive --- */

int shfs_trees_print(const struct shfs_trees *t,
                     bool (*wanted)(const char *host, const char *boot, void *arg),
                     void *arg, struct shfs_buf *out)
{
	_cleanup_(shfs_tree_identity_clear) struct shfs_tree_identity here = { 0 };
	int r = shfs_trees_here(t, &here);

	if (r)
		return r;
	put_line(out, &(struct line){
			      FROM, { here.store, here.machine, here.host, here.home } });
	for (size_t i = 0; i < t->n; i++) {
		const struct line *l = &t->lines[i];
		bool is_used = false;

		for (size_t j = 0; j < t->n && !is_used; j++) {
			const struct line *boot = &t->lines[j];

			is_used = boot->kind == BOOT && !is_taken(t, boot->words[2]) &&
			          (l == boot || (l->kind == TREE &&
			                         !strcmp(l->words[0], boot->words[2]))) &&
			          wanted(boot->words[0], boot->words[1], arg);
		}
		if (is_used)
			put_line(out, l);
	}
	return out->failed ? -ENOMEM : 0;
}

/* 16 hex digits, or "-". */
static bool is_id(const char *word)
{
	return !is_known(word) ||
	       (strlen(word) == 16 && strspn(word, "0123456789abcdef") == 16);
}

static bool identity_of_words(char *const *words, struct shfs_tree_identity *out)
{
	if (!is_id(words[0]) || !is_id(words[1]) || !shfs_journal_is_host(words[2]) ||
	    (*words[3] && *words[3] != '/'))
		return false;
	strcpy(out->store, words[0]);
	strcpy(out->machine, words[1]);
	strcpy(out->host, words[2]);
	out->home = words[3]; /* of the line */
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
