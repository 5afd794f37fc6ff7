/* SPDX-License-Identifier: MIT */
/*
 * event-text.h - an event with its texts, as drivers in user space make it.
 */
#pragma once

#include "common/buf.h"
#include "common/event.h"

#include <string.h>

struct shfs_event_room {
	_Alignas(8) struct shfs_event event;
	char text[2 * SHFS_EVENT_PATH_MAX]; /* follows the event */
};

_Static_assert(sizeof(struct shfs_event_room) <= SHFS_EVENT_SIZE_MAX, "fits");

/* Sets both texts, cut where they are too long, and the size of the event. */
static inline void shfs_event_set_text(struct shfs_event_room *room,
                                       struct shfs_bytes text, struct shfs_bytes text2)
{
	struct shfs_event *event = &room->event;
	size_t len = MIN(text.len, SHFS_EVENT_PATH_MAX);
	size_t len2 = MIN(text2.len, SHFS_EVENT_PATH_MAX - 8u);

	if (len < text.len || len2 < text2.len)
		event->flags |= SHFS_EVENT_CUT;
	if (len)
		memcpy(event->text, text.data, len);
	if (len2)
		memcpy(event->text + len, text2.data, len2);
	event->text_len = (uint16_t)len;
	event->text2_len = (uint16_t)len2;
	event->size = (uint32_t)((sizeof(*event) + len + len2 + 7) & ~(size_t)7);
	memset(event->text + len + len2, 0, event->size - sizeof(*event) - len - len2);
}
