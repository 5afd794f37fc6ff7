/* SPDX-License-Identifier: MIT */
/*
 * record.h - the records of the journal: every type and field, and its encoding.
 *
 * A producer fills one of these structs; shfs_record_pack turns it into bytes of a batch,
 * and shfs_record_unpack turns untrusted bytes back (fuzzed). The frame around a batch
 * (length, checksum) is the journal's: store/journal/journal.h. docs/journal.md shows the
 * layout byte by byte.
 *
 * Growth: a record with a length may have more fields than a reader knows; unknown types
 * are skipped. Any other change raises SHFS_RECORD_VERSION.
 *
 * Strings are bytes: names and commands may hold anything but NUL. Decoded strings are
 * borrowed and are not NUL-terminated.
 */
#pragma once

#include "common/buf.h"
#include "common/clock.h"

#include <stdbool.h>

#define SHFS_RECORD_VERSION  2
#define SHFS_RECORD_PATH_MAX 65536 /* bytes of a path */

enum shfs_record_type {
	SHFS_REC_PRODUCER = 1, /* the producer: first in every segment */
	SHFS_REC_PROCESS = 2,  /* a process, before the first record that names it */
	SHFS_REC_ACCESS =
		3, /* a process had a file open; written when the access has ended */
	SHFS_REC_PATHOP = 4, /* a change to names or modes: rename, unlink, chmod, ... */
	SHFS_REC_PREIMAGE = 5, /* what a file held before its first change */
	SHFS_REC_LOST = 6,     /* records that could not be written, counted */
	SHFS_REC_END =
		7, /* the producer stopped in good order; last of its last segment */
	SHFS_REC_PROGRAM = 8, /* which software a program is */
	SHFS_REC_LOOKUP =
		9, /* names that a process looked up, in a mount of shfs record */
	SHFS_REC_EXIT = 10, /* what a process has used, once it has ended */
	SHFS_REC_NOTE = 11, /* a note or a tag that a user has given to something */
	/*
	 * records of the hook: text in the hook log (store/journal/hooklog.h), never in a
	 * segment
	 */
	SHFS_REC_SESSION = 16,
	SHFS_REC_BEGIN = 17,
	SHFS_REC_FINISH = 18,
	SHFS_REC_DEFINITION = 19,
	SHFS_REC_USES = 20,
	SHFS_REC_ORIGIN = 21,
};

/* The name of an object: XXH3-128 of the content, and which of the contents with that
 * hash. */
struct shfs_object_id {
	uint8_t hash[16]; /* canonical (big-endian) */
	uint32_t nth;     /* 0; more only if contents collide */
};

enum shfs_content_flags {
	SHFS_CONTENT_KNOWN = 1 << 0,  /* the fields of the content are valid */
	SHFS_CONTENT_OBJECT = 1 << 1, /* archived: object names it */
	SHFS_CONTENT_PHASH = 1 << 2,  /* phash is set */
	SHFS_CONTENT_INCOMPLETE =
		1 << 3, /* changed while it was read: not exactly what a close left */
	SHFS_CONTENT_WHOLE = 1 << 4, /* phash is of all of it, though it has samples */
	/* why there is no object */
	SHFS_CONTENT_SKIP_SIZE = 1 << 8, /* larger than the limit */
	SHFS_CONTENT_SKIP_RULE = 1
	                         << 9, /* a rule (.shfsignore, config, secrets) says no */
	SHFS_CONTENT_SKIP_BUDGET = 1 << 10,
	SHFS_CONTENT_SKIP_ERROR = 1 << 11, /* could not be read or stored */
	SHFS_CONTENT_SKIP_TYPE = 1 << 12,  /* not a regular file */
	SHFS_CONTENT_LINKED = 1 << 13,     /* the file had several names */
	SHFS_CONTENT_CHANGING = 1 << 14,   /* not KNOWN, as it was being changed */
	SHFS_CONTENT_SKIP_USER = 1 << 15,  /* another user's allowance is used up */
};
/* In no record: the index sets it for a content whose object was pruned
 * (store/objects/pruned.h); object still names it. */
#define SHFS_CONTENT_PRUNED (1u << 30)
#define SHFS_CONTENT_NAMED  (SHFS_CONTENT_OBJECT | SHFS_CONTENT_PRUNED)

#define SHFS_CONTENT_SKIPPED                                                             \
	(SHFS_CONTENT_SKIP_SIZE | SHFS_CONTENT_SKIP_RULE | SHFS_CONTENT_SKIP_BUDGET |    \
	 SHFS_CONTENT_SKIP_ERROR | SHFS_CONTENT_SKIP_TYPE | SHFS_CONTENT_SKIP_USER)

