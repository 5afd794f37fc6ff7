/* SPDX-License-Identifier: MIT */
/*
 * The form "oci": an image in the layout of OCI, in a tar. It has two layers, the files
 * of the machine and the inputs, and runs the steps. Equal bundles give equal bytes: the
 * layers are not compressed, and all times are those of then.
 */
#include "query/bundle/bundle.h"

#include "query/base/json.h"
#include "query/base/whole-file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/utsname.h>

#define TYPE "application/vnd.oci.image."
#define TAG  "latest"

enum { LAYER_SYSTEM, LAYER_REST, LAYERS };

/* Bytes that are named by their hash. */
struct blob {
	int fd; /* of a layer */
	struct shfs_buf text;
	uint64_t size;
	char sha256[SHFS_SHA256_SIZE];
};

struct image {
	const struct bundle *b;
	struct blob layers[LAYERS], config, manifest;
};

static void image_clear(struct image *image)
{
	for (size_t i = 0; i < LAYERS; i++)
		shfs_closep(&image->layers[i].fd);
	shfs_buf_free(&image->config.text);
	shfs_buf_free(&image->manifest.text);
}

/* --- layers --- */

/* A file without a name, beside the output: there the image must have room, too. */
static int open_temporary(const char *path)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *dir =
		slash ? strndup(path, (size_t)MAX(slash - path, 1)) : strdup(".");
	_cleanup_free_ char *name = NULL;
	int fd;

	if (!dir)
		return -ENOMEM;
	fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
		return fd < 0 ? -errno : fd;
	if (asprintf(&name, "%s/.shfs-XXXXXX", dir) < 0) {
		name = NULL;
		return -ENOMEM;
	}
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(name);
	return fd;
}

static int write_layer(const struct bundle *b, enum bundle_part part, struct blob *layer)
{
	_cleanup_(shfs_sink_clear) struct shfs_sink sink = { 0 };
	int r;

	layer->fd = open_temporary(b->x->path);
	r = layer->fd < 0 ? layer->fd
	                  : shfs_sink_begin_tar(&sink, layer->fd, "", false, b->mtime_ns);
	if (r)
		return bundle_fail(b, r);
	r = bundle_write_root(b, &sink, "", part, NULL, NULL);
	if (r)
		return r;
	r = shfs_sink_finish(&sink);
	if (r)
		return bundle_fail(b, r);
	layer->size = sink.size;
	shfs_sha256_end(TAKE_PTR(sink.hash), layer->sha256);
	return 0;
}

/* --- texts --- */

static void hash_text(struct blob *blob)
{
	struct shfs_sha256 *hash = shfs_sha256_new();

	blob->size = blob->text.len;
	if (hash)
		shfs_sha256_add(hash, blob->text.data ?: "", blob->text.len);
	else
		blob->text.failed = true;
	shfs_sha256_end(hash, blob->sha256);
}

static void end_text(struct shfs_json *json, struct blob *blob)
{
	shfs_json_close(json);
	blob->text = json->out;
	hash_text(blob);
}

static void add_digest(struct shfs_json *json, const char *key, const struct blob *blob)
{
	char digest[SHFS_SHA256_SIZE + 8];

	snprintf(digest, sizeof(digest), "sha256:%s", blob->sha256);
	shfs_json_str(json, key, digest);
}

static void add_descriptor(struct shfs_json *json, const char *key, const char *type,
                           const struct blob *blob)
{
	shfs_json_object(json, key);
	shfs_json_str(json, "mediaType", type);
	add_digest(json, "digest", blob);
	shfs_json_int(json, "size", (int64_t)blob->size);
}

