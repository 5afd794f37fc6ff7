/* SPDX-License-Identifier: MIT */
#include "recording/package.h"

#include "common/clock.h"
#include "common/io.h"
#include "common/path.h"
#include "store/store.h"

#include <ctype.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILE_MAX_BYTES (64u << 20)
#define NAME_MAX_BYTES 256
#define KEPT_MAX_BYTES (256u << 10)
/* A file that was changed so recently may be changed again within a tick of its clock. */
#define SETTLED_NS (2 * SHFS_NSEC_PER_SEC)

int shfs_reach_open(const struct shfs_reach *reach, const char *path, int flags)
{
	const char *below =
		reach->root_fd >= 0 ? shfs_path_relative(path, reach->root) : NULL;
	struct open_how how = { .flags = (uint64_t)(flags | O_CLOEXEC),
		                .resolve = RESOLVE_BENEATH };
	long fd = below ? syscall(SYS_openat2, reach->root_fd, *below ? below : ".", &how,
	                          sizeof(how))
	                : open(path, flags | O_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

void shfs_package_clear(struct shfs_package *package)
{
	free(package->path);
	free(package->name);
	free(package->version);
	*package = (struct shfs_package){ 0 };
}

/* Notes the package; a name or version that cannot be one is not believed. */
static void note_package(struct shfs_package *p, const char *manager, const char *name,
                         size_t name_len, const char *version, size_t version_len)
{
	if (!name_len || name_len > NAME_MAX_BYTES || !version_len ||
	    version_len > NAME_MAX_BYTES || memchr(name, '\n', name_len))
		return;
	p->name = strndup(name, name_len);
	p->version = strndup(version, version_len);
	if (p->name && p->version)
		p->manager = manager;
}

/* Reads a whole file, with a newline in front: lines are found by "\nBEGIN". */
static bool read_lines(const struct shfs_reach *reach, const char *path,
                       struct shfs_buf *out)
{
	_cleanup_close_ int fd =
		shfs_reach_open(reach, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);

	out->len = 0;
	shfs_buf_char(out, '\n');
	return fd >= 0 && !shfs_read_fd(fd, FILE_MAX_BYTES, out) && !out->failed;
}

static const char *find_text(const struct shfs_buf *in, const char *text)
{
	return memmem(in->data, in->len, text, strlen(text));
}

/* Finds the value of a header "Name: VALUE" in the lines of [at, end). */
static struct shfs_bytes find_header(const char *at, const char *end, const char *name)
{
	const char *found = memmem(at, (size_t)(end - at), name, strlen(name));
	const char *value = found ? found + strlen(name) : end;
	const char *newline = memchr(value, '\n', (size_t)(end - value));

	return (struct shfs_bytes){ value, (size_t)((newline ? newline : end) - value) };
}

/* Calls fn for each entry of a directory whose name ends so, until it returns true. */
typedef bool (*entry_fn)(const struct shfs_reach *reach, const char *path, void *arg);
static bool each_entry(const struct shfs_reach *reach, const char *path,
                       const char *begin, const char *end, entry_fn fn, void *arg)
{
	int fd = shfs_reach_open(reach, path, O_RDONLY | O_DIRECTORY), r;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	bool found = false;

	if (!dir) {
		shfs_closep(&fd);
		return false;
	}
	while (!found && (entry = shfs_readdir(dir, &r))) {
		_cleanup_free_ char *name = NULL;

		if (strncmp(entry->d_name, begin, strlen(begin)) != 0 ||
		    !shfs_ends_with(entry->d_name, end))
			continue;
		name = shfs_path_join(path, entry->d_name);
		found = name && fn(reach, name, arg);
	}
	closedir(dir);
	return found;
}

/* --- conda: PREFIX/conda-meta/NAME-VERSION-BUILD.json lists the files below PREFIX ---
 */

struct conda {
	struct shfs_package *package;
	struct shfs_buf needle, text;
};

static bool is_in_conda_package(const struct shfs_reach *reach, const char *path,
                                void *arg)
{
	struct conda *c = arg;
	const char *name = strrchr(path, '/') + 1, *end, *version;

	if (!read_lines(reach, path, &c->text) || !find_text(&c->text, c->needle.data))
		return false;
	end = memrchr(name, '-', strlen(name));
	version = end ? memrchr(name, '-', (size_t)(end - name)) : NULL;
	if (version)
		note_package(c->package, "conda", name, (size_t)(version - name),
		             version + 1, (size_t)(end - version - 1));
	return true;
}

static void find_in_conda(const struct shfs_reach *reach, struct shfs_package *p)
{
	struct conda c = { .package = p };

	for (const char *slash = memrchr(p->path, '/', strlen(p->path));
	     slash && slash > p->path;
	     slash = memrchr(p->path, '/', (size_t)(slash - p->path))) {
		_cleanup_buf_ struct shfs_buf meta = { 0 };
		_cleanup_close_ int fd = -1;

		shfs_buf_add(&meta, p->path, (size_t)(slash - p->path));
		shfs_buf_str(&meta, "/conda-meta");
		fd = meta.failed
		             ? -1
		             : shfs_reach_open(reach, meta.data, O_PATH | O_DIRECTORY);
		if (fd < 0)
			continue;
		shfs_buf_printf(&c.needle, "\"%s\"", slash + 1);
		if (!c.needle.failed)
			each_entry(reach, meta.data, "", ".json", is_in_conda_package,
			           &c);
		break;
	}
	shfs_buf_free(&c.needle);
	shfs_buf_free(&c.text);
}

/* --- Python: PREFIX/lib/pythonN/site-packages/NAME.dist-info/RECORD lists the files ---
 */

struct python {
	struct shfs_package *package;
	const char *manager;
	struct shfs_buf needle, text;
};

static bool is_in_distribution(const struct shfs_reach *reach, const char *path,
                               void *arg)
{
	struct python *py = arg;
	_cleanup_free_ char *record = shfs_path_join(path, "RECORD");
	_cleanup_free_ char *metadata = shfs_path_join(path, "METADATA");
	struct shfs_bytes name, version;
	const char *end;

	if (!record || !metadata || !read_lines(reach, record, &py->text) ||
	    !find_text(&py->text, py->needle.data) ||
	    !read_lines(reach, metadata, &py->text))
		return false;
	end = find_text(&py->text, "\n\n") ?: py->text.data + py->text.len;
	name = find_header(py->text.data, end, "\nName: ");
	version = find_header(py->text.data, end, "\nVersion: ");
	note_package(py->package, py->manager, name.data, name.len, version.data,
	             version.len);
	return true;
}

static bool look_in_site(const struct shfs_reach *reach, const char *path, void *arg)
{
	static const char *const sites[] = { "site-packages", "dist-packages" };
	bool found = false;

	for (size_t i = 0; i < ARRAY_SIZE(sites) && !found; i++) {
		_cleanup_free_ char *site = shfs_path_join(path, sites[i]);

		found = site && each_entry(reach, site, "", ".dist-info",
		                           is_in_distribution, arg);
	}
	return found;
}

/* The file is PREFIX/bin/NAME; a virtual environment has PREFIX/pyvenv.cfg. */
static void find_in_python(const struct shfs_reach *reach, struct shfs_package *p)
{
	const char *name = strrchr(p->path, '/');
	struct python py = { .package = p, .manager = "pip" };
	_cleanup_free_ char *prefix = NULL, *lib = NULL, *mark = NULL;
	_cleanup_close_ int fd = -1;
	size_t len = (size_t)(name - p->path);

	if (len <= 4 || memcmp(name - 4, "/bin", 4) != 0)
		return;
	prefix = strndup(p->path, len - 4);
	lib = prefix ? shfs_path_join(prefix, "lib") : NULL;
	mark = prefix ? shfs_path_join(prefix, "pyvenv.cfg") : NULL;
	shfs_buf_printf(&py.needle, "\n../../../bin%s,", name);
	if (lib && mark && !py.needle.failed && strcmp(prefix, "/usr") != 0) {
		fd = shfs_reach_open(reach, mark, O_PATH);
		py.manager = fd >= 0 ? "venv" : "pip";
		each_entry(reach, lib, "python", "", look_in_site, &py);
	}
	shfs_buf_free(&py.needle);
	shfs_buf_free(&py.text);
}

/* --- npm: the innermost node_modules/NAME, or node_modules/@SCOPE/NAME --- */

/* Returns the string behind `"` at *at, and moves *at behind it. */
static struct shfs_bytes json_string(const char **at, const char *end)
{
	const char *begin = ++*at;

	while (*at < end && **at != '"')
		*at += 1 + (**at == '\\' && *at + 1 < end);
	*at = MIN(*at, end);
	return (struct shfs_bytes){ begin, (size_t)((*at)++ - begin) };
}

/* Finds the value of a member of the outermost object, if it is a string. Strings with
 * escapes come as they are. */
static struct shfs_bytes json_member(const struct shfs_buf *text, const char *name)
{
	const char *at = text->data, *end = at + text->len;
	struct shfs_bytes last = { NULL, 0 };
	bool is_value = false;
	int depth = 0;

	while (at < end) {
		if (*at == '"') {
			struct shfs_bytes string = json_string(&at, end);

			if (is_value && last.len == strlen(name) &&
			    !memcmp(last.data, name, last.len))
				return string;
			last = depth == 1 && !is_value ? string
			                               : (struct shfs_bytes){ NULL, 0 };
			continue;
		}
		depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
		is_value = depth == 1 && (*at == ':' || (is_value && *at != ','));
		at++;
	}
	return (struct shfs_bytes){ NULL, 0 };
}

static void find_in_npm(const struct shfs_reach *reach, struct shfs_package *p)
{
	static const char modules[] = "/node_modules/";
	const char *found = NULL, *end;
	_cleanup_buf_ struct shfs_buf path = { 0 }, text = { 0 };
	struct shfs_bytes name, version;

	for (const char *at = p->path; (at = strstr(at, modules)); at++)
		found = at + strlen(modules);
	if (!found)
		return;
	end = strchrnul(found, '/');
	if (*found == '@' && *end)
		end = strchrnul(end + 1, '/');
	shfs_buf_add(&path, p->path, (size_t)(end - p->path));
	shfs_buf_str(&path, "/package.json");
	if (path.failed || !read_lines(reach, path.data, &text))
		return;
	name = json_member(&text, "name");
	version = json_member(&text, "version");
	note_package(p, "npm", name.data, name.len, version.data, version.len);
}

/* --- R: LIB/NAME/libs/FILE and LIB/NAME/R/FILE, with LIB/NAME/DESCRIPTION --- */

/* Are these bytes of a name or a version, as R has them? */
static bool is_r_word(struct shfs_bytes word)
{
	for (size_t i = 0; i < word.len; i++)
		if (!isalnum((unsigned char)word.data[i]) && !strchr(".-", word.data[i]))
			return false;
	return word.len;
}

static void find_in_r(const struct shfs_reach *reach, struct shfs_package *p)
{
	const char *file = strrchr(p->path, '/'), *dir, *base;
	_cleanup_buf_ struct shfs_buf path = { 0 }, text = { 0 };
	struct shfs_bytes name, version;
	const char *end;

	dir = file > p->path ? memrchr(p->path, '/', (size_t)(file - p->path)) : NULL;
	base = dir && dir > p->path ? memrchr(p->path, '/', (size_t)(dir - p->path))
	                            : NULL;
	if (!base || (strncmp(dir, "/libs/", 6) != 0 && strncmp(dir, "/R/", 3) != 0))
		return;
	shfs_buf_add(&path, p->path, (size_t)(dir - p->path));
	shfs_buf_str(&path, "/DESCRIPTION");
	if (path.failed || !read_lines(reach, path.data, &text))
		return;
	end = text.data + text.len;
	name = find_header(text.data, end, "\nPackage: ");
	version = find_header(text.data, end, "\nVersion: ");
	if (is_r_word(name) && is_r_word(version) &&
	    name.len == (size_t)(dir - base - 1) &&
	    !memcmp(name.data, base + 1, name.len))
		note_package(p, "R", name.data, name.len, version.data, version.len);
}

/* --- dpkg: info/NAME.list and info/NAME:ARCH.list, status, diversions --- */

/* A file that dpkg may have, under up to two names: /usr/bin/x was installed as /bin/x by
 * packages from before /bin became a link to /usr/bin. */
struct owned {
	struct shfs_package *package; /* NULL: of conda, say */
	struct shfs_buf needles[2];   /* its lines */
	char *diverter; /* the package with a diversion for the file, or NULL */
	bool was_moved; /* it is the file that the diversion has moved away */
	char *owner;    /* NAME or NAME:ARCH */
};

struct dpkg {
	const char *dir;
	struct owned *list;
	size_t n;
	struct shfs_buf text;
	struct shfs_buf state; /* a line: dpkg's files as they were */
	struct shfs_buf kept;  /* what they said then */
};

/* May dpkg have the file? Programs that were just built are not looked for. */
static bool may_be_installed(const char *path)
{
	static const char *const places[] = { "/usr/", "/bin/", "/sbin/",
		                              "/lib",  "/opt/", "/etc/" };

	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (!strncmp(path, places[i], strlen(places[i])))
			return strncmp(path, "/usr/local/", strlen("/usr/local/")) != 0;
	return false;
}

static void add_needles(struct owned *o, const char *path)
{
	static const char *const merged[] = { "/usr/bin/", "/usr/sbin/", "/usr/lib" };

	shfs_buf_printf(&o->needles[0], "\n%s\n", path);
	for (size_t i = 0; i < ARRAY_SIZE(merged); i++)
		if (!strncmp(path, merged[i], strlen(merged[i])))
			shfs_buf_printf(&o->needles[1], "\n%s\n", path + strlen("/usr"));
}

static bool is_line(const struct owned *o, const char *line, size_t len)
{
	for (int i = 0; i < 2; i++)
		if (o->needles[i].len == len + 2 &&
		    !memcmp(o->needles[i].data + 1, line, len))
			return true;
	return false;
}

/* Notes a diversion: the file of the other packages was moved to `to`. */
static void note_diversion(struct dpkg *d, const char *from, size_t from_len,
                           const char *to, size_t to_len, const char *package)
{
	for (size_t i = 0; i < d->n; i++) {
		struct owned *o = &d->list[i];
		bool moved = is_line(o, to, to_len);

		if (o->diverter || (!moved && !is_line(o, from, from_len)))
			continue;
		o->diverter = strndup(package, strcspn(package, "\n"));
		o->was_moved = moved;
		if (moved) { /* the lists have it under its old name */
			_cleanup_free_ char *old = strndup(from, from_len);

			o->needles[0].len = o->needles[1].len = 0;
			if (old)
				add_needles(o, old);
		}
	}
}

/* The file has three lines for each: from, to, the package (":" for the administrator).
 */
static void read_diversions(const struct shfs_reach *reach, struct dpkg *d)
{
	_cleanup_free_ char *path = shfs_path_join(d->dir, "diversions");
	const char *at, *end;

	if (!path || !read_lines(reach, path, &d->text))
		return;
	at = d->text.data + 1;
	end = d->text.data + d->text.len;
	while (at < end) {
		const char *lines[4] = { at };
		int n = 1;

		for (; n < 4 && lines[n - 1]; n++) {
			lines[n] =
				memchr(lines[n - 1], '\n', (size_t)(end - lines[n - 1]));
			lines[n] += !!lines[n];
		}
		if (n < 4 || !lines[2])
			return;
		note_diversion(d, lines[0], (size_t)(lines[1] - lines[0] - 1), lines[1],
		               (size_t)(lines[2] - lines[1] - 1), lines[2]);
		at = lines[3] ?: end;
	}
}

/* Is a package that has the file its owner rather than the one found before? Of a
 * diversion, the file at the old name is the diverter's, and the moved one another's. */
static bool is_better_owner(const struct owned *o, const char *name)
{
	size_t len = strcspn(name, ":");
	bool diverts = o->diverter && strlen(o->diverter) == len &&
	               !memcmp(name, o->diverter, len);

	if (o->was_moved)
		return !diverts;
	return diverts || !o->owner;
}

/* Notes which of the files one package's list has. */
static bool look_in_list(const struct shfs_reach *reach, const char *path, void *arg)
{
	struct dpkg *d = arg;
	const char *base = strrchr(path, '/') + 1;
	_cleanup_free_ char *name = strndup(base, strlen(base) - strlen(".list"));

	if (!name || !read_lines(reach, path, &d->text))
		return false;
	for (size_t i = 0; i < d->n; i++) {
		struct owned *o = &d->list[i];
		bool has = false;

		for (int k = 0; k < 2 && !has; k++)
			has = o->needles[k].len &&
			      find_text(&d->text, o->needles[k].data);
		if (!has || !is_better_owner(o, name))
			continue;
		free(o->owner);
		o->owner = strdup(name);
	}
	return false;
}

/* Finds the version in the stanza of NAME or NAME:ARCH. */
static void find_version(const struct shfs_buf *status, const struct owned *o)
{
	size_t name_len = strcspn(o->owner, ":");
	const char *arch = o->owner[name_len] ? o->owner + name_len + 1 : NULL;
	const char *at = status->data, *end = at + status->len;
	_cleanup_buf_ struct shfs_buf begin = { 0 };

	shfs_buf_printf(&begin, "\nPackage: %.*s\n", (int)name_len, o->owner);
	while (!begin.failed &&
	       (at = memmem(at, (size_t)(end - at), begin.data, begin.len))) {
		const char *stop = memmem(at, (size_t)(end - at), "\n\n", 2) ?: end;
		struct shfs_bytes of = find_header(at, stop, "\nArchitecture: ");
		struct shfs_bytes version = find_header(at, stop, "\nVersion: ");

		if (!arch || (of.len == strlen(arch) && !memcmp(of.data, arch, of.len))) {
			note_package(o->package, "dpkg", o->owner, name_len, version.data,
			             version.len);
			return;
		}
		at = stop;
	}
}

/*
 * The store keeps what was found as long as dpkg's files are what they were: to read all
 * lists takes longer than most commands. The first line of the file is the state of
 * dpkg's files, each other one PATH, a tab, NAME, a tab, VERSION.
 */
/* Adds what tells a file as it is from each later one; false: it may still change unseen.
 */
static bool add_state(const struct shfs_reach *reach, const char *dir, const char *name,
                      struct shfs_buf *out)
{
	_cleanup_free_ char *path = shfs_path_join(dir, name);
	_cleanup_close_ int fd = path ? shfs_reach_open(reach, path, O_PATH) : -1;
	struct stat st = { 0 };

	if (fd >= 0 && fstat(fd, &st))
		return false;
	shfs_buf_printf(out, "%s:%ju:%ju:%jd:%jd:%jd ", name, (uintmax_t)st.st_dev,
	                (uintmax_t)st.st_ino, (intmax_t)st.st_size,
	                (intmax_t)shfs_timespec_ns(st.st_mtim),
	                (intmax_t)shfs_timespec_ns(st.st_ctim));
	return shfs_timespec_ns(st.st_ctim) < shfs_clock_ns(CLOCK_REALTIME) - SETTLED_NS;
}

/* Leaves the state empty where nothing can be kept. */
static void read_kept(const struct shfs_reach *reach, struct dpkg *d)
{
	bool settled = reach->store;

	for (size_t i = 0; settled && i < 3; i++)
		settled = add_state(reach, d->dir,
		                    (const char *[]){ "info", "status", "diversions" }[i],
		                    &d->state);
	shfs_buf_char(&d->state, '\n');
	if (!settled || d->state.failed) {
		d->state.len = 0;
		return;
	}
	if (shfs_read_file_at(reach->store->state_fd, SHFS_STORE_PACKAGES, KEPT_MAX_BYTES,
	                      &d->kept) ||
	    d->kept.len < d->state.len ||
	    memcmp(d->kept.data, d->state.data, d->state.len) != 0 ||
	    d->kept.data[d->kept.len - 1] != '\n') {
		d->kept.len = 0;
		shfs_buf_add(&d->kept, d->state.data, d->state.len);
	}
}

static bool is_kept(const struct dpkg *d, struct shfs_package *p)
{
	_cleanup_buf_ struct shfs_buf begin = { 0 };
	const char *end = d->kept.data + d->kept.len, *name, *version, *stop;

	if (!d->state.len || d->kept.failed)
		return false;
	shfs_buf_printf(&begin, "\n%s\t", p->path);
	name = begin.failed ? NULL : find_text(&d->kept, begin.data);
	name = name ? name + begin.len : end;
	version = memchr(name, '\t', (size_t)(end - name)) ?: end;
	stop = memchr(version, '\n', (size_t)(end - version));
	if (stop)
		note_package(p, "dpkg", name, (size_t)(version - name), version + 1,
		             (size_t)(stop - version - 1));
	return p->manager;
}

static void keep(const struct shfs_reach *reach, struct dpkg *d)
{
	size_t before = d->kept.len;

	for (size_t i = 0; d->state.len && i < d->n; i++) {
		const struct shfs_package *p = d->list[i].package;

		if (p->manager && !strpbrk(p->path, "\t\n"))
			shfs_buf_printf(&d->kept, "%s\t%s\t%s\n", p->path, p->name,
			                p->version);
	}
	/* what cannot be written is looked for again; what is too much to read, too */
	if (d->kept.len > before && !d->kept.failed)
		(void)!shfs_write_file_at(reach->store->state_fd, SHFS_STORE_PACKAGES,
		                          0600, d->kept.data, d->kept.len);
}

static void find_in_dpkg(const struct shfs_reach *reach, struct dpkg *d)
{
	_cleanup_free_ char *info = shfs_path_join(d->dir, "info");
	_cleanup_free_ char *path = shfs_path_join(d->dir, "status");
	bool any = false;

	if (!info || !path)
		return;
	read_diversions(reach, d);
	each_entry(reach, info, "", ".list", look_in_list, d);
	for (size_t i = 0; i < d->n; i++)
		any |= !!d->list[i].owner;
	if (!any || !read_lines(reach, path, &d->text))
		return;
	for (size_t i = 0; i < d->n; i++)
		if (d->list[i].owner)
			find_version(&d->text, &d->list[i]);
}

/* --- all --- */

void shfs_packages_find(const struct shfs_reach *reach, struct shfs_package *list,
                        size_t n)
{
	struct dpkg d = { .dir = reach->dpkg ?: "/var/lib/dpkg" };

	d.list = calloc(MAX(n, (size_t)1), sizeof(*d.list));
	read_kept(reach, &d);
	for (size_t i = 0; i < n; i++) {
		find_in_conda(reach, &list[i]);
		if (!list[i].manager)
			find_in_python(reach, &list[i]);
		if (list[i].manager || !d.list || !may_be_installed(list[i].path) ||
		    is_kept(&d, &list[i]))
			continue;
		d.list[d.n].package = &list[i];
		add_needles(&d.list[d.n++], list[i].path);
	}
	if (d.n) {
		find_in_dpkg(reach, &d);
		keep(reach, &d);
	}
	for (size_t i = 0; i < d.n; i++) {
		for (int k = 0; k < 2; k++)
			shfs_buf_free(&d.list[i].needles[k]);
		free(d.list[i].diverter);
		free(d.list[i].owner);
	}
	free(d.list);
	shfs_buf_free(&d.text);
	shfs_buf_free(&d.state);
	shfs_buf_free(&d.kept);
	for (size_t i = 0; i < n; i++) {
		if (!list[i].manager)
			find_in_r(reach, &list[i]);
		if (!list[i].manager)
			find_in_npm(reach, &list[i]);
	}
}
