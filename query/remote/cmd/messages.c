/* SPDX-License-Identifier: MIT */
#include "query/remote/cmd/messages.h"

#include "query/base/cmd.h"

#include "common/quote.h"

#include <errno.h>
#include <string.h>

/* --- errors --- */

static void show(struct shfs_buf *out, const char *text)
{
	shfs_quote_display(out, text, strlen(text));
}

/* An error, and what the other side said of it. */
static int fail_by(const char *what, const char *shown, const char *why,
                   const struct shfs_remote *remote)
{
	_cleanup_buf_ struct shfs_buf said = { 0 };

	if (remote && *shfs_remote_why(remote))
		show(&said, shfs_remote_why(remote));
	shfs_error("cannot %s %s: %s%s%s", what, shown, why, said.len ? ": " : "",
	           said.data ?: "");
	return SHFS_EXIT_FAILURE;
}

static int refuse_by(const char *what, const char *shown, const char *why,
                     const char *hint)
{
	shfs_error("cannot %s %s: %s", what, shown, why);
	shfs_hint("%s", hint);
	return SHFS_EXIT_REFUSED;
}

int remote_fail(const char *what, const struct place *place,
                const struct shfs_remote *remote, int error)
{
	_cleanup_buf_ struct shfs_buf url = { 0 }, hint = { 0 };

	show(&url, place->url);
	switch (error) {
	case -ENOENT:
		fail_by(what, url.data ?: "", "there is no remote of shfs", remote);
		if (!strcmp(what, "clone"))
			shfs_hint(
				"shfs remote list, on the machine that has pushed, shows "
				"where to");
		else
			shfs_hint(
				"if it has moved: shfs remote remove %s, and shfs remote "
				"add",
				place->name);
		return SHFS_EXIT_NOT_FOUND;
	case -ENOTEMPTY:
		return refuse_by(what, url.data ?: "",
		                 "there is something that is no remote of shfs",
		                 "name another directory, which is empty or missing");
	case -EPROTONOSUPPORT:
		return refuse_by(what, url.data ?: "", "a newer shfs made what is there",
		                 "upgrade shfs");
	case -ENOKEY:
		shfs_buf_printf(
			&hint,
			"shfs remote remove %s, then shfs remote add %s: that one "
			"asks for the key",
			place->name, place->name);
		return refuse_by(what, url.data ?: "", "what is there is encrypted",
		                 hint.data ?: "");
	case -EKEYREVOKED:
		return refuse_by(
			what, url.data ?: "",
			"it is not the encrypted remote any more that was added",
			"find out who has changed it; shfs remote remove forgets "
			"the one that was there");
	case -ESTALE:
		shfs_buf_printf(&hint,
		                "shfs pull %s takes over what that one has pushed; then "
		                "push again",
		                place->name);
		return refuse_by(what, url.data ?: "",
		                 "another copy of this store has pushed there since",
		                 hint.data ?: "");
	case -EBUSY:
		return refuse_by(what, url.data ?: "",
		                 "a prune, gc, forget, repair or import is at work",
		                 "try again when it has ended");
	case -EINPROGRESS:
		return refuse_by(what, url.data ?: "",
		                 "an earlier shfs forget is not complete yet",
		                 "shfs forget --resume completes it");
	case -EBADMSG:
		fail_by(what, url.data ?: "", "something there is damaged", remote);
		shfs_hint("shfs remote check %s --read-data says what", place->name);
		return SHFS_EXIT_FAILURE;
	case -EUCLEAN:
		return refuse_by(
			what, url.data ?: "",
			"what is known here of a remote is damaged, and what was "
			"forgotten could come back",
			"remove that remote and add it again; then forget again "
			"what was forgotten");
	case -EOWNERDEAD:
		shfs_buf_printf(&hint,
		                "if it is lost for good: shfs remote remove %s; then add "
		                "it, and push again",
		                place->name);
		return refuse_by(what, url.data ?: "",
		                 "contents that only it had are not there any more",
		                 hint.data ?: "");
	case -ENOTRECOVERABLE:
		return refuse_by(what, url.data ?: "",
		                 "the list of contents that only remotes have is damaged",
		                 "shfs pull --metadata makes it anew");
	case -EAGAIN:
		return refuse_by(what, url.data ?: "",
		                 "the store is changed all the time just now",
		                 "try again");
	case -ENOSPC:
	case -EDQUOT:
		fail_by(what, url.data ?: "", strerror(-error), remote);
		shfs_hint("what was moved so far stays, and need not be moved again");
		return SHFS_EXIT_FAILURE;
	case -ENOLINK:
		fail_by(what, url.data ?: "", "there is no connection any more", remote);
		shfs_hint("what was moved so far stays, and need not be moved again");
		return SHFS_EXIT_FAILURE;
	default:
		return fail_by(what, url.data ?: "", strerror(-error), remote);
	}
}

/* --- beginnings --- */

static int fail_place(const char *name, int error)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	if (error == -ENOTUNIQ) {
		shfs_error("there are several remotes: name one");
		shfs_hint("shfs remote list shows them");
		return SHFS_EXIT_USAGE;
	}
	if (error != -ENOENT) {
		shfs_error("cannot read what is known of the remote: %s",
		           strerror(-error));
		return SHFS_EXIT_FAILURE;
	}
	if (!name) {
		shfs_error("there is no remote yet");
		shfs_hint("shfs remote add NAME URL");
		return SHFS_EXIT_NOT_FOUND;
	}
	show(&shown, name);
	shfs_error("there is no remote of the name %s", shown.data ?: "");
	shfs_hint("shfs remote list shows those that there are");
	return SHFS_EXIT_NOT_FOUND;
}

int remote_choose(struct shfs_store *store, const char *name, struct place *out)
{
	int r = place_open(store, name, out);

	return r ? fail_place(name, r) : 0;
}

int remote_lock(const struct shfs_store *store, int *fd)
{
	*fd = place_lock(store);
	if (*fd >= 0)
		return 0;
	shfs_error("another push or pull of this store is at work");
	shfs_hint("try again when it has ended");
	return SHFS_EXIT_REFUSED;
}
