/* SPDX-License-Identifier: MIT */
#include "store/capture/allowance.h"

#include "common/clock.h"
#include "store/capture/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define USERS_MAX 256 /* further users share the last entry */
#define DAY_NS    (86400 * SHFS_NSEC_PER_SEC)

struct shfs_allowance {
	pthread_mutex_t lock;
	uint64_t bytes;
	size_t n;
	struct user {
		uid_t uid;
		double left;   /* bytes */
		int64_t at_ns; /* when so much was left */
		bool told;     /* it was logged as used up, since it was full last */
	} users[USERS_MAX];
};

int shfs_allowance_new(uint64_t bytes, struct shfs_allowance **out)
{
	struct shfs_allowance *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	pthread_mutex_init(&a->lock, NULL);
	a->bytes = bytes;
	*out = a;
	return 0;
}

void shfs_allowance_free(struct shfs_allowance *a)
{
	if (!a)
		return;
	pthread_mutex_destroy(&a->lock);
	free(a);
}

static struct user *user_of(struct shfs_allowance *a, uid_t uid, int64_t now_ns)
{
	size_t i = 0;

	while (i < a->n && a->users[i].uid != uid)
		i++;
	if (i == USERS_MAX)
		return &a->users[USERS_MAX - 1];
	if (i == a->n)
		a->users[a->n++] = (struct user){ uid, (double)a->bytes, now_ns, false };
	return &a->users[i];
}

static void give_back(const struct shfs_allowance *a, struct user *user, int64_t now_ns)
{
	double whole = (double)a->bytes;
	double more = whole * (double)(now_ns - user->at_ns) / DAY_NS;

	user->left = MIN(user->left + MAX(more, 0.0), whole);
	user->at_ns = now_ns;
	if (user->left >= whole)
		user->told = false;
}

static bool has_no_bound(uid_t uid)
{
	return !uid || uid == geteuid();
}

bool shfs_allowance_is_left(struct shfs_allowance *a, uid_t uid, int64_t now_ns)
{
	struct user *user;
	bool is_left, tell;

	if (has_no_bound(uid))
		return true;
	pthread_mutex_lock(&a->lock);
	user = user_of(a, uid, now_ns);
	give_back(a, user, now_ns);
	is_left = user->left > 0;
	tell = !is_left && !user->told;
	user->told |= tell;
	pthread_mutex_unlock(&a->lock);
	if (tell)
		shfs_log("contents of user %u are not archived for now: see "
		         "other-users in shfs-config(5)",
		         (unsigned)uid);
	return is_left;
}

void shfs_allowance_use(struct shfs_allowance *a, uid_t uid, uint64_t bytes,
                        int64_t now_ns)
{
	struct user *user;

	if (has_no_bound(uid))
		return;
	pthread_mutex_lock(&a->lock);
	user = user_of(a, uid, now_ns);
	give_back(a, user, now_ns);
	user->left -= (double)bytes;
	pthread_mutex_unlock(&a->lock);
}
