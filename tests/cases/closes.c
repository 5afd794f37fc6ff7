/* SPDX-License-Identifier: MIT */
/*
 * Processes that write, close and rewrite the same few files at full speed, each content
 * describing itself, and that tell what each close left.
 *
 *   closes LOG SECONDS PROCESSES FILES
 *
 * In the working directory: t0, t1, ... are written by all processes in turn, in each way
 * that programs have to save a file; LOG.t0, ... have a line for each close, in their
 * order: "left" (or "maybe", where it may go unseen), the way, and the XXH3-128 of
 * what was left. f0, f1, ... (half as many)
 * are written by all at once, each time whole and by one write; LOG.f0, ... have for each
 * when it began, when its write had returned, and when its close had, as ticks of one
 * counter; then the hash.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SIZE_MAX_OF_FILE (400 << 10)
#define SIZE_OF_FREE     (40 << 10)

/* What a file of those that are written in turn holds, as we think; for all processes. */
struct model {
	size_t len;
	char data[SIZE_MAX_OF_FILE + 8192];
};

static struct model *models, *model;
static int turn; /* the log of the file whose turn it is */
static const char *log_prefix;
static atomic_ulong *ticks;
static char data[SIZE_MAX_OF_FILE + 4096];
static unsigned long sequence;
static unsigned seed;

static unsigned choose(unsigned n)
{
	return (unsigned)rand_r(&seed) % n;
}

static int try(int result, const char *what)
{
	if (result < 0)
		err(1, "%s", what);
	return result;
}

static int open_log(const char *name, int flags)
{
	char path[512];

	snprintf(path, sizeof(path), "%s.%s", log_prefix, name);
	return try(open(path, flags | O_CREAT | O_CLOEXEC, 0644), path);
}

/* A content that says whose it is, with its length and a sum of the rest. */
static size_t describe(size_t len)
{
	int n = snprintf(data, sizeof(data), "%d %lu %zu ", getpid(), ++sequence, len);
	unsigned sum = 0;

	for (size_t i = (size_t)n; i < len; i++) {
		data[i] = (char)('a' + (i * 7 + sequence) % 26);
		sum = sum * 31 + (unsigned char)data[i];
	}
	return len + (size_t)snprintf(data + len, sizeof(data) - len, "%u\n", sum);
}

static void write_parts(int fd, size_t len, size_t parts)
{
	size_t done = 0;

	for (size_t i = 1; i <= parts; i++) {
		size_t end = i == parts ? len : len * i / parts;

		while (done < end) {
			ssize_t n = write(fd, data + done, end - done);

			try((int)n, "write");
			done += (size_t)n;
		}
	}
	try(close(fd), "close");
}

static size_t random_size(void)
{
	static const size_t sizes[] = { 40, 500, 9000, 16000, 17000, 70000, 380000 };

	return sizes[choose(choose(4) ? 5 : 7)] + choose(100);
}

static void tell(int log, const char *what, const void *content, size_t len)
{
	XXH128_hash_t hash = XXH3_128bits(content, len);
	char line[128];
	int n = snprintf(line, sizeof(line), "%s %016llx%016llx\n", what,
	                 (unsigned long long)hash.high64, (unsigned long long)hash.low64);

	if (write(log, line, (size_t)n) != n)
		err(1, "log");
}

/* --- in turn; each tells the model what it does --- */

static void now_holds(size_t offset, size_t len, bool cut)
{
	memcpy(model->data + offset, data, len);
	if (cut || model->len < offset + len)
		model->len = offset + len;
}

static void by_truncation(const char *name)
{
	size_t len = describe(random_size());

	now_holds(0, len, true);
	write_parts(try(open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644), name), len,
	            1 + choose(3));
}

static void by_rename(const char *name)
{
	size_t len = describe(random_size());
	char other[64];

	now_holds(0, len, true);
	snprintf(other, sizeof(other), "%s.%d", name, getpid());
	write_parts(try(open(other, O_WRONLY | O_CREAT | O_EXCL, 0644), other), len,
	            1 + choose(3));
	try(rename(other, name), "rename");
}

static void by_appending(const char *name)
{
	size_t len = describe(200 + choose(300));

	now_holds(model->len, len, false);
	write_parts(try(open(name, O_WRONLY | O_APPEND), name), len, 1 + choose(2));
}

static void in_place(const char *name)
{
	size_t len = describe(random_size());
	int fd = try(open(name, O_RDWR), name);
	bool cut = choose(2);

	now_holds(0, len, cut);
	if (cut)
		try(ftruncate(fd, (off_t)len), "ftruncate");
	write_parts(fd, len, 1 + choose(3));
}

