/* SPDX-License-Identifier: MIT */
#include "query/history/clocks.h"

#include "common/proc.h"
#include "query/history/filter.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define HOSTS_MAX 256 /* more than these are taken as right */

/* Two hosts whose clocks are compared: between least and most must be added to the times
 * of `to`, so that they are those of `from`. */
struct tie {
	char *from, *to;
	int64_t least, most;
};

struct ties {
	struct tie *list;
	size_t n;
};

static void ties_clear(struct ties *ties)
{
	for (size_t i = 0; i < ties->n; i++) {
		free(ties->list[i].from);
		free(ties->list[i].to);
	}
	free(ties->list);
}

/* A command that has not ended, as far as is known, sets no most. */
#define TIES                                                                             \
	"SELECT p.host, s.host, max(p.begin_ns - s.begin_ns),"                           \
	" min(coalesce(p.end_ns - max(s.begin_ns, coalesce(s.end_ns, 0)),"               \
	" 9223372036854775807))"                                                         \
	" FROM v_session s JOIN v_command p ON p.command_id = s.caller_id"               \
	" WHERE s.origin IS NOT NULL AND p.host <> s.host GROUP BY 1, 2"

static int load_ties(struct shfs_index *index, struct ties *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(index, TIES, &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		struct tie *grown = reallocarray(out->list, out->n + 1, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		out->list = grown;
		grown[out->n++] = (struct tie){
			.from = strdup(shfs_rows_text(rows, 0) ?: ""),
			.to = strdup(shfs_rows_text(rows, 1) ?: ""),
			.least = shfs_rows_int(rows, 2),
			.most = shfs_rows_int(rows, 3),
		};
		if (!grown[out->n - 1].from || !grown[out->n - 1].to)
			return -ENOMEM;
		r = 0;
	}
	return r;
}

static int64_t difference(int64_t least, int64_t most)
{
	if (least <= 0 && most >= 0)
		return 0;
	if (most == INT64_MAX || least > most) /* one was set meanwhile */
		return least;
	return least + (most - least) / 2;
}

/* Finds what must be added to the times of `to`, if the clock of `from` is right. false:
 * nothing ties them. */
static bool is_tied(const struct ties *ties, const char *from, const char *to,
                    int64_t *add_ns)
{
	int64_t least = INT64_MIN, most = INT64_MAX;

	for (size_t i = 0; i < ties->n; i++) {
		const struct tie *t = &ties->list[i];

		if (!strcmp(t->from, from) && !strcmp(t->to, to)) {
			least = MAX(least, t->least);
			most = MIN(most, t->most);
		} else if (!strcmp(t->from, to) && !strcmp(t->to, from)) {
			least = MAX(least, t->most == INT64_MAX ? INT64_MIN : -t->most);
			most = MIN(most, -t->least);
		}
	}
	if (least == INT64_MIN && most == INT64_MAX)
		return false;
	*add_ns = least == INT64_MIN ? MIN(most, 0) : difference(least, most);
	return true;
}

static bool is_known(const struct shfs_clocks *clocks, const char *host)
{
	for (size_t i = 0; i < clocks->n; i++)
		if (!strcmp(clocks->list[i].host, host))
			return true;
	return false;
}

static int know(struct shfs_clocks *clocks, const char *host, int64_t add_ns)
{
	struct shfs_clock *grown =
		reallocarray(clocks->list, clocks->n + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	clocks->list = grown;
	grown[clocks->n].host = strdup(host);
	grown[clocks->n].add_ns = add_ns;
	return grown[clocks->n++].host ? 0 : -ENOMEM;
}

/* From host to host, those next to this one first. */
static int follow(const struct ties *ties, struct shfs_clocks *clocks)
{
	for (size_t i = 0; i < clocks->n && clocks->n < HOSTS_MAX; i++) {
		for (size_t k = 0; k < 2 * ties->n; k++) {
			const struct tie *t = &ties->list[k / 2];
			const char *to = k % 2 ? t->from : t->to;
			int64_t add_ns;
			int r;

			if (is_known(clocks, to) ||
			    !is_tied(ties, clocks->list[i].host, to, &add_ns))
				continue;
			r = know(clocks, to, clocks->list[i].add_ns + add_ns);
			if (r)
				return r;
		}
	}
	return 0;
}

int shfs_clocks_load(struct shfs_index *index, struct shfs_clocks *out)
{
	char here[65];
	_cleanup_(ties_clear) struct ties ties = { 0 };
	size_t n = 0;
	int r = load_ties(index, &ties);

	*out = (struct shfs_clocks){ 0 };
	if (r || !ties.n)
		return r;
	shfs_proc_host(here);
	r = know(out, here, 0);
	if (!r)
		r = follow(&ties, out);
	for (size_t i = 0; i < out->n; i++) {
		if (out->list[i].add_ns)
			out->list[n++] = out->list[i];
		else
			free(out->list[i].host);
	}
	out->n = n;
	if (r)
		shfs_clocks_clear(out);
	return r;
}

void shfs_clocks_clear(struct shfs_clocks *clocks)
{
	for (size_t i = 0; i < clocks->n; i++)
		free(clocks->list[i].host);
	free(clocks->list);
	*clocks = (struct shfs_clocks){ 0 };
}

int64_t shfs_clocks_add(const struct shfs_clocks *clocks, const char *host)
{
	for (size_t i = 0; i < clocks->n; i++)
		if (!strcmp(clocks->list[i].host, host))
			return clocks->list[i].add_ns;
	return 0;
}

void shfs_clocks_query(const struct shfs_clocks *clocks, struct shfs_query *q,
                       const char *expr, const char *column)
{
	shfs_buf_str(&q->sql, expr);
	if (clocks->n)
		shfs_buf_printf(&q->sql, " + CASE %s", column);
	for (size_t i = 0; i < clocks->n; i++)
		shfs_buf_printf(&q->sql, " WHEN ?%d THEN %" PRId64,
		                shfs_query_str(q, clocks->list[i].host),
		                clocks->list[i].add_ns);
	if (clocks->n)
		shfs_buf_str(&q->sql, " ELSE 0 END");
}
