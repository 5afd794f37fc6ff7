/* SPDX-License-Identifier: MIT */
/* "Did you mean": the word that is most like a mistyped one. */
#include "query/base/context.h"

#include <string.h>

#define WORD_MAX 32

/* Optimal string alignment: an inserted, lost, wrong or swapped letter counts one. */
static size_t distance(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);
	size_t d[WORD_MAX + 1][WORD_MAX + 1];

	if (n > WORD_MAX || m > WORD_MAX)
		return SIZE_MAX;
	for (size_t i = 0; i <= n; i++)
		d[i][0] = i;
	for (size_t j = 0; j <= m; j++)
		d[0][j] = j;
	for (size_t i = 1; i <= n; i++) {
		for (size_t j = 1; j <= m; j++) {
			size_t best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);

			best = MIN(best, MIN(d[i - 1][j], d[i][j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
			    a[i - 2] == b[j - 1])
				best = MIN(best, d[i - 2][j - 2] + 1);
			d[i][j] = best;
		}
	}
	return d[n][m];
}

const char *shfs_suggest(const char *word, const char *const *names, size_t n)
{
	size_t len = strlen(word), best = SIZE_MAX;
	const char *name = NULL;

	for (size_t i = 0; i < n; i++) {
		size_t d = distance(word, names[i]);

		if (len >= 2 && !strncmp(word, names[i], len))
			d = MIN(d, 1);
		if (d < best) {
			best = d;
			name = names[i];
		}
	}
	return name && best <= MAX(1, len / 3) ? name : NULL;
}
