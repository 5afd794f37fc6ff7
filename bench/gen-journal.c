/* SPDX-License-Identifier: MIT */
/*
 * gen-journal STORE [--commands N] [--files N] [--accesses N] [--seed N] [--chain]:
 * writes the journal of a year of work that never was: sessions of shells and what they
 * typed, processes, accesses, changes of names. STORE is made if it is not there. The
 * same seed gives the same work. Prints what there is of each.
 *
 * A fifth of the accesses write. Each file is made once, by one of the commands that
 * bring 5,000 of them (an archive unpacked, a clone); the others read and write what is
 * there: walks (grep -r) read directory after directory, builds are many processes that
 * read a source and hot headers, scripts and editors touch a few files. Which
 * directories: as Zipf has it. Contents have names of objects that nobody stored.
 *
 * With --chain, after all files were made, every other command makes a file from the one
 * that the last of them made, and the rest are walks, which make nothing.
 */
#include "common/path.h"
#include "common/proc.h"
#include "store/journal/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define SECOND        SHFS_NSEC_PER_SEC
#define YEAR_NS       (365 * 86400 * SECOND)
#define BATCH         256          /* of the capture's writer: so many records, */
#define BATCH_NS      (SECOND / 5) /* or so long */
#define PER_DIRECTORY 50
#define PER_IMPORT    5000
#define MOUNTS        24   /* times that the project was mounted */
#define SHELLS        3    /* at once */
#define STRINGS_MAX   8192 /* bytes of a record */
#define ROOT          "/home/user/project"
#define DEV           0x801

struct shell {
	uint32_t pid;
	uint64_t start_ticks, log_seq, number, left; /* left: commands until it exits */
	uint64_t process; /* sequence number of its record in this mount; 0 */
	FILE *log;
};

struct gen {
	struct shfs_store *store;
	struct shfs_journal *journal;
	char boot_id[37];
	uint64_t random, seq, boot_ns, records, accesses, processes, pathops;
	int64_t clock_ns; /* real minus boot time */
	uint32_t last_pid;
	uint64_t n_files, n_dirs, made; /* made: files that are there */
	uint32_t mount;                 /* which one it is */
	uint32_t *written;              /* of each file: in which mount */
	uint32_t *version;              /* of each file */
	int64_t *mtime;
	struct shell shells[SHELLS];
	bool chain;
	uint64_t links; /* of the chain: the next makes the file of this number */

	/* the batch; its strings are in text, at offsets until it is written */
	struct shfs_record batch[BATCH];
	size_t n_batch;
	uint64_t batch_ns;
	struct shfs_buf text;
};

static void die(const char *what, int error)
{
	fprintf(stderr, "gen-journal: %s: %s\n", what, strerrordesc_np(-error));
	exit(1);
}

/* --- chance --- */

static uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9;
	x ^= x >> 27;
	x *= 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static uint64_t draw_below(struct gen *g, uint64_t below)
{
	g->random += 0x9e3779b97f4a7c15;
	return mix(g->random) % below;
}

/* Above 0, up to 1. */
static double draw_unit(struct gen *g)
{
	return (double)(draw_below(g, 1 << 30) + 1) / (1 << 30);
}

/* Rank 0 the most likely, the nth 1/n as likely as the first. */
static uint64_t draw_zipf(struct gen *g, uint64_t n)
{
	uint64_t rank = (uint64_t)exp(draw_unit(g) * log((double)n + 1)) - 1;

	return MIN(rank, n - 1);
}

static uint64_t draw_exponential(struct gen *g, double mean)
{
	return (uint64_t)(-log(draw_unit(g)) * mean) + 1;
}

/* --- names --- */

static const char *const words[] = {
	"core",   "util",   "parse",   "index",  "network", "render", "config", "session",
	"data",   "sample", "analyse", "report", "figure",  "model",  "train",  "reads",
	"genome", "align",  "matrix",  "vector", "string",  "buffer", "cache",  "thread",
	"device", "driver", "kernel",  "memory", "python",  "script", "result", "archive",
};

static const char *word_at(uint64_t x)
{
	return words[x % ARRAY_SIZE(words)];
}