/*
 * A content: what a file held at one moment. Two contents are the same version of a path
 * if their objects are equal; if one has no object, if size, phash, mtime and ctime are
 * equal (docs/index.md has the exceptions).
 */
struct shfs_content {
	uint32_t flags; /* enum shfs_content_flags */
	uint32_t mode;  /* st_mode: type and permissions */
	uint64_t size;  /* bytes */
	int64_t mtime_ns, ctime_ns;
	uint64_t phash; /* XXH3-64 of 3 x 256 bytes at the start, middle and end (all up
	                   to 768, or if WHOLE is set) */
	struct shfs_object_id object;
};

/* Have both contents, by their flags, a phash of the same kind? */
static inline bool shfs_content_hashed_alike(uint32_t a, uint32_t b)
{
	return a & b & SHFS_CONTENT_PHASH && !((a ^ b) & SHFS_CONTENT_WHOLE);
}

/* Have both contents the same size, mtime and phash? */
static inline bool shfs_content_fingerprinted_alike(const struct shfs_content *a,
                                                    const struct shfs_content *b)
{
	return shfs_content_hashed_alike(a->flags, b->flags) && a->phash == b->phash &&
	       a->size == b->size && a->mtime_ns == b->mtime_ns;
}

/* Makes it a content that is archived. */
static inline void shfs_content_give_object(struct shfs_content *content,
                                            const struct shfs_object_id *object)
{
	content->flags &= ~(uint32_t)SHFS_CONTENT_SKIPPED;
	content->flags |= SHFS_CONTENT_OBJECT;
	content->object = *object;
}

struct shfs_rec_producer {
	uint32_t version; /* SHFS_RECORD_VERSION */
	struct shfs_bytes host, boot_id;
	struct shfs_bytes kind; /* "fuse"; "restore" */
	struct shfs_bytes
		instance; /* 16 random bytes, the same in all segments of one producer */
	struct shfs_bytes
		root; /* absolute path of the project; paths below are relative to it */
	struct shfs_bytes software; /* "shfs 1.0.0" */
	uint64_t pid_namespace;
	uint32_t pid, uid;
	uint64_t start_ticks;
	uint32_t segment; /* 0, 1, ... within the instance */
	uint32_t pid_max; /* where pids wrap around */
};

struct shfs_rec_process {
	uint32_t pid, ppid, pgid, sid, uid, tty_nr;
	uint64_t start_ticks;        /* /proc/PID/stat field 22 */
	uint64_t parent_start_ticks; /* of ppid at that time; 0: it was gone */
	struct shfs_bytes exe, cwd;
	struct shfs_bytes argv;   /* separated by NUL, cut at 64 KiB */
	struct shfs_bytes marker; /* BOOT-PID-START-NUMBER: the command of a shell that
	                             its environment names; then its origin and its
	                             marks (docs/shellhook.md); mostly empty */
	struct shfs_bytes
		streams; /* what its descriptors 0, 1 and 2 were, as /proc/PID/fd
	                    names it, separated by NUL; empty: not known */
	struct shfs_bytes environment; /* selected variables NAME=VALUE, sorted, each
	                                  ended by a NUL; a NUL alone: it had none of
	                                  them; empty: not known. Only with streams */
};

enum shfs_access_flags {
	SHFS_ACCESS_READ = 1 << 0,    /* really read, or open for reading only */
	SHFS_ACCESS_WRITTEN = 1 << 1, /* really changed: written or truncated */
	SHFS_ACCESS_CREATED = 1 << 2, /* this open made the file */
	SHFS_ACCESS_TRUNCATED = 1 << 3,
	SHFS_ACCESS_APPEND = 1 << 4,
	SHFS_ACCESS_MAPPED =
		1 << 5, /* written back from a shared mapping: the opener is named */
	SHFS_ACCESS_EXEC = 1 << 6,     /* opened to be executed */
	SHFS_ACCESS_NAMELESS = 1 << 7, /* the file had been removed or replaced by then;
	                                  path was its last name */
	SHFS_ACCESS_SHARED = 1 << 8, /* several processes had the open file: which of them
	                                wrote is not known */
	SHFS_ACCESS_LATE = 1 << 9,   /* it was at last, or up to 40 ms before */
	SHFS_ACCESS_REPLACED =
		1 << 10, /* NAMELESS, and another file has the path by then */
	SHFS_ACCESS_NAMED =
		1 << 11, /* no open was seen: a file outside of root that the process
	                    named (recording/outside.h), or a link that it went
	                    through, whose content is its text (fusefs/watch/links.h) */
};

