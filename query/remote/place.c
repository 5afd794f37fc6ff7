/* SPDX-License-Identifier: MIT */
#include "query/remote/place.h"

#include "common/io.h"
#include "query/remote/backend.h"
#include "store/index-dir.h"
#include "store/objects/inventory.h"
#include "store/objects/object.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLACES   "remote"
#define REWRITES "rewrites"
#define WAIT_MS  5000 /* a host that fetched contents from here leaves after less */

#define ENCRYPTED   "encrypted" /* below remote/NAME */
#define KEY_FILE    "key-file "
#define KEY_COMMAND "key-command "
#define SERVED      "served@" /* no name of a remote has an "@" */
#define FROM        "from@"
#define FILE_MAX    (1u << 30)

bool place_name_is_valid(const char *name)
{
	return *name && *name != '.' && *name != '-' && strlen(name) <= PLACE_NAME_MAX &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	                    "0123456789-_.") == strlen(name);
}

static int open_places(const struct shfs_store *store)
{
	int fd = openat(store->dirfd, PLACES,
	                O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int open_place_directory(int places, const char *name)
{
	int fd = openat(places, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* --- which there are --- */

void place_encryption_clear(struct place_encryption *encryption)
{
	free(encryption->label);
	free(encryption->key_file);
	free(encryption->key_command);
	*encryption = (struct place_encryption){ 0 };
}

/* A remote that was encrypted is never taken for one that is not: the url comes last. */
int place_note(int dirfd, const char *url, const struct place_encryption *encryption)
{
	_cleanup_buf_ struct shfs_buf line = { 0 }, text = { 0 };
	int r = 0;

	shfs_buf_printf(&line, "%s\n", url);
	if (encryption->label)
		shfs_buf_str(&text, encryption->label);
	if (encryption->key_file)
		shfs_buf_printf(&text, KEY_FILE "%s\n", encryption->key_file);
	if (encryption->key_command)
		shfs_buf_printf(&text, KEY_COMMAND "%s\n", encryption->key_command);
	if (line.failed || text.failed)
		return -ENOMEM;
	if (encryption->label)
		r = shfs_write_file_at(dirfd, ENCRYPTED, 0600, text.data, text.len);
	else if (unlinkat(dirfd, ENCRYPTED, 0) && errno != ENOENT)
		r = -errno;
	return r ? r : shfs_write_file_at(dirfd, "url", 0600, line.data, line.len);
}

int place_new(struct shfs_store *store, const char *name, const char *url,
              const struct place_encryption *encryption)
{
	_cleanup_close_ int places = -1, fd = -1;
	int r = shfs_mkdir_p_at(store->dirfd, PLACES, 0700);

	if (!r)
		r = places = open_places(store);
	if (r < 0)
		return r;
	if (mkdirat(places, name, 0700) && errno != EEXIST)
		return -errno;
	r = fd = open_place_directory(places, name);
	if (r < 0)
		return r;
	if (!faccessat(fd, "url", F_OK, 0))
		return -EEXIST;
	r = place_note(fd, url, encryption);
	return !r && (fsync(places) || fsync(store->dirfd)) ? -errno : r;
}

struct names {
	char **list;
	size_t n, cap;
};

static void names_free(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->list[i]);
	free(names->list);
}

static int add_any_name(void *arg, const char *name)
{
	struct names *names = arg;

	if (!MAKE_ROOM(names->list, names->n, names->cap) ||
	    !(names->list[names->n] = strdup(name)))
		return -ENOMEM;
	names->n++;
	return 0;
}

static int add_name(void *arg, const char *name)
{
	return place_name_is_valid(name) ? add_any_name(arg, name) : 0;
}

static int add_source_name(void *arg, const char *name)
{
	bool is_source = place_name_is_valid(name) || !strncmp(name, FROM, strlen(FROM));

	return is_source ? add_any_name(arg, name) : 0;
}

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int each_name(struct shfs_store *store, int (*filter)(void *arg, const char *name),
                     int (*fn)(void *arg, const char *name), void *arg)
{
	_cleanup_(names_free) struct names names = { 0 };
	_cleanup_close_ int places = open_places(store);
	int r;

	if (places < 0)
		return places == -ENOENT ? 0 : places;
	r = inventory_names(places, NULL, filter, &names);
	if (names.n)
		qsort(names.list, names.n, sizeof(*names.list), compare_strings);
	for (size_t i = 0; i < names.n && !r; i++) {
		_cleanup_close_ int fd = open_place_directory(places, names.list[i]);

		if (fd >= 0 && !faccessat(fd, "url", F_OK, 0))
			r = fn(arg, names.list[i]);
	}
	return r;
}

int place_each(struct shfs_store *store, int (*fn)(void *arg, const char *name),
               void *arg)
{
	return each_name(store, add_name, fn, arg);
}

static int note_only(void *arg, const char *name)
{
	char *only = arg;

	if (*only)
		return -ENOTUNIQ;
	snprintf(only, PLACE_NAME_MAX + 1, "%s", name);
	return 0;
}

/* Splits the lines: those behind the label say where the key is. */
static int parse_encryption(const char *text, struct place_encryption *out)
{
	const char *file = strstr(text, "\n" KEY_FILE);
	const char *command = strstr(text, "\n" KEY_COMMAND);
	const char *end = file ?: command;

	if (strncmp(text, REMOTE_ENCRYPTED, strlen(REMOTE_ENCRYPTED)) != 0 ||
	    text[strlen(text) - 1] != '\n')
		return -EBADMSG;
	out->label = strndup(text, end ? (size_t)(end + 1 - text) : strlen(text));
	if (file)
		out->key_file = strndup(file + 1 + strlen(KEY_FILE),
		                        strcspn(file + 1, "\n") - strlen(KEY_FILE));
	if (command)
		out->key_command =
			strndup(command + 1 + strlen(KEY_COMMAND),
		                strcspn(command + 1, "\n") - strlen(KEY_COMMAND));
	return !out->label || (file && !out->key_file) || (command && !out->key_command)
	               ? -ENOMEM
	               : 0;
}

static int read_encryption(int dirfd, struct place_encryption *out)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r = shfs_read_file_at(dirfd, ENCRYPTED, 1 << 17, &text);

	if (r)
		return r == -ENOENT ? 0 : r;
	return parse_encryption(text.data ?: "", out);
}

static int open_place(struct shfs_store *store, const char *name, struct place *out)
{
	_cleanup_place_ struct place place = { .store = store, .dirfd = -1 };
	_cleanup_close_ int places = open_places(store);
	_cleanup_buf_ struct shfs_buf url = { 0 };
	int r = MIN(places, 0);

	if (!r)
		r = MIN(place.dirfd = open_place_directory(places, name), 0);
	if (!r)
		r = shfs_read_file_at(place.dirfd, "url", 1 << 16, &url);
	if (r)
		return r == -ENOTDIR ? -ENOENT : r;
	if (!url.len || url.data[url.len - 1] != '\n' || memchr(url.data, 0, url.len))
		return -EBADMSG;
	url.data[url.len - 1] = '\0';
	r = read_encryption(place.dirfd, &place.encryption);
	if (r)
		return r;
	place.name = strdup(name);
	place.url = shfs_buf_take(&url);
	if (!place.name || !place.url)
		return -ENOMEM;
	*out = place;
	place = (struct place){ .dirfd = -1 };
	return 0;
}

int place_open(struct shfs_store *store, const char *name, struct place *out)
{
	char only[PLACE_NAME_MAX + 1] = "";
	int r = name ? 0 : place_each(store, note_only, only);

	if (r)
		return r;
	name = name ?: only;
	return place_name_is_valid(name) ? open_place(store, name, out) : -ENOENT;
}

int place_open_unnamed(struct shfs_store *store, const char *url, struct place *out)
{
	char name[40] = SERVED;
	int r;

	if (url)
		snprintf(name, sizeof(name), FROM "%016" PRIx64,
		         shfs_object_hash64(url, strlen(url)));
	r = place_new(store, name, url ?: "-", &(struct place_encryption){ 0 });
	return r && r != -EEXIST ? r : open_place(store, name, out);
}

struct sources {
	struct shfs_store *store;
	int (*fn)(void *arg, const struct place *place);
	void (*damaged)(void *arg, const char *name, int error);
	void *arg;
};

static int open_source(void *arg, const char *name)
{
	const struct sources *sources = arg;
	_cleanup_place_ struct place place = { .dirfd = -1 };
	int r = open_place(sources->store, name, &place);

	if (!r)
		return sources->fn(sources->arg, &place);
	if (!sources->damaged)
		return r;
	sources->damaged(sources->arg, name, r);
	return 0;
}

int place_each_source(struct shfs_store *store,
                      int (*fn)(void *arg, const struct place *place),
                      void (*damaged)(void *arg, const char *name, int error), void *arg)
{
	struct sources sources = { store, fn, damaged, arg };

	return each_name(store, add_source_name, open_source, &sources);
}

void place_close(struct place *place)
{
	shfs_closep(&place->dirfd);
	place->dirfd = -1;
	free(TAKE_PTR(place->name));
	free(TAKE_PTR(place->url));
	place_encryption_clear(&place->encryption);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path) && errno != ENOENT ? -1 : 0;
}

/* Removes a name below dirfd, with all that is below it. */
static int remove_below(int dirfd, const char *name)
{
	_cleanup_free_ char *path = NULL;

	if (!unlinkat(dirfd, name, 0) || errno == ENOENT)
		return 0;
	if (asprintf(&path, "/proc/self/fd/%d/%s", dirfd, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	return nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS) && errno != ENOENT ? -errno
	                                                                          : 0;
}

int place_remove(struct shfs_store *store, const char *name)
{
	_cleanup_close_ int places = open_places(store);
	_cleanup_close_ int fd = -1;

	if (!place_name_is_valid(name))
		return -ENOENT;
	if (places < 0)
		return places;
	fd = open_place_directory(places, name);
	if (fd < 0)
		return fd;
	if (unlinkat(fd, "url", 0) &&
	    errno != ENOENT) /* first: then it is none any more */
		return -errno;
	return remove_below(places, name) ?: fsync(places) ? -errno : 0;
}

static int remove_incoming(void *arg, const struct place *place)
{
	return place_remove_file(place, "incoming");
}

int place_remove_incoming(struct shfs_store *store)
{
	_cleanup_close_ int places = open_places(store);
	_cleanup_close_ int lock = -1;

	if (places < 0)
		return places == -ENOENT ? 0 : places;
	lock = place_lock(store);
	return lock < 0 ? lock : place_each_source(store, remove_incoming, NULL, NULL);
}

int place_lock(const struct shfs_store *store)
{
	int fd = shfs_store_lock(store->path, "remote", WAIT_MS);

	return fd == -EADDRINUSE ? -EBUSY : fd;
}

/* --- how often records were changed --- */

int place_rewrites(struct shfs_store *store, uint64_t least, uint64_t *out)
{
	_cleanup_close_ int places = open_places(store);
	_cleanup_buf_ struct shfs_buf text = { 0 };
	uint64_t n = 0, known = 0, now;
	int r = places < 0 ? places : index_dir_announced(store, &now);

	if (!r)
		r = shfs_read_file_at(places, REWRITES, 100, &text);
	if (r && r != -ENOENT)
		return r;
	if (!r && sscanf(text.data ?: "", "%" SCNu64 " %" SCNx64, &n, &known) == 2 &&
	    known == now && n >= least) {
		*out = n;
		return 0;
	}
	n = MAX(n + 1, least);
	text.len = 0;
	shfs_buf_printf(&text, "%" PRIu64 " %016" PRIx64 "\n", n, now);
	r = text.failed ? -ENOMEM
	                : shfs_write_file_at(places, REWRITES, 0600, text.data, text.len);
	if (!r)
		*out = n;
	return r;
}

/* --- manifests --- */

int place_read(const struct place *place, const char *file, struct manifest *out)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r = shfs_read_file_at(place->dirfd, file, FILE_MAX, &text);

	return r ? r : manifest_parse(text.data ?: "", text.len, out);
}

int place_write(const struct place *place, const char *file, const struct manifest *m)
{
	const char *slash = strchr(file, '/');
	_cleanup_free_ char *dir = slash ? strndup(file, (size_t)(slash - file)) : NULL;
	_cleanup_close_ int fd = -1;
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r = 0;

	manifest_print(m, &text);
	if (text.failed)
		return -ENOMEM;
	if (slash && !dir)
		return -ENOMEM;
	if (slash)
		r = shfs_mkdir_p_at(place->dirfd, dir, 0700);
	if (slash && !r)
		r = MIN(fd = open_place_directory(place->dirfd, dir), 0);
	return r ? r
	         : shfs_write_file_at(slash ? fd : place->dirfd, slash ? slash + 1 : file,
	                              0600, text.data, text.len);
}

struct pulled {
	const struct place *place;
	int (*fn)(void *arg, const struct manifest *m);
	void *arg;
};

static int read_pulled(void *arg, const char *store_id)
{
	const struct pulled *p = arg;
	_cleanup_manifest_ struct manifest m = { 0 };
	char file[STORE_ID_SIZE + 8];
	int r;

	if (!store_id_is_valid(store_id))
		return 0;
	snprintf(file, sizeof(file), "pulled/%s", store_id);
	r = place_read(p->place, file, &m);
	if (r)
		return r == -EBADMSG || r == -EPROTONOSUPPORT || r == -ENOENT ? 0 : r;
	return p->fn(p->arg, &m);
}

int place_each_pulled(const struct place *place,
                      int (*fn)(void *arg, const struct manifest *m), void *arg)
{
	struct pulled p = { place, fn, arg };
	_cleanup_close_ int fd = open_place_directory(place->dirfd, "pulled");

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	return inventory_names(fd, NULL, read_pulled, &p);
}

/* --- lines --- */

int place_read_lines(const struct place *place, const char *file, struct shfs_buf *out)
{
	int r = shfs_read_file_at(place->dirfd, file, FILE_MAX, out);

	return r == -ENOENT ? 0 : r;
}

int place_add_line(const struct place *place, const char *file, const char *line)
{
	_cleanup_close_ int fd =
		openat(place->dirfd, file,
	               O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	_cleanup_buf_ struct shfs_buf text = { 0 };
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	shfs_buf_printf(&text, "%s\n", line);
	r = text.failed ? -ENOMEM : shfs_write_all(fd, text.data, text.len);
	if (!r && fdatasync(fd))
		r = -errno;
	if (!r && !st.st_size && fsync(place->dirfd))
		r = -errno;
	return r;
}

int place_remove_file(const struct place *place, const char *file)
{
	int r = remove_below(place->dirfd, file);

	return r ? r : fsync(place->dirfd) ? -errno : 0;
}