/* As it is beneath the root. */
static int dir_path(uint64_t dir, char *out, size_t size)
{
	uint64_t top = dir / 400, middle = dir / 20;
	uint64_t a = mix(top + 1), b = mix(middle + 1000003), c = mix(dir + 2000003);

	return snprintf(out, size, "%s-%" PRIu64 "/%s%" PRIu64 "/%s_%s%" PRIu64,
	                word_at(a), top, word_at(b), middle % 20, word_at(c),
	                word_at(c >> 8), dir % 20);
}

static void file_path(uint64_t file, char *out, size_t size)
{
	static const char *const ends[] = { "c",        "h",   "py", "txt",
		                            "fasta.gz", "csv", "o",  "md" };
	uint64_t x = mix(file + 77);
	int n = dir_path(file / PER_DIRECTORY, out, size);

	if (x >> 60 < 8)
		snprintf(out + n, size - n, "/%s_%s.%s", word_at(x), word_at(x >> 8),
		         ends[file % PER_DIRECTORY % ARRAY_SIZE(ends)]);
	n += strlen(out + n);
	if (x >> 60 < 8) /* several have the same words */
		snprintf(out + n, size - n, ".%" PRIu64, file % PER_DIRECTORY);
	else
		snprintf(out + n, size - n, "/%s-%s-%s_%04" PRIu64 ".%s", word_at(x),
		         word_at(x >> 8), word_at(x >> 16), file % PER_DIRECTORY * 17,
		         ends[(x >> 24) % ARRAY_SIZE(ends)]);
}

/* --- records --- */

static void append_batch(struct gen *g)
{
	const struct shfs_record *records[BATCH];
	size_t appended;
	int r;

	if (!g->n_batch)
		return;
	for (size_t i = 0; i < g->n_batch; i++)
		records[i] = &g->batch[i];
	r = shfs_journal_append(g->journal, records, g->n_batch, &appended);
	if (r)
		die("append", r);
	g->records += g->n_batch;
	g->n_batch = 0;
	g->text.len = 0;
}

static struct shfs_time at(const struct gen *g, uint64_t boot_ns)
{
	boot_ns -= boot_ns % 1000;
	return (struct shfs_time){ (int64_t)boot_ns + g->clock_ns, boot_ns };
}

/* Strings of the batch do not move while it is being made. */
static struct shfs_bytes keep_batch_text(struct gen *g, const char *data, size_t len)
{
	struct shfs_bytes out = { g->text.data + g->text.len, len };

	if (g->text.cap - g->text.len <= len)
		die("strings", -ENOBUFS);
	shfs_buf_add(&g->text, data, len);
	return out;
}

/* The next record, to be filled in. */
static struct shfs_record *next_batch_record(struct gen *g, enum shfs_record_type type)
{
	struct shfs_record *rec;

	if (g->n_batch == BATCH || (g->n_batch && g->boot_ns - g->batch_ns > BATCH_NS))
		append_batch(g);
	if (!g->n_batch)
		g->batch_ns = g->boot_ns;
	rec = &g->batch[g->n_batch++];
	*rec = (struct shfs_record){ .type = type,
		                     .seq = ++g->seq,
		                     .time = at(g, g->boot_ns),
		                     .boot_resolution_ns = 1 };
	return rec;
}

static struct shfs_content content(const struct gen *g, uint64_t file)
{
	uint64_t x = mix(file * 0x10001 + g->version[file] + ((uint64_t)1 << 40)),
		 y = mix(x + 1);
	struct shfs_content c = {
		.flags = SHFS_CONTENT_KNOWN | SHFS_CONTENT_PHASH,
		.mode = 0100644,
		.size = ((uint64_t)64 << mix(file) % 13) + x % 1000,
		.mtime_ns = g->mtime[file],
		.ctime_ns = g->mtime[file],
		.phash = mix(x + 2),
	};

