/* SPDX-License-Identifier: MIT */
/* copy-line.h - reads a line of COPY's text format, as publish.c makes its rows. */
#pragma once

#include "common/buf.h"
#include "store/index/mirror.h"

/* Splits a line into values, one for each letter of kinds (store/index/mirror.h); a last
 * field says which texts are escaped. Texts lie in buf, until its next use. False: it is
 * no such line, or there is no memory. */
_must_check_ bool copy_line_read(struct shfs_buf *buf, const char *line, size_t len,
                                 const char *kinds, struct shfs_mirror_value *values);