/*
 * An access: one for each process that used one open file. A version of several writers
 * is in one record for each, with the same content.
 */
struct shfs_rec_access {
	uint64_t process; /* sequence number of its SHFS_REC_PROCESS, same producer; 0
	                     unknown */
	uint32_t flags;   /* enum shfs_access_flags */
	struct shfs_time begin; /* open */
	struct shfs_time last;  /* last write by this process, else = begin */
	struct shfs_bytes path; /* when the access ended; relative to root; of a file
	                           outside: absolute */
	uint64_t dev, ino;
	struct shfs_content seen;   /* the content it read; KNOWN only with READ */
	struct shfs_content made;   /* the content it left; KNOWN only with WRITTEN */
	int64_t directory_mtime_ns; /* with CREATED: of its directory before; 0 unknown */
};

enum shfs_pathop {
	SHFS_OP_RENAME = 1, /* path -> path2; content: of the moved file, victim: of path2
	                       before */
	SHFS_OP_EXCHANGE =
		2,        /* path <-> path2; content: now at path2, victim: now at path */
	SHFS_OP_LINK = 3, /* path2 is a new name of path */
	SHFS_OP_UNLINK = 4, /* victim: its content, if this was the last name or it was
	                       known; path2: the target of a symbolic link */
	SHFS_OP_MKDIR = 5,
	SHFS_OP_RMDIR = 6,   /* path2: its mode in octal digits */
	SHFS_OP_SYMLINK = 7, /* path2: the target of the link */
	SHFS_OP_MKNOD = 8,
	SHFS_OP_CHMOD = 9, /* content: mode and times after it; victim: before it, or not
	                      KNOWN; also with CHOWN, UTIMES, and XATTR (victim alone) */
	SHFS_OP_CHOWN = 10,
	SHFS_OP_UTIMES = 11,
	SHFS_OP_TRUNCATE = 12, /* truncate(2), no open file; content: the one it left */
	SHFS_OP_XATTR = 13,
};

enum shfs_former_flags {
	SHFS_FORMER_STATUS = 1 << 0, /* mode to mtime_ns */
	SHFS_FORMER_XATTRS = 1 << 1,
	SHFS_FORMER_DIRECTORY = 1 << 2,
	SHFS_FORMER_DIRECTORY2 = 1 << 3,
	SHFS_FORMER_TEXT = 1 << 4,
	/* in no record: the index sets them (store/index/former.c) */
	SHFS_FORMER_TIME = 1 << 8,   /* mode and mtime_ns alone */
	SHFS_FORMER_NUMBER = 1 << 9, /* dev and ino alone */
};

/*
 * The state that a change did away with: with CHMOD, CHOWN, UTIMES and XATTR the
 * attributes that path had; with UNLINK, RMDIR and RENAME what the file that lost its
 * name was (with RENAME: that was at path2). Not of a file that keeps another name:
 * xattrs.
 */
struct shfs_former {
	uint32_t flags; /* enum shfs_former_flags: which of the fields are known */
	uint32_t mode, uid, gid;
	uint64_t links, dev, ino, rdev;
	int64_t mtime_ns;
	struct shfs_bytes xattrs; /* shfs_xattr_next; with XATTR the one alone, or none */
	int64_t directory_mtime_ns, directory2_mtime_ns; /* of those of path and path2 */
	struct shfs_bytes text; /* with RENAME: what the symbolic link said */
};

/* Appends an extended attribute to a list. */
void shfs_xattr_add(struct shfs_buf *list, struct shfs_bytes name,
                    struct shfs_bytes value);
/* Takes the next one from the list: true; false: it is at its end, or damaged. */
bool shfs_xattr_next(struct shfs_cursor *list, struct shfs_bytes *name,
                     struct shfs_bytes *value);

/* Packs and unpacks all of it. -EBADMSG. */
void shfs_former_pack(const struct shfs_former *former, struct shfs_buf *out);
_must_check_ int shfs_former_unpack(const void *data, size_t len,
                                    struct shfs_former *out);

struct shfs_rec_pathop {
	uint64_t process;
	uint32_t op;        /* enum shfs_pathop */
	uint32_t directory; /* 1: path is a directory, with everything below it */
	struct shfs_bytes path, path2;
	struct shfs_content content, victim;
	uint64_t dev, ino; /* of path, with LINK and CHMOD to TRUNCATE */
	uint32_t nameless; /* 1, with LINK: path was its last name (O_TMPFILE) */
	struct shfs_former former;
};