	/* Of files that are only read, scripts alone are archived. */
	if (mix(file + 5) % 10 < 3) {
		c.flags |= mix(file + 6) % 2 ? SHFS_CONTENT_SKIP_SIZE : 0;
		return c;
	}
	if (g->written[file] != g->mount && mix(file + 7) % 8)
		return c;
	c.flags |= SHFS_CONTENT_OBJECT;
	memcpy(c.object.hash, &x, 8);
	memcpy(c.object.hash + 8, &y, 8);
	return c;
}

/* An access of a few hundred microseconds. */
static void access_file(struct gen *g, uint64_t process, uint64_t file, uint32_t flags)
{
	uint64_t begin = g->boot_ns;
	struct shfs_record *rec;
	char path[256];

	g->boot_ns += draw_exponential(g, 90000);
	if (flags & SHFS_ACCESS_WRITTEN) {
		g->version[file]++;
		g->written[file] = g->mount;
		g->mtime[file] = at(g, g->boot_ns).real_ns;
	}
	g->boot_ns += draw_exponential(g, 20000);
	rec = next_batch_record(g, SHFS_REC_ACCESS);
	file_path(file, path, sizeof(path));
	rec->access = (struct shfs_rec_access){
		.process = process,
		.flags = flags,
		.begin = at(g, begin),
		.last = at(g, flags & SHFS_ACCESS_WRITTEN ? g->mtime[file] - g->clock_ns
		                                          : (int64_t)begin),
		.path = keep_batch_text(g, path, strlen(path)),
		.dev = DEV,
		.ino = 1000000 + file,
	};
	if (flags & SHFS_ACCESS_READ)
		rec->access.seen = content(g, file);
	if (flags & SHFS_ACCESS_WRITTEN)
		rec->access.made = content(g, file);
	g->accesses++;
}

static struct shfs_record *path_op(struct gen *g, uint64_t process, enum shfs_pathop op,
                                   const char *path, const char *path2)
{
	struct shfs_record *rec = next_batch_record(g, SHFS_REC_PATHOP);

	rec->pathop = (struct shfs_rec_pathop){
		.process = process,
		.op = op,
		.path = keep_batch_text(g, path, strlen(path)),
		.path2 = keep_batch_text(g, path2, strlen(path2)),
	};
	g->pathops++;
	return rec;
}

/* --- processes --- */

static uint32_t next_pid(struct gen *g)
{
	g->last_pid = g->last_pid >= 4194303 ? 301 : g->last_pid + 1;
	return g->last_pid;
}

/* argv: its parts end in newlines. */
static uint64_t record_program_run(struct gen *g, const struct shell *shell, uint32_t pid,
                                   uint32_t ppid, uint64_t start, uint64_t parent_start,
                                   const char *exe, const char *argv)
{
	struct shfs_record *rec = next_batch_record(g, SHFS_REC_PROCESS);
	char text[4096];
	size_t len = strlen(argv);

	for (size_t i = 0; i < len; i++)
		text[i] = argv[i] == '\n' ? '\0' : argv[i];
	rec->process = (struct shfs_rec_process){
		.pid = pid,
		.ppid = ppid,
		.pgid = pid,
		.sid = shell->pid,
		.uid = 1000,
		.tty_nr = 34816,
		.start_ticks = start,
		.parent_start_ticks = parent_start,
		.exe = keep_batch_text(g, exe, strlen(exe)),
		.cwd = keep_batch_text(g, ROOT, strlen(ROOT)),
		.argv = keep_batch_text(g, text, len),
	};
	if (pid != shell->pid) {
		len = snprintf(text, sizeof(text), "%.8s-%u-%" PRIu64 "-%" PRIu64,
		               g->boot_id, shell->pid, shell->start_ticks, shell->number);
		rec->process.marker = keep_batch_text(g, text, len);
	}
	g->processes++;
	return rec->seq;
}

static uint64_t ticks(const struct gen *g)
{
	return g->boot_ns / (SECOND / 100);
}

/* A child of the shell or (parent) of one of its children. */
static uint64_t run_program(struct gen *g, struct shell *shell, uint32_t parent,
                            uint64_t parent_start, const char *exe, const char *argv,
                            uint32_t *pid)
{
	g->boot_ns += 300000 + draw_exponential(g, 500000);
	if (!shell->process)
		shell->process =
			record_program_run(g, shell, shell->pid, 900, shell->start_ticks,
		                           1000, "/usr/bin/bash", "bash");
	*pid = next_pid(g);
	return record_program_run(g, shell, *pid, parent ? parent : shell->pid, ticks(g),
	                          parent ? parent_start : shell->start_ticks, exe, argv);
}

