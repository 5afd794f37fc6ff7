/* SPDX-License-Identifier: MIT */
/* arrange.h - makes steps of a plan, in an order in which each can be taken. */
#pragma once

#include "query/undo/plan.h"
#include "query/undo/steps.h"

_must_check_ int shfs_undo_arrange(struct shfs_undo_plan *plan, struct shfs_steps *out);
