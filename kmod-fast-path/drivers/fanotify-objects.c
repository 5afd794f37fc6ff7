/* SPDX-License-Identifier: MIT */
/* fanotify: files and directories by their handles. */
#include "kmod-fast-path/drivers/fanotify-internal.h"

#include <errno.h>
#include <fcntl.h>

#define OBJECTS_MAX 65536

/* Kinds of handles that contain the inode number (linux/exportfs.h). */
enum {
	HANDLE_INO32_GEN = 1, /* ext4 and others: 8 bytes; tmpfs: 12 */
	HANDLE_INO32_GEN_PARENT = 2,
	HANDLE_BTRFS = 0x4d,
	HANDLE_BTRFS_PARENT_ROOT = 0x4f,
	HANDLE_INO64_GEN = 0x81,
	HANDLE_INO64_GEN_PARENT = 0x82,
};

struct handle {
	struct file_handle h;
	unsigned char bytes[FAN_HANDLE_MAX];
};

struct fan_object *fan_object(struct shfs_driver *d, uint32_t mount, uint32_t type,
                              const void *handle, uint32_t bytes)
{
	struct fan_key key = { .mount = mount, .bytes = bytes, .type = type };
	size_t len = offsetof(struct fan_key, handle) + bytes;
	struct fan_object *object;

	if (bytes > FAN_HANDLE_MAX)
		return NULL;
	memcpy(key.handle, handle, bytes);
	HASH_FIND(hh, d->objects, &key, len, object);
	if (object) {
		HASH_DEL(d->objects, object);
	} else {
		object = calloc(1, sizeof(*object));
		if (!object)
			return NULL;
		object->key = key;
	}
	HASH_ADD(hh, d->objects, key, len, object);
	return object;
}

static uint32_t mount_of_dev(const struct shfs_driver *d, dev_t dev)
{
	for (uint32_t i = 0; i < d->n_mounts; i++)
		if (d->mounts[i].mount_id && d->mounts[i].dev == dev)
			return i;
	return 0;
}

struct fan_object *fan_object_of_fd(struct shfs_driver *d, int fd, dev_t dev)
{
	struct handle handle = { .h.handle_bytes = FAN_HANDLE_MAX };
	int mount_id;

	if (name_to_handle_at(fd, "", &handle.h, &mount_id, AT_EMPTY_PATH))
		return NULL;
	return fan_object(d, mount_of_dev(d, dev), (uint32_t)handle.h.handle_type,
	                  handle.h.f_handle, handle.h.handle_bytes);
}

int fan_object_open(struct shfs_driver *d, const struct fan_object *object)
{
	struct handle handle = { .h.handle_bytes = object->key.bytes,
		                 .h.handle_type = (int)object->key.type };
	_cleanup_close_ int mount_fd = fan_mount_open(d, object->key.mount);
	int fd;

	if (mount_fd < 0)
		return mount_fd;
	memcpy(handle.h.f_handle, object->key.handle, object->key.bytes);
	fd = open_by_handle_at(mount_fd, &handle.h, O_PATH | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

static uint32_t handle_word(const struct fan_object *object, size_t i)
{
	uint32_t value;

	memcpy(&value, object->key.handle + i * sizeof(value), sizeof(value));
	return value;
}

uint64_t fan_object_ino(const struct fan_object *object)
{
	uint64_t second = handle_word(object, 1);

	switch (object->key.type) {
	case HANDLE_INO32_GEN:
	case HANDLE_INO32_GEN_PARENT:
		if (object->key.bytes == 12) /* tmpfs: generation, and 64 bits */
			return second | (uint64_t)handle_word(object, 2) << 32;
		return object->key.bytes >= 8 ? handle_word(object, 0) : 0;
	case HANDLE_BTRFS ... HANDLE_BTRFS_PARENT_ROOT:
	case HANDLE_INO64_GEN:
	case HANDLE_INO64_GEN_PARENT:
		return object->key.bytes >= 12 ? handle_word(object, 0) | second << 32
		                               : 0;
	default:
		return 0;
	}
}

uint32_t fan_object_generation(const struct fan_object *object)
{
	switch (object->key.type) {
	case HANDLE_INO32_GEN:
	case HANDLE_INO32_GEN_PARENT:
		return object->key.bytes == 12 ? handle_word(object, 0)
		                               : handle_word(object, 1);
	case HANDLE_INO64_GEN:
	case HANDLE_INO64_GEN_PARENT:
		return object->key.bytes >= 12 ? handle_word(object, 2) : 0;
	default:
		return 0;
	}
}

static void object_free(struct fan_object *object)
{
	free(object->path);
	for (size_t i = 0; i < FAN_NAMES_BEFORE; i++)
		free(object->before[i]);
	free(object);
}

void fan_objects_trim(struct shfs_driver *d)
{
	struct fan_object *object, *next;

	HASH_ITER (hh, d->objects, object, next) {
		if (HASH_COUNT(d->objects) <= OBJECTS_MAX)
			break;
		if (object->waiting)
			continue;
		HASH_DEL(d->objects, object);
		object_free(object);
	}
}

void fan_objects_forget_users(struct shfs_driver *d)
{
	struct fan_object *object, *next;

	HASH_ITER (hh, d->objects, object, next)
		object->creator = object->executor = 0;
}

void fan_objects_free(struct shfs_driver *d)
{
	struct fan_object *object, *next;

	HASH_ITER (hh, d->objects, object, next) {
		HASH_DEL(d->objects, object);
		object_free(object);
	}
}