/* --- hook logs --- */

static void log_head(struct gen *g, struct shell *shell, const char *tag)
{
	fprintf(shell->log, "\x1e%s%c%" PRIu64 "%c", tag, 0, ++shell->log_seq, 0);
}

static void log_clocks(const struct gen *g, struct shell *shell)
{
	int64_t real = at(g, g->boot_ns).real_ns;

	fprintf(shell->log, "%" PRId64 ".%06" PRId64 "%c%" PRIu64 ".%09" PRIu64 "%c",
	        (int64_t)(real / SECOND), (int64_t)(real % SECOND / 1000), 0,
	        (uint64_t)(g->boot_ns / SECOND), (uint64_t)(g->boot_ns % SECOND), 0);
}

static void log_tail(struct shell *shell)
{
	fprintf(shell->log, "%" PRIu64 "%c\n", shell->log_seq, 0);
}

static void shell_end(struct shell *shell)
{
	if (shell->log && fclose(shell->log))
		die("hook log", -errno);
	shell->log = NULL;
}

static void shell_begin(struct gen *g, struct shell *shell)
{
	char name[100];
	int fd;

	*shell = (struct shell){ .pid = next_pid(g),
		                 .start_ticks = ticks(g),
		                 .left = 10 + draw_exponential(g, 40) };
	snprintf(name, sizeof(name), "shell-%.8s-%u-%" PRIu64 ".log", g->boot_id,
	         shell->pid, shell->start_ticks);
	fd = openat(g->store->journal_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
	            0600);
	shell->log = fd < 0 ? NULL : fdopen(fd, "w");
	if (!shell->log)
		die(name, -errno);
	g->boot_ns += SECOND / 10;
	log_head(g, shell, "S1");
	fprintf(shell->log, "%u%c%" PRIu64 "%c%s%c0%c", shell->pid, 0, shell->start_ticks,
	        0, g->boot_id, 0, 0);
	log_clocks(g, shell);
	fprintf(shell->log, "%s%cbash%c/dev/pts/%u%c%s%c", g->store->host, 0, 0,
	        shell->pid % 9, 0, ROOT, 0);
	log_tail(shell);
}

static void command_begin(struct gen *g, struct shell *shell, const char *text)
{
	log_head(g, shell, "B1");
	fprintf(shell->log, "%" PRIu64 "%c", ++shell->number, 0);
	log_clocks(g, shell);
	fprintf(shell->log, "%u%c0%c%s%c%s%c", g->last_pid, 0, 0, ROOT, 0, text, 0);
	log_tail(shell);
}

static void command_end(struct gen *g, struct shell *shell)
{
	g->boot_ns += draw_exponential(g, 2000000);
	log_head(g, shell, "F1");
	fprintf(shell->log, "%" PRIu64 "%c", shell->number, 0);
	log_clocks(g, shell);
	fprintf(shell->log, "%u%c%u%c", g->last_pid, 0, draw_below(g, 12) ? 0 : 1, 0);
	log_tail(shell);
}

/* --- commands --- */

/* Some are looked at all the time, wherever they lie. */
static uint64_t draw_dir(struct gen *g)
{
	uint64_t dirs = (g->made + PER_DIRECTORY - 1) / PER_DIRECTORY;

	return draw_zipf(g, g->n_dirs) * 7919 % g->n_dirs % dirs;
}

static uint64_t file_of_dir(const struct gen *g, uint64_t dir, uint64_t nth)
{
	return MIN(dir * PER_DIRECTORY + nth % PER_DIRECTORY, g->made - 1);
}

static uint64_t draw_file(struct gen *g)
{
	return file_of_dir(g, draw_dir(g), draw_zipf(g, PER_DIRECTORY));
}

