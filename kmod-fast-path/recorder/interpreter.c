/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/recorder/interpreter.h"

#include "common/util.h"

#include <elf.h>
#include <limits.h>
#include <link.h>
#include <string.h>

#define HEADERS_MAX 64 /* programs have a dozen */

char *shfs_interpreter_of(int fd)
{
	ElfW(Ehdr) program;
	char path[PATH_MAX];

	if (pread(fd, &program, sizeof(program), 0) != sizeof(program) ||
	    memcmp(program.e_ident, ELFMAG, SELFMAG) != 0 ||
	    program.e_phentsize != sizeof(ElfW(Phdr)))
		return NULL;
	for (unsigned i = 0; i < MIN(program.e_phnum, HEADERS_MAX); i++) {
		off_t at = (off_t)(program.e_phoff + i * sizeof(ElfW(Phdr)));
		ElfW(Phdr) part;

		if (pread(fd, &part, sizeof(part), at) != sizeof(part))
			return NULL;
		if (part.p_type != PT_INTERP)
			continue;
		if (!part.p_filesz || part.p_filesz > sizeof(path) ||
		    pread(fd, path, part.p_filesz, (off_t)part.p_offset) !=
		            (ssize_t)part.p_filesz ||
		    path[0] != '/' || path[part.p_filesz - 1])
			return NULL;
		return strdup(path);
	}
	return NULL;
}