struct shfs_rec_preimage {
	uint64_t process; /* that is about to change the file */
	struct shfs_bytes path;
	uint64_t dev, ino;
	struct shfs_content content;
};

/*
 * A program: what is known of the software that a path held from the time of the record
 * on, until the next record of that path. Of a program that is a script, if a package has
 * it.
 */
struct shfs_rec_program {
	uint64_t process;            /* the first one that executed it */
	struct shfs_bytes path;      /* absolute */
	struct shfs_content content; /* of that file; never an object */
	struct shfs_bytes manager;   /* by what the package is known: "dpkg", "conda",
	                                "venv", "pip", "npm"; empty: no package */
	struct shfs_bytes package, version;
};

enum shfs_found {
	SHFS_FOUND_NOTHING = 0,
	SHFS_FOUND_FILE = 1,
	SHFS_FOUND_DIRECTORY = 2,
	SHFS_FOUND_NAMES = 3, /* a directory, of which the names were read */
	SHFS_FOUND_LINK = 4,  /* a symbolic link that was not read */
	SHFS_FOUND_TEXT = 5,  /* what a symbolic link says */
	SHFS_FOUND_OTHER = 6, /* a device, a FIFO, a socket */
};

struct shfs_lookup {
	uint32_t found;         /* enum shfs_found */
	struct shfs_bytes path; /* relative to the producer's root */
	struct shfs_bytes text; /* with TEXT */
};

/* Appends a name to the list. last: the path of the name before, at first empty; it
 * becomes that of this one. A list is small where its paths are sorted. */
void shfs_lookup_add(struct shfs_buf *list, struct shfs_buf *last,
                     const struct shfs_lookup *lookup);

/*
 * Takes the next name from the list: true; false: it is at its end, or it is damaged
 * (list->failed), or there is no memory (last->failed). path borrows from last, text from
 * the list.
 */
bool shfs_lookup_next(struct shfs_cursor *list, struct shfs_buf *last,
                      struct shfs_lookup *out);

/*
 * Names that a process looked up, and whether or not it then opened what it found. A name
 * is told once in a mount: the kernel remembers it, and answers others who look for it.
 */
struct shfs_rec_lookup {
	uint64_t process;
	struct shfs_bytes list; /* shfs_lookup_next */
};

/* The end of a process: what all of its threads used, in all programs that it executed.
 */
struct shfs_rec_exit {
	uint64_t process; /* the last record of it */
	uint32_t status;  /* as wait(2) gives it */
	uint64_t user_us, system_us;
	uint64_t max_rss_kib; /* of the program that had most */
};

#define SHFS_NOTE_TEXT_MAX 65536 /* bytes of a note */
#define SHFS_NOTE_TAG_MAX  255

/*
 * A note or a tag of a command or of a version of a file, or its removal. Of several
 * records of one tag (or of the note) of the same thing that with the latest time_ns
 * counts, then that with the greatest instance, then with the greatest seq.
 */
struct shfs_rec_note {
	uint32_t removed; /* 1: there is no such note or tag any more */
	int64_t time_ns;
	struct shfs_bytes command; /* its id, 16 hex digits; empty: a version is meant */
	/* the version that was made at version_ns, of the file with that path (absolute)
	 * of the tree (store/trees.h) that this boot of this host is of */
	struct shfs_bytes host, boot_id, path;
	int64_t version_ns;
	struct shfs_bytes tag;  /* empty: text is the note */
	struct shfs_bytes text; /* of the note; no NUL */
};

struct shfs_rec_lost {
	uint64_t count; /* records since the last SHFS_REC_LOST */
	int32_t error;  /* errno of the first loss */
};

/* --- records of the hook --- */

struct shfs_rec_session {
	struct shfs_bytes host, boot_id, shell, tty, cwd;
	uint64_t pid_namespace; /* 0 unknown */
	uint32_t pid;
	uint64_t start_ticks;
};

struct shfs_rec_begin {
	uint64_t number;   /* 1, 2, ... within the session */
	uint32_t last_pid; /* last pid the kernel handed out before; 0 unknown */
	uint32_t hidden;   /* 1: typed with a leading blank, the text is not recorded */
	bool redacted;     /* text is redacted */
	struct shfs_bytes cwd, text;
};