static void import(struct gen *g, struct shell *shell)
{
	uint64_t until = MIN(g->made + PER_IMPORT, g->n_files);
	char text[200], path[256];
	uint32_t pid;
	uint64_t process;

	snprintf(text, sizeof(text), "tar xf ../incoming-%" PRIu64 ".tar.gz", g->made);
	command_begin(g, shell, text);
	process = run_program(g, shell, 0, 0, "/usr/bin/tar",
	                      "tar\nxf\n../incoming.tar.gz", &pid);
	for (; g->made < until; g->made++) {
		if (g->made % PER_DIRECTORY == 0) {
			dir_path(g->made / PER_DIRECTORY, path, sizeof(path));
			path_op(g, process, SHFS_OP_MKDIR, path, "")->pathop.directory =
				1;
		}
		access_file(g, process, g->made,
		            SHFS_ACCESS_WRITTEN | SHFS_ACCESS_CREATED);
	}
}

static void play_grep(struct gen *g, struct shell *shell, uint64_t n)
{
	uint64_t dir = draw_dir(g), process;
	char text[200];
	uint32_t pid;

	snprintf(text, sizeof(text), "grep -rn '%s_%s' .", word_at(draw_below(g, 999)),
	         word_at(draw_below(g, 999)));
	command_begin(g, shell, text);
	process = run_program(g, shell, 0, 0, "/usr/bin/grep", "grep\n-rn\npattern\n.",
	                      &pid);
	for (uint64_t i = 0; i < n; i++)
		access_file(g, process, (dir * PER_DIRECTORY + i) % g->made,
		            SHFS_ACCESS_READ);
}

static void play_build(struct gen *g, struct shell *shell, uint64_t n)
{
	uint64_t dir = draw_dir(g), parent_start;
	uint64_t include[3] = { draw_dir(g), draw_dir(g), draw_dir(g) };
	char argv[600], path[256];
	uint32_t make, pid;

	command_begin(g, shell, "make -j8");
	run_program(g, shell, 0, 0, "/usr/bin/make", "make\n-j8", &make);
	parent_start = ticks(g);
	for (uint64_t i = 0; i < n; dir += i % 10 == 0) {
		uint64_t source = file_of_dir(g, dir % ((g->made + 49) / 50), i), process;
		uint64_t reads = 5 + draw_exponential(g, 15);

		reads = MIN(reads, n - i);
		file_path(source, path, sizeof(path));
		snprintf(argv, sizeof(argv),
		         "cc\n-O2\n-Wall\n-Iinclude\n-c\n%s\n-o\n%s.o", path, path);
		process = run_program(g, shell, make, parent_start,
		                      "/usr/lib/gcc/x86_64-linux-gnu/12/cc1", argv, &pid);
		access_file(g, process, source, SHFS_ACCESS_READ);
		for (uint64_t k = 1; k + 2 < reads; k++)
			access_file(g, process,
			            k % 8 ? file_of_dir(g, include[k % 3],
			                                draw_zipf(g, PER_DIRECTORY))
			                  : draw_file(g),
			            SHFS_ACCESS_READ);
		for (uint64_t k = 0; k < 2 && reads > 2; k++)
			access_file(g, process,
			            file_of_dir(g, source / 50, source + 1 + k),
			            SHFS_ACCESS_WRITTEN | SHFS_ACCESS_TRUNCATED);
		i += reads;
	}
}

static void script(struct gen *g, struct shell *shell, uint64_t n)
{
	char text[400], path[256];
	uint64_t process, file = draw_file(g);
	uint32_t pid;

	file_path(file, path, sizeof(path));
	snprintf(text, sizeof(text),
	         "python3 analyse.py --threads 4 %s > result.%" PRIu64, path,
	         draw_below(g, 100));
	command_begin(g, shell, text);
	snprintf(text, sizeof(text), "python3\nanalyse.py\n--threads\n4\n%s", path);
	process = run_program(g, shell, 0, 0, "/usr/bin/python3.11", text, &pid);
	for (uint64_t i = 0; i < n; i++)
		access_file(g, process, i ? draw_file(g) : file,
		            i % 3 == 2 ? SHFS_ACCESS_WRITTEN | SHFS_ACCESS_TRUNCATED
		                       : SHFS_ACCESS_READ);
}

