/* SPDX-License-Identifier: MIT */
#include "query/remote/s3/answers.h"

#include "query/remote/s3/libs.h"

#include <errno.h>
#include <string.h>

#define DEPTH_MAX 16
#define TEXT_MAX  8192 /* bytes of an element: a name has 1024 before it is encoded */

/* A document, as it is read: the path of elements is compared as "/Error/Code". */
struct reading {
	XML_Parser parser;
	struct shfs_buf path, text;
	unsigned depth;
	int error;
	void (*end)(struct reading *r); /* an element ends: path, text */
	void *to;
	struct shfs_buf key; /* of a listing's entry */
	uint64_t bytes;
};

static void stop(struct reading *r, int error)
{
	if (!r->error)
		r->error = error;
	s3_libs.XML_StopParser(r->parser, XML_FALSE);
}

static void begin_element(void *arg, const XML_Char *name, const XML_Char **attributes)
{
	struct reading *r = arg;

	if (++r->depth > DEPTH_MAX || strlen(name) > S3_WORD_SIZE)
		return stop(r, -EBADMSG);
	shfs_buf_printf(&r->path, "/%s", name);
	r->text.len = 0;
	if (r->path.failed)
		stop(r, -ENOMEM);
}

static void end_element(void *arg, const XML_Char *name)
{
	struct reading *r = arg;

	if (r->error) /* expat ends <this/> though its begin has stopped it */
		return;
	r->end(r);
	r->depth--;
	r->path.len -= strlen(name) + 1;
	r->path.data[r->path.len] = '\0';
	r->text.len = 0;
}

static void add_text(void *arg, const XML_Char *text, int len)
{
	struct reading *r = arg;

	if (r->text.len + (size_t)len > TEXT_MAX)
		return stop(r, -EBADMSG);
	shfs_buf_add(&r->text, text, (size_t)len);
	if (r->text.failed)
		stop(r, -ENOMEM);
}

/* No answer has one, and entities that grow could only be declared in one. */
static void refuse_doctype(void *arg, const XML_Char *name, const XML_Char *system_id,
                           const XML_Char *public_id, int has_subset)
{
	stop(arg, -EBADMSG);
}

static int read_document(struct reading *r, const char *data, size_t len)
{
	r->parser = s3_libs.XML_ParserCreate("UTF-8");
	if (!r->parser)
		return -ENOMEM;
	s3_libs.XML_SetUserData(r->parser, r);
	s3_libs.XML_SetElementHandler(r->parser, begin_element, end_element);
	s3_libs.XML_SetCharacterDataHandler(r->parser, add_text);
	s3_libs.XML_SetStartDoctypeDeclHandler(r->parser, refuse_doctype);
	if (len > INT32_MAX ||
	    s3_libs.XML_Parse(r->parser, data, (int)len, XML_TRUE) != XML_STATUS_OK)
		r->error = r->error ?: -EBADMSG;
	s3_libs.XML_ParserFree(r->parser);
	shfs_buf_free(&r->path);
	shfs_buf_free(&r->text);
	shfs_buf_free(&r->key);
	return r->error;
}

static const char *text_of(const struct reading *r)
{
	return r->text.len ? r->text.data : "";
}

static bool is_at(const struct reading *r, const char *path)
{
	return !strcmp(r->path.data, path);
}

/* --- errors --- */

static void end_of_error(struct reading *r)
{
	struct s3_error *e = r->to;

	if (is_at(r, "/Error/Code"))
		snprintf(e->code, sizeof(e->code), "%s", text_of(r));
	else if (is_at(r, "/Error/Message"))
		snprintf(e->message, sizeof(e->message), "%s", text_of(r));
	else if (is_at(r, "/Error/Region"))
		snprintf(e->region, sizeof(e->region), "%s", text_of(r));
}

void s3_error_parse(const char *data, size_t len, struct s3_error *out)
{
	struct reading r = { .end = end_of_error, .to = out };

	*out = (struct s3_error){ 0 };
	if (len && read_document(&r, data, len))
		*out = (struct s3_error){ 0 };
}

/* --- listings --- */

void s3_page_clear(struct s3_page *page)
{
	shfs_buf_free(&page->token);
	shfs_buf_free(&page->last);
}

/* Appends a name that was encoded as in URLs. */
static bool decode_name(const char *text, struct shfs_buf *out)
{
	out->len = 0;
	for (; *text; text++) {
		char digits[3] = { 0 }, *end;

		if (*text != '%') {
			shfs_buf_char(out, *text);
			continue;
		}
		memcpy(digits, text + 1, strnlen(text + 1, 2));
		shfs_buf_char(out, (char)strtoul(digits, &end, 16));
		if (end != digits + 2)
			return false;
		text += 2;
	}
	shfs_buf_add(out, "", 0);
	return !out->failed;
}

static void take_entry(struct reading *r)
{
	struct s3_page *page = r->to;
	size_t cut = strlen(page->cut);
	const char *name = r->key.len ? r->key.data : "";
	int error;

	page->last.len = 0;
	shfs_buf_str(&page->last, name);
	if (page->last.failed)
		return stop(r, -ENOMEM);
	/* another answer than the one that was asked for */
	if (!*name || strncmp(name, page->cut, cut))
		return stop(r, -EBADMSG);
	r->key.len = 0;
	if (!name[cut] ||
	    shfs_ends_with(name, "/")) /* a "directory" of another program */
		return;
	error = page->fn(page->arg, name + cut, r->bytes);
	if (error)
		stop(r, error);
}

static void end_of_listing(struct reading *r)
{
	struct s3_page *page = r->to;

	if (is_at(r, "/ListBucketResult/Contents")) {
		take_entry(r);
	} else if (is_at(r, "/ListBucketResult/Contents/Key")) {
		if (!decode_name(text_of(r), &r->key))
			stop(r, -EBADMSG);
	} else if (is_at(r, "/ListBucketResult/Contents/Size")) {
		r->bytes = strtoull(text_of(r), NULL, 10);
	} else if (is_at(r, "/ListBucketResult/IsTruncated")) {
		page->is_truncated = !strcmp(text_of(r), "true");
	} else if (is_at(r, "/ListBucketResult/NextContinuationToken")) {
		shfs_buf_str(&page->token, text_of(r));
		if (page->token.failed)
			stop(r, -ENOMEM);
	} else if (is_at(r, "/ListBucketResult")) {
		r->depth = DEPTH_MAX + 1; /* whole; no further element can begin */
	}
}

int s3_page_parse(const char *data, size_t len, struct s3_page *page)
{
	struct reading r = { .end = end_of_listing, .to = page };
	int error;

	page->is_truncated = false;
	page->token.len = page->last.len = 0;
	error = read_document(&r, data, len);
	/* some other document is no empty listing */
	if (!error && r.depth < DEPTH_MAX)
		error = -EBADMSG;
	return error;
}
