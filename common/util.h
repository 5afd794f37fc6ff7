/* SPDX-License-Identifier: MIT */
/*
 * util.h - basics of every file: scope-bound cleanup, checked results, small macros.
 *
 * Results are int: 0 or a count, or a negative errno. An out-parameter comes last and is
 * written only on success.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define _must_check_        __attribute__((warn_unused_result))
#define _cleanup_(f)        __attribute__((cleanup(f)))
#define _printf_(fmt, args) __attribute__((format(printf, fmt, args)))
#define _unused_            __attribute__((unused))

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)     ((a) < (b) ? (a) : (b))
#define MAX(a, b)     ((a) > (b) ? (a) : (b))

/*
 * Asserts an invariant, which no input, no damage and no full disk can break, only a bug
 * of ours. The developer build (SHFS_ASSERTS: each build with a sanitizer) prints the
 * condition and aborts; the release compiles it, but does not evaluate it.
 */
#ifdef SHFS_ASSERTS
#define shfs_assert(condition)                                                           \
	((condition) ? (void)0                                                           \
	             : shfs_assert_failed(#condition, __FILE__, __LINE__, __func__))
#else
#define shfs_assert(condition) ((void)sizeof(!(condition)))
#endif
__attribute__((noreturn)) void shfs_assert_failed(const char *condition, const char *file,
                                                  int line, const char *function);

/* Asserts that this mutex is held (by any thread, which is the caller by convention). */
#define shfs_assert_held(mutex) shfs_assert(pthread_mutex_trylock(mutex) != 0)

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Moves the ownership of a pointer or fd: the variable no longer owns it. */
#define TAKE_PTR(p)                                                                      \
	({                                                                               \
		typeof(p) p_ = (p);                                                      \
		(p) = NULL;                                                              \
		p_;                                                                      \
	})
#define TAKE_FD(fd)                                                                      \
	({                                                                               \
		int fd_ = (fd);                                                          \
		(fd) = -1;                                                               \
		fd_;                                                                     \
	})

/* Makes room for one more entry in a list of n entries with room for cap. False: no
 * memory.
 */
#define MAKE_ROOM(list, n, cap)                                                          \
	({                                                                               \
		void *grown_ = shfs_grow(list, n, &(cap), sizeof(*(list)));              \
		(list) = grown_ ? grown_ : (list);                                       \
		grown_ != NULL;                                                          \
	})

static inline void *shfs_grow(void *list, size_t n, size_t *cap, size_t size)
{
	size_t more = MAX(*cap * 2, (size_t)4);

	if (n < *cap)
		return list;
	list = reallocarray(list, more, size);
	if (list)
		*cap = more;
	return list;
}

/* Compares for qsort and bsearch of int64_t, ascending. */
static inline int shfs_compare_int64(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static inline bool shfs_is_zero(const unsigned char *p, size_t n)
{
	return !n || (!*p && !memcmp(p, p + 1, n - 1));
}

static inline bool shfs_ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), n = strlen(end);

	return len >= n && !strcmp(text + len - n, end);
}

static inline void shfs_freep(void *p)
{
	free(*(void **)p);
}

/* Closes *fd unless it is negative, and keeps errno. */
void shfs_closep(int *fd);

static inline void shfs_fclosep(FILE **f)
{
	if (*f)
		fclose(*f);
}

#define _cleanup_free_   _cleanup_(shfs_freep)
#define _cleanup_close_  _cleanup_(shfs_closep)
#define _cleanup_fclose_ _cleanup_(shfs_fclosep)