/* The architecture, as Go names it. */
static const char *architecture(const struct utsname *machine)
{
	static const char *const names[][2] = {
		{ "x86_64", "amd64" }, { "aarch64", "arm64" }, { "i686", "386" },
		{ "armv7l", "arm" },   { "armv6l", "arm" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(machine->machine, names[i][0]))
			return names[i][1];
	return machine->machine;
}

static void make_config(struct image *image)
{
	static const char *const created_by[LAYERS] = { "the files of the machine",
		                                        "the inputs, and the steps" };
	struct shfs_json json = { 0 };
	struct utsname machine;

	uname(&machine);
	shfs_json_object(&json, NULL);
	shfs_json_time(&json, "created", image->b->mtime_ns);
	shfs_json_str(&json, "architecture", architecture(&machine));
	shfs_json_str(&json, "os", "linux");
	shfs_json_object(&json, "config");
	shfs_json_array(&json, "Entrypoint");
	shfs_json_str(&json, NULL, "/bin/sh");
	shfs_json_str(&json, NULL, "/.bundle/steps.sh");
	shfs_json_array_end(&json);
	shfs_json_str(&json, "WorkingDir", "/");
	shfs_json_object_end(&json);
	shfs_json_object(&json, "rootfs");
	shfs_json_str(&json, "type", "layers");
	shfs_json_array(&json, "diff_ids");
	for (size_t i = 0; i < LAYERS; i++)
		add_digest(&json, NULL, &image->layers[i]);
	shfs_json_array_end(&json);
	shfs_json_object_end(&json);
	shfs_json_array(&json, "history");
	for (size_t i = 0; i < LAYERS; i++) {
		shfs_json_object(&json, NULL);
		shfs_json_time(&json, "created", image->b->mtime_ns);
		shfs_json_str(&json, "created_by", "shfs export oci");
		shfs_json_str(&json, "comment", created_by[i]);
		shfs_json_object_end(&json);
	}
	shfs_json_array_end(&json);
	end_text(&json, &image->config);
}

static void make_manifest(struct image *image)
{
	struct shfs_json json = { 0 };

	shfs_json_object(&json, NULL);
	shfs_json_int(&json, "schemaVersion", 2);
	shfs_json_str(&json, "mediaType", TYPE "manifest.v1+json");
	add_descriptor(&json, "config", TYPE "config.v1+json", &image->config);
	shfs_json_object_end(&json);
	shfs_json_array(&json, "layers");
	for (size_t i = 0; i < LAYERS; i++) {
		add_descriptor(&json, NULL, TYPE "layer.v1.tar", &image->layers[i]);
		shfs_json_object_end(&json);
	}
	shfs_json_array_end(&json);
	end_text(&json, &image->manifest);
}

static void make_index(const struct image *image, struct shfs_buf *out)
{
	struct shfs_json json = { 0 };

	shfs_json_object(&json, NULL);
	shfs_json_int(&json, "schemaVersion", 2);
	shfs_json_str(&json, "mediaType", TYPE "index.v1+json");
	shfs_json_array(&json, "manifests");
	add_descriptor(&json, NULL, TYPE "manifest.v1+json", &image->manifest);
	shfs_json_object(&json, "annotations");
	shfs_json_str(&json, "org.opencontainers.image.ref.name", TAG);
	shfs_json_object_end(&json);
	shfs_json_object_end(&json);
	shfs_json_array_end(&json);
	shfs_json_close(&json);
	*out = json.out;
}

static void add_blob_name(struct shfs_buf *out, const struct blob *blob)
{
	shfs_buf_printf(out, "blobs/sha256/%s", blob->sha256);
}

/* For versions of docker load that do not know the layout. */
static void make_docker_manifest(const struct image *image, struct shfs_buf *out)
{
	_cleanup_buf_ struct shfs_buf name = { 0 };
	struct shfs_json json = { 0 };

	shfs_json_array(&json, NULL);
	shfs_json_object(&json, NULL);
	add_blob_name(&name, &image->config);
	shfs_json_str(&json, "Config", name.data);
	shfs_json_array(&json, "Layers");
	for (size_t i = 0; i < LAYERS; i++) {
		name.len = 0;
		add_blob_name(&name, &image->layers[i]);
		shfs_json_str(&json, NULL, name.data);
	}
	shfs_json_array_end(&json);
	shfs_json_object_end(&json);
	shfs_json_array_end(&json);
	json.out.failed |= name.failed;
	*out = json.out;
}

/* --- the whole --- */

static int add_blob(struct shfs_sink *sink, const struct blob *blob)
{
	_cleanup_buf_ struct shfs_buf name = { 0 };

	add_blob_name(&name, blob);
	if (name.failed)
		return -ENOMEM;
	if (blob->fd < 0)
		return shfs_sink_text(sink, name.data, 0644, &blob->text);
	if (lseek(blob->fd, 0, SEEK_SET))
		return -errno;
	return shfs_sink_file(sink, name.data, 0644, sink->mtime_ns, blob->size,
	                      blob->fd);
}

static int add_layout(struct shfs_sink *sink, const struct image *image)
{
	static char layout[] = "{\"imageLayoutVersion\": \"1.0.0\"}\n";
	const struct shfs_buf layout_text = { .data = layout, .len = sizeof(layout) - 1 };
	_cleanup_buf_ struct shfs_buf index = { 0 }, docker = { 0 };
	const struct blob *blobs[] = { &image->config, &image->manifest,
		                       &image->layers[LAYER_SYSTEM],
		                       &image->layers[LAYER_REST] };
	int r;

	make_index(image, &index);
	make_docker_manifest(image, &docker);
	r = shfs_sink_text(sink, "oci-layout", 0644, &layout_text)
	            ?: shfs_sink_text(sink, "index.json", 0644, &index)
	            ?: shfs_sink_text(sink, "manifest.json", 0644, &docker)
	            ?: shfs_sink_directory(sink, "blobs", 0755)
	            ?: shfs_sink_directory(sink, "blobs/sha256", 0755);
	for (size_t i = 0; i < ARRAY_SIZE(blobs) && !r; i++)
		r = add_blob(sink, blobs[i]);
	return r ? r : shfs_sink_finish(sink);
}

static int write_image_file(const struct image *image)
{
	const struct bundle *b = image->b;
	_cleanup_(shfs_whole_file_close) struct shfs_whole_file file = { .fd = -1,
		                                                         .dirfd = -1 };
	_cleanup_(shfs_sink_clear) struct shfs_sink sink = { 0 };
	int r = shfs_whole_file_begin(&file, b->x->path, b->x->force, 0666);

	if (!r)
		r = shfs_sink_begin_tar(&sink, file.fd, "", false, b->mtime_ns);
	if (!r)
		r = add_layout(&sink, image);
	if (!r)
		r = shfs_whole_file_finish(&file);
	return r ? bundle_fail(b, r) : 0;
}

static int write_image(const struct bundle *b)
{
	_cleanup_(image_clear) struct image image = {
		.b = b,
		.layers = { { .fd = -1 }, { .fd = -1 } },
		.config = { .fd = -1 },
		.manifest = { .fd = -1 },
	};
	int r = write_layer(b, BUNDLE_SYSTEM, &image.layers[LAYER_SYSTEM]);

	if (!r)
		r = write_layer(b, BUNDLE_REST, &image.layers[LAYER_REST]);
	if (r)
		return r;
	make_config(&image);
	make_manifest(&image);
	if (image.config.text.failed || image.manifest.text.failed)
		return bundle_fail(b, -ENOMEM);
	return write_image_file(&image);
}

/* The tar of an existing file is refused before all the work. */
static int check_output(const struct shfs_export *x)
{
	if (x->force || !x->path || access(x->path, F_OK))
		return 0;
	return shfs_fail_output(x->path, EEXIST);
}

static int write_oci(struct shfs_export *x)
{
	_cleanup_bundle_ struct bundle b = { 0 };
	bool incomplete = false;
	int r = check_output(x);

	if (!r)
		r = bundle_plan(x, true, &b, &incomplete);
	if (!r)
		r = write_image(&b);
	return r ? r : incomplete ? SHFS_EXIT_NOT_FOUND : 0;
}

const struct shfs_export_format shfs_export_oci = {
	.name = "oci",
	.runs = true,
	.in_place = true,
	.closed = true,
	.write = write_oci,
};
