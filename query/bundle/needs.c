/* SPDX-License-Identifier: MIT */
/* What a program needs to be executed: its interpreter ("#!", or the dynamic linker) and
 * its libraries, found as the dynamic linker finds them, without running it. */
#include "query/bundle/closure.h"

#include "common/io.h"
#include "common/path.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <glob.h>
#include <libelf.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define LINE_MAX_BYTES 256 /* of "#!", as the kernel's */
#define CONF_MAX       65536

/* --- scripts --- */

/* The last component is "env": it executes what its argument names. */
static bool is_env(const char *path)
{
	const char *slash = strrchr(path, '/');

	return !strcmp(slash ? slash + 1 : path, "env");
}

static int add_script_needs(struct shfs_closure *c, char *line)
{
	char *save, *interpreter = strtok_r(line + 2, " \t\n", &save);
	char *argument = interpreter ? strtok_r(NULL, " \t\n", &save) : NULL;
	int r;

	if (!interpreter || *interpreter != '/')
		return 0;
	r = shfs_closure_add_program(c, interpreter);
	if (argument && !strcmp(argument, "-S"))
		argument = strtok_r(NULL, " \t\n", &save);
	if (!r && argument && is_env(interpreter))
		r = shfs_closure_add_program(c, argument);
	return r == -ENOENT ? 0 : r;
}

/* --- ELF --- */

struct program {
	struct shfs_closure *c;
	int fd;
	Elf *elf;
	const char *path;       /* with its links followed */
	struct shfs_names dirs; /* in which libraries are looked for */
	struct shfs_names libraries;
};

static void program_clear(struct program *p)
{
	if (p->elf)
		elf_end(p->elf);
	shfs_names_clear(&p->dirs);
	shfs_names_clear(&p->libraries);
}

static int add_directory_of(struct shfs_names *dirs, const char *path)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *dir = strndup(path, (size_t)(slash - path));

	return dir ? shfs_workflow_add_name(dirs, *dir ? dir : "/") : -ENOMEM;
}

/* Adds the directories of DT_RPATH or DT_RUNPATH. */
static int add_run_path(struct program *p, const char *text)
{
	static const char origin[] = "$ORIGIN", braces[] = "${ORIGIN}";
	_cleanup_free_ char *copy = strdup(text);
	char *save, *one = copy ? strtok_r(copy, ":", &save) : NULL;
	int r = copy ? 0 : -ENOMEM;

	for (; one && !r; one = strtok_r(NULL, ":", &save)) {
		size_t skip =
			!strncmp(one, origin, sizeof(origin) - 1)   ? sizeof(origin) - 1
			: !strncmp(one, braces, sizeof(braces) - 1) ? sizeof(braces) - 1
								    : 0;
		_cleanup_buf_ struct shfs_buf dir = { 0 };

		if (skip)
			shfs_buf_add(&dir, p->path,
			             (size_t)(strrchr(p->path, '/') - p->path));
		shfs_buf_str(&dir, one + skip);
		r = dir.failed ? -ENOMEM
		    : dir.len && *dir.data == '/'
		            ? shfs_workflow_add_name(&p->dirs, dir.data)
		            : 0;
	}
	return r;
}

static int read_dynamic_section(struct program *p, Elf_Scn *section, size_t strings)
{
	Elf_Data *data = elf_getdata(section, NULL);
	GElf_Dyn dyn;
	int r = 0;

	for (int i = 0; data && !r && gelf_getdyn(data, i, &dyn); i++) {
		const char *text;

		if (dyn.d_tag != DT_NEEDED && dyn.d_tag != DT_RPATH &&
		    dyn.d_tag != DT_RUNPATH)
			continue;
		text = elf_strptr(p->elf, strings, dyn.d_un.d_val);
		if (text && dyn.d_tag == DT_NEEDED)
			r = shfs_workflow_add_name(&p->libraries, text);
		else if (text)
			r = add_run_path(p, text);
	}
	return r;
}

static int read_sections(struct program *p)
{
	Elf_Scn *section = NULL;
	GElf_Shdr head;
	int r = 0;

	while (!r && (section = elf_nextscn(p->elf, section)))
		if (gelf_getshdr(section, &head) && head.sh_type == SHT_DYNAMIC)
			r = read_dynamic_section(p, section, head.sh_link);
	return r;
}

