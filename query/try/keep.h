/* SPDX-License-Identifier: MIT */
/*
 * keep.h - the steps that make the changes of a layer in the project.
 */
#pragma once

#include "query/try/changes.h"
#include "query/undo/steps.h"

/*
 * Adds them. What is there is moved aside first, and removed once all is made; so all of
 * it can be taken back. -ENOMEM.
 */
_must_check_ int shfs_keep_arrange(const struct shfs_layer *layer,
                                   const struct shfs_changes *changes,
                                   struct shfs_steps *steps);
