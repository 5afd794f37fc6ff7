/* SPDX-License-Identifier: MIT */
#include "browse/notices.h"

#include <errno.h>
#include <pthread.h>

struct shfs_notices {
	struct fuse_session *session;
	pthread_t thread;
	pthread_mutex_t lock; /* of the rest */
	pthread_cond_t changed;
	fuse_ino_t *list;
	size_t n;
	bool end;
};

static void *give_notices(void *arg)
{
	struct shfs_notices *s = arg;

	pthread_mutex_lock(&s->lock);
	while (!s->end) {
		_cleanup_free_ fuse_ino_t *list = TAKE_PTR(s->list);
		size_t n = s->n;

		s->n = 0;
		if (!n) {
			pthread_cond_wait(&s->changed, &s->lock);
			continue;
		}
		pthread_mutex_unlock(&s->lock);
		/* a node may be gone by now, or another one have its number: neither
		 * does harm */
		for (size_t i = 0; i < n; i++)
			(void)!fuse_lowlevel_notify_inval_inode(s->session, list[i], 0,
			                                        0);
		pthread_mutex_lock(&s->lock);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

int shfs_notices_start(struct fuse_session *session, struct shfs_notices **out)
{
	struct shfs_notices *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->session = session;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	r = -pthread_create(&s->thread, NULL, give_notices, s);
	if (r)
		free(s);
	else
		*out = s;
	return r;
}

void shfs_notices_end(struct shfs_notices *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->end = true;
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	free(s->list);
	free(s);
}

int shfs_notices_add(struct shfs_notices *s, const struct shfs_nodes *nodes)
{
	fuse_ino_t *list = reallocarray(NULL, nodes->n + 1, sizeof(*list));
	size_t n = 0;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < nodes->size; i++)
		for (const struct shfs_node *node = nodes->table[i]; node;
		     node = node->next)
			list[n++] = (uintptr_t)node;
	pthread_mutex_lock(&s->lock);
	free(s->list); /* all of them are in the new list, or gone */
	s->list = list;
	s->n = n;
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return 0;
}