/* The dynamic linker: libc lies beside it. */
static int add_linker(struct program *p)
{
	_cleanup_free_ char *place = NULL;
	char linker[PATH_MAX];
	GElf_Phdr head;
	size_t n = 0;
	int r = 0;

	if (elf_getphdrnum(p->elf, &n))
		return 0;
	for (size_t i = 0; i < n && !place && !r; i++) {
		ssize_t len;

		if (!gelf_getphdr(p->elf, (int)i, &head) || head.p_type != PT_INTERP)
			continue;
		len = shfs_pread_full(p->fd, linker, sizeof(linker), head.p_offset);
		if (len <= 0 || *linker != '/' || !memchr(linker, 0, (size_t)len))
			continue;
		r = closure_add_disk(p->c, linker, true);
		if (r >= 0 && access(linker, F_OK))
			return 0; /* it is missing */
		if (r >= 0)
			r = closure_walk(p->c, linker, &place);
		if (!r)
			r = add_directory_of(&p->dirs, place);
	}
	return r;
}

/* Adds the directories that the configuration of the dynamic linker names. */
static int add_configured(struct program *p)
{
	static const char *const usual[] = { "/lib", "/usr/lib", "/lib64", "/usr/lib64",
		                             "/usr/local/lib" };
	glob_t found = { 0 };
	int r = 0;

	if (!glob("/etc/ld.so.conf.d/*.conf", 0, NULL, &found))
		for (size_t i = 0; i < found.gl_pathc && !r; i++) {
			_cleanup_buf_ struct shfs_buf text = { 0 };
			char *save, *line;

			if (shfs_read_file_at(AT_FDCWD, found.gl_pathv[i], CONF_MAX,
			                      &text) ||
			    !text.len)
				continue;
			for (line = strtok_r(text.data, "\n", &save); line && !r;
			     line = strtok_r(NULL, "\n", &save))
				if (*line == '/')
					r = shfs_workflow_add_name(&p->dirs, line);
		}
	globfree(&found);
	for (size_t i = 0; i < ARRAY_SIZE(usual) && !r; i++)
		r = shfs_workflow_add_name(&p->dirs, usual[i]);
	return r;
}

static int add_library(struct program *p, const char *name)
{
	for (size_t i = 0; i < p->dirs.n; i++) {
		_cleanup_free_ char *path = shfs_path_join(p->dirs.list[i], name);
		int r;

		if (!path)
			return -ENOMEM;
		if (access(path, R_OK))
			continue;
		r = closure_add_disk(p->c, path, true);
		return r > 0 ? closure_add_needs(p->c, path) : r;
	}
	return 0;
}

static int add_elf_needs(struct shfs_closure *c, const char *path, int fd)
{
	_cleanup_(program_clear) struct program p = { .c = c, .fd = fd, .path = path };
	int r;

	if (elf_version(EV_CURRENT) == EV_NONE)
		return 0;
	p.elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!p.elf || elf_kind(p.elf) != ELF_K_ELF)
		return 0;
	r = read_sections(&p);
	if (!r)
		r = add_linker(&p);
	if (!r && p.libraries.n)
		r = add_directory_of(&p.dirs, path);
	if (!r && p.libraries.n)
		r = add_configured(&p);
	for (size_t i = 0; i < p.libraries.n && !r; i++)
		r = add_library(&p, p.libraries.list[i]);
	return MIN(r, 0);
}

int closure_add_needs(struct shfs_closure *c, const char *path)
{
	_cleanup_free_ char *place = realpath(path, NULL);
	_cleanup_close_ int fd =
		place ? open(place, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
	char line[LINE_MAX_BYTES + 1];
	ssize_t n = fd < 0 ? 0 : shfs_pread_full(fd, line, LINE_MAX_BYTES, 0);

	if (n < 4)
		return 0;
	line[n] = 0;
	line[strcspn(line, "\n")] = 0;
	if (!memcmp(line, "#!", 2))
		return add_script_needs(c, line);
	return memcmp(line, ELFMAG, SELFMAG) ? 0 : add_elf_needs(c, place, fd);
}