/* Saves as most do: a new file takes the place of the old one. */
static void edit(struct gen *g, struct shell *shell, uint64_t n)
{
	uint64_t file = draw_file(g), process;
	char text[400], path[256], other[300];
	struct shfs_record *rec;
	uint32_t pid;

	file_path(file, path, sizeof(path));
	snprintf(text, sizeof(text), "vim %s", path);
	command_begin(g, shell, text);
	snprintf(text, sizeof(text), "vim\n%s", path);
	process = run_program(g, shell, 0, 0, "/usr/bin/vim.basic", text, &pid);
	for (uint64_t i = 0; i < n; i += 2) {
		struct shfs_content old;

		access_file(g, process, file, SHFS_ACCESS_READ);
		if (i + 1 == n)
			return;
		g->boot_ns += draw_exponential(g, 20e9);
		old = content(g, file);
		access_file(g, process, file, SHFS_ACCESS_WRITTEN | SHFS_ACCESS_CREATED);
		snprintf(other, sizeof(other), "%s.swp", path);
		rec = &g->batch[g->n_batch - 1];
		rec->access.path = keep_batch_text(g, other, strlen(other));
		rec = path_op(g, process, SHFS_OP_RENAME, other, path);
		rec->pathop.content = content(g, file);
		rec->pathop.victim = old;
	}
}

/* Of the chain: the next file from the one before. */
static void link_one(struct gen *g, struct shell *shell)
{
	char text[600], from[256], to[256];
	uint64_t process;
	uint32_t pid;

	file_path(g->links, from, sizeof(from));
	file_path(g->links + 1, to, sizeof(to));
	snprintf(text, sizeof(text), "python3 step.py %s %s", from, to);
	command_begin(g, shell, text);
	snprintf(text, sizeof(text), "python3\nstep.py\n%s\n%s", from, to);
	process = run_program(g, shell, 0, 0, "/usr/bin/python3.11", text, &pid);
	access_file(g, process, g->links, SHFS_ACCESS_READ);
	access_file(g, process, ++g->links, SHFS_ACCESS_WRITTEN | SHFS_ACCESS_TRUNCATED);
}

static void play_command(struct gen *g, struct shell *shell, uint64_t i, uint64_t n)
{
	if (g->chain && i % 2 && g->links + 1 < g->n_files)
		link_one(g, shell);
	else if (g->chain)
		play_grep(g, shell, n);
	else if (n <= 6 && draw_below(g, 3))
		edit(g, shell, n);
	else if (n > 100 && draw_below(g, 8) == 0)
		play_grep(g, shell, n);
	else if (n > 20)
		play_build(g, shell, n);
	else
		script(g, shell, n);
}

/* --- the whole --- */

/* A mount ends and the next one begins. */
static void begin_next_mount(struct gen *g)
{
	struct shfs_journal_options options = { .kind = "fuse", .root = ROOT };
	int r;

	append_batch(g);
	r = shfs_journal_close(g->journal);
	if (!r)
		r = shfs_journal_open(g->store, &options, &g->journal);
	if (r)
		die("journal", r);
	g->seq = 0;
	g->mount++;
	for (int i = 0; i < SHELLS; i++)
		g->shells[i].process = 0;
}

/* How much the next of so many commands does of the rest: mostly little. */
static uint64_t draw_share(struct gen *g, uint64_t rest, uint64_t commands)
{
	double mean = (double)rest / commands;
	uint64_t n = draw_exponential(g, draw_below(g, 10) ? mean * 0.3 : mean * 7.3);

	return commands > 1 ? MIN(n, rest) : rest;
}

static uint64_t imports(uint64_t files)
{
	return (files + PER_IMPORT - 1) / PER_IMPORT;
}