static void by_mapping(const char *name)
{
	size_t len = describe(random_size());
	int fd = try(open(name, O_RDWR), name);
	bool early = choose(2);
	char *map;

	try(ftruncate(fd, (off_t)len), "ftruncate");
	map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		err(1, "mmap");
	if (early) {
		/* a close, and what it leaves may be captured; but nobody has to */
		if (len > model->len)
			memset(model->data + model->len, 0, len - model->len);
		model->len = len;
		tell(turn, "maybe mapping", model->data, len);
		try(close(fd), "close");
	}
	now_holds(0, len, true);
	memcpy(map, data, len);
	try(munmap(map, len), "munmap");
	if (!early)
		try(close(fd), "close");
}

static void anew(const char *name)
{
	size_t len = describe(random_size());

	now_holds(0, len, true);
	try(unlink(name), "unlink");
	write_parts(try(open(name, O_WRONLY | O_CREAT | O_EXCL, 0644), name), len, 1);
}

static const struct way {
	const char *name;
	void (*save)(const char *name);
} ways[] = {
	{ "truncation", by_truncation }, { "rename", by_rename },
	{ "append", by_appending },      { "in-place", in_place },
	{ "mapping", by_mapping },       { "anew", anew },
};

/* Anything may be there; but who reads must not disturb. */
static void look(const char *name)
{
	static char content[SIZE_MAX_OF_FILE];
	int fd = open(name, O_RDONLY);

	if (fd < 0 && errno == ENOENT)
		return;
	try(fd, name);
	try((int)read(fd, content, sizeof(content)), "read");
	try(close(fd), "close");
}

static void take_turn(unsigned n, bool first)
{
	const struct way *way =
		first ? ways : &ways[choose(sizeof(ways) / sizeof(*ways))];
	char name[16], what[64];

	snprintf(name, sizeof(name), "t%u", n);
	turn = open_log(name, O_WRONLY | O_APPEND);
	try(flock(turn, LOCK_EX), "flock");
	model = &models[n];
	if (way->save == by_appending && model->len > SIZE_MAX_OF_FILE)
		way = ways;
	way->save(name);
	snprintf(what, sizeof(what), "left %s", way->name);
	tell(turn, what, model->data, model->len);
	try(close(turn), "close");
	if (!choose(8))
		look(name);
}

/* --- all at once --- */

static void write_freely(const char *name)
{
	size_t len = describe(SIZE_OF_FREE);
	unsigned long begin, written, closed;
	int fd = try(open(name, O_WRONLY | O_CREAT, 0644), name);
	int log = open_log(name, O_WRONLY | O_APPEND);
	char what[64];

	/* all the same length, so that each write leaves none of the last */
	memset(data + len, ' ', SIZE_OF_FREE + 64 - len);
	len = SIZE_OF_FREE + 64;
	begin = atomic_fetch_add(ticks, 1);
	if (write(fd, data, len) != (ssize_t)len)
		err(1, "write");
	written = atomic_fetch_add(ticks, 1);
	try(close(fd), "close");
	closed = atomic_fetch_add(ticks, 1);
	snprintf(what, sizeof(what), "%lu %lu %lu", begin, written, closed);
	tell(log, what, data, len);
	try(close(log), "close");
}

static void work(double seconds, unsigned files)
{
	struct timespec begin, now;
	char name[16];

	seed = (unsigned)getpid();
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		take_turn(choose(files), false);
		snprintf(name, sizeof(name), "f%u", choose((files + 1) / 2));
		write_freely(name);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((double)(now.tv_sec - begin.tv_sec) +
	                 (double)(now.tv_nsec - begin.tv_nsec) / 1e9 <
	         seconds);
}

static void *shared(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
	                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		err(1, "mmap");
	return memory;
}

int main(int argc, char **argv)
{
	unsigned processes, files;
	int status, failed = 0;

	if (argc != 5)
		errx(2, "usage: closes LOG SECONDS PROCESSES FILES");
	log_prefix = argv[1];
	processes = (unsigned)atoi(argv[3]);
	files = (unsigned)atoi(argv[4]);
	ticks = shared(sizeof(*ticks));
	models = shared(files * sizeof(*models));
	for (unsigned i = 0; i < files; i++)
		take_turn(i, true);
	for (unsigned i = 0; i < processes; i++) {
		if (try(fork(), "fork"))
			continue;
		work(atof(argv[2]), files);
		_exit(0);
	}
	while (wait(&status) > 0)
		failed |= status;
	return failed ? 1 : 0;
}