struct shfs_rec_finish {
	uint64_t number; /* of the command's BEGIN */
	uint32_t last_pid;
	int32_t status; /* $? */
	bool has_usage; /* the rest is known: of the shell and of what it waited for */
	uint64_t user_us, system_us;
	uint64_t max_rss_kib; /* of one process; 0: not known */
};

/* An alias, a function, or the options of a shell, that a command used. */
struct shfs_rec_definition {
	char kind;     /* enum shfs_definition_kind; others may come */
	uint32_t kept; /* enum shfs_definition_kept */
	struct shfs_bytes name, body;
};

enum shfs_definition_kind {
	SHFS_DEFINITION_ALIAS = 'a',
	SHFS_DEFINITION_GLOBAL_ALIAS = 'g', /* of zsh: of any word */
	SHFS_DEFINITION_SUFFIX_ALIAS = 's', /* of zsh: of words that end so */
	SHFS_DEFINITION_FUNCTION = 'f',     /* the body has its name, too */
	SHFS_DEFINITION_OPTIONS = 'o',      /* no word: commands that set options */
};

enum shfs_definition_kept {
	SHFS_DEFINITION_WHOLE,
	SHFS_DEFINITION_REDACTED,
	SHFS_DEFINITION_LEFT_OUT, /* too long, or not known to the hook */
};

struct shfs_rec_uses {
	uint64_t number;        /* of the command's BEGIN, the last one before */
	uint32_t more;          /* 1: it uses more than the list has */
	struct shfs_bytes list; /* of definitions: shfs_hooklog_next_use */
};

struct shfs_rec_origin {
	struct shfs_bytes value; /* that LC_SHFS had (store/journal/origin.h) when the
	                            session began */
};

/* Any record. */
struct shfs_record {
	enum shfs_record_type type;
	uint64_t seq;          /* rises within a producer or a hook log, from 1 */
	struct shfs_time time; /* when it happened; boot_ns may be coarse in a hook log */
	uint32_t boot_resolution_ns; /* 1, or 10000000 if boot_ns is from /proc/uptime */
	union {
		struct shfs_rec_producer producer;
		struct shfs_rec_process process;
		struct shfs_rec_access access;
		struct shfs_rec_pathop pathop;
		struct shfs_rec_preimage preimage;
		struct shfs_rec_lost lost;
		struct shfs_rec_program program;
		struct shfs_rec_lookup lookup;
		struct shfs_rec_exit exit;
		struct shfs_rec_note note;
		struct shfs_rec_session session;
		struct shfs_rec_begin begin;
		struct shfs_rec_finish finish;
		struct shfs_rec_definition definition;
		struct shfs_rec_uses uses;
		struct shfs_rec_origin origin;
	};
};

/*
 * The context of a record in a batch: records are packed as differences from those before
 * them in the same batch. Begins as {0} and is reset at the beginning of each batch.
 * Opaque.
 */
struct shfs_record_context {
	uint64_t seq, boot_ns, offset_ns; /* offset_ns: real minus boot time */
	uint64_t process, dev, ino, start_ticks;
	uint32_t pid, mode;
	bool whole; /* all times so far were whole microseconds */
	struct shfs_buf path, path2, exe, cwd, argv, marker, environment;
	struct shfs_buf device, stream; /* the last ones */
	struct shfs_buf streams;        /* of the record that was unpacked last */
	uint32_t pipe;
	struct shfs_record_files *files; /* in this batch so far */
};

void shfs_record_context_reset(struct shfs_record_context *context);
void shfs_record_context_free(struct shfs_record_context *context);

/*
 * Appends a record to the batch in out. -EINVAL: it is a record of the hook (nothing is
 * changed); -ENOMEM: the batch must be given up.
 */
_must_check_ int shfs_record_pack(struct shfs_record_context *context,
                                  const struct shfs_record *rec, struct shfs_buf *out);

/*
 * Unpacks the next record of a batch. Its strings are valid until the next call for this
 * context, or as long as the batch is. -EBADMSG: it is damaged, and so is the rest of the
 * batch; -ENOTSUP: this version does not know its type (it is skipped); -ENOMEM.
 */
_must_check_ int shfs_record_unpack(struct shfs_record_context *context,
                                    struct shfs_cursor *in, struct shfs_record *rec);

static inline struct shfs_bytes shfs_bytes_str(const char *s)
{
	return (struct shfs_bytes){ s ? s : "", s ? __builtin_strlen(s) : 0 };
}

/* Lists the contents in a record that have an object or may have one, NULL behind the
 * last. */
void shfs_record_contents(struct shfs_record *rec, struct shfs_content *out[static 3]);