static void generate(struct gen *g, uint64_t commands, uint64_t accesses)
{
	uint64_t every = commands / imports(g->n_files), begin = g->boot_ns;

	for (uint64_t i = 0; i < commands; i++) {
		struct shell *shell = &g->shells[draw_below(g, SHELLS)];
		uint64_t to_make = imports(g->n_files - g->made);
		uint64_t others = commands - i - to_make;
		uint64_t rest = accesses - g->accesses - (g->n_files - g->made);

		if (i % MAX(commands / MOUNTS, (uint64_t)1) == 0)
			begin_next_mount(g);
		g->boot_ns = MAX(g->boot_ns + SECOND, begin + YEAR_NS / commands * i);
		if (!shell->left) {
			shell_end(shell);
			shell_begin(g, shell);
		}
		shell->left--;
		if (to_make && (g->chain || i % every == 0 || !others))
			import(g, shell);
		else
			play_command(g, shell, i, draw_share(g, rest, others));
		command_end(g, shell);
		append_batch(g);
	}
}

static void gen_open(struct gen *g, const char *path, uint64_t files)
{
	_cleanup_free_ char *absolute = shfs_path_absolute(path);
	int r = absolute ? shfs_store_open(absolute, SHFS_STORE_CREATE, &g->store)
	                 : -ENOMEM;

	if (r)
		die(path, r);
	r = shfs_proc_boot_id(g->boot_id);
	if (r)
		die("boot id", r);
	g->n_files = files;
	g->n_dirs = (files + PER_DIRECTORY - 1) / PER_DIRECTORY;
	g->written = calloc(files, sizeof(*g->written));
	g->version = calloc(files, sizeof(*g->version));
	g->mtime = calloc(files, sizeof(*g->mtime));
	g->text.data = malloc(BATCH * STRINGS_MAX);
	g->text.cap = BATCH * STRINGS_MAX;
	if (!g->written || !g->version || !g->mtime || !g->text.data)
		die("memory", -ENOMEM);
	g->boot_ns = 3600 * SECOND;
	g->clock_ns = shfs_clock_ns(CLOCK_REALTIME) - YEAR_NS - 7200 * SECOND;
	g->clock_ns -= g->clock_ns % 1000;
	g->last_pid = 1000;
}

static void gen_close(struct gen *g)
{
	int r = shfs_journal_close(g->journal);

	if (r)
		die("journal", r);
	for (int i = 0; i < SHELLS; i++)
		shell_end(&g->shells[i]);
	shfs_store_close(g->store);
	shfs_buf_free(&g->text);
	free(g->written);
	free(g->version);
	free(g->mtime);
}

static _Noreturn void usage(void)
{
	fprintf(stderr,
	        "usage: gen-journal STORE [--commands N] [--files N] [--accesses N]"
	        " [--seed N] [--chain]\n"
	        "N: at least one file, a command for each %d files and one more, and"
	        " more accesses than files\n",
	        PER_IMPORT);
	exit(2);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "commands", required_argument, NULL, 'c' },
		{ "files", required_argument, NULL, 'f' },
		{ "accesses", required_argument, NULL, 'a' },
		{ "seed", required_argument, NULL, 's' },
		{ "chain", no_argument, NULL, 'l' },
		{ 0 }
	};
	uint64_t commands = 50000, files = 1000000, accesses = 10000000;
	struct gen g = { .random = 1 };
	char last[256];
	int o;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		uint64_t n = optarg ? strtoull(optarg, NULL, 10) : 0;

		switch (o) {
		case 'c':
			commands = n;
			break;
		case 'f':
			files = n;
			break;
		case 'a':
			accesses = n;
			break;
		case 's':
			g.random = n;
			break;
		case 'l':
			g.chain = true;
			break;
		default:
			usage();
		}
	}
	if (optind + 1 != argc || !files || commands <= imports(files) ||
	    accesses <= files)
		usage();
	gen_open(&g, argv[optind], files);
	generate(&g, commands, accesses);
	gen_close(&g);
	printf("commands=%" PRIu64 "\nfiles=%" PRIu64 "\naccesses=%" PRIu64
	       "\nprocesses=%" PRIu64 "\npathops=%" PRIu64 "\nrecords=%" PRIu64 "\n",
	       commands, files, g.accesses, g.processes, g.pathops, g.records);
	if (g.chain) {
		file_path(g.links, last, sizeof(last));
		printf("links=%" PRIu64 "\nlast=" ROOT "/%s\n", g.links, last);
	}
	return 0;
}
